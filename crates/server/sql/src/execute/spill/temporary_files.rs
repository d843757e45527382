//! The temporary files of a session: where they are made, what they may take, and what they leave free on their volume.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_values::{SqlError, SqlResult, SqlState};

use super::failure;

/// The part of a volume that temporary files leave free, and its limit in bytes: the log and the pages of the database may be on the same
/// volume, and one statement must not take from all commits what they need.
const FREE_SHARE: u64 = 20;
const FREE_BYTES_MAX: u64 = 1 << 30;

/// The space on the volume is looked up each time a file has grown by so much.
const LOOKED_UP_BYTES: u64 = 1 << 20;

/// What the temporary files of one session take.
#[derive(Debug)]
pub struct TemporaryFiles {
    directory: PathBuf,
    /// Bytes. `Relaxed`, like `used`: numbers that guard no other memory.
    limit: AtomicU64,
    used: AtomicU64,
}

impl Default for TemporaryFiles {
    /// In the system's directory for temporary files, without a limit.
    fn default() -> TemporaryFiles {
        TemporaryFiles {
            directory: std::env::temp_dir(),
            limit: AtomicU64::new(u64::MAX),
            used: AtomicU64::new(0),
        }
    }
}

impl TemporaryFiles {
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// So many bytes in all: `temp_file_limit`. What is written already stays.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Makes sure that a file of `written` bytes may have more, and counts them.
    pub(super) fn take(&self, file: &File, written: u64, bytes: u64) -> SqlResult<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_err() {
            return Err(beyond_limit(limit));
        }
        let is_looked_up = written / LOOKED_UP_BYTES != (written + bytes) / LOOKED_UP_BYTES || written == 0;
        let enough = if is_looked_up { leaves_space(file, bytes) } else { Ok(()) };
        enough.inspect_err(|_| self.give_back(bytes))
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes are given back of {before} that were taken");
    }
}

/// Whether the file's volume keeps enough when the file grows.
fn leaves_space(file: &File, bytes: u64) -> SqlResult<()> {
    let volume = rustix::fs::fstatvfs(file).map_err(|error| failure("find the space for", &error.into()))?;
    let free = volume.f_bavail.saturating_mul(volume.f_frsize);
    let kept = kept_free(volume.f_blocks.saturating_mul(volume.f_frsize));
    if free < kept.saturating_add(bytes) {
        return Err(beyond_space(free, kept));
    }
    Ok(())
}

/// What temporary files leave free on a volume of this size. Volumes of some networks say 0, and have no such part.
fn kept_free(volume_bytes: u64) -> u64 {
    (volume_bytes / FREE_SHARE).min(FREE_BYTES_MAX)
}

#[cold]
fn beyond_limit(limit: u64) -> Box<SqlError> {
    let message = format!("temporary file size exceeds temp_file_limit ({}kB)", limit >> 10);
    SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
}

#[cold]
fn beyond_space(free: u64, kept: u64) -> Box<SqlError> {
    SqlError::new(SqlState::DISK_FULL, "could not write a temporary file: its volume is nearly full")
        .with_detail(format!(
            "The volume has {} MiB left, and temporary files leave {} MiB of it to the database.",
            free >> 20,
            kept >> 20
        ))
        .with_hint(
            "Free some space, set TMPDIR of the server to another volume, or make the statement keep less.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_each_volume_stays_free() {
        assert_eq!(kept_free(0), 0);
        assert_eq!(kept_free(200 << 20), 10 << 20);
        assert_eq!(kept_free(1 << 50), 1 << 30);
    }

    #[test]
    fn the_files_of_a_session_have_one_limit() {
        let files = TemporaryFiles::default();
        let file = tempfile::tempfile().unwrap();
        files.set_limit(100 << 10);
        files.take(&file, 0, 60 << 10).unwrap();
        let refused = files.take(&file, 60 << 10, 50 << 10).unwrap_err();
        assert_eq!(refused.code, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        assert_eq!(refused.message, "temporary file size exceeds temp_file_limit (100kB)");
        files.give_back(60 << 10);
        files.take(&file, 0, 100 << 10).unwrap();
    }
}
