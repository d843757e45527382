//! The rows of a large commit, put by several threads.
//!
//! ```text
//!   changes, by key:  [ catalog | piece | piece | piece | .. ]
//!                        |          |       |       |
//!               the applier, first  +--> the applier and its helpers take one after another
//! ```
//! The rows of a commit have different keys, so the order in which they are put does not matter, and no reader sees any of them before the
//! step ends. A record whose keys do not ascend, which no write set makes, is put in its own order.

use seawall_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use seawall_sync::thread;
use seawall_types::Lsn;
use seawall_wal::{Changes, RecordError};

use crate::catalog::{FIRST_LOCAL_TABLE, FIRST_USER_TABLE};
use crate::engine::Engine;
use crate::snapshots::view::View;

/// Rows that a thread takes at a time: some tenths of a millisecond of work.
const PIECE_ROWS: usize = 512;
/// With fewer rows, starting a thread takes longer than it saves.
const ROWS_MIN: u64 = 2048;

/// The rows of users' tables of a commit.
pub(crate) struct ManyRows<'r> {
    /// Each begins a piece.
    pieces: Vec<Changes<'r>>,
    /// Changes of the catalog, which come before.
    others: usize,
}

impl<'r> ManyRows<'r> {
    /// Reads all changes of a commit, and finds its pieces; `None` if it is better put in order.
    ///
    /// # Errors
    /// Of the first change that is not well-formed.
    pub(crate) fn find(changes: &Changes<'r>) -> Result<Option<ManyRows<'r>>, RecordError> {
        if changes.left() < ROWS_MIN {
            return Ok(None);
        }
        let mut found = ManyRows { pieces: Vec::new(), others: 0 };
        let (mut rest, mut rows, mut before) = (changes.clone(), 0_usize, None);
        loop {
            let begins_piece = rows.is_multiple_of(PIECE_ROWS).then(|| rest.clone());
            let Some(change) = rest.next() else { return Ok(Some(found)) };
            let change = change?;
            let key = (change.table(), change.key());
            if before.replace(key).is_some_and(|before| before >= key) {
                return Ok(None);
            }
            // It is refused, in its place.
            if change.table().get() >= FIRST_LOCAL_TABLE {
                return Ok(None);
            }
            if change.table().get() < FIRST_USER_TABLE {
                found.others += 1;
            } else {
                found.pieces.extend(begins_piece);
                rows += 1;
            }
        }
    }

    /// How many changes come before, which are not put here.
    pub(crate) fn others(&self) -> usize {
        self.others
    }

    /// Puts the rows into the memtable that is active in `view`; how many.
    pub(crate) fn put(&self, engine: &Engine, view: &View, stamp: Lsn) -> u64 {
        let (next, rows) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = || {
            let (mut row_key, mut put) = (Vec::new(), 0);
            while let Some(piece) = self.pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                // All of them were read before.
                for change in piece.clone().take(PIECE_ROWS).map_while(Result::ok) {
                    change.copy_row_key(&mut row_key);
                    view.active.insert(&row_key, stamp, change.value(), || engine.horizon_in(view));
                    put += 1;
                }
            }
            rows.fetch_add(put, Ordering::Relaxed);
        };
        let threads = engine.options.recovery.threads.min(self.pieces.len());
        thread::scope(|scope| {
            for helper in 1..threads {
                let builder = thread::Builder::new().name(format!("seawall-apply-{helper}"));
                // Without it, the others put its share.
                if builder.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        rows.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use seawall_wal::{CommitBuilder, Record, RecordKind};

    use super::*;

    fn row_key(table: u64, number: u64) -> Vec<u8> {
        [table.to_be_bytes(), number.to_be_bytes()].concat()
    }

    /// How many pieces there are, and how many changes before.
    fn found(keys: impl IntoIterator<Item = (u64, u64)>) -> Option<(usize, usize)> {
        let mut builder = CommitBuilder::new();
        builder.begin(0);
        for (table, number) in keys {
            builder.put(&row_key(table, number), b"value");
        }
        let record = builder.finish();
        let Ok(Record::Commit(commit)) = Record::decode(RecordKind::Commit, 0, record.body()) else {
            panic!("it is a commit")
        };
        let many = ManyRows::find(&commit.changes()).unwrap();
        many.map(|many| (many.pieces.len(), many.others()))
    }

    #[test]
    fn rows_are_divided_where_the_catalog_ends() {
        let catalog = (0..3).map(|number| (1, number));
        let rows = (0..ROWS_MIN).map(|number| (FIRST_USER_TABLE, number));
        let pieces = usize::try_from(ROWS_MIN).unwrap() / PIECE_ROWS;
        assert_eq!(found(catalog.clone().chain(rows.clone())), Some((pieces, 3)));
        let more = [(FIRST_USER_TABLE + 1, 0)];
        assert_eq!(found(catalog.chain(rows).chain(more)), Some((pieces + 1, 3)));
    }

    #[test]
    fn few_rows_and_rows_out_of_order_are_not_divided() {
        let rows = |count: u64| (0..count).map(|number| (FIRST_USER_TABLE, number));
        assert_eq!(found(rows(ROWS_MIN - 1)), None);
        assert_eq!(found(rows(ROWS_MIN).chain([(FIRST_USER_TABLE, 7)])), None);
        assert_eq!(found(rows(ROWS_MIN).chain([(FIRST_USER_TABLE, ROWS_MIN - 1)])), None, "twice");
    }
}
