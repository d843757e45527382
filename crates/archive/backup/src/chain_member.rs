//! The members of a backup chain, all of which a restore reads: some are complete, some were cut short and resumed by a later one.
//!
//! ```text
//!   increment                       kept  rows ................. kept
//!   cut short      kept  rows .. | reached: from here on it says nothing
//!   full backup    rows ..............................................
//! ```

use seawall_archive::{Repository, System};
use seawall_codec::checksum::Crc64;
use seawall_engine::{BackupBase, BackupParent};

use crate::catalog::StoredBackup;
use crate::error::BackupError;
use crate::manifest::{CutShort, Manifest, RunInfo, RunKind};
use crate::object_names;
use crate::progress::Progress;
use crate::required_object::RequiredObject;

/// A backup, or what one that was cut short has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainMember {
    /// Its name.
    pub(crate) id: String,
    /// What it began with.
    pub(crate) base: BackupBase,
    /// The complete backup that it is an increment of.
    pub(crate) parent: Option<String>,
    /// The one that was cut short and is a part of it.
    pub(crate) goes_on_with: Option<CutShort>,
    /// Its runs, by number.
    pub(crate) runs: Vec<RunInfo>,
    /// It has what lies below this key, and says nothing of the rest. `None`: all.
    pub(crate) reached: Option<Vec<u8>>,
    /// The object that says so, of one that was cut short.
    pub(crate) progress: Option<RequiredObject>,
}

impl ChainMember {
    /// A complete backup.
    pub(crate) fn of(id: &str, manifest: &Manifest) -> ChainMember {
        ChainMember {
            id: id.to_owned(),
            base: manifest.base.clone(),
            parent: manifest.parent.clone(),
            goes_on_with: manifest.goes_on_with.clone(),
            runs: manifest.runs.clone(),
            reached: None,
            progress: None,
        }
    }

    /// Numbers of its runs of a kind.
    pub(crate) fn numbers(&self, kind: RunKind) -> impl Iterator<Item = u32> {
        (0..).zip(&self.runs).filter(move |(_, run)| run.kind == kind).map(|(number, _)| number)
    }

    /// Its objects, but for a manifest.
    pub(crate) fn objects(&self) -> impl Iterator<Item = RequiredObject> {
        let run = |(number, run): (u32, &RunInfo)| RequiredObject {
            name: object_names::run(&self.id, number),
            bytes: run.bytes,
            checksum: run.checksum,
        };
        (0..).zip(&self.runs).map(run).chain(self.progress.clone())
    }

    /// As an increment of it sees it.
    pub(crate) fn as_parent(&self) -> BackupParent {
        BackupParent { base: self.base.clone(), reached: self.reached.clone() }
    }

    /// Whether all of its objects are in the repository, manifests not looked for.
    pub(crate) fn is_there(&self, repository: &Repository) -> Result<bool, BackupError> {
        let system = System::Seawall(self.base.database);
        let mut names: Vec<_> = repository
            .list_objects(system, &object_names::directory(&self.id))?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        Ok(self.objects().all(|object| names.binary_search(&object.name).is_ok()))
    }
}

/// Reads how far a backup that was cut short had come.
pub(crate) fn read_progress(
    repository: &Repository,
    system: System,
    cut_short: &CutShort,
) -> Result<(ChainMember, Progress), BackupError> {
    let name = object_names::progress(&cut_short.id, cut_short.progress);
    let mut content = Vec::new();
    repository.fetch_object(system, &name, &mut content)?;
    let progress = Progress::decode(&content).map_err(|problem| BackupError::damaged(&name, problem))?;
    if system != System::Seawall(progress.base.database) {
        return Err(BackupError::damaged(&name, "it is of another database"));
    }
    let mut checksum = Crc64::new();
    checksum.update(&content);
    let object = RequiredObject { name, bytes: content.len() as u64, checksum: checksum.finish() };
    let member = ChainMember {
        id: cut_short.id.clone(),
        base: progress.base.clone(),
        parent: progress.parent.clone(),
        goes_on_with: progress.goes_on_with.clone(),
        runs: progress.runs.clone(),
        reached: progress.reached.clone(),
        progress: Some(object),
    };
    Ok((member, progress))
}

/// What was cut short and is a part of `top`, which is not among it, the newest first.
pub(crate) fn cut_short_below(
    repository: &Repository,
    top: &ChainMember,
) -> Result<Vec<ChainMember>, BackupError> {
    let mut found: Vec<ChainMember> = Vec::new();
    let mut child = top;
    while let Some(below) = &child.goes_on_with {
        let system = System::Seawall(child.base.database);
        let (member, _) = read_progress(repository, system, below)?;
        let is_known = member.id == top.id || found.iter().any(|other| other.id == member.id);
        if is_known || !is_below(&member, child) || member.parent != child.parent {
            let problem = format!("it resumes {}, which is not an earlier backup of its kind", member.id);
            return Err(BackupError::damaged(&child.id, problem));
        }
        found.push(member);
        child = found.last().expect("one was just added");
    }
    Ok(found)
}

/// A backup and what it builds on, oldest first.
pub(crate) fn chain_of(
    repository: &Repository,
    complete: &[StoredBackup],
    top: ChainMember,
) -> Result<Vec<ChainMember>, BackupError> {
    let mut chain = vec![top];
    loop {
        let child = chain.last().expect("it began with one");
        let below = cut_short_below(repository, child)?;
        let parent = child.parent.clone();
        chain.extend(below);
        let Some(id) = parent else { break };
        let child = chain.last().expect("it has not become shorter");
        let found = complete.iter().find(|backup| backup.id == id);
        let member = found.map(|backup| ChainMember::of(&backup.id, &backup.manifest));
        // One is before the next: no chain goes in circles.
        let is_new = |member: &ChainMember| {
            !chain.iter().any(|other| other.id == member.id) && is_below(member, child)
        };
        let problem = || {
            format!(
                "it builds on {id}, which is not in the repository, or cannot be read, or is not an earlier backup"
            )
        };
        let member = member.filter(is_new).ok_or_else(|| BackupError::damaged(&child.id, problem()))?;
        chain.push(member);
    }
    chain.reverse();
    Ok(chain)
}

fn is_below(member: &ChainMember, child: &ChainMember) -> bool {
    member.base.timeline == child.base.timeline && member.base.redo_point <= child.base.redo_point
}
