//! `COPY`.

mod old_options;
mod option_rules;

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::{OptionValue, WrittenOption, options};
use super::super::reader::Reader;
use super::super::statement::Dml;
use super::super::statement::copy::{Copy, CopyPlace, CopyWhat};

pub(super) fn copy(reader: &mut Reader<'_>) -> SqlResult<Copy> {
    reader.expect_word("copy")?;
    let mut written = Vec::new();
    let what = what(reader, &mut written)?;
    let is_query = matches!(what, CopyWhat::Query(_));
    let is_from = !is_query && reader.take_word("from");
    if !is_from {
        reader.expect_word("to")?;
    }
    let place = place(reader)?;
    if !is_query {
        old_options::delimiters(reader, &mut written)?;
    }
    reader.take_word("with");
    if reader.is_character('(') {
        written.extend(options(reader)?);
    } else {
        old_options::options(reader, &mut written)?;
    }
    let position = reader.position();
    let condition = if !is_query && reader.take_word("where") { Some(reader.expression()?) } else { None };
    if condition.is_some() && !is_from {
        let message = "WHERE clause not allowed with COPY TO";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
    }
    let options = option_rules::checked(&written, is_from)?;
    Ok(Copy { what, is_from, place, options, condition })
}

fn what(reader: &mut Reader<'_>, written: &mut Vec<WrittenOption>) -> SqlResult<CopyWhat> {
    if reader.take_character('(') {
        let mut statement = super::dml(reader)?;
        reader.expect_character(')')?;
        if let Dml::Query(query) = &mut statement
            && super::first_select(&mut query.body).is_some_and(|select| select.into.is_some())
        {
            return Err(SqlError::unsupported("COPY (SELECT INTO)"));
        }
        return Ok(CopyWhat::Query(statement));
    }
    if reader.is_word("binary") {
        written.push(option("format", OptionValue::Text("binary".to_owned()), reader.position()));
        reader.skip(1);
    }
    let table = reader.object_name()?;
    Ok(CopyWhat::Table(table, reader.optional_names()?))
}

fn place(reader: &mut Reader<'_>) -> SqlResult<CopyPlace> {
    if reader.take_word("program") {
        if reader.is_word("stdin") || reader.is_word("stdout") {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "STDIN/STDOUT not allowed with PROGRAM"));
        }
        return Ok(CopyPlace::Program(reader.string()?));
    }
    if reader.take_one_of(&["stdin", "stdout"]).is_some() {
        return Ok(CopyPlace::Client);
    }
    Ok(CopyPlace::File(reader.string()?))
}

fn option(name: &str, value: OptionValue, position: Option<u32>) -> WrittenOption {
    WrittenOption { name: name.to_owned(), value, position }
}
