//! A decoded record: what the bytes of a body say, by the record's kind.

use crate::commit::Commit;
use crate::control::{BulkLoad, Checkpoint, RestorePoint, TimelineSwitch};
use crate::error::RecordError;
use crate::page_images::PageImages;
use crate::prepared::{Decision, Prepare};
use crate::record::RecordKind;

/// A decoded record; its bytes are borrowed from the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A transaction's write set.
    Commit(Commit<'a>),
    /// A checkpoint was completed.
    Checkpoint(Checkpoint),
    /// The log goes on on a new timeline.
    TimelineSwitch(TimelineSwitch),
    /// A name for a position to recover to.
    RestorePoint(RestorePoint<'a>),
    /// Padding.
    NoOp,
    /// Copies of pages.
    PageImages(PageImages<'a>),
    /// A transaction's write set, to be decided.
    Prepare(Prepare<'a>),
    /// A prepared transaction is committed.
    CommitPrepared(Decision<'a>),
    /// A prepared transaction is rolled back.
    RollbackPrepared(Decision<'a>),
    /// Rows that are in no record were loaded.
    BulkLoad(BulkLoad),
}

impl<'a> Record<'a> {
    /// Reads a record's body.
    ///
    /// # Errors
    /// `RecordError` if it is not what `kind` says. The changes of a commit are checked one by one as they are read.
    pub fn decode(kind: RecordKind, flags: u8, body: &'a [u8]) -> Result<Record<'a>, RecordError> {
        if flags != 0 {
            return Err(RecordError::Flags { flags });
        }
        Ok(match kind {
            RecordKind::Commit => Record::Commit(Commit::decode(body)?),
            RecordKind::Checkpoint => Record::Checkpoint(Checkpoint::decode(body)?),
            RecordKind::TimelineSwitch => Record::TimelineSwitch(TimelineSwitch::decode(body)?),
            RecordKind::RestorePoint => Record::RestorePoint(RestorePoint::decode(body)?),
            RecordKind::NoOp => Record::NoOp,
            RecordKind::PageImages => Record::PageImages(PageImages::decode(body)?),
            RecordKind::Prepare => Record::Prepare(Prepare::decode(body)?),
            RecordKind::CommitPrepared => Record::CommitPrepared(Decision::decode(body)?),
            RecordKind::RollbackPrepared => Record::RollbackPrepared(Decision::decode(body)?),
            RecordKind::BulkLoad => Record::BulkLoad(BulkLoad::decode(body)?),
        })
    }
}
