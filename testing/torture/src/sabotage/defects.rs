//! All defects: each crate declares its own, and they are collected here.

use seawall_io::sabotage::DeclaredDefect;

/// The lists of the crates, from the ground up.
const LISTS: [&[DeclaredDefect]; 9] = [
    seawall_io::sabotage::DEFECTS,
    seawall_keys::sabotage::DEFECTS,
    seawall_wal::sabotage::DEFECTS,
    seawall_memtable::sabotage::DEFECTS,
    seawall_tree::sabotage::DEFECTS,
    seawall_engine::sabotage::DEFECTS,
    seawall_replication::sabotage::DEFECTS,
    seawall_archive_agent::sabotage::DEFECTS,
    seawall_base_backup::sabotage::DEFECTS,
];

/// All defects, by crate.
pub(super) fn all() -> impl Iterator<Item = &'static DeclaredDefect> {
    LISTS.into_iter().flatten()
}

/// The defect of this name.
pub(super) fn find(name: &str) -> Option<&'static DeclaredDefect> {
    all().find(|defect| defect.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seawall_io::sabotage::number_of;

    use super::*;

    #[test]
    fn no_two_defects_have_one_name_or_one_number() {
        let names: BTreeSet<&str> = all().map(|defect| defect.name).collect();
        let numbers: BTreeSet<u64> =
            names.iter().map(|name| number_of(name)).chain([number_of("")]).collect();
        assert_eq!((names.len(), numbers.len()), (all().count(), all().count() + 1));
    }
}
