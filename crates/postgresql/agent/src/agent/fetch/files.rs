//! Files that are being fetched. Each has a name of its own until it is whole.

use std::fmt;
use std::io;
use std::path::Path;

use seawall_archive::ContentSink;

use crate::agent::durations::DurationCounter;
use crate::agent::transfers::Transfers;
use crate::log_line::log_line;
use crate::replacement::Replacement;
use crate::spool::{Fetching, Spool};

/// Where a file is fetched to.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// Where whoever asks for it wants it.
    Named(&'a Path),
    /// The spool, under this name: it is fetched ahead.
    Ahead(&'a Spool, &'a str),
}

impl<'a> Target<'a> {
    /// Where its durations are counted: it is waited for, or it is not.
    pub(super) fn durations<'t>(&self, transfers: &'t Transfers) -> &'t DurationCounter {
        match self {
            Target::Named(_) => &transfers.fetches,
            Target::Ahead(..) => &transfers.fetches_ahead,
        }
    }

    /// Begins to fetch it.
    pub(super) fn create(&self) -> io::Result<Box<dyn Incoming + 'a>> {
        match *self {
            Target::Named(path) => Ok(Box::new(Replacement::beside(path)?)),
            Target::Ahead(spool, name) => {
                let file = spool.begin_ahead(name)?;
                Ok(Box::new(Ahead { file, spool, name, is_kept: false }))
            }
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

/// A file that is being fetched. Dropped before it is whole, it is removed.
pub(super) trait Incoming: ContentSink {
    /// It is whole.
    fn put_in_place(self: Box<Self>) -> io::Result<()>;
}

impl Incoming for Replacement {
    fn put_in_place(self: Box<Self>) -> io::Result<()> {
        Replacement::put_in_place(*self)
    }
}

/// A segment that is being fetched ahead.
struct Ahead<'a> {
    file: Fetching,
    spool: &'a Spool,
    name: &'a str,
    is_kept: bool,
}

impl ContentSink for Ahead<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write(bytes)
    }

    fn restart(&mut self) -> io::Result<()> {
        self.file.restart()
    }
}

impl Incoming for Ahead<'_> {
    fn put_in_place(mut self: Box<Self>) -> io::Result<()> {
        self.spool.keep_ahead(self.name)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = self.spool.discard_ahead(self.name) {
            log_line!("cannot remove {} from the spool: {error}", self.name);
        }
    }
}
