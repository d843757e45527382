//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
    SpoolNotesNotSynced "spool-notes-not-synced"
        "the note of segments that were left out is renamed and was never synced"
        => "After a power loss a gap in PostgreSQL's archive is on record nowhere",
}
