//! The small, sound tree that the inputs change.

use std::sync::LazyLock;

use seawall_codec::checksum::crc32c;
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::page::PageFormat;
use seawall_tree::{
    Change, Encryption, ImageCompression, MergeSource, PAGE_FILE_PATH, PageProtection, RECOVERY_FILE_PATH,
    SUPERBLOCK_PATH, Superblock, Tree, TreeAccess, TreeError, TreeMarks, TreeOptions,
};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

use super::exercise::exercise_reads;

pub(super) const DATABASE: DatabaseId = DatabaseId::from_bytes([9; 16]);
pub(super) const STAMP: Lsn = Lsn::new(77);
pub(super) const PAGE_BYTES: usize = 4096;
/// Where the checksum of a superblock or a header lies.
pub(super) const SUPERBLOCK_CHECKSUM_AT: usize = 12;

pub(super) fn values() -> Superblock {
    Superblock {
        sequence: 0,
        database: DATABASE,
        page_bytes: 4096,
        timeline: TimelineId::FIRST,
        timeline_mark: TimelineMark::NONE,
        segment_bytes: 1 << 20,
        redo_point: Lsn::new(1),
        checkpoint_count: 0,
        completed_chunk: 0,
        next_table: TableId::new(100),
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

pub(super) fn options() -> TreeOptions {
    // A cache of a few pages, so that most reads go to the file.
    TreeOptions {
        cache_bytes: 64 << 10,
        compression: ImageCompression::Lz4,
        recovery_file_bytes: 64 << 10,
        ..TreeOptions::default()
    }
}

pub(super) fn format(page_bytes: usize) -> PageFormat {
    PageFormat::new(page_bytes, &DATABASE).expect("a legal page size")
}

/// Changes to be merged, ascending.
pub(super) struct Changes(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl MergeSource for Changes {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        let (key, value) = self.0.last()?;
        Some((key, value.as_deref().map_or(Change::Delete, Change::Put)))
    }

    fn advance(&mut self) {
        self.0.pop();
    }

    fn keep_replaced(&self) -> bool {
        self.0.len().is_multiple_of(2)
    }
}

impl Changes {
    pub(super) fn new(mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Changes {
        changes.sort();
        changes.dedup_by(|left, right| left.0 == right.0);
        changes.reverse();
        Changes(changes)
    }

    pub(super) fn merge_into(mut self, tree: &Tree) -> Result<(), TreeError> {
        while self.peek().is_some() {
            let plan = tree.merge_chunk(&mut self, 100_000, STAMP)?;
            tree.apply_chunk(plan, self.peek().is_none().then_some(&values()))?;
        }
        Ok(())
    }
}

/// The sound tree.
pub(super) struct Sample {
    pub(super) disk: SimulatedDisk,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) pages: Vec<u8>,
    pub(super) superblock: Vec<u8>,
    pub(super) recovery: Vec<u8>,
}

pub(super) static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let tree = Tree::create(&disk, &values(), options()).expect("an empty disk takes a tree");
    let mut random = SeededRandom::new(2);
    let mut rows = Vec::new();
    // Pairs of long keys that differ at the end: where two leaves part between them, the separator is long too.
    for pair in 0..90_u64 {
        let mut key = [&7_u64.to_be_bytes()[..], &random.bytes(500)].concat();
        for _ in 0..2 {
            key.push(if pair % 2 == 0 { b'b' } else { b'c' });
            rows.push((key.clone(), Some(random.bytes(20))));
            key.pop();
            key.push(b'a');
        }
    }
    for (index, length) in [(1_u8, 1_100), (2, 9_000), (3, 600_000)] {
        rows.push((vec![0, 0, 0, 0, 0, 0, 0, 3, index], Some(random.bytes(length))));
    }
    let keys = rows.iter().map(|(key, _)| key.clone()).collect();
    Changes::new(rows).merge_into(&tree).expect("a sound tree takes rows");
    drop(tree);
    let file = |path| disk.read_file(path).expect("the tree has made it");
    let mut pages = file(PAGE_FILE_PATH);
    let used = pages.chunks(PAGE_BYTES).rposition(|page| page.iter().any(|byte| *byte != 0));
    pages.truncate((used.expect("pages were written") + 1) * PAGE_BYTES);
    let sample =
        Sample { keys, pages, superblock: file(SUPERBLOCK_PATH), recovery: file(RECOVERY_FILE_PATH), disk };
    let opened = Tree::open(&sample.disk, TreeAccess::Read, options()).expect("a sound tree opens");
    assert_eq!(
        exercise_reads(&opened.tree, &sample.keys),
        sample.keys.len() as u64,
        "all rows of the sound tree are there"
    );
    sample
});

pub(super) fn seal(image: &mut [u8]) {
    let checksum = crc32c(&image[4..]);
    image[0..4].copy_from_slice(&checksum.to_le_bytes());
}

pub(super) fn seal_block(block: &mut [u8]) {
    block[SUPERBLOCK_CHECKSUM_AT..SUPERBLOCK_CHECKSUM_AT + 4].fill(0);
    let checksum = crc32c(block);
    block[SUPERBLOCK_CHECKSUM_AT..SUPERBLOCK_CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
}
