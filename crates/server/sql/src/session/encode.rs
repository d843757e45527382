//! Values for clients, and from them: as text or binary, as each column and parameter asks.

use std::cell::RefCell;

use seawall_values::user_types::is_enum;
use seawall_values::{
    Datum, Oid, Settings, SqlError, SqlResult, SqlState, TypeReference, binary_form, text_form,
};

use super::EncodedRow;
use super::portal::format_at;
use crate::algebra::OutputColumn;
use crate::execute::{Storage, object_names};

/// The length of a null.
const NULL_LENGTH: i32 = -1;

/// `pg_type.typlen`.
pub(crate) fn type_length(of: Oid) -> i16 {
    match crate::bind::types::type_row(of) {
        Some(row) => row.length,
        None if is_enum(of) => 4,
        None => -1,
    }
}

/// The form of a value in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Binary,
    /// None that there is: said when a value is sent.
    Unknown(i16),
}

impl Format {
    fn numbered(number: i16) -> Format {
        match number {
            0 => Format::Text,
            1 => Format::Binary,
            other => Format::Unknown(other),
        }
    }
}

#[cold]
fn unknown_format(number: i16) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {number}"))
}

/// The types and formats of the columns of rows.
#[derive(Debug)]
pub(crate) struct Encoding {
    columns: Vec<(Oid, Format)>,
    /// The text of the value that is being written; kept for its memory.
    text: RefCell<String>,
}

impl Encoding {
    /// For these columns. Formats: none: all text; one: for all; else one each.
    pub(crate) fn new(output: &[OutputColumn], formats: &[i16]) -> Encoding {
        let columns = output.iter().enumerate();
        let columns =
            columns.map(|(index, column)| (column.of.oid, Format::numbered(format_at(formats, index))));
        Encoding { columns: columns.collect(), text: RefCell::default() }
    }

    /// Writes a row in the place of the one before.
    ///
    /// # Errors
    /// A value has no such form; what the storage says.
    pub(crate) fn encode<'a>(
        &self,
        values: impl Iterator<Item = &'a Datum>,
        settings: &Settings,
        storage: &mut dyn Storage,
        row: &mut EncodedRow,
    ) -> SqlResult<()> {
        row.bytes.clear();
        row.columns = u16::try_from(self.columns.len()).map_err(|_| {
            SqlError::new(SqlState::TOO_MANY_COLUMNS, "a row has more columns than a message takes")
        })?;
        for (value, (of, format)) in values.zip(&self.columns) {
            if value.is_null() {
                row.bytes.extend(NULL_LENGTH.to_be_bytes());
                continue;
            }
            let start = row.bytes.len();
            row.bytes.extend([0; 4]);
            self.write(*of, *format, value, settings, storage, &mut row.bytes)?;
            let length = i32::try_from(row.bytes.len() - start - 4).map_err(|_| too_long())?;
            row.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    fn write(
        &self,
        of: Oid,
        format: Format,
        value: &Datum,
        settings: &Settings,
        storage: &mut dyn Storage,
        out: &mut Vec<u8>,
    ) -> SqlResult<()> {
        match (format, value) {
            (Format::Text, Datum::Text(text)) => out.extend(text.as_bytes()),
            (Format::Text, value) => {
                let mut text = self.text.take();
                text.clear();
                object_names::output(of, value, settings, storage, &mut text)?;
                out.extend(text.as_bytes());
                self.text.replace(text);
            }
            (Format::Binary, value) => binary_form::send(of, value, settings, out)?,
            (Format::Unknown(number), _) => return Err(unknown_format(number)),
        }
        Ok(())
    }
}

#[cold]
fn too_long() -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value is longer than a message takes")
}

/// The value of a parameter, unless it is one of `decode_named_parameter`.
///
/// # Errors
/// The bytes are no value of the type in this format.
pub(crate) fn decode_parameter(
    of: Oid,
    format: i16,
    value: Option<&[u8]>,
    settings: &Settings,
) -> SqlResult<Datum> {
    let Some(bytes) = value else { return Ok(Datum::Null) };
    match Format::numbered(format) {
        Format::Text => text_form::input(of, -1, binary_form::text(bytes)?, settings),
        Format::Binary => binary_form::receive(of, -1, bytes, settings),
        Format::Unknown(number) => Err(unknown_format(number)),
    }
}

/// Whether a parameter names objects: as text of `regclass` and its like.
pub(crate) fn is_named(of: Oid, format: i16) -> bool {
    let is_registered = |of| text_form::is_registered(of);
    format == 0 && (is_registered(of) || text_form::array_element(of).is_some_and(is_registered))
}

/// The value of a parameter that names objects.
///
/// # Errors
/// There is no such object.
pub(crate) fn decode_named_parameter(
    of: Oid,
    value: Option<&[u8]>,
    settings: &Settings,
    storage: &mut dyn Storage,
) -> SqlResult<Datum> {
    let Some(bytes) = value else { return Ok(Datum::Null) };
    object_names::input(TypeReference::of(of), binary_form::text(bytes)?, settings, storage)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_values::{Array, oid};

    use super::*;
    use crate::algebra::ColumnId;
    use crate::execute::NoStorage;

    fn encoded(of: Oid, format: i16, value: Datum) -> SqlResult<Vec<u8>> {
        let column = OutputColumn {
            column: ColumnId(0),
            name: String::new(),
            of: TypeReference::of(of),
            origin: (0, 0),
        };
        let encoding = Encoding::new(&[column], &[format]);
        let mut row = EncodedRow { columns: 7, bytes: b"before".to_vec() };
        encoding.encode(std::iter::once(&value), &Settings::default(), &mut NoStorage, &mut row)?;
        assert_eq!(row.columns, 1);
        Ok(row.bytes)
    }

    fn decoded(of: Oid, format: i16, bytes: &[u8]) -> SqlResult<Datum> {
        let settings = Settings::default();
        match is_named(of, format) {
            true => decode_named_parameter(of, Some(bytes), &settings, &mut NoStorage),
            false => decode_parameter(of, format, Some(bytes), &settings),
        }
    }

    #[test]
    fn values_have_their_length_before_them() {
        assert_eq!(encoded(oid::INT4, 0, Datum::Int4(-7)).unwrap(), b"\0\0\0\x02-7");
        assert_eq!(encoded(oid::INT4, 1, Datum::Int4(-7)).unwrap(), b"\0\0\0\x04\xff\xff\xff\xf9");
        assert_eq!(encoded(oid::TEXT, 0, Datum::text("")).unwrap(), b"\0\0\0\0");
        assert_eq!(encoded(oid::TEXT, 1, Datum::Null).unwrap(), b"\xff\xff\xff\xff");
        assert_eq!(encoded(oid::BOOL, 0, Datum::Bool(true)).unwrap(), b"\0\0\0\x01t");
        let error = encoded(oid::BOOL, 2, Datum::Bool(true)).unwrap_err();
        assert_eq!(error.to_string(), "22023: unsupported format code: 2");
    }

    #[test]
    fn numbers_of_objects_have_names_as_text_only() {
        assert_eq!(encoded(oid::REGTYPE, 0, Datum::Oid(23)).unwrap(), b"\0\0\0\x06name23");
        assert_eq!(encoded(oid::REGTYPE, 1, Datum::Oid(23)).unwrap(), b"\0\0\0\x04\0\0\0\x17");
        assert_eq!(encoded(oid::OID, 0, Datum::Oid(23)).unwrap(), b"\0\0\0\x0223");
        let array = Array::one_dimensional(oid::REGTYPE, vec![Datum::Oid(1), Datum::Null, Datum::Oid(2)]);
        let array = Datum::Array(Arc::new(array));
        assert_eq!(encoded(oid::REGTYPE_ARRAY, 0, array).unwrap(), b"\0\0\0\x12{name1,NULL,name2}");
    }

    #[test]
    fn parameters_are_read_in_both_formats() {
        assert!(matches!(decoded(oid::INT4, 0, b" 12 ").unwrap(), Datum::Int4(12)));
        assert!(matches!(decoded(oid::INT4, 1, b"\0\0\0\x0c").unwrap(), Datum::Int4(12)));
        assert!(matches!(decoded(oid::REGTYPE, 0, b"name5").unwrap(), Datum::Oid(5)));
        assert!(decode_parameter(oid::INT4, 0, None, &Settings::default()).unwrap().is_null());
        for (of, format, bytes, expected) in [
            (oid::INT4, 0, &b"x"[..], "22P02: invalid input syntax for type integer: \"x\""),
            (oid::INT4, 1, b"\0\0", "08P01: insufficient data left in message"),
            (oid::TEXT, 0, b"\xff", "22021: invalid byte sequence for encoding \"UTF8\": 0xff"),
            (oid::TEXT, 3, b"x", "22023: unsupported format code: 3"),
        ] {
            assert_eq!(decoded(of, format, bytes).unwrap_err().to_string(), expected);
        }
    }
}
