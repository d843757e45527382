//! The world of a run: a disk whose calls are points, a clock that only sleeps move, small databases on them.

mod disk;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_engine::{Background, Database, Environment, LockWait, Options};
use seawall_io::Clock;
use seawall_simulation::{PowerLoss, SimulatedDisk, SimulatedRandom};
use seawall_sync::{explored, thread};

pub(crate) use disk::pointed;

/// What a run has is on one thread of the operating system: this latch is never waited for. It is not a point, so that a
/// check sees several things as they are at one moment.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

pub(crate) fn shared<T: Default>() -> Shared<T> {
    Arc::default()
}

/// The time of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock;

impl Clock for RunClock {
    fn wall_micros(&self) -> i64 {
        1_735_689_600_000_000 + i64::try_from(explored::now().as_micros()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        explored::now()
    }

    fn sleep(&self, duration: Duration) {
        explored::pass_time(duration);
        // Not only a point: who sleeps lets others go first.
        thread::yield_now();
    }
}

/// Small enough that a short run meets everything. Nobody waits for a lock in vain: see `Timeouts`.
pub(crate) fn small_options(background: Background) -> Options {
    let mut options = Options { background, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 1 << 20;
    options.memory.cache_bytes = 64 << 10;
    options.checkpoint.chunk_bytes = 64 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.log.spare_segments = 1;
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(3600));
    options
}

/// Opens the database on `disk`, each of whose calls is a point.
pub(crate) fn open(disk: &SimulatedDisk, options: Options) -> Database {
    let environment = Environment {
        disk: pointed(disk),
        clock: Arc::new(RunClock),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options).unwrap()
}

/// What the disk may hold if the power goes now. Half of the seeds lose all that is not synced: what a missing sync shows in.
pub(crate) fn power_loss(disk: &SimulatedDisk, seed: u64) -> SimulatedDisk {
    disk.after_power_loss(if seed % 4 < 2 { PowerLoss::LoseAll } else { PowerLoss::Random(seed) })
}

/// Lets others go on a few times, so that what follows comes at any moment of theirs.
pub(crate) fn wait_a_while(points: u64) {
    (0..points).for_each(|_| explored::point());
}
