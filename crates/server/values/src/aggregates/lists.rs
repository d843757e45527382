//! `array_agg` and `string_agg`: values one after the other.

use std::sync::Arc;

use super::{Accumulator, Table};
use crate::datum::{Array, Datum, Dimension};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::memory::{VALUE_BYTES_MAX, too_large};
use crate::oid;
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("array_agg", &[oid::ANYNONARRAY], |types, _| {
        let element = types.first().map_or(oid::TEXT, |first| first.oid);
        Box::new(Elements { element, values: Vec::new(), heap_bytes: 0 })
    }),
    ("array_agg", &[oid::ANYARRAY], |_, _| Box::new(Slices { whole: None, heap_bytes: 0 })),
    ("string_agg", &[oid::TEXT, oid::TEXT], |_, _| Box::new(Texts { text: None })),
    ("string_agg", &[oid::BYTEA, oid::BYTEA], |_, _| Box::new(Bytes { bytes: None })),
];

/// `array_agg` of values that are no arrays.
struct Elements {
    element: crate::Oid,
    values: Vec<Datum>,
    heap_bytes: usize,
}

impl Accumulator for Elements {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        let [value] = arguments else { return Err(super::misplaced(arguments)) };
        self.heap_bytes += value.memory_bytes();
        self.values.push(value.clone());
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        Ok(Datum::Array(Arc::new(Array::one_dimensional(self.element, self.values.clone()))))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes
    }
}

/// `array_agg` of arrays: an array with one dimension more.
struct Slices {
    whole: Option<Array>,
    heap_bytes: usize,
}

impl Accumulator for Slices {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        let slice = match arguments {
            [Datum::Array(slice)] => slice,
            [Datum::Null] => {
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
            }
            _ => return Err(super::misplaced(arguments)),
        };
        self.heap_bytes += slice.values.iter().map(Datum::memory_bytes).sum::<usize>();
        match &mut self.whole {
            Some(whole) => {
                if whole.dimensions[1..] != slice.dimensions[..] {
                    return Err(SqlError::new(
                        SqlState::ARRAY_SUBSCRIPT_ERROR,
                        "cannot accumulate arrays of different dimensionality",
                    ));
                }
                whole.dimensions[0].length += 1;
                whole.values.extend(slice.values.iter().cloned());
            }
            None => self.whole = Some(first_slice(slice)?),
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.whole.as_ref().map_or(Datum::Null, |whole| Datum::Array(Arc::new(whole.clone()))))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes
    }
}

fn first_slice(slice: &Array) -> SqlResult<Array> {
    if slice.dimensions.is_empty() {
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot accumulate empty arrays"));
    }
    if slice.dimensions.len() >= 6 {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "number of array dimensions (7) exceeds the maximum allowed (6)",
        ));
    }
    let mut whole = slice.clone();
    whole.dimensions.insert(0, Dimension { length: 1, lower: 1 });
    Ok(whole)
}

struct Texts {
    text: Option<String>,
}

impl Accumulator for Texts {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match (arguments, &mut self.text) {
            ([Datum::Null, _], _) => {}
            // The delimiter of a row stands before its value: that of the first is never used.
            ([Datum::Text(value), _], None) => self.text = Some(value.to_string()),
            ([Datum::Text(value), delimiter], Some(text)) => {
                let delimiter = if let Datum::Text(delimiter) = delimiter { delimiter.as_ref() } else { "" };
                let added = delimiter.len() + value.len();
                if text.len() + added > VALUE_BYTES_MAX {
                    return Err(too_large(text.len(), added));
                }
                text.push_str(delimiter);
                text.push_str(value);
            }
            _ => return Err(super::misplaced(arguments)),
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.text.as_ref().map_or(Datum::Null, Datum::text))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.text.as_ref().map_or(0, String::capacity)
    }
}

struct Bytes {
    bytes: Option<Vec<u8>>,
}

impl Accumulator for Bytes {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match (arguments, &mut self.bytes) {
            ([Datum::Null, _], _) => {}
            ([Datum::Bytea(value), _], None) => self.bytes = Some(value.to_vec()),
            ([Datum::Bytea(value), delimiter], Some(bytes)) => {
                let delimiter =
                    if let Datum::Bytea(delimiter) = delimiter { delimiter.as_ref() } else { &[] };
                let added = delimiter.len() + value.len();
                if bytes.len() + added > VALUE_BYTES_MAX {
                    return Err(too_large(bytes.len(), added));
                }
                bytes.extend_from_slice(delimiter);
                bytes.extend_from_slice(value);
            }
            _ => return Err(super::misplaced(arguments)),
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.bytes.as_ref().map_or(Datum::Null, |bytes| Datum::Bytea(Arc::from(bytes.as_slice()))))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.as_ref().map_or(0, Vec::capacity)
    }
}
