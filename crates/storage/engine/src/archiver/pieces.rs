//! The log in pieces that are archived as a whole: full segments, and what a timeline that was left has of its last one.
//!
//! ```text
//!   timeline 1   [ segment 5 ][ segment 6 . . |          pieces: 5, and the beginning of 6 up to the fork
//!   timeline 2                [ . . . . . . . | 6 ][ 7   pieces: 6, whose bytes before the fork are not read, then 7
//! ```

use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HEADER_BYTES, LogGeometry, SegmentName, TimelineHistory};

use crate::archiver::log_archive::LogFile;

/// A piece of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) file: LogFile,
    /// The log up to here is in this piece and those before it.
    pub(crate) end: Lsn,
}

/// The timelines of a log, and its geometry.
#[derive(Debug)]
pub(crate) struct LogPieces {
    pub(crate) history: TimelineHistory,
    pub(crate) geometry: LogGeometry,
}

impl LogPieces {
    /// The piece that has the log from `after` on, if all of it is durable: the log is up to `flushed`.
    pub(crate) fn next(&self, after: Lsn, flushed: Lsn) -> Option<Piece> {
        let number = self.geometry.segment_of(after);
        let timeline = self.history.timeline_at(after);
        let segment = SegmentName { number, timeline };
        let border = self.geometry.first_record_of(number + 1);
        let left = self.history.forks.iter().find(|fork| fork.parent == timeline).map(|fork| fork.fork);
        if let Some(fork) = left.filter(|fork| *fork < border) {
            let to = self.geometry.offset_of(fork);
            return Some(Piece { file: LogFile::Tail { segment, from: 0, to }, end: fork });
        }
        (flushed >= border).then_some(Piece { file: LogFile::Segment(segment), end: border })
    }

    /// The timelines that have a history: all but the first.
    pub(crate) fn timelines_with_history(&self) -> Vec<TimelineId> {
        let own = self.history.forks.last().map(|_| self.history.timeline);
        self.history.forks.iter().skip(1).map(|fork| fork.parent).chain(own).collect()
    }

    /// The segment that is being written when the log is durable up to `flushed`, and where the last timeline's part of it
    /// begins.
    pub(crate) fn current(&self, flushed: Lsn) -> (SegmentName, Lsn) {
        let number = self.geometry.segment_of(flushed);
        let start = self.geometry.first_record_of(number);
        let fork = self.history.forks.last().map_or(Lsn::ZERO, |fork| fork.fork);
        (SegmentName { number, timeline: self.history.timeline }, start.max(fork))
    }

    /// How much of that segment's file is durable; `None` if nothing but its header is.
    pub(crate) fn durable_bytes(&self, flushed: Lsn) -> Option<u64> {
        Some(self.geometry.offset_of(flushed)).filter(|offset| *offset > HEADER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use seawall_types::TimelineMark;

    use super::*;

    fn pieces() -> LogPieces {
        let second = TimelineId::new(2).unwrap();
        let geometry = LogGeometry::new(64 << 10).unwrap();
        let fork = Lsn::new(6 * (64 << 10) + 20_000);
        LogPieces {
            history: TimelineHistory::first().fork(second, fork, TimelineMark::NONE, "test"),
            geometry,
        }
    }

    #[test]
    fn a_log_with_a_fork_is_cut_into_segments_and_the_beginning_of_the_one_that_was_left() {
        let pieces = pieces();
        let name = |number, timeline| SegmentName { number, timeline: TimelineId::new(timeline).unwrap() };
        let flushed = pieces.geometry.first_record_of(8);
        let mut found = Vec::new();
        let mut after = Lsn::new(5 * (64 << 10) + 9_000);
        while let Some(piece) = pieces.next(after, flushed) {
            found.push(piece.file);
            after = piece.end;
        }
        let left = LogFile::Tail { segment: name(6, 1), from: 0, to: 20_000 };
        let whole = |number, timeline| LogFile::Segment(name(number, timeline));
        assert_eq!(found, [whole(5, 1), left, whole(6, 2), whole(7, 2)]);
        assert_eq!(after, flushed);
        assert_eq!(pieces.current(flushed), (name(8, 2), flushed));
        assert_eq!(pieces.durable_bytes(flushed), None);
    }

    #[test]
    fn a_segment_is_no_piece_before_its_last_byte_is_durable() {
        let pieces = pieces();
        let border = pieces.geometry.first_record_of(10);
        let inside = Lsn::new(10 * (64 << 10) - 1);
        assert_eq!(pieces.next(pieces.geometry.first_record_of(9), inside), None);
        assert!(pieces.next(pieces.geometry.first_record_of(9), border).is_some());
        assert_eq!(pieces.durable_bytes(inside), Some((64 << 10) - 1));
    }

    #[test]
    fn a_timeline_that_was_left_at_the_end_of_a_segment_has_that_segment_whole() {
        let geometry = LogGeometry::new(64 << 10).unwrap();
        let fork = geometry.first_record_of(7);
        let history =
            TimelineHistory::first().fork(TimelineId::new(2).unwrap(), fork, TimelineMark::NONE, "test");
        let pieces = LogPieces { history, geometry };
        let piece = pieces.next(geometry.first_record_of(6), fork).unwrap();
        assert_eq!(piece.file, LogFile::Segment(SegmentName { number: 6, timeline: TimelineId::FIRST }));
        assert_eq!(piece.end, fork);
        assert_eq!(pieces.next(fork, fork), None);
    }
}
