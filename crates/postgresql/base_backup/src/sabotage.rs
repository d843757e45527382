//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
    RestoredFilesNotSynced "restored-files-not-synced"
        "the files of a restored PostgreSQL cluster are not synced"
        => "After a power loss the cluster starts with empty relations",
    RestoredControlNotSynced "restored-control-not-synced"
        "the directory of `pg_control` is not synced before the marker of the restore goes"
        => "After a power loss a restored directory cannot be distinguished from any other one",
}
