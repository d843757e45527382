//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
    FilterForgets "filter-forgets"
        "a memtable's filter and directory do not hear of one row in 64"
        => "A committed row is not found",
}
