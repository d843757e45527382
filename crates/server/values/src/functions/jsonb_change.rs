//! Functions and operators that make a changed `jsonb` of one: `||`, `-`, `#-`, `jsonb_set`, `jsonb_insert`.

use std::borrow::Cow;
use std::sync::Arc;

use super::arguments::{mismatch, row};
use super::json::{checked_path, index_of_step, place, text_argument};
use super::{Call, Table};
use crate::datum::{Array, Datum, Jsonb};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{checked_depth, checked_string, find_member, normalize_members};

pub(super) const TABLE: Table = &[
    row!("jsonb_concat", [Jsonb left, Jsonb right], datum(concatenated(left, right))),
    row!("jsonb_delete", [Jsonb value, Text key], without_keys(value, &[key.as_ref()])),
    row!("jsonb_delete_array", [Jsonb value, Array keys], {
        let keys: Vec<&str> = checked_path(keys)?.iter().filter_map(step_text).collect();
        without_keys(value, &keys)
    }),
    row!("jsonb_delete_idx", [Jsonb value, Int4 index], without_element(value, *index)),
    row!("jsonb_delete_path", [Jsonb value, Array path], without_path(value, path)),
    row!("jsonb_set", [Jsonb value, Array path, Jsonb new, Bool creates], set(value, path, new, *creates)),
    ("jsonb_set_lax", set_lax),
    row!("jsonb_insert", [Jsonb value, Array path, Jsonb new, Bool is_after], {
        let change = if *is_after { Change::InsertAfter } else { Change::InsertBefore };
        changed(value, path, change, Some(new))
    }),
    row!("jsonb_strip_nulls", [Jsonb value], datum(without_nulls(value))),
];

fn datum(value: Jsonb) -> SqlResult<Datum> {
    checked_depth(&value)?;
    Ok(Datum::Jsonb(Arc::new(value)))
}

#[cold]
fn invalid(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn step_text(step: &Datum) -> Option<&str> {
    match step {
        Datum::Text(step) => Some(step),
        _ => None,
    }
}

fn is_empty(value: &Jsonb) -> bool {
    match value {
        Jsonb::Array(elements) => elements.is_empty(),
        Jsonb::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn is_scalar(value: &Jsonb) -> bool {
    !matches!(value, Jsonb::Array(_) | Jsonb::Object(_))
}

/// Two objects become one, in which members of the second one count; all other values become an array.
fn concatenated(left: &Jsonb, right: &Jsonb) -> Jsonb {
    if let (Jsonb::Object(left), Jsonb::Object(right)) = (left, right) {
        let members = left.iter().chain(right).cloned().collect();
        return Jsonb::Object(normalize_members(members));
    }
    let elements = |value: &Jsonb| match value {
        Jsonb::Array(elements) => elements.clone(),
        other => vec![other.clone()],
    };
    let mut joined = elements(left);
    joined.extend(elements(right));
    Jsonb::Array(joined)
}

fn without_keys(value: &Arc<Jsonb>, keys: &[&str]) -> SqlResult<Datum> {
    let is_kept = |key: &str| !keys.contains(&key);
    match value.as_ref() {
        Jsonb::Object(members) => {
            let kept = members.iter().filter(|(key, _)| is_kept(key));
            datum(Jsonb::Object(kept.cloned().collect()))
        }
        Jsonb::Array(elements) => {
            let kept = elements.iter().filter(|element| match element {
                Jsonb::String(text) => is_kept(text),
                _ => true,
            });
            datum(Jsonb::Array(kept.cloned().collect()))
        }
        _ => Err(invalid("cannot delete from scalar")),
    }
}

fn without_element(value: &Arc<Jsonb>, index: i32) -> SqlResult<Datum> {
    match value.as_ref() {
        Jsonb::Array(elements) => match place(index, elements.len()) {
            None => Ok(Datum::Jsonb(Arc::clone(value))),
            Some(place) => {
                let mut kept = elements.clone();
                kept.remove(place);
                datum(Jsonb::Array(kept))
            }
        },
        Jsonb::Object(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

fn without_nulls(value: &Jsonb) -> Jsonb {
    match value {
        Jsonb::Array(elements) => Jsonb::Array(elements.iter().map(without_nulls).collect()),
        Jsonb::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !matches!(member, Jsonb::Null));
            Jsonb::Object(kept.map(|(key, member)| (Arc::clone(key), without_nulls(member))).collect())
        }
        scalar => scalar.clone(),
    }
}

/// What happens at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A value that is there is replaced.
    Replace,
    /// And one that is not there is added.
    ReplaceOrAdd,
    InsertBefore,
    InsertAfter,
    Delete,
}

impl Change {
    fn adds(self) -> bool {
        matches!(self, Change::ReplaceOrAdd | Change::InsertBefore | Change::InsertAfter)
    }
}

fn set(value: &Arc<Jsonb>, path: &Array, new: &Jsonb, creates: bool) -> SqlResult<Datum> {
    let change = if creates { Change::ReplaceOrAdd } else { Change::Replace };
    changed(value, path, change, Some(new))
}

fn without_path(value: &Arc<Jsonb>, path: &Array) -> SqlResult<Datum> {
    changed(value, path, Change::Delete, None)
}

fn changed(value: &Arc<Jsonb>, path: &Array, change: Change, new: Option<&Jsonb>) -> SqlResult<Datum> {
    let path = checked_path(path)?;
    if is_scalar(value) {
        let what = if change == Change::Delete { "delete" } else { "set" };
        return Err(invalid(&format!("cannot {what} path in scalar")));
    }
    if path.is_empty() || (is_empty(value) && !change.adds()) {
        return Ok(Datum::Jsonb(Arc::clone(value)));
    }
    let walk = Walk { path, change, new };
    datum(walk.value(value, 0)?.into_owned())
}

/// A change on its way along a path.
struct Walk<'a> {
    path: &'a [Datum],
    change: Change,
    new: Option<&'a Jsonb>,
}

impl Walk<'_> {
    fn is_last(&self, level: usize) -> bool {
        level + 1 == self.path.len()
    }

    fn value<'v>(&self, value: &'v Jsonb, level: usize) -> SqlResult<Cow<'v, Jsonb>> {
        let Some(step) = step_text(&self.path[level]) else {
            let message = format!("path element at position {} is null", level + 1);
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        };
        match value {
            Jsonb::Object(members) => self.object(members, step, level).map(Cow::Owned),
            Jsonb::Array(elements) => self.array(elements, step, level).map(Cow::Owned),
            scalar => Ok(Cow::Borrowed(scalar)),
        }
    }

    fn object(&self, members: &[(Arc<str>, Jsonb)], step: &str, level: usize) -> SqlResult<Jsonb> {
        let mut members = members.to_vec();
        match find_member(&members, step) {
            Some(at) if !self.is_last(level) => {
                members[at].1 = self.value(&members[at].1, level + 1)?.into_owned()
            }
            Some(at) => match (self.change, self.new) {
                (Change::InsertBefore | Change::InsertAfter, _) => {
                    return Err(invalid("cannot replace existing key")
                        .with_hint("Try using the function jsonb_set to replace key value."));
                }
                (_, Some(new)) => members[at].1 = new.clone(),
                (_, None) => drop(members.remove(at)),
            },
            None if self.is_last(level) && self.change.adds() => {
                if let Some(new) = self.new {
                    members.push((checked_string(step)?, new.clone()));
                }
                members = normalize_members(members);
            }
            None => {}
        }
        Ok(Jsonb::Object(members))
    }

    fn array(&self, elements: &[Jsonb], step: &str, level: usize) -> SqlResult<Jsonb> {
        let index = index_of_step(step).ok_or_else(|| {
            let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })?;
        let mut elements = elements.to_vec();
        let found = place(index, elements.len());
        match (found, self.new) {
            (Some(at), _) if !self.is_last(level) => {
                elements[at] = self.value(&elements[at], level + 1)?.into_owned()
            }
            (Some(at), Some(new)) => match self.change {
                Change::InsertBefore => elements.insert(at, new.clone()),
                Change::InsertAfter => elements.insert(at + 1, new.clone()),
                Change::Replace | Change::ReplaceOrAdd => elements[at] = new.clone(),
                Change::Delete => {}
            },
            (Some(at), None) => drop(elements.remove(at)),
            (None, Some(new)) if self.is_last(level) && self.change.adds() => {
                let at = if index < 0 { 0 } else { elements.len() };
                elements.insert(at, new.clone());
            }
            (None, _) => {}
        }
        Ok(Jsonb::Array(elements))
    }
}

const NULL_TREATMENTS: &str = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"";

fn set_lax(call: &Call<'_>) -> SqlResult<Datum> {
    let (value, path, new, creates) = match call.arguments {
        [Datum::Jsonb(value), Datum::Array(path), new, Datum::Bool(creates), _] => {
            (value, path, new, *creates)
        }
        [value, path, _, creates, _] if value.is_null() || path.is_null() || creates.is_null() => {
            return Ok(Datum::Null);
        }
        _ => return Err(mismatch(call)),
    };
    if call.arguments[4].is_null() {
        return Err(invalid(NULL_TREATMENTS));
    }
    if let Datum::Jsonb(new) = new {
        return set(value, path, new, creates);
    }
    match text_argument(call, 4)? {
        "raise_exception" => {
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "JSON value must not be null")
                .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
                .with_hint(
                    "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
                ))
        }
        "use_json_null" => set(value, path, &Jsonb::Null, creates),
        "delete_key" => without_path(value, path),
        "return_target" => Ok(Datum::Jsonb(Arc::clone(value))),
        _ => Err(invalid(NULL_TREATMENTS)),
    }
}
