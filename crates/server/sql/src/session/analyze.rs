//! `ANALYZE`: all rows of a table are read once, and statistics of its columns are made of a sample of them.

use std::sync::Arc;

use seawall_engine::LockWait;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::Session;
use crate::execute::{KeyRange, Reservation, ScanRequest, Storage};
use crate::parse::statement::MaintainedTable;
use crate::schema::statistics::TableStatistics;
use crate::schema::statistics::column::column_statistics;
use crate::schema::statistics::sample::{ROWS_OF_TARGET, Sample};
use crate::schema::{Definition, Table};
use crate::storage::table_lock::TableLockMode;

/// Rows between two looks at a request to cancel.
const ROWS_AT_ONCE: usize = 1_024;

/// How an `ANALYZE` treats others.
pub(super) struct Manner<'a> {
    /// How long it waits for a definition of the table that is under way.
    pub(super) lock_wait: LockWait,
    /// Asked again and again whether it is to give up.
    pub(super) is_to_stop: &'a dyn Fn() -> bool,
    /// Nobody has asked for it.
    pub(super) is_automatic: bool,
}

impl Session {
    /// Analyzes tables with their columns (none: all of them); none are named: all that the role may analyze.
    pub(super) fn analyze(&mut self, tables: &[MaintainedTable]) -> SqlResult<()> {
        for named in tables {
            let definition = self.named_relation(&named.name)?;
            if let Some(table) = self.analyzable(&definition)? {
                let columns = columns_of(&table, &named.columns)?;
                self.analyze_table(&table, &columns, &self.asked_for())?;
            }
        }
        if !tables.is_empty() {
            return Ok(());
        }
        let mut after: Oid = 0;
        while let Some(definition) = self.next_definition(after)? {
            after = crate::catalog::oid_of(&definition);
            let Definition::Table(table) = &definition else { continue };
            let is_of_another_session =
                table.is_temporary && table.namespace != self.asker.temporary_namespace;
            if !is_of_another_session && self.analyzable(&definition)?.is_some() {
                let columns = columns_of(table, &[])?;
                self.analyze_table(table, &columns, &self.asked_for())?;
            }
        }
        Ok(())
    }

    fn asked_for(&self) -> Manner<'static> {
        Manner { lock_wait: self.lock_wait(), is_to_stop: &|| false, is_automatic: false }
    }

    /// Analyzes all columns of a table that is still there, in a transaction of its own.
    pub(super) fn analyze_automatically(&mut self, table: Oid, manner: &Manner<'_>) -> SqlResult<()> {
        let as_of = self.begin_statement()?;
        let found = self.with_tables(as_of, |tables| tables.store.definition(tables.transaction, table))?;
        if let Some(Definition::Table(table)) = found {
            let columns = columns_of(&table, &[])?;
            self.analyze_table(&table, &columns, manner)?;
        }
        self.commit()
    }

    fn next_definition(&mut self, after: Oid) -> SqlResult<Option<Definition>> {
        let as_of = self.begin_statement()?;
        self.with_tables(as_of, |tables| tables.store.definition_after(tables.transaction, after))
    }

    /// The table, if it is one that the role may analyze; else a warning says why it is left out.
    fn analyzable(&mut self, definition: &Definition) -> SqlResult<Option<Arc<Table>>> {
        let (name, owner) = match definition {
            // What is known of them is always up to date.
            Definition::System(_) => return Ok(None),
            Definition::Table(table) => (table.name.clone(), table.owner),
            other => {
                let name = crate::catalog::heading(other).name;
                let message =
                    format!("skipping \"{name}\" --- cannot analyze non-tables or special system tables");
                self.warn(SqlState::WARNING, &message);
                return Ok(None);
            }
        };
        if !self.with_definer(|definer| definer.has_role(owner))? {
            let message = format!("skipping \"{name}\" --- only table or database owner can analyze it");
            self.warn(SqlState::WARNING, &message);
            return Ok(None);
        }
        match definition {
            Definition::Table(table) => Ok(Some(Arc::clone(table))),
            _ => Ok(None),
        }
    }

    fn analyze_table(&mut self, table: &Arc<Table>, columns: &[usize], manner: &Manner<'_>) -> SqlResult<()> {
        // Plans that were made before are made again.
        self.open()?.changes_definitions = true;
        let target = self.settings.statistics_target();
        let limits = self.limits();
        let sample = Sample::new(ROWS_OF_TARGET * target, limits.statement_memory / 2);
        let as_of = self.begin_statement()?;
        self.with_tables(as_of, |tables| {
            tables.lock_table(table, TableLockMode::ShareUpdateExclusive, manner.lock_wait)
        })?;
        // As of a moment after another `ANALYZE` that was waited for.
        let as_of = self.begin_statement()?;
        let changes = self.monitor().relations.of(table.oid).changes();
        let (sample, _memory) = self.sampled(as_of, table, columns, sample, manner)?;
        let analyzed_at = (self.settings.values().clock)();
        self.with_tables(as_of, |tables| {
            let before = tables.store.statistics(tables.transaction, table.oid)?;
            let mut statistics = TableStatistics {
                version: 0,
                rows: count(sample.seen()),
                analyzed_at,
                columns: before.map(|before| before.columns.clone()).unwrap_or_default(),
            };
            statistics.columns.resize(table.columns.len(), None);
            for (place, column) in columns.iter().enumerate() {
                let of = table.columns[*column].of;
                let found = column_statistics(sample.values(place), statistics.rows, of, target);
                statistics.columns[*column] = (sample.len() > 0).then_some(found);
            }
            tables.store.put_statistics(tables.transaction, table.oid, statistics)
        })?;
        self.monitor().relations.of(table.oid).note_analyze(changes, analyzed_at, manner.is_automatic);
        Ok(())
    }

    /// Reads the table once; the sample, and what it takes of the memory of all statements.
    fn sampled(
        &mut self,
        as_of: seawall_types::Lsn,
        table: &Arc<Table>,
        columns: &[usize],
        mut sample: Sample,
        manner: &Manner<'_>,
    ) -> SqlResult<(Sample, Reservation)> {
        let mut memory = Reservation::of(Arc::clone(&self.database.memory));
        let cancel = Arc::clone(&self.cancel.requested);
        self.with_tables(as_of, |tables| {
            let request = ScanRequest {
                table,
                index: None,
                range: &KeyRange::default(),
                is_reverse: false,
                columns,
                with_identity: false,
            };
            let mut scan = tables.open_scan(&request)?;
            let mut row = vec![Datum::Null; columns.len()];
            loop {
                if cancel.is_requested() || (manner.is_to_stop)() {
                    return Err(crate::execute::cancelled());
                }
                for _ in 0..ROWS_AT_ONCE {
                    if !scan.next(&mut row)? {
                        return Ok((sample, memory));
                    }
                    sample.push(&row);
                }
                memory.cover(sample.bytes())?;
            }
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn count(rows: u64) -> f64 {
    rows as f64
}

/// Positions of columns with these names; none are given: of all.
fn columns_of(table: &Table, names: &[String]) -> SqlResult<Vec<usize>> {
    let columns = || table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped);
    if names.is_empty() {
        return Ok(columns().map(|(position, _)| position).collect());
    }
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let Some((position, _)) = columns().find(|(_, column)| column.name == *name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        if found.contains(&position) {
            let message = format!("column \"{name}\" of relation \"{}\" appears more than once", table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        found.push(position);
    }
    Ok(found)
}
