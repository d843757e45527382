//! The recovery file: a second copy of the pages that a chunk overwrites, so that a crash in the middle of the
//! overwriting leaves no torn page.
//!
//! ```text
//!   header | superblock | header again | region 0: table, images | region 1 ... | zeros
//!   0        4096         8192           12288                     each by a writer of its own
//! ```
//! It is written for each chunk, regions first and in any order, the headers last, and made durable by one sync: the
//! chunk's commit point. The header counts the regions and has the checksum of each one's table, the table that of each
//! image, so a file of which any sector is of an older chunk does not verify, and no region can be missing unnoticed. If
//! the images are in the log, the header says where, and there are no regions. A single flipped bit in headers or tables
//! is survived: both are there twice.
//!
//! An incomplete file is no error, it is a chunk that was never committed. A complete file that was damaged later cannot
//! be told from an incomplete one by itself; but if its chunk was being written in place, some of its pages stand in
//! place and some do not, or are torn, which is refused. So is a file without a header (see `header`), or one that ends
//! before its regions do: it gets its length, and that is synced, before a header says what is in it.
//!
//! Its length is fixed: filled with zeros when the first chunk needs it, and from then on written over and over. It has
//! room for the images of a chunk of the budget, none of which need come out smaller, for a quarter as many again, for 64
//! pages more: the pages above the last change, the space map; and for what each thread of a merge beyond the first may add
//! before it hears that the budget is used up. A long value needs no room, its pages are fresh.
//! Only the last chunk of a checkpoint, which must hold all changes of some system tables, may need more; it makes the file
//! longer, and when it is in place the file is cut to its length again.

mod encrypted;
mod header;
mod region;

use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_keys::Cipher;
use seawall_types::{DatabaseId, PageId};

use crate::error::TreeError;
use crate::image_compression::{ImageCompression, ImageUnpacker};
use crate::image_log::{ImageSource, ImageSpan, PieceTally, StoredImage};
use crate::page::{Page, PageFormat, stored_mark};
use crate::page_file::PageFile;
use crate::published::{FIRST_MAP_PAGE, ROOT_PAGE};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock, TreeMarks};
use crate::sync_gate::SyncGate;

use encrypted::StoredPlace;
pub(crate) use header::{ChunkHeader, ImagePlace, RegionPlace};
use header::{FoundHeader, REGIONS_MAX};
use region::{Entry, image_bytes_max, region_bytes_max};

/// Path of the recovery file in the database's directory.
pub const RECOVERY_FILE_PATH: &str = "recovery/chunk";

const BLOCK_BYTES: usize = 4096;
const SECOND_HEADER_AT: usize = 2 * BLOCK_BYTES;
const IMAGES_AT: u64 = 3 * BLOCK_BYTES as u64;
const COPY_BYTES: usize = 1 << 20;
const GROWTH_BYTES: u64 = 1 << 20;
/// Pages that a chunk may have beyond its budget and a quarter of it.
const EXCESS_PAGES: u64 = 64;
/// Pages by which each of several threads that build a chunk may exceed its budget.
pub(crate) const EXCESS_PAGES_PER_THREAD: usize = 20;
/// A region has at least so many images: fewer are not worth a thread.
const REGION_IMAGES_MIN: usize = 32;
/// Page numbers are smaller: even of the largest pages, the file then has fewer than 2^62 bytes.
const PAGES_MAX: u64 = 1 << 46;
const _: () = assert!(SUPERBLOCK_BYTES == BLOCK_BYTES);

/// The open recovery file.
#[derive(Debug)]
pub(crate) struct RecoveryFile {
    file: Arc<dyn DiskFile>,
    path: String,
    format: PageFormat,
    database: DatabaseId,
    /// Of an encrypted database.
    cipher: Option<Cipher>,
    /// Bytes that are allocated and written, so that writing them again changes no metadata.
    prepared_bytes: u64,
    /// A process that was killed may have left that length in the operating system's cache only.
    is_length_durable: bool,
    /// The length that it ordinarily has.
    fixed_bytes: u64,
}

/// A chunk found in the recovery file.
#[derive(Debug)]
pub(crate) struct FoundChunk {
    pub(crate) chunk: u64,
    /// To be stored after the chunk.
    pub(crate) superblock: Option<Superblock>,
    header: ChunkHeader,
    /// Of the images in this file, what is left.
    entries: Vec<Entry>,
    /// The superblock is there if there is one.
    has_whole_block: bool,
    /// Nothing is missing.
    pub(crate) is_complete: bool,
}

impl FoundChunk {
    /// The marks of the tree that it ends with.
    pub(crate) fn marks_after(&self) -> TreeMarks {
        self.header.marks_after
    }
}

impl RecoveryFile {
    /// Creates the file, of no chunk. Its name is durable after the directory `recovery` is synced.
    pub(crate) fn create(disk: &dyn Disk, format: PageFormat, database: DatabaseId) -> Result<(), TreeError> {
        let path = disk.location(RECOVERY_FILE_PATH);
        let file = disk
            .open(RECOVERY_FILE_PATH, OpenMode::Create)
            .map_err(|source| TreeError::io("creation", &path, 0, source))?;
        // No image is written here.
        let cipher = None;
        let file = RecoveryFile {
            file,
            path,
            format,
            database,
            cipher,
            prepared_bytes: 0,
            is_length_durable: false,
            fixed_bytes: 0,
        };
        file.write_headers(&ChunkHeader::of_no_chunk(), &[0; BLOCK_BYTES])?;
        file.commit()
    }

    /// Opens the file, of images encrypted with `cipher` if there is one. `chunk_bytes` is the budget of a chunk, which the
    /// file is made for, and `threads` are how many build it.
    pub(crate) fn open(
        disk: &dyn Disk,
        mode: OpenMode,
        format: PageFormat,
        database: DatabaseId,
        cipher: Option<Cipher>,
        chunk_bytes: u64,
        threads: usize,
    ) -> Result<RecoveryFile, TreeError> {
        let path = disk.location(RECOVERY_FILE_PATH);
        let file = disk
            .open(RECOVERY_FILE_PATH, mode)
            .map_err(|source| TreeError::io("opening", &path, 0, source))?;
        let prepared_bytes = file.length().map_err(|source| TreeError::io("length", &path, 0, source))?;
        let fixed_bytes = fixed_bytes(&format, cipher.as_ref(), chunk_bytes, threads);
        Ok(RecoveryFile {
            file,
            path,
            format,
            database,
            cipher,
            prepared_bytes,
            is_length_durable: false,
            fixed_bytes,
        })
    }

    /// Makes room for the images of a chunk and says which writer writes which: consecutive images, and where their
    /// region starts.
    pub(crate) fn plan_regions(
        &mut self,
        image_count: usize,
        writers: usize,
    ) -> Result<Vec<(std::ops::Range<usize>, u64)>, TreeError> {
        let useful = image_count.div_ceil(REGION_IMAGES_MIN).max(1);
        let count = writers.clamp(1, REGIONS_MAX).min(useful);
        let mut regions = Vec::with_capacity(count);
        let (mut first, mut offset) = (0, IMAGES_AT);
        for index in 0..count {
            let images = first..image_count * (index + 1) / count;
            regions.push((images.clone(), offset));
            offset += region_bytes_max(images.len(), &self.format, self.cipher.as_ref());
            first = images.end;
        }
        self.prepare(offset)?;
        Ok(regions)
    }

    /// Writes one region, when the gate opens. Called by several threads.
    pub(crate) fn write_region(
        &self,
        offset: u64,
        chunk: u64,
        images: &[Page],
        compression: ImageCompression,
        gate: &SyncGate,
    ) -> Result<RegionPlace, TreeError> {
        region::write_region(self, offset, chunk, images, compression, gate)
    }

    /// Writes the header of a chunk whose images are written. Everything that the chunk needs, but for this file, must
    /// be durable: from here on a power failure may leave it committed. Returns the bytes written.
    pub(crate) fn write_header(
        &mut self,
        chunk: u64,
        image_count: usize,
        superblock: Option<&Superblock>,
        place: ImagePlace,
        [marks_before, marks_after]: [TreeMarks; 2],
    ) -> Result<u64, TreeError> {
        let block = superblock.map_or([0; BLOCK_BYTES], Superblock::encode);
        let header = ChunkHeader {
            chunk,
            image_count: u32::try_from(image_count).expect("a chunk has fewer than 2^32 images"),
            has_superblock: superblock.is_some(),
            block_checksum: crc32c(&block),
            place,
            marks_before,
            marks_after,
        };
        self.write_headers(&header, &block)?;
        self.prepared_bytes = self.prepared_bytes.max(IMAGES_AT);
        Ok(IMAGES_AT)
    }

    fn write_headers(&self, header: &ChunkHeader, block: &[u8; BLOCK_BYTES]) -> Result<(), TreeError> {
        let sector = header.encode(&self.format, self.database);
        self.write_at([sector, *block, sector].as_flattened(), 0)
    }

    /// Makes the chunk that was written durable: its commit point.
    pub(crate) fn commit(&self) -> Result<(), TreeError> {
        self.file.sync_data().map_err(|source| TreeError::io("sync", &self.path, 0, source))
    }

    /// Gives back what a chunk has needed beyond the fixed length. Its images must be in place and marked as done.
    pub(crate) fn trim(&mut self) -> Result<(), TreeError> {
        if self.prepared_bytes > self.fixed_bytes {
            let cut = self.file.set_length(self.fixed_bytes);
            cut.map_err(|source| TreeError::io("cut", &self.path, self.fixed_bytes, source))?;
            self.prepared_bytes = self.fixed_bytes;
        }
        Ok(())
    }

    /// The chunk in the file; `None` if there never was one later than `completed_chunk`: nobody needs what is left of an
    /// earlier one, and the file may have been cut since.
    ///
    /// # Errors
    /// `File` if neither header is one of this database: the file is damaged, or not its own.
    pub(crate) fn read(&self, completed_chunk: u64) -> Result<Option<FoundChunk>, TreeError> {
        let mut blocks = [[0; BLOCK_BYTES]; 3];
        let there = usize::try_from(self.prepared_bytes.min(IMAGES_AT)).expect("at most three blocks");
        self.read_at(&mut blocks.as_flattened_mut()[..there], 0)?;
        let header = self.newest_header(&blocks)?;
        if header.chunk <= completed_chunk {
            return Ok(None);
        }
        let is_block_right = crc32c(&blocks[1]) == header.block_checksum;
        let superblock = Some(()).filter(|()| header.has_superblock && is_block_right);
        let superblock = superblock.and_then(|()| self.decode_superblock(&blocks[1]));
        // Without a superblock nobody reads the block.
        let has_whole_block = header.has_superblock == superblock.is_some();
        let mut found = FoundChunk {
            chunk: header.chunk,
            superblock,
            entries: Vec::new(),
            has_whole_block,
            is_complete: has_whole_block,
            header,
        };
        if let ImagePlace::Regions(regions) = &found.header.place {
            if regions.iter().any(|region| region.offset + region.bytes > self.prepared_bytes) {
                let what = format!(
                    "the file of chunk {} was cut, and whether it was being written in place can no longer be told; put \
                     the right file back, or restore the database from a backup",
                    found.chunk
                );
                return Err(TreeError::damaged_file(&self.path, self.prepared_bytes, what));
            }
            for region in regions {
                let table = region::read_table(self, region, found.chunk)?;
                found.is_complete &= table.is_whole;
                found.entries.extend(table.entries);
            }
            found.is_complete = found.is_complete && self.verify_images(&found.entries)?;
        }
        Ok(Some(found))
    }

    fn newest_header(&self, blocks: &[[u8; BLOCK_BYTES]; 3]) -> Result<ChunkHeader, TreeError> {
        let mut newest: Option<ChunkHeader> = None;
        let mut problem = "neither header of the recovery file verifies".to_owned();
        for block in [&blocks[0], &blocks[2]] {
            match ChunkHeader::decode(block, &self.format, self.database) {
                FoundHeader::Whole(header) => {
                    if newest.as_ref().is_none_or(|other| other.chunk < header.chunk) {
                        newest = Some(header);
                    }
                }
                FoundHeader::Damaged => {}
                FoundHeader::Foreign(found) => {
                    problem = format!(
                        "it is of database {found}, and the superblock of database {}: one of the two files is another \
                         database's",
                        self.database
                    );
                }
                FoundHeader::Version(version) => {
                    let what = format!("format version {version} is not known");
                    return Err(TreeError::damaged_file(&self.path, 8, what));
                }
            }
        }
        newest.ok_or_else(|| {
            let what = format!(
                "{problem}: no power failure does that, and whether a chunk was being written in place can no longer be \
                 told; put the right file back, or restore the database from a backup"
            );
            TreeError::damaged_file(&self.path, 0, what)
        })
    }

    /// Whether a chunk that is not complete was being written in place when the power went: its images were damaged
    /// since.
    ///
    /// Of a chunk that was never committed no page stands in place, and none is torn; of one that was followed by
    /// another, which was on its way into the file, all stand in place. Where some do and some do not, the tree is a
    /// mixture of two; and where some do and the superblock that came with them is lost, the redo point has not moved
    /// with the pages.
    pub(crate) fn is_half_in_place(
        &self,
        found: &FoundChunk,
        pages: &PageFile,
        values: &Superblock,
        source: &dyn ImageSource,
    ) -> Result<bool, TreeError> {
        let (mut in_place, mut missing) = (false, found.header.has_superblock && !found.has_whole_block);
        let mut look = |page: PageId, image_checksum: u32| match pages.read_page(page) {
            Ok(page) if stored_mark(self.cipher.as_ref(), page.bytes()).get() == image_checksum => {
                in_place = true;
                Ok(())
            }
            Ok(_) => {
                missing = true;
                Ok(())
            }
            Err(error) if error.is_damage() => {
                // One that was never written, of the space map, is no torn one.
                in_place |= !pages.is_blank(page)?;
                missing = true;
                Ok(())
            }
            Err(error) => Err(error),
        };
        for entry in &found.entries {
            look(entry.page, entry.image_checksum)?;
        }
        if let ImagePlace::Log(span) = &found.header.place {
            self.for_each_logged(found.chunk, span, values, source, &mut |page| {
                look(page.view().id(), stored_mark(self.cipher.as_ref(), page.bytes()).get())
            })?;
        }
        Ok(in_place && missing)
    }

    /// The marks of the tree that a chunk which is not complete has left: of the one before it, unless its own root or
    /// page of the space map stands in place, as both do if it was followed by another. One of them is enough: the other
    /// may have been damaged since, and is then to be found as what it is.
    pub(crate) fn marks_left_by(&self, torn: &FoundChunk, pages: &PageFile) -> Result<TreeMarks, TreeError> {
        let (before, after) = (torn.header.marks_before, torn.header.marks_after);
        let changed =
            [(ROOT_PAGE, before.root, after.root), (FIRST_MAP_PAGE, before.space_map, after.space_map)];
        for (page, _, mark) in changed.into_iter().filter(|(_, before, after)| before != after) {
            match pages.read_page(page) {
                Ok(page) if pages.stored_mark(page.bytes()) == mark => return Ok(after),
                Ok(_) => {}
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(before)
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
    /// does no harm, since nothing changes. Images in the log were durable before the header was written.
    pub(crate) fn write_again(&self, found: &FoundChunk) -> Result<(), TreeError> {
        if let ImagePlace::Regions(regions) = &found.header.place {
            regions.iter().try_for_each(|region| self.copy_in_place(region.offset, region.bytes))?;
        }
        let block = found.superblock.as_ref().map_or([0; BLOCK_BYTES], Superblock::encode);
        self.write_headers(&found.header, &block)?;
        self.commit()
    }

    fn copy_in_place(&self, start: u64, bytes: u64) -> Result<(), TreeError> {
        let mut piece = Vec::new();
        let mut done = 0;
        while done < bytes {
            let length = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(COPY_BYTES);
            piece.resize(length, 0);
            self.read_at(&mut piece, start + done)?;
            self.write_at(&piece, start + done)?;
            done += length as u64;
        }
        Ok(())
    }

    /// Calls `each` with every image of a complete chunk, each one decoded and checked as a page.
    ///
    /// # Errors
    /// What `each` says. For images in the log, which are durable if there is a header, also `ImageLog` if one of them
    /// is missing: they are all looked at before `each` is called.
    pub(crate) fn for_each_image(
        &self,
        found: &FoundChunk,
        values: &Superblock,
        source: &dyn ImageSource,
        mut each: impl FnMut(Page) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        match &found.header.place {
            ImagePlace::Regions(_) => self.for_each_stored(found.chunk, &found.entries, each),
            ImagePlace::Log(span) => {
                self.verify_logged(found, span, values, source)?;
                self.for_each_logged(found.chunk, span, values, source, &mut each)
            }
        }
    }

    fn for_each_stored(
        &self,
        chunk: u64,
        entries: &[Entry],
        mut each: impl FnMut(Page) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let mut stored = Vec::new();
        let mut unpacker = ImageUnpacker::default();
        for entry in entries {
            stored.resize(entry.stored_bytes as usize, 0);
            self.read_at(&mut stored, entry.offset)?;
            let damaged = |what| TreeError::damaged_file(&self.path, entry.offset, what);
            let packed = match &self.cipher {
                Some(cipher) => {
                    let place = StoredPlace { chunk, page: entry.page, compression: entry.compression };
                    let what = || format!("the image of page {} was encrypted with another key", entry.page);
                    place.decrypt(cipher, &mut stored).ok_or_else(|| damaged(what()))?
                }
                None => &stored,
            };
            let page = self.unpack(&mut unpacker, entry.page, entry.compression, packed);
            each(page.map_err(damaged)?)?;
        }
        Ok(())
    }

    fn verify_logged(
        &self,
        found: &FoundChunk,
        span: &ImageSpan,
        values: &Superblock,
        source: &dyn ImageSource,
    ) -> Result<(), TreeError> {
        let mut tally = PieceTally::default();
        source.read(values, span, &mut |piece| {
            if piece.chunk == found.chunk {
                tally.add(&piece);
            }
            Ok(())
        })?;
        match tally.shortfall(span, found.header.image_count) {
            Some(what) => Err(span.unreadable(what)),
            None => Ok(()),
        }
    }

    fn for_each_logged(
        &self,
        chunk: u64,
        span: &ImageSpan,
        values: &Superblock,
        source: &dyn ImageSource,
        each: &mut dyn FnMut(Page) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let mut unpacker = ImageUnpacker::default();
        source.read(values, span, &mut |piece| {
            if piece.chunk != chunk {
                return Ok(());
            }
            for image in piece.stored() {
                let (StoredImage { page, compression, .. }, stored) =
                    image.ok_or_else(|| span.unreadable("a record is too short".to_owned()))?;
                let page = self.unpack(&mut unpacker, page, compression, stored);
                each(page.map_err(|what| span.unreadable(what))?)?;
            }
            Ok(())
        })
    }

    fn unpack(
        &self,
        unpacker: &mut ImageUnpacker,
        page: PageId,
        compression: u32,
        stored: &[u8],
    ) -> Result<Page, String> {
        let mut image = vec![0; self.format.page_bytes()];
        unpacker
            .unpack(stored, compression, &mut image)
            .ok_or_else(|| format!("the image of page {page} does not decompress"))?;
        Page::decode(&self.format, page, &image)
            .map_err(|damage| format!("the image of page {page}: {damage}"))
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

    /// Fills zeros where the file is too short: the first time, up to its fixed length. That length is durable when this returns:
    /// a header behind which the file ends is taken for damage.
    fn prepare(&mut self, needed: u64) -> Result<(), TreeError> {
        let is_long_enough = needed <= self.prepared_bytes;
        if is_long_enough && self.is_length_durable {
            return Ok(());
        }
        if !is_long_enough {
            let target = self.fixed_bytes.max(needed.next_multiple_of(GROWTH_BYTES));
            let from = self.prepared_bytes;
            self.file
                .fill_zeros(from, target - from)
                .map_err(|source| TreeError::io("growth", &self.path, from, source))?;
            self.prepared_bytes = target;
            self.is_length_durable = false;
        }
        self.commit()?;
        self.is_length_durable = true;
        Ok(())
    }

    /// The superblock in the second block; `None` if it is damaged, or not that of these pages.
    fn decode_superblock(&self, block: &[u8; BLOCK_BYTES]) -> Option<Superblock> {
        let superblock = Superblock::from_block(block)?;
        let fits = superblock.database == self.database
            && superblock.page_bytes as usize == self.format.page_bytes();
        fits.then_some(superblock)
    }

    fn format(&self) -> &PageFormat {
        &self.format
    }

    fn cipher(&self) -> Option<&Cipher> {
        self.cipher.as_ref()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), TreeError> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|source| TreeError::io("read", &self.path, offset, source))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), TreeError> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|source| TreeError::io("write", &self.path, offset, source))
    }

    fn start_writing(&self, offset: u64, bytes: u64) {
        self.file.start_writing(offset, bytes);
    }
}

/// See the module.
fn fixed_bytes(format: &PageFormat, cipher: Option<&Cipher>, chunk_bytes: u64, threads: usize) -> u64 {
    let budget_pages = chunk_bytes.div_ceil(format.page_bytes() as u64);
    let of_threads = (threads.saturating_sub(1) * EXCESS_PAGES_PER_THREAD) as u64;
    let images = budget_pages + budget_pages / 4 + EXCESS_PAGES + of_threads;
    let regions = images * image_bytes_max(format, cipher) as u64 + (REGIONS_MAX * BLOCK_BYTES) as u64;
    (IMAGES_AT + regions).next_multiple_of(BLOCK_BYTES as u64)
}

/// Whether the file of a creation that was cut short holds a chunk: then it is no such file.
pub(crate) fn holds_chunk(bytes: &[u8]) -> bool {
    let chunk_at = |header: usize| bytes.get(header + 32..header + 40);
    [0, SECOND_HEADER_AT].into_iter().filter_map(chunk_at).any(|chunk| chunk.iter().any(|byte| *byte != 0))
}
