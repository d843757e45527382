//! `SET`, `RESET`, `SHOW`.

use seawall_values::{SqlError, SqlResult};

use super::super::reader::Reader;
use super::super::statement::{ObjectName, Setting, SettingValue, Transaction, Utility};
use super::super::token::TokenKind;
use super::transaction::modes;

pub(super) fn set(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("set")?;
    if reader.take_word("constraints") {
        return constraints(reader);
    }
    let is_session_authorization = reader.is_words(&["session", "authorization"]);
    let is_characteristics = reader.is_words(&["session", "characteristics"]);
    let is_local = reader.take_word("local");
    if !is_local && !is_session_authorization && !is_characteristics && names_scope(reader) {
        reader.expect_word("session")?;
    }
    if reader.take_word("transaction") {
        if reader.take_word("snapshot") {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        return some_modes(reader).map(Utility::Transaction);
    }
    if reader.take(&["session", "characteristics"]) {
        reader.expect(&["as", "transaction"])?;
        let Transaction::SetModes(modes) = some_modes(reader)? else { return Err(reader.error()) };
        return Ok(Utility::Transaction(Transaction::SetSessionModes(modes)));
    }
    let (name, values) = assignment(reader)?;
    Ok(Utility::Setting(Setting::Set { name, values, is_local }))
}

/// Whether `SESSION` is the scope, not the name of a setting.
fn names_scope(reader: &Reader<'_>) -> bool {
    let is_name = reader.is_word_at(1, "to")
        || matches!(reader.peek(1), Some(TokenKind::Character('.')))
        || reader.peek(1).is_some_and(|kind| kind.is_operator("="));
    reader.is_word("session") && !is_name
}

fn some_modes(reader: &mut Reader<'_>) -> SqlResult<Transaction> {
    if reader.is_at_end() {
        return Err(reader.error());
    }
    Ok(Transaction::SetModes(modes(reader)?))
}

fn constraints(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    let names: Vec<ObjectName> =
        if reader.take_word("all") { Vec::new() } else { reader.list(Reader::object_name)? };
    match reader.take_one_of(&["deferred", "immediate"]) {
        Some(word) => Ok(Utility::SetConstraints { names, is_deferred: word == "deferred" }),
        None => Err(reader.error()),
    }
}

/// The name of a setting, and its new values; none: the default.
pub(in super::super) fn assignment(reader: &mut Reader<'_>) -> SqlResult<(String, Vec<SettingValue>)> {
    let text = |text: String| vec![SettingValue::Text(text)];
    if reader.take(&["time", "zone"]) {
        return Ok(("timezone".to_owned(), time_zone(reader)?));
    }
    if reader.is_word("names") && !is_assigned(reader) {
        reader.skip(1);
        let values = match reader.take_string() {
            Some(encoding) => text(encoding),
            None if reader.take_word("default") || reader.is_at_end() => Vec::new(),
            None => text(reader.unreserved_word()?),
        };
        return Ok(("client_encoding".to_owned(), values));
    }
    if reader.is_word("schema") && !is_assigned(reader) {
        reader.skip(1);
        return Ok(("search_path".to_owned(), text(reader.string()?)));
    }
    if reader.is_word("catalog") && !is_assigned(reader) {
        return Err(SqlError::unsupported("SET CATALOG"));
    }
    if reader.is_word("role") && !is_assigned(reader) {
        reader.skip(1);
        return Ok(("role".to_owned(), text(word_or_string(reader)?)));
    }
    if reader.take(&["session", "authorization"]) {
        let values = if reader.take_word("default") { Vec::new() } else { text(word_or_string(reader)?) };
        return Ok(("session_authorization".to_owned(), values));
    }
    if reader.take(&["xml", "option"]) {
        let value = reader.take_one_of(&["document", "content"]).ok_or_else(|| reader.error())?;
        return Ok(("xmloption".to_owned(), text(value.to_owned())));
    }
    let name = setting_name(reader)?;
    if !reader.take_word("to") && !reader.take_operator("=") {
        return Err(reader.error());
    }
    if reader.take_word("default") {
        return Ok((name, Vec::new()));
    }
    Ok((name, reader.list(value)?))
}

fn is_assigned(reader: &Reader<'_>) -> bool {
    reader.is_word_at(1, "to") || reader.peek(1).is_some_and(|kind| kind.is_operator("="))
}

fn word_or_string(reader: &mut Reader<'_>) -> SqlResult<String> {
    match reader.take_string() {
        Some(value) => Ok(value),
        None => reader.unreserved_word(),
    }
}

fn value(reader: &mut Reader<'_>) -> SqlResult<SettingValue> {
    if let Some(number) = reader.take_number() {
        return Ok(SettingValue::Number(number));
    }
    match reader.take_one_of(&["true", "false", "on"]) {
        Some(word) => Ok(SettingValue::Text(word.to_owned())),
        None => word_or_string(reader).map(SettingValue::Text),
    }
}

fn time_zone(reader: &mut Reader<'_>) -> SqlResult<Vec<SettingValue>> {
    if reader.take_word("default") || reader.take_word("local") {
        return Ok(Vec::new());
    }
    if reader.take_word("interval") {
        let value = reader.string()?;
        let mut fields = Vec::new();
        while let Some(word) = reader.take_one_of(&["hour", "to", "minute", "second"]) {
            fields.push(word);
        }
        return Ok(vec![SettingValue::Interval(value, fields.join(" "))]);
    }
    if let Some(number) = reader.take_number() {
        return Ok(vec![SettingValue::Number(number)]);
    }
    match reader.take_string() {
        Some(name) => Ok(vec![SettingValue::Text(name)]),
        None => Ok(vec![SettingValue::Text(reader.name()?)]),
    }
}

/// `name`, `extension.name`.
fn setting_name(reader: &mut Reader<'_>) -> SqlResult<String> {
    let mut name = reader.name()?.to_lowercase();
    while reader.take_character('.') {
        name.push('.');
        name.push_str(&reader.name()?.to_lowercase());
    }
    Ok(name)
}

/// The setting that `RESET` or `SHOW` names; `None`: all.
pub(in super::super) fn named(reader: &mut Reader<'_>) -> SqlResult<Option<String>> {
    if reader.take_word("all") {
        return Ok(None);
    }
    if reader.take(&["time", "zone"]) {
        return Ok(Some("timezone".to_owned()));
    }
    if reader.take(&["transaction", "isolation", "level"]) {
        return Ok(Some("transaction_isolation".to_owned()));
    }
    if reader.take(&["session", "authorization"]) {
        return Ok(Some("session_authorization".to_owned()));
    }
    setting_name(reader).map(Some)
}

pub(super) fn reset(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("reset")?;
    Ok(Utility::Setting(Setting::Reset(named(reader)?)))
}

pub(super) fn show(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.expect_word("show")?;
    Ok(Utility::Setting(Setting::Show(named(reader)?)))
}
