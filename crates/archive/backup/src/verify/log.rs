//! The log of a system: which segments are missing, and who misses them.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::{Header, LogFileName, SegmentNumbers, SegmentPlace, StoredName, StoredObject, System};
use seawall_types::{Lsn, TimelineId};

use super::{Finding, FindingKind, OtherBackupLog, SystemFacts};
use crate::dependencies::BackupDependencies;
use crate::lineage::TimelineLineage;
use crate::object_names;

/// What is known of a file of the log.
#[derive(Clone, Debug)]
pub(super) struct LogFacts {
    place: SegmentPlace,
    part: Part,
    created_micros: i64,
    /// 0: not known.
    segment_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Partial,
    Tail { from: u64, to: u64 },
}

impl LogFacts {
    /// `None` for what is no part of the log itself. One that is damaged is there, and found by itself.
    pub(super) fn of(object: &StoredObject, header: Option<&Header>) -> Option<LogFacts> {
        let (place, part) = match object.name.as_ref()? {
            StoredName::LogFile(_, LogFileName::Segment(place)) => (*place, Part::Whole),
            StoredName::LogFile(_, LogFileName::Partial(place)) => (*place, Part::Partial),
            StoredName::LogFile(_, LogFileName::BackupLabel(..) | LogFileName::History(_)) => return None,
            StoredName::Object(_, name) => {
                let (segment, from, to) = object_names::parse_tail(name)?;
                (segment.into(), Part::Tail { from, to })
            }
            StoredName::RepositoryHeader | StoredName::Key(_) | StoredName::Scratch | StoredName::Gap(..) => {
                return None;
            }
        };
        Some(LogFacts {
            place,
            part,
            created_micros: header.map_or(i64::MIN, |header| header.created_micros),
            segment_bytes: header.map_or(0, |header| u64::from(header.segment_bytes)),
        })
    }
}

/// The files of a timeline.
#[derive(Debug, Default)]
struct Timeline {
    /// When each whole segment was archived.
    whole: BTreeMap<u64, i64>,
    /// Segments of which there is a part: how far it reaches from their beginning.
    parts: BTreeMap<u64, u64>,
}

impl Timeline {
    fn first(&self) -> Option<u64> {
        let first = |keys: Option<&u64>| keys.copied();
        first(self.whole.keys().next()).into_iter().chain(first(self.parts.keys().next())).min()
    }

    fn last(&self) -> Option<u64> {
        let last = |keys: Option<&u64>| keys.copied();
        last(self.whole.keys().next_back()).into_iter().chain(last(self.parts.keys().next_back())).max()
    }

    /// Stretches of `first..=last` that are not there as whole segments. Costs what is there, not what is missing.
    fn missing(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        if first > last {
            return missing;
        }
        let mut next = Some(first);
        for number in self.whole.range(first..=last).map(|(number, _)| *number) {
            if let Some(from) = next.filter(|next| *next < number) {
                missing.push((from, number - 1));
            }
            next = number.checked_add(1);
        }
        missing.extend(next.filter(|next| *next <= last).map(|next| (next, last)));
        missing
    }

    /// Whether the log of a segment is there up to `offset` in its file.
    fn reaches(&self, number: u64, offset: u64) -> bool {
        self.whole.contains_key(&number) || self.parts.get(&number).is_some_and(|reach| *reach >= offset)
    }
}

/// The log of a system.
pub(super) struct Log<'a> {
    system: System,
    numbers: SegmentNumbers,
    segment_bytes: u64,
    timelines: BTreeMap<TimelineId, Timeline>,
    lineage: TimelineLineage,
    facts: &'a SystemFacts,
    /// What was archived later may have overtaken what was begun before it.
    settled_before: i64,
}

impl<'a> Log<'a> {
    pub(super) fn new(
        system: System,
        facts: &'a SystemFacts,
        settled_before: i64,
        tell: &mut dyn FnMut(Finding),
    ) -> Log<'a> {
        let sizes = facts.log.iter().map(|file| file.segment_bytes);
        let sizes: BTreeSet<u64> = sizes
            .chain(facts.backups.iter().map(|backup| backup.segment_bytes))
            .filter(|size| *size != 0)
            .collect();
        if sizes.len() > 1 {
            let problem = format!("it has log in segments of several sizes: {sizes:?}");
            tell(Finding { kind: FindingKind::Damaged, object: system.to_string(), problem });
        }
        let segment_bytes = sizes.first().copied().unwrap_or(1);
        let numbers = SegmentNumbers::new(system, u32::try_from(segment_bytes).unwrap_or(1));
        let mut timelines: BTreeMap<TimelineId, Timeline> = BTreeMap::new();
        let mut tails: BTreeMap<(TimelineId, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for file in &facts.log {
            let (timeline, number) = (file.place.timeline, numbers.of(file.place.digits));
            let entry = timelines.entry(timeline).or_default();
            match file.part {
                Part::Whole => drop(entry.whole.insert(number, file.created_micros)),
                Part::Partial => drop(entry.parts.insert(number, segment_bytes)),
                Part::Tail { from, to } => tails.entry((timeline, number)).or_default().push((from, to)),
            }
        }
        for ((timeline, number), ranges) in tails {
            let reach = crate::stored_log::cover(ranges.into_iter()).last().map_or(0, |(_, to)| *to);
            let parts = &mut timelines.entry(timeline).or_default().parts;
            let entry = parts.entry(number).or_insert(reach);
            *entry = (*entry).max(reach);
        }
        let lineage = TimelineLineage::new(segment_bytes, timelines.keys().copied(), facts.histories.clone());
        Log { system, numbers, segment_bytes, timelines, lineage, facts, settled_before }
    }

    fn name(&self, timeline: TimelineId, number: u64) -> SegmentPlace {
        SegmentPlace { timeline, digits: self.numbers.digits(number) }
    }

    /// Tells of all segments that are missing between others, on a timeline and where one leaves another.
    pub(super) fn find_missing(&self, tell: &mut dyn FnMut(Finding)) {
        let mut told: BTreeSet<(TimelineId, u64, u64)> = BTreeSet::new();
        for (id, timeline) in &self.timelines {
            let (Some(first), Some(last)) = (timeline.first(), timeline.last()) else { continue };
            // The last may be there in part.
            let before_last = last.checked_sub(1).map_or(Vec::new(), |last| timeline.missing(first, last));
            for (from, to) in before_last {
                told.insert((*id, from, to));
                self.tell_missing(*id, from, to, tell);
            }
        }
        for id in self.lineage.timelines() {
            for (timeline, from, to) in self.missing_on_line(id) {
                let is_known =
                    |known: &(TimelineId, u64, u64)| known.0 == timeline && known.1 <= from && to <= known.2;
                if !told.iter().any(is_known) {
                    told.insert((timeline, from, to));
                    self.tell_missing(timeline, from, to, tell);
                }
            }
        }
    }

    /// Tells of timelines other than the first that have log or a backup, and no history: no restore knows what they have of others.
    pub(super) fn find_missing_histories(&self, tell: &mut dyn FnMut(Finding)) {
        let of_backups = self.facts.backups.iter().map(|backup| backup.timeline);
        let used: BTreeSet<TimelineId> = self.timelines.keys().copied().chain(of_backups).collect();
        let needs_one = |timeline: &&TimelineId| {
            **timeline != TimelineId::FIRST && !self.facts.listed_histories.contains(timeline)
        };
        for timeline in used.iter().filter(needs_one) {
            let name = LogFileName::History(*timeline);
            let problem = match self.system {
                System::Seawall(_) => {
                    "it is missing: nothing says which timeline this one has left".to_owned()
                }
                System::PostgreSql(_) => format!(
                    "it is missing: nothing says which timeline this one has left; `seawall archive-push pg_wal/{name}` in the \
                     cluster's data directory puts it there"
                ),
            };
            let object = format!("{name} of {}", self.system);
            tell(Finding { kind: FindingKind::MissingHistory, object, problem });
        }
    }

    /// What is missing from the newest backup of a line to its last segment.
    fn missing_on_line(&self, id: TimelineId) -> Vec<(TimelineId, u64, u64)> {
        let on_it = self.facts.backups.iter().filter(|backup| self.lineage.has(id, backup));
        let newest = on_it.max_by_key(|backup| (backup.end, backup.started_micros));
        let last = self.timelines.get(&id).and_then(Timeline::last);
        let (Some(backup), Some(last)) = (newest, last) else { return Vec::new() };
        let end = Lsn::new(last.saturating_mul(self.segment_bytes));
        self.missing_between(id, backup.first, end)
    }

    /// What is missing of the log from `from` up to `to`, along the line of a timeline.
    fn missing_between(&self, id: TimelineId, from: Lsn, to: Lsn) -> Vec<(TimelineId, u64, u64)> {
        let Some(history) = self.lineage.history(id) else { return Vec::new() };
        let nothing = Timeline::default();
        let mut missing = Vec::new();
        let mut start = from;
        let forks = history.forks.iter().map(|fork| (fork.parent, fork.fork));
        for (timeline, border) in forks.chain([(id, Lsn::MAX)]) {
            let end = border.min(to);
            if start >= end {
                continue;
            }
            let files = self.timelines.get(&timeline).unwrap_or(&nothing);
            let (first, last) =
                (self.lineage.segment_of(start), self.lineage.segment_of(Lsn::new(end.get() - 1)));
            let offset = end.get() - last.saturating_mul(self.segment_bytes);
            let next_has_it = || self.is_copied(last, end, &history.forks);
            let is_last_there = files.reaches(last, offset) || next_has_it();
            let last = if is_last_there { last.checked_sub(1) } else { Some(last) };
            let found =
                last.filter(|last| first <= *last).map_or(Vec::new(), |last| files.missing(first, last));
            missing.extend(found.into_iter().map(|(from, to)| (timeline, from, to)));
            start = end;
        }
        missing
    }

    /// PostgreSQL copies the segment that it leaves a timeline in into the new one.
    fn is_copied(&self, number: u64, end: Lsn, forks: &[seawall_wal::TimelineFork]) -> bool {
        let is_fork = forks.iter().any(|fork| fork.fork == end);
        let has_it = |timeline: &Timeline| timeline.whole.contains_key(&number);
        matches!(self.system, System::PostgreSql(_)) && is_fork && self.timelines.values().any(has_it)
    }

    /// Whether it is the log between two backups of a database that does not archive: they have put what they need themselves, and
    /// of the segment that the first one ended in, no more than was there then.
    fn is_between_backups(&self, timeline: TimelineId, from: u64, to: u64) -> bool {
        let segment = |lsn| self.lineage.segment_of(lsn);
        let on_it = || self.facts.backups.iter().filter(|backup| backup.timeline == timeline);
        let has_manifest = |id: &String| self.facts.backups.iter().any(|backup| backup.id == *id);
        let others = self.facts.log_of_others.iter().filter(|other| other.timeline == timeline);
        let others: Vec<_> = others.filter(|other| !has_manifest(&other.backup)).collect();
        let has_other_ended = |other: &&OtherBackupLog| match other.end {
            Some(end) => segment(end) == from,
            None => segment(other.first) <= from,
        };
        let has_ended =
            on_it().any(|backup| segment(backup.end) == from) || others.iter().any(has_other_ended);
        let mut first = on_it().map(|backup| backup.first).chain(others.iter().map(|other| other.first));
        let begins = first.any(|first| Some(segment(first)) == to.checked_add(1));
        let is_part = self.timelines.get(&timeline).is_some_and(|files| files.parts.contains_key(&from));
        matches!(self.system, System::Seawall(_)) && has_ended && begins && is_part
    }

    fn tell_missing(&self, timeline: TimelineId, from: u64, to: u64, tell: &mut dyn FnMut(Finding)) {
        if self.is_between_backups(timeline, from, to) {
            return self.tell_stretch(timeline, from, to, Some(FindingKind::NotArchived), tell);
        }
        let mut next = from;
        let mut gaps: Vec<(u64, u64)> = self
            .facts
            .gaps
            .iter()
            .filter(|gap| gap.first.timeline == timeline)
            .map(|gap| (self.numbers.of(gap.first.digits), self.numbers.of(gap.last.digits)))
            .filter(|(first, last)| *first <= to && *last >= from)
            .collect();
        gaps.sort_unstable();
        for (first, last) in gaps {
            if next < first {
                self.tell_stretch(timeline, next, first - 1, None, tell);
            }
            if next <= last.min(to) {
                self.tell_stretch(timeline, next.max(first), last.min(to), Some(FindingKind::OnRecord), tell);
            }
            next = next.max(last.saturating_add(1));
        }
        if next <= to {
            self.tell_stretch(timeline, next, to, None, tell);
        }
    }

    fn tell_stretch(
        &self,
        timeline: TimelineId,
        from: u64,
        to: u64,
        kind: Option<FindingKind>,
        tell: &mut dyn FnMut(Finding),
    ) {
        let (first, last) = (self.name(timeline, from), self.name(timeline, to));
        let count = to.saturating_sub(from).saturating_add(1);
        let following = self.timelines.get(&timeline).and_then(|files| files.whole.range(to..).next());
        let is_young = following.is_some_and(|(_, created)| *created >= self.settled_before);
        let (kind, problem) = match kind {
            Some(FindingKind::NotArchived) => {
                let problem =
                    "the log between two backups was not archived: restores end where a backup does";
                (FindingKind::NotArchived, problem.to_owned())
            }
            Some(kind) => (kind, format!("{count} segments are missing, and that is on record")),
            None if is_young => {
                let problem = format!("{count} segments are missing, and may be on their way: verify again");
                (FindingKind::OnItsWay, problem)
            }
            None => (FindingKind::MissingLog, format!("{count} segments are missing, and nothing says why")),
        };
        let object = format!("log {first} to {last} of {}", self.system);
        tell(Finding { kind, object, problem });
    }

    /// Tells if the log that a backup cannot do without is not all there.
    pub(super) fn check_backup(&self, backup: &BackupDependencies, tell: &mut dyn FnMut(Finding)) {
        let missing = self.missing_between(backup.timeline, backup.first, backup.end);
        let Some((timeline, from, to)) = missing.first().copied() else { return };
        let (first, last) = (self.name(timeline, from), self.name(timeline, to));
        tell(Finding {
            kind: FindingKind::BackupWithoutLog,
            object: format!("backup {} of {}", backup.id, self.system),
            problem: format!("it cannot be restored: it needs the log {first} to {last}, which is not there"),
        });
    }
}
