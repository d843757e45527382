//! What the crash, fault and damage tests share.
//!
//! ```text
//!   plan --steps--> Session --calls--> WatchedDisk --> SimulatedDisk
//!                      |                    |
//!                   Progress            CrashPoint: the disk with the power gone during this call,
//!         what may be there after a crash   and what may be there then  --> recover
//! ```

mod enumerate;
pub mod everywhere;
pub mod lives;
pub mod plan;
pub mod recover;
pub mod session;
pub mod state;
pub mod watched_disk;
mod workload;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seawall::{Background, Database, Environment, Error, LockWait, Options, PageProtection};
use seawall::{MasterKey, SecretKey};
use seawall_io::{Disk, SystemClock};
use seawall_simulation::{
    Delay, FaultTarget, Operation, Operations, PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom,
};

use crate::arguments::{CrashesOptions, LivesOptions};
use crate::finding::{Finding, Report};
use crate::panics::caught;
use crate::workers::{FINDINGS_MAX, for_each_seed};

pub use enumerate::Effort;

/// Runs the workloads that `options` ask for through their crashes.
pub(crate) fn run(options: &CrashesOptions) -> Report {
    let CrashesOptions { points, states, depth, lose_syncs, .. } = *options;
    let seeds = options.seed..options.seed.saturating_add(options.seeds);
    run_seeds(seeds, &Effort { points, states, depth, lose_syncs })
}

/// Runs the workloads of `seeds` through their crashes: what was found, and how much was tried, by what.
pub fn run_workloads(seeds: Range<u64>, effort: &Effort) -> (Vec<Finding>, BTreeMap<String, u64>) {
    let report = run_seeds(seeds, effort);
    let tried = report.tried.into_iter().map(|(what, count)| (what.into_owned(), count));
    (report.findings, tried.collect())
}

fn run_seeds(seeds: Range<u64>, effort: &Effort) -> Report {
    for_each_seed("crashes", seeds, FINDINGS_MAX, |seed, report| enumerate::run_seed(seed, effort, report))
}

/// Runs the lives that `options` ask for.
pub(crate) fn run_lives(options: &LivesOptions) -> Report {
    let seeds = options.seed..options.seed.saturating_add(options.histories);
    for_each_seed("lives", seeds, FINDINGS_MAX, run_life)
}

fn run_life(seed: u64, report: &mut Report) -> Result<(), Finding> {
    let cells = lives::Cell::all();
    // The cell of a seed, and its number among those of the cell.
    let count = cells.len() as u64;
    let cell = cells[usize::try_from(seed % count).expect("there are few cells")];
    let mut tally = lives::Tally::default();
    let result = caught(|| lives::run_history(cell, seed / count, &mut tally));
    tally.count_into(report);
    result.map_err(|what| {
        let repeat = format!("seawall-torture lives --seed {seed} --histories 1");
        Finding { seed, what: format!("{cell}: {what}"), repeat, evidence: None }
    })
}

/// Everything as small as it can be, so that a short workload meets every border.
pub fn small_options() -> Options {
    Options {
        page_bytes: 4096,
        segment_bytes: 64 << 10,
        memtable_bytes: 512 << 10,
        cache_bytes: 256 << 10,
        checkpoint_log_bytes: 400 << 10,
        checkpoint_chunk_bytes: 24 << 10,
        checkpoint_threads: 1,
        recovery_threads: 1,
        spare_segments: 1,
        // The clock of these tests stands still.
        lock_wait: LockWait::NoWait,
        background: Background::Manual,
        ..Options::default()
    }
}

/// With the second copy of pages in the other place, as the next process may be started.
pub fn other_place(options: &Options) -> Options {
    let page_protection = match options.page_protection {
        PageProtection::RecoveryFile => PageProtection::LogImages,
        PageProtection::LogImages => PageProtection::RecoveryFile,
    };
    Options { page_protection, ..options.clone() }
}

/// As the next process may be started where only the calling thread shall work, so that what it finds can be counted.
pub fn without_threads(options: &Options) -> Options {
    Options { background: Background::Manual, checkpoint_threads: 1, ..options.clone() }
}

/// Lets calls of a kind on the page file take a moment, so that a thread that does not wait for them comes too early.
pub fn slow_down_pages(disk: &SimulatedDisk, operation: Operation) {
    let target = FaultTarget::Path { prefix: "pages".to_owned(), operations: Operations::Only(operation) };
    let delay = Delay { target, duration: Duration::from_micros(100), skip: 0, count: u64::MAX };
    disk.slow_down(delay, Arc::new(SystemClock));
}

/// Of encrypted databases.
pub fn master_key() -> MasterKey {
    MasterKey::Bytes(SecretKey::from_bytes([7; 32]))
}

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
/// Those of [`Database::open_in`].
pub fn try_open(disk: &SimulatedDisk, options: &Options) -> Result<Database, Error> {
    Database::open_in(environment(Arc::new(disk.clone())), options.clone(), |_| {})
}

/// As [`try_open`], where nothing may stand in the way.
///
/// # Panics
/// If it does not open.
pub fn open(disk: &SimulatedDisk, options: &Options) -> Database {
    try_open(disk, options).unwrap_or_else(|error| panic!("it does not open: {error}"))
}

/// As if no page of the log's buffers had reached the disk: damage of the log is not made good from there.
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

/// As `template`, of a database whose id comes from `seed`.
pub fn template_with_id(options: &Options, seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let random = Arc::new(SimulatedRandom::new(seed));
    let environment = Environment { random, ..environment(Arc::new(disk.clone())) };
    Database::open_in(environment, options.clone(), |_| {})
        .and_then(Database::close)
        .unwrap_or_else(|error| panic!("making an empty database: {error}"));
    disk.after_power_loss(PowerLoss::KeepAll)
}
