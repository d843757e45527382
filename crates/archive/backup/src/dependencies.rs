//! The dependencies of a backup, of a database or a cluster: all that retention and verification know of it.
//!
//! ```text
//!   manifest --dependencies_of--> BackupDependencies: log from `first` to `end`, objects,
//!        `--progress objects--'                       the backup it builds on, parts that were cut short
//! ```
//! A manifest that cannot be read is an error, and nothing is expired then: whoever does not know what a backup needs must not
//! remove anything.

use seawall_archive::{ArchiveError, Repository, System};
use seawall_types::{Lsn, TimelineId};

use crate::chain_member::{ChainMember, cut_short_below};
use crate::error::BackupError;
use crate::manifest::Manifest;
use crate::manifest::postgresql::{PartInfo, PostgreSqlManifest};
use crate::object_names;
use crate::required_object::RequiredObject;

/// The dependencies of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupDependencies {
    /// Its name: that of its directory.
    pub id: String,
    /// Whose it is.
    pub system: System,
    /// The timeline that it was taken on.
    pub timeline: TimelineId,
    /// A restore needs the log from here on, along the history of `timeline`.
    pub first: Lsn,
    /// A restore goes at least up to here.
    pub end: Lsn,
    /// Checksum of the log from `first` to `end`, of a database's.
    pub log_checksum: Option<u64>,
    /// The size of the log's segments.
    pub segment_bytes: u64,
    /// When it began, in microseconds since 1970.
    pub started_micros: i64,
    /// When it ended. A restore to an earlier time needs an older backup.
    pub ended_micros: i64,
    /// Its objects, and those of what was cut short and is a part of it; manifests not counted.
    pub objects: Vec<RequiredObject>,
    /// The backup that it builds on: this one is of no use without it.
    pub parent: Option<String>,
    /// Names of those that were cut short and are a part of it.
    pub cut_short: Vec<String>,
}

/// What the backup `id` with this manifest needs.
pub(crate) fn dependencies_of(
    repository: &Repository,
    system: System,
    id: &str,
    manifest: &[u8],
) -> Result<BackupDependencies, BackupError> {
    let damaged = |problem: String| {
        let object = object_names::manifest(id).map_or_else(|| id.to_owned(), |name| name.to_string());
        BackupError::damaged(object, problem)
    };
    match system {
        System::Seawall(database) => {
            let manifest = Manifest::decode(manifest).map_err(damaged)?;
            if manifest.base.database != database {
                return Err(damaged("it is of another database".to_owned()));
            }
            let member = ChainMember::of(id, &manifest);
            let cut_short = cut_short_below(repository, &member)?;
            Ok(dependencies_of_database(&manifest, &member, &cut_short))
        }
        System::PostgreSql(identifier) => {
            let manifest = PostgreSqlManifest::decode(manifest).map_err(damaged)?;
            if manifest.system != identifier {
                return Err(damaged("it is of another cluster".to_owned()));
            }
            dependencies_of_cluster(id, &manifest).map_err(damaged)
        }
    }
}

fn dependencies_of_database(
    manifest: &Manifest,
    member: &ChainMember,
    cut_short: &[ChainMember],
) -> BackupDependencies {
    let base = &manifest.base;
    BackupDependencies {
        id: member.id.clone(),
        system: System::Seawall(base.database),
        timeline: base.timeline,
        first: base.redo_point,
        end: manifest.end.end,
        log_checksum: manifest.log_checksum,
        segment_bytes: base.segment_bytes,
        started_micros: manifest.started_micros,
        ended_micros: manifest.end.time_micros,
        objects: member.objects().chain(cut_short.iter().flat_map(ChainMember::objects)).collect(),
        parent: manifest.parent.clone(),
        cut_short: cut_short.iter().map(|member| member.id.clone()).collect(),
    }
}

fn dependencies_of_cluster(id: &str, manifest: &PostgreSqlManifest) -> Result<BackupDependencies, String> {
    let object = |(number, part): (usize, &PartInfo)| {
        let number = u32::try_from(number).map_err(|_| "it has too many parts".to_owned())?;
        Ok(RequiredObject {
            name: object_names::part(id, number),
            bytes: part.bytes,
            checksum: part.checksum,
        })
    };
    Ok(BackupDependencies {
        id: id.to_owned(),
        system: System::PostgreSql(manifest.system),
        timeline: manifest.timeline,
        first: manifest.start,
        end: manifest.end,
        log_checksum: None,
        segment_bytes: u64::from(manifest.segment_bytes),
        started_micros: manifest.started_micros,
        ended_micros: manifest.ended_micros,
        objects: manifest.parts.iter().enumerate().map(object).collect::<Result<_, String>>()?,
        parent: None,
        cut_short: Vec::new(),
    })
}

/// Reads what the backup `id` needs; `None` if it has no manifest.
pub(crate) fn read_dependencies(
    repository: &Repository,
    system: System,
    id: &str,
) -> Result<Option<BackupDependencies>, BackupError> {
    let Some(name) = object_names::manifest(id) else { return Ok(None) };
    let mut content = Vec::new();
    match repository.fetch_object(system, &name, &mut content) {
        Err(ArchiveError::NotFound { .. }) => return Ok(None),
        fetched => drop(fetched?),
    }
    match dependencies_of(repository, system, id, &content) {
        // Somebody else has removed it meanwhile, before what it needs.
        Err(_) if !repository.is_listed(&format!("{system}/{name}"))? => Ok(None),
        Err(error @ BackupError::Archive(ArchiveError::NotFound { .. })) => {
            let problem =
                format!("it cannot be restored, a part of it is missing ({error}): remove this manifest");
            Err(BackupError::damaged(&name, problem))
        }
        needs => needs.map(Some),
    }
}
