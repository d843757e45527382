//! Random repositories, policies and moments, against what a restore would find: by rules of its own, not by those of the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seawall_archive::{Gap, SegmentPlace, System};
use seawall_simulation::{SeededRandom, seeds};
use seawall_types::{DatabaseId, Lsn, TimelineId, TimelineMark};
use seawall_wal::TimelineHistory;

use super::*;
use crate::dependencies::BackupDependencies;
use crate::inventory::{Inventory, StoredLogFile, TimelineLog, UnfinishedBackup};
use crate::lineage::TimelineLineage;

const SEGMENT: u64 = 100;
const HOUR: i64 = 3_600_000_000;
const SYSTEM: System = System::Seawall(DatabaseId::from_bytes([7; 16]));

/// A backup under way.
#[derive(Clone)]
struct Running {
    id: String,
    first: Lsn,
    started: i64,
    is_seen: bool,
    parent: Option<String>,
}

/// A database on a timeline of its own.
#[derive(Clone)]
struct Branch {
    history: TimelineHistory,
    lsn: u64,
    redo: u64,
    running: Vec<Running>,
}

/// Redo point of a branch at a moment: a backup that begins there needs the log from it on.
struct Beginning {
    timeline: TimelineId,
    redo: Lsn,
    micros: i64,
}

struct World {
    random: SeededRandom,
    micros: i64,
    branches: Vec<Branch>,
    histories: BTreeMap<TimelineId, TimelineHistory>,
    /// When each segment was archived.
    segments: BTreeMap<(TimelineId, u64), i64>,
    backups: Vec<BackupDependencies>,
    beginnings: Vec<Beginning>,
    names: u32,
}

fn number_of(lsn: Lsn) -> u64 {
    lsn.get() / SEGMENT
}

impl World {
    fn new(seed: u64) -> World {
        let branch =
            Branch { history: TimelineHistory::first(), lsn: SEGMENT, redo: SEGMENT, running: Vec::new() };
        World {
            random: SeededRandom::new(seed),
            micros: 1_000_000 * HOUR,
            branches: vec![branch],
            histories: BTreeMap::new(),
            segments: BTreeMap::new(),
            backups: Vec::new(),
            beginnings: Vec::new(),
            names: 0,
        }
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            let pace = *self.random.pick(&[1, 10, 600, 6 * 3600, 30 * 3600]);
            self.micros += 1 + i64::try_from(self.random.below(pace)).unwrap() * 1_000_000;
            // Mostly the newest.
            let index = if self.random.chance(4, 5) {
                self.branches.len() - 1
            } else {
                self.random.index(self.branches.len())
            };
            match self.random.below(20) {
                0 => self.fork(index),
                1..4 => self.checkpoint(index),
                4..8 => self.begin_backup(index),
                8..12 => self.end_backup(index),
                12 => self.show(index),
                _ => {}
            }
            self.write(index);
        }
    }

    fn write(&mut self, index: usize) {
        let bytes = 1 + self.random.below(3 * SEGMENT);
        let branch = &mut self.branches[index];
        let (timeline, from) = (branch.history.timeline, branch.lsn);
        branch.lsn += bytes;
        // What is written of the last one is there as a tail, whole enough for these rules.
        for number in from / SEGMENT..=branch.lsn / SEGMENT {
            self.segments.insert((timeline, number), self.micros);
        }
        let beginning = Beginning { timeline, redo: Lsn::new(branch.redo), micros: self.micros };
        self.beginnings.push(beginning);
    }

    fn checkpoint(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        branch.redo += self.random.below(branch.lsn - branch.redo + 1);
    }

    fn begin_backup(&mut self, index: usize) {
        self.names += 1;
        let id = format!("b{:04}", self.names);
        let branch = &mut self.branches[index];
        let on_it = self.backups.iter().filter(|backup| backup.timeline == branch.history.timeline);
        let parent = on_it.map(|backup| backup.id.clone()).next_back().filter(|_| self.random.chance(1, 3));
        let first = Lsn::new(branch.redo);
        branch.running.push(Running { id, first, started: self.micros, is_seen: false, parent });
    }

    fn show(&mut self, index: usize) {
        self.branches[index].running.iter_mut().for_each(|running| running.is_seen = true);
    }

    fn end_backup(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        if branch.running.is_empty() {
            return;
        }
        let Running { id, first, started, parent, .. } =
            branch.running.swap_remove(self.random.index(branch.running.len()));
        // It has ended a moment before whatever is written next.
        self.backups.push(BackupDependencies {
            id,
            system: SYSTEM,
            timeline: branch.history.timeline,
            first,
            end: Lsn::new(branch.lsn),
            log_checksum: None,
            segment_bytes: SEGMENT,
            started_micros: started,
            ended_micros: self.micros,
            objects: Vec::new(),
            parent,
            cut_short: Vec::new(),
        });
    }

    fn fork(&mut self, index: usize) {
        let number = u32::try_from(self.branches.len() + 1).unwrap();
        let history = self.branches[index].history.clone();
        let start = history.forks.last().map_or(SEGMENT, |fork| fork.fork.get());
        let fork = start + self.random.below(self.branches[index].lsn - start + 1);
        let history = history.fork(TimelineId::new(number).unwrap(), Lsn::new(fork), TimelineMark::NONE, "x");
        self.histories.insert(history.timeline, history.clone());
        self.branches.push(Branch { history, lsn: fork, redo: fork, running: Vec::new() });
    }

    /// Those whose first object is there, or that began so long ago that it must be.
    fn unfinished(&self, now: i64) -> Vec<UnfinishedBackup> {
        let running = |branch: &Branch| {
            let timeline = branch.history.timeline;
            let seen = move |running: &Running| running.is_seen || running.started < now - HOUR;
            let backups = branch.running.clone().into_iter().filter(seen);
            backups.map(move |running| UnfinishedBackup {
                id: running.id,
                timeline,
                first: running.first,
                began_micros: running.started,
                parent: None,
                cut_short: Vec::new(),
                is_unreadable: false,
                is_being_removed: false,
            })
        };
        self.branches.iter().flat_map(running).collect()
    }

    fn inventory(&self, now: i64) -> Inventory {
        let mut log: BTreeMap<TimelineId, TimelineLog> = BTreeMap::new();
        for ((timeline, number), micros) in &self.segments {
            let entry = log.entry(*timeline).or_default();
            entry.files.push(StoredLogFile {
                number: *number,
                path: path(*timeline, *number),
                is_whole: true,
            });
            entry.newest_micros = Some(*micros);
        }
        Inventory {
            system: SYSTEM,
            segment_bytes: SEGMENT,
            backups: self.backups.clone(),
            unfinished: self.unfinished(now),
            backup_objects: BTreeMap::new(),
            lineage: TimelineLineage::new(SEGMENT, log.keys().copied(), self.histories.clone()),
            log,
            gaps: Vec::new(),
        }
    }

    fn policy(&mut self) -> RetentionPolicy {
        let hours = |random: &mut SeededRandom| Duration::from_secs(3600 * random.below(200));
        let mut policy = RetentionPolicy {
            keep_unfinished: Duration::from_secs(7 * 86_400),
            ..RetentionPolicy::default()
        };
        while policy.is_empty() {
            let random = &mut self.random;
            policy.keep_count = random.chance(1, 2).then(|| random.below(4));
            policy.keep_age = random.chance(1, 3).then(|| hours(random));
            policy.keep_window = random.chance(1, 2).then(|| hours(random));
        }
        policy
    }
}

fn path(timeline: TimelineId, number: u64) -> String {
    format!("{timeline}/{number:08}")
}

/// What is there, as a restore sees it.
#[derive(Clone)]
struct Store {
    histories: BTreeMap<TimelineId, TimelineHistory>,
    segments: BTreeSet<(TimelineId, u64)>,
    backups: Vec<BackupDependencies>,
}

impl Store {
    fn of(world: &World) -> Store {
        Store {
            histories: world.histories.clone(),
            segments: world.segments.keys().copied().collect(),
            backups: world.backups.clone(),
        }
    }

    fn apply(&mut self, plan: &RetentionPlan) {
        let removed: BTreeSet<&str> = plan.removed.iter().map(|backup| backup.id.as_str()).collect();
        self.backups.retain(|backup| !removed.contains(backup.id.as_str()));
        let paths: BTreeSet<&String> = plan.removed_log.iter().flat_map(|log| &log.paths).collect();
        self.segments.retain(|(timeline, number)| !paths.contains(&path(*timeline, *number)));
    }

    fn history(&self, timeline: TimelineId) -> TimelineHistory {
        self.histories.get(&timeline).cloned().unwrap_or_else(TimelineHistory::first)
    }

    /// Whether the log along the history is there from `from` to `to`.
    fn has_log(&self, timeline: TimelineId, from: Lsn, to: Lsn) -> bool {
        let history = self.history(timeline);
        let mut position = from;
        while position < to {
            let on = history.timeline_at(position);
            if !self.segments.contains(&(on, number_of(position))) {
                return false;
            }
            let border = Lsn::new((number_of(position) + 1) * SEGMENT);
            let left = history.forks.iter().find(|fork| fork.parent == on).map(|fork| fork.fork);
            position = left.filter(|fork| *fork < border).unwrap_or(border);
        }
        true
    }

    /// As the catalogue chooses: the newest backup on the line that ends before.
    fn restores(&self, timeline: TimelineId, to: Lsn) -> bool {
        let history = self.history(timeline);
        let is_on = |backup: &&BackupDependencies| {
            let left = history.forks.iter().find(|fork| fork.parent == backup.timeline);
            backup.timeline == timeline || left.is_some_and(|fork| fork.fork >= backup.end)
        };
        let fitting = self.backups.iter().filter(is_on).filter(|backup| backup.end <= to);
        let Some(chosen) = fitting.max_by_key(|backup| (backup.end, backup.started_micros, &backup.id))
        else {
            return false;
        };
        let mut parent = chosen.parent.as_ref();
        while let Some(id) = parent {
            let Some(found) = self.backups.iter().find(|backup| backup.id == *id) else { return false };
            parent = found.parent.as_ref();
        }
        self.has_log(timeline, chosen.first, to)
    }
}

/// Places on a line, and when what lies there was archived.
fn moments(world: &World, timeline: TimelineId) -> Vec<(Lsn, i64)> {
    let history = world.histories.get(&timeline).cloned().unwrap_or_else(TimelineHistory::first);
    let places = world.segments.iter().filter_map(|((on, number), micros)| {
        let lsn = Lsn::new(number * SEGMENT + SEGMENT / 2);
        (history.timeline_at(lsn) == *on).then_some((lsn, *micros))
    });
    let ends = world.backups.iter().map(|backup| (backup.end, backup.ended_micros, backup.timeline));
    let ends =
        ends.filter(|(end, _, on)| history.timeline_at(*end) == *on).map(|(end, micros, _)| (end, micros));
    places.chain(ends).collect()
}

fn check(seed: u64, world: &World, policy: &RetentionPolicy, now: i64) -> usize {
    let what = format!("seed {seed}, {policy:?}");
    let inventory = world.inventory(now);
    let plan = plan(&inventory, policy, now, &BTreeSet::new());
    let before = Store::of(world);
    let mut after = before.clone();
    after.apply(&plan);

    // What the policy names.
    let mut by_age = world.backups.clone();
    by_age.sort_by_key(|backup| std::cmp::Reverse((backup.ended_micros, backup.id.clone())));
    let kept: BTreeSet<&str> = plan.kept.iter().map(|backup| backup.id.as_str()).collect();
    let count = usize::try_from(policy.keep_count.unwrap_or(0).max(1)).unwrap();
    for backup in by_age.iter().take(count) {
        assert!(kept.contains(backup.id.as_str()), "{what}: {} is one of the newest", backup.id);
    }
    let begin_of =
        |age: Option<Duration>| age.map_or(i64::MAX, |age| now - i64::try_from(age.as_micros()).unwrap());
    for backup in by_age.iter().filter(|backup| backup.ended_micros >= begin_of(policy.keep_age)) {
        assert!(kept.contains(backup.id.as_str()), "{what}: {} is young", backup.id);
    }
    // Every backup that stays, on its own timeline, to its own end.
    for backup in &after.backups {
        assert!(after.has_log(backup.timeline, backup.first, backup.end), "{what}: the log of {}", backup.id);
        let parent = backup.parent.as_ref();
        assert!(
            parent.is_none_or(|parent| kept.contains(parent.as_str())),
            "{what}: parent of {}",
            backup.id
        );
    }
    // Every moment of the window, on every timeline; without a window, whatever lies behind a backup that stays, on the timelines that it
    // stays for.
    let window = begin_of(policy.keep_window);
    let stays_for = |backup: &BackupDependencies, timeline: TimelineId| {
        let reasons = plan.kept.iter().filter(|kept| kept.id == backup.id).flat_map(|kept| &kept.reasons);
        reasons.into_iter().any(|reason| !matches!(reason, KeepReason::NewestOf(other) if *other != timeline))
    };
    for timeline in before.histories.keys().copied().chain([TimelineId::FIRST]) {
        let oldest = after
            .backups
            .iter()
            .filter(|backup| inventory.lineage.has(timeline, backup) && stays_for(backup, timeline))
            .map(|backup| backup.end)
            .min();
        for (lsn, micros) in moments(world, timeline) {
            let is_promised = match policy.keep_window {
                Some(_) => micros >= window,
                None => oldest.is_some_and(|oldest| oldest <= lsn),
            };
            if is_promised && before.restores(timeline, lsn) {
                assert!(after.restores(timeline, lsn), "{what}: timeline {timeline} to {lsn}");
            }
        }
    }
    // Backups that may be under way: those that are seen, and those that nobody can see yet.
    let keeps = |timeline, from, what: String| {
        let of_line = moments(world, timeline).into_iter().map(|(lsn, _)| lsn).filter(|lsn| *lsn >= from);
        let last = of_line.max().unwrap_or(from);
        assert!(!before.has_log(timeline, from, last) || after.has_log(timeline, from, last), "{what}");
    };
    for backup in inventory
        .unfinished
        .iter()
        .filter(|backup| backup.began_micros >= begin_of(Some(policy.keep_unfinished)))
    {
        keeps(backup.timeline, backup.first, format!("{what}: the log of {} under way", backup.id));
    }
    // What they may build on.
    for running in world.branches.iter().flat_map(|branch| &branch.running) {
        let age = now - running.started;
        let is_under_way = if running.is_seen || age > HOUR { age <= 7 * 24 * HOUR } else { true };
        if let Some(parent) = running.parent.as_deref().filter(|_| is_under_way) {
            assert!(kept.contains(parent), "{what}: {} builds on {parent}", running.id);
        }
    }
    for beginning in world.beginnings.iter().filter(|beginning| beginning.micros >= now - HOUR) {
        keeps(beginning.timeline, beginning.redo, format!("{what}: a backup that nobody sees"));
    }
    // What is on record covers what is missing, so far as it lies before log that stays.
    assert!(
        plan.removed_log.iter().all(|log| log.stretch.first <= log.stretch.last && !log.paths.is_empty())
    );

    // Once more: nothing is left to be done.
    let mut later = inventory.clone();
    later.backups.clone_from(&after.backups);
    later.unfinished.retain(|backup| plan.kept_unfinished.contains(&backup.id));
    for (timeline, log) in &mut later.log {
        log.files.retain(|file| after.segments.contains(&(*timeline, file.number)));
        log.newest_micros = log.files.last().map(|file| world.segments[&(*timeline, file.number)]);
    }
    let again = super::plan(&later, policy, now, &BTreeSet::new());
    assert!(again.is_empty(), "{what}: a second run finds {again:?}");
    plan.removed.len() + plan.removed_log.len()
}

#[test]
fn what_is_promised_restores_after_any_expiry_and_a_second_one_finds_nothing() {
    let mut removed = 0;
    for seed in seeds(600) {
        let mut world = World::new(seed);
        let steps = 10 + world.random.below(80);
        world.run(steps);
        for _ in 0..4 {
            let policy = world.policy();
            let now = world.micros + i64::try_from(world.random.below(50)).unwrap() * HOUR / 10;
            removed += check(seed, &world, &policy, now);
        }
    }
    assert!(removed > 500, "only {removed} things were removed in all");
}

fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

fn backup(id: &str, first: u64, end: u64, ended_hours: i64) -> BackupDependencies {
    BackupDependencies {
        id: id.to_owned(),
        system: SYSTEM,
        timeline: timeline(1),
        first: Lsn::new(first),
        end: Lsn::new(end),
        log_checksum: None,
        segment_bytes: SEGMENT,
        started_micros: ended_hours * HOUR - 1,
        ended_micros: ended_hours * HOUR,
        objects: Vec::new(),
        parent: None,
        cut_short: Vec::new(),
    }
}

/// One timeline with a segment an hour, 0 to 99, and backups.
fn one_timeline(backups: Vec<BackupDependencies>) -> Inventory {
    let files =
        (0..100).map(|number| StoredLogFile { number, path: path(timeline(1), number), is_whole: true });
    let log = TimelineLog { files: files.collect(), newest_micros: Some(99 * HOUR), begun_micros: None };
    Inventory {
        system: SYSTEM,
        segment_bytes: SEGMENT,
        backups,
        unfinished: Vec::new(),
        backup_objects: BTreeMap::new(),
        lineage: TimelineLineage::new(SEGMENT, [timeline(1)], BTreeMap::new()),
        log: [(timeline(1), log)].into(),
        gaps: Vec::new(),
    }
}

fn removed(plan: &RetentionPlan) -> (Vec<&str>, Vec<(u64, u64)>) {
    let backups = plan.removed.iter().map(|backup| backup.id.as_str()).collect();
    (backups, plan.removed_log.iter().map(|log| (log.stretch.first, log.stretch.last)).collect())
}

fn hours(count: u64) -> Option<Duration> {
    Some(Duration::from_secs(count * 3600))
}

fn three() -> Vec<BackupDependencies> {
    vec![backup("a", 1000, 1200, 12), backup("b", 4000, 4200, 42), backup("c", 7000, 7200, 72)]
}

#[test]
fn a_count_keeps_the_newest_backups_and_all_log_behind_them() {
    let inventory = one_timeline(three());
    let policy = RetentionPolicy { keep_count: Some(2), ..RetentionPolicy::default() };
    let plan = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&plan), (vec!["a"], vec![(0, 39)]));
    let reasons: Vec<_> = plan.kept.iter().map(|kept| (kept.id.as_str(), kept.reasons.clone())).collect();
    let (newest, count) = (KeepReason::Newest, KeepReason::Count);
    assert_eq!(reasons, [("b", vec![count(2)]), ("c", vec![newest, count(1)])]);
    assert!(plan.kept_log.iter().any(|log| log.reason == LogReason::After("b".to_owned())));
}

#[test]
fn a_window_keeps_the_backup_before_it_and_of_older_ones_their_own_log_only() {
    let inventory = one_timeline(three());
    let policy = RetentionPolicy { keep_window: hours(40), ..RetentionPolicy::default() };
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&found), (vec!["a"], vec![(0, 39)]), "the window begins at hour 59");
    let policy = RetentionPolicy { keep_count: Some(3), ..policy };
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&found), (vec![], vec![(0, 9), (13, 39)]));
    // No backup is older than the window: all log from the oldest on.
    let policy = RetentionPolicy { keep_window: hours(95), ..RetentionPolicy::default() };
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&found), (vec![], vec![(0, 9)]));
}

#[test]
fn an_age_keeps_young_backups_and_the_newest_stays_in_any_case() {
    let inventory = one_timeline(three());
    let policy = RetentionPolicy { keep_age: hours(57), ..RetentionPolicy::default() };
    assert_eq!(removed(&plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new())).0, ["a"]);
    let policy = RetentionPolicy { keep_age: hours(1), ..RetentionPolicy::default() };
    assert_eq!(
        removed(&plan(&inventory, &policy, 990 * HOUR, &BTreeSet::new())),
        (vec!["a", "b"], vec![(0, 69)])
    );
    let policy = RetentionPolicy { keep_count: Some(0), ..RetentionPolicy::default() };
    assert_eq!(removed(&plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new())).0, ["a", "b"]);
}

#[test]
fn the_log_of_a_backup_under_way_stays_whether_it_is_seen_or_not() {
    let policy = RetentionPolicy { keep_count: Some(1), ..RetentionPolicy::default() };
    // The newest backup began within the hour: another may have begun before it.
    let inventory = one_timeline(three());
    let found = plan(&inventory, &policy, 72 * HOUR + HOUR / 2, &BTreeSet::new());
    assert_eq!(removed(&found), (vec!["a"], vec![(0, 39)]), "an increment may build on b");
    // The first one there is.
    let found = plan(&one_timeline(vec![backup("a", 1000, 1200, 99)]), &policy, 99 * HOUR, &BTreeSet::new());
    assert!(found.is_empty(), "{found:?}");
    let mut inventory = one_timeline(three());
    let began_micros = 60 * HOUR;
    let slow = UnfinishedBackup {
        id: "s".to_owned(),
        timeline: timeline(1),
        first: Lsn::new(5500),
        began_micros,
        parent: None,
        cut_short: Vec::new(),
        is_unreadable: false,
        is_being_removed: false,
    };
    inventory.unfinished.push(slow);
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!((removed(&found), found.kept_unfinished.len()), ((vec!["a"], vec![(0, 39)]), 1));
    let mut older = inventory.clone();
    older.backups.remove(1);
    older.unfinished[0].began_micros = 10 * HOUR;
    let found = plan(&older, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&found), (vec!["a"], vec![(0, 54)]), "a had not ended when it began");
    // So long ago that it was given up.
    let found = plan(&inventory, &policy, 250 * HOUR, &BTreeSet::new());
    assert_eq!((removed(&found).1, found.removed_unfinished), (vec![(0, 69)], vec!["s".to_owned()]));
}

#[test]
fn without_a_backup_all_log_stays() {
    let policy = RetentionPolicy { keep_count: Some(1), keep_window: hours(1), ..RetentionPolicy::default() };
    let found = plan(&one_timeline(Vec::new()), &policy, 999 * HOUR, &BTreeSet::new());
    assert!(found.is_empty());
    assert_eq!(found.kept_log[0].reason, LogReason::NoBackup);
}

#[test]
fn what_a_backup_builds_on_stays_and_one_that_is_built_upon_goes_last() {
    let mut backups = three();
    backups[1].parent = Some("a".to_owned());
    backups[2].parent = Some("b".to_owned());
    backups.push(backup("d", 9000, 9100, 91));
    let inventory = one_timeline(backups);
    let policy = RetentionPolicy { keep_count: Some(2), ..RetentionPolicy::default() };
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&found), (vec![], vec![(0, 9)]));
    assert_eq!(found.kept[0].reasons, [KeepReason::NeededBy("b".to_owned())]);
    let policy = RetentionPolicy { keep_count: Some(1), ..RetentionPolicy::default() };
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&found).0, ["c", "b", "a"]);
    // One that the store does not let go keeps what it builds on.
    let found = plan(&inventory, &policy, 99 * HOUR, &["b".to_owned()].into());
    assert_eq!(removed(&found), (vec!["c"], vec![(0, 9)]));
}

#[test]
fn records_of_gaps_go_when_nothing_lies_before_them() {
    let mut inventory = one_timeline(three());
    let gap = |first, last| {
        let place = |digits| SegmentPlace { timeline: timeline(1), digits };
        Gap { first: place(first), last: place(last) }
    };
    inventory.segment_bytes = 16 << 20;
    inventory.gaps = vec![gap(20, 22), gap(38, 39), gap(50, 51)];
    let policy = RetentionPolicy { keep_count: Some(2), ..RetentionPolicy::default() };
    let found = plan(&inventory, &policy, 99 * HOUR, &BTreeSet::new());
    assert_eq!(found.removed_gaps, [gap(20, 22), gap(38, 39)]);
}

/// Timeline 2 left timeline 1 long after the last of that was archived.
#[test]
fn a_timeline_that_stood_idle_is_in_use_until_another_leaves_it() {
    let mut inventory = idle_and_left(50 * HOUR);
    let hours = |hours: u64| Duration::from_secs(3600 * hours);
    let policy = RetentionPolicy {
        keep_window: Some(hours(60)),
        keep_unfinished: hours(1),
        ..RetentionPolicy::default()
    };
    let goes = |inventory: &Inventory| {
        let plan = plan(inventory, &policy, 100 * HOUR, &BTreeSet::new());
        let log = plan.removed_log.iter().filter(|log| log.stretch.timeline == timeline(1));
        (plan.removed.iter().any(|backup| backup.id == "a"), log.map(|log| log.stretch.last).max())
    };
    // A restore to a moment in the window before timeline 2 began needs all from the last backup of timeline 1 on.
    assert_eq!(goes(&inventory), (false, Some(24)));
    // In all of the window, timeline 2 was in use.
    inventory.log.get_mut(&timeline(2)).unwrap().begun_micros = Some(30 * HOUR);
    assert_eq!(goes(&inventory), (true, Some(34)));
}

/// Timeline 1 has segments 0 to 34, the last of 35 h, and a backup of 30 h in segment 25; timeline 2 left it in segment 20, and has a
/// backup of 95 h.
fn idle_and_left(begun_micros: i64) -> Inventory {
    let (first, second) = (timeline(1), timeline(2));
    let fork = Lsn::new(20 * SEGMENT + 5);
    let history = TimelineHistory::first().fork(second, fork, TimelineMark::NONE, "");
    let files = |on: TimelineId, numbers: std::ops::Range<u64>| -> Vec<StoredLogFile> {
        numbers.map(|number| StoredLogFile { number, path: path(on, number), is_whole: true }).collect()
    };
    let of_first =
        TimelineLog { files: files(first, 0..35), newest_micros: Some(35 * HOUR), begun_micros: None };
    let of_second = TimelineLog {
        files: files(second, 20..40),
        newest_micros: Some(99 * HOUR),
        begun_micros: Some(begun_micros),
    };
    let log: BTreeMap<TimelineId, TimelineLog> = [(first, of_first), (second, of_second)].into();
    let on_second = BackupDependencies { timeline: second, ..backup("b", 30 * SEGMENT, 31 * SEGMENT, 95) };
    Inventory {
        system: SYSTEM,
        segment_bytes: SEGMENT,
        backups: vec![backup("a", 25 * SEGMENT, 26 * SEGMENT, 30), on_second],
        unfinished: Vec::new(),
        backup_objects: BTreeMap::new(),
        lineage: TimelineLineage::new(SEGMENT, log.keys().copied(), [(second, history)].into()),
        log,
        gaps: Vec::new(),
    }
}

/// Production on timeline 1, and on timeline 2 the copy of a trial that is backed up, too, and more often.
#[test]
fn backups_of_a_trial_do_not_crowd_out_the_newest_of_production() {
    let mut inventory = idle_and_left(50 * HOUR);
    inventory.system = System::PostgreSql(1);
    inventory.log.get_mut(&timeline(1)).unwrap().newest_micros = Some(99 * HOUR);
    inventory
        .backups
        .push(BackupDependencies { timeline: timeline(2), ..backup("c", 32 * SEGMENT, 33 * SEGMENT, 98) });
    let policy = RetentionPolicy { keep_count: Some(2), ..RetentionPolicy::default() };
    let plan = plan(&inventory, &policy, 100 * HOUR, &BTreeSet::new());
    assert!(plan.removed.is_empty(), "{:?}", plan.removed);
    let of_first = plan.removed_log.iter().filter(|log| log.stretch.timeline == timeline(1));
    assert_eq!(of_first.map(|log| log.stretch.last).max(), Some(24), "the log from its backup on stays");
    let kept = plan.kept.iter().find(|kept| kept.id == "a").unwrap();
    assert_eq!(kept.reasons, [KeepReason::NewestOf(timeline(1))]);
}

/// The copy of a trial that was forgotten: nobody has left it, so it may be in use, and what it was restored from stays.
#[test]
fn what_is_kept_for_a_timeline_keeps_the_log_of_that_timeline_only() {
    let mut inventory = idle_and_left(21 * HOUR);
    inventory.system = System::PostgreSql(1);
    let of_first = inventory.log.get_mut(&timeline(1)).unwrap();
    of_first.newest_micros = Some(990 * HOUR);
    of_first.files = (0..900)
        .map(|number| StoredLogFile { number, path: path(timeline(1), number), is_whole: true })
        .collect();
    inventory.log.get_mut(&timeline(2)).unwrap().newest_micros = Some(22 * HOUR);
    inventory.backups = vec![
        backup("old", 1500, 1600, 16),
        backup("gone", 40_000, 40_100, 400),
        backup("new", 80_000, 80_100, 800),
    ];
    let policy = RetentionPolicy { keep_count: Some(1), ..RetentionPolicy::default() };
    let plan = plan(&inventory, &policy, 1000 * HOUR, &BTreeSet::new());
    assert_eq!(removed(&plan), (vec!["gone"], vec![(0, 14), (21, 799)]));
}
