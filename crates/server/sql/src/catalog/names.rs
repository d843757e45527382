//! Names of schemas and roles for their numbers, and names as SQL writes them.

use rustc_hash::{FxHashMap, FxHashSet};
use seawall_values::system::system;
use seawall_values::user_types::{element_of_user_array, is_user_type};
use seawall_values::{Datum, Oid, SqlResult};

use super::definition_text::system_type;
use super::initial::{initial_rows, value_of};
use super::numbers::{PG_CATALOG, relation_of_type};
use super::source::{Role, Source};
use super::{heading, relation, relation_named};
use crate::schema::Definition;
use crate::schema::privilege::Rights;
use crate::schema::user_type::UserType;

/// The schemas and roles at the time when a scan began.
#[derive(Debug)]
pub(super) struct Names {
    namespaces: FxHashMap<Oid, String>,
    roles: FxHashMap<Oid, String>,
    rights: Rights,
    /// The name of the database.
    pub(super) database: String,
}

impl Names {
    pub(super) fn read(source: &mut dyn Source) -> SqlResult<Names> {
        let mut namespaces: FxHashMap<Oid, String> = initial_names("pg_namespace").collect();
        namespaces.extend(source.namespaces()?.into_iter().map(|namespace| (namespace.oid, namespace.name)));
        let mut roles: FxHashMap<Oid, String> = initial_names("pg_authid").collect();
        let all_roles = source.roles()?;
        let user = source.asker().user;
        let roles_of_user = roles_of(&all_roles, user);
        roles.extend(all_roles.into_iter().map(|role| (role.oid, role.name)));
        Ok(Names {
            namespaces,
            roles,
            rights: Rights::new(user, roles_of_user),
            database: source.asker().database.clone(),
        })
    }

    /// The numbers of all schemas.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = Oid> {
        self.namespaces.keys().copied()
    }

    /// The name of a schema; empty: there is none.
    pub(super) fn namespace(&self, oid: Oid) -> &str {
        self.namespaces.get(&oid).map_or("", String::as_str)
    }

    /// Whether the user has the privileges of a role.
    pub(super) fn has_role(&self, role: Oid) -> bool {
        self.rights.has_role(role)
    }

    /// What the user may do.
    pub(super) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Whether a role exists that the user has: there are roles in access lists of the system that nobody is.
    pub(super) fn is_enabled(&self, role: Oid) -> bool {
        self.has_role(role) && self.roles.contains_key(&role)
    }

    /// All roles whose privileges the user has, by name.
    pub(super) fn user_roles(&self) -> Vec<&str> {
        let mut roles: Vec<&str> = self
            .roles
            .iter()
            .filter(|(oid, _)| self.has_role(**oid))
            .map(|(_, name)| name.as_str())
            .collect();
        roles.sort_unstable();
        roles
    }

    /// The name of a role, as `pg_get_userbyid` gives it.
    pub(super) fn role(&self, oid: Oid) -> String {
        self.roles.get(&oid).cloned().unwrap_or_else(|| unknown_role(oid))
    }
}

/// The roles whose privileges a role has; `None`: of all, since it is a superuser.
pub(super) fn roles_of(roles: &[Role], role: Oid) -> Option<FxHashSet<Oid>> {
    if roles.iter().any(|known| known.oid == role && known.is_superuser) {
        return None;
    }
    let mut found = FxHashSet::from_iter([role]);
    let mut unseen = vec![role];
    while let Some(member) = unseen.pop() {
        let groups = roles.iter().filter(|known| known.oid == member).flat_map(|known| &known.member_of);
        unseen.extend(groups.map(|(group, _)| *group).filter(|group| found.insert(*group)));
    }
    Some(found)
}

/// The number and name of each initial row of a relation that begins with them.
fn initial_names(relation: &str) -> impl Iterator<Item = (Oid, String)> {
    initial_rows(relation).all().iter().filter_map(|row| match (&row[0], &row[1]) {
        (Datum::Oid(oid), Datum::Text(name)) => Some((*oid, name.to_string())),
        _ => None,
    })
}

/// What stands for the name of a role that does not exist.
pub(super) fn unknown_role(oid: Oid) -> String {
    format!("unknown (OID={oid})")
}

/// An identifier, in quotes if it needs them: if it is not made of lower-case letters, digits and underscores, or is a keyword that is not
/// allowed everywhere.
pub fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if is_plain && !is_restricted_keyword(name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Whether a word is a keyword of any other category than "unreserved".
fn is_restricted_keyword(word: &str) -> bool {
    static RESTRICTED: std::sync::OnceLock<FxHashSet<String>> = std::sync::OnceLock::new();
    let restricted = RESTRICTED.get_or_init(|| {
        let Some(block) = system().block("pg_get_keywords") else { return Default::default() };
        let (word, category) = (block.position("word"), block.position("catcode"));
        let rows = block.rows().filter(|row| row[category].as_deref() != Some("U"));
        rows.filter_map(|row| row[word].as_deref().map(str::to_owned)).collect()
    });
    restricted.contains(word)
}

/// A text as a literal of SQL.
pub fn quoted_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// The relation with a number: a system relation, or one of the source.
///
/// # Errors
/// What the source says.
pub fn relation_numbered(source: &mut dyn Source, oid: Oid) -> SqlResult<Option<Definition>> {
    match relation(oid) {
        Some(relation) => Ok(Some(Definition::System(relation))),
        None => source.definition(oid),
    }
}

/// The relation with a name in a schema: a system relation, or one of the source.
///
/// # Errors
/// What the source says.
pub fn relation_in(source: &mut dyn Source, namespace: Oid, name: &str) -> SqlResult<Option<Definition>> {
    match relation_named(namespace, name) {
        Some(relation) => Ok(Some(Definition::System(relation))),
        None => source.definition_named(namespace, name),
    }
}

/// The number of a schema.
///
/// # Errors
/// What the source says.
pub fn namespace_number(source: &mut dyn Source, name: &str) -> SqlResult<Option<Oid>> {
    if let Some((oid, _)) = initial_names("pg_namespace").find(|(_, known)| known == name) {
        return Ok(Some(oid));
    }
    Ok(source
        .namespaces()?
        .into_iter()
        .find(|namespace| namespace.name == name)
        .map(|namespace| namespace.oid))
}

/// The name of a schema.
///
/// # Errors
/// What the source says.
pub fn namespace_name(source: &mut dyn Source, oid: Oid) -> SqlResult<Option<String>> {
    if let Datum::Text(name) = value_of("pg_namespace", oid, "nspname") {
        return Ok(Some(name.to_string()));
    }
    Ok(source
        .namespaces()?
        .into_iter()
        .find(|namespace| namespace.oid == oid)
        .map(|namespace| namespace.name))
}

/// The number of a role.
///
/// # Errors
/// What the source says.
pub fn role_number(source: &mut dyn Source, name: &str) -> SqlResult<Option<Oid>> {
    if let Some(role) = source.roles()?.into_iter().find(|role| role.name == name) {
        return Ok(Some(role.oid));
    }
    Ok(initial_names("pg_authid").find(|(_, known)| known == name).map(|(oid, _)| oid))
}

/// The name of a role.
///
/// # Errors
/// What the source says.
pub fn role_name(source: &mut dyn Source, oid: Oid) -> SqlResult<Option<String>> {
    if let Some(role) = source.roles()?.into_iter().find(|role| role.oid == oid) {
        return Ok(Some(role.name));
    }
    Ok(initial_names("pg_authid").find(|(known, _)| *known == oid).map(|(_, name)| name))
}

/// Whether a relation is found by its name alone: no schema before its own has one of this name.
///
/// # Errors
/// What the source says.
pub fn is_relation_visible(source: &mut dyn Source, definition: &Definition) -> SqlResult<bool> {
    let found = heading(definition);
    for namespace in source.asker().search_path.clone() {
        if namespace == found.namespace {
            return Ok(true);
        }
        if relation_in(source, namespace, found.name)?.is_some() {
            return Ok(false);
        }
    }
    Ok(false)
}

/// A relation as `regclass` shows it: its name, with its schema if it is not found without; its number, if there is none.
///
/// # Errors
/// What the source says.
pub fn relation_text(source: &mut dyn Source, oid: Oid) -> SqlResult<String> {
    if oid == 0 {
        return Ok("-".to_owned());
    }
    let Some(definition) = relation_numbered(source, oid)? else { return initial_relation_text(source, oid) };
    let is_visible = is_relation_visible(source, &definition)?;
    let found = heading(&definition);
    qualified(source, found.namespace, found.name, is_visible)
}

/// An index of a system relation, which is no relation of its own here, or a number.
fn initial_relation_text(source: &mut dyn Source, oid: Oid) -> SqlResult<String> {
    match (value_of("pg_class", oid, "relname"), value_of("pg_class", oid, "relnamespace")) {
        (Datum::Text(name), Datum::Oid(namespace)) => {
            let is_visible = source.asker().search_path.contains(&namespace);
            qualified(source, namespace, &name, is_visible)
        }
        _ => Ok(oid.to_string()),
    }
}

/// A name, with its schema unless it is visible.
pub(super) fn qualified(
    source: &mut dyn Source,
    namespace: Oid,
    name: &str,
    is_visible: bool,
) -> SqlResult<String> {
    if is_visible {
        return Ok(quoted(name));
    }
    let namespace = namespace_name(source, namespace)?.unwrap_or_default();
    Ok(format!("{}.{}", quoted(&namespace), quoted(name)))
}

/// A type as `format_type` shows it.
///
/// # Errors
/// What the source says.
pub fn type_text(source: &mut dyn Source, of: Oid, modifier: Option<i32>) -> SqlResult<String> {
    if of == 0 {
        return Ok("-".to_owned());
    }
    if let Some(text) = system_type(of, modifier) {
        let is_hidden = !source.asker().search_path.contains(&PG_CATALOG);
        return Ok(if is_hidden && is_named_plainly(of) { format!("pg_catalog.{text}") } else { text });
    }
    if is_user_type(of) {
        return user_type_text(source, of);
    }
    if let Some((relation, is_array)) = relation_of_type(of) {
        let text = relation_text(source, relation)?;
        return Ok(if is_array { text + "[]" } else { text });
    }
    let Some(row) = system().type_by_oid(of) else { return Ok("???".to_owned()) };
    if row.element != 0 && row.name.starts_with('_') {
        return Ok(type_text(source, row.element, modifier)? + "[]");
    }
    let is_visible = source.asker().search_path.contains(&row.namespace);
    qualified(source, row.namespace, &row.name, is_visible)
}

/// A type that users have made.
fn user_type_text(source: &mut dyn Source, of: Oid) -> SqlResult<String> {
    let (element, brackets) = element_of_user_array(of).map_or((of, ""), |element| (element, "[]"));
    let all = source.user_types()?;
    let Some(found) = all.iter().find(|known| known.oid == element) else { return Ok("???".to_owned()) };
    let is_visible = is_type_visible(source, &all, found);
    Ok(qualified(source, found.namespace, &found.name, is_visible)? + brackets)
}

/// Whether a type that users have made is found by its name alone.
pub(super) fn is_type_visible(source: &mut dyn Source, all: &[UserType], found: &UserType) -> bool {
    let place = |known: &UserType| {
        source.asker().search_path.iter().position(|namespace| *namespace == known.namespace)
    };
    let first = all
        .iter()
        .filter(|known| known.name == found.name && place(known).is_some())
        .min_by_key(|known| place(known));
    first.is_some_and(|first| first.oid == found.oid)
}

/// Whether a type has no name of its own in SQL's grammar, such as `integer`.
fn is_named_plainly(of: Oid) -> bool {
    let row = system().type_by_oid(of);
    row.is_some_and(|row| system_type(of, None).is_some_and(|text| text == quoted(&row.name)))
}
