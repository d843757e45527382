//! `rank(h) WITHIN GROUP (ORDER BY x)` and its kind: the place that a row would have among the others, by the aggregates that count those.
//!
//! | function | counted |
//! |---|---|
//! | `rank` | rows before it, and itself |
//! | `dense_rank` | different rows before it, and itself |
//! | `percent_rank` | rows before it, of all others |
//! | `cume_dist` | rows up to its equals, and itself, of all |

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, OrderByExpr, Value, ValueWithSpan,
};
use sqlparser::tokenizer::Span;

/// The functions.
pub(super) fn is_hypothetical(name: &str) -> bool {
    matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist")
}

/// What such a call stands for.
pub(super) fn meant(name: &str, call: &Function, arguments: &[FunctionArg]) -> SqlResult<Expr> {
    let mut keys = Vec::with_capacity(call.within_group.len());
    for (argument, order) in arguments.iter().zip(&call.within_group) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a hypothetical row"));
        };
        keys.push((value, order));
    }
    if arguments.len() != call.within_group.len() {
        let message = format!("function {name} with these arguments does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(format!(
            "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {}) must match the number of ordering columns (here {}).",
            arguments.len(),
            call.within_group.len()
        )));
    }
    let filtered = |condition: Option<Expr>| match (call.filter.as_deref().cloned(), condition) {
        (Some(filter), Some(condition)) => Some(both(filter, condition)),
        (filter, condition) => filter.or(condition),
    };
    let count = |condition: Option<Expr>| counted(FunctionArgExpr::Wildcard, None, filtered(condition));
    Ok(match name {
        "rank" => plus_one(count(Some(before(&keys)))),
        "dense_rank" => {
            let fields = call.within_group.iter().map(|order| order.expr.clone()).collect();
            let row = FunctionArgExpr::Expr(function("row", fields));
            let distinct = Some(sqlparser::ast::DuplicateTreatment::Distinct);
            plus_one(counted(row, distinct, filtered(Some(before(&keys)))))
        }
        "percent_rank" => {
            let all = function("greatest", vec![count(None), number("1")]);
            ratio(count(Some(before(&keys))), all)
        }
        _ => {
            let up_to = binary(before(&keys), BinaryOperator::Or, equal(&keys));
            ratio(plus_one(count(Some(up_to))), plus_one(count(None)))
        }
    })
}

/// Whether a row comes before the hypothetical one.
fn before(keys: &[(&Expr, &OrderByExpr)]) -> Expr {
    let mut condition: Option<Expr> = None;
    for (index, (value, order)) in keys.iter().enumerate() {
        let is_before = sorts_before(value, order);
        let term = match index {
            0 => is_before,
            _ => both(equal(&keys[..index]), is_before),
        };
        condition = Some(match condition {
            None => term,
            Some(known) => binary(known, BinaryOperator::Or, term),
        });
    }
    nested(condition.unwrap_or_else(|| Expr::Value(spanless(Value::Boolean(false)))))
}

fn sorts_before(value: &Expr, order: &OrderByExpr) -> Expr {
    let is_descending = matches!(order.options.sort, Some(sqlparser::ast::OrderBySort::Desc));
    let is_nulls_first = order.options.nulls_first.unwrap_or(is_descending);
    let operator = if is_descending { BinaryOperator::Gt } else { BinaryOperator::Lt };
    let key = nested(order.expr.clone());
    let compared = binary(key.clone(), operator, nested(value.clone()));
    let is_null = |expr: Expr| Expr::IsNull(Box::new(expr));
    let is_not_null = |expr: Expr| Expr::IsNotNull(Box::new(expr));
    let value = nested(value.clone());
    let with_nulls = match is_nulls_first {
        true => both(is_null(key), is_not_null(value)),
        false => both(is_not_null(key), is_null(value)),
    };
    function("coalesce", vec![compared, with_nulls])
}

fn equal(keys: &[(&Expr, &OrderByExpr)]) -> Expr {
    let mut condition: Option<Expr> = None;
    for (value, order) in keys {
        let (key, value) = (nested(order.expr.clone()), nested((*value).clone()));
        let term = nested(Expr::IsNotDistinctFrom(Box::new(key), Box::new(value)));
        condition = Some(match condition {
            None => term,
            Some(known) => both(known, term),
        });
    }
    nested(condition.unwrap_or_else(|| Expr::Value(spanless(Value::Boolean(true)))))
}

fn spanless(value: Value) -> ValueWithSpan {
    ValueWithSpan { value, span: Span::empty() }
}

fn number(digits: &str) -> Expr {
    Expr::Value(spanless(Value::Number(digits.to_owned(), false)))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn both(left: Expr, right: Expr) -> Expr {
    nested(binary(nested(left), BinaryOperator::And, nested(right)))
}

fn plus_one(count: Expr) -> Expr {
    nested(binary(count, BinaryOperator::Plus, number("1")))
}

fn ratio(part: Expr, whole: Expr) -> Expr {
    binary(function("float8", vec![part]), BinaryOperator::Divide, function("float8", vec![whole]))
}

fn counted(
    argument: FunctionArgExpr,
    duplicate_treatment: Option<sqlparser::ast::DuplicateTreatment>,
    filter: Option<Expr>,
) -> Expr {
    call("count", vec![argument], duplicate_treatment, filter)
}

fn function(name: &str, arguments: Vec<Expr>) -> Expr {
    call(name, arguments.into_iter().map(FunctionArgExpr::Expr).collect(), None, None)
}

fn call(
    name: &str,
    arguments: Vec<FunctionArgExpr>,
    duplicate_treatment: Option<sqlparser::ast::DuplicateTreatment>,
    filter: Option<Expr>,
) -> Expr {
    let args = arguments.into_iter().map(FunctionArg::Unnamed).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses: Vec::new(),
        }),
        filter: filter.map(Box::new),
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
