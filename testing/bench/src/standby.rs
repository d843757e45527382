//! A primary and its standby, both in this process and on one disk: how long a promotion takes, what commits are like after it, and how
//! much faster a standby applies than its primary wrote.
//!
//! ```text
//!   promotion:   primary --all of its log--> standby, crowded with segments, tables and transactions in doubt
//!                order to promote ---> phases ---> promoted ---> first durable commit ---> commits for 30 s
//!   replication: primary runs a load alone --> standby receives all of it (verified, synced) --> applies all of it
//!                                         \--> another standby receives and applies at the same time, as one does that lives
//! ```
//! The stream is read and received by one thread, without a network. Figures of one run say little: begin each with an idle machine.

mod commits;
mod promotion;
mod replication;

use std::path::Path;

use seawall::{Database, DatabaseDirectory, HoldKind, HoldLifetime, HoldOptions, OpenMode, Options, Standby};

use crate::error::{BenchError, engine_error, file_error};

pub(crate) use promotion::{PromotionArguments, promote};
pub(crate) use replication::{ReplicationArguments, replicate};

const ENGINE: &str = "seawall";
const TABLE: &str = "t";
const PIECE_BYTES: usize = 1 << 20;

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    operation: &'static str,
) -> impl FnOnce(E) -> BenchError {
    engine_error(ENGINE, operation)
}

/// A primary in `directory`, which keeps its log for a standby.
fn primary(directory: &Path, options: &Options) -> Result<Database, BenchError> {
    let options = Options { mode: OpenMode::New, ..options.clone() };
    let primary = Database::open(directory, options).map_err(failed("create"))?;
    primary.create_table(TABLE).map_err(failed("create a table"))?;
    hold_log(&primary)?;
    Ok(primary)
}

/// From now on the database keeps its log for a standby, which is a copy of its files once it is closed.
pub(crate) fn hold_log(primary: &Database) -> Result<(), BenchError> {
    let hold =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    primary.log().hold("standby", hold, None).map_err(failed("hold the log"))?;
    primary.checkpoint().map(drop).map_err(failed("checkpoint"))
}

pub(crate) fn open(directory: &Path, options: &Options) -> Result<Database, BenchError> {
    let options = Options { mode: OpenMode::Existing, ..options.clone() };
    Database::open(directory, options).map_err(failed("open"))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(to).map_err(file_error("create", to))?;
    for entry in std::fs::read_dir(from).map_err(file_error("list", from))? {
        let entry = entry.map_err(file_error("list", from))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).map_err(file_error("copy", &target))?;
        }
    }
    Ok(())
}

pub(crate) fn follow(directory: &Path, options: &Options) -> Result<Database, BenchError> {
    let options = Options { mode: OpenMode::Existing, ..options.clone() };
    DatabaseDirectory::at(directory).follow(options).map_err(failed("follow"))
}

pub(crate) fn role(database: &Database) -> Result<Standby<'_>, BenchError> {
    let not_a_standby = || BenchError::Wrong { engine: ENGINE, fact: "it does not follow".to_owned() };
    database.standby().ok_or_else(not_a_standby)
}

/// Receives all that is durable on the primary, and syncs each `sync_bytes`; its bytes.
pub(crate) fn receive(primary: &Database, standby: &Database, sync_bytes: u64) -> Result<u64, BenchError> {
    let standby = role(standby)?;
    let wanted = standby.wanted().map_err(failed("ask"))?;
    let mut stream = primary.log().stream(wanted).map_err(failed("stream"))?;
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut received, mut unsynced) = (0, 0);
    loop {
        let piece = stream.read(&mut buffer).map_err(failed("stream"))?;
        if piece.bytes == 0 {
            break;
        }
        standby.receive(piece.start, &buffer[..piece.bytes]).map_err(failed("receive"))?;
        received += piece.bytes as u64;
        unsynced += piece.bytes as u64;
        if unsynced >= sync_bytes {
            standby.sync().map_err(failed("sync"))?;
            unsynced = 0;
        }
    }
    standby.sync().map_err(failed("sync"))?;
    Ok(received)
}
