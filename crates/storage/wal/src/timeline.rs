//! Timeline history: where each timeline left its parent. One text file a timeline, `log/<8 hex>.history`, with a line
//! for each ancestor, oldest first, and a checksum in a comment line; as PostgreSQL's, with tabs (here: two spaces) and one field
//! more, the mark of the timeline that begins there:
//!
//! ```text
//! 1  0/5000A28   6c1d0a5e7b3f4c29a1d2e3f405162738  promoted
//! 2  1/A2B3C4D8  0f1e2d3c4b5a69788796a5b4c3d2e1f0  recovered to restore point "before the upgrade"
//! # crc32c 1a2b3c4d
//! ```
//! The checksum is CRC-32C of all bytes before its line.
//!
//! **Marks.** Two copies of a database may both begin timeline 2, at the same LSN even: after a failed promotion, say, or when each
//! takes the other one for dead. Each draws 128 random bits for its own. Mark and beginning are a part of the log key
//! (`record`), so the records and files of the one verify nowhere in the log of the other, and an archive that has the history of
//! one refuses that of the other. The superblock has the mark, too: a history file that does not go with it is refused. The first
//! timeline has none: the database's id is drawn at the same moment. Two copies that both go on on the timeline that they were
//! copied on cannot be told apart by anything: a copy that is to be written begins a timeline of its own.

use std::io;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_types::{Lsn, Timeline, TimelineId, TimelineMark};

use crate::error::HistoryError;
use crate::geometry::LogGeometry;
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{LOG_DIRECTORY, SegmentName};

const HISTORY_BYTES_MAX: u64 = 16 << 20;
const CHECKSUM_PREFIX: &str = "# crc32c ";

/// One ancestor of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineFork {
    /// The ancestor.
    pub parent: TimelineId,
    /// Where it was left: its log counts up to here.
    pub fork: Lsn,
    /// The mark of the timeline that begins there.
    pub mark: TimelineMark,
    /// Why, for people. One line.
    pub reason: String,
}

/// The ancestors of a timeline, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineHistory {
    /// The timeline.
    pub timeline: TimelineId,
    /// Its ancestors; the last one is its parent. Numbers and fork points ascend.
    pub forks: Vec<TimelineFork>,
}

/// Where two histories part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The last timeline that both have.
    pub timeline: TimelineId,
    /// Up to here both have its log.
    pub at: Lsn,
    /// Whether the first history has left that timeline, and not only the other one.
    pub is_left_here: bool,
    /// The other history up to the timeline that begins there; `None` if it goes on on the common one.
    pub next: Option<TimelineHistory>,
}

impl TimelineHistory {
    /// The history of a timeline that left none: the first.
    pub fn first() -> TimelineHistory {
        TimelineHistory { timeline: TimelineId::FIRST, forks: Vec::new() }
    }

    /// The history of `timeline`, which leaves this one's timeline at `fork` and has drawn `mark`.
    ///
    /// # Panics
    /// If numbers or fork points would not ascend.
    #[must_use]
    pub fn fork(&self, timeline: TimelineId, fork: Lsn, mark: TimelineMark, reason: &str) -> TimelineHistory {
        assert!(timeline > self.timeline, "timeline {timeline} cannot follow {}", self.timeline);
        assert!(self.forks.last().is_none_or(|last| last.fork <= fork), "a fork before the parent's own");
        let mut forks = self.forks.clone();
        let reason = reason.replace(['\t', '\n', '\r'], " ");
        forks.push(TimelineFork { parent: self.timeline, fork, mark, reason });
        TimelineHistory { timeline, forks }
    }

    /// The timeline that the log byte at `lsn` is on.
    pub fn timeline_at(&self, lsn: Lsn) -> TimelineId {
        let fork = self.forks.iter().find(|fork| lsn < fork.fork);
        fork.map_or(self.timeline, |fork| fork.parent)
    }

    /// What distinguishes `timeline`, as far as this history knows: of one that it does not have, nothing but its number.
    pub fn timeline(&self, timeline: TimelineId) -> Timeline {
        let children = self.forks.iter().skip(1).map(|fork| fork.parent).chain([self.timeline]);
        let mut begun = self.forks.iter().zip(children);
        let begun = begun.find(|(_, child)| *child == timeline);
        let unknown = Timeline { id: timeline, ..Timeline::FIRST };
        begun.map_or(unknown, |(fork, id)| Timeline { id, began: fork.fork, mark: fork.mark })
    }

    /// Where this history and another one part; `None` if the other one goes on where this one ends, or is the same.
    pub fn parting(&self, other: &TimelineHistory) -> Option<Parting> {
        let own = self.lineage();
        let common = own.iter().zip(other.lineage()).take_while(|(own, other)| *own == other).count();
        // The first timeline is that of every history.
        let last = common.max(1) - 1;
        let timeline = own[last];
        let left = |history: &TimelineHistory| history.forks.get(last).map(|fork| fork.fork);
        match (left(self), left(other)) {
            (None, None) => None,
            (own, Some(others)) if own.is_none_or(|own| own >= others) => {
                let next = Some(other.until(last + 1));
                Some(Parting { timeline: timeline.id, at: others, is_left_here: own.is_some(), next })
            }
            (Some(own), _) => {
                Some(Parting { timeline: timeline.id, at: own, is_left_here: true, next: None })
            }
            (None, Some(_)) => unreachable!("a timeline that was not left here was left by the other one"),
        }
    }

    /// Whether this timeline, or one that it came from, has this number.
    pub fn has_number(&self, timeline: TimelineId) -> bool {
        self.lineage().iter().any(|known| known.id == timeline)
    }

    /// Whether the timeline of `other` is this one, or one that it came from.
    pub fn descends_from(&self, other: &TimelineHistory) -> bool {
        other.lineage().last().is_some_and(|last| self.lineage().contains(last))
    }

    /// This history up to one of its timelines, as it was when that one was the last.
    ///
    /// # Panics
    /// If the timeline is not one of the history.
    #[must_use]
    pub fn up_to(&self, timeline: TimelineId) -> TimelineHistory {
        let place = self.lineage().iter().position(|known| known.id == timeline);
        self.until(place.expect("the caller has the timeline from this history"))
    }

    fn until(&self, place: usize) -> TimelineHistory {
        TimelineHistory { timeline: self.lineage()[place].id, forks: self.forks[..place].to_vec() }
    }

    /// The timelines, oldest first.
    fn lineage(&self) -> Vec<Timeline> {
        let begun =
            |(fork, id): (&TimelineFork, TimelineId)| Timeline { id, began: fork.fork, mark: fork.mark };
        let children = self.forks.iter().skip(1).map(|fork| fork.parent).chain([self.timeline]);
        let first = self.forks.first().map_or(self.timeline, |fork| fork.parent);
        let first = Timeline { id: first, ..Timeline::FIRST };
        [first].into_iter().chain(self.forks.iter().zip(children).map(begun)).collect()
    }

    /// Refuses a history of another timeline of the same number.
    ///
    /// # Errors
    /// `OtherTimeline`.
    pub fn check_mark(&self, expected: TimelineMark) -> Result<(), HistoryError> {
        let found = self.timeline(self.timeline).mark;
        if found != expected {
            let path = TimelineHistory::path(self.timeline);
            return Err(HistoryError::OtherTimeline { path, found, expected });
        }
        Ok(())
    }

    /// Where `timeline` was left; `None` for this timeline, and for one that is no ancestor.
    pub(crate) fn left_at(&self, timeline: TimelineId) -> Option<Lsn> {
        self.forks.iter().find(|fork| fork.parent == timeline).map(|fork| fork.fork)
    }

    /// Whether a segment with this name is a part of the log: whether its timeline is this one or an ancestor, and was
    /// written in the segment's range. Where no ancestors are known, every older timeline may be one.
    pub(crate) fn includes(&self, name: SegmentName, geometry: LogGeometry) -> bool {
        if self.forks.is_empty() {
            return name.timeline <= self.timeline;
        }
        if name.timeline == self.timeline {
            return name.number >= geometry.segment_of(self.timeline(self.timeline).began);
        }
        let Some(place) = self.forks.iter().position(|fork| fork.parent == name.timeline) else {
            return false;
        };
        let start = if place == 0 { Lsn::ZERO } else { self.forks[place - 1].fork };
        let fork = self.forks[place].fork;
        // Nothing of the ancestor lies in the segment that it was left at the very beginning of.
        let is_before_fork = geometry.first_record_of(name.number) < fork;
        is_before_fork && name.number >= geometry.segment_of(start)
    }

    /// `log/<8 hex>.history`.
    pub fn path(timeline: TimelineId) -> String {
        format!("{LOG_DIRECTORY}/{:08X}.history", timeline.get())
    }

    /// The timeline whose history has this file name; `None` for anything else.
    pub fn parse_file_name(file_name: &str) -> Option<TimelineId> {
        let digits = file_name.strip_suffix(".history")?;
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
        if digits.len() != 8 || !digits.as_bytes().iter().all(is_digit) {
            return None;
        }
        TimelineId::new(u32::from_str_radix(digits, 16).ok()?)
    }

    /// The file's text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for fork in &self.forks {
            let TimelineFork { parent, fork, mark, reason } = fork;
            text.push_str(&format!("{parent}\t{fork}\t{mark}\t{reason}\n"));
        }
        let checksum = crc32c(text.as_bytes());
        text.push_str(&format!("{CHECKSUM_PREFIX}{checksum:08x}\n"));
        text
    }

    /// Reads the text of `timeline`'s history; `path` is for messages.
    ///
    /// # Errors
    /// `Malformed` with the line.
    pub fn parse(text: &str, timeline: TimelineId, path: &str) -> Result<TimelineHistory, HistoryError> {
        let refuse = |line: usize, problem: &str| HistoryError::Malformed {
            path: path.to_owned(),
            line,
            problem: problem.to_owned(),
        };
        let last_line = text.lines().count();
        let body_bytes = text.rfind(CHECKSUM_PREFIX).ok_or_else(|| refuse(last_line, "no checksum"))?;
        let (body, checksum) = text.split_at(body_bytes);
        let expected = format!("{CHECKSUM_PREFIX}{:08x}\n", crc32c(body.as_bytes()));
        if checksum != expected {
            return Err(refuse(last_line, "wrong checksum"));
        }
        if body.contains('\r') || !(body.is_empty() || body.ends_with('\n')) {
            return Err(refuse(last_line, "a line that does not end with a line feed alone"));
        }
        let mut forks: Vec<TimelineFork> = Vec::new();
        for (index, line) in body.lines().enumerate() {
            let fork = parse_line(line).map_err(|problem| refuse(index + 1, problem))?;
            let ascends = forks.last().is_none_or(|last| last.parent < fork.parent && last.fork <= fork.fork);
            if !ascends || fork.parent >= timeline {
                return Err(refuse(index + 1, "timelines or positions do not ascend"));
            }
            forks.push(fork);
        }
        Ok(TimelineHistory { timeline, forks })
    }

    /// Writes the file: under another name first, synced, renamed, the directory synced. Either the whole file is there
    /// after a crash or none.
    ///
    /// # Errors
    /// `Io`.
    pub fn store(&self, disk: &Arc<dyn Disk>) -> Result<(), HistoryError> {
        self.write(disk)?;
        let path = TimelineHistory::path(self.timeline);
        let synced = disk.sync_directory(LOG_DIRECTORY);
        synced.map_err(|source| HistoryError::Io { action: "write", path, source })
    }

    /// As `store`, but for the sync of the directory, which is the caller's.
    pub(crate) fn write(&self, disk: &Arc<dyn Disk>) -> Result<(), HistoryError> {
        let path = TimelineHistory::path(self.timeline);
        let temporary = format!("{path}.new");
        let write = || -> io::Result<()> {
            let file = open_new(&**disk, &temporary)?;
            file.write_all_at(self.encode().as_bytes(), 0)?;
            if !sabotaged(Defect::HistoryNotSynced) {
                file.sync_data()?;
            }
            disk.rename(&temporary, &path)
        };
        write().map_err(|source| HistoryError::Io { action: "write", path: path.clone(), source })
    }

    /// Reads the file of `timeline`. The first timeline needs none.
    ///
    /// # Errors
    /// `Io` (with `NotFound` if there is no file), `Malformed`, `TooLong`.
    pub fn load(disk: &Arc<dyn Disk>, timeline: TimelineId) -> Result<TimelineHistory, HistoryError> {
        let path = TimelineHistory::path(timeline);
        let failed = |source| HistoryError::Io { action: "read", path: path.clone(), source };
        let file = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && timeline == TimelineId::FIRST => {
                return Ok(TimelineHistory::first());
            }
            other => other.map_err(failed)?,
        };
        let bytes = file.length().map_err(failed)?;
        if bytes > HISTORY_BYTES_MAX {
            return Err(HistoryError::TooLong { path: path.clone(), bytes, limit: HISTORY_BYTES_MAX });
        }
        let mut text = vec![0; usize::try_from(bytes).expect("at most 16 MiB")];
        file.read_exact_at(&mut text, 0).map_err(failed)?;
        let malformed = |problem: String| HistoryError::Malformed { path: path.clone(), line: 1, problem };
        let text = String::from_utf8(text).map_err(|error| malformed(error.to_string()))?;
        TimelineHistory::parse(&text, timeline, &path)
    }
}

/// A new file; one that a crash left behind is removed.
fn open_new(disk: &dyn Disk, path: &str) -> io::Result<Arc<dyn DiskFile>> {
    match disk.open(path, OpenMode::Create) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(path)?;
            disk.open(path, OpenMode::Create)
        }
        other => other,
    }
}

fn parse_line(line: &str) -> Result<TimelineFork, &'static str> {
    let mut fields = line.splitn(4, '\t');
    let parent = fields.next().and_then(|field| field.parse().ok()).and_then(TimelineId::new);
    let parent = parent.ok_or("the first field is not a timeline")?;
    let fork = fields.next().and_then(|field| field.parse().ok());
    let fork = fork.ok_or("the second field is not an LSN")?;
    let mark = fields.next().and_then(|field| field.parse().ok());
    let mark = mark.ok_or("the third field is not the mark of a timeline")?;
    let reason = fields.next().ok_or("there is no fourth field")?.to_owned();
    Ok(TimelineFork { parent, fork, mark, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(byte: u8) -> TimelineMark {
        TimelineMark::from_bytes([byte; 16])
    }

    fn history() -> TimelineHistory {
        let second = TimelineId::new(2).unwrap();
        let fourth = TimelineId::new(4).unwrap();
        TimelineHistory::first().fork(second, Lsn::new(0x500_0A28), mark(2), "promoted").fork(
            fourth,
            Lsn::new(0x1_A2B3_C4D8),
            mark(4),
            "recovered\tto a point",
        )
    }

    fn parse(text: &str) -> Result<TimelineHistory, HistoryError> {
        TimelineHistory::parse(text, TimelineId::new(4).unwrap(), "log/00000004.history")
    }

    #[test]
    fn a_history_comes_back() {
        let text = history().encode();
        let (two, four) = ("02".repeat(16), "04".repeat(16));
        let lines =
            format!("1\t0/5000A28\t{two}\tpromoted\n2\t1/A2B3C4D8\t{four}\trecovered to a point\n# crc32c ");
        assert!(text.starts_with(&lines), "{text}");
        assert_eq!(parse(&text).unwrap(), history());
        let first = TimelineHistory::first();
        assert_eq!(TimelineHistory::parse(&first.encode(), TimelineId::FIRST, "x").unwrap(), first);
    }

    #[test]
    fn cut_and_changed_histories_are_refused() {
        let text = history().encode();
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).is_err(), "cut at {cut}");
        }
        for position in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[position] ^= 1;
            let damaged = String::from_utf8(bytes).unwrap();
            assert!(parse(&damaged).is_err(), "byte {position}");
        }
        assert!(TimelineHistory::parse(&text, TimelineId::new(2).unwrap(), "x").is_err());
    }

    #[test]
    fn segments_belong_to_the_timelines_that_wrote_them_before_they_were_left() {
        let geometry = LogGeometry::new(1 << 20).unwrap();
        let second = TimelineId::new(2).unwrap();
        let fourth = TimelineId::new(4).unwrap();
        // The first timeline is left in the middle of segment 5, the second one where segment 9 begins.
        let history = TimelineHistory::first().fork(second, Lsn::new(0x50_8000), mark(2), "promoted").fork(
            fourth,
            geometry.first_record_of(9),
            mark(4),
            "promoted",
        );
        let includes = |timeline, number| {
            let timeline = TimelineId::new(timeline).unwrap();
            history.includes(SegmentName { number, timeline }, geometry)
        };
        assert!(includes(1, 1) && includes(1, 5) && !includes(1, 6));
        assert!(!includes(2, 4) && includes(2, 5) && includes(2, 8) && !includes(2, 9));
        assert!(!includes(3, 5) && !includes(4, 8) && includes(4, 9) && includes(4, 700));
        let unknown = TimelineHistory { timeline: fourth, forks: Vec::new() };
        assert!(unknown.includes(SegmentName { number: 1, timeline: second }, geometry));
    }

    #[test]
    fn a_history_knows_where_each_of_its_timelines_began_and_its_mark() {
        let history = history();
        let known = |number| history.timeline(TimelineId::new(number).unwrap());
        let timeline = |number, began, mark| Timeline {
            id: TimelineId::new(number).unwrap(),
            began: Lsn::new(began),
            mark,
        };
        assert_eq!(known(1), Timeline::FIRST);
        assert_eq!(known(2), timeline(2, 0x500_0A28, mark(2)));
        assert_eq!(known(3), timeline(3, 0, TimelineMark::NONE));
        assert_eq!(known(4), timeline(4, 0x1_A2B3_C4D8, mark(4)));
        assert!(history.check_mark(mark(4)).is_ok());
        assert!(matches!(history.check_mark(mark(5)), Err(HistoryError::OtherTimeline { .. })));
        assert!(TimelineHistory::first().check_mark(TimelineMark::NONE).is_ok());
    }

    #[test]
    fn two_histories_part_at_the_first_fork_that_they_do_not_share() {
        let timeline = |number| TimelineId::new(number).unwrap();
        let fork = |from: &TimelineHistory, number, at, byte| {
            from.fork(timeline(number), Lsn::new(at), mark(byte), "")
        };
        let first = TimelineHistory::first();
        let (two, other_two) = (fork(&first, 2, 100, 2), fork(&first, 2, 100, 9));
        let (three, late) = (fork(&two, 3, 300, 3), fork(&first, 2, 150, 8));
        assert_eq!(first.parting(&first), None);
        assert_eq!(three.parting(&three), None);
        let parting = |timeline_number, at, is_left_here, next| {
            let (timeline, at) = (timeline(timeline_number), Lsn::new(at));
            Some(Parting { timeline, at, is_left_here, next })
        };
        // A primary, and the standby that was promoted, and another one after it.
        assert_eq!(first.parting(&two), parting(1, 100, false, Some(two.clone())));
        assert_eq!(first.parting(&three), parting(1, 100, false, Some(two.clone())));
        assert_eq!(two.parting(&three), parting(2, 300, false, Some(three.clone())));
        // Two promotions at one place, and at two.
        assert_eq!(two.parting(&other_two), parting(1, 100, true, Some(other_two.clone())));
        assert_eq!(three.parting(&other_two), parting(1, 100, true, Some(other_two)));
        assert_eq!(late.parting(&two), parting(1, 100, true, Some(two.clone())));
        assert_eq!(two.parting(&late), parting(1, 100, true, None), "back to the common one, which goes on");
        // Promoted by mistake: the primary is there still.
        assert_eq!(three.parting(&first), parting(1, 100, true, None));
        assert_eq!(three.parting(&two), parting(2, 300, true, None));
        assert!(three.descends_from(&three) && three.descends_from(&two) && three.descends_from(&first));
        assert!(!two.descends_from(&three) && !two.descends_from(&fork(&first, 2, 100, 9)));
        assert!(
            three.has_number(timeline(1)) && three.has_number(timeline(3)) && !two.has_number(timeline(3))
        );
        assert_eq!(three.up_to(timeline(2)), two);
        assert_eq!(three.up_to(timeline(1)), first);
    }

    #[test]
    fn positions_belong_to_the_timeline_that_wrote_them() {
        let history = history();
        assert_eq!(history.timeline_at(Lsn::new(0x500_0A27)).get(), 1);
        assert_eq!(history.timeline_at(Lsn::new(0x500_0A28)).get(), 2);
        assert_eq!(history.timeline_at(Lsn::new(0x1_A2B3_C4D7)).get(), 2);
        assert_eq!(history.timeline_at(Lsn::MAX).get(), 4);
    }
}
