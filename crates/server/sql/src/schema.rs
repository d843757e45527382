//! Tables, indexes and constraints as the statements see them.
//!
//! A definition is a row of the engine (`schema::store`), read in the transaction that asks, so a transaction sees its own
//! definitions, and a rollback takes them back.

pub mod define;
pub mod function;
pub mod privilege;
pub mod sequence;
pub mod statistics;
pub mod store;
pub mod user_type;

use std::sync::Arc;

use seawall_values::{Datum, Oid, SqlResult, TypeReference};

use crate::schema::function::Function;
use crate::schema::user_type::UserType;

/// A table with all that belongs to it. Immutable: a change makes another one.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its number in `pg_class`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// Its owner's number.
    pub owner: Oid,
    /// Its columns, in order; dropped ones keep their place.
    pub columns: Vec<Column>,
    /// What its rows are stored under.
    pub key: RowKey,
    /// The engine's table with its rows.
    pub storage: String,
    /// Indexes, the primary key's first.
    pub indexes: Vec<Arc<Index>>,
    /// Constraints other than `NOT NULL`.
    pub constraints: Vec<Constraint>,
    /// Whether it goes with its session.
    pub is_temporary: bool,
    /// Raised by each change of the definition.
    pub version: u64,
    /// `WITH (..)`, as given.
    pub options: Vec<String>,
    /// Of a materialized view: what its rows come from.
    pub query: Option<MaterializedQuery>,
}

/// The query of a materialized view.
#[derive(Clone, Debug)]
pub struct MaterializedQuery {
    /// As text of SQL.
    pub text: String,
    /// The search path that the text is read with: names of schemas.
    pub search_path: Vec<String>,
    /// Whether the rows are there; else nobody can read them.
    pub is_populated: bool,
}

/// What the rows of a table are stored under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    /// A number that each row is given: there is no primary key.
    Number,
    /// The columns of the primary key, by position, with their order.
    Columns(Vec<KeyColumn>),
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Position in `Table::columns`.
    pub column: usize,
    /// Largest first.
    pub is_descending: bool,
    /// Nulls first.
    pub is_nulls_first: bool,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: TypeReference,
    /// `NOT NULL`.
    pub is_not_null: bool,
    /// `DEFAULT`, as an expression of SQL in PostgreSQL's own words.
    pub default: Option<String>,
    /// `GENERATED AS IDENTITY`.
    pub identity: Option<Identity>,
    /// `GENERATED ALWAYS AS (..) STORED`.
    pub generated: Option<String>,
    /// The value of rows that were written before the column was added.
    pub missing: Datum,
    /// Whether it was dropped.
    pub is_dropped: bool,
    /// The sequence that a serial or identity column owns; 0: none.
    pub sequence: Oid,
    /// The domain whose conditions its values meet; 0: none. `of` is the type that the domain's values have.
    pub domain: Oid,
}

/// How an identity column is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// `ALWAYS`.
    Always,
    /// `BY DEFAULT`.
    ByDefault,
}

/// An index.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its number in `pg_class`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The engine's table with its entries; of the primary key that the rows are stored under: none.
    pub storage: Option<String>,
    /// What it orders by.
    pub keys: Vec<IndexKey>,
    /// `INCLUDE`: positions of columns.
    pub included: Vec<usize>,
    /// `UNIQUE`, at any moment: not of a constraint that is deferrable, whose keys may be there twice for a while.
    pub is_unique: bool,
    /// `NULLS NOT DISTINCT`.
    pub is_nulls_not_distinct: bool,
    /// Whether it is the primary key.
    pub is_primary: bool,
    /// `WHERE`, as an expression of SQL.
    pub predicate: Option<String>,
    /// Whether queries may use it; one that is being built is only written.
    pub is_valid: bool,
    /// The constraint that it serves; 0: none.
    pub constraint: Oid,
}

impl Table {
    /// The deferrable constraint that an index serves.
    pub fn deferrable_constraint(&self, index: &Index) -> Option<&Constraint> {
        if index.constraint == 0 {
            return None;
        }
        self.constraints.iter().find(|known| known.oid == index.constraint && known.is_deferrable)
    }
}

/// What an index orders by.
#[derive(Clone, Debug)]
pub struct IndexKey {
    /// A column by position, or an expression of SQL.
    pub what: IndexedValue,
    /// The type of the value.
    pub of: TypeReference,
    /// Largest first.
    pub is_descending: bool,
    /// Nulls first.
    pub is_nulls_first: bool,
}

/// A value that an index orders by.
#[derive(Clone, Debug)]
pub enum IndexedValue {
    /// A column, by position.
    Column(usize),
    /// An expression of SQL over the table's columns.
    Expression(String),
}

/// A constraint of a table.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Its number in `pg_constraint`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// What it demands.
    pub kind: ConstraintKind,
    /// `DEFERRABLE`.
    pub is_deferrable: bool,
    /// `INITIALLY DEFERRED`.
    pub is_deferred: bool,
    /// Whether the rows that were there have been checked.
    pub is_validated: bool,
}

/// What a constraint demands.
#[derive(Clone, Debug)]
pub enum ConstraintKind {
    /// A condition, as an expression of SQL.
    Check(String),
    /// A unique or primary key: the number of its index.
    Unique(Oid),
    /// Rows of another table.
    ForeignKey(ForeignKey),
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// The number of the other table.
    pub target: Oid,
    /// Positions of the columns there.
    pub target_columns: Vec<usize>,
    /// The index there.
    pub target_index: Oid,
    /// `ON UPDATE`.
    pub on_update: ReferentialAction,
    /// `ON DELETE`.
    pub on_delete: ReferentialAction,
    /// `MATCH FULL`.
    pub is_match_full: bool,
}

/// What happens to rows that refer to one that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// It is refused, at the end of the statement or transaction.
    NoAction,
    /// It is refused at once.
    Restrict,
    /// They go, too.
    Cascade,
    /// They refer to nothing; `SET NULL (columns)`: these.
    SetNull,
    /// They refer to their default.
    SetDefault,
}

/// A view.
#[derive(Clone, Debug)]
pub struct View {
    /// Its number in `pg_class`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// Its owner's number.
    pub owner: Oid,
    /// Its columns.
    pub columns: Vec<(String, TypeReference)>,
    /// Its query, as text of SQL.
    pub query: String,
    /// The search path that the text is read with: numbers of schemas.
    pub search_path: Vec<String>,
    /// As `pg_class.reloptions` shows them: `check_option=local`.
    pub options: Vec<String>,
}

/// Which rows `WITH CHECK OPTION` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// Those that the view itself would not show.
    Local,
    /// Those also that the views beneath it would not show.
    Cascaded,
}

impl CheckOption {
    /// What the value of the option means.
    pub(crate) fn named(value: &str) -> Option<CheckOption> {
        match value.to_ascii_lowercase().as_str() {
            "local" => Some(CheckOption::Local),
            "cascaded" => Some(CheckOption::Cascaded),
            _ => None,
        }
    }
}

/// What the value of an option means that is on or off.
pub(crate) fn truth_of(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

impl View {
    fn option(&self, name: &str) -> Option<&str> {
        let parts = self.options.iter().filter_map(|option| option.split_once('='));
        parts.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    }

    /// Its `WITH CHECK OPTION`.
    pub fn check_option(&self) -> Option<CheckOption> {
        self.option("check_option").and_then(CheckOption::named)
    }

    /// Whose privileges what it names takes: its owner's; `None`: those of whoever asks (`security_invoker`).
    pub fn checked_as(&self) -> Option<Oid> {
        let is_invoker = self.option("security_invoker").and_then(truth_of) == Some(true);
        (!is_invoker).then_some(self.owner)
    }
}

/// A sequence.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its number in `pg_class`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// Its owner's number.
    pub owner: Oid,
    /// `smallint`, `integer` or `bigint`.
    pub of: Oid,
    /// `START`.
    pub start: i64,
    /// `INCREMENT`.
    pub increment: i64,
    /// `MINVALUE`.
    pub minimum: i64,
    /// `MAXVALUE`.
    pub maximum: i64,
    /// `CACHE`.
    pub cache: i64,
    /// `CYCLE`.
    pub is_cycling: bool,
    /// The table and the column's position that it belongs to.
    pub owned_by: Option<(Oid, usize)>,
    /// The number of its state: how far it has counted is kept under it, outside of transactions. `RESTART` gives it another one.
    pub state: u64,
}

/// A relation of pg_catalog or information_schema.
#[derive(Clone, Debug)]
pub struct SystemRelation {
    /// Its number in `pg_class`.
    pub oid: Oid,
    /// Its name.
    pub name: &'static str,
    /// The number of its schema.
    pub namespace: Oid,
    /// Its columns.
    pub columns: Vec<(&'static str, TypeReference)>,
}

/// What a name of a relation stands for.
#[derive(Clone, Debug)]
pub enum Definition {
    /// A table.
    Table(Arc<Table>),
    /// A view.
    View(Arc<View>),
    /// A sequence.
    Sequence(Arc<Sequence>),
    /// An index, and its table.
    Index(Arc<Table>, Arc<Index>),
    /// A system relation.
    System(Arc<SystemRelation>),
}

/// The definitions that a statement sees: those of its transaction.
pub trait Definitions {
    /// The relation with this name: in the schema, or in the first of the search path that has it.
    ///
    /// # Errors
    /// `3F000` for a schema that does not exist; what the engine says.
    fn relation(&mut self, schema: Option<&str>, name: &str) -> SqlResult<Option<Definition>>;

    /// Whether the role that asks may name what is in a schema.
    ///
    /// # Errors
    /// `42501`: it may not.
    fn check_may_use(&mut self, _schema: &str) -> SqlResult<()> {
        Ok(())
    }

    /// The type with this name that users have made: in the schema, or in the first of the search path that has it.
    ///
    /// # Errors
    /// `3F000` for a schema that does not exist; what the engine says.
    fn user_type(&mut self, _schema: Option<&str>, _name: &str) -> SqlResult<Option<UserType>> {
        Ok(None)
    }

    /// The functions with this name that users have made: in the schema, or in all of the search path, in its order.
    ///
    /// # Errors
    /// `3F000` for a schema that does not exist; what the engine says.
    fn functions(&mut self, _schema: Option<&str>, _name: &str) -> SqlResult<Vec<Arc<Function>>> {
        Ok(Vec::new())
    }

    /// Whether the role that asks may call a function.
    ///
    /// # Errors
    /// `42501`: it may not.
    fn check_may_execute(&mut self, _function: &Function) -> SqlResult<()> {
        Ok(())
    }

    /// The relation with this number.
    ///
    /// # Errors
    /// What the engine says.
    fn relation_by_oid(&mut self, oid: Oid) -> SqlResult<Option<Definition>>;
}
