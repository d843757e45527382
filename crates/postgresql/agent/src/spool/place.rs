//! Where a spool lies, and whose it is; and what of it is the system's: a socket, and a log that is a process's standard error.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{OUT, Spool, advised, ahead};
use crate::trust;

/// A longer log is put aside.
const LOG_BYTES_MAX: u64 = 1 << 20;
const LOG: &str = "agent.log";
const LOG_BEFORE: &str = "agent.log.old";

impl Spool {
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
        // Before, so that nothing is made in a place of others; and after, since others may have been quicker.
        self.check()?;
        match DirBuilder::new().recursive(true).mode(0o700).create(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at(&self.directory)(error));
            }
            _ => {}
        }
        self.make_directories()?;
        for path in [self.directory.clone(), self.directory.join(OUT), self.directory.join(ahead::IN)] {
            check_own(&path, &std::fs::symlink_metadata(&path).map_err(at(&path))?)?;
        }
        self.check()?;
        self.sync_names()
    }

    /// Those below its own. What is lost of them with the power is made again.
    pub(crate) fn make_directories(&self) -> io::Result<()> {
        [OUT, ahead::IN].into_iter().try_for_each(|path| self.disk.create_directory(path)).map_err(advised)
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
                self.disk.rename(LOG, LOG_BEFORE)?;
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
        self.directory.join(LOG)
    }
}

/// Refuses what is not a directory that this user alone can write to.
fn check_own(path: &Path, metadata: &std::fs::Metadata) -> io::Result<()> {
    let problem = if metadata.is_symlink() {
        "is a symbolic link".to_owned()
    } else if !metadata.is_dir() {
        "is not a directory".to_owned()
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

/// Says which file it is, and what to do.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.display().to_string();
    move |error| advised(io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Makes the names in a directory durable.
fn sync(directory: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).open(directory)?.sync_all()
}
