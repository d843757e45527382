//! Rows are written again, into another table of the engine: a column gets another type or a computed value, or rows another key.

use std::sync::Arc;

use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::{Definer, about_table};
use crate::catalog::columns_of_expression;
use crate::schema::{Column, ConstraintKind, Definition, Index, RowKey, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::index_entry::IndexLayout;
use crate::storage::new_rows::{NewRows, Repetition};
use crate::storage::row::RowLayout;
use crate::storage::row_check;
use crate::storage::violation;

/// A column whose values are computed: its position, and an expression over the columns as they were; `None`: its default.
pub(super) type Computed<'a> = (usize, Option<&'a str>);

impl Definer<'_> {
    /// Puts a changed table in the place of the old one, and its rows and index entries into new tables of the engine.
    pub(super) fn rewrite(
        &mut self,
        old: &Arc<Table>,
        changed: Table,
        computed: Option<Computed<'_>>,
    ) -> SqlResult<Arc<Table>> {
        let mut changed = changed;
        changed.storage = format!("t{}", self.tables.store.new_oid()?);
        changed.columns.iter_mut().for_each(|column| column.missing = Datum::Null);
        for index in changed.indexes.iter_mut().filter(|index| index.storage.is_some()) {
            let storage = format!("i{}", self.tables.store.new_oid()?);
            *index = Arc::new(Index { storage: Some(storage), ..Index::clone(index) });
        }
        let table = self.put_changed(changed, old)?;
        self.loading(|definer| {
            definer.write_rows_again(old, &table, computed)?;
            table.indexes.iter().try_for_each(|index| definer.enter_rows(&table, index))
        })?;
        self.drop_replaced(old)?;
        Ok(table)
    }

    /// Runs `body`, which fills tables of the engine; after an error those that were loaded go.
    pub(super) fn loading(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<()>) -> SqlResult<()> {
        let outcome = body(self);
        match outcome {
            Ok(()) => self.tables.keep_loads(),
            Err(_) => {
                self.tables.drop_loads();
                outcome
            }
        }
    }

    fn write_rows_again(
        &mut self,
        old: &Arc<Table>,
        table: &Arc<Table>,
        computed: Option<Computed<'_>>,
    ) -> SqlResult<()> {
        let (from, to) = (RowLayout::of(old), RowLayout::of(table));
        let reader = from.whole_reader();
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &old.storage, self.tables.as_of)?;
        let numbers = self.tables.store.row_numbers(&table.storage);
        let mut rows = NewRows::new(&table.storage);
        let mut row = vec![Datum::Null; from.column_count()];
        let mut scan = self.scan_all(&handle)?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            reader.read(identity, value, &mut row)?;
            let mut new = row.clone();
            new.resize(table.columns.len(), Datum::Null);
            if let Some(computed) = computed {
                self.compute(old, table, computed, &row, &mut new)?;
            }
            let (mut identity, mut value) = (Vec::new(), Vec::new());
            if to.is_numbered() {
                let number = numbers.next(self.tables.store, &table.storage)?;
                identity.extend_from_slice(&RowLayout::number_key(number));
            } else {
                to.write_key(&new, &mut identity)?;
            }
            to.write_value(&new, &mut value)?;
            rows.add(&mut self.tables, identity, value)?;
        }
        if rows.finish(&mut self.tables)? { Ok(()) } else { Err(self.repeated_row(old, table, computed)?) }
    }

    /// `23505`: a row that has the primary key of another one.
    fn repeated_row(
        &mut self,
        old: &Arc<Table>,
        table: &Arc<Table>,
        computed: Option<Computed<'_>>,
    ) -> SqlResult<Box<SqlError>> {
        let (from, to) = (RowLayout::of(old), RowLayout::of(table));
        let reader = from.whole_reader();
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &old.storage, self.tables.as_of)?;
        let (mut known, mut key) = (Repetition::default(), Vec::new());
        let mut row = vec![Datum::Null; from.column_count()];
        let mut scan = self.scan_all(&handle)?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            reader.read(identity, value, &mut row)?;
            let mut new = row.clone();
            new.resize(table.columns.len(), Datum::Null);
            if let Some(computed) = computed {
                self.compute(old, table, computed, &row, &mut new)?;
            }
            key.clear();
            to.write_key(&new, &mut key)?;
            if known.is_again(&key)
                && let Some(index) = table.indexes.iter().find(|index| index.is_primary)
            {
                return self.duplicated(&IndexLayout::of(table, index), table, &new);
            }
        }
        Err(SqlError::internal("two rows have one key, but which ones is not found"))
    }

    fn compute(
        &mut self,
        old: &Arc<Table>,
        table: &Arc<Table>,
        (position, using): Computed<'_>,
        row: &[Datum],
        new: &mut [Datum],
    ) -> SqlResult<()> {
        let column = &table.columns[position];
        let expressions = &mut *self.tables.expressions;
        new[position] = match (using, &column.generated) {
            (Some(using), _) => expressions.assign(old, using, column, row)?,
            (None, Some(generated)) => expressions.assign(table, generated, column, new)?,
            (None, None) => self.default_of_new(table, position, new)?,
        };
        if column.is_not_null && new[position].is_null() {
            return Err(self.contains_nulls(table, position)?);
        }
        for constraint in table.constraints.iter().filter(|constraint| constraint.is_validated) {
            if let ConstraintKind::Check(condition) = &constraint.kind
                && columns_of_expression(table, condition).contains(&position)
                && matches!(self.tables.expressions.evaluate(table, condition, new)?, Datum::Bool(false))
            {
                return Err(self.violated(table, &constraint.name)?);
            }
        }
        Ok(())
    }

    /// The default of a column that is added, for one row.
    fn default_of_new(&mut self, table: &Arc<Table>, position: usize, row: &mut [Datum]) -> SqlResult<Datum> {
        let column = &table.columns[position];
        let default = row_check::default_text(column, self.tables.settings)?;
        let sequence = match column.identity {
            Some(_) => Some(column.sequence),
            None => default.and_then(counted_sequence),
        };
        if let Some(sequence) = sequence {
            row[position] = self.next_value(sequence, column)?;
            row_check::allowed(table, position, row, self.tables.expressions)?;
            return Ok(row[position].clone());
        }
        match default {
            Some(default) => self.tables.expressions.assign(table, default, column, row),
            None => Ok(Datum::Null),
        }
    }

    /// The next value of a sequence, for a column.
    fn next_value(&mut self, sequence: Oid, column: &Column) -> SqlResult<Datum> {
        let store = self.tables.store;
        let Some(Definition::Sequence(sequence)) = store.definition(self.tables.transaction, sequence)?
        else {
            return Err(SqlError::internal("a column has no sequence"));
        };
        let value = self.tables.session.sequences.next_value(store, &sequence)?;
        let kind = crate::storage::kind::Kind::of(column.of.oid);
        crate::storage::key::converted(kind, &Datum::Int8(value))
            .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))
    }

    /// `23505`: two rows have one key of an index.
    pub(super) fn duplicated(
        &mut self,
        index: &IndexLayout,
        table: &Arc<Table>,
        row: &[Datum],
    ) -> SqlResult<Box<SqlError>> {
        let schema = self.tables.schema_of(table)?;
        let values = index.values(table, row, self.tables.expressions)?;
        Ok(violation::duplicated_key(&schema, table, &index.index, &values, self.tables.settings))
    }

    /// `23502`: rows that are there have a null in the column.
    pub(super) fn contains_nulls(&mut self, table: &Table, position: usize) -> SqlResult<Box<SqlError>> {
        let column = &table.columns[position].name;
        let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
        let mut about = about_table(self.tables.schema_of(table)?, table);
        about.column = Some(column.clone());
        Ok(SqlError::new(SqlState::NOT_NULL_VIOLATION, message).about(about))
    }

    /// `23514`: rows that are there do not meet a condition.
    pub(super) fn violated(&mut self, table: &Table, name: &str) -> SqlResult<Box<SqlError>> {
        let message =
            format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
        let mut about = about_table(self.tables.schema_of(table)?, table);
        about.constraint = Some(name.to_owned());
        Ok(SqlError::new(SqlState::CHECK_VIOLATION, message).about(about))
    }

    /// Drops the engine's tables that the old definition of a table names, but for those of indexes that went before.
    fn drop_replaced(&mut self, old: &Table) -> SqlResult<()> {
        self.tables.transaction.drop_table(&old.storage).sql()?;
        let current = self.tables.table(old.oid)?;
        let is_kept = |index: &Index| current.indexes.iter().any(|known| known.oid == index.oid);
        for index in old.indexes.iter().filter(|index| is_kept(index)) {
            if let Some(storage) = &index.storage {
                self.tables.transaction.drop_table(storage).sql()?;
            }
        }
        if old.key == RowKey::Number {
            self.tables.store.discard_row_numbers(self.tables.transaction, &old.storage)?;
        }
        Ok(())
    }
}

/// The sequence whose next value a default is, if it is nothing else.
fn counted_sequence(default: &str) -> Option<Oid> {
    default.strip_prefix("nextval('")?.strip_suffix("'::regclass)")?.parse().ok()
}
