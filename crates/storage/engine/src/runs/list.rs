//! The list of runs, as an open reads it.

use std::sync::Arc;

use seawall_tree::page::LeafValue;
use seawall_tree::{LeafCursor, Superblock, Tree};
use seawall_types::TableId;

use crate::error::Error;
use crate::row_key;
use crate::runs::run::{RUNS, Run, RunDescriptor, RunNumber, Runs};

/// The runs that a tree lists, newest first. It reads no page if the superblock says that there are none.
///
/// # Errors
/// `Catalog` for a list that cannot be that of this superblock, `Tree` if it cannot be read. Without it nobody knows which rows are
/// the newest, so nothing is opened.
pub(crate) fn read_list(tree: &Tree, superblock: &Superblock) -> Result<Runs, Error> {
    if superblock.run_count == 0 {
        return Ok(Arc::default());
    }
    let runs = listed_runs(tree)?;
    check_list(&runs, superblock)?;
    Ok(runs.into())
}

/// All runs that a tree lists, newest first, whether they go together or not.
fn listed_runs(tree: &Tree) -> Result<Vec<Arc<Run>>, Error> {
    let failed = |error| Error::tree(&error);
    let (from, to) = row_key::table_range(RUNS);
    let mut runs = Vec::new();
    let mut cursor = LeafCursor::seek(tree.pages(), &from).map_err(failed)?;
    while let Some(row) = cursor.row() {
        let key = row.key.to_vec();
        if key >= to {
            break;
        }
        let number = RunNumber::from_list_key(&key)?;
        let descriptor = match row.value {
            LeafValue::Inline(value) => RunDescriptor::decode(value),
            LeafValue::Overflow(_) | LeafValue::Deleted => Err("its descriptor is no value in a leaf"),
        };
        let descriptor = descriptor.map_err(|problem| damaged(number, problem))?;
        runs.push(Arc::new(Run::new(number, descriptor)));
        cursor.advance(tree.pages()).map_err(failed)?;
    }
    sort(&mut runs);
    Ok(runs)
}

/// Puts runs in the order in which they are read, newest first. Of runs that end at one stamp, which one is made of the other and older ones,
/// the one that starts later comes first: the other one may get older rows. What they have of one key is in one of them only.
pub(crate) fn sort(runs: &mut [Arc<Run>]) {
    let place = |run: &Arc<Run>| (run.end(), run.descriptor.start, run.number);
    runs.sort_by_key(|run| std::cmp::Reverse(place(run)));
}

/// Whether two runs go together: one of them is older, or one is made of the other, some slices of it by now.
fn go_together(one: &Run, other: &Run) -> bool {
    let (one, other) = (&one.descriptor, &other.descriptor);
    let is_older = |one: &RunDescriptor, other: &RunDescriptor| one.end <= other.start;
    let holds = |one: &RunDescriptor, other: &RunDescriptor| one.start <= other.start && other.end <= one.end;
    is_older(one, other) || is_older(other, one) || holds(one, other) || holds(other, one)
}

/// Refuses runs, newest first, that are not those of the superblock, or of which two claim to be the newer one.
fn check_list(runs: &[Arc<Run>], superblock: &Superblock) -> Result<(), Error> {
    if runs.len() as u64 != u64::from(superblock.run_count) {
        return Err(Error::Catalog {
            place: format!(
                "the list of runs: {} are in it, and {} by the superblock",
                runs.len(),
                superblock.run_count
            ),
            problem: "the list is not that of this superblock",
        });
    }
    for run in runs {
        if run.number.get() >= superblock.next_run {
            return Err(damaged(run.number, "its number was never drawn"));
        }
        if run.end() > superblock.redo_point {
            return Err(damaged(run.number, "it ends behind the redo point"));
        }
        if run.descriptor.last_storage >= superblock.next_table {
            return Err(damaged(run.number, "it has rows of a storage that was never drawn"));
        }
    }
    for (index, run) in runs.iter().enumerate() {
        if runs[index + 1..].iter().any(|older| !go_together(run, older)) {
            return Err(damaged(run.number, "it starts before an older run ends"));
        }
    }
    Ok(())
}

fn damaged(run: RunNumber, problem: &'static str) -> Error {
    Error::Catalog { place: format!("run {run}"), problem }
}

/// Tables of this directory alone that have rows and belong to none of `runs`, ascending: what a checkpoint that was cut short has left.
/// A few pages are read for each table that is there.
///
/// # Errors
/// `Tree` if a page cannot be read, `Catalog` for a key that no table has.
pub(crate) fn unlisted_tables(tree: &Tree, runs: &[Arc<Run>]) -> Result<Vec<TableId>, Error> {
    let is_listed = |table: TableId| {
        runs.iter().any(|run| table == run.number.rows_table() || table == run.number.filter_table())
    };
    let mut unlisted = Vec::new();
    let (_, mut from) = row_key::table_range(RUNS);
    loop {
        let cursor = LeafCursor::seek(tree.pages(), &from).map_err(|error| Error::tree(&error))?;
        let Some(row) = cursor.row() else { return Ok(unlisted) };
        let key = row.key.to_vec();
        let table = row_key::table_of(&key).filter(|table| table.get() < u64::MAX);
        let table = table.ok_or_else(|| Error::Catalog {
            place: format!("key {key:02x?} behind the list of runs"),
            problem: "no table has such a key",
        })?;
        if !is_listed(table) {
            unlisted.push(table);
        }
        (_, from) = row_key::table_range(table);
    }
}

#[cfg(test)]
mod tests {
    use seawall_tree::{Encryption, PageProtection, TreeMarks};
    use seawall_types::{DatabaseId, Lsn, TimelineId, TimelineMark};

    use super::*;

    fn superblock(run_count: u32) -> Superblock {
        Superblock {
            sequence: 0,
            database: DatabaseId::from_bytes([9; 16]),
            page_bytes: 4096,
            timeline: TimelineId::FIRST,
            timeline_mark: TimelineMark::NONE,
            segment_bytes: 1 << 20,
            redo_point: Lsn::new(300),
            checkpoint_count: 0,
            completed_chunk: 0,
            next_table: TableId::new(80),
            page_count: 0,
            created_micros: 0,
            protection: PageProtection::RecoveryFile,
            encryption: Encryption::None,
            in_doubt: 0,
            log_end: Lsn::ZERO,
            marks: TreeMarks::default(),
            next_run: 10,
            run_count,
        }
    }

    fn run(number: u64, start: u64, end: u64, last_storage: u64) -> Arc<Run> {
        let descriptor = RunDescriptor {
            level: 0,
            filter_bits: 0,
            start: Lsn::new(start),
            end: Lsn::new(end),
            rows: 1,
            deletions: 0,
            leaves: 1,
            row_bytes: 20,
            first_storage: TableId::new(64),
            last_storage: TableId::new(last_storage),
            filter_bytes: 0,
            written_micros: 0,
        };
        Arc::new(Run::new(RunNumber::new(number).unwrap(), descriptor))
    }

    /// A merge that was cut short between two slices leaves the run that it made beside those that it made it of.
    #[test]
    fn a_run_may_be_listed_beside_those_that_it_is_made_of() {
        let mut runs = vec![
            run(1, 100, 150, 70),
            run(5, 100, 250, 70),
            run(2, 150, 200, 70),
            run(4, 250, 300, 70),
            run(3, 200, 250, 70),
            run(0, 50, 100, 70),
            // Made of 5 and 2, by another merge that was cut short.
            run(6, 100, 250, 70),
        ];
        sort(&mut runs);
        let order: Vec<u64> = runs.iter().map(|run| run.number.get()).collect();
        // What is newer than a source is newer than what is made of it; a younger source comes before that.
        assert_eq!(order, [4, 3, 6, 5, 2, 1, 0]);
        check_list(&runs, &superblock(7)).unwrap();
    }

    #[test]
    fn a_list_that_is_not_that_of_the_superblock_is_refused() {
        let good = [run(3, 200, 300, 70), run(9, 100, 200, 79)];
        check_list(&good, &superblock(2)).unwrap();
        let refused = |runs: &[Arc<Run>], count: u32, why: &str| {
            let error = check_list(runs, &superblock(count)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(&good, 1, "not that of this superblock");
        refused(&good, 3, "not that of this superblock");
        refused(&[run(3, 199, 300, 70), run(9, 100, 200, 79)], 2, "run 3: it starts before");
        let between = [run(3, 150, 300, 70), run(4, 200, 250, 70), run(9, 100, 200, 79)];
        refused(&between, 3, "run 3: it starts before");
        refused(&[run(10, 200, 300, 70)], 1, "never drawn");
        refused(&[run(3, 200, 301, 70)], 1, "behind the redo point");
        refused(&[run(3, 200, 300, 80)], 1, "storage that was never drawn");
    }
}
