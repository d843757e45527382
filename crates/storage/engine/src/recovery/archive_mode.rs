//! The file `archiving-off`: this database was restored, and neither archives nor is backed up until an operator says that it takes the
//! place of the one that it is a copy of.
//!
//! A program opens what was restored with the options that it always has, archives included. If that were enough, the copy of a trial
//! would put its own timeline into the repository of the database that it was restored from. So a restore leaves this file, and a
//! database with it is not opened with archives, and no backup of it begins, until `DatabaseDirectory::allow_archiving` has removed the file.
//! A standby that is made of the database has the file as the database has it, and so has a server that comes back to follow it, whether its
//! log is cut, its rows are rewound, or nothing is to be done.
//!
//! ```text
//! This database was restored. Until `seawall archive-mode DIRECTORY on`, it does not archive, and no backup of it is taken.
//! ```
//! The text is for people; that the file is there says everything. It is durable before the marker `restoring` goes: a crash leaves
//! a restore that is not done, or a database that does not archive.

use std::io::ErrorKind;

use seawall_io::Disk;

use crate::directory::{io, write_synced};
use crate::error::Error;

/// The file: see the module.
pub(crate) const ARCHIVING_OFF_PATH: &str = "archiving-off";
const TEXT: &[u8] = b"This database was restored. Until `seawall archive-mode DIRECTORY on`, it does not archive, and no backup \
of it is taken.\n";

/// Whether a restored database may archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveMode {
    /// Not before [`DatabaseDirectory::allow_archiving`](crate::DatabaseDirectory::allow_archiving): it may be there to try something out.
    #[default]
    Off,
    /// As its options, or the settings of a PostgreSQL cluster, say: it takes the place of the one that was backed up.
    Preserve,
}

impl ArchiveMode {
    /// Makes it that of a database that was restored or copied. Durable when it returns.
    pub(crate) fn apply(self, disk: &dyn Disk) -> Result<(), Error> {
        match self {
            ArchiveMode::Off => forbid_archiving(disk),
            ArchiveMode::Preserve => allow_archiving(disk),
        }
    }
}

/// Whether a database was restored, and may not archive.
pub(crate) fn is_archiving_off(disk: &dyn Disk) -> Result<bool, Error> {
    match disk.list_names("") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        names => Ok(names.map_err(io)?.iter().any(|name| name == ARCHIVING_OFF_PATH)),
    }
}

/// Lets a restored database archive and be backed up from its next open on. Durable when it returns; where nothing is off, nothing
/// is changed.
pub(crate) fn allow_archiving(disk: &dyn Disk) -> Result<(), Error> {
    match disk.remove(ARCHIVING_OFF_PATH) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(io)?,
    }
    disk.sync_directory("").map_err(io)
}

/// Keeps a database from archiving. Durable when it returns; where it is kept from that already, nothing is changed.
pub(crate) fn forbid_archiving(disk: &dyn Disk) -> Result<(), Error> {
    if is_archiving_off(disk)? {
        return Ok(());
    }
    write_synced(disk, ARCHIVING_OFF_PATH, TEXT)?;
    disk.sync_directory("").map_err(io)
}

/// Refuses what would put something of this database into a repository.
pub(crate) fn check_archiving(disk: &dyn Disk) -> Result<(), Error> {
    match is_archiving_off(disk)? {
        true => Err(Error::ArchivingOff { directory: disk.location("") }),
        false => Ok(()),
    }
}
