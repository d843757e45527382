//! What a file of a log is: read from its content and held against its name.
//!
//! ```text
//!   name, content --identify--> Description: whose, which timeline, from where to where --> header of the object
//! ```
//! What is found out:
//!
//! * a file of another system, of another place or timeline than its name says, of another size than its header says;
//! * a damaged record (its CRC does not fit), or a damaged page, if anything valid follows;
//! * a segment whose records end before it does. That is how the last segment of a timeline looks that was left, and nothing
//!   else: it is accepted as `.partial`, or if a history says that the timeline was left there.
//!
//! What is not: damage of a record's part that lies in another segment than its beginning. A segment holds at most two such
//! stretches, at its start and at its end, and they are read together only by a replay.

mod history;
mod postgresql;

use seawall_types::{Lsn, TimelineId};
use seawall_wal::{SegmentCheckError, TimelineHistory, check_segment};

pub use history::postgresql_forks;
use postgresql::Ending;
pub use postgresql::{
    PostgreSqlError, RestorePoint, postgresql_last_record, postgresql_last_transaction_end,
    postgresql_restore_points,
};

use crate::envelope::ObjectKind;
use crate::name::{LogFileName, SegmentPlace};
use crate::system::System;

/// Histories and backup labels are short texts.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// What is known of a file before it is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Whose it is. Needed for histories and backup labels, which do not say it themselves.
    pub system: Option<System>,
    /// Where the file's timeline was left, if it was: its last segment may end there.
    pub fork: Option<Lsn>,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: LogFileName,
    /// Whose it is.
    pub system: System,
    /// PostgreSQL: magic of its log pages; Seawall: version of its segments; 0: unknown.
    pub log_version: u16,
    /// Size of the log's segments; 0 where the file does not say.
    pub segment_bytes: u32,
    /// The first byte of the log that it holds. Of a history: where the timeline left its parent.
    pub start: Lsn,
    /// The byte behind the last one.
    pub end: Lsn,
    /// The records end before the segment does.
    pub ends_early: bool,
}

/// Why a file is not archived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Not a name of a file of a log.
    #[error(
        "{name:?} is not a file of a log: expected 24 upper-case hexadecimal digits, perhaps with .partial or .backup, or 8 with \
         .history"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Neither Seawall's nor PostgreSQL's.
    #[error(
        "{name} is not a segment of Seawall, nor of PostgreSQL 13 to 18: it starts with {found:02x?}; if it was written by a newer \
         release, use a newer seawall"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The first bytes.
        found: Vec<u8>,
    },
    /// Of another system.
    #[error("{name} belongs to {found}, and not to {expected}: it is not archived there")]
    OtherSystem {
        /// The name.
        name: String,
        /// Whose it is.
        found: System,
        /// Whose it should be.
        expected: System,
    },
    /// The content belongs under another name.
    #[error("{name} holds what belongs into {found}: it was renamed or copied wrongly")]
    OtherName {
        /// The name.
        name: String,
        /// The right one.
        found: String,
    },
    /// Longer or shorter than a segment is.
    #[error(
        "{name} has {found} bytes, and segments of this log have {expected}: it is torn, or still being written"
    )]
    Length {
        /// The name.
        name: String,
        /// Its length.
        found: u64,
        /// The right one.
        expected: u64,
    },
    /// The records end before the segment does.
    #[error(
        "the records of {name} end at {end}, {missing} bytes before it does: it is torn, or still being written, or its timeline \
         was left there and the history of the new one is missing"
    )]
    EndsEarly {
        /// The name.
        name: String,
        /// Where they end.
        end: Lsn,
        /// How far that is from the end.
        missing: u64,
    },
    /// A segment of PostgreSQL that no server has written so.
    #[error(
        "{name} is damaged: {problem}; it is not archived, see whether a standby or a backup has a good one"
    )]
    PostgreSql {
        /// The name.
        name: String,
        /// What is wrong.
        problem: PostgreSqlError,
    },
    /// A segment of Seawall that no log has written so.
    #[error(
        "{name} is damaged: {problem}; it is not archived, see whether a standby or a backup has a good one"
    )]
    Seawall {
        /// The name.
        name: String,
        /// What is wrong.
        problem: SegmentCheckError,
    },
    /// A history or a backup label that is none.
    #[error("{name} is damaged: {problem}")]
    Text {
        /// The name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// It does not say whose it is, and nobody else did.
    #[error("{name} does not say whose it is: say it, or run in the data directory")]
    NeedsSystem {
        /// The name.
        name: String,
    },
}

/// Finds out what the file with this name and content is.
///
/// # Errors
/// `SegmentError` if it is not what `expected` says, or not whole.
pub fn identify(name: &str, content: &[u8], expected: &Expected) -> Result<Description, SegmentError> {
    let parsed = LogFileName::parse(name).ok_or_else(|| SegmentError::Name { name: name.to_owned() })?;
    let description = match parsed {
        LogFileName::Segment(place) | LogFileName::Partial(place) => {
            identify_segment(name, parsed, place, content, expected)?
        }
        LogFileName::History(timeline) => {
            let system = needed_system(name, expected)?;
            let fork = history_fork(name, system, timeline, content)?;
            text_description(parsed, system, fork)
        }
        LogFileName::BackupLabel(place, offset) => {
            let system = needed_system(name, expected)?;
            let text = text_of(name, content)?;
            history::check_backup_label(text, place, offset)
                .map_err(|problem| SegmentError::Text { name: name.to_owned(), problem })?;
            text_description(parsed, system, Lsn::ZERO)
        }
    };
    if let Some(system) = expected.system.filter(|system| *system != description.system) {
        let name = name.to_owned();
        return Err(SegmentError::OtherSystem { name, found: description.system, expected: system });
    }
    Ok(description)
}

fn needed_system(name: &str, expected: &Expected) -> Result<System, SegmentError> {
    expected.system.ok_or_else(|| SegmentError::NeedsSystem { name: name.to_owned() })
}

fn text_description(name: LogFileName, system: System, start: Lsn) -> Description {
    Description { name, system, log_version: 0, segment_bytes: 0, start, end: start, ends_early: false }
}

fn text_of<'a>(name: &str, content: &'a [u8]) -> Result<&'a str, SegmentError> {
    let refuse = |problem: &str| SegmentError::Text { name: name.to_owned(), problem: problem.to_owned() };
    if content.len() > TEXT_BYTES_MAX {
        return Err(refuse("it is much too long"));
    }
    std::str::from_utf8(content).map_err(|_| refuse("it is not valid UTF-8"))
}

/// Where the timeline of a history left its parent.
fn history_fork(
    name: &str,
    system: System,
    timeline: TimelineId,
    content: &[u8],
) -> Result<Lsn, SegmentError> {
    let refuse = |problem: String| SegmentError::Text { name: name.to_owned(), problem };
    let text = text_of(name, content)?;
    match system {
        System::PostgreSql(_) => history::fork_of(text, timeline).map_err(refuse),
        System::Seawall(_) => {
            let history =
                TimelineHistory::parse(text, timeline, name).map_err(|error| refuse(error.to_string()))?;
            Ok(history.forks.last().map_or(Lsn::ZERO, |fork| fork.fork))
        }
    }
}

fn identify_segment(
    name: &str,
    parsed: LogFileName,
    place: SegmentPlace,
    content: &[u8],
    expected: &Expected,
) -> Result<Description, SegmentError> {
    let unknown =
        || SegmentError::Unknown { name: name.to_owned(), found: content.iter().copied().take(8).collect() };
    if content.starts_with(&seawall_wal::SEGMENT_MAGIC) {
        return identify_seawall(name, parsed, place, content, expected);
    }
    let magic = content.first_chunk().map(|magic| u16::from_le_bytes(*magic)).ok_or_else(unknown)?;
    postgresql::Release::of_magic(magic).ok_or_else(unknown)?;
    let refuse = |problem| match problem {
        PostgreSqlError::Length { found, expected } => {
            SegmentError::Length { name: name.to_owned(), found, expected }
        }
        problem => SegmentError::PostgreSql { name: name.to_owned(), problem },
    };
    let segment = postgresql::check(content, place.timeline).map_err(refuse)?;
    let segment_bytes = segment.segment_bytes;
    if segment.digits != place.digits {
        let right = SegmentPlace { digits: segment.digits, ..place };
        return Err(SegmentError::OtherName { name: name.to_owned(), found: right.to_string() });
    }
    let description = Description {
        name: parsed,
        system: System::PostgreSql(segment.system),
        log_version: magic,
        segment_bytes,
        start: segment.start,
        end: segment.records_end,
        ends_early: segment.ending != Ending::Whole,
    };
    match segment.ending {
        Ending::Damaged(problem) if !may_end(&description, expected) => {
            Err(SegmentError::PostgreSql { name: name.to_owned(), problem })
        }
        _ => refuse_early_end(name, description, expected),
    }
}

/// Whether records need not reach the end of the segment: what lies behind the end of a timeline that was left is nobody's.
fn may_end(description: &Description, expected: &Expected) -> bool {
    let is_partial = description.name.kind() == ObjectKind::PartialSegment;
    is_partial || expected.fork.is_some_and(|fork| fork <= description.end)
}

fn refuse_early_end(
    name: &str,
    description: Description,
    expected: &Expected,
) -> Result<Description, SegmentError> {
    if !description.ends_early || may_end(&description, expected) {
        return Ok(description);
    }
    let segment_end = description.start.get().saturating_add(u64::from(description.segment_bytes));
    let missing = segment_end.saturating_sub(description.end.get());
    Err(SegmentError::EndsEarly { name: name.to_owned(), end: description.end, missing })
}

fn identify_seawall(
    name: &str,
    parsed: LogFileName,
    place: SegmentPlace,
    content: &[u8],
    expected: &Expected,
) -> Result<Description, SegmentError> {
    use seawall_wal::SegmentHeaderError::Length;
    let segment = check_segment(content).map_err(|problem| match problem {
        SegmentCheckError::Header(Length { found, expected }) => {
            SegmentError::Length { name: name.to_owned(), found, expected }
        }
        problem => SegmentError::Seawall { name: name.to_owned(), problem },
    })?;
    let right = SegmentPlace::from(segment.name);
    if right != place {
        return Err(SegmentError::OtherName { name: name.to_owned(), found: right.to_string() });
    }
    let segment_bytes = u32::try_from(segment.segment_bytes).expect("the header has 32 bits for it");
    let description = Description {
        name: parsed,
        system: System::Seawall(segment.database),
        log_version: u16::try_from(seawall_wal::FORMAT_VERSION).expect("a small number"),
        segment_bytes,
        start: Lsn::new(segment.name.number * segment.segment_bytes),
        end: segment.records_end,
        ends_early: !segment.is_full,
    };
    refuse_early_end(name, description, expected)
}
