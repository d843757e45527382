//! Carrying out what was planned, in the order that the parent module gives.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::{Gap, GapRecord, NotRemoved, Repository, SegmentPlace, StoredName, System};
use seawall_io::Clock;
use seawall_types::utc;

use super::plan::{is_before_all, plan};
use super::{CLOCKS_DIFFER_MAX, RETENTION_REASON, RemovedLog, RetentionPlan, RetentionPolicy};
use crate::error::BackupError;
use crate::inventory::{Inventory, UnfinishedBackup};
use crate::object_names;
use crate::removal_mark::RemovalMark;

/// Why nothing more was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpireError {
    /// The repository did not do what was asked, or something in it is damaged.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The policy names nothing that is to be kept.
    #[error(
        "no policy is given: say how many backups, how old ones, or which window is to be kept; nothing was removed"
    )]
    NoPolicy,
    /// A backup that was taken for given up has ended.
    #[error(
        "the backup {id} was taken for given up, since it began long ago, and has ended meanwhile: nothing was removed; run it again"
    )]
    EndedMeanwhile {
        /// The backup.
        id: String,
    },
    /// The clock, or that of another machine, is wrong.
    #[error(
        "the clock of this machine says {}, and something in the repository was made at {}, {} s later: one of the clocks is wrong, \
         and ages mean nothing; nothing was removed",
        utc(*now_micros),
        utc(*newest_micros),
        newest_micros.saturating_sub(*now_micros) / 1_000_000
    )]
    Clock {
        /// Here, in microseconds since 1970.
        now_micros: i64,
        /// The newest that is in the repository.
        newest_micros: i64,
    },
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireProgress {
    /// Objects that are done with.
    pub done: u64,
    /// All that the plan removes.
    pub total: u64,
}

/// What was removed.
#[derive(Clone, Debug, Default)]
pub struct ExpireReport {
    /// What was carried out: the plan that was shown, or the one that was made anew because something is locked.
    pub plan: RetentionPlan,
    /// Objects removed, manifests and gaps among them.
    pub removed: u64,
    /// Those that the store did not let go.
    pub not_removed: Vec<NotRemoved>,
}

/// A plan, with what it was made from.
#[derive(Debug)]
pub struct Expiry {
    repository: Arc<Repository>,
    inventory: Inventory,
    policy: RetentionPolicy,
    now_micros: i64,
    plan: RetentionPlan,
}

impl Expiry {
    /// Looks at what there is of a system, and plans what goes. Nothing is changed.
    ///
    /// # Errors
    /// `NoPolicy`, `Clock`, and what the repository says: whatever cannot be read might need what would be removed.
    pub fn prepare(
        repository: Arc<Repository>,
        system: System,
        policy: RetentionPolicy,
        clock: &dyn Clock,
    ) -> Result<Expiry, ExpireError> {
        if policy.is_empty() {
            return Err(ExpireError::NoPolicy);
        }
        // Before the listing: what is not in it began later than this less an hour.
        let now_micros = clock.wall_micros();
        let inventory = Inventory::read(&repository, system)?;
        check_clock(&inventory, now_micros)?;
        let plan = plan(&inventory, &policy, now_micros, &BTreeSet::new());
        Ok(Expiry { repository, inventory, policy, now_micros, plan })
    }

    /// What goes, and why the rest stays.
    pub fn plan(&self) -> &RetentionPlan {
        &self.plan
    }

    /// What there is.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Removes what was planned. What the store does not let go is reported; the rest goes.
    ///
    /// # Errors
    /// What the repository says. Whatever was removed until then, the repository is as the module says; it may be run again.
    pub fn run(self, progress: &mut dyn FnMut(ExpireProgress)) -> Result<ExpireReport, ExpireError> {
        let mut run = Run { expiry: &self, report: ExpireReport::default(), total: self.objects(), progress };
        run.give_up_unfinished()?;
        run.report.plan = run.remove_manifests()?;
        let plan = run.report.plan.clone();
        let removed = plan.removed.iter().map(|backup| &backup.id);
        let going: Vec<&String> = removed.chain(&plan.removed_unfinished).collect();
        let objects: Vec<String> = going.iter().flat_map(|id| self.objects_of(id)).collect();
        run.remove(&objects)?;
        let gaps = run.record_gaps(&plan.removed_log)?;
        for log in &plan.removed_log {
            run.remove(&log.paths)?;
        }
        run.remove_gaps(&plan, &gaps)?;
        // Until now, they say whose log is missing.
        run.remove_marks(&going)?;
        Ok(run.report)
    }

    /// Paths of the objects of a backup, but for its manifest and the mark of its removal.
    fn objects_of(&self, id: &str) -> Vec<String> {
        let mark = mark_path(self.inventory.system, id);
        let objects = self.inventory.backup_objects.get(id).into_iter().flatten();
        objects.filter(|path| **path != mark).cloned().collect()
    }

    fn objects(&self) -> u64 {
        let plan = &self.plan;
        let backups: usize = plan.removed.iter().map(|backup| 1 + self.objects_of(&backup.id).len()).sum();
        let unfinished: usize = plan.removed_unfinished.iter().map(|id| self.objects_of(id).len()).sum();
        let log: usize = plan.removed_log.iter().map(|log| log.paths.len()).sum();
        (backups + unfinished + log + plan.removed_gaps.len()) as u64
    }
}

fn check_clock(inventory: &Inventory, now_micros: i64) -> Result<(), ExpireError> {
    let backups = inventory.backups.iter().map(|backup| backup.ended_micros);
    let unfinished = inventory.unfinished.iter().map(|backup| backup.began_micros);
    let log = inventory.log.values().filter_map(|log| log.newest_micros);
    let newest_micros = backups.chain(unfinished).chain(log).max().unwrap_or(i64::MIN);
    let tolerance = i64::try_from(CLOCKS_DIFFER_MAX.as_micros()).expect("minutes");
    if newest_micros > now_micros.saturating_add(tolerance) {
        return Err(ExpireError::Clock { now_micros, newest_micros });
    }
    Ok(())
}

struct Run<'a> {
    expiry: &'a Expiry,
    report: ExpireReport,
    total: u64,
    progress: &'a mut dyn FnMut(ExpireProgress),
}

impl Run<'_> {
    fn remove(&mut self, paths: &[String]) -> Result<Vec<NotRemoved>, ExpireError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let left = self.expiry.repository.remove_stored(paths).map_err(BackupError::from)?;
        self.report.removed += (paths.len() - left.len()) as u64;
        self.report.not_removed.extend(left.iter().cloned());
        (self.progress)(ExpireProgress { done: self.report.removed, total: self.total });
        Ok(left)
    }

    /// Says of each backup that has not ended and goes that it does. One that has ended since is somebody's.
    fn give_up_unfinished(&self) -> Result<(), ExpireError> {
        let Expiry { repository, inventory, now_micros, plan, .. } = self.expiry;
        let going = |backup: &&UnfinishedBackup| plan.removed_unfinished.contains(&backup.id);
        for backup in inventory.unfinished.iter().filter(going) {
            let UnfinishedBackup { id, timeline, first, is_being_removed, .. } = backup;
            if !is_being_removed {
                let mark = RemovalMark { timeline: *timeline, first: *first, end: None };
                mark.put(repository, inventory.system, id, *now_micros)?;
            }
            // After the mark: see there.
            let manifest = manifest_path(inventory.system, id);
            if repository.is_there(&manifest).map_err(BackupError::from)? {
                return Err(ExpireError::EndedMeanwhile { id: id.clone() });
            }
        }
        Ok(())
    }

    /// Before the manifest of a backup goes, it is on record that what is left of it goes, too.
    fn mark_removed(&self, ids: &[String]) -> Result<(), ExpireError> {
        let Expiry { repository, inventory, now_micros, .. } = self.expiry;
        for backup in inventory.backups.iter().filter(|backup| ids.contains(&backup.id)) {
            let mark = RemovalMark { timeline: backup.timeline, first: backup.first, end: Some(backup.end) };
            mark.put(repository, inventory.system, &backup.id, *now_micros)?;
        }
        Ok(())
    }

    /// Nothing is left of these backups. One that has ended meanwhile has put a manifest, which goes, or keeps its mark.
    fn remove_marks(&mut self, ids: &[&String]) -> Result<(), ExpireError> {
        let system = self.expiry.inventory.system;
        let mut manifests = Vec::new();
        for path in ids.iter().map(|id| manifest_path(system, id)) {
            if self.expiry.repository.is_there(&path).map_err(BackupError::from)? {
                manifests.push(path);
            }
        }
        self.remove(&manifests)?;
        let is_left = |id: &str| {
            let mut objects = self.expiry.objects_of(id);
            objects.push(manifest_path(system, id));
            self.report.not_removed.iter().any(|not_removed| objects.contains(&not_removed.path))
        };
        let gone = ids.iter().filter(|id| !is_left(id));
        let paths: Vec<String> = gone.map(|id| mark_path(self.expiry.inventory.system, id)).collect();
        let left = self.expiry.repository.remove_stored(&paths).map_err(BackupError::from)?;
        self.report.not_removed.extend(left);
        Ok(())
    }

    /// Those that build on most first. If the store keeps one, the plan is made anew with it. Returns what is left to be done.
    fn remove_manifests(&mut self) -> Result<RetentionPlan, ExpireError> {
        let Expiry { inventory, policy, now_micros, .. } = self.expiry;
        let mut plan_now = self.expiry.plan.clone();
        let (mut gone, mut locked) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let waiting: Vec<_> =
                plan_now.removed.iter().filter(|backup| !gone.contains(&backup.id)).collect();
            let Some(depth) = waiting.iter().map(|backup| backup.depth).max() else { return Ok(plan_now) };
            let ids: Vec<String> = waiting
                .iter()
                .filter(|backup| backup.depth == depth)
                .map(|backup| backup.id.clone())
                .collect();
            let paths: Vec<String> = ids.iter().map(|id| manifest_path(inventory.system, id)).collect();
            self.mark_removed(&ids)?;
            let left = self.remove(&paths)?;
            let is_left = |path: &String| left.iter().any(|not_removed| not_removed.path == *path);
            let (kept, removed): (Vec<_>, Vec<_>) =
                ids.into_iter().zip(&paths).partition(|(_, path)| is_left(path));
            gone.extend(removed.into_iter().map(|(id, _)| id));
            if !kept.is_empty() {
                locked.extend(kept.into_iter().map(|(id, _)| id));
                plan_now = plan(inventory, policy, *now_micros, &locked);
            }
        }
    }

    /// Puts on record what is to be missing.
    fn record_gaps(&self, removed: &[RemovedLog]) -> Result<Vec<Gap>, ExpireError> {
        let Expiry { repository, inventory, now_micros, .. } = self.expiry;
        let numbers = inventory.numbers();
        let place = |log: &RemovedLog, number| SegmentPlace {
            timeline: log.stretch.timeline,
            digits: numbers.digits(number),
        };
        let mut gaps = Vec::new();
        for log in removed {
            let gap = Gap { first: place(log, log.stretch.first), last: place(log, log.stretch.last) };
            let reason = RETENTION_REASON.to_owned();
            let record = GapRecord { gap, noticed_micros: *now_micros, reason };
            repository.record_gap(inventory.system, &record).map_err(BackupError::from)?;
            gaps.push(gap);
        }
        Ok(gaps)
    }

    /// Removes the records of gaps that lie before all that is left.
    fn remove_gaps(&mut self, plan: &RetentionPlan, recorded: &[Gap]) -> Result<(), ExpireError> {
        let inventory = &self.expiry.inventory;
        let locked: BTreeSet<&str> =
            self.report.not_removed.iter().map(|not_removed| not_removed.path.as_str()).collect();
        let gone: BTreeSet<&str> = plan
            .removed_log
            .iter()
            .flat_map(|log| &log.paths)
            .map(String::as_str)
            .filter(|path| !locked.contains(path))
            .collect();
        let is_left = |path: &str| !gone.contains(path);
        let gaps: BTreeSet<Gap> = inventory.gaps.iter().chain(recorded).copied().collect();
        let going = gaps.into_iter().filter(|gap| is_before_all(inventory, *gap, &is_left));
        let paths: Vec<String> =
            going.filter_map(|gap| StoredName::Gap(inventory.system, gap).path()).collect();
        self.remove(&paths).map(drop)
    }
}

fn mark_path(system: System, id: &str) -> String {
    StoredName::Object(system, object_names::removal_mark(id)).path().expect("objects have a path")
}

fn manifest_path(system: System, id: &str) -> String {
    let name = object_names::manifest(id).expect("the manifest was read by this name");
    StoredName::Object(system, name).path().expect("objects have a path")
}
