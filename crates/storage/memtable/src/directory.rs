//! The directory: from the hash of a key to its entry, for the price of one cache line instead of a descent.
//!
//! ```text
//!   hash --> bucket: one cache line   [tag|entry] [tag|entry] [tag|entry] [ null ] [ null ] ...   8 slots
//! ```
//! A row goes to the first free slot of its bucket and stays there. If there is none, it is only in the index: a key
//! that is not found in a *full* bucket must be looked for there. The directory is sized once; a memtable that outgrows
//! it gets slower reads, never wrong ones.
#![expect(unsafe_code, reason = "entries behind tagged pointers")]

use std::ptr;

use seawall_sync::atomic::{AtomicPtr, Ordering};

use crate::entry::{EntryHeader, EntryRef};
use crate::filter::Filter;
use crate::lines::{Line, Lines};

const SLOTS: usize = 8;
/// Rows that a bucket is meant for: then one bucket in twenty is full.
const EXPECTED_ROWS: usize = 4;
/// The high bits of an address that hold the tag.
const TAG_SHIFT: u32 = 48;

/// One cache line of slots, filled from the first on.
#[repr(C, align(64))]
struct Bucket([AtomicPtr<EntryHeader>; SLOTS]);

// SAFETY: 64 bytes of atomics for which zeros are valid.
unsafe impl Line for Bucket {}

/// The directory of a memtable. All entries put into it must live in arenas that its owner drops together with it.
pub(crate) struct Directory(Lines<Bucket>);

/// What the directory knows about a key.
pub(crate) enum Known<'m> {
    /// Its entry.
    Entry(EntryRef<'m>),
    /// There is none.
    Absent,
    /// The bucket is full: ask the index.
    Unknown,
}

impl Directory {
    /// A directory for `expected_rows` rows.
    pub(crate) fn new(expected_rows: usize) -> Directory {
        Directory(Lines::new(expected_rows / EXPECTED_ROWS))
    }

    /// Takes the memory now.
    pub(crate) fn populate(&self) {
        self.0.populate();
    }

    /// Bytes of the directory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Puts an entry into its bucket, once it is in the index. `hash` is that of its key.
    pub(crate) fn insert(&self, hash: u64, entry: EntryRef<'_>) {
        let Some(tagged) = tag(hash, entry) else {
            return self.fill_up(hash);
        };
        self.insert_raw(hash, tagged);
    }

    /// The entry of `key`, whose hash is `hash`.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Known<'_> {
        let bucket = self.0.line(hash);
        let mut matches = bucket.matches(hash);
        while matches != 0 {
            let slot = matches.trailing_zeros() as usize % SLOTS;
            // Acquire pairs with the release in `insert_raw`: the entry's key is seen.
            if let Some(entry) = self.untag(bucket.0[slot].load(Ordering::Acquire))
                && entry.key() == key
            {
                return Known::Entry(entry);
            }
            matches &= matches - 1;
        }
        if bucket.is_full() { Known::Unknown } else { Known::Absent }
    }

    /// Starts loading the bucket of a hash into the cache.
    pub(crate) fn prefetch(&self, hash: u64) {
        self.0.prefetch(hash);
    }

    fn insert_raw(&self, hash: u64, tagged: *mut EntryHeader) {
        for slot in &self.0.line(hash).0 {
            // Release pairs with the acquire in `find`.
            let free = ptr::null_mut();
            if slot.load(Ordering::Relaxed).is_null()
                && slot.compare_exchange(free, tagged, Ordering::Release, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
    }

    /// Takes all free slots, so that keys of this hash are looked for in the index: for an entry whose address has no
    /// room for a tag.
    #[cold]
    fn fill_up(&self, hash: u64) {
        for _ in 0..SLOTS {
            self.insert_raw(hash, ptr::without_provenance_mut(1));
        }
    }

    fn untag(&self, tagged: *mut EntryHeader) -> Option<EntryRef<'_>> {
        let raw = tagged.map_addr(|address| address & ((1 << TAG_SHIFT) - 1));
        if raw.addr() == 1 {
            return None;
        }
        // SAFETY: slots hold null, the filler that was just sorted out, or entries of the same memtable.
        unsafe { EntryRef::from_raw(raw) }
    }
}

impl Bucket {
    /// A bit for each slot that has the tag of this hash. Looks at all slots, without a branch: a processor that has not
    /// to guess where the rows of a bucket end goes on with other work while the bucket is on its way.
    fn matches(&self, hash: u64) -> u32 {
        let tag = tag_bits(hash);
        // Relaxed: no entry is looked at. A reader that must find a row was told of its commit, and that ordered the
        // slot before it.
        let matches = |slot: usize| {
            let tagged = self.0[slot].load(Ordering::Relaxed);
            u32::from(tagged.addr() >> TAG_SHIFT == tag && !tagged.is_null()) << slot
        };
        (0..SLOTS).fold(0, |all, slot| all | matches(slot))
    }

    fn is_full(&self) -> bool {
        !self.0[SLOTS - 1].load(Ordering::Relaxed).is_null()
    }
}

/// Entries on their way into filter and directory: their buckets are loaded meanwhile, many at a time.
pub(crate) struct LookupBatch<'m> {
    filter: &'m Filter,
    directory: &'m Directory,
    pending: Vec<(u64, EntryRef<'m>)>,
}

impl<'m> LookupBatch<'m> {
    const ENTRIES: usize = 32;

    pub(crate) fn new(filter: &'m Filter, directory: &'m Directory) -> LookupBatch<'m> {
        LookupBatch { filter, directory, pending: Vec::with_capacity(LookupBatch::ENTRIES) }
    }

    pub(crate) fn push(&mut self, entry: EntryRef<'m>) {
        if self.pending.len() == LookupBatch::ENTRIES {
            self.flush();
        }
        let hash = hash_key(entry.key());
        self.directory.prefetch(hash);
        self.pending.push((hash, entry));
    }

    pub(crate) fn flush(&mut self) {
        for (hash, entry) in self.pending.drain(..) {
            self.filter.insert(hash);
            self.directory.insert(hash, entry);
        }
    }
}

/// The entry's address with the tag in its high bits; `None` if the address needs them.
fn tag(hash: u64, entry: EntryRef<'_>) -> Option<*mut EntryHeader> {
    let raw = entry.raw();
    (raw.addr() >> TAG_SHIFT == 0).then(|| raw.map_addr(|address| address | tag_bits(hash) << TAG_SHIFT))
}

/// Bits of the hash that do not choose the bucket.
fn tag_bits(hash: u64) -> usize {
    usize::from((hash & 0xFFFF) as u16)
}

/// A hash of a key, the same in every process.
pub(crate) fn hash_key(key: &[u8]) -> u64 {
    let mut hash = (key.len() as u64) ^ 0x2D35_8DCC_AA6C_78A5;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), 0xA076_1D64_78BD_642F);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = fold(hash ^ u64::from_le_bytes(word), 0xE703_7ED1_A0B4_28DB);
    }
    fold(hash, 0x8BB8_4B93_962E_ACC9)
}

fn fold(left: u64, right: u64) -> u64 {
    let (low, high) = left.carrying_mul(right, 0);
    low ^ high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use seawall_types::Lsn;

    #[test]
    fn rows_are_found_and_few_others_are_unknown() {
        let row_count: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let rows = Arena::new();
        let directory = Directory::new(usize::try_from(row_count).unwrap());
        for row in 0..row_count {
            let key = row.to_be_bytes();
            directory.insert(hash_key(&key), EntryRef::create(&rows, &key, Lsn::ZERO, None));
        }
        let mut unknown = 0;
        for row in 0..2 * row_count {
            let key = row.to_be_bytes();
            match directory.find(hash_key(&key), &key) {
                Known::Entry(entry) => assert!(row < row_count && entry.key() == key),
                Known::Absent => assert!(row >= row_count),
                Known::Unknown => unknown += 1,
            }
        }
        assert!(unknown * 10 < row_count * 2, "{unknown} of {}", 2 * row_count);
    }

    #[test]
    fn a_full_bucket_says_nothing_about_other_keys() {
        let rows = Arena::new();
        let directory = Directory::new(0);
        for row in 0..8_u8 {
            assert!(matches!(directory.find(hash_key(b""), b""), Known::Absent));
            directory.insert(hash_key(&[row]), EntryRef::create(&rows, &[row], Lsn::ZERO, None));
        }
        assert!(matches!(directory.find(hash_key(b""), b""), Known::Unknown));
        assert!(matches!(directory.find(hash_key(&[3]), &[3]), Known::Entry(_)));
    }

    #[test]
    fn an_address_without_room_for_a_tag_closes_its_bucket() {
        let directory = Directory::new(0);
        directory.fill_up(1);
        for hash in [0, 1, 2] {
            assert!(matches!(directory.find(hash, b"key"), Known::Unknown));
        }
    }
}
