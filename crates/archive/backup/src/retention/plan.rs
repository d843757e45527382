//! What goes and what stays: a function of values. Why it is so is said in the parent module.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seawall_archive::{Gap, System};
use seawall_types::{Lsn, TimelineId};

use super::{
    KeepReason, KeptBackup, KeptLog, LogReason, RemovedBackup, RemovedLog, RetentionPlan, RetentionPolicy,
};
use crate::dependencies::BackupDependencies;
use crate::inventory::{Inventory, TimelineLog, UnfinishedBackup};
use crate::lineage::LogStretch;

/// What goes, and why the rest stays. `locked` are backups whose manifests the store does not let go.
pub fn plan(
    inventory: &Inventory,
    policy: &RetentionPolicy,
    now_micros: i64,
    locked: &BTreeSet<String>,
) -> RetentionPlan {
    let planner = Planner { inventory, policy, now_micros };
    let kept = planner.kept_backups(locked);
    let removed = planner.removed_backups(&kept);
    let (kept_unfinished, removed_unfinished) = planner.unfinished(&kept);
    let kept_log = planner.kept_log(&kept);
    let removed_log = planner.removed_log(&kept_log);
    let removed_gaps = planner.removed_gaps(&removed_log);
    let mut listed: Vec<KeptBackup> = kept
        .into_iter()
        .map(|(id, reasons)| KeptBackup { id, reasons: reasons.into_iter().collect() })
        .collect();
    let rank: BTreeMap<&str, usize> =
        planner.by_age().iter().enumerate().map(|(rank, backup)| (backup.id.as_str(), rank)).collect();
    listed.sort_by_key(|backup| std::cmp::Reverse(rank.get(backup.id.as_str()).copied()));
    RetentionPlan {
        kept: listed,
        kept_unfinished,
        kept_log,
        removed,
        removed_unfinished,
        removed_log,
        removed_gaps,
    }
}

type Kept = BTreeMap<String, BTreeSet<KeepReason>>;

struct Planner<'a> {
    inventory: &'a Inventory,
    policy: &'a RetentionPolicy,
    now_micros: i64,
}

impl<'a> Planner<'a> {
    /// The moment that lies so far back.
    fn before(&self, age: Duration) -> i64 {
        self.now_micros.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
    }

    fn window_start(&self) -> Option<i64> {
        self.policy.keep_window.map(|window| self.before(window))
    }

    /// Newest first.
    fn by_age(&self) -> Vec<&'a BackupDependencies> {
        let mut backups: Vec<&BackupDependencies> = self.inventory.backups.iter().collect();
        backups.sort_by_key(|backup| std::cmp::Reverse((backup.ended_micros, &backup.id)));
        backups
    }

    /// Of the backups on the line of a timeline, the one with the most log behind it for which `is_meant` holds.
    fn newest_on(
        &self,
        timeline: TimelineId,
        is_meant: impl Fn(&BackupDependencies) -> bool,
    ) -> Option<&'a BackupDependencies> {
        let lineage = &self.inventory.lineage;
        let meant =
            self.inventory.backups.iter().filter(|backup| lineage.has(timeline, backup) && is_meant(backup));
        meant.max_by_key(|backup| (backup.end, backup.started_micros, &backup.id))
    }

    /// Whether the timeline was in use then or later: something of it was archived since, or may be, for it is the last one or has the
    /// newest backup; or it stood idle, and none had left it yet.
    fn is_in_use_since(&self, timeline: TimelineId, micros: i64) -> bool {
        let lineage = &self.inventory.lineage;
        let log = |timeline| self.inventory.log.get(&timeline);
        let is_archived = log(timeline).and_then(|log| log.newest_micros) >= Some(micros);
        let has_newest = self.by_age().first().is_some_and(|backup| backup.timeline == timeline);
        let mut begun = lineage.children(timeline).filter_map(|child| log(child)?.begun_micros);
        lineage.last() == Some(timeline) || is_archived || has_newest || begun.any(|begun| begun >= micros)
    }

    fn kept_backups(&self, locked: &BTreeSet<String>) -> Kept {
        let mut kept = Kept::new();
        let mut keep = |backup: &BackupDependencies, reason| {
            kept.entry(backup.id.clone()).or_default().insert(reason);
        };
        let by_age = self.by_age();
        for (backup, rank) in by_age.iter().zip(1_u64..) {
            if rank == 1 {
                keep(backup, KeepReason::Newest);
            }
            if self.policy.keep_count.is_some_and(|count| rank <= count) {
                keep(backup, KeepReason::Count(rank));
            }
            if self.policy.keep_age.is_some_and(|age| backup.ended_micros >= self.before(age)) {
                keep(backup, KeepReason::Age);
            }
            if self.window_start().is_some_and(|start| backup.ended_micros > start) {
                keep(backup, KeepReason::Window);
            }
            if locked.contains(&backup.id) {
                keep(backup, KeepReason::Locked);
            }
        }
        for backup in self.window_starts() {
            keep(backup, KeepReason::WindowStart);
        }
        for backup in self.may_be_built_on() {
            // Where nothing else keeps it.
            kept.entry(backup.id.clone()).or_insert_with(|| [KeepReason::UnderWay].into());
        }
        for (timeline, backup) in self.newest_of_each() {
            kept.entry(backup.id.clone()).or_insert_with(|| [KeepReason::NewestOf(timeline)].into());
        }
        self.keep_parents(&mut kept);
        kept
    }

    /// For each timeline in use, the backup that a restore to its end starts with. A trial that is backed up must not crowd out
    /// what production needs: which of two timelines is production, nobody says here.
    fn newest_of_each(&self) -> Vec<(TimelineId, &'a BackupDependencies)> {
        let since = self.before(self.policy.keep_unfinished);
        let in_use =
            self.inventory.lineage.timelines().filter(|timeline| self.is_in_use_since(*timeline, since));
        in_use.filter_map(|timeline| Some((timeline, self.newest_on(timeline, |_| true)?))).collect()
    }

    /// Whatever was the newest backup of its timeline when an increment that is under way may have looked.
    fn may_be_built_on(&self) -> Vec<&'a BackupDependencies> {
        // A backup of a cluster builds on no other.
        if matches!(self.inventory.system, System::PostgreSql(_)) {
            return Vec::new();
        }
        let recent = i64::try_from(self.policy.keep_recent.as_micros()).unwrap_or(i64::MAX);
        let began_late = self.before(self.policy.keep_unfinished);
        let seen = self.may_be_under_way().map(|backup| (backup.timeline, backup.began_micros));
        let timelines = self.inventory.lineage.timelines();
        let in_use = timelines.filter(|timeline| self.is_in_use_since(*timeline, began_late));
        let unseen = in_use.map(|timeline| (timeline, self.before(self.policy.keep_recent)));
        let mut found = Vec::new();
        for (timeline, began) in seen.chain(unseen) {
            let (from, to) = (began.saturating_sub(recent), began.saturating_add(recent));
            let is_of_it = |backup: &BackupDependencies| backup.timeline == timeline;
            found.extend(self.newest_on(timeline, |backup| is_of_it(backup) && backup.ended_micros <= from));
            let between = |backup: &&BackupDependencies| (from..=to).contains(&backup.ended_micros);
            found.extend(self.inventory.backups.iter().filter(|backup| is_of_it(backup)).filter(between));
        }
        found
    }

    /// For each line that has moments in the window, the backup that a restore to the window's beginning starts with.
    fn window_starts(&self) -> Vec<&'a BackupDependencies> {
        let Some(start) = self.window_start() else { return Vec::new() };
        let timelines = self.inventory.lineage.timelines();
        let in_use = timelines.filter(|timeline| self.is_in_use_since(*timeline, start));
        in_use
            .filter_map(|timeline| self.newest_on(timeline, |backup| backup.ended_micros <= start))
            .collect()
    }

    fn keep_parents(&self, kept: &mut Kept) {
        let mut children: Vec<String> = kept.keys().cloned().collect();
        for backup in self.may_be_under_way() {
            for id in backup.parent.iter().chain(&backup.cut_short).filter(|id| self.backup(id).is_some()) {
                kept.entry(id.clone()).or_insert_with(|| [KeepReason::UnderWay].into());
                children.push(id.clone());
            }
        }
        while let Some(child) = children.pop() {
            let Some(backup) = self.backup(&child) else { continue };
            // One that was taken for cut short may have ended after all.
            let needed = backup.parent.iter().chain(&backup.cut_short);
            for id in needed.filter(|id| self.backup(id).is_some()) {
                let is_new = !kept.contains_key(id);
                kept.entry(id.clone()).or_default().insert(KeepReason::NeededBy(child.clone()));
                if is_new {
                    children.push(id.clone());
                }
            }
        }
    }

    fn may_be_under_way(&self) -> impl Iterator<Item = &'a UnfinishedBackup> {
        let began_late = self.before(self.policy.keep_unfinished);
        let unfinished = self.inventory.unfinished.iter();
        unfinished.filter(move |backup| backup.began_micros >= began_late && !backup.is_being_removed)
    }

    /// Names of those without a manifest that stay, and of those that go.
    fn unfinished(&self, kept: &Kept) -> (Vec<String>, Vec<String>) {
        let of_kept = kept.keys().filter_map(|id| self.backup(id)).flat_map(|backup| &backup.cut_short);
        let under_way =
            self.may_be_under_way().flat_map(|backup| backup.cut_short.iter().chain([&backup.id]));
        let staying: BTreeSet<&String> = of_kept.chain(under_way).collect();
        // Nobody knows what it goes on with.
        let all_stay = self.may_be_under_way().any(|backup| backup.is_unreadable);
        let ids = self.inventory.unfinished.iter().map(|backup| backup.id.clone());
        ids.partition(|id| all_stay || staying.contains(id))
    }

    fn backup(&self, id: &str) -> Option<&'a BackupDependencies> {
        self.inventory.backups.iter().find(|backup| backup.id == id)
    }

    /// How many backups a backup builds on, one on the other, those among them that were taken for cut short and have ended after
    /// all. One that builds on itself in a circle is damaged; it is not followed forever.
    fn depth(&self, backup: &BackupDependencies) -> usize {
        let mut below: Vec<&BackupDependencies> = vec![backup];
        for depth in 0..self.inventory.backups.len() {
            let names: BTreeSet<&String> =
                below.iter().flat_map(|backup| backup.parent.iter().chain(&backup.cut_short)).collect();
            below = self.inventory.backups.iter().filter(|backup| names.contains(&backup.id)).collect();
            if below.is_empty() {
                return depth;
            }
        }
        self.inventory.backups.len()
    }

    /// The deepest first, and of these the oldest.
    fn removed_backups(&self, kept: &Kept) -> Vec<RemovedBackup> {
        let by_age = self.by_age();
        let going = by_age.iter().rev().filter(|backup| !kept.contains_key(&backup.id));
        let mut removed: Vec<RemovedBackup> =
            going.map(|backup| RemovedBackup { id: backup.id.clone(), depth: self.depth(backup) }).collect();
        removed.sort_by_key(|backup| std::cmp::Reverse(backup.depth));
        removed
    }

    // ---- log ---------------------------------------------------------------------------------------------------

    fn kept_log(&self, kept: &Kept) -> Vec<KeptLog> {
        let mut log = Vec::new();
        if self.inventory.backups.is_empty() {
            // It is of no use to a restore from here, and somebody may have backups elsewhere.
            for timeline in self.inventory.lineage.timelines() {
                let stretch = LogStretch { timeline, first: 0, last: u64::MAX };
                log.push(KeptLog { stretch, reason: LogReason::NoBackup });
            }
            return log;
        }
        for backup in kept.keys().filter_map(|id| self.backup(id)) {
            let reason = LogReason::Backup(backup.id.clone());
            self.add(&mut log, backup.timeline, backup.first, backup.end, reason);
        }
        match self.window_start() {
            None => {
                // What is kept for one timeline keeps no log of others: a trial that was forgotten would keep all of production's.
                let is_for_one = |reasons: &BTreeSet<KeepReason>| {
                    reasons.iter().all(|reason| matches!(reason, KeepReason::NewestOf(_)))
                };
                let for_all = kept.iter().filter(|(_, reasons)| !is_for_one(reasons));
                for backup in for_all.filter_map(|(id, _)| self.backup(id)) {
                    self.add_all_after(&mut log, backup);
                }
            }
            Some(start) => self.window_log(start, &mut log),
        }
        for (timeline, backup) in self.newest_of_each() {
            self.add(&mut log, timeline, backup.first, Lsn::MAX, LogReason::After(backup.id.clone()));
        }
        self.log_of_backups_under_way(&mut log);
        log
    }

    fn add(&self, log: &mut Vec<KeptLog>, timeline: TimelineId, from: Lsn, to: Lsn, reason: LogReason) {
        let stretches = self.inventory.lineage.stretches(timeline, from, to);
        log.extend(stretches.into_iter().map(|stretch| KeptLog { stretch, reason: reason.clone() }));
    }

    /// Whatever can be replayed after this backup, on any timeline.
    fn add_all_after(&self, log: &mut Vec<KeptLog>, backup: &BackupDependencies) {
        let lineage = &self.inventory.lineage;
        let own = Some(backup.timeline).filter(|own| lineage.timelines().all(|timeline| timeline != *own));
        for timeline in lineage.timelines().filter(|timeline| lineage.may_have(*timeline, backup)).chain(own)
        {
            self.add(log, timeline, backup.first, Lsn::MAX, LogReason::After(backup.id.clone()));
        }
    }

    /// For each line with moments in the window: all log from the backup on that a restore to its beginning starts with, or from
    /// the oldest one if all are within.
    fn window_log(&self, start: i64, log: &mut Vec<KeptLog>) {
        for timeline in self.inventory.lineage.timelines() {
            if !self.is_in_use_since(timeline, start) {
                continue;
            }
            match self.newest_on(timeline, |backup| backup.ended_micros <= start) {
                Some(backup) => self.add_all_after(log, backup),
                None => {
                    let lineage = &self.inventory.lineage;
                    let on_it =
                        self.inventory.backups.iter().filter(|backup| lineage.may_have(timeline, backup));
                    on_it.for_each(|backup| self.add_all_after(log, backup));
                }
            }
        }
    }

    fn log_of_backups_under_way(&self, log: &mut Vec<KeptLog>) {
        let lineage = &self.inventory.lineage;
        let began_late = self.before(self.policy.keep_unfinished);
        for backup in self.may_be_under_way() {
            let reason = LogReason::UnderWay(backup.id.clone());
            self.add(log, backup.timeline, backup.first, Lsn::MAX, reason);
        }
        let seen_before = self.before(self.policy.keep_recent);
        for timeline in lineage.timelines().filter(|timeline| self.is_in_use_since(*timeline, began_late)) {
            let from = match self.newest_on(timeline, |backup| backup.started_micros < seen_before) {
                Some(backup) => backup.first,
                None => Lsn::ZERO,
            };
            self.add(log, timeline, from, Lsn::MAX, LogReason::Unseen);
        }
    }

    fn removed_log(&self, kept: &[KeptLog]) -> Vec<RemovedLog> {
        let mut removed = Vec::new();
        for (timeline, log) in &self.inventory.log {
            let stretches: Vec<LogStretch> = kept
                .iter()
                .map(|kept| kept.stretch)
                .filter(|stretch| stretch.timeline == *timeline)
                .collect();
            removed.extend(removed_of(*timeline, log, &merged(stretches)));
        }
        removed
    }

    fn removed_gaps(&self, removed: &[RemovedLog]) -> Vec<Gap> {
        let going: BTreeSet<&str> = removed.iter().flat_map(|log| &log.paths).map(String::as_str).collect();
        let is_left = |path: &str| !going.contains(path);
        // Those that a plan adds go in the same run, if they lie before all that stays.
        self.inventory
            .gaps
            .iter()
            .copied()
            .filter(|gap| is_before_all(self.inventory, *gap, &is_left))
            .collect()
    }
}

/// Whether a gap lies before all files of its timeline that are left: nobody looks there any more.
pub(super) fn is_before_all(inventory: &Inventory, gap: Gap, is_left: &dyn Fn(&str) -> bool) -> bool {
    let last = inventory.numbers().of(gap.last.digits);
    let files = inventory.log.get(&gap.first.timeline).into_iter().flat_map(|log| &log.files);
    let first = files.into_iter().find(|file| is_left(&file.path));
    !inventory.backups.is_empty() && first.is_none_or(|file| last < file.number)
}

/// Ascending, without overlaps.
fn merged(mut stretches: Vec<LogStretch>) -> Vec<LogStretch> {
    stretches.sort();
    let mut merged: Vec<LogStretch> = Vec::new();
    for stretch in stretches {
        match merged.last_mut() {
            Some(last) if stretch.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(stretch.last)
            }
            _ => merged.push(stretch),
        }
    }
    merged
}

/// The files of a timeline that are in none of the stretches, in runs between files that stay.
fn removed_of(timeline: TimelineId, log: &TimelineLog, kept: &[LogStretch]) -> Vec<RemovedLog> {
    let mut removed: Vec<RemovedLog> = Vec::new();
    let mut goes_on = false;
    for file in &log.files {
        let next = kept.partition_point(|stretch| stretch.last < file.number);
        if kept.get(next).is_some_and(|stretch| stretch.first <= file.number) {
            goes_on = false;
            continue;
        }
        match removed.last_mut().filter(|_| goes_on) {
            Some(last) => {
                last.stretch.last = file.number;
                last.paths.push(file.path.clone());
            }
            None => removed.push(RemovedLog {
                stretch: LogStretch { timeline, first: file.number, last: file.number },
                paths: vec![file.path.clone()],
            }),
        }
        goes_on = true;
    }
    removed
}
