//! `has_table_privilege` and its kind, and `pg_has_role`.
//!
//! Objects of users have access lists. With those of the system all roles may do what PostgreSQL lets the public do: read relations, use
//! schemas, functions, types and languages.

use seawall_values::functions::Call;
use seawall_values::system::system;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::super::initial::initial_rows;
use super::super::names::{relation_numbered, roles_of};
use super::super::numbers::{
    BOOTSTRAP_ROLE, DATABASE, PG_CATALOG, PG_CLASS, PG_DATABASE, PG_NAMESPACE, PG_PROC, SEAWALL,
};
use super::super::source::Source;
use super::super::{heading, information_schema, oid_of};
use super::Implementation;
use super::references::{no_role, reference_input, relation_of_name, type_of_name};
use crate::schema::Definition;
use crate::schema::privilege::{AccessList, ObjectKind, Privileges, Rights};

/// The implementation of `has_KIND_privilege_FORM` or `pg_has_role_FORM`.
pub(super) fn implementation(source: &str) -> Option<Implementation> {
    if source.starts_with("pg_has_role_") {
        return Some(has_role);
    }
    let kind = source.strip_prefix("has_")?.split("_privilege_").next()?;
    Some(match kind {
        "table" => |source, call| has_privilege(source, call, &TABLE_WORDS, relation),
        "sequence" => |source, call| has_privilege(source, call, &["USAGE", "SELECT", "UPDATE"], sequence),
        "column" => has_column_privilege,
        "any_column" => |source, call| has_privilege(source, call, &COLUMN_WORDS, relation_or_column),
        "schema" => |source, call| has_privilege(source, call, &["CREATE", "USAGE"], schema),
        "database" => {
            |source, call| has_privilege(source, call, &["CREATE", "TEMPORARY", "TEMP", "CONNECT"], database)
        }
        "function" => |source, call| has_privilege(source, call, &["EXECUTE"], function),
        "language" => |source, call| has_privilege(source, call, &["USAGE"], language),
        "type" => |source, call| has_privilege(source, call, &["USAGE"], type_),
        "tablespace" => |source, call| has_privilege(source, call, &["CREATE"], tablespace),
        "foreign_data_wrapper" => |source, call| {
            has_privilege(source, call, &["USAGE"], |_, object| missing(object, "foreign-data wrapper"))
        },
        "server" => {
            |source, call| has_privilege(source, call, &["USAGE"], |_, object| missing(object, "server"))
        }
        _ => return None,
    })
}

const TABLE_WORDS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
const COLUMN_WORDS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "REFERENCES"];

/// Who owns an object, and what the public may do with it if it has no access list.
struct Owned {
    owner: Oid,
    public: &'static [&'static str],
    /// Lists that are looked at, one of which is enough: those of the object, or of its columns.
    lists: Option<(ObjectKind, Vec<AccessList>)>,
}

impl Owned {
    /// An object of the system.
    fn plain(owner: Oid, public: &'static [&'static str]) -> Owned {
        Owned { owner, public, lists: None }
    }
}

/// Finds an object by its name, or by its number: `None` if there is none with the number.
type FindObject = fn(&mut dyn Source, &Datum) -> SqlResult<Option<Owned>>;

/// `has_.._privilege([role,] object, privileges)`.
fn has_privilege(
    source: &mut dyn Source,
    call: &Call<'_>,
    words: &[&str],
    find: FindObject,
) -> SqlResult<Datum> {
    let (role, rest) = match call.arguments {
        [role, rest @ ..] if rest.len() == 2 => (role_of(source, role)?, rest),
        rest => (source.asker().user, rest),
    };
    let [object, privileges] = rest else { return Err(SqlError::internal("a privilege without an object")) };
    let owned = find(source, object)?;
    let asked = asked_privileges(privileges, words)?;
    match owned {
        Some(owned) => is_granted(source, role, &owned, &asked).map(Datum::Bool),
        None => Ok(Datum::Null),
    }
}

/// `has_column_privilege([role,] table, column, privileges)`: those of the table.
fn has_column_privilege(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let (role, rest) = match call.arguments {
        [role, rest @ ..] if rest.len() == 3 => (role_of(source, role)?, rest),
        rest => (source.asker().user, rest),
    };
    let [table, column, privileges] = rest else {
        return Err(SqlError::internal("a privilege without a column"));
    };
    let Some(definition) = find_relation(source, table)? else { return Ok(Datum::Null) };
    let is_known = match column {
        Datum::Text(name) if column_position(&definition, name).is_none() => {
            let table = heading(&definition).name;
            return Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{table}\" does not exist"),
            ));
        }
        Datum::Int2(number) => {
            usize::try_from(*number).is_ok_and(|number| number <= column_count(&definition))
        }
        _ => true,
    };
    let asked = asked_privileges(privileges, &COLUMN_WORDS)?;
    if !is_known {
        return Ok(Datum::Null);
    }
    let mut owned = owned_relation(source, &definition)?;
    let number = match column {
        Datum::Text(name) => column_position(&definition, name).map_or(0, |position| position + 1),
        Datum::Int2(number) => usize::try_from(*number).unwrap_or(0),
        _ => 0,
    };
    if let Some((_, lists)) = &mut owned.lists {
        let of_columns = source.access_lists(oid_of(&definition), PG_CLASS)?;
        lists.extend(
            of_columns
                .into_iter()
                .filter(|(known, _)| *known > 0 && usize::from(*known) == number)
                .map(|(_, list)| list),
        );
    }
    is_granted(source, role, &owned, &asked).map(Datum::Bool)
}

/// The privileges of a relation, or of any column of it.
fn relation_or_column(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let Some(definition) = find_relation(source, object)? else { return Ok(None) };
    let mut owned = owned_relation(source, &definition)?;
    if let Some((_, lists)) = &mut owned.lists {
        let of_columns = source.access_lists(oid_of(&definition), PG_CLASS)?;
        lists.extend(of_columns.into_iter().filter(|(known, _)| *known > 0).map(|(_, list)| list));
    }
    Ok(Some(owned))
}

fn column_position(definition: &Definition, name: &str) -> Option<usize> {
    match definition {
        Definition::Table(table) => {
            table.columns.iter().position(|column| column.name == name && !column.is_dropped)
        }
        Definition::View(view) => view.columns.iter().position(|(known, _)| known == name),
        Definition::System(relation) => relation.columns.iter().position(|(known, _)| *known == name),
        Definition::Sequence(_) => SEQUENCE_COLUMNS.iter().position(|known| *known == name),
        Definition::Index(..) => None,
    }
}

const SEQUENCE_COLUMNS: [&str; 3] = ["last_value", "log_cnt", "is_called"];

fn column_count(definition: &Definition) -> usize {
    match definition {
        Definition::Table(table) => table.columns.len(),
        Definition::View(view) => view.columns.len(),
        Definition::System(relation) => relation.columns.len(),
        Definition::Sequence(_) | Definition::Index(..) => 0,
    }
}

/// Whether a role has one of the privileges. The right to grant them is the owner's.
fn is_granted(
    source: &mut dyn Source,
    role: Oid,
    owned: &Owned,
    asked: &[(String, bool)],
) -> SqlResult<bool> {
    let rights = Rights::new(role, roles_of(&source.roles()?, role));
    if let Some((kind, lists)) = &owned.lists {
        let held = |privilege: Privileges, with_grant: bool| {
            let of_list = |list: &AccessList| match with_grant {
                true => list.grantable(&rights, owned.owner).has(privilege),
                false => list.held(&rights).and(rights.of_system(*kind)).has(privilege),
            };
            lists.iter().any(of_list)
        };
        let is_had = |(word, with_grant): &(String, bool)| {
            Privileges::named(word).is_some_and(|privilege| held(privilege, *with_grant))
        };
        return Ok(rights.is_superuser() || asked.iter().any(is_had));
    }
    let is_owner = rights.has_role(owned.owner);
    let is_public =
        |(word, with_grant): &(String, bool)| !with_grant && owned.public.contains(&word.as_str());
    Ok(is_owner || asked.iter().any(is_public))
}

/// The privileges of a list, and of each whether the right to grant it is meant.
fn asked_privileges(list: &Datum, words: &[&str]) -> SqlResult<Vec<(String, bool)>> {
    let Datum::Text(list) = list else { return Err(SqlError::internal("privileges are no text")) };
    list.split(',')
        .map(|written| {
            let upper = written.trim().to_uppercase();
            let (word, with_grant) = match upper.strip_suffix(" WITH GRANT OPTION") {
                Some(word) => (word.to_owned(), true),
                None => (upper, false),
            };
            match words.contains(&word.as_str()) {
                true => Ok((word, with_grant)),
                false => Err(unrecognized(written.trim())),
            }
        })
        .collect()
}

fn unrecognized(written: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized privilege type: \"{written}\""))
}

/// A role by its name or number; `public` is 0.
fn role_of(source: &mut dyn Source, role: &Datum) -> SqlResult<Oid> {
    match role {
        Datum::Text(name) if **name == *"public" => Ok(0),
        Datum::Text(name) => super::super::names::role_number(source, name)?.ok_or_else(|| no_role(name)),
        Datum::Oid(oid) => Ok(*oid),
        _ => Err(SqlError::internal("a role is neither a name nor a number")),
    }
}

fn has_role(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let (member, rest) = match call.arguments {
        [member, rest @ ..] if rest.len() == 2 => (role_of(source, member)?, rest),
        rest => (source.asker().user, rest),
    };
    let [role, privileges] = rest else { return Err(SqlError::internal("pg_has_role without a role")) };
    let role = role_of(source, role)?;
    asked_privileges(privileges, &["USAGE", "MEMBER"])?;
    let roles = roles_of(&source.roles()?, member);
    Ok(Datum::Bool(roles.is_none_or(|roles| roles.contains(&role))))
}

fn find_relation(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Definition>> {
    match object {
        Datum::Text(name) => relation_of_name(source, name).map(Some),
        Datum::Oid(oid) => relation_numbered(source, *oid),
        _ => Err(SqlError::internal("a relation is neither a name nor a number")),
    }
}

fn owned_relation(source: &mut dyn Source, definition: &Definition) -> SqlResult<Owned> {
    let owner = heading(definition).owner;
    let kind = match definition {
        Definition::System(system) => {
            let public: &[&str] = if super::super::is_secret(system) { &[] } else { &["SELECT"] };
            return Ok(Owned::plain(owner, public));
        }
        Definition::Sequence(_) => ObjectKind::Sequence,
        Definition::Table(_) | Definition::View(_) | Definition::Index(..) => ObjectKind::Table,
    };
    let list = access_list(source, kind, (oid_of(definition), PG_CLASS, 0), owner)?;
    Ok(Owned { owner, public: &[], lists: Some((kind, vec![list])) })
}

/// The list of an object, or the one that it has without grants.
fn access_list(
    source: &mut dyn Source,
    kind: ObjectKind,
    place: (Oid, Oid, u16),
    owner: Oid,
) -> SqlResult<AccessList> {
    Ok(source.access_list(place)?.unwrap_or_else(|| AccessList::of_new(kind, owner)))
}

fn relation(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    match find_relation(source, object)? {
        Some(found) => owned_relation(source, &found).map(Some),
        None => Ok(None),
    }
}

fn sequence(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    match find_relation(source, object)? {
        Some(found @ Definition::Sequence(_)) => owned_relation(source, &found).map(Some),
        Some(other) => {
            let name = heading(&other).name;
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")))
        }
        None => Ok(None),
    }
}

fn schema(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let number = match object {
        Datum::Text(name) => reference_input(source, seawall_values::oid::REGNAMESPACE, &quoted_again(name))?,
        Datum::Oid(oid) => *oid,
        _ => return Err(SqlError::internal("a schema is neither a name nor a number")),
    };
    if !initial_rows("pg_namespace").numbered(number).is_empty() {
        let is_used_by_all = [PG_CATALOG, SEAWALL, information_schema()].contains(&number);
        return Ok(Some(Owned::plain(BOOTSTRAP_ROLE, if is_used_by_all { &["USAGE"] } else { &[] })));
    }
    let Some(found) = source.namespaces()?.into_iter().find(|namespace| namespace.oid == number) else {
        return Ok(None);
    };
    let list = access_list(source, ObjectKind::Schema, (number, PG_NAMESPACE, 0), found.owner)?;
    Ok(Some(Owned { owner: found.owner, public: &[], lists: Some((ObjectKind::Schema, vec![list])) }))
}

/// A name that is not to be read as one with quotes and dots.
fn quoted_again(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn database(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let is_known = match object {
        Datum::Text(name) if **name != *source.asker().database => {
            return Err(SqlError::new(
                SqlState::INVALID_CATALOG_NAME,
                format!("database \"{name}\" does not exist"),
            ));
        }
        Datum::Oid(oid) => *oid == DATABASE,
        _ => true,
    };
    if !is_known {
        return Ok(None);
    }
    let list = access_list(source, ObjectKind::Database, (DATABASE, PG_DATABASE, 0), BOOTSTRAP_ROLE)?;
    let lists = Some((ObjectKind::Database, vec![list]));
    Ok(Some(Owned { owner: BOOTSTRAP_ROLE, public: &[], lists }))
}

fn function(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let number = match object {
        Datum::Text(name) => reference_input(source, seawall_values::oid::REGPROCEDURE, name)?,
        Datum::Oid(oid) => *oid,
        _ => return Err(SqlError::internal("a function is neither a name nor a number")),
    };
    if let Some(found) = source.function(number)? {
        let list = access_list(source, ObjectKind::Function, (number, PG_PROC, 0), found.owner)?;
        let lists = Some((ObjectKind::Function, vec![list]));
        return Ok(Some(Owned { owner: found.owner, public: &[], lists }));
    }
    Ok(system().function(number).map(|_| Owned::plain(BOOTSTRAP_ROLE, &["EXECUTE"])))
}

fn type_(source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let number = match object {
        Datum::Text(name) => type_of_name(source, name)?,
        Datum::Oid(oid) => *oid,
        _ => return Err(SqlError::internal("a type is neither a name nor a number")),
    };
    if let Some(found) = source.user_types()?.iter().find(|known| known.oid == number) {
        return Ok(Some(Owned::plain(found.owner, &["USAGE"])));
    }
    let is_known =
        system().type_by_oid(number).is_some() || super::super::numbers::relation_of_type(number).is_some();
    Ok(is_known.then_some(Owned::plain(BOOTSTRAP_ROLE, &["USAGE"])))
}

fn language(_source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let found = listed("pg_language", object);
    match object {
        Datum::Text(_) if !found => missing(object, "language"),
        _ => Ok(found.then_some(Owned::plain(BOOTSTRAP_ROLE, &["USAGE"]))),
    }
}

fn tablespace(_source: &mut dyn Source, object: &Datum) -> SqlResult<Option<Owned>> {
    let found = listed("pg_tablespace", object);
    match object {
        Datum::Text(_) if !found => missing(object, "tablespace"),
        _ => Ok(found.then_some(Owned::plain(BOOTSTRAP_ROLE, &[]))),
    }
}

/// Whether an initial row has this number, or this name in its second column.
fn listed(relation: &str, object: &Datum) -> bool {
    initial_rows(relation).all().iter().any(|row| match (object, &row[0], &row[1]) {
        (Datum::Oid(oid), Datum::Oid(known), _) => oid == known,
        (Datum::Text(name), _, Datum::Text(known)) => name == known,
        _ => false,
    })
}

/// No object of a kind exists: an error for a name, nothing for a number.
fn missing(object: &Datum, kind: &str) -> SqlResult<Option<Owned>> {
    match object {
        Datum::Text(name) => {
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("{kind} \"{name}\" does not exist")))
        }
        _ => Ok(None),
    }
}
