//! Foreign keys: rows that refer to rows of another table, or of the same.
//!
//! ```text
//!   referring row written --> the row that it refers to is there, and locked? --no--> queue
//!   referred row deleted, or its key changed ---------------------------------------> queue
//!
//!   queue --end of the statement, or of the transaction (DEFERRED)--> look again; refuse, or act on the referring rows --+
//!     ^                                                                                                                  |
//!     +------------------------------------------------------------------------------------------------------------------+
//! ```
//! Whoever refers to a row shares the lock of its key until the end of the transaction, so nobody else deletes the row or changes its key
//! meanwhile; other rows may refer to it, and its other columns may change. Whoever deletes a row looks for those that refer to it at a moment after the lock was taken, and sees all that were committed before.

mod action;
mod referrers;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_engine::{RowLock, Table as EngineTable};
use seawall_types::Lsn;
use seawall_values::{Datum, Oid, SqlError, SqlResult};

use crate::schema::store::find_index;
use crate::schema::{Constraint, ConstraintKind, ForeignKey, IndexedValue, ReferentialAction, RowKey, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::key::{KeyPart, converted};
use crate::storage::kind::Kind;
use crate::storage::layout::TableLayout;
use crate::storage::table_lock::TableLockMode;
use crate::storage::table_storage::TableStorage;
use crate::storage::value::write_value;
use crate::storage::violation;

/// Something that a foreign key, or a unique key that is deferrable, has to look at.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// The referring table.
    pub(super) table: Oid,
    pub(super) constraint: Oid,
    /// `DEFERRABLE`, and by itself `INITIALLY DEFERRED`; an action other than `NO ACTION` is neither.
    pub(super) is_deferrable: bool,
    pub(super) is_deferred: bool,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// A row refers to one that was not there.
    Referrer { identity: Vec<u8> },
    /// A row has gone, or has another key (`new`).
    Referred { old: Vec<Datum>, new: Option<Vec<Datum>> },
    /// As `Referred`, after its action: nothing may refer to it now.
    Acted { old: Vec<Datum> },
    /// A key that two rows have.
    Key { key: Vec<u8> },
}

/// Events of a session's transaction.
#[derive(Debug, Default)]
pub struct ForeignKeyQueue {
    /// Of the statement under way.
    statement: Vec<Event>,
    /// For the end of the transaction. An event that `SET CONSTRAINTS` has looked at stays: a rollback to a savepoint may undo what it saw.
    transaction: Vec<Event>,
    modes: Modes,
}

/// What `SET CONSTRAINTS` has said.
#[derive(Clone, Debug, Default)]
struct Modes {
    all: Option<bool>,
    by_constraint: FxHashMap<Oid, bool>,
}

impl Modes {
    fn is_deferred(&self, event: &Event) -> bool {
        let set = self.by_constraint.get(&event.constraint).copied().or(self.all);
        event.is_deferrable && set.unwrap_or(event.is_deferred)
    }
}

/// A moment of the queue, to return to with a savepoint.
#[derive(Clone, Debug)]
pub struct QueueMark {
    transaction: usize,
    modes: Modes,
}

impl ForeignKeyQueue {
    pub(super) fn push(&mut self, event: Event) {
        self.statement.push(event);
    }

    /// Whether the end of the transaction has something to look at.
    pub fn has_deferred(&self) -> bool {
        !self.transaction.is_empty()
    }

    /// Whether something is still to look at rows of a table that refers to others.
    pub(crate) fn has_events_of(&self, table: Oid) -> bool {
        self.statement.iter().chain(&self.transaction).any(|event| event.table == table)
    }

    /// `SET CONSTRAINTS`: these, or all (`None`). What was deferred and is not any more, the caller has looked at by
    /// [`TableStorage::check_deferred`].
    pub fn set_mode(&mut self, constraints: Option<&[Oid]>, is_deferred: bool) {
        match constraints {
            None => self.modes = Modes { all: Some(is_deferred), by_constraint: FxHashMap::default() },
            Some(constraints) => {
                self.modes
                    .by_constraint
                    .extend(constraints.iter().map(|constraint| (*constraint, is_deferred)));
            }
        }
    }

    /// This moment.
    pub fn mark(&self) -> QueueMark {
        QueueMark { transaction: self.transaction.len(), modes: self.modes.clone() }
    }

    /// Back to a moment: what was queued since is forgotten.
    pub fn return_to(&mut self, mark: &QueueMark) {
        self.statement.clear();
        self.transaction.truncate(mark.transaction);
        self.modes = mark.modes.clone();
    }

    /// The transaction has ended.
    pub fn clear(&mut self) {
        *self = ForeignKeyQueue::default();
    }
}

/// The foreign key among the constraints of a table with this number.
fn foreign_key_of(table: &Table, constraint: Oid) -> SqlResult<(&Constraint, &ForeignKey)> {
    let found = table.constraints.iter().find(|known| known.oid == constraint);
    match found.map(|found| (found, &found.kind)) {
        Some((found, ConstraintKind::ForeignKey(key))) => Ok((found, key)),
        _ => Err(SqlError::internal(format!("no foreign key has the number {constraint}"))),
    }
}

fn values_at(row: &[Datum], columns: &[usize]) -> Vec<Datum> {
    columns.iter().map(|column| row[*column].clone()).collect()
}

/// Values of columns as bytes: two rows with the same ones are equal there.
fn encoded(table: &Table, columns: &[usize], values: &[Datum]) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::new();
    for (column, value) in columns.iter().zip(values) {
        KeyPart::nullable(Kind::of(table.columns[*column].of.oid), false, false).write(value, &mut bytes)?;
    }
    Ok(bytes)
}

fn has_changed(table: &Table, columns: &[usize], old: &[Datum], new: &[Datum]) -> SqlResult<bool> {
    let (old, new) = (values_at(old, columns), values_at(new, columns));
    Ok(encoded(table, columns, &old)? != encoded(table, columns, &new)?)
}

/// Whether values differ at all, such as 0 and -0: those that refer to them follow.
fn looks_different(columns: &[usize], old: &[Datum], new: &[Datum]) -> SqlResult<bool> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for column in columns {
        write_value(Kind::Tagged, &old[*column], &mut before)?;
        write_value(Kind::Tagged, &new[*column], &mut after)?;
    }
    Ok(before != after)
}

impl TableStorage<'_> {
    pub(super) fn after_insert(
        &mut self,
        layout: &TableLayout,
        identity: &[u8],
        row: &[Datum],
    ) -> SqlResult<()> {
        if !layout.shape.has_foreign_keys {
            return Ok(());
        }
        let table = Arc::clone(&layout.shape.table);
        for constraint in &table.constraints {
            if let ConstraintKind::ForeignKey(key) = &constraint.kind {
                self.refer(&table, constraint, key, identity, row)?;
            }
        }
        Ok(())
    }

    pub(super) fn after_update(
        &mut self,
        layout: &TableLayout,
        (before, identity): (&[u8], &[u8]),
        old: &[Datum],
        new: &[Datum],
    ) -> SqlResult<()> {
        let table = Arc::clone(&layout.shape.table);
        if layout.shape.has_foreign_keys {
            // What is queued of the row as it was does not find it under another key.
            let is_lost = before != identity && self.session.foreign_keys.has_events_of(table.oid);
            for constraint in &table.constraints {
                if let ConstraintKind::ForeignKey(key) = &constraint.kind
                    && (is_lost || has_changed(&table, &key.columns, old, new)?)
                {
                    self.refer(&table, constraint, key, identity, new)?;
                }
            }
        }
        for (child, constraint) in layout.shape.referring.iter().copied() {
            let child = self.table(child)?;
            let (constraint, key) = foreign_key_of(&child, constraint)?;
            if looks_different(&key.target_columns, old, new)? {
                self.leave(&child, constraint, key, old, Some(new));
            }
        }
        Ok(())
    }

    pub(super) fn after_delete(&mut self, layout: &TableLayout, old: &[Datum]) -> SqlResult<()> {
        for (child, constraint) in layout.shape.referring.iter().copied() {
            let child = self.table(child)?;
            let (constraint, key) = foreign_key_of(&child, constraint)?;
            self.leave(&child, constraint, key, old, None);
        }
        Ok(())
    }

    /// A row refers to another one: it is there, or the queue will look.
    fn refer(
        &mut self,
        table: &Arc<Table>,
        constraint: &Constraint,
        key: &ForeignKey,
        identity: &[u8],
        row: &[Datum],
    ) -> SqlResult<()> {
        let values = values_at(row, &key.columns);
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if key.is_match_full && nulls > 0 && nulls < values.len() {
            let schema = self.schema_of(table)?;
            return Err(violation::partly_null(&schema, table, constraint));
        }
        if nulls == 0 && !self.lock_target(key, &values)? {
            self.session.foreign_keys.statement.push(Event {
                table: table.oid,
                constraint: constraint.oid,
                is_deferrable: constraint.is_deferrable,
                is_deferred: constraint.is_deferred,
                what: What::Referrer { identity: identity.to_vec() },
            });
        }
        Ok(())
    }

    /// `23503` if a row does not refer to one that is there.
    pub(crate) fn check_reference(
        &mut self,
        table: &Arc<Table>,
        constraint: Oid,
        row: &[Datum],
    ) -> SqlResult<()> {
        let (constraint, key) = foreign_key_of(table, constraint)?;
        let values = values_at(row, &key.columns);
        let nulls = values.iter().filter(|value| value.is_null()).count();
        let schema = self.schema_of(table)?;
        if key.is_match_full && nulls > 0 && nulls < values.len() {
            return Err(violation::partly_null(&schema, table, constraint));
        }
        if nulls > 0 || self.lock_target(key, &values)? {
            return Ok(());
        }
        let target = self.table(key.target)?;
        Err(violation::missing_target(&schema, (table, constraint, key), &target, &values, self.settings))
    }

    /// A row that others may refer to has gone, or has another key.
    fn leave(
        &mut self,
        child: &Table,
        constraint: &Constraint,
        key: &ForeignKey,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) {
        let old = values_at(old, &key.target_columns);
        if old.iter().any(Datum::is_null) {
            return;
        }
        let action = if new.is_some() { key.on_update } else { key.on_delete };
        let may_wait = action == ReferentialAction::NoAction;
        let new = new.map(|new| values_at(new, &key.target_columns));
        self.session.foreign_keys.statement.push(Event {
            table: child.oid,
            constraint: constraint.oid,
            is_deferrable: constraint.is_deferrable && may_wait,
            is_deferred: constraint.is_deferred && may_wait,
            what: What::Referred { old, new },
        });
    }

    /// Locks the key of the row that values of a foreign key refer to; `false`: there is none.
    fn lock_target(&mut self, key: &ForeignKey, values: &[Datum]) -> SqlResult<bool> {
        let target = self.table(key.target)?;
        self.lock_table(&target, TableLockMode::RowShare, self.lock_wait)?;
        let Some((handle, bytes)) = self.target_key(&target, key, values)? else { return Ok(false) };
        self.transaction.lock_existing_row(&handle, &bytes, self.lock_wait).sql()
    }

    /// The engine's table, and the key in it, of the row or index entry that values of a foreign key refer to; `None`: no row can have
    /// such a key.
    fn target_key(
        &mut self,
        target: &Arc<Table>,
        key: &ForeignKey,
        values: &[Datum],
    ) -> SqlResult<Option<(EngineTable, Vec<u8>)>> {
        let layout = self.layout(target)?;
        let index = find_index(target, key.target_index)
            .ok_or_else(|| SqlError::internal("a foreign key refers to an index that is not there"))?;
        let value_of = |column: usize| {
            let position = key.target_columns.iter().position(|target| *target == column);
            position
                .and_then(|position| converted(Kind::of(target.columns[column].of.oid), &values[position]))
        };
        let mut bytes = Vec::new();
        if index.storage.is_none() {
            let RowKey::Columns(columns) = &target.key else {
                return Err(SqlError::internal("a primary key without columns"));
            };
            for column in columns {
                let Some(value) = value_of(column.column) else { return Ok(None) };
                let kind = Kind::of(target.columns[column.column].of.oid);
                KeyPart::not_null(kind, column.is_descending).write(&value, &mut bytes)?;
            }
            return Ok(Some((layout.handle.clone(), bytes)));
        }
        let position = layout.shape.indexes.iter().position(|known| known.index.oid == index.oid);
        let position = position.ok_or_else(|| SqlError::internal("an index without entries"))?;
        for (key, part) in index.keys.iter().zip(layout.shape.indexes[position].parts()) {
            let IndexedValue::Column(column) = key.what else {
                return Err(SqlError::internal("a foreign key refers to an expression"));
            };
            let Some(value) = value_of(column) else { return Ok(None) };
            part.write(&value, &mut bytes)?;
        }
        Ok(Some((layout.index_handles[position].clone(), bytes)))
    }

    /// The end of a statement: looks at what it has queued, and acts. What is deferred waits for the end of the transaction.
    ///
    /// # Errors
    /// `23503`, and those of the changes that are made.
    pub fn finish_statement(&mut self) -> SqlResult<()> {
        let events = std::mem::take(&mut self.session.foreign_keys.statement);
        let modes = self.session.foreign_keys.modes.clone();
        let (deferred, due): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|event| modes.is_deferred(event));
        self.session.foreign_keys.transaction.extend(deferred);
        self.work_off(due)
    }

    /// `SET CONSTRAINTS .. IMMEDIATE`: looks at what was deferred by these constraints, or by all (`None`).
    ///
    /// # Errors
    /// `23503`.
    pub fn check_deferred(&mut self, constraints: Option<&[Oid]>) -> SqlResult<()> {
        let is_meant =
            |event: &&Event| constraints.is_none_or(|constraints| constraints.contains(&event.constraint));
        let events: Vec<_> = self.session.foreign_keys.transaction.iter().filter(is_meant).cloned().collect();
        self.work_off(events)
    }

    /// The end of the transaction, before its commit or its prepare: looks at all that was deferred.
    ///
    /// # Errors
    /// As `finish_statement`.
    pub fn finish_transaction(&mut self) -> SqlResult<()> {
        let events = std::mem::take(&mut self.session.foreign_keys.transaction);
        self.work_off(events)
    }

    /// Looks at events, then at those that this has made.
    fn work_off(&mut self, mut due: Vec<Event>) -> SqlResult<()> {
        while !due.is_empty() {
            if due.iter().any(|event| matches!(event.what, What::Referred { .. } | What::Acted { .. })) {
                // What was committed before the referred rows were locked, also where it is not visible yet.
                self.database.observe(Lsn::new(u64::MAX));
                self.transaction.begin_statement().sql()?;
            }
            for event in due {
                self.look_at(&event)?;
            }
            due = std::mem::take(&mut self.session.foreign_keys.statement);
        }
        Ok(())
    }

    fn look_at(&mut self, event: &Event) -> SqlResult<()> {
        let table = self.table(event.table)?;
        if let What::Key { key } = &event.what {
            return self.look_at_key(&table, event.constraint, key);
        }
        let (constraint, key) = foreign_key_of(&table, event.constraint)?;
        match &event.what {
            What::Key { .. } => Ok(()),
            What::Referrer { identity } => self.look_at_referrer(&table, constraint, key, identity),
            What::Referred { old, new } => self.act(&table, constraint, key, old, new.as_deref()),
            What::Acted { old } => self.refuse_referrers(&table, constraint, key, old, true),
        }
    }

    /// A row referred to one that was not there: it is now, or the row does not refer to it any more, or that is an error.
    fn look_at_referrer(
        &mut self,
        table: &Arc<Table>,
        constraint: &Constraint,
        key: &ForeignKey,
        identity: &[u8],
    ) -> SqlResult<()> {
        let layout = self.layout(table)?;
        let newest = self.newest(&layout, identity, RowLock::KeyShare)?;
        let Some(row) = newest else { return Ok(()) };
        let values = values_at(&row, &key.columns);
        if values.iter().any(Datum::is_null) || self.lock_target(key, &values)? {
            return Ok(());
        }
        let (schema, target) = (self.schema_of(table)?, self.table(key.target)?);
        Err(violation::missing_target(&schema, (table, constraint, key), &target, &values, self.settings))
    }
}
