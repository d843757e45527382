//! Keys of the rows of `sql.definitions`: a byte that says what the row is, and the rest in an order in which they are looked up.
//!
//! Numbers of objects are big-endian, four bytes; texts are as they are, at the end of the key.
//!
//! | byte | rest of the key                               | value                                                          |
//! |-----:|-----------------------------------------------|----------------------------------------------------------------|
//! |    1 | number of a relation                          | its definition                                                 |
//! |    2 | number of a schema, name of a relation        | number of the relation                                         |
//! |    3 | number of a schema                            | the schema                                                     |
//! |    4 | name of a schema                              | its number                                                     |
//! |    5 | number of a role                              | the role                                                       |
//! |    6 | name of a role                                | its number                                                     |
//! |    7 | number of an object, column (2; from 1, or 0),| empty: the second one depends on the first one                 |
//! |      | number of a second one, column of it (2)      |                                                                |
//! |    8 | the same with the two exchanged               | empty                                                          |
//! |    9 | number of an object, of its class, column (2) | a comment                                                      |
//! |   10 | number of the database, of a role; or 0       | list of settings as `name=value`                               |
//! |   11 | number of a constraint                        | number of its table                                            |
//! |   12 | `oid`, `version`, or `rows of ` and a table   | the next one that is not taken                                 |
//! |   13 | 0 and the key of a row of 12, or 1 and that   | empty: that row is removed, or that table dropped, when the    |
//! |      | of a row of `sql.sequences`, or 2 and the     | database is opened                                             |
//! |      | name of a table of the engine                 |                                                                |
//! |   14 | number of an object, of its class, column (2) | its access list                                                |
//! |   15 | number of a role, of a schema or 0, letter of | the access list of new objects                                 |
//! |      | a kind of objects as in `pg_default_acl` (1)  |                                                                |
//! |   16 | number of a type                              | a type that users have made                                    |
//! |   17 | number of a schema, name of a type            | number of the type                                             |
//! |   18 | number of a function                          | a function that users have made                                |
//! |   19 | number of a schema, name of a function, a     | number of the function                                         |
//! |      | byte 0, numbers of the types of its inputs    |                                                                |
//!
//! Numbers in values are four bytes, little-endian; those of 12 have eight.

use seawall_values::Oid;

const RELATION: u8 = 1;
const RELATION_NAME: u8 = 2;
const NAMESPACE: u8 = 3;
const NAMESPACE_NAME: u8 = 4;
const ROLE: u8 = 5;
const ROLE_NAME: u8 = 6;
const DEPENDENT: u8 = 7;
const DEPENDENCY: u8 = 8;
const COMMENT: u8 = 9;
const SETTINGS: u8 = 10;
const CONSTRAINT: u8 = 11;
const COUNTER: u8 = 12;
const DISCARDED: u8 = 13;
const ACCESS: u8 = 14;
const DEFAULT_ACCESS: u8 = 15;
const TYPE: u8 = 16;
const TYPE_NAME: u8 = 17;
const FUNCTION: u8 = 18;
const FUNCTION_NAME: u8 = 19;

fn by_number(section: u8, oid: Oid) -> Vec<u8> {
    let mut key = vec![section];
    key.extend_from_slice(&oid.to_be_bytes());
    key
}

fn by_text(section: u8, text: &str) -> Vec<u8> {
    let mut key = vec![section];
    key.extend_from_slice(text.as_bytes());
    key
}

pub(super) fn relation(oid: Oid) -> Vec<u8> {
    by_number(RELATION, oid)
}

pub(super) fn relation_name(namespace: Oid, name: &str) -> Vec<u8> {
    let mut key = by_number(RELATION_NAME, namespace);
    key.extend_from_slice(name.as_bytes());
    key
}

pub(super) fn relation_names(namespace: Oid) -> Vec<u8> {
    by_number(RELATION_NAME, namespace)
}

pub(super) fn user_type(oid: Oid) -> Vec<u8> {
    by_number(TYPE, oid)
}

pub(super) fn user_types() -> Vec<u8> {
    vec![TYPE]
}

pub(super) fn type_name(namespace: Oid, name: &str) -> Vec<u8> {
    let mut key = by_number(TYPE_NAME, namespace);
    key.extend_from_slice(name.as_bytes());
    key
}

pub(super) fn type_names(namespace: Oid) -> Vec<u8> {
    by_number(TYPE_NAME, namespace)
}

pub(super) fn function(oid: Oid) -> Vec<u8> {
    by_number(FUNCTION, oid)
}

pub(super) fn functions() -> Vec<u8> {
    vec![FUNCTION]
}

/// Names have no byte 0, so none begins with another one and this byte.
pub(super) fn functions_named(namespace: Oid, name: &str) -> Vec<u8> {
    let mut key = by_number(FUNCTION_NAME, namespace);
    key.extend_from_slice(name.as_bytes());
    key.push(0);
    key
}

pub(super) fn function_name(namespace: Oid, name: &str, types: &[Oid]) -> Vec<u8> {
    let mut key = functions_named(namespace, name);
    types.iter().for_each(|of| key.extend_from_slice(&of.to_be_bytes()));
    key
}

pub(super) fn function_names(namespace: Oid) -> Vec<u8> {
    by_number(FUNCTION_NAME, namespace)
}

pub(super) fn namespace(oid: Oid) -> Vec<u8> {
    by_number(NAMESPACE, oid)
}

pub(super) fn namespaces() -> Vec<u8> {
    vec![NAMESPACE]
}

pub(super) fn namespace_name(name: &str) -> Vec<u8> {
    by_text(NAMESPACE_NAME, name)
}

pub(super) fn role(oid: Oid) -> Vec<u8> {
    by_number(ROLE, oid)
}

pub(super) fn roles() -> Vec<u8> {
    vec![ROLE]
}

pub(super) fn role_name(name: &str) -> Vec<u8> {
    by_text(ROLE_NAME, name)
}

/// An object, or a column of it: its number, and the column's from 1.
pub(super) type Place = (Oid, u16);

fn pair(section: u8, first: Place, second: Place) -> Vec<u8> {
    let mut key = by_number(section, first.0);
    key.extend_from_slice(&first.1.to_be_bytes());
    key.extend_from_slice(&second.0.to_be_bytes());
    key.extend_from_slice(&second.1.to_be_bytes());
    key
}

pub(super) fn dependent(on: Place, what: Place) -> Vec<u8> {
    pair(DEPENDENT, on, what)
}

pub(super) fn dependency(what: Place, on: Place) -> Vec<u8> {
    pair(DEPENDENCY, what, on)
}

pub(super) fn dependents(on: Oid) -> Vec<u8> {
    by_number(DEPENDENT, on)
}

pub(super) fn dependencies(what: Oid) -> Vec<u8> {
    by_number(DEPENDENCY, what)
}

/// The two places of a row of dependents or dependencies.
pub(super) fn places(key: &[u8]) -> Option<(Place, Place)> {
    let oid = |at: usize| key.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let column = |at: usize| key.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes);
    Some(((oid(1)?, column(5)?), (oid(7)?, column(11)?)))
}

pub(super) fn comment(object: Oid, class: Oid, column: u16) -> Vec<u8> {
    of_column(COMMENT, object, class, column)
}

fn of_column(section: u8, object: Oid, class: Oid, column: u16) -> Vec<u8> {
    let mut key = by_number(section, object);
    key.extend_from_slice(&class.to_be_bytes());
    key.extend_from_slice(&column.to_be_bytes());
    key
}

/// Comments of an object, or of all.
pub(super) fn comments(object: Option<Oid>) -> Vec<u8> {
    object.map_or_else(|| vec![COMMENT], |object| by_number(COMMENT, object))
}

/// The object, its class and its column, of the key of a comment or of an access list.
pub(super) fn commented(key: &[u8]) -> Option<(Oid, Oid, u16)> {
    let oid = |at: usize| key.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let column = key.get(9..11)?.try_into().ok().map(u16::from_be_bytes);
    Some((oid(1)?, oid(5)?, column?))
}

pub(super) fn access(object: Oid, class: Oid, column: u16) -> Vec<u8> {
    of_column(ACCESS, object, class, column)
}

/// Access lists of an object and of its columns.
pub(super) fn access_of(object: Oid, class: Oid) -> Vec<u8> {
    let mut key = by_number(ACCESS, object);
    key.extend_from_slice(&class.to_be_bytes());
    key
}

/// Access lists of everything that has this number.
pub(super) fn access_of_number(object: Oid) -> Vec<u8> {
    by_number(ACCESS, object)
}

pub(super) fn all_access() -> Vec<u8> {
    vec![ACCESS]
}

pub(super) fn default_access(role: Oid, namespace: Oid, letter: u8) -> Vec<u8> {
    let mut key = by_number(DEFAULT_ACCESS, role);
    key.extend_from_slice(&namespace.to_be_bytes());
    key.push(letter);
    key
}

pub(super) fn all_default_access() -> Vec<u8> {
    vec![DEFAULT_ACCESS]
}

/// The role, schema and letter of a key of default privileges.
pub(super) fn default_accessed(key: &[u8]) -> Option<(Oid, Oid, u8)> {
    let oid = |at: usize| key.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some((oid(1)?, oid(5)?, *key.get(9)?))
}

pub(super) fn settings(database: Oid, role: Oid) -> Vec<u8> {
    let mut key = by_number(SETTINGS, database);
    key.extend_from_slice(&role.to_be_bytes());
    key
}

pub(super) fn constraint(oid: Oid) -> Vec<u8> {
    by_number(CONSTRAINT, oid)
}

pub(super) fn counter(name: &str) -> Vec<u8> {
    by_text(COUNTER, name)
}

/// What is not needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discarded {
    /// A counter.
    Counter = 0,
    /// The state of a sequence.
    Sequence = 1,
    /// A table of the engine that was loaded for a transaction which has not committed.
    Table = 2,
}

pub(super) fn discarded(what: Discarded, row: &[u8]) -> Vec<u8> {
    let mut key = vec![DISCARDED, what as u8];
    key.extend_from_slice(row);
    key
}

pub(super) fn all_discarded() -> Vec<u8> {
    vec![DISCARDED]
}

/// The row or table that a note is about.
pub(super) fn discarded_row(note: &[u8]) -> Option<(Discarded, &[u8])> {
    match note {
        [DISCARDED, 0, row @ ..] => Some((Discarded::Counter, row)),
        [DISCARDED, 1, row @ ..] => Some((Discarded::Sequence, row)),
        [DISCARDED, 2, name @ ..] => Some((Discarded::Table, name)),
        _ => None,
    }
}

/// The number at the end of a key that ends with one.
pub(super) fn number_at_end(key: &[u8]) -> Option<Oid> {
    key.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Past all keys that begin with these bytes.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return end;
        }
        end.pop();
    }
    end
}
