//! Values.

use std::sync::Arc;

use seawall_values::system::{CastContext, FunctionRow};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, Expr, Ident, ObjectName,
    ObjectNamePart, TrimWhereField, UnaryOperator, Value,
};

use super::call::{Argument, FunctionName, FunctionOrCast};
use super::coerce::can_coerce;
use super::scope::ScopeTable;
use super::types::{array_of, element_of, type_name};
use super::{Binder, boolean, column, constant};
use crate::algebra::{Expression, ExpressionKind, RowOrder, Subquery, SubqueryKind, Subscript, Written};

/// Names are cut to so many bytes.
const NAME_BYTES_MAX: usize = 63;
/// Dimensions that an array may have.
const DIMENSIONS_MAX: usize = 6;

/// An identifier as PostgreSQL reads it: folded to lower case without quotes, and cut.
pub(crate) fn folded(ident: &Ident) -> String {
    let name = if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() };
    cut(name)
}

fn cut(mut name: String) -> String {
    if name.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// The parts of a name.
pub(crate) fn name_parts(name: &ObjectName) -> Vec<String> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Some(folded(ident)),
        ObjectNamePart::Function(_) => None,
    };
    name.0.iter().filter_map(part).collect()
}

/// The schema and the name; a database before them is passed over.
pub(crate) fn qualified(name: &ObjectName) -> (Option<String>, String) {
    let mut parts = name_parts(name);
    let last = parts.pop().unwrap_or_default();
    (parts.pop(), last)
}

/// The array of `LIKE ANY (array)` (`true`) or `LIKE ALL (array)`: sqlparser takes `ALL` for a function.
fn patterns(pattern: &Expr, is_any: bool) -> Option<(&Expr, bool)> {
    use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    if is_any {
        let inner = if let Expr::Nested(inner) = pattern { inner } else { pattern };
        return Some((inner, true));
    }
    let Expr::Function(call) = pattern else { return None };
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
    let is_any = match name.value.to_lowercase().as_str() {
        _ if name.quote_style.is_some() => return None,
        "all" => false,
        "any" | "some" => true,
        _ => return None,
    };
    match &call.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] => Some((array, is_any)),
            _ => None,
        },
        _ => None,
    }
}

fn function(schema: Option<&str>, name: &str) -> FunctionName {
    FunctionName { schema: schema.map(str::to_owned), name: name.to_owned() }
}

impl Binder<'_> {
    /// The value of an expression.
    pub(crate) fn expression(&mut self, expr: &Expr) -> SqlResult<Expression> {
        self.deeper(|binder| binder.expression_inside(expr))
    }

    fn expression_inside(&mut self, expr: &Expr) -> SqlResult<Expression> {
        let position = self.position(expr);
        match expr {
            Expr::Identifier(ident) => self.identifier(ident, position),
            Expr::CompoundIdentifier(parts) => self.compound(parts, position),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, position),
            Expr::Nested(inner) => self.expression(inner),
            Expr::Value(value) => self.value(&value.value, position),
            Expr::TypedString(typed) => {
                let text = string_value(&typed.value.value)
                    .ok_or_else(|| SqlError::unsupported("this literal").at(position))?;
                self.typed_literal(&text, &typed.data_type, position)
            }
            Expr::Prefixed { prefix, value } => {
                let Expr::Value(value) = value.as_ref() else {
                    return Err(SqlError::unsupported(format!("the prefix {prefix}")).at(position));
                };
                let text = string_value(&value.value)
                    .ok_or_else(|| SqlError::unsupported("this literal").at(position))?;
                let name = ObjectName(vec![ObjectNamePart::Identifier(prefix.clone())]);
                self.typed_literal(&text, &DataType::Custom(name, Vec::new()), position)
            }
            Expr::Interval(interval) => self.interval(interval, position),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr, position),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, position),
            Expr::IsNull(inner) => self.null_test(inner, true, position),
            Expr::IsNotNull(inner) => self.null_test(inner, false, position),
            Expr::IsTrue(inner) => self.boolean_test(inner, Some(true), false, "IS TRUE", position),
            Expr::IsNotTrue(inner) => self.boolean_test(inner, Some(true), true, "IS NOT TRUE", position),
            Expr::IsFalse(inner) => self.boolean_test(inner, Some(false), false, "IS FALSE", position),
            Expr::IsNotFalse(inner) => self.boolean_test(inner, Some(false), true, "IS NOT FALSE", position),
            Expr::IsUnknown(inner) => self.boolean_test(inner, None, false, "IS UNKNOWN", position),
            Expr::IsNotUnknown(inner) => self.boolean_test(inner, None, true, "IS NOT UNKNOWN", position),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, position),
            Expr::IsNotDistinctFrom(left, right) => {
                let distinct = self.distinct(left, right, position)?;
                Ok(boolean(ExpressionKind::Not(Box::new(distinct)), position))
            }
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated, position),
            Expr::InSubquery { expr, subquery, negated } => {
                let found = self.any_all(expr, "=", None, subquery, true, position)?;
                Ok(if *negated { boolean(ExpressionKind::Not(Box::new(found)), position) } else { found })
            }
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated, position),
            Expr::Like { negated, any, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~" } else { "~~" };
                match patterns(pattern, *any) {
                    Some((array, is_any)) => {
                        self.quantified_by(expr, operator, None, array, is_any, position)
                    }
                    None => self.like(operator, expr, pattern, escape_char.as_deref(), position),
                }
            }
            Expr::ILike { negated, any, expr, pattern, escape_char } => {
                let operator = if *negated { "!~~*" } else { "~~*" };
                match patterns(pattern, *any) {
                    Some((array, is_any)) => {
                        self.quantified_by(expr, operator, None, array, is_any, position)
                    }
                    None => self.like(operator, expr, pattern, escape_char.as_deref(), position),
                }
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let value = self.expression(expr)?;
                let mut arguments = vec![self.expression(pattern)?];
                if let Some(escape) = escape_char {
                    arguments.push(self.expression(escape)?);
                }
                let pattern = self.simple_call("similar_to_escape", arguments, position)?;
                self.operator(None, if *negated { "!~" } else { "~" }, Some(value), pattern, position)
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, true, position)
            }
            Expr::AllOp { left, compare_op, right } => {
                self.quantified(left, compare_op, right, false, position)
            }
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None } => {
                self.cast(expr, data_type, position)
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (value, zone) = (self.expression(timestamp)?, self.expression(time_zone)?);
                self.simple_call("timezone", vec![zone, value], position)
            }
            Expr::Extract { field, expr, .. } => {
                let field = constant(Datum::text(field_name(field)), oid::TEXT);
                let value = self.expression(expr)?;
                self.simple_call("extract", vec![field, value], position)
            }
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let value = self.expression(expr)?;
                self.simple_call("ceil", vec![value], position)
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let value = self.expression(expr)?;
                self.simple_call("floor", vec![value], position)
            }
            Expr::Position { expr, r#in } => {
                let (what, within) = (self.expression(expr)?, self.expression(r#in)?);
                self.simple_call("position", vec![within, what], position)
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expression(expr)?];
                match (substring_from, substring_for) {
                    (Some(from), Some(length)) => {
                        arguments.push(self.expression(from)?);
                        arguments.push(self.expression(length)?);
                    }
                    (Some(from), None) => arguments.push(self.expression(from)?),
                    (None, Some(length)) => {
                        arguments.push(constant(Datum::Int4(1), oid::INT4));
                        arguments.push(self.expression(length)?);
                    }
                    (None, None) => {}
                }
                self.simple_call("substring", arguments, position)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    Some(TrimWhereField::Both) | None => "btrim",
                };
                let mut arguments = vec![self.expression(expr)?];
                if let Some(what) = trim_what {
                    arguments.push(self.expression(what)?);
                }
                for characters in trim_characters.iter().flatten() {
                    arguments.push(self.expression(characters)?);
                }
                self.simple_call(name, arguments, position)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments = vec![
                    self.expression(expr)?,
                    self.expression(overlay_what)?,
                    self.expression(overlay_from)?,
                ];
                if let Some(length) = overlay_for {
                    arguments.push(self.expression(length)?);
                }
                self.simple_call("overlay", arguments, position)
            }
            Expr::Collate { expr, collation } => {
                let (_, name) = qualified(collation);
                let value = self.expression(expr)?;
                if !matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8" | "C.utf8") {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
                    )
                    .at(position));
                }
                let value = self.known(value)?;
                if !matches!(
                    value.of.oid,
                    oid::TEXT
                        | oid::VARCHAR
                        | oid::BPCHAR
                        | oid::NAME
                        | oid::TEXT_ARRAY
                        | oid::VARCHAR_ARRAY
                        | oid::NAME_ARRAY
                ) {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!("collations are not supported by type {}", type_name(value.of.oid)),
                    )
                    .at(position));
                }
                Ok(value)
            }
            Expr::Function(call) => self.function_call(call, position),
            Expr::Case { operand, conditions, else_result, .. } => self
                .without_sets("set-returning functions are not allowed in CASE", |binder| {
                    binder.case(operand.as_deref(), conditions, else_result.as_deref(), position)
                }),
            Expr::Exists { subquery, negated } => {
                let (relation, output) = self.subquery_of_expression(subquery)?;
                let columns = output.iter().map(|column| column.column).collect();
                let kind = ExpressionKind::Subquery(Box::new(Subquery {
                    kind: SubqueryKind::Exists,
                    relation,
                    columns,
                }));
                let exists = boolean(kind, position);
                Ok(if *negated { boolean(ExpressionKind::Not(Box::new(exists)), position) } else { exists })
            }
            Expr::Subquery(query) => {
                let (relation, output) = self.subquery_of_expression(query)?;
                let [only] = output.as_slice() else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "subquery must return only one column",
                    )
                    .at(position));
                };
                let of = only.of;
                let subquery = Subquery { kind: SubqueryKind::Scalar, relation, columns: vec![only.column] };
                Ok(Expression { kind: ExpressionKind::Subquery(Box::new(subquery)), of, position })
            }
            Expr::QualifiedWildcard(name, _) => {
                let (schema, name) = qualified(name);
                let table = self.named_table(schema.as_deref(), &name, position)?;
                let table = table.ok_or_else(|| self.missing_table(&name, position))?;
                Ok(self.whole_row(&table, position))
            }
            Expr::Tuple(fields) => self.row(fields, position),
            Expr::Array(array) => self.array(&array.elem, position),
            Expr::RLike { .. }
            | Expr::Struct { .. }
            | Expr::Lambda(_)
            | Expr::Map(_)
            | Expr::Dictionary(_)
            | Expr::MatchAgainst { .. } => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{expr}\""))
                    .at(position))
            }
            other => Err(SqlError::unsupported(format!("the expression {other}")).at(position)),
        }
    }

    // Names.

    fn identifier(&mut self, ident: &Ident, position: Option<u32>) -> SqlResult<Expression> {
        let name = folded(ident);
        if let Some(found) = self.named_column(&name, position)? {
            return Ok(Expression { kind: ExpressionKind::Column(found.id), of: found.of, position });
        }
        // A table's name is its row as a value.
        if let Some(table) = self.named_table(None, &name, position)? {
            return Ok(self.whole_row(&table, position));
        }
        if ident.quote_style.is_none()
            && let Some(value) = self.keyword_value(&name, position)?
        {
            return Ok(value);
        }
        Err(self.missing_column(None, &name, position))
    }

    /// Words that are values, where sqlparser takes them for names.
    fn keyword_value(&mut self, name: &str, position: Option<u32>) -> SqlResult<Option<Expression>> {
        Ok(match name {
            "default" => Some(Expression {
                kind: ExpressionKind::Default,
                of: TypeReference::of(oid::UNKNOWN),
                position,
            }),
            "current_user" | "session_user" | "user" | "current_role" | "current_catalog"
            | "current_schema" | "current_date" | "current_time" | "current_timestamp" | "localtime"
            | "localtimestamp" => Some(self.value_function(name, None, position)?),
            _ => None,
        })
    }

    pub(super) fn whole_row(&mut self, table: &ScopeTable, position: Option<u32>) -> Expression {
        if table.is_scalar
            && let [only] = table.columns.as_slice()
        {
            return Expression { kind: ExpressionKind::Column(only.id), of: only.of, position };
        }
        let ids = table.columns.iter().map(|column| column.id).collect();
        let names = table.columns.iter().map(|column| column.name.as_str().into()).collect();
        let of = match &table.table {
            Some(table) => super::types::ROW_TYPE_OFFSET + table.oid,
            None => oid::RECORD,
        };
        Expression { kind: ExpressionKind::WholeRow(ids, names), of: TypeReference::of(of), position }
    }

    fn compound(&mut self, parts: &[Ident], position: Option<u32>) -> SqlResult<Expression> {
        let names: Vec<String> = parts.iter().map(folded).collect();
        let (schema, table, name) = match names.as_slice() {
            [table, name] => (None, table, name),
            [schema, table, name] => (Some(schema.as_str()), table, name),
            [_, schema, table, name] => (Some(schema.as_str()), table, name),
            _ => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "improper qualified name (too many dotted names)",
                )
                .at(position));
            }
        };
        let Some(found) = self.named_table(schema, table, position)? else {
            // `column.field` of a composite column.
            if schema.is_none()
                && let Some(value) = self.named_column(table, position)?
            {
                let value = Expression { kind: ExpressionKind::Column(value.id), of: value.of, position };
                return self.field(value, name, position);
            }
            return Err(self.missing_table(table, position));
        };
        let mut columns = found.columns.iter().chain(&found.hidden).filter(|column| column.name == *name);
        match (columns.next(), columns.next()) {
            (Some(found), None) => {
                Ok(Expression { kind: ExpressionKind::Column(found.id), of: found.of, position })
            }
            (Some(_), Some(_)) => {
                let message = format!("column reference \"{name}\" is ambiguous");
                Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position))
            }
            (None, _) => Err(self.missing_column(Some(table), name, position)),
        }
    }

    fn access(&mut self, root: &Expr, chain: &[AccessExpr], position: Option<u32>) -> SqlResult<Expression> {
        let mut value = self.expression(root)?;
        let mut rest = chain;
        while let Some(first) = rest.first() {
            match first {
                AccessExpr::Dot(Expr::Identifier(name)) => {
                    value = self.field(value, &folded(name), position)?;
                    rest = &rest[1..];
                }
                AccessExpr::Dot(other) => {
                    return Err(SqlError::unsupported(format!("the field {other}")).at(position));
                }
                AccessExpr::Subscript(_) => {
                    let count =
                        rest.iter().take_while(|access| matches!(access, AccessExpr::Subscript(_))).count();
                    value = self.subscripts(value, &rest[..count], position)?;
                    rest = &rest[count..];
                }
            }
        }
        Ok(value)
    }

    fn field(&mut self, value: Expression, name: &str, position: Option<u32>) -> SqlResult<Expression> {
        let fields = self.fields_of(&value)?;
        let Some(index) = fields.iter().position(|(field, _)| field == name) else {
            let message = if value.of.oid == oid::RECORD {
                format!("could not identify column \"{name}\" in record data type")
            } else if fields.is_empty() {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "column notation .{name} applied to type {}, which is not a composite type",
                        type_name(value.of.oid)
                    ),
                )
                .at(position));
            } else {
                format!("column \"{name}\" not found in data type {}", type_name(value.of.oid))
            };
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(position));
        };
        let of = fields[index].1;
        Ok(Expression { kind: ExpressionKind::Field(Box::new(value), index), of, position })
    }

    /// The names and types of the fields of a composite value.
    pub(super) fn fields_of(&mut self, value: &Expression) -> SqlResult<Vec<(String, TypeReference)>> {
        if super::types::is_row_type(value.of.oid) {
            return self.row_columns(value.of.oid);
        }
        match &value.kind {
            ExpressionKind::Row(fields) => Ok(fields
                .iter()
                .enumerate()
                .map(|(index, field)| (format!("f{}", index + 1), field.of))
                .collect()),
            ExpressionKind::WholeRow(ids, _) => {
                let columns =
                    self.scopes.iter().flat_map(|scope| &scope.tables).flat_map(|table| &table.columns);
                let found: Vec<_> = columns.filter(|column| ids.contains(&column.id)).collect();
                let by_id = |id| found.iter().find(|column| column.id == id);
                Ok(ids
                    .iter()
                    .filter_map(|id| by_id(*id))
                    .map(|column| (column.name.clone(), column.of))
                    .collect())
            }
            // Functions that return records with names of their own.
            ExpressionKind::Call(call) | ExpressionKind::SessionCall(call) if value.of.oid == oid::RECORD => {
                Ok(super::types::result_columns(call))
            }
            ExpressionKind::Column(id) => Ok(self.record_fields.get(id).cloned().unwrap_or_default()),
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn subscripts(
        &mut self,
        value: Expression,
        chain: &[AccessExpr],
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        use sqlparser::ast::Subscript as Written;
        let is_slice =
            chain.iter().any(|access| matches!(access, AccessExpr::Subscript(Written::Slice { .. })));
        let container = value.of.oid;
        let (element, index_type) = match container {
            oid::JSONB => (oid::JSONB, oid::TEXT),
            oid::INT2VECTOR => (oid::INT2, oid::INT4),
            oid::OIDVECTOR => (oid::OID, oid::INT4),
            _ => match element_of(container) {
                Some(element) => (element, oid::INT4),
                None => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!(
                            "cannot subscript type {} because it does not support subscripting",
                            type_name(container)
                        ),
                    )
                    .at(position));
                }
            },
        };
        if container == oid::JSONB && is_slice {
            let slice = chain.iter().find_map(|access| match access {
                AccessExpr::Subscript(Written::Slice { lower_bound, upper_bound, .. }) => {
                    upper_bound.as_ref().or(lower_bound.as_ref())
                }
                _ => None,
            });
            let at = slice.and_then(|bound| self.position(bound)).or(position);
            let message = "jsonb subscript does not support slices";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
        }
        if container != oid::JSONB && chain.len() > DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                chain.len()
            );
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let mut subscripts = Vec::with_capacity(chain.len());
        for access in chain {
            let AccessExpr::Subscript(subscript) = access else { continue };
            let index = |binder: &mut Self, expr: &Expr| -> SqlResult<Expression> {
                let at = binder.position(expr);
                let bound = binder.expression(expr)?;
                if container == oid::JSONB {
                    let target = if can_coerce(bound.of.oid, oid::INT4, CastContext::Implicit)
                        && bound.of.oid != oid::UNKNOWN
                    {
                        oid::INT4
                    } else {
                        index_type
                    };
                    return binder.coerce(bound, target, CastContext::Implicit, super::expression::IMPLICIT);
                }
                if !can_coerce(bound.of.oid, index_type, CastContext::Assignment) {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        "array subscript must have type integer",
                    )
                    .at(at));
                }
                binder.coerce(bound, index_type, CastContext::Assignment, IMPLICIT)
            };
            subscripts.push(match subscript {
                // Among slices a single number is the last subscript of a slice that begins with 1.
                Written::Index { index: to } => Subscript {
                    from: is_slice.then(|| constant(Datum::Int4(1), oid::INT4)),
                    to: Some(index(self, to)?),
                },
                Written::Slice { lower_bound, upper_bound, .. } => Subscript {
                    from: lower_bound.as_ref().map(|bound| index(self, bound)).transpose()?,
                    to: upper_bound.as_ref().map(|bound| index(self, bound)).transpose()?,
                },
            });
        }
        let of =
            if is_slice { value.of } else { TypeReference { oid: element, modifier: value.of.modifier } };
        let kind = ExpressionKind::Subscript { container: Box::new(value), subscripts, is_slice };
        Ok(Expression { kind, of, position })
    }

    // Literals.

    fn value(&mut self, value: &Value, position: Option<u32>) -> SqlResult<Expression> {
        let known = |datum, oid| Expression {
            kind: ExpressionKind::Constant(datum),
            of: TypeReference::of(oid),
            position,
        };
        Ok(match value {
            Value::Number(text, _) => return self.number(text, position),
            Value::Boolean(value) => known(Datum::Bool(*value), oid::BOOL),
            Value::Null => known(Datum::Null, oid::UNKNOWN),
            Value::Placeholder(text) => return self.parameter(text, position),
            Value::HexStringLiteral(text) => {
                return self.literal(&format!("x{text}"), TypeReference::of(oid::BIT), position);
            }
            Value::SingleQuotedByteStringLiteral(text) => {
                return self.literal(&format!("b{text}"), TypeReference::of(oid::BIT), position);
            }
            other => match string_value(other) {
                Some(text) => known(Datum::text(text), oid::UNKNOWN),
                None => {
                    return Err(SqlError::unsupported(format!("the literal {other}")).at(position));
                }
            },
        })
    }

    fn number(&mut self, text: &str, position: Option<u32>) -> SqlResult<Expression> {
        let known = |datum, oid| Expression {
            kind: ExpressionKind::Constant(datum),
            of: TypeReference::of(oid),
            position,
        };
        if let Ok(value) = text.parse::<i32>() {
            return Ok(known(Datum::Int4(value), oid::INT4));
        }
        if let Ok(value) = text.parse::<i64>() {
            return Ok(known(Datum::Int8(value), oid::INT8));
        }
        self.literal(text, TypeReference::of(oid::NUMERIC), position)
    }

    fn parameter(&mut self, text: &str, position: Option<u32>) -> SqlResult<Expression> {
        let number = text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let Some(index) = number.filter(|number| (1..=65_535).contains(number)).map(|number| number - 1)
        else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {text}"),
            )
            .at(position));
        };
        if !self.has_parameters {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {text}"),
            )
            .at(position));
        }
        if index >= self.parameters.len() {
            self.parameters.resize(index + 1, oid::UNKNOWN);
        }
        let of = TypeReference::of(self.parameters[index]);
        Ok(Expression { kind: ExpressionKind::Parameter(index), of, position })
    }

    fn typed_literal(
        &mut self,
        text: &str,
        data_type: &DataType,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let target = self.type_of(data_type).map_err(|error| error.at(position))?;
        let text = constant(Datum::text(text), oid::UNKNOWN);
        let text = Expression { position, ..text };
        let converted = self.coerce_to(text, target, CastContext::Explicit, Written::ExplicitCast)?;
        converted.ok_or_else(|| SqlError::internal("a literal that cannot be converted"))
    }

    fn interval(
        &mut self,
        interval: &sqlparser::ast::Interval,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let fields = match (&interval.leading_field, &interval.last_field) {
            (None, _) => String::new(),
            (Some(first), None) => format!(" {}", field_name(first)),
            (Some(first), Some(last)) => format!(" {} to {}", field_name(first), field_name(last)),
        };
        use sqlparser::ast::IntervalFields as F;
        let fields = match fields.trim() {
            "" => None,
            "year" => Some(F::Year),
            "month" => Some(F::Month),
            "day" => Some(F::Day),
            "hour" => Some(F::Hour),
            "minute" => Some(F::Minute),
            "second" => Some(F::Second),
            "year to month" => Some(F::YearToMonth),
            "day to hour" => Some(F::DayToHour),
            "day to minute" => Some(F::DayToMinute),
            "day to second" => Some(F::DayToSecond),
            "hour to minute" => Some(F::HourToMinute),
            "hour to second" => Some(F::HourToSecond),
            "minute to second" => Some(F::MinuteToSecond),
            other => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("syntax error at or near \"{other}\""),
                )
                .at(position));
            }
        };
        let precision = interval.fractional_seconds_precision.or(interval.leading_precision);
        let data_type = DataType::Interval { fields, precision };
        let value = self.expression(&interval.value)?;
        let target = self.type_of(&data_type)?;
        match self.coerce_to(value, target, CastContext::Explicit, Written::ExplicitCast)? {
            Some(value) => Ok(value),
            None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in an interval").at(position)),
        }
    }

    // Operators.

    fn unary(
        &mut self,
        operator: UnaryOperator,
        inner: &Expr,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let name = match operator {
            UnaryOperator::Not => {
                let value = self.expression(inner)?;
                let value = self.coerce_to_boolean(value, "NOT")?;
                return Ok(boolean(ExpressionKind::Not(Box::new(value)), position));
            }
            UnaryOperator::Minus => {
                // The smallest integers have no positive counterpart.
                if let Expr::Value(value) = inner
                    && let Value::Number(text, _) = &value.value
                {
                    return self.number(&format!("-{text}"), position);
                }
                "-"
            }
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            UnaryOperator::PGAbs => "@",
            other => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("operator does not exist: {other}"),
                )
                .at(position));
            }
        };
        let value = self.expression(inner)?;
        self.operator(None, name, None, value, position)
    }

    fn binary(
        &mut self,
        left: &Expr,
        operator: &BinaryOperator,
        right: &Expr,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        match operator {
            BinaryOperator::And | BinaryOperator::Or => {
                let construct = if *operator == BinaryOperator::And { "AND" } else { "OR" };
                let mut operands = Vec::new();
                self.operands(left, operator, construct, &mut operands)?;
                self.operands(right, operator, construct, &mut operands)?;
                let kind = if *operator == BinaryOperator::And {
                    ExpressionKind::And(operands)
                } else {
                    ExpressionKind::Or(operands)
                };
                return Ok(boolean(kind, position));
            }
            BinaryOperator::Overlaps => {
                let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "wrong number of parameters on left side of OVERLAPS expression",
                    )
                    .at(position));
                };
                let mut arguments = Vec::new();
                for value in left.iter().chain(right) {
                    arguments.push(self.expression(value)?);
                }
                return self.simple_call("overlaps", arguments, position);
            }
            _ => {}
        }
        let (schema, name) = operator_name(operator);
        // Where the operator stands is not kept; PostgreSQL points at it.
        let position = self.operator_position(left, &name).or(position);
        if let (Some(left_fields), Some(right_fields)) = (row_fields(left), row_fields(right))
            && schema.is_none()
        {
            return self.row_comparison(&name, left_fields, right_fields, position);
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        self.operator(schema.as_deref(), &name, Some(left), right, position)
    }

    fn operator_position(&self, left: &Expr, name: &str) -> Option<u32> {
        use sqlparser::ast::Spanned;
        self.text.find_after(left.span().end, name)
    }

    /// The operands of a chain of `AND` or `OR`, without recursion along it.
    fn operands(
        &mut self,
        expr: &Expr,
        operator: &BinaryOperator,
        construct: &str,
        into: &mut Vec<Expression>,
    ) -> SqlResult<()> {
        let mut pending = vec![expr];
        while let Some(next) = pending.pop() {
            match next {
                Expr::BinaryOp { left, op, right } if op == operator => {
                    pending.push(right);
                    pending.push(left);
                }
                other => {
                    let value = self.expression(other)?;
                    into.push(self.coerce_to_boolean(value, construct)?);
                }
            }
        }
        Ok(())
    }

    fn row_comparison(
        &mut self,
        name: &str,
        left: &[Expr],
        right: &[Expr],
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if left.len() != right.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            )
            .at(position));
        }
        let mut bound = (Vec::new(), Vec::new());
        for (left, right) in left.iter().zip(right) {
            bound.0.push(self.expression(left)?);
            bound.1.push(self.expression(right)?);
        }
        self.bound_rows(name, bound.0, bound.1, position)
    }

    fn bound_rows(
        &mut self,
        name: &str,
        left: Vec<Expression>,
        right: Vec<Expression>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if left.is_empty() {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length")
                .at(position));
        }
        let order = match name {
            "=" | "<>" => None,
            "<" => Some(RowOrder::Less),
            "<=" => Some(RowOrder::LessOrEqual),
            ">" => Some(RowOrder::Greater),
            ">=" => Some(RowOrder::GreaterOrEqual),
            _ => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("could not determine interpretation of row comparison operator {name}"),
                )
                .with_hint("Row comparison operators must be associated with btree operator families.")
                .at(position));
            }
        };
        if let Some(operator) = order {
            // The operator says which types the sides are compared as.
            let mut sides = (Vec::new(), Vec::new());
            for (left, right) in left.into_iter().zip(right) {
                let compared = self.operator(None, name, Some(left), right, position)?;
                let ExpressionKind::Call(call) = compared.kind else { continue };
                let mut arguments = call.arguments.into_iter();
                sides.0.extend(arguments.next());
                sides.1.extend(arguments.next());
            }
            return Ok(boolean(
                ExpressionKind::RowCompare { operator, left: sides.0, right: sides.1 },
                position,
            ));
        }
        let mut tests = Vec::new();
        for (left, right) in left.into_iter().zip(right) {
            tests.push(self.operator(None, name, Some(left), right, position)?);
        }
        if tests.len() == 1
            && let Some(only) = tests.pop()
        {
            return Ok(only);
        }
        Ok(boolean(
            if name == "=" { ExpressionKind::And(tests) } else { ExpressionKind::Or(tests) },
            position,
        ))
    }

    fn null_test(&mut self, inner: &Expr, is_null: bool, position: Option<u32>) -> SqlResult<Expression> {
        let value = Box::new(self.expression(inner)?);
        Ok(boolean(
            if is_null { ExpressionKind::IsNull(value) } else { ExpressionKind::IsNotNull(value) },
            position,
        ))
    }

    fn boolean_test(
        &mut self,
        inner: &Expr,
        wanted: Option<bool>,
        is_negated: bool,
        construct: &str,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = self.expression(inner)?;
        let value = Box::new(self.coerce_to_boolean(value, construct)?);
        let test = match wanted {
            Some(wanted) => boolean(ExpressionKind::IsBoolean(value, wanted), position),
            None => boolean(ExpressionKind::IsNull(value), position),
        };
        Ok(if is_negated { boolean(ExpressionKind::Not(Box::new(test)), position) } else { test })
    }

    /// The function of `=` for two values, and these converted to its types.
    pub(super) fn equality(
        &mut self,
        left: Expression,
        right: Expression,
        position: Option<u32>,
    ) -> SqlResult<(Expression, Expression, Arc<FunctionRow>)> {
        let compared = self.operator(None, "=", Some(left), right, position)?;
        let (ExpressionKind::Call(call) | ExpressionKind::SessionCall(call)) = compared.kind else {
            return Err(SqlError::internal("an operator that is no call"));
        };
        let function = Arc::clone(&call.function);
        let mut arguments = call.arguments.into_iter();
        match (arguments.next(), arguments.next()) {
            (Some(left), Some(right)) => Ok((left, right, function)),
            _ => Err(SqlError::internal("an operator without its sides")),
        }
    }

    fn distinct(&mut self, left: &Expr, right: &Expr, position: Option<u32>) -> SqlResult<Expression> {
        if let (Some(left), Some(right)) = (row_fields(left), row_fields(right)) {
            if left.len() != right.len() {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "unequal number of entries in row expressions",
                )
                .at(position));
            }
            let mut tests = Vec::new();
            for (left, right) in left.iter().zip(right) {
                tests.push(self.distinct(left, right, position)?);
            }
            return Ok(boolean(ExpressionKind::Or(tests), position));
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        if let ExpressionKind::Constant(Datum::Null) = right.kind {
            return Ok(boolean(ExpressionKind::IsNotNull(Box::new(left)), position));
        }
        let (left, right, equals) = self.equality(left, right, position)?;
        let kind = ExpressionKind::IsDistinct { left: Box::new(left), right: Box::new(right), equals };
        Ok(boolean(kind, position))
    }

    fn between(
        &mut self,
        value: &Expr,
        low: &Expr,
        high: &Expr,
        is_negated: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (value, low, high) = (self.expression(value)?, self.expression(low)?, self.expression(high)?);
        let (first, second) = if is_negated { ("<", ">") } else { (">=", "<=") };
        let first = self.operator(None, first, Some(value.clone()), low, position)?;
        let second = self.operator(None, second, Some(value), high, position)?;
        let tests = vec![first, second];
        Ok(boolean(if is_negated { ExpressionKind::Or(tests) } else { ExpressionKind::And(tests) }, position))
    }

    fn like(
        &mut self,
        operator: &str,
        value: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = self.expression(value)?;
        let mut pattern = self.expression(pattern)?;
        if let Some(escape) = escape {
            let escape = self.expression(escape)?;
            pattern = self.simple_call("like_escape", vec![pattern, escape], position)?;
        }
        self.operator(None, operator, Some(value), pattern, position)
    }

    fn in_list(
        &mut self,
        value: &Expr,
        list: &[Expr],
        is_negated: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let name = if is_negated { "<>" } else { "=" };
        if let Some(fields) = row_fields(value) {
            let mut tests = Vec::new();
            for item in list {
                let Some(other) = row_fields(item) else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "unequal number of entries in row expressions",
                    )
                    .at(position));
                };
                tests.push(self.row_comparison(name, fields, other, position)?);
            }
            return Ok(boolean(
                if is_negated { ExpressionKind::And(tests) } else { ExpressionKind::Or(tests) },
                position,
            ));
        }
        let value = self.expression(value)?;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            items.push(self.expression(item)?);
        }
        // Several values without columns make one array, as PostgreSQL does it.
        let constants = items.iter().filter(|item| !has_columns(item)).count();
        if constants == items.len()
            && items.len() > 1
            && let Some(common) = self.list_type(&value, &items)
            && let Some(array) = array_of(common)
        {
            let mut elements = Vec::with_capacity(items.len());
            for item in items {
                elements.push(self.coerce_common(item, common, "IN")?);
            }
            let kind = ExpressionKind::Array { elements, element: common, is_nested: false };
            let array = Expression { kind, of: TypeReference::of(array), position };
            return self.scalar_array(value, name, None, array, !is_negated, position);
        }
        let mut tests = Vec::with_capacity(items.len());
        for item in items {
            tests.push(self.operator(None, name, Some(value.clone()), item, position)?);
        }
        if tests.len() == 1
            && let Some(only) = tests.pop()
        {
            return Ok(only);
        }
        Ok(boolean(if is_negated { ExpressionKind::And(tests) } else { ExpressionKind::Or(tests) }, position))
    }

    fn list_type(&self, value: &Expression, items: &[Expression]) -> Option<Oid> {
        let types: Vec<Oid> = std::iter::once(value).chain(items).map(|item| item.of.oid).collect();
        let common = super::coerce::common_type(&types)?;
        (common != oid::RECORD && element_of(common).is_none()).then_some(common)
    }

    /// `left operator ANY (array)`.
    fn scalar_array(
        &mut self,
        left: Expression,
        name: &str,
        schema: Option<&str>,
        array: Expression,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let array = match array.of.oid {
            oid::UNKNOWN => {
                let target = array_of(if left.of.oid == oid::UNKNOWN { oid::TEXT } else { left.of.oid })
                    .unwrap_or(oid::TEXT_ARRAY);
                self.coerce(array, target, CastContext::Implicit, IMPLICIT)?
            }
            oid::INT2VECTOR => self.coerce(array, oid::INT2_ARRAY, CastContext::Implicit, IMPLICIT)?,
            oid::OIDVECTOR => self.coerce(array, oid::OID_ARRAY, CastContext::Implicit, IMPLICIT)?,
            _ => array,
        };
        let Some(element) = element_of(array.of.oid) else {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires array on right side",
            )
            .at(position));
        };
        let left_type = left.of.oid;
        let placeholder = self.new_column();
        let item = column(placeholder, TypeReference::of(element));
        let compared = self.operator(schema, name, Some(left), item, position)?;
        if compared.of.oid != oid::BOOL {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
            )
            .at(position));
        }
        let ExpressionKind::Call(call) = compared.kind else {
            return Err(SqlError::unsupported(format!("{} {name} ANY", type_name(left_type))).at(position));
        };
        let function = Arc::clone(&call.function);
        let mut arguments = call.arguments.into_iter();
        let (Some(left), Some(item)) = (arguments.next(), arguments.next()) else {
            return Err(SqlError::internal("an operator without its sides"));
        };
        // What the operator converts an element to, the array is converted to.
        let array = if item.of.oid == element {
            array
        } else {
            let target =
                array_of(item.of.oid).ok_or_else(|| SqlError::unsupported("this array").at(position))?;
            self.coerce(array, target, CastContext::Implicit, IMPLICIT)?
        };
        let kind =
            ExpressionKind::ScalarArray { left: Box::new(left), array: Box::new(array), function, is_any };
        Ok(boolean(kind, position))
    }

    fn quantified(
        &mut self,
        left: &Expr,
        operator: &BinaryOperator,
        right: &Expr,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (schema, name) = operator_name(operator);
        self.quantified_by(left, &name, schema.as_deref(), right, is_any, position)
    }

    fn quantified_by(
        &mut self,
        left: &Expr,
        name: &str,
        schema: Option<&str>,
        right: &Expr,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        if let Expr::Subquery(query) = right {
            return self.any_all(left, name, schema, query, is_any, position);
        }
        let left = self.expression(left)?;
        let array = self.expression(right)?;
        self.scalar_array(left, name, schema, array, is_any, position)
    }

    fn any_all(
        &mut self,
        left: &Expr,
        name: &str,
        schema: Option<&str>,
        query: &sqlparser::ast::Query,
        is_any: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let fields: Vec<Expression> = match row_fields(left) {
            Some(fields) => fields.iter().map(|field| self.expression(field)).collect::<SqlResult<_>>()?,
            None => vec![self.expression(left)?],
        };
        let (relation, output) = self.subquery_of_expression(query)?;
        if output.len() != fields.len() {
            let message = if output.len() < fields.len() {
                "subquery has too few columns"
            } else {
                "subquery has too many columns"
            };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        }
        let columns: Vec<Expression> = output.iter().map(|out| column(out.column, out.of)).collect();
        let test = if fields.len() == 1
            && let (Some(left), Some(right)) = (fields.first(), columns.first())
        {
            self.operator(schema, name, Some(left.clone()), right.clone(), position)?
        } else {
            self.bound_rows(name, fields, columns, position)?
        };
        let test = self.coerce_to_boolean(test, "ANY/ALL")?;
        let kind = if is_any { SubqueryKind::Any(Box::new(test)) } else { SubqueryKind::All(Box::new(test)) };
        let columns = output.iter().map(|out| out.column).collect();
        Ok(boolean(ExpressionKind::Subquery(Box::new(Subquery { kind, relation, columns })), position))
    }

    // Conversions, rows, arrays, conditions.

    fn cast(&mut self, inner: &Expr, data_type: &DataType, position: Option<u32>) -> SqlResult<Expression> {
        let target = self.type_of(data_type).map_err(|error| error.at(position))?;
        // An array's elements get the type at once, so that an empty one has any.
        let value = match inner {
            Expr::Array(array) if element_of(target.oid).is_some() => {
                self.array_of_type(&array.elem, target, position)?
            }
            inner => self.expression(inner)?,
        };
        let source = value.of.oid;
        match self.coerce_to(value, target, CastContext::Explicit, Written::ExplicitCast)? {
            Some(value) => Ok(value),
            None => {
                let message = format!("cannot cast type {} to {}", type_name(source), type_name(target.oid));
                Err(SqlError::new(SqlState::CANNOT_COERCE, message).at(position))
            }
        }
    }

    /// The columns of a row as a whole.
    pub(super) fn fields_of_row(&mut self, row: Expression) -> SqlResult<Vec<Expression>> {
        let fields = self.fields_of(&row)?;
        let ExpressionKind::WholeRow(ids, _) = row.kind else {
            return Err(SqlError::internal("a row that is none"));
        };
        let column = |(id, (_, of)): (crate::algebra::ColumnId, (String, TypeReference))| Expression {
            kind: ExpressionKind::Column(id),
            of,
            position: row.position,
        };
        Ok(ids.into_iter().zip(fields).map(column).collect())
    }

    fn row(&mut self, fields: &[Expr], position: Option<u32>) -> SqlResult<Expression> {
        let mut bound = Vec::with_capacity(fields.len());
        for field in fields {
            let value = self.expression(field)?;
            // `t.*` is all of its columns.
            match (&value.kind, field) {
                (ExpressionKind::WholeRow(..), Expr::QualifiedWildcard(..)) => {
                    bound.extend(self.fields_of_row(value)?);
                }
                _ => bound.push(self.known(value)?),
            }
        }
        Ok(Expression { kind: ExpressionKind::Row(bound), of: TypeReference::of(oid::RECORD), position })
    }

    fn array(&mut self, elements: &[Expr], position: Option<u32>) -> SqlResult<Expression> {
        if elements.is_empty() {
            return Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                "cannot determine type of empty array",
            )
            .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].")
            .at(position));
        }
        let mut bound = Vec::with_capacity(elements.len());
        for element in elements {
            bound.push(self.expression(element)?);
        }
        let common = self.common_type_of(&bound.iter().collect::<Vec<_>>(), "ARRAY")?;
        self.array_from(bound, common, position)
    }

    fn array_from(
        &mut self,
        elements: Vec<Expression>,
        common: Oid,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let mut converted = Vec::with_capacity(elements.len());
        for element in elements {
            converted.push(self.coerce_common(element, common, "ARRAY")?);
        }
        let (array, element, is_nested) = match element_of(common) {
            Some(element) => (common, element, true),
            None => {
                let array = array_of(common).ok_or_else(|| {
                    let message = format!("could not find array type for data type {}", type_name(common));
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position)
                })?;
                (array, common, false)
            }
        };
        let kind = ExpressionKind::Array { elements: converted, element, is_nested };
        Ok(Expression { kind, of: TypeReference::of(array), position })
    }

    fn array_of_type(
        &mut self,
        elements: &[Expr],
        target: TypeReference,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let element = element_of(target.oid).unwrap_or(oid::TEXT);
        let is_nested = elements.iter().any(|inner| matches!(inner, Expr::Array(_)));
        let mut bound = Vec::with_capacity(elements.len());
        for inner in elements {
            let value = match inner {
                Expr::Array(array) => self.array_of_type(&array.elem, target, position)?,
                inner => self.expression(inner)?,
            };
            let wanted = if is_nested { target.oid } else { element };
            let (source, at) = (value.of.oid, value.position);
            let wanted = TypeReference { oid: wanted, modifier: target.modifier };
            let value = self.coerce_to(value, wanted, CastContext::Explicit, Written::ExplicitCast)?;
            bound.push(value.ok_or_else(|| {
                let message = format!("cannot cast type {} to {}", type_name(source), type_name(wanted.oid));
                SqlError::new(SqlState::CANNOT_COERCE, message).at(at)
            })?);
        }
        let kind = ExpressionKind::Array { elements: bound, element, is_nested };
        Ok(Expression { kind, of: target, position })
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[sqlparser::ast::CaseWhen],
        otherwise: Option<&Expr>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let operand = match operand {
            Some(operand) => {
                let operand = self.expression(operand)?;
                Some(self.known(operand)?)
            }
            None => None,
        };
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for when in conditions {
            let condition = self.expression(&when.condition)?;
            let condition = match &operand {
                Some(operand) => {
                    let at = condition.position;
                    self.operator(None, "=", Some(operand.clone()), condition, at)?
                }
                None => condition,
            };
            tests.push(self.coerce_to_boolean(condition, "CASE/WHEN")?);
            results.push(self.expression(&when.result)?);
        }
        let otherwise = otherwise.map(|otherwise| self.expression(otherwise)).transpose()?;
        // PostgreSQL looks at the last result first.
        let all: Vec<&Expression> = otherwise.iter().chain(&results).collect();
        let common = self.common_type_of(&all, "CASE")?;
        let modifier = common_modifier(&all, common);
        let mut branches = Vec::with_capacity(tests.len());
        for (test, result) in tests.into_iter().zip(results) {
            branches.push((test, self.coerce_common(result, common, "CASE/WHEN")?));
        }
        let otherwise = match otherwise {
            Some(otherwise) => Some(Box::new(self.coerce_common(otherwise, common, "CASE/ELSE")?)),
            None => None,
        };
        let of = TypeReference { oid: common, modifier };
        Ok(Expression { kind: ExpressionKind::Case { branches, otherwise }, of, position })
    }

    /// A function of PostgreSQL's that special syntax stands for.
    pub(super) fn simple_call(
        &mut self,
        name: &str,
        arguments: Vec<Expression>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
        match self.call(&function(Some("pg_catalog"), name), arguments, false, position)? {
            FunctionOrCast::Cast(cast) => Ok(*cast),
            FunctionOrCast::Function(chosen) => {
                let call = crate::algebra::Call {
                    function: chosen.function,
                    arguments: chosen.arguments,
                    written: Written::Function,
                };
                self.implemented(call, chosen.result, position)
            }
        }
    }

    /// `CURRENT_DATE` and its like: functions without parentheses.
    pub(super) fn value_function(
        &mut self,
        name: &str,
        precision: Option<i32>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (source, target) = match name {
            "current_date" => ("now", Some(oid::DATE)),
            "current_time" => ("now", Some(oid::TIMETZ)),
            "localtime" => ("now", Some(oid::TIME)),
            "localtimestamp" => ("now", Some(oid::TIMESTAMP)),
            "current_timestamp" => ("now", None),
            "user" | "current_role" => ("current_user", None),
            "current_catalog" => ("current_database", None),
            other => (other, None),
        };
        let value = self.simple_call(source, Vec::new(), position)?;
        let value = match target {
            Some(target) => self.coerce(value, target, CastContext::Explicit, IMPLICIT)?,
            None => value,
        };
        match precision {
            Some(precision) => self.with_modifier(value, precision.min(6), CastContext::Explicit),
            None => Ok(value),
        }
    }
}

/// How conversions that nobody wrote are marked.
pub(super) const IMPLICIT: Written = Written::ImplicitCast;

/// The modifier that all of these have, if they are of the common type.
pub(super) fn common_modifier(expressions: &[&Expression], common: Oid) -> i32 {
    let mut modifiers = expressions
        .iter()
        .map(|expression| if expression.of.oid == common { Some(expression.of.modifier) } else { None });
    let Some(Some(first)) = modifiers.next() else { return -1 };
    if modifiers.all(|modifier| modifier == Some(first)) { first } else { -1 }
}

/// The fields of a row that is written out.
fn row_fields(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(fields) => Some(fields),
        Expr::Nested(inner) => row_fields(inner),
        Expr::Function(call) if call.over.is_none() && call.name.to_string().eq_ignore_ascii_case("row") => {
            None
        }
        _ => None,
    }
}

/// Whether a column is used in it.
pub(super) fn has_columns(expression: &Expression) -> bool {
    let mut found = false;
    super::same::visit(expression, &mut |inner| {
        found |= matches!(
            inner.kind,
            ExpressionKind::Column(_) | ExpressionKind::WholeRow(..) | ExpressionKind::Subquery(_)
        );
    });
    found
}

/// The text of a string literal.
pub(crate) fn string_value(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text) => Some(text.clone()),
        Value::DollarQuotedString(quoted) => Some(quoted.value.clone()),
        _ => None,
    }
}

fn field_name(field: &DateTimeField) -> String {
    match field {
        DateTimeField::Custom(ident) => ident.value.to_lowercase(),
        other => other.to_string().to_lowercase(),
    }
}

/// The schema and the name of an operator.
pub(super) fn operator_name(operator: &BinaryOperator) -> (Option<String>, String) {
    match operator {
        BinaryOperator::PGCustomBinaryOperator(parts) => {
            let name = parts.last().cloned().unwrap_or_default();
            let schema = parts
                .len()
                .checked_sub(2)
                .and_then(|index| parts.get(index))
                .map(|schema| schema.to_lowercase());
            (schema, name)
        }
        BinaryOperator::NotEq => (None, "<>".to_owned()),
        BinaryOperator::PGExp => (None, "^".to_owned()),
        BinaryOperator::BitwiseXor => (None, "^".to_owned()),
        other => (None, other.to_string()),
    }
}
