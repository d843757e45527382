//! Expressions as `EXPLAIN` shows them.

use seawall_values::{Datum, Settings, text_form};

use super::super::compare::Key;
use super::super::expression::{Comparison, Expression, FunctionCall, IntegerOperator, Operator};
use crate::algebra::{RowOrder, Written};

/// Names of slots, and how values are shown.
pub(super) struct Printer<'p> {
    pub(super) names: Vec<String>,
    pub(super) settings: &'p Settings,
}

pub(super) fn operator_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "=",
        Operator::NotEqual => "<>",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
    }
}

impl Printer<'_> {
    pub(super) fn slot(&self, slot: usize) -> &str {
        self.names.get(slot).map_or("?", String::as_str)
    }

    pub(super) fn slots(&self, slots: &[usize]) -> String {
        slots.iter().map(|slot| self.slot(*slot)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn keys(&self, keys: &[Key]) -> String {
        let key = |key: &Key| {
            let direction = if key.is_descending { " DESC" } else { "" };
            let nulls = match (key.is_descending, key.is_nulls_first) {
                (false, true) => " NULLS FIRST",
                (true, false) => " NULLS LAST",
                _ => "",
            };
            format!("{}{direction}{nulls}", self.slot(key.at))
        };
        keys.iter().map(key).collect::<Vec<_>>().join(", ")
    }

    fn constant(&self, value: &Datum) -> String {
        let mut text = String::new();
        let (of, name) = match value {
            Datum::Null => return "NULL".to_owned(),
            Datum::Bool(value) => return value.to_string(),
            Datum::Int2(value) => return value.to_string(),
            Datum::Int4(value) => return value.to_string(),
            Datum::Int8(value) => return value.to_string(),
            Datum::Text(text) => return format!("'{}'::text", text.replace('\'', "''")),
            Datum::Numeric(_) => (seawall_values::oid::NUMERIC, "numeric"),
            Datum::Float8(_) => (seawall_values::oid::FLOAT8, "double precision"),
            Datum::Date(_) => (seawall_values::oid::DATE, "date"),
            Datum::Timestamp(_) => (seawall_values::oid::TIMESTAMP, "timestamp without time zone"),
            Datum::TimestampTz(_) => (seawall_values::oid::TIMESTAMPTZ, "timestamp with time zone"),
            Datum::Uuid(_) => (seawall_values::oid::UUID, "uuid"),
            Datum::Bytea(_) => (seawall_values::oid::BYTEA, "bytea"),
            Datum::Array(array) => {
                let values: Vec<_> = array.values.iter().map(|value| self.constant(value)).collect();
                return format!("'{{{}}}'", values.join(","));
            }
            _ => return "?".to_owned(),
        };
        match text_form::output(of, value, self.settings, &mut text) {
            Ok(()) => format!("'{text}'::{name}"),
            Err(_) => "?".to_owned(),
        }
    }

    pub(super) fn all(&self, expressions: &[Expression]) -> String {
        expressions.iter().map(|expression| self.show(expression)).collect::<Vec<_>>().join(", ")
    }

    fn joined(&self, terms: &[Expression], word: &str) -> String {
        let terms: Vec<_> = terms.iter().map(|term| self.show(term)).collect();
        format!("({})", terms.join(word))
    }

    fn call(&self, call: &FunctionCall) -> String {
        if let Written::Operator(operator) = call.written
            && let Some(operator) = seawall_values::system::system().operator(operator)
        {
            return match &*call.arguments {
                [operand] => format!("({} {})", operator.name, self.show(operand)),
                [left, right] => {
                    format!("({} {} {})", self.show(left), operator.name, self.show(right))
                }
                _ => self.named(&call.function.name, &call.arguments),
            };
        }
        let is_cast = matches!(call.written, Written::ExplicitCast | Written::ImplicitCast);
        match (is_cast, call.arguments.first()) {
            (true, Some(operand)) => format!("({})::{}", self.show(operand), type_name(call.result.oid)),
            _ => self.named(&call.function.name, &call.arguments),
        }
    }

    fn named(&self, name: &str, arguments: &[Expression]) -> String {
        format!("{name}({})", self.all(arguments))
    }

    pub(super) fn comparison(&self, comparison: &Comparison) -> String {
        format!(
            "({} {} {})",
            self.show(&comparison.left),
            operator_name(comparison.operator),
            self.show(&comparison.right)
        )
    }

    pub(super) fn show(&self, expression: &Expression) -> String {
        match expression {
            Expression::Constant(value) => self.constant(value),
            Expression::Slot(slot) => self.slot(*slot).to_owned(),
            Expression::Parameter(number) => format!("${}", number + 1),
            Expression::Call(call) => self.call(call),
            Expression::SessionCall(call) => self.named(&call.function.name, &call.arguments),
            Expression::Compare(comparison) => self.comparison(comparison),
            Expression::Arithmetic(arithmetic) => {
                let operator = match arithmetic.operator {
                    IntegerOperator::Add => "+",
                    IntegerOperator::Subtract => "-",
                    IntegerOperator::Multiply => "*",
                };
                format!("({} {operator} {})", self.show(&arithmetic.left), self.show(&arithmetic.right))
            }
            Expression::And(terms) => self.joined(terms, " AND "),
            Expression::Or(terms) => self.joined(terms, " OR "),
            Expression::Not(operand) => format!("(NOT {})", self.show(operand)),
            Expression::IsNull(operand) => format!("({} IS NULL)", self.show(operand)),
            Expression::IsNotNull(operand) => format!("({} IS NOT NULL)", self.show(operand)),
            Expression::IsBoolean(operand, true) => format!("({} IS TRUE)", self.show(operand)),
            Expression::IsBoolean(operand, false) => format!("({} IS FALSE)", self.show(operand)),
            Expression::IsDistinct(pair) => {
                format!("({} IS DISTINCT FROM {})", self.show(&pair.left), self.show(&pair.right))
            }
            Expression::NullIf(pair) => {
                format!("NULLIF({}, {})", self.show(&pair.left), self.show(&pair.right))
            }
            Expression::Case(case) => {
                let branches = case.branches.iter().map(|(condition, result)| {
                    format!(" WHEN {} THEN {}", self.show(condition), self.show(result))
                });
                let otherwise =
                    case.otherwise.as_ref().map_or("NULL".to_owned(), |otherwise| self.show(otherwise));
                format!("CASE{} ELSE {otherwise} END", branches.collect::<String>())
            }
            Expression::Coalesce(operands) => format!("COALESCE({})", self.all(operands)),
            Expression::Extreme(operands, true, _) => format!("GREATEST({})", self.all(operands)),
            Expression::Extreme(operands, false, _) => format!("LEAST({})", self.all(operands)),
            Expression::Array(array) => format!("ARRAY[{}]", self.all(&array.elements)),
            Expression::Row(row) => format!("ROW({})", self.all(&row.fields)),
            Expression::RowCompare(compare) => {
                let operator = match compare.operator {
                    RowOrder::Less => "<",
                    RowOrder::LessOrEqual => "<=",
                    RowOrder::Greater => ">",
                    RowOrder::GreaterOrEqual => ">=",
                };
                format!("(ROW({}) {operator} ROW({}))", self.all(&compare.left), self.all(&compare.right))
            }
            Expression::Field(row, field) => format!("({}).f{}", self.show(row), field + 1),
            Expression::Subscript(subscripts) => {
                let parts = subscripts.parts.iter().map(|part| {
                    let bound = |bound: &Option<Expression>| {
                        bound.as_ref().map_or(String::new(), |bound| self.show(bound))
                    };
                    if subscripts.is_slice {
                        format!("[{}:{}]", bound(&part.from), bound(&part.to))
                    } else {
                        format!("[{}]", bound(&part.to))
                    }
                });
                format!("{}{}", self.show(&subscripts.container), parts.collect::<String>())
            }
            Expression::Assign(assignment) => self.show(&assignment.value),
            Expression::ScalarArray(test) => {
                let operator = super::super::expression::comparison_of(&test.function.function.source)
                    .map_or(test.function.function.name.as_str(), |(operator, _)| operator_name(operator));
                let word = if test.is_any { "ANY" } else { "ALL" };
                format!("({} {operator} {word} ({}))", self.show(&test.left), self.show(&test.array))
            }
            Expression::InSet(test) => {
                let values: Vec<_> = (0..test.set.len())
                    .flat_map(|number| test.set.get(number))
                    .map(|value| self.constant(value))
                    .collect();
                let operator = if test.is_negated { "<> ALL" } else { "= ANY" };
                format!("({} {operator} ('{{{}}}'))", self.show(&test.left), values.join(","))
            }
            Expression::Relabel(value, to) => format!("({})::{}", self.show(value), type_name(*to)),
            Expression::ConvertByText(conversion) => {
                format!("({})::{}", self.show(&conversion.value), type_name(conversion.to.oid))
            }
            Expression::ConvertElements(conversion) => self.show(&conversion.array),
            Expression::CheckDomain(check) => format!("({})::{}", self.show(&check.value), check.name),
            Expression::Subquery(number) => format!("(SubPlan {})", number + 1),
            Expression::NextValue(sequence, _) => format!("nextval({sequence})"),
        }
    }
}

fn type_name(of: seawall_values::Oid) -> String {
    seawall_values::system::system().type_by_oid(of).map_or_else(|| of.to_string(), |row| row.name.clone())
}
