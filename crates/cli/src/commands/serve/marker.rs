//! The file `standby` in a directory that is or was a standby's.
//!
//! Durable before the first byte is received, and never removed here. Whether the directory is a standby's still, the log says: a standby
//! receives its timeline, and a promoted server writes a timeline of its own. So a server that was promoted and is started as before, with
//! `--follow`, is told from a copy of a primary that is to become a standby.

use std::io::{self, ErrorKind};
use std::path::Path;

use seawall_io::{Disk, OpenMode, OsDisk};

pub(super) const NAME: &str = "standby";
const TEXT: &str = "This directory is or was a standby's. `seawall serve` says which, and what to do.\n";

/// Whether the directory is or was a standby's.
pub(super) fn is_there(directory: &Path) -> io::Result<bool> {
    match OsDisk::new(directory).list_names("") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        names => Ok(names?.iter().any(|name| name == NAME)),
    }
}

/// Makes the file, durably.
pub(super) fn put(directory: &Path) -> io::Result<()> {
    if is_there(directory)? {
        return Ok(());
    }
    let disk = OsDisk::new(directory);
    let file = disk.open(NAME, OpenMode::Create)?;
    file.write_all_at(TEXT.as_bytes(), 0)?;
    file.sync_data()?;
    disk.sync_directory("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_there(&directory.path().join("missing")).unwrap());
        assert!(!is_there(directory.path()).unwrap());
        put(directory.path()).unwrap();
        put(directory.path()).unwrap();
        assert!(is_there(directory.path()).unwrap());
    }
}
