//! Keys from a seed.
#![allow(dead_code, reason = "not every test uses everything")]

use seawall_simulation::SeededRandom;

/// How the keys of a run look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// A table id out of three, then a number.
    Rows,
    /// A long prefix that all share, then a number.
    LongPrefix,
    /// Up to a dozen bytes, each 0, 1 or 255: many are prefixes of others, and the empty key is among them.
    Nested,
    /// Rising numbers under one table id.
    Rising,
    /// Up to 4 KiB, alike but for a few bytes.
    Huge,
}

pub(crate) const ALL_KEYS: [Keys; 5] = [Keys::Rows, Keys::LongPrefix, Keys::Nested, Keys::Rising, Keys::Huge];

impl Keys {
    pub(crate) fn draw(self, random: &mut SeededRandom, step: u64, spread: u64) -> Vec<u8> {
        match self {
            Keys::Rows => [random.below(3) + 1, random.below(spread)].map(u64::to_be_bytes).concat(),
            Keys::LongPrefix => {
                let mut key = vec![b'p'; 8 + random.index(2) * 30];
                key.extend_from_slice(&random.below(spread).to_be_bytes());
                key.truncate(key.len() - random.index(2));
                key
            }
            Keys::Nested => (0..random.below(12)).map(|_| [0, 1, 255][random.index(3)]).collect(),
            Keys::Rising => [7, step].map(u64::to_be_bytes).concat(),
            Keys::Huge => {
                let mut key = vec![0x55; random.index(4100)];
                for _ in 0..random.below(3) {
                    let length = key.len().max(1);
                    if let Some(byte) = key.get_mut(random.index(length)) {
                        *byte = [0x54, 0x56][random.index(2)];
                    }
                }
                key
            }
        }
    }
}
