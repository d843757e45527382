//! What is durable here of a timeline that another server writes: the mark of a log that is received.
//!
//! ```text
//!   log/00000002...A4   [rec|rec|rec|rec|rec|re. . . .|rec]     bytes as the primary has them, several of its batches a sync
//!                                |synced  |torn by a power loss
//!   log/00000002.received        up to here
//! ```
//! Each record says where the batch began that it was flushed with. Where a log was written, this tells damage from a torn tail: up
//! to there it was durable when the record was written (`reader::search`). On the disk of a server that receives the log it tells
//! nothing, for that server syncs where it likes: a power loss may tear the first of several batches and leave a record of the last.
//! So a received timeline has a mark of its own, and a reader goes by nothing else: before the mark, what does not verify is damage;
//! behind it, the first record that does not verify ends the log.
//!
//! The mark belongs to one timeline, with its beginning and its random mark: a server that begins a timeline of its own, at a
//! promotion, reads that one by its batches from the first record on. Segments bear no sign of who wrote them: those of all servers
//! are equal byte for byte, and so are the objects that they put into an archive. The file has two copies of one block, the other one
//! at offset 4096; the one with the higher LSN counts, and the other one is overwritten next. Integers little-endian:
//!
//! | offset | bytes | field    | meaning                                                    |
//! |-------:|------:|----------|------------------------------------------------------------|
//! |      0 |     8 | magic    | `SWRCV\r\n` and 0x1A                                       |
//! |      8 |     4 | version  | [`FORMAT_VERSION`]; an unknown one is refused              |
//! |     12 |     4 | checksum | CRC-32C of bytes 0..72 with this field zero                |
//! |     16 |    16 | database | database id                                                |
//! |     32 |     4 | timeline | the timeline that is received                              |
//! |     36 |     4 | reserved | zero                                                       |
//! |     40 |     8 | began    | LSN where the timeline began                               |
//! |     48 |    16 | mark     | the timeline's mark                                        |
//! |     64 |     8 | synced   | end of a record: durable here up to it; not before `began` |
//! |     72 |  4024 | reserved | zero                                                       |
//!
//! **Who writes it**, and in which order: the receiver of a standby (`received_log`).
//! 1. [`ReceivedMark::create`], durable, before the first byte of the timeline is written here, and before the superblock names the
//!    timeline. All log before the mark is durable, of ancestors too.
//! 2. Bytes into segments, which have their header, *begun*, and their name, durable; a sync; then [`ReceivedMark::advance`] to the
//!    end of a record that the sync has covered. Not after each sync: a mark that lags makes no false alarm. It only takes damage
//!    between mark and end for a torn tail, and that log is received once more, or is lost if this server is promoted.
//!
//! **If the power goes** in 1, there is no mark or the whole file; in 2, a mark that was true before. Without the file a received log
//! is read by its batches: then a torn tail may be refused as damage, and never the other way round.
//!
//! `Log::open` refuses a timeline that has a mark: its records would differ from those that the primary writes at
//! the same LSNs. A new timeline can begin where it ends.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{BLOCK_BYTES, Disk, DiskFile, OpenMode};
use seawall_types::{DatabaseId, Lsn, Timeline, TimelineId, TimelineMark};

use crate::error::{LogError, ReceivedMarkError};
use crate::segment::{FORMAT_VERSION, LOG_DIRECTORY};
use crate::segment_set::{fatal, no_space_or};
use crate::timeline::TimelineHistory;

const MAGIC: [u8; 8] = *b"SWRCV\r\n\x1A";
const FIELDS_BYTES: usize = 72;
const COPIES: usize = 2;
const _: () = assert!(FIELDS_BYTES + 4024 == BLOCK_BYTES);

/// The mark of a timeline that is received.
#[derive(Debug)]
pub struct ReceivedMark {
    file: Arc<dyn DiskFile>,
    database: DatabaseId,
    timeline: Timeline,
    synced: Lsn,
    /// The copy that is overwritten next.
    next: usize,
}

impl ReceivedMark {
    /// Makes the mark of `timeline`, of which all before `synced` is durable here, durably. A mark of another timeline of the same
    /// number gives way.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; `Poisoned` if it is not known what is on disk.
    ///
    /// # Panics
    /// If `synced` lies before the timeline begins: what lies there is of another one.
    pub fn create(
        disk: &dyn Disk,
        database: DatabaseId,
        timeline: Timeline,
        synced: Lsn,
    ) -> Result<ReceivedMark, LogError> {
        let began = timeline.began;
        assert!(synced >= began, "timeline {} begins at {began}, and its mark at {synced}", timeline.id);
        let path = path_of(timeline.id);
        let temporary = format!("{path}.new");
        let make = || -> io::Result<Arc<dyn DiskFile>> {
            let file = match disk.open(&temporary, OpenMode::Create) {
                // A crash left one behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    disk.remove(&temporary)?;
                    disk.open(&temporary, OpenMode::Create)?
                }
                other => other?,
            };
            let copy = encode(database, timeline, synced);
            file.write_all_at(&copy, 0)?;
            file.write_all_at(&copy, BLOCK_BYTES as u64)?;
            file.sync_data()?;
            disk.rename(&temporary, &path)?;
            Ok(file)
        };
        let file = make().map_err(|error| no_space_or("make", &path, error))?;
        disk.sync_directory(LOG_DIRECTORY).map_err(|error| fatal("sync directory", LOG_DIRECTORY, &error))?;
        Ok(ReceivedMark { file, database, timeline, synced, next: 0 })
    }

    /// The mark of `timeline`; `None` if the timeline is not received, or the file is of another timeline of the same number.
    ///
    /// # Errors
    /// `ReceivedMarkError` if the file cannot be read, or neither copy is one.
    pub fn open(
        disk: &dyn Disk,
        database: DatabaseId,
        timeline: Timeline,
    ) -> Result<Option<ReceivedMark>, ReceivedMarkError> {
        ReceivedMark::open_as(disk, database, timeline, OpenMode::Write)
    }

    /// Only where it stands.
    pub(crate) fn read(
        disk: &dyn Disk,
        database: DatabaseId,
        timeline: Timeline,
    ) -> Result<Option<Lsn>, ReceivedMarkError> {
        let mark = ReceivedMark::open_as(disk, database, timeline, OpenMode::Read)?;
        Ok(mark.map(|mark| mark.synced))
    }

    fn open_as(
        disk: &dyn Disk,
        database: DatabaseId,
        timeline: Timeline,
        mode: OpenMode,
    ) -> Result<Option<ReceivedMark>, ReceivedMarkError> {
        let path = path_of(timeline.id);
        let failed = |source| ReceivedMarkError::Io { path: path.clone(), source };
        let file = match disk.open(&path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let mut copies = Vec::new();
        for offset in [0, BLOCK_BYTES as u64] {
            let mut block = [0; BLOCK_BYTES];
            match file.read_exact_at(&mut block, offset) {
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(error)),
                read => copies.push(read.map_err(|_| "it is cut off").and_then(|()| decode(&block))),
            }
        }
        let newest = (0..COPIES).filter_map(|index| Some((copies[index].ok()?, index)));
        let Some((mark, index)) = newest.max_by_key(|(mark, _)| mark.synced) else {
            let problems: Vec<&str> = copies.iter().filter_map(|copy| copy.err()).collect();
            return Err(ReceivedMarkError::Damaged { path, first: problems[0], second: problems[1] });
        };
        if mark.database != database {
            return Err(ReceivedMarkError::Database { path, found: mark.database, expected: database });
        }
        if mark.timeline != timeline {
            return Ok(None);
        }
        Ok(Some(ReceivedMark { file, database, timeline, synced: mark.synced, next: COPIES - 1 - index }))
    }

    /// Its name in the log directory.
    pub fn file_name(&self) -> String {
        file_name_of(self.timeline.id)
    }

    /// The log of the timeline is durable here up to this LSN.
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Moves the mark to `synced`, the end of a record, durably: the log up to there was synced before. Does nothing if it is not
    /// further on.
    ///
    /// # Errors
    /// `Poisoned`: what is on disk is unknown; the mark that was there before is there still.
    pub fn advance(&mut self, synced: Lsn) -> Result<(), LogError> {
        if synced <= self.synced {
            return Ok(());
        }
        let copy = encode(self.database, self.timeline, synced);
        let written = self
            .file
            .write_all_at(&copy, self.next as u64 * BLOCK_BYTES as u64)
            .and_then(|()| self.file.sync_data());
        written.map_err(|error| fatal("write", &path_of(self.timeline.id), &error))?;
        self.next = COPIES - 1 - self.next;
        self.synced = synced;
        Ok(())
    }
}

/// The stretches of the log of `history` that this server has received, by the marks of its timelines: the others it has written.
///
/// # Errors
/// As [`ReceivedMark::open`].
pub fn received_stretches(
    disk: &dyn Disk,
    database: DatabaseId,
    history: &TimelineHistory,
) -> Result<Vec<Range<Lsn>>, ReceivedMarkError> {
    let ancestors = history.forks.iter().map(|fork| fork.parent);
    let mut stretches = Vec::new();
    for id in ancestors.chain([history.timeline]) {
        let timeline = history.timeline(id);
        if ReceivedMark::read(disk, database, timeline)?.is_some() {
            stretches.push(timeline.began..history.left_at(id).unwrap_or(Lsn::MAX));
        }
    }
    Ok(stretches)
}

fn path_of(timeline: TimelineId) -> String {
    format!("{LOG_DIRECTORY}/{}", file_name_of(timeline))
}

fn file_name_of(timeline: TimelineId) -> String {
    format!("{:08X}.received", timeline.get())
}

/// What a copy says.
#[derive(Clone, Copy)]
struct Fields {
    database: DatabaseId,
    timeline: Timeline,
    synced: Lsn,
}

fn encode(database: DatabaseId, timeline: Timeline, synced: Lsn) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[0..8].copy_from_slice(&MAGIC);
    block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    block[16..32].copy_from_slice(database.as_bytes());
    block[32..36].copy_from_slice(&timeline.id.get().to_le_bytes());
    block[40..48].copy_from_slice(&timeline.began.get().to_le_bytes());
    block[48..64].copy_from_slice(timeline.mark.as_bytes());
    block[64..72].copy_from_slice(&synced.get().to_le_bytes());
    let checksum = crc32c(&block[..FIELDS_BYTES]);
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    block
}

fn decode(block: &[u8; BLOCK_BYTES]) -> Result<Fields, &'static str> {
    if block[0..8] != MAGIC {
        return Err("it does not start as a mark does");
    }
    let mut fields: [u8; FIELDS_BYTES] = bytes_at(block, 0);
    fields[12..16].fill(0);
    if crc32c(&fields) != u32::from_le_bytes(bytes_at(block, 12)) {
        return Err("wrong checksum");
    }
    if u32::from_le_bytes(bytes_at(block, 8)) != FORMAT_VERSION {
        return Err("another version of the format");
    }
    if block[36..40].iter().chain(&block[FIELDS_BYTES..]).any(|&byte| byte != 0) {
        return Err("a reserved byte is not zero");
    }
    let id = TimelineId::new(u32::from_le_bytes(bytes_at(block, 32))).ok_or("timeline zero")?;
    let began = Lsn::new(u64::from_le_bytes(bytes_at(block, 40)));
    let mark = TimelineMark::from_bytes(bytes_at(block, 48));
    let synced = Lsn::new(u64::from_le_bytes(bytes_at(block, 64)));
    if synced < began {
        return Err("it lies before its timeline");
    }
    let database = DatabaseId::from_bytes(bytes_at(block, 16));
    Ok(Fields { database, timeline: Timeline { id, began, mark }, synced })
}

fn bytes_at<const N: usize>(block: &[u8], offset: usize) -> [u8; N] {
    block[offset..offset + N].try_into().expect("the range has the length of the array")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_of_a_copy_is_noticed() {
        let block = encode(DatabaseId::from_bytes([7; 16]), Timeline::FIRST, Lsn::new(12_345));
        assert_eq!(decode(&block).map(|fields| fields.synced), Ok(Lsn::new(12_345)));
        for offset in 0..BLOCK_BYTES {
            let mut damaged = block;
            damaged[offset] ^= 0x10;
            assert!(decode(&damaged).is_err(), "offset {offset}");
        }
    }

    #[test]
    fn a_mark_before_the_beginning_of_its_timeline_is_refused() {
        let timeline = Timeline { began: Lsn::new(5000), ..Timeline::FIRST };
        let read = |synced| decode(&encode(DatabaseId::from_bytes([7; 16]), timeline, Lsn::new(synced)));
        assert_eq!(read(5000).map(|fields| fields.synced), Ok(Lsn::new(5000)));
        assert_eq!(read(4999).map(|fields| fields.synced), Err("it lies before its timeline"));
    }
}
