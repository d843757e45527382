//! Randomness that one seed repeats.

use std::ops::Range;

use parking_lot::Mutex;
use seawall_io::Random;

/// The generator xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: [u64; 4],
}

impl SeededRandom {
    /// The generator of `seed`; every seed, zero included, gives a good one.
    pub fn new(seed: u64) -> SeededRandom {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (counter ^ (counter >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        });
        SeededRandom { state }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let state = &mut self.state;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// If `limit` is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "no number is below zero");
        // The bias is `limit` in 2^64: no test sees it.
        self.next_u64() % limit
    }

    /// A number of `range`.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "nothing to draw from {range:?}");
        range.start + self.below(range.end - range.start)
    }

    /// An index below `length`.
    ///
    /// # Panics
    /// If `length` is zero.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("it is below a usize")
    }

    /// True `hits` times out of `of`.
    pub fn chance(&mut self, hits: u64, of: u64) -> bool {
        self.below(of) < hits
    }

    /// One of `items`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Puts `items` into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Overwrites `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }

    /// `length` random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }

    /// Another generator, independent of what is drawn from this one afterwards.
    pub fn fork(&mut self) -> SeededRandom {
        SeededRandom::new(self.next_u64())
    }
}

/// Randomness for ids, keys and nonces that one seed repeats, if the calls come in one order.
#[derive(Debug)]
pub struct SimulatedRandom(Mutex<SeededRandom>);

impl SimulatedRandom {
    /// The randomness of `seed`.
    pub fn new(seed: u64) -> SimulatedRandom {
        SimulatedRandom(Mutex::new(SeededRandom::new(seed)))
    }
}

impl Random for SimulatedRandom {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill(bytes);
    }
}

/// The seeds of a test that runs `count` times; only the one in the environment variable `SEAWALL_SEED` when it is
/// set, to repeat a failure.
pub fn seeds(count: u64) -> Range<u64> {
    let wanted = std::env::var("SEAWALL_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    wanted.map_or(0..count, |seed| seed..seed + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut random = SeededRandom::new(0);
        let drawn: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        // The published test vector of splitmix64(0) into xoshiro256**.
        assert_eq!(drawn, [0x99EC_5F36_CB75_F2B4, 0xBF6E_1F78_4956_452A, 0x1A5F_849D_4933_E6E0]);
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_all_of_it() {
        let mut random = SeededRandom::new(7);
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| random.range(5..15)).collect();
        assert_eq!(drawn, (5..15).collect());
        let hits = (0..10_000).filter(|_| random.chance(1, 4)).count();
        assert!((2200..2800).contains(&hits), "{hits}");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        SeededRandom::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
