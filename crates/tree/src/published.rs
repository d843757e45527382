//! The tree that readers see, and how a chunk of changed pages takes its place in one step.
//!
//! ```text
//!   version 6         7 (odd)                    8                              8
//!   readers go on  |  readers wait            |  readers see the new pages   |  overlay dropped: in place now
//!                     overlay := new images      (cache, then overlay)
//!                     cache drops the old ones
//! ```
//! A descent reads `version`, walks from the root, and asks for `version` again before it uses what it found: if it has
//! changed, the pages on its way may belong to two trees, and it starts over. Hence:
//! * A page is looked for in the cache, then in the overlay, then in the file. The cache never holds an image that
//!   `publish` has replaced: it is dropped while `version` is odd, and a reader puts a page that it read into the cache
//!   only if, under the latch of the set, `version` is still what it was before the read.
//! * A page may be torn in the file while it is overwritten in place, but then it is in the overlay, and whoever had
//!   looked before it came there finds that `version` has changed: damage is real only if `version` has not.
//! * The page of a freed id may be overwritten as soon as the chunk that freed it is published: whoever still reads it
//!   by its old id finds that `version` has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use crossbeam_epoch::Guard;
use rustc_hash::FxHashMap;
use seawall_types::PageId;

use crate::cache::PageCache;
use crate::error::TreeError;
use crate::page::{Page, PageDamage, PageFormat, PageView};
use crate::page_file::PageFile;

/// The root is always this page; the page before it is the first of the space map.
pub const ROOT_PAGE: PageId = PageId::new(1);

/// The changed pages of a published chunk that are not all in place yet.
pub(crate) type Overlay = FxHashMap<PageId, Page>;

/// Page file, cache, and which of their pages readers see.
#[derive(Debug)]
pub struct PublishedPages {
    file: PageFile,
    cache: PageCache,
    /// Odd while a chunk is being published.
    version: AtomicU64,
    overlay: ArcSwapOption<Overlay>,
    /// Pages that the writer did not find in the cache.
    writer_reads: AtomicU64,
}

/// A page that stays readable as long as this is held: in the cache, under an epoch guard, or owned.
#[derive(Debug)]
pub(crate) enum HeldPage<'g> {
    Cached(PageView<'g>),
    Owned(Page),
}

impl HeldPage<'_> {
    pub(crate) fn view(&self) -> PageView<'_> {
        match self {
            HeldPage::Cached(view) => *view,
            HeldPage::Owned(page) => page.view(),
        }
    }
}

impl PublishedPages {
    /// The pages of `file`, with a cache of `cache_bytes`.
    pub fn new(file: PageFile, cache_bytes: usize) -> PublishedPages {
        let cache = PageCache::new(cache_bytes, file.format().page_bytes());
        PublishedPages {
            file,
            cache,
            version: AtomicU64::new(0),
            overlay: ArcSwapOption::empty(),
            writer_reads: AtomicU64::new(0),
        }
    }

    /// The page file. Whoever writes in place must have published the images first.
    pub fn file(&self) -> &PageFile {
        &self.file
    }

    /// The cache.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// What all pages have in common.
    pub fn format(&self) -> &PageFormat {
        self.file.format()
    }

    /// The version of the tree that readers see now; waits out a publication under way.
    #[inline]
    pub fn version(&self) -> u64 {
        let version = self.version.load(Ordering::SeqCst);
        if version.is_multiple_of(2) { version } else { self.wait_for_version() }
    }

    /// Whether the tree is still the one of `version`.
    #[inline]
    pub fn is_current(&self, version: u64) -> bool {
        self.version.load(Ordering::SeqCst) == version
    }

    #[cold]
    fn wait_for_version(&self) -> u64 {
        for round in 0_u32.. {
            let version = self.version.load(Ordering::SeqCst);
            if version.is_multiple_of(2) {
                return version;
            }
            // The publisher needs well under a millisecond, unless it was preempted: then give it our turn.
            if round < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        unreachable!("the loop ends only by returning")
    }

    /// Makes `overlay` and the pages written in place before it what readers see, in one step. `dropped` are the pages
    /// that the chunk freed. Only the one writer may call this.
    pub(crate) fn publish(&self, overlay: Overlay, dropped: impl IntoIterator<Item = PageId>) {
        let overlay = Arc::new(overlay);
        let before = self.version.fetch_add(1, Ordering::SeqCst);
        assert!(before.is_multiple_of(2), "two chunks are published at once");
        self.overlay.store(Some(Arc::clone(&overlay)));
        for page in overlay.values() {
            self.cache.replace(page);
        }
        for page in dropped {
            self.cache.remove(page);
        }
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Drops the overlay: all its images are in place in the file. What readers see does not change.
    pub(crate) fn drop_overlay(&self) {
        self.overlay.store(None);
    }

    /// The page as of `version`, from the cache, the overlay or the file. What it holds is right only if `is_current`
    /// says so afterwards, and so is an error.
    #[inline]
    pub(crate) fn page<'g>(
        &self,
        id: PageId,
        version: u64,
        guard: &'g Guard,
    ) -> Result<HeldPage<'g>, TreeError> {
        match self.cache.get(id, guard) {
            Some(view) => Ok(HeldPage::Cached(view)),
            None => self.fetch(id, version).map(HeldPage::Owned),
        }
    }

    /// As `page`, but shared: it stays readable without a guard.
    pub(crate) fn shared_page(&self, id: PageId, version: u64) -> Result<Page, TreeError> {
        match self.cache.get_shared(id) {
            Some(page) => Ok(page),
            None => self.fetch(id, version),
        }
    }

    /// The page as the one writer sees it between two chunks of its own: nothing can change under it.
    pub(crate) fn writer_page(&self, id: PageId) -> Result<Page, TreeError> {
        if let Some(page) = self.cache.get_shared(id) {
            return Ok(page);
        }
        // Relaxed: a counter for people.
        self.writer_reads.fetch_add(1, Ordering::Relaxed);
        self.fetch(id, self.version.load(Ordering::SeqCst))
    }

    /// Pages that merges had to read from the file so far.
    pub fn writer_reads(&self) -> u64 {
        self.writer_reads.load(Ordering::Relaxed)
    }

    #[cold]
    fn fetch(&self, id: PageId, version: u64) -> Result<Page, TreeError> {
        let page = self.stored_page(id)?;
        self.cache.insert_if(&page, || self.is_current(version));
        Ok(page)
    }

    /// The page as it will be found after a crash: in the overlay or the file, past the cache. For the one writer, and
    /// for checks that keep the writer out.
    pub(crate) fn stored_page(&self, id: PageId) -> Result<Page, TreeError> {
        let in_overlay = self.overlay.load().as_ref().and_then(|overlay| overlay.get(&id).cloned());
        in_overlay.map_or_else(|| self.file.read_page(id), Ok)
    }

    /// A page that does not hold what its place in the tree asks for.
    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> TreeError {
        self.file.damaged(page, damage)
    }
}
