//! The pending files: copies of the log's two batches that are not durable, in memory that outlives the process.
//!
//! ```text
//!   log/pending.1  [header|..batch 7, being written..      ]      a segment   ..6][7 7 7 ?
//!   log/pending.2  [header|..batch 8, being filled..       ]                            ^ end of the log after a kill
//!                                                                 + rest of 7, then 8: what was acknowledged
//! ```
//! A record is acknowledged as `Async` once it and all records before it are copied here (`writer::mirror`). If the process
//! is killed then, the operating system still has the pages, and the next open finds the records that the segments do not
//! have (`reader::rescue`). A batch without an `Async` commit is not copied. A pending file, integers
//! little-endian:
//!
//! | offset | bytes | field      | meaning                                                              |
//! |-------:|------:|------------|----------------------------------------------------------------------|
//! |      0 |     8 | magic      | `SWPND\r\n` and 0x1A                                                 |
//! |      8 |     4 | version    | [`FORMAT_VERSION`]; an unknown one is refused                        |
//! |     12 |     4 | checksum   | CRC-32C of bytes 0..512 with this field zero                         |
//! |     16 |    16 | database   | database id                                                          |
//! |     32 |     8 | data_bytes | length of the data; the file is 4096 longer                          |
//! |     40 |   472 | reserved   | zero                                                                 |
//! |    512 |     8 | first_lsn  | where byte 4096 of the file belongs in the log: a block border       |
//! |    520 |     8 | seal       | `mix(mix(first_lsn XOR log_key))`, as in `record`; else `first_lsn` says nothing |
//! |    528 |  3568 | reserved   | zero                                                                 |
//! |   4096 |       | data       | what the log holds, or is to hold, from `first_lsn` on               |
//!
//! Bytes 0..512 are written once, before the file gets its name. The rest belongs to the process that has the log open.
//! They say what the file is, and nothing that its records depend on: those are found by the seal, which no other database
//! or timeline has, and each verifies at its place only. So a damaged header is passed over if the seal is right, or if
//! there is none because nothing was stored behind it; if both are damaged, records may be there that nobody can find, and
//! opening is refused.
//!
//! **What a kill leaves** is what the process has stored, in the order in which it stored it. Batches go to the files in
//! turn; a file is used again only when its batch is durable, so the file that is rewritten is never needed. Its first
//! LSN comes before anything else: records at another place than the first LSN says do not verify. A record that is copied in
//! part does not verify either; nobody was told of it, and nothing follows it.
//!
//! **What a power loss leaves** is any mixture of what each page ever held since the last sync: old and new, torn. A
//! record is believed only if it verifies at the very place where the log ends, so it must once have been appended behind
//! that end. What could verify and must not:
//! * Batches that are durable, a lap or more ago: they have lower LSNs; nothing verifies at another LSN than its own.
//! * The log's end moves back over a crash: it is cut at `x`, records that had been behind `x` are given up, readers see
//!   the database without them, and others are appended from `x` on. If those are lost by a second power loss, the first
//!   ones must not come back: a page of the first life may be all that reached the disk. So [`prepare`] zeroes the
//!   files *durably* before anything is appended. From then on no version of any page holds a record of an earlier life
//!   at or behind the end: neither the disk nor the cache has any.
//! * The same with a first LSN of the one life and data of the other: both are gone, for the same reason.
//! * A batch whose write failed: its records were appended, in this order, and whoever waited for them was told that
//!   recovery decides. It decides for them if it finds them.
//! * Another database or timeline: the log key is part of masks and seal. So a log that begins a timeline, whose mark was
//!   never used before, takes the files as they are; if the power takes the timeline back, its parent finds in them what it
//!   has in its segments already, or nothing.
//! * Records of a timeline that is received, and that this database has written itself in an earlier life: nobody looks for them.
//!   Its mark is durable before the superblock names it (`received`).
//!
//! What is rescued is written to the segments and synced, one file after the other, before anybody sees it, so that
//! the end of the log does not move back again; a crash in the middle leaves a shorter log and the same files.
//!
//! A power loss may take the records that only a pending file holds: that is what `Async` says. A record longer than a
//! quarter of a buffer may have no room here, nor those behind it: `Log::survive_kill` flushes them.
//!
//! The files are written from end to end before they are mapped, so that a full disk cannot end the process. (It still
//! can on file systems that write to a new place each time, when they are full; and so can a disk that fails to read
//! back a page of the file.)

use std::io;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{BLOCK_BYTES, Disk, DiskFile, OpenMode, SharedMapping};
use seawall_types::{DatabaseId, Lsn};

use crate::error::{LogError, LogReadError, PendingFileError};
use crate::options::BUFFER_BYTES_MAX;
use crate::record::LogKey;
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{FORMAT_VERSION, LOG_DIRECTORY, LogIdentity};
use crate::segment_set::{fatal, no_space_or};

/// The two files.
pub(crate) const PENDING_PATHS: [&str; 2] = ["log/pending.1", "log/pending.2"];
/// Where the data starts.
pub(crate) const DATA_OFFSET: usize = BLOCK_BYTES;
/// A buffer and a carried block.
const DATA_BYTES_MAX: u64 = (BUFFER_BYTES_MAX + BLOCK_BYTES) as u64;

const MAGIC: [u8; 8] = *b"SWPND\r\n\x1A";
const FIXED_BYTES: usize = 512;
const SLOT_OFFSET: usize = FIXED_BYTES;
const SLOT_BYTES: usize = 16;

fn encode_fixed(database: DatabaseId, data_bytes: u64) -> [u8; FIXED_BYTES] {
    let mut fixed = [0; FIXED_BYTES];
    fixed[0..8].copy_from_slice(&MAGIC);
    fixed[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    fixed[16..32].copy_from_slice(database.as_bytes());
    fixed[32..40].copy_from_slice(&data_bytes.to_le_bytes());
    let checksum = checksum_of(&fixed);
    fixed[12..16].copy_from_slice(&checksum.to_le_bytes());
    fixed
}

fn checksum_of(fixed: &[u8; FIXED_BYTES]) -> u32 {
    let mut fixed = *fixed;
    fixed[12..16].fill(0);
    crc32c(&fixed)
}

/// The length of the buffer in a file of `file_bytes` bytes that starts with `fixed`.
pub(crate) fn check_fixed(
    fixed: &[u8; FIXED_BYTES],
    file_bytes: u64,
    database: DatabaseId,
) -> Result<u64, PendingFileError> {
    let magic: [u8; 8] = bytes_at(fixed, 0);
    if magic != MAGIC {
        return Err(PendingFileError::Magic { found: magic });
    }
    let (stored, computed) = (u32::from_le_bytes(bytes_at(fixed, 12)), checksum_of(fixed));
    if stored != computed {
        return Err(PendingFileError::Checksum { stored, computed });
    }
    let version = u32::from_le_bytes(bytes_at(fixed, 8));
    if version != FORMAT_VERSION {
        return Err(PendingFileError::Version { found: version, known: FORMAT_VERSION });
    }
    let found = DatabaseId::from_bytes(bytes_at(fixed, 16));
    if found != database {
        return Err(PendingFileError::Database { found, expected: database });
    }
    let data_bytes = u64::from_le_bytes(bytes_at(fixed, 32));
    if data_bytes_of(file_bytes) != Some(data_bytes) {
        return Err(PendingFileError::Length { found: file_bytes, data_bytes });
    }
    if let Some(index) = fixed[40..].iter().position(|&byte| byte != 0) {
        return Err(PendingFileError::Reserved { offset: 40 + index });
    }
    Ok(data_bytes)
}

/// The length of the buffer in a file of `file_bytes` bytes, if it can be one.
fn data_bytes_of(file_bytes: u64) -> Option<u64> {
    let data_bytes = file_bytes.checked_sub(DATA_OFFSET as u64)?;
    (data_bytes.is_multiple_of(BLOCK_BYTES as u64) && data_bytes <= DATA_BYTES_MAX).then_some(data_bytes)
}

fn bytes_at<const N: usize>(fixed: &[u8; FIXED_BYTES], offset: usize) -> [u8; N] {
    fixed[offset..offset + N].try_into().expect("the fields lie in the fixed part")
}

/// Says that the data belongs to the log from `first` on. Whatever is there does not verify any more, but at its place.
pub(crate) fn write_slot(mapping: &mut dyn SharedMapping, key: LogKey, first: Lsn) {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&first.get().to_le_bytes());
    slot[8..].copy_from_slice(&key.seal_of(first).to_le_bytes());
    mapping.write(SLOT_OFFSET, &slot);
}

fn decode_slot(slot: [u8; SLOT_BYTES], key: LogKey) -> Option<Lsn> {
    let (first, seal) = slot.split_at(8);
    let first = Lsn::new(u64::from_le_bytes(first.try_into().expect("eight of sixteen bytes")));
    let seal = u64::from_le_bytes(seal.try_into().expect("eight of sixteen bytes"));
    (seal == key.seal_of(first)).then_some(first)
}

/// Whether what is in the files could be taken for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clearing {
    /// Perhaps: it is zeroed, durably.
    Zeros,
    /// No: it was written on another timeline, or nobody looks, since the timeline is received.
    NotNeeded,
}

/// Makes both files ready for the log to be written, durably: nothing in them can be taken for a record; and maps them.
pub(crate) fn prepare(
    disk: &dyn Disk,
    identity: &LogIdentity,
    data_bytes: usize,
    clearing: Clearing,
) -> Result<[Box<dyn SharedMapping>; 2], LogError> {
    let mut has_new = false;
    for path in PENDING_PATHS {
        // A crash may have left one behind.
        match disk.remove(&new_name(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LogError::io("remove the half-made successor of", path, error));
            }
            Ok(()) | Err(_) => {}
        }
        let cleared = clear(disk, path, identity, data_bytes, clearing);
        if !cleared.map_err(|error| no_space_or("clear", path, error))? {
            make(disk, path, identity, data_bytes).map_err(|error| no_space_or("make", path, error))?;
            has_new = true;
        }
    }
    if has_new {
        disk.sync_directory(LOG_DIRECTORY).map_err(|error| fatal("sync directory", LOG_DIRECTORY, &error))?;
    }
    let map = |path: &str| disk.map_shared(path).map_err(|error| LogError::io("map", path, error));
    Ok([map(PENDING_PATHS[0])?, map(PENDING_PATHS[1])?])
}

/// The name of a file that is being made.
fn new_name(path: &str) -> String {
    format!("{path}.new")
}

/// Zeroes an old file; `false` if there is none that fits. Written even if it reads as zeros: after a failed sync the
/// cache may have zeros that the disk does not have.
fn clear(
    disk: &dyn Disk,
    path: &str,
    identity: &LogIdentity,
    data_bytes: usize,
    clearing: Clearing,
) -> io::Result<bool> {
    let file = match disk.open(path, OpenMode::Write) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let file_bytes = file.length()?;
    let mut fixed = [0; FIXED_BYTES];
    if file_bytes < FIXED_BYTES as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut fixed, 0)?;
    if check_fixed(&fixed, file_bytes, identity.database) != Ok(data_bytes as u64) {
        return Ok(false);
    }
    if clearing == Clearing::NotNeeded || sabotaged(Defect::PendingNotZeroed) {
        return Ok(true);
    }
    file.fill_zeros(FIXED_BYTES as u64, file_bytes - FIXED_BYTES as u64)?;
    file.sync_data()?;
    Ok(true)
}

/// Under its final name there is never a file in the making. The sync of the directory is the caller's.
fn make(disk: &dyn Disk, path: &str, identity: &LogIdentity, data_bytes: usize) -> io::Result<()> {
    let new = new_name(path);
    let file = disk.open(&new, OpenMode::Create)?;
    let data_bytes = data_bytes as u64;
    let written = file
        .fill_zeros(0, DATA_OFFSET as u64 + data_bytes)
        .and_then(|()| file.write_all_at(&encode_fixed(identity.database, data_bytes), 0))
        .and_then(|()| file.sync_data())
        .and_then(|()| disk.rename(&new, path));
    if written.is_err()
        && let Err(also) = disk.remove(&new)
    {
        // The first error counts.
        tracing::debug!(%new, error = %also, "a half-made pending file is left");
    }
    written
}

/// What one pending file holds.
#[derive(Debug)]
pub(crate) struct PendingData {
    pub(crate) path: &'static str,
    /// Where the data belongs.
    pub(crate) first: Lsn,
    data_bytes: u64,
    file: Arc<dyn DiskFile>,
}

/// What was found under the name of a pending file.
#[derive(Debug, Default)]
pub(crate) struct FoundPending {
    /// `None` if there is no such file, or nothing in it.
    pub(crate) data: Option<PendingData>,
    /// Damage of the header that does not matter.
    pub(crate) damage: Option<PendingFileError>,
}

impl PendingData {
    /// Opens a pending file for reading.
    ///
    /// # Errors
    /// `Pending` if it is not one of this database, or its header and its seal are damaged; `Io`.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &'static str,
        identity: &LogIdentity,
    ) -> Result<FoundPending, LogReadError> {
        let failed = |action, source| LogReadError::Io { action, path: path.to_owned(), offset: 0, source };
        let refused = |source| LogReadError::Pending { path: path.to_owned(), source };
        let file = match disk.open(path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundPending::default()),
            other => other.map_err(|error| failed("open", error))?,
        };
        let file_bytes = file.length().map_err(|error| failed("measure", error))?;
        if file_bytes < DATA_OFFSET as u64 {
            return Err(refused(PendingFileError::Length { found: file_bytes, data_bytes: 0 }));
        }
        let mut page = [0; DATA_OFFSET];
        file.read_exact_at(&mut page, 0).map_err(|error| failed("read", error))?;
        let fixed = page.first_chunk().expect("the page is longer");
        let slot = page[SLOT_OFFSET..SLOT_OFFSET + SLOT_BYTES].try_into().expect("as long as a slot");
        let is_place = |first: &Lsn| {
            identity.geometry.is_normal(*first) && first.get().is_multiple_of(BLOCK_BYTES as u64)
        };
        // Half a slot says nothing, and then nobody was told of anything behind it.
        let first = decode_slot(slot, identity.key()).filter(is_place);
        let (data_bytes, damage) = match check_fixed(fixed, file_bytes, identity.database) {
            Ok(data_bytes) => (data_bytes, None),
            Err(damage) => {
                // The header was durable before the file got its name: where nothing is left of either, both are damaged.
                let is_blank = fixed.iter().all(|byte| *byte == 0);
                let is_empty = slot == [0; SLOT_BYTES] && !is_blank;
                let is_known = damage.is_flipped_bit() && (first.is_some() || is_empty);
                match data_bytes_of(file_bytes).filter(|_| is_known) {
                    Some(data_bytes) => (data_bytes, Some(damage)),
                    None => return Err(refused(damage)),
                }
            }
        };
        let data = first.map(|first| PendingData { path, first, data_bytes, file });
        Ok(FoundPending { data, damage })
    }

    /// All that belongs at `bytes_behind` record bytes after `first` and further on.
    pub(crate) fn read_from(&self, bytes_behind: u64) -> Result<Vec<u8>, LogReadError> {
        let left = self.data_bytes.saturating_sub(bytes_behind);
        let mut data = vec![0; usize::try_from(left).expect("a buffer fits into memory")];
        if !data.is_empty() {
            let offset = DATA_OFFSET as u64 + bytes_behind;
            let failed =
                |source| LogReadError::Io { action: "read", path: self.path.to_owned(), offset, source };
            self.file.read_exact_at(&mut data, offset).map_err(failed)?;
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: DatabaseId = DatabaseId::from_bytes([5; 16]);

    #[test]
    fn every_flipped_bit_of_the_fixed_part_is_refused() {
        let fixed = encode_fixed(DATABASE, 8192);
        assert_eq!(check_fixed(&fixed, 12288, DATABASE), Ok(8192));
        for bit in 0..fixed.len() * 8 {
            let mut damaged = fixed;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(check_fixed(&damaged, 12288, DATABASE).is_err(), "bit {bit}");
        }
        for bytes in [0, 12287, 12289, 1 << 40] {
            let refused = check_fixed(&fixed, bytes, DATABASE);
            assert!(matches!(refused, Err(PendingFileError::Length { .. })), "{refused:?}");
        }
        let other = DatabaseId::from_bytes([6; 16]);
        let refused = check_fixed(&fixed, 12288, other);
        assert_eq!(refused, Err(PendingFileError::Database { found: DATABASE, expected: other }));
    }

    #[test]
    fn a_length_that_no_buffer_has_is_refused() {
        for data_bytes in [1, 4095, 2 << 30, !4095] {
            let fixed = encode_fixed(DATABASE, data_bytes);
            let refused = check_fixed(&fixed, data_bytes.saturating_add(4096), DATABASE);
            assert!(matches!(refused, Err(PendingFileError::Length { .. })), "{refused:?}");
        }
    }
}
