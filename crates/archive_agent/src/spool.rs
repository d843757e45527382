//! The spool: what commands and the agent tell each other through files. One directory for each data directory, which this user
//! alone can read and write.
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
//! ```
//! Invariants:
//! * Nothing in it is believed before it is known that nobody but this user and root could have written it (`trust`).
//! * An acknowledgement is written after the object is durable in every repository, and speaks of one file: another one with
//!   the same name, of a cluster that was made or restored in the same place, has another inode or time, and is not
//!   acknowledged by it. Nor is it one where other repositories are set than those that have it, or where another repository has
//!   taken the place of one of them: `repositories` is replaced, and synced, before anything is acknowledged for that.
//! * Acknowledgements and what is fetched ahead may be lost, by a crash or by hand: it is done again. What is owed and what was left
//!   out is synced before PostgreSQL is told that it may remove the file. What is torn is not taken for anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_archive::{LogFileName, SegmentPlace, System};
use seawall_codec::checksum::crc32c;
use seawall_io::Clock;
use seawall_io::sabotage::{Defect, sabotaged};

use crate::trust;

/// An acknowledgement is shorter.
const LINE_BYTES_MAX: u64 = 200;
/// How often it is looked whether a lock is free: nobody waits for one but at the end of an agent.
const LOCK_AGAIN: Duration = Duration::from_millis(20);
/// A longer log is put aside.
const LOG_BYTES_MAX: u64 = 1 << 20;

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
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
    /// Which repositories are set.
    setting: u32,
}

impl Spool {
    /// The spool at `directory`. `setting` is a number that stands for the repositories that are set. Touches nothing.
    pub fn new(directory: PathBuf, setting: u32) -> Spool {
        Spool { directory, setting }
    }

    /// A number for the repositories that acknowledgements speak of: those that are set, with the ids that they had when an agent
    /// opened them. `None` if that is not noted: then nothing is acknowledged.
    pub(crate) fn mark(&self) -> Option<u32> {
        let ids = std::fs::read(self.directory.join("repositories")).ok()?;
        Some(crc32c(&[&self.setting.to_le_bytes(), &ids[..]].concat()))
    }

    /// The ids of the required repositories, by their numbers.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn repositories(&self) -> io::Result<BTreeMap<String, String>> {
        let text = match std::fs::read_to_string(self.directory.join("repositories")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            text => text?,
        };
        let line = |line: &str| line.split_once(' ').map(|(key, id)| (key.to_owned(), id.to_owned()));
        Ok(text.lines().filter_map(line).collect())
    }

    /// Notes durably which ids the required repositories have. Where it is noted already, nothing is written.
    ///
    /// # Errors
    /// What the system says; then none is noted, and nothing is acknowledged.
    pub(crate) fn note_repositories(&self, ids: &BTreeMap<String, String>) -> io::Result<()> {
        let path = self.directory.join("repositories");
        if self.repositories()? == *ids && path.exists() {
            return Ok(());
        }
        // First, what is acknowledged counts no more: on a disk that is full that takes no space.
        self.remove(&path)?;
        sync(&self.directory)?;
        self.replace_durably("repositories", ids.iter().map(|(key, id)| format!("{key} {id}\n")))
    }

    /// Refuses a spool that others may write to, or could put another one in the place of: they could acknowledge what is not
    /// archived. One that is missing is fine. To be called before anything in it is believed. Returns where it really is, past all
    /// links.
    ///
    /// # Errors
    /// What the system says, or `PermissionDenied`, with the directory.
    pub fn check(&self) -> io::Result<PathBuf> {
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        let real = trust::check_directory(parent)?;
        match std::fs::symlink_metadata(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            metadata => check_own(&self.directory, &metadata.map_err(at(&self.directory))?)?,
        }
        Ok(real.join(self.directory.file_name().unwrap_or_default()))
    }

    /// Makes its directories, if they are missing.
    ///
    /// # Errors
    /// What the system says, or as [`Spool::check`].
    pub fn prepare(&self) -> io::Result<()> {
        let make = |path: &Path| match DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        };
        // Before, so that nothing is made in a place of others; and after, since others may have been quicker.
        self.check()?;
        for path in [self.directory.clone(), self.directory.join("out"), self.directory.join("in")] {
            make(&path).map_err(at(&path))?;
            check_own(&path, &std::fs::symlink_metadata(&path).map_err(at(&path))?)?;
        }
        self.check()?;
        self.sync_names()
    }

    /// Makes its own name durable, and those above that may have been made with it: what is noted in it later must not be lost
    /// with them. That ends at the first directory of another user's in which this one cannot make a name: it need not be readable.
    fn sync_names(&self) -> io::Result<()> {
        let own = rustix::process::geteuid().as_raw();
        for parent in self.directory.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            let is_own = std::fs::metadata(parent).map_err(at(parent))?.uid() == own;
            if !is_own && rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_err() {
                break;
            }
            sync(parent).map_err(at(parent))?;
            if !is_own {
                break;
            }
        }
        Ok(())
    }

    /// Whether `file` is acknowledged under this name. Anything that is not an acknowledgement of just this file is none.
    pub fn is_acknowledged(&self, name: &str, file: FileIdentity) -> bool {
        self.mark().is_some_and(|mark| self.is_acknowledged_for(mark, name, file))
    }

    /// As `is_acknowledged`, for a caller that looks at many files, and has asked for [`Spool::mark`] once.
    pub(crate) fn is_acknowledged_for(&self, mark: u32, name: &str, file: FileIdentity) -> bool {
        let read = || -> io::Result<Vec<u8>> {
            let acknowledgement = OpenOptions::new().read(true).open(self.acknowledgement(name))?;
            let mut line = Vec::new();
            acknowledgement.take(LINE_BYTES_MAX).read_to_end(&mut line)?;
            Ok(line)
        };
        read().is_ok_and(|line| line == file.to_line(mark).as_bytes())
    }

    /// Acknowledges `file`, which the repositories have that [`Spool::mark`] stood for when it was put. Everything that it promises must
    /// be durable.
    ///
    /// # Errors
    /// What the system says; then there is no acknowledgement.
    pub(crate) fn acknowledge(&self, name: &str, file: FileIdentity, mark: u32) -> io::Result<()> {
        self.replace(&self.acknowledgement(name), file.to_line(mark).as_bytes())?;
        self.remove(&self.directory.join("out").join(format!("{name}.error")))
    }

    /// Says why `name` could not be archived.
    ///
    /// # Errors
    /// What the system says.
    pub fn note_error(&self, name: &str, message: &str) -> io::Result<()> {
        self.replace(&self.directory.join("out").join(format!("{name}.error")), message.as_bytes())
    }

    /// Removes the acknowledgement of a file that nobody asks for any more.
    ///
    /// # Errors
    /// What the system says.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        self.remove(&self.acknowledgement(name))
    }

    /// Names that are acknowledged.
    ///
    /// # Errors
    /// What the system says.
    pub fn acknowledged(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.directory.join("out"))? {
            let name = entry?.file_name();
            names.extend(name.to_str().and_then(|name| name.strip_suffix(".ok")).map(str::to_owned));
        }
        Ok(names)
    }

    /// Notes durably that a repository has yet to get a file that is acknowledged.
    ///
    /// # Errors
    /// What the system says.
    pub fn note_owed(&self, system: System, repository: &str, name: &str) -> io::Result<()> {
        let directory = self.owed_to(system, repository);
        let note = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600).open(directory.join(name))?;
            // From the note up to the spool, whose own name is durable.
            directory.ancestors().take_while(|above| above.starts_with(&self.directory)).try_for_each(sync)
        };
        note().map_err(at(&directory))
    }

    /// The repository has it now.
    ///
    /// # Errors
    /// What the system says.
    pub fn note_paid(&self, system: System, repository: &str, name: &str) -> io::Result<()> {
        self.remove(&self.owed_to(system, repository).join(name))
    }

    /// Names of the files that a repository has yet to get.
    ///
    /// # Errors
    /// What the system says.
    pub fn owed(&self, system: System, repository: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.owed_to(system, repository)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().filter(|name| LogFileName::parse(name).is_some());
            names.extend(name.map(str::to_owned));
        }
        Ok(names)
    }

    /// Refuses notes of another format about what is owed. They would be forgotten otherwise.
    ///
    /// # Errors
    /// What the system says, or `InvalidData`.
    pub(crate) fn check_owed(&self) -> io::Result<()> {
        let directory = self.directory.join("owed");
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_none_or(|name| name.parse::<System>().is_err()) {
                return Err(other_format(
                    &entry.path(),
                    "it lists files that a repository may lack: take a new base backup there, then remove it",
                ));
            }
        }
        Ok(())
    }

    fn owed_to(&self, system: System, repository: &str) -> PathBuf {
        self.directory.join("owed").join(system.to_string()).join(repository)
    }

    /// Segments that were left out and are not on record yet.
    ///
    /// # Errors
    /// What the system says, or `InvalidData` if the format is another one, or a line is none of ours.
    pub fn gap_notes(&self) -> io::Result<Vec<GapNote>> {
        let path = self.directory.join("gaps");
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        let note = |line: &str| {
            let problem = || format!("{}: {line:?} is no segment that was left out", path.display());
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
        self.replace_durably("gaps", version.chain(notes.iter().map(GapNote::to_line)))
    }

    /// After a power loss, there is all of it or what was before.
    fn replace_durably(&self, name: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        let text: String = lines.collect();
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            if !sabotaged(Defect::SpoolNotesNotSynced) {
                file.sync_all()?;
            }
            rustix::fs::rename(&new, &path)?;
            sync(&self.directory)
        };
        write().map_err(at(&path))
    }

    fn acknowledgement(&self, name: &str) -> PathBuf {
        self.directory.join("out").join(format!("{name}.ok"))
    }

    /// Whoever reads it finds all of it or nothing.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let new = path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600).open(&new)?.write_all(content)?;
            Ok(rustix::fs::rename(&new, path)?)
        };
        write().map_err(at(path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match rustix::fs::unlink(path) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the agent listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("agent.socket")
    }

    /// Puts a long log aside, in place of the one before. Whether it was long.
    ///
    /// # Errors
    /// What the system says.
    pub fn turn_log(&self) -> io::Result<bool> {
        match std::fs::metadata(self.log()) {
            Ok(metadata) if metadata.len() > LOG_BYTES_MAX => {
                rustix::fs::rename(self.log(), self.directory.join("agent.log.old"))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The log, for the standard error of an agent.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open_log(&self) -> io::Result<std::fs::File> {
        OpenOptions::new().create(true).append(true).open(self.log()).map_err(at(&self.log()))
    }

    /// What it says.
    pub fn log(&self) -> PathBuf {
        self.directory.join("agent.log")
    }

    /// Where a segment lies that was fetched ahead.
    pub fn fetched(&self, name: &str) -> PathBuf {
        self.directory.join("in").join(name)
    }

    /// Where it lies while it is fetched.
    pub fn fetching(&self, name: &str) -> PathBuf {
        self.directory.join("in").join(format!(".{name}"))
    }

    /// Removes whatever was fetched ahead.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear_fetched(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.directory.join("in"))? {
            self.remove(&entry?.path())?;
        }
        Ok(())
    }

    /// Locks a file of the spool, if nobody holds it.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_lock(&self, lock: Lock) -> io::Result<Option<SpoolLock>> {
        let file = self.open_lock(lock)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(SpoolLock { _file: file })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks a file of the spool, and waits so long for whoever holds it.
    ///
    /// # Errors
    /// What the system says; `TimedOut`.
    pub fn lock_within(&self, lock: Lock, patience: Duration, clock: &dyn Clock) -> io::Result<SpoolLock> {
        let begun = clock.monotonic();
        loop {
            if let Some(held) = self.try_lock(lock)? {
                return Ok(held);
            }
            if clock.monotonic().saturating_sub(begun) >= patience {
                let holder = match lock {
                    Lock::Agent => "another agent, which ends when its last uploads and downloads have ended",
                    Lock::Start => "another command, which starts an agent",
                };
                let (seconds, directory) = (patience.as_secs(), self.directory.display());
                let problem = format!("{directory} was in use for {seconds} s by {holder}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            clock.sleep(LOCK_AGAIN);
        }
    }

    fn open_lock(&self, lock: Lock) -> io::Result<std::fs::File> {
        let path = self.directory.join(match lock {
            Lock::Agent => "agent.lock",
            Lock::Start => "start.lock",
        });
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(at(&path))
    }
}

/// Refuses what is not a directory that this user alone can write to.
fn check_own(path: &Path, metadata: &std::fs::Metadata) -> io::Result<()> {
    let problem = if metadata.is_symlink() {
        "is a symbolic link".to_owned()
    } else if !metadata.is_dir() {
        "is no directory".to_owned()
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        format!("belongs to user {}", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        "is such that others can write to it".to_owned()
    } else {
        return Ok(());
    };
    let problem = format!("{} {problem}: it must be a directory of this user's alone", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Another release has written it.
fn other_format(path: &Path, advice: &str) -> io::Error {
    let problem = format!("{} was written by another release of seawall, and {advice}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Says which file it is, and what to do.
fn at(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.display().to_string();
    move |error| {
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; make space there, or name another spool (SEAWALL_SPOOL)"
            }
            io::ErrorKind::ReadOnlyFilesystem => "; name another spool (SEAWALL_SPOOL)",
            _ => "",
        };
        io::Error::new(error.kind(), format!("{path}: {error}{advice}"))
    }
}

/// Makes the names in a directory durable.
fn sync(directory: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).open(directory)?.sync_all()
}

/// A file that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// By the agent, while it runs.
    Agent,
    /// By a command, while it starts one.
    Start,
}

/// Held until dropped, or until the process ends in any way.
#[derive(Debug)]
pub struct SpoolLock {
    _file: std::fs::File,
}

#[cfg(test)]
mod tests;
