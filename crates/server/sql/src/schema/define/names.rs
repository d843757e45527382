//! Names of objects that were given none, as PostgreSQL chooses them: `t_a_b_key`, `t_a_b_key1`.

use seawall_values::{Oid, SqlResult};

use super::Definer;
use crate::schema::Table;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// `first_second_label`, with the longer of the two parts cut so that it is not too long.
pub(super) fn object_name(first: &str, second: &str, label: &str) -> String {
    let fixed = label.len() + 1 + usize::from(!second.is_empty());
    let (mut first_bytes, mut second_bytes) = (first.len(), second.len());
    while first_bytes + second_bytes + fixed > NAME_BYTES_MAX {
        if first_bytes > second_bytes {
            first_bytes -= 1;
        } else {
            second_bytes -= 1;
        }
    }
    let first = &first[..first.floor_char_boundary(first_bytes)];
    let second = &second[..second.floor_char_boundary(second_bytes)];
    if second.is_empty() { format!("{first}_{label}") } else { format!("{first}_{second}_{label}") }
}

/// Names of columns in the name of an index or constraint.
pub(super) fn joined<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    let mut joined = String::new();
    for column in columns {
        if !joined.is_empty() {
            joined.push('_');
        }
        joined.push_str(column);
        if joined.len() >= NAME_BYTES_MAX {
            break;
        }
    }
    joined
}

impl Definer<'_> {
    /// A name that no relation of the schema has.
    pub(super) fn new_relation_name(
        &mut self,
        namespace: Oid,
        (first, second, label): (&str, &str, &str),
    ) -> SqlResult<String> {
        let mut suffix = 0u32;
        loop {
            let label = if suffix == 0 { label.to_owned() } else { format!("{label}{suffix}") };
            let name = object_name(first, second, &label);
            let store = self.tables.store;
            if store.relation_number(self.tables.transaction, namespace, &name)?.is_none() {
                return Ok(name);
            }
            suffix += 1;
        }
    }
}

/// A name that no constraint of the table has.
pub(super) fn new_constraint_name(table: &Table, second: &str, label: &str) -> String {
    let mut suffix = 0u32;
    loop {
        let label = if suffix == 0 { label.to_owned() } else { format!("{label}{suffix}") };
        let name = object_name(&table.name, second, &label);
        if !table.constraints.iter().any(|constraint| constraint.name == name) {
            return name;
        }
        suffix += 1;
    }
}
