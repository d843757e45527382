//! The spool: what commands and the agent tell each other through files. One directory for each data directory, named by the
//! CRC-64/NVME of its full name, which this user alone can read and write.
//!
//! ```text
//!   agent.lock             held by the agent while it runs
//!   start.lock             held by a command while it starts one
//!   agent.socket           where it listens
//!   agent.log              what it says; `agent.log.old`: before
//!   repositories           those that are required, a line each: a number made of the whole address (scheme, bucket, prefix,
//!                          endpoint, account), and the id that it has or had last
//!   out/NAME.ok            NAME is durable in every repository: the file that was, as a line of size, time of change, inode,
//!                          and a number made of the setting that names the repositories and of the file `repositories`
//!   out/NAME.error         why the last attempt to archive NAME failed
//!   owed/CLUSTER/REPOSITORY/NAME   NAME is acknowledged, and this repository, by the same number, has not got it yet
//!   gaps                   segments that were left out on purpose, and are not on record in every repository yet: a line with the
//!                          version of this format, then a line each of
//!                          cluster, name, length, time in microseconds, the repositories that have it on record (NUMBER:ID as
//!                          above with commas between, or `-`), reason
//!   in/NAME                fetched ahead, whole and checked
//!   in/.NAME               being fetched
//!   *.new                  being written
//! ```
//! What is noted in it goes through a `Disk`, so that tests can take the power away at each call. Where it lies, whose it is, its socket,
//! its log and its locks are the system's (`place`, `lock`).
//!
//! Invariants:
//! * Nothing in it is believed before it is known that nobody but this user and root could have written it (`trust`).
//! * An acknowledgement is written after the object is durable in every repository, and speaks of one file: another one with
//!   the same name, of a cluster that was made or restored in the same place, has another inode or time, and is not
//!   acknowledged by it. Nor is it one where other repositories are set than those that have it, or where another repository has
//!   taken the place of one of them: `repositories` is replaced, and synced, before anything is acknowledged for that.
//! * Acknowledgements and what is fetched ahead may be lost, by a crash or by hand: it is done again. Pending copies and what was left
//!   out are synced before PostgreSQL is told that it may remove the file. What is torn is not taken for anything, and what an earlier
//!   agent has fetched ahead is not used.

mod ahead;
mod lock;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_archive::{LogFileName, SegmentPlace, System};
use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode, OsDisk};

use crate::sabotage::{Defect, sabotaged};
pub(crate) use ahead::Fetching;
pub use lock::{Lock, SpoolLock};
pub(crate) use place::at;

/// Ids of the required repositories.
const REPOSITORIES: &str = "repositories";
/// Segments that were left out.
const GAPS: &str = "gaps";
/// Pending copies.
const PENDING_COPIES: &str = "owed";
/// What was said of each file.
const OUT: &str = "out";

/// One file, told from any other that has had its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    bytes: u64,
    changed_seconds: i64,
    changed_nanoseconds: i64,
    inode: u64,
}

impl FileIdentity {
    /// By what the file system says of it.
    pub fn of(metadata: &std::fs::Metadata) -> FileIdentity {
        FileIdentity {
            bytes: metadata.len(),
            changed_seconds: metadata.mtime(),
            changed_nanoseconds: metadata.mtime_nsec(),
            inode: metadata.ino(),
        }
    }

    /// `repositories` tells these from others, which may not have the file.
    fn to_line(self, repositories: u32) -> String {
        let FileIdentity { bytes, changed_seconds, changed_nanoseconds, inode } = self;
        format!("{bytes} {changed_seconds}.{changed_nanoseconds:09} {inode} {repositories:08x}\n")
    }
}

/// A segment that was left out on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapNote {
    /// Of which cluster: another one may be in the same data directory by now.
    pub system: System,
    /// Which.
    pub place: SegmentPlace,
    /// Its length.
    pub segment_bytes: u32,
    /// When, microseconds since 1970.
    pub noticed_micros: i64,
    /// The repositories that have it on record: number and id of each.
    pub recorded: BTreeSet<String>,
    /// Why, in one line.
    pub reason: String,
}

/// First line of `gaps`. In the format before, the repositories had no ids.
const GAPS_VERSION: &str = "version 2";
/// Stands for no repository.
const NOWHERE: &str = "-";

impl GapNote {
    fn to_line(&self) -> String {
        let GapNote { system, place, segment_bytes, noticed_micros, recorded, reason } = self;
        let recorded: Vec<&str> = recorded.iter().map(String::as_str).collect();
        let recorded = if recorded.is_empty() { NOWHERE.to_owned() } else { recorded.join(",") };
        let reason = reason.replace(['\n', '\r'], " ");
        format!("{system} {place} {segment_bytes} {noticed_micros} {recorded} {reason}\n")
    }

    fn parse(line: &str) -> Option<GapNote> {
        let mut words = line.splitn(6, ' ');
        let system = words.next()?.parse().ok()?;
        let Some(LogFileName::Segment(place)) = LogFileName::parse(words.next()?) else { return None };
        let (segment_bytes, noticed_micros) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let recorded = words.next()?.split(',').filter(|key| *key != NOWHERE).map(str::to_owned).collect();
        let reason = words.next()?.to_owned();
        Some(GapNote { system, place, segment_bytes, noticed_micros, recorded, reason })
    }
}

/// The spool of one data directory.
#[derive(Debug)]
pub struct Spool {
    /// For what the disk does not do: see `place`.
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    /// Which repositories are set.
    setting: u32,
    /// Held while a file of `out` is replaced: two repositories may fail for one file at the same moment.
    replacing: Mutex<()>,
}

impl Spool {
    /// The spool at `directory`. `setting` is a number that stands for the repositories that are set. Touches nothing.
    pub fn new(directory: PathBuf, setting: u32) -> Spool {
        let disk = Arc::new(OsDisk::new(&directory));
        Spool { directory, disk, setting, replacing: Mutex::default() }
    }

    /// A spool on a simulated disk.
    #[cfg(test)]
    pub(crate) fn on(disk: Arc<dyn Disk>, setting: u32) -> Spool {
        let directory = PathBuf::from("/nowhere/at/all");
        Spool { directory, disk, setting, replacing: Mutex::default() }
    }

    // ---- which repositories there are -----------------------------------------------------------------------------

    /// A number for the repositories that acknowledgements speak of: those that are set, with the ids that they had when an agent
    /// opened them. `None` if that is not noted: then nothing is acknowledged.
    pub(crate) fn mark(&self) -> Option<u32> {
        let ids = self.read(REPOSITORIES).ok()?;
        Some(crc32c(&[&self.setting.to_le_bytes(), &ids[..]].concat()))
    }

    /// The ids of the required repositories, by their numbers.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn repositories(&self) -> io::Result<BTreeMap<String, String>> {
        Ok(self.noted_repositories()?.unwrap_or_default())
    }

    /// `None` if nothing is noted.
    fn noted_repositories(&self) -> io::Result<Option<BTreeMap<String, String>>> {
        let line = |line: &str| line.split_once(' ').map(|(key, id)| (key.to_owned(), id.to_owned()));
        let text = self.read_text(REPOSITORIES)?;
        Ok(text.map(|text| text.lines().filter_map(line).collect()))
    }

    /// Notes durably which ids the required repositories have. Where it is noted already, nothing is written.
    ///
    /// # Errors
    /// What the system says; then none is noted, and nothing is acknowledged.
    pub(crate) fn note_repositories(&self, ids: &BTreeMap<String, String>) -> io::Result<()> {
        if self.noted_repositories()?.as_ref() == Some(ids) {
            return Ok(());
        }
        // First, what is acknowledged counts no more: on a disk that is full that takes no space.
        self.remove(REPOSITORIES)?;
        self.disk.sync_directory("")?;
        self.replace_durably(REPOSITORIES, ids.iter().map(|(key, id)| format!("{key} {id}\n")))
    }

    // ---- what is archived -----------------------------------------------------------------------------------------

    /// Whether `file` is acknowledged under this name. Anything that is not an acknowledgement of just this file is none.
    pub fn is_acknowledged(&self, name: &str, file: FileIdentity) -> bool {
        self.mark().is_some_and(|mark| self.is_acknowledged_for(mark, name, file))
    }

    /// As `is_acknowledged`, for a caller that looks at many files, and has asked for [`Spool::mark`] once.
    pub(crate) fn is_acknowledged_for(&self, mark: u32, name: &str, file: FileIdentity) -> bool {
        self.read(&acknowledgement(name)).is_ok_and(|line| line == file.to_line(mark).as_bytes())
    }

    /// Acknowledges `file`, which the repositories have that [`Spool::mark`] stood for when it was put. Everything that it promises must
    /// be durable.
    ///
    /// # Errors
    /// What the system says; then there is no acknowledgement.
    pub(crate) fn acknowledge(&self, name: &str, file: FileIdentity, mark: u32) -> io::Result<()> {
        self.replace(&acknowledgement(name), file.to_line(mark).as_bytes())?;
        self.remove(&error_note(name))
    }

    /// Says why `name` could not be archived.
    ///
    /// # Errors
    /// What the system says.
    pub fn note_error(&self, name: &str, message: &str) -> io::Result<()> {
        self.replace(&error_note(name), message.as_bytes())
    }

    /// Removes the acknowledgement of a file that nobody asks for any more.
    ///
    /// # Errors
    /// What the system says.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        self.remove(&acknowledgement(name))
    }

    /// Names that are acknowledged.
    ///
    /// # Errors
    /// What the system says.
    pub fn acknowledged(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list_names(OUT)?;
        names.retain_mut(|name| match name.strip_suffix(".ok").map(str::len) {
            Some(length) => {
                name.truncate(length);
                true
            }
            None => false,
        });
        Ok(names)
    }

    // ---- pending copies ---------------------------------------------------------------------------------------------

    /// Notes durably that a repository has yet to get a file that is acknowledged.
    ///
    /// # Errors
    /// What the system says.
    pub fn note_pending_copy(&self, system: System, repository: &str, name: &str) -> io::Result<()> {
        let of_system = format!("{PENDING_COPIES}/{system}");
        let directory = pending_copies_of(system, repository);
        let note = || -> io::Result<()> {
            for made in [PENDING_COPIES, &of_system, &directory] {
                self.disk.create_directory(made)?;
            }
            match self.disk.open(&format!("{directory}/{name}"), OpenMode::Create) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                // Whoever noted it before may not have come to the syncs.
                _ => {}
            }
            // From the note up to the spool, whose own name is durable.
            [&directory, &of_system, PENDING_COPIES, ""]
                .into_iter()
                .try_for_each(|above| self.disk.sync_directory(above))
        };
        note().map_err(advised)
    }

    /// The repository has the file now: no copy is pending.
    ///
    /// # Errors
    /// What the system says.
    pub fn note_copied(&self, system: System, repository: &str, name: &str) -> io::Result<()> {
        self.remove(&format!("{}/{name}", pending_copies_of(system, repository)))
    }

    /// Names of the files that a repository has yet to get.
    ///
    /// # Errors
    /// What the system says.
    pub fn pending_copies(&self, system: System, repository: &str) -> io::Result<Vec<String>> {
        let mut names = none_if_missing(self.disk.list_names(&pending_copies_of(system, repository)))?
            .unwrap_or_default();
        names.retain(|name| LogFileName::parse(name).is_some());
        Ok(names)
    }

    /// Refuses notes of pending copies in another format. They would be forgotten otherwise.
    ///
    /// # Errors
    /// What the system says, or `InvalidData`.
    pub(crate) fn check_pending_copies(&self) -> io::Result<()> {
        let names = none_if_missing(self.disk.list_subdirectories(PENDING_COPIES))?.unwrap_or_default();
        match names.iter().find(|name| name.parse::<System>().is_err()) {
            None => Ok(()),
            Some(name) => Err(other_format(
                &self.disk.location(&format!("{PENDING_COPIES}/{name}")),
                "it lists files that a repository may lack: take a new base backup there, then remove it",
            )),
        }
    }

    // ---- what was left out ----------------------------------------------------------------------------------------

    /// Segments that were left out and are not on record yet.
    ///
    /// # Errors
    /// What the system says, or `InvalidData` if the format is another one, or a line is none of ours.
    pub fn gap_notes(&self) -> io::Result<Vec<GapNote>> {
        let Some(text) = self.read_text(GAPS)? else { return Ok(Vec::new()) };
        let path = self.disk.location(GAPS);
        let note = |line: &str| {
            let problem = || format!("{path}: {line:?} is not a segment that was left out");
            GapNote::parse(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, problem()))
        };
        let mut lines = text.lines();
        match lines.next() {
            None | Some(GAPS_VERSION) => lines.map(note).collect(),
            Some(_) => Err(other_format(
                &path,
                "it lists segments that are missing in the archive: take a new base backup, then remove the file",
            )),
        }
    }

    /// Notes durably which segments were left out, instead of what was noted before.
    ///
    /// # Errors
    /// What the system says; then what was noted before may still be.
    pub fn write_gap_notes(&self, notes: &[GapNote]) -> io::Result<()> {
        let version = std::iter::once(format!("{GAPS_VERSION}\n"));
        self.replace_durably(GAPS, version.chain(notes.iter().map(GapNote::to_line)))
    }

    // ---- files ----------------------------------------------------------------------------------------------------

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.disk.open(path, OpenMode::Read)?;
        let bytes = usize::try_from(file.length()?).map_err(io::Error::other)?;
        let mut content = vec![0; bytes];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// `None` if it is missing.
    fn read_text(&self, path: &str) -> io::Result<Option<String>> {
        let Some(content) = none_if_missing(self.read(path))? else { return Ok(None) };
        let problem = |error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", self.disk.location(path)))
        };
        String::from_utf8(content).map(Some).map_err(problem)
    }

    /// A new file. What a crash has left under its name goes.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        match self.disk.open(path, OpenMode::Create) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(path)?;
                self.disk.open(path, OpenMode::Create)
            }
            created => created,
        }
    }

    /// After a power loss, there is all of it or what was before.
    fn replace_durably(&self, path: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
        let new = new_of(path);
        let text: String = lines.collect();
        let write = || -> io::Result<()> {
            let file = self.create(&new)?;
            file.write_all_at(text.as_bytes(), 0)?;
            if !sabotaged(Defect::SpoolNotesNotSynced) {
                file.sync_data()?;
            }
            self.disk.rename(&new, path)?;
            self.disk.sync_directory("")
        };
        write().map_err(advised)
    }

    /// Whoever reads it finds all of it or nothing. After a power loss it is torn, perhaps, or gone.
    fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let new = new_of(path);
        let _one_at_a_time = self.replacing.lock();
        let write = || -> io::Result<()> {
            self.create(&new)?.write_all_at(content, 0)?;
            self.disk.rename(&new, path)
        };
        write().map_err(advised)
    }

    /// One that is not there is fine.
    fn remove(&self, path: &str) -> io::Result<()> {
        none_if_missing(self.disk.remove(path)).map(drop)
    }
}

fn acknowledgement(name: &str) -> String {
    format!("{OUT}/{name}.ok")
}

fn error_note(name: &str) -> String {
    format!("{OUT}/{name}.error")
}

fn pending_copies_of(system: System, repository: &str) -> String {
    format!("{PENDING_COPIES}/{system}/{repository}")
}

/// What is being written has this name.
fn new_of(path: &str) -> String {
    format!("{path}.new")
}

fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Another release has written it.
fn other_format(path: &str, advice: &str) -> io::Error {
    let problem = format!("{path} was written by another release of seawall, and {advice}");
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Says what to do where that is not a matter of one file.
fn advised(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make space there, or name another spool (SEAWALL_SPOOL)"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; name another spool (SEAWALL_SPOOL)",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}{advice}"))
}

#[cfg(test)]
mod tests;
