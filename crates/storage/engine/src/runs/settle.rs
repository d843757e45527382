//! Merging runs into the main part where no engine is open yet: under rows that a recovery merges, and before a rewind.
//!
//! ```text
//!   replayed rows           b'    d -      (- : deleted)
//!   runs                [ a    c     | f ]
//!   main part           [    b     e | g ]
//!                              window        nothing in runs: merged in place
//! ```
//! A replayed row is newer than all that runs have, so it must not come to stand below a run that has the same row. Where runs have rows, those are
//! merged into the main part in the same chunk (`seawall_tree`, `window`); elsewhere rows are merged in place.
//!
//! What is on disk if the power goes: rows of the windows before are in the main part and out of the runs, replayed ones with them; the redo point is
//! the old one, so that they are replayed again, which changes nothing.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use seawall_tree::{Change, MergeSource, MergedWindow, StoredRun, Superblock, Tree, TreeError};
use seawall_types::{Lsn, TableId};

use crate::catalog::{FIRST_USER_TABLE, first_local_key};
use crate::error::Error;
use crate::row_key;
use crate::runs::list::read_list;

/// All runs that the tree lists, newest first.
fn stored_runs(tree: &Tree, superblock: &Superblock) -> Result<Vec<StoredRun>, Error> {
    Ok(read_list(tree, superblock)?.iter().map(|run| run.stored()).collect())
}

/// Applies the chunk of a window. A superblock goes with it that counts the runs that are left.
fn apply(tree: &Tree, superblock: &mut Superblock, merged: MergedWindow) -> Result<(), TreeError> {
    if merged.emptied.is_empty() {
        return tree.apply_chunk(merged.chunk, None).map(|_| ());
    }
    let count = u32::try_from(merged.emptied.len()).expect("the superblock counts all runs in 32 bits");
    let left = Superblock { run_count: superblock.run_count - count, ..superblock.clone() };
    tree.apply_chunk(merged.chunk, Some(&left))?;
    *superblock = left;
    Ok(())
}

/// Merges all runs into the main part, by chunks of about `chunk_bytes` of leaves, and strikes them off the list. Leaves keep the stamps of
/// their rows; `stamp` goes into those around.
///
/// # Errors
/// `Catalog` for a list that cannot be that of this superblock, `Tree`, `DiskFull`. What was merged before stays merged.
pub(crate) fn settle_runs(
    tree: &Arc<Tree>,
    superblock: &mut Superblock,
    chunk_bytes: u64,
    stamp: Lsn,
) -> Result<(), Error> {
    let runs = stored_runs(tree, superblock)?;
    let (from, _) = row_key::table_range(TableId::new(FIRST_USER_TABLE));
    let range = from..first_local_key().to_vec();
    let mut apply = |merged| apply(tree, superblock, merged);
    let settled = tree.settle_runs(&range, &runs, chunk_bytes, stamp, &mut apply);
    settled.map_err(|error| Error::tree(&error))
}

/// Merges `rows` of users, which are newer than all in the tree, over what runs have: all of them, or none if there are no runs, so that they
/// can be merged in place by several threads. `stamp` is at least that of every row.
///
/// # Errors
/// As `settle_runs`.
pub(crate) fn merge_over_runs(
    tree: &Arc<Tree>,
    superblock: &mut Superblock,
    rows: &mut dyn MergeSource,
    chunk_bytes: u64,
    stamp: Lsn,
) -> Result<(), Error> {
    let failed = |error| Error::tree(&error);
    let mut runs = stored_runs(tree, superblock)?;
    if runs.is_empty() {
        return Ok(());
    }
    let end = first_local_key().to_vec();
    let (mut from, _) = row_key::table_range(TableId::new(FIRST_USER_TABLE));
    while let Some((key, _)) = rows.peek()
        && has_rows(tree, &runs, &from, &end)?
    {
        // From the level-1 page of the next row on, unless the window before ended below it.
        if let Some(group) = tree.groups(key, &end).next().transpose().map_err(failed)? {
            from = from.max(group.lower);
        }
        let bounds = tree.window_at(from..end.clone(), &runs, chunk_bytes).map_err(failed)?;
        let window = bounds.range;
        from = window.end.clone();
        if has_rows(tree, &runs, &window.start, &window.end)? {
            let merged = tree.merge_window(window, &runs, Some(&mut *rows), &|_| false, stamp);
            let merged = merged.map_err(failed)?;
            let emptied = merged.emptied.clone();
            apply(tree, superblock, merged).map_err(failed)?;
            emptied.into_iter().rev().for_each(|index| drop(runs.remove(index)));
        } else {
            merge_below(tree, rows, &window.end, chunk_bytes, stamp).map_err(failed)?;
        }
    }
    merge_below(tree, rows, &end, chunk_bytes, stamp).map_err(failed)
}

/// Merges the rows below `end` in place: no run has rows there.
fn merge_below(
    tree: &Tree,
    rows: &mut dyn MergeSource,
    end: &[u8],
    chunk_bytes: u64,
    stamp: Lsn,
) -> Result<(), TreeError> {
    let mut below = Below { rows, end };
    while below.peek().is_some() {
        let plan = tree.merge_chunk(&mut below, chunk_bytes, stamp)?;
        tree.apply_chunk(plan, None)?;
    }
    Ok(())
}

/// Whether a run has a row of `from..to`.
fn has_rows(tree: &Tree, runs: &[StoredRun], from: &[u8], to: &[u8]) -> Result<bool, Error> {
    for run in runs {
        if run.has_rows(tree, from, to).map_err(|error| Error::tree(&error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The rows below a key.
struct Below<'r> {
    rows: &'r mut dyn MergeSource,
    end: &'r [u8],
}

impl MergeSource for Below<'_> {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.rows.peek().filter(|(key, _)| *key < self.end)
    }

    fn advance(&mut self) {
        self.rows.advance();
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        self.rows.look_ahead(&mut |key| key < self.end && visit(key));
    }

    fn keep_replaced(&self) -> bool {
        self.rows.keep_replaced()
    }

    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.rows.replaced(key, value);
    }
}
