//! A blocked Bloom filter over the keys: "surely not here" for the price of one cache line, from a table that is small
//! enough to stay in the processor's caches.
//!
//! A key sets three bits in each of two words of one 64-byte block (Putze, Sanders, Singler: "Cache-, Hash- and
//! Space-Efficient Bloom Filters", 2007). With ten bits a key, about one missing key in forty is taken for present.
//! More keys than expected make it less sharp, never wrong.
#![expect(unsafe_code, reason = "states that a block is a line of atomics")]

use seawall_sync::atomic::{AtomicU64, Ordering};

use crate::arena::LINE_BYTES;
use crate::lines::{Line, Lines};

const BITS_PER_ROW: usize = 10;

/// Eight words on one cache line.
#[repr(C, align(64))]
struct Block([AtomicU64; 8]);

// SAFETY: 64 bytes of atomics for which zeros are valid.
unsafe impl Line for Block {}

/// The filter; its size is fixed.
pub(crate) struct Filter(Lines<Block>);

impl Filter {
    /// A filter for `expected_rows` rows.
    pub(crate) fn new(expected_rows: usize) -> Filter {
        Filter(Lines::new(expected_rows.saturating_mul(BITS_PER_ROW) / (8 * LINE_BYTES)))
    }

    /// Takes the memory now.
    pub(crate) fn populate(&self) {
        self.0.populate();
    }

    /// Bytes of the filter.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Remembers the key with hash `hash`.
    pub(crate) fn insert(&self, hash: u64) {
        let block = self.0.line(hash);
        for (word, bits) in words_and_bits(hash) {
            // Relaxed: a reader that must find the key was told of its commit, and that ordered these bits before it.
            if block.0[word].load(Ordering::Relaxed) & bits != bits {
                block.0[word].fetch_or(bits, Ordering::Relaxed);
            }
        }
    }

    /// Whether a key with hash `hash` may have been inserted; false means surely not.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let block = self.0.line(hash);
        words_and_bits(hash).iter().all(|(word, bits)| block.0[*word].load(Ordering::Relaxed) & bits == *bits)
    }
}

/// Two different words of a block and three bits (not always different) of each.
fn words_and_bits(hash: u64) -> [(usize, u64); 2] {
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let bit = |shift: u32| 1_u64 << ((mixed >> shift) & 63);
    let first = (hash & 7) as usize;
    let second = (first + 1 + ((hash >> 3) & 3) as usize) & 7;
    [(first, bit(58) | bit(52) | bit(46)), (second, bit(40) | bit(34) | bit(28))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::hash_key;

    #[test]
    fn inserted_keys_are_found_and_few_others() {
        let row_count: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let filter = Filter::new(20_000);
        for row in 0..row_count {
            filter.insert(hash_key(&row.to_be_bytes()));
        }
        let possible = |row: &u64| filter.may_contain(hash_key(&row.to_be_bytes()));
        assert!((0..row_count).all(|row| possible(&row)));
        let wrong = (row_count..2 * row_count).filter(possible).count();
        assert!(wrong as u64 * 20 < row_count, "{wrong} of {row_count} absent keys taken for present");
    }

    #[test]
    fn a_filter_for_nothing_still_works() {
        let filter = Filter::new(0);
        assert!(!filter.may_contain(hash_key(b"")));
        filter.insert(hash_key(b""));
        assert!(filter.may_contain(hash_key(b"")));
    }
}
