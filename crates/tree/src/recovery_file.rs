//! The recovery file: a second copy of the pages that a chunk overwrites, so that a crash in the middle of the
//! overwriting leaves no torn page.
//!
//! ```text
//!   header block | superblock block | image, image, ...  | table of images
//!   0              4096               8192                 table_offset
//! ```
//! It is written from the start for each chunk, in sequence but for the header, which comes last, and made durable by
//! one sync: the chunk's commit point. The header's checksum covers the table's, the table covers each image's, so a
//! file of which any sector is of an older chunk does not verify. An incomplete file is no error, it is a chunk that was
//! never committed. A complete file that was damaged later cannot be told from an incomplete one by itself; but if its
//! chunk was being written in place, some of its images stand in place and some do not, which is refused.
//!
//! Header block, integers little-endian:
//!
//! | offset | bytes | field          | meaning                                                              |
//! |-------:|------:|----------------|----------------------------------------------------------------------|
//! |      0 |     8 | magic          | `SWCHUNK\n`                                                          |
//! |      8 |     4 | version        | `FORMAT_VERSION`; a file of another one is refused                   |
//! |     12 |     4 | checksum       | CRC-32C of the block with this field zero                            |
//! |     16 |    16 | database       | database id; the chunk of another database is ignored                |
//! |     32 |     8 | chunk          | number of the chunk; grows by one with each                          |
//! |     40 |     4 | page_bytes     | bytes of an image                                                    |
//! |     44 |     4 | image_count    | entries of the table                                                 |
//! |     48 |     8 | table_offset   | where the table starts                                               |
//! |     56 |     4 | table_checksum | CRC-32C of the table                                                 |
//! |     60 |     4 | superblock     | 1 if the second block is a superblock to be stored after the chunk   |
//! |     64 |     4 | block_checksum | CRC-32C of the second block                                          |
//! |     68 |  4028 | reserved       | zero                                                                 |
//!
//! Table entry:
//!
//! | offset | bytes | field        | meaning                                       |
//! |-------:|------:|--------------|-----------------------------------------------|
//! |      0 |     8 | page         | page number                                   |
//! |      8 |     8 | offset       | where the stored bytes start                  |
//! |     16 |     4 | stored_bytes | how many                                      |
//! |     20 |     4 | compression  | a code, see "Page images"                    |
//! |     24 |     4 | checksum     | CRC-32C of the stored bytes                   |
//! |     28 |     4 | reserved     | zero                                          |

use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_types::{DatabaseId, PageId};

use crate::error::TreeError;
use crate::image_compression::{ImageCompression, ImagePacker, ImageUnpacker};
use crate::page::{Page, PageFormat};
use crate::page_file::PageFile;
use crate::superblock::{COUNTER_MAX, SUPERBLOCK_BYTES, Superblock, u32_at, u64_at};

/// Path of the recovery file in the database's directory.
pub const RECOVERY_FILE_PATH: &str = "recovery/chunk";

const MAGIC: [u8; 8] = *b"SWCHUNK\n";
const FORMAT_VERSION: u32 = 1;
const BLOCK_BYTES: usize = 4096;
const IMAGES_AT: u64 = 8192;
const ENTRY_BYTES: usize = 32;
const WRITE_BYTES: usize = 1 << 20;
const GROWTH_BYTES: u64 = 1 << 20;
/// Page numbers are smaller: even of the largest pages, the file then has fewer than 2^62 bytes.
const PAGES_MAX: u64 = 1 << 46;
const _: () = assert!(SUPERBLOCK_BYTES == BLOCK_BYTES);

/// A chunk to be made durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkImages<'a> {
    pub(crate) chunk: u64,
    pub(crate) images: &'a [Page],
    pub(crate) superblock: Option<&'a Superblock>,
}

/// The open recovery file.
#[derive(Debug)]
pub(crate) struct RecoveryFile {
    file: Arc<dyn DiskFile>,
    path: String,
    format: PageFormat,
    database: DatabaseId,
    /// Bytes that are allocated and written, so that writing them again changes no metadata.
    prepared_bytes: u64,
    prepared_bytes_max: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: PageId,
    offset: u64,
    stored_bytes: u32,
    compression: u32,
    checksum: u32,
}

/// A complete chunk found in the recovery file.
#[derive(Debug)]
pub(crate) struct FoundChunk {
    pub(crate) chunk: u64,
    pub(crate) superblock: Option<Superblock>,
    table_offset: u64,
    entries: Vec<Entry>,
    /// Every image verifies.
    pub(crate) is_complete: bool,
}

impl RecoveryFile {
    /// Creates the file, empty. Its name is durable after the directory `recovery` is synced.
    pub(crate) fn create(disk: &dyn Disk) -> Result<(), TreeError> {
        let path = disk.location(RECOVERY_FILE_PATH);
        let file = disk
            .open(RECOVERY_FILE_PATH, OpenMode::Create)
            .map_err(|source| TreeError::io("creation", &path, 0, source))?;
        file.sync_data().map_err(|source| TreeError::io("sync", &path, 0, source))
    }

    /// Opens the file. `prepared_bytes_max` limits how far ahead of need it is filled with zeros.
    pub(crate) fn open(
        disk: &dyn Disk,
        mode: OpenMode,
        format: PageFormat,
        database: DatabaseId,
        prepared_bytes_max: u64,
    ) -> Result<RecoveryFile, TreeError> {
        let path = disk.location(RECOVERY_FILE_PATH);
        let file = disk
            .open(RECOVERY_FILE_PATH, mode)
            .map_err(|source| TreeError::io("opening", &path, 0, source))?;
        let prepared_bytes = file.length().map_err(|source| TreeError::io("length", &path, 0, source))?;
        Ok(RecoveryFile { file, path, format, database, prepared_bytes, prepared_bytes_max })
    }

    /// Writes the chunk, which `commit` makes durable. Returns the bytes written.
    pub(crate) fn write(
        &mut self,
        contents: &ChunkImages<'_>,
        compression: ImageCompression,
    ) -> Result<u64, TreeError> {
        self.prepare(contents.images.len())?;
        let mut sink = Sink { file: self, buffer: Vec::with_capacity(WRITE_BYTES * 2), offset: IMAGES_AT };
        let mut table = Vec::with_capacity(contents.images.len() * ENTRY_BYTES);
        let mut packer = ImagePacker::new(compression);
        for image in contents.images {
            let (stored, code) = packer.pack(image.bytes());
            let entry = Entry {
                page: image.view().id(),
                offset: sink.position(),
                stored_bytes: u32::try_from(stored.len()).expect("an image is shorter than 2^32 bytes"),
                compression: code.into(),
                checksum: crc32c(stored),
            };
            entry.encode(&mut table);
            sink.append(stored)?;
        }
        let table_offset = sink.position();
        sink.append(&table)?;
        sink.flush()?;
        let end = sink.offset;
        let block = contents.superblock.map_or([0; BLOCK_BYTES], Superblock::encode);
        let header = self.header(contents, table_offset, crc32c(&table), crc32c(&block));
        self.write_at([header, block].as_flattened(), 0)?;
        self.prepared_bytes = self.prepared_bytes.max(end);
        Ok(end)
    }

    /// Makes the chunk that was written durable: its commit point.
    pub(crate) fn commit(&self) -> Result<(), TreeError> {
        self.file.sync_data().map_err(|source| TreeError::io("sync", &self.path, 0, source))
    }

    /// The chunk in the file; `None` if it is empty, of another database, or so torn that it does not say what it holds.
    pub(crate) fn read(&self) -> Result<Option<FoundChunk>, TreeError> {
        let length = self.prepared_bytes;
        if length < IMAGES_AT {
            return Ok(None);
        }
        let mut blocks = [[0; BLOCK_BYTES]; 2];
        self.read_at(blocks.as_flattened_mut(), 0)?;
        let Some(header) = self.decode_header(&blocks[0])? else { return Ok(None) };
        if crc32c(&blocks[1]) != header.block_checksum {
            return Ok(None);
        }
        let superblock = if header.has_superblock {
            let Some(superblock) = self.decode_superblock(&blocks[1]) else { return Ok(None) };
            Some(superblock)
        } else {
            None
        };
        let Some(entries) = self.read_table(&header, length)? else { return Ok(None) };
        let is_complete = self.verify_images(&entries)?;
        let table_offset = header.table_offset;
        Ok(Some(FoundChunk { chunk: header.chunk, superblock, table_offset, entries, is_complete }))
    }

    /// Whether a chunk that is not complete was being written in place when the power went: its recovery file was
    /// damaged since.
    ///
    /// Of a chunk that was never committed no image stands in place; of one that was followed by another, which was on
    /// its way into the file, all do. Where some do and some do not, the tree is a mixture of two.
    pub(crate) fn is_half_in_place(&self, chunk: &FoundChunk, pages: &PageFile) -> Result<bool, TreeError> {
        let (mut in_place, mut missing) = (false, false);
        let mut stored = Vec::new();
        let mut image = vec![0; self.format.page_bytes()];
        let mut unpacker = ImageUnpacker::default();
        for entry in &chunk.entries {
            stored.resize(entry.stored_bytes as usize, 0);
            self.read_at(&mut stored, entry.offset)?;
            if crc32c(&stored) != entry.checksum {
                continue;
            }
            if unpacker.unpack(&stored, entry.compression, &mut image).is_none() {
                continue;
            }
            match pages.read_page(entry.page) {
                Ok(page) if page.bytes() == image => in_place = true,
                Ok(_) => missing = true,
                Err(error) if error.is_damage() => missing = true,
                Err(error) => return Err(error),
            }
            if in_place && missing {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The error of a chunk that can be neither applied nor ignored.
    pub(crate) fn half_in_place(&self, chunk: &FoundChunk) -> TreeError {
        let what = format!(
            "chunk {} was being written in place, and its images here are damaged: some pages are those of the chunk and \
             some are older; restore the database from a backup",
            chunk.chunk
        );
        TreeError::damaged_file(&self.path, IMAGES_AT, what)
    }

    /// Writes the chunk that was found once more and syncs it: the process that wrote it may have ended before it was
    /// durable, or its sync may have failed, and then it is in the operating system's cache only. A crash in the middle
    /// does no harm, since nothing changes.
    pub(crate) fn write_again(&self, chunk: &FoundChunk) -> Result<(), TreeError> {
        let table_bytes = (chunk.entries.len() * ENTRY_BYTES) as u64;
        let end = chunk.table_offset + table_bytes;
        let mut piece = Vec::new();
        let mut offset = 0;
        while offset < end {
            let bytes = usize::try_from(end - offset).unwrap_or(usize::MAX).min(WRITE_BYTES);
            piece.resize(bytes, 0);
            self.read_at(&mut piece, offset)?;
            self.write_at(&piece, offset)?;
            offset += bytes as u64;
        }
        self.commit()
    }

    /// Calls `each` with every image of the chunk, each one decoded and checked as a page.
    pub(crate) fn for_each_image(
        &self,
        chunk: &FoundChunk,
        mut each: impl FnMut(Page) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let mut stored = Vec::new();
        let mut unpacker = ImageUnpacker::default();
        for entry in &chunk.entries {
            stored.resize(entry.stored_bytes as usize, 0);
            self.read_at(&mut stored, entry.offset)?;
            let damaged = |what: String| TreeError::damaged_file(&self.path, entry.offset, what);
            let mut image = vec![0; self.format.page_bytes()];
            unpacker
                .unpack(&stored, entry.compression, &mut image)
                .ok_or_else(|| damaged(format!("the image of page {} does not decompress", entry.page)))?;
            let page = Page::decode(&self.format, entry.page, &image)
                .map_err(|damage| damaged(format!("the image of page {}: {damage}", entry.page)))?;
            each(page)?;
        }
        Ok(())
    }

    /// Fills zeros ahead of the writing where the file is too short for so many images, doubling it.
    fn prepare(&mut self, image_count: usize) -> Result<(), TreeError> {
        let per_image = (self.format.page_bytes() + ENTRY_BYTES) as u64;
        let needed = IMAGES_AT + image_count as u64 * per_image;
        if needed <= self.prepared_bytes {
            return Ok(());
        }
        let doubled = (self.prepared_bytes * 2).min(self.prepared_bytes_max);
        let target = needed.next_multiple_of(GROWTH_BYTES).max(doubled);
        let from = self.prepared_bytes;
        self.file
            .fill_zeros(from, target - from)
            .map_err(|source| TreeError::io("growth", &self.path, from, source))?;
        self.prepared_bytes = target;
        Ok(())
    }

    fn header(
        &self,
        contents: &ChunkImages<'_>,
        table_offset: u64,
        table_checksum: u32,
        block_checksum: u32,
    ) -> [u8; BLOCK_BYTES] {
        let page_bytes = u32::try_from(self.format.page_bytes()).expect("a page is at most 64 KiB");
        let count = u32::try_from(contents.images.len()).expect("a chunk has fewer than 2^32 images");
        let mut block = [0; BLOCK_BYTES];
        block[0..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[16..32].copy_from_slice(self.database.as_bytes());
        block[32..40].copy_from_slice(&contents.chunk.to_le_bytes());
        block[40..44].copy_from_slice(&page_bytes.to_le_bytes());
        block[44..48].copy_from_slice(&count.to_le_bytes());
        block[48..56].copy_from_slice(&table_offset.to_le_bytes());
        block[56..60].copy_from_slice(&table_checksum.to_le_bytes());
        block[60..64].copy_from_slice(&u32::from(contents.superblock.is_some()).to_le_bytes());
        block[64..68].copy_from_slice(&block_checksum.to_le_bytes());
        let checksum = crc32c(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    fn decode_header(&self, block: &[u8; BLOCK_BYTES]) -> Result<Option<Header>, TreeError> {
        let mut unsealed = *block;
        unsealed[12..16].fill(0);
        let whole = block[0..8] == MAGIC && u32_at(block, 12) == crc32c(&unsealed);
        if !whole || block[16..32] != *self.database.as_bytes() {
            return Ok(None);
        }
        let version = u32_at(block, 8);
        if version != FORMAT_VERSION {
            let what = format!("format version {version} is not known");
            return Err(TreeError::damaged_file(&self.path, 8, what));
        }
        let fits = u32_at(block, 40) as usize == self.format.page_bytes()
            && u32_at(block, 60) <= 1
            && u64_at(block, 32) <= COUNTER_MAX;
        let header = Header {
            chunk: u64_at(block, 32),
            image_count: u32_at(block, 44),
            table_offset: u64_at(block, 48),
            table_checksum: u32_at(block, 56),
            has_superblock: u32_at(block, 60) == 1,
            block_checksum: u32_at(block, 64),
        };
        Ok(fits.then_some(header))
    }

    /// The superblock in the second block; `None` if it is damaged, or not that of these pages.
    fn decode_superblock(&self, block: &[u8; BLOCK_BYTES]) -> Option<Superblock> {
        let superblock = Superblock::from_block(block)?;
        let fits = superblock.database == self.database
            && superblock.page_bytes as usize == self.format.page_bytes();
        fits.then_some(superblock)
    }

    fn read_table(&self, header: &Header, length: u64) -> Result<Option<Vec<Entry>>, TreeError> {
        let table_bytes = u64::from(header.image_count) * ENTRY_BYTES as u64;
        let end = header.table_offset.checked_add(table_bytes);
        if header.table_offset < IMAGES_AT || end.is_none_or(|end| end > length) {
            return Ok(None);
        }
        let mut table = vec![0; header.image_count as usize * ENTRY_BYTES];
        self.read_at(&mut table, header.table_offset)?;
        if crc32c(&table) != header.table_checksum {
            return Ok(None);
        }
        let limit = header.table_offset;
        Ok(table.chunks_exact(ENTRY_BYTES).map(|bytes| Entry::decode(bytes, limit, &self.format)).collect())
    }

    fn verify_images(&self, entries: &[Entry]) -> Result<bool, TreeError> {
        let mut stored = Vec::new();
        for entry in entries {
            stored.resize(entry.stored_bytes as usize, 0);
            self.read_at(&mut stored, entry.offset)?;
            if crc32c(&stored) != entry.checksum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), TreeError> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|source| TreeError::io("read", &self.path, offset, source))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), TreeError> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|source| TreeError::io("write", &self.path, offset, source))
    }
}

struct Header {
    chunk: u64,
    image_count: u32,
    table_offset: u64,
    table_checksum: u32,
    has_superblock: bool,
    block_checksum: u32,
}

impl Entry {
    fn encode(&self, table: &mut Vec<u8>) {
        table.extend_from_slice(&self.page.get().to_le_bytes());
        table.extend_from_slice(&self.offset.to_le_bytes());
        table.extend_from_slice(&self.stored_bytes.to_le_bytes());
        table.extend_from_slice(&self.compression.to_le_bytes());
        table.extend_from_slice(&self.checksum.to_le_bytes());
        table.extend_from_slice(&[0; 4]);
    }

    /// The entry, unless its page cannot be, its bytes would lie outside `IMAGES_AT..limit` or are more than a page.
    fn decode(bytes: &[u8], limit: u64, format: &PageFormat) -> Option<Entry> {
        let entry = Entry {
            page: PageId::new(u64_at(bytes, 0)),
            offset: u64_at(bytes, 8),
            stored_bytes: u32_at(bytes, 16),
            compression: u32_at(bytes, 20),
            checksum: u32_at(bytes, 24),
        };
        let end = entry.offset.checked_add(u64::from(entry.stored_bytes))?;
        let is_page = entry.page.get() < PAGES_MAX;
        let fits = is_page
            && entry.offset >= IMAGES_AT
            && end <= limit
            && ImageUnpacker::is_known(entry.compression);
        (fits && entry.stored_bytes as usize <= format.page_bytes()).then_some(entry)
    }
}

/// Appends to the file in large pieces.
struct Sink<'a> {
    file: &'a RecoveryFile,
    buffer: Vec<u8>,
    offset: u64,
}

impl Sink<'_> {
    fn position(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TreeError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TreeError> {
        self.file.write_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
