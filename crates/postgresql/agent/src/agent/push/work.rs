//! One upload: read, identified, packed once, for however many repositories.
//!
//! A segment of a timeline other than the first is worth nothing to a restore that does not know where the timeline left its parent.
//! PostgreSQL marks the history for archiving only if it archives when it is promoted. So each repository gets the history before the
//! first segment of its timeline, and a power failure between the two leaves a history without segments, which misleads nobody.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use seawall_archive::{
    ArchiveError, Expected, LogFileName, Packed, Packer, SegmentError, TimelineId, identify,
};

use super::failure::Failure;
use super::limits::{Limits, WorkerSlot};
use super::queue::{Source, Task};
use crate::agent::Shared;
use crate::agent::repositories::RepositoryHandle;
use crate::agent::semaphore::Permit;
use crate::regular;
use crate::spool::FileIdentity;

/// A file of a log is no longer: segments have at most 1 GiB.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// How long they mostly are.
const SEGMENT_BYTES: u64 = 16 << 20;

/// Why there is nothing to put.
#[derive(Debug)]
pub(super) enum Unprepared {
    Failed(Failure),
    /// All repositories have been asked, and none has it; nor is it in the data directory any more.
    Nowhere,
}

impl From<Failure> for Unprepared {
    fn from(failure: Failure) -> Unprepared {
        Unprepared::Failed(failure)
    }
}

/// A file, ready to be put.
pub(super) struct Prepared {
    pub(super) packed: Packed,
    /// The history of its timeline: a repository has it first.
    history: Option<Packed>,
    /// Of the file that the content is from, if it is from one.
    pub(super) identity: Option<FileIdentity>,
    /// Memory for the packed file, until it is put.
    pub(super) permit: Option<Permit>,
}

/// Reads, identifies and packs a file in a worker slot, which is free for another worker then: the content is in memory only while a
/// processor works on it.
pub(super) fn prepare(
    shared: &Shared,
    limits: &Limits,
    mut slot: WorkerSlot<'_>,
    task: &Task,
) -> Result<Prepared, Unprepared> {
    let full = shared.data.full(&task.path);
    // What comes from a repository is no longer than a segment, either; how long it is is known when it is there.
    let file = std::fs::metadata(&full).ok().filter(std::fs::Metadata::is_file);
    let bytes = file.map_or(SEGMENT_BYTES, |file| file.len());
    // Content and what it is packed to are in memory together.
    let mut permit = limits.memory.acquire(bytes.saturating_mul(2));
    let scratch = slot.scratch();
    let identity = content_of(shared, task, &full, &mut scratch.content)?;
    let history = history_for(shared, &task.name, &mut scratch.packer)?;
    let packed = pack(shared, &task.name, &scratch.content, &mut scratch.packer)?;
    permit.shrink(packed.header().stored_bytes);
    Ok(Prepared { packed, history, identity, permit: Some(permit) })
}

/// The history of a segment's timeline; the first timeline has none. It is what `pg_wal` has, else what a repository has.
fn history_for(shared: &Shared, name: &str, packer: &mut Packer) -> Result<Option<Packed>, Failure> {
    let timeline = match LogFileName::parse(name) {
        Some(LogFileName::Segment(place) | LogFileName::Partial(place)) => place.timeline,
        Some(LogFileName::BackupLabel(..) | LogFileName::History(_)) | None => return Ok(None),
    };
    if timeline == TimelineId::FIRST {
        return Ok(None);
    }
    let history = LogFileName::History(timeline).to_string();
    let path = shared.data.full(&format!("pg_wal/{history}"));
    let mut content = Vec::new();
    if path.try_exists().map_err(failed(&path))? {
        read(&path, &mut content)?;
    } else {
        from_repository(shared, &history, &mut content).map_err(|unprepared| {
            let elsewhere = match unprepared {
                Unprepared::Failed(failure) => failure.message,
                Unprepared::Nowhere => "no repository has it".to_owned(),
            };
            Failure::of_file(format!(
                "{name} is not archived before the history of its timeline: pg_wal has no {history}, and {elsewhere}. Copy {history} into \
                 pg_wal from the server that was promoted, from a standby or from another archive"
            ))
        })?;
    }
    pack(shared, &history, &content, packer).map(Some)
}

fn pack(shared: &Shared, name: &str, content: &[u8], packer: &mut Packer) -> Result<Packed, Failure> {
    // A segment says itself whose it is, and that is held against the control file's.
    let system = shared.system().map_err(Failure::of_file)?;
    let mut expected = Expected { system: Some(system), fork: None };
    let described = match identify(name, content, &expected) {
        // The last segment of a timeline that was left: if so, a history says it.
        Err(SegmentError::EndsEarly { .. } | SegmentError::PostgreSql { .. }) => {
            let timeline = LogFileName::parse(name).map(LogFileName::timeline);
            let fork = timeline.map(|timeline| shared.data.fork_of(timeline));
            let fork = fork.transpose().map_err(|error| Failure::of_file(error.to_string()))?;
            expected.fork = fork.flatten();
            identify(name, content, &expected)
        }
        described => described,
    };
    let described = described.map_err(|error| Failure::of_file(error.to_string()))?;
    Ok(packer.pack(described.header(shared.clock.wall_micros()), content))
}

/// Puts a file into one repository, the history of its timeline first. When this returns, both are durable there.
pub(super) fn put(handle: &RepositoryHandle, prepared: &Prepared) -> Result<(), Failure> {
    let mut is_open = false;
    let mut has_history = false;
    let put = handle.ask(|repository| {
        is_open = true;
        if let Some(history) = &prepared.history {
            handle.put_history(repository, history)?;
        }
        has_history = true;
        repository.push(&prepared.packed).map(|_| repository.header().id_text())
    });
    match put {
        Ok(id) if handle.id().as_ref() == Some(&id) => Ok(()),
        Ok(_) => Err(Failure {
            message: format!("{} was replaced while a file was put there", handle.location()),
            is_of_store: true,
            is_too_much: false,
        }),
        // A repository that cannot be opened takes no other file, either.
        Err(error) if !is_open => Err(Failure { is_of_store: true, ..Failure::of(&error) }),
        Err(error @ ArchiveError::OtherContent { .. }) if !has_history => Err(Failure::of_file(format!(
            "{} is not archived: another copy of this cluster has taken the number of its timeline ({error}). If this one is in \
             production, restore it again: the new timeline gets a number that is free",
            prepared.packed.header().name
        ))),
        Err(error) => Err(Failure::of(&error)),
    }
}

/// Puts the content of a file into `content`, and says which file that was, if it was one.
fn content_of(
    shared: &Shared,
    task: &Task,
    full: &Path,
    content: &mut Vec<u8>,
) -> Result<Option<FileIdentity>, Unprepared> {
    let archived = match task.source {
        Source::File => return Ok(Some(read(full, content)?)),
        Source::Archived(identity) => Some(identity),
        Source::Repository => None,
    };
    match read(full, content) {
        // PostgreSQL writes something else into the file when it needs it no longer.
        Ok(identity) if archived == Some(identity) => Ok(Some(identity)),
        _ => from_repository(shared, &task.name, content).map(|()| None),
    }
}

/// The content of a file that PostgreSQL has been told is archived.
fn from_repository(shared: &Shared, name: &str, content: &mut Vec<u8>) -> Result<(), Unprepared> {
    let system = shared.system().map_err(Failure::of_file)?;
    let parsed = LogFileName::parse(name);
    let parsed = parsed.ok_or_else(|| Failure::of_file(format!("{name} is not a file of a log")))?;
    let mut failure = None;
    for handle in RepositoryHandle::in_order(&shared.repositories, shared.clock.monotonic()) {
        // Every fetch begins with none of it.
        let fetched = handle.ask(|repository| repository.fetch(system, parsed, content));
        match fetched {
            Ok(_) => return Ok(()),
            Err(ArchiveError::NotFound { .. }) => {}
            Err(error) => failure = Some(Failure::of_file(error.to_string())),
        }
    }
    Err(failure.map_or(Unprepared::Nowhere, Unprepared::Failed))
}

/// Reads a file that nobody writes to meanwhile, and says which file that was.
fn read(path: &Path, content: &mut Vec<u8>) -> Result<FileIdentity, Failure> {
    let mut reading = Reading::begin(path)?;
    reading.read(content)?;
    reading.end(content)
}

/// A file that is being read.
struct Reading<'a> {
    path: &'a Path,
    file: File,
    identity: FileIdentity,
    bytes: u64,
}

impl<'a> Reading<'a> {
    fn begin(path: &'a Path) -> Result<Reading<'a>, Failure> {
        let file = regular::open(path).map_err(failed(path))?;
        let metadata = file.metadata().map_err(failed(path))?;
        let bytes = metadata.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Failure::of_file(format!("{} is longer than any file of a log", path.display())));
        }
        Ok(Reading { path, file, identity: FileIdentity::of(&metadata), bytes })
    }

    fn read(&mut self, content: &mut Vec<u8>) -> Result<(), Failure> {
        content.clear();
        content.reserve_exact(usize::try_from(self.bytes).expect("at most 1 GiB"));
        self.file.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(content).map_err(failed(self.path))?;
        Ok(())
    }

    fn end(self, content: &[u8]) -> Result<FileIdentity, Failure> {
        let after = self.file.metadata().map_err(failed(self.path))?;
        if self.identity != FileIdentity::of(&after) || content.len() as u64 != self.bytes {
            return Err(Failure::of_file(format!("{} was changed while it was read", self.path.display())));
        }
        Ok(self.identity)
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::of_file(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// Writes `content`, later than before by the file's time.
    fn write_later(path: &Path, content: &[u8]) {
        std::fs::write(path, content).unwrap();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let later = file.metadata().unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
        file.set_modified(later).unwrap();
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("000000010000000000000001");
        let before = [1; 1000];
        for (after, is_read_before) in [
            (&[2; 1000][..], false),
            (&[2; 1000], true),
            (&[1; 1000], true),
            (&[1; 999], true),
            (&[1; 1001], false),
        ] {
            std::fs::write(&path, before).unwrap();
            let mut content = Vec::new();
            let mut reading = Reading::begin(&path).unwrap();
            if is_read_before {
                reading.read(&mut content).unwrap();
                write_later(&path, after);
            } else {
                write_later(&path, after);
                reading.read(&mut content).unwrap();
            }
            let problem = reading.end(&content).unwrap_err().message;
            assert!(problem.contains("was changed while it was read"), "{problem}");
        }
        std::fs::write(&path, before).unwrap();
        let mut content = Vec::new();
        let identity = read(&path, &mut content).unwrap();
        assert_eq!(
            (&content[..], identity),
            (&before[..], FileIdentity::of(&std::fs::metadata(&path).unwrap()))
        );
    }

    #[test]
    fn of_a_file_that_is_replaced_while_it_is_read_the_old_one_was_read() {
        let directory = tempfile::tempdir().unwrap();
        let (path, new) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&path, b"old").unwrap();
        std::fs::write(&new, b"new").unwrap();
        let mut reading = Reading::begin(&path).unwrap();
        rustix::fs::rename(&new, &path).unwrap();
        let mut content = Vec::new();
        reading.read(&mut content).unwrap();
        let identity = reading.end(&content).unwrap();
        assert_eq!(content, b"old");
        assert_ne!(identity, FileIdentity::of(&std::fs::metadata(&path).unwrap()));
    }
}
