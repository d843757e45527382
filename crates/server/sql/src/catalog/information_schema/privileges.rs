//! Privileges of tables and columns, and roles. Nothing can be granted, so the owner of a table has all of them, and none else has any.

use seawall_values::{Datum, SqlResult};

use super::super::live::{Rows, name};
use super::super::names::Names;
use super::super::source::Source;
use super::yes_or_no;
use super::{heading, is_shown};
use crate::schema::Definition;

const OF_TABLES: [&str; 7] = ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
const OF_COLUMNS: [&str; 4] = ["INSERT", "SELECT", "UPDATE", "REFERENCES"];

/// From `grantor` to `table_name`.
fn head(definition: &Definition, names: &Names) -> Option<Vec<Datum>> {
    let is_relation = matches!(definition, Definition::Table(_) | Definition::View(_));
    if !is_relation || !is_shown(definition, names) {
        return None;
    }
    let found = heading(definition);
    let owner = names.role(found.owner);
    Some(vec![
        name(&owner),
        name(&owner),
        name(&names.database),
        name(names.namespace(found.namespace)),
        name(found.name),
    ])
}

pub(super) fn of_table(
    definition: &Definition,
    _source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(head) = head(definition, names) else { return Ok(()) };
    for privilege in OF_TABLES {
        let mut row = head.clone();
        row.extend([Datum::text(privilege), yes_or_no(true), yes_or_no(privilege == "SELECT")]);
        rows.push_back(row);
    }
    Ok(())
}

pub(super) fn of_columns(
    definition: &Definition,
    _source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Some(head) = head(definition, names) else { return Ok(()) };
    let columns: Vec<&str> = match definition {
        Definition::Table(table) => {
            let columns = table.columns.iter().filter(|column| !column.is_dropped);
            columns.map(|column| column.name.as_str()).collect()
        }
        Definition::View(view) => view.columns.iter().map(|(name, _)| name.as_str()).collect(),
        Definition::Sequence(_) | Definition::Index(..) | Definition::System(_) => Vec::new(),
    };
    for column in columns {
        for privilege in OF_COLUMNS {
            let mut row = head.clone();
            row.extend([name(column), Datum::text(privilege), yes_or_no(true)]);
            rows.push_back(row);
        }
    }
    Ok(())
}

pub(super) fn enabled_roles(_source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(names.user_roles().into_iter().map(|role| vec![name(role)]));
    Ok(())
}

/// The memberships of roles that the user has.
pub(super) fn applicable_roles(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for role in source.roles()?.iter().filter(|role| names.has_role(role.oid)) {
        rows.extend(role.member_of.iter().map(|(group, has_admin_option)| {
            vec![name(&role.name), name(&names.role(*group)), yes_or_no(*has_admin_option)]
        }));
    }
    Ok(())
}
