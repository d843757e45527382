//! Numbers of system relations, and those of objects that follow from others.
//!
//! A definition numbers its relation, its indexes and constraints. What belongs to them without a number of its own gets one in a range
//! above all numbers that are given out.

use seawall_values::Oid;

/// `pg_namespace.oid` of `pg_catalog`.
pub const PG_CATALOG: Oid = 11;
/// `pg_namespace.oid` of `seawall`.
pub use seawall_values::system::SEAWALL;
/// `pg_namespace.oid` of `public`.
pub const PUBLIC: Oid = 2200;
/// `pg_am.oid` of the only way that tables are stored.
pub(super) const HEAP: Oid = 2;
/// `pg_am.oid` of the only kind of indexes.
pub(super) const BTREE: Oid = 403;
/// `pg_database.oid` of the only database.
pub const DATABASE: Oid = 5;
/// `pg_tablespace.oid` of `pg_default`.
pub(super) const DEFAULT_TABLESPACE: Oid = 1663;
/// `pg_collation.oid` of `default`.
pub(super) const DEFAULT_COLLATION: Oid = 100;
/// `pg_authid.oid` of the role that made the database.
pub const BOOTSTRAP_ROLE: Oid = 10;
/// `pg_authid.oid` of `pg_database_owner`, whose only member is the owner of the database.
pub const DATABASE_OWNER: Oid = 6171;
/// `pg_checkpoint`: its members may ask for checkpoints.
pub const PG_CHECKPOINT: Oid = 4544;
/// `pg_authid.oid` of `pg_read_all_stats`.
pub(super) const READ_ALL_STATISTICS: Oid = 3375;
/// `pg_authid.oid` of `pg_read_all_data`.
pub const READ_ALL_DATA: Oid = 6181;
/// `pg_authid.oid` of `pg_write_all_data`.
pub const WRITE_ALL_DATA: Oid = 6182;

/// `pg_class.oid` of `pg_class`.
pub const PG_CLASS: Oid = 1259;
/// `pg_class.oid` of `pg_type`.
pub const PG_TYPE: Oid = 1247;
/// `pg_class.oid` of `pg_proc`.
pub const PG_PROC: Oid = 1255;
/// `pg_class.oid` of `pg_constraint`.
pub const PG_CONSTRAINT: Oid = 2606;
/// `pg_class.oid` of `pg_namespace`.
pub const PG_NAMESPACE: Oid = 2615;
/// `pg_class.oid` of `pg_attrdef`.
pub const PG_ATTRDEF: Oid = 2604;
/// `pg_class.oid` of `pg_rewrite`.
pub(super) const PG_REWRITE: Oid = 2618;
/// `pg_class.oid` of `pg_authid`.
pub const PG_AUTHID: Oid = 1260;
/// `pg_class.oid` of `pg_database`.
pub const PG_DATABASE: Oid = 1262;

/// Numbers of the types of arrays of rows begin here: that of relation 16,384 is so much more.
const ROW_ARRAY_TYPES: Oid = 0x2000_0000;
/// And those of the types of rows.
const ROW_TYPES: Oid = 0x4000_0000;
const ROW_TYPES_END: Oid = 0x8000_0000;
const RULES: Oid = 0xC000_0000;
const DEFAULTS: Oid = 0xE000_0000;
/// More columns than a table may have.
const COLUMNS: Oid = 2048;

/// The type of the rows of a table or a view.
pub fn row_type(relation: Oid) -> Oid {
    relation.wrapping_add(ROW_TYPES)
}

/// The type of arrays of rows of a table or a view.
pub fn row_array_type(relation: Oid) -> Oid {
    relation.wrapping_add(ROW_ARRAY_TYPES)
}

/// The relation whose rows, or arrays of rows, a type has.
pub fn relation_of_type(of: Oid) -> Option<(Oid, bool)> {
    match of {
        ROW_TYPES..ROW_TYPES_END => Some((of - ROW_TYPES, false)),
        ROW_ARRAY_TYPES..ROW_TYPES => Some((of - ROW_ARRAY_TYPES, true)),
        _ => None,
    }
}

/// The rule of a view.
pub(super) fn rule(view: Oid) -> Oid {
    view.wrapping_add(RULES)
}

/// The view that a rule makes a relation of.
pub(super) fn view_of_rule(rule: Oid) -> Option<Oid> {
    (RULES..DEFAULTS).contains(&rule).then(|| rule - RULES)
}

/// The default of a column, which is numbered from 1.
pub(super) fn column_default(table: Oid, column: i16) -> Oid {
    DEFAULTS | (table.wrapping_mul(COLUMNS).wrapping_add(Oid::from(column.unsigned_abs())) & !DEFAULTS)
}

/// A number of a column, from 1, for its position, from 0.
pub(super) fn column_number(position: usize) -> i16 {
    i16::try_from(position + 1).unwrap_or(i16::MAX)
}

/// `pg_default_acl.oid`: a role has at most one list of each kind in a schema, and is not asked for by this number.
pub(super) fn default_access_number(role: Oid, letter: u8) -> Oid {
    DEFAULTS.wrapping_add(role.wrapping_mul(COLUMNS)).wrapping_add(Oid::from(letter))
}
