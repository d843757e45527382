//! `json_to_record`, `json_populate_record` and the like: objects as rows with columns of given names and types.
//!
//! The binder knows the columns, from a list in the statement or from a row type. It adds them as three arguments after those
//! of the function: arrays of the names, the types and the modifiers.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Rows, Table};
use crate::datum::{Array, Datum, Dimension, Jsonb, TypeReference};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{Call, arguments, arrays};
use crate::json::{Kind, Tree, find_member, parse, parse_tree, print, text_of};
use crate::oid;
use crate::settings::Settings;
use crate::text_form::{array_element, input};

pub(super) const TABLE: Table = &[
    ("json_to_record", |call| record(call, None)),
    ("jsonb_to_record", |call| record(call, None)),
    ("json_populate_record", |call| record(call, call.arguments.first())),
    ("jsonb_populate_record", |call| record(call, call.arguments.first())),
    ("json_to_recordset", |call| records(call, None, "json_to_recordset")),
    ("jsonb_to_recordset", |call| records(call, None, "jsonb_to_recordset")),
    ("json_populate_recordset", |call| records(call, call.arguments.first(), "json_populate_recordset")),
    ("jsonb_populate_recordset", |call| records(call, call.arguments.first(), "jsonb_populate_recordset")),
];

/// Whether the binder adds the columns of the result to the arguments of a source.
pub fn takes_columns(source: &str) -> bool {
    TABLE.iter().any(|(known, _)| *known == source)
}

#[cold]
fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A column of the result.
struct Column {
    name: Arc<str>,
    of: TypeReference,
}

/// A value of either kind.
#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a Tree, &'a str),
    Binary(&'a Jsonb),
}

impl<'a> Value<'a> {
    fn is_null(self) -> bool {
        matches!(self, Value::Text(Tree { kind: Kind::Null, .. }, _) | Value::Binary(Jsonb::Null))
    }

    fn elements(self) -> Option<Vec<Value<'a>>> {
        match self {
            Value::Text(Tree { kind: Kind::Array(elements), .. }, whole) => {
                Some(elements.iter().map(|element| Value::Text(element, whole)).collect())
            }
            Value::Binary(Jsonb::Array(elements)) => Some(elements.iter().map(Value::Binary).collect()),
            _ => None,
        }
    }

    fn is_object(self) -> bool {
        matches!(self, Value::Text(Tree { kind: Kind::Object(_), .. }, _) | Value::Binary(Jsonb::Object(_)))
    }

    fn is_string(self) -> bool {
        matches!(self, Value::Text(Tree { kind: Kind::String(_), .. }, _) | Value::Binary(Jsonb::String(_)))
    }

    /// The JSON text.
    fn json(self) -> String {
        match self {
            Value::Text(tree, whole) => tree.text(whole).to_owned(),
            Value::Binary(value) => {
                let mut text = String::new();
                print(value, &mut text);
                text
            }
        }
    }

    /// The text that the input of a type reads.
    fn plain(self) -> String {
        match self {
            Value::Text(tree, whole) => tree.as_text(whole).unwrap_or_default().to_owned(),
            Value::Binary(value) => match text_of(value) {
                Datum::Text(text) => text.to_string(),
                _ => String::new(),
            },
        }
    }
}

/// The members of an object; of a repeated key the last one.
enum Members<'a> {
    Text(HashMap<&'a str, &'a Tree>, &'a str),
    Binary(&'a [(Arc<str>, Jsonb)]),
}

impl<'a> Members<'a> {
    fn of(value: Value<'a>) -> SqlResult<Members<'a>> {
        match value {
            Value::Text(Tree { kind: Kind::Object(members), .. }, whole) => {
                let members = members.iter().map(|(key, member)| (key.as_str(), member));
                Ok(Members::Text(members.collect(), whole))
            }
            Value::Binary(Jsonb::Object(members)) => Ok(Members::Binary(members)),
            other => {
                let what = if other.elements().is_some() { "an array" } else { "a scalar" };
                Err(invalid(format!("cannot call populate_composite on {what}")))
            }
        }
    }

    fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Members::Text(members, whole) => members.get(key).map(|tree| Value::Text(tree, whole)),
            Members::Binary(members) => find_member(members, key).map(|at| Value::Binary(&members[at].1)),
        }
    }
}

/// What fills rows: the columns, and the row whose fields stay where an object has no member.
struct Filler<'a> {
    columns: Vec<Column>,
    base: Option<&'a [Datum]>,
    settings: &'a Settings,
}

impl<'a> Filler<'a> {
    fn new(call: &'a Call<'a>, base: Option<&'a Datum>) -> SqlResult<Filler<'a>> {
        let base = match base {
            Some(Datum::Record(record)) => Some(record.values.as_slice()),
            _ => None,
        };
        Ok(Filler { columns: columns(call)?, base, settings: call.settings })
    }

    fn base(&self) -> Vec<Datum> {
        let value = |index| self.base.and_then(|base| base.get(index)).cloned().unwrap_or_default();
        (0..self.columns.len()).map(value).collect()
    }

    fn row(&self, value: Value<'_>) -> SqlResult<Vec<Datum>> {
        let members = Members::of(value)?;
        let mut row = self.base();
        for (field, column) in row.iter_mut().zip(&self.columns) {
            if let Some(member) = members.get(&column.name) {
                *field = self.field(member, column)?;
            }
        }
        Ok(row)
    }

    fn field(&self, value: Value<'_>, column: &Column) -> SqlResult<Datum> {
        let of = column.of;
        if value.is_null() {
            return Ok(Datum::Null);
        }
        match (array_element(of.oid), value.elements()) {
            (Some(element), Some(elements)) => {
                let mut list = List::new(self, column, TypeReference { oid: element, ..of });
                list.gather(&elements)?;
                list.finish()
            }
            (Some(_), None) if !value.is_string() => Err(no_array(&column.name, &[])),
            _ => self.scalar(value, of),
        }
    }

    fn scalar(&self, value: Value<'_>, of: TypeReference) -> SqlResult<Datum> {
        match (of.oid, value) {
            _ if value.is_null() => Ok(Datum::Null),
            (oid::JSON, _) => Ok(Datum::text(value.json())),
            (oid::JSONB, Value::Binary(value)) => Ok(Datum::Jsonb(Arc::new(value.clone()))),
            (oid::JSONB, _) => Ok(Datum::Jsonb(Arc::new(parse(&value.json())?))),
            _ => input(of.oid, of.modifier, &value.plain(), self.settings),
        }
    }
}

#[cold]
fn no_array(column: &str, indexes: &[usize]) -> Box<SqlError> {
    let place = if indexes.is_empty() {
        format!("See the value of key \"{column}\".")
    } else {
        let indexes: String = indexes.iter().map(|index| format!("[{index}]")).collect();
        format!("See the array element {indexes} of key \"{column}\".")
    };
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array").with_hint(place)
}

/// An array on its way from nested arrays of JSON: the first value that is none says how many dimensions there are.
struct List<'a> {
    filler: &'a Filler<'a>,
    column: &'a Column,
    element: TypeReference,
    depth: Option<usize>,
    lengths: Vec<Option<usize>>,
    indexes: Vec<usize>,
    values: Vec<Datum>,
}

impl<'a> List<'a> {
    fn new(filler: &'a Filler<'a>, column: &'a Column, element: TypeReference) -> List<'a> {
        let (lengths, indexes, values) = (Vec::new(), Vec::new(), Vec::new());
        List { filler, column, element, depth: None, lengths, indexes, values }
    }

    fn gather(&mut self, elements: &[Value<'_>]) -> SqlResult<()> {
        let level = self.indexes.len() + 1;
        if self.lengths.len() < level {
            self.lengths.push(None);
        }
        for (index, element) in elements.iter().enumerate() {
            self.indexes.push(index);
            match (element.elements(), self.depth) {
                (Some(inner), depth) if depth.is_none_or(|depth| level < depth) => {
                    if level == arrays::DIMENSIONS_MAX {
                        return Err(arrays::too_many_dimensions(level + 1));
                    }
                    self.gather(&inner)?;
                }
                (_, Some(depth)) if level < depth => return Err(no_array(&self.column.name, &self.indexes)),
                _ => {
                    self.depth = Some(level);
                    self.values.push(self.filler.scalar(*element, self.element)?);
                }
            }
            self.indexes.pop();
        }
        self.depth.get_or_insert(level);
        if *self.lengths[level - 1].get_or_insert(elements.len()) != elements.len() {
            let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed JSON array")
                .with_detail(detail));
        }
        Ok(())
    }

    fn finish(self) -> SqlResult<Datum> {
        let dimension = |length: &Option<usize>| Dimension {
            length: i32::try_from(length.unwrap_or(0)).unwrap_or(i32::MAX),
            lower: 1,
        };
        let dimensions: Vec<Dimension> = self.lengths.iter().map(dimension).collect();
        let mut array = Array::one_dimensional(self.element.oid, self.values);
        if !array.values.is_empty() {
            array.dimensions = dimensions;
        }
        Ok(Datum::Array(Arc::new(array)))
    }
}

/// The columns that the binder added.
fn columns(call: &Call<'_>) -> SqlResult<Vec<Column>> {
    let [.., Datum::Array(names), Datum::Array(types), Datum::Array(modifiers)] = call.arguments else {
        return Err(arguments::mismatch(call));
    };
    let column = |((name, of), modifier): ((&Datum, &Datum), &Datum)| match (name, of, modifier) {
        (Datum::Text(name), Datum::Oid(of), Datum::Int4(modifier)) => {
            Ok(Column { name: Arc::clone(name), of: TypeReference { oid: *of, modifier: *modifier } })
        }
        _ => Err(arguments::mismatch(call)),
    };
    names.values.iter().zip(&types.values).zip(&modifiers.values).map(column).collect()
}

/// The JSON of a call: the first argument, or the second one after a row.
fn source<'a>(call: &'a Call<'a>, base: Option<&Datum>) -> SqlResult<&'a Datum> {
    call.arguments.get(usize::from(base.is_some())).ok_or_else(|| arguments::mismatch(call))
}

fn record(call: &Call<'_>, base: Option<&Datum>) -> SqlResult<Rows> {
    let filler = Filler::new(call, base)?;
    let row = match source(call, base)? {
        Datum::Text(text) => filler.row(Value::Text(&parse_tree(text)?, text))?,
        Datum::Jsonb(value) => filler.row(Value::Binary(value))?,
        Datum::Null => filler.base(),
        _ => return Err(arguments::mismatch(call)),
    };
    Ok(Box::new(std::iter::once(Ok(row))))
}

fn records(call: &Call<'_>, base: Option<&Datum>, function: &str) -> SqlResult<Rows> {
    let filler = Filler::new(call, base)?;
    let rows = match source(call, base)? {
        Datum::Text(text) => rows(&filler, Value::Text(&parse_tree(text)?, text), function)?,
        Datum::Jsonb(value) => rows(&filler, Value::Binary(value), function)?,
        Datum::Null => Vec::new(),
        _ => return Err(arguments::mismatch(call)),
    };
    Ok(Box::new(rows.into_iter().map(Ok)))
}

fn rows(filler: &Filler<'_>, value: Value<'_>, function: &str) -> SqlResult<Vec<Vec<Datum>>> {
    let Some(elements) = value.elements() else {
        let what = match value {
            Value::Binary(_) => "a non-array",
            Value::Text(..) if value.is_object() => "an object",
            Value::Text(..) => "a scalar",
        };
        return Err(invalid(format!("cannot call {function} on {what}")));
    };
    let row = |element: &Value<'_>| {
        if !element.is_object() {
            return Err(invalid(format!("argument of {function} must be an array of objects")));
        }
        filler.row(*element)
    };
    elements.iter().map(row).collect()
}
