//! Gaps: segments that were left out on purpose, because the store did not take them for so long that they would have filled the
//! disk. What was left out is on record, so that nobody finds out when it is needed. An object for each stretch, packed and encrypted
//! as every other one, whose content is a text:
//!
//! ```text
//! Seawall archive gap
//! version 1
//! first 000000010000000000000005
//! last 000000010000000000000009
//! noticed 1763768400000000
//! reason cannot put s3://wal/main/...: no answer within 60 s
//! crc32c 1a2b3c4d
//! ```
//! Its name is `FIRST-LAST`, so a listing tells what is missing. `noticed` is in microseconds since 1970, `reason` is one line, and
//! the checksum is CRC-32C of all bytes before its line. A gap is never removed: a segment that was put later is found all the same.

use std::fmt;

use seawall_codec::sealed_text::{TextProblem, TextReader, TextWriter};

use crate::name::{LogFileName, SegmentPlace};

const TITLE: &str = "Seawall archive gap";
const VERSION: u32 = 1;
/// No record is longer.
pub(crate) const TEXT_BYTES_MAX: u64 = 8 << 10;
const REASON_CHARACTERS_MAX: usize = 1000;

/// A stretch of a timeline that is not in the archive, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The first segment that is missing.
    pub first: SegmentPlace,
    /// The last one.
    pub last: SegmentPlace,
}

/// What is known of a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapRecord {
    /// Which segments.
    pub gap: Gap,
    /// When the first of them was left out, microseconds since 1970.
    pub noticed_micros: i64,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.first, self.last)
    }
}

impl Gap {
    /// Whether the segment is one of those that are missing.
    pub fn contains(&self, place: SegmentPlace) -> bool {
        place.timeline == self.first.timeline && (self.first..=self.last).contains(&place)
    }

    pub(crate) fn parse(name: &str) -> Option<Gap> {
        let (first, last) = name.split_once('-')?;
        let place = |name| {
            let Some(LogFileName::Segment(place)) = LogFileName::parse(name) else { return None };
            Some(place)
        };
        let gap = Gap { first: place(first)?, last: place(last)? };
        (gap.first.timeline == gap.last.timeline && gap.first <= gap.last).then_some(gap)
    }
}

impl GapRecord {
    pub(crate) fn encode(&self) -> String {
        let Gap { first, last } = self.gap;
        let words: Vec<&str> = self.reason.split_whitespace().collect();
        let reason: String = words.join(" ").chars().take(REASON_CHARACTERS_MAX).collect();
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("first", &first);
        text.line("last", &last);
        text.line("noticed", &self.noticed_micros);
        text.line("reason", &reason.trim_end());
        text.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<GapRecord, TextProblem> {
        let mut text = TextReader::open(bytes, TITLE, VERSION)?;
        let (first, last) = (text.field("first")?, text.field("last")?);
        let gap = Gap::parse(&format!("{first}-{last}")).ok_or(TextProblem::Value("first and last"))?;
        let noticed_micros = text.parsed("noticed")?;
        let reason = text.field("reason")?.to_owned();
        text.end()?;
        Ok(GapRecord { gap, noticed_micros, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> GapRecord {
        GapRecord {
            gap: Gap::parse("000000010000000000000005-000000010000000100000009").unwrap(),
            noticed_micros: 7,
            reason: "the store is down".to_owned(),
        }
    }

    #[test]
    fn a_record_comes_back_and_no_other_text_does() {
        let text = record().encode();
        assert_eq!(GapRecord::decode(text.as_bytes()), Ok(record()));
        for index in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[index] ^= 1;
            assert!(GapRecord::decode(&damaged).is_err(), "byte {index}");
        }
        let long = GapRecord { reason: "a\nb ".repeat(10_000), ..record() }.encode();
        assert!(long.len() < 2000 && GapRecord::decode(long.as_bytes()).is_ok());
    }

    #[test]
    fn a_gap_is_of_one_timeline_and_not_backwards() {
        let gap = record().gap;
        assert_eq!(Gap::parse(&gap.to_string()), Some(gap));
        let place = |name: &str| match LogFileName::parse(name) {
            Some(LogFileName::Segment(place)) => place,
            _ => panic!("{name}"),
        };
        assert!(gap.contains(gap.first) && gap.contains(gap.last));
        assert!(gap.contains(place("0000000100000000000000FF")));
        assert!(!gap.contains(place("000000010000000000000004")));
        assert!(!gap.contains(place("000000020000000000000006")));
        for name in [
            "000000010000000000000005",
            "000000010000000000000005-000000010000000000000004",
            "000000010000000000000005-000000020000000000000006",
            "000000010000000000000005-00000002.history",
        ] {
            assert_eq!(Gap::parse(name), None, "{name}");
        }
    }
}
