//! Timeline lineage: a timeline consists of its own log, and that of its ancestors up to where they were left. Of databases and
//! clusters alike.
//!
//! ```text
//!   timeline 1   [ 1 ][ 2 ][ 3 ][ 4 ]
//!                          | fork in 3
//!   timeline 2             [ 3 ][ 4 ][ 5 ]        lineage of 2: segments 1 to 3 of timeline 1, then 3 to 5 of timeline 2
//! ```
//! A timeline other than the first whose history is not there may descend from any before it: what is kept is kept for it, too.

use std::collections::{BTreeMap, BTreeSet};

use seawall_types::{Lsn, TimelineId};
use seawall_wal::TimelineHistory;

use crate::dependencies::BackupDependencies;
use crate::timelines::is_on;

/// Segments of one timeline, by number; both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogStretch {
    /// The timeline.
    pub timeline: TimelineId,
    /// The first segment.
    pub first: u64,
    /// The last one; the greatest number there is: to the end.
    pub last: u64,
}

impl LogStretch {
    /// Whether the segment is one of them.
    pub fn contains(&self, timeline: TimelineId, number: u64) -> bool {
        timeline == self.timeline && (self.first..=self.last).contains(&number)
    }
}

/// The timelines of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineLineage {
    segment_bytes: u64,
    timelines: BTreeSet<TimelineId>,
    histories: BTreeMap<TimelineId, TimelineHistory>,
}

impl TimelineLineage {
    /// `timelines` are those that there is log of; `histories` those that are known.
    pub fn new(
        segment_bytes: u64,
        timelines: impl IntoIterator<Item = TimelineId>,
        histories: BTreeMap<TimelineId, TimelineHistory>,
    ) -> TimelineLineage {
        let timelines = timelines.into_iter().chain(histories.keys().copied()).collect();
        TimelineLineage { segment_bytes: segment_bytes.max(1), timelines, histories }
    }

    /// Every timeline that is known of.
    pub fn timelines(&self) -> impl Iterator<Item = TimelineId> + '_ {
        self.timelines.iter().copied()
    }

    /// The one with the highest number.
    pub fn last(&self) -> Option<TimelineId> {
        self.timelines.last().copied()
    }

    /// The number of the segment that `lsn` lies in.
    pub fn segment_of(&self, lsn: Lsn) -> u64 {
        lsn.get() / self.segment_bytes
    }

    /// `None` if it should have one and that is not there.
    pub fn history(&self, timeline: TimelineId) -> Option<TimelineHistory> {
        let first = (timeline == TimelineId::FIRST).then(TimelineHistory::first);
        self.histories.get(&timeline).cloned().or(first)
    }

    /// The timelines that left this one.
    pub fn children(&self, timeline: TimelineId) -> impl Iterator<Item = TimelineId> + '_ {
        let is_child = move |history: &&TimelineHistory| {
            history.forks.last().is_some_and(|fork| fork.parent == timeline)
        };
        self.histories.values().filter(is_child).map(|history| history.timeline)
    }

    /// Whether a restore along `timeline` may begin with the backup: whether all of the backup and of its log is on that line.
    pub fn has(&self, timeline: TimelineId, backup: &BackupDependencies) -> bool {
        let Some(history) = self.history(timeline) else { return backup.timeline == timeline };
        is_on(&history, backup.timeline, backup.end)
    }

    /// As `has`; a timeline of unknown descent may have every backup of an earlier one.
    pub fn may_have(&self, timeline: TimelineId, backup: &BackupDependencies) -> bool {
        match self.history(timeline) {
            Some(_) => self.has(timeline, backup),
            None => backup.timeline <= timeline,
        }
    }

    /// The log along the line of `timeline` from `from` to `to`. Where a fork lies at the border of a segment, one too many.
    pub fn stretches(&self, timeline: TimelineId, from: Lsn, to: Lsn) -> Vec<LogStretch> {
        let stretch = |timeline, start: Lsn, end: Lsn| LogStretch {
            timeline,
            first: self.segment_of(start),
            last: if end == Lsn::MAX { u64::MAX } else { self.segment_of(end) },
        };
        let Some(history) = self.history(timeline) else {
            // Of unknown descent: whatever may be a part of it.
            let may_be = self.timelines.iter().filter(|ancestor| **ancestor <= timeline);
            return may_be.map(|ancestor| stretch(*ancestor, from, to)).collect();
        };
        let mut found = Vec::new();
        let mut start = Lsn::ZERO;
        for fork in &history.forks {
            if from <= fork.fork && to >= start {
                found.push(stretch(fork.parent, from.max(start), to.min(fork.fork)));
            }
            start = fork.fork;
        }
        if to >= start {
            found.push(stretch(timeline, from.max(start), to));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use seawall_archive::System;
    use seawall_types::TimelineMark;

    use super::*;

    fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).unwrap()
    }

    fn lineage() -> TimelineLineage {
        let second = TimelineHistory::first().fork(timeline(2), Lsn::new(350), TimelineMark::NONE, "x");
        let third = second.fork(timeline(3), Lsn::new(550), TimelineMark::NONE, "y");
        let histories = [(timeline(2), second), (timeline(3), third)].into();
        TimelineLineage::new(100, [timeline(1), timeline(5)], histories)
    }

    fn backup(number: u32, end: u64) -> BackupDependencies {
        BackupDependencies {
            id: "b".to_owned(),
            system: System::PostgreSql(1),
            timeline: timeline(number),
            first: Lsn::new(end - 50),
            end: Lsn::new(end),
            log_checksum: None,
            segment_bytes: 100,
            started_micros: 0,
            ended_micros: 0,
            objects: Vec::new(),
            parent: None,
            cut_short: Vec::new(),
        }
    }

    #[test]
    fn a_line_follows_its_ancestors_up_to_where_they_were_left() {
        let stretch = |number, first, last| LogStretch { timeline: timeline(number), first, last };
        let found = lineage().stretches(timeline(3), Lsn::new(120), Lsn::MAX);
        assert_eq!(found, [stretch(1, 1, 3), stretch(2, 3, 5), stretch(3, 5, u64::MAX)]);
        let found = lineage().stretches(timeline(3), Lsn::new(400), Lsn::new(500));
        assert_eq!(found, [stretch(2, 4, 5)]);
        assert_eq!(lineage().stretches(timeline(1), Lsn::new(120), Lsn::new(130)), [stretch(1, 1, 1)]);
        // Its history is missing.
        let found = lineage().stretches(timeline(5), Lsn::new(120), Lsn::new(230));
        assert_eq!(found, [1, 2, 3, 5].map(|number| stretch(number, 1, 2)));
    }

    #[test]
    fn a_backup_is_on_the_lines_that_have_all_of_it() {
        let lineage = lineage();
        let on = |backup: &BackupDependencies| -> Vec<u32> {
            [1, 2, 3, 5].into_iter().filter(|number| lineage.may_have(timeline(*number), backup)).collect()
        };
        assert_eq!(on(&backup(1, 350)), [1, 2, 3, 5]);
        assert_eq!(on(&backup(1, 351)), [1, 5]);
        assert_eq!(on(&backup(2, 500)), [2, 3, 5]);
        assert_eq!(on(&backup(3, 900)), [3, 5]);
        assert!(!lineage.has(timeline(5), &backup(3, 900)), "nobody knows");
    }
}
