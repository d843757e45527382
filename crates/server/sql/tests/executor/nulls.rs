//! Nulls in expressions: answers recorded from PostgreSQL 15.

use std::sync::Arc;

use seawall_sql::algebra::{Expression, ExpressionKind, Relation, RowOrder};
use seawall_sql::execute::Limits;
use seawall_values::datum::Array;
use seawall_values::{Datum, TypeReference, oid};

use crate::algebra::{BOOL, INT4, compute, expression, function, run};
use crate::memory_storage::MemoryStorage;

fn constant(value: Datum, of: TypeReference) -> Expression {
    expression(ExpressionKind::Constant(value), of)
}

fn int(value: Option<i32>) -> Expression {
    constant(value.map_or(Datum::Null, Datum::Int4), INT4)
}

fn boolean(value: Option<bool>) -> Expression {
    constant(value.map_or(Datum::Null, Datum::Bool), BOOL)
}

/// The value as PostgreSQL's text, `N` for null.
fn value(of: Expression) -> String {
    let rows = run(compute(Relation::OneRow, 1, of), &[1], &mut MemoryStorage::default(), Limits::default());
    match &rows[0][0] {
        Datum::Null => "N".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int4(value) => value.to_string(),
        other => panic!("not shown in these tests: {other:?}"),
    }
}

fn values(all: impl IntoIterator<Item = Expression>) -> String {
    all.into_iter().map(value).collect::<Vec<_>>().join(" ")
}

#[test]
fn and_and_or() {
    let all = [Some(false), Some(true), None];
    let mut found = Vec::new();
    for left in all {
        for right in all {
            let terms = || vec![boolean(left), boolean(right)];
            found.push(values([
                expression(ExpressionKind::And(terms()), BOOL),
                expression(ExpressionKind::Or(terms()), BOOL),
            ]));
        }
    }
    assert_eq!(
        found.join(", "),
        "false false, false true, false N, false true, true true, N true, false N, N true, N N"
    );
}

#[test]
fn distinct_nullif_greatest_and_least() {
    let all = [Some(1), Some(2), None];
    let equals = || function("int4eq", &[oid::INT4, oid::INT4], oid::BOOL);
    let mut found = Vec::new();
    for left in all {
        for right in all {
            let (left, right) = (int(left), int(right));
            let both = || vec![left.clone(), right.clone()];
            let sides = || (Box::new(left.clone()), Box::new(right.clone()));
            let distinct = {
                let (left, right) = sides();
                ExpressionKind::IsDistinct { left, right, equals: equals() }
            };
            let null_if = {
                let (left, right) = sides();
                ExpressionKind::NullIf { left, right, equals: equals() }
            };
            found.push(values([
                expression(distinct, BOOL),
                expression(null_if, INT4),
                expression(ExpressionKind::Extreme(both(), true), INT4),
                expression(ExpressionKind::Extreme(both(), false), INT4),
            ]));
        }
    }
    assert_eq!(
        found.join(", "),
        "false N 1 1, true 1 2 1, true 1 1 1, true 2 2 1, false N 2 2, true 2 2 2, true N 1 1, true N 2 2, \
         false N N N"
    );
}

#[test]
fn any_and_all_of_arrays() {
    let array = |values: &[Option<i32>]| {
        let values = values.iter().map(|value| value.map_or(Datum::Null, Datum::Int4)).collect();
        Datum::Array(Arc::new(Array::one_dimensional(oid::INT4, values)))
    };
    let arrays =
        [array(&[]), array(&[Some(1)]), array(&[Some(1), None]), array(&[Some(2), None]), Datum::Null];
    let mut found = Vec::new();
    for left in [Some(1), Some(2), None] {
        for array in &arrays {
            let test = |name: &str, is_any| {
                let kind = ExpressionKind::ScalarArray {
                    left: Box::new(int(left)),
                    array: Box::new(constant(array.clone(), TypeReference::of(oid::INT4_ARRAY))),
                    function: function(name, &[oid::INT4, oid::INT4], oid::BOOL),
                    is_any,
                };
                expression(kind, BOOL)
            };
            found.push(values([test("int4eq", true), test("int4ne", false), test("int4lt", false)]));
        }
    }
    assert_eq!(
        found.join(", "),
        "false true true, true false false, true false false, N N N, N N N, false true true, false true false, \
         N N false, true false false, N N N, false true true, N N N, N N N, N N N, N N N"
    );
}

#[test]
fn comparisons_of_rows() {
    let rows = [[Some(1), Some(1)], [Some(1), Some(2)], [Some(1), None], [None, Some(1)]];
    let mut found = Vec::new();
    for left in rows {
        for right in rows {
            let test = |operator| {
                let (left, right) = (left.map(int).to_vec(), right.map(int).to_vec());
                expression(ExpressionKind::RowCompare { operator, left, right }, BOOL)
            };
            found.push(values([test(RowOrder::Less), test(RowOrder::GreaterOrEqual)]));
        }
    }
    assert_eq!(
        found.join(", "),
        "false true, true false, N N, N N, false true, false true, N N, N N, N N, N N, N N, N N, N N, N N, N N, \
         N N"
    );
}

#[test]
fn rows_that_are_null() {
    let mut found = Vec::new();
    for fields in [[Some(1), Some(1)], [Some(1), None], [None, None]] {
        let row = expression(ExpressionKind::Row(fields.map(int).to_vec()), TypeReference::of(oid::RECORD));
        found.push(values([
            expression(ExpressionKind::IsNull(Box::new(row.clone())), BOOL),
            expression(ExpressionKind::IsNotNull(Box::new(row)), BOOL),
        ]));
    }
    assert_eq!(found.join(", "), "false true, false false, true false");
}
