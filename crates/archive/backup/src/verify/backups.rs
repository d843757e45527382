//! Backups: is all there that their manifests name?

use std::collections::BTreeSet;

use seawall_archive::{Repository, StoredName, StoredObject, System};

use super::objects::Examined;
use super::{Finding, FindingKind, SystemFacts};
use crate::dependencies::BackupDependencies;
use crate::error::BackupError;
use crate::object_names;
use crate::required_object::RequiredObject;

/// What is known of an object of a backup.
#[derive(Debug)]
pub(super) struct ObjectFacts {
    backup: String,
    pub(super) is_manifest: bool,
    /// It says how far the backup was, when that was under way.
    is_progress: bool,
    is_removal_mark: bool,
    /// Length of its content, if its header is good.
    plain_bytes: Option<u64>,
    /// CRC-64/NVME of its content, as far as that is known without reading it, or it was read.
    checksum: Option<u64>,
}

impl ObjectFacts {
    /// `None` for objects that are of no backup.
    pub(super) fn of(object: &StoredObject, examined: &Examined) -> Option<ObjectFacts> {
        let Some(StoredName::Object(_, name)) = &object.name else { return None };
        let backup = object_names::backup_of(name)?.to_owned();
        let header = examined.header.as_ref();
        let plain = header.filter(|header| header.encryption.is_none()).map(|header| header.plain_checksum);
        Some(ObjectFacts {
            is_manifest: object_names::manifest(&backup).as_ref() == Some(name),
            is_progress: object_names::parse_progress(name).is_some(),
            is_removal_mark: object_names::is_removal_mark(name),
            backup,
            plain_bytes: header.map(|header| header.plain_bytes),
            checksum: examined.checksum.or(plain),
        })
    }
}

/// Holds the objects of backups against the manifests.
pub(super) fn check(
    repository: &Repository,
    system: System,
    facts: &SystemFacts,
    tell: &mut dyn FnMut(Finding),
) -> Result<(), BackupError> {
    let mut needed = BTreeSet::new();
    for backup in &facts.backups {
        let problems = problems_of(system, facts, backup, &mut needed);
        // Whoever has removed its objects has removed its manifest before.
        if !problems.is_empty() && repository.is_listed(&manifest_path(system, &backup.id))? {
            problems.into_iter().for_each(&mut *tell);
        }
    }
    let complete: BTreeSet<&str> = facts.backups.iter().map(|backup| backup.id.as_str()).collect();
    let damaged: BTreeSet<&str> = facts
        .backup_objects
        .values()
        .filter(|object| object.is_manifest && !complete.contains(object.backup.as_str()))
        .map(|object| object.backup.as_str())
        .collect();
    // Not all of what they have put need be of use to the backup that goes on with them.
    let parts: BTreeSet<&String> = facts.backups.iter().flat_map(|backup| &backup.cut_short).collect();
    let marks = facts.backup_objects.values().filter(|object| object.is_removal_mark);
    let removed: BTreeSet<&str> = marks.map(|object| object.backup.as_str()).collect();
    let mut unfinished = BTreeSet::new();
    for (path, object) in
        facts.backup_objects.iter().filter(|(path, object)| !object.is_manifest && !needed.contains(*path))
    {
        if parts.contains(&object.backup) {
            continue;
        }
        if complete.contains(object.backup.as_str()) {
            if object.is_progress {
                continue;
            }
            let problem = "no manifest names it: what is left of an attempt".to_owned();
            tell(Finding { kind: FindingKind::Leftover, object: repository.location(path), problem });
        } else if !damaged.contains(object.backup.as_str()) {
            unfinished.insert(object.backup.clone());
        }
    }
    for backup in unfinished {
        let (kind, problem) = match removed.contains(backup.as_str()) {
            true => (
                FindingKind::Leftover,
                "an expiry was cut short while it removed this backup: the next one resumes",
            ),
            false => (FindingKind::Unfinished, "it has no manifest: it is under way, or was given up"),
        };
        let object = format!("backup {backup} of {system}");
        tell(Finding { kind, object, problem: problem.to_owned() });
    }
    Ok(())
}

fn manifest_path(system: System, backup: &str) -> String {
    let name = object_names::manifest(backup).map(|name| name.to_string()).unwrap_or_default();
    format!("{system}/{name}")
}

fn problems_of(
    system: System,
    facts: &SystemFacts,
    backup: &BackupDependencies,
    needed: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let finding = |problem: String| Finding {
        kind: FindingKind::BackupIncomplete,
        object: format!("backup {} of {system}", backup.id),
        problem,
    };
    let mut problems = Vec::new();
    if let Some(parent) = &backup.parent
        && !facts.backups.iter().any(|other| other.id == *parent)
    {
        problems.push(finding(format!("it builds on {parent}, which is not there or damaged")));
    }
    for RequiredObject { name, bytes, checksum } in &backup.objects {
        let path = format!("{system}/{name}");
        match facts.backup_objects.get(&path) {
            None => problems.push(finding(format!("{name} is missing"))),
            Some(object) => {
                let is_other_length = object.plain_bytes.is_some_and(|plain| plain != *bytes);
                let is_other = object.checksum.is_some_and(|found| found != *checksum);
                if is_other_length || is_other {
                    problems.push(finding(format!("{name} is not what the manifest says")));
                }
            }
        }
        needed.insert(path);
    }
    problems
}
