//! Objects go, with those that depend on them.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use seawall_values::user_types::is_composite;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::dependents::Object;
use super::requests::{Behavior, DropRelations, RelationKind, RelationName};
use super::{Definer, kind_of};
use crate::catalog::names::quoted;
use crate::catalog::numbers::PG_CLASS;
use crate::schema::{Column, ConstraintKind, Definition, RowKey, Table};
use crate::storage::engine_error::EngineResult;

fn missing(kind: RelationKind, name: &str) -> Box<SqlError> {
    let code = match kind {
        RelationKind::Index => SqlState::UNDEFINED_OBJECT,
        RelationKind::Table
        | RelationKind::View
        | RelationKind::MaterializedView
        | RelationKind::Sequence => SqlState::UNDEFINED_TABLE,
    };
    SqlError::new(code, format!("{} \"{name}\" does not exist", kind.word()))
}

fn wrong_kind(wanted: RelationKind, found: RelationKind, name: &str) -> Box<SqlError> {
    let article = if wanted == RelationKind::Index { "an" } else { "a" };
    let message = format!("\"{name}\" is not {article} {}", wanted.word());
    let (word, article) = (found.word(), if found == RelationKind::Index { "an" } else { "a" });
    let hint = format!("Use DROP {} to remove {article} {word}.", word.to_uppercase());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint)
}

impl Definer<'_> {
    /// `DROP TABLE`, `DROP VIEW`, `DROP SEQUENCE`, `DROP INDEX`.
    ///
    /// # Errors
    /// `42P01`, `42704`, `3F000`, `42809`, `42501`, `2BP01`.
    pub fn drop_relations(&mut self, request: &DropRelations) -> SqlResult<()> {
        let mut objects = Vec::new();
        for name in &request.names {
            let Some(definition) = self.relation_to_drop(request, name)? else { continue };
            if kind_of(&definition) != request.kind {
                return Err(wrong_kind(request.kind, kind_of(&definition), &name.name));
            }
            self.require_owner(&definition)?;
            let object = Object::Relation(crate::catalog::oid_of(&definition));
            self.check_is_no_part(&definition)?;
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        self.drop_objects(&objects, request.behavior)
    }

    fn relation_to_drop(
        &mut self,
        request: &DropRelations,
        name: &RelationName,
    ) -> SqlResult<Option<Definition>> {
        match self.relation_named(name) {
            Ok(Some(definition)) => Ok(Some(definition)),
            Ok(None) if self.type_named(name)?.is_some_and(|found| is_composite(found.oid)) => {
                let article = if request.kind == RelationKind::Index { "an" } else { "a" };
                let message = format!("\"{}\" is not {article} {}", name.name, request.kind.word());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Use DROP TYPE to remove a type."))
            }
            Ok(None) if request.if_exists => {
                self.skip(format!("{} \"{}\" does not exist, skipping", request.kind.word(), name.name));
                Ok(None)
            }
            Ok(None) => Err(missing(request.kind, &name.name)),
            Err(error) if error.code == SqlState::INVALID_SCHEMA_NAME && request.if_exists => {
                self.skip(format!("{}, skipping", error.message));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// An index of a constraint goes with that alone, and the sequence of an identity column with the column.
    fn check_is_no_part(&mut self, definition: &Definition) -> SqlResult<()> {
        let (part, of) = match definition {
            Definition::Index(table, index) if index.constraint != 0 => {
                (Object::Relation(index.oid), Object::Constraint(table.oid, index.constraint))
            }
            Definition::Sequence(sequence) => {
                let Some((table, position)) = sequence.owned_by else { return Ok(()) };
                let table = self.tables.table(table)?;
                if table.columns.get(position).is_none_or(|column| column.identity.is_none()) {
                    return Ok(());
                }
                (Object::Relation(sequence.oid), Object::Column(table.oid, super::column_number(position)))
            }
            _ => return Ok(()),
        };
        let (part, of) = (self.described(part)?, self.described(of)?);
        let message = format!("cannot drop {part} because {of} requires it");
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_hint(format!("You can drop {of} instead.")))
    }

    /// Drops objects and what depends on them.
    pub(super) fn drop_objects(&mut self, named: &[Object], behavior: Behavior) -> SqlResult<()> {
        let all = self.with_dependents(named, behavior)?;
        let relations: FxHashSet<Oid> = all
            .iter()
            .filter_map(|object| match object {
                Object::Relation(oid) => Some(*oid),
                _ => None,
            })
            .collect();
        for object in &all {
            match *object {
                Object::Column(table, _) | Object::Default(table, _) | Object::Constraint(table, _)
                    if relations.contains(&table) => {}
                Object::Relation(oid) => self.drop_relation(oid, &relations)?,
                Object::Namespace(oid) => self.drop_namespace(oid)?,
                Object::Type(oid) => self.drop_type(oid)?,
                Object::Function(oid) => self.drop_function(oid)?,
                Object::Column(table, column) => self.remove_column(table, column)?,
                Object::Default(table, column) => self.remove_default(table, column)?,
                Object::Constraint(table, constraint) => self.remove_constraint(table, constraint)?,
                Object::DomainCheck(domain, check) => self.remove_domain_check(domain, check)?,
            }
        }
        Ok(())
    }

    fn drop_namespace(&mut self, oid: Oid) -> SqlResult<()> {
        match self.tables.store.namespace(self.tables.transaction, oid)? {
            Some(namespace) => self.tables.store.remove_namespace(self.tables.transaction, &namespace),
            None => Ok(()),
        }
    }

    fn drop_relation(&mut self, oid: Oid, relations: &FxHashSet<Oid>) -> SqlResult<()> {
        let store = self.tables.store;
        let Some(definition) = store.definition_to_change(self.tables.transaction, oid)? else {
            return Ok(());
        };
        match &definition {
            Definition::Table(table) => {
                self.check_no_events(table, "DROP TABLE")?;
                self.note_targets(table, relations)?;
                self.drop_storage(table)?;
            }
            // It goes with its table, or with its constraint.
            Definition::Index(table, index) if relations.contains(&table.oid) || index.constraint != 0 => {
                return Ok(());
            }
            Definition::Index(table, _) => return self.remove_index(&table.clone(), oid),
            Definition::Sequence(sequence) => {
                store.discard_sequence(self.tables.transaction, sequence.state)?;
            }
            Definition::View(_) | Definition::System(_) => {}
        }
        store.remove_relation(self.tables.transaction, &definition)
    }

    /// Tables that a table refers to learn that it does not any more.
    fn note_targets(&mut self, table: &Table, gone: &FxHashSet<Oid>) -> SqlResult<()> {
        let mut known = FxHashSet::default();
        for constraint in &table.constraints {
            if let ConstraintKind::ForeignKey(key) = &constraint.kind
                && !gone.contains(&key.target)
                && key.target != table.oid
                && known.insert(key.target)
            {
                let target = self.table_to_change(key.target)?;
                self.put_changed(Table::clone(&target), &target)?;
            }
        }
        Ok(())
    }

    /// Drops the engine's tables of a table and of its indexes.
    fn drop_storage(&mut self, table: &Table) -> SqlResult<()> {
        let transaction = &mut *self.tables.transaction;
        transaction.drop_table(&table.storage).sql()?;
        for storage in table.indexes.iter().filter_map(|index| index.storage.as_ref()) {
            transaction.drop_table(storage).sql()?;
        }
        if table.key == RowKey::Number {
            self.tables.store.discard_row_numbers(self.tables.transaction, &table.storage)?;
        }
        Ok(())
    }

    /// Takes an index without a constraint out of its table.
    fn remove_index(&mut self, table: &Arc<Table>, index: Oid) -> SqlResult<()> {
        let mut changed = Table::clone(table);
        self.take_out_index(&mut changed, index)?;
        self.put_changed(changed, table).map(drop)
    }

    pub(super) fn take_out_index(&mut self, table: &mut Table, index: Oid) -> SqlResult<()> {
        let Some(position) = table.indexes.iter().position(|known| known.oid == index) else { return Ok(()) };
        let index = table.indexes.remove(position);
        if let Some(storage) = &index.storage {
            self.tables.transaction.drop_table(storage).sql()?;
        }
        self.tables.store.remove_object(self.tables.transaction, index.oid)
    }

    fn remove_default(&mut self, table: Oid, column: u16) -> SqlResult<()> {
        let old = self.table_to_change(table)?;
        let mut changed = Table::clone(&old);
        if let Some(column) = changed.columns.get_mut(usize::from(column) - 1) {
            column.default = None;
        }
        self.tables.store.remove_dependencies(self.tables.transaction, table, Some(column))?;
        self.put_changed(changed, &old).map(drop)
    }

    /// Drops a constraint; with a primary key that its rows are stored under, the rows get numbers.
    pub(super) fn remove_constraint(&mut self, table: Oid, constraint: Oid) -> SqlResult<()> {
        let old = self.table_to_change(table)?;
        let Some(position) = old.constraints.iter().position(|known| known.oid == constraint) else {
            return Ok(());
        };
        let mut changed = Table::clone(&old);
        let constraint = changed.constraints.remove(position);
        self.tables.store.remove_object(self.tables.transaction, constraint.oid)?;
        match constraint.kind {
            ConstraintKind::Check(_) => {}
            ConstraintKind::Unique(index) => {
                let holds_rows =
                    old.indexes.iter().any(|known| known.oid == index && known.storage.is_none());
                self.take_out_index(&mut changed, index)?;
                if holds_rows {
                    changed.key = RowKey::Number;
                    return self.rewrite(&old, changed, None).map(drop);
                }
            }
            ConstraintKind::ForeignKey(key) => {
                if key.target != table {
                    let target = self.table_to_change(key.target)?;
                    self.put_changed(Table::clone(&target), &target)?;
                }
            }
        }
        self.put_changed(changed, &old).map(drop)
    }

    /// Drops a column; what needed it has gone.
    pub(super) fn remove_column(&mut self, table: Oid, column: u16) -> SqlResult<()> {
        let old = self.table_to_change(table)?;
        let mut changed = Table::clone(&old);
        let Some(place) = changed.columns.get_mut(usize::from(column) - 1) else { return Ok(()) };
        *place = Column {
            name: format!("........pg.dropped.{column}........"),
            is_dropped: true,
            is_not_null: false,
            default: None,
            identity: None,
            generated: None,
            missing: seawall_values::Datum::Null,
            sequence: 0,
            domain: 0,
            of: place.of,
        };
        let (store, transaction) = (self.tables.store, &mut *self.tables.transaction);
        store.remove_dependencies(transaction, table, Some(column))?;
        store.put_comment(transaction, (table, PG_CLASS, column), None)?;
        store.put_access_list(transaction, (table, PG_CLASS, column), None)?;
        self.put_changed(changed, &old).map(drop)
    }

    /// `55006` if foreign keys are still to look at rows of the table.
    pub(super) fn check_no_events(&mut self, table: &Table, command: &str) -> SqlResult<()> {
        if !self.tables.session.foreign_keys.has_events_of(table.oid) {
            return Ok(());
        }
        let message =
            format!("cannot {command} {} because it has pending trigger events", quoted_always(&table.name));
        Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
    }
}

fn quoted_always(name: &str) -> String {
    let quoted = quoted(name);
    if quoted.starts_with('"') { quoted } else { format!("\"{name}\"") }
}
