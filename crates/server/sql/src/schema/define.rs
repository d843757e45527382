//! Definitions are made, changed and dropped: what `CREATE`, `ALTER`, `DROP`, `TRUNCATE` and `COMMENT` do, in the transaction of the
//! statement.
//!
//! The binder resolves names and puts expressions into PostgreSQL's own words; here are the rows of definitions, the engine's tables, and
//! what has to be looked at or written again in rows that are there.
//!
//! * `requests`: what a statement asks for. `names`: names that PostgreSQL would choose.
//! * `table`, `index`, `foreign_key`, `view`, `sequence`, `user_type`, `composite`, `domain`, `namespace`, `role`: objects are made and changed.
//! * `alter`: `ALTER TABLE`; `alter_column`, `column_type`, `identity`, `alter_constraint`, `relation`: its actions. `rewrite`: rows are
//!   written again. `expression_text`: names of columns in expressions.
//! * `privileges`: `GRANT`, `REVOKE`, and who may make what where. `owned`: `DROP OWNED`, `REASSIGN OWNED`.
//! * `drop`, `dependents`: objects go, with those that depend on them. `truncate`.
//!
//! A transaction that changes a table which has rows tells the engine (`alter_table`): whoever has written rows by the old definition is
//! refused at its commit.

mod alter;
mod alter_column;
mod alter_constraint;
mod column_type;
mod comment;
mod composite;
mod dependents;
mod domain;
mod drop;
mod expression_text;
mod foreign_key;
mod function;
mod identity;
mod index;
mod materialized_view;
mod names;
mod namespace;
mod owned;
mod privileges;
mod relation;
pub mod requests;
mod rewrite;
mod role;
mod sequence;
mod table;
mod truncate;
mod user_type;
mod view;

use std::sync::Arc;

use seawall_engine::{Direction, Error as EngineError, Scan, Table as EngineTable};
use seawall_values::error::ErrorObject;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use crate::catalog::{heading, names::quoted};
use crate::schema::store::{SchemaReader, SearchPath, is_system_namespace};
use crate::schema::{Definition, Definitions, Table};
use crate::session::Notice;
use crate::storage::engine_error::EngineResult;
use crate::storage::{TableLockMode, TableStorage};

use requests::{RelationKind, RelationName};

/// Makes and changes definitions for one statement.
#[derive(Debug)]
pub struct Definer<'a> {
    /// Tables, the transaction and what the session keeps.
    pub tables: TableStorage<'a>,
    /// Where names are looked up: objects outside of it are shown with their schema.
    pub path: &'a SearchPath,
    /// Who owns what is made.
    pub owner: Oid,
    /// What the client is told besides.
    pub notices: Vec<Notice>,
}

impl Definer<'_> {
    fn notice(&mut self, code: SqlState, message: impl Into<String>) {
        self.notices.push(Notice { severity: "NOTICE", content: *SqlError::new(code, message) });
    }

    fn skip(&mut self, message: impl Into<String>) {
        self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
    }

    /// Whether a relation of this name is there already, which is an error, or (`if_not_exists`) a notice.
    fn is_taken(&mut self, namespace: Oid, name: &str, if_not_exists: bool) -> SqlResult<bool> {
        if self.tables.store.relation_number(self.tables.transaction, namespace, name)?.is_none() {
            return Ok(false);
        }
        let message = format!("relation \"{name}\" already exists");
        if !if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
        Ok(true)
    }

    /// The relation with this name.
    ///
    /// # Errors
    /// `3F000`: there is no such schema.
    pub fn relation_named(&mut self, name: &RelationName) -> SqlResult<Option<Definition>> {
        let (store, transaction) = (self.tables.store, &mut *self.tables.transaction);
        let mut reader = SchemaReader { store, transaction, path: self.path };
        if let Some(schema) = &name.schema {
            reader.check_may_use(schema)?;
        }
        reader.relation(name.schema.as_deref(), &name.name)
    }

    /// Whether who asks has the rights of a role: is it, is a member of it, or a superuser.
    pub(crate) fn has_role(&mut self, role: Oid) -> SqlResult<bool> {
        let mut known = vec![self.owner];
        let mut next = 0;
        while let Some(asker) = known.get(next).copied() {
            if asker == role {
                return Ok(true);
            }
            let Some(asker) = self.tables.store.role(self.tables.transaction, asker)? else { break };
            if asker.is_superuser && next == 0 {
                return Ok(true);
            }
            for (of, _) in asker.member_of {
                if !known.contains(&of) {
                    known.push(of);
                }
            }
            next += 1;
        }
        Ok(false)
    }

    /// `42501` unless the asker is a member of a role.
    ///
    /// # Errors
    /// `42501`.
    pub fn require_role(&mut self, role: Oid) -> SqlResult<()> {
        if self.has_role(role)? {
            return Ok(());
        }
        let role = self.tables.store.role(self.tables.transaction, role)?;
        let message =
            format!("must be member of role \"{}\"", role.map(|role| role.name).unwrap_or_default());
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// `42501` unless who asks has the rights of the relation's owner.
    fn require_owner(&mut self, definition: &Definition) -> SqlResult<()> {
        if let Definition::System(relation) = definition {
            let message = format!("permission denied: \"{}\" is a system catalog", relation.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let heading = heading(definition);
        if self.has_role(heading.owner)? {
            return Ok(());
        }
        let message = format!("must be owner of {} {}", kind_of(definition).word(), heading.name);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// The schema in which a new relation of this name is made.
    ///
    /// # Errors
    /// `3F000`: there is none; `42501`: it is one of the system.
    pub fn namespace_of_new(&mut self, schema: Option<&str>, is_temporary: bool) -> SqlResult<Oid> {
        if is_temporary {
            if schema.is_some_and(|schema| schema != "pg_temp") {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            return match self.path.temporary {
                0 => Err(SqlError::internal("the session has no temporary schema yet")),
                oid => Ok(oid),
            };
        }
        let oid = match schema {
            None => self.path.creation.ok_or_else(|| {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
            })?,
            Some(schema) => self.namespace_named(schema)?,
        };
        if is_system_namespace(oid) {
            let name = self.tables.store.namespace_name(self.tables.transaction, oid)?;
            let message = format!("permission denied to create in schema \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .with_detail("System catalog modifications are currently disallowed."));
        }
        self.require_creation_in(oid)?;
        Ok(oid)
    }

    /// The schema with this name.
    ///
    /// # Errors
    /// `3F000`: there is none.
    pub fn namespace_named(&mut self, name: &str) -> SqlResult<Oid> {
        let found = self.path.namespace(self.tables.store, self.tables.transaction, name)?;
        found.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
        })
    }

    /// A table as it is now, which nobody else writes to or changes until the transaction ends.
    fn table_to_change(&mut self, oid: Oid) -> SqlResult<Arc<Table>> {
        self.table_locked(oid, TableLockMode::AccessExclusive)
    }

    /// A table as it is now, locked until the transaction ends. From here on the statement sees all rows that were committed before.
    fn table_locked(&mut self, oid: Oid, mode: TableLockMode) -> SqlResult<Arc<Table>> {
        let gone = || {
            let message = format!("relation with OID {oid} does not exist");
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        };
        let tables = &mut self.tables;
        let Some(Definition::Table(known)) = tables.store.definition(tables.transaction, oid)? else {
            return Err(gone());
        };
        tables.lock_table(&known, mode, tables.lock_wait)?;
        tables.see_all_committed()?;
        match tables.store.definition_to_change(tables.transaction, oid)? {
            Some(Definition::Table(table)) => Ok(table),
            _ => Err(gone()),
        }
    }

    /// From here on the statement sees all definitions. A transaction with one snapshot is refused, if others have changed some since.
    fn see_all_definitions(&mut self) -> SqlResult<()> {
        self.tables.see_all_committed()?;
        match self.tables.transaction.snapshot_lsn() {
            Some(_) => {
                let definitions = self.tables.store.definitions();
                self.refuse_if_changed(definitions)
            }
            None => Ok(()),
        }
    }

    /// Opens a scan of all rows of a table that is locked.
    ///
    /// A transaction with one snapshot is refused, if others have changed rows since: it does not see them, and an index, or rows that
    /// are written again, must not lack them.
    fn scan_all(&mut self, rows: &EngineTable) -> SqlResult<Scan> {
        if self.tables.transaction.snapshot_lsn().is_some() {
            self.refuse_if_changed(rows)?;
        }
        self.tables.transaction.open_scan::<&[u8]>(rows, .., Direction::Forward).sql()
    }

    /// Takes the lock of each row that is another one now: the engine refuses it, unless this transaction has changed the row itself.
    fn refuse_if_changed(&mut self, rows: &EngineTable) -> SqlResult<()> {
        let tables = &mut self.tables;
        let snapshot = tables.database.snapshot();
        match snapshot.table(rows.name()) {
            Ok(_) => {}
            // The transaction has made it.
            Err(EngineError::NoSuchTable { .. }) => return Ok(()),
            Err(error) => return Err(error).sql(),
        }
        let mut now = snapshot.rows(rows);
        let mut seen = tables.transaction.open_scan::<&[u8]>(rows, .., Direction::Forward).sql()?;
        let owned = |row: Option<(&[u8], &[u8])>| row.map(|(key, value)| (key.to_vec(), value.to_vec()));
        let mut left = owned(now.next_row().sql()?);
        let mut right = owned(seen.next_row().sql()?);
        while let Some(key) = left.iter().chain(&right).map(|(key, _)| key.clone()).min() {
            let (is_left, is_right) = (
                left.as_ref().is_some_and(|row| row.0 == key),
                right.as_ref().is_some_and(|row| row.0 == key),
            );
            if !(is_left && is_right && left == right) {
                tables.transaction.lock_row(rows, &key, tables.lock_wait).sql()?;
            }
            if is_left {
                left = owned(now.next_row().sql()?);
            }
            if is_right {
                right = owned(seen.next_row().sql()?);
            }
        }
        Ok(())
    }

    /// Writes a changed table. Whoever has written rows by the old definition is refused at its commit.
    fn put_changed(&mut self, table: Table, old: &Table) -> SqlResult<Arc<Table>> {
        self.note_altered(old)?;
        self.tables.store.put_table(self.tables.transaction, table, Some(old))
    }

    fn note_altered(&mut self, table: &Table) -> SqlResult<()> {
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &table.storage, self.tables.as_of)?;
        self.tables.transaction.alter_table(&handle).sql()
    }

    /// Whether a name without a schema finds an object in this one.
    fn is_visible(&mut self, namespace: Oid, name: &str) -> SqlResult<bool> {
        for known in self.path.namespaces.iter().copied() {
            if known == namespace {
                return Ok(true);
            }
            let hides = self.tables.store.relation_number(self.tables.transaction, known, name)?.is_some()
                || crate::catalog::relation_named(known, name).is_some();
            if hides {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// A relation as messages name it: with its schema, if its name alone does not find it.
    fn shown(&mut self, definition: &Definition) -> SqlResult<String> {
        let heading = heading(definition);
        let (namespace, name) = (heading.namespace, heading.name.to_owned());
        if self.is_visible(namespace, &name)? {
            return Ok(quoted(&name));
        }
        let schema = self.tables.store.namespace_name(self.tables.transaction, namespace)?;
        Ok(format!("{}.{}", quoted(&schema), quoted(&name)))
    }
}

impl RelationKind {
    /// As messages name it.
    fn word(self) -> &'static str {
        match self {
            RelationKind::Table => "table",
            RelationKind::View => "view",
            RelationKind::MaterializedView => "materialized view",
            RelationKind::Sequence => "sequence",
            RelationKind::Index => "index",
        }
    }
}

fn kind_of(definition: &Definition) -> RelationKind {
    match definition {
        Definition::Table(table) if table.query.is_some() => RelationKind::MaterializedView,
        Definition::Table(_) | Definition::System(_) => RelationKind::Table,
        Definition::View(_) => RelationKind::View,
        Definition::Sequence(_) => RelationKind::Sequence,
        Definition::Index(..) => RelationKind::Index,
    }
}

fn no_such_column(column: &str, table: &Table) -> Box<SqlError> {
    let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

/// The position of a column that has not been dropped.
fn find_column(table: &Table, name: &str) -> Option<usize> {
    table.columns.iter().position(|column| !column.is_dropped && column.name == name)
}

fn about_table(schema: String, table: &Table) -> ErrorObject {
    ErrorObject { schema: Some(schema), table: Some(table.name.clone()), ..ErrorObject::default() }
}

/// A column's number in `pg_attribute`.
fn column_number(position: usize) -> u16 {
    u16::try_from(position + 1).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
