//! One object: is it what was put?

use std::io;

use seawall_archive::{
    ArchiveError, ContentSink, Expected, HEADER_BYTES, Header, LogFileName, ObjectKind, Repository,
    StoreCause, StoredName, StoredObject, System, identify,
};
use seawall_codec::checksum::Crc64;
use seawall_types::Lsn;

use super::{Finding, FindingKind, Histories, VerifyDepth};
use crate::dependencies::{BackupDependencies, dependencies_of};
use crate::error::BackupError;
use crate::object_names;
use crate::progress::Progress;
use crate::removal_mark::RemovalMark;
use crate::reservation::check_reservation;
use crate::run::check_backup_run;

/// Reads objects.
pub(super) struct Examiner<'a> {
    pub(super) repository: &'a Repository,
    pub(super) depth: VerifyDepth,
    pub(super) histories: &'a Histories,
}

/// What is known of an object.
#[derive(Debug, Default)]
pub(super) struct Examined {
    pub(super) findings: Vec<Finding>,
    /// What it says of itself, if that is good.
    pub(super) header: Option<Header>,
    /// Of its content, if that was read.
    pub(super) checksum: Option<u64>,
    /// Bytes of content that were read.
    pub(super) checked_bytes: u64,
    /// Of a manifest that is good.
    pub(super) backup: Option<BackupDependencies>,
    /// What the mark of a backup that is being removed says.
    pub(super) removal: Option<RemovalMark>,
}

/// Takes content: its checksum, and its bytes if they are wanted.
struct Content {
    checksum: Crc64,
    length: u64,
    bytes: Option<Vec<u8>>,
}

impl ContentSink for Content {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.length += bytes.len() as u64;
        if let Some(kept) = &mut self.bytes {
            kept.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        self.checksum = Crc64::new();
        self.length = 0;
        if let Some(kept) = &mut self.bytes {
            kept.clear();
        }
        Ok(())
    }
}

impl Examiner<'_> {
    /// Looks at an object.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) fn examine(&self, object: &StoredObject) -> Result<Examined, BackupError> {
        let mut examined = Examined::default();
        let Err(error) = self.look(object, &mut examined) else { return Ok(examined) };
        let problem = match error {
            BackupError::Archive(ArchiveError::NotFound { .. }) => {
                if !self.repository.is_listed(&object.path)? {
                    return Ok(Examined::default());
                }
                "it is listed and cannot be fetched".to_owned()
            }
            BackupError::Archive(ArchiveError::Damaged { problem, .. })
            | BackupError::Damaged { problem, .. } => problem,
            BackupError::Archive(ArchiveError::OtherObject { found, .. }) => {
                format!("it holds {found}: objects were moved or renamed by hand")
            }
            BackupError::Archive(ArchiveError::Segment(error)) => error.to_string(),
            BackupError::Archive(ArchiveError::Store(error))
                if matches!(error.cause, StoreCause::Denied | StoreCause::Other) =>
            {
                format!("it cannot be read: {}", error.message)
            }
            other => return Err(other),
        };
        examined.findings.push(self.finding(FindingKind::Damaged, object, problem));
        Ok(examined)
    }

    fn finding(&self, kind: FindingKind, object: &StoredObject, problem: String) -> Finding {
        Finding { kind, object: self.repository.location(&object.path), problem }
    }

    fn look(&self, object: &StoredObject, examined: &mut Examined) -> Result<(), BackupError> {
        let mut tell = |kind, problem: &str| {
            examined.findings.push(self.finding(kind, object, problem.to_owned()));
        };
        const UNKNOWN: &str = "nothing that is put into a repository is called so";
        match &object.name {
            None => tell(FindingKind::Stranger, UNKNOWN),
            // Both were read when the repository was opened, as far as this master key opens them.
            Some(StoredName::RepositoryHeader | StoredName::Key(_)) => {}
            Some(StoredName::Scratch) => {
                tell(FindingKind::Leftover, "a check has put it and could not remove it")
            }
            Some(StoredName::Gap(system, gap)) => drop(self.repository.read_gap(*system, *gap)?),
            Some(StoredName::Object(_, name))
                if object_names::backup_of(name).is_none()
                    && object_names::parse_tail(name).is_none()
                    && object_names::parse_reserved(name).is_none() =>
            {
                tell(FindingKind::Stranger, UNKNOWN);
            }
            Some(StoredName::Object(..) | StoredName::LogFile(..)) => self.look_inside(object, examined)?,
        }
        Ok(())
    }

    /// Of an object with a header.
    fn look_inside(&self, object: &StoredObject, examined: &mut Examined) -> Result<(), BackupError> {
        let header = self.repository.header_of(object)?;
        let header = header.expect("files of a log and objects have a header");
        let expected = header.stored_bytes.saturating_add(HEADER_BYTES as u64);
        if object.bytes != expected {
            let problem = format!("it has {} bytes where its header says {expected}", object.bytes);
            return Err(BackupError::damaged(&object.path, problem));
        }
        let is_small = matches!(
            header.kind,
            ObjectKind::BackupManifest
                | ObjectKind::BackupProgress
                | ObjectKind::TimelineHistory
                | ObjectKind::TimelineReservation
        );
        if self.depth == VerifyDepth::Content || is_small {
            self.read(object, &header, examined)?;
        }
        examined.header = Some(header);
        Ok(())
    }

    fn read(
        &self,
        object: &StoredObject,
        header: &Header,
        examined: &mut Examined,
    ) -> Result<(), BackupError> {
        let is_parsed = match header.kind {
            ObjectKind::LogTail | ObjectKind::BackupPart => false,
            ObjectKind::Segment
            | ObjectKind::PartialSegment
            | ObjectKind::TimelineHistory
            | ObjectKind::BackupLabel
            | ObjectKind::BackupRun
            | ObjectKind::BackupManifest
            | ObjectKind::BackupProgress
            | ObjectKind::GapRecord
            | ObjectKind::TimelineReservation => true,
        };
        let capacity = usize::try_from(header.plain_bytes).unwrap_or(0);
        let bytes = is_parsed.then(|| Vec::with_capacity(capacity));
        let mut content = Content { checksum: Crc64::new(), length: 0, bytes };
        self.repository.fetch_stored(object, &mut content)?;
        let Content { checksum, length, bytes } = content;
        (examined.checksum, examined.checked_bytes) = (Some(checksum.finish()), length);
        let damaged = |problem: String| BackupError::damaged(&object.path, problem);
        let bytes = bytes.unwrap_or_default();
        match &object.name {
            Some(StoredName::LogFile(system, name)) => self.check_log_file(*system, *name, &bytes)?,
            Some(StoredName::Object(system, name)) => {
                if let Some((_, from, to)) = object_names::parse_tail(name) {
                    if to - from != length {
                        return Err(damaged("its length is not that of its name".to_owned()));
                    }
                } else if header.kind == ObjectKind::BackupRun {
                    check_run(name.file_name(), bytes).map_err(damaged)?;
                } else if header.kind == ObjectKind::BackupManifest {
                    let id = object_names::backup_of(name).unwrap_or_default();
                    examined.backup = self.dependencies_of(*system, id, &bytes, object)?;
                } else if object_names::is_removal_mark(name) {
                    examined.removal = Some(RemovalMark::decode(&bytes).map_err(damaged)?);
                } else if object_names::parse_reserved(name).is_some() {
                    check_reservation(&bytes).map_err(damaged)?;
                } else if header.kind == ObjectKind::BackupProgress {
                    Progress::decode(&bytes).map_err(damaged)?;
                }
            }
            Some(
                StoredName::RepositoryHeader | StoredName::Key(_) | StoredName::Scratch | StoredName::Gap(..),
            )
            | None => {}
        }
        Ok(())
    }

    /// What a backup with this manifest needs. What it goes on with says how much of that it needs.
    fn dependencies_of(
        &self,
        system: System,
        id: &str,
        manifest: &[u8],
        object: &StoredObject,
    ) -> Result<Option<BackupDependencies>, BackupError> {
        match dependencies_of(self.repository, system, id, manifest) {
            // It was removed meanwhile, before what it needs was.
            Err(_) if !self.repository.is_listed(&object.path)? => Ok(None),
            Err(
                error @ BackupError::Archive(ArchiveError::NotFound { .. } | ArchiveError::Damaged { .. }),
            ) => Err(BackupError::damaged(&object.path, format!("a part of it cannot be read: {error}"))),
            needs => needs.map(Some),
        }
    }

    fn check_log_file(&self, system: System, name: LogFileName, bytes: &[u8]) -> Result<(), ArchiveError> {
        let expected = Expected { system: Some(system), fork: self.fork_in(system, name, bytes.len()) };
        identify(&name.to_string(), bytes, &expected)?;
        Ok(())
    }

    /// Where the timeline of a segment was left within it: nothing else may end there.
    fn fork_in(&self, system: System, name: LogFileName, bytes: usize) -> Option<Lsn> {
        let LogFileName::Segment(place) = name else { return None };
        let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
        let size = u32::try_from(bytes).ok()?;
        let number = seawall_archive::SegmentNumbers::new(system, size).of(place.digits);
        let of_system = self.histories.iter().filter(|((of, _), _)| *of == system.to_string());
        let forks = of_system.flat_map(|(_, history)| &history.forks);
        let here = forks.filter(|fork| fork.parent == place.timeline).map(|fork| fork.fork);
        here.filter(|fork| fork.get().saturating_sub(1) / bytes == number).min()
    }
}

fn check_run(file_name: &str, bytes: Vec<u8>) -> Result<(), String> {
    let number = file_name.strip_prefix("run-").and_then(|number| number.parse().ok());
    check_backup_run(bytes, number.ok_or("no run is called so")?)?;
    Ok(())
}
