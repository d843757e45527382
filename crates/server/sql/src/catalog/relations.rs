//! The relations of `pg_catalog` and `information_schema`: names, numbers and columns.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;
use seawall_values::system::{Block, system};
use seawall_values::{Oid, TypeReference};

use super::numbers::{PG_CATALOG, SEAWALL};
use crate::schema::SystemRelation;

struct Relations {
    all: Vec<Arc<SystemRelation>>,
    by_oid: FxHashMap<Oid, usize>,
    by_name: FxHashMap<(Oid, &'static str), usize>,
    information_schema: Oid,
}

static RELATIONS: LazyLock<Relations> = LazyLock::new(Relations::read);

impl Relations {
    /// Tables and views among the rows of `pg_class`, with their rows of `pg_attribute`.
    fn read() -> Relations {
        let mut columns = columns();
        let all: Vec<Arc<SystemRelation>> = rows("pg_class", ["oid", "relname", "relnamespace", "relkind"])
            .filter(|[_, _, _, kind]| matches!(*kind, "r" | "v"))
            .map(|[oid, name, namespace, _]| {
                let oid = number(oid);
                let columns = columns.remove(&oid).unwrap_or_default();
                Arc::new(SystemRelation { oid, name, namespace: number(namespace), columns })
            })
            .collect();
        let information_schema =
            rows("pg_namespace", ["oid", "nspname"]).find(|[_, name]| *name == "information_schema");
        Relations {
            by_oid: all.iter().enumerate().map(|(position, row)| (row.oid, position)).collect(),
            by_name: all
                .iter()
                .enumerate()
                .map(|(position, row)| ((row.namespace, row.name), position))
                .collect(),
            information_schema: information_schema.map_or(0, |[oid, _]| number(oid)),
            all,
        }
    }
}

/// The columns of all relations, in order. A column of a domain has the type below it, as clients are told.
fn columns() -> FxHashMap<Oid, Vec<(&'static str, TypeReference)>> {
    let mut columns: FxHashMap<Oid, Vec<(&'static str, TypeReference)>> = FxHashMap::default();
    for [relation, name, of, modifier, position] in
        rows("pg_attribute", ["attrelid", "attname", "atttypid", "atttypmod", "attnum"])
    {
        if position.starts_with('-') {
            continue;
        }
        let of = TypeReference { oid: number(of), modifier: number(modifier) };
        columns.entry(number(relation)).or_default().push((name, below_domain(of)));
    }
    columns
}

/// The type below a domain; another type as it is.
fn below_domain(of: TypeReference) -> TypeReference {
    match system().type_by_oid(of.oid) {
        Some(row) if row.base != 0 => TypeReference { oid: row.base, modifier: row.base_modifier },
        _ => of,
    }
}

/// Some columns of all rows of a relation; none of them is ever null or has escapes.
fn rows<const N: usize>(relation: &str, names: [&str; N]) -> impl Iterator<Item = [&'static str; N]> {
    let block: &Block = system().block(relation).expect("the file has all catalogs");
    let positions = names.map(|name| block.position(name));
    block.rows().map(move |row| {
        positions.map(|position| match &row[position] {
            Some(std::borrow::Cow::Borrowed(text)) => *text,
            other => panic!("{other:?} in the catalogs is not a plain value"),
        })
    })
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} in the catalogs is not a number"))
}

/// All of them.
pub(super) fn all() -> &'static [Arc<SystemRelation>] {
    &RELATIONS.all
}

/// The number of `information_schema`.
pub fn information_schema() -> Oid {
    RELATIONS.information_schema
}

/// The relation with this number.
pub fn relation(oid: Oid) -> Option<Arc<SystemRelation>> {
    RELATIONS.by_oid.get(&oid).map(|position| Arc::clone(&RELATIONS.all[*position]))
}

/// The relation with this name in a schema.
pub fn relation_named(namespace: Oid, name: &str) -> Option<Arc<SystemRelation>> {
    RELATIONS.by_name.get(&(namespace, name)).map(|position| Arc::clone(&RELATIONS.all[*position]))
}

/// The relation with this name in any of the schemas of the system.
pub(super) fn by_name(name: &str) -> Option<Arc<SystemRelation>> {
    [PG_CATALOG, information_schema(), SEAWALL].into_iter().find_map(|schema| relation_named(schema, name))
}

/// The names of the columns of a relation.
pub(super) fn columns_of(relation: &str) -> Vec<&'static str> {
    by_name(relation).map_or_else(Vec::new, |known| known.columns.iter().map(|(name, _)| *name).collect())
}

/// The position of a column of a relation.
pub(super) fn column_position(relation: &str, column: &str) -> Option<usize> {
    by_name(relation)?.columns.iter().position(|(name, _)| *name == column)
}
