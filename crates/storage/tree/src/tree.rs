//! The tree as a whole: creating it, opening it, and the state of its one writer.
//!
//! Creation writes the superblock last and renames it into place: a directory with a superblock is a database, one
//! without is not. Opening reads the superblock, the recovery file and the root, and no other page unless a chunk must be
//! applied again. The root shows whether the page file is the one that the superblock belongs to.

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_codec::bytes::u64_at;
use seawall_io::{Clock, Disk, OpenMode};
use seawall_keys::{Cipher, DatabaseKeys, Purpose};
use seawall_sync::{MappedMutexGuard, Mutex, MutexGuard};
use seawall_types::Lsn;

use crate::error::TreeError;
use crate::image_compression::ImageCompression;
use crate::image_log::{ImageLog, ImageSource, NoImageSource};
use crate::in_place::InPlaceWrite;
use crate::page::{PAGE_FILE_PATH, Page, PageFormat, PageReference, encode_leaf};
use crate::page_file::{PageFile, PageImage};
use crate::published::{Overlay, PublishedPages};
use crate::recovery_file::{FoundChunk, RECOVERY_FILE_PATH, RecoveryFile, holds_chunk};
use crate::sabotage::{Defect, sabotaged};
use crate::space_map::{PageRun, SpaceMap};
use crate::superblock::{
    DamagedCopy, Encryption, PageProtection, SUPERBLOCK_PATH, Superblock, SuperblockFile, TreeMarks,
};

pub(crate) use crate::published::ROOT_PAGE;

const RECOVERY_DIRECTORY: &str = "recovery";

/// How a tree is used.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Memory for cached pages, in bytes.
    pub cache_bytes: usize,
    /// Compression of the page images that protect against torn pages.
    pub compression: ImageCompression,
    /// The budget of a chunk, in bytes of page images: the recovery file gets room for one.
    pub recovery_file_bytes: u64,
    /// Measures the parts of applying a chunk. Without it they take no time.
    pub clock: Option<Arc<dyn Clock>>,
    /// Threads that work on a chunk. With one it is the calling thread, and no other is started.
    pub threads: usize,
    /// The keys, if the database is encrypted.
    pub keys: Option<DatabaseKeys>,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions {
            cache_bytes: 256 << 20,
            compression: ImageCompression::default(),
            recovery_file_bytes: 64 << 20,
            clock: None,
            threads: 1,
            keys: None,
        }
    }
}

/// Whether a tree may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeAccess {
    /// A chunk that was cut short by a crash is applied again on open.
    Write,
    /// Nothing is written: pages of such a chunk are held in memory.
    Read,
}

/// A tree that was opened, and what was found.
#[derive(Debug)]
pub struct OpenedTree {
    /// The tree.
    pub tree: Tree,
    /// The superblock's values, after the chunk in the recovery file if there was one to apply.
    pub superblock: Superblock,
    /// A copy of the superblock that could not be used. The next store overwrites it.
    pub damaged_copy: Option<DamagedCopy>,
    /// The chunk that was complete in the recovery file but not marked as done.
    pub reapplied_chunk: Option<u64>,
}

/// The B+tree: one ordered map from byte strings to byte strings, which changes only by chunks.
///
/// Readers never wait for the writer. There is one writer at a time: `merge_chunk`, `swap`, `cut` and `BulkLoader::graft` plan
/// a chunk, `apply_chunk` applies it; a plan that was not applied is given up when the next one is made.
#[derive(Debug)]
pub struct Tree {
    pub(crate) pages: Arc<PublishedPages>,
    pub(crate) options: TreeOptions,
    /// Which pages are free. Taken after `writer`, or alone by bulk loads, which a chunk under way keeps from nothing.
    pub(crate) space: Mutex<SpaceMap>,
    /// `None` if the tree may not be written.
    writer: Mutex<Option<WriterState>>,
}

/// What the one writer knows.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) recovery: RecoveryFile,
    pub(crate) superblock_file: SuperblockFile,
    pub(crate) superblock: Superblock,
    /// Where images go; `None` for the recovery file.
    pub(crate) image_log: Option<Arc<dyn ImageLog>>,
    /// Number of the last chunk that was committed.
    pub(crate) completed_chunk: u64,
    /// The marks of the tree that it ended with.
    pub(crate) marks: TreeMarks,
    /// It is not synced there yet.
    pub(crate) has_unsynced_pages: bool,
    /// Writes it there, if that is a thread of its own.
    pub(crate) in_place: Option<Arc<InPlaceWrite>>,
    /// Pages that were freed and are not to be used yet. See `apply`.
    pub(crate) freed: Vec<FreedPages>,
    /// Counts plans, so that only the last one can be applied.
    pub(crate) plan: u64,
    /// What failed after which the files' state is unknown.
    pub(crate) failure: Option<String>,
}

/// Pages that a chunk has freed.
#[derive(Debug)]
pub(crate) struct FreedPages {
    /// The version of the tree from which on nobody refers to them.
    pub(crate) version: u64,
    /// The chunk is durable in place.
    pub(crate) is_synced: bool,
    /// Sorted.
    pub(crate) runs: Vec<PageRun>,
}

impl WriterState {
    /// Starts a plan; those before it can no longer be applied.
    pub(crate) fn begin_plan(&mut self) -> u64 {
        self.plan += 1;
        self.plan
    }
}

impl Tree {
    /// Creates the files of an empty tree. `values` are those of the new database; its page size counts.
    ///
    /// # Errors
    /// `Io`, also when the directory holds a database; `Encryption` if the options have no keys and the values say that
    /// the database is encrypted, or the other way round. A creation that was cut short is started over.
    ///
    /// # Panics
    /// If the page size is not 4, 8, 16, 32 or 64 KiB.
    pub fn create(disk: &dyn Disk, values: &Superblock, options: TreeOptions) -> Result<Tree, TreeError> {
        let format = format_of(values);
        refuse_existing(disk)?;
        let fail = |operation, path: &str| {
            let path = disk.location(path);
            move |source| TreeError::io(operation, &path, 0, source)
        };
        let cipher = page_cipher(disk, values, &options)?;
        let file = PageFile::create(disk, format)?.encrypted_with(cipher);
        let map = SpaceMap::first_image(&format, Lsn::ZERO);
        let root = encode_leaf(&format, &[], ROOT_PAGE, Lsn::ZERO);
        file.write(&[PageImage::from(&map), PageImage::from(&root)])?;
        file.sync()?;
        disk.create_directory(RECOVERY_DIRECTORY).map_err(fail("creation", RECOVERY_DIRECTORY))?;
        RecoveryFile::create(disk, format, values.database)?;
        disk.sync_directory(RECOVERY_DIRECTORY).map_err(fail("sync", RECOVERY_DIRECTORY))?;
        // The page file's name must be durable before the superblock's, which says that there is a database.
        disk.sync_directory("").map_err(fail("sync", ""))?;
        let mark = |page: &Page| file.stored_mark(page.bytes());
        let marks = TreeMarks { root: mark(&root), space_map: mark(&map) };
        SuperblockFile::create(disk, &Superblock { marks, ..values.clone() })?;
        disk.sync_directory("").map_err(fail("sync", ""))?;
        Ok(Tree::open(disk, TreeAccess::Write, options)?.tree)
    }

    /// Opens a tree. A chunk that is complete in the recovery file but not marked as done is applied again.
    ///
    /// # Errors
    /// `Superblock` if there is none or both copies are damaged; `Page` if the page file is older than the superblock, or its
    /// last root was lost; `Encryption` if the options have no keys and the
    /// database is encrypted, or the other way round; `Io`; `File` for a recovery file that is damaged, of another
    /// database or version; `ImageLog` if images in the log are needed: see `open_with_log`.
    pub fn open(disk: &dyn Disk, access: TreeAccess, options: TreeOptions) -> Result<OpenedTree, TreeError> {
        Tree::open_with_log(disk, access, options, &NoImageSource)
    }

    /// As `open`, with the log that the images of a chunk may be in. Where they are is said by the files alone.
    ///
    /// # Errors
    /// As `open`, and `ImageLog` if they are in the log and cannot be read there.
    pub fn open_with_log(
        disk: &dyn Disk,
        access: TreeAccess,
        options: TreeOptions,
        source: &dyn ImageSource,
    ) -> Result<OpenedTree, TreeError> {
        let mode = match access {
            TreeAccess::Write => OpenMode::Write,
            TreeAccess::Read => OpenMode::Read,
        };
        let (mut superblock_file, mut superblock, damaged_copy) = SuperblockFile::open(disk, mode)?;
        if access == TreeAccess::Write {
            superblock_file.write_again(&superblock)?;
            superblock_file.end_switch(&mut superblock)?;
        }
        let format = format_of(&superblock);
        let cipher = page_cipher(disk, &superblock, &options)?;
        let file = PageFile::open(disk, format, mode)?.encrypted_with(cipher);
        let recovery = open_recovery_file(disk, mode, &superblock, &options)?;
        let mut writer = WriterState::new(recovery, superblock_file, superblock);
        let found = writer.find_chunk(&file, source)?;
        let pages = Arc::new(PublishedPages::new(file, options.cache_bytes));
        pages.set_marks(writer.marks);
        let space = Mutex::new(SpaceMap::new(format, map_reader(&pages)));
        if let Some(found) = found.as_ref().filter(|_| !sabotaged(Defect::ChunkNotAppliedAgain)) {
            match access {
                TreeAccess::Write => writer.apply_again(&pages, found, source)?,
                TreeAccess::Read => writer.show(&pages, found, source)?,
            }
        }
        pages.refuse_older_file()?;
        let superblock = writer.superblock.clone();
        let writer = Mutex::new((access == TreeAccess::Write).then_some(writer));
        let tree = Tree { pages, options, space, writer };
        Ok(OpenedTree { tree, superblock, damaged_copy, reapplied_chunk: found.map(|found| found.chunk) })
    }

    /// Writes new values to the superblock, outside of a chunk: a new timeline, for example. Durable when it returns.
    ///
    /// # Errors
    /// `Superblock` or `Unwritable`.
    pub fn store_superblock(&self, values: &Superblock) -> Result<(), TreeError> {
        let mut writer = self.lock_writer()?;
        writer.store_superblock(values, self.pages.file())
    }

    /// From now on images of pages that a chunk overwrites go to `log`. A tree that was just opened puts them into the
    /// recovery file.
    ///
    /// # Errors
    /// `Unwritable`.
    pub fn protect_in_log(&self, log: Arc<dyn ImageLog>) -> Result<(), TreeError> {
        self.lock_writer()?.image_log = Some(log);
        Ok(())
    }

    /// What failed after which the files' state is unknown: nothing more is written until the tree is opened again.
    pub fn failure(&self) -> Option<String> {
        self.writer.lock().as_ref().and_then(|writer| writer.failure.clone())
    }

    /// Ends writing: when it returns, nothing is being written, and nothing will be. Readers go on.
    pub fn close(&self) {
        self.pages.file().close();
        *self.writer.lock() = None;
    }

    /// What all pages have in common.
    pub fn format(&self) -> &PageFormat {
        self.pages.format()
    }

    /// The longest row key that a page can hold.
    pub fn max_key_bytes(&self) -> usize {
        self.pages.format().max_key_bytes()
    }

    /// The state of the one writer, for as long as the guard is held.
    ///
    /// # Errors
    /// `Unwritable` if the tree was opened for reading or the writer has failed.
    pub(crate) fn lock_writer(&self) -> Result<MappedMutexGuard<'_, WriterState>, TreeError> {
        let guard = MutexGuard::try_map(self.writer.lock(), Option::as_mut).map_err(|_| {
            TreeError::Unwritable { reason: "it was opened for reading, or closed".to_owned() }
        })?;
        match &guard.failure {
            Some(failure) => Err(TreeError::Unwritable { reason: failure.clone() }),
            None => Ok(guard),
        }
    }

    /// Gives pages back that a bulk load had reserved.
    pub(crate) fn release_runs(&self, runs: &[PageRun]) -> Result<(), TreeError> {
        let mut space = self.space.lock();
        runs.iter().try_for_each(|run| space.release(*run))
    }
}

/// Opening.
impl WriterState {
    fn new(recovery: RecoveryFile, superblock_file: SuperblockFile, superblock: Superblock) -> WriterState {
        WriterState {
            recovery,
            superblock_file,
            image_log: None,
            completed_chunk: superblock.completed_chunk,
            marks: superblock.marks,
            has_unsynced_pages: false,
            in_place: None,
            freed: Vec::new(),
            superblock,
            plan: 0,
            failure: None,
        }
    }

    /// The chunk in the recovery file, if it is to be applied again.
    ///
    /// # Errors
    /// `File` if it is not complete, and was being written in place.
    fn find_chunk(
        &mut self,
        pages: &PageFile,
        source: &dyn ImageSource,
    ) -> Result<Option<FoundChunk>, TreeError> {
        let torn = match self.recovery.read(self.completed_chunk)? {
            Some(torn) if !torn.is_complete && !sabotaged(Defect::HalfChunkApplied) => torn,
            found => return Ok(found),
        };
        if self.recovery.is_half_in_place(&torn, pages, &self.superblock, source)? {
            return Err(self.recovery.half_in_place(&torn));
        }
        // Its number is not given again: what is left of its table would pass for entries of the next one.
        self.completed_chunk = torn.chunk;
        self.marks = self.recovery.marks_left_by(&torn, pages)?;
        Ok(None)
    }

    /// Writes the images of a chunk in place once more. Idempotent: after a crash here, the next open does it again.
    fn apply_again(
        &mut self,
        pages: &PublishedPages,
        found: &FoundChunk,
        source: &dyn ImageSource,
    ) -> Result<(), TreeError> {
        // No page is overwritten before its image is durable for sure.
        if !sabotaged(Defect::ChunkNotWrittenAgain) {
            self.recovery.write_again(found)?;
        }
        self.recovery.for_each_image(found, &self.superblock, source, |page| {
            pages.file().write(&[PageImage::from(&page)])
        })?;
        pages.file().sync()?;
        self.completed_chunk = found.chunk;
        self.marks = found.marks_after();
        pages.set_marks(self.marks);
        let values = found.superblock.clone().unwrap_or_else(|| self.superblock.clone());
        self.store_superblock(&values, pages.file())
    }

    /// Shows readers the images of a chunk without writing them.
    fn show(
        &mut self,
        pages: &PublishedPages,
        found: &FoundChunk,
        source: &dyn ImageSource,
    ) -> Result<(), TreeError> {
        let mut overlay = Overlay::default();
        self.recovery.for_each_image(found, &self.superblock, source, |page| {
            overlay.insert(page.view().id(), page);
            Ok(())
        })?;
        pages.publish(overlay);
        self.marks = found.marks_after();
        pages.set_marks(self.marks);
        if let Some(values) = &found.superblock {
            self.superblock =
                Superblock { completed_chunk: found.chunk, marks: self.marks, ..values.clone() };
        }
        Ok(())
    }
}

impl WriterState {
    /// `values` with what only the tree knows.
    pub(crate) fn filled_in(
        &self,
        values: &Superblock,
        completed_chunk: u64,
        marks: TreeMarks,
        page_count: u64,
    ) -> Superblock {
        let protection = match &self.image_log {
            Some(_) => PageProtection::LogImages,
            None => PageProtection::RecoveryFile,
        };
        Superblock { completed_chunk, marks, page_count, protection, ..values.clone() }
    }

    /// Waits until the pages of the last chunk are written in place.
    pub(crate) fn wait_in_place(&mut self) -> Result<(), TreeError> {
        if let Some(in_place) = &self.in_place {
            let written = in_place.wait();
            written.map_err(|error| self.poison(error))?;
            self.in_place = None;
        }
        Ok(())
    }

    /// Makes the pages of the last chunk durable in place.
    pub(crate) fn sync_pages(&mut self, pages: &PageFile) -> Result<(), TreeError> {
        self.wait_in_place()?;
        if self.has_unsynced_pages {
            if sabotaged(Defect::SuperblockBeforePages) {
                return Ok(());
            }
            pages.sync().map_err(|error| self.poison(error))?;
        }
        self.note_synced();
        Ok(())
    }

    /// The chunks that were applied so far are durable in place.
    pub(crate) fn note_synced(&mut self) {
        self.has_unsynced_pages = false;
        self.freed.iter_mut().for_each(|freed| freed.is_synced = true);
    }

    /// Stores `values` with what only the tree knows. What it says about chunks is true before: see `apply`.
    pub(crate) fn store_superblock(
        &mut self,
        values: &Superblock,
        pages: &PageFile,
    ) -> Result<(), TreeError> {
        self.sync_pages(pages)?;
        let values = self.filled_in(values, self.completed_chunk, self.marks, pages.page_count());
        match self.superblock_file.store(&values) {
            Ok(()) => {
                self.superblock = values;
                Ok(())
            }
            Err(error) => {
                self.failure = Some(format!("storing the superblock failed: {error}"));
                Err(error.into())
            }
        }
    }
}

/// What pages are encrypted with, if they are.
fn page_cipher(
    disk: &dyn Disk,
    values: &Superblock,
    options: &TreeOptions,
) -> Result<Option<Cipher>, TreeError> {
    let refuse =
        |says, given| Err(TreeError::Encryption { path: disk.location(SUPERBLOCK_PATH), says, given });
    match (values.encryption, &options.keys) {
        (Encryption::None, None) => Ok(None),
        (Encryption::Xaes256Gcm, Some(keys)) => Ok(Some(keys.cipher(Purpose::Pages))),
        (Encryption::None, Some(_)) => refuse("is not encrypted", "keys were given"),
        (Encryption::Xaes256Gcm, None) => refuse("is encrypted", "no keys were given"),
    }
}

fn open_recovery_file(
    disk: &dyn Disk,
    mode: OpenMode,
    values: &Superblock,
    options: &TreeOptions,
) -> Result<RecoveryFile, TreeError> {
    let cipher = options.keys.as_ref().map(|keys| keys.cipher(Purpose::RecoveryFile));
    let (chunk_bytes, threads) = (options.recovery_file_bytes, options.threads);
    RecoveryFile::open(disk, mode, format_of(values), values.database, cipher, chunk_bytes, threads)
}

fn format_of(values: &Superblock) -> PageFormat {
    let page_bytes = usize::try_from(values.page_bytes).unwrap_or(0);
    PageFormat::new(page_bytes, &values.database).expect("a superblock holds a legal page size")
}

/// Map pages are read past the cache: what `check` or a reader has put there may be older.
fn map_reader(pages: &Arc<PublishedPages>) -> Box<dyn Fn(PageReference) -> Result<Page, TreeError> + Send> {
    let pages = Arc::clone(pages);
    Box::new(move |at| pages.stored_page(at))
}

/// Makes room for a new database: what a creation that was cut short has left is removed, anything else refused.
fn refuse_existing(disk: &dyn Disk) -> Result<(), TreeError> {
    let exists = |path: &str| {
        let error = TreeError::io("creation", &disk.location(path), 0, ErrorKind::AlreadyExists.into());
        Err(error)
    };
    let length_of = |path: &str| match disk.open(path, OpenMode::Read).and_then(|file| file.length()) {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TreeError::io("opening", &disk.location(path), 0, error)),
    };
    if length_of(SUPERBLOCK_PATH)?.is_some() {
        return exists(SUPERBLOCK_PATH);
    }
    for path in [PAGE_FILE_PATH, RECOVERY_FILE_PATH] {
        let Some(length) = length_of(path)? else { continue };
        if length > NEW_FILE_BYTES_MAX || holds_stamped_page(disk, path, length)? {
            return exists(path);
        }
        disk.remove(path).map_err(|source| TreeError::io("removal", &disk.location(path), 0, source))?;
    }
    Ok(())
}

/// Whether a page was ever written, or protected, by a chunk: a lost superblock must not let a new database overwrite an
/// old one. The number of the page must be one that the file has, as the content of a page may be encrypted and look like
/// a stamp.
fn holds_stamped_page(disk: &dyn Disk, path: &str, length: u64) -> Result<bool, TreeError> {
    let fail = |source| TreeError::io("read", &disk.location(path), 0, source);
    let mut bytes = vec![0; usize::try_from(length).expect("at most NEW_FILE_BYTES_MAX")];
    disk.open(path, OpenMode::Read).map_err(fail)?.read_exact_at(&mut bytes, 0).map_err(fail)?;
    if path == RECOVERY_FILE_PATH {
        return Ok(holds_chunk(&bytes));
    }
    let is_stamped = |block: &[u8]| block.get(24..32).is_some_and(|stamp| stamp != [0; 8]);
    let is_page = |block: &[u8]| block.get(8..16).is_some_and(|page| u64_at(page, 0) < length / 4096);
    Ok(bytes.chunks(4096).any(|block| is_stamped(block) && is_page(block)))
}

/// No file of a creation that was cut short is longer.
const NEW_FILE_BYTES_MAX: u64 = 2 << 20;
