//! Files that are being fetched.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use crate::regular;
use crate::say::say;
use rustix::io::Errno;
use seawall_archive::ContentSink;

/// A file that is written anew.
#[derive(Debug)]
pub(super) struct FileSink {
    file: File,
    path: PathBuf,
    is_empty: bool,
}

impl FileSink {
    pub(super) fn create(path: &Path) -> io::Result<FileSink> {
        Ok(FileSink { file: regular::create(path)?, path: path.to_owned(), is_empty: true })
    }

    /// Removes what was written: it is not whole.
    pub(super) fn discard(self) {
        if let Err(error) = rustix::fs::unlink(&self.path) {
            say!("cannot remove {}: {error}", self.path.display());
        }
    }
}

impl ContentSink for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.is_empty = false;
        self.file.write_all(bytes)
    }

    /// Every fetch begins so. A file that was cut to nothing is written to the disk when it is closed (ext4 takes it for one whose
    /// content is being replaced), and this one will be gone before anybody needs it there: so it is cut only if there is something.
    fn restart(&mut self) -> io::Result<()> {
        if self.is_empty {
            return Ok(());
        }
        self.is_empty = true;
        self.file.set_len(0)?;
        self.file.rewind()
    }
}

/// Moves a file, also to another file system.
pub(super) fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::rename(from, to) {
        Err(Errno::XDEV) => {
            std::fs::copy(from, to)?;
            Ok(rustix::fs::unlink(from)?)
        }
        result => Ok(result?),
    }
}
