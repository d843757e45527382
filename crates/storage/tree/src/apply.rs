//! Applying a chunk: the step from one durable tree to the next.
//!
//! | step | what                                                       | a crash here leaves                             |
//! |-----:|------------------------------------------------------------|-------------------------------------------------|
//! |    1 | write fresh pages in place, and zeros where new pages of the space map will be | the old tree: nothing refers to fresh pages     |
//! |    2 | sync the page file: fresh pages, and the last chunk's in place; beside it, pack the images; then write them to the recovery file or the log | the old tree, which is whole in place by the time the recovery file that protects it is overwritten |
//! |    3 | write the recovery file's header, sync: **committed**      | the old tree before the sync, as the header is of the chunk before or of images that do not all verify; the new tree after it, as opening writes the images in place again |
//! |    4 | publish the images to readers                              | the new tree                                    |
//! |    5 | write the images in place                                  | the new tree: opening repairs what is torn      |
//! |    6 | if this chunk ends a checkpoint: sync the page file, store the superblock | the new tree; the header's second block is the new superblock, so opening stores it, and the redo point and the pages move together |
//! |    7 | drop the overlay; punch and release freed pages that wait for nothing more | the new tree                    |
//!
//! What is written is handed on by `DiskFile::start_writing`, which orders nothing and makes nothing durable: the device then
//! writes while the next images are packed and the next chunk is planned. Without it, syncs were a third of a checkpoint's
//! time.
//!
//! Two syncs a chunk, and one more at the end of a checkpoint besides the superblock's. None can go:
//! * *The page file's, in step 2,* makes two things durable that the commit needs: the fresh pages, which the new tree
//!   refers to, and the pages that the chunk before has written in place, whose other copy is overwritten now. So a
//!   chunk's own pages in place are synced by the next one, or by the end of the checkpoint. Until then the recovery
//!   file has them, and a crash writes them again. Pages that the chunk before has freed are not handed out, or punched
//!   out of the file, before that sync, and until no long value of an older tree is being read. So the tree before the last
//!   committed chunk stays whole as long as that one may not be in place, and a chunk whose images were damaged after a
//!   crash is told from one that was never committed by its pages alone.
//! * *The recovery file's, in step 3,* is the commit. The header is written after step 2 has come back, since the
//!   operating system may write it at any time. Images in the log need a flush of the log before it, a third sync.
//!
//! The superblock says which chunk is known to be in place only at the end of a checkpoint, so opening may apply a chunk
//! again that had been in place for long. That is harmless:
//! * It is always the last committed chunk, as each overwrites the header of the one before, which was in place and
//!   synced by then. No later chunk has written its pages in place, so their images are what they should be.
//! * A later chunk that was not committed may have written fresh pages. They were free after the last committed chunk,
//!   and that one's images are of pages in use after it, so none of them is overwritten.
//!
//! With `TreeOptions::threads` above one, that many threads pack and write images, each its own region of the recovery
//! file or its own records of the log, while the calling thread waits for the sync. Step 5 then is done by a thread of its
//! own while the next chunk is planned, and the sync in that one's step 2 waits for it (`in_place`): planning writes nothing,
//! so the files go through the same states. With one thread, everything is done by the calling thread, in the order of the
//! table.
//!
//! A failure before the header that is no failed sync or damaged device (the disk is full) leaves the old tree,
//! and the chunk can be planned again. Step 5 writes only where the file has blocks, so it finds a full disk only on a file
//! system that moves what is overwritten (btrfs, ZFS, XFS with shared blocks, thin volumes). Any other failure leaves files in an unknown state: the writer refuses to go on, and
//! the next open finds out which chunk was committed. A log that has no room for images is not waited for: the checkpoint
//! that will give it room uses the recovery file.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Clock, is_disk_full};
use seawall_sync::atomic::{AtomicU32, Ordering};
use seawall_sync::thread;
use seawall_types::PageId;

use crate::chunk::{ChunkPlan, ChunkStatistics};
use crate::error::{ImageLogError, TreeError};
use crate::image_compression::{ImageCompression, ImagePacker};
use crate::image_log::{ImageLog, ImagePiece, PIECE_BYTES, PieceTally, StoredImage};
use crate::in_place::{InPlaceWrite, write};
use crate::page::{Page, PageKind};
use crate::page_file::{PageFile, PageImage};
use crate::published::Overlay;
use crate::recovery_file::ImagePlace;
use crate::sabotage::{Defect, sabotaged};
use crate::space_map::PageRun;
use crate::superblock::{Superblock, TreeMarks};
use crate::sync_gate::SyncGate;
use crate::tree::{FreedPages, Tree, TreeOptions, WriterState};

/// Blocks of so many bytes that are free as a whole are given back to the file system. Smaller ones would leave a file of many pieces.
const PUNCHED_BYTES: usize = 1 << 20;

/// What applying a chunk wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedChunk {
    /// What the chunk changed.
    pub statistics: ChunkStatistics,
    /// Bytes written to the recovery file.
    pub recovery_bytes: u64,
    /// Bytes of page images appended to the log.
    pub log_bytes: u64,
    /// Bytes written to the page file.
    pub page_bytes: u64,
    /// Bytes of blocks that were given back to the file system.
    pub punched_bytes: u64,
    /// How long its parts took.
    pub durations: ApplyDurations,
}

/// How long the parts of applying a chunk took; zero without a clock in the options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyDurations {
    /// Compressing the images and writing them to the recovery file or the log, as far as that went on after the page
    /// file's sync, beside which it begins.
    pub recovery_write: Duration,
    /// Making the header durable that commits them.
    pub recovery_sync: Duration,
    /// Showing the new pages to readers, who do not wait: they look through the chunk's images before the cache meanwhile.
    pub publish: Duration,
    /// Writing pages in place, fresh ones included, as far as it was waited for: with several threads it goes on while the
    /// next chunk is planned, and what is left then counts for that one.
    pub page_write: Duration,
    /// Making the fresh ones durable, and those that the chunk before has written in place; at the end of a checkpoint
    /// also this one's.
    pub page_sync: Duration,
}

impl Tree {
    /// Applies a chunk: durable, and seen by readers, when it returns. With `finish` it ends a checkpoint: the values
    /// are stored with it, atomically; `completed_chunk`, `page_count` and `sequence` are filled in.
    ///
    /// # Errors
    /// `Unwritable` if another plan was made after this one, or the writer has failed before. Otherwise as the module
    /// says: after an error for a full disk the tree is the old one and a new plan may be tried, after any other one
    /// the tree must be opened again.
    pub fn apply_chunk(
        &self,
        plan: ChunkPlan,
        finish: Option<&Superblock>,
    ) -> Result<AppliedChunk, TreeError> {
        let mut writer = self.lock_writer()?;
        if plan.plan != writer.plan {
            return Err(TreeError::Unwritable {
                reason: "another chunk was planned after this one".to_owned(),
            });
        }
        writer.plan += 1;
        // Until it has come to an end: what unwinds through here leaves files in a state that only the next open knows.
        writer.failure = Some("applying a chunk was cut short".to_owned());
        match self.apply_planned(&mut writer, &plan, finish) {
            Ok(applied) => {
                writer.failure = None;
                Ok(applied)
            }
            Err(ChunkFailure::NotCommitted(error)) => {
                // The next plan takes the pages back, and finds those that the chunk before has freed.
                self.sync_in_place(&mut writer, &mut AppliedChunk::default())?;
                self.release_freed(&mut writer)?;
                writer.failure = None;
                Err(error)
            }
            Err(ChunkFailure::Unknown(error)) => Err(writer.poison(error)),
        }
    }

    fn apply_planned(
        &self,
        writer: &mut WriterState,
        plan: &ChunkPlan,
        finish: Option<&Superblock>,
    ) -> Result<AppliedChunk, ChunkFailure> {
        let mut applied = AppliedChunk { statistics: plan.statistics, ..AppliedChunk::default() };
        if !plan.is_empty() {
            self.write_chunk(writer, plan, finish, &mut applied)?;
        }
        if let Some(values) = finish {
            // Step 6. With an empty plan the store alone is the atomic step.
            self.sync_in_place(writer, &mut applied).map_err(ChunkFailure::Unknown)?;
            writer.store_superblock(values, self.pages.file()).map_err(ChunkFailure::Unknown)?;
            writer.recovery.trim().map_err(ChunkFailure::Unknown)?;
        }
        // Step 7. As long as a thread writes in place, what it overwrites is read from the overlay.
        if writer.in_place.is_none() || sabotaged(Defect::OverlayDroppedEarly) {
            self.pages.drop_overlay();
        }
        let punched = if plan.is_empty() { self.release_freed(writer) } else { self.take_back(writer) };
        applied.punched_bytes = punched.map_err(ChunkFailure::Unknown)?;
        Ok(applied)
    }

    /// Makes the last chunk durable in place.
    fn sync_in_place(&self, writer: &mut WriterState, applied: &mut AppliedChunk) -> Result<(), TreeError> {
        let mut watch = Watch::start(self.options.clock.as_deref());
        writer.wait_in_place()?;
        applied.durations.page_write += watch.lap();
        writer.sync_pages(self.pages.file())?;
        applied.durations.page_sync += watch.lap();
        Ok(())
    }

    /// Steps 1 to 5.
    fn write_chunk(
        &self,
        writer: &mut WriterState,
        plan: &ChunkPlan,
        finish: Option<&Superblock>,
        applied: &mut AppliedChunk,
    ) -> Result<(), ChunkFailure> {
        let mut watch = Watch::start(self.options.clock.as_deref());
        let fresh_bytes = self.write_fresh(plan).map_err(ChunkFailure::before_commit)?;
        applied.durations.page_write += watch.lap();
        let chunk = writer.completed_chunk + 1;
        let protected = self.changed_images(&plan.protected).map_err(ChunkFailure::before_commit)?;
        applied.statistics.protected_pages = protected.len() as u64;
        let sync = PageSync::before(self, plan, writer);
        let place = self.write_images(writer, chunk, &protected, || sync.run(), applied)?;
        writer.note_synced();
        let marks = self.write_header(writer, chunk, &protected, finish, place, applied)?;
        applied.durations.page_write += sync.write_took.get();
        applied.durations.page_sync += sync.sync_took.get();
        applied.durations.recovery_write =
            watch.lap().saturating_sub(sync.sync_took.get() + sync.write_took.get());
        if !sabotaged(Defect::RecoveryFileNotSynced) {
            writer.recovery.commit().map_err(ChunkFailure::Unknown)?;
        }
        applied.durations.recovery_sync = watch.lap();
        applied.durations.publish = self.publish(&protected);
        let bytes = protected.iter().map(|page| page.bytes().len() as u64);
        applied.page_bytes = fresh_bytes + bytes.sum::<u64>();
        (writer.completed_chunk, writer.marks) = (chunk, marks);
        self.write_in_place(writer, protected.into(), applied).map_err(ChunkFailure::Unknown)
    }

    /// Step 1. Returns the bytes of the fresh pages.
    fn write_fresh(&self, plan: &ChunkPlan) -> Result<u64, TreeError> {
        let fresh: Vec<PageImage<'_>> =
            plan.fresh.iter().map(|image| PageImage { first: image.first(), bytes: image.bytes() }).collect();
        self.pages.file().write(&fresh)?;
        // So that a full disk is found here, and not when they are written in place.
        self.pages.file().write_zeros(&plan.new_map_pages)?;
        Ok(fresh.iter().map(|image| image.bytes.len() as u64).sum())
    }

    /// Step 3, but for the sync. Returns the marks of the tree that the chunk ends with.
    fn write_header(
        &self,
        writer: &mut WriterState,
        chunk: u64,
        protected: &[Page],
        finish: Option<&Superblock>,
        place: ImagePlace,
        applied: &mut AppliedChunk,
    ) -> Result<TreeMarks, ChunkFailure> {
        let marks = [writer.marks, self.pages.marks_after(writer.marks, protected)];
        let page_count = self.pages.file().page_count();
        let superblock = finish.map(|values| writer.filled_in(values, chunk, marks[1], page_count));
        // A header that was written in part may still reach the disk: only the next open knows.
        let header = writer.recovery.write_header(chunk, protected.len(), superblock.as_ref(), place, marks);
        applied.recovery_bytes += header.map_err(ChunkFailure::Unknown)?;
        Ok(marks[1])
    }

    /// Step 4. Returns how long it took.
    fn publish(&self, protected: &[Page]) -> Duration {
        let overlay: Overlay = protected.iter().map(|page| (page.view().id(), page.clone())).collect();
        let mut watch = Watch::start(self.options.clock.as_deref());
        self.pages.publish(overlay);
        watch.lap()
    }

    /// Step 5.
    fn write_in_place(
        &self,
        writer: &mut WriterState,
        images: Arc<[Page]>,
        applied: &mut AppliedChunk,
    ) -> Result<(), TreeError> {
        writer.in_place = None;
        if images.is_empty() {
            return Ok(());
        }
        writer.has_unsynced_pages = true;
        if self.options.threads > 1 {
            writer.in_place = InPlaceWrite::start(&self.pages, Arc::clone(&images)).map(Arc::new);
        }
        if writer.in_place.is_none() {
            let mut watch = Watch::start(self.options.clock.as_deref());
            write(&self.pages, &images)?;
            applied.durations.page_write += watch.lap();
        }
        Ok(())
    }

    /// The images that are not what their pages are already: changes that were merged before a crash are merged again
    /// after it, with the same outcome. Such an image in the recovery file would look as if its chunk had been begun to
    /// be written in place.
    fn changed_images(&self, images: &[Page]) -> Result<Vec<Page>, TreeError> {
        let mut changed = Vec::with_capacity(images.len());
        for image in images {
            let id = image.view().id();
            // The cache may hold an older page of the map: see `map_reader`.
            let is_map = image.view().kind() == PageKind::SpaceMap;
            let cached = if is_map { None } else { self.pages.cache().get_shared(id) };
            let page = cached.map_or_else(|| self.pages.present_page(id), Ok);
            match page {
                Ok(page) if page.bytes() == image.bytes() => {}
                Ok(_) => changed.push(image.clone()),
                // A new page of the space map, or a damaged one that comes right now.
                Err(error) if error.is_damage() && !(is_map && sabotaged(Defect::NewMapPageRefused)) => {
                    changed.push(image.clone())
                }
                Err(error) => return Err(error),
            }
        }
        Ok(changed)
    }

    /// Makes the pages that the chunk freed available; see `release_freed`.
    fn take_back(&self, writer: &mut WriterState) -> Result<u64, TreeError> {
        let mut space = self.space.lock();
        let runs = space.freed_runs();
        runs.iter().for_each(|run| self.forget(*run));
        space.commit()?;
        drop(space);
        let is_synced = !writer.has_unsynced_pages || sabotaged(Defect::FreedPagesWrittenUnsynced);
        if sabotaged(Defect::PunchedBeforeSync) {
            runs.iter().for_each(|run| _ = self.punch(run));
        }
        writer.freed.push(FreedPages { version: self.pages.version(), is_synced, runs });
        self.release_freed(writer)
    }

    /// Lets freed pages be used again that wait for nothing more: the chunk that freed them is durable in place, so
    /// applying it again needs none of them, and nobody reads a long value of the tree before it. Punches blocks out of the
    /// file that are free as a whole by now; returns their bytes.
    pub(crate) fn release_freed(&self, writer: &mut WriterState) -> Result<u64, TreeError> {
        let is_ready =
            |freed: &mut FreedPages| freed.is_synced && !self.pages.has_readings_before(freed.version);
        let mut ready: Vec<PageRun> =
            writer.freed.extract_if(.., is_ready).flat_map(|freed| freed.runs).collect();
        ready.sort_unstable();
        let block_pages =
            u32::try_from(PUNCHED_BYTES / self.format().page_bytes()).unwrap_or_default().max(1);
        // Nobody gets their pages meanwhile, and whoever needs others does not wait for the file system.
        let blocks = self.space.lock().release_but_blocks(&ready, block_pages)?;
        let bytes = |run: &PageRun| u64::from(run.count) * self.format().page_bytes() as u64;
        let punched_bytes = blocks.iter().filter(|block| self.punch(block)).map(bytes).sum();
        let mut space = self.space.lock();
        blocks.into_iter().try_for_each(|run| space.release(run))?;
        Ok(punched_bytes)
    }

    /// Punches pages out of the file; whether that was possible.
    fn punch(&self, run: &PageRun) -> bool {
        self.pages.file().punch_hole(run.first, u64::from(run.count)).unwrap_or_else(|error| {
            // The chunk is in place without it: the space is used again, only not by others.
            tracing::warn!(%error, "freed space was not given back to the file system");
            false
        })
    }

    fn forget(&self, run: PageRun) {
        let first = run.first.get();
        (first..first + u64::from(run.count)).for_each(|page| self.pages.forget(PageId::new(page)));
    }
}

/// Measures one part after another.
struct Watch<'c> {
    clock: Option<&'c dyn Clock>,
    since: Duration,
}

impl<'c> Watch<'c> {
    fn start(clock: Option<&'c dyn Clock>) -> Watch<'c> {
        Watch { clock, since: clock.map_or(Duration::ZERO, Clock::monotonic) }
    }

    /// Time since the last call.
    fn lap(&mut self) -> Duration {
        let now = self.clock.map_or(Duration::ZERO, Clock::monotonic);
        now.saturating_sub(std::mem::replace(&mut self.since, now))
    }
}

/// The page file's sync in step 2: of the fresh pages, and of those that the chunk before writes in place.
struct PageSync<'t> {
    file: &'t PageFile,
    clock: Option<&'t dyn Clock>,
    /// Waited for first.
    in_place: Option<Arc<InPlaceWrite>>,
    /// Something was written since the last one.
    is_needed: bool,
    write_took: Cell<Duration>,
    sync_took: Cell<Duration>,
}

impl<'t> PageSync<'t> {
    fn before(tree: &'t Tree, plan: &ChunkPlan, writer: &WriterState) -> PageSync<'t> {
        let has_unsynced = writer.has_unsynced_pages && !sabotaged(Defect::PagesNotSyncedBetweenChunks);
        let has_fresh = !plan.fresh.is_empty() && !sabotaged(Defect::FreshPagesNotSynced);
        // Before the commit: an open after a crash writes in place, too, and must need no space either.
        let has_zeros = !plan.new_map_pages.is_empty();
        let is_skipped = plan.wrote_ahead && sabotaged(Defect::BulkLoadNotSynced);
        PageSync {
            file: tree.pages.file(),
            clock: tree.options.clock.as_deref(),
            in_place: writer.in_place.clone(),
            is_needed: (plan.wrote_ahead || has_fresh || has_zeros || has_unsynced) && !is_skipped,
            write_took: Cell::default(),
            sync_took: Cell::default(),
        }
    }

    fn run(&self) -> Result<(), TreeError> {
        if self.is_needed && sabotaged(Defect::SyncedBeforeWritten) {
            self.file.sync()?;
            return self.wait_in_place();
        }
        let mut watch = Watch::start(self.clock);
        self.wait_in_place()?;
        self.write_took.set(self.write_took.get() + watch.lap());
        let synced = if self.is_needed { self.file.sync() } else { Ok(()) };
        self.sync_took.set(self.sync_took.get() + watch.lap());
        synced
    }

    fn wait_in_place(&self) -> Result<(), TreeError> {
        self.in_place.as_deref().map_or(Ok(()), InPlaceWrite::wait)
    }
}

/// Step 2: the other copy of the images.
impl Tree {
    /// Runs `sync` and writes the images, packed, to where they are protected.
    fn write_images(
        &self,
        writer: &mut WriterState,
        chunk: u64,
        images: &[Page],
        sync: impl Fn() -> Result<(), TreeError>,
        applied: &mut AppliedChunk,
    ) -> Result<ImagePlace, ChunkFailure> {
        if let Some(log) = writer.image_log.clone().filter(|_| !images.is_empty()) {
            let appended = append_images(&*log, chunk, images, &self.options, &sync)
                .and_then(|tally| flush_images(&*log, tally));
            match appended {
                Ok((place, bytes)) => {
                    applied.log_bytes = bytes;
                    return Ok(place);
                }
                Err(ChunkFailure::NotCommitted(TreeError::ImageLog(ImageLogError::Full { source }))) => {
                    tracing::warn!(%source, "page images go to the recovery file: the log has no room for them");
                }
                Err(other) => return Err(other),
            }
        }
        let regions = writer.recovery.plan_regions(images.len(), self.options.threads);
        let regions = regions.map_err(ChunkFailure::before_commit)?;
        let (recovery, compression) = (&writer.recovery, self.options.compression);
        let places = beside_sync(regions, sync, |(range, offset), gate| {
            recovery.write_region(offset, chunk, &images[range], compression, gate)
        })?;
        applied.recovery_bytes = places.iter().map(|region| region.bytes).sum();
        Ok(ImagePlace::Regions(places))
    }
}

/// Appends all images, split among the threads; they are packed and appended while the sync is under way.
fn append_images(
    log: &dyn ImageLog,
    chunk: u64,
    images: &[Page],
    options: &TreeOptions,
    sync: impl Fn() -> Result<(), TreeError>,
) -> Result<PieceTally, ChunkFailure> {
    let count = options.threads.clamp(1, images.len());
    let share = |index: usize| images.len() * index / count;
    let shares: Vec<Range<usize>> = (0..count).map(|index| share(index)..share(index + 1)).collect();
    let numbers = AtomicU32::new(0);
    let tallies = beside_sync(shares, sync, |range, _| {
        append_share(log, chunk, &images[range], options.compression, &numbers)
    })?;
    let mut all = PieceTally::default();
    tallies.into_iter().for_each(|tally| all.merge(tally));
    Ok(all)
}

fn append_share(
    log: &dyn ImageLog,
    chunk: u64,
    images: &[Page],
    compression: ImageCompression,
    numbers: &AtomicU32,
) -> Result<PieceTally, TreeError> {
    let mut packer = ImagePacker::new(compression);
    let mut tally = PieceTally::default();
    let mut piece = ImagePiece { chunk, number: 0, images: Vec::new(), bytes: Vec::new() };
    for (index, image) in images.iter().enumerate() {
        let (stored, code) = packer.pack(image.bytes());
        piece.images.push(StoredImage {
            page: image.view().id(),
            stored_bytes: u32::try_from(stored.len()).expect("an image is shorter than 2^32 bytes"),
            compression: code.into(),
        });
        piece.bytes.extend_from_slice(stored);
        if piece.bytes.len() >= PIECE_BYTES || index + 1 == images.len() {
            // Relaxed: each writer needs a number that nobody else gets, and no order.
            piece.number = numbers.fetch_add(1, Ordering::Relaxed);
            let place = log.append(&piece)?;
            tally.add_appended(&piece, place);
            piece.images.clear();
            piece.bytes.clear();
        }
    }
    Ok(tally)
}

fn flush_images(log: &dyn ImageLog, tally: PieceTally) -> Result<(ImagePlace, u64), ChunkFailure> {
    let bytes = tally.record_bytes();
    let span = tally.into_span().expect("a chunk with images has appended a piece");
    log.flush(span.end).map_err(|error| ChunkFailure::before_commit(error.into()))?;
    Ok((ImagePlace::Log(span), bytes))
}

/// Runs each job on a thread of its own while the caller runs `sync`; a single one after it, on the caller's.
fn beside_sync<J: Clone + Send, R: Send>(
    jobs: Vec<J>,
    sync: impl Fn() -> Result<(), TreeError>,
    work: impl Fn(J, &SyncGate) -> Result<R, TreeError> + Sync,
) -> Result<Vec<R>, ChunkFailure> {
    if jobs.len() == 1 {
        sync().map_err(ChunkFailure::Unknown)?;
        let gate = SyncGate::open();
        let done: Result<Vec<R>, TreeError> = jobs.into_iter().map(|job| work(job, &gate)).collect();
        return done.map_err(ChunkFailure::before_commit);
    }
    let gate = if sabotaged(Defect::ImagesBeforeSync) { SyncGate::open() } else { SyncGate::closed() };
    let (synced, done) = thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let start = |job: J| {
            let builder = thread::Builder::new().name("seawall-image-writer".to_owned());
            let own = job.clone();
            // Where no thread can be had the caller does it, after the sync.
            builder.spawn_scoped(scope, move || work(own, gate)).map_err(|_| job)
        };
        let started: Vec<_> = jobs.into_iter().map(start).collect();
        let opener = gate.opener();
        let synced = sync();
        opener.set(synced.is_ok());
        let finish = |thread: Result<thread::ScopedJoinHandle<'_, _>, J>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(job) => work(job, gate),
        };
        (synced, started.into_iter().map(finish).collect::<Vec<Result<R, TreeError>>>())
    });
    synced.map_err(ChunkFailure::Unknown)?;
    done.into_iter().collect::<Result<Vec<R>, TreeError>>().map_err(ChunkFailure::before_commit)
}

/// Why a chunk was not applied.
enum ChunkFailure {
    /// The old tree stands, and so do its files.
    NotCommitted(TreeError),
    /// What the files hold is known only after the next open.
    Unknown(TreeError),
}

impl ChunkFailure {
    /// A failed write before the commit point: harmless if the disk was full. Any other one may be a device that loses
    /// writes, after which a sync that succeeds proves nothing.
    fn before_commit(error: TreeError) -> ChunkFailure {
        match &error {
            TreeError::Io { source, .. } if is_disk_full(source) => ChunkFailure::NotCommitted(error),
            // Whatever became of the images, nothing refers to them.
            TreeError::ImageLog(_) => ChunkFailure::NotCommitted(error),
            _ => ChunkFailure::Unknown(error),
        }
    }
}

impl WriterState {
    pub(crate) fn poison(&mut self, error: TreeError) -> TreeError {
        self.failure = Some(format!("applying a chunk failed: {error}"));
        error
    }
}

#[cfg(test)]
mod tests;
