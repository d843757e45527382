//! Databases on simulated disks.

use std::sync::Arc;
use std::time::Duration;

use seawall::{Database, Environment, Error, Options};
use seawall_io::{Disk, SystemClock};
use seawall_simulation::{
    Delay, FaultTarget, Operation, Operations, PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom,
};

/// The simulated world around `disk`: its clock stands still, and its randomness is always the same.
pub fn environment(disk: Arc<dyn Disk>) -> Environment {
    Environment {
        disk,
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    }
}

/// Opens the database on `disk`.
///
/// # Errors
/// Those of [`Database::open`].
pub fn try_open(disk: &SimulatedDisk, options: &Options) -> Result<Database, Error> {
    Database::open(environment(Arc::new(disk.clone())), options.clone())
}

/// Opens the database on `disk`, where nothing may stand in the way.
///
/// # Panics
/// If it does not open.
pub fn open(disk: &SimulatedDisk, options: &Options) -> Database {
    try_open(disk, options).unwrap_or_else(|error| panic!("it does not open: {error}"))
}

/// Empties the pending files, as if no page of the log's buffers had reached the disk: an open cannot repair the log from there.
pub fn forget_pending(disk: &SimulatedDisk) {
    for path in ["log/pending.1", "log/pending.2"] {
        // Where each says what its bytes are.
        disk.overwrite(path, 512, &[0; 16]);
    }
}

/// A disk with a new, empty, closed database.
pub fn template(options: &Options) -> SimulatedDisk {
    template_with_id(options, 1)
}

/// The same, with a database id that comes from `seed`.
pub fn template_with_id(options: &Options, seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let random = Arc::new(SimulatedRandom::new(seed));
    let environment = Environment { random, ..environment(Arc::new(disk.clone())) };
    Database::open(environment, options.clone())
        .and_then(Database::close)
        .unwrap_or_else(|error| panic!("making an empty database: {error}"));
    disk.after_power_loss(PowerLoss::KeepAll)
}

/// Makes calls of a kind on the page file take a moment, so that a thread that does not wait for them comes too early.
pub fn slow_down_pages(disk: &SimulatedDisk, operation: Operation) {
    let target = FaultTarget::Path { prefix: "pages".to_owned(), operations: Operations::Only(operation) };
    let delay = Delay { target, duration: Duration::from_micros(100), skip: 0, count: u64::MAX };
    disk.slow_down(delay, Arc::new(SystemClock));
}
