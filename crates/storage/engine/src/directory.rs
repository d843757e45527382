//! Files of the database directory that belong to no single part of the engine.

use seawall_io::{Disk, OpenMode};

use crate::error::Error;

pub(crate) const LOCK_PATH: &str = "lock";
pub(crate) const LOG_DIRECTORY: &str = "log";
/// A restore is under way, or was cut short: see `restore`.
pub(crate) const RESTORING_PATH: &str = "restoring";

/// The error of a call to the disk, as a user should see it.
pub(crate) fn io(error: std::io::Error) -> Error {
    Error::io(&error)
}

/// Writes a file anew, durably but for its name.
pub(crate) fn write_synced(disk: &dyn Disk, path: &str, content: &[u8]) -> Result<(), Error> {
    let file = disk.open(path, OpenMode::Create).map_err(io)?;
    file.write_all_at(content, 0).map_err(io)?;
    file.sync_data().map_err(io)
}
