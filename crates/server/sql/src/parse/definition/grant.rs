//! `GRANT` and `REVOKE` of roles. Rights to objects are not there: they are refused, for a right that is taken away and not checked
//! would protect nothing.

use seawall_values::{SqlError, SqlResult};

use super::super::reader::Reader;
use super::super::statement::definition::Definition;
use super::{behavior, role_name};

/// After `GRANT`.
pub(super) fn grant(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    if is_of_privileges(reader) {
        return Err(SqlError::unsupported("GRANT of privileges"));
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
    let only_admin = reader.take(&["admin", "option", "for"]);
    if is_of_privileges(reader) {
        return Err(SqlError::unsupported("REVOKE of privileges"));
    }
    let roles = reader.list(role_name)?;
    reader.expect_word("from")?;
    let members = reader.list(role_name)?;
    granted_by(reader)?;
    behavior(reader);
    Ok(Definition::RevokeRoles { roles, members, only_admin })
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
