//! What a repository holds of a system, from its listing alone.

use seawall_types::TimelineId;

use crate::error::ArchiveError;
use crate::name::{LogFileName, SegmentPlace};
use crate::repository::Repository;
use crate::system::System;

/// Segments of one timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineSummary {
    /// The timeline.
    pub timeline: TimelineId,
    /// How many segments there are, partial ones not counted.
    pub segments: u64,
    /// The oldest.
    pub first: SegmentPlace,
    /// The newest.
    pub last: SegmentPlace,
    /// Stretches between them that are missing: the first and the last segment of each.
    pub gaps: Vec<(SegmentPlace, SegmentPlace)>,
    /// Bytes stored, of all files of the timeline.
    pub stored_bytes: u64,
}

impl Repository {
    /// The timelines of a system that there are segments of, oldest first.
    ///
    /// # Errors
    /// `Store`, or `Damaged` if the first segment cannot be read: how long segments are is needed to find gaps.
    pub fn summary(&self, system: System) -> Result<Vec<TimelineSummary>, ArchiveError> {
        let mut summaries = Vec::new();
        for timeline in self.timelines(system)? {
            summaries.extend(self.summary_of(system, timeline)?);
        }
        Ok(summaries)
    }

    fn summary_of(
        &self,
        system: System,
        timeline: TimelineId,
    ) -> Result<Option<TimelineSummary>, ArchiveError> {
        let files = self.list(system, Some(timeline))?;
        let stored_bytes = files.iter().map(|(_, bytes)| bytes).sum();
        let segment = |file: &(LogFileName, u64)| match file.0 {
            LogFileName::Segment(place) => Some(place),
            LogFileName::Partial(_) | LogFileName::BackupLabel(..) | LogFileName::History(_) => None,
        };
        let mut places: Vec<SegmentPlace> = files.iter().filter_map(segment).collect();
        places.sort();
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return Ok(None) };
        let header = self.stat(system, LogFileName::Segment(first))?;
        let segment_bytes = header.map_or(0, |header| header.segment_bytes);
        let numbers = SegmentNumbers::new(system, segment_bytes);
        let gap = |pair: &[SegmentPlace]| {
            let (before, after) = (numbers.of(pair[0].digits), numbers.of(pair[1].digits));
            let place = |number| SegmentPlace { timeline, digits: numbers.digits(number) };
            (after > before + 1).then(|| (place(before + 1), place(after - 1)))
        };
        let gaps = places.windows(2).filter_map(gap).collect();
        let segments = places.len() as u64;
        Ok(Some(TimelineSummary { timeline, segments, first, last, gaps, stored_bytes }))
    }
}

/// Digits of names as numbers without holes: PostgreSQL counts anew every 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentNumbers {
    /// Segments in a turn; `None`: no turns.
    turn: Option<u64>,
}

impl SegmentNumbers {
    /// Of a log with segments of this size.
    pub fn new(system: System, segment_bytes: u32) -> SegmentNumbers {
        let turn = match system {
            System::PostgreSql(_) => (1 << 32_u64) / u64::from(segment_bytes.max(1)),
            System::Seawall(_) => return SegmentNumbers { turn: None },
        };
        SegmentNumbers { turn: Some(turn) }
    }

    /// The number of the segment with these digits.
    pub fn of(&self, digits: u64) -> u64 {
        self.turn
            .map_or(digits, |turn| (digits >> 32).saturating_mul(turn).saturating_add(digits & 0xFFFF_FFFF))
    }

    /// The digits of the segment with this number.
    pub fn digits(&self, number: u64) -> u64 {
        self.turn.map_or(number, |turn| ((number / turn) << 32) | (number % turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_postgresql_have_no_holes() {
        let numbers = SegmentNumbers::new(System::PostgreSql(1), 16 << 20);
        assert_eq!(numbers.of(0x1_0000_0000), numbers.of(0xFF) + 1);
        for digits in [0, 1, 0xFF, 0x1_0000_0000, 0xA1_0000_0007] {
            assert_eq!(numbers.digits(numbers.of(digits)), digits);
        }
    }
}
