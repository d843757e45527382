//! Filters of leaves that are not in the cache: a lookup of a row that is not there ends at one, without a page being read.
//!
//! ```text
//!   interior page: reference (page 70, mark M)        slot 70 % n   | page 70 | mark M | bits of the leaf's keys |
//!        |                                                  ^
//!        '-- not in the cache --> may the leaf have it? ----'  no: there is no such row
//! ```
//! A leaf gets one when a lookup has read it from the file in vain, and the cache is full. Leaves of the same parent that lie beside it in the
//! file are read with one more call and get theirs, too, while most of them have none: leaves lie in order where they were loaded or built
//! anew, and a device reads sixteen pages in less than twice the time of one. So who looks only for rows that are there pays nothing, and who checks again and again for
//! rows that are not there soon reads nothing. Filters are in memory only, in a part of that of the cache, and take a sixty-fourth of the
//! pages that they stand for: they stay when the pages are long evicted. Where pages share a slot, one whose filter has been of use is
//! spared once.
//!
//! A slot is a tag, which says of what image its bits are and how many are just asking, and the bits. Nobody waits for anybody: who asks a
//! slot that is another's reads the page, who fills a slot has it alone meanwhile, by a tag that no image has, and who drops a filter that is
//! being made changes the tag to another such one, so that nothing comes of it.
//!
//! Invariants:
//! * A slot has the keys of one image of a leaf, by page and mark. The descent that asks has the mark from the page above. So what was
//!   replaced by another image is not asked, and is dropped besides, as in the cache (`published`).
//! * A filter has all keys of its leaf. It may say of others that they are there.
//! * The bits of a slot do not change while a reader asks the slot.
//!
//! Blocks as in Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (JEA 2009).

use std::ops::Range;
use std::sync::OnceLock;

use seawall_codec::checksum::{Crc64, mixed};
use seawall_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use seawall_types::PageId;

use crate::page::{LeafView, PageReference};

/// A filter takes one part of so many of its page.
const PAGE_PARTS: usize = 64;
/// Filters have one part of so many of the cache's memory, at most.
const CACHE_PARTS: usize = 8;
/// With fewer bits for each row a filter says too often that a row may be there.
const ROW_BITS_MIN: usize = 4;
const PROBES: u32 = 5;
const BLOCK_BITS: u64 = 512;
const BLOCK_WORDS: usize = 8;
/// Bits of a number that choose one of a block.
const PROBE_BITS: u32 = BLOCK_BITS.ilog2();
/// Pages of so many bytes side by side are a group: those that one call reads.
const GROUP_BYTES: usize = 128 << 10;
/// Memory is taken for so many slots at a time.
const CHUNK_SLOTS: usize = 64;

/// In a tag: the filter has answered since another leaf wanted the slot.
const IS_OF_USE: u64 = 1 << 63;
/// In a tag: one who is asking.
const ASKING: u64 = 1 << 55;
const ASKING_MAX: u64 = IS_OF_USE - ASKING;
/// The rest of a tag: the mark of the image, and above it the page's number among those that share the slot.
const IDENTITY: u64 = ASKING - 1;
const MARK_BITS: u32 = 32;
/// Numbers of pages that share a slot are smaller.
const SHARING_MAX: u64 = IDENTITY >> MARK_BITS;
/// Identity of an empty slot.
const EMPTY: u64 = 0;
/// Identity of a slot that is being filled.
const TAKEN: u64 = IDENTITY;
/// Identity of a slot that is being filled in vain.
const TAKEN_IN_VAIN: u64 = TAKEN - 1;

/// Slots whose memory is taken together, when one of them is used.
#[derive(Debug)]
struct Chunk {
    tags: Box<[AtomicU64]>,
    /// The bits of the slots, one slot after the other.
    bits: Box<[AtomicU64]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot<'f> {
    tag: &'f AtomicU64,
    bits: &'f [AtomicU64],
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LeafFilters {
    chunks: Box<[OnceLock<Chunk>]>,
    /// Words of a filter.
    words: usize,
    /// Pages of a group.
    group_pages: u64,
    /// Memory of the chunks that are there.
    bytes: AtomicUsize,
}

impl LeafFilters {
    /// For leaves of `page_bytes` beside a cache of `cache_bytes`.
    pub(crate) fn new(cache_bytes: usize, page_bytes: usize) -> LeafFilters {
        let words = (page_bytes / PAGE_PARTS / 8).next_multiple_of(BLOCK_WORDS);
        let chunks = cache_bytes / CACHE_PARTS / chunk_bytes(words);
        LeafFilters {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            words,
            group_pages: (GROUP_BYTES / page_bytes).clamp(1, CHUNK_SLOTS) as u64,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Memory that they take by now.
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: what is counted here is not read through it.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the leaf is known not to have a row with this key.
    pub(crate) fn lacks(&self, leaf: PageReference, key: &[u8]) -> bool {
        let Some(slot) = self.slot(leaf.page) else { return false };
        let Some(asking) = self.identity_of(leaf).and_then(|own| slot.ask(own)) else { return false };
        let mut probes = probes(hash_of([key, &[]]), self.words).into_iter();
        let lacks = probes.any(|(word, bit)| slot.bits[word].load(Ordering::Relaxed) & bit == 0);
        if lacks {
            asking.note_use();
        }
        lacks
    }

    /// The group of pages that `page` is one of.
    pub(crate) fn group_of(&self, page: PageId) -> Range<u64> {
        let first = page.get() - page.get() % self.group_pages;
        first..first + self.group_pages
    }

    /// Whether the slot of a page is empty, as far as one can tell.
    pub(crate) fn has_room_for(&self, page: PageId) -> bool {
        !self.chunks.is_empty() && self.slot(page).is_none_or(|slot| slot.is_empty())
    }

    /// Takes up a leaf, if there is a slot, its keys are not too many, and `condition`, asked while the slot is taken, still holds.
    /// Returns whether it did.
    pub(crate) fn insert_if(
        &self,
        at: PageReference,
        leaf: &LeafView<'_>,
        condition: impl FnOnce() -> bool,
    ) -> bool {
        if self.chunks.is_empty() || leaf.len() * ROW_BITS_MIN > self.words * 64 {
            return false;
        }
        let Some(own) = self.identity_of(at) else { return false };
        let Place { chunk, index, .. } = self.place(at.page);
        let mut is_new = false;
        let chunk = self.chunks[chunk].get_or_init(|| {
            is_new = true;
            Chunk::new(self.words)
        });
        if is_new {
            // Relaxed: as in `bytes`.
            self.bytes.fetch_add(chunk_bytes(self.words), Ordering::Relaxed);
        }
        let slot = chunk.slot(index, self.words);
        if !slot.take(own) {
            return false;
        }
        let is_filled = condition();
        if is_filled {
            slot.fill(leaf);
        }
        slot.give_back(if is_filled { own } else { EMPTY }) && is_filled
    }

    /// Drops the filter of a page.
    pub(crate) fn remove(&self, page: PageId) {
        if let Some(slot) = self.slot(page) {
            slot.drop_filter(self.place(page).sharing);
        }
    }

    fn slot(&self, page: PageId) -> Option<Slot<'_>> {
        if self.chunks.is_empty() {
            return None;
        }
        let place = self.place(page);
        Some(self.chunks[place.chunk].get()?.slot(place.index, self.words))
    }

    /// Pages side by side have slots side by side.
    fn place(&self, page: PageId) -> Place {
        let slots = (self.chunks.len() * CHUNK_SLOTS) as u64;
        let slot = usize::try_from(page.get() % slots).expect("a slot is one of those in memory");
        Place { chunk: slot / CHUNK_SLOTS, index: slot % CHUNK_SLOTS, sharing: page.get() / slots }
    }

    /// What the tag of a filter of this image says, if it can have one.
    fn identity_of(&self, image: PageReference) -> Option<u64> {
        let sharing = self.place(image.page).sharing;
        let identity = sharing << MARK_BITS | u64::from(image.mark.get());
        (sharing < SHARING_MAX && identity != EMPTY).then_some(identity)
    }
}

impl Chunk {
    fn new(words: usize) -> Chunk {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Chunk { tags: zeros(CHUNK_SLOTS), bits: zeros(CHUNK_SLOTS * words) }
    }

    fn slot(&self, index: usize, words: usize) -> Slot<'_> {
        Slot { tag: &self.tags[index], bits: &self.bits[index * words..(index + 1) * words] }
    }
}

impl<'f> Slot<'f> {
    /// Whether it has no filter, as far as one can tell.
    fn is_empty(&self) -> bool {
        // Relaxed: a hint.
        self.tag.load(Ordering::Relaxed) & IDENTITY == EMPTY
    }

    /// Keeps its bits as they are, if they are those of `own`.
    fn ask(&self, own: u64) -> Option<Asking<'f>> {
        let one_more = |tag| (tag & IDENTITY == own && tag & ASKING_MAX < ASKING_MAX).then(|| tag + ASKING);
        // Acquire: with the tag comes what was filled in before.
        self.tag.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        Some(Asking { tag: self.tag })
    }

    /// Takes the slot to fill it with `own`. Fails while others fill or ask it. A filter that was of use is spared once.
    fn take(&self, own: u64) -> bool {
        let tag = self.tag.load(Ordering::Relaxed);
        let identity = tag & IDENTITY;
        if identity == own || identity >= TAKEN_IN_VAIN || tag & ASKING_MAX != 0 {
            return false;
        }
        let is_spared = tag & IS_OF_USE != 0;
        // SeqCst, as of the version of the tree, and here and there in `drop_filter`: one of the two sees what the other has done.
        let change = if is_spared { identity } else { TAKEN };
        self.tag.compare_exchange(tag, change, Ordering::SeqCst, Ordering::Relaxed).is_ok() && !is_spared
    }

    /// For the one who has taken the slot.
    fn fill(&self, leaf: &LeafView<'_>) {
        let mut bits = vec![0; self.bits.len()];
        for row in 0..leaf.len() {
            for (word, bit) in probes(hash_of([leaf.prefix(), leaf.key(row).suffix()]), bits.len()) {
                bits[word] |= bit;
            }
        }
        // Relaxed: nobody reads them before the tag says so.
        self.bits.iter().zip(bits).for_each(|(word, bits)| word.store(bits, Ordering::Relaxed));
    }

    /// For the one who has taken the slot. Returns `false` if the filter was dropped meanwhile: the slot is empty then.
    fn give_back(&self, identity: u64) -> bool {
        let given = self.tag.compare_exchange(TAKEN, identity, Ordering::Release, Ordering::Relaxed);
        if given.is_err() {
            self.tag.store(EMPTY, Ordering::Release);
        }
        given.is_ok()
    }

    /// Empties it of the filter of the page with this number, also of one that is being made.
    fn drop_filter(&self, sharing: u64) {
        let emptied = |tag| match tag & IDENTITY {
            EMPTY | TAKEN_IN_VAIN => None,
            TAKEN => Some(TAKEN_IN_VAIN),
            // Who is asking leaves later.
            identity => (identity >> MARK_BITS == sharing).then_some(tag & ASKING_MAX),
        };
        // Nothing to do is as well.
        self.tag.fetch_update(Ordering::SeqCst, Ordering::SeqCst, emptied).ok();
    }
}

/// Somebody who asks a slot.
#[derive(Debug)]
struct Asking<'f> {
    tag: &'f AtomicU64,
}

impl Asking<'_> {
    fn note_use(&self) {
        // Relaxed: a hint. Written only where it differs, and if the filter was dropped meanwhile, an empty slot is spared once.
        if self.tag.load(Ordering::Relaxed) & IS_OF_USE == 0 {
            self.tag.fetch_or(IS_OF_USE, Ordering::Relaxed);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // Release: who fills the slot after this has not changed what was read.
        self.tag.fetch_sub(ASKING, Ordering::Release);
    }
}

/// Where the filter of a page is.
struct Place {
    chunk: usize,
    /// The slot in the chunk.
    index: usize,
    /// The number of the page among those that share the slot.
    sharing: u64,
}

fn chunk_bytes(words: usize) -> usize {
    CHUNK_SLOTS * (1 + words) * 8
}

fn hash_of(parts: [&[u8]; 2]) -> u64 {
    let mut checksum = Crc64::new();
    parts.iter().for_each(|part| checksum.update(part));
    mixed(checksum.finish())
}

/// The word and the bit in it of each probe.
fn probes(hash: u64, words: usize) -> [(usize, u64); PROBES as usize] {
    let blocks = (words / BLOCK_WORDS) as u64;
    let block = usize::try_from(((hash >> 32) * blocks) >> 32).expect("a block is one of those in memory");
    let bits = mixed(hash);
    std::array::from_fn(|probe| {
        let bit = (bits >> (u32::try_from(probe).expect("few probes") * PROBE_BITS)) % BLOCK_BITS;
        let word = usize::try_from(bit / 64).expect("a block has eight words");
        (block * BLOCK_WORDS + word, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seawall_simulation::{SeededRandom, seeds};
    use seawall_types::Lsn;

    use super::*;
    use crate::page::tests::format_of;
    use crate::page::{LeafValue, Page, Row, RowKey, encode_leaf};

    fn leaf(page: u64, keys: &BTreeSet<Vec<u8>>, stamp: u64) -> Page {
        let rows: Vec<Row<'_>> = keys
            .iter()
            .map(|key| Row { key: RowKey::from(&key[..]), value: LeafValue::Inline(b"value") })
            .collect();
        encode_leaf(&format_of(8192), &rows, PageId::new(page), Lsn::new(stamp))
    }

    fn key(random: &mut SeededRandom) -> Vec<u8> {
        let mut key = b"table 1, ".to_vec();
        let length = 1 + random.index(6);
        key.extend(random.bytes(length));
        key
    }

    fn insert(filters: &LeafFilters, page: &Page) -> bool {
        filters.insert_if(page.reference(), &page.view().leaf().unwrap(), || true)
    }

    #[test]
    fn filters_lack_no_key_of_their_leaf_and_most_others() {
        for seed in seeds(20) {
            let mut random = SeededRandom::new(seed);
            let filters = LeafFilters::new(8 << 20, 8192);
            let keys: Vec<BTreeSet<Vec<u8>>> =
                (0..50).map(|_| (0..1 + random.below(90)).map(|_| key(&mut random)).collect()).collect();
            let pages: Vec<Page> = (2..).zip(&keys).map(|(page, keys)| leaf(page, keys, 1)).collect();
            for page in &pages {
                insert(&filters, page);
            }
            assert!(filters.bytes() > 0 && filters.bytes() <= 1 << 20);
            let (mut passed, mut asked) = (0, 0);
            for (page, keys) in pages.iter().zip(&keys) {
                assert!(keys.iter().all(|key| !filters.lacks(page.reference(), key)), "seed {seed}");
                for _ in 0..100 {
                    let other = key(&mut random);
                    if !keys.contains(&other) {
                        asked += 1;
                        passed += u32::from(!filters.lacks(page.reference(), &other));
                    }
                }
            }
            assert!(passed * 20 < asked, "seed {seed}: {passed} of {asked} pass");
        }
    }

    #[test]
    fn a_filter_is_of_one_image() {
        let filters = LeafFilters::new(8 << 20, 8192);
        let keys = BTreeSet::from([b"a".to_vec()]);
        let old = leaf(9, &keys, 1);
        insert(&filters, &old);
        let lacks = |page: &Page| filters.lacks(page.reference(), b"other");
        assert!(lacks(&old));
        let new = leaf(9, &keys, 2);
        assert!(!lacks(&new), "nothing is known of another image");
        assert!(!lacks(&leaf(10, &keys, 1)));
        filters.remove(PageId::new(10));
        assert!(lacks(&old));
        filters.remove(PageId::new(9));
        assert!(!lacks(&old));
        assert!(!filters.insert_if(old.reference(), &old.view().leaf().unwrap(), || false));
        assert!(!lacks(&old), "it was replaced meanwhile");
    }

    #[test]
    fn a_filter_that_is_dropped_while_it_is_made_is_not_asked() {
        let filters = LeafFilters::new(8 << 20, 8192);
        let page = leaf(9, &BTreeSet::from([b"a".to_vec()]), 1);
        let (at, view) = (page.reference(), page.view());
        let is_taken_up = filters.insert_if(at, &view.leaf().unwrap(), || {
            filters.remove(at.page);
            true
        });
        assert!(!is_taken_up && !filters.lacks(at, b"other"));
        assert!(insert(&filters, &page) && filters.lacks(at, b"other"));
    }

    /// Pages that share a slot take turns, while readers ask and writers drop: no answer denies a key that the leaf has.
    #[test]
    fn who_asks_while_a_slot_changes_hands_is_told_nothing_wrong() {
        const TURNS: u64 = 20_000;
        let filters = LeafFilters::new(1 << 20, 8192);
        let slots = (filters.chunks.len() * CHUNK_SLOTS) as u64;
        let keys_of = |page: u64| (0..60).map(|row| format!("{page} {row}").into_bytes()).collect();
        let leaves: Vec<(Page, BTreeSet<Vec<u8>>)> = (0..3)
            .map(|turn| 5 + turn * slots)
            .map(|page| (leaf(page, &keys_of(page), 1), keys_of(page)))
            .collect();
        let (filled, lacking) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (filters, leaves, filled, lacking) = (&filters, &leaves, &filled, &lacking);
                scope.spawn(move || {
                    let mut random = SeededRandom::new(thread);
                    for _ in 0..TURNS {
                        let (page, keys) = random.pick(leaves);
                        match random.below(8) {
                            0 => filters.remove(page.view().id()),
                            1 | 2 => {
                                let is_filled = insert(filters, page);
                                filled.fetch_add(usize::from(is_filled), Ordering::Relaxed);
                            }
                            _ => {
                                let key = keys.iter().nth(random.index(keys.len())).unwrap();
                                assert!(!filters.lacks(page.reference(), key));
                                let lacks = filters.lacks(page.reference(), b"none");
                                lacking.fetch_add(usize::from(lacks), Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let (filled, lacking) = (filled.into_inner(), lacking.into_inner());
        assert!(filled > 50 && lacking > 50, "{filled} filled, {lacking} lacking");
        let tag = filters.slot(PageId::new(5)).unwrap().tag.load(Ordering::SeqCst);
        assert!(tag & ASKING_MAX == 0 && tag & IDENTITY < TAKEN_IN_VAIN, "{tag:x}");
    }

    #[test]
    fn what_has_no_room_is_not_taken_up() {
        let keys: BTreeSet<Vec<u8>> = (0..400_u32).map(|number| number.to_be_bytes().to_vec()).collect();
        let crowded = leaf(9, &keys, 1);
        let filters = LeafFilters::new(8 << 20, 8192);
        assert!(!insert(&filters, &crowded), "less than four bits for a row");
        assert!(!filters.lacks(crowded.reference(), b"other"));
        let none = LeafFilters::new(64 << 10, 8192);
        assert!(!insert(&none, &leaf(9, &BTreeSet::from([b"a".to_vec()]), 1)));
        none.remove(PageId::new(9));
        assert_eq!(none.bytes(), 0);
    }

    #[test]
    fn memory_has_a_limit_and_pages_share_slots() {
        let filters = LeafFilters::new(4 << 20, 8192);
        let keys = BTreeSet::from([b"a".to_vec()]);
        for page in 2..10_000 {
            insert(&filters, &leaf(page, &keys, 1));
        }
        assert!((3 << 17..=4 << 17).contains(&filters.bytes()), "{}", filters.bytes());
        let lacks = |page| filters.lacks(leaf(page, &keys, 1).reference(), b"other");
        assert!(lacks(9_999));
        assert!(!lacks(2), "its slot has another page's");
        let slots = (filters.chunks.len() * CHUNK_SLOTS) as u64;
        insert(&filters, &leaf(9_999 + slots, &keys, 1));
        assert!(!lacks(9_999 + slots), "the other one has been of use");
        insert(&filters, &leaf(9_999 + slots, &keys, 1));
        assert!(lacks(9_999 + slots) && !lacks(9_999));
    }
}
