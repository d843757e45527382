//! A commit before it is logged: its preconditions and its rows.

use std::borrow::Cow;
use std::sync::Arc;

use seawall_types::Lsn;

use crate::catalog::OpenObject;
use crate::in_doubt::definitions::Definitions;
use crate::in_doubt::protected::Holder;
use crate::options::Durability;
use crate::transaction::lock::LockOwner;
use crate::transaction::lock_wait::LockPatience;
use crate::transaction::read_item::ReadItem;
use crate::transaction::touched_tables::{Definition, TableUse};

/// A record with so many rows, or so many bytes of them, has them in the memtable before it has its place in the log.
const ROWS_AHEAD: u64 = 128;
const BYTES_AHEAD: u64 = 64 << 10;

/// What a commit depends on.
#[derive(Debug)]
pub(crate) struct CommitRequest<'a> {
    pub(crate) owner: LockOwner,
    /// How long it waits for in-doubt transactions that have read what it writes, and for room.
    pub(crate) patience: LockPatience<'a>,
    /// Tables that nobody else may have changed.
    pub(crate) tables: Cow<'a, [TableUse]>,
    pub(crate) definitions: &'a [Definition],
    /// Tables of which others must know more from this commit on.
    pub(crate) altered: &'a [Arc<OpenObject>],
    /// What has to be unchanged since `snapshot`.
    pub(crate) reads: &'a [ReadItem],
    pub(crate) snapshot: Lsn,
    /// A snapshot that is not held cannot be cancelled: all reads are then rows that have been locked since.
    pub(crate) snapshot_is_held: bool,
    pub(crate) durability: Durability,
    /// The entry of a prepare among the transactions in doubt.
    pub(crate) holder: Option<&'a Holder>,
    /// Definitions of a transaction in doubt that is decided: nobody was let near their tables.
    pub(crate) decided: Option<&'a Definitions>,
}

impl CommitRequest<'_> {
    /// A request without preconditions.
    pub(crate) fn plain(owner: LockOwner, durability: Durability) -> Self {
        CommitRequest {
            owner,
            patience: LockPatience::NONE,
            tables: Cow::Borrowed(&[]),
            definitions: &[],
            altered: &[],
            reads: &[],
            snapshot: Lsn::ZERO,
            snapshot_is_held: false,
            durability,
            holder: None,
            decided: None,
        }
    }

    /// Whether tables are created, dropped, truncated or altered.
    pub(super) fn has_definitions(&self) -> bool {
        !self.definitions.is_empty()
            || !self.altered.is_empty()
            || self.decided.is_some_and(|decided| !decided.is_empty())
    }
}

/// Takes a row's key and its value, `None` for a deletion.
pub(crate) type VisitRow<'v> = dyn FnMut(&[u8], Option<&[u8]>) + 'v;

/// The rows that a record puts into the memtable.
pub(crate) struct RowsToApply<'r> {
    pub(crate) count: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    pub(crate) for_each: &'r dyn Fn(&mut VisitRow<'_>),
}

impl RowsToApply<'_> {
    /// No rows: a prepare applies none.
    pub(crate) const NONE: RowsToApply<'static> = RowsToApply { count: 0, bytes: 0, for_each: &|_| {} };

    pub(super) fn are_many(&self) -> bool {
        self.count >= ROWS_AHEAD || (self.count > 0 && self.bytes >= BYTES_AHEAD)
    }
}
