//! A database with a session, for tests of storage and of definitions.

use std::sync::Arc;

use seawall_engine::{Database, Durability, Isolation, LockWait, Options, Transaction};
use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, TypeReference, oid};

use crate::catalog::numbers::{BOOTSTRAP_ROLE, PUBLIC};
use crate::execute::{Inserted, KeyRange, OnConflict, ScanRequest, Storage};
use crate::schema::define::Definer;
use crate::schema::define::requests::*;
use crate::schema::sequence::SequenceSession;
use crate::schema::store::SchemaStore;
use crate::schema::store::SearchPath;
use crate::schema::{Column, ReferentialAction, Table};
use crate::storage::TableStorage;
use crate::storage::engine_error::EngineResult;
use crate::storage::{RowExpressions, SessionCalls, StorageSession};

/// Knows a few expressions: `(a > 0)`, `(b * 2)`, `b::text`, `lower(c)` over the columns of these names, and integers.
struct Expressions;

impl RowExpressions for Expressions {
    fn evaluate(&mut self, table: &Arc<Table>, text: &str, row: &[Datum]) -> SqlResult<Datum> {
        let position = |name: &str| table.columns.iter().position(|column| column.name == name).unwrap();
        let value = |name: &str| row[position(name)].clone();
        let integer = |value: &Datum| match value {
            Datum::Int4(value) => Some(i64::from(*value)),
            Datum::Int8(value) => Some(*value),
            _ => None,
        };
        let words: Vec<&str> = text.trim_matches(['(', ')']).split(' ').collect();
        Ok(match &words[..] {
            [name, ">", limit] => match integer(&value(name)) {
                Some(value) => Datum::Bool(value > limit.parse().unwrap()),
                None => Datum::Null,
            },
            [name, "*", factor] => match integer(&value(name)) {
                Some(value) => Datum::Int4(i32::try_from(value * factor.parse::<i64>().unwrap()).unwrap()),
                None => Datum::Null,
            },
            [name, "as", "text"] => match integer(&value(name)) {
                Some(value) => Datum::text(value.to_string()),
                None => Datum::Null,
            },
            ["lower", name] => match value(name) {
                Datum::Text(text) => Datum::text(text.to_lowercase()),
                other => other,
            },
            [number] if number.parse::<i32>().is_ok() => Datum::Int4(number.parse().unwrap()),
            [name] => value(name.trim_matches('"')),
            _ => panic!("{text}"),
        })
    }

    fn assign(&mut self, table: &Arc<Table>, text: &str, _to: &Column, row: &[Datum]) -> SqlResult<Datum> {
        self.evaluate(table, text, row)
    }
}

struct NoCalls;

impl SessionCalls for NoCalls {
    fn scan_system(
        &mut self,
        _: &mut Transaction,
        _: Oid,
        _: &[usize],
        _: &[(usize, Datum)],
    ) -> SqlResult<Rows> {
        panic!()
    }

    fn call(
        &mut self,
        _: &mut Transaction,
        _: &mut SequenceSession,
        _: &FunctionRow,
        _: &Call<'_>,
    ) -> SqlResult<Datum> {
        panic!()
    }

    fn call_set(&mut self, _: &mut Transaction, _: &FunctionRow, _: &Call<'_>) -> SqlResult<Rows> {
        panic!()
    }
}

/// A database and a session of it.
pub(crate) struct World {
    _directory: Option<tempfile::TempDir>,
    pub(crate) database: Database,
    pub(crate) store: SchemaStore,
    pub(crate) session: StorageSession,
    pub(crate) path: SearchPath,
    pub(crate) owner: Oid,
    pub(crate) notices: Vec<String>,
}

impl World {
    pub(crate) fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("bank"), Options::default()).unwrap();
        let store = SchemaStore::open(&database, "postgres").unwrap();
        World::of(database, store, Some(directory))
    }

    pub(crate) fn of(database: Database, store: SchemaStore, directory: Option<tempfile::TempDir>) -> World {
        let namespaces = vec![crate::catalog::numbers::PG_CATALOG, PUBLIC];
        World {
            _directory: directory,
            session: StorageSession::new(database.new_numbered_session(1).1),
            database,
            store,
            path: SearchPath { namespaces, temporary: 0, creation: Some(PUBLIC), rights: None },
            owner: BOOTSTRAP_ROLE,
            notices: Vec::new(),
        }
    }

    /// A transaction as sessions begin it.
    pub(crate) fn begin(&self) -> Transaction {
        let database = &self.database;
        database.with(Isolation::ReadCommitted).with(Durability::Sync).with(LockWait::NoWait).begin()
    }

    /// Runs a statement in a transaction.
    pub(crate) fn within<T>(
        &mut self,
        transaction: &mut Transaction,
        body: impl FnOnce(&mut Definer<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let as_of = transaction.begin_statement().sql()?;
        let tables = TableStorage {
            store: &self.store,
            database: &self.database,
            transaction,
            session: &mut self.session,
            expressions: &mut Expressions,
            calls: &mut NoCalls,
            settings: &Settings::default(),
            as_of,
            lock_wait: LockWait::NoWait,
        };
        let mut definer = Definer { tables, path: &self.path, owner: self.owner, notices: Vec::new() };
        let outcome = body(&mut definer);
        let outcome = outcome.and_then(|value| definer.tables.finish_statement().map(|()| value));
        let shown = definer.notices.iter().map(|notice| {
            let content = &notice.content;
            let detail = content.detail.as_ref().map(|detail| format!(" | {detail}")).unwrap_or_default();
            format!("{}{detail}", content.message)
        });
        self.notices = shown.collect();
        outcome
    }

    /// Runs a statement in a transaction of its own.
    pub(crate) fn run<T>(&mut self, body: impl FnOnce(&mut Definer<'_>) -> SqlResult<T>) -> SqlResult<T> {
        let mut transaction = self.begin();
        let outcome = self.within(&mut transaction, body);
        match outcome {
            Ok(value) => {
                transaction.commit().sql()?;
                self.session.end_transaction();
                Ok(value)
            }
            Err(error) => {
                transaction.rollback();
                self.session.forget_definitions();
                self.session.end_transaction();
                Err(error)
            }
        }
    }

    pub(crate) fn create(&mut self, request: NewTable) -> Arc<Table> {
        self.run(|definer| definer.create_table(request)).unwrap().unwrap()
    }

    pub(crate) fn alter(&mut self, table: Oid, change: TableChange) -> Result<Arc<Table>, String> {
        self.run(|definer| definer.alter_table(table, &change)).map_err(|error| shown(&error))
    }

    pub(crate) fn insert(&mut self, table: Oid, row: &[Datum]) -> Result<(), String> {
        let insert = |definer: &mut Definer<'_>| {
            let table = definer.tables.table(table)?;
            definer.tables.insert(&table, row, OnConflict::Fail)
        };
        match self.run(insert) {
            Ok(Inserted::Done(_)) => Ok(()),
            Ok(Inserted::Conflict(_)) => Err("conflict".to_owned()),
            Err(error) => Err(shown(&error)),
        }
    }

    pub(crate) fn rows(&mut self, table: Oid) -> Vec<String> {
        self.run(|definer| {
            let table = definer.tables.table(table)?;
            let columns: Vec<usize> =
                (0..table.columns.len()).filter(|column| !table.columns[*column].is_dropped).collect();
            let range = KeyRange::default();
            let request = ScanRequest {
                table: &table,
                index: None,
                range: &range,
                is_reverse: false,
                columns: &columns,
                with_identity: false,
            };
            let mut scan = definer.tables.open_scan(&request)?;
            let mut rows = Vec::new();
            let mut row = vec![Datum::Null; columns.len()];
            while scan.next(&mut row)? {
                rows.push(row.iter().map(text).collect::<Vec<_>>().join(","));
            }
            Ok(rows)
        })
        .unwrap()
    }

    pub(crate) fn drop_all(
        &mut self,
        kind: RelationKind,
        names: &[&str],
        behavior: Behavior,
    ) -> Result<(), String> {
        let names =
            names.iter().map(|name| RelationName { schema: None, name: (*name).to_owned() }).collect();
        let request = DropRelations { kind, names, if_exists: false, behavior };
        self.run(|definer| definer.drop_relations(&request)).map_err(|error| shown(&error))
    }

    /// How many tables the engine has.
    pub(crate) fn engine_tables(&self) -> usize {
        self.database.tables().list().unwrap().len()
    }
}

pub(crate) fn text(value: &Datum) -> String {
    match value {
        Datum::Null => "null".to_owned(),
        Datum::Int2(value) => value.to_string(),
        Datum::Int4(value) => value.to_string(),
        Datum::Text(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn shown(error: &SqlError) -> String {
    let part = |part: &Option<String>| part.as_ref().map(|part| format!(" | {part}")).unwrap_or_default();
    format!("{error}{}{}", part(&error.detail), part(&error.hint))
}

pub(crate) fn column(name: &str, of: Oid) -> NewColumn {
    NewColumn {
        name: name.to_owned(),
        of: TypeReference::of(of),
        is_not_null: false,
        default: None,
        identity: None,
        is_serial: false,
        generated: None,
        missing: None,
        domain: 0,
    }
}

pub(crate) fn constraint(kind: NewConstraintKind) -> NewConstraint {
    NewConstraint { name: None, kind, is_deferrable: false, is_deferred: false, is_not_valid: false }
}

pub(crate) fn key(columns: &[&str], is_primary: bool) -> NewConstraint {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    constraint(NewConstraintKind::Key(NewKey { columns, ..NewKey::default() }, is_primary))
}

pub(crate) fn foreign_key(column: &str, target: Oid, on_delete: ReferentialAction) -> NewConstraint {
    constraint(NewConstraintKind::ForeignKey(NewForeignKey {
        columns: vec![column.to_owned()],
        target,
        target_columns: Vec::new(),
        on_update: ReferentialAction::NoAction,
        on_delete,
        is_match_full: false,
    }))
}

pub(crate) fn check(text: &str, column: &str) -> NewConstraint {
    let text = Expression { text: text.to_owned(), sequences: Vec::new() };
    constraint(NewConstraintKind::Check(text, vec![column.to_owned()]))
}

pub(crate) fn new_table(name: &str, columns: Vec<NewColumn>, constraints: Vec<NewConstraint>) -> NewTable {
    NewTable {
        name: name.to_owned(),
        namespace: PUBLIC,
        is_temporary: false,
        query: None,
        if_not_exists: false,
        columns,
        constraints,
        options: Vec::new(),
    }
}

pub(crate) fn two_columns() -> Vec<NewColumn> {
    vec![column("a", oid::INT4), column("b", oid::INT4)]
}

pub(crate) fn number(value: i32) -> Datum {
    Datum::Int4(value)
}
