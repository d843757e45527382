//! The tree that readers see, and how a chunk of changed pages takes its place in one step.
//!
//! ```text
//!   version 6      overlay := new images   7 (odd)                    8                       8
//!   old tree     |                       | new tree                 | new tree              | new tree
//!   cache, file  |                       | overlay, cache, file     | cache, overlay, file  | cache, file
//!                                          cache swaps its images                             overlay dropped: in place
//! ```
//! Nobody waits: between 7 and 8, the time that it takes to swap what the cache holds of the chunk, readers look through
//! the overlay first. 7 and 8 are the same tree. A descent reads `version`, walks from the root, and asks for `version`
//! again before it uses what it found: if it shows another tree, the pages on its way may belong to two, and it starts
//! over. Hence:
//! * The cache holds an image that `publish` has replaced only while `version` is odd, when nobody who starts then looks
//!   there first; and a reader puts a page that it read into the cache only if, under the latch of the set, the tree is
//!   still the one that it was before the read.
//! * A page may be torn in the file while it is overwritten in place, but then it is in the overlay, and whoever had
//!   looked before it came there finds that the tree has changed: damage is real only if it has not.
//! * A filter of a leaf (`leaf_filters`) goes as an image in the cache does, and whoever asks one asks for `version` again, too.
//! * What is read from the file is the image that the page above it refers to, by its mark, or it is refused. Of the root
//!   the superblock has the mark, and this the mark of the newest one: it changes while `version` is odd.
//! * The page of a freed id may be overwritten once the chunk that freed it is published, synced in place, and no long
//!   value of an older tree is being read (`readings`): other readers who read it by its old id find that the tree has
//!   changed, and long values are read whatever is published meanwhile.

use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use rustc_hash::FxHashMap;
use seawall_sync::Mutex;
use seawall_sync::arc_swap::ArcSwapOption;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::PageId;

use crate::cache::PageCache;
use crate::error::TreeError;
use crate::leaf_filters::LeafFilters;
use crate::page::{DELETED_OUTSIDE_OF_RUNS, Page, PageDamage, PageFormat, PageMark, PageReference, PageView};
use crate::page_file::PageFile;
use crate::readings::{Reading, Readings};
use crate::sabotage::{Defect, sabotaged};
use crate::superblock::TreeMarks;

/// The root is always this page; the page before it is the first of the space map.
pub const ROOT_PAGE: PageId = PageId::new(1);
/// The first page of the space map.
pub(crate) const FIRST_MAP_PAGE: PageId = PageId::new(0);
/// The root, for which the superblock has the mark.
pub(crate) const ROOT: PageReference = PageReference::new(ROOT_PAGE, PageMark::new(0));
/// The first page of the space map, likewise.
pub(crate) const FIRST_MAP: PageReference = PageReference::new(FIRST_MAP_PAGE, PageMark::new(0));

/// Fewer leaves than this beside another one are not read for their filters.
const LEAVES_BESIDE_MIN: usize = 4;

/// The changed pages of a published chunk that are not all in place yet.
pub(crate) type Overlay = FxHashMap<PageId, Page>;

#[derive(Debug)]
struct PublishedOverlay {
    /// Of no use to those who are still on an older tree: it is put up before the version changes.
    version: u64,
    pages: Overlay,
}

/// Page file, cache, and which of their pages readers see.
#[derive(Debug)]
pub struct PublishedPages {
    file: PageFile,
    cache: PageCache,
    /// Of leaves that are not in the cache.
    leaf_filters: LeafFilters,
    /// Memory of the cache that the caller wants for something else. Held while the cache is told.
    set_aside: Mutex<usize>,
    /// Odd while the cache may hold images that the overlay replaces.
    version: AtomicU64,
    overlay: ArcSwapOption<PublishedOverlay>,
    /// Of the pages that no page refers to. `None`: not known yet, and not checked.
    marks: ArcSwapOption<TreeMarks>,
    /// Readers of long values.
    readings: Readings,
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
        let page_bytes = file.format().page_bytes();
        PublishedPages {
            file,
            cache: PageCache::new(cache_bytes, page_bytes),
            leaf_filters: LeafFilters::new(cache_bytes, page_bytes),
            set_aside: Mutex::new(0),
            version: AtomicU64::new(0),
            overlay: ArcSwapOption::empty(),
            marks: ArcSwapOption::empty(),
            readings: Readings::default(),
            writer_reads: AtomicU64::new(0),
        }
    }

    /// The pages of a tree with these marks.
    pub(crate) fn set_marks(&self, marks: TreeMarks) {
        self.marks.store(Some(Arc::new(marks)));
    }

    /// The marks of the tree that readers see.
    pub(crate) fn marks(&self) -> Option<TreeMarks> {
        self.marks.load().as_deref().copied()
    }

    /// `marks` with those of `images` in their place.
    pub(crate) fn marks_after<'p>(
        &self,
        marks: TreeMarks,
        images: impl IntoIterator<Item = &'p Page>,
    ) -> TreeMarks {
        images.into_iter().fold(marks, |marks, page| match page.view().id() {
            ROOT_PAGE => TreeMarks { root: self.file.stored_mark(page.bytes()), ..marks },
            FIRST_MAP_PAGE => TreeMarks { space_map: self.file.stored_mark(page.bytes()), ..marks },
            _ => marks,
        })
    }

    /// The page file. Whoever writes in place must have published the images first.
    pub fn file(&self) -> &PageFile {
        &self.file
    }

    /// The cache.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// Memory of the filters of leaves, which is taken from that of the cache.
    pub fn leaf_filter_bytes(&self) -> usize {
        self.leaf_filters.bytes()
    }

    /// Leaves `bytes` of the cache's memory to something else: a quarter of it at most. Pages that are in the way are dropped.
    pub fn set_aside(&self, bytes: usize) {
        let mut set_aside = self.set_aside.lock();
        let before = self.cache.ways();
        *set_aside = bytes;
        self.share_cache(*set_aside);
        if self.cache.ways() < before {
            self.cache.clear_set_aside();
        }
    }

    /// Gives the cache of pages what others leave of its memory.
    fn share_cache(&self, set_aside: usize) {
        // A few filters are not worth an eighth of the pages, which is the least that the cache can give.
        let eighth = self.cache.bytes() / 8;
        let of_leaves = self.leaf_filters.bytes().saturating_sub(eighth / 2);
        self.cache.set_aside(set_aside.min(2 * eighth) + of_leaves);
    }

    /// Whether the leaf is known not to have a row with this key, although it is not in the cache.
    pub(crate) fn lacks_row(&self, leaf: PageReference, key: &[u8]) -> bool {
        self.leaf_filters.lacks(leaf, key)
    }

    /// A lookup of `key` has read its leaf as of `version` in vain: the next one need not.
    #[cold]
    pub(crate) fn take_up_keys(&self, page: &Page, key: &[u8], version: u64) {
        // While it has room, the page itself stays there.
        if !self.cache.is_full() {
            return;
        }
        let bytes = self.leaf_filters.bytes();
        if self.take_up(page, version) {
            self.take_up_beside(page.view().id(), key, version);
        }
        if self.leaf_filters.bytes() != bytes {
            self.share_cache(*self.set_aside.lock());
        }
    }

    fn take_up(&self, page: &Page, version: u64) -> bool {
        page.view().leaf().is_ok_and(|leaf| {
            self.leaf_filters.insert_if(page.reference(), &leaf, || self.is_current(version))
        })
    }

    /// Takes up the keys of leaves beside that of `key`, which are read with one call. As ever, an image counts if the page above refers
    /// to it: what else the file has there belongs to no tree, or to another one.
    fn take_up_beside(&self, leaf: PageId, key: &[u8], version: u64) {
        let leaves = self.leaves_beside(leaf, key, version);
        let pages = leaves.iter().map(|leaf| leaf.page.get());
        let Some((first, last)) = pages.clone().min().zip(pages.max()) else { return };
        for page in self.file.read_valid_pages(first..last + 1) {
            if leaves.contains(&page.reference()) {
                self.take_up(&page, version);
            }
        }
    }

    /// The leaves of the same parent that lie in the group of `leaf` and have no filter; none if they are not worth a read.
    fn leaves_beside(&self, leaf: PageId, key: &[u8], version: u64) -> Vec<PageReference> {
        let group = self.leaf_filters.group_of(leaf);
        let (mut count, mut leaves) = (0, Vec::new());
        let guard = epoch::pin();
        let descended = self.descend_unless(
            version,
            &guard,
            |interior| {
                if interior.level() == 1 {
                    let children = (0..interior.len()).map(|index| interior.child(index).reference());
                    let beside = children.filter(|at| group.contains(&at.page.get()) && at.page != leaf);
                    (count, leaves) = (0, Vec::new());
                    for at in beside {
                        count += 1;
                        leaves.extend(self.leaf_filters.has_room_for(at.page).then_some(at));
                    }
                }
                interior.child_for(key)
            },
            |_| true,
        );
        // What is wrong with a page is for the next lookup to find.
        drop(descended);
        if leaves.len() < LEAVES_BESIDE_MIN || leaves.len() * 2 <= count { Vec::new() } else { leaves }
    }

    /// Drops a freed page from memory before it is used for something else. The published tree does not refer to it, and a reader of an
    /// older one cannot put it back, since `version` has changed.
    pub(crate) fn forget(&self, page: PageId) {
        self.cache.remove(page);
        self.leaf_filters.remove(page);
    }

    /// What all pages have in common.
    pub fn format(&self) -> &PageFormat {
        self.file.format()
    }

    /// The version of the tree that readers see now.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Whether the tree is still the one of `version`.
    #[inline]
    pub fn is_current(&self, version: u64) -> bool {
        is_same_tree(self.version(), version) || sabotaged(Defect::VersionNotChecked)
    }

    /// Lets the caller read the long values that the tree of `version` refers to, as long as what is returned is held;
    /// `None` if the tree is another one by now.
    pub(crate) fn begin_reading(&self, version: u64) -> Option<Reading<'_>> {
        let reading = self.readings.enter(version);
        self.is_current(version).then_some(reading)
    }

    /// Whether a tree before the one of `version` has readers of long values.
    pub(crate) fn has_readings_before(&self, version: u64) -> bool {
        let is_older = |oldest: u64| !is_same_tree(oldest, version) && oldest < version;
        self.readings.oldest().is_some_and(is_older)
    }

    /// Makes `overlay` and the pages written in place before it what readers see, in one step. Only the one writer may
    /// call this.
    pub(crate) fn publish(&self, overlay: Overlay) {
        let overlay = self.put_up(overlay);
        let before = self.version.swap(overlay.version, Ordering::SeqCst);
        assert!(!is_swapping(before), "two chunks are published at once");
        // While readers look through the overlay, where a changed root is: on an older tree they find that it has changed.
        if let Some(marks) = self.marks() {
            self.set_marks(self.marks_after(marks, overlay.pages.values()));
        }
        for page in overlay.pages.values() {
            if !sabotaged(Defect::StaleCache) {
                self.cache.replace(page);
            }
            self.leaf_filters.remove(page.view().id());
        }
        self.version.store(overlay.version + 1, Ordering::SeqCst);
    }

    /// What the next version will look through first.
    fn put_up(&self, pages: Overlay) -> Arc<PublishedOverlay> {
        let overlay = Arc::new(PublishedOverlay { version: self.version() + 1, pages });
        self.overlay.store(Some(Arc::clone(&overlay)));
        overlay
    }

    /// Drops the overlay: all its images are in place in the file. What readers see does not change.
    pub(crate) fn drop_overlay(&self) {
        self.overlay.store(None);
    }

    /// The page as of `version`, from the cache, the overlay or the file. What it holds is right only if `is_current`
    /// says so afterwards, and so is an error.
    #[inline]
    pub(crate) fn page<'g>(
        &'g self,
        at: PageReference,
        version: u64,
        guard: &'g Guard,
    ) -> Result<HeldPage<'g>, TreeError> {
        match self.held_page(at.page, version, guard) {
            Some(page) => Ok(page),
            None => self.fetch(at, version).map(HeldPage::Owned),
        }
    }

    /// As `page`, if it need not be read from the file.
    #[inline]
    pub(crate) fn held_page<'g>(
        &'g self,
        id: PageId,
        version: u64,
        guard: &'g Guard,
    ) -> Option<HeldPage<'g>> {
        if is_swapping(version)
            && let Some(page) = self.in_overlay(id, version)
        {
            return Some(HeldPage::Owned(page));
        }
        self.cache.get(id, guard).map(HeldPage::Cached)
    }

    /// As `page`, but shared: it stays readable without a guard.
    pub(crate) fn shared_page(&self, at: PageReference, version: u64) -> Result<Page, TreeError> {
        let new = if is_swapping(version) { self.in_overlay(at.page, version) } else { None };
        match new.or_else(|| self.cache.get_shared(at.page)) {
            Some(page) => Ok(page),
            None => self.fetch(at, version),
        }
    }

    #[cold]
    fn in_overlay(&self, id: PageId, version: u64) -> Option<Page> {
        let overlay = self.overlay.load();
        let overlay = overlay.as_ref().filter(|overlay| overlay.version <= version)?;
        overlay.pages.get(&id).cloned()
    }

    /// The page as the one writer sees it between two chunks of its own: nothing can change under it.
    pub(crate) fn writer_page(&self, at: PageReference) -> Result<Page, TreeError> {
        if let Some(page) = self.cache.get_shared(at.page) {
            return Ok(page);
        }
        // Relaxed: a counter for people.
        self.writer_reads.fetch_add(1, Ordering::Relaxed);
        self.fetch(at, self.version())
    }

    /// The page as the one writer sees it, if it need not be read from the file.
    pub(crate) fn page_in_memory(&self, id: PageId) -> Option<Page> {
        self.cache.get_shared(id).or_else(|| self.in_overlay(id, self.version()))
    }

    /// As `writer_page`, of `count` pages side by side that are not in memory. They are not put into the cache; whichever images
    /// are there.
    pub(crate) fn read_past_cache(&self, first: PageId, count: usize) -> Result<Vec<Page>, TreeError> {
        self.writer_reads.fetch_add(count as u64, Ordering::Relaxed);
        self.file.read_pages(first, count)
    }

    /// Pages that merges had to read from the file so far.
    pub fn writer_reads(&self) -> u64 {
        self.writer_reads.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn fetch(&self, at: PageReference, version: u64) -> Result<Page, TreeError> {
        let page = self.stored_page_at(at.page, version)?;
        self.expect_image(at, &page)?;
        self.cache.insert_if(&page, || self.is_current(version));
        Ok(page)
    }

    /// The page as it will be found after a crash: in the overlay or the file, past the cache. For the one writer, and
    /// for checks that keep the writer out.
    pub(crate) fn stored_page(&self, at: PageReference) -> Result<Page, TreeError> {
        let page = self.present_page(at.page)?;
        self.expect_image(at, &page)?;
        Ok(page)
    }

    /// As `stored_page`, whichever image is there.
    pub(crate) fn present_page(&self, id: PageId) -> Result<Page, TreeError> {
        self.stored_page_at(id, self.version())
    }

    /// Refuses a page file whose root is valid, but not the one that the superblock names. One that is damaged is for those
    /// to find who read it: with it, everything is.
    ///
    /// # Errors
    /// `Page`, or `Io` if it cannot be read.
    pub(crate) fn refuse_older_file(&self) -> Result<(), TreeError> {
        match self.stored_page(ROOT) {
            Err(
                error @ (TreeError::Io { .. } | TreeError::Page { damage: PageDamage::LostWrite { .. }, .. }),
            ) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Refuses an image that is not the one that the tree refers to.
    pub(crate) fn expect_image(&self, at: PageReference, page: &Page) -> Result<(), TreeError> {
        match at.page {
            ROOT_PAGE | FIRST_MAP_PAGE => {
                let Some(marks) = self.marks() else { return Ok(()) };
                let mark = if at.page == ROOT_PAGE { marks.root } else { marks.space_map };
                let at = PageReference { mark, ..at };
                self.file.expect_mark(at, self.file.stored_mark(page.bytes()))
            }
            _ => self.file.expect_mark(at, page.reference().mark),
        }
    }

    fn stored_page_at(&self, id: PageId, version: u64) -> Result<Page, TreeError> {
        self.in_overlay(id, version).map_or_else(|| self.file.read_page(id), Ok)
    }

    /// What a reader says who finds a deleted row that is none of a sorted run.
    #[cold]
    pub fn deleted_outside_of_runs(&self, page: PageId) -> TreeError {
        self.damaged(page, DELETED_OUTSIDE_OF_RUNS)
    }

    /// A page that does not hold what its place in the tree asks for.
    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> TreeError {
        self.file.damaged(page, damage)
    }
}

/// Whether somebody who starts at `version` has to look through the overlay first.
#[inline]
fn is_swapping(version: u64) -> bool {
    !version.is_multiple_of(2)
}

/// An odd version is of the same tree as the even one after it.
#[inline]
fn is_same_tree(version: u64, other: u64) -> bool {
    version.div_ceil(2) == other.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use seawall_simulation::SimulatedDisk;
    use seawall_types::Lsn;

    use super::*;
    use crate::page::tests::format_of;
    use crate::page::{LeafValue, Row, RowKey, encode_leaf};
    use crate::page_file::PageImage;

    fn leaf(stamp: u64) -> Page {
        let row = Row { key: RowKey::from(&b"key"[..]), value: LeafValue::Inline(b"value") };
        encode_leaf(&format_of(4096), &[row], PageId::new(1), Lsn::new(stamp))
    }

    fn stamp_at(pages: &PublishedPages, version: u64) -> u64 {
        let guard = epoch::pin();
        let held = pages.page(ROOT, version, &guard).unwrap();
        let shared = pages.shared_page(ROOT, version).unwrap();
        assert_eq!(held.view().lsn(), shared.view().lsn());
        shared.view().lsn().get()
    }

    /// Each moment of a publication, by hand: who is on the old tree sees and caches nothing of the new one, and who is on
    /// the new one sees nothing that the cache still holds of the old.
    #[test]
    fn no_moment_of_a_publication_shows_parts_of_two_trees() {
        for is_cached in [false, true] {
            let file = PageFile::create(&SimulatedDisk::new(1), format_of(4096)).unwrap();
            file.write(&[PageImage::from(&leaf(1))]).unwrap();
            let pages = PublishedPages::new(file, 0);
            let old = pages.version();
            if is_cached {
                assert_eq!(stamp_at(&pages, old), 1);
            }
            let overlay = pages.put_up(Overlay::from_iter([(ROOT_PAGE, leaf(2))]));
            assert_eq!(stamp_at(&pages, old), 1, "the overlay is up and not published");
            pages.version.store(overlay.version, Ordering::SeqCst);
            assert!(!pages.is_current(old));
            assert_eq!(stamp_at(&pages, pages.version()), 2, "the cache is not swapped yet");
            pages.cache.replace(&leaf(2));
            let odd = pages.version();
            pages.version.store(odd + 1, Ordering::SeqCst);
            assert!(pages.is_current(odd), "swapping the cache changes nothing");
            assert_eq!(stamp_at(&pages, pages.version()), 2);
            pages.file.write(&[PageImage::from(&leaf(2))]).unwrap();
            pages.drop_overlay();
            assert_eq!((stamp_at(&pages, odd), stamp_at(&pages, pages.version())), (2, 2));
        }
    }
}
