//! What was visible: the mark of a server whose commits wait for standbys, so that its restart shows nothing that they lack.
//!
//! After a restart the log does not say which of its last commits a quorum has. What was visible before may be visible again; the rest
//! waits until a quorum has the log up to where it ended. The file `quorum` has two copies of one block, the other one at offset
//! 4096; the one with the higher sequence counts, and the other one is overwritten next. Integers little-endian:
//!
//! | offset | bytes | field       | meaning                                                                   |
//! |-------:|------:|-------------|---------------------------------------------------------------------------|
//! |      0 |     8 | magic       | `SWQRM\r\n` and 0x1A                                                      |
//! |      8 |     4 | version     | 1; an unknown one is refused                                              |
//! |     12 |     4 | checksum    | CRC-32C of bytes 0..72 with this field zero                               |
//! |     16 |    16 | database    | database id                                                               |
//! |     32 |     8 | sequence    | grows by one with each store                                              |
//! |     40 |     8 | visible     | what was committed up to here was visible, and on stable storage          |
//! |     48 |     8 | alone_from  | since this position the server has gone on alone; zero: it does not       |
//! |     56 |     8 | alone_since | since when: microseconds since 1970, signed; zero if it does not          |
//! |     64 |     8 | reserved    | zero                                                                      |
//! |     72 |  4024 | reserved    | zero                                                                      |
//!
//! A mark that lags is no harm: some commits that were visible are not until a quorum is connected. It is moved a few times a second, and
//! when the database is closed. A database that is opened without a quorum shows all of its log, and removes the file.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{BLOCK_BYTES, Disk, DiskFile, OpenMode};
use seawall_types::{DatabaseId, Lsn};

use crate::directory::io as disk_error;
use crate::error::Error;
use crate::quorum::members::Alone;

const PATH: &str = "quorum";
const NEW_PATH: &str = "quorum.new";
const MAGIC: [u8; 8] = *b"SWQRM\r\n\x1A";
const VERSION: u32 = 1;
const FIELDS_BYTES: usize = 72;
const _: () = assert!(FIELDS_BYTES + 4024 == BLOCK_BYTES);

/// The mark on disk.
#[derive(Debug)]
pub(crate) struct QuorumMark {
    file: Arc<dyn DiskFile>,
    database: DatabaseId,
    sequence: u64,
    content: Content,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) visible: Lsn,
    pub(crate) alone: Option<Alone>,
}

impl QuorumMark {
    /// Makes the file, durably; one that is there gives way.
    pub(crate) fn create(
        disk: &dyn Disk,
        database: DatabaseId,
        content: Content,
    ) -> Result<QuorumMark, Error> {
        let make = || -> io::Result<Arc<dyn DiskFile>> {
            let file = match disk.open(NEW_PATH, OpenMode::Create) {
                // A crash left one behind.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    disk.remove(NEW_PATH)?;
                    disk.open(NEW_PATH, OpenMode::Create)?
                }
                other => other?,
            };
            for copy in 0..2 {
                file.write_all_at(&encode(database, copy, content), offset_of(copy))?;
            }
            file.sync_data()?;
            disk.rename(NEW_PATH, PATH)?;
            disk.sync_directory("")?;
            Ok(file)
        };
        let file = make().map_err(disk_error)?;
        Ok(QuorumMark { file, database, sequence: 1, content })
    }

    /// What the file says; `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk, database: DatabaseId) -> Result<Option<Content>, Error> {
        let file = match disk.open(PATH, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(disk_error)?,
        };
        let mut copies = Vec::new();
        for copy in 0..2 {
            let mut block = [0; BLOCK_BYTES];
            match file.read_exact_at(&mut block, offset_of(copy)) {
                Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(disk_error(error)),
                Err(_) => {}
                Ok(()) => copies.extend(decode(&block, database)),
            }
        }
        let newest = copies.into_iter().max_by_key(|(sequence, _)| *sequence);
        let refused = || Error::Log {
            message: format!(
                "both copies of {} are damaged: it says what was visible; remove it if all that the log holds may be",
                disk.location(PATH)
            ),
        };
        newest.map(|(_, content)| Some(content)).ok_or_else(refused)
    }

    /// Removes the file, durably, if it is there.
    pub(crate) fn remove(disk: &dyn Disk) -> Result<(), Error> {
        if disk.list_names("").map_err(disk_error)?.iter().all(|name| name != PATH) {
            return Ok(());
        }
        disk.remove(PATH).and_then(|()| disk.sync_directory("")).map_err(disk_error)
    }

    /// What it says.
    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// Says something else, durably.
    pub(crate) fn store(&mut self, content: Content) -> Result<(), Error> {
        if content == self.content {
            return Ok(());
        }
        let sequence = self.sequence + 1;
        let block = encode(self.database, sequence, content);
        let written =
            self.file.write_all_at(&block, offset_of(sequence)).and_then(|()| self.file.sync_data());
        written.map_err(disk_error)?;
        (self.sequence, self.content) = (sequence, content);
        Ok(())
    }
}

fn offset_of(sequence: u64) -> u64 {
    (sequence % 2) * BLOCK_BYTES as u64
}

fn encode(database: DatabaseId, sequence: u64, content: Content) -> [u8; BLOCK_BYTES] {
    let Content { visible, alone } = content;
    let mut block = [0; BLOCK_BYTES];
    block[0..8].copy_from_slice(&MAGIC);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    block[16..32].copy_from_slice(database.as_bytes());
    block[32..40].copy_from_slice(&sequence.to_le_bytes());
    block[40..48].copy_from_slice(&visible.get().to_le_bytes());
    if let Some(alone) = alone {
        block[48..56].copy_from_slice(&alone.from.get().to_le_bytes());
        block[56..64].copy_from_slice(&alone.since_micros.to_le_bytes());
    }
    let checksum = crc32c(&block[..FIELDS_BYTES]);
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    block
}

/// The sequence and what a copy says; `None` if it is damaged, or of another database.
fn decode(block: &[u8; BLOCK_BYTES], database: DatabaseId) -> Option<(u64, Content)> {
    let mut fields: [u8; FIELDS_BYTES] = bytes_at(block, 0);
    fields[12..16].fill(0);
    let is_whole = block[0..8] == MAGIC
        && u32::from_le_bytes(bytes_at(block, 8)) == VERSION
        && u32::from_le_bytes(bytes_at(block, 12)) == crc32c(&fields)
        && block[16..32] == *database.as_bytes()
        && block[64..].iter().all(|byte| *byte == 0);
    if !is_whole {
        return None;
    }
    let number = |offset| u64::from_le_bytes(bytes_at(block, offset));
    let from = Lsn::new(number(48));
    let alone =
        (from > Lsn::ZERO).then(|| Alone { from, since_micros: i64::from_le_bytes(bytes_at(block, 56)) });
    Some((number(32), Content { visible: Lsn::new(number(40)), alone }))
}

fn bytes_at<const N: usize>(block: &[u8], offset: usize) -> [u8; N] {
    block[offset..offset + N].try_into().expect("the range has the length of the array")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: DatabaseId = DatabaseId::from_bytes([7; 16]);

    #[test]
    fn a_copy_reads_back_and_every_flipped_byte_is_noticed() {
        let alone = Some(Alone { from: Lsn::new(99), since_micros: -5 });
        for content in
            [Content { visible: Lsn::new(12_345), alone: None }, Content { visible: Lsn::new(12_345), alone }]
        {
            let block = encode(DATABASE, 3, content);
            assert_eq!(decode(&block, DATABASE), Some((3, content)));
            assert_eq!(decode(&block, DatabaseId::from_bytes([8; 16])), None);
            for offset in 0..BLOCK_BYTES {
                let mut damaged = block;
                damaged[offset] ^= 0x10;
                assert_eq!(decode(&damaged, DATABASE), None, "offset {offset}");
            }
        }
    }

    #[test]
    fn the_mark_survives_the_loss_of_power_in_each_store_and_the_loss_of_one_copy() {
        use seawall_simulation::{PowerLoss, SimulatedDisk};

        let said = |lsn| Content { visible: Lsn::new(lsn), alone: None };
        for call in 0.. {
            let disk = SimulatedDisk::new(call);
            disk.create_directory("").unwrap();
            let mut mark = QuorumMark::create(&disk, DATABASE, said(1)).unwrap();
            mark.store(said(2)).unwrap();
            disk.crash_at(disk.calls() + call);
            let stored = mark.store(said(3)).is_ok();
            let left = disk.after_power_loss(PowerLoss::Random(call));
            let read = QuorumMark::read(&left, DATABASE).unwrap().unwrap();
            assert!(read == said(3) || (!stored && read == said(2)), "call {call}: {read:?}");
            if stored && !disk.crashed() {
                break;
            }
        }
    }
}
