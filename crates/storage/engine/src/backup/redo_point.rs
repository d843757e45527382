//! The redo point of a copy for a standby, which replays no load that left the log: all of those lie before it.
//!
//! ```text
//!   commit   record of a load                          loads are logged from here on
//!   ---|-----------|----------------------------------------|---->
//!      ^ redo point of a checkpoint: where a commit ends
//!                                                            |^ commit, and redo point of the next one
//! ```
//! The rows of such a load are in the tree before its record is in the log, so a walk that begins later has them.

use std::iter;

use seawall_types::Lsn;
use seawall_wal::RecordKind;

use crate::engine::Engine;
use crate::error::Error;
use crate::inspect::log_records::open_reader;
use crate::options::Durability;
use crate::transaction::commit_request::CommitRequest;

/// Takes checkpoints until no record behind the redo point says that rows were loaded past the log. From `logged_since` on none does.
pub(super) fn move_behind_loads(engine: &Engine, logged_since: Lsn) -> Result<(), Error> {
    match engine.checkpoint_now() {
        // The new standby may be the one that the quorum lacks. It gets more of the log.
        Ok(_) | Err(Error::StandbysLack { .. }) => {}
        Err(error) => return Err(error),
    }
    if !has_load(engine, logged_since)? {
        return Ok(());
    }
    let request = CommitRequest::plain(engine.locks.new_owner(), Durability::Async);
    let stamp = engine.log_commit_unthrottled(&request, iter::empty())?;
    engine.checkpoint_now()?;
    assert!(engine.redo.point() >= stamp, "the checkpoint has frozen the commit at {stamp}");
    Ok(())
}

/// Whether a record between the redo point and `end` says so.
fn has_load(engine: &Engine, end: Lsn) -> Result<bool, Error> {
    engine.log()?.flush_until(end)?;
    let superblock = engine.redo.superblock();
    let disk = &engine.environment.disk;
    let mut reader = open_reader(disk, &superblock, engine.keys.as_ref(), superblock.redo_point)?;
    reader.set_limit(engine.flushed().max(superblock.redo_point));
    while reader.position() < end {
        let Some(record) = reader.next().map_err(|error| Error::log(&error))? else { break };
        if record.kind == RecordKind::BulkLoad {
            return Ok(true);
        }
        engine.lifecycle.check_open()?;
    }
    Ok(false)
}
