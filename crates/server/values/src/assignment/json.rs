//! Members and elements of `jsonb`.

use std::sync::Arc;

use crate::datum::{Datum, Jsonb};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{checked_depth, checked_string, find_member, normalize_members};

/// So many elements an array may have at most.
const ELEMENTS_MAX: usize = 1 << 24;

/// The value with what is at the path set. Steps are texts or numbers; what is missing on the way is made, gaps of arrays are filled with
/// nulls.
///
/// # Errors
/// `22023`, `22P02`, `54000`.
pub fn set_member(value: Option<&Jsonb>, path: &[Datum], new: Jsonb) -> SqlResult<Jsonb> {
    let empty = match path.first() {
        Some(Datum::Int4(_)) => Jsonb::Array(Vec::new()),
        _ => Jsonb::Object(Vec::new()),
    };
    let mut changed = value.cloned().unwrap_or(empty);
    set(&mut changed, path, 0, new)?;
    checked_depth(&changed)?;
    Ok(changed)
}

fn set(value: &mut Jsonb, path: &[Datum], level: usize, new: Jsonb) -> SqlResult<()> {
    let Some(step) = path.get(level) else {
        *value = new;
        return Ok(());
    };
    let text = text_of(step);
    match value {
        Jsonb::Object(members) => match find_member(members, &text) {
            Some(at) => set(&mut members[at].1, path, level + 1, new),
            None => {
                members.push((checked_string(&text)?, made(&path[level + 1..], new)?));
                *members = normalize_members(std::mem::take(members));
                Ok(())
            }
        },
        Jsonb::Array(elements) => {
            let Some(index) = number_of(step) else {
                let message = format!("path element at position {} is not an integer: \"{text}\"", level + 1);
                return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
            };
            let at = place(index, elements.len(), level)?;
            match elements.get_mut(at) {
                Some(element) => set(element, path, level + 1, new),
                None => {
                    elements.resize(at, Jsonb::Null);
                    elements.push(made(&path[level + 1..], new)?);
                    Ok(())
                }
            }
        }
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot replace existing key")
            .with_detail("The path assumes key is a composite object, but it is a scalar value.")),
    }
}

/// What is to be at the end of a path of which nothing is there.
fn made(path: &[Datum], new: Jsonb) -> SqlResult<Jsonb> {
    let mut value = new;
    for step in path.iter().rev() {
        value = match number_of(step) {
            Some(index) => {
                let at = usize::try_from(index).unwrap_or(0);
                check_count(at)?;
                let mut elements = vec![Jsonb::Null; at];
                elements.push(value);
                Jsonb::Array(elements)
            }
            None => Jsonb::Object(vec![(checked_string(&text_of(step))?, value)]),
        };
    }
    Ok(value)
}

fn text_of(step: &Datum) -> Arc<str> {
    match step {
        Datum::Text(text) => Arc::clone(text),
        Datum::Int4(number) => number.to_string().into(),
        _ => "".into(),
    }
}

fn number_of(step: &Datum) -> Option<i32> {
    match step {
        Datum::Int4(number) => Some(*number),
        Datum::Text(text) => text.trim_start().parse().ok(),
        _ => None,
    }
}

/// The place of an index, which counts from the end if it is negative.
fn place(index: i32, count: usize, level: usize) -> SqlResult<usize> {
    match usize::try_from(index) {
        Ok(at) => check_count(at).map(|()| at),
        Err(_) => {
            let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
            count.checked_sub(back).ok_or_else(|| {
                let message = format!("path element at position {} is out of range: {index}", level + 1);
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })
        }
    }
}

fn check_count(at: usize) -> SqlResult<()> {
    if at < ELEMENTS_MAX {
        return Ok(());
    }
    let message = format!("number of jsonb array elements exceeds the maximum allowed ({ELEMENTS_MAX})");
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}
