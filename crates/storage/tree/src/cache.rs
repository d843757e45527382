//! The page cache: immutable, checked page images, found without a lock and without counting references.
//!
//! ```text
//!   page id --remainder--> set   | tag tag tag ... tag | referenced x 8 | latch, hand |   one cache line
//!                                | image image ... image                             |   the next one
//! ```
//! A hit reads the tags of one set, one pointer, and the page. An epoch guard keeps the page readable: evicted images
//! are freed when no guard from before their eviction is left (Fraser, "Practical lock-freedom", 2004). A set is
//! changed under its latch. Eviction gives second chances, as CLOCK does: one to a leaf that was read since the hand
//! passed, up to three to an interior page. A page that was put in and never read again goes first, so that one long
//! scan does not empty the cache.
//!
//! Invariants:
//! * A page is in at most one place. What is found by an id says itself that it has that id: a tag or a pointer that
//!   changes under a reader makes it miss, never mistake one page for another.
//! * Consecutive pages go to consecutive sets: a file that is smaller than the cache fits whole.

mod image_slots;

use crossbeam_epoch::{self as epoch, Guard};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use seawall_types::PageId;

use self::image_slots::{ImageSlots, WAYS};
use crate::page::{Page, PageKind, PageView};

/// An image takes this much besides its bytes: two reference counts, pointer, tag, and what the allocator adds.
const OVERHEAD_BYTES: usize = 48;
const LEAF_CHANCES: u8 = 1;
const INTERIOR_CHANCES: u8 = 3;
const NO_TAG: u32 = 0;

#[derive(Debug)]
#[repr(align(64))]
struct SetHead {
    /// `NO_TAG` where the way is empty. Written under the latch.
    tags: [AtomicU32; WAYS],
    /// Chances left before eviction. Readers raise them, the hand lowers them.
    chances: [AtomicU8; WAYS],
    /// Latch of the set; guards the hand, the next way to be looked at for eviction.
    hand: Mutex<u8>,
}

/// A cache of page images.
#[derive(Debug)]
pub struct PageCache {
    sets: Box<[SetHead]>,
    images: ImageSlots,
    /// For the remainder of a division by the number of sets, without a division.
    reciprocal: u64,
    resident: AtomicUsize,
    /// Ways of each set that may have pages; the others are left empty, for what else is to fit into the memory of the cache.
    ways: AtomicU8,
    /// Memory of one way of all sets.
    way_bytes: usize,
}

impl PageCache {
    /// A cache of pages of `page_bytes` that takes at most `capacity_bytes`, but at least eight pages. Images that were
    /// just evicted come on top until their last reader is done.
    pub fn new(capacity_bytes: usize, page_bytes: usize) -> PageCache {
        // Page ids fold to 32 bits, so more sets than that could not be reached.
        let sets = (capacity_bytes / (page_bytes + OVERHEAD_BYTES) / WAYS).clamp(1, 1 << 31);
        let new_set = |_| SetHead {
            tags: [const { AtomicU32::new(NO_TAG) }; WAYS],
            chances: [const { AtomicU8::new(0) }; WAYS],
            hand: Mutex::new(0),
        };
        PageCache {
            sets: (0..sets).map(new_set).collect(),
            images: ImageSlots::new(sets, page_bytes),
            reciprocal: (u64::MAX / sets as u64).wrapping_add(1),
            resident: AtomicUsize::new(0),
            ways: AtomicU8::new(WAYS_U8),
            way_bytes: sets * (page_bytes + OVERHEAD_BYTES),
        }
    }

    /// Memory of the cache, with what is set aside.
    pub(crate) fn bytes(&self) -> usize {
        self.way_bytes * WAYS
    }

    /// Pages that the cache can hold.
    pub fn capacity_pages(&self) -> usize {
        self.sets.len() * usize::from(self.ways())
    }

    /// Ways of each set that may have pages.
    pub(crate) fn ways(&self) -> u8 {
        // Relaxed: which sets have dropped their pages by now does not matter.
        self.ways.load(Ordering::Relaxed)
    }

    /// Leaves `bytes` of its memory to something else, by eighths of it, three at most. A set drops the pages that are in the way when it takes
    /// the next one, or is told to.
    pub(crate) fn set_aside(&self, bytes: usize) {
        let left = u8::try_from(bytes.div_ceil(self.way_bytes)).unwrap_or(u8::MAX);
        self.ways.store(WAYS_U8 - left.min(WAYS_SET_ASIDE_MAX), Ordering::Relaxed);
    }

    /// Drops the pages that are in the way of what is set aside.
    pub(crate) fn clear_set_aside(&self) {
        let guard = epoch::pin();
        for set in 0..self.sets.len() {
            // Whoever has the latch later puts nothing there any more.
            let _hand = self.sets[set].hand.lock();
            self.clear_ways_set_aside(set, &guard);
        }
        self.images.give_back_free();
    }

    /// The latch of the set is held.
    fn clear_ways_set_aside(&self, set: usize, guard: &Guard) {
        for way in usize::from(self.ways())..WAYS {
            if self.sets[set].tags[way].load(Ordering::Relaxed) != NO_TAG {
                self.clear_at(set, way, guard);
            }
        }
    }

    /// Whether it has as many pages as it can have, or more while some are set aside.
    pub(crate) fn is_full(&self) -> bool {
        // Pages need not lie evenly over the sets.
        self.resident_pages() * 8 >= self.capacity_pages() * 7
    }

    /// Pages that it holds.
    pub fn resident_pages(&self) -> usize {
        // Relaxed: a number for people and tests; nothing is ordered by it.
        self.resident.load(Ordering::Relaxed)
    }

    /// The page with `id`, readable as long as `guard` is held.
    #[inline]
    pub(crate) fn get<'g>(&'g self, id: PageId, guard: &'g Guard) -> Option<PageView<'g>> {
        let (set, tag) = self.place(id);
        self.images.prefetch(set);
        let head = &self.sets[set];
        for way in 0..WAYS {
            // Acquire, here and for the image: pairs with the stores of `put_at`, so that what a version read after
            // this one shows is no older than the page.
            if head.tags[way].load(Ordering::Acquire) == tag
                && let Some(bytes) = self.images.load(set, way, guard)
            {
                let view = PageView::over(bytes);
                if view.id() == id {
                    let chances = chances_of(&view);
                    // Relaxed: a hint for eviction. Written only where it differs, so that readers share the line.
                    if head.chances[way].load(Ordering::Relaxed) != chances {
                        head.chances[way].store(chances, Ordering::Relaxed);
                    }
                    return Some(view);
                }
            }
        }
        None
    }

    /// The page with `id`, shared.
    pub(crate) fn get_shared(&self, id: PageId) -> Option<Page> {
        let guard = epoch::pin();
        let (set, tag) = self.place(id);
        let head = &self.sets[set];
        let with_tag = (0..WAYS).filter(|way| head.tags[*way].load(Ordering::Acquire) == tag);
        for way in with_tag {
            let page = self.images.load_shared(set, way, &guard).map(Page::from_sealed);
            if let Some(page) = page.filter(|page| page.view().id() == id) {
                head.chances[way].store(chances_of(&page.view()), Ordering::Relaxed);
                return Some(page);
            }
        }
        None
    }

    /// Whether the page with `id` is there. Does not count as reading it.
    pub(crate) fn holds(&self, id: PageId) -> bool {
        let (set, tag) = self.place(id);
        self.find(set, tag, id, &epoch::pin()).is_some()
    }

    /// Puts `page` in unless it is there, or `condition`, asked under the latch of its set, no longer holds.
    pub(crate) fn insert_if(&self, page: &Page, condition: impl FnOnce() -> bool) {
        let guard = epoch::pin();
        let (set, tag) = self.place(page.view().id());
        let mut hand = self.sets[set].hand.lock();
        if condition() && self.find(set, tag, page.view().id(), &guard).is_none() {
            self.clear_ways_set_aside(set, &guard);
            let way = self.victim(set, &mut hand);
            self.put_at(set, way, page, &guard);
        }
    }

    /// Puts `page` in the place of the image with the same id. Where there is none, an interior page is put in, since
    /// the next descents need it.
    pub(crate) fn replace(&self, page: &Page) {
        let guard = epoch::pin();
        let id = page.view().id();
        let (set, tag) = self.place(id);
        let mut hand = self.sets[set].hand.lock();
        let found = self.find(set, tag, id, &guard);
        let cacheable = matches!(page.view().kind(), PageKind::Leaf | PageKind::Interior);
        match found {
            Some(way) if cacheable => self.put_at(set, way, page, &guard),
            Some(way) => self.clear_at(set, way, &guard),
            None if page.view().kind() == PageKind::Interior => {
                let way = self.victim(set, &mut hand);
                self.put_at(set, way, page, &guard);
            }
            None => {}
        }
    }

    /// Drops the page with `id`, if it is there.
    pub(crate) fn remove(&self, id: PageId) {
        let guard = epoch::pin();
        let (set, tag) = self.place(id);
        let _hand = self.sets[set].hand.lock();
        if let Some(way) = self.find(set, tag, id, &guard) {
            self.clear_at(set, way, &guard);
        }
    }

    fn find(&self, set: usize, tag: u32, id: PageId, guard: &Guard) -> Option<usize> {
        let head = &self.sets[set];
        let with_tag = |way: &usize| head.tags[*way].load(Ordering::Acquire) == tag;
        let with_id = |way: &usize| {
            self.images.load(set, *way, guard).is_some_and(|bytes| PageView::over(bytes).id() == id)
        };
        (0..WAYS).filter(with_tag).find(with_id)
    }

    /// An empty way, or the one whose page goes. The latch of the set is held.
    fn victim(&self, set: usize, hand: &mut u8) -> usize {
        let head = &self.sets[set];
        let ways = self.ways();
        let mut tags = head.tags[..usize::from(ways)].iter();
        if let Some(empty) = tags.position(|tag| tag.load(Ordering::Relaxed) == NO_TAG) {
            return empty;
        }
        // The ways may have been more when it came there.
        *hand %= ways;
        // Ends: each round takes a chance from every page. Readers may give some back, so the rounds are counted.
        for _ in 0..WAYS * (usize::from(INTERIOR_CHANCES) + 1) {
            let way = usize::from(*hand);
            *hand = (*hand + 1) % ways;
            let chances = head.chances[way].load(Ordering::Relaxed);
            if chances == 0 {
                return way;
            }
            head.chances[way].store(chances - 1, Ordering::Relaxed);
        }
        usize::from(*hand)
    }

    /// The latch of the set is held.
    fn put_at(&self, set: usize, way: usize, page: &Page, guard: &Guard) {
        let head = &self.sets[set];
        let (_, tag) = self.place(page.view().id());
        let was_empty = head.tags[way].load(Ordering::Relaxed) == NO_TAG;
        if head.tags[way].load(Ordering::Relaxed) != tag {
            // A page put in by a miss has no chance until it is read again; an interior page will be.
            let first_chances = if page.view().level() > 0 { INTERIOR_CHANCES } else { 0 };
            head.chances[way].store(first_chances, Ordering::Relaxed);
        }
        self.images.swap(set, way, Some(page.clone().into_image()), guard);
        head.tags[way].store(tag, Ordering::Release);
        if was_empty {
            self.resident.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The latch of the set is held.
    fn clear_at(&self, set: usize, way: usize, guard: &Guard) {
        self.sets[set].tags[way].store(NO_TAG, Ordering::Release);
        self.images.swap(set, way, None, guard);
        self.resident.fetch_sub(1, Ordering::Relaxed);
    }

    /// Set and tag of a page.
    #[inline]
    fn place(&self, id: PageId) -> (usize, u32) {
        let folded = (id.get() ^ (id.get() >> 32)) & 0xFFFF_FFFF;
        // Lemire, Kaser, Kurz, "Faster remainder by direct computation", 2019; exact for 32-bit numbers.
        let fraction = self.reciprocal.wrapping_mul(folded);
        let set = (u128::from(fraction) * self.sets.len() as u128) >> 64;
        let set = usize::try_from(set).expect("a remainder is below the number of sets");
        let tag = u32::try_from(folded).expect("folded to 32 bits") | 1 << 31;
        (set, tag)
    }
}

const WAYS_U8: u8 = {
    assert!(WAYS == 8);
    8
};
/// Of these, at most so many are left to something else: a quarter to what the caller wants, and an eighth to filters of leaves.
const WAYS_SET_ASIDE_MAX: u8 = 3 * WAYS_U8 / 8;

#[inline]
fn chances_of(view: &PageView<'_>) -> u8 {
    if view.level() > 0 { INTERIOR_CHANCES } else { LEAF_CHANCES }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use seawall_simulation::SeededRandom;
    use seawall_types::Lsn;

    use super::*;
    use crate::page::tests::format_of;
    use crate::page::{Child, InteriorBuilder, LeafValue, Row, RowKey, encode_leaf};

    fn leaf(id: u64, stamp: u64) -> Page {
        let value = [stamp.to_le_bytes(); 16].concat();
        let key = id.to_be_bytes();
        let row = Row { key: RowKey::from(&key[..]), value: LeafValue::Inline(&value) };
        encode_leaf(&format_of(4096), &[row], PageId::new(id), Lsn::new(stamp))
    }

    fn interior(id: u64) -> Page {
        let mut builder = InteriorBuilder::new(format_of(4096));
        builder.push_first(Child::of(&leaf(id + 1, 0)));
        builder.finish(1, PageId::new(id), Lsn::ZERO)
    }

    #[test]
    fn file_smaller_than_the_cache_fits_whole() {
        for pages in [8, 9, 100, 1000] {
            let cache = PageCache::new(pages * (4096 + OVERHEAD_BYTES), 4096);
            let held = cache.capacity_pages();
            assert!(held <= pages && held + WAYS > pages, "{held} of {pages}");
            (0..held as u64).for_each(|id| cache.insert_if(&leaf(id, id), || true));
            let guard = epoch::pin();
            assert!((0..held as u64).all(|id| cache.get(PageId::new(id), &guard).is_some()));
            assert_eq!(cache.resident_pages(), held);
        }
    }

    #[test]
    fn what_is_set_aside_is_left_empty_and_three_eighths_at_most() {
        let way_bytes = 10 * (4096 + OVERHEAD_BYTES);
        let cache = PageCache::new(WAYS * way_bytes, 4096);
        let fill = || (0..200).for_each(|id| cache.insert_if(&leaf(id, id), || true));
        fill();
        assert_eq!((cache.resident_pages(), cache.capacity_pages()), (80, 80));
        for (bytes, pages) in
            [(1, 70), (way_bytes, 70), (way_bytes + 1, 60), (usize::MAX, 50), (3, 70), (0, 80)]
        {
            let before = cache.resident_pages();
            cache.set_aside(bytes);
            assert_eq!((cache.resident_pages(), cache.capacity_pages()), (before, pages));
            if bytes > way_bytes {
                cache.clear_set_aside();
                assert_eq!(cache.resident_pages(), before.min(pages));
            }
            fill();
            assert_eq!(cache.resident_pages(), pages, "{bytes} bytes set aside");
            let guard = epoch::pin();
            let found = (0..200).filter(|id| cache.get(PageId::new(*id), &guard).is_some()).count();
            assert_eq!(found, pages, "{bytes} bytes set aside");
        }
    }

    #[test]
    fn remainder_is_exact() {
        let mut random = SeededRandom::new(1);
        for sets in [1, 2, 3, 7, 1000, 65537] {
            let cache = PageCache::new(sets * WAYS * (4096 + OVERHEAD_BYTES), 4096);
            assert_eq!(cache.sets.len(), sets);
            for _ in 0..1000 {
                let id = random.next_u64() >> random.below(64);
                let folded = (id ^ (id >> 32)) & 0xFFFF_FFFF;
                assert_eq!(cache.place(PageId::new(id)).0 as u64, folded % sets as u64);
            }
        }
    }

    #[test]
    fn pages_whose_tags_collide_are_told_apart() {
        let cache = PageCache::new(0, 4096);
        let ids = [5, 5 | 1 << 31, 4 | 1 << 32];
        ids.iter().for_each(|id| cache.insert_if(&leaf(*id, *id), || true));
        let guard = epoch::pin();
        for id in ids {
            assert_eq!(cache.get(PageId::new(id), &guard).unwrap().id().get(), id);
        }
        cache.remove(PageId::new(5));
        assert!(cache.get(PageId::new(5), &guard).is_none());
        assert!(cache.get_shared(PageId::new(ids[2])).is_some());
        assert_eq!(cache.resident_pages(), 2);
    }

    #[test]
    fn interior_pages_outlive_a_scan() {
        let cache = PageCache::new(0, 4096);
        cache.insert_if(&interior(3), || true);
        cache.insert_if(&leaf(4, 4), || true);
        let guard = epoch::pin();
        for id in 100..120 {
            cache.insert_if(&leaf(id, id), || true);
            assert!(
                cache.get(PageId::new(4), &guard).is_some(),
                "the leaf that is read all the time was evicted"
            );
        }
        assert!(
            cache.get(PageId::new(3), &guard).is_some(),
            "the interior page was evicted by leaves read once"
        );
    }

    #[test]
    fn stale_page_is_not_put_in() {
        let cache = PageCache::new(0, 4096);
        cache.insert_if(&leaf(3, 3), || false);
        assert_eq!(cache.resident_pages(), 0);
        cache.insert_if(&leaf(3, 3), || true);
        cache.replace(&leaf(3, 4));
        cache.replace(&leaf(9, 4));
        let guard = epoch::pin();
        assert_eq!(cache.get(PageId::new(3), &guard).unwrap().lsn(), Lsn::new(4));
        assert!(cache.get(PageId::new(9), &guard).is_none());
    }

    /// Readers, inserters, replacers and removers at once: whatever is found is whole and has the id asked for.
    #[test]
    fn page_found_is_whole_whatever_happens_around() {
        let cache = PageCache::new(64 * 5000, 4096);
        let most = cache.capacity_pages();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (cache, stop) = (&cache, &stop);
                scope.spawn(move || {
                    let mut random = SeededRandom::new(seed);
                    while !stop.load(Ordering::Relaxed) {
                        let id = random.next_u64() % 100;
                        let guard = epoch::pin();
                        let held: Vec<_> =
                            (id..id + 4).filter_map(|id| cache.get(PageId::new(id), &guard)).collect();
                        for view in held {
                            let row = view.leaf().unwrap().row(0);
                            assert_eq!(row.key.to_vec(), view.id().get().to_be_bytes());
                            let LeafValue::Inline(value) = row.value else {
                                panic!("an inline value was stored")
                            };
                            assert!(value.chunks(8).all(|stamp| stamp == view.lsn().get().to_le_bytes()));
                        }
                        if let Some(page) = cache.get_shared(PageId::new(id)) {
                            drop(guard);
                            assert_eq!(page.view().id().get(), id);
                        }
                    }
                });
            }
            let mut random = SeededRandom::new(99);
            for round in 0..20_000 {
                let id = random.next_u64() % 100;
                match random.index(4) {
                    0 if round % 50 == 0 => cache.set_aside(random.index(3) * 8 * 4096),
                    0 => cache.remove(PageId::new(id)),
                    1 => cache.replace(&leaf(id, round)),
                    _ => cache.insert_if(&leaf(id, round), || true),
                }
                // What is set aside goes as its sets take other pages.
                assert!(cache.resident_pages() <= most);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
