//! Retention: which backups and which log go, and why the others stay.
//!
//! ```text
//!   Inventory, policy, now --plan--> RetentionPlan --expire--> 1 manifests   2 objects of backups   3 gaps on record
//!             (a function of values)                          4 log, oldest first   5 records of gaps that lie before all log
//!                                        marks of removal (`removal_mark`) before 1, and after 5
//! ```
//! **What stays.** Backups: those that the policy names, those that they build on, and always the newest. Log: from the first byte
//! that a backup which stays needs, on every timeline that can be reached from it. With a window, all of that is kept for the newest
//! backup that ended before the window begins, on each line that has moments in the window; of an older backup only its own
//! log, from its redo point to its end. Histories always stay.
//!
//! **What is in the repository if the power goes** at any moment: nothing that looks restorable and is not, and nothing missing that
//! is not on record.
//! * A manifest goes first, that of a backup before that of one it builds on, durably: what loses its objects or its log later has no
//!   manifest. One that the store does not let go keeps all it needs: the plan is made anew with it. What is left of a backup without its
//!   manifest has a mark that tells it from a backup under way.
//! * Before any log goes, the stretch that goes is on record as a gap, "removed by retention": a segment that is missing then is told
//!   from one that was lost. Records that lie before all log of their timeline have nothing to tell any more and go last.
//! * Nothing else is written. Whoever runs it again after a crash ends where one run would have.
//!
//! **Who may be at work meanwhile.**
//! * *Archivers* put what is newer than all there is. One that puts an old segment once more, since it did not hear that it was
//!   archived, brings back what the next run removes.
//! * *Backups under way* have no manifest, and need log. Let the listing be made at L. One that has put an object before L is in the
//!   listing; its objects say where its log begins, and that is kept (and its objects are, for as long as
//!   [`RetentionPolicy::keep_unfinished`] says). One that has put nothing before L began later than L less an hour
//!   ([`RetentionPolicy::keep_recent`]: a backup puts its first object as soon as it has begun; the difference of two clocks
//!   counts, too).
//!   Redo points never move back on a line. So its log begins at or behind that of any backup of its line that began before L less
//!   an hour, complete as it may be: for each timeline that is in use, all log from the newest such backup on is kept, whether
//!   that backup itself is or not, and all there is if there is no such backup. A backup that begins after L begins still later.
//!   A backup of a standby that is far behind may begin before such a backup: before its manifest goes up it is looked whether its
//!   log is all there, and it fails.
//! * *Increments under way* build on the newest backup of their timeline that they have found when they began. It may have been
//!   replaced since. So what was the newest at a moment when one may have looked stays, an hour more or less, since a backup ends
//!   a while before its manifest is there.
//! * *Restores* read a backup that may go under their hands. They fail with the name of the object, leave their marker, and choose
//!   another backup when they are run again.
//! * *Another expiry*: what is gone already is fine to both.
//!
//! What was cut short and resumed stays as long as a backup that stays, or one under way that does, names it as a part of it.
//! Another that goes on with it may have begun when the listing had been made: it names what it goes on with before anything else,
//! takes none that may be given up soon, and looks once more before its manifest goes up (`resume`).
//!
//! A backup that is under way for longer than `keep_unfinished` is taken for one that was given up, and its objects go. If it ends
//! meanwhile, it or the expiry sees the other (`removal_mark`).
//!
//! The clock: ages are those that backups and objects have written down. A clock that is before the newest of them is wrong, or they
//! are: nothing is removed. One that is ahead makes everything look old; the newest backup and its log stay in any case.

mod expire;
mod plan;
#[cfg(test)]
mod tests;

use std::time::Duration;

use seawall_archive::Gap;
use seawall_types::TimelineId;

use crate::lineage::LogStretch;

pub use expire::{ExpireError, ExpireProgress, ExpireReport, Expiry};
pub use plan::plan;

/// Clocks differ.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(300);
/// What is written into the record of a gap that retention leaves.
pub const RETENTION_REASON: &str = "removed by retention";

/// What is to be kept. Whatever one of the fields names is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// So many backups, the newest ones.
    pub keep_count: Option<u64>,
    /// Backups that ended within this time.
    pub keep_age: Option<Duration>,
    /// What a restore to any moment of this time needs.
    pub keep_window: Option<Duration>,
    /// Backups without a manifest that began within this time: they may be under way. Default a week.
    pub keep_unfinished: Duration,
    /// What a backup may need that began within this time and has put nothing yet. Default an hour.
    pub keep_recent: Duration,
}

impl Default for RetentionPolicy {
    fn default() -> RetentionPolicy {
        RetentionPolicy {
            keep_count: None,
            keep_age: None,
            keep_window: None,
            keep_unfinished: Duration::from_secs(7 * 86_400),
            keep_recent: Duration::from_secs(3600),
        }
    }
}

impl RetentionPolicy {
    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.keep_count.is_none() && self.keep_age.is_none() && self.keep_window.is_none()
    }
}

/// Why a backup stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepReason {
    /// It is the newest.
    Newest,
    /// It is one of so many newest ones: which.
    Count(u64),
    /// It is not older than the age given.
    Age,
    /// It ended within the window.
    Window,
    /// Restores to the beginning of the window start with it.
    WindowStart,
    /// It is the newest that a restore along this timeline, which is in use, can start with. Only where nothing else keeps it.
    NewestOf(TimelineId),
    /// That backup builds on it.
    NeededBy(String),
    /// An increment that is under way may build on it.
    UnderWay,
    /// The store does not let its manifest go.
    Locked,
}

/// A backup that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBackup {
    /// Its name.
    pub id: String,
    /// Why.
    pub reasons: Vec<KeepReason>,
}

/// Why a stretch of the log stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogReason {
    /// A restore of this backup needs it.
    Backup(String),
    /// A restore to a moment after this backup needs it.
    After(String),
    /// This backup, which has no manifest yet, will need it.
    UnderWay(String),
    /// A backup may have begun that has put nothing yet.
    Unseen,
    /// There is no backup that has ended, so nothing tells what is needed.
    NoBackup,
}

/// A stretch of the log that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLog {
    /// Which segments.
    pub stretch: LogStretch,
    /// Why.
    pub reason: LogReason,
}

/// A backup that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedBackup {
    /// Its name.
    pub id: String,
    /// How many backups it builds on, one on the other. Those with the highest number go first.
    pub depth: usize,
}

/// A stretch of the log that goes, as far as it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedLog {
    /// From its first segment that is there to its last.
    pub stretch: LogStretch,
    /// Paths of its files, oldest first.
    pub paths: Vec<String>,
}

/// What goes, and why the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// Backups that stay, oldest first.
    pub kept: Vec<KeptBackup>,
    /// Backups without a manifest that may be under way, or are a part of another that stays.
    pub kept_unfinished: Vec<String>,
    /// Log that stays. Stretches overlap where there are several reasons.
    pub kept_log: Vec<KeptLog>,
    /// Backups that go, in the order of their manifests' going.
    pub removed: Vec<RemovedBackup>,
    /// Backups without a manifest that were given up.
    pub removed_unfinished: Vec<String>,
    /// Log that goes.
    pub removed_log: Vec<RemovedLog>,
    /// Gaps on record that lie before all log of their timeline that stays.
    pub removed_gaps: Vec<Gap>,
}

impl RetentionPlan {
    /// Whether nothing goes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
            && self.removed_unfinished.is_empty()
            && self.removed_log.is_empty()
            && self.removed_gaps.is_empty()
    }
}
