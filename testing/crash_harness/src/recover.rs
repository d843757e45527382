//! Opens what a crash left, and looks whether it is what it must be.

use std::sync::Arc;

use seawall::{Database, Options};
use seawall_simulation::{PowerLoss, SimulatedDisk};

use crate::state::{Rows, State};
use crate::{open, try_open};

/// Which of the candidates the database holds.
///
/// # Errors
/// How it differs from each of them.
pub fn find_state(database: &Database, candidates: &[Arc<State>]) -> Result<Arc<State>, String> {
    let mut reasons = Vec::new();
    for state in candidates {
        match state.compare(database) {
            Ok(()) => return Ok(Arc::clone(state)),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(format!("none of {} states is there:\n  {}", candidates.len(), reasons.join("\n  ")))
}

/// Checks everything.
///
/// # Panics
/// If that finds damage.
pub fn check_clean(database: &Database) -> seawall::CheckSummary {
    let mut damages = Vec::new();
    let summary = database
        .check(&mut |damage| damages.push(damage.to_string()))
        .unwrap_or_else(|error| panic!("check: {error}"));
    assert!(damages.is_empty(), "check reports:\n  {}", damages.join("\n  "));
    summary
}

/// Opens `disk`, finds out which candidate is there, and goes on working with the database: writes, checkpoints,
/// crashes once more and opens again. Returns what was found.
///
/// # Errors
/// What was lost, is wrong, or does not work.
pub fn recover(
    disk: &SimulatedDisk,
    candidates: &[Arc<State>],
    options: &Options,
) -> Result<Arc<State>, String> {
    let database = try_open(disk, options).map_err(|error| format!("open: {error}"))?;
    let found = find_state(&database, candidates)?;
    check_clean(&database);
    let next = go_on(&database, &found)?;
    let crashed = disk.after_power_loss(PowerLoss::LoseAll);
    // Without power, dropping the database does not close it at length.
    disk.crash();
    drop(database);
    let database = open(&crashed, options);
    next.compare(&database).map_err(|reason| format!("after going on and a second crash: {reason}"))?;
    crashed.crash();
    Ok(found)
}

/// Writes, checkpoints until nothing is left to reclaim, and counts: no row may be left that no table has.
///
/// # Errors
/// What does not work, or is left.
pub fn go_on(database: &Database, found: &Arc<State>) -> Result<State, String> {
    let mut next = State::clone(found);
    let failed = |error: seawall::Error| format!("going on: {error}");
    let table = database.create_table("after").map_err(failed)?;
    let mut rows = Rows::new();
    for number in 0..3_u8 {
        database.put(&table, [number], [number; 300]).map_err(failed)?;
        rows.insert(vec![number], Arc::from([number; 300]));
    }
    next.tables.insert("after".to_owned(), Arc::new(rows));
    checkpoint_and_count(database, &next)?;
    let gids: Vec<String> = next.prepared.keys().cloned().collect();
    for (index, gid) in gids.iter().enumerate() {
        let commits = index % 2 == 0;
        let decided =
            if commits { database.two_phase().commit(gid) } else { database.two_phase().rollback(gid) };
        decided.map_err(failed)?;
        next.decide(gid, commits);
    }
    if !gids.is_empty() {
        checkpoint_and_count(database, &next)?;
    }
    Ok(next)
}

fn checkpoint_and_count(database: &Database, next: &State) -> Result<(), String> {
    let failed = |error: seawall::Error| format!("going on: {error}");
    database.checkpoint().map_err(failed)?;
    database.checkpoint().map_err(failed)?;
    next.compare(database).map_err(|reason| format!("after going on: {reason}"))?;
    let summary = check_clean(database);
    // A name that a transaction in doubt takes again keeps the row of `reclaim` of the table that had it.
    let definitions = next.definitions_in_doubt();
    let waiting = database.statistics().reclaim.waiting;
    if waiting.is_none_or(|waiting| waiting > definitions) {
        return Err(format!("{waiting:?} dropped tables wait for a checkpoint after two"));
    }
    // Each table has a row in `names` and one in `objects`; `reclaim` is empty. What is in doubt has a row
    // each, and another one if it is long. Rows of a table that it makes may be there already, and the table listed in `reclaim`.
    let (rows, in_doubt) = (next.row_count() + 2 * next.tables.len() as u64, next.prepared.len() as u64);
    let of_definitions = 2 * definitions + next.rows_of_definitions_in_doubt();
    let expected = rows + in_doubt..=rows + 2 * in_doubt + of_definitions;
    // Rows of runs may hide rows of the tree, or say that one is gone.
    if summary.run_rows == 0 && !expected.contains(&summary.rows) {
        return Err(format!(
            "{} rows in the tree where {expected:?} are expected: a storage, or a prepared write set, leaks",
            summary.rows
        ));
    }
    Ok(())
}
