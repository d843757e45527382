//! `GRANT` and `REVOKE`, of roles and of privileges, and `ALTER DEFAULT PRIVILEGES`.

use seawall_values::{SqlError, SqlResult};

use super::super::reader::Reader;
use super::super::statement::definition::{
    ChangePrivileges, Definition, Grantee, NewObjects, PrivilegeWord, PrivilegedObjects,
};
use super::{behavior, function, role_name};
use crate::schema::define::requests::Behavior;
use crate::schema::privilege::ObjectKind;

/// After `GRANT`.
pub(super) fn grant(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    if is_of_privileges(reader) {
        let privileges = privileges(reader)?;
        reader.expect_word("on")?;
        let objects = objects(reader)?;
        return granted(reader, privileges, objects);
    }
    let roles = reader.list(role_name)?;
    reader.expect_word("to")?;
    let members = reader.list(role_name)?;
    let is_admin = reader.take(&["with", "admin", "option"]);
    granted_by(reader)?;
    Ok(Definition::GrantRoles { roles, members, is_admin })
}

/// After `REVOKE`.
pub(super) fn revoke(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let only_option = reader.take(&["grant", "option", "for"]);
    let only_admin = !only_option && reader.take(&["admin", "option", "for"]);
    if only_option || is_of_privileges(reader) {
        let privileges = privileges(reader)?;
        reader.expect_word("on")?;
        let objects = objects(reader)?;
        return revoked(reader, privileges, objects, only_option);
    }
    let roles = reader.list(role_name)?;
    reader.expect_word("from")?;
    let members = reader.list(role_name)?;
    granted_by(reader)?;
    behavior(reader);
    Ok(Definition::RevokeRoles { roles, members, only_admin })
}

/// After `ALTER DEFAULT PRIVILEGES`.
pub(super) fn default_privileges(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if reader.take(&["for", "role"]) || reader.take(&["for", "user"]) {
            roles = reader.list(role_name)?;
        } else if reader.take(&["in", "schema"]) {
            schemas = reader.list(Reader::name)?;
        } else {
            break;
        }
    }
    let is_grant = reader.take_word("grant");
    if !is_grant {
        reader.expect_word("revoke")?;
    }
    let only_option = !is_grant && reader.take(&["grant", "option", "for"]);
    let privileges = privileges(reader)?;
    reader.expect_word("on")?;
    let kind = match reader.take_one_of(&["tables", "sequences", "functions", "routines", "types", "schemas"])
    {
        Some("tables") => ObjectKind::Table,
        Some("sequences") => ObjectKind::Sequence,
        Some("types") => ObjectKind::Type,
        Some("schemas") => ObjectKind::Schema,
        Some(_) => ObjectKind::Function,
        None => return Err(reader.error()),
    };
    let objects = PrivilegedObjects::New(NewObjects { roles, schemas, kind });
    match is_grant {
        true => granted(reader, privileges, objects),
        false => revoked(reader, privileges, objects, only_option),
    }
}

/// After the objects of `GRANT`.
fn granted(
    reader: &mut Reader<'_>,
    privileges: Vec<PrivilegeWord>,
    objects: PrivilegedObjects,
) -> SqlResult<Definition> {
    reader.expect_word("to")?;
    let grantees = reader.list(grantee)?;
    let is_of_option = reader.take(&["with", "grant", "option"]);
    granted_by(reader)?;
    Ok(Definition::ChangePrivileges(ChangePrivileges {
        is_grant: true,
        is_of_option,
        privileges,
        objects,
        grantees,
        behavior: Behavior::Restrict,
    }))
}

/// After the objects of `REVOKE`.
fn revoked(
    reader: &mut Reader<'_>,
    privileges: Vec<PrivilegeWord>,
    objects: PrivilegedObjects,
    is_of_option: bool,
) -> SqlResult<Definition> {
    reader.expect_word("from")?;
    let grantees = reader.list(grantee)?;
    granted_by(reader)?;
    let behavior = behavior(reader);
    Ok(Definition::ChangePrivileges(ChangePrivileges {
        is_grant: false,
        is_of_option,
        privileges,
        objects,
        grantees,
        behavior,
    }))
}

/// `ALL [PRIVILEGES]`, which is none of them named, or a list of words with columns.
fn privileges(reader: &mut Reader<'_>) -> SqlResult<Vec<PrivilegeWord>> {
    if reader.take_word("all") {
        reader.take_word("privileges");
        let columns = reader.optional_names()?;
        return Ok(match columns.is_empty() {
            true => Vec::new(),
            false => vec![PrivilegeWord { word: None, columns }],
        });
    }
    reader.list(|reader| {
        let word = reader.label()?;
        Ok(PrivilegeWord { word: Some(word), columns: reader.optional_names()? })
    })
}

/// After `ON`.
fn objects(reader: &mut Reader<'_>) -> SqlResult<PrivilegedObjects> {
    if reader.take_word("all") {
        let kind = match reader.take_one_of(&["tables", "sequences", "functions", "procedures", "routines"]) {
            Some("tables") => ObjectKind::Table,
            Some("sequences") => ObjectKind::Sequence,
            Some(_) => ObjectKind::Function,
            None => return Err(reader.error()),
        };
        reader.expect(&["in", "schema"])?;
        return Ok(PrivilegedObjects::AllIn(kind, reader.list(Reader::name)?));
    }
    if reader.take_word("sequence") {
        return Ok(PrivilegedObjects::Sequences(reader.list(Reader::object_name)?));
    }
    if reader.take_word("schema") {
        return Ok(PrivilegedObjects::Schemas(reader.list(Reader::name)?));
    }
    if reader.take_word("database") {
        return Ok(PrivilegedObjects::Databases(reader.list(Reader::name)?));
    }
    if reader.take_word("function") || reader.take_word("routine") {
        return Ok(PrivilegedObjects::Functions(reader.list(function::routine)?));
    }
    const OTHERS: [&[&str]; 9] = [
        &["domain"],
        &["foreign", "data", "wrapper"],
        &["foreign", "server"],
        &["language"],
        &["large", "object"],
        &["parameter"],
        &["procedure"],
        &["tablespace"],
        &["type"],
    ];
    if let Some(words) = OTHERS.iter().find(|words| reader.is_words(words)) {
        let words = words.join(" ").to_uppercase();
        return Err(SqlError::unsupported(format!("GRANT and REVOKE of privileges ON {words}")));
    }
    reader.take_word("table");
    Ok(PrivilegedObjects::Relations(reader.list(Reader::object_name)?))
}

fn grantee(reader: &mut Reader<'_>) -> SqlResult<Grantee> {
    reader.take_word("group");
    if reader.take_word("public") {
        return Ok(Grantee::Public);
    }
    role_name(reader).map(Grantee::Role)
}

fn granted_by(reader: &mut Reader<'_>) -> SqlResult<()> {
    if reader.take(&["granted", "by"]) {
        role_name(reader)?;
    }
    Ok(())
}

/// Whether there is an `ON` before the `TO` or `FROM`, or a word that only a right can be.
fn is_of_privileges(reader: &Reader<'_>) -> bool {
    let reserved = ["all", "select", "references", "create", "grant"];
    if reserved.iter().any(|word| reader.is_word(word)) {
        return true;
    }
    let mut ahead = 0;
    while reader.peek(ahead).is_some() && !reader.is_word_at(ahead, "to") && !reader.is_word_at(ahead, "from")
    {
        if reader.is_word_at(ahead, "on") {
            return true;
        }
        ahead += 1;
    }
    false
}
