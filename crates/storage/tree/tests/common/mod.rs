//! What the tests of the tree share: a source of changes, a model, and a check of one against the other.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod image_log;
pub(crate) mod runs;

use std::collections::BTreeMap;
use std::ops::Range;

use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};
use seawall_tree::{
    Change, CheckSummary, DivisibleSource, Encryption, ImageCompression, LeafCursor, MergeSource,
    PageProtection, Superblock, Tree, TreeAccess, TreeError, TreeMarks, TreeOptions, page::LeafValue,
};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(crate) const STAMP: Lsn = Lsn::new(77);

pub(crate) fn superblock(page_bytes: u32) -> Superblock {
    Superblock {
        sequence: 0,
        database: DatabaseId::from_bytes([9; 16]),
        page_bytes,
        timeline: TimelineId::FIRST,
        timeline_mark: TimelineMark::NONE,
        segment_bytes: 1 << 20,
        redo_point: Lsn::new(1),
        checkpoint_count: 0,
        completed_chunk: 0,
        next_table: TableId::new(1),
        page_count: 0,
        created_micros: 0,
        protection: PageProtection::RecoveryFile,
        encryption: Encryption::None,
        in_doubt: 0,
        log_end: Lsn::ZERO,
        marks: TreeMarks::default(),
        next_run: 0,
        run_count: 0,
    }
}

pub(crate) fn options() -> TreeOptions {
    // A cache of a few pages, so that most reads go to the file.
    TreeOptions {
        cache_bytes: 64 << 10,
        compression: ImageCompression::Lz4,
        recovery_file_bytes: 1 << 20,
        ..TreeOptions::default()
    }
}

pub(crate) fn create(disk: &SimulatedDisk, page_bytes: u32) -> Tree {
    create_with(disk, page_bytes, 1)
}

/// A tree whose chunks are built by so many threads.
pub(crate) fn create_with(disk: &SimulatedDisk, page_bytes: u32, threads: usize) -> Tree {
    Tree::create(disk, &superblock(page_bytes), TreeOptions { threads, ..options() }).unwrap()
}

pub(crate) fn open(disk: &SimulatedDisk) -> Tree {
    open_with(disk, 1)
}

pub(crate) fn open_with(disk: &SimulatedDisk, threads: usize) -> Tree {
    Tree::open(disk, TreeAccess::Write, TreeOptions { threads, ..options() }).unwrap().tree
}

/// Changes in order, and a note of every value they replaced.
pub(crate) struct Source {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    next: usize,
    pub(crate) keep: bool,
    pub(crate) replaced: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Source {
    pub(crate) fn new(changes: &Changes) -> Source {
        let changes = changes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Source { changes, next: 0, keep: false, replaced: Vec::new() }
    }

    /// Changes taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.next
    }
}

impl MergeSource for Source {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        let (key, value) = self.changes.get(self.next)?;
        Some((key, value.as_deref().map_or(Change::Delete, Change::Put)))
    }

    fn advance(&mut self) {
        self.next += 1;
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        let _stopped_at = self.changes[self.next..].iter().find(|(key, _)| !visit(key));
    }

    fn keep_replaced(&self) -> bool {
        self.keep
    }

    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.replaced.push((key.to_vec(), value.map(<[u8]>::to_vec)));
    }
}

impl DivisibleSource for Source {
    fn dividing_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let left = &self.changes[self.next..];
        let parts = parts.min(left.len());
        (1..parts).map(|part| left[part * left.len() / parts].0.clone()).collect()
    }

    fn split_off(&mut self, key: &[u8]) -> Source {
        assert!(
            self.peek().is_some_and(|(next, _)| next < key),
            "a part begins among what was taken, or before"
        );
        let at = self.changes.partition_point(|(other, _)| &other[..] < key);
        let changes = self.changes.split_off(at);
        Source { changes, next: 0, keep: self.keep, replaced: Vec::new() }
    }
}

/// Merges all changes, chunk by chunk; returns how many chunks it took.
pub(crate) fn merge(tree: &Tree, changes: &Changes, budget_bytes: u64) -> Result<u64, TreeError> {
    merge_all(tree, Source::new(changes), budget_bytes).map(|(chunks, _)| chunks)
}

/// As `merge`; returns the parts into which the source was divided, too.
pub(crate) fn merge_all(
    tree: &Tree,
    source: Source,
    budget_bytes: u64,
) -> Result<(u64, Vec<Source>), TreeError> {
    let mut merge = tree.begin_merge(source)?;
    let mut chunks = 0;
    let taken = |parts: &[Source]| parts.iter().map(|part| part.next).sum::<usize>();
    while !merge.is_done() {
        let before = taken(merge.parts());
        let plan = tree.continue_merge(&mut merge, budget_bytes, STAMP)?;
        let taken = taken(merge.parts()) - before;
        assert!(taken > 0, "a chunk took no change");
        assert_eq!(plan.statistics().changes, taken as u64);
        tree.apply_chunk(plan, None)?;
        chunks += 1;
    }
    Ok((chunks, merge.into_parts()))
}

pub(crate) fn cut(tree: &Tree, from: &[u8], to: &[u8], freed_pages_max: u64) -> Result<u64, TreeError> {
    cut_ranges(tree, vec![from.to_vec()..to.to_vec()], freed_pages_max, u64::MAX)
}

/// Cuts, chunk by chunk; returns how many chunks it took.
pub(crate) fn cut_ranges(
    tree: &Tree,
    mut ranges: Vec<Range<Vec<u8>>>,
    freed_pages_max: u64,
    budget_bytes: u64,
) -> Result<u64, TreeError> {
    let mut chunks = 0;
    while chunks == 0 || !ranges.is_empty() {
        let plan = tree.cut(&ranges, freed_pages_max, budget_bytes, STAMP)?;
        tree.apply_chunk(plan.chunk, None)?;
        assert!(plan.rest.is_empty() || plan.rest != ranges, "a chunk got no further");
        ranges = plan.rest;
        chunks += 1;
    }
    Ok(chunks)
}

pub(crate) fn apply_to(model: &mut Model, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

pub(crate) fn cut_model(model: &mut Model, from: &[u8], to: &[u8]) {
    model.retain(|key, _| key.as_slice() < from || key.as_slice() >= to);
}

/// The tree's pages are all right and accounted for.
pub(crate) fn check(tree: &Tree) -> CheckSummary {
    let mut damages = Vec::new();
    let summary = tree.check(&mut |damage| damages.push(damage), &mut |_, _| ());
    assert!(damages.is_empty(), "{damages:#?}");
    summary
}

/// All rows, by a forward scan; those that are deleted have no value.
pub(crate) fn contents(tree: &Tree) -> Changes {
    let pages = tree.pages();
    let mut cursor = LeafCursor::seek(pages, &[]).unwrap();
    let mut rows = Changes::new();
    while let Some(row) = cursor.row() {
        let value = match row.value {
            LeafValue::Inline(value) => Some(value.to_vec()),
            LeafValue::Overflow(reference) => {
                let read = tree.read_overflow(reference, cursor.position().version());
                Some(read.unwrap().expect("nobody writes"))
            }
            LeafValue::Deleted => None,
        };
        assert!(rows.insert(row.key.to_vec(), value).is_none());
        cursor.advance(pages).unwrap();
    }
    rows
}

/// All rows of a tree without runs.
pub(crate) fn rows(tree: &Tree) -> Model {
    contents(tree).into_iter().map(|(key, value)| (key, value.expect("no row is deleted"))).collect()
}

/// As `assert_holds`, of a tree with runs.
pub(crate) fn assert_contains(tree: &Tree, expected: &Changes, context: &str) -> CheckSummary {
    let summary = check(tree);
    assert_eq!(summary.rows, expected.len() as u64, "{context}");
    let found = contents(tree);
    if found != *expected {
        for (key, value) in expected {
            let lengths = |value: Option<&Option<Vec<u8>>>| value.map(|value| value.as_ref().map(Vec::len));
            assert_eq!(lengths(found.get(key)), lengths(Some(value)), "{context}: {}", key.escape_ascii());
        }
        panic!("{context}: rows differ");
    }
    summary
}

pub(crate) fn assert_holds(tree: &Tree, model: &Model, context: &str) -> CheckSummary {
    let summary = check(tree);
    assert_eq!(summary.rows, model.len() as u64, "{context}");
    let found = rows(tree);
    if found != *model {
        for (key, value) in model {
            assert_eq!(found.get(key).map(Vec::len), Some(value.len()), "{context}: {}", key.escape_ascii());
        }
        panic!("{context}: rows differ");
    }
    for (key, value) in model.iter().step_by(17) {
        assert_eq!(tree.get(key).unwrap().as_ref(), Some(value), "{context}");
    }
    summary
}

/// Keys with much in common, some long; short, long and very long values.
pub(crate) struct Workload {
    pub(crate) random: SeededRandom,
    pub(crate) key_space: u64,
    pub(crate) long_keys: bool,
    pub(crate) max_key_bytes: usize,
}

impl Workload {
    pub(crate) fn key(&mut self) -> Vec<u8> {
        let table = self.random.below(3);
        let number = self.random.below(self.key_space);
        let mut key = table.to_be_bytes().to_vec();
        key.extend_from_slice(&number.to_be_bytes()[4..]);
        if self.long_keys && number.is_multiple_of(11) {
            key.resize(self.max_key_bytes - usize::try_from(number % 7).unwrap(), b'x');
            if number.is_multiple_of(2) {
                // Differ at the very end, so that separators are long too.
                key[11] = 0;
                let last = key.len() - 8;
                key[last..].copy_from_slice(&number.to_be_bytes());
            }
        }
        key
    }

    pub(crate) fn value(&mut self) -> Vec<u8> {
        let bytes = match self.random.below(40) {
            0 => self.random.below(3_000),
            1 => 1_000 + self.random.below(100),
            2 => self.random.below(60_000),
            3 => 0,
            _ => self.random.below(200),
        };
        let byte = u8::try_from(self.random.below(256)).unwrap();
        vec![byte; usize::try_from(bytes).unwrap()]
    }

    pub(crate) fn changes(&mut self, count: u64, deletes_of_10: u64) -> Changes {
        let mut changes = Changes::new();
        for _ in 0..count {
            let key = self.key();
            let value = (!self.random.chance(deletes_of_10, 10)).then(|| self.value());
            changes.insert(key, value);
        }
        changes
    }
}

pub(crate) fn outcomes(seed: u64) -> [PowerLoss; 4] {
    [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(seed), PowerLoss::Random(seed + 1_000_000)]
}

/// Runs `step` with power lost at each of its calls; hands every disk that can result to `judge`.
pub(crate) fn lose_power_everywhere(
    disk: &SimulatedDisk,
    step: impl Fn(&SimulatedDisk),
    judge: impl Fn(SimulatedDisk, bool, &str),
) {
    let whole = disk.copy();
    let before = whole.calls();
    step(&whole);
    let calls = whole.calls() - before;
    assert!(calls > 0);
    for call in 0..=calls {
        let crashed = disk.copy();
        crashed.crash_at(crashed.calls() + call);
        step(&crashed);
        for outcome in outcomes(call) {
            judge(
                crashed.after_power_loss(outcome),
                call == calls,
                &format!("call {call} of {calls}, {outcome:?}"),
            );
        }
    }
}
