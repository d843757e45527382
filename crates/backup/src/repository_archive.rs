//! Repositories as the archive of a database's log.

use std::sync::Arc;

use seawall_archive::{
    ArchiveError, Expected, ObjectKind, ObjectPlace, Packed, Packer, Packing, Repository, System, identify,
};
use seawall_io::Clock;
use seawall_types::Lsn;
use seawall_wal::{SegmentName, TimelineHistory};

use seawall_engine::{ArchivedLog, LogArchive, LogArchiveError, LogFile};

use crate::places;

/// Puts the log into one repository or several. A file counts as archived when all of them have it; each gets what it can,
/// whatever the others do.
#[derive(Debug)]
pub struct RepositoryArchive {
    repositories: Vec<Arc<Repository>>,
    packing: Packing,
    clock: Arc<dyn Clock>,
}

impl RepositoryArchive {
    /// Of these repositories.
    pub fn new(
        repositories: Vec<Arc<Repository>>,
        packing: Packing,
        clock: Arc<dyn Clock>,
    ) -> RepositoryArchive {
        RepositoryArchive { repositories, packing, clock }
    }

    fn pack(&self, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<Packed, ArchiveError> {
        let system = System::Seawall(log.database);
        let created = self.clock.wall_micros();
        let expected = Expected { system: Some(system), fork: None };
        let header = match file {
            LogFile::Segment(segment) => identify(&segment.file_name(), content, &expected)?.header(created),
            LogFile::History(timeline) => {
                let path = TimelineHistory::path(timeline);
                let name = path.rsplit('/').next().unwrap_or(&path);
                identify(name, content, &expected)?.header(created)
            }
            LogFile::Tail { segment, from, to } => {
                let start = segment.number.saturating_mul(log.segment_bytes);
                let place = ObjectPlace {
                    timeline: segment.timeline,
                    segment_bytes: u32::try_from(log.segment_bytes).unwrap_or(0),
                    start: Lsn::new(start + from),
                    end: Lsn::new(start + to),
                    created_micros: created,
                };
                places::tail(segment, from, to).header(ObjectKind::LogTail, system, place)
            }
        };
        Ok(Packer::new(self.packing).pack(header, content))
    }

    /// Does something with each repository; the first error, when all have had their turn.
    fn each(
        &self,
        mut act: impl FnMut(&Repository) -> Result<(), ArchiveError>,
    ) -> Result<(), LogArchiveError> {
        let mut failure = None;
        for repository in &self.repositories {
            if let Err(error) = act(repository) {
                failure.get_or_insert(words(&error));
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

fn words(error: &ArchiveError) -> LogArchiveError {
    LogArchiveError(error.to_string())
}

impl LogArchive for RepositoryArchive {
    fn store(&self, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<(), LogArchiveError> {
        let packed = self.pack(log, file, content).map_err(|error| words(&error))?;
        self.each(|repository| match file {
            LogFile::Tail { .. } => repository.push_object(&packed).map(drop),
            LogFile::Segment(_) | LogFile::History(_) => repository.push(&packed).map(drop),
        })
    }

    fn remove_tails(&self, log: &ArchivedLog, segment: SegmentName) -> Result<(), LogArchiveError> {
        let system = System::Seawall(log.database);
        self.each(|repository| {
            for (name, _) in repository.list_objects(system, &places::tails(segment.timeline))? {
                if places::parse_tail(&name).is_some_and(|(of, ..)| of == segment) {
                    repository.remove_object(system, &name)?;
                }
            }
            Ok(())
        })
    }
}
