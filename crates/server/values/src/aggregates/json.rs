//! `json_agg`, `json_object_agg` and the same for `jsonb`.

use std::sync::Arc;

use super::{Accumulator, Table};
use crate::datum::{Datum, Jsonb, TypeReference};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{Layout, append_json, checked_string, escape_into, key_text, normalize_members, to_jsonb};
use crate::oid::{self, Oid};
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("json_agg", &[oid::ANYELEMENT], |types, _| Box::new(Text { types: oids(types), text: String::new() })),
    ("jsonb_agg", &[oid::ANYELEMENT], |types, _| {
        Box::new(Elements { types: oids(types), values: Vec::new(), heap_bytes: 0 })
    }),
    ("json_object_agg", &[oid::ANY, oid::ANY], |types, _| {
        Box::new(Text { types: oids(types), text: String::new() })
    }),
    ("jsonb_object_agg", &[oid::ANY, oid::ANY], |types, _| {
        Box::new(Members { types: oids(types), members: Vec::new(), heap_bytes: 0 })
    }),
];

fn oids(types: &[TypeReference]) -> Vec<Oid> {
    types.iter().map(|of| of.oid).collect()
}

#[cold]
fn null_key() -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null")
}

/// `json_agg`, with one argument, and `json_object_agg`, with two: the text so far, without its end.
struct Text {
    types: Vec<Oid>,
    text: String,
}

impl Accumulator for Text {
    fn add(&mut self, arguments: &[Datum], settings: &Settings) -> SqlResult<()> {
        let is_first = self.text.is_empty();
        let text = &mut self.text;
        match (arguments, self.types.as_slice()) {
            ([value], [of]) => {
                text.push_str(if is_first { "[" } else { ", " });
                if !is_first && matches!(value, Datum::Array(_) | Datum::Record(_)) {
                    text.push_str("\n ");
                }
                append_json(*of, value, Layout::Compact, settings, text)
            }
            ([Datum::Null, _], _) => Err(null_key()),
            ([key, value], [key_type, of]) => {
                text.push_str(if is_first { "{ " } else { ", " });
                escape_into(&key_text(*key_type, key, settings)?, text);
                text.push_str(" : ");
                append_json(*of, value, Layout::Compact, settings, text)
            }
            _ => Err(super::misplaced(arguments)),
        }
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.text.is_empty() {
            return Ok(Datum::Null);
        }
        let end = if self.types.len() == 1 { "]" } else { " }" };
        Ok(Datum::text([&self.text, end].concat()))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity()
    }
}

/// `jsonb_agg`.
struct Elements {
    types: Vec<Oid>,
    values: Vec<Jsonb>,
    heap_bytes: usize,
}

impl Accumulator for Elements {
    fn add(&mut self, arguments: &[Datum], settings: &Settings) -> SqlResult<()> {
        let ([value], [of]) = (arguments, self.types.as_slice()) else {
            return Err(super::misplaced(arguments));
        };
        self.heap_bytes += value.memory_bytes() + size_of::<Jsonb>();
        self.values.push(to_jsonb(*of, value, settings)?);
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        Ok(Datum::Jsonb(Arc::new(Jsonb::Array(self.values.clone()))))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes
    }
}

/// `jsonb_object_agg`: of members with the same key the last one counts.
struct Members {
    types: Vec<Oid>,
    members: Vec<(Arc<str>, Jsonb)>,
    heap_bytes: usize,
}

impl Accumulator for Members {
    fn add(&mut self, arguments: &[Datum], settings: &Settings) -> SqlResult<()> {
        let ([key, value], [key_type, of]) = (arguments, self.types.as_slice()) else {
            return Err(super::misplaced(arguments));
        };
        if key.is_null() {
            return Err(null_key());
        }
        let key = checked_string(&key_text(*key_type, key, settings)?)?;
        self.heap_bytes += key.len() + value.memory_bytes() + size_of::<Jsonb>() * 2;
        self.members.push((key, to_jsonb(*of, value, settings)?));
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.members.is_empty() {
            return Ok(Datum::Null);
        }
        Ok(Datum::Jsonb(Arc::new(Jsonb::Object(normalize_members(self.members.clone())))))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes
    }
}
