//! The filter of a run: most lookups of rows that the run does not have end here, without a page being read.
//!
//! ```text
//!   row keys:   [ segment 0         | segment 1         | segment 2   ]    each from its separator up to the next one
//!   segment:    block | block | ...                                        a row sets six bits of one block
//! ```
//! A filter is a list of segments by key, so that it shrinks with its run: where rows are cut out of the run, their segments go, too. A
//! segment is a row of the filter's table (see `run`). Its key is the table's id and the separator at which the segment begins, the empty
//! key for the first one. A segment has the rows from there up to the next separator. Value, always inline, integers little-endian:
//!
//! | offset | bytes | field   | meaning                                                                        |
//! |-------:|------:|---------|--------------------------------------------------------------------------------|
//! |      0 |     1 | version | 1; another one is refused                                                      |
//! |      1 |     1 | probes  | 6, bits of a row; another number is refused                                    |
//! |      2 |     2 | blocks  | n, at least 1, and as many as an inline value has room for                     |
//! |      4 |  64 n | bits    | blocks of 512 bits: bit b is bit b % 64 of word b / 64, words of eight bytes   |
//!
//! A row's hash h is the CRC-64/NVME of its row key, mixed by the finalizer of `SplitMix64` (codec, `checksum::mixed`). Its block is
//! `((h >> 32) * n) >> 32`. Its bits there are the six lowest groups of nine bits of h mixed once more. With ten bits a row, about one
//! in a hundred rows that are not there passes.
//!
//! Blocks as in Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (JEA 2009): a lookup touches one cache line.

use std::ops::Range;
use std::sync::Arc;

use seawall_codec::bytes::{u16_at, u64_at};
use seawall_codec::checksum::{Crc64, mixed};
use seawall_tree::page::{LeafValue, RowKey, shortest_separator};
use seawall_tree::{LeafCursor, Tree};
use seawall_types::TableId;

use crate::error::Error;
use crate::row_key;

const SEGMENT_VERSION: u8 = 1;
const PROBES: u8 = 6;
const HEADER_BYTES: usize = 4;
const BLOCK_BYTES: usize = 64;
const BLOCK_BITS: u64 = 512;
const BLOCK_WORDS: usize = BLOCK_BYTES / 8;
/// Bits of a number that choose one of a block.
const PROBE_BITS: u32 = BLOCK_BITS.ilog2();
const _: () = assert!(PROBE_BITS * (PROBES as u32) <= u64::BITS);

/// The hash by which filters know a row.
pub(crate) fn row_hash(row_key: &[u8]) -> u64 {
    let mut checksum = Crc64::new();
    checksum.update(row_key);
    mixed(checksum.finish())
}

/// The bits of some rows that lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// Blocks of `BLOCK_WORDS` words.
    words: Box<[u64]>,
}

impl Segment {
    /// The word and the bit in it of each probe.
    fn probes(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let blocks = (self.words.len() / BLOCK_WORDS) as u64;
        let block =
            usize::try_from(((hash >> 32) * blocks) >> 32).expect("a block is one of those in memory");
        let bits = mixed(hash);
        (0..u32::from(PROBES)).map(move |probe| {
            let bit = (bits >> (probe * PROBE_BITS)) % BLOCK_BITS;
            let word = usize::try_from(bit / 64).expect("a block has eight words");
            (block * BLOCK_WORDS + word, 1 << (bit % 64))
        })
    }

    fn may_contain(&self, hash: u64) -> bool {
        self.probes(hash).all(|(word, bit)| self.words[word] & bit != 0)
    }

    /// What is wrong with it, if it does not decode.
    fn decode(value: &[u8]) -> Result<Segment, &'static str> {
        let (header, bits) =
            value.split_at_checked(HEADER_BYTES).ok_or("a segment of its filter is too short")?;
        if header[0] != SEGMENT_VERSION {
            return Err("a segment of its filter has an unknown version");
        }
        if header[1] != PROBES {
            return Err("a segment of its filter has an unknown number of probes");
        }
        let blocks = usize::from(u16_at(header, 2));
        if blocks == 0 || bits.len() != blocks * BLOCK_BYTES {
            return Err("a segment of its filter has not the length that it says");
        }
        Ok(Segment { words: (0..blocks * BLOCK_WORDS).map(|word| u64_at(bits, word * 8)).collect() })
    }
}

impl Segment {
    fn new(blocks: usize) -> Segment {
        Segment { words: vec![0; blocks * BLOCK_WORDS].into() }
    }

    fn insert(&mut self, hash: u64) {
        for (word, bit) in self.probes(hash) {
            self.words[word] |= bit;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let blocks = u16::try_from(self.words.len() / BLOCK_WORDS).expect("a value in a leaf has few blocks");
        let mut value = vec![SEGMENT_VERSION, PROBES];
        value.extend_from_slice(&blocks.to_le_bytes());
        value.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        value
    }
}

/// The filter of a run, in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Where each segment begins, ascending.
    separators: Vec<Box<[u8]>>,
    segments: Vec<Arc<Segment>>,
}

impl Filter {
    /// Whether the run can have the row. `hash` is that of the row key.
    pub(crate) fn may_contain(&self, row_key: &[u8], hash: u64) -> bool {
        let above = self.separators.partition_point(|separator| **separator <= *row_key);
        // Where no segment is, nothing says that there are no rows.
        above.checked_sub(1).is_none_or(|index| self.segments[index].may_contain(hash))
    }

    /// Adds a segment that begins behind the others.
    pub(crate) fn add(&mut self, segment: BuiltSegment) {
        let decoded = Segment::decode(&segment.value).expect("a segment that was just built decodes");
        self.segments.push(Arc::new(decoded));
        self.separators.push(segment.separator.into());
    }

    /// The filter of what is left of the run when no row is in the segments that begin in `gone`. What lies there is then asked of the segment
    /// before, and whatever that says is right.
    pub(crate) fn without(&self, gone: &[Range<Vec<u8>>]) -> Filter {
        let is_left = |separator: &[u8]| {
            gone.iter().all(|range| !(range.start[..] <= *separator && *separator < range.end[..]))
        };
        let all = self.separators.iter().zip(&self.segments);
        let left = all.filter(|(separator, _)| is_left(separator));
        let (separators, segments) =
            left.map(|(separator, segment)| (separator.clone(), Arc::clone(segment))).unzip();
        Filter { separators, segments }
    }

    /// Rows of the tree that it was read from.
    pub(crate) fn segment_count(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists = size_of_val(&self.separators[..]) + size_of_val(&self.segments[..]);
        let separators: usize = self.separators.iter().map(|separator| separator.len()).sum();
        let segments: usize =
            self.segments.iter().map(|segment| size_of::<Segment>() + size_of_val(&*segment.words)).sum();
        lists + separators + segments
    }

    /// Reads the segments in `table`; `None` if `goes_on` says before the end that the caller has no use for it.
    ///
    /// # Errors
    /// `Catalog` if a segment does not decode, `Tree` if one cannot be read.
    pub(crate) fn read(
        tree: &Tree,
        table: TableId,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<Filter>, Error> {
        let failed = |error| Error::tree(&error);
        let (from, to) = row_key::table_range(table);
        let mut filter = Filter::default();
        let mut cursor = LeafCursor::seek(tree.pages(), &from).map_err(failed)?;
        while let Some(row) = cursor.row() {
            let key = row.key.to_vec();
            if key >= to {
                break;
            }
            if !goes_on() {
                return Ok(None);
            }
            let segment = match row.value {
                LeafValue::Inline(value) => Segment::decode(value),
                LeafValue::Overflow(_) | LeafValue::Deleted => {
                    Err("a segment of its filter has no value in a leaf")
                }
            };
            let refuse = |problem| Error::Catalog { place: format!("the filter in table {table}"), problem };
            filter.segments.push(Arc::new(segment.map_err(refuse)?));
            filter.separators.push(row_key::key_of(&key).into());
            cursor.advance(tree.pages()).map_err(failed)?;
        }
        Ok(Some(filter))
    }
}

/// A segment that is ready to be written: a row of the filter's table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BuiltSegment {
    /// Where it begins: what follows the table's id in its key.
    pub(crate) separator: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Builds the segments of a run whose rows are pushed in order.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    bits_per_row: u64,
    /// Rows of a segment that is full.
    segment_rows: usize,
    /// Where the segment under way begins.
    separator: Vec<u8>,
    /// Of its rows.
    hashes: Vec<u64>,
    last_key: Vec<u8>,
}

impl FilterBuilder {
    /// `inline_bytes_max` is the length of the longest value that a leaf holds inline.
    ///
    /// # Panics
    /// If there are no bits for a row.
    pub(crate) fn new(bits_per_row: u16, inline_bytes_max: usize) -> FilterBuilder {
        FilterBuilder::from_key(Vec::new(), bits_per_row, inline_bytes_max)
    }

    /// As `new`, for the rows of a run from a row key on.
    ///
    /// # Panics
    /// As `new`.
    pub(crate) fn from_key(from: Vec<u8>, bits_per_row: u16, inline_bytes_max: usize) -> FilterBuilder {
        assert!(bits_per_row > 0, "a filter without bits");
        let blocks = (inline_bytes_max - HEADER_BYTES) / BLOCK_BYTES;
        let bits = blocks as u64 * BLOCK_BITS;
        FilterBuilder {
            bits_per_row: u64::from(bits_per_row),
            segment_rows: usize::try_from(bits / u64::from(bits_per_row))
                .expect("a page has few bits")
                .max(1),
            separator: from,
            hashes: Vec::new(),
            last_key: Vec::new(),
        }
    }

    /// Takes in a row, whose key is greater than the one before. Gives the segment that ended before it, if one did.
    pub(crate) fn push(&mut self, row_key: &[u8]) -> Option<BuiltSegment> {
        let full = (self.hashes.len() == self.segment_rows).then(|| {
            let separator = shortest_separator(&RowKey::from(&self.last_key[..]), &RowKey::from(row_key));
            let segment = self.take_segment();
            self.separator = separator;
            segment
        });
        self.hashes.push(row_hash(row_key));
        self.last_key.clear();
        self.last_key.extend_from_slice(row_key);
        full
    }

    /// The last segment; `None` if there was no row.
    pub(crate) fn finish(mut self) -> Option<BuiltSegment> {
        (!self.hashes.is_empty()).then(|| self.take_segment())
    }

    fn take_segment(&mut self) -> BuiltSegment {
        let bits = self.hashes.len() as u64 * self.bits_per_row;
        let mut segment =
            Segment::new(usize::try_from(bits.div_ceil(BLOCK_BITS)).expect("a segment has few blocks"));
        self.hashes.drain(..).for_each(|hash| segment.insert(hash));
        BuiltSegment { separator: std::mem::take(&mut self.separator), value: segment.encode() }
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::{SeededRandom, seeds};

    use super::*;

    /// What a leaf of 4 KiB holds inline.
    const INLINE_BYTES: usize = 1024;

    fn built(bits_per_row: u16, keys: &[Vec<u8>]) -> (Filter, Vec<BuiltSegment>) {
        let mut builder = FilterBuilder::new(bits_per_row, INLINE_BYTES);
        let mut segments: Vec<BuiltSegment> = keys.iter().filter_map(|key| builder.push(key)).collect();
        segments.extend(builder.finish());
        let filter = Filter {
            separators: segments.iter().map(|segment| segment.separator.clone().into()).collect(),
            segments: segments
                .iter()
                .map(|segment| Arc::new(Segment::decode(&segment.value).unwrap()))
                .collect(),
        };
        (filter, segments)
    }

    /// Keys of a few tables: some alike, some not, some of which one begins with another.
    fn keys_of(random: &mut SeededRandom, count: u64) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = (0..count)
            .map(|number| {
                let table = (64 + random.below(3)).to_be_bytes();
                let length = usize::try_from(random.below(40)).unwrap();
                let key = match random.below(3) {
                    0 => number.to_be_bytes().to_vec(),
                    1 => random.bytes(length),
                    _ => vec![b'k'; length],
                };
                [&table[..], &key].concat()
            })
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn every_row_that_went_in_passes() {
        for seed in seeds(20) {
            let mut random = SeededRandom::new(seed);
            let count = [1, 2, 40, 1_000, 5_000][usize::try_from(random.below(5)).unwrap()];
            let keys = keys_of(&mut random, count);
            let bits = [1, 4, 10, 64][usize::try_from(random.below(4)).unwrap()];
            let (filter, segments) = built(bits, &keys);
            for key in &keys {
                assert!(filter.may_contain(key, row_hash(key)), "seed {seed}: {key:02x?}");
            }
            for segment in &segments {
                assert!(segment.value.len() <= INLINE_BYTES, "seed {seed}");
                let longest = keys.iter().map(Vec::len).max().unwrap();
                assert!(segment.separator.len() <= longest, "seed {seed}: a separator longer than a key");
            }
            assert!(segments.is_sorted_by(|left, right| left.separator < right.separator), "seed {seed}");
            assert!(segments[0].separator.is_empty());
        }
    }

    #[test]
    fn about_one_in_a_hundred_rows_that_are_not_there_passes() {
        let key = |number: u64| [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
        // Every other number, so that those between are in the midst of the segments.
        let keys: Vec<Vec<u8>> = (0..100_000).map(|number| key(2 * number)).collect();
        let (filter, segments) = built(10, &keys);
        assert!(segments.len() > 100, "{}", segments.len());
        let absent = (0..100_000).map(|number| key(2 * number + 1));
        let passed = absent.filter(|key| filter.may_contain(key, row_hash(key))).count();
        assert!((400..1_500).contains(&passed), "{passed} of 100,000");
        // 1.25 bytes a row, and little besides.
        assert!((125_000..145_000).contains(&filter.bytes()), "{}", filter.bytes());
    }

    #[test]
    fn where_a_segment_is_missing_its_rows_may_be_there() {
        let keys: Vec<Vec<u8>> =
            (0..5_000_u64).map(|number| [64_u64.to_be_bytes(), number.to_be_bytes()].concat()).collect();
        let (mut filter, _) = built(10, &keys);
        filter.separators.remove(0);
        filter.segments.remove(0);
        let first = filter.separators[0].clone();
        let absent = |key: &[u8]| [key, &[1, 2, 3]].concat();
        let below = keys.iter().filter(|key| ***key < *first).map(|key| absent(key));
        assert!(below.into_iter().all(|key| filter.may_contain(&key, row_hash(&key))));
    }

    #[test]
    fn segments_that_are_gone_take_no_other_rows_along() {
        let key = |number: u64| [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
        let keys: Vec<Vec<u8>> = (0..20_000).map(key).collect();
        let (filter, segments) = built(10, &keys);
        let border = |index: usize| segments[index].separator.clone();
        let left = filter.without(&[border(3)..border(7), border(9)..border(10)]);
        assert_eq!(left.segment_count(), filter.segment_count() - 5);
        assert!(left.bytes() < filter.bytes());
        for key in &keys {
            let is_gone = (border(3) <= *key && *key < border(7)) || (border(9) <= *key && *key < border(10));
            assert!(is_gone || left.may_contain(key, row_hash(key)));
        }
    }

    /// Found on disk: it must not change.
    #[test]
    fn the_bytes_of_a_segment_are_what_they_were() {
        let keys: Vec<Vec<u8>> = (0..3_u64).map(|number| number.to_be_bytes().to_vec()).collect();
        let (_, segments) = built(10, &keys);
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].value.len(), HEADER_BYTES + BLOCK_BYTES);
        assert_eq!(segments[0].value[..4], [1, 6, 1, 0]);
        let set: Vec<usize> =
            (0..512).filter(|bit| segments[0].value[4 + bit / 8] & (1 << (bit % 8)) != 0).collect();
        let mut expected: Vec<usize> = keys
            .iter()
            .flat_map(|key| {
                let bits = mixed(row_hash(key));
                (0..6).map(move |probe| usize::try_from(bits >> (9 * probe) & 511).unwrap())
            })
            .collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(set, expected);
    }

    #[test]
    fn segments_that_do_not_decode_are_refused() {
        let (_, segments) = built(10, &[b"12345678key".to_vec()]);
        let value = &segments[0].value;
        assert!(Segment::decode(value).is_ok());
        for length in 0..value.len() {
            assert!(Segment::decode(&value[..length]).is_err(), "{length} bytes");
        }
        assert!(Segment::decode(&[&value[..], &[0]].concat()).is_err());
        for (offset, byte) in [(0, 0), (0, 2), (1, 5), (2, 0), (2, 2), (3, 1)] {
            let mut changed = value.clone();
            changed[offset] = byte;
            assert!(Segment::decode(&changed).is_err(), "offset {offset}");
        }
    }
}
