//! The file `copied`: the directory has the rows of a primary that was running when they were copied, and is a database only with the
//! log up to a position.
//!
//! ```text
//!   rows of the primary's tree, as of moments between B and E --> log from B on: received, durable, applied --> E: the file goes
//! ```
//! A text:
//! ```text
//! A copy of a running database, whole with the log up to the position below. `seawall serve --follow` completes it.
//! version 1
//! end 0/1A2B3C
//! crc32c 1a2b3c4d
//! ```
//! **If the power goes** before E is durable and applied, the file is there: the directory is opened to be followed, and in no other way,
//! and receives what is left. From E on, a replay of what is durable here ends at E or later, so the file may go. It is gone for good before a promotion.

use std::io::ErrorKind;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode};
use seawall_types::Lsn;

use crate::directory::{io, write_synced};
use crate::engine::Engine;
use crate::error::Error;

pub(crate) const COPIED_PATH: &str = "copied";
const TITLE: &str = "A copy of a running database, whole with the log up to the position below. `seawall serve --follow` completes it.";
const VERSION: u32 = 1;
const BYTES_MAX: u64 = 4 << 10;

/// Says that the copy needs the log up to `end`, durably but for the file's name.
pub(crate) fn write(disk: &dyn Disk, end: Lsn) -> Result<(), Error> {
    remove(disk)?;
    let mut text = TextWriter::new(TITLE, VERSION);
    text.line("end", &end);
    write_synced(disk, COPIED_PATH, text.seal().as_bytes())
}

/// Up to where the copy in a directory needs the log; `None` if it is none, or is whole.
pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Lsn>, Error> {
    let file = match disk.open(COPIED_PATH, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(io)?,
    };
    let bytes = file.length().map_err(io)?.min(BYTES_MAX);
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut content, 0).map_err(io)?;
    let parsed = decode(&content);
    parsed.map(Some).map_err(|problem| Error::RestoreMarker { file: disk.location(COPIED_PATH), problem })
}

/// Removes the file, if it is there; not durably.
pub(crate) fn remove(disk: &dyn Disk) -> Result<(), Error> {
    match disk.remove(COPIED_PATH) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(io),
    }
}

fn decode(bytes: &[u8]) -> Result<Lsn, String> {
    let mut text = TextReader::open(bytes, TITLE, VERSION)?;
    let end = text.parsed("end")?;
    text.end()?;
    Ok(end)
}

impl Engine {
    /// The error of what only a whole copy may do.
    pub(crate) fn check_copy_is_whole(&self) -> Result<(), Error> {
        match self.apply_control.copied_until() {
            None => Ok(()),
            Some(end) => Err(Error::CopyNotWhole { directory: self.environment.disk.location(""), end }),
        }
    }

    /// A step was applied, which may have been the last one that a copy needs.
    pub(crate) fn complete_copy(&self) -> Result<(), Error> {
        let copied_until = self.apply_control.copied_until();
        let Some(end) = copied_until.filter(|end| self.visible() >= *end) else { return Ok(()) };
        // Its pages have rows from up to there. Without the file, this says so: to a replay that stops where a delay asks for it, and to a
        // log that is to be cut.
        self.note_end_of_log(end)?;
        let disk = &*self.environment.disk;
        remove(disk)?;
        // Before a promotion: what is a primary must not be taken for a copy once more.
        disk.sync_directory("").map_err(io)?;
        self.apply_control.need_no_more();
        tracing::info!(applied = %self.visible(), "the copy of the primary is whole");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_back_and_damage_is_noticed() {
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("end", &Lsn::new(0x1A_2B3C));
        let bytes = text.seal().into_bytes();
        assert_eq!(decode(&bytes), Ok(Lsn::new(0x1A_2B3C)));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(decode(&other).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }
}
