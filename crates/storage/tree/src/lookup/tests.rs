//! Descents and scans over trees built by hand, against a `BTreeMap`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use seawall_io::{Disk, OpenMode, OsDisk};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_testing::SetWhenDropped;
use seawall_types::{Lsn, PageId};

use super::*;
use crate::cursor::{Direction, LeafCursor};
use crate::page::PAGE_FILE_PATH;
use crate::page::tests::format_of;
use crate::page::{
    Child, ExtentHeader, InteriorBuilder, LeafBuilder, Page, PageMark, PageReference, Row, RowKey,
    encode_extent, encode_leaf, extent_pages, shortest_separator, stored_mark,
};
use crate::page_file::{PageFile, PageImage};
use crate::published::{Overlay, ROOT_PAGE};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Builds packed trees. Pages are numbered from `next` on, in steps of `step`; the root is page 1.
struct HandBuilt {
    next: u64,
    step: u64,
    rows_per_leaf: usize,
    /// By default four, so that few rows make a high tree.
    children_per_page: usize,
    stamp: Lsn,
    pages: Vec<Page>,
    extents: Vec<(PageId, Vec<u8>)>,
}

impl HandBuilt {
    fn new(rows_per_leaf: usize) -> HandBuilt {
        HandBuilt {
            next: 2,
            step: 1,
            rows_per_leaf,
            children_per_page: 4,
            stamp: Lsn::ZERO,
            pages: Vec::new(),
            extents: Vec::new(),
        }
    }

    fn number(&mut self, pages: u64) -> PageId {
        self.next += self.step * pages;
        PageId::new(self.next - self.step * pages)
    }

    fn build(&mut self, rows: &Rows) {
        let format = format_of(4096);
        let mut builder = LeafBuilder::new(format);
        let mut level: Vec<(Vec<u8>, Child)> = Vec::new();
        let mut separator = Vec::new();
        let mut last_key: Vec<u8> = Vec::new();
        for (key, value) in rows {
            let reference;
            let mut row = Row { key: RowKey::from(&key[..]), value: LeafValue::Inline(value) };
            if value.len() > format.max_inline_value_bytes() {
                reference = self.extents_of(value);
                row.value = LeafValue::Overflow(reference);
            }
            if builder.len() == self.rows_per_leaf || !builder.fits(&row) {
                level.push((std::mem::take(&mut separator), self.leaf(&mut builder)));
                separator = shortest_separator(&RowKey::from(&last_key[..]), &row.key);
            }
            builder.push(&row);
            last_key.clone_from(key);
        }
        let height_one = level.is_empty();
        if height_one {
            self.pages.push(builder.finish(PageId::new(1), self.stamp));
            return;
        }
        level.push((separator, self.leaf(&mut builder)));
        self.interiors(level);
    }

    fn leaf(&mut self, builder: &mut LeafBuilder) -> Child {
        let page = builder.finish(self.number(1), self.stamp);
        self.pages.push(page.clone());
        Child::of(&page)
    }

    fn interiors(&mut self, mut level: Vec<(Vec<u8>, Child)>) {
        let format = format_of(4096);
        for height in 1.. {
            let is_root = level.len() <= self.children_per_page;
            let mut above = Vec::new();
            for children in level.chunks(self.children_per_page) {
                let mut builder = InteriorBuilder::new(format);
                builder.push_first(children[0].1);
                for (separator, child) in &children[1..] {
                    assert!(builder.fits(&RowKey::from(&separator[..])));
                    builder.push(RowKey::from(&separator[..]), *child);
                }
                let page = if is_root { PageId::new(1) } else { self.number(1) };
                let page = builder.finish(height, page, self.stamp);
                above.push((children[0].0.clone(), Child::of(&page)));
                self.pages.push(page);
            }
            if is_root {
                return;
            }
            level = above;
        }
    }

    fn extents_of(&mut self, value: &[u8]) -> OverflowReference {
        let format = format_of(4096);
        // Small extents, so that a value has several.
        let pieces: Vec<&[u8]> = value.chunks(9000).collect();
        let firsts: Vec<PageId> =
            pieces.iter().map(|piece| self.number(extent_pages(&format, piece.len()) as u64)).collect();
        let mut next = None;
        for (index, data) in pieces.iter().enumerate().rev() {
            let header = ExtentHeader {
                first: firsts[index],
                pages: extent_pages(&format, data.len()),
                data_bytes: data.len(),
                next,
                total_bytes: value.len() as u64,
                position: index as u64 * 9000,
            };
            let image = encode_extent(&format, &header, self.stamp, data);
            next = Some(PageReference::new(header.first, stored_mark(None, &image)));
            self.extents.push((header.first, image));
        }
        OverflowReference { total_bytes: value.len() as u64, first: next.unwrap() }
    }

    fn write(&self, file: &PageFile) {
        let mut images: Vec<PageImage<'_>> = self.pages.iter().map(PageImage::from).collect();
        images.extend(self.extents.iter().map(|(first, bytes)| PageImage { first: *first, bytes }));
        images.sort_unstable_by_key(|image| image.first);
        file.write(&images).unwrap();
    }
}

fn random_rows(random: &mut SeededRandom, count: usize) -> Rows {
    let mut rows = Rows::new();
    for _ in 0..random.index(count) {
        let key: Vec<u8> = (0..1 + random.index(12)).map(|_| b"abc"[random.index(3)]).collect();
        let length = if random.index(20) == 0 { random.index(30_000) } else { random.index(50) };
        let value = vec![u8::try_from(random.index(256)).unwrap(); length];
        rows.insert(key, value);
    }
    rows
}

fn published(disk: &dyn Disk, rows: &Rows, rows_per_leaf: usize, cache_bytes: usize) -> PublishedPages {
    let file = PageFile::create(disk, format_of(4096)).unwrap();
    let mut built = HandBuilt::new(rows_per_leaf);
    built.build(rows);
    built.write(&file);
    PublishedPages::new(file, cache_bytes)
}

fn random_key(random: &mut SeededRandom) -> Vec<u8> {
    (0..random.index(8)).map(|_| b"abcd"[random.index(4)]).collect()
}

#[test]
fn lookups_and_scans_agree_with_a_map() {
    for seed in 0..120 {
        let mut random = SeededRandom::new(seed);
        let rows = random_rows(&mut random, 600);
        let cache_bytes = [0, 200_000, 10_000_000][random.index(3)];
        let pages = published(&SimulatedDisk::new(seed), &rows, 1 + random.index(9), cache_bytes);
        for (key, value) in &rows {
            assert!(pages.get_with(key, |found| found == Some(value)).unwrap(), "seed {seed} {key:?}");
        }
        for _ in 0..100 {
            let key = random_key(&mut random);
            let expected = rows.get(&key);
            assert!(
                pages.get_with(&key, |found| found == expected.map(Vec::as_slice)).unwrap(),
                "seed {seed}"
            );
            check_scans(&pages, &rows, &key, seed);
        }
    }
}

fn check_scans(pages: &PublishedPages, rows: &Rows, key: &[u8], seed: u64) {
    let mut cursor = LeafCursor::seek(pages, key).unwrap();
    for expected in rows.range(key.to_vec()..).take(30) {
        assert_eq!(cursor.row().unwrap().key.to_vec(), *expected.0, "seed {seed} from {key:?}");
        cursor.advance(pages).unwrap();
    }
    let (mut cursor, mut found) = LeafCursor::seek_below(pages, key).unwrap();
    for expected in rows.range(..key.to_vec()).rev().take(30) {
        assert!(found, "seed {seed} below {key:?}");
        assert_eq!(cursor.row().unwrap().key.to_vec(), *expected.0, "seed {seed} below {key:?}");
        found = cursor.retreat(pages).unwrap();
    }
    if rows.range(..key.to_vec()).count() <= 30 {
        assert!(!found, "seed {seed} below {key:?}");
    }
}

#[test]
fn whole_scan_meets_every_row_and_its_end() {
    for seed in 0..40 {
        let mut random = SeededRandom::new(seed);
        let rows = random_rows(&mut random, 400);
        let pages = published(&SimulatedDisk::new(seed), &rows, 5, 100_000);
        let mut position = pages.leaf_for(&[], Direction::Forward).unwrap();
        assert_eq!(position.lower(), None);
        let mut seen = Vec::new();
        loop {
            let upper = position.upper().map(<[u8]>::to_vec);
            for row in position.leaf().rows() {
                assert!(position.lower().is_none_or(|lower| row.key.compare(lower).is_ge()));
                assert!(upper.as_ref().is_none_or(|upper| row.key.compare(upper).is_lt()));
                seen.push(row.key.to_vec());
            }
            if !pages.move_on(&mut position, Direction::Forward).unwrap() {
                break;
            }
            assert_eq!(position.lower(), upper.as_deref());
        }
        assert_eq!(position.upper(), None);
        assert!(seen.iter().eq(rows.keys()), "seed {seed}");
    }
}

#[test]
fn overflow_value_read_for_an_older_version_is_refused() {
    let rows = Rows::from([(b"long".to_vec(), vec![7; 50_000])]);
    let pages = published(&SimulatedDisk::new(1), &rows, 1, 0);
    let position = pages.leaf_for(b"long", Direction::Forward).unwrap();
    let LeafValue::Overflow(reference) = position.leaf().value(0) else { panic!("stored in extents") };
    assert_eq!(pages.read_overflow(reference, position.version()).unwrap(), Some(vec![7; 50_000]));
    pages.publish(Overlay::default());
    assert_eq!(pages.read_overflow(reference, position.version()).unwrap(), None);
}

/// Whoever uses a value may take their time: what the cache evicts meanwhile is freed.
#[test]
fn a_value_is_used_without_an_epoch_guard() {
    let lengths = [0, 1, 128, 129, 1000, 50_000];
    let rows: Rows =
        lengths.iter().map(|length| (length.to_string().into_bytes(), vec![7; *length])).collect();
    for cache_bytes in [0, 10_000_000] {
        let pages = published(&SimulatedDisk::new(1), &rows, 1, cache_bytes);
        for round in 0..2 {
            for (key, value) in &rows {
                pages
                    .get_with(key, |found| {
                        assert_eq!(found, Some(&value[..]));
                        assert!(!epoch::is_pinned(), "{} bytes, round {round}", value.len());
                    })
                    .unwrap();
            }
            pages.get_with(b"missing", |found| assert!(found.is_none() && !epoch::is_pinned())).unwrap();
        }
    }
}

#[test]
fn damage_names_file_offset_and_page() {
    let mut random = SeededRandom::new(3);
    let rows = (0..200_u32).map(|row| (row.to_be_bytes().to_vec(), vec![1; 100])).collect();
    let disk = SimulatedDisk::new(3);
    published(&disk, &rows, 10, 0).file().sync().unwrap();
    disk.sync_directory("").unwrap();
    let image = disk.read_file(PAGE_FILE_PATH).unwrap();
    let (mut page_errors, mut truncated) = (0, 0);
    for round in 0..300 {
        let damaged = disk.copy();
        let length = image.len() as u64;
        let at = random.next_u64() % length;
        if round % 3 == 0 {
            damaged.truncate(PAGE_FILE_PATH, at)
        } else {
            damaged.flip_bit(PAGE_FILE_PATH, at, 3)
        }
        let file = PageFile::open(&damaged, format_of(4096), OpenMode::Read).unwrap();
        let pages = PublishedPages::new(file, 0);
        for (key, value) in &rows {
            match pages.get_with(key, |found| found == Some(value)) {
                Ok(equal) => assert!(equal, "a wrong value in round {round}"),
                Err(TreeError::Page { page, offset, .. }) => {
                    assert_eq!(offset, page.get() * 4096);
                    assert!((offset..offset + 4096).contains(&at), "page {page} is not the damaged one");
                    page_errors += 1;
                }
                Err(TreeError::Truncated { page, offset, .. }) => {
                    assert_eq!(offset, page.get() * 4096);
                    assert!(offset + 4096 > at);
                    truncated += 1;
                }
                Err(other) => panic!("round {round}: {other}"),
            }
        }
    }
    assert!(page_errors > 0 && truncated > 0, "{page_errors} {truncated}");
}

#[test]
fn page_of_another_level_does_not_lead_in_circles() {
    // A child that leads back to the root's level: the descent must end with an error, not go round.
    let format = format_of(4096);
    let file = PageFile::create(&SimulatedDisk::new(5), format).unwrap();
    let interior = |level: u8, page: u64, child: PageReference| {
        let mut builder = InteriorBuilder::new(format);
        builder.push_first(Child::new(child));
        builder.finish(level, PageId::new(page), Lsn::ZERO)
    };
    let below = interior(1, 2, PageReference::new(ROOT_PAGE, PageMark::new(0)));
    let pages = [interior(1, 1, below.reference()), below];
    file.write(&pages.iter().map(PageImage::from).collect::<Vec<_>>()).unwrap();
    let error = PublishedPages::new(file, 0).get_with(b"key", |_| ()).unwrap_err();
    let TreeError::Page { page, damage, .. } = error else { panic!("{error}") };
    assert_eq!((page.get(), damage), (2, PageDamage::WrongLevel { expected: 0, found: 1 }));
}

/// A writer publishes one tree after another, overwriting in place and reusing pages of the tree before, while readers
/// with a cache much too small read from the file: each value seen is one that was published, whole.
#[test]
fn readers_see_old_or_new_and_never_torn() {
    let directory = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(directory.path());
    let keys: Vec<Vec<u8>> = (0..400_u32).map(|key| key.to_be_bytes().to_vec()).collect();
    let tree_of = |round: u64| {
        let value = [round.to_le_bytes(); 20].concat();
        let rows: Rows = keys.iter().map(|key| (key.clone(), value.clone())).collect();
        // Other pages in every round, the root excepted, and another shape of the tree.
        let next = 2 + round % 3;
        let rows_per_leaf = 3 + usize::try_from(round % 5).unwrap();
        let mut built = HandBuilt { next, step: 3, stamp: Lsn::new(round), ..HandBuilt::new(rows_per_leaf) };
        built.build(&rows);
        built
    };
    let file = PageFile::create(&disk, format_of(4096)).unwrap();
    tree_of(0).write(&file);
    let pages = PublishedPages::new(file, 20 * 4096);
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (pages, keys, stop, reads) = (&pages, &keys, &stop, &reads);
            scope.spawn(move || {
                let _stop = SetWhenDropped(stop);
                let mut random = SeededRandom::new(seed);
                let mut newest = 0;
                while !stop.load(Relaxed) {
                    let key = &keys[random.index(keys.len())];
                    let round = pages.get_with(key, |value| round_of(value.unwrap())).unwrap();
                    assert!(round >= newest, "went back from tree {newest} to {round}");
                    newest = round;
                    let position = pages.leaf_for(key, Direction::Forward).unwrap();
                    for row in position.leaf().rows() {
                        let LeafValue::Inline(value) = row.value else { panic!("short values") };
                        assert_eq!(round_of(value), position.page().view().lsn().get());
                    }
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        let mut round = 1;
        // Readers stop when one of them fails.
        while !stop.load(Relaxed) && (round < 300 || reads.load(Relaxed) < 2000) {
            let built = tree_of(round);
            // As a chunk does: fresh pages first, publish the ones that overwrite, then write those in place.
            let (root, fresh): (Vec<Page>, Vec<Page>) =
                built.pages.iter().cloned().partition(|page| page.view().id() == ROOT_PAGE);
            let mut fresh: Vec<PageImage<'_>> = fresh.iter().map(PageImage::from).collect();
            fresh.sort_unstable_by_key(|image| image.first);
            pages.file().write(&fresh).unwrap();
            pages.publish(root.iter().map(|page| (page.view().id(), page.clone())).collect());
            pages.file().write(&root.iter().map(PageImage::from).collect::<Vec<_>>()).unwrap();
            pages.drop_overlay();
            // The pages of the tree before are free now, and the next round but one overwrites them.
            let stale = (round + 1) % 3 + 2;
            (0..500).for_each(|step| pages.cache().remove(PageId::new(stale + step * 3)));
            round += 1;
        }
        stop.store(true, Relaxed);
    });
}

fn round_of(value: &[u8]) -> u64 {
    let rounds: Vec<u64> =
        value.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(rounds.len(), 20);
    assert!(rounds.iter().all(|round| *round == rounds[0]), "torn value {rounds:?}");
    rounds[0]
}

/// A filter of the leaf answers from the second time on, until the leaf is another one.
#[test]
fn rows_that_are_not_there_cost_few_reads() {
    let disk = SimulatedDisk::new(1);
    let key = |number: u32| number.to_be_bytes().to_vec();
    let rows: Rows = (0..8_000).map(|number| (key(2 * number), vec![7; 30])).collect();
    let mut built = HandBuilt { children_per_page: 100, ..HandBuilt::new(40) };
    built.build(&rows);
    let file = PageFile::create(&disk, format_of(4096)).unwrap();
    built.write(&file);
    let pages = PublishedPages::new(file, 600_000);
    let leaves = 8_000 / 40;
    assert!(pages.cache().capacity_pages() < leaves);
    let look_for = |first: u32| {
        disk.reset_read_counts();
        for number in (first..16_000).step_by(8) {
            let expected = rows.get(&key(number)).map(Vec::as_slice);
            assert!(pages.get_with(&key(number), |found| found == expected).unwrap(), "{number}");
        }
        usize::try_from(disk.read_count("pages").calls).unwrap()
    };
    let first = look_for(1);
    assert!(
        first < leaves,
        "{first} reads: where no leaf of a group has a filter, one read makes all of them"
    );
    assert!(pages.leaf_filter_bytes() > 0);
    // Those that were cached until now.
    look_for(3);
    let again = look_for(5);
    assert!(again < leaves / 10, "{again} reads");
    assert!(look_for(0) >= leaves / 3, "rows that are there are read");
    // Other images, as a chunk publishes them: they have the rows.
    let more: Rows = (0..16_000).map(|number| (key(number), vec![7; 30])).collect();
    let mut built = HandBuilt::new(80);
    built.stamp = Lsn::new(2);
    built.build(&more);
    built.write(pages.file());
    let images = built.pages.iter().map(|page| (page.view().id(), page.clone()));
    pages.publish(Overlay::from_iter(images));
    pages.drop_overlay();
    for number in (1..16_000).step_by(2) {
        assert!(pages.get_with(&key(number), |found| found.is_some()).unwrap(), "{number}");
    }
}

/// Beside the leaves of the tree the file has others, which are free or belong to no tree yet, and old images of leaves that were replaced.
#[test]
fn filters_are_of_leaves_that_the_tree_refers_to() {
    let key = |number: u32| number.to_be_bytes().to_vec();
    let rows: Rows = (0..8_000).map(|number| (key(2 * number), vec![7; 30])).collect();
    let mut built = HandBuilt { step: 3, children_per_page: 100, ..HandBuilt::new(40) };
    built.build(&rows);
    let stray = |page: u64| {
        let row = Row { key: RowKey::from(&b"stray"[..]), value: LeafValue::Inline(b"value") };
        encode_leaf(&format_of(4096), &[row], PageId::new(page), Lsn::new(9))
    };
    let strays: Vec<Page> = (0..200).map(|number| stray(3 + 3 * number)).collect();
    let file = PageFile::create(&SimulatedDisk::new(1), format_of(4096)).unwrap();
    built.write(&file);
    strays.iter().for_each(|page| file.write(&[PageImage::from(page)]).unwrap());
    // Of so many sets that every third page fills all of them.
    let pages = PublishedPages::new(file, 570_000);
    let look_for_others = |first: u32| {
        for number in (first..16_000).step_by(8) {
            assert!(pages.get_with(&key(number), |found| found.is_none()).unwrap(), "{number}");
        }
    };
    let with_filters = |images: &[Page]| {
        let leaves = images.iter().filter(|page| page.view().level() == 0);
        leaves.filter(|leaf| pages.lacks_row(leaf.reference(), b"other")).count()
    };
    look_for_others(1);
    assert!(with_filters(&built.pages) > 50, "{} leaves", with_filters(&built.pages));
    assert_eq!(with_filters(&strays), 0);
    // New images, of which none is in place.
    let mut newer = HandBuilt { step: 3, children_per_page: 100, stamp: Lsn::new(2), ..HandBuilt::new(40) };
    newer.build(&rows);
    let images = newer.pages.iter().map(|page| (page.view().id(), page.clone()));
    pages.publish(Overlay::from_iter(images));
    assert_eq!((with_filters(&built.pages), with_filters(&newer.pages)), (0, 0));
    look_for_others(3);
    assert_eq!((with_filters(&built.pages), with_filters(&strays)), (0, 0));
    newer.write(pages.file());
    pages.drop_overlay();
    look_for_others(5);
    assert!(with_filters(&newer.pages) > 50, "{} leaves", with_filters(&newer.pages));
    assert_eq!((with_filters(&built.pages), with_filters(&strays)), (0, 0));
}
