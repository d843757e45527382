//! A crash at every disk call of a plan, and at every call of the recovery from a crash.

use std::sync::Arc;

use parking_lot::Mutex;
use seawall::{ImageCompression, Options, PageProtection};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};

use super::recover::{check_clean, find_state, recover};
use super::session::{Progress, Session, SharedProgress, Step};
use super::state::State;
use super::watched_disk::{CrashPoint, WatchedDisk};
use super::{master_key, open, plan, small_options};

/// Runs the plan on a copy of `start`, and hands `visit` every crash point on the way.
///
/// # Errors
/// What `visit` says, or the step that failed.
pub fn watch(
    start: &SimulatedDisk,
    options: &Options,
    steps: &[Step],
    visit: impl FnMut(CrashPoint) -> Result<(), String>,
) -> Result<(), String> {
    let progress = Progress::shared(Arc::default());
    let disk = WatchedDisk::new(start.copy(), Arc::clone(&progress));
    let mut steps = steps.iter().cloned();
    watch_steps(disk, options, progress, |_| steps.next(), visit)
}

/// Does with `disk` what `next` says, given what is in the database, until that is nothing.
pub(super) fn watch_steps<E: From<String>>(
    disk: WatchedDisk,
    options: &Options,
    progress: SharedProgress,
    mut next: impl FnMut(&State) -> Option<Step>,
    mut visit: impl FnMut(CrashPoint) -> Result<(), E>,
) -> Result<(), E> {
    let mut session = Session::closed(Arc::new(disk.clone()), options, Arc::clone(&progress));
    for number in 0.. {
        let state = Arc::clone(progress.lock().current());
        let Some(step) = next(&state) else { break };
        session.run(&step).map_err(|error| format!("step {number}: {error}"))?;
        disk.take_points().into_iter().try_for_each(&mut visit)?;
    }
    drop(session);
    disk.take_points().into_iter().try_for_each(&mut visit)
}

/// Recovers `disk`, works on, and hands `visit` every crash point of that.
///
/// # Errors
/// What `visit` says, or what went wrong before.
pub fn watch_recovery(
    disk: &SimulatedDisk,
    candidates: &[Arc<State>],
    options: &Options,
    visit: impl FnMut(CrashPoint) -> Result<(), String>,
) -> Result<(), String> {
    let progress = Arc::new(Mutex::new(Progress::unknown(candidates)));
    let watched = WatchedDisk::new(disk.copy(), Arc::clone(&progress));
    let mut session = Session::closed(Arc::new(watched.clone()), options, Arc::clone(&progress));
    let database = session.database().map_err(|error| format!("open: {error}"))?;
    let found = find_state(database, candidates)?;
    // From now on it has been seen.
    *progress.lock() = Progress::new(Arc::clone(&found));
    let mut random = SeededRandom::new(1);
    for step in [plan::random_commit(&mut random, &found), Step::Checkpoint] {
        session.run(&step).map_err(|error| format!("{step:?} after a recovery: {error}"))?;
    }
    let seen = watched.take_points().into_iter().try_for_each(visit);
    watched.crash();
    seen
}

/// What recovery makes of `disk`, checked; the disk is not changed.
///
/// # Errors
/// If that is none of the candidates.
///
/// # Panics
/// If it does not open, or `check` finds damage.
pub fn state_of(
    disk: &SimulatedDisk,
    candidates: &[Arc<State>],
    options: &Options,
) -> Result<Arc<State>, String> {
    let copy = disk.copy();
    let database = open(&copy, options);
    let state = find_state(&database, candidates)?;
    check_clean(&database);
    copy.crash();
    Ok(state)
}

/// Recovers one outcome of a crash.
///
/// # Errors
/// Which crash, and what was wrong after it.
pub fn recover_point(
    point: &CrashPoint,
    outcome: PowerLoss,
    options: &Options,
) -> Result<Arc<State>, String> {
    let disk = point.disk.after_power_loss(outcome);
    recover(&disk, &point.candidates, options)
        .map_err(|reason| format!("crash in call {} ({}), {outcome:?}: {reason}", point.index, point.call))
}

/// The outcome `number` of the call `index`.
pub fn outcome(number: u64, index: u64) -> PowerLoss {
    match number {
        0 => PowerLoss::LoseAll,
        1 => PowerLoss::KeepAll,
        other => PowerLoss::Random(other << 32 | index),
    }
}

/// Room for what `plan::wide` changes, and chunks that hold all of it.
pub fn wide_options(options: Options) -> Options {
    Options {
        memtable_bytes: 8 << 20,
        checkpoint_log_bytes: 8 << 20,
        checkpoint_chunk_bytes: 16 << 20,
        segment_bytes: 1 << 20,
        page_bytes: 4096,
        ..options
    }
}

/// Small options with one of the ways to protect pages, encrypted or not.
pub fn protected_options(number: u64) -> Options {
    let nth = |count: usize| usize::try_from(number % count as u64).expect("it is below a usize");
    Options {
        page_protection: PageProtection::ALL[nth(PageProtection::ALL.len())],
        page_image_compression: ImageCompression::ALL[nth(ImageCompression::ALL.len())],
        master_key: (number % 4 >= 2).then(master_key),
        ..small_options()
    }
}
