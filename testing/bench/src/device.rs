//! What the device can do at best. One 8 KiB overwrite and `fdatasync` after another: a ceiling for one thread's durable commits, and a sign
//! of drift when it differs between the start and the end of a table. Random reads of 8 KiB past the page cache: a ceiling for cold
//! point reads.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use seawall_io::AlignedBuffer;

use crate::error::{BenchError, file_error};
use crate::random::Random;
use crate::usage::now;

const BLOCK: [u8; 8192] = [0x5a; 8192];
const BLOCKS: u64 = 256;
/// 2 GiB to read from: more than a device keeps in a memory of its own.
const READ_PIECE_BLOCKS: usize = 1024;
const READ_PIECES: u64 = 256;
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

/// Reads of 8 KiB a second at random places of a file of its own in `directory`, past the page cache, with each number of threads.
pub(crate) fn reads_per_second<const N: usize>(
    directory: &Path,
    threads: [usize; N],
    duration: Duration,
) -> Result<[f64; N], BenchError> {
    let path = directory.join("device-probe");
    let rates = read_probe(&path, threads, duration).map_err(file_error("write and read", &path));
    #[expect(clippy::disallowed_methods, reason = "a scratch file of the benchmark, not of an engine")]
    fs::remove_file(&path).map_err(file_error("remove", &path))?;
    rates
}

fn read_probe<const N: usize>(
    path: &Path,
    threads: [usize; N],
    duration: Duration,
) -> std::io::Result<[f64; N]> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    let piece = BLOCK.repeat(READ_PIECE_BLOCKS);
    (0..READ_PIECES).try_for_each(|number| file.write_all_at(&piece, number * piece.len() as u64))?;
    file.sync_all()?;
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(direct).open(path)?;
    let blocks = READ_PIECES * READ_PIECE_BLOCKS as u64;
    let mut rates = [0.0; N];
    for (rate, threads) in rates.iter_mut().zip(threads) {
        let begin = now();
        let read_for = |thread| -> std::io::Result<u64> {
            let (mut random, mut reads) = (Random::new(thread), 0);
            let mut buffer = AlignedBuffer::zeroed(BLOCK.len());
            while begin.elapsed() < duration {
                file.read_exact_at(&mut buffer, random.below(blocks) * BLOCK.len() as u64)?;
                reads += 1;
            }
            Ok(reads)
        };
        let read_for = &read_for;
        let reads: std::io::Result<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..threads as u64).map(|thread| scope.spawn(move || read_for(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread that only reads")).sum()
        });
        *rate = reads? as f64 / begin.elapsed().as_secs_f64();
    }
    Ok(rates)
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
