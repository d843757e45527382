//! The tree: single pages, a page file, the superblock, the recovery file.
//!
//! The files start as those of a small, sound tree with everything in it: two levels of interior pages, long keys, long
//! values over several extents. The input says what to change; checksums are then made right, or not.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use seawall_codec::checksum::crc32c;
use seawall_codec::compression::{Compression, Compressor};
use seawall_io::OpenMode;
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::page::{
    Child, Extent, ExtentHeader, InteriorBuilder, InteriorView, LeafValue, LeafView, Page, PageFormat, Row,
    RowKey, encode_extent, encode_leaf, extent_pages,
};
use seawall_tree::{
    Change, Direction, Encryption, ImageCompression, LeafCursor, MergeSource, PAGE_FILE_PATH, PageProtection,
    RECOVERY_FILE_PATH, SUPERBLOCK_PATH, SpaceMapView, Superblock, SuperblockFile, Tree, TreeAccess,
    TreeError, TreeOptions,
};
use seawall_types::{DatabaseId, Lsn, PageId, TableId, TimelineId};

use crate::input::{Choices, Entries, Input, mutate, patch_at};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries =
    &[("page", page), ("page_file", page_file), ("superblock", superblock), ("recovery_file", recovery_file)];

const DATABASE: DatabaseId = DatabaseId::from_bytes([9; 16]);
const STAMP: Lsn = Lsn::new(77);
const PAGE_BYTES: usize = 4096;
/// Checksum, then the block; where the checksum lies.
const SUPERBLOCK_CHECKSUM_AT: usize = 12;

fn values() -> Superblock {
    Superblock {
        sequence: 0,
        database: DATABASE,
        page_bytes: 4096,
        timeline: TimelineId::FIRST,
        segment_bytes: 1 << 20,
        redo_point: Lsn::new(1),
        checkpoint_count: 0,
        completed_chunk: 0,
        next_table: TableId::new(100),
        page_count: 0,
        created_micros: 0,
        protection: PageProtection::RecoveryFile,
        encryption: Encryption::None,
    }
}

fn options() -> TreeOptions {
    // A cache of a few pages, so that most reads go to the file.
    TreeOptions {
        cache_bytes: 64 << 10,
        compression: ImageCompression::Lz4,
        recovery_file_bytes: 64 << 10,
        ..TreeOptions::default()
    }
}

fn format(page_bytes: usize) -> PageFormat {
    PageFormat::new(page_bytes, &DATABASE).expect("a legal page size")
}

/// Changes to be merged, ascending.
struct Changes(Vec<(Vec<u8>, Option<Vec<u8>>)>);

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
    fn new(mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Changes {
        changes.sort();
        changes.dedup_by(|left, right| left.0 == right.0);
        changes.reverse();
        Changes(changes)
    }

    fn merge_into(mut self, tree: &Tree) -> Result<(), TreeError> {
        while self.peek().is_some() {
            let plan = tree.merge_chunk(&mut self, 100_000, STAMP)?;
            tree.apply_chunk(plan, self.peek().is_none().then_some(&values()))?;
        }
        Ok(())
    }
}

/// The sound tree.
struct Sample {
    disk: SimulatedDisk,
    keys: Vec<Vec<u8>>,
    pages: Vec<u8>,
    superblock: Vec<u8>,
    recovery: Vec<u8>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
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

fn seal(image: &mut [u8]) {
    let checksum = crc32c(&image[4..]);
    image[0..4].copy_from_slice(&checksum.to_le_bytes());
}

// ---- single pages --------------------------------------------------------------------------------------------------

const PAGE: PageId = PageId::new(5);

/// An image of a sound page: a leaf, an interior page, a map page, an extent, or zeros.
fn template(format: &PageFormat, choices: Choices) -> Vec<u8> {
    match choices.number(2, 5) {
        0 => leaf_template(format, choices.has(5)),
        1 => interior_template(format, if choices.has(5) { 2 } else { 1 }),
        2 => map_template(format),
        3 => extent_template(format, choices.has(5)),
        _ => vec![0; format.page_bytes()],
    }
}

fn keys(count: u8) -> Vec<Vec<u8>> {
    (0..count)
        .map(|index| [b"12345678prefix".to_vec(), vec![index; usize::from(index % 7) + 1]].concat())
        .collect()
}

fn leaf_template(format: &PageFormat, has_overflow: bool) -> Vec<u8> {
    let reference = seawall_tree::page::OverflowReference { total_bytes: 5000, first: PageId::new(9) };
    let keys = keys(40);
    let row = |index: usize| {
        let key = &keys[index][..];
        let is_long = has_overflow && index.is_multiple_of(8);
        let value =
            if is_long { LeafValue::Overflow(reference) } else { LeafValue::Inline(&key[..key.len() / 2]) };
        Row { key: RowKey::from(key), value }
    };
    let rows: Vec<Row<'_>> = (0..keys.len()).map(row).collect();
    encode_leaf(format, &rows, PAGE, STAMP).bytes().to_vec()
}

fn interior_template(format: &PageFormat, level: u8) -> Vec<u8> {
    let mut builder = InteriorBuilder::new(*format);
    builder.push_first(Child::new(PageId::new(2)));
    for (page, key) in (6..).zip(&keys(40)) {
        builder.push(RowKey::from(&key[..]), Child::new(PageId::new(page)));
    }
    builder.finish(level, PAGE, STAMP).bytes().to_vec()
}

/// The sample's first map page under another number; of another size, with its bits at the same place.
fn map_template(format: &PageFormat) -> Vec<u8> {
    let mut image = SAMPLE.pages[..PAGE_BYTES].to_vec();
    image.resize(format.page_bytes(), 0);
    image[8..16].copy_from_slice(&PAGE.get().to_le_bytes());
    seal(&mut image);
    image
}

fn extent_template(format: &PageFormat, goes_on: bool) -> Vec<u8> {
    let data = vec![0xAB; 2 * format.page_bytes()];
    let header = ExtentHeader {
        first: PAGE,
        pages: extent_pages(format, data.len()),
        data_bytes: data.len(),
        next: goes_on.then_some(PageId::new(50)),
        total_bytes: 100 + data.len() as u64 + if goes_on { 9 } else { 0 },
        position: 100,
    };
    encode_extent(format, &header, STAMP, &data)
}

/// One page, or one extent.
pub fn page(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let format = format([4096, 8192, 65536][usize::from(choices.number(6, 3))]);
    let mut image = template(&format, choices);
    if choices.has(1) {
        // Not a change here and there, but all of the front and the back.
        let bytes = input.rest();
        let (front, back) = bytes.split_at(bytes.len() / 2);
        let back = &back[..back.len().min(image.len())];
        let back_at = image.len() - back.len();
        patch_at(&mut image, 4, front, false);
        patch_at(&mut image, back_at, back, false);
    } else {
        mutate(&mut image, &mut input);
    }
    if !choices.has(0) {
        seal(&mut image);
    }
    if let Ok(extent) = Extent::decode(&format, PAGE, &image) {
        check_extent(&format, &extent);
    }
    image.truncate(format.page_bytes());
    if !choices.has(0) {
        seal(&mut image);
    }
    let Ok(page) = Page::decode(&format, PAGE, &image) else { return };
    assert_eq!(page.view().id(), PAGE);
    assert!(!format!("{page:?}").is_empty());
    if let Ok(leaf) = page.view().leaf() {
        check_leaf(&format, &leaf);
    }
    if let Ok(interior) = page.view().interior() {
        check_interior(&format, &interior);
    }
    if let Ok(map) = SpaceMapView::new(page.view()) {
        let covered = (format.page_bytes() - 128) * 8;
        let counted = (0..covered).filter(|index| map.is_allocated(*index)).count();
        assert_eq!(u32::try_from(counted), Ok(map.allocated_count()));
        assert!(map.is_allocated(0) || map.has_next());
    }
}

fn check_extent(format: &PageFormat, extent: &Extent<'_>) {
    assert_eq!(extent.data.len(), extent.header.data_bytes);
    let again = encode_extent(format, &extent.header, STAMP, extent.data);
    let again = Extent::decode(format, PAGE, &again).expect("what was encoded decodes");
    assert_eq!((again.header, again.data), (extent.header, extent.data));
}

/// Everything that a view offers, and the same rows once more in a leaf of our own making.
fn check_leaf(format: &PageFormat, leaf: &LeafView<'_>) {
    assert!(leaf.used_bytes() <= format.page_bytes());
    let rows: Vec<Row<'_>> = leaf.rows().collect();
    for (index, row) in rows.iter().enumerate() {
        let key = row.key.to_vec();
        assert_eq!(leaf.search(&key), Ok(index));
        assert!(leaf.compare(index, &key).is_eq());
        assert_eq!((leaf.key(index), leaf.value(index)), (row.key, row.value));
        assert!(key.len() <= format.max_key_bytes());
        assert_eq!(leaf.search(&[&key[..], &[0]].concat()), leaf_place_after(&rows, index, &key));
    }
    assert!(leaf.search(&[]).is_ok_and(|index| index == 0) || leaf.search(&[]) == Err(0));
    assert_eq!(leaf.search(&[0xFF; 5000]), Err(leaf.len()));
    let again = encode_leaf(format, &rows, PAGE, STAMP);
    let again = Page::decode(format, PAGE, again.bytes()).expect("what was encoded decodes");
    assert_eq!(again.view().leaf().expect("it is a leaf").rows().collect::<Vec<_>>(), rows);
}

/// Where the smallest key after that of row `index` stands.
fn leaf_place_after(rows: &[Row<'_>], index: usize, key: &[u8]) -> Result<usize, usize> {
    let next = rows.get(index + 1).map(|row| row.key.to_vec());
    if next.is_some_and(|next| next == [key, &[0]].concat()) { Ok(index + 1) } else { Err(index + 1) }
}

fn check_interior(format: &PageFormat, interior: &InteriorView<'_>) {
    assert!(interior.level() > 0 && interior.len() > 0);
    assert!(interior.used_bytes() <= format.page_bytes());
    let mut builder = InteriorBuilder::new(*format);
    builder.push_first(interior.child(0));
    for index in 1..interior.len() {
        let separator = interior.separator(index - 1);
        let key = separator.to_vec();
        assert_eq!(interior.child_for(&key), index);
        assert_eq!(interior.child_below(&key), index - 1);
        assert_eq!(interior.lower_fence(index), Some(separator));
        assert_eq!(interior.upper_fence(index - 1), Some(separator));
        assert!(builder.fits(&separator), "what fits a page fits one of our own making");
        builder.push(separator, interior.child(index));
    }
    assert_eq!(interior.child_for(&[]), 0);
    assert_eq!(interior.child_for(&[0xFF; 5000]), interior.len() - 1);
    let again = builder.finish(interior.level(), PAGE, STAMP);
    let again = Page::decode(format, PAGE, again.bytes()).expect("what was encoded decodes");
    let again = again.view().interior().expect("it is an interior page");
    assert!((0..interior.len()).all(|index| interior.child(index) == again.child(index)));
    assert!((1..interior.len()).all(|index| interior.lower_fence(index) == again.lower_fence(index)));
}

// ---- a whole tree --------------------------------------------------------------------------------------------------

/// Reads everything in every way; the number of rows in a scan. Ends with whatever damage it meets.
fn exercise_reads(tree: &Tree, keys: &[Vec<u8>]) -> u64 {
    let mut reports = 0;
    let report = &mut |damage: seawall_tree::Damage| {
        assert!(!damage.what.is_empty() && !damage.path.is_empty());
        reports += 1;
    };
    let summary = tree.check(report, &mut |_, _| ());
    assert_eq!(summary.damages, reports);
    for key in keys.iter().step_by(17).chain(&keys[180..]) {
        match tree.get(key) {
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let forward = scan(tree, Direction::Forward).unwrap_or(0);
    let reverse = scan(tree, Direction::Reverse);
    if summary.damages == 0 {
        assert_eq!((forward, reverse.ok()), (summary.rows, Some(summary.rows)), "a sound tree can be read");
    }
    forward
}

fn scan(tree: &Tree, direction: Direction) -> Result<u64, TreeError> {
    // A leaf has fewer rows than bytes, and a scan comes to each separator once.
    let most = tree.pages().file().page_count() * PAGE_BYTES as u64 * 64;
    let mut rows = 0;
    match direction {
        Direction::Forward => {
            let mut cursor = LeafCursor::seek(tree.pages(), &[])?;
            while let Some(row) = cursor.row() {
                read_value(tree, &row, cursor.position().version())?;
                rows += 1;
                assert!(rows < most, "the scan does not end");
                cursor.advance(tree.pages())?;
            }
        }
        Direction::Reverse => {
            let (mut cursor, mut found) = LeafCursor::seek_below(tree.pages(), &[0xFF; 5000])?;
            while found {
                rows += 1;
                assert!(rows < most, "the scan does not end");
                found = cursor.retreat(tree.pages())?;
            }
        }
    }
    Ok(rows)
}

fn read_value(tree: &Tree, row: &Row<'_>, version: u64) -> Result<(), TreeError> {
    if let LeafValue::Overflow(reference) = row.value {
        let value = tree.read_overflow(reference, version)?.expect("nobody changes the tree");
        assert_eq!(value.len() as u64, reference.total_bytes);
    }
    Ok(())
}

/// Changes the tree in every way. Stops at the first error, as the engine does.
fn exercise_writes(tree: &Arc<Tree>, choices: Choices) -> Result<(), TreeError> {
    let keys = &SAMPLE.keys;
    let change = |(index, key): (usize, &Vec<u8>)| {
        let new_value = |length| Some(vec![0xC0; length]);
        let value = match index % 4 {
            0 => None,
            1 => new_value(300),
            2 => new_value(2_000),
            _ => new_value(1),
        };
        let mut key = key.clone();
        if index % 3 == 0 {
            key.push(b'+');
        }
        (key, value)
    };
    let step = if choices.has(2) { 1 } else { 13 };
    Changes::new(keys.iter().step_by(step).enumerate().map(change).collect()).merge_into(tree)?;
    if choices.has(3) {
        let (from, to) = (7_u64.to_be_bytes(), 8_u64.to_be_bytes());
        let from = if choices.has(4) { &keys[40][..] } else { &from };
        let mut ranges = vec![from.to_vec()..to.to_vec()];
        while !ranges.is_empty() {
            let plan = tree.cut(&ranges, 5, 100_000, STAMP)?;
            ranges = plan.rest;
            tree.apply_chunk(plan.chunk, None)?;
        }
    }
    if choices.has(5) {
        let mut loader = tree.bulk_loader(&keys[10][..9], &[0xFF; 9], STAMP);
        for index in 0..200_u64 {
            loader.push(&[&[0xFE; 8], &index.to_be_bytes()[..]].concat(), &[3; 100])?;
        }
        tree.apply_chunk(loader.graft()?, None)?;
    }
    Ok(())
}

fn tree_page_bytes(tree: &Tree) -> u32 {
    u32::try_from(tree.format().page_bytes()).expect("a page has at most 64 KiB")
}

/// Opens the tree, reads it, writes it, reads it; whether nothing was wrong.
fn exercise(disk: &SimulatedDisk, choices: Choices) -> bool {
    let access = if choices.has(1) { TreeAccess::Read } else { TreeAccess::Write };
    let before = SuperblockFile::open(disk, OpenMode::Read);
    let opened = match Tree::open(disk, access, options()) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let (_, before, _) = before.expect("the tree was opened with it");
    let (_, stored, _) = SuperblockFile::open(disk, OpenMode::Read).expect("the tree was opened with it");
    let fixed = |values: &Superblock| (values.database, values.page_bytes);
    // A tree opened for reading keeps what the chunk says to itself.
    assert!(access == TreeAccess::Read || fixed(&stored) == fixed(&opened.superblock), "{stored:?}");
    assert_eq!(opened.superblock.database, before.database, "no chunk changes the database");
    assert_eq!(
        tree_page_bytes(&opened.tree),
        opened.superblock.page_bytes,
        "no chunk changes the size of pages"
    );
    let tree = Arc::new(opened.tree);
    exercise_reads(&tree, &SAMPLE.keys);
    let outcome = exercise_writes(&tree, choices);
    match &outcome {
        Ok(()) => {
            assert!(access == TreeAccess::Write, "a tree opened for reading takes no changes");
            exercise_reads(&tree, &SAMPLE.keys);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    outcome.is_ok()
}

/// A page file with changed pages, and checksums that say that they are right.
pub fn page_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let mut pages = SAMPLE.pages.clone();
    let mut changed = BTreeSet::new();
    while !input.is_empty() && changed.len() < 16 {
        let page = usize::from(input.byte()) * PAGE_BYTES % pages.len();
        changed.insert(page);
        let change = Choices::of(&mut input);
        match change.number(3, 8) {
            // Another page in its place.
            0 => {
                let other = usize::from(input.byte()) * PAGE_BYTES % pages.len();
                pages.copy_within(other..other + PAGE_BYTES, page);
                let number = (page / PAGE_BYTES) as u64;
                pages[page + 8..page + 16].copy_from_slice(&number.to_le_bytes());
            }
            _ => {
                let place = usize::from(input.u16());
                let patch = input.take(usize::from(change.number(0, 8)) + 1);
                patch_at(&mut pages[page..page + PAGE_BYTES], place % PAGE_BYTES, patch, change.has(7));
            }
        }
    }
    for page in changed.into_iter().filter(|_| !choices.has(0)) {
        reseal(&mut pages, page);
    }
    if choices.has(6) {
        pages.truncate(pages.len() - PAGE_BYTES - 5);
    }
    let disk = SAMPLE.disk.copy();
    disk.write_file(PAGE_FILE_PATH, &pages);
    let is_fine = exercise(&disk, choices);
    assert!(is_fine || choices.has(1) || pages != SAMPLE.pages, "nothing was changed");
}

/// Gives the page at `place` its checksum; an extent's covers all its pages.
fn reseal(pages: &mut [u8], place: usize) {
    let is_extent = pages[place + 17] == 3;
    let count = u32::from_le_bytes(pages[place + 80..place + 84].try_into().expect("four bytes"));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let count = if is_extent && (1..=128).contains(&count) { count } else { 1 };
    let end = (place + count * PAGE_BYTES).min(pages.len());
    seal(&mut pages[place..end]);
}

// ---- superblock ----------------------------------------------------------------------------------------------------

fn seal_block(block: &mut [u8]) {
    block[SUPERBLOCK_CHECKSUM_AT..SUPERBLOCK_CHECKSUM_AT + 4].fill(0);
    let checksum = crc32c(block);
    block[SUPERBLOCK_CHECKSUM_AT..SUPERBLOCK_CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// The superblock, on its own and as that of a tree.
pub fn superblock(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let mut file = SAMPLE.superblock.clone();
    mutate(&mut file, &mut input);
    for (index, block) in file.chunks_mut(4096).enumerate() {
        if choices.has(if index == 0 { 0 } else { 6 }) {
            seal_block(block);
        }
    }
    let disk = SAMPLE.disk.copy();
    disk.write_file(SUPERBLOCK_PATH, &file);
    if choices.has(7) {
        disk.truncate(SUPERBLOCK_PATH, u64::try_from(file.len() - data.len().min(file.len())).unwrap_or(0));
    }
    let mut stored = None;
    match SuperblockFile::open(&disk, OpenMode::Write) {
        Ok((mut open, values, _)) => {
            open.store(&values).expect("the simulated disk takes everything");
            let (_, again, damaged) =
                SuperblockFile::open(&disk, OpenMode::Read).expect("it was stored just now");
            assert_eq!(again, Superblock { sequence: again.sequence, ..values.clone() });
            assert!(again.sequence > values.sequence, "the newer copy counts");
            assert!(damaged.is_none() || choices.has(7), "the older copy was overwritten: {damaged:?}");
            stored = Some(values);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if stored.is_some_and(|values| values.page_bytes == 4096) {
        exercise(&disk, choices);
    }
}

// ---- recovery file -------------------------------------------------------------------------------------------------

const IMAGES_AT: usize = 12288;
const ENTRY_BYTES: usize = 40;
const REGION_AT: usize = 64;
const SECTOR_BYTES: usize = 512;

/// The recovery file of a tree: some of its pages, changed, as the images of the next chunk.
pub fn recovery_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let more = Choices::of(&mut input);
    let mut file = if more.has(0) { SAMPLE.recovery.clone() } else { built_recovery_file(&mut input) };
    mutate(&mut file, &mut input);
    if !choices.has(0) {
        fix_up_recovery_file(&mut file, more);
    }
    let disk = SAMPLE.disk.copy();
    disk.write_file(RECOVERY_FILE_PATH, &file);
    exercise(&disk, choices);
}

/// Headers, superblock, and one region: table, and up to seven images with a change in each.
fn built_recovery_file(input: &mut Input<'_>) -> Vec<u8> {
    let count = input.byte() % 8;
    let mut file = vec![0; IMAGES_AT + usize::from(count) * ENTRY_BYTES];
    for index in 0..usize::from(count) {
        let place = usize::from(input.byte()) * PAGE_BYTES % SAMPLE.pages.len();
        let mut image = SAMPLE.pages[place..place + PAGE_BYTES].to_vec();
        let change = Choices::of(input);
        let at = usize::from(input.u16()) % PAGE_BYTES;
        patch_at(&mut image, at, input.take(usize::from(change.number(0, 8))), change.has(7));
        seal(&mut image);
        let stored = if change.has(3) { image.clone() } else { packed(&image) };
        let mut entry = image[8..16].to_vec();
        entry.extend_from_slice(&(file.len() as u64).to_le_bytes());
        entry.extend_from_slice(&u32::try_from(stored.len()).unwrap_or(0).to_le_bytes());
        entry.extend_from_slice(&u32::from(!change.has(3)).to_le_bytes());
        entry.extend_from_slice(&crc32c(&stored).to_le_bytes());
        entry.extend_from_slice(&image[0..4]);
        let entry_at = IMAGES_AT + index * ENTRY_BYTES;
        file[entry_at..entry_at + entry.len()].copy_from_slice(&entry);
        file.extend_from_slice(&stored);
    }
    // The second table, which nobody makes right: zeros.
    file.resize(file.len() + usize::from(count) * ENTRY_BYTES, 0);
    let region_bytes = (file.len() - IMAGES_AT) as u64;
    file[0..8].copy_from_slice(b"SWCHUNK\n");
    file[8] = 1;
    file[16..32].copy_from_slice(DATABASE.as_bytes());
    file[32..40].copy_from_slice(&1_000_u64.to_le_bytes());
    file[40..44].copy_from_slice(&4096_u32.to_le_bytes());
    file[44] = count;
    file[48] = 1;
    file[60] = 1;
    file[REGION_AT..REGION_AT + 8].copy_from_slice(&(IMAGES_AT as u64).to_le_bytes());
    file[REGION_AT + 8..REGION_AT + 16].copy_from_slice(&region_bytes.to_le_bytes());
    file[REGION_AT + 16] = count;
    file[4096..8192].copy_from_slice(&SAMPLE.superblock[..4096]);
    file
}

fn packed(image: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    Compressor::new(Compression::Lz4).compress(image, &mut packed);
    packed
}

/// Makes the checksums right that `choices` names: of images, entries, table, superblock, header.
fn fix_up_recovery_file(file: &mut [u8], choices: Choices) {
    let number = |file: &[u8], at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&file[at..at + bytes]);
        usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX)
    };
    let chunk = number(file, 32, 8) as u64;
    let (table_at, count) = (number(file, REGION_AT, 8), number(file, REGION_AT + 16, 4));
    let table_end = count.checked_mul(ENTRY_BYTES).and_then(|bytes| table_at.checked_add(bytes));
    let table = table_end.filter(|end| *end <= file.len()).map(|end| table_at..end);
    if let Some(table) = table.filter(|table| table.start >= IMAGES_AT) {
        for entry in table.clone().step_by(ENTRY_BYTES) {
            let (start, length) = (number(file, entry + 8, 8), number(file, entry + 16, 4));
            let end = start.saturating_add(length);
            if let Some(stored) = file.get(start..end).filter(|_| !choices.has(1)) {
                let checksum = crc32c(stored);
                file[entry + 24..entry + 28].copy_from_slice(&checksum.to_le_bytes());
            }
            let checksum = crc32c(&[&chunk.to_le_bytes()[..], &file[entry..entry + 32]].concat());
            file[entry + 32..entry + 36].copy_from_slice(&checksum.to_le_bytes());
        }
        let checksum = crc32c(&file[table]);
        file[REGION_AT + 20..REGION_AT + 24].copy_from_slice(&checksum.to_le_bytes());
    }
    if !choices.has(2) {
        seal_block(&mut file[4096..8192]);
    }
    let checksum = crc32c(&file[4096..8192]);
    file[52..56].copy_from_slice(&checksum.to_le_bytes());
    seal_block(&mut file[..SECTOR_BYTES]);
    // The second header is that of the first, or damaged.
    if !choices.has(3) && file.len() >= IMAGES_AT {
        file.copy_within(..SECTOR_BYTES, 8192);
    }
}
