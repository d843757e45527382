//! Bound expressions in PostgreSQL's own words, as `pg_get_expr` shows them: what definitions keep.
//!
//! A text that is bound again gives the same expression: casts that nobody wrote are written, and relations are numbers.

use std::fmt::Write;
use std::sync::Arc;

use seawall_values::system::system;
use seawall_values::user_types::{PLACE_MARK, is_composite, is_user_type, stored_name};
use seawall_values::{Array, Datum, Oid, Settings, SqlError, SqlResult, TypeReference, oid, text_form};

use super::types::{quoted, type_name};
use crate::algebra::{Call, ColumnId, Expression, ExpressionKind as Kind, RowOrder, Subscript, Written};
use crate::catalog::definition_text::system_type;
use crate::catalog::names::quoted_literal;

/// The words of an expression over columns with these names.
pub(crate) fn words(
    expression: &Expression,
    columns: &[(ColumnId, String)],
    settings: &Settings,
) -> SqlResult<String> {
    let mut writer = Writer { columns, settings, out: String::new() };
    writer.top(expression)?;
    Ok(writer.out)
}

/// A constant.
pub(super) fn literal(value: &Datum, of: TypeReference, settings: &Settings) -> SqlResult<String> {
    let mut writer = Writer { columns: &[], settings, out: String::new() };
    writer.constant(value, of)?;
    Ok(writer.out)
}

/// The numbers of relations that an expression names, such as of sequences.
pub(crate) fn relations(expression: &Expression) -> Vec<Oid> {
    let mut found = Vec::new();
    crate::algebra::walk::visit(expression, &mut |inner| {
        if let (oid::REGCLASS, Kind::Constant(Datum::Oid(relation))) = (inner.of.oid, &inner.kind)
            && !found.contains(relation)
        {
            found.push(*relation);
        }
    });
    found
}

struct Writer<'a> {
    columns: &'a [(ColumnId, String)],
    settings: &'a Settings,
    out: String,
}

fn unwritten(what: &str) -> SqlResult<()> {
    Err(SqlError::unsupported(format!("{what} in a definition")))
}

impl Writer<'_> {
    /// A cast around all that nobody wrote is left out: what the value is assigned to makes it again.
    fn top(&mut self, expression: &Expression) -> SqlResult<()> {
        match &expression.kind {
            Kind::Call(call) if call.written == Written::ImplicitCast && !call.arguments.is_empty() => {
                self.top(&call.arguments[0])
            }
            _ => self.write(expression),
        }
    }

    fn list(&mut self, list: &[Expression]) -> SqlResult<()> {
        for (index, item) in list.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.write(item)?;
        }
        Ok(())
    }

    fn named_list(&mut self, name: &str, list: &[Expression]) -> SqlResult<()> {
        self.out.push_str(name);
        self.out.push('(');
        self.list(list)?;
        self.out.push(')');
        Ok(())
    }

    fn joined(&mut self, all: &[Expression], word: &str) -> SqlResult<()> {
        self.out.push('(');
        for (index, item) in all.iter().enumerate() {
            if index > 0 {
                self.out.push_str(word);
            }
            self.write(item)?;
        }
        self.out.push(')');
        Ok(())
    }

    fn around(&mut self, before: &str, inner: &Expression, after: &str) -> SqlResult<()> {
        self.out.push_str(before);
        self.write(inner)?;
        self.out.push_str(after);
        Ok(())
    }

    fn between(&mut self, left: &Expression, word: &str, right: &Expression) -> SqlResult<()> {
        self.out.push('(');
        self.write(left)?;
        self.out.push_str(word);
        self.write(right)?;
        self.out.push(')');
        Ok(())
    }

    fn cast(&mut self, inner: &Expression, of: TypeReference) -> SqlResult<()> {
        self.around("(", inner, ")::")?;
        let name = written_type(of);
        self.out.push_str(&name);
        Ok(())
    }

    fn write(&mut self, expression: &Expression) -> SqlResult<()> {
        let of = expression.of;
        match &expression.kind {
            Kind::Constant(value) => self.constant(value, of),
            Kind::Column(id) => self.column(*id),
            Kind::Call(call) | Kind::SessionCall(call) => self.call(call, of),
            Kind::And(all) => self.joined(all, " AND "),
            Kind::Or(all) => self.joined(all, " OR "),
            Kind::Not(inner) => self.around("(NOT ", inner, ")"),
            Kind::IsNull(inner) => self.around("(", inner, " IS NULL)"),
            Kind::IsNotNull(inner) => self.around("(", inner, " IS NOT NULL)"),
            Kind::IsBoolean(inner, true) => self.around("(", inner, " IS TRUE)"),
            Kind::IsBoolean(inner, false) => self.around("(", inner, " IS FALSE)"),
            Kind::IsDistinct { left, right, .. } => self.between(left, " IS DISTINCT FROM ", right),
            Kind::Case { branches, otherwise } => self.case(branches, otherwise.as_deref()),
            Kind::Coalesce(all) => self.named_list("COALESCE", all),
            Kind::NullIf { left, right, .. } => {
                self.around("NULLIF(", left, ", ")?;
                self.around("", right, ")")
            }
            Kind::Extreme(all, is_greatest) => {
                self.named_list(if *is_greatest { "GREATEST" } else { "LEAST" }, all)
            }
            Kind::Array { elements, .. } => {
                self.out.push_str("ARRAY[");
                self.list(elements)?;
                self.out.push(']');
                if elements.is_empty() {
                    let name = written_type(of);
                    let result = write!(self.out, "::{name}");
                    debug_assert!(result.is_ok(), "a string takes any text");
                }
                Ok(())
            }
            Kind::Row(all) if is_composite(of.oid) => {
                self.out.push('(');
                self.named_list("ROW", all)?;
                self.out.push_str(")::");
                self.out.push_str(&written_type(of));
                Ok(())
            }
            Kind::Row(all) => self.named_list("ROW", all),
            Kind::RowCompare { operator, left, right } => {
                self.named_list("(ROW", left)?;
                self.out.push_str(match operator {
                    RowOrder::Less => " < ",
                    RowOrder::LessOrEqual => " <= ",
                    RowOrder::Greater => " > ",
                    RowOrder::GreaterOrEqual => " >= ",
                });
                self.named_list("ROW", right)?;
                self.out.push(')');
                Ok(())
            }
            Kind::Subscript { container, subscripts, is_slice } => {
                self.subscript(container, subscripts, *is_slice)
            }
            Kind::ScalarArray { left, array, function, is_any } => {
                let word = if *is_any { "ANY" } else { "ALL" };
                let name = operator_of(function.oid).unwrap_or_else(|| "=".to_owned());
                self.around("(", left, &format!(" {name} {word} ("))?;
                self.around("", array, "))")
            }
            Kind::ConvertByText(inner) | Kind::Relabel(inner) => self.cast(inner, of),
            Kind::ConvertElements { array, .. } => self.cast(array, of),
            Kind::CheckDomain(check) => self.cast(&check.value, TypeReference::of(check.domain)),
            Kind::Assign { .. } => unwritten("an assignment to a part of a value"),
            Kind::Field(row, index) if is_composite(row.of.oid) => {
                self.around("(", row, ").")?;
                let fields = &self.settings.types.composite(row.of.oid)?.fields;
                let name = fields.get(*index).map(|field| quoted(&field.name));
                self.out.push_str(&name.unwrap_or_default());
                Ok(())
            }
            Kind::Field(..) | Kind::WholeRow(..) => unwritten("a field of a row"),
            Kind::Subquery(_) => unwritten("a subquery"),
            Kind::Parameter(_) => unwritten("a parameter"),
            Kind::NextValue(_) | Kind::Default => unwritten("a default"),
        }
    }

    fn column(&mut self, id: ColumnId) -> SqlResult<()> {
        let found = self.columns.iter().find(|(known, _)| *known == id);
        let Some((_, name)) = found else {
            return Err(SqlError::internal("a definition with a column of nowhere"));
        };
        self.out.push_str(&quoted(name));
        Ok(())
    }

    fn case(
        &mut self,
        branches: &[(Expression, Expression)],
        otherwise: Option<&Expression>,
    ) -> SqlResult<()> {
        self.out.push_str("CASE");
        for (condition, result) in branches {
            self.around(" WHEN ", condition, " THEN ")?;
            self.write(result)?;
        }
        match otherwise {
            Some(otherwise) => self.around(" ELSE ", otherwise, " END"),
            None => {
                self.out.push_str(" END");
                Ok(())
            }
        }
    }

    fn subscript(
        &mut self,
        container: &Expression,
        subscripts: &[Subscript],
        is_slice: bool,
    ) -> SqlResult<()> {
        match container.kind {
            Kind::Column(_) => self.write(container)?,
            _ => self.around("(", container, ")")?,
        }
        for subscript in subscripts {
            self.out.push('[');
            if let Some(from) = &subscript.from {
                self.write(from)?;
            }
            if is_slice {
                self.out.push(':');
            }
            if let Some(to) = &subscript.to {
                self.write(to)?;
            }
            self.out.push(']');
        }
        Ok(())
    }

    fn call(&mut self, call: &Call, of: TypeReference) -> SqlResult<()> {
        match (&call.written, call.arguments.as_slice()) {
            (Written::Operator(operator), [left, right]) => {
                let name = operator_name(*operator);
                self.between(left, &format!(" {name} "), right)
            }
            (Written::Operator(operator), [only]) => {
                let name = operator_name(*operator);
                self.around(&format!("({name} "), only, ")")
            }
            (Written::ExplicitCast | Written::ImplicitCast, [inner, ..]) => self.cast(inner, of),
            _ => self.named_list(&quoted(&call.function.name), &call.arguments),
        }
    }

    fn constant(&mut self, value: &Datum, of: TypeReference) -> SqlResult<()> {
        if value.is_null() {
            self.out.push_str("NULL");
            return self.constant_type(of);
        }
        let text = match (of.oid, value) {
            (oid::BOOL, Datum::Bool(value)) => {
                self.out.push_str(if *value { "true" } else { "false" });
                return Ok(());
            }
            (oid::REGCLASS, Datum::Oid(relation)) => relation.to_string(),
            (of, value) if is_user_type(of) => {
                text_form::text_of(oid::TEXT_ARRAY, &with_places(value), self.settings)?
            }
            _ => text_form::text_of(of.oid, value, self.settings)?,
        };
        let is_plain_number = match of.oid {
            oid::INT4 => !text.starts_with('-'),
            oid::NUMERIC => text.starts_with(|first: char| first.is_ascii_digit()) && text.contains('.'),
            _ => false,
        };
        if is_plain_number {
            self.out.push_str(&text);
            return Ok(());
        }
        self.out.push_str(&quoted_literal(&text));
        if of.oid == oid::UNKNOWN {
            return Ok(());
        }
        self.constant_type(of)
    }

    fn constant_type(&mut self, of: TypeReference) -> SqlResult<()> {
        let name = written_type(of);
        self.out.push_str("::");
        self.out.push_str(&name);
        Ok(())
    }
}

/// The name of a type, by which it is found for ever.
fn written_type(of: TypeReference) -> String {
    if is_user_type(of.oid) {
        return stored_name(of.oid);
    }
    system_type(of.oid, Some(of.modifier)).unwrap_or_else(|| type_name(of.oid))
}

/// A value of an enum, or an array of such, with marked places: its labels may be renamed.
fn with_places(value: &Datum) -> Datum {
    match value {
        Datum::Int8(place) => Datum::text(format!("{PLACE_MARK}{place}")),
        Datum::Array(array) => {
            let values = array.values.iter().map(with_places).collect();
            let dimensions = array.dimensions.clone();
            Datum::Array(Arc::new(Array { element: oid::TEXT, dimensions, values }))
        }
        other => other.clone(),
    }
}

fn operator_name(operator: Oid) -> String {
    system().operator(operator).map_or_else(|| "=".to_owned(), |row| row.name.clone())
}

fn operator_of(function: Oid) -> Option<String> {
    let found = system().operators().iter().find(|row| row.function == function);
    found.map(|row| row.name.clone())
}
