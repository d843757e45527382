//! Options of `COPY` as they were written before PostgreSQL 9.0: `DELIMITER ',' CSV HEADER`.

use seawall_values::SqlResult;

use super::super::super::options::{OptionValue, WrittenOption};
use super::super::super::reader::Reader;
use super::option;

/// `USING DELIMITERS ','`.
pub(super) fn delimiters(reader: &mut Reader<'_>, written: &mut Vec<WrittenOption>) -> SqlResult<()> {
    let is_using = reader.take_word("using");
    let position = reader.position();
    if reader.take_word("delimiters") {
        written.push(option("delimiter", OptionValue::Text(reader.string()?), position));
    } else if is_using {
        return Err(reader.error());
    }
    Ok(())
}

pub(super) fn options(reader: &mut Reader<'_>, written: &mut Vec<WrittenOption>) -> SqlResult<()> {
    const WORDS: [&str; 9] =
        ["binary", "freeze", "delimiter", "null", "csv", "header", "quote", "escape", "encoding"];
    loop {
        let position = reader.position();
        let (name, value) = if reader.take(&["force", "quote"]) {
            let value = if reader.take_operator("*") { OptionValue::Star } else { columns(reader)? };
            ("force_quote", value)
        } else if reader.take(&["force", "not", "null"]) {
            ("force_not_null", columns(reader)?)
        } else if reader.take(&["force", "null"]) {
            ("force_null", columns(reader)?)
        } else {
            match reader.take_one_of(&WORDS) {
                None => return Ok(()),
                Some(format @ ("binary" | "csv")) => ("format", OptionValue::Text(format.to_owned())),
                Some(flag @ ("freeze" | "header")) => (flag, OptionValue::None),
                Some("encoding") => ("encoding", OptionValue::Text(reader.string()?)),
                Some(name) => {
                    reader.take_word("as");
                    (name, OptionValue::Text(reader.string()?))
                }
            }
        };
        written.push(option(name, value, position));
    }
}

fn columns(reader: &mut Reader<'_>) -> SqlResult<OptionValue> {
    reader.list(Reader::name).map(OptionValue::List)
}
