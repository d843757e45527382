//! Writing a run: the rows of a frozen memtable that are sparse in the tree, once and in order.
//!
//! ```text
//!   rows, deletions --> leaves on fresh pages --+
//!        |                                      +--> one chunk links both --> last chunk of the checkpoint: the row that
//!        +------------> segments of its filter -+                             lists the run, and the redo point
//! ```
//!
//! | what is done                         | what the power leaves if it goes then                                              |
//! |--------------------------------------|------------------------------------------------------------------------------------|
//! | its number is drawn, in the superblock | the old state: the number is never drawn again                                   |
//! | leaves are written                   | free pages: nothing refers to them                                                 |
//! | one chunk links leaves and filter    | a run that the list lacks. Nobody reads it, and the first checkpoint after an open cuts it out (`unlisted`) |
//! | the last chunk lists it              | the run and the redo point behind its rows, together                               |
//!
//! A checkpoint that fails in between leaves the same behind, and the next one cuts it out first.

use std::sync::Arc;

use seawall_tree::{BulkLoader, Change, MergeSource, OldValues, Part, Tree};
use seawall_types::{Lsn, TableId};

use crate::checkpoint::merge_source::FrozenRows;
use crate::checkpoint::statistics::Totals;
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::pacing::merge_pace::MergePace;
use crate::row_key;
use crate::runs::filter::{BuiltSegment, Filter, FilterBuilder};
use crate::runs::run::{DESCRIPTOR_BYTES, Run, RunDescriptor, RunNumber};
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::view::Frozen;

/// So many rows are written between two looks at the pace.
const ROWS_AT_ONCE: u64 = 4096;

impl Engine {
    /// Writes `rows` of a frozen memtable as a run, and links it into the tree; `None` if there are none. It is not listed yet.
    pub(crate) fn write_run(
        &self,
        state: &mut CheckpointState,
        (frozen, number): (&Frozen, RunNumber),
        mut rows: FrozenRows<'_>,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<Option<Arc<Run>>, Error> {
        let failed = |error| Error::tree(&error);
        let before = self.clock().monotonic();
        let mut writer =
            RunWriter::begin(&self.tree, number, self.options.checkpoint.runs.filter_bits, frozen.end);
        while let Some((row_key, change)) = rows.peek() {
            writer.push(row_key, change).map_err(failed)?;
            rows.advance();
            if rows.taken().is_multiple_of(ROWS_AT_ONCE) {
                pace.rows_done(totals.rows + rows.taken(), totals.written_bytes() + writer.leaf_bytes());
            }
        }
        let Some(written) = writer.finish(frozen.start, self.clock().wall_micros()).map_err(failed)? else {
            return Ok(None);
        };
        totals.durations.merge += self.clock().monotonic().saturating_sub(before);
        // Before it is there. If the checkpoint fails before it is listed, the next one must not take the rest for gone.
        state.unlisted_runs_are_gone = false;
        let plan = self.tree.swap(written.parts, &[], frozen.end).map_err(failed)?;
        self.apply_chunk(plan, None, totals)?;
        totals.add_run(written.run.descriptor.rows, written.leaves, written.bytes);
        pace.chunk_done(totals.rows, totals.written_bytes());
        Ok(Some(Arc::new(written.run)))
    }
}

/// A run whose leaves are built.
struct BuiltRun {
    run: Run,
    /// What links it into the tree.
    parts: Vec<Part>,
    /// With those of its filter.
    leaves: u64,
    /// Of these.
    bytes: u64,
}

/// Builds the leaves of a run beside the tree. Dropping it gives their pages back.
struct RunWriter {
    number: RunNumber,
    end: Lsn,
    filter_bits: u16,
    page_bytes: u64,
    rows: Box<BulkLoader>,
    filter_rows: Box<BulkLoader>,
    filter_builder: Option<FilterBuilder>,
    filter: Filter,
    row_key: Vec<u8>,
    deletions: u64,
    row_bytes: u64,
    filter_bytes: u64,
    /// The first storage that it has rows of, and the last one.
    storages: Option<(TableId, TableId)>,
}

impl RunWriter {
    fn begin(tree: &Arc<Tree>, number: RunNumber, filter_bits: u16, end: Lsn) -> RunWriter {
        let loader = |table: TableId| {
            let (from, to) = row_key::table_range(table);
            Box::new(tree.bulk_loader(&from, &to, end))
        };
        let inline_bytes_max = tree.format().max_inline_value_bytes();
        RunWriter {
            number,
            end,
            filter_bits,
            page_bytes: tree.format().page_bytes() as u64,
            rows: loader(number.rows_table()),
            filter_rows: loader(number.filter_table()),
            filter_builder: (filter_bits > 0).then(|| FilterBuilder::new(filter_bits, inline_bytes_max)),
            filter: Filter::default(),
            row_key: Vec::new(),
            deletions: 0,
            row_bytes: 0,
            filter_bytes: 0,
            storages: None,
        }
    }

    fn push(&mut self, row_key: &[u8], change: Change<'_>) -> Result<(), seawall_tree::TreeError> {
        row_key::encode_into(&mut self.row_key, self.number.rows_table(), row_key);
        self.rows.push_change(&self.row_key, change)?;
        self.row_bytes += row_key.len() as u64;
        match change {
            Change::Put(value) => self.row_bytes += value.len() as u64,
            Change::Delete => self.deletions += 1,
        }
        let storage = row_key::table_of(row_key).expect("each row key begins with a table");
        self.storages = Some((self.storages.map_or(storage, |(first, _)| first), storage));
        let is_forgotten = sabotaged(Defect::RunFilterForgets) && self.rows.row_count().is_multiple_of(64);
        match &mut self.filter_builder {
            Some(builder) if !is_forgotten => {
                let full = builder.push(row_key);
                self.add_segment(full)
            }
            _ => Ok(()),
        }
    }

    fn add_segment(&mut self, segment: Option<BuiltSegment>) -> Result<(), seawall_tree::TreeError> {
        let Some(segment) = segment else { return Ok(()) };
        self.filter_bytes += segment.value.len() as u64;
        row_key::encode_into(&mut self.row_key, self.number.filter_table(), &segment.separator);
        self.filter_rows.push(&self.row_key, &segment.value)?;
        self.filter.add(segment);
        Ok(())
    }

    /// Leaves so far, with those of the filter.
    fn leaf_count(&self) -> u64 {
        self.rows.leaf_count() + self.filter_rows.leaf_count()
    }

    fn leaf_bytes(&self) -> u64 {
        self.leaf_count() * self.page_bytes
    }

    /// `None` if it has no rows. `start` is where the memtable begins.
    fn finish(
        mut self,
        start: Lsn,
        written_micros: i64,
    ) -> Result<Option<BuiltRun>, seawall_tree::TreeError> {
        let Some((first_storage, last_storage)) = self.storages else { return Ok(None) };
        let last = self.filter_builder.take().and_then(FilterBuilder::finish);
        self.add_segment(last)?;
        let (leaves, bytes) = (self.leaf_count(), self.leaf_bytes());
        let descriptor = RunDescriptor {
            level: 0,
            filter_bits: if self.filter_bytes > 0 { self.filter_bits } else { 0 },
            start,
            end: self.end,
            rows: self.rows.row_count(),
            deletions: self.deletions,
            leaves: self.rows.leaf_count(),
            row_bytes: self.row_bytes,
            first_storage,
            last_storage,
            filter_bytes: self.filter_bytes,
            written_micros,
        };
        let run = Run::new(self.number, descriptor);
        let mut parts = Vec::new();
        if sabotaged(Defect::RunListedEarly) {
            parts.push(Part::Put { key: run.number.list_key(), value: run.descriptor.encode().to_vec() });
        }
        parts.push(Part::Graft { load: self.rows, values: OldValues::Free });
        if self.filter_bytes > 0 {
            run.set_filter(Some(self.filter));
            parts.push(Part::Graft { load: self.filter_rows, values: OldValues::Free });
        }
        Ok(Some(BuiltRun { run, parts, leaves, bytes }))
    }
}

/// The changes of the last chunk of a checkpoint: rows of the system, and behind them the row that lists its run.
pub(crate) struct WithListed<'c, 'm> {
    rows: &'c mut FrozenRows<'m>,
    listed: Option<(Vec<u8>, [u8; DESCRIPTOR_BYTES])>,
}

impl<'c, 'm> WithListed<'c, 'm> {
    pub(crate) fn new(rows: &'c mut FrozenRows<'m>, run: Option<&Run>) -> WithListed<'c, 'm> {
        let run = run.filter(|_| !sabotaged(Defect::RunNotListed) && !sabotaged(Defect::RunListedEarly));
        WithListed { rows, listed: run.map(|run| (run.number.list_key(), run.descriptor.encode())) }
    }
}

impl MergeSource for WithListed<'_, '_> {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        let listed = || self.listed.as_ref().map(|(key, value)| (&key[..], Change::Put(value)));
        self.rows.peek().or_else(listed)
    }

    fn advance(&mut self) {
        if self.rows.is_done() {
            self.listed = None;
        } else {
            self.rows.advance();
        }
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        self.rows.look_ahead(visit);
    }

    fn keep_replaced(&self) -> bool {
        // No snapshot reads the list.
        !self.rows.is_done() && self.rows.keep_replaced()
    }

    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.rows.replaced(key, value);
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::{PowerLoss, SimulatedDisk};

    use crate::runs::list::unlisted_tables;
    use crate::runs::run::RunNumber;
    use crate::runs::testing::open;

    const ROWS: u64 = 2_000;

    #[test]
    fn the_number_of_a_run_is_stored_before_its_leaves() {
        let base = SimulatedDisk::new(1);
        let database = open(&base).unwrap();
        let mut load = database.tables().bulk_load("t").unwrap();
        (0..ROWS).for_each(|number| load.add(number.to_be_bytes(), [1; 300]).unwrap());
        let table = load.finish().unwrap();
        database.checkpoint().unwrap();
        for number in (0..ROWS).step_by(15) {
            database.put(&table, number.to_be_bytes(), [2; 30]).unwrap();
        }
        base.crash();
        drop((table, database));
        let base = base.after_power_loss(PowerLoss::LoseAll);
        let (mut unlisted_count, mut listed_count) = (0, 0);
        for call in 0.. {
            let disk = base.copy();
            let database = open(&disk).unwrap();
            disk.crash_at(disk.calls() + call);
            let is_done = database.checkpoint().is_ok();
            disk.crash();
            drop(database);
            let disk = disk.after_power_loss(PowerLoss::LoseAll);
            let database = open(&disk).unwrap();
            let engine = database.engine();
            let numbers: Vec<RunNumber> =
                (0..engine.redo.superblock().next_run).filter_map(RunNumber::new).collect();
            let unlisted = unlisted_tables(&engine.tree, &engine.view().runs).unwrap();
            for table in &unlisted {
                let is_of =
                    |number: &RunNumber| *table == number.rows_table() || *table == number.filter_table();
                assert!(
                    numbers.iter().any(is_of),
                    "call {call}: the number of table {table} may be drawn again"
                );
            }
            unlisted_count += u32::from(!unlisted.is_empty());
            listed_count += u32::from(!engine.view().runs.is_empty());
            disk.crash();
            drop(database);
            if is_done {
                break;
            }
        }
        assert!(unlisted_count > 0 && listed_count > 0, "{unlisted_count} unlisted, {listed_count} listed");
    }
}
