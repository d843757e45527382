//! What a restore that was cut short has left and the next one keeps: files that are whole, by length and checksum. Everything else is
//! removed and fetched again.
//!
//! A list of what was durable once says where to look (`attempt`); their content is what counts. What the power took, or somebody
//! changed, is found out by reading it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use seawall_codec::checksum::Crc32c;
use seawall_io::{Disk, OpenMode};

use super::attempt::Entry;
use super::directory::{NewCluster, is_missing};
use super::error::PostgreSqlBackupError;
use super::file_list::FileSum;

/// Files are read in such pieces.
const PIECE_BYTES: usize = 1 << 20;

/// Those of `entries` that are in the directory as they were written, in the same order. Removes all other files. `checked` is told
/// how many bytes were looked at.
pub(super) fn keep_whole(
    cluster: &NewCluster,
    entries: Vec<Entry>,
    threads: usize,
    checked: &mut dyn FnMut(u64),
) -> Result<Vec<Entry>, PostgreSqlBackupError> {
    let tree = cluster.tree()?;
    let is_there = |entry: &Entry| match entry.sum {
        Some(_) => tree.files.contains(&entry.path),
        None => tree.directories.contains(&entry.path),
    };
    let there: Vec<Entry> = entries.into_iter().filter(is_there).collect();
    let are_whole = check(cluster.disk(), &there, threads, checked)?;
    let kept: Vec<Entry> =
        there.into_iter().zip(are_whole).filter_map(|(entry, is_whole)| is_whole.then_some(entry)).collect();
    let mut others = tree.files;
    for entry in &kept {
        others.remove(&entry.path);
    }
    cluster.remove(others.iter())?;
    Ok(kept)
}

/// Whether each is whole.
fn check(
    disk: &dyn Disk,
    entries: &[Entry],
    threads: usize,
    checked: &mut dyn FnMut(u64),
) -> Result<Vec<bool>, PostgreSqlBackupError> {
    let next = AtomicUsize::new(0);
    let mut are_whole = vec![false; entries.len()];
    thread::scope(|scope| {
        let (sender, answers) = sync_channel(threads.max(1));
        for _ in 0..threads.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                let mut piece = vec![0; PIECE_BYTES];
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = entries.get(index) else { return };
                    // When nobody takes answers any more, something has failed.
                    if sender.send((index, is_whole(disk, entry, &mut piece))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, answer) in answers {
            are_whole[index] =
                answer.map_err(PostgreSqlBackupError::io("cannot check what is there already"))?;
            checked(entries[index].sum.map_or(0, |sum| sum.bytes));
        }
        Ok(are_whole)
    })
}

/// Whether a file has the content that it was written with.
fn is_whole(disk: &dyn Disk, entry: &Entry, piece: &mut [u8]) -> std::io::Result<bool> {
    let Some(FileSum { bytes, checksum: expected }) = entry.sum else { return Ok(true) };
    let file = match disk.open(&entry.path, OpenMode::Read) {
        Err(error) if is_missing(&error) => return Ok(false),
        file => file?,
    };
    if file.length()? != bytes {
        return Ok(false);
    }
    let (mut read, mut checksum) = (0, Crc32c::new());
    while read < bytes {
        let count = usize::try_from(bytes - read).map_or(piece.len(), |left| left.min(piece.len()));
        file.read_exact_at(&mut piece[..count], read)?;
        checksum.update(&piece[..count]);
        read += count as u64;
    }
    Ok(checksum.finish() == expected)
}
