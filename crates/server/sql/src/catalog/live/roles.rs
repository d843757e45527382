//! `pg_authid`, `pg_auth_members`, `pg_db_role_setting`, and views of them.

use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::initial::initial_rows;
use super::super::names::Names;
use super::super::numbers::BOOTSTRAP_ROLE;
use super::super::source::{Role, Source};
use super::{Live, Rows, Table, array, moment, name, text_or_null, texts_or_null};

pub(super) const TABLE: Table = &[
    ("pg_authid", Live::Once(pg_authid)),
    ("pg_roles", Live::Once(pg_roles)),
    (
        "pg_shadow",
        Live::Once(|source, _, rows| pg_shadow(source, rows, |role| text_or_null(role.password.as_ref()))),
    ),
    ("pg_user", Live::Once(|source, _, rows| pg_shadow(source, rows, |_| Datum::text("********")))),
    ("pg_group", Live::Once(pg_group)),
    ("pg_auth_members", Live::Once(pg_auth_members)),
    ("pg_db_role_setting", Live::Once(pg_db_role_setting)),
];

/// The roles whose names begin with `pg_`, which every database has.
fn system_roles() -> impl Iterator<Item = (&'static [Datum], Oid)> {
    let rows = initial_rows("pg_authid").all().iter();
    rows.filter_map(|row| match row[0] {
        Datum::Oid(oid) => Some((&**row, oid)),
        _ => None,
    })
}

/// What a role may do, in the order that `pg_authid` and `pg_roles` share: from `rolsuper` to `rolreplication`.
fn attributes(role: &Role) -> [Datum; 6] {
    [
        role.is_superuser,
        role.inherits,
        role.creates_roles,
        role.creates_databases,
        role.can_log_in,
        role.replicates,
    ]
    .map(Datum::Bool)
}

fn pg_authid(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(source.roles()?.iter().map(|role| {
        let mut row = vec![Datum::Oid(role.oid), name(&role.name)];
        row.extend(attributes(role));
        row.extend([
            Datum::Bool(role.bypasses_row_security),
            Datum::Int4(role.connection_limit),
            text_or_null(role.password.as_ref()),
            moment(role.valid_until),
        ]);
        row
    }));
    Ok(())
}

/// `pg_authid` without passwords, in another order of columns.
fn pg_roles(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(source.roles()?.iter().map(|role| {
        let mut row = vec![name(&role.name)];
        row.extend(attributes(role));
        row.extend([
            Datum::Int4(role.connection_limit),
            Datum::text("********"),
            moment(role.valid_until),
            Datum::Bool(role.bypasses_row_security),
            texts_or_null(&role.settings),
            Datum::Oid(role.oid),
        ]);
        row
    }));
    rows.extend(system_roles().map(|(row, oid)| {
        vec![
            row[1].clone(),
            row[2].clone(),
            row[3].clone(),
            row[4].clone(),
            row[5].clone(),
            row[6].clone(),
            row[7].clone(),
            row[9].clone(),
            Datum::text("********"),
            Datum::Null,
            row[8].clone(),
            Datum::Null,
            Datum::Oid(oid),
        ]
    }));
    Ok(())
}

/// `pg_shadow` and `pg_user`: roles that may log in.
fn pg_shadow(source: &mut dyn Source, rows: &mut Rows, password: fn(&Role) -> Datum) -> SqlResult<()> {
    let roles = source.roles()?;
    rows.extend(roles.iter().filter(|role| role.can_log_in).map(|role| {
        vec![
            name(&role.name),
            Datum::Oid(role.oid),
            Datum::Bool(role.creates_databases),
            Datum::Bool(role.is_superuser),
            Datum::Bool(role.replicates),
            Datum::Bool(role.bypasses_row_security),
            password(role),
            moment(role.valid_until),
            texts_or_null(&role.settings),
        ]
    }));
    Ok(())
}

/// Roles that may not log in, with their members.
fn pg_group(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let roles = source.roles()?;
    let mut push = |oid: Oid, group: Datum| {
        let members = roles.iter().filter(|role| role.member_of.iter().any(|(group, _)| *group == oid));
        let members = array(oid::OID, members.map(|role| Datum::Oid(role.oid)));
        rows.push_back(vec![group, Datum::Oid(oid), members]);
    };
    for role in roles.iter().filter(|role| !role.can_log_in) {
        push(role.oid, name(&role.name));
    }
    for (row, oid) in system_roles() {
        push(oid, row[1].clone());
    }
    Ok(())
}

fn pg_auth_members(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for role in source.roles()? {
        rows.extend(role.member_of.iter().map(|(group, has_admin_option)| {
            vec![
                Datum::Oid(*group),
                Datum::Oid(role.oid),
                Datum::Oid(BOOTSTRAP_ROLE),
                Datum::Bool(*has_admin_option),
            ]
        }));
    }
    Ok(())
}

fn pg_db_role_setting(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let roles = source.roles()?;
    let with_settings = roles.iter().filter(|role| !role.settings.is_empty());
    rows.extend(
        with_settings.map(|role| vec![Datum::Oid(0), Datum::Oid(role.oid), texts_or_null(&role.settings)]),
    );
    Ok(())
}
