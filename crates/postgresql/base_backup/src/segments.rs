//! Which segments of a repository are the log along the history of a timeline.
//!
//! ```text
//!   timeline 1   [ 5 ][ 6 ][ 7 . .|fork
//!   timeline 2             [ 7 . . . . ][ 8 ][ 9 ]          the log of timeline 2: 5 and 6 of timeline 1, then 7, 8, 9
//! ```
//! The first segment of a timeline has a copy of what its parent has of it: so a segment is looked for on the timeline that its
//! last byte is on.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::{LogFileName, Repository, SegmentPlace, System};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::TimelineHistory;

use seawall_backup::BackupError;
use seawall_backup::PostgreSqlManifest;

/// Numbers of segments, which have no holes, and their places, which PostgreSQL counts anew every 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentSize(u32);

impl SegmentSize {
    /// `None` for what is no length of segments.
    pub(super) fn new(bytes: u32) -> Option<SegmentSize> {
        PostgreSqlManifest::is_segment_bytes(bytes).then_some(SegmentSize(bytes))
    }

    fn turn(self) -> u64 {
        (1 << 32) / u64::from(self.0)
    }

    /// The segment that the byte at `lsn` is in.
    pub(super) fn number(self, lsn: Lsn) -> u64 {
        lsn.get() / u64::from(self.0)
    }

    /// The segment that the byte before `end` is in.
    pub(super) fn last_number(self, end: Lsn) -> u64 {
        self.number(Lsn::new(end.get().saturating_sub(1)))
    }

    /// Where a segment begins.
    pub(super) fn start(self, number: u64) -> Lsn {
        Lsn::new(number.saturating_mul(u64::from(self.0)))
    }

    pub(super) fn place(self, number: u64, timeline: TimelineId) -> SegmentPlace {
        let turn = self.turn();
        SegmentPlace { timeline, digits: ((number / turn) << 32) | (number % turn) }
    }

    fn number_of(self, place: SegmentPlace) -> u64 {
        (place.digits >> 32).saturating_mul(self.turn()).saturating_add(place.digits & 0xFFFF_FFFF)
    }

    /// Where the log along `history` has a segment.
    pub(super) fn place_along(self, history: &TimelineHistory, number: u64) -> SegmentPlace {
        let last_byte = self.start(number + 1).get().saturating_sub(1);
        self.place(number, history.timeline_at(Lsn::new(last_byte)))
    }
}

/// Segments that a repository has, by timeline and number.
#[derive(Debug)]
pub(super) struct StoredSegments {
    size: SegmentSize,
    numbers: BTreeMap<TimelineId, BTreeSet<u64>>,
}

/// How far the log goes without a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// The last segment that is there; `None` if not even the first is.
    pub(super) last: Option<SegmentPlace>,
    /// The first that is missing.
    pub(super) missing: SegmentPlace,
    /// Where that begins.
    pub(super) end: Lsn,
    /// There is later log, so it is a gap and not the end.
    pub(super) is_gap: bool,
}

impl StoredSegments {
    /// Of the timelines that the log along `history` is on.
    pub(super) fn list(
        repository: &Repository,
        system: System,
        history: &TimelineHistory,
        size: SegmentSize,
    ) -> Result<StoredSegments, BackupError> {
        let ancestors = history.forks.iter().map(|fork| fork.parent);
        let mut numbers = BTreeMap::new();
        for timeline in ancestors.chain([history.timeline]) {
            let of_file = |(name, _): &(LogFileName, u64)| match name {
                LogFileName::Segment(place) => Some(size.number_of(*place)),
                LogFileName::Partial(_) | LogFileName::BackupLabel(..) | LogFileName::History(_) => None,
            };
            let files = repository.list(system, Some(timeline))?;
            numbers.insert(timeline, files.iter().filter_map(of_file).collect());
        }
        Ok(StoredSegments { size, numbers })
    }

    fn has(&self, place: SegmentPlace) -> bool {
        self.numbers.get(&place.timeline).is_some_and(|numbers| numbers.contains(&self.size.number_of(place)))
    }

    /// How far the log along `history` goes from the segment `first` on.
    pub(super) fn reach(&self, history: &TimelineHistory, first: u64) -> Reach {
        let mut number = first;
        let mut last = None;
        loop {
            let place = self.size.place_along(history, number);
            if !self.has(place) {
                let is_gap = self.has_later(history, place, number);
                return Reach { last, missing: place, end: self.size.start(number), is_gap };
            }
            last = Some(place);
            number += 1;
        }
    }

    /// Whether there is log behind a segment that is missing; if its timeline was left later, there must have been.
    fn has_later(&self, history: &TimelineHistory, missing: SegmentPlace, number: u64) -> bool {
        let later = |timeline: &TimelineId| {
            let numbers = self.numbers.get(timeline)?;
            numbers.range(number + 1..).next()
        };
        let path = history.forks.iter().map(|fork| fork.parent).chain([history.timeline]);
        missing.timeline != history.timeline
            || path
                .filter(|timeline| *timeline >= missing.timeline)
                .any(|timeline| later(&timeline).is_some())
    }
}

#[cfg(test)]
mod tests {
    use seawall_types::TimelineMark;

    use super::*;

    fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).unwrap()
    }

    fn stored(numbers: &[(u32, &[u64])]) -> StoredSegments {
        let numbers =
            numbers.iter().map(|(number, segments)| (timeline(*number), segments.iter().copied().collect()));
        StoredSegments { size: SegmentSize::new(1 << 20).unwrap(), numbers: numbers.collect() }
    }

    #[test]
    fn places_are_counted_anew_every_four_gibibytes() {
        let size = SegmentSize::new(16 << 20).unwrap();
        for (lsn, name) in [
            (0, "000000010000000000000000"),
            (0xFFFF_FFFF, "0000000100000000000000FF"),
            (1 << 32, "000000010000000100000000"),
            (0xA1_0700_0028, "00000001000000A100000007"),
        ] {
            let number = size.number(Lsn::new(lsn));
            let place = size.place(number, timeline(1));
            assert_eq!((place.to_string().as_str(), size.number_of(place)), (name, number));
        }
        assert_eq!(size.last_number(Lsn::new(32 << 20)), 1);
        for bytes in [0, 1, 512 << 10, 3 << 20, 1 << 31] {
            assert_eq!(SegmentSize::new(bytes), None, "{bytes}");
        }
    }

    #[test]
    fn the_log_follows_the_history() {
        let history =
            TimelineHistory::first().fork(timeline(2), Lsn::new((7 << 20) + 100), TimelineMark::NONE, "");
        let segments = stored(&[(1, &[5, 6, 7]), (2, &[7, 8])]);
        let reach = segments.reach(&history, 5);
        assert_eq!((reach.end, reach.is_gap), (Lsn::new(9 << 20), false));
        assert_eq!(reach.last.unwrap().to_string(), "000000020000000000000008");
        // Timeline 2 begins with a copy of segment 7: that of timeline 1 does not do.
        let reach = stored(&[(1, &[5, 6, 7]), (2, &[8])]).reach(&history, 5);
        assert_eq!((reach.missing.to_string().as_str(), reach.is_gap), ("000000020000000000000007", true));
        // Along timeline 1 it does.
        let first = TimelineHistory::first();
        let reach = segments.reach(&first, 5);
        assert_eq!((reach.end, reach.is_gap), (Lsn::new(8 << 20), false));
    }

    #[test]
    fn a_timeline_that_was_left_at_a_border_has_nothing_of_the_next_segment() {
        let history = TimelineHistory::first().fork(timeline(2), Lsn::new(7 << 20), TimelineMark::NONE, "");
        let reach = stored(&[(1, &[5, 6]), (2, &[7])]).reach(&history, 5);
        assert_eq!((reach.end, reach.is_gap), (Lsn::new(8 << 20), false));
    }

    #[test]
    fn a_hole_is_a_gap_and_the_end_is_none() {
        let history =
            TimelineHistory::first().fork(timeline(2), Lsn::new((7 << 20) + 1), TimelineMark::NONE, "");
        for (numbers, missing, is_gap) in [
            (&[(1, &[5, 6][..]), (2, &[7, 9][..])][..], 8, true),
            (&[(1, &[5][..]), (2, &[7][..])][..], 6, true),
            // Timeline 1 was left later than this.
            (&[(1, &[5][..]), (2, &[][..])][..], 6, true),
            (&[(1, &[5, 6][..]), (2, &[][..])][..], 7, false),
            (&[(1, &[][..]), (2, &[][..])][..], 5, true),
        ] {
            let reach = stored(numbers).reach(&history, 5);
            assert_eq!((reach.end, reach.is_gap), (Lsn::new(missing << 20), is_gap), "{numbers:?}");
        }
    }
}
