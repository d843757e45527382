//! The spool: what commands and the agent tell each other through files. One directory for each data directory, readable by
//! nobody else.
//!
//! ```text
//!   agent.lock             held by the agent while it runs
//!   start.lock             held by a command while it starts one
//!   agent.socket           where it listens
//!   agent.log              what it says; `agent.log.old`: before
//!   out/NAME.ok            NAME is durable in every repository: the file that was, as a line of size, time of change, inode,
//!                          and a number for the repositories
//!   out/NAME.error         why the last attempt to archive NAME failed
//!   in/NAME                fetched ahead, whole and checked
//!   in/.NAME               being fetched
//! ```
//! Invariants:
//! * An acknowledgement is written after the object is durable in every repository, and speaks of one file: another one with
//!   the same name, of a cluster that was made or restored in the same place, has another inode or time, and is not
//!   acknowledged by it. Nor is it one where other repositories are set than those that have it.
//! * Whatever is lost here, by a crash or by hand, is done again; nothing here needs a sync. What is torn is not taken for
//!   anything.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An acknowledgement is shorter.
const LINE_BYTES_MAX: u64 = 200;
/// A longer log is put aside when an agent starts.
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

/// The spool of one data directory.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
    /// Which repositories acknowledgements speak of.
    repositories: u32,
}

impl Spool {
    /// The spool at `directory`, for `repositories`: a number that others do not have. Touches nothing.
    pub fn new(directory: PathBuf, repositories: u32) -> Spool {
        Spool { directory, repositories }
    }

    /// Makes its directories, if they are missing, and refuses one that others may write to: they could acknowledge what is not
    /// archived.
    ///
    /// # Errors
    /// What the system says, or `PermissionDenied`.
    pub fn prepare(&self) -> io::Result<()> {
        let make = |path: &Path| match DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        };
        for path in [self.directory.clone(), self.directory.join("out"), self.directory.join("in")] {
            make(&path)?;
            let metadata = std::fs::symlink_metadata(&path)?;
            let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
            if !metadata.is_dir() || !is_own || metadata.mode() & 0o022 != 0 {
                let problem = format!("{} must be a directory that nobody else can write to", path.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
            }
        }
        Ok(())
    }

    /// Whether `file` is acknowledged under this name. Anything that is not an acknowledgement of just this file is none.
    pub fn is_acknowledged(&self, name: &str, file: FileIdentity) -> bool {
        let read = || -> io::Result<Vec<u8>> {
            let acknowledgement = OpenOptions::new().read(true).open(self.acknowledgement(name))?;
            // The spool may lie where others can make directories: they could acknowledge what is not archived.
            if acknowledgement.metadata()?.uid() != rustix::process::geteuid().as_raw() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let mut line = Vec::new();
            acknowledgement.take(LINE_BYTES_MAX).read_to_end(&mut line)?;
            Ok(line)
        };
        read().is_ok_and(|line| line == file.to_line(self.repositories).as_bytes())
    }

    /// Acknowledges `file`. Everything that it promises must be durable.
    ///
    /// # Errors
    /// What the system says; then there is no acknowledgement.
    pub fn acknowledge(&self, name: &str, file: FileIdentity) -> io::Result<()> {
        self.replace(&self.acknowledgement(name), file.to_line(self.repositories).as_bytes())?;
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

    fn acknowledgement(&self, name: &str) -> PathBuf {
        self.directory.join("out").join(format!("{name}.ok"))
    }

    /// Whoever reads it finds all of it or nothing.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(&new)?.write_all(content)?;
        rustix::fs::rename(&new, path).map_err(io::Error::from)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match rustix::fs::unlink(path) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Where the agent listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("agent.socket")
    }

    /// Puts a long log aside, in place of the one before.
    ///
    /// # Errors
    /// What the system says.
    pub fn turn_log(&self) -> io::Result<()> {
        match std::fs::metadata(self.log()) {
            Ok(metadata) if metadata.len() > LOG_BYTES_MAX => {
                Ok(rustix::fs::rename(self.log(), self.directory.join("agent.log.old"))?)
            }
            _ => Ok(()),
        }
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

    /// Locks a file of the spool, and waits for whoever holds it.
    ///
    /// # Errors
    /// What the system says.
    pub fn lock(&self, lock: Lock) -> io::Result<SpoolLock> {
        let file = self.open_lock(lock)?;
        file.lock()?;
        Ok(SpoolLock { _file: file })
    }

    fn open_lock(&self, lock: Lock) -> io::Result<std::fs::File> {
        let name = match lock {
            Lock::Agent => "agent.lock",
            Lock::Start => "start.lock",
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(self.directory.join(name))
    }
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
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_acknowledgement_is_of_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().join("spool"), 7);
        spool.prepare().unwrap();
        spool.prepare().unwrap();
        let file = directory.path().join("000000010000000000000001");
        let identity = || FileIdentity::of(&std::fs::metadata(&file).unwrap());
        std::fs::write(&file, b"content").unwrap();
        let first = identity();
        assert!(!spool.is_acknowledged("000000010000000000000001", first));
        spool.note_error("000000010000000000000001", "the store is down").unwrap();
        spool.acknowledge("000000010000000000000001", first).unwrap();
        assert!(spool.is_acknowledged("000000010000000000000001", first));
        assert_eq!(spool.acknowledged().unwrap(), ["000000010000000000000001"]);
        assert!(!spool.is_acknowledged("000000010000000000000002", first));
        // Another file in its place.
        let other = directory.path().join("other");
        std::fs::write(&other, b"CONTENT").unwrap();
        assert!(!spool.is_acknowledged(
            "000000010000000000000001",
            FileIdentity::of(&std::fs::metadata(&other).unwrap())
        ));
        // Nor do other repositories have it.
        let other = Spool::new(directory.path().join("spool"), 8);
        assert!(!other.is_acknowledged("000000010000000000000001", first));
        // A torn acknowledgement is none.
        let path = spool.acknowledgement("000000010000000000000001");
        let line = std::fs::read(&path).unwrap();
        for length in 0..line.len() {
            std::fs::write(&path, &line[..length]).unwrap();
            assert!(!spool.is_acknowledged("000000010000000000000001", first), "length {length}");
        }
        spool.forget("000000010000000000000001").unwrap();
        spool.forget("000000010000000000000001").unwrap();
        assert!(spool.acknowledged().unwrap().is_empty());
    }

    #[test]
    fn a_spool_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().join("spool"), 7);
        spool.prepare().unwrap();
        std::fs::set_permissions(directory.path().join("spool/out"), PermissionsExt::from_mode(0o777))
            .unwrap();
        assert_eq!(spool.prepare().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(directory.path().to_owned(), 7);
        spool.prepare().unwrap();
        let held = spool.try_lock(Lock::Agent).unwrap();
        assert!(held.is_some() && spool.try_lock(Lock::Agent).unwrap().is_none());
        assert!(spool.try_lock(Lock::Start).unwrap().is_some());
        drop(held);
        assert!(spool.try_lock(Lock::Agent).unwrap().is_some());
    }
}
