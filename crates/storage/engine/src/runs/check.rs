//! Checking runs: what the check of the tree, which knows rows only, does not see.

use seawall_tree::{LeafCursor, Tree};

use crate::error::Error;
use crate::row_key;
use crate::runs::filter::{Filter, row_hash};
use crate::runs::run::Run;

/// What a check of a run saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckedRun {
    /// Rows that are left in it.
    pub(crate) rows: u64,
    /// Rows of the tree that make its filter.
    pub(crate) segments: u64,
}

/// Rows with something wrong in common: the first of them, and how many there are.
#[derive(Default)]
struct Wrong {
    first: Option<Vec<u8>>,
    count: u64,
}

impl Wrong {
    fn note(&mut self, row_key: &[u8]) {
        self.first.get_or_insert_with(|| row_key.to_vec());
        self.count += 1;
    }

    fn tell(&self, run: &Run, what: &str, tell: &mut dyn FnMut(String)) {
        if let Some(first) = &self.first {
            let (count, number) = (self.count, run.number);
            tell(format!("run {number}: {what}: {count} rows, the first with the row key {first:02x?}"));
        }
    }
}

/// Checks the rows of a run and its filter, and tells what is wrong. It ends early where a page cannot be read: the check of the tree
/// reports those. A merge may move rows out of the run, or into it, during the check: neither is damage.
pub(crate) fn check_run(run: &Run, tree: &Tree, tell: &mut dyn FnMut(String)) -> CheckedRun {
    let mut checked = CheckedRun::default();
    // First: rows that are cut out afterwards take segments with them, and no row comes.
    let mut filter = match Filter::read(tree, run.number.filter_table(), &|| true) {
        Ok(filter) if run.descriptor.filter_bits > 0 => filter,
        Ok(_) => None,
        Err(error @ Error::Catalog { .. }) => {
            tell(error.to_string());
            None
        }
        Err(_) => None,
    };
    checked.segments = filter.as_ref().map_or(0, Filter::segment_count);
    let lacks = |filter: &Option<Filter>, row_key: &[u8]| {
        filter.as_ref().is_some_and(|filter| !filter.may_contain(row_key, row_hash(row_key)))
    };
    let (mut misplaced, mut forgotten) = (Wrong::default(), Wrong::default());
    let (from, to) = row_key::table_range(run.number.rows_table());
    let Ok(mut cursor) = LeafCursor::seek(tree.pages(), &from) else { return checked };
    while let Some(row) = cursor.row() {
        let key = row.key.to_vec();
        if key >= to {
            break;
        }
        checked.rows += 1;
        let row_key = row_key::key_of(&key);
        if !row_key::table_of(row_key).is_some_and(|storage| run.may_have_rows_of(storage)) {
            misplaced.note(row_key);
        }
        if lacks(&filter, row_key) {
            // The row may have come since the filter was read, and its segment with it.
            if forgotten.count == 0
                && let Ok(Some(newer)) = Filter::read(tree, run.number.filter_table(), &|| true)
            {
                filter = Some(newer);
            }
            if lacks(&filter, row_key) {
                forgotten.note(row_key);
            }
        }
        if cursor.advance(tree.pages()).is_err() {
            break;
        }
    }
    misplaced.tell(run, "it has rows outside of the storages that the list names", tell);
    forgotten.tell(run, "its filter lacks rows, which lookups do not find", tell);
    checked
}
