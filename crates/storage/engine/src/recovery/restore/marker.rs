//! The file `restoring`: a restore is under way in the directory, or was cut short, and what was asked for. A text:
//!
//! ```text
//! A restore is under way here, or was cut short. Run the same again, and it goes on, or remove the directory.
//! version 2
//! asked_for the database 0123456789abcdef0123456789abcdef, up to the end of the log, from any backup
//! backup 20261122T031500.000000Z-0000000001A2B3C4
//! timeline 1
//! new_timeline 2 0123456789abcdef0123456789abcdef
//! crc32c 1a2b3c4d
//! ```
//! `asked_for` is compared as it is. `backup` and `timeline` are what was chosen for that: another choice begins anew. `new_timeline` is
//! the number of the timeline that will begin here, and what the repository knows this restore by (`seawall_backup`'s `reservation`);
//! `none` before it is chosen. The last line has the CRC-32C of all bytes before it. It is made under another name and renamed, so that a crash
//! leaves all of it or none.

use std::fmt;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode as FileMode};
use seawall_types::{DatabaseId, TimelineId};

use crate::directory::{RESTORING_PATH, io, write_synced};
use crate::error::Error;

/// The marker under way.
pub(super) const MARKER_SCRATCH_PATH: &str = "restoring.new";
const TITLE: &str = "A restore is under way here, or was cut short. Run the same again, and it goes on, or remove the directory.";
const VERSION: u32 = 2;
const NONE: &str = "none";
const BYTES_MAX: u64 = 64 << 10;

/// What a restore is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreMarker {
    /// What was asked for, in words, on one line. Only what asks for the same goes on.
    pub asked_for: String,
    /// The backup that was chosen, on one line. What is left of another one gives way.
    pub backup: String,
    /// The timeline that is followed.
    pub timeline: TimelineId,
    /// The timeline that will begin, once it is chosen.
    pub new_timeline: Option<NewNumber>,
}

/// The number of the timeline that a restore will begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNumber {
    /// The number.
    pub number: TimelineId,
    /// What tells this restore from others that want the same number. Drawn at random.
    pub token: u128,
}

impl NewNumber {
    fn parse(text: &str) -> Option<NewNumber> {
        let (number, token) = text.split_once(' ')?;
        let parsed = NewNumber {
            number: TimelineId::new(number.parse().ok()?)?,
            token: u128::from_str_radix(token, 16).ok()?,
        };
        (parsed.to_string() == text).then_some(parsed)
    }
}

impl fmt::Display for NewNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:032x}", self.number, self.token)
    }
}

/// What a copy for a standby is asked for with.
const FOR_STANDBY: &str = "a copy for a standby";

impl RestoreMarker {
    /// Of a copy for a standby of `database`, made from `source`. What is left of one gives way to one from another source.
    pub fn of_standby(database: DatabaseId, source: String, timeline: TimelineId) -> RestoreMarker {
        let asked_for = format!("{FOR_STANDBY} of the database {database}");
        RestoreMarker { asked_for, backup: source, timeline, new_timeline: None }
    }

    /// Whether it is one of a copy for a standby.
    pub fn is_of_standby(&self) -> bool {
        self.asked_for.starts_with(FOR_STANDBY)
    }

    /// Refuses to touch what was asked for otherwise.
    pub(super) fn check(&self, found: &RestoreMarker, disk: &dyn Disk) -> Result<(), Error> {
        if self.asked_for == found.asked_for {
            return Ok(());
        }
        Err(Error::OtherRestore {
            directory: disk.location(""),
            found: found.asked_for.clone(),
            asked_for: self.asked_for.clone(),
        })
    }

    fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("asked_for", &self.asked_for);
        text.line("backup", &self.backup);
        text.line("timeline", &self.timeline);
        text.line("new_timeline", &self.new_timeline.map_or_else(|| NONE.to_owned(), |new| new.to_string()));
        text.seal()
    }

    fn decode(bytes: &[u8]) -> Result<RestoreMarker, String> {
        let mut text = TextReader::open(bytes, TITLE, VERSION)?;
        let (asked_for, backup) = (text.field("asked_for")?.to_owned(), text.field("backup")?.to_owned());
        let timeline = TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?;
        let new_timeline = match text.field("new_timeline")? {
            NONE => None,
            new => Some(NewNumber::parse(new).ok_or("its new timeline cannot be")?),
        };
        text.end()?;
        Ok(RestoreMarker { asked_for, backup, timeline, new_timeline })
    }
}

/// What the marker in a directory says.
pub(super) fn read_marker(disk: &dyn Disk) -> Result<RestoreMarker, Error> {
    let file = disk.open(RESTORING_PATH, FileMode::Read).map_err(io)?;
    let bytes = usize::try_from(file.length().map_err(io)?.min(BYTES_MAX)).expect("64 KiB");
    let mut content = vec![0; bytes];
    file.read_exact_at(&mut content, 0).map_err(io)?;
    RestoreMarker::decode(&content)
        .map_err(|problem| Error::RestoreMarker { file: disk.location(RESTORING_PATH), problem })
}

/// Writes a marker, in place of one that may be there: durable before anything that it explains.
pub(super) fn write_marker(disk: &dyn Disk, marker: &RestoreMarker) -> Result<(), Error> {
    match disk.remove(MARKER_SCRATCH_PATH) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        removed => removed.map_err(io)?,
    }
    write_synced(disk, MARKER_SCRATCH_PATH, marker.encode().as_bytes())?;
    disk.rename(MARKER_SCRATCH_PATH, RESTORING_PATH).map_err(io)?;
    disk.sync_directory("").map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> RestoreMarker {
        RestoreMarker {
            asked_for: "the database x, up to the restore point \"backup 7\"".to_owned(),
            backup: "20261122T031500.000000Z-0000000001A2B3C4".to_owned(),
            timeline: TimelineId::FIRST,
            new_timeline: TimelineId::new(7).map(|number| NewNumber { number, token: 5 }),
        }
    }

    #[test]
    fn a_marker_comes_back_from_its_text() {
        for marker in [marker(), RestoreMarker { new_timeline: None, ..marker() }] {
            assert_eq!(RestoreMarker::decode(marker.encode().as_bytes()), Ok(marker));
        }
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = marker().encode().into_bytes();
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(RestoreMarker::decode(&other).is_err(), "byte {at}");
            assert!(RestoreMarker::decode(&text[..at]).is_err(), "{at} bytes");
        }
    }
}
