//! Privileges of tables and columns, and roles.

use seawall_values::{Datum, SqlResult};

use super::super::live::{Rows, name};
use super::super::names::Names;
use super::super::numbers::PG_CLASS;
use super::super::oid_of;
use super::super::source::Source;
use super::heading;
use super::yes_or_no;
use crate::schema::Definition;
use crate::schema::privilege::{AccessItem, AccessList, ObjectKind, Privileges};

/// The items of a relation's list, and of each whether the asker may see it.
fn items_of(definition: &Definition, source: &mut dyn Source) -> SqlResult<Vec<AccessItem>> {
    let is_relation = matches!(definition, Definition::Table(_) | Definition::View(_));
    if !is_relation {
        return Ok(Vec::new());
    }
    let list = source.access_list((oid_of(definition), PG_CLASS, 0))?;
    let owner = heading(definition).owner;
    Ok(list.unwrap_or_else(|| AccessList::of_new(ObjectKind::Table, owner)).items)
}

/// Whether the asker has or has granted the privileges of an item; `with_public`: those of all roles as well.
fn is_shown(item: &AccessItem, names: &Names, with_public: bool) -> bool {
    let is_of_asker = names.is_enabled(item.grantor) || (item.grantee != 0 && names.is_enabled(item.grantee));
    match item.grantee {
        0 => with_public,
        _ => is_of_asker,
    }
}

/// From `grantor` to `table_name`.
fn head(definition: &Definition, item: &AccessItem, names: &Names) -> Vec<Datum> {
    let found = heading(definition);
    let grantee = if item.grantee == 0 { "PUBLIC".to_owned() } else { names.role(item.grantee) };
    vec![
        name(&names.role(item.grantor)),
        name(&grantee),
        name(&names.database),
        name(names.namespace(found.namespace)),
        name(found.name),
    ]
}

/// An owner may grant everything on.
fn is_grantable(definition: &Definition, item: &AccessItem, privilege: Privileges) -> bool {
    item.grantee == heading(definition).owner || item.grantable.has(privilege)
}

/// Privileges of a relation; `with_public`: those of all roles as well.
pub(super) fn of_table(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
    with_public: bool,
) -> SqlResult<()> {
    let items = items_of(definition, source)?;
    for item in items.iter().filter(|item| is_shown(item, names, with_public)) {
        for (privilege, _, word) in item.privileges.each() {
            let mut row = head(definition, item, names);
            let is_grantable = is_grantable(definition, item, privilege);
            row.extend([
                Datum::text(word),
                yes_or_no(is_grantable),
                yes_or_no(privilege == Privileges::SELECT),
            ]);
            rows.push_back(row);
        }
    }
    Ok(())
}

/// Privileges of the columns of a relation; `with_public`: those of all roles as well.
pub(super) fn of_columns(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
    with_public: bool,
) -> SqlResult<()> {
    let columns: Vec<(usize, &str)> = match definition {
        Definition::Table(table) => {
            let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped);
            columns.map(|(position, column)| (position, column.name.as_str())).collect()
        }
        Definition::View(view) => {
            view.columns.iter().enumerate().map(|(position, (name, _))| (position, name.as_str())).collect()
        }
        Definition::Sequence(_) | Definition::Index(..) | Definition::System(_) => return Ok(()),
    };
    let of_relation = items_of(definition, source)?;
    let lists = source.access_lists(oid_of(definition), PG_CLASS)?;
    for (position, column) in columns {
        let own = lists.iter().find(|(number, _)| usize::from(*number) == position + 1);
        let items = of_relation.iter().chain(own.iter().flat_map(|(_, list)| &list.items));
        let mut seen = Vec::new();
        for item in items.filter(|item| is_shown(item, names, with_public)) {
            for (privilege, _, word) in item.privileges.shared(ObjectKind::Column.privileges()).each() {
                if seen.contains(&(item.grantor, item.grantee, privilege)) {
                    continue;
                }
                seen.push((item.grantor, item.grantee, privilege));
                let mut row = head(definition, item, names);
                let is_grantable = is_grantable(definition, item, privilege);
                row.extend([name(column), Datum::text(word), yes_or_no(is_grantable)]);
                rows.push_back(row);
            }
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
