//! Applying a chunk: the step from one durable tree to the next.
//!
//! | step | what                                                       | a crash here leaves                             |
//! |-----:|------------------------------------------------------------|-------------------------------------------------|
//! |    1 | write fresh pages in place, sync                           | the old tree: nothing refers to fresh pages     |
//! |    2 | write images to the recovery file, sync: **committed**     | the old tree before the sync, as a torn recovery file does not verify; the new tree after it, as opening writes the images in place again |
//! |    3 | publish the images to readers                              | the new tree                                    |
//! |    4 | write the images in place, sync                            | the new tree: opening repairs what is torn      |
//! |    5 | store the superblock, if this chunk ends a checkpoint      | the new tree; the images carry the new superblock, so opening stores it, and the redo point and the pages move together |
//! |    6 | drop the overlay, punch and hand out freed pages           | the new tree                                    |
//!
//! The superblock says which chunk is known to be in place only at the end of a checkpoint, so opening may apply a chunk
//! again that had been in place for long. That is harmless:
//! * It is always the last committed chunk, as each overwrites the recovery file of the one before, which was in place
//!   and synced by then. No later chunk has written its pages in place, so their images are what they should be.
//! * A later chunk that was not committed may have written fresh pages. They were free after the last committed chunk,
//!   and that one's images are of pages in use after it, so none of them is overwritten.
//!
//! A failure before the commit point that is no failed sync or damaged device (the disk is full) leaves the old tree,
//! and the chunk can be planned again. Any other one leaves files in an unknown state: the writer refuses to go on, and
//! the next open finds out which chunk was committed.

use std::time::Duration;

use seawall_io::Clock;
use seawall_types::PageId;

use crate::chunk::{ChunkPlan, ChunkStatistics, FreshImage};
use crate::error::TreeError;
use crate::page_file::PageImage;
use crate::published::Overlay;
use crate::recovery_file::ChunkImages;
use crate::space_map::PageRun;
use crate::superblock::Superblock;
use crate::tree::{Tree, WriterState};

/// Freed runs of at least so many bytes are given back to the file system.
const PUNCHED_BYTES_MIN: u64 = 1 << 20;

/// What applying a chunk wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedChunk {
    /// What the chunk changed.
    pub statistics: ChunkStatistics,
    /// Bytes written to the recovery file.
    pub recovery_bytes: u64,
    /// Bytes written to the page file.
    pub page_bytes: u64,
    /// Bytes given back to the file system.
    pub punched_bytes: u64,
    /// How long its parts took.
    pub durations: ApplyDurations,
}

/// How long the parts of applying a chunk took; zero without a clock in the options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyDurations {
    /// Compressing the images and writing them to the recovery file.
    pub recovery_write: Duration,
    /// Making them durable.
    pub recovery_sync: Duration,
    /// Showing the new pages to readers: who begins a descent meanwhile waits.
    pub publish: Duration,
    /// Writing pages in place, fresh ones included.
    pub page_write: Duration,
    /// Making them durable.
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
        let mut applied = AppliedChunk { statistics: plan.statistics, ..AppliedChunk::default() };
        if !plan.is_empty()
            && let Err(error) = self.write_chunk(&mut writer, &plan, finish, &mut applied)
        {
            return Err(writer.fail(error));
        }
        if let Some(values) = finish {
            // Step 5. With an empty plan the store alone is the atomic step.
            writer.store_superblock(values, self.pages.file().page_count())?;
        }
        // Step 6.
        self.pages.drop_overlay();
        let punched = self.take_back(&mut writer);
        applied.punched_bytes = punched.map_err(|error| writer.poison(error))?;
        Ok(applied)
    }

    /// Steps 1 to 4.
    fn write_chunk(
        &self,
        writer: &mut WriterState,
        plan: &ChunkPlan,
        finish: Option<&Superblock>,
        applied: &mut AppliedChunk,
    ) -> Result<(), ChunkFailure> {
        let file = self.pages.file();
        let fresh: Vec<PageImage<'_>> = plan
            .fresh
            .iter()
            .map(|image: &FreshImage| PageImage { first: image.first(), bytes: image.bytes() })
            .collect();
        let mut watch = Watch::start(self.options.clock.as_deref());
        file.write(&fresh).map_err(ChunkFailure::before_commit)?;
        applied.durations.page_write += watch.lap();
        if plan.wrote_ahead || !fresh.is_empty() {
            file.sync().map_err(ChunkFailure::Unknown)?;
        }
        applied.durations.page_sync += watch.lap();
        let chunk = writer.completed_chunk + 1;
        let page_count = file.page_count();
        let superblock =
            finish.map(|values| Superblock { completed_chunk: chunk, page_count, ..values.clone() });
        let images = ChunkImages { chunk, images: &plan.protected, superblock: superblock.as_ref() };
        applied.recovery_bytes =
            writer.recovery.write(&images, self.options.compression).map_err(ChunkFailure::before_commit)?;
        applied.durations.recovery_write = watch.lap();
        writer.recovery.commit().map_err(ChunkFailure::Unknown)?;
        applied.durations.recovery_sync = watch.lap();
        let overlay: Overlay = plan.protected.iter().map(|page| (page.view().id(), page.clone())).collect();
        watch.lap();
        self.pages.publish(overlay, std::iter::empty());
        applied.durations.publish = watch.lap();
        let protected: Vec<PageImage<'_>> = plan.protected.iter().map(PageImage::from).collect();
        file.write(&protected).map_err(ChunkFailure::Unknown)?;
        applied.durations.page_write += watch.lap();
        file.sync().map_err(ChunkFailure::Unknown)?;
        applied.durations.page_sync += watch.lap();
        writer.completed_chunk = chunk;
        let bytes =
            |images: &[PageImage<'_>]| images.iter().map(|image| image.bytes.len() as u64).sum::<u64>();
        applied.page_bytes = bytes(&fresh) + bytes(&protected);
        Ok(())
    }

    /// Makes the pages that the chunk freed available, punched out of the file where they are many side by side.
    fn take_back(&self, writer: &mut WriterState) -> Result<u64, TreeError> {
        let mut punched_bytes = 0;
        for run in writer.space.freed_runs() {
            let bytes = u64::from(run.count) * self.format().page_bytes() as u64;
            if bytes >= PUNCHED_BYTES_MIN {
                match self.pages.file().punch_hole(run.first, u64::from(run.count)) {
                    Ok(true) => punched_bytes += bytes,
                    Ok(false) => {}
                    // The chunk is in place without it: the space is used again, only not by others.
                    Err(error) => tracing::warn!(%error, "freed space was not given back to the file system"),
                }
            }
            self.forget(run);
        }
        writer.space.commit()?;
        Ok(punched_bytes)
    }

    /// Drops freed pages from the cache before they are used for something else. The published tree does not refer to
    /// them, and a reader of an older one cannot put them back, since `version` has changed.
    fn forget(&self, run: PageRun) {
        let first = run.first.get();
        (first..first + u64::from(run.count)).for_each(|page| self.pages.cache().remove(PageId::new(page)));
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
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match &error {
            TreeError::Io { source, .. }
                if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
            {
                ChunkFailure::NotCommitted(error)
            }
            _ => ChunkFailure::Unknown(error),
        }
    }
}

impl WriterState {
    fn fail(&mut self, failure: ChunkFailure) -> TreeError {
        match failure {
            // The next plan takes the pages back.
            ChunkFailure::NotCommitted(error) => error,
            ChunkFailure::Unknown(error) => self.poison(error),
        }
    }

    fn poison(&mut self, error: TreeError) -> TreeError {
        self.failure = Some(format!("applying a chunk failed: {error}"));
        error
    }
}
