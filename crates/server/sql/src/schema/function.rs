//! Functions that users make: a query of SQL with parameters.

use seawall_values::system::{FunctionKind, FunctionRow, system};
use seawall_values::user_types::element_of_user_array;
use seawall_values::{Oid, oid};

/// A function. Immutable: a change makes another one.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its number in `pg_proc`.
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// The number of its schema.
    pub namespace: Oid,
    /// Its owner's number.
    pub owner: Oid,
    /// All of them: inputs, outputs, and the columns of `RETURNS TABLE`.
    pub parameters: Vec<FunctionParameter>,
    /// The type of its result, of one row.
    pub result: Oid,
    /// Whether it returns rows.
    pub returns_set: bool,
    /// `provolatile`: `i`, `s` or `v`.
    pub volatility: u8,
    /// Whether a null argument gives null, or no rows.
    pub is_strict: bool,
    /// `LEAKPROOF`.
    pub is_leakproof: bool,
    /// `proparallel`: `s`, `r` or `u`.
    pub parallel: u8,
    /// `COST`.
    pub cost: f64,
    /// `ROWS`; 0: it returns no set.
    pub rows: f64,
    /// Its query, as text of SQL.
    pub body: String,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct FunctionParameter {
    /// Its name; empty: none.
    pub name: String,
    /// `proargmodes`: `i`, `o`, `b`, `v` or `t`.
    pub mode: u8,
    /// Its type.
    pub of: Oid,
    /// `DEFAULT`, as an expression of SQL.
    pub default: Option<String>,
}

impl FunctionParameter {
    /// Whether a call gives it a value.
    pub fn is_input(&self) -> bool {
        matches!(self.mode, b'i' | b'b' | b'v')
    }
}

impl Function {
    /// Those that a call gives values to.
    pub fn inputs(&self) -> impl Iterator<Item = &FunctionParameter> {
        self.parameters.iter().filter(|parameter| parameter.is_input())
    }

    /// The types of its inputs.
    pub fn input_types(&self) -> Vec<Oid> {
        self.inputs().map(|parameter| parameter.of).collect()
    }

    /// As functions of the system are described.
    pub fn row(&self) -> FunctionRow {
        let is_plain = self.parameters.iter().all(|parameter| parameter.mode == b'i');
        let has_names = self.parameters.iter().any(|parameter| !parameter.name.is_empty());
        let default_values: Vec<String> = self.inputs().filter_map(|input| input.default.clone()).collect();
        let variadic = self.parameters.iter().find(|parameter| parameter.mode == b'v');
        let outputs = |parameter: &FunctionParameter| (char::from(parameter.mode).to_string(), parameter.of);
        FunctionRow {
            oid: self.oid,
            name: self.name.clone(),
            namespace: self.namespace,
            kind: FunctionKind::Function,
            arguments: self.input_types(),
            defaults: u16::try_from(default_values.len()).unwrap_or(u16::MAX),
            default_values,
            variadic: variadic.map_or(0, |parameter| element_of(parameter.of)),
            result: self.result,
            names: if has_names {
                self.parameters.iter().map(|one| one.name.clone()).collect()
            } else {
                Vec::new()
            },
            outputs: if is_plain { Vec::new() } else { self.parameters.iter().map(outputs).collect() },
            is_strict: self.is_strict,
            returns_set: self.returns_set,
            volatility: self.volatility,
            source: String::new(),
        }
    }
}

/// The type of the elements of an array.
fn element_of(array: Oid) -> Oid {
    if array == oid::ANYARRAY {
        return oid::ANYELEMENT;
    }
    match system().type_by_oid(array) {
        Some(row) => row.element,
        None => element_of_user_array(array).unwrap_or(0),
    }
}
