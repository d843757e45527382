//! Segments that are fetched ahead. Nothing here is ever synced: what is lost is fetched again. So nothing that an agent finds here
//! when it begins is used, however whole it looks: a power loss may have torn it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use seawall_archive::ContentSink;
use seawall_io::{DiskFile, OpenMode};

use super::{Spool, none_if_missing};
use crate::replacement::{Replacement, place_of};

/// Their directory.
pub(super) const IN: &str = "in";
/// What is read at once of a segment that has to be copied.
const PIECE_BYTES: usize = 1 << 20;

impl Spool {
    /// Begins to fetch a segment ahead.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin_ahead(&self, name: &str) -> io::Result<Fetching> {
        Ok(Fetching { file: self.create(&fetching(name))?, bytes: 0 })
    }

    /// It is whole.
    ///
    /// # Errors
    /// What the system says; then it cannot be handed out.
    pub(crate) fn keep_ahead(&self, name: &str) -> io::Result<()> {
        self.disk.rename(&fetching(name), &fetched(name))
    }

    /// It is not whole, and will not be.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn discard_ahead(&self, name: &str) -> io::Result<()> {
        self.remove(&fetching(name))
    }

    /// Moves a segment that is whole to its place, also to another file system.
    ///
    /// # Errors
    /// What the system says; `NotFound`, if somebody has tidied the spool up.
    pub(crate) fn hand_out(&self, name: &str, target: &Path) -> io::Result<()> {
        let path = fetched(name);
        match rustix::fs::rename(self.directory().join(&path), place_of(target)?) {
            // To another file system; or from a disk that has no place in the system.
            Err(Errno::XDEV | Errno::NOENT) => {
                self.copy_out(&path, target)?;
                self.remove(&path)
            }
            moved => Ok(moved?),
        }
    }

    fn copy_out(&self, path: &str, target: &Path) -> io::Result<()> {
        let from = self.disk.open(path, OpenMode::Read)?;
        let mut to = Replacement::beside(target)?;
        let bytes = from.length()?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut copied = 0;
        while copied < bytes {
            let count = usize::try_from(bytes - copied).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            from.read_exact_at(&mut piece[..count], copied)?;
            to.write(&piece[..count])?;
            copied += count as u64;
        }
        to.put_in_place()
    }

    /// Nobody will ask for it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn remove_ahead(&self, name: &str) -> io::Result<()> {
        self.remove(&fetched(name))
    }

    /// Removes whatever was fetched ahead.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn clear_ahead(&self) -> io::Result<()> {
        let names = none_if_missing(self.disk.list_names(IN))?.unwrap_or_default();
        names.iter().try_for_each(|name| self.remove(&format!("{IN}/{name}")))
    }
}

fn fetched(name: &str) -> String {
    format!("{IN}/{name}")
}

fn fetching(name: &str) -> String {
    format!("{IN}/.{name}")
}

/// A segment that is being fetched ahead.
#[derive(Debug)]
pub(crate) struct Fetching {
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl ContentSink for Fetching {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// As with any file that is fetched, it is cut only if there is something: see `replacement`.
    fn restart(&mut self) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.bytes = 0;
        self.file.set_length(0)
    }
}
