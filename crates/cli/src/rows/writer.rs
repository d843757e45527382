//! Rows as `dump` writes them: columns `key` and `value`, in hexadecimal `key_hex` and `value_hex`.

use std::borrow::Cow;
use std::io::{self, Write};

use seawall_codec::hexadecimal::to_hexadecimal;
use serde_json::Map;

use crate::arguments::Format;
use crate::output::Notation;

/// Writes rows that `RowReader` reads back to the same bytes.
pub(crate) enum RowWriter<W: Write> {
    Delimited { writer: Box<csv::Writer<W>>, keys: Notation, values: Notation },
    JsonLines { writer: W, keys: Notation, values: Notation },
}

impl<W: Write> RowWriter<W> {
    /// Writes the header, where the format has one.
    pub(crate) fn new(
        writer: W,
        format: Format,
        keys: Notation,
        values: Notation,
    ) -> io::Result<RowWriter<W>> {
        let delimiter = match format {
            Format::Csv => b',',
            Format::Tsv => b'\t',
            Format::Jsonl => return Ok(RowWriter::JsonLines { writer, keys, values }),
        };
        let mut writer = Box::new(csv::WriterBuilder::new().delimiter(delimiter).from_writer(writer));
        let column = |name: &str, notation| match notation {
            Notation::Text => name.to_owned(),
            Notation::Hex => format!("{name}_hex"),
        };
        writer.write_record([column("key", keys), column("value", values)]).map_err(io_error)?;
        Ok(RowWriter::Delimited { writer, keys, values })
    }

    pub(crate) fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            RowWriter::Delimited { writer, keys, values } => {
                let cells = [cell(*keys, key), cell(*values, value)];
                writer.write_record(cells.iter().map(|cell| &cell[..])).map_err(io_error)
            }
            RowWriter::JsonLines { writer, keys, values } => {
                let mut object = Map::new();
                keys.set(&mut object, "key", key);
                values.set(&mut object, "value", value);
                writeln!(writer, "{}", serde_json::Value::from(object))
            }
        }
    }

    /// The writer underneath, which has everything.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            RowWriter::Delimited { writer, .. } => {
                writer.into_inner().map_err(csv::IntoInnerError::into_error)
            }
            RowWriter::JsonLines { writer, .. } => Ok(writer),
        }
    }
}

fn cell(notation: Notation, bytes: &[u8]) -> Cow<'_, [u8]> {
    match notation {
        Notation::Text => Cow::Borrowed(bytes),
        Notation::Hex => Cow::Owned(to_hexadecimal(bytes).into_bytes()),
    }
}

fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Header, Quotes, Row, RowReader, Shape};
    use super::*;

    fn round_trip(rows: &[Row], format: Format, notation: Notation) {
        let mut writer = RowWriter::new(Vec::new(), format, notation, notation).unwrap();
        for (key, value) in rows {
            writer.write(key, value).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let shape = Shape {
            key: vec![],
            separator: "/".to_owned(),
            key_type: None,
            header: Header::Present,
            quotes: Quotes::Enclosing,
        };
        let mut reader =
            RowReader::new(Box::new(io::Cursor::new(bytes)), "dump".to_owned(), format, &shape).unwrap();
        let mut read = Vec::new();
        while let Some(row) = reader.next_row().unwrap() {
            read.push(row);
        }
        assert_eq!(read, rows, "{format:?}");
    }

    /// Bytes with a taste for what the formats treat specially.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let special = prop::sample::select(b",\t\"\r\n\\ \0\xff\xef\xbb\xbfa".to_vec());
        vec(prop_oneof![3 => special, 1 => any::<u8>()], 0..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_dump_writes_load_reads(rows in vec((bytes(), bytes()), 0..4)) {
            for format in [Format::Csv, Format::Tsv, Format::Jsonl] {
                for notation in [Notation::Text, Notation::Hex] {
                    round_trip(&rows, format, notation);
                }
            }
        }
    }
}
