//! The file `rewinding`: the rows of this database are being made those of another server, and are neither before that is done. A text:
//!
//! ```text
//! This database is being made equal to the server that it is to follow, or that was cut short. `seawall serve --follow` completes it.
//! version 1
//! since 0/1A2B3C
//! timeline 2
//! history 312030...
//! crc32c 1a2b3c4d
//! ```
//! Up to `since`, the other server has the same history: that of `timeline`, whose history file follows in hexadecimal digits; `none` for the
//! first timeline. Leaves with later stamps are not trusted. The file is made under another name and renamed, so that a crash leaves all of it or
//! none, and is durable before the first page changes. It goes when the directory has what a copy of the other server has.

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::TimelineHistory;

use crate::directory::{io, write_synced};
use crate::encryption::open_superblock;
use crate::error::Error;

pub(crate) const REWINDING_PATH: &str = "rewinding";
const SCRATCH_PATH: &str = "rewinding.new";
const TITLE: &str = "This database is being made equal to the server that it is to follow, or that was cut short. `seawall serve --follow` completes it.";
const VERSION: u32 = 1;
const NONE: &str = "none";
const BYTES_MAX: u64 = 16 << 20;

/// From where on the rows of a directory are to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RewindMarker {
    /// Leaves with later stamps are not trusted.
    pub(super) since: Lsn,
    /// That of the timeline that this is on.
    history: TimelineHistory,
}

impl RewindMarker {
    /// The marker of a database with this history.
    pub(super) fn of(history: &TimelineHistory, since: Lsn) -> RewindMarker {
        // A position at a fork belongs to both timelines.
        let last = Lsn::new(since.get().saturating_sub(1));
        RewindMarker { since, history: history.up_to(history.timeline_at(last)) }
    }

    /// The marker for a server with this history: it may have left the one here before the place that another one had left it at.
    pub(super) fn until_parted(&self, upstream: &TimelineHistory) -> RewindMarker {
        let since = self.history.parting(upstream).map_or(self.since, |parting| parting.at.min(self.since));
        RewindMarker::of(&self.history, since)
    }

    /// The marker in a directory; `None` if there is none.
    pub(super) fn read(disk: &dyn Disk) -> Result<Option<RewindMarker>, Error> {
        let file = match disk.open(REWINDING_PATH, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io)?,
        };
        let bytes = file.length().map_err(io)?.min(BYTES_MAX);
        let mut content = vec![0; usize::try_from(bytes).expect("16 MiB")];
        file.read_exact_at(&mut content, 0).map_err(io)?;
        let parsed = RewindMarker::decode(&content);
        let failed = |problem| Error::RestoreMarker { file: disk.location(REWINDING_PATH), problem };
        parsed.map(Some).map_err(failed)
    }

    /// Writes it, in place of one that may be there, durably.
    pub(super) fn write(&self, disk: &dyn Disk) -> Result<(), Error> {
        match disk.remove(SCRATCH_PATH) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(io)?,
        }
        write_synced(disk, SCRATCH_PATH, self.encode().as_bytes())?;
        disk.rename(SCRATCH_PATH, REWINDING_PATH).map_err(io)?;
        disk.sync_directory("").map_err(io)
    }

    fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("since", &self.since);
        text.line("timeline", &self.history.timeline);
        let history = match self.history.forks.is_empty() {
            true => NONE.to_owned(),
            false => self.history.encode().bytes().map(|byte| format!("{byte:02x}")).collect(),
        };
        text.line("history", &history);
        text.seal()
    }

    fn decode(bytes: &[u8]) -> Result<RewindMarker, String> {
        let mut text = TextReader::open(bytes, TITLE, VERSION)?;
        let since = text.parsed("since")?;
        let timeline = TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?;
        let history = match text.field("history")? {
            NONE if timeline == TimelineId::FIRST => TimelineHistory::first(),
            digits => {
                let history = text_of(digits).ok_or("its history cannot be")?;
                let parsed = TimelineHistory::parse(&history, timeline, REWINDING_PATH);
                parsed.map_err(|error| error.to_string())?
            }
        };
        text.end()?;
        Ok(RewindMarker { since, history })
    }
}

fn text_of(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

/// Removes the marker, durably.
pub(super) fn remove(disk: &dyn Disk) -> Result<(), Error> {
    disk.remove(REWINDING_PATH).map_err(io)?;
    disk.sync_directory("").map_err(io)
}

/// Whether the database in a directory is being rewound, or that was cut short.
///
/// # Errors
/// `Io`.
pub fn is_rewinding(disk: &dyn Disk) -> Result<bool, Error> {
    match disk.list_names("") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        names => Ok(names.map_err(io)?.iter().any(|name| name == REWINDING_PATH)),
    }
}

/// The id of a database that is being rewound, and the history that its rows have; `None` if it is not.
pub(crate) fn identity(disk: &Arc<dyn Disk>) -> Result<Option<(DatabaseId, TimelineHistory)>, Error> {
    let Some(marker) = RewindMarker::read(&**disk)? else { return Ok(None) };
    let (_, superblock, _) = open_superblock(&**disk)?;
    Ok(Some((superblock.database, marker.history)))
}

#[cfg(test)]
mod tests {
    use seawall_types::TimelineMark;

    use super::*;

    fn fork(history: &TimelineHistory, timeline: u32, at: u64, mark: u8) -> TimelineHistory {
        let timeline = TimelineId::new(timeline).unwrap();
        history.fork(timeline, Lsn::new(at), TimelineMark::from_bytes([mark; 16]), "a test: \"é\"")
    }

    #[test]
    fn a_marker_comes_back_and_every_changed_byte_is_noticed() {
        let two = fork(&TimelineHistory::first(), 2, 8000, 7);
        for marker in [RewindMarker::of(&two, Lsn::new(9000)), RewindMarker::of(&two, Lsn::new(8000))] {
            let text = marker.encode().into_bytes();
            assert_eq!(RewindMarker::decode(&text).unwrap(), marker);
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(RewindMarker::decode(&other).is_err(), "byte {at}");
                assert!(RewindMarker::decode(&text[..at]).is_err(), "{at} bytes");
            }
        }
        assert_eq!(RewindMarker::of(&two, Lsn::new(8000)).history, TimelineHistory::first());
    }

    #[test]
    fn another_server_that_left_earlier_moves_it_back() {
        let first = TimelineHistory::first();
        let (two, early) = (fork(&first, 2, 8000, 7), fork(&first, 2, 5000, 8));
        let marker = RewindMarker::of(&fork(&two, 3, 9000, 9), Lsn::new(8500));
        assert_eq!(marker.until_parted(&two), marker);
        assert_eq!(marker.until_parted(&fork(&two, 4, 9500, 1)), marker);
        let earlier = marker.until_parted(&early);
        assert_eq!(earlier, RewindMarker::of(&first, Lsn::new(5000)));
        // And no server moves it forward again.
        assert_eq!(earlier.until_parted(&two), earlier);
    }
}
