//! The superblock on disk, and how much log a recovery would have to read: from its redo point on.

use std::sync::Arc;

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{Mutex, MutexGuard};
use seawall_tree::Superblock;
use seawall_types::Lsn;

/// See the module. Changed by who holds `storing`: a checkpoint moves the redo point, and a promotion the timeline, at any time.
#[derive(Debug)]
pub(crate) struct Redo {
    superblock: Mutex<Superblock>,
    /// Held from the look at the superblock until another one is stored. Taken after the turns to change the tree and to apply.
    storing: Mutex<()>,
    /// The redo point in `superblock`, to read without the mutex.
    point: AtomicU64,
    /// Bytes of page images appended to the log since it was opened. Who appends them counts them.
    image_bytes: Arc<AtomicU64>,
    /// How many of them lie before the redo point.
    images_before: AtomicU64,
}

impl Redo {
    pub(crate) fn new(superblock: Superblock, image_bytes: Arc<AtomicU64>) -> Redo {
        Redo {
            point: AtomicU64::new(superblock.redo_point.get()),
            superblock: Mutex::new(superblock),
            storing: Mutex::new(()),
            image_bytes,
            images_before: AtomicU64::new(0),
        }
    }

    /// What the superblock on disk says.
    pub(crate) fn superblock(&self) -> Superblock {
        self.superblock.lock().clone()
    }

    /// Where a recovery would start.
    pub(crate) fn point(&self) -> Lsn {
        Lsn::new(self.point.load(Ordering::SeqCst))
    }

    /// Waits for the turn to store a superblock, and takes it.
    pub(crate) fn storing(&self) -> MutexGuard<'_, ()> {
        self.storing.lock()
    }

    /// This superblock is on disk now. For who holds `storing`.
    pub(crate) fn stored(&self, superblock: Superblock) {
        self.point.store(superblock.redo_point.get(), Ordering::SeqCst);
        *self.superblock.lock() = superblock;
    }

    /// Bytes of page images appended to the log since it was opened.
    pub(crate) fn image_bytes(&self) -> u64 {
        // Relaxed: an estimate that nothing is ordered by.
        self.image_bytes.load(Ordering::Relaxed)
    }

    /// The redo point has passed so many bytes of page images.
    pub(crate) fn passed_images(&self, image_bytes: u64) {
        self.images_before.store(image_bytes, Ordering::Relaxed);
    }

    /// Bytes of log from the redo point to `appended`, without page images: a replay skips those.
    pub(crate) fn log_bytes(&self, appended: Lsn) -> u64 {
        let images = self.image_bytes().saturating_sub(self.images_before.load(Ordering::Relaxed));
        appended.bytes_since(self.point()).saturating_sub(images)
    }
}
