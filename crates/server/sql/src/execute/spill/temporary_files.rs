//! The temporary files of a session: where they are made, what they may take, and what they leave free on their volume.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_values::{SqlError, SqlResult, SqlState};

/// The part of a volume that temporary files leave free, and its limit in bytes: the log and the pages of the database may be on the same
/// volume, and one statement must not take from all commits what they need.
const FREE_SHARE: u64 = 20;
const FREE_BYTES_MAX: u64 = 1 << 30;

/// The space on the volume is looked up each time the files of all sessions have grown by so much, and before the first bytes of each.
const LOOKED_UP_BYTES: u64 = 1 << 20;
/// Bytes that all sessions of the process have written: their files share one volume. `Relaxed`: a count that guards no other memory.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// The temporary files of one session, and their bytes.
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
        let before = WRITTEN.fetch_add(bytes, Ordering::Relaxed);
        let is_due = before / LOOKED_UP_BYTES != before.wrapping_add(bytes) / LOOKED_UP_BYTES;
        let enough = if is_due || written == 0 { look_up(file, bytes) } else { Ok(()) };
        enough.inspect_err(|_| self.give_back(bytes))
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes are given back of {before} that were taken");
    }
}

/// Refuses growth that would leave the volume too little free space. Where the system does not tell, the write itself meets a full disk.
fn look_up(file: &File, bytes: u64) -> SqlResult<()> {
    let Ok(volume) = rustix::fs::fstatvfs(file) else { return Ok(()) };
    let unit = volume.f_frsize;
    let (all, free) = (volume.f_blocks.saturating_mul(unit), volume.f_bavail.saturating_mul(unit));
    match missing_space(all, free, bytes) {
        Some(kept) => Err(beyond_space(free, kept)),
        None => Ok(()),
    }
}

/// The bytes that must stay free on a volume of `all` bytes, if `bytes` more would leave fewer than that. `None`: they fit. Some network file
/// systems, and a `tmpfs` without a limit, report no size; there everything fits.
fn missing_space(all: u64, free: u64, bytes: u64) -> Option<u64> {
    let kept = (all / FREE_SHARE).min(FREE_BYTES_MAX);
    (all > 0 && free < kept.saturating_add(bytes)).then_some(kept)
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
        assert_eq!(missing_space(200 << 20, 11 << 20, 1 << 20), None);
        assert_eq!(missing_space(200 << 20, (11 << 20) - 1, 1 << 20), Some(10 << 20));
        assert_eq!(missing_space(1 << 50, 1 << 30, 1), Some(1 << 30));
        assert_eq!(missing_space(0, 0, 1 << 20), None, "a volume that does not say how large it is");
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
