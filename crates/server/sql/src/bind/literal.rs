//! Literals: texts that become values of a type while the statement is bound.

use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid, text_form};

use super::types::{is_row_type, type_name};
use super::{Binder, Expression};
use crate::algebra::ExpressionKind;
use crate::schema::Definition;

impl Binder<'_> {
    /// A text as a value of a type.
    pub(super) fn literal(
        &mut self,
        text: &str,
        of: TypeReference,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let datum = match of.oid {
            oid::REGCLASS => self.relation_number(text).map_err(|error| error.at(position))?,
            _ if text_form::has_input(of.oid) => text_form::input(of.oid, of.modifier, text, self.settings)
                .map_err(|error| error.at(position))?,
            // What only the session can read: names of functions, types and roles; rows of tables.
            _ if is_session_text(of.oid) || is_row_type(of.oid) => {
                let text = Expression {
                    kind: ExpressionKind::Constant(Datum::text(text)),
                    of: TypeReference::of(oid::TEXT),
                    position,
                };
                let kind = ExpressionKind::ConvertByText(Box::new(text));
                return Ok(Expression { kind, of, position });
            }
            _ => {
                return Err(
                    SqlError::unsupported(format!("a literal of type {}", type_name(of.oid))).at(position)
                );
            }
        };
        self.keep_labels(position, of, &datum)?;
        Ok(Expression { kind: ExpressionKind::Constant(datum), of, position })
    }

    /// `'name'::regclass`.
    fn relation_number(&mut self, text: &str) -> SqlResult<Datum> {
        let text = text.trim();
        if text == "-" {
            return Ok(Datum::Oid(0));
        }
        if let Ok(number) = text.parse::<Oid>() {
            return Ok(Datum::Oid(number));
        }
        let parts = qualified_name(text)?;
        let (schema, name) = match parts.as_slice() {
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            [_, schema, name] => (Some(schema.as_str()), name),
            _ => return Err(SqlError::new(SqlState::INVALID_NAME, "invalid name syntax")),
        };
        match self.definitions.relation(schema, name)? {
            Some(Definition::Table(table)) => Ok(Datum::Oid(table.oid)),
            Some(Definition::View(view)) => Ok(Datum::Oid(view.oid)),
            Some(Definition::Sequence(sequence)) => Ok(Datum::Oid(sequence.oid)),
            Some(Definition::Index(_, index)) => Ok(Datum::Oid(index.oid)),
            Some(Definition::System(system)) => Ok(Datum::Oid(system.oid)),
            None => {
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{text}\" does not exist")))
            }
        }
    }
}

fn is_session_text(oid: Oid) -> bool {
    matches!(
        oid,
        oid::REGPROC
            | oid::REGPROCEDURE
            | oid::REGOPER
            | oid::REGOPERATOR
            | oid::REGTYPE
            | oid::REGNAMESPACE
            | oid::REGROLE
            | oid::REGCOLLATION
            | oid::REGCONFIG
    )
}

/// `a."B".c` as its parts, folded to lower case outside of quotes.
pub(crate) fn qualified_name(text: &str) -> SqlResult<Vec<String>> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut characters = quoted.char_indices().peekable();
            let mut end = None;
            while let Some((at, character)) = characters.next() {
                if character != '"' {
                    part.push(character);
                } else if characters.peek().is_some_and(|(_, next)| *next == '"') {
                    part.push('"');
                    characters.next();
                } else {
                    end = Some(at + 1);
                    break;
                }
            }
            (part, &quoted[end.ok_or_else(invalid)?..])
        } else {
            let end = rest.find(['.', ' ', '\t', '\n']).unwrap_or(rest.len());
            (rest[..end].to_lowercase(), &rest[end..])
        };
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if after.trim().is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}
