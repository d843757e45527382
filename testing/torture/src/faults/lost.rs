//! Writes of pages that the device acknowledges and loses: what was there before stays, valid in itself.
//!
//! A database goes on for a while on such a disk. Whatever is read is right or refused, at once and after a restart, and where
//! anything is refused, `check` tells.

use std::collections::BTreeMap;

use seawall::{Damage, Database, DatabaseDirectory, Environment, Error, Options};
use seawall_crash_harness::comparison::Difference;
use seawall_crash_harness::state::{Rows, State};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, SeededRandom, SimulatedDisk, StruckCall,
};

use super::account::find;
use super::rot::Verdict;
use super::step::{Failure, Step};

/// Whether a page that is not the one written last is refused so.
fn is_of_a_lost_page(error: &Error) -> bool {
    matches!(error, Error::Tree { .. } | Error::Catalog { .. })
}

/// Lets the database of a copy of `left`, in which one of `states` is, live while writes of its pages are lost, and looks what
/// comes of it. `number`: of the next step.
pub(super) fn live_and_look(
    left: &SimulatedDisk,
    environment: impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    states: &[State],
    number: u64,
    random: &mut SeededRandom,
) -> Result<(BTreeMap<StruckCall, u64>, Verdict), String> {
    let disk = left.copy();
    let database = Database::open(environment(&disk), options.clone())
        .map_err(|error| format!("it does not open before: {error}"))?;
    let state =
        find(&database, states.iter()).cloned().map_err(|difference| format!("before: {difference}"))?;
    disk.inject(Fault {
        target: FaultTarget::Path {
            prefix: "pages".to_owned(),
            operations: Operations::Only(Operation::Write),
        },
        error: FaultError::Dropped,
        skip: random.below(*random.clone().pick(&[1, 8, 40])),
        count: random.range(1..4),
    });
    let states = live(&database, state, number, random)?;
    right_or_refused(&database, &states).map_err(|what| format!("at once: {what}"))?;
    let killed = disk.copy();
    disk.crash();
    drop(database);
    let verdict = look(&killed, environment, options, &states)?;
    Ok((disk.take_faults_struck(), verdict))
}

/// Steps and checkpoints, up to the first that fails; what may be there then.
fn live(
    database: &Database,
    state: State,
    number: u64,
    random: &mut SeededRandom,
) -> Result<Vec<State>, String> {
    let mut state = state;
    let steps = random.range(2..12);
    for number in number..number + steps {
        let step = match number % 3 {
            0 => Step::Checkpoint,
            _ => Step::draw(random, &state, number),
        };
        let next = step.after(&state);
        match step.run(database, &state) {
            Ok(()) => state = next.unwrap_or(state),
            Err(Failure::WrongAnswer(what)) => return Err(format!("{step}: {what}")),
            Err(Failure::Error(error)) if is_of_a_lost_page(&error) || has_stopped(&error) => {
                return Ok(next.into_iter().chain([state]).collect());
            }
            Err(Failure::Error(error)) => return Err(format!("{step}: it is refused with {error:?}")),
        }
    }
    Ok(vec![state])
}

fn has_stopped(error: &Error) -> bool {
    matches!(error, Error::Stopped { .. } | Error::CheckpointFailing { .. })
}

/// Every row is that of one of `states`, or refused; whether any is.
fn right_or_refused(database: &Database, states: &[State]) -> Result<bool, String> {
    match find(database, states.iter()) {
        Ok(_) => Ok(false),
        Err(Difference::Rows(rows)) => Err(rows),
        Err(Difference::Error(error)) if is_of_a_lost_page(&error) => {
            each_right_or_refused(database, states)?;
            Ok(true)
        }
        Err(Difference::Error(error)) => Err(format!("it is refused with {error:?}")),
    }
}

/// A walk ends at the first page that is refused; rows elsewhere are read one by one.
fn each_right_or_refused(database: &Database, states: &[State]) -> Result<(), String> {
    let mut wrong = Ok(());
    for state in states {
        wrong = state.tables.iter().try_for_each(|(name, rows)| rows_right_or_refused(database, name, rows));
        if wrong.is_ok() {
            break;
        }
    }
    wrong
}

fn rows_right_or_refused(database: &Database, name: &str, rows: &Rows) -> Result<(), String> {
    let unless_lost = |error: Error| match is_of_a_lost_page(&error) {
        true => Ok(()),
        false => Err(format!("{name}: {error:?}")),
    };
    let table = match database.table(name) {
        Ok(table) => table,
        Err(error) => return unless_lost(error),
    };
    rows.iter().try_for_each(|(key, value)| match database.get(&table, key) {
        Ok(found) if found.as_deref() == Some(&value[..]) => Ok(()),
        Ok(_) => Err(format!("{name}: {} is another row, or missing", key.escape_ascii())),
        Err(error) => unless_lost(error),
    })
}

/// What a restart shows of it, and whether `check` says the same.
fn look(
    disk: &SimulatedDisk,
    environment: impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    states: &[State],
) -> Result<Verdict, String> {
    let mut damages = Vec::new();
    let mut note = |damage: Damage| damages.push(damage.to_string());
    let checked = DatabaseDirectory::at(environment(&disk.copy())).check(options.clone(), &mut note);
    let is_told = !damages.is_empty() || checked.as_ref().is_err_and(is_of_a_lost_page);
    let is_refused = match Database::open(environment(disk), options.clone()) {
        Err(error) if is_of_a_lost_page(&error) => true,
        Err(error) => return Err(format!("it does not open: {error:?}")),
        Ok(database) => {
            let refused = right_or_refused(&database, states);
            disk.crash();
            drop(database);
            refused.map_err(|what| format!("after a restart: {what}; `check` says {damages:?}"))?
        }
    };
    match (is_refused, is_told) {
        (true, true) => Ok(Verdict::Refused),
        (true, false) => Err(format!("it is refused, and `check` says nothing of it: {checked:?}")),
        (false, true) => Ok(Verdict::Survived),
        (false, false) => Ok(Verdict::Harmless),
    }
}
