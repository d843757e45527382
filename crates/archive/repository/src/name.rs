//! Names of files of a log, Seawall's and PostgreSQL's alike.
//!
//! ```text
//!   0000000100000000000000A1                      segment: timeline, 8 digits; place, 16 digits
//!   0000000100000000000000A1.partial              the last one of a timeline that was left
//!   0000000100000000000000A1.00000028.backup      what PostgreSQL notes of a base backup that began there
//!   00000002.history                              where timeline 2 left its parent
//! ```

use std::fmt;

use seawall_types::TimelineId;
use seawall_wal::SegmentName;

use crate::envelope::ObjectKind;
use crate::system::System;

/// The name of a segment: where it lies depends on whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentPlace {
    /// Timeline.
    pub timeline: TimelineId,
    /// The 16 digits. Seawall: the segment's number; PostgreSQL: upper half of its LSN, and number within that.
    pub digits: u64,
}

impl SegmentPlace {
    /// The segment after this one; `None` at the end of the numbers, or where it is not known how long segments are.
    pub fn next(self, system: System, segment_bytes: u32) -> Option<SegmentPlace> {
        let digits = match system {
            System::Seawall(_) => self.digits.checked_add(1)?,
            // Counted anew every 4 GiB.
            System::PostgreSql(_) => {
                let turn = (1_u64 << 32).checked_div(u64::from(segment_bytes))?;
                let (high, low) = (self.digits >> 32, self.digits & 0xFFFF_FFFF);
                if low + 1 < turn { self.digits + 1 } else { (high + 1).checked_mul(1 << 32)? }
            }
        };
        Some(SegmentPlace { digits, ..self })
    }
}

/// The place of a segment of a database.
impl From<SegmentName> for SegmentPlace {
    fn from(SegmentName { timeline, number }: SegmentName) -> SegmentPlace {
        SegmentPlace { timeline, digits: number }
    }
}

impl fmt::Display for SegmentPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08X}{:016X}", self.timeline.get(), self.digits)
    }
}

/// The name of a file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogFileName {
    /// A segment.
    Segment(SegmentPlace),
    /// The last segment of a timeline that was left.
    Partial(SegmentPlace),
    /// A backup label: the segment that the backup began in, and the offset in it.
    BackupLabel(SegmentPlace, u32),
    /// The history of a timeline.
    History(TimelineId),
}

impl LogFileName {
    /// Reads a file name; `None` for anything else.
    pub fn parse(name: &str) -> Option<LogFileName> {
        if let Some(timeline) = name.strip_suffix(".history") {
            return Some(LogFileName::History(TimelineId::new(
                hexadecimal::<8>(timeline)?.try_into().ok()?,
            )?));
        }
        let (place, rest) = name.split_at_checked(24)?;
        let (timeline, digits) = place.split_at_checked(8)?;
        let place = SegmentPlace {
            timeline: TimelineId::new(hexadecimal::<8>(timeline)?.try_into().ok()?)?,
            digits: hexadecimal::<16>(digits)?,
        };
        match rest {
            "" => Some(LogFileName::Segment(place)),
            ".partial" => Some(LogFileName::Partial(place)),
            _ => {
                let offset = rest.strip_prefix('.')?.strip_suffix(".backup")?;
                let offset = hexadecimal::<8>(offset)?.try_into().ok()?;
                Some(LogFileName::BackupLabel(place, offset))
            }
        }
    }

    /// Its timeline.
    pub fn timeline(self) -> TimelineId {
        match self {
            LogFileName::Segment(place)
            | LogFileName::Partial(place)
            | LogFileName::BackupLabel(place, _) => place.timeline,
            LogFileName::History(timeline) => timeline,
        }
    }

    /// What an object with this name holds.
    pub fn kind(self) -> ObjectKind {
        match self {
            LogFileName::Segment(_) => ObjectKind::Segment,
            LogFileName::Partial(_) => ObjectKind::PartialSegment,
            LogFileName::BackupLabel(..) => ObjectKind::BackupLabel,
            LogFileName::History(_) => ObjectKind::TimelineHistory,
        }
    }
}

impl fmt::Display for LogFileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogFileName::Segment(place) => write!(formatter, "{place}"),
            LogFileName::Partial(place) => write!(formatter, "{place}.partial"),
            LogFileName::BackupLabel(place, offset) => write!(formatter, "{place}.{offset:08X}.backup"),
            LogFileName::History(timeline) => write!(formatter, "{:08X}.history", timeline.get()),
        }
    }
}

/// Exactly `DIGITS` upper-case digits.
fn hexadecimal<const DIGITS: usize>(text: &str) -> Option<u64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    if text.len() != DIGITS || !text.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_postgresql_are_read() {
        for (name, kind) in [
            ("0000000100000000000000A1", ObjectKind::Segment),
            ("0000000100000000000000A1.partial", ObjectKind::PartialSegment),
            ("0000000100000000000000A1.00000028.backup", ObjectKind::BackupLabel),
            ("0000000A.history", ObjectKind::TimelineHistory),
        ] {
            let parsed = LogFileName::parse(name).unwrap();
            assert_eq!((parsed.to_string().as_str(), parsed.kind()), (name, kind));
        }
        for name in [
            "",
            "history",
            ".history",
            "00000000.history",
            "0000000a.history",
            "000000010000000000000001.ready",
            "00000001000000000000000",
            "0000000100000000000000011",
            "000000010000000000000001.28.backup",
            "000000010000000000000001.partial.backup",
            "xlogtemp.27",
            "archive_status",
            "00000001000000000000000\u{e9}",
            "0000000\u{1314f}0000000000000000000",
        ] {
            assert_eq!(LogFileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_segment_is_followed_by_the_next_number() {
        let place = |digits| SegmentPlace { timeline: TimelineId::new(1).expect("not zero"), digits };
        let postgresql = System::PostgreSql(1);
        assert_eq!(place(7).next(postgresql, 16 << 20), Some(place(8)));
        assert_eq!(place(0xFF).next(postgresql, 16 << 20), Some(place(1 << 32)));
        assert_eq!(place(3).next(postgresql, 1 << 30), Some(place(1 << 32)));
        assert_eq!(place(7).next(postgresql, 0), None);
        assert_eq!(place(u64::MAX).next(postgresql, 16 << 20), None);
        let seawall = System::Seawall(seawall_types::DatabaseId::from_bytes([1; 16]));
        assert_eq!(place(0xFF).next(seawall, 0), Some(place(0x100)));
        assert_eq!(place(u64::MAX).next(seawall, 0), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_back(name in "[0-9A-F]{24}(\\.partial|\\.[0-9A-F]{8}\\.backup)?|[0-9A-F]{8}\\.history") {
            if let Some(parsed) = LogFileName::parse(&name) {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }

        #[test]
        fn any_text_is_a_name_or_none(name in "\\PC*") {
            if let Some(parsed) = LogFileName::parse(&name) {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }
    }
}
