//! `PREPARE`, `EXECUTE`, `DEALLOCATE`.

use seawall_values::SqlResult;

use super::super::reader::Reader;
use super::super::statement::{Execute, Utility};

pub(super) fn prepare(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("prepare")?;
    let name = reader.name()?;
    let mut types = Vec::new();
    if reader.take_character('(') {
        types = reader.list(Reader::data_type)?;
        reader.expect_character(')')?;
    }
    reader.expect_word("as")?;
    let statement = super::dml(reader)?;
    Ok(Utility::Prepare { name, types, text: reader.text().clone(), statement })
}

pub(in super::super) fn execute(reader: &mut Reader<'_>) -> SqlResult<Execute> {
    reader.expect_word("execute")?;
    let name = reader.name()?;
    let mut arguments = Vec::new();
    if reader.take_character('(') {
        arguments = reader.list(Reader::expression)?;
        reader.expect_character(')')?;
    }
    Ok(Execute { name, arguments })
}

pub(super) fn deallocate(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("deallocate")?;
    reader.take_word("prepare");
    if reader.take_word("all") {
        return Ok(Utility::Deallocate(None));
    }
    Ok(Utility::Deallocate(Some(reader.name()?)))
}
