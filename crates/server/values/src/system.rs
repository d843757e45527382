//! PostgreSQL 15's own catalogs: types, functions, operators, casts, aggregates.
//!
//! * `file`: all rows that initdb makes, as text.
//! * `own`: what Seawall adds to them.
//! * `rows`: those that the binder looks up, as structures. They are read when the first look-up is made.

mod file;
mod own;
mod rows;

use std::cmp::Ordering;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::oid::Oid;

pub use file::{Block, Field, array_elements};
pub use own::SEAWALL;

/// `pg_namespace.oid` of `pg_catalog`.
pub const PG_CATALOG: Oid = 11;

/// A row of `pg_type`.
#[derive(Clone, Debug)]
pub struct TypeRow {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// Bytes of a value; -1: any; -2: up to a zero byte.
    pub length: i16,
    /// `typcategory`.
    pub category: u8,
    /// `typispreferred`.
    pub is_preferred: bool,
    /// `typtype`: `b` base, `c` composite, `d` domain, `e` enum, `p` pseudo, `r` range.
    pub kind: u8,
    /// Of an array type (`typsubscript` is that of arrays): the type of its elements; else 0.
    pub element: Oid,
    /// The array type of this one; 0: none.
    pub array: Oid,
    /// `typrelid`: the table whose row type it is; 0: none.
    pub relation: Oid,
    /// `typbasetype`: the type below a domain; else 0.
    pub base: Oid,
    /// `typtypmod`: the modifier of the type below a domain; else -1.
    pub base_modifier: i32,
    /// `typdelim`: what is between elements in the text form of an array.
    pub delimiter: u8,
}

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// `f`.
    Function,
    /// `a`.
    Aggregate,
    /// `w`.
    Window,
    /// `p`.
    Procedure,
}

/// A row of `pg_proc`.
#[derive(Clone, Debug)]
pub struct FunctionRow {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// What it is.
    pub kind: FunctionKind,
    /// Types of its input parameters.
    pub arguments: Vec<Oid>,
    /// How many of the last ones have defaults.
    pub defaults: u16,
    /// These defaults, as expressions of SQL.
    pub default_values: Vec<String>,
    /// The type of the elements of a `VARIADIC` parameter; 0: none.
    pub variadic: Oid,
    /// The type of the result.
    pub result: Oid,
    /// Names of all parameters, inputs and outputs; empty: none has one.
    pub names: Vec<String>,
    /// `proargmodes` and `proallargtypes`, where there are outputs: each parameter's mode and type.
    pub outputs: Vec<(String, Oid)>,
    /// Whether a null argument gives null without a call.
    pub is_strict: bool,
    /// Whether it returns rows.
    pub returns_set: bool,
    /// `provolatile`: `i`, `s` or `v`.
    pub volatility: u8,
    /// `prosrc`. A function with a body of SQL has no name there, so its source is `name/number of arguments`, such as `lpad/2`.
    pub source: String,
}

impl FunctionRow {
    /// The columns of the result that the function itself names: its output parameters.
    pub fn result_columns(&self) -> impl Iterator<Item = (&str, Oid)> {
        let columns = self.names.iter().zip(&self.outputs);
        let is_output = |mode: &str| matches!(mode, "o" | "b" | "t");
        columns.filter(move |(_, (mode, _))| is_output(mode)).map(|(name, (_, of))| (name.as_str(), *of))
    }
}

/// A row of `pg_operator`.
#[derive(Clone, Debug)]
pub struct OperatorRow {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The type on its left; 0: it is a prefix.
    pub left: Oid,
    /// The type on its right.
    pub right: Oid,
    /// The type of its result.
    pub result: Oid,
    /// Its function.
    pub function: Oid,
    /// The same with its sides exchanged; 0: none.
    pub commutator: Oid,
    /// Its opposite; 0: none.
    pub negator: Oid,
    /// Whether it serves hash joins and hashed grouping.
    pub can_hash: bool,
}

/// When a cast applies by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Only where it is written.
    Explicit,
    /// And where a value is assigned to a column.
    Assignment,
    /// And in any expression.
    Implicit,
}

/// How a cast is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastMethod {
    /// By this function.
    Function(Oid),
    /// The value is the same.
    Binary,
    /// Through the text forms.
    Text,
}

/// A row of `pg_cast`.
#[derive(Clone, Copy, Debug)]
pub struct CastRow {
    /// From.
    pub source: Oid,
    /// To.
    pub target: Oid,
    /// When.
    pub context: CastContext,
    /// How.
    pub method: CastMethod,
}

/// The catalogs, with what the binder looks up.
#[derive(Debug)]
pub struct System {
    blocks: Vec<Block>,
    types: Vec<TypeRow>,
    functions: Vec<FunctionRow>,
    operators: Vec<OperatorRow>,
    types_by_oid: FxHashMap<Oid, usize>,
    functions_by_oid: FxHashMap<Oid, usize>,
    operators_by_oid: FxHashMap<Oid, usize>,
    casts: FxHashMap<(Oid, Oid), CastRow>,
}

/// The catalogs of PostgreSQL 15.
pub fn system() -> &'static System {
    static SYSTEM: LazyLock<System> = LazyLock::new(System::read);
    &SYSTEM
}

impl System {
    /// Rows that share a schema and a name are made neighbours, so a name is found as a slice.
    fn read() -> System {
        let mut blocks = file::read();
        own::add_to(&mut blocks);
        let of =
            |name: &str| blocks.iter().find(|block| block.name == name).expect("the file has all catalogs");
        let mut types = rows::types(of("pg_type"));
        let mut functions = rows::functions(of("pg_proc"));
        let mut operators = rows::operators(of("pg_operator"));
        types.sort_by(|a, b| (a.namespace, &a.name).cmp(&(b.namespace, &b.name)));
        functions.sort_by(|a, b| (a.namespace, &a.name, a.oid).cmp(&(b.namespace, &b.name, b.oid)));
        operators.sort_by(|a, b| (&a.name, a.oid).cmp(&(&b.name, b.oid)));
        System {
            types_by_oid: positions(&types, |row| row.oid),
            functions_by_oid: positions(&functions, |row| row.oid),
            operators_by_oid: positions(&operators, |row| row.oid),
            casts: rows::casts(of("pg_cast"))
                .into_iter()
                .map(|cast| ((cast.source, cast.target), cast))
                .collect(),
            types,
            functions,
            operators,
            blocks,
        }
    }

    /// A type by its number.
    pub fn type_by_oid(&self, oid: Oid) -> Option<&TypeRow> {
        self.types_by_oid.get(&oid).map(|position| &self.types[*position])
    }

    /// A type by its name in `pg_catalog`.
    pub fn type_by_name(&self, name: &str) -> Option<&TypeRow> {
        self.type_in(PG_CATALOG, name)
    }

    /// A type by its name in a system schema.
    pub fn type_in(&self, namespace: Oid, name: &str) -> Option<&TypeRow> {
        let found =
            self.types.binary_search_by(|row| (row.namespace, row.name.as_str()).cmp(&(namespace, name)));
        found.ok().map(|position| &self.types[position])
    }

    /// Functions, aggregates and window functions of this name in `pg_catalog`.
    pub fn functions_named(&self, name: &str) -> &[FunctionRow] {
        self.functions_in(PG_CATALOG, name)
    }

    /// Functions of this name in a system schema.
    pub fn functions_in(&self, namespace: Oid, name: &str) -> &[FunctionRow] {
        neighbours(&self.functions, |row| (row.namespace, row.name.as_str()).cmp(&(namespace, name)))
    }

    /// A function by its number.
    pub fn function(&self, oid: Oid) -> Option<&FunctionRow> {
        self.functions_by_oid.get(&oid).map(|position| &self.functions[*position])
    }

    /// Operators of this name.
    pub fn operators_named(&self, name: &str) -> &[OperatorRow] {
        neighbours(&self.operators, |row| row.name.as_str().cmp(name))
    }

    /// An operator by its number.
    pub fn operator(&self, oid: Oid) -> Option<&OperatorRow> {
        self.operators_by_oid.get(&oid).map(|position| &self.operators[*position])
    }

    /// The cast from one type to another.
    pub fn cast(&self, source: Oid, target: Oid) -> Option<CastRow> {
        self.casts.get(&(source, target)).copied()
    }

    /// All types.
    pub fn types(&self) -> &[TypeRow] {
        &self.types
    }

    /// All functions.
    pub fn functions(&self) -> &[FunctionRow] {
        &self.functions
    }

    /// All operators.
    pub fn operators(&self) -> &[OperatorRow] {
        &self.operators
    }

    /// The rows of a system relation, or of another part of the file, as text.
    pub fn block(&self, name: &str) -> Option<&Block> {
        self.blocks.iter().find(|block| block.name == name)
    }
}

fn positions<T>(rows: &[T], oid: impl Fn(&T) -> Oid) -> FxHashMap<Oid, usize> {
    rows.iter().enumerate().map(|(position, row)| (oid(row), position)).collect()
}

/// The rows that are equal in an order that all of them are in.
fn neighbours<T>(rows: &[T], order: impl Fn(&T) -> Ordering) -> &[T] {
    let start = rows.partition_point(|row| order(row) == Ordering::Less);
    let count = rows[start..].partition_point(|row| order(row) == Ordering::Equal);
    &rows[start..start + count]
}

#[cfg(test)]
mod tests;
