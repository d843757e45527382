//! Values of many megabytes, which take longer to read than a checkpoint needs to publish a chunk.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::{Changes, create, merge};
use seawall_io::Clock;
use seawall_simulation::{Delay, FaultTarget, Operations, SimulatedDisk};
use seawall_tree::{PAGE_FILE_PATH, Tree};

const READ_TIME: Duration = Duration::from_millis(2);
const CHUNK_EVERY: Duration = Duration::from_millis(100);
const VALUE_BYTES: usize = 64 << 20;
/// So many chunks are published at most while one value is read.
const CHUNKS_MAX: u64 = 40;

/// A clock that stands still but for reads of the page file, and publishes a chunk whenever 100 ms have passed.
#[derive(Debug, Default)]
struct Checkpoints {
    tree: OnceLock<Arc<Tree>>,
    is_at_work: AtomicBool,
    micros: AtomicU64,
    chunks: AtomicU64,
}

impl Checkpoints {
    /// The first chunk deletes the value; the others write long values where it was, if they may.
    fn publish(&self, tree: &Tree) {
        let chunk = self.chunks.fetch_add(1, Ordering::Relaxed);
        assert!(chunk < CHUNKS_MAX, "the value was not read beside {CHUNKS_MAX} chunks");
        let change = match chunk {
            0 => (b"long".to_vec(), None),
            _ => (format!("other {chunk}").into_bytes(), Some(vec![9; 4 << 20])),
        };
        merge(tree, &Changes::from([change]), 1 << 20).unwrap();
    }
}

impl Clock for Checkpoints {
    fn wall_micros(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) {
        let Some(tree) = self.tree.get() else { return };
        if self.is_at_work.swap(true, Ordering::Relaxed) {
            return;
        }
        let step = u64::try_from(duration.as_micros()).unwrap();
        let before = self.micros.fetch_add(step, Ordering::Relaxed);
        let every = u64::try_from(CHUNK_EVERY.as_micros()).unwrap();
        if before / every != (before + step) / every {
            self.publish(tree);
        }
        self.is_at_work.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_long_value_is_read_whole_beside_chunks_that_delete_it_and_use_its_pages() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let value: Vec<u8> = (0..VALUE_BYTES).map(|at| u8::try_from(at % 251).unwrap()).collect();
    merge(&tree, &Changes::from([(b"long".to_vec(), Some(value.clone()))]), 1 << 20).unwrap();
    let checkpoints = Arc::new(Checkpoints::default());
    let target = FaultTarget::Path { prefix: PAGE_FILE_PATH.to_owned(), operations: Operations::Reads };
    let delay = Delay { target, duration: READ_TIME, skip: 0, count: u64::MAX };
    disk.slow_down(delay, Arc::clone(&checkpoints) as Arc<dyn Clock>);
    checkpoints.tree.set(Arc::clone(&tree)).unwrap();
    assert!(tree.get(b"long").unwrap() == Some(value), "the value that was there when the read began");
    assert!(checkpoints.chunks.load(Ordering::Relaxed) >= 2);
    assert_eq!(tree.get(b"long").unwrap(), None);
    disk.clear_faults();
    // Nobody reads it any more: its pages are used again.
    let pages = tree.pages().file().page_count();
    for number in 0..10_u32 {
        let change = (number.to_be_bytes().to_vec(), Some(vec![1; 5 << 20]));
        merge(&tree, &Changes::from([change]), 1 << 20).unwrap();
    }
    assert_eq!(tree.pages().file().page_count(), pages, "the file grew by what was free");
    common::check(&tree);
}
