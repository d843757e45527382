//! A crash at every disk call of a plan, and at every call of the recovery from a crash.

use std::sync::Arc;

use parking_lot::Mutex;
use seawall::Options;
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};

use crate::progress::{Progress, SharedProgress};
use crate::recover::{check_clean, find_state, recover};
use crate::session::{Session, Step};
use crate::state::State;
use crate::watched_disk::{CrashPoint, WatchedDisk};
use crate::{open, plan};

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

/// Runs on `disk` the steps that `next` chooses, given what is in the database, until it chooses none. Hands `visit` every
/// crash point on the way.
///
/// # Errors
/// What `visit` says, or the step that failed.
pub fn watch_steps<E: From<String>>(
    watched: WatchedDisk,
    options: &Options,
    progress: SharedProgress,
    mut next: impl FnMut(&State) -> Option<Step>,
    mut visit: impl FnMut(CrashPoint) -> Result<(), E>,
) -> Result<(), E> {
    let mut session = Session::closed(watched.disk(), options, Arc::clone(&progress));
    for number in 0.. {
        let state = Arc::clone(progress.lock().current());
        let Some(step) = next(&state) else { break };
        session.run(&step).map_err(|error| format!("step {number}: {error}"))?;
        watched.take_points().into_iter().try_for_each(&mut visit)?;
    }
    drop(session);
    watched.take_points().into_iter().try_for_each(&mut visit)
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
    let mut session = Session::closed(watched.disk(), options, Arc::clone(&progress));
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
