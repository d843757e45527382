//! What the device can do at best: one 8 KiB overwrite and `fdatasync` after another. A ceiling for one thread's durable
//! commits, and a sign of drift when it differs between the start and the end of a table.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::error::{BenchError, file_error};
use crate::usage::now;

const BLOCK: [u8; 8192] = [0x5a; 8192];
const BLOCKS: u64 = 256;
const SETTLED_FOR: Duration = Duration::from_millis(300);
const QUIET_SHARE: f64 = 0.8;

/// Syncs a second in a file of its own in `directory`.
pub(crate) fn syncs_per_second(directory: &Path, duration: Duration) -> Result<f64, BenchError> {
    let path = directory.join("device-probe");
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .map_err(file_error("create", &path))?;
    // Real bytes first: what is measured must not allocate blocks or grow the file.
    for block in 0..BLOCKS {
        file.write_all_at(&BLOCK, block * BLOCK.len() as u64).map_err(file_error("write", &path))?;
    }
    file.sync_all().map_err(file_error("sync", &path))?;
    let begin = now();
    let mut syncs = 0_u64;
    while begin.elapsed() < duration {
        file.write_all_at(&BLOCK, syncs % BLOCKS * BLOCK.len() as u64).map_err(file_error("write", &path))?;
        file.sync_data().map_err(file_error("sync", &path))?;
        syncs += 1;
    }
    let elapsed = begin.elapsed().as_secs_f64();
    #[expect(clippy::disallowed_methods, reason = "a scratch file of the benchmark, not of an engine")]
    fs::remove_file(&path).map_err(file_error("remove", &path))?;
    Ok(syncs as f64 / elapsed)
}

/// Waits until the device syncs as fast as when it was `quiet`, nearly: a disk goes on with gigabytes for seconds after their sync. `false`
/// if it does not within `limit`.
pub(crate) fn settle(directory: &Path, quiet: f64, limit: Duration) -> Result<bool, BenchError> {
    let begin = now();
    while begin.elapsed() < limit {
        if syncs_per_second(directory, SETTLED_FOR)? >= QUIET_SHARE * quiet {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_syncs_and_the_probe_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert!(syncs_per_second(directory.path(), Duration::from_millis(10)).unwrap() > 0.0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_that_was_slower_has_settled_and_one_that_was_never_so_fast_has_not() {
        let directory = tempfile::tempdir().unwrap();
        assert!(settle(directory.path(), 1e-3, Duration::from_secs(60)).unwrap());
        assert!(!settle(directory.path(), f64::INFINITY, Duration::from_millis(1)).unwrap());
    }
}
