//! An archive of a log in memory, and a log to put into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};

use seawall_engine::{
    ArchiveOptions, ArchivedLog, Database, LogArchive, LogArchiveError, LogFile, LogGap, SegmentName,
};
use seawall_testing::PATIENCE;
use seawall_types::Lsn;
use seawall_wal::TimelineHistory;

pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;

/// An archive in memory, which can be down, or take nothing until it is told.
#[derive(Debug, Default)]
pub(crate) struct MemoryArchive {
    pub(crate) state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) files: BTreeMap<LogFile, Vec<u8>>,
    pub(crate) stores: u64,
    pub(crate) is_down: bool,
    pub(crate) is_closed: bool,
    pub(crate) waiting: u64,
    pub(crate) gaps: Vec<LogGap>,
    /// Segments that it takes before it takes no more.
    pub(crate) left: Option<u64>,
    /// Whole segments that it does not take until it is told.
    pub(crate) held: BTreeSet<u64>,
    /// Whole segments that it refuses.
    pub(crate) refused: BTreeSet<u64>,
    /// Number of the segment, and whether it is all of it, of everything that it took, in this order.
    pub(crate) order: Vec<(u64, bool)>,
}

impl MemoryArchive {
    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    pub(crate) fn wait_until(&self, condition: impl Fn(&State) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !condition(&state) {
            let (changed, waited) = self.changed.wait_timeout(state, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "nothing has changed in the archive for {PATIENCE:?}");
            state = changed;
        }
    }

    pub(crate) fn segments(&self) -> Vec<u64> {
        let state = self.state.lock().unwrap();
        let number = |file: &LogFile| match file {
            LogFile::Segment(name) => Some(name.number),
            LogFile::History(_) | LogFile::Tail { .. } => None,
        };
        state.files.keys().filter_map(number).collect()
    }

    /// Whether a segment is there, or on record as left out.
    pub(crate) fn knows(&self, number: u64) -> bool {
        let state = self.state.lock().unwrap();
        let is_left_out = |gap: &LogGap| (gap.first.number..=gap.last.number).contains(&number);
        let is_left_out = state.gaps.iter().any(is_left_out);
        drop(state);
        is_left_out || self.segments().contains(&number)
    }

    pub(crate) fn tails(&self) -> Vec<(u64, u64, u64)> {
        let state = self.state.lock().unwrap();
        let tail = |file: &LogFile| match file {
            LogFile::Tail { segment, from, to } => Some((segment.number, *from, *to)),
            LogFile::History(_) | LogFile::Segment(_) => None,
        };
        state.files.keys().filter_map(tail).collect()
    }
}

impl LogArchive for MemoryArchive {
    fn store(&self, _: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<(), LogArchiveError> {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let whole = match file {
            LogFile::Segment(segment) => Some(segment.number),
            LogFile::History(_) | LogFile::Tail { .. } => None,
        };
        let is_in = |numbers: &BTreeSet<u64>| whole.is_some_and(|number| numbers.contains(&number));
        while state.is_closed || is_in(&state.held) {
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
        state.stores += 1;
        self.changed.notify_all();
        let is_segment = whole.is_some();
        if state.is_down || is_in(&state.refused) || is_segment && state.left == Some(0) {
            return Err(LogArchiveError("it is down".to_owned()));
        }
        state.left = state.left.map(|left| left - u64::from(is_segment));
        match file {
            LogFile::Segment(segment) | LogFile::Tail { segment, .. } => {
                state.order.push((segment.number, is_segment));
            }
            LogFile::History(_) => {}
        }
        if let Some(before) = state.files.insert(file, content.to_vec()) {
            assert!(before == content, "{file:?} changed");
        }
        Ok(())
    }

    fn remove_tails(&self, _: &ArchivedLog, segment: SegmentName) -> Result<(), LogArchiveError> {
        let is_of =
            |file: &LogFile| matches!(file, LogFile::Tail { segment: other, .. } if *other == segment);
        self.state.lock().unwrap().files.retain(|file, _| !is_of(file));
        Ok(())
    }
    fn note_gap(&self, _: &ArchivedLog, gap: &LogGap) -> Result<(), LogArchiveError> {
        let mut state = self.state.lock().unwrap();
        if state.is_down {
            return Err(LogArchiveError("it is down".to_owned()));
        }
        state.gaps.push(gap.clone());
        self.changed.notify_all();
        Ok(())
    }

    fn has(&self, _: &ArchivedLog, file: LogFile) -> Result<bool, LogArchiveError> {
        let state = self.state.lock().unwrap();
        if state.is_down {
            return Err(LogArchiveError("it is down".to_owned()));
        }
        let covers = |there: &LogFile| match (*there, file) {
            (LogFile::Tail { segment: of, from: 0, to: reach }, LogFile::Tail { segment, from: 0, to }) => {
                of == segment && reach >= to
            }
            (LogFile::Segment(of), LogFile::Tail { segment, .. }) => of == segment,
            (there, file) => there == file,
        };
        let is_left_out = |gap: &LogGap| match file {
            LogFile::Segment(segment) => (gap.first.number..=gap.last.number).contains(&segment.number),
            LogFile::History(_) | LogFile::Tail { .. } => false,
        };
        Ok(state.files.keys().any(covers) || state.gaps.iter().any(is_left_out))
    }

    /// Goes by the numbers of segments: its logs have one timeline, or have all of what they left.
    fn reach(
        &self,
        log: &ArchivedLog,
        _: &TimelineHistory,
        before: Lsn,
    ) -> Result<Option<Lsn>, LogArchiveError> {
        let state = self.state.lock().unwrap();
        if state.is_down {
            return Err(LogArchiveError("it is down".to_owned()));
        }
        let of_files = state.files.keys().filter_map(|file| match file {
            LogFile::Segment(segment) => Some((segment.number + 1) * log.segment_bytes),
            LogFile::Tail { segment, to, .. } => Some(segment.number * log.segment_bytes + to),
            LogFile::History(_) => None,
        });
        let of_gaps = state.gaps.iter().map(|gap| (gap.last.number + 1) * log.segment_bytes);
        Ok(of_files.chain(of_gaps).max().map(|end| Lsn::new(end).min(before)))
    }
}

pub(crate) fn archive_options(archive: &Arc<MemoryArchive>) -> ArchiveOptions {
    ArchiveOptions::new(Arc::clone(archive) as Arc<dyn LogArchive>)
}

pub(crate) fn fill(database: &Database, segments: u64) -> Lsn {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    let until = database.statistics().log.appended.get() + segments * SEGMENT_BYTES;
    let mut key = 0_u32;
    while database.statistics().log.appended.get() < until {
        database.put(&table, (key % 50).to_be_bytes(), [7; 9_000]).unwrap();
        key += 1;
    }
    database.statistics().log.appended
}
