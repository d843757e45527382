//! Access lists as `aclitem[]`, and `pg_default_acl`.

use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::names::Names;
use super::super::numbers::default_access_number;
use super::super::source::Source;
use super::{Live, Rows, Table, array};
use crate::schema::privilege::{AccessItem, AccessList};

pub(super) const TABLE: Table = &[("pg_default_acl", Live::Once(pg_default_acl))];

/// The access list of an object (its number, its class, a column or 0); null: nothing was granted or revoked.
pub(super) fn access_of(source: &mut dyn Source, names: &Names, place: (Oid, Oid, u16)) -> SqlResult<Datum> {
    Ok(source.access_list(place)?.map_or(Datum::Null, |list| items(&list, names)))
}

/// A list as an array of items.
pub(super) fn items(list: &AccessList, names: &Names) -> Datum {
    array(oid::ACLITEM, list.items.iter().map(|item| Datum::text(shown(item, names))))
}

/// `grantee=letters/grantor`, with a star after each privilege that may be granted on.
fn shown(item: &AccessItem, names: &Names) -> String {
    let role = |role: Oid| if role == 0 { String::new() } else { quoted_item(&names.role(role)) };
    let mut shown = format!("{}=", role(item.grantee));
    for (privilege, letter, _) in item.privileges.each() {
        shown.push(letter);
        if item.grantable.has(privilege) {
            shown.push('*');
        }
    }
    shown.push('/');
    shown.push_str(&role(item.grantor));
    shown
}

/// A role in an item has quotes only if it has letters other than those of plain names.
fn quoted_item(name: &str) -> String {
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn pg_default_acl(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for (role, namespace, letter, list) in source.default_access()? {
        rows.push_back(vec![
            Datum::Oid(default_access_number(role, letter)),
            Datum::Oid(role),
            Datum::Oid(namespace),
            Datum::Char(letter),
            items(&list, names),
        ]);
    }
    Ok(())
}
