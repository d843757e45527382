//! Relations are renamed, moved to another schema, given to others, and get options.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::requests::RelationKind;
use super::{Definer, kind_of};
use crate::catalog::heading;
use crate::catalog::numbers::PG_CLASS;
use crate::schema::store::is_system_namespace;
use crate::schema::{Definition, Index, Sequence, Table, View};

fn no_such_relation(oid: Oid) -> Box<SqlError> {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist"))
}

impl Definer<'_> {
    /// A relation as it is now, which is who asks's own and which nobody else changes until the transaction ends.
    fn own_relation(&mut self, oid: Oid) -> SqlResult<Definition> {
        let found = self.tables.store.definition_to_change(self.tables.transaction, oid)?;
        let found = found.ok_or_else(|| no_such_relation(oid))?;
        self.require_owner(&found)?;
        Ok(found)
    }

    /// `RENAME TO`, of a table, view, sequence or index.
    ///
    /// # Errors
    /// `42P07`; `0A000`: a view uses it.
    pub fn rename_relation(&mut self, oid: Oid, to: &str) -> SqlResult<()> {
        let definition = self.own_relation(oid)?;
        let (store, namespace) = (self.tables.store, heading(&definition).namespace);
        self.is_taken(namespace, to, false)?;
        self.check_views_follow(oid, kind_of(&definition).word(), "RENAME")?;
        let name = to.to_owned();
        match definition {
            Definition::Table(old) => self.put_changed(Table { name, ..Table::clone(&old) }, &old).map(drop),
            Definition::View(old) => {
                let view = View { name, ..View::clone(&old) };
                store.put_view(self.tables.transaction, view, Some(&old))
            }
            Definition::Sequence(old) => {
                let sequence = Sequence { name, ..Sequence::clone(&old) };
                store.put_sequence(self.tables.transaction, sequence, Some(&old))
            }
            Definition::Index(old, index) => {
                let mut table = Table::clone(&old);
                for known in table.indexes.iter_mut().filter(|known| known.oid == index.oid) {
                    *known = Arc::new(Index { name: name.clone(), ..Index::clone(known) });
                }
                for constraint in table.constraints.iter_mut().filter(|known| known.oid == index.constraint) {
                    constraint.name.clone_from(&name);
                }
                self.put_changed(table, &old).map(drop)
            }
            Definition::System(_) => Err(SqlError::internal("a system relation has a definition of its own")),
        }
    }

    /// The texts of views have the numbers of relations and types; `0A000` for one that names this one in another way.
    pub(super) fn check_views_follow(&mut self, of: Oid, what: &str, command: &str) -> SqlResult<()> {
        let number = format!("pg_catalog.\"{of}\"");
        self.check_no_view(of, what, command, |text| text.contains(&number))
    }

    /// `0A000` if a view uses an object whose text does not follow its change.
    pub(super) fn check_no_view(
        &mut self,
        of: Oid,
        what: &str,
        command: &str,
        follows: impl Fn(&str) -> bool,
    ) -> SqlResult<()> {
        let store = self.tables.store;
        for dependent in store.dependents(self.tables.transaction, of)? {
            let (kind, name, text) = match store.definition(self.tables.transaction, dependent.oid)? {
                Some(Definition::View(view)) => ("View", view.name.clone(), view.query.clone()),
                Some(Definition::Table(table)) => match &table.query {
                    Some(query) => ("Materialized view", table.name.clone(), query.text.clone()),
                    None => continue,
                },
                _ => continue,
            };
            if !follows(&text) {
                return Err(SqlError::unsupported(format!("{command} of a {what} that a view uses"))
                    .with_detail(format!("{kind} \"{name}\" uses it.")));
            }
        }
        Ok(())
    }

    /// `ALTER VIEW .. RENAME COLUMN`.
    ///
    /// # Errors
    /// `42703`, `42701`; `0A000`: another view uses it.
    pub fn rename_view_column(&mut self, oid: Oid, name: &str, to: &str) -> SqlResult<()> {
        let definition = self.own_relation(oid)?;
        let Definition::View(old) = &definition else { return Err(no_such_relation(oid)) };
        let position = old.columns.iter().position(|(known, _)| known == name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
        })?;
        if old.columns.iter().any(|(known, _)| known == to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", old.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        self.check_no_view(oid, kind_of(&definition).word(), "RENAME", |_| false)?;
        let mut view = View::clone(old);
        to.clone_into(&mut view.columns[position].0);
        self.tables.store.put_view(self.tables.transaction, view, Some(old))
    }

    /// `SET SCHEMA`, of a table, view or sequence.
    ///
    /// # Errors
    /// `42P07`, `0A000`.
    pub fn move_relation(&mut self, oid: Oid, namespace: Oid) -> SqlResult<()> {
        let definition = self.own_relation(oid)?;
        let (store, name) = (self.tables.store, heading(&definition).name.to_owned());
        let from = heading(&definition).namespace;
        if from == namespace {
            return Ok(());
        }
        if is_system_namespace(namespace) {
            let message = "cannot move objects into or out of the system's schemas";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if self.is_temporary(from)? || self.is_temporary(namespace)? {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if store.relation_number(self.tables.transaction, namespace, &name)?.is_some() {
            let schema = store.namespace_name(self.tables.transaction, namespace)?;
            let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        self.check_views_follow(oid, kind_of(&definition).word(), "SET SCHEMA")?;
        match definition {
            Definition::Table(old) => {
                for sequence in self.sequences_of(old.oid)? {
                    let moved = Sequence { namespace, ..sequence.clone() };
                    store.put_sequence(self.tables.transaction, moved, Some(&sequence))?;
                }
                self.put_changed(Table { namespace, ..Table::clone(&old) }, &old).map(drop)
            }
            Definition::View(old) => {
                let view = View { namespace, ..View::clone(&old) };
                store.put_view(self.tables.transaction, view, Some(&old))
            }
            Definition::Sequence(old) => {
                if let Some((table, _)) = old.owned_by {
                    let table = self.tables.table(table)?;
                    let message = "cannot move an owned sequence into another schema";
                    let detail = format!("Sequence \"{}\" is linked to table \"{}\".", old.name, table.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail));
                }
                let sequence = Sequence { namespace, ..Sequence::clone(&old) };
                store.put_sequence(self.tables.transaction, sequence, Some(&old))
            }
            Definition::Index(..) | Definition::System(_) => {
                let message = format!("cannot change schema of index \"{name}\"");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Change the schema of the table instead."))
            }
        }
    }

    fn is_temporary(&mut self, namespace: Oid) -> SqlResult<bool> {
        let name = self.tables.store.namespace_name(self.tables.transaction, namespace)?;
        Ok(name.starts_with("pg_temp_"))
    }

    /// Sequences that belong to columns of a table.
    fn sequences_of(&mut self, table: Oid) -> SqlResult<Vec<Sequence>> {
        let store = self.tables.store;
        let mut found = Vec::new();
        for dependent in store.dependents(self.tables.transaction, table)? {
            if let Some(Definition::Sequence(sequence)) =
                store.definition(self.tables.transaction, dependent.oid)?
            {
                found.push(Sequence::clone(&sequence));
            }
        }
        Ok(found)
    }

    /// `OWNER TO`, of a table, view or sequence.
    ///
    /// # Errors
    /// `42501`; `0A000`: a sequence has the owner of its table.
    pub fn give_relation(&mut self, oid: Oid, owner: Oid) -> SqlResult<()> {
        let definition = self.own_relation(oid)?;
        self.require_role(owner)?;
        let store = self.tables.store;
        self.give_access(oid, PG_CLASS, heading(&definition).owner, owner)?;
        match definition {
            Definition::Table(old) => {
                for sequence in self.sequences_of(old.oid)? {
                    self.give_access(sequence.oid, PG_CLASS, sequence.owner, owner)?;
                    let given = Sequence { owner, ..sequence.clone() };
                    store.put_sequence(self.tables.transaction, given, Some(&sequence))?;
                }
                self.put_changed(Table { owner, ..Table::clone(&old) }, &old).map(drop)
            }
            Definition::View(old) => {
                let view = View { owner, ..View::clone(&old) };
                store.put_view(self.tables.transaction, view, Some(&old))
            }
            Definition::Sequence(old) => {
                if let Some((table, _)) = old.owned_by {
                    let table = self.tables.table(table)?;
                    let message = format!("cannot change owner of sequence \"{}\"", old.name);
                    let detail = format!("Sequence \"{}\" is linked to table \"{}\".", old.name, table.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail));
                }
                let sequence = Sequence { owner, ..Sequence::clone(&old) };
                store.put_sequence(self.tables.transaction, sequence, Some(&old))
            }
            Definition::Index(..) | Definition::System(_) => {
                let message = format!("cannot change owner of index \"{}\"", heading(&definition).name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Change the ownership of the index's table instead."))
            }
        }
    }

    pub(super) fn set_options(&mut self, table: &Arc<Table>, options: &[String]) -> SqlResult<Arc<Table>> {
        let name_of = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let mut changed = Table::clone(table);
        for option in options {
            changed.options.retain(|known| name_of(known) != name_of(option));
            changed.options.push(option.clone());
        }
        self.put_changed(changed, table)
    }

    pub(super) fn reset_options(&mut self, table: &Arc<Table>, names: &[String]) -> SqlResult<Arc<Table>> {
        let mut changed = Table::clone(table);
        let is_reset = |option: &String| names.iter().any(|name| option.split('=').next() == Some(name));
        changed.options.retain(|option| !is_reset(option));
        self.put_changed(changed, table)
    }

    /// The kind of the relation with this number.
    ///
    /// # Errors
    /// `42P01`.
    pub fn kind_of_relation(&mut self, oid: Oid) -> SqlResult<RelationKind> {
        let found = self.tables.store.definition(self.tables.transaction, oid)?;
        found.map(|found| kind_of(&found)).ok_or_else(|| no_such_relation(oid))
    }
}
