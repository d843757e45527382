//! The bytes of one simulated file, sparse and shared.
//!
//! ```text
//!   Content: group 0 --> Arc<Group> of 64 blocks --> hole | zeros | Arc of 4096 bytes
//!            group 3 --> ...        (groups 1 and 2 are holes)
//! ```
//! A clone costs one reference per 256 KiB; a write copies one group of references and the blocks it touches.
//! Invariant: every byte at or past `length` reads as zero, so that extending needs no work.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// The unit of allocation; `capacity` is counted in these.
pub(super) const BLOCK_BYTES: u64 = 4096;
pub(super) const BLOCK_LENGTH: usize = 4096;
const GROUP_BLOCKS: usize = 64;
const GROUP_BYTES: u64 = BLOCK_BYTES * GROUP_BLOCKS as u64;

#[derive(Clone, Debug)]
enum Block {
    /// Not allocated.
    Hole,
    /// Allocated, never written but with zeros.
    Zeros,
    Data(Arc<[u8; BLOCK_LENGTH]>),
}

impl Block {
    fn is_allocated(&self) -> bool {
        !matches!(self, Block::Hole)
    }
}

#[derive(Clone, Debug)]
struct Group {
    blocks: [Block; GROUP_BLOCKS],
}

impl Group {
    fn of(block: &Block) -> Group {
        Group { blocks: std::array::from_fn(|_| block.clone()) }
    }

    fn allocated(&self) -> u64 {
        self.blocks.iter().filter(|block| block.is_allocated()).count() as u64
    }
}

/// 256 KiB of allocated zeros, shared by all files that were filled.
static ZEROS: LazyLock<Arc<Group>> = LazyLock::new(|| Arc::new(Group::of(&Block::Zeros)));

/// What a cleared range becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clear {
    ToZeros,
    ToHole,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    groups: BTreeMap<u64, Arc<Group>>,
    length: u64,
    allocated_blocks: u64,
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated_blocks * BLOCK_BYTES
    }

    /// The bytes from `offset` on; zeros past the end.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) {
        let mut rest = buffer;
        for piece in pieces(offset..offset + rest.len() as u64) {
            let (target, others) = rest.split_at_mut(piece.inside.len());
            match self.groups.get(&piece.group).map(|group| &group.blocks[piece.block]) {
                Some(Block::Data(bytes)) => target.copy_from_slice(&bytes[piece.inside]),
                Some(Block::Zeros | Block::Hole) | None => target.fill(0),
            }
            rest = others;
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.length).expect("a test's file fits into memory")];
        self.read(&mut bytes, 0);
        bytes
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut rest = bytes;
        for piece in pieces(offset..offset + bytes.len() as u64) {
            let (source, others) = rest.split_at(piece.inside.len());
            let block = self.block_mut(piece.group, piece.block);
            let newly_allocated = !block.is_allocated();
            let target = match block {
                Block::Data(target) => Arc::make_mut(target),
                Block::Hole | Block::Zeros => {
                    *block = Block::Data(Arc::new([0; BLOCK_LENGTH]));
                    let Block::Data(target) = block else { unreachable!("set in the line above") };
                    Arc::make_mut(target)
                }
            };
            target[piece.inside].copy_from_slice(source);
            self.allocated_blocks += u64::from(newly_allocated);
            rest = others;
        }
        if !bytes.is_empty() {
            self.length = self.length.max(offset + bytes.len() as u64);
        }
    }

    fn block_mut(&mut self, group: u64, block: usize) -> &mut Block {
        let group = self.groups.entry(group).or_insert_with(|| Arc::new(Group::of(&Block::Hole)));
        &mut Arc::make_mut(group).blocks[block]
    }

    /// Makes `range` read as zeros. Zeros extend the file, a hole does not.
    pub(super) fn clear(&mut self, range: Range<u64>, clear: Clear) {
        let mut start = range.start;
        while start < range.end {
            let group = start / GROUP_BYTES;
            let end = range.end.min((group + 1) * GROUP_BYTES);
            if end - start == GROUP_BYTES {
                self.replace_group(group, clear);
            } else if clear == Clear::ToZeros || self.groups.contains_key(&group) {
                pieces(start..end).for_each(|piece| self.clear_piece(piece, clear));
            }
            start = end;
        }
        if clear == Clear::ToZeros && !range.is_empty() {
            self.length = self.length.max(range.end);
        }
    }

    fn replace_group(&mut self, group: u64, clear: Clear) {
        let old = match clear {
            Clear::ToZeros => {
                self.allocated_blocks += GROUP_BLOCKS as u64;
                self.groups.insert(group, ZEROS.clone())
            }
            Clear::ToHole => self.groups.remove(&group),
        };
        self.allocated_blocks -= old.map_or(0, |old| old.allocated());
    }

    fn clear_piece(&mut self, piece: Piece, clear: Clear) {
        let whole = piece.inside.len() == BLOCK_LENGTH;
        let block = self.block_mut(piece.group, piece.block);
        let was_allocated = block.is_allocated();
        match (clear, &mut *block) {
            (Clear::ToHole, block) if whole => *block = Block::Hole,
            (Clear::ToZeros, block) if whole => *block = Block::Zeros,
            (Clear::ToZeros, block @ Block::Hole) => *block = Block::Zeros,
            (_, Block::Data(bytes)) => Arc::make_mut(bytes)[piece.inside].fill(0),
            (_, Block::Hole | Block::Zeros) => {}
        }
        let is_allocated = block.is_allocated();
        self.allocated_blocks += u64::from(is_allocated);
        self.allocated_blocks -= u64::from(was_allocated);
    }

    /// Cuts or extends with a hole.
    pub(super) fn set_length(&mut self, bytes: u64) {
        if bytes < self.length {
            let first_whole = bytes.div_ceil(GROUP_BYTES);
            let cut = self.groups.split_off(&first_whole);
            self.allocated_blocks -= cut.values().map(|group| group.allocated()).sum::<u64>();
            self.clear(bytes..first_whole * GROUP_BYTES, Clear::ToHole);
        }
        self.length = bytes;
    }

    /// How many blocks of `range` would have to be allocated for a write there.
    pub(super) fn missing_blocks(&self, range: Range<u64>) -> u64 {
        let missing = |piece: &Piece| {
            !self.groups.get(&piece.group).is_some_and(|group| group.blocks[piece.block].is_allocated())
        };
        pieces(range).filter(missing).count() as u64
    }
}

/// The part of a range that lies in one block.
struct Piece {
    group: u64,
    block: usize,
    inside: Range<usize>,
}

fn pieces(range: Range<u64>) -> impl Iterator<Item = Piece> {
    let small = |number: u64| usize::try_from(number).expect("it is at most a block");
    let first = range.start / BLOCK_BYTES;
    let end = if range.is_empty() { first } else { range.end.div_ceil(BLOCK_BYTES) };
    (first..end).map(move |block| {
        let base = block * BLOCK_BYTES;
        let inside = small(range.start.max(base) - base)..small(range.end.min(base + BLOCK_BYTES) - base);
        Piece { group: block / GROUP_BLOCKS as u64, block: small(block % GROUP_BLOCKS as u64), inside }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SeededRandom, seeds};

    /// Every operation on a plain vector, with the allocated blocks as a set.
    #[test]
    fn content_equals_a_plain_vector() {
        for seed in seeds(100) {
            let mut random = SeededRandom::new(seed);
            let mut content = Content::default();
            let mut model: Vec<u8> = Vec::new();
            for step in 0..60 {
                let scale = *random.pick(&[600, 9000, 700_000]);
                let (offset, bytes) = (random.below(scale), random.below(scale));
                let (start, end) =
                    (usize::try_from(offset).unwrap(), usize::try_from(offset + bytes).unwrap());
                let kept = content.clone();
                let before = kept.to_vec();
                match random.below(4) {
                    0 => {
                        let written = random.bytes(end - start);
                        content.write(&written, offset);
                        if bytes > 0 {
                            model.resize(model.len().max(end), 0);
                            model[start..end].copy_from_slice(&written);
                        }
                    }
                    1 => {
                        content.clear(offset..offset + bytes, Clear::ToZeros);
                        if bytes > 0 {
                            model.resize(model.len().max(end), 0);
                            model[start..end].fill(0);
                        }
                        assert_eq!(content.missing_blocks(offset..offset + bytes), 0, "seed {seed}");
                    }
                    2 => {
                        content.clear(offset..offset + bytes, Clear::ToHole);
                        let end = end.min(model.len());
                        model[start.min(end)..end].fill(0);
                    }
                    _ => {
                        content.set_length(offset);
                        model.resize(start, 0);
                    }
                }
                assert!(content.to_vec() == model, "seed {seed} step {step}");
                assert!(kept.to_vec() == before, "seed {seed} step {step}: a clone changed");
                let allocated: u64 = content.groups.values().map(|group| group.allocated()).sum();
                assert_eq!(content.allocated_blocks, allocated, "seed {seed} step {step}");
            }
            content.set_length(0);
            assert_eq!(content.allocated_bytes(), 0);
        }
    }

    /// What makes thousands of disks with filled segments cheap.
    #[test]
    fn zeros_and_clones_are_shared_until_written() {
        let mut content = Content::default();
        content.clear(0..16 << 20, Clear::ToZeros);
        assert!(content.groups.values().all(|group| Arc::ptr_eq(group, &ZEROS)));
        let kept = content.clone();
        content.write(&[1; 100], 5 << 20);
        let shared = |(group, other)| Arc::ptr_eq(group, other);
        assert_eq!(
            content.groups.values().zip(kept.groups.values()).filter(|&pair| shared(pair)).count(),
            63
        );
    }

    #[test]
    fn a_hole_frees_whole_blocks_only() {
        let mut content = Content::default();
        content.write(&[1; 4 * BLOCK_LENGTH], 0);
        content.clear(100..3 * BLOCK_BYTES + 1, Clear::ToHole);
        assert_eq!(content.allocated_bytes(), 2 * BLOCK_BYTES);
        assert_eq!(content.missing_blocks(0..4 * BLOCK_BYTES), 2);
        assert_eq!(content.length(), 4 * BLOCK_BYTES);
    }
}
