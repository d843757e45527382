//! `CREATE ROLE`, `ALTER ROLE`, and settings of roles and databases.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::keywords::keyword_kind;
use super::super::reader::Reader;
use super::super::statement::SettingValue;
use super::super::statement::definition::{
    AlterRole, AlterSetting, CreateRole, Definition, RoleClauses, RoleName,
};
use super::super::utility;
use super::{new_role_name, role_name};
use crate::schema::define::requests::SettingChange;

/// After `CREATE ROLE`, `CREATE USER` (which can log in) or `CREATE GROUP`.
pub(super) fn create(reader: &mut Reader<'_>, is_user: bool) -> SqlResult<Definition> {
    let name = new_role_name(reader)?;
    reader.take_word("with");
    let mut options = clauses(reader, true)?;
    options.can_log_in.get_or_insert(is_user);
    Ok(Definition::CreateRole(CreateRole { name, options }))
}

/// After `ALTER ROLE`, `ALTER USER`.
pub(super) fn alter(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    if reader.take_word("all") {
        return setting(reader, None);
    }
    let name = role_name(reader)?;
    if ["set", "reset", "in"].iter().any(|word| reader.is_word(word)) {
        return setting(reader, Some(name));
    }
    if reader.take(&["rename", "to"]) {
        let RoleName::Named(name) = name else { return Err(reader.error()) };
        return Ok(Definition::RenameRole { name, to: new_role_name(reader)? });
    }
    reader.take_word("with");
    Ok(Definition::AlterRole(AlterRole { name, options: clauses(reader, false)? }))
}

fn setting(reader: &mut Reader<'_>, role: Option<RoleName>) -> SqlResult<Definition> {
    let database = if reader.take(&["in", "database"]) { Some(reader.name()?) } else { None };
    let change = setting_change(reader)?;
    Ok(Definition::AlterSetting(AlterSetting { role, database, change, is_of_database: false }))
}

/// `SET name TO value`, `RESET name`.
pub(super) fn setting_change(reader: &mut Reader<'_>) -> SqlResult<SettingChange> {
    if reader.take_word("reset") {
        return Ok(match utility::setting_named(reader)? {
            Some(name) => SettingChange::Reset(name),
            None => SettingChange::ResetAll,
        });
    }
    reader.expect_word("set")?;
    let (name, values) = utility::setting_assignment(reader)?;
    if values.is_empty() {
        return Ok(SettingChange::Reset(name));
    }
    let texts: Vec<String> = values
        .into_iter()
        .map(|value| match value {
            SettingValue::Text(text) | SettingValue::Number(text) | SettingValue::Interval(text, _) => text,
        })
        .collect();
    Ok(SettingChange::Set(name, texts.join(", ")))
}

fn clauses(reader: &mut Reader<'_>, is_new: bool) -> SqlResult<RoleClauses> {
    let mut clauses = RoleClauses::default();
    loop {
        let position = reader.position();
        if flag(reader, &mut clauses)? {
            continue;
        }
        let is_repeated = if reader.take(&["encrypted", "password"]) || reader.is_words(&["password"]) {
            reader.take_word("password");
            let password = if reader.take_word("null") { None } else { Some(reader.string()?) };
            clauses.password.replace(password).is_some()
        } else if reader.take(&["connection", "limit"]) {
            let limit = i32::try_from(reader.integer()?).map_err(|_| reader.error())?;
            clauses.connection_limit.replace(limit).is_some()
        } else if reader.take(&["valid", "until"]) {
            clauses.valid_until.replace(reader.string()?).is_some()
        } else if is_new && (reader.take(&["in", "role"]) || reader.take(&["in", "group"])) {
            !std::mem::replace(&mut clauses.member_of, reader.list(role_name)?).is_empty()
        } else if is_new && reader.take_word("sysid") {
            reader.integer()?;
            false
        } else if is_new && let Some(word) = reader.take_one_of(&["role", "user", "admin"]) {
            let members = reader.list(role_name)?;
            clauses.members.extend(members.into_iter().map(|member| (member, word == "admin")));
            false
        } else if reader.is_word("unencrypted") {
            let message = "UNENCRYPTED PASSWORD is no longer supported";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Remove UNENCRYPTED to store the password in encrypted form instead.")
                .at(position));
        } else {
            return Ok(clauses);
        };
        if is_repeated {
            return Err(redundant(position));
        }
    }
}

/// `SUPERUSER`, `NOSUPERUSER` and their like; `false`: it is none.
fn flag(reader: &mut Reader<'_>, clauses: &mut RoleClauses) -> SqlResult<bool> {
    let position = reader.position();
    let Some(super::super::token::TokenKind::Word(word)) = reader.peek(0) else { return Ok(false) };
    let (name, value) = match word.strip_prefix("no") {
        Some(name) => (name, false),
        None => (word.as_str(), true),
    };
    let flag = match name {
        "superuser" => &mut clauses.is_superuser,
        "inherit" => &mut clauses.inherits,
        "createrole" => &mut clauses.creates_roles,
        "createdb" => &mut clauses.creates_databases,
        "login" => &mut clauses.can_log_in,
        "replication" => &mut clauses.replicates,
        "bypassrls" => &mut clauses.bypasses_row_security,
        _ => {
            let is_option = matches!(
                word.as_str(),
                "password"
                    | "encrypted"
                    | "unencrypted"
                    | "connection"
                    | "valid"
                    | "in"
                    | "sysid"
                    | "role"
                    | "user"
                    | "admin"
            );
            if is_option || keyword_kind(word).is_some() {
                return Ok(false);
            }
            let message = format!("unrecognized role option \"{word}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        }
    };
    if flag.replace(value).is_some() {
        return Err(redundant(position));
    }
    reader.skip(1);
    Ok(true)
}

fn redundant(position: Option<u32>) -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options").at(position)
}
