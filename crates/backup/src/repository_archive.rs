//! A repository as an archive of a database's log.

use std::sync::Arc;

use seawall_archive::{
    ArchiveError, Expected, Gap, GapRecord, ObjectKind, ObjectPlace, Packed, Packer, Packing, Repository,
    SegmentPlace, System, identify,
};
use seawall_io::Clock;
use seawall_types::Lsn;
use seawall_wal::{SegmentName, TimelineHistory};

use seawall_engine::{ArchivedLog, LogArchive, LogArchiveError, LogFile, LogGap};

use crate::places;

/// Puts the log into a repository.
#[derive(Debug)]
pub struct RepositoryArchive {
    repository: Arc<Repository>,
    packing: Packing,
    clock: Arc<dyn Clock>,
}

impl RepositoryArchive {
    /// Of this repository.
    pub fn new(repository: Arc<Repository>, packing: Packing, clock: Arc<dyn Clock>) -> RepositoryArchive {
        RepositoryArchive { repository, packing, clock }
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
}

fn words(error: &ArchiveError) -> LogArchiveError {
    LogArchiveError(error.to_string())
}

impl LogArchive for RepositoryArchive {
    fn store(&self, log: &ArchivedLog, file: LogFile, content: &[u8]) -> Result<(), LogArchiveError> {
        let packed = self.pack(log, file, content).map_err(|error| words(&error))?;
        let pushed = match file {
            LogFile::Tail { .. } => self.repository.push_object(&packed),
            LogFile::Segment(_) | LogFile::History(_) => self.repository.push(&packed),
        };
        let refused = |error: ArchiveError| match (file, &error) {
            (LogFile::History(timeline), ArchiveError::OtherContent { .. }) => LogArchiveError(format!(
                "timeline {timeline} in {} is that of another copy of this database, which was restored or promoted to it, too, and \
                 archived first: {error}. To archive there, restore this one again: it gets a number that is free",
                self.repository.url()
            )),
            _ => words(&error),
        };
        pushed.map(drop).map_err(refused)
    }

    fn remove_tails(&self, log: &ArchivedLog, segment: SegmentName) -> Result<(), LogArchiveError> {
        let system = System::Seawall(log.database);
        let tails = self.repository.list_objects(system, &places::tails(segment.timeline));
        for (name, _) in tails.map_err(|error| words(&error))? {
            if places::parse_tail(&name).is_some_and(|(of, ..)| of == segment) {
                self.repository.remove_object(system, &name).map_err(|error| words(&error))?;
            }
        }
        Ok(())
    }
    fn note_gap(&self, log: &ArchivedLog, gap: &LogGap) -> Result<(), LogArchiveError> {
        let place = |name: SegmentName| SegmentPlace { timeline: name.timeline, digits: name.number };
        let record = GapRecord {
            gap: Gap { first: place(gap.first), last: place(gap.last) },
            noticed_micros: gap.noticed_micros,
            reason: gap.reason.clone(),
        };
        self.repository.record_gap(System::Seawall(log.database), &record).map_err(|error| words(&error))
    }
}
