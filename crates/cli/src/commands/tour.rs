//! `tour`: what Seawall promises, shown on real data in a scratch directory.
//!
//! ```text
//!   child process: load --acks ------ kill -9
//!                     |  committed 500, 1000, ...
//!                     v
//!   this process: remember the last one --> recover --> every acknowledged row there, whole batches only
//!                 --> load the rest --> transfers on many threads, under checkpoints --> nothing created or lost
//!                 --> serve SQL to psql --- kill -9 --> serve again: acknowledged rows and the prepared transaction are there
//!                 --> a standby of that server --- kill -9 of the primary --> promote the standby: all rows are there
//! ```

mod data;
mod loader;
mod report;
mod server;
mod standby;
mod transfers;

use std::path::Path;
use std::time::Duration;

use seawall::{Database, DatabaseDirectory, OpenMode};

use self::data::DataSet;
use self::report::Report;
use super::{open_with, options};
use seawall_settings::KeyOf;

use crate::arguments::{Shared, Tour};
use crate::failure::Failure;
use crate::files::Stopwatch;
use crate::output::{Output, duration, grouped, size};

const TABLE: &str = "rows";

pub(crate) fn tour(shared: &Shared, tour: &Tour, output: &mut Output) -> Result<(), Failure> {
    if shared.key_of(KeyOf::Databases).is_some() {
        let problem = "the tour makes a database of its own, which is not encrypted: it takes no master key; --config /dev/null leaves the settings \
                       file out";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix("seawall-tour-");
    let scratch = match &tour.scratch {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    };
    let scratch = scratch.map_err(Failure::io("cannot make a scratch directory"))?;
    let mut report = Report::new(output);
    report.title(&format!("A tour of Seawall, in {}", scratch.path().display()))?;
    let result = show(shared, tour, scratch.path(), &mut report);
    if tour.keep || result.is_err() {
        let kept = scratch.keep();
        report.note(&format!("kept to look at: {}", kept.display()))?;
        result
    } else {
        let name = scratch.path().display().to_string();
        scratch.close().map_err(Failure::io(format!("cannot remove {name}")))
    }
}

fn show(shared: &Shared, tour: &Tour, scratch: &Path, report: &mut Report<'_>) -> Result<(), Failure> {
    let directory = scratch.join("database");
    let data = DataSet::prepare(tour, scratch)?;

    report.step("Load, and kill the loader in the middle")?;
    open_with(&directory, options(shared, OpenMode::New))?.close()?;
    report.fact("rows", data.rows(), &format!("{} rows: {}", grouped(data.rows()), data.description()))?;
    let killed = loader::load_and_kill(&directory, &data, tour.seed, report)?;

    report.step("Recover")?;
    let database = recover(shared, &directory, report)?;
    let found = data.verify_after_crash(&database, TABLE, killed.acknowledged)?;
    report.say(&format!(
        "verified: all {} acknowledged rows are there, byte for byte",
        grouped(killed.acknowledged)
    ))?;
    report.fact(
        "rows_recovered",
        found,
        &format!("{} rows are in the table: {}", grouped(found), in_flight(&killed, found)),
    )?;
    database.close()?;
    check(shared, &directory, report)?;

    report.step("Load the rest")?;
    loader::load_rest(&directory, &data, found, report)?;
    let database = open_with(&directory, options(shared, OpenMode::Existing))?;
    data.verify_all(&database, TABLE)?;
    report.say(&format!("verified: all {} rows are there, and no others", grouped(data.rows())))?;

    report.step("Move money between accounts while checkpoints run")?;
    let length = Duration::from_secs_f64(tour.seconds);
    let moved = transfers::run(&database, length, tour.seed, report)?;
    database.close()?;

    report.step("Open again and verify everything once more")?;
    let database = recover(shared, &directory, report)?;
    data.verify_all(&database, TABLE)?;
    transfers::verify(&database, moved)?;
    report.say(&format!(
        "verified: {} rows, {} transfers, no cent created or lost",
        grouped(data.rows()),
        grouped(moved)
    ))?;
    database.close()?;
    check(shared, &directory, report)?;

    report.step("Serve SQL to psql, and kill the server in the middle")?;
    server::serve_and_kill(&scratch.join("served"), report)?;

    report.step("Make a standby, kill its primary, and have the standby take its place")?;
    standby::kill_and_promote(&scratch.join("served"), &scratch.join("standby"), report)?;

    report.end("Everything held: nothing acknowledged was lost, nothing was there by halves.")
}

fn in_flight(killed: &loader::Killed, found: u64) -> &'static str {
    match (killed.finished, found == killed.acknowledged) {
        (true, _) => "the loader was done before the kill",
        (false, true) => "exactly the acknowledged batches",
        (false, false) => "one batch more was on disk but not yet acknowledged, and it is whole",
    }
}

/// Opens the database and says what that took.
fn recover(shared: &Shared, directory: &Path, report: &mut Report<'_>) -> Result<Database, Failure> {
    let stopwatch = Stopwatch::start();
    let database = open_with(directory, options(shared, OpenMode::Existing))?;
    let elapsed = stopwatch.elapsed();
    let recovery = database.statistics().recovery;
    report.fact(
        "recovery_seconds",
        elapsed.as_secs_f64(),
        &format!(
            "opened in {}: replayed {} log records with {} rows, {} of log, and read {} pages of the tree",
            duration(elapsed),
            grouped(recovery.records),
            grouped(recovery.rows),
            size(recovery.end_of_log.bytes_since(recovery.redo_point)),
            grouped(recovery.pages_read)
        ),
    )?;
    Ok(database)
}

/// Reads every page and the log.
fn check(shared: &Shared, directory: &Path, report: &mut Report<'_>) -> Result<(), Failure> {
    let mut damage = Vec::new();
    let summary =
        DatabaseDirectory::at(directory).check(options(shared, OpenMode::ReadOnly), &mut |found| {
            damage.push(super::inspect::damage_text(&found, &super::inspect::Tables::new()));
        })?;
    if let Some(first) = damage.first() {
        return Err(Failure::Broken(format!("check found {} places damaged, first: {first}", damage.len())));
    }
    report.say(&format!("seawall check: {}; no damage", super::inspect::read_by(&summary)))
}
