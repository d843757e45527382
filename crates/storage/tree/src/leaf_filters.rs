//! Filters of leaves that are not in the cache: a lookup of a row that is not there ends at one, without a page being read.
//!
//! ```text
//!   interior page: reference (page 70, mark M)        slot 70 % n   | page 70 | mark M | bits of the leaf's keys |
//!        |                                                  ^
//!        '-- not in the cache --> may the leaf have it? ----'  no: there is no such row
//! ```
//! A leaf gets one when a lookup has read it from the file in vain, and the cache is full. The pages beside it are read with one more call
//! and get theirs, too, while most of them have none: leaves lie in order where they were loaded or built anew, and a device reads sixteen
//! pages in less than twice the time of one. So who looks only for rows that are there pays nothing, and who checks again and again for
//! rows that are not there soon reads nothing. Filters are in memory only, in a part of that of the cache, and take a sixty-fourth of the
//! pages that they stand for: they stay when the pages are long evicted. Where pages share a slot, one whose filter has been of use is
//! spared once.
//!
//! Invariants:
//! * A slot has the keys of one image of a leaf, by page and mark. The descent that asks has the mark from the page above. So what was
//!   replaced by another image is not asked, and is dropped besides, as in the cache (`published`).
//! * A filter has all keys of its leaf. It may say of others that they are there.
//!
//! Blocks as in Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (JEA 2009).

use std::ops::Range;
use std::sync::OnceLock;

use seawall_codec::checksum::{Crc64, mixed};
use seawall_sync::RwLock;
use seawall_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use seawall_types::PageId;

use crate::page::{LeafView, PageMark, PageReference};

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
const CHUNK_SLOTS: usize = 256;
/// What a slot takes besides its bits: latch, page, mark, pointer, and what the allocator adds.
const OVERHEAD_BYTES: usize = 64;

#[derive(Debug, Default)]
struct Slot {
    /// `None`: the slot is empty.
    leaf: Option<(PageId, PageMark)>,
    bits: Box<[u64]>,
    /// It has answered since another leaf wanted the slot.
    is_of_use: AtomicBool,
}

/// Slots whose memory is taken together, when one of them is used.
type Chunk = OnceLock<Box<[RwLock<Slot>]>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct LeafFilters {
    chunks: Box<[Chunk]>,
    /// Words of a filter.
    words: usize,
    /// Pages of a group.
    group_pages: u64,
    /// Memory that the chunks which are there may take.
    bytes: AtomicUsize,
}

impl LeafFilters {
    /// For leaves of `page_bytes` beside a cache of `cache_bytes`.
    pub(crate) fn new(cache_bytes: usize, page_bytes: usize) -> LeafFilters {
        let words = (page_bytes / PAGE_PARTS / 8).next_multiple_of(BLOCK_WORDS);
        let chunks = cache_bytes / CACHE_PARTS / (CHUNK_SLOTS * slot_bytes(words));
        LeafFilters {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            words,
            group_pages: (GROUP_BYTES / page_bytes).clamp(1, CHUNK_SLOTS) as u64,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Memory that they may take by now.
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: what is counted here is not read through it.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the leaf is known not to have a row with this key.
    pub(crate) fn lacks(&self, leaf: PageReference, key: &[u8]) -> bool {
        let Some(slot) = self.slot(leaf.page) else { return false };
        // Who has it alone changes it; the page is soon read.
        let Some(slot) = slot.try_read() else { return false };
        if slot.leaf != Some((leaf.page, leaf.mark)) {
            return false;
        }
        let probes = probes(hash_of([key, &[]]), self.words);
        let lacks = probes.into_iter().any(|(word, bit)| slot.bits[word] & bit == 0);
        // Relaxed, here and below: a hint. Written only where it differs, so that readers share the line.
        if lacks && !slot.is_of_use.load(Ordering::Relaxed) {
            slot.is_of_use.store(true, Ordering::Relaxed);
        }
        lacks
    }

    /// The group of pages that `page` is one of, if nothing is known of it and of most of the others.
    pub(crate) fn group_without_filters(&self, page: PageId) -> Option<Range<u64>> {
        let first = page.get() - page.get() % self.group_pages;
        let group = first..first + self.group_pages;
        // A slot that somebody changes is soon taken.
        let is_empty = |page: u64| {
            self.slot(PageId::new(page))
                .is_none_or(|slot| slot.try_read().is_some_and(|slot| slot.leaf.is_none()))
        };
        let worthwhile = group.clone().count() / 2 + 1;
        (is_empty(page.get()) && group.clone().filter(|page| is_empty(*page)).count() >= worthwhile)
            .then_some(group)
    }

    /// Takes up a leaf, if there is a slot, its keys are not too many, and `condition`, asked under the latch of the slot, still holds.
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
        let (chunk, index) = self.place(at.page);
        let slots = self.chunks[chunk].get_or_init(|| {
            self.bytes.fetch_add(CHUNK_SLOTS * slot_bytes(self.words), Ordering::Relaxed);
            (0..CHUNK_SLOTS).map(|_| RwLock::default()).collect()
        });
        let Some(mut slot) = slots[index].try_write() else { return false };
        let is_wanted = slot.leaf != Some((at.page, at.mark)) && !std::mem::take(slot.is_of_use.get_mut());
        if !is_wanted || !condition() {
            return false;
        }
        slot.leaf = None;
        slot.bits = vec![0; self.words].into();
        for row in 0..leaf.len() {
            for (word, bit) in probes(hash_of([leaf.prefix(), leaf.key(row).suffix()]), self.words) {
                slot.bits[word] |= bit;
            }
        }
        slot.leaf = Some((at.page, at.mark));
        true
    }

    /// Drops the filter of a page.
    pub(crate) fn remove(&self, page: PageId) {
        if let Some(slot) = self.slot(page) {
            let mut slot = slot.write();
            if slot.leaf.is_some_and(|(of, _)| of == page) {
                slot.leaf = None;
                *slot.is_of_use.get_mut() = false;
            }
        }
    }

    fn slot(&self, page: PageId) -> Option<&RwLock<Slot>> {
        if self.chunks.is_empty() {
            return None;
        }
        let (chunk, index) = self.place(page);
        Some(&self.chunks[chunk].get()?[index])
    }

    /// Chunk and slot of a page. Pages side by side have slots side by side.
    fn place(&self, page: PageId) -> (usize, usize) {
        let slots = (self.chunks.len() * CHUNK_SLOTS) as u64;
        let slot = usize::try_from(page.get() % slots).expect("a slot is one of those in memory");
        (slot / CHUNK_SLOTS, slot % CHUNK_SLOTS)
    }
}

fn slot_bytes(words: usize) -> usize {
    words * 8 + OVERHEAD_BYTES
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
        assert!((1 << 18..=4 << 17).contains(&filters.bytes()), "{}", filters.bytes());
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
