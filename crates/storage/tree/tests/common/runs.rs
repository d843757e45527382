//! Runs beside a tree, as an engine writes them, and a model of both.

use std::ops::Range;
use std::sync::Arc;

use seawall_tree::{
    Change, MergedSlice, MergedWindow, OldValues, Part, RUN_NUMBERS, StoredRun, Tree, TreeError,
};
use seawall_types::Lsn;

pub(crate) use super::STAMP;
use super::{Changes, Model, apply_to, assert_contains, contents};

/// Runs are listed under this number.
pub(crate) const LIST: u64 = 1 << 63;
pub(crate) const FILTERS: u64 = (1 << 63) + (1 << 61);
pub(crate) const ROWS_PER_SEGMENT: usize = 50;

/// What the tree and its runs are to hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) main: Model,
    /// The newest first.
    pub(crate) runs: Vec<(u64, Changes)>,
    pub(crate) next_run: u64,
}

pub(crate) fn stored_run(number: u64) -> StoredRun {
    let listed = [LIST.to_be_bytes(), number.to_be_bytes()].concat();
    StoredRun { rows: RUN_NUMBERS.start + number, filter: FILTERS + number, listed }
}

pub(crate) fn range_of(number: u64) -> Range<Vec<u8>> {
    number.to_be_bytes().to_vec()..(number + 1).to_be_bytes().to_vec()
}

/// The keys of users.
pub(crate) fn everything() -> Range<Vec<u8>> {
    Vec::new()..LIST.to_be_bytes().to_vec()
}

impl Stored {
    /// What somebody reads who looks at runs, the newest first, and then at the tree.
    pub(crate) fn seen(&self) -> Model {
        let mut seen = self.main.clone();
        for (_, rows) in self.runs.iter().rev() {
            apply_to(&mut seen, rows);
        }
        seen
    }

    pub(crate) fn stored_runs(&self) -> Vec<StoredRun> {
        self.runs.iter().map(|(number, _)| stored_run(*number)).collect()
    }

    /// Writes a run as a checkpoint does: its rows, a filter of segments, and the row that lists it, in one chunk.
    pub(crate) fn write_run(&mut self, tree: &Arc<Tree>, rows: Changes, stamp: Lsn) {
        let number = self.next_run;
        self.next_run += 1;
        let run = stored_run(number);
        let all = range_of(run.rows);
        let mut load = tree.bulk_loader(&all.start, &all.end, stamp);
        let all = range_of(run.filter);
        let mut filter = tree.bulk_loader(&all.start, &all.end, stamp);
        for (index, (key, value)) in rows.iter().enumerate() {
            if index % ROWS_PER_SEGMENT == 0 {
                let segment: &[u8] = if index == 0 { &[] } else { key };
                filter.push(&[&run.filter.to_be_bytes(), segment].concat(), &[9; 100]).unwrap();
            }
            load.push_change(&run.key(key), value.as_deref().map_or(Change::Delete, Change::Put)).unwrap();
        }
        let parts = vec![
            Part::Put { key: run.listed, value: vec![1; 88] },
            Part::Graft { load: Box::new(load), values: OldValues::Free },
            Part::Graft { load: Box::new(filter), values: OldValues::Free },
        ];
        let plan = tree.swap(parts, &[], stamp).unwrap();
        tree.apply_chunk(plan, None).unwrap();
        self.runs.insert(0, (number, rows));
    }

    /// What a window over the runs from index `first` on makes of it.
    pub(crate) fn merge_window(&mut self, range: &Range<Vec<u8>>, first: usize, changes: &Changes) {
        for (_, rows) in self.runs[first..].iter_mut().rev() {
            let taken: Changes = rows.extract_if(range.clone(), |_, _| true).collect();
            apply_to(&mut self.main, &taken);
        }
        apply_to(&mut self.main, changes);
        let mut index = 0;
        self.runs.retain(|(_, rows)| {
            index += 1;
            index <= first || !rows.is_empty()
        });
    }

    /// What a slice makes of it, up to `next`: rows of `sources` go into the run `target`, which stands right behind the newest of them.
    pub(crate) fn merge_slice(&mut self, sources: &[u64], target: u64, next: Option<&[u8]>) {
        let end = next.map_or_else(|| everything().end, <[u8]>::to_vec);
        let mut taken = Changes::new();
        for (number, rows) in self.runs.iter_mut().rev() {
            if sources.contains(number) {
                taken.extend(rows.extract_if(..end.clone(), |_, _| true));
            }
        }
        let newest = self.runs.iter().position(|(number, _)| sources.contains(number)).unwrap();
        match self.runs.iter_mut().find(|(number, _)| *number == target) {
            Some((_, rows)) => rows.extend(taken),
            None => self.runs.insert(newest + 1, (target, taken)),
        }
        self.runs.retain(|(number, rows)| !sources.contains(number) || !rows.is_empty());
    }

    /// No segment of a filter is there of which all rows are gone.
    pub(crate) fn assert_segments(&self, tree: &Tree, context: &str) {
        let found = contents(tree);
        for (number, rows) in &self.runs {
            let segments: Vec<&[u8]> =
                found.range(range_of(stored_run(*number).filter)).map(|(key, _)| &key[8..]).collect();
            for (index, segment) in segments.iter().enumerate() {
                let next = segments.get(index + 1).map_or_else(|| everything().end, |next| next.to_vec());
                let is_used = rows.range(segment.to_vec()..next).next().is_some();
                assert!(is_used, "{context}: nothing is left of segment {index} of run {number}");
            }
        }
    }

    /// Rows, runs and list are all there; there are no filters.
    pub(crate) fn assert_contents(&self, tree: &Tree, context: &str) {
        let mut expected: Changes =
            self.main.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        for (number, rows) in &self.runs {
            let run = stored_run(*number);
            expected.insert(run.listed.clone(), Some(vec![1; 88]));
            expected.extend(rows.iter().map(|(key, value)| (run.key(key), value.clone())));
        }
        assert_contains(tree, &expected, context);
    }

    /// Rows, runs and list are all there and nothing else, except that what is left of filters may be more than is needed.
    pub(crate) fn assert_stored(&self, tree: &Tree, context: &str) {
        let mut expected: Changes =
            self.main.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        for (number, rows) in &self.runs {
            let run = stored_run(*number);
            expected.insert(run.listed.clone(), Some(vec![1; 88]));
            expected.extend(rows.iter().map(|(key, value)| (run.key(key), value.clone())));
        }
        // Filters only of runs that are there; each row that is left has its segment.
        let found = contents(tree);
        let filters = found.range(FILTERS.to_be_bytes().to_vec()..);
        for (key, value) in filters {
            let number = u64::from_be_bytes(key[..8].try_into().unwrap()) - FILTERS;
            assert!(self.runs.iter().any(|(run, _)| *run == number), "{context}: a filter of run {number}");
            expected.insert(key.clone(), value.clone());
        }
        assert_contains(tree, &expected, context);
        for (number, rows) in &self.runs {
            let run = stored_run(*number);
            for row_key in rows.keys().step_by(9) {
                let (from, to) =
                    (range_of(run.filter).start, [&run.filter.to_be_bytes()[..], row_key, &[0]].concat());
                let segment = found.range(from..to).next_back();
                let begins = self.segment_begins(*number, row_key, &found);
                assert!(segment.is_some() && begins, "{context}: no segment for a row of run {number}");
            }
        }
    }

    /// Whether the segment before a row is the one that it was written into: none between was cut.
    fn segment_begins(&self, number: u64, row_key: &[u8], found: &Changes) -> bool {
        let Some(of_run) = self.runs.iter().find(|(run, _)| *run == number) else { return false };
        let run = stored_run(number);
        let segment_key = |key: &[u8]| [&run.filter.to_be_bytes(), key].concat();
        let before = found.range(range_of(run.filter).start..=segment_key(row_key)).next_back();
        // At most a segment's rows lie between its start and a row.
        before.is_some_and(|(start, _)| {
            of_run.1.range(start[8..].to_vec()..=row_key.to_vec()).count() <= ROWS_PER_SEGMENT
        })
    }
}

/// Merges a slice of `runs` into `target`, from a key on, with segments for its filter.
pub(crate) fn slice(
    tree: &Arc<Tree>,
    (runs, target): (&[StoredRun], &StoredRun),
    from: &[u8],
    budget_bytes: u64,
    stamp: Lsn,
) -> Result<MergedSlice, TreeError> {
    let mut filter = target.filter_loader(tree, from, stamp);
    let mut count = 0;
    let mut each = |key: &[u8]| {
        if count % ROWS_PER_SEGMENT == 0 {
            let segment = if count == 0 { from } else { key };
            filter.push(&[&target.filter.to_be_bytes(), segment].concat(), &[9; 100])?;
        }
        count += 1;
        Ok(())
    };
    let slice = tree.load_slice((runs, target), from, budget_bytes, &|_| false, &mut each, stamp)?;
    let listed = (slice.rows > 0).then(|| vec![1; 88]);
    tree.swap_slice(slice, (runs, target), listed, Some(filter), stamp)
}

/// Merges all that runs have into the tree.
pub(crate) fn settle(tree: &Arc<Tree>, runs: &[StoredRun], window_bytes: u64) -> Result<(), TreeError> {
    let mut left = runs.len();
    let mut apply = |merged: MergedWindow| {
        left -= merged.emptied.len();
        tree.apply_chunk(merged.chunk, None).map(|_| ())
    };
    tree.settle_runs(&everything(), runs, window_bytes, STAMP, &mut apply)?;
    assert_eq!(left, 0, "each run is emptied once");
    Ok(())
}
