//! Access lists: the privileges that an object has while none were granted. An item is text, as `role=letters/grantor`.

use seawall_values::functions::Call;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, oid};

use super::super::live::array;
use super::super::names::{role_name, role_number, unknown_role};
use super::super::source::Source;
use super::{Table, object};

pub(super) const TABLE: Table = &[("acldefault_sql", default)];

/// `acldefault`: what the owner of an object of a kind may do, and what all may.
fn default(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let Some(Datum::Char(kind)) = call.arguments.first() else {
        return Err(SqlError::internal("acldefault without a kind"));
    };
    let (of_owner, of_all) = match kind {
        b'c' => ("", ""),
        b'r' => ("arwdDxt", ""),
        b's' => ("rwU", ""),
        b'd' => ("CTc", "Tc"),
        b'f' => ("X", "X"),
        b'l' | b'T' => ("U", "U"),
        b'L' => ("rw", ""),
        b'n' => ("UC", ""),
        b'p' => ("sA", ""),
        b't' => ("C", ""),
        b'F' | b'S' => ("U", ""),
        other => {
            let other = char::from(*other);
            return Err(SqlError::new(
                SqlState::INTERNAL_ERROR,
                format!("unrecognized object type abbreviation: {other}"),
            ));
        }
    };
    let number = object(call, 1)?;
    let owner = role_name(source, number)?.unwrap_or_else(|| unknown_role(number));
    let items = [(String::new(), of_all), (owner.clone(), of_owner)].into_iter();
    let items = items.filter(|(_, letters)| !letters.is_empty());
    Ok(array(
        oid::ACLITEM,
        items.map(|(grantee, letters)| Datum::text(format!("{grantee}={letters}/{owner}"))),
    ))
}

/// Names of privileges by their letters.
const WORDS: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
    ('s', "SET"),
    ('A', "ALTER SYSTEM"),
];

/// `aclexplode`: a row for each privilege: grantor, grantee, privilege, whether it may be granted on.
pub(super) fn explode(source: &mut dyn Source, item: &str) -> SqlResult<Vec<Vec<Datum>>> {
    let invalid = || {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid access list item \"{item}\""))
    };
    let (grantee, rest) = item.split_once('=').ok_or_else(invalid)?;
    let (letters, grantor) = rest.split_once('/').ok_or_else(invalid)?;
    let mut number = |name: &str| -> SqlResult<Datum> {
        let name = name.trim_matches('"');
        Ok(Datum::Oid(if name.is_empty() { 0 } else { role_number(source, name)?.unwrap_or(0) }))
    };
    let (grantor, grantee) = (number(grantor)?, number(grantee)?);
    let mut rows = Vec::new();
    let mut letters = letters.chars().peekable();
    while let Some(letter) = letters.next() {
        let (_, word) = WORDS.iter().find(|(known, _)| *known == letter).ok_or_else(invalid)?;
        let is_grantable = letters.next_if_eq(&'*').is_some();
        rows.push(vec![grantor.clone(), grantee.clone(), Datum::text(word), Datum::Bool(is_grantable)]);
    }
    Ok(rows)
}
