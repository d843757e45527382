//! Which stretches of a backup's archive are not in the directory yet.
//!
//! ```text
//!   archive   | base/ | base/1 ........ | base/2 | base/3 ... | global/pg_control | backup_manifest | end |
//!   kept      |#######|#################|        |############|
//!   missing                             |--------|            |-------------------------------------------|
//!   parts     |              0               |             1             |              2                |
//! ```
//! An archive without some of its members is an archive, too: what reads the whole reads what is missing.

use std::iter;
use std::ops::Range;

use super::attempt::Entry;
use seawall_backup::PartInfo;

/// Stretches of an archive, in order and apart from one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    stretches: Vec<Range<u64>>,
    /// For each, how many bytes those before it have.
    read_before: Vec<u64>,
}

/// A part, and what is wanted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedPart {
    pub(super) index: usize,
    pub(super) wanted: Vec<Range<usize>>,
}

impl Missing {
    /// All of an archive but these members.
    pub(super) fn besides(kept: &[Entry], archive_bytes: u64) -> Missing {
        let mut stretches = Vec::new();
        let mut from = 0;
        let end = archive_bytes..archive_bytes;
        for range in kept.iter().map(Entry::range).chain(iter::once(end)) {
            if from < range.start {
                stretches.push(from..range.start);
            }
            from = from.max(range.end);
        }
        let before = |read: &mut u64, stretch: &Range<u64>| {
            let before = *read;
            *read += stretch.end - stretch.start;
            Some(before)
        };
        let read_before = stretches.iter().scan(0, before).collect();
        Missing { stretches, read_before }
    }

    /// Where in the archive the byte lies that comes after `read` bytes of what is missing.
    pub(super) fn position(&self, read: u64) -> u64 {
        let index = self.read_before.partition_point(|before| *before <= read).saturating_sub(1);
        self.stretches.get(index).map_or(0, |stretch| stretch.start + (read - self.read_before[index]))
    }

    /// The parts that have some of it.
    pub(super) fn parts(&self, parts: &[PartInfo]) -> Vec<WantedPart> {
        let mut wanted = Vec::new();
        let (mut start, mut next) = (0, 0);
        for (index, part) in parts.iter().enumerate() {
            let end = start + part.bytes;
            let mut of_part = Vec::new();
            while let Some(stretch) = self.stretches.get(next).filter(|stretch| stretch.start < end) {
                of_part.push(within(stretch.start.max(start) - start)..within(stretch.end.min(end) - start));
                if stretch.end > end {
                    break;
                }
                next += 1;
            }
            if !of_part.is_empty() {
                wanted.push(WantedPart { index, wanted: of_part });
            }
            start = end;
        }
        wanted
    }
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).expect("a part is an object, which fits into memory")
}

impl WantedPart {
    /// What is wanted, of the part's content.
    pub(super) fn cut(&self, content: Vec<u8>) -> Vec<u8> {
        match &self.wanted[..] {
            [all] if *all == (0..content.len()) => content,
            wanted => wanted.iter().flat_map(|range| &content[range.clone()]).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_list::FileSum;
    use super::*;
    use seawall_simulation::{SeededRandom, seeds};

    /// Members of 1 to 4 blocks, and two blocks at the end.
    fn archive(random: &mut SeededRandom) -> (Vec<Entry>, u64) {
        let mut position = 0;
        let entries = (0..random.below(12)).map(|number| {
            let bytes = random.below(1500);
            let sum = Some(FileSum { bytes, checksum: 0 });
            let entry = Entry { position, path: number.to_string(), sum };
            position = entry.range().end;
            entry
        });
        let entries: Vec<Entry> = entries.collect();
        (entries, position + 1024)
    }

    #[test]
    fn what_is_kept_and_what_is_missing_are_the_archive() {
        for seed in seeds(300) {
            let mut random = SeededRandom::new(seed);
            let (entries, archive_bytes) = archive(&mut random);
            let kept: Vec<Entry> = entries.into_iter().filter(|_| random.chance(1, 2)).collect();
            let missing = Missing::besides(&kept, archive_bytes);
            let mut is_missing = vec![true; usize::try_from(archive_bytes).unwrap()];
            for range in kept.iter().map(Entry::range) {
                is_missing[within(range.start)..within(range.end)].fill(false);
            }
            let expected: Vec<u64> =
                (0..archive_bytes).filter(|position| is_missing[within(*position)]).collect();
            // Cut into parts, it is the same bytes in the same order, and no part is fetched for nothing.
            let part_bytes = random.range(1..3000);
            let parts: Vec<PartInfo> = (0..archive_bytes.div_ceil(part_bytes))
                .map(|number| {
                    let bytes = part_bytes.min(archive_bytes - number * part_bytes);
                    PartInfo { bytes, checksum: 0 }
                })
                .collect();
            let mut found = Vec::new();
            for part in missing.parts(&parts) {
                assert!(!part.wanted.is_empty(), "seed {seed}");
                let start = part.index as u64 * part_bytes;
                for range in part.wanted {
                    assert!(!range.is_empty(), "seed {seed}");
                    found.extend(range.map(|offset| start + offset as u64));
                }
            }
            assert_eq!(found, expected, "seed {seed}");
            let positions: Vec<u64> = (0..expected.len() as u64).map(|read| missing.position(read)).collect();
            assert_eq!(positions, expected, "seed {seed}");
        }
    }

    #[test]
    fn only_what_is_wanted_of_a_part_is_read() {
        let whole = WantedPart { index: 0, wanted: iter::once(0..3).collect() };
        assert_eq!(whole.cut(vec![1, 2, 3]), [1, 2, 3]);
        let pieces = WantedPart { index: 0, wanted: vec![0..1, 2..4] };
        assert_eq!(pieces.cut(vec![1, 2, 3, 4, 5]), [1, 3, 4]);
    }
}
