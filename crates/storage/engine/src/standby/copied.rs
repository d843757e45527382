//! The file `copied`: the directory has the rows of a primary that was running when they were copied, and is a database only with the
//! log up to a position of that primary's timeline.
//!
//! ```text
//!   rows of the primary's tree, as of moments between B and E --> log from B on: received, durable, applied --> E: the file goes
//! ```
//! A text:
//! ```text
//! A copy of a running database, whole with the log up to the position below. `seawall serve --follow` completes it.
//! version 2
//! end 0/1A2B3C
//! timeline 2
//! mark 0a5e7b3f4c29a1d2e3f405162738495a
//! crc32c 1a2b3c4d
//! ```
//! **B may lie on an earlier timeline than E**: of a primary that was promoted, and has not moved its redo point since, because it waits
//! for standbys. The log is received one timeline after the other, and the history of the last one, with its mark, is in the log
//! directory: it says which timelines lead to E. A copy follows no other ones, and on others it is not whole, however far these go.
//!
//! **If the power goes** before E is durable and applied, the file is there: the directory is opened to be followed, and in no other way,
//! and receives what is left. From E on, a replay of what is durable here ends at E or later, so the file may go. It is gone for good before a promotion.

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode};
use seawall_types::{Lsn, TimelineId, TimelineMark};
use seawall_wal::TimelineHistory;

use crate::directory::{io, write_synced};
use crate::engine::Engine;
use crate::error::Error;
use crate::recovery::timeline::history_of;

pub(crate) const COPIED_PATH: &str = "copied";
const TITLE: &str = "A copy of a running database, whole with the log up to the position below. `seawall serve --follow` completes it.";
const VERSION: u32 = 2;
const BYTES_MAX: u64 = 4 << 10;

/// What a copy needs to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The log up to here.
    pub(crate) end: Lsn,
    /// On this timeline, that of the primary that was copied.
    pub(crate) timeline: TimelineId,
    /// Which of those with that number.
    mark: TimelineMark,
}

impl Copied {
    fn of(end: Lsn, primary: &TimelineHistory) -> Copied {
        let timeline = primary.timeline(primary.timeline);
        Copied { end, timeline: timeline.id, mark: timeline.mark }
    }

    /// Whether the log of `history` goes over the timeline of the primary that was copied.
    fn goes_over(&self, history: &TimelineHistory) -> bool {
        history.has_number(self.timeline) && history.timeline(self.timeline).mark == self.mark
    }

    /// Whether whoever follows `history` comes to the end, or to a timeline from which it goes on to there.
    pub(crate) fn is_reached_by(
        &self,
        history: &TimelineHistory,
        disk: &Arc<dyn Disk>,
    ) -> Result<bool, Error> {
        if self.goes_over(history) {
            let left = history.forks.iter().find(|fork| fork.parent == self.timeline);
            return Ok(left.is_none_or(|left| left.fork >= self.end));
        }
        Ok(self.history(disk)?.descends_from(history))
    }

    /// The history of the primary that was copied.
    pub(crate) fn history(&self, disk: &Arc<dyn Disk>) -> Result<TimelineHistory, Error> {
        let primary = TimelineHistory::load(disk, self.timeline).map_err(|error| Error::log(&error))?;
        primary.check_mark(self.mark).map_err(|error| Error::log(&error))?;
        Ok(primary)
    }
}

/// Says that the copy needs the log up to `end` on the timeline of `primary`, durably but for the file's name.
pub(crate) fn write(disk: &Arc<dyn Disk>, end: Lsn, primary: &TimelineHistory) -> Result<(), Error> {
    remove(&**disk)?;
    if !primary.forks.is_empty() {
        primary.store(disk).map_err(|error| Error::log(&error))?;
    }
    write_synced(&**disk, COPIED_PATH, encode(&Copied::of(end, primary)).as_bytes())
}

/// What the copy in a directory needs; `None` if it is none, or is whole.
pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Copied>, Error> {
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

fn encode(copied: &Copied) -> String {
    let mut text = TextWriter::new(TITLE, VERSION);
    text.line("end", &copied.end);
    text.line("timeline", &copied.timeline);
    text.line("mark", &copied.mark);
    text.seal()
}

fn decode(bytes: &[u8]) -> Result<Copied, String> {
    let mut text = TextReader::open(bytes, TITLE, VERSION)?;
    let end = text.parsed("end")?;
    let timeline = TimelineId::new(text.parsed("timeline")?).ok_or("timeline zero")?;
    let mark = text.parsed("mark")?;
    text.end()?;
    Ok(Copied { end, timeline, mark })
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
        let disk = &self.environment.disk;
        let history = history_of(disk, &self.redo.superblock())?;
        if read(&**disk)?.is_some_and(|copied| !copied.goes_over(&history)) {
            // So far on a timeline that its primary had left: it is cut off when this server follows that one.
            return Ok(());
        }
        // Its pages have rows from up to there. Without the file, this says so: to a replay that stops where a delay asks for it, and to a
        // log that is to be cut.
        self.note_end_of_log(end)?;
        let disk = &**disk;
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
        let mark = TimelineMark::from_bytes([7; 16]);
        let copied = Copied { end: Lsn::new(0x1A_2B3C), timeline: TimelineId::new(2).unwrap(), mark };
        let bytes = encode(&copied).into_bytes();
        assert_eq!(decode(&bytes), Ok(copied));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(decode(&other).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }
}
