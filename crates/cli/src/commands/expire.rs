//! `expire`.

use std::sync::Arc;

use seawall_archive::{Repository, SegmentPlace, TimelineId};
use seawall_backup::{
    ExpireError, ExpireReport, Expiry, Inventory, KeepReason, KeptLog, LogReason, LogStretch, RetentionPlan,
    RetentionPolicy,
};
use seawall_io::SystemClock;
use serde_json::{Value, json};

use super::backup::open_repositories;
use crate::arguments::{ExpireArguments, Shared};
use crate::failure::Failure;
use crate::output::{Output, grouped};
use crate::progress;

pub(crate) fn expire(
    shared: &Shared,
    arguments: &ExpireArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let policy = policy(shared, arguments);
    if policy.is_empty() {
        return Err(ExpireError::NoPolicy.into());
    }
    let mut not_removed = 0;
    let mut failed = None;
    for repository in open_repositories(shared, &arguments.repository)? {
        let systems = match arguments.system {
            Some(system) => vec![system],
            None => repository.systems()?,
        };
        for system in systems {
            let expiry = Expiry::prepare(Arc::clone(&repository), system, policy, &SystemClock);
            let expired = match expiry {
                Ok(expiry) => expire_one(&repository, expiry, arguments, output)?,
                Err(error) => Err(error),
            };
            match expired {
                Ok(count) => not_removed += count,
                Err(error) => {
                    // The others fill the store, too.
                    output.warn(format_args!("{system} in {} was not expired: {error}", repository.url()));
                    failed = failed.or(Some(error));
                }
            }
        }
    }
    match (failed, not_removed) {
        (Some(error), _) => Err(error.into()),
        (None, 0) => Ok(()),
        (None, count) => {
            let count = grouped(count);
            Err(Failure::Broken(format!(
                "the store did not let {count} objects go, see above; all else was done"
            )))
        }
    }
}

/// Each of its parts by itself: given, or else set. What is set beside what is given keeps more, and removes nothing more.
fn policy(shared: &Shared, arguments: &ExpireArguments) -> RetentionPolicy {
    let set = |path| shared.settings.time(path);
    let has_default = "the setting has a default";
    RetentionPolicy {
        keep_count: arguments.keep_count.or_else(|| shared.settings.get("expire.keep_count")),
        keep_age: arguments.keep_age.or_else(|| set("expire.keep_age")),
        keep_window: arguments.keep_window.or_else(|| set("expire.keep_window")),
        keep_unfinished: arguments
            .keep_unfinished
            .or_else(|| set("expire.keep_unfinished"))
            .expect(has_default),
        keep_recent: arguments.keep_recent.or_else(|| set("expire.keep_recent")).expect(has_default),
    }
}

/// How many objects the store did not let go, or why the system cannot be expired. Fails if that cannot be told.
fn expire_one(
    repository: &Repository,
    expiry: Expiry,
    arguments: &ExpireArguments,
    output: &mut Output,
) -> Result<Result<u64, ExpireError>, Failure> {
    let inventory = expiry.inventory().clone();
    let planned =
        if output.json() { Ok(()) } else { tell_plan(repository, expiry.plan(), &inventory, output) };
    if arguments.dry_run {
        planned?;
        let plan = expiry.plan();
        if output.json() {
            output.line(plan_json(repository, plan, &inventory, None))?;
        } else {
            let text = if plan.is_empty() { "nothing would go" } else { "nothing was changed" };
            output.line(format_args!("  {text}"))?;
        }
        return Ok(Ok(0));
    }
    planned.and_then(|()| output.flush()).map_err(not_told)?;
    let bar = progress::rows("removing");
    let report = expiry.run(&mut |step| bar.set_position(step.done));
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(error) => return Ok(Err(error)),
    };
    output.note_done();
    if output.json() {
        output.line(plan_json(repository, &report.plan, &inventory, Some(&report)))?;
    } else {
        for left in &report.not_removed {
            output.line(format_args!("  NOT REMOVED: {}", left.error))?;
        }
        output.line(format_args!("  removed {} objects", grouped(report.removed)))?;
    }
    Ok(Ok(report.not_removed.len() as u64))
}

/// A reader who has gone away has not seen what would be removed, and exit code 0 would say that it was.
fn not_told(failure: Failure) -> Failure {
    match failure {
        Failure::OutputClosed => Failure::Broken(
            "nothing was removed: standard output was closed before it took what was to be removed"
                .to_owned(),
        ),
        other => other,
    }
}

fn tell_plan(
    repository: &Repository,
    plan: &RetentionPlan,
    inventory: &Inventory,
    output: &mut Output,
) -> Result<(), Failure> {
    output.line(format_args!("{}, {}", repository.url(), inventory.system))?;
    plan_text(plan, inventory, output)
}

fn plan_text(plan: &RetentionPlan, inventory: &Inventory, output: &mut Output) -> Result<(), Failure> {
    for backup in &plan.kept {
        let reasons: Vec<String> = backup.reasons.iter().map(reason_text).collect();
        output.line(format_args!("  keep    backup {}: {}", backup.id, reasons.join("; ")))?;
    }
    for id in &plan.kept_unfinished {
        output.line(format_args!("  keep    backup {id}: it has not ended, and may be under way"))?;
    }
    for (first, last, log) in kept_log(plan, inventory) {
        output.line(format_args!("  keep    log {first} to {last}: {}", log_reason_text(&log.reason)))?;
    }
    for backup in &plan.removed {
        output.line(format_args!("  remove  backup {}", backup.id))?;
    }
    for id in &plan.removed_unfinished {
        output.line(format_args!("  remove  backup {id}: it has not ended, and was given up"))?;
    }
    for log in &plan.removed_log {
        let (first, last) = names(inventory, log.stretch);
        let files = grouped(log.paths.len() as u64);
        output.line(format_args!("  remove  log {first} to {last}: {files} files"))?;
    }
    Ok(())
}

fn reason_text(reason: &KeepReason) -> String {
    match reason {
        KeepReason::Newest => "the newest".to_owned(),
        KeepReason::Count(rank) => format!("number {rank} of those to be kept"),
        KeepReason::Age => "not older than the age to be kept".to_owned(),
        KeepReason::Window => "within the window".to_owned(),
        KeepReason::WindowStart => "restores to the beginning of the window start with it".to_owned(),
        KeepReason::NewestOf(timeline) => {
            format!("the newest that restores along timeline {timeline} start with")
        }
        KeepReason::NeededBy(id) => format!("{id} builds on it"),
        KeepReason::UnderWay => "an increment that has not ended may build on it".to_owned(),
        KeepReason::Locked => "the store does not let it go".to_owned(),
    }
}

fn reason_word(reason: &KeepReason) -> String {
    match reason {
        KeepReason::Newest => "newest".to_owned(),
        KeepReason::Count(_) => "count".to_owned(),
        KeepReason::Age => "age".to_owned(),
        KeepReason::Window => "window".to_owned(),
        KeepReason::WindowStart => "window_start".to_owned(),
        KeepReason::NewestOf(timeline) => format!("newest_of {timeline}"),
        KeepReason::NeededBy(id) => format!("needed_by {id}"),
        KeepReason::UnderWay => "under_way".to_owned(),
        KeepReason::Locked => "locked".to_owned(),
    }
}

fn log_reason_text(reason: &LogReason) -> String {
    match reason {
        LogReason::Backup(id) => format!("{id} cannot do without it"),
        LogReason::After(id) => format!("for restores from {id} on"),
        LogReason::UnderWay(id) => format!("{id}, which has not ended, will need it"),
        LogReason::Unseen => "a backup that has just begun may need it".to_owned(),
        LogReason::NoBackup => "no backup here says what is needed".to_owned(),
    }
}

/// Stretches of log that stay and are there, for each timeline, without those that lie within another.
fn kept_log<'a>(
    plan: &'a RetentionPlan,
    inventory: &Inventory,
) -> Vec<(SegmentPlace, SegmentPlace, &'a KeptLog)> {
    let mut shown = Vec::new();
    for (timeline, log) in &inventory.log {
        let (Some(oldest), Some(newest)) = (log.files.first(), log.files.last()) else { continue };
        let mut kept: Vec<&KeptLog> =
            plan.kept_log.iter().filter(|kept| kept.stretch.timeline == *timeline).collect();
        kept.sort_by_key(|kept| (kept.stretch.first, std::cmp::Reverse(kept.stretch.last)));
        let mut reached = None;
        for log in kept {
            let first = log.stretch.first.max(oldest.number);
            let last = log.stretch.last.min(newest.number);
            if first > last || reached.is_some_and(|reached| last <= reached) {
                continue;
            }
            reached = Some(last);
            let (first, last) = names(inventory, LogStretch { timeline: *timeline, first, last });
            shown.push((first, last, log));
        }
    }
    shown
}

fn names(inventory: &Inventory, stretch: LogStretch) -> (SegmentPlace, SegmentPlace) {
    let numbers = inventory.numbers();
    let timeline: TimelineId = stretch.timeline;
    let place = |number| SegmentPlace { timeline, digits: numbers.digits(number) };
    (place(stretch.first), place(stretch.last))
}

fn plan_json(
    repository: &Repository,
    plan: &RetentionPlan,
    inventory: &Inventory,
    report: Option<&ExpireReport>,
) -> Value {
    let kept = plan.kept.iter().map(|backup| {
        let reasons: Vec<String> = backup.reasons.iter().map(reason_word).collect();
        json!({ "backup": backup.id, "reasons": reasons })
    });
    let removed_log = plan.removed_log.iter().map(|log| {
        let (first, last) = names(inventory, log.stretch);
        json!({ "first": first.to_string(), "last": last.to_string(), "files": log.paths.len() })
    });
    let kept_log = kept_log(plan, inventory);
    let kept_log = kept_log.iter().map(|(first, last, log)| {
        json!({ "first": first.to_string(), "last": last.to_string(), "reason": log_reason_text(&log.reason) })
    });
    let not_removed = report.into_iter().flat_map(|report| &report.not_removed);
    json!({
        "repository": repository.url(),
        "system": inventory.system.to_string(),
        "dry_run": report.is_none(),
        "kept": kept.collect::<Vec<_>>(),
        "kept_unfinished": plan.kept_unfinished,
        "kept_log": kept_log.collect::<Vec<_>>(),
        "removed": plan.removed.iter().map(|backup| backup.id.as_str()).collect::<Vec<_>>(),
        "removed_unfinished": plan.removed_unfinished,
        "removed_log": removed_log.collect::<Vec<_>>(),
        "removed_objects": report.map_or(0, |report| report.removed),
        "not_removed": not_removed.map(|left| left.error.to_string()).collect::<Vec<_>>(),
    })
}
