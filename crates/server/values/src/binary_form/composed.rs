//! The binary forms of arrays and rows.
//!
//! | array        | bytes | meaning                              | row      | bytes | meaning                     |
//! |--------------|------:|--------------------------------------|----------|------:|-----------------------------|
//! | dimensions   |     4 | how many                             | fields   |     4 | how many                    |
//! | flags        |     4 | 1: there are nulls                   | type     |     4 | of the field                |
//! | type         |     4 | of the elements                      | length   |     4 | of the field; -1: null      |
//! | length, lower|     8 | of each dimension                    | value    |       | in its binary form          |
//! | length       |     4 | of each element; -1: null            |          |       |                             |
//! | value        |       | in its binary form                   |          |       |                             |

use std::sync::Arc;

use super::{Reader, malformed};
use crate::datum::{Array, Datum, Dimension, Record};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::{self, Oid};
use crate::settings::Settings;
use crate::text_form::arrays::{DIMENSIONS_MAX, check_dimensions, too_many_dimensions};
use crate::text_form::{array_element, check_no_domain, composite_row, type_name};

/// Reads an array.
pub(super) fn receive(
    of: Oid,
    modifier: i32,
    reader: &mut Reader<'_>,
    settings: &Settings,
) -> SqlResult<Datum> {
    let element = match of {
        oid::INT2VECTOR => oid::INT2,
        oid::OIDVECTOR => oid::OID,
        oid::RECORD => {
            let message = "input of anonymous composite types is not implemented";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        _ => match array_element(of) {
            Some(element) => element,
            None => {
                let message = format!("no binary input function available for type {}", type_name(of));
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
            }
        },
    };
    let dimensions = dimensions(element, reader)?;
    let count: i32 = dimensions.iter().map(|dimension| dimension.length).product();
    let count = if dimensions.is_empty() { 0 } else { count };
    // An element takes four bytes at least: a count that the message cannot have is not believed.
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(reader.rest.len() / 4 + 1));
    for number in 1..=count {
        values.push(element_value(number, element, modifier, reader, settings)?);
    }
    let dimensions = if values.is_empty() { Vec::new() } else { dimensions };
    Ok(Datum::Array(Arc::new(Array { element, dimensions, values })))
}

fn dimensions(element: Oid, reader: &mut Reader<'_>) -> SqlResult<Vec<Dimension>> {
    let count = reader.i32()?;
    let count =
        usize::try_from(count).map_err(|_| malformed(format!("invalid number of dimensions: {count}")))?;
    if count > DIMENSIONS_MAX {
        return Err(too_many_dimensions(count));
    }
    if !matches!(reader.i32()?, 0 | 1) {
        return Err(malformed("invalid array flags"));
    }
    let sent = reader.u32()?;
    if sent != element {
        let message = format!(
            "binary data has array element type {sent} ({}) instead of expected {element} ({})",
            type_name(sent),
            type_name(element)
        );
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let dimension = |_| Ok(Dimension { length: reader.i32()?, lower: reader.i32()? });
    let dimensions = (0..count).map(dimension).collect::<SqlResult<Vec<_>>>()?;
    if dimensions.iter().any(|dimension| dimension.length < 0) {
        return Err(crate::text_form::arrays::too_many_elements());
    }
    check_dimensions(&dimensions)?;
    Ok(dimensions)
}

/// Reads a row of a composite type.
pub(super) fn receive_composite(of: Oid, reader: &mut Reader<'_>, settings: &Settings) -> SqlResult<Datum> {
    let fields = &settings.types.composite(of)?.fields;
    let count = reader.i32()?;
    if usize::try_from(count).ok() != Some(fields.len()) {
        let message = format!("wrong number of columns: {count}, expected {}", fields.len());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut values = Vec::with_capacity(fields.len());
    for (field, number) in fields.iter().zip(1..) {
        check_no_domain(field)?;
        let sent = reader.u32()?;
        if sent != field.of.oid {
            let message = format!(
                "binary data has type {sent} ({}) instead of expected {} ({}) in record column {number}",
                type_name(sent),
                field.of.oid,
                type_name(field.of.oid)
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        values.push(element_value(number, field.of.oid, field.of.modifier, reader, settings)?);
    }
    Ok(composite_row(fields, values))
}

fn element_value(
    number: i32,
    element: Oid,
    modifier: i32,
    reader: &mut Reader<'_>,
    settings: &Settings,
) -> SqlResult<Datum> {
    let length = match reader.i32()? {
        -1 => return Ok(Datum::Null),
        length => usize::try_from(length).ok().filter(|length| *length <= reader.rest.len()),
    };
    let length = length.ok_or_else(|| malformed("insufficient data left in message"))?;
    let bytes = reader.bytes(length)?;
    super::receive_all(element, modifier, bytes, settings, || {
        malformed(format!("improper binary format in array element {number}"))
    })
}

/// A count as the four bytes that the forms have for it.
fn length_bytes(count: usize) -> SqlResult<[u8; 4]> {
    let count = i32::try_from(count);
    let too_large =
        |_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value is too large for its binary form");
    count.map(i32::to_be_bytes).map_err(too_large)
}

/// Writes a value after its length.
fn send_part(of: Oid, value: &Datum, settings: &Settings, out: &mut Vec<u8>) -> SqlResult<()> {
    if value.is_null() {
        out.extend((-1_i32).to_be_bytes());
        return Ok(());
    }
    let start = out.len();
    out.extend([0; 4]);
    super::send(of, value, settings, out)?;
    let length = length_bytes(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&length);
    Ok(())
}

/// Writes an array.
pub(super) fn send_array(array: &Array, settings: &Settings, out: &mut Vec<u8>) -> SqlResult<()> {
    out.extend(length_bytes(array.dimensions.len())?);
    out.extend(i32::from(array.values.iter().any(Datum::is_null)).to_be_bytes());
    out.extend(array.element.to_be_bytes());
    for dimension in &array.dimensions {
        out.extend(dimension.length.to_be_bytes());
        out.extend(dimension.lower.to_be_bytes());
    }
    array.values.iter().try_for_each(|value| send_part(array.element, value, settings, out))
}

/// Writes a row.
pub(super) fn send_record(record: &Record, settings: &Settings, out: &mut Vec<u8>) -> SqlResult<()> {
    out.extend(length_bytes(record.values.len())?);
    for (value, of) in record.values.iter().zip(&record.types) {
        out.extend(of.to_be_bytes());
        send_part(*of, value, settings, out)?;
    }
    Ok(())
}
