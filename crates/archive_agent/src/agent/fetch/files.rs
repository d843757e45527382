//! Files that are being fetched.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

use seawall_archive::ContentSink;

use crate::regular;
use crate::say::say;
use crate::spool::Spool;

/// Where a file is fetched to.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// Where whoever asks for it wants it.
    Named(&'a Path),
    /// The spool, under this name: it is fetched ahead.
    Ahead(&'a Spool, &'a str),
}

impl Target<'_> {
    /// Begins to write it anew.
    pub(super) fn create(&self) -> io::Result<Box<dyn ContentSink>> {
        match self {
            Target::Named(path) => Ok(Box::new(FileSink { file: regular::create(path)?, is_empty: true })),
            Target::Ahead(spool, name) => Ok(Box::new(spool.begin_ahead(name)?)),
        }
    }

    /// Removes what was written: it is not whole.
    pub(super) fn discard(&self) {
        let removed = match self {
            Target::Named(path) => rustix::fs::unlink(*path).map_err(io::Error::from),
            Target::Ahead(spool, name) => spool.discard_ahead(name),
        };
        if let Err(error) = removed {
            say!("cannot remove {self}: {error}");
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Named(path) => write!(formatter, "{}", path.display()),
            Target::Ahead(_, name) => write!(formatter, "{name} in the spool"),
        }
    }
}

/// A file that is written anew.
struct FileSink {
    file: File,
    is_empty: bool,
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
