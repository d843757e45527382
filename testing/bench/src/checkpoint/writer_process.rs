//! The process that is killed: writers that stamp and acknowledge, and, if a checkpoint is to be hit, checkpoints that
//! are announced before they begin and after they have ended.

use std::io::{Read, Write};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::cell::{Cell, Kind};
use super::stamps::{self, Acknowledged};
use crate::error::{BenchError, engine_error};

/// What the process says, a line each.
pub(super) const WRITING: &str = "writing";
pub(super) const CHECKPOINT_BEGINS: &str = "checkpoint begins";
pub(super) const CHECKPOINT_ENDS: &str = "checkpoint ends";

const ESTIMATE_EVERY: Duration = Duration::from_millis(10);

/// Returns only with an error, or if the process that should kill this one is gone.
pub(crate) fn write_until_killed(cell: &Cell) -> Result<(), BenchError> {
    let database = cell.open()?;
    stamps::prepare(cell, &database)?;
    let acknowledged = Acknowledged::create(&cell.directory, cell.load.threads)?;
    let (ended, end) = std::sync::mpsc::channel();
    for thread in 0..cell.load.threads {
        let (cell, database, ended) = (cell.clone(), database.clone(), ended.clone());
        let acknowledged = Acknowledged::open(&cell.directory)?;
        std::thread::spawn(move || {
            let result = stamps::write_on(&cell, &database, &acknowledged, thread);
            report(&ended, result);
        });
    }
    say(WRITING)?;
    {
        let ended = ended.clone();
        std::thread::spawn(move || report(&ended, until_orphaned()));
    }
    if cell.kind == Kind::Kill {
        let interval = Duration::from_secs_f64(cell.interval);
        let database = database.clone();
        std::thread::spawn(move || report(&ended, checkpoints(&database, interval)));
    }
    loop {
        // Written down all the time, for the kill does not ask before it comes.
        let estimated = database.statistics().recovery_time.estimated;
        acknowledged.note_estimate(cell.load.threads, estimated)?;
        match end.recv_timeout(ESTIMATE_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(BenchError::Process("all of its threads ended".into()));
            }
        }
    }
}

/// Nobody listens if another thread ended first, and then this result does not matter.
fn report(ended: &std::sync::mpsc::Sender<Result<(), BenchError>>, result: Result<(), BenchError>) {
    if let Err(unheard) = ended.send(result) {
        eprintln!("{unheard}");
    }
}

fn checkpoints(database: &seawall::Database, interval: Duration) -> Result<(), BenchError> {
    loop {
        std::thread::sleep(interval);
        say(CHECKPOINT_BEGINS)?;
        database.checkpoint().map(drop).map_err(engine_error("seawall", "checkpoint"))?;
        say(CHECKPOINT_ENDS)?;
    }
}

fn say(line: &str) -> Result<(), BenchError> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .map_err(|error| BenchError::Process(format!("tell the cell: {error}")))
}

/// The other end of standard input closes with the process that holds it.
fn until_orphaned() -> Result<(), BenchError> {
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .map(drop)
        .map_err(|error| BenchError::Process(format!("watch standard input: {error}")))
}
