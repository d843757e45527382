//! PostgreSQL 15's own catalogs: types, functions, operators, casts, aggregates.

use crate::oid::Oid;

/// A row of `pg_type`.
#[derive(Clone, Debug)]
pub struct TypeRow {
    /// Its number.
    pub oid: Oid,
    /// Its name.
    pub name: String,
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
    /// What it is.
    pub kind: FunctionKind,
    /// Types of its input parameters.
    pub arguments: Vec<Oid>,
    /// How many of the last ones have defaults.
    pub defaults: u16,
    /// The type of the elements of a `VARIADIC` parameter; 0: none.
    pub variadic: Oid,
    /// The type of the result.
    pub result: Oid,
    /// Names of all parameters, inputs and outputs; empty: none has one.
    pub names: Vec<String>,
    /// `proallargtypes` and `proargmodes`, where there are outputs.
    pub outputs: Vec<(String, Oid)>,
    /// Whether a null argument gives null without a call.
    pub is_strict: bool,
    /// Whether it returns rows.
    pub returns_set: bool,
    /// `provolatile`: `i`, `s` or `v`.
    pub volatility: u8,
    /// `prosrc`.
    pub source: String,
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
pub struct System {}

/// The catalogs of PostgreSQL 15.
pub fn system() -> &'static System {
    static SYSTEM: System = System {};
    &SYSTEM
}

impl System {
    /// A type by its number.
    pub fn type_by_oid(&self, _oid: Oid) -> Option<&TypeRow> {
        None
    }

    /// A type by its name in `pg_catalog`.
    pub fn type_by_name(&self, _name: &str) -> Option<&TypeRow> {
        None
    }

    /// Functions, aggregates and window functions of this name in `pg_catalog`.
    pub fn functions_named(&self, _name: &str) -> &[FunctionRow] {
        &[]
    }

    /// A function by its number.
    pub fn function(&self, _oid: Oid) -> Option<&FunctionRow> {
        None
    }

    /// Operators of this name.
    pub fn operators_named(&self, _name: &str) -> &[OperatorRow] {
        &[]
    }

    /// An operator by its number.
    pub fn operator(&self, _oid: Oid) -> Option<&OperatorRow> {
        None
    }

    /// The cast from one type to another.
    pub fn cast(&self, _source: Oid, _target: Oid) -> Option<CastRow> {
        None
    }
}
