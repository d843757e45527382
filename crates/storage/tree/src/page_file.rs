//! The page file: page `n` lies at `n` times the page size.
//!
//! ```text
//!   | page 0: space map | page 1: root | pages ... | allocated by the file system, unused |
//!                                                  ^ grows in large steps
//! ```
//! Invariants:
//! * What `read_page` and `read_extent` return has been checked whole.
//! * Nothing here is durable before `sync`.
//! * Of an encrypted database, pages are encrypted on their way into the file and decrypted on their way out: nobody
//!   above sees a difference.

use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use seawall_codec::bytes::u32_at;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_keys::Cipher;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{Mutex, RwLock};
use seawall_types::PageId;

use crate::error::TreeError;
use crate::page::{
    EXTENT_HEADER_BYTES, EXTENT_PAGES_MAX, Extent, ExtentHeader, PAGE_FILE_PATH, Page, PageDamage,
    PageFormat, PageMark, PageReference, SharedImage, append_encrypted, decrypt_extent, decrypt_page,
    stored_mark, take_extent_envelope,
};
use crate::sabotage::{Defect, sabotaged};

/// One call writes at most so many slices; Linux takes 1024.
const SLICES_PER_WRITE: usize = 256;
/// Images are encrypted and written in pieces of about so many bytes.
const ENCRYPTED_BYTES: usize = 2 << 20;
/// The operating system is told to begin writing after so many bytes. Of fewer it may make larger writes by itself.
const STARTED_BYTES: usize = 1 << 20;
const GROWTH_BYTES_MIN: u64 = 1 << 20;
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// Bytes to be written from page `first` on: one page's image, or those of several.
#[derive(Clone, Copy, Debug)]
pub struct PageImage<'a> {
    /// Where they go.
    pub first: PageId,
    /// Whole pages.
    pub bytes: &'a [u8],
}

impl<'a> From<&'a Page> for PageImage<'a> {
    fn from(page: &'a Page) -> PageImage<'a> {
        PageImage { first: page.view().id(), bytes: page.bytes() }
    }
}

/// What was read from the page file so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Calls.
    pub reads: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The open page file.
#[derive(Debug)]
pub struct PageFile {
    file: Arc<dyn DiskFile>,
    path: String,
    format: PageFormat,
    /// Of an encrypted database.
    cipher: Option<Cipher>,
    /// The file's length; grows only.
    length: AtomicU64,
    /// Held while the file is made longer: a bulk load writes beside the writer, and the shorter length set last would
    /// cut off what the other has written.
    growing: Mutex<()>,
    /// Held shared while pages are written; `true` once nothing may be written any more.
    closed: RwLock<bool>,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl PageFile {
    /// Creates an empty page file. Its name is durable after the directory `""` is synced.
    ///
    /// # Errors
    /// `Io`, also when the file exists.
    pub fn create(disk: &dyn Disk, format: PageFormat) -> Result<PageFile, TreeError> {
        PageFile::open_as(disk, format, OpenMode::Create, "creation")
    }

    /// Opens the page file, `OpenMode::Read` or `OpenMode::Write`. Reads no page.
    ///
    /// # Errors
    /// `Io`, also when the file is missing.
    pub fn open(disk: &dyn Disk, format: PageFormat, mode: OpenMode) -> Result<PageFile, TreeError> {
        PageFile::open_as(disk, format, mode, "opening")
    }

    fn open_as(
        disk: &dyn Disk,
        format: PageFormat,
        mode: OpenMode,
        operation: &'static str,
    ) -> Result<PageFile, TreeError> {
        let path = disk.location(PAGE_FILE_PATH);
        let file =
            disk.open(PAGE_FILE_PATH, mode).map_err(|source| TreeError::io(operation, &path, 0, source))?;
        let length = file.length().map_err(|source| TreeError::io("length", &path, 0, source))?;
        let (reads, read_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(PageFile {
            file,
            path,
            format,
            cipher: None,
            length: AtomicU64::new(length),
            growing: Mutex::new(()),
            closed: RwLock::new(false),
            reads,
            read_bytes,
        })
    }

    /// Encrypts and decrypts all pages with `cipher`, if there is one. To be called before the first is read or written.
    #[must_use]
    pub fn encrypted_with(self, cipher: Option<Cipher>) -> PageFile {
        PageFile { cipher, ..self }
    }

    /// What all pages have in common.
    pub fn format(&self) -> &PageFormat {
        &self.format
    }

    /// Full name of the file, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whole pages that the file has room for, used or not.
    pub fn page_count(&self) -> u64 {
        self.length.load(Ordering::Acquire) / self.format.page_bytes() as u64
    }

    /// What was read so far.
    pub fn read_counts(&self) -> ReadCounts {
        // Relaxed: counters for people and tests; nothing is ordered by them.
        ReadCounts {
            reads: self.reads.load(Ordering::Relaxed),
            bytes: self.read_bytes.load(Ordering::Relaxed),
        }
    }

    /// The mark of an image where it stands in the clear on disk, and in references to extents.
    pub(crate) fn stored_mark(&self, image: &[u8]) -> PageMark {
        stored_mark(self.cipher.as_ref(), image)
    }

    /// Reads and checks a page. Which image of it the tree refers to is not known here.
    ///
    /// # Errors
    /// `Truncated`, `Page` or `Io`.
    pub fn read_page(&self, id: PageId) -> Result<Page, TreeError> {
        let mut image = SharedImage::zeroed(self.format.page_bytes());
        let bytes = image.unshared_mut();
        self.read_at(id, bytes)?;
        if let Some(cipher) = &self.cipher {
            decrypt_page(&self.format, cipher, id, bytes).map_err(|damage| self.damaged(id, damage))?;
        }
        Page::decode_shared(&self.format, id, image).map_err(|damage| self.damaged(id, damage))
    }

    /// As `read_page`, of `count` pages side by side, with one call.
    ///
    /// # Errors
    /// `Truncated`, `Page` or `Io`; of the first one that is damaged.
    pub fn read_pages(&self, first: PageId, count: usize) -> Result<Vec<Page>, TreeError> {
        if count == 1 {
            return Ok(vec![self.read_page(first)?]);
        }
        let page_bytes = self.format.page_bytes();
        let mut bytes = vec![0; count * page_bytes];
        self.read_at(first, &mut bytes)?;
        let ids = (first.get()..).map(PageId::new);
        bytes.chunks_exact_mut(page_bytes).zip(ids).map(|(image, id)| self.check_page(id, image)).collect()
    }

    /// Of these pages, which are read with one call, those that hold a valid image, if there are any: for who can do without the others.
    /// Of free ones it may be an old one.
    pub(crate) fn read_valid_pages(&self, pages: Range<u64>) -> Vec<Page> {
        let page_bytes = self.format.page_bytes();
        let end = pages.end.min(self.page_count());
        let count = usize::try_from(end.saturating_sub(pages.start)).expect("they fit into memory");
        let mut bytes = vec![0; count * page_bytes];
        if count == 0 || self.read_at(PageId::new(pages.start), &mut bytes).is_err() {
            return Vec::new();
        }
        let ids = pages.map(PageId::new);
        bytes
            .chunks_exact_mut(page_bytes)
            .zip(ids)
            .filter_map(|(image, id)| self.check_page(id, image).ok())
            .collect()
    }

    fn check_page(&self, id: PageId, image: &mut [u8]) -> Result<Page, TreeError> {
        let checked = match &self.cipher {
            Some(cipher) => decrypt_page(&self.format, cipher, id, image),
            None => Ok(()),
        };
        checked
            .and_then(|()| Page::decode(&self.format, id, image))
            .map_err(|damage| self.damaged(id, damage))
    }

    /// Whether a page was never written: zeros, or behind the end of the file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn is_blank(&self, id: PageId) -> Result<bool, TreeError> {
        let mut image = vec![0; self.format.page_bytes()];
        match self.read_at(id, &mut image) {
            Ok(()) => Ok(image.iter().all(|byte| *byte == 0)),
            Err(TreeError::Truncated { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads and checks the extent `at`, which holds at most `data_bytes_max` bytes of its value: the checked
    /// length that bounds what is read. Gives the extent to `use_extent`. `buffer` is reused from call to call.
    ///
    /// # Errors
    /// `Truncated`, `Page` or `Io`.
    pub fn read_extent<R>(
        &self,
        at: PageReference,
        data_bytes_max: u64,
        buffer: &mut Vec<u8>,
        use_extent: impl FnOnce(Extent<'_>) -> R,
    ) -> Result<R, TreeError> {
        let (first, page_bytes) = (at.page, self.format.page_bytes());
        // One read where the rest of the value is one extent. Clamped to the file, so that a wrong length is refused
        // by the extent's own check and not by the end of the file.
        let wanted = (data_bytes_max.saturating_add(EXTENT_HEADER_BYTES as u64)).div_ceil(page_bytes as u64);
        let in_file = self.page_count().saturating_sub(first.get());
        let pages = wanted.min(EXTENT_PAGES_MAX as u64).min(in_file).max(1);
        let pages = usize::try_from(pages).expect("an extent has at most 128 pages");
        buffer.resize(pages * page_bytes, 0);
        self.read_at(first, buffer)?;
        let decrypted = match &self.cipher {
            Some(cipher) => decrypt_extent(&self.format, cipher, first, buffer).map(Some),
            None => Ok(None),
        };
        let own_mark = decrypted.map_err(|damage| self.damaged(first, damage))?;
        let extent =
            Extent::decode(&self.format, first, buffer).map_err(|damage| self.damaged(first, damage))?;
        self.expect_mark(at, own_mark.unwrap_or(extent.mark))?;
        Ok(use_extent(extent))
    }

    /// Reads the header of the extent `at`, without its data: the checksum, which covers both, is not checked.
    /// See [`ExtentHeader::decode`] for what may be trusted. The header is that of the image referred to.
    ///
    /// # Errors
    /// `Truncated`, `Page` or `Io`.
    pub fn read_extent_header(&self, at: PageReference) -> Result<ExtentHeader, TreeError> {
        let mut page = vec![0; self.format.page_bytes()];
        self.read_at(at.page, &mut page)?;
        let mark = match &self.cipher {
            // The header of an extent stays readable, so that freeing a value need not read it.
            Some(_) => take_extent_envelope(&mut page),
            None => PageMark::new(u32_at(&page, 0)),
        };
        let header = ExtentHeader::decode(&self.format, at.page, &page);
        let header = header.map_err(|damage| self.damaged(at.page, damage))?;
        self.expect_mark(at, mark)?;
        Ok(header)
    }

    /// Refuses an image that is not the one referred to.
    ///
    /// # Errors
    /// `Page`.
    pub(crate) fn expect_mark(&self, at: PageReference, found: PageMark) -> Result<(), TreeError> {
        if found == at.mark || sabotaged(Defect::PageMarkNotChecked) {
            return Ok(());
        }
        Err(self.damaged(at.page, PageDamage::LostWrite { expected: at.mark, found }))
    }

    /// Writes images, sorted by page, in as few calls as possible; grows the file first where needed.
    ///
    /// # Errors
    /// `Io`.
    ///
    /// # Panics
    /// If they are not sorted, overlap or are not whole pages.
    pub fn write(&self, images: &[PageImage<'_>]) -> Result<(), TreeError> {
        match &self.cipher {
            Some(cipher) => self.write_encrypted(cipher, images),
            None => self.write_images(images),
        }
    }

    /// Each image is encrypted anew each time it is written, under a nonce of its own.
    fn write_encrypted(&self, cipher: &Cipher, mut images: &[PageImage<'_>]) -> Result<(), TreeError> {
        let mut encrypted = Vec::new();
        while !images.is_empty() {
            encrypted.clear();
            let mut ranges = Vec::new();
            while encrypted.len() < ENCRYPTED_BYTES
                && let Some((image, rest)) = images.split_first()
            {
                let start = encrypted.len();
                append_encrypted(cipher, image.bytes, &mut encrypted);
                ranges.push((image.first, start..encrypted.len()));
                images = rest;
            }
            let piece: Vec<PageImage<'_>> = ranges
                .into_iter()
                .map(|(first, range)| PageImage { first, bytes: &encrypted[range] })
                .collect();
            self.write_images(&piece)?;
        }
        Ok(())
    }

    fn write_images(&self, images: &[PageImage<'_>]) -> Result<(), TreeError> {
        let Some(last) = images.last() else { return Ok(()) };
        let closed = self.closed.read();
        if *closed {
            return Err(TreeError::Unwritable { reason: "it was closed".to_owned() });
        }
        self.grow_to(self.end_of(last))?;
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES_PER_WRITE.min(images.len()));
        let (mut start, mut end) = (images[0].first, images[0].first);
        let (mut started, mut written_bytes) = (start, 0);
        for image in images {
            let whole = !image.bytes.is_empty() && image.bytes.len().is_multiple_of(self.format.page_bytes());
            assert!(whole, "{} bytes for page {}", image.bytes.len(), image.first);
            assert!(image.first >= end, "page {} is written before page {end}", image.first);
            if image.first != end || slices.len() == SLICES_PER_WRITE {
                self.write_run(start, &slices)?;
                slices.clear();
                start = image.first;
                if written_bytes >= STARTED_BYTES {
                    self.start_writing(started, end);
                    (started, written_bytes) = (start, 0);
                }
            }
            written_bytes += image.bytes.len();
            slices.push(IoSlice::new(image.bytes));
            end = self.end_of(image);
        }
        self.write_run(start, &slices)?;
        if written_bytes >= STARTED_BYTES {
            self.start_writing(started, end);
        }
        Ok(())
    }

    /// Writes zeros over pages that the tree does not refer to yet, so that the file has blocks for them.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn write_zeros(&self, pages: &[PageId]) -> Result<(), TreeError> {
        let zeros = vec![0; self.format.page_bytes()];
        let images = pages.iter().map(|page| PageImage { first: *page, bytes: &zeros });
        self.write_images(&images.collect::<Vec<_>>())
    }

    /// The device writes while the next images are encoded, or the next chunk is planned, and not only while a sync is
    /// waited for.
    fn start_writing(&self, first: PageId, end: PageId) {
        let offset = self.format.offset_of(first);
        self.file.start_writing(offset, self.format.offset_of(end) - offset);
    }

    /// Lets the operating system begin to read stretches of pages, which somebody will read soon: first pages, and how many. Of those
    /// that are not there nothing is asked: they are named by a page that nobody has followed yet.
    pub(crate) fn will_need(&self, stretches: impl Iterator<Item = (PageId, u64)>) {
        let length = self.length.load(Ordering::Acquire);
        let bytes = stretches.map(|(first, count)| {
            let offset = self.format.offset_of(first);
            offset..offset.saturating_add(count * self.format.page_bytes() as u64)
        });
        let ranges: Vec<Range<u64>> = bytes.filter(|range| range.start < length).collect();
        if !ranges.is_empty() {
            self.file.will_need(&ranges);
        }
    }

    /// Ends writing; waits for writes that are under way.
    pub(crate) fn close(&self) {
        *self.closed.write() = true;
    }

    /// Makes earlier writes durable.
    ///
    /// # Errors
    /// `Io`: what is on disk is then unknown, and nothing more may be written.
    pub fn sync(&self) -> Result<(), TreeError> {
        self.file.sync_data().map_err(|source| TreeError::io("sync", &self.path, 0, source))
    }

    /// Gives the space of `count` pages back to the file system; `false` where it cannot.
    ///
    /// # Errors
    /// `Io`.
    pub fn punch_hole(&self, first: PageId, count: u64) -> Result<bool, TreeError> {
        let offset = self.format.offset_of(first);
        let punched = self.file.punch_hole(offset, count * self.format.page_bytes() as u64);
        punched.map_err(|source| TreeError::io("punching a hole", &self.path, offset, source))
    }

    fn end_of(&self, image: &PageImage<'_>) -> PageId {
        PageId::new(image.first.get() + (image.bytes.len() / self.format.page_bytes()) as u64)
    }

    /// Makes room for all pages before `end`, and for some after it: the file's length then rarely changes.
    fn grow_to(&self, end: PageId) -> Result<(), TreeError> {
        let needed = self.format.offset_of(end);
        let length = self.length.load(Ordering::Acquire);
        if needed <= length {
            return Ok(());
        }
        let _growing = self.growing.lock();
        let length = self.length.load(Ordering::Acquire);
        if needed <= length {
            return Ok(());
        }
        let step = (length / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let target = (needed + step - 1).next_multiple_of(GROWTH_BYTES_MIN);
        let grown = self.file.set_length(target);
        grown.map_err(|source| TreeError::io("growth", &self.path, length, source))?;
        self.length.fetch_max(target, Ordering::AcqRel);
        Ok(())
    }

    fn write_run(&self, first: PageId, slices: &[IoSlice<'_>]) -> Result<(), TreeError> {
        let offset = self.format.offset_of(first);
        let written = match slices {
            [one] => self.file.write_all_at(one, offset),
            more => self.file.write_vectored_at(more, offset),
        };
        written.map_err(|source| TreeError::io("write", &self.path, offset, source))
    }

    fn read_at(&self, id: PageId, buffer: &mut [u8]) -> Result<(), TreeError> {
        let offset = self.format.offset_of(id);
        // Here, as an offset past what the operating system can count with is another error than the end of the file.
        if offset.saturating_add(buffer.len() as u64) > self.length.load(Ordering::Acquire) {
            return Err(TreeError::Truncated { path: self.path.clone(), page: id, offset });
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(buffer, offset).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => TreeError::Truncated { path: self.path.clone(), page: id, offset },
            _ => TreeError::io("read", &self.path, offset, source),
        })
    }

    /// `page` does not hold what it must.
    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> TreeError {
        TreeError::Page { path: self.path.clone(), page, offset: self.format.offset_of(page), damage }
    }
}
