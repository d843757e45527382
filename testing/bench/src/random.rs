//! Repeatable randomness: a generator, a shuffled order without memory, and skewed picks.
//!
//! The same seed gives every engine the same keys in the same order.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one addition and three multiplications a number, so that the
/// generator does not show in the figures of engines that need 700 ns for a read.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: mix(seed ^ 0x5ea3_a11b_e9c4_0001) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..limit`, by multiplication instead of division; the bias is below `limit / 2^64`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(limit);
        u64::try_from(product >> 64).expect("the upper half of a 128-bit product has 64 bits")
    }

    /// A number in `0.0..1.0`.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Half random, half constant: compresses to half, as rows of text and numbers do. Never the same bytes twice, for
    /// SQLite writes nothing when an update changes nothing.
    pub(crate) fn fill_value(&mut self, value: &mut [u8]) {
        let (random, constant) = value.split_at_mut(value.len() / 2);
        for chunk in random.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        constant.fill(b'.');
    }
}

/// A bijection of 64 bits that looks random.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Every number of `0..count` once, in an order that looks random, with no list of them in memory: a Feistel network
/// over the next even number of bits, walked on until it falls into the range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    pub(crate) fn new(count: u64, seed: u64) -> Shuffle {
        assert!(count > 0, "an empty range cannot be shuffled");
        let bits = 64 - (count - 1).leading_zeros();
        Shuffle { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The number at `position`, which is below `count`.
    pub(crate) fn at(&self, position: u64) -> u64 {
        assert!(position < self.count, "position {position} of {}", self.count);
        let mut number = self.permute(position);
        // The network permutes at most four times as many numbers as there are, so this ends soon.
        while number >= self.count {
            number = self.permute(number);
        }
        number
    }

    fn permute(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..4 {
            let next = left ^ (mix(right ^ self.seed.rotate_left(round * 16)) & mask);
            (left, right) = (right, next);
        }
        (left << self.half_bits) | right
    }
}

/// Picks of `0..count` by Zipf's law with exponent 0.99, the hot ones scattered over the range, as YCSB has them
/// (Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994).
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    scatter: Shuffle,
}

const ZIPF_EXPONENT: f64 = 0.99;

impl Zipf {
    pub(crate) fn new(count: u64, seed: u64) -> Zipf {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum();
        let zeta_two = 1.0 + 2_f64.powf(-ZIPF_EXPONENT);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - ZIPF_EXPONENT)) / (1.0 - zeta_two / zeta);
        Zipf { count, zeta, alpha: 1.0 / (1.0 - ZIPF_EXPONENT), eta, scatter: Shuffle::new(count, seed) }
    }

    pub(crate) fn pick(&self, random: &mut Random) -> u64 {
        self.scatter.at(self.rank(random.fraction()))
    }

    fn rank(&self, fraction: f64) -> u64 {
        let scaled = fraction * self.zeta;
        if scaled < 1.0 || self.count == 1 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(ZIPF_EXPONENT) {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and count")]
        let rank = rank as u64;
        rank.min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_is_a_permutation_and_not_the_identity() {
        for count in [1, 2, 3, 7, 64, 1000, 4097] {
            let shuffle = Shuffle::new(count, 42);
            let order: Vec<u64> = (0..count).map(|position| shuffle.at(position)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "count {count}");
            if count >= 64 {
                let in_place = (0_u64..).zip(&order).filter(|(position, number)| position == *number).count();
                assert!(in_place < 10, "{in_place} of {count} stay where they are");
            }
        }
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (9_000..11_000).contains(count)), "{seen:?}");
    }

    #[test]
    fn zipf_has_the_shares_of_its_law() {
        let zipf = Zipf::new(1000, 1);
        let mut random = Random::new(3);
        let picks = 200_000;
        let mut by_number = vec![0_u32; 1000];
        for _ in 0..picks {
            by_number[usize::try_from(zipf.pick(&mut random)).unwrap()] += 1;
        }
        by_number.sort_unstable_by(|one, other| other.cmp(one));
        // Zeta of 1000 numbers at exponent 0.99 is 7.73: the hottest has 12.9% of the picks, the second 6.5%.
        let share = |rank: usize| f64::from(by_number[rank]) / f64::from(picks);
        assert!((share(0) - 0.129).abs() < 0.005, "{}", share(0));
        assert!((share(1) - 0.065).abs() < 0.005, "{}", share(1));
        assert!(by_number[500] > 0, "the tail is picked too");
    }

    #[test]
    fn values_are_half_constant_and_never_repeat() {
        let mut random = Random::new(9);
        let (mut first, mut second) = ([0; 100], [0; 100]);
        random.fill_value(&mut first);
        random.fill_value(&mut second);
        assert_ne!(first[..50], second[..50]);
        assert_eq!(first[50..], [b'.'; 50]);
    }
}
