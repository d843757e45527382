//! Comparisons of two values by the order of their type, without a call.

use std::cmp::Ordering;

use seawall_values::{Datum, SqlResult};

use super::super::compare::compare;
use super::super::context::Context;
use super::{Expression, from_truth};

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    /// The same with the sides exchanged.
    pub(crate) fn commuted(self) -> Operator {
        match self {
            Operator::Equal | Operator::NotEqual => self,
            Operator::Less => Operator::Greater,
            Operator::LessOrEqual => Operator::GreaterOrEqual,
            Operator::Greater => Operator::Less,
            Operator::GreaterOrEqual => Operator::LessOrEqual,
        }
    }

    #[inline]
    pub(crate) fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Operator::Equal => ordering == Ordering::Equal,
            Operator::NotEqual => ordering != Ordering::Equal,
            Operator::Less => ordering == Ordering::Less,
            Operator::LessOrEqual => ordering != Ordering::Greater,
            Operator::Greater => ordering == Ordering::Greater,
            Operator::GreaterOrEqual => ordering != Ordering::Less,
        }
    }
}

/// Types whose comparison functions in `pg_proc` follow the order of the values: `int4eq`, `text_lt`. Of two types with one order the
/// function names both: `int48eq`.
const ORDERED: &[&str] = &[
    "bool",
    "bytea",
    "char",
    "name",
    "int2",
    "int4",
    "int8",
    "int24",
    "int42",
    "int28",
    "int82",
    "int48",
    "int84",
    "oid",
    "float4",
    "float8",
    "float48",
    "float84",
    "text",
    "bpchar",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "numeric",
    "uuid",
    "bit",
    "varbit",
    "jsonb",
    "array",
    "enum",
    "record",
    "pg_lsn",
    "tid",
    "xid8",
];

/// The operator of a comparison function of `pg_proc`, and whether spaces at the end do not count.
pub(crate) fn comparison_of(source: &str) -> Option<(Operator, bool)> {
    const SUFFIXES: &[(&str, Operator)] = &[
        ("eq", Operator::Equal),
        ("ne", Operator::NotEqual),
        ("lt", Operator::Less),
        ("le", Operator::LessOrEqual),
        ("gt", Operator::Greater),
        ("ge", Operator::GreaterOrEqual),
    ];
    let (name, operator) =
        SUFFIXES.iter().find_map(|(suffix, operator)| Some((source.strip_suffix(suffix)?, *operator)))?;
    let name = name.strip_suffix('_').unwrap_or(name);
    ORDERED.contains(&name).then_some((operator, name == "bpchar"))
}

/// A comparison of two expressions.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) operator: Operator,
    pub(crate) is_padded: bool,
    pub(crate) left: Expression,
    pub(crate) right: Expression,
}

impl Comparison {
    #[inline]
    pub(crate) fn test(&self, context: &mut Context<'_>) -> SqlResult<Option<bool>> {
        if let (Some(left), Some(right)) = (self.left.peek(context), self.right.peek(context)) {
            return Ok(self.decide(left, right));
        }
        let left = self.left.evaluate(context)?;
        match self.right.peek(context) {
            Some(right) => Ok(self.decide(&left, right)),
            None => Ok(self.decide(&left, &self.right.evaluate(context)?)),
        }
    }

    /// The value, if both sides are constants.
    pub(crate) fn constant(&self) -> Option<Datum> {
        match (&self.left, &self.right) {
            (Expression::Constant(left), Expression::Constant(right)) => {
                Some(from_truth(self.decide(left, right)))
            }
            _ => None,
        }
    }

    #[inline]
    fn decide(&self, left: &Datum, right: &Datum) -> Option<bool> {
        if left.is_null() || right.is_null() {
            return None;
        }
        Some(self.operator.accepts(compare(left, right, self.is_padded)))
    }
}
