//! The file `standby` in the directory of a standby: without it, two servers could write the same timeline.
//!
//! Durable before the first byte is received, and removed after a promotion. A server that is to serve a directory with the file must
//! be told whom to follow.

use std::io::{self, ErrorKind};
use std::path::Path;

use seawall_io::{Disk, OpenMode, OsDisk};

const NAME: &str = "standby";
const TEXT: &str = "A standby: `seawall serve` needs --follow here. Its promotion removes this file.\n";

/// Whether the directory is a standby's.
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

/// Removes the file, durably.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    let disk = OsDisk::new(directory);
    match disk.remove(NAME) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| disk.sync_directory("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_there(&directory.path().join("missing")).unwrap());
        assert!(!is_there(directory.path()).unwrap());
        put(directory.path()).unwrap();
        put(directory.path()).unwrap();
        assert!(is_there(directory.path()).unwrap());
        remove(directory.path()).unwrap();
        remove(directory.path()).unwrap();
        assert!(!is_there(directory.path()).unwrap());
    }
}
