//! Rows in order: in memory, or as sorted runs in temporary files that are merged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use seawall_values::{Datum, SqlResult};

use super::super::compare::{Key, compare_rows};
use super::super::context::Context;
use super::super::memory::{Share, values_bytes};
use super::super::spill::{SpillFile, SpillReader};

/// How many runs are merged at a time: each has a buffer.
const MERGED_RUNS_MAX: usize = 64;

/// A row that is sorted.
pub(crate) type Row = Box<[Datum]>;

/// Takes rows, then gives them in order; equal rows as they came.
pub(crate) struct Sorter {
    /// `at` is a position in a row.
    keys: Arc<[Key]>,
    /// Only so many rows are wanted.
    wanted: Option<usize>,
    /// The first rows, as many as are wanted, are in order, and the best so far.
    is_cut: bool,
    rows: Vec<Row>,
    share: Share,
    runs: Vec<SpillFile>,
    output: Option<Output>,
}

enum Output {
    Memory(std::vec::IntoIter<Row>),
    Merge(Merge),
}

impl Sorter {
    pub(crate) fn new(keys: impl Into<Arc<[Key]>>) -> Sorter {
        Sorter {
            keys: keys.into(),
            wanted: None,
            is_cut: false,
            rows: Vec::new(),
            share: Share::default(),
            runs: Vec::new(),
            output: None,
        }
    }

    /// Only the first rows are wanted.
    pub(crate) fn limit(&mut self, wanted: usize) {
        self.wanted = Some(wanted);
        self.is_cut = false;
    }

    pub(crate) fn push(&mut self, row: Vec<Datum>, context: &mut Context<'_>) -> SqlResult<()> {
        if let Some(wanted) = self.wanted {
            if wanted == 0 {
                return Ok(());
            }
            if self.is_cut && compare_rows(&self.keys, &row, &self.rows[wanted - 1]) != Ordering::Less {
                return Ok(());
            }
            // Twice as many as are wanted, then the worse half goes: a sort for each `wanted` rows.
            if self.rows.len() >= wanted.saturating_mul(2).max(64) && self.runs.is_empty() {
                self.keep_best(wanted, context)?;
            }
        }
        let bytes = values_bytes(&row) + size_of::<Row>();
        self.rows.push(row.into_boxed_slice());
        self.share.grow(&mut context.state.memory, bytes)?;
        if context.state.memory.is_to_spill(self.share.bytes()) {
            self.spill(context)?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let keys = &*self.keys;
        self.rows.sort_by(|left, right| compare_rows(keys, left, right));
    }

    fn keep_best(&mut self, wanted: usize, context: &mut Context<'_>) -> SqlResult<()> {
        self.sort();
        self.rows.truncate(wanted);
        self.is_cut = true;
        let bytes = self.rows.iter().map(|row| values_bytes(row) + size_of::<Row>()).sum();
        self.share.set(&mut context.state.memory, bytes)
    }

    fn spill(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        context.check_cancelled()?;
        self.sort();
        self.is_cut = false;
        if let Some(wanted) = self.wanted {
            self.rows.truncate(wanted);
        }
        let mut run = SpillFile::create(&context.state.memory.limits().temporary_files)?;
        for row in self.rows.drain(..) {
            run.push(&row)?;
        }
        run.finish()?;
        self.share.clear(&mut context.state.memory);
        self.runs.push(run);
        Ok(())
    }

    /// The next row, after the last `push`.
    pub(crate) fn next(&mut self, context: &mut Context<'_>) -> SqlResult<Option<Row>> {
        if self.output.is_none() {
            self.output = Some(self.finish(context)?);
        }
        match &mut self.output {
            Some(Output::Memory(rows)) => Ok(rows.next()),
            Some(Output::Merge(merge)) => merge.next(),
            None => Ok(None),
        }
    }

    fn finish(&mut self, context: &mut Context<'_>) -> SqlResult<Output> {
        if self.runs.is_empty() {
            self.sort();
            self.is_cut = false;
            return Ok(Output::Memory(std::mem::take(&mut self.rows).into_iter()));
        }
        if !self.rows.is_empty() {
            self.spill(context)?;
        }
        while self.runs.len() > MERGED_RUNS_MAX {
            let rest = self.runs.split_off(MERGED_RUNS_MAX);
            let mut merge = Merge::new(self.keys.clone(), std::mem::replace(&mut self.runs, rest))?;
            let mut run = SpillFile::create(&context.state.memory.limits().temporary_files)?;
            while let Some(row) = merge.next()? {
                context.tick()?;
                run.push(&row)?;
            }
            run.finish()?;
            // In front, so that equal rows stay in the order in which they came.
            self.runs.insert(0, run);
        }
        Ok(Output::Merge(Merge::new(self.keys.clone(), std::mem::take(&mut self.runs))?))
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, context: &mut Context<'_>) {
        self.rows.clear();
        self.is_cut = false;
        self.runs.clear();
        self.output = None;
        self.share.clear(&mut context.state.memory);
    }
}

/// A merge of sorted runs.
struct Merge {
    keys: Arc<[Key]>,
    runs: Vec<(SpillFile, SpillReader)>,
    heads: BinaryHeap<Reverse<Head>>,
}

/// The first row of a run that is left.
struct Head {
    keys: Arc<[Key]>,
    row: Row,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        compare_rows(&self.keys, &self.row, &other.row).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl Merge {
    fn new(keys: Arc<[Key]>, runs: Vec<SpillFile>) -> SqlResult<Merge> {
        let runs: Vec<_> = runs.into_iter().map(|run| (run, SpillReader::default())).collect();
        let mut merge = Merge { keys, heads: BinaryHeap::with_capacity(runs.len()), runs };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> SqlResult<()> {
        let (file, reader) = &mut self.runs[run];
        let mut row = Vec::new();
        if reader.next(file, &mut row)? {
            let row = row.into_boxed_slice();
            self.heads.push(Reverse(Head { keys: self.keys.clone(), row, run }));
        }
        Ok(())
    }

    fn next(&mut self) -> SqlResult<Option<Row>> {
        let Some(Reverse(head)) = self.heads.pop() else { return Ok(None) };
        self.advance(head.run)?;
        Ok(Some(head.row))
    }
}
