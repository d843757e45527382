//! Text forms of all types. Values of `regclass` and its like are numbers whose names the storage knows; all others are as
//! `seawall_values::text_form` has them.

use std::sync::Arc;

use seawall_values::text_form::{self, is_registered};
use seawall_values::{Array, Datum, Oid, Record, Settings, SqlResult, TypeReference, oid};

use super::storage::Storage;

/// Writes a value at the end of a text, as `text_form::output` does.
///
/// # Errors
/// As `text_form::output`; what the storage says.
pub(crate) fn output(
    of: Oid,
    value: &Datum,
    settings: &Settings,
    storage: &mut dyn Storage,
    out: &mut String,
) -> SqlResult<()> {
    match value {
        Datum::Oid(number) if is_registered(of) => {
            out.push_str(&storage.reference_output(of, *number)?);
            Ok(())
        }
        Datum::Array(_) | Datum::Record(_) => match named(of, value, storage)? {
            Some(named) => text_form::output(of, &named, settings, out),
            None => text_form::output(of, value, settings, out),
        },
        _ => text_form::output(of, value, settings, out),
    }
}

/// An array or a row with names in the place of numbers; `None`: it has no such numbers.
fn named(of: Oid, value: &Datum, storage: &mut dyn Storage) -> SqlResult<Option<Datum>> {
    match value {
        Datum::Oid(number) if is_registered(of) => {
            Ok(Some(Datum::text(storage.reference_output(of, *number)?)))
        }
        Datum::Array(array) => named_elements(array, storage),
        Datum::Record(record) => named_fields(record, storage),
        _ => Ok(None),
    }
}

fn named_elements(array: &Array, storage: &mut dyn Storage) -> SqlResult<Option<Datum>> {
    let is_composed = array.values.iter().any(|value| matches!(value, Datum::Record(_)));
    if !is_registered(array.element) && !is_composed {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(array.values.len());
    for value in &array.values {
        values.push(named(array.element, value, storage)?.unwrap_or_else(|| value.clone()));
    }
    let element = if is_composed { array.element } else { oid::TEXT };
    Ok(Some(Datum::Array(Arc::new(Array { element, dimensions: array.dimensions.clone(), values }))))
}

fn named_fields(record: &Record, storage: &mut dyn Storage) -> SqlResult<Option<Datum>> {
    let mut changed: Option<Record> = None;
    for (position, (value, of)) in record.values.iter().zip(&record.types).enumerate() {
        if let Some(named) = named(*of, value, storage)? {
            let is_text = matches!(named, Datum::Text(_));
            let changed = changed.get_or_insert_with(|| record.clone());
            changed.values[position] = named;
            if is_text {
                changed.types[position] = oid::TEXT;
            }
        }
    }
    Ok(changed.map(|record| Datum::Record(Arc::new(record))))
}

/// Reads a value, as `text_form::input` does.
///
/// # Errors
/// As `text_form::input`; there is no object of the name.
pub(crate) fn input(
    of: TypeReference,
    text: &str,
    settings: &Settings,
    storage: &mut dyn Storage,
) -> SqlResult<Datum> {
    if is_registered(of.oid) {
        return storage.reference_input(of.oid, text).map(Datum::Oid);
    }
    match text_form::array_element(of.oid) {
        Some(element) if is_registered(element) => {
            match text_form::input(oid::TEXT_ARRAY, -1, text, settings)? {
                Datum::Array(names) => numbered(&names, element, storage),
                other => Ok(other),
            }
        }
        _ => text_form::input(of.oid, of.modifier, text, settings),
    }
}

/// An array of names as one of numbers.
fn numbered(names: &Array, element: Oid, storage: &mut dyn Storage) -> SqlResult<Datum> {
    let mut values = Vec::with_capacity(names.values.len());
    for name in &names.values {
        values.push(match name {
            Datum::Text(name) => Datum::Oid(storage.reference_input(element, name)?),
            other => other.clone(),
        });
    }
    Ok(Datum::Array(Arc::new(Array { element, dimensions: names.dimensions.clone(), values })))
}
