//! What a backup needs to be restored, whatever it is a backup of: all that retention and verification know of it.
//!
//! ```text
//!   manifest --needs_of--> BackupNeeds: log from `first` to `end`, objects, the backup it builds on
//! ```
//! A manifest that cannot be read is an error, and nothing is expired then: whoever does not know what a backup needs must not
//! remove anything.

use seawall_archive::{ArchiveError, ObjectName, Repository, System};
use seawall_types::{Lsn, TimelineId};

use crate::error::BackupError;
use crate::manifest::Manifest;
use crate::places;
use crate::postgresql::{PartInfo, PostgreSqlManifest};

/// What a backup needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupNeeds {
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
    /// The size of the log's segments.
    pub segment_bytes: u64,
    /// When it began, in microseconds since 1970.
    pub started_micros: i64,
    /// When it ended. A restore to an earlier time needs an older backup.
    pub ended_micros: i64,
    /// Its objects, the manifest not counted.
    pub objects: Vec<NeededObject>,
    /// The backup that it builds on: this one is of no use without it.
    pub parent: Option<String>,
}

/// An object of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededObject {
    /// Its name.
    pub name: ObjectName,
    /// Bytes of its content, before compression.
    pub bytes: u64,
    /// CRC-64/NVME of these.
    pub checksum: u64,
}

/// What the backup `id` with this manifest needs.
pub(crate) fn needs_of(system: System, id: &str, manifest: &[u8]) -> Result<BackupNeeds, String> {
    match system {
        System::Seawall(database) => {
            let manifest = Manifest::decode(manifest)?;
            if manifest.base.database != database {
                return Err("it is of another database".to_owned());
            }
            needs_of_database(id, &manifest)
        }
        System::PostgreSql(identifier) => {
            let manifest = PostgreSqlManifest::decode(manifest)?;
            if manifest.system != identifier {
                return Err("it is of another cluster".to_owned());
            }
            needs_of_cluster(id, &manifest)
        }
    }
}

fn needs_of_database(id: &str, manifest: &Manifest) -> Result<BackupNeeds, String> {
    let object = |(number, run): (usize, &crate::manifest::RunInfo)| {
        let number = u32::try_from(number).map_err(|_| "it has too many runs".to_owned())?;
        Ok(NeededObject { name: places::run(id, number), bytes: run.bytes, checksum: run.checksum })
    };
    let base = &manifest.base;
    Ok(BackupNeeds {
        id: id.to_owned(),
        system: System::Seawall(base.database),
        timeline: base.timeline,
        first: base.redo_point,
        end: manifest.end.end,
        segment_bytes: base.segment_bytes,
        started_micros: manifest.started_micros,
        ended_micros: manifest.end.time_micros,
        objects: manifest.runs.iter().enumerate().map(object).collect::<Result<_, String>>()?,
        parent: manifest.parent.clone(),
    })
}

fn needs_of_cluster(id: &str, manifest: &PostgreSqlManifest) -> Result<BackupNeeds, String> {
    let object = |(number, part): (usize, &PartInfo)| {
        let number = u32::try_from(number).map_err(|_| "it has too many parts".to_owned())?;
        Ok(NeededObject { name: places::part(id, number), bytes: part.bytes, checksum: part.checksum })
    };
    Ok(BackupNeeds {
        id: id.to_owned(),
        system: System::PostgreSql(manifest.system),
        timeline: manifest.timeline,
        first: manifest.start,
        end: manifest.end,
        segment_bytes: u64::from(manifest.segment_bytes),
        started_micros: manifest.started_micros,
        ended_micros: manifest.ended_micros,
        objects: manifest.parts.iter().enumerate().map(object).collect::<Result<_, String>>()?,
        parent: None,
    })
}

/// Reads what the backup `id` needs; `None` if it has no manifest.
pub(crate) fn read_needs(
    repository: &Repository,
    system: System,
    id: &str,
) -> Result<Option<BackupNeeds>, BackupError> {
    let Some(name) = places::manifest(id) else { return Ok(None) };
    let mut content = Vec::new();
    match repository.fetch_object(system, &name, &mut content) {
        Err(ArchiveError::NotFound { .. }) => return Ok(None),
        fetched => drop(fetched?),
    }
    needs_of(system, id, &content).map(Some).map_err(|problem| BackupError::damaged(&name, problem))
}
