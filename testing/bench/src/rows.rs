//! The rows of every workload: 8-byte keys spread over the whole key space, and half-compressible values.

use crate::random::{Random, Shuffle, mix};

/// An 8-byte key, ordered as its bytes.
pub(crate) type Key = [u8; 8];

/// `count` keys, increasing with their number and irregularly spaced. The sorted order needs no sort and no list, and
/// no engine gains from keys that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpace {
    count: u64,
    stride: u64,
}

impl KeySpace {
    pub(crate) fn new(count: u64) -> KeySpace {
        assert!(count > 0, "a benchmark needs rows");
        KeySpace { count, stride: u64::MAX / count }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Key `number` of `0..count`.
    pub(crate) fn key(&self, number: u64) -> Key {
        assert!(number < self.count, "key {number} of {}", self.count);
        (number * self.stride + mix(number) % self.stride).to_be_bytes()
    }

    pub(crate) fn random_key(&self, random: &mut Random) -> Key {
        self.key(random.below(self.count))
    }
}

/// The order in which rows are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    Sorted,
    Random,
}

/// Every row of a key space once. Not an iterator: the value is lent, so that no row is allocated.
#[derive(Debug)]
pub(crate) struct RowSource {
    keys: KeySpace,
    /// Engines may have a better way for sorted rows.
    pub(crate) order: Order,
    shuffle: Shuffle,
    random: Random,
    position: u64,
    value: Vec<u8>,
}

impl RowSource {
    pub(crate) fn new(keys: KeySpace, value_bytes: usize, order: Order, seed: u64) -> RowSource {
        let shuffle = Shuffle::new(keys.count(), seed);
        RowSource {
            keys,
            order,
            shuffle,
            random: Random::new(seed),
            position: 0,
            value: vec![0; value_bytes],
        }
    }

    /// Other values for the same rows.
    pub(crate) fn reseed_values(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    pub(crate) fn next(&mut self) -> Option<(Key, &[u8])> {
        if self.position == self.keys.count() {
            return None;
        }
        let number = match self.order {
            Order::Sorted => self.position,
            Order::Random => self.shuffle.at(self.position),
        };
        self.position += 1;
        self.random.fill_value(&mut self.value);
        Some((self.keys.key(number), &self.value))
    }

    /// Up to `limit` rows, so that an engine can load them in one transaction; fewer only at the end.
    pub(crate) fn next_batch(&mut self, limit: usize) -> Vec<Row> {
        let mut batch = Vec::new();
        while batch.len() < limit {
            let Some((key, value)) = self.next() else { break };
            batch.push(Row { key, value: value.to_vec() });
        }
        batch
    }
}

/// One row of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) value: Vec<u8>,
}

/// Random puts without end: one stream a thread.
#[derive(Debug)]
pub(crate) struct PutStream {
    keys: KeySpace,
    random: Random,
    value: Vec<u8>,
}

impl PutStream {
    pub(crate) fn new(keys: KeySpace, value_bytes: usize, seed: u64) -> PutStream {
        PutStream { keys, random: Random::new(seed), value: vec![0; value_bytes] }
    }

    pub(crate) fn next(&mut self) -> (Key, &[u8]) {
        let key = self.keys.random_key(&mut self.random);
        self.random.fill_value(&mut self.value);
        (key, &self.value)
    }

    /// Refills `batch`, which keeps its memory.
    pub(crate) fn fill(&mut self, batch: &mut [Row]) {
        for row in batch {
            row.key = self.keys.random_key(&mut self.random);
            row.value.resize(self.value.len(), 0);
            self.random.fill_value(&mut row.value);
        }
    }
}

/// `count` rows for [`PutStream::fill`].
pub(crate) fn empty_batch(count: usize) -> Vec<Row> {
    vec![Row { key: Key::default(), value: Vec::new() }; count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_increase_with_their_number() {
        for count in [1, 2, 10, 1000] {
            let keys = KeySpace::new(count);
            let all: Vec<Key> = (0..count).map(|number| keys.key(number)).collect();
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "count {count}");
        }
    }

    #[test]
    fn both_orders_give_the_same_keys_once() {
        let read = |order| {
            let mut source = RowSource::new(KeySpace::new(500), 100, order, 5);
            let mut keys = Vec::new();
            while let Some((key, value)) = source.next() {
                assert_eq!(value.len(), 100);
                keys.push(key);
            }
            keys
        };
        let (sorted, mut random) = (read(Order::Sorted), read(Order::Random));
        assert!(sorted.is_sorted());
        assert!(!random.is_sorted());
        random.sort_unstable();
        assert_eq!(sorted, random);
    }

    #[test]
    fn batches_end_with_the_rows() {
        let mut source = RowSource::new(KeySpace::new(250), 10, Order::Sorted, 5);
        let sizes: Vec<usize> = (0..4).map(|_| source.next_batch(100).len()).collect();
        assert_eq!(sizes, [100, 100, 50, 0]);
    }

    #[test]
    fn streams_of_two_seeds_differ_and_of_one_seed_do_not() {
        let stream = |seed| {
            let mut stream = PutStream::new(KeySpace::new(1_000_000), 100, seed);
            (0..10).map(|_| stream.next().0).collect::<Vec<_>>()
        };
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }
}
