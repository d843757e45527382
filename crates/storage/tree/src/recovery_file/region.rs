//! A region of the recovery file: some of a chunk's images, written by one thread.
//!
//! ```text
//!   table of images | image, image, ...  | table again         written last: it says where the images came to lie
//! ```
//! Table entry, integers little-endian:
//!
//! | offset | bytes | field          | meaning                                                    |
//! |-------:|------:|----------------|------------------------------------------------------------|
//! |      0 |     8 | page           | page number                                                |
//! |      8 |     8 | offset         | where the stored bytes start                               |
//! |     16 |     4 | stored_bytes   | how many                                                   |
//! |     20 |     4 | compression    | a code, see "Page images"                                  |
//! |     24 |     4 | checksum       | CRC-32C of the stored bytes                                |
//! |     28 |     4 | image_checksum | bytes 0..4 of the image: the page's own checksum; of an    |
//! |        |       |                | encrypted database a mark, see "Encrypted image"           |
//! |     32 |     4 | entry_checksum | CRC-32C of the chunk's number, 8 bytes, and of bytes 0..32 |
//! |     36 |     4 | reserved       | zero                                                       |
//!
//! One damaged table is survived. Each entry verifies by itself, for its chunk only, and names the image that its page has
//! once it is in place: of a file that was damaged, what is left tells whether its chunk was being written in place.

use seawall_codec::bytes::{u32_at, u64_at};
use seawall_codec::checksum::{Crc32c, crc32c};
use seawall_keys::{Cipher, ENVELOPE_BYTES};
use seawall_types::PageId;

use super::encrypted::{StoredPlace, envelope_bytes};
use super::header::RegionPlace;
use super::{BLOCK_BYTES, PAGES_MAX, RecoveryFile};
use crate::error::TreeError;
use crate::image_compression::{ImageCompression, ImagePacker, ImageUnpacker};
use crate::page::{Page, PageFormat, stored_mark};
use crate::sabotage::{Defect, sabotaged};
use crate::sync_gate::SyncGate;

/// Bytes of an entry of the table.
pub(crate) const ENTRY_BYTES: usize = 40;
const ENTRY_CHECKSUM_AT: usize = 32;
const WRITE_BYTES: usize = 1 << 20;

/// One image of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) page: PageId,
    pub(super) offset: u64,
    pub(super) stored_bytes: u32,
    pub(super) compression: u32,
    pub(super) checksum: u32,
    pub(super) image_checksum: u32,
}

impl RegionPlace {
    /// Bytes of one of its tables.
    pub(super) fn table_bytes(&self) -> u64 {
        u64::from(self.image_count) * ENTRY_BYTES as u64
    }
}

/// Bytes that an image needs at most.
pub(super) fn image_bytes_max(format: &PageFormat, cipher: Option<&Cipher>) -> usize {
    format.page_bytes() + envelope_bytes(cipher) + 2 * ENTRY_BYTES
}

/// The most that a region with so many images can need: whole blocks, so that no sector belongs to two.
pub(super) fn region_bytes_max(image_count: usize, format: &PageFormat, cipher: Option<&Cipher>) -> u64 {
    ((image_count * image_bytes_max(format, cipher)) as u64).next_multiple_of(BLOCK_BYTES as u64)
}

/// Writes `images` to the region that starts at `offset`, as soon as the gate lets it.
pub(super) fn write_region(
    file: &RecoveryFile,
    offset: u64,
    chunk: u64,
    images: &[Page],
    compression: ImageCompression,
    gate: &SyncGate,
) -> Result<RegionPlace, TreeError> {
    let mut packer = ImagePacker::new(compression);
    let mut sink = Sink::new(file, gate, offset, images.len() * ENTRY_BYTES);
    let mut table = Vec::with_capacity(images.len() * ENTRY_BYTES);
    let mut encrypted = Vec::new();
    for image in images {
        let (packed, code) = packer.pack(image.bytes());
        let stored = file.cipher().map_or(packed, |cipher| {
            let place = StoredPlace { chunk, page: image.view().id(), compression: code.into() };
            place.encrypt(cipher, packed, &mut encrypted);
            &encrypted
        });
        let entry = Entry {
            page: image.view().id(),
            offset: sink.position(),
            stored_bytes: u32::try_from(stored.len()).expect("an image is shorter than 2^32 bytes"),
            compression: code.into(),
            checksum: crc32c(stored),
            image_checksum: stored_mark(file.cipher(), image.bytes()).get(),
        };
        entry.encode(chunk, &mut table);
        sink.append(stored)?;
    }
    let end = sink.finish(&table)?;
    Ok(RegionPlace {
        offset,
        bytes: end - offset,
        image_count: u32::try_from(images.len()).expect("a chunk has fewer than 2^32 images"),
        table_checksum: table_checksum(&table),
    })
}

/// Collects images behind the room for their table, and writes them in large pieces.
struct Sink<'a> {
    file: &'a RecoveryFile,
    gate: &'a SyncGate,
    /// Where the region starts.
    start: u64,
    table_bytes: usize,
    /// Where the buffer goes.
    offset: u64,
    buffer: Vec<u8>,
}

impl<'a> Sink<'a> {
    fn new(file: &'a RecoveryFile, gate: &'a SyncGate, start: u64, table_bytes: usize) -> Sink<'a> {
        let mut buffer = Vec::with_capacity(table_bytes + WRITE_BYTES * 2);
        buffer.resize(table_bytes, 0);
        Sink { file, gate, start, table_bytes, offset: start, buffer }
    }

    fn position(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Before the gate opens everything is kept in memory: at most as much as the images themselves take.
    fn append(&mut self, bytes: &[u8]) -> Result<(), TreeError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < WRITE_BYTES || !self.gate.is_open() {
            return Ok(());
        }
        // The table's place is left for the end.
        let skipped = if self.offset == self.start { self.table_bytes } else { 0 };
        self.file.write_at(&self.buffer[skipped..], self.offset + skipped as u64)?;
        // The device writes while the next images are packed.
        self.file.start_writing(self.offset, self.buffer.len() as u64);
        let overlap = if sabotaged(Defect::RegionPiecesOverlap) { skipped as u64 } else { 0 };
        self.offset += self.buffer.len() as u64 - overlap;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left, and both tables; returns the region's end.
    fn finish(mut self, table: &[u8]) -> Result<u64, TreeError> {
        self.gate.wait()?;
        self.buffer.extend_from_slice(table);
        let end = self.position();
        if self.offset == self.start {
            self.buffer[..self.table_bytes].copy_from_slice(table);
            self.file.write_at(&self.buffer, self.start)?;
        } else {
            self.file.write_at(&self.buffer, self.offset)?;
            self.file.write_at(table, self.start)?;
        }
        Ok(end)
    }
}

impl Entry {
    fn encode(&self, chunk: u64, table: &mut Vec<u8>) {
        let start = table.len();
        table.extend_from_slice(&self.page.get().to_le_bytes());
        table.extend_from_slice(&self.offset.to_le_bytes());
        table.extend_from_slice(&self.stored_bytes.to_le_bytes());
        table.extend_from_slice(&self.compression.to_le_bytes());
        table.extend_from_slice(&self.checksum.to_le_bytes());
        table.extend_from_slice(&self.image_checksum.to_le_bytes());
        let checksum = entry_checksum(chunk, &table[start..]);
        table.extend_from_slice(&checksum.to_le_bytes());
        table.extend_from_slice(&[0; 4]);
    }

    /// The entry, unless it is not one of this chunk, its page cannot be, or its bytes would lie outside the region or
    /// are more than a page and an envelope.
    fn decode(bytes: &[u8], chunk: u64, region: &RegionPlace, format: &PageFormat) -> Option<Entry> {
        if u32_at(bytes, 32) != entry_checksum(chunk, &bytes[..32]) || u32_at(bytes, 36) != 0 {
            return None;
        }
        let entry = Entry {
            page: PageId::new(u64_at(bytes, 0)),
            offset: u64_at(bytes, 8),
            stored_bytes: u32_at(bytes, 16),
            compression: u32_at(bytes, 20),
            checksum: u32_at(bytes, 24),
            image_checksum: u32_at(bytes, 28),
        };
        let end = entry.offset.checked_add(u64::from(entry.stored_bytes))?;
        let fits = entry.page.get() < PAGES_MAX
            && entry.offset >= region.offset + region.table_bytes()
            && end <= region.offset + region.bytes - region.table_bytes()
            && ImageUnpacker::is_known(entry.compression)
            && entry.stored_bytes as usize <= format.page_bytes() + ENVELOPE_BYTES;
        fits.then_some(entry)
    }
}

/// Without the entries' own checksums: the CRC of bytes with their CRC behind them does not depend on the bytes, so that of
/// whole entries would be the same for all tables of a chunk's number, those of an earlier attempt at it included.
fn table_checksum(table: &[u8]) -> u32 {
    let mut checksum = Crc32c::new();
    table.chunks_exact(ENTRY_BYTES).for_each(|entry| checksum.update(&entry[..ENTRY_CHECKSUM_AT]));
    checksum.finish()
}

fn entry_checksum(chunk: u64, bytes: &[u8]) -> u32 {
    let mut checksum = Crc32c::new();
    checksum.update(&chunk.to_le_bytes());
    checksum.update(bytes);
    checksum.finish()
}

/// What is left of a region's table.
pub(super) struct FoundTable {
    pub(super) entries: Vec<Entry>,
    /// None is missing.
    pub(super) is_whole: bool,
}

/// Reads the tables of a region: the one that verifies, or what is left of both. The file must hold all of the region.
pub(super) fn read_table(
    file: &RecoveryFile,
    region: &RegionPlace,
    chunk: u64,
) -> Result<FoundTable, TreeError> {
    // Bounded by the file, not by what a count says.
    let bytes = usize::try_from(region.table_bytes()).unwrap_or(usize::MAX);
    let mut found: Vec<Option<Entry>> = Vec::new();
    for offset in [region.offset, region.offset + region.bytes - region.table_bytes()] {
        let mut table = vec![0; bytes];
        file.read_at(&mut table, offset)?;
        let decode = |bytes: &[u8]| Entry::decode(bytes, chunk, region, file.format());
        let entries: Vec<Option<Entry>> = table.chunks_exact(ENTRY_BYTES).map(decode).collect();
        if table_checksum(&table) == region.table_checksum && entries.iter().all(Option::is_some) {
            return Ok(FoundTable { entries: entries.into_iter().flatten().collect(), is_whole: true });
        }
        found.extend(entries);
    }
    Ok(FoundTable { entries: found.into_iter().flatten().collect(), is_whole: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk that was not committed is planned again, after a restart with other pages, and has the same number: if the power
    /// then takes its region and leaves its header, what the first attempt has left must not pass for it.
    #[test]
    fn tables_of_two_attempts_at_one_chunk_have_different_checksums() {
        let table_of = |pages: [u64; 2]| {
            let mut table = Vec::new();
            for page in pages {
                let page = PageId::new(page);
                let entry = Entry {
                    page,
                    offset: 12_368,
                    stored_bytes: 74,
                    compression: 1,
                    checksum: 7,
                    image_checksum: 9,
                };
                entry.encode(49, &mut table);
            }
            table
        };
        let (first, second) = (table_of([0, 1]), table_of([0, 4]));
        assert_eq!(crc32c(&first), crc32c(&second), "what a checksum of all bytes is worth");
        assert_ne!(table_checksum(&first), table_checksum(&second));
    }
}
