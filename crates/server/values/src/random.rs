//! Random numbers: of a session, and of whoever samples rows.
//!
//! The generator is PostgreSQL's, xoroshiro128**, so a seed gives the same numbers.

use std::sync::{Mutex, PoisonError};

use num_traits::ToPrimitive;

use crate::error::{SqlError, SqlResult};

/// A session's generator: with a seed of the operating system, until `setseed` gives it another.
#[derive(Debug, Default)]
pub struct Random {
    generator: Mutex<Option<Generator>>,
}

/// Bits of a number from 0 to 1.
const FRACTION_BITS: u32 = 52;

impl Random {
    /// The next number: at least 0 and below 1.
    ///
    /// # Errors
    /// `XX000` if the operating system gives no seed.
    pub fn next(&self) -> SqlResult<f64> {
        let mut slot = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
        let mut generator = match *slot {
            Some(generator) => generator,
            None => {
                let mut seed = [0; 8];
                getrandom::fill(&mut seed).map_err(|error| {
                    SqlError::internal(format!("could not generate random values: {error}"))
                })?;
                Generator::seeded(u64::from_le_bytes(seed))
            }
        };
        let value = generator.draw() >> (u64::BITS - FRACTION_BITS);
        *slot = Some(generator);
        let unit = (1_u64 << FRACTION_BITS).to_f64().unwrap_or(1.0);
        Ok(value.to_f64().unwrap_or(0.0) / unit)
    }

    /// Begins the numbers of a seed from -1 to 1.
    pub fn set_seed(&self, seed: f64) {
        let scaled = ((1_u64 << FRACTION_BITS) - 1).to_f64().unwrap_or(1.0) * seed;
        let generator = Generator::seeded(scaled.to_i64().unwrap_or(0).cast_unsigned());
        *self.generator.lock().unwrap_or_else(PoisonError::into_inner) = Some(generator);
    }
}

/// xoroshiro128** (Blackman and Vigna, 2018), seeded by splitmix64. Not for secrets.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    low: u64,
    high: u64,
}

impl Generator {
    /// The numbers of a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Generator {
        let mut state = seed;
        Generator { low: spread(&mut state), high: spread(&mut state) }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let mixed = self.high ^ self.low;
        let value = self.low.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.low = self.low.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.high = mixed.rotate_left(37);
        value
    }
}

/// A step of splitmix64, which makes all bits of a seed count.
fn spread(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_give_the_numbers_that_postgresql_15_gives() {
        let recorded = [
            (0.5, [0.9851677175347999, 0.825301858027981]),
            (-0.25, [0.5553213340039351, 0.25148985326005135]),
            (1.0, [0.3978842227698167, 0.7438732417540841]),
        ];
        let random = Random::default();
        for (seed, numbers) in recorded {
            random.set_seed(seed);
            for number in numbers {
                assert_eq!(random.next().unwrap(), number, "seed {seed}");
            }
        }
    }

    #[test]
    fn numbers_are_at_least_0_and_below_1() {
        let random = Random::default();
        for _ in 0..1_000 {
            assert!((0.0..1.0).contains(&random.next().unwrap()));
        }
    }
}
