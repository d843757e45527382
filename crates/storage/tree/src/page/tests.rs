//! Pages against plain vectors of rows, and mutated pages against their checks.

use seawall_simulation::SeededRandom;
use seawall_types::{DatabaseId, Lsn, PageId};

use super::*;

/// `length` bytes of the first `alphabet` values.
fn random_bytes(random: &mut SeededRandom, length: usize, alphabet: usize) -> Vec<u8> {
    (0..length).map(|_| u8::try_from(random.index(alphabet)).unwrap()).collect()
}

pub(crate) const DATABASE: DatabaseId = DatabaseId::from_bytes(*b"test database id");

pub(crate) fn format_of(page_bytes: usize) -> PageFormat {
    PageFormat::new(page_bytes, &DATABASE).unwrap()
}

/// Sorted rows that fit one page together.
fn random_rows(random: &mut SeededRandom, format: &PageFormat) -> Vec<(Vec<u8>, Vec<u8>)> {
    let alphabet = [2, 4, 256][random.index(3)];
    let key_bytes = [3, 12, 40, format.max_key_bytes()][random.index(4)];
    let shared_bytes = random.index(9.min(key_bytes));
    let shared = random_bytes(random, shared_bytes, alphabet);
    let mut rows = std::collections::BTreeMap::new();
    let mut left = format.page_bytes() - PAGE_HEADER_BYTES;
    for _ in 0..random.index(300) {
        let length = random.index(key_bytes - shared.len() + 1);
        let key = [&shared[..], &random_bytes(random, length, alphabet)].concat();
        let longest = [1, 20, format.max_inline_value_bytes()][random.index(3)];
        let value_bytes = random.index(longest + 1);
        let value = random_bytes(random, value_bytes, 256);
        let cost = key.len() + value.len() + 8;
        if cost > left {
            break;
        }
        left -= cost;
        rows.insert(key, value);
    }
    rows.into_iter().collect()
}

fn as_row<'a>((key, value): &'a (Vec<u8>, Vec<u8>)) -> Row<'a> {
    let cut = key.len() / 3;
    Row { key: RowKey::new(&key[..cut], &key[cut..]), value: LeafValue::Inline(value) }
}

fn decode(format: &PageFormat, page: &Page) -> Page {
    Page::decode(format, page.view().id(), page.bytes()).unwrap()
}

#[test]
fn leaf_gives_back_its_rows() {
    for seed in 0..400 {
        let mut random = SeededRandom::new(seed);
        let format = format_of(4096 << random.index(5));
        let rows = random_rows(&mut random, &format);
        let borrowed: Vec<Row<'_>> = rows.iter().map(as_row).collect();
        let page = encode_leaf(&format, &borrowed, PageId::new(7), Lsn::new(99));
        let mut builder = LeafBuilder::new(format);
        for row in &borrowed {
            assert!(builder.fits(row), "seed {seed}");
            builder.push(row);
        }
        let used = builder.encoded_bytes();
        assert_eq!(builder.finish(PageId::new(7), Lsn::new(99)).bytes(), page.bytes(), "seed {seed}");

        let page = decode(&format, &page);
        let leaf = page.view().leaf().unwrap();
        assert_eq!((page.view().lsn(), page.view().level()), (Lsn::new(99), 0));
        assert_eq!(leaf.used_bytes(), used, "seed {seed}");
        assert_eq!(leaf.len(), rows.len(), "seed {seed}");
        for (index, (key, value)) in rows.iter().enumerate() {
            assert_eq!(leaf.key(index).to_vec(), *key, "seed {seed}");
            assert_eq!(leaf.value(index), LeafValue::Inline(value), "seed {seed}");
            assert_eq!(leaf.search(key), Ok(index), "seed {seed}");
        }
        for _ in 0..50 {
            let length = random.index(8);
            let key = random_bytes(&mut random, length, 5);
            assert_eq!(
                leaf.search(&key),
                rows.binary_search_by(|row| row.0.cmp(&key)),
                "seed {seed} {key:?}"
            );
        }
        assert!(leaf.rows().rev().map(|row| row.key.to_vec()).eq(rows.iter().rev().map(|row| row.0.clone())));
    }
}

/// Some rows deleted, others with a value, some of them in extents.
fn with_deleted<'a>(random: &mut SeededRandom, rows: &'a [(Vec<u8>, Vec<u8>)]) -> Vec<Row<'a>> {
    let reference = OverflowReference { total_bytes: 9, first: at(9) };
    rows.iter()
        .map(as_row)
        .map(|row| match random.index(6) {
            0 if row.value.stored_bytes() >= 20 => Row { value: LeafValue::Overflow(reference), ..row },
            1 | 2 => Row { value: LeafValue::Deleted, ..row },
            _ => row,
        })
        .collect()
}

#[test]
fn leaf_gives_back_deleted_rows() {
    let mut deleted = 0;
    for seed in 0..400 {
        let mut random = SeededRandom::new(seed);
        let format = format_of(4096 << random.index(5));
        let rows = random_rows(&mut random, &format);
        let rows = with_deleted(&mut random, &rows);
        let page = decode(&format, &encode_leaf(&format, &rows, PageId::new(7), Lsn::new(99)));
        let leaf = page.view().leaf().unwrap();
        assert!(leaf.rows().eq(rows.iter().copied()), "seed {seed}");
        let count = rows.iter().filter(|row| row.value == LeafValue::Deleted).count();
        assert_eq!(leaf.has_deleted(), count > 0, "seed {seed}");
        // A database without deleted rows has the bytes that releases before read.
        assert_eq!(page.bytes()[16], if count > 0 { 3 } else { 2 }, "seed {seed}");
        deleted += count;

        let mut builder = LeafBuilder::new(format);
        rows.iter().for_each(|row| builder.push(row));
        assert_eq!(builder.finish(PageId::new(7), Lsn::new(99)).bytes(), page.bytes(), "seed {seed}");

        let mut runs = Vec::new();
        let mut at = 0;
        while at < leaf.len() {
            let end = (at + 1 + random.index(9)).min(leaf.len());
            runs.push(RowRun::Kept(leaf, at..end));
            at = end;
        }
        let built = encode_leaf_of_runs(&format, &runs, size_of_runs(&runs), PageId::new(7), Lsn::new(99));
        assert_eq!(built.bytes(), page.bytes(), "seed {seed}");
        // Runs without a deleted row make a leaf without.
        runs.retain(|run| run.rows().all(|row| row.value != LeafValue::Deleted));
        let built = encode_leaf_of_runs(&format, &runs, size_of_runs(&runs), PageId::new(7), Lsn::new(99));
        assert!(!decode(&format, &built).view().leaf().unwrap().has_deleted(), "seed {seed}");
    }
    assert!(deleted > 200, "only {deleted} rows were deleted");
}

#[test]
fn deleted_rows_that_cannot_be_are_refused() {
    let format = format_of(4096);
    let row = |key: &'static [u8], value| Row { key: RowKey::from(key), value };
    let rows =
        [row(b"deleted", LeafValue::Deleted), row(b"there", LeafValue::Inline(b"12345678901234567890"))];
    let page = encode_leaf(&format, &rows, PageId::new(1), Lsn::ZERO);
    let (first, second) = (4096 - 36, 4096 - 27);
    assert_eq!(page.bytes()[first..first + 9], *b"\x07\x40deleted");
    assert_eq!(page.bytes()[second..second + 7], *b"\x05\x00there");
    let cases: [(&str, &[(usize, u8)]); 6] = [
        ("an old version with a deleted row", &[(16, 2)]),
        ("a new version without one", &[(first + 1, 0)]),
        ("a version that is not known", &[(16, 4)]),
        ("deleted and with a value", &[(second + 1, 0x40)]),
        ("deleted and with a reference", &[(second + 1, 0xC0), (19, 1)]),
        ("a bit that means nothing", &[(second + 1, 0x20)]),
    ];
    for (what, changes) in cases {
        let mut image = page.bytes().to_vec();
        changes.iter().for_each(|(at, byte)| image[*at] = *byte);
        seal(&mut image);
        let refused = Page::decode(&format, PageId::new(1), &image);
        assert!(
            matches!(refused, Err(PageDamage::Structure(_) | PageDamage::Version(4))),
            "{what}: {refused:?}"
        );
    }
    // Only a leaf has the new version.
    let mut builder = InteriorBuilder::new(format);
    builder.push_first(Child::new(at(2)));
    let mut image = builder.finish(1, PageId::new(1), Lsn::ZERO).bytes().to_vec();
    image[16] = 3;
    seal(&mut image);
    assert!(matches!(Page::decode(&format, PageId::new(1), &image), Err(PageDamage::Structure(_))));
}

/// Page `page` and some image of it.
fn at(page: u64) -> PageReference {
    PageReference::new(PageId::new(page), PageMark::new(u32::try_from(page * 77).unwrap()))
}

/// Rows kept from leaves that share more, less and as much as the new one, with single rows between.
#[test]
fn leaf_of_runs_is_the_leaf_of_its_rows() {
    for seed in 0..600 {
        let mut random = SeededRandom::new(seed);
        let format = format_of(4096 << random.index(5));
        let rows = random_rows(&mut random, &format);
        let reference = OverflowReference { total_bytes: 1 + seed, first: at(9) };
        let borrowed: Vec<Row<'_>> = rows
            .iter()
            .map(as_row)
            .map(|row| match row.value {
                LeafValue::Inline(value) if value.len() >= 20 && random.index(5) == 0 => {
                    Row { value: LeafValue::Overflow(reference), ..row }
                }
                LeafValue::Inline(_) | LeafValue::Overflow(_) | LeafValue::Deleted => row,
            })
            .collect();
        // Old leaves hold neighbouring rows, so their prefix is as long as the new leaf's, or longer.
        let mut old = Vec::new();
        let mut start = 0;
        while start < borrowed.len() {
            let end = (start + 1 + random.index(40)).min(borrowed.len());
            old.push(encode_leaf(&format, &borrowed[start..end], PageId::new(3), Lsn::new(1)));
            start = end;
        }
        let mut runs = Vec::new();
        for leaf in &old {
            let view = leaf.view().leaf().unwrap();
            let mut at = 0;
            while at < view.len() {
                let end = (at + 1 + random.index(10)).min(view.len());
                if random.index(3) == 0 {
                    runs.extend((at..end).map(|index| RowRun::One(view.row(index))));
                } else {
                    runs.push(RowRun::Kept(view, at..end));
                }
                at = end;
            }
        }
        let size = size_of_runs(&runs);
        let built = encode_leaf_of_runs(&format, &runs, size, PageId::new(7), Lsn::new(99));
        let expected = encode_leaf(&format, &borrowed, PageId::new(7), Lsn::new(99));
        assert_eq!(built.bytes(), expected.bytes(), "seed {seed}");
        assert_eq!(size.encoded_bytes(), expected.view().leaf().unwrap().used_bytes(), "seed {seed}");
        let again: Vec<Row<'_>> = runs.iter().flat_map(RowRun::rows).collect();
        assert_eq!(again, borrowed, "seed {seed}");
    }
}

#[test]
fn interior_page_leads_to_the_right_child() {
    for seed in 0..400 {
        let mut random = SeededRandom::new(seed);
        let format = format_of(4096 << random.index(5));
        let separators: Vec<Vec<u8>> = random_rows(&mut random, &format)
            .into_iter()
            .map(|row| row.0)
            .filter(|key| !key.is_empty())
            .collect();
        let mut builder = InteriorBuilder::new(format);
        builder.push_first(Child::new(at(100)));
        let mut kept = Vec::new();
        for separator in &separators {
            if builder.fits(&RowKey::from(&separator[..])) {
                let child = Child { flags: CHILD_HAS_OVERFLOW, ..Child::new(at(101 + kept.len() as u64)) };
                builder.push(RowKey::from(&separator[..]), child);
                kept.push(separator);
            }
        }
        let used = builder.encoded_bytes();
        let page = decode(&format, &builder.finish(1, PageId::new(1), Lsn::new(5)));
        let interior = page.view().interior().unwrap();
        assert_eq!((interior.len(), interior.used_bytes(), interior.level()), (kept.len() + 1, used, 1));
        for index in 0..interior.len() {
            assert_eq!(interior.child(index).reference(), at(100 + index as u64));
        }
        for (index, separator) in kept.iter().enumerate() {
            assert_eq!(interior.separator(index).to_vec(), **separator);
            assert_eq!(interior.child_for(separator), index + 1, "seed {seed}");
            assert_eq!(interior.child_below(separator), index, "seed {seed}");
        }
        for _ in 0..50 {
            let length = random.index(8);
            let key = random_bytes(&mut random, length, 5);
            let expected = kept.iter().filter(|separator| ***separator <= key).count();
            assert_eq!(interior.child_for(&key), expected, "seed {seed} {key:?}");
        }
    }
}

#[test]
fn longest_key_fits_alone_beside_the_longest_value() {
    for shift in 0..5 {
        let format = format_of(4096 << shift);
        let key = vec![255; format.max_key_bytes()];
        let value = vec![1; format.max_inline_value_bytes()];
        let reference = OverflowReference { total_bytes: 1 << 26, first: at(9) };
        for value in [LeafValue::Inline(&value), LeafValue::Overflow(reference)] {
            let row = Row { key: RowKey::from(&key[..]), value };
            let page = decode(&format, &encode_leaf(&format, &[row], PageId::new(2), Lsn::ZERO));
            let leaf = page.view().leaf().unwrap();
            assert_eq!(leaf.row(0), row);
            assert_eq!(leaf.has_overflow(), matches!(value, LeafValue::Overflow(_)));
        }
        let mut builder = InteriorBuilder::new(format);
        builder.push_first(Child::new(at(2)));
        builder.push(RowKey::from(&key[..]), Child::new(at(3)));
        decode(&format, &builder.finish(9, PageId::new(1), Lsn::ZERO));
    }
}

#[test]
fn page_of_another_place_or_database_is_refused() {
    let format = format_of(8192);
    let page = encode_leaf(&format, &[], PageId::new(4), Lsn::ZERO);
    let image = page.bytes();
    let misplaced = Page::decode(&format, PageId::new(5), image).unwrap_err();
    assert_eq!(misplaced, PageDamage::Misplaced { found: PageId::new(4) });
    let other = PageFormat::new(8192, &DatabaseId::from_bytes([3; 16])).unwrap();
    let foreign = Page::decode(&other, PageId::new(4), image).unwrap_err();
    assert!(matches!(foreign, PageDamage::Database { .. }));
    for bit in 0..image.len() * 8 {
        if bit > 1000 && bit % 97 != 0 {
            continue;
        }
        let mut flipped = image.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let damage = Page::decode(&format, PageId::new(4), &flipped).unwrap_err();
        assert!(matches!(damage, PageDamage::Checksum { .. }), "bit {bit}: {damage}");
    }
}

/// Whatever passes the checks may be used without a panic, wherever its bytes came from.
#[test]
fn mutated_pages_are_refused_or_can_be_used() {
    let mut passed = 0;
    for seed in 0..3000 {
        let mut random = SeededRandom::new(seed);
        let format = format_of(4096);
        let rows = random_rows(&mut random, &format);
        let page = if random.index(2) == 0 {
            encode_leaf(&format, &with_deleted(&mut random, &rows), PageId::new(1), Lsn::ZERO)
        } else {
            let mut builder = InteriorBuilder::new(format);
            builder.push_first(Child::new(at(100)));
            for row in rows.iter().filter(|row| !row.0.is_empty()) {
                let separator = RowKey::from(&row.0[..]);
                if builder.fits(&separator) {
                    builder.push(separator, Child::new(at(3)));
                }
            }
            builder.finish(1, PageId::new(1), Lsn::ZERO)
        };
        let mut image = page.bytes().to_vec();
        for _ in 0..1 + random.index(3) {
            // Mostly where the structure is: in the header, the slots and the cells.
            let zone = [48, 700, image.len()][random.index(3)];
            let at = 16 + random.index(zone - 16);
            image[at] = [0, 1, 255, image[at] ^ 1, image[at].wrapping_add(1)][random.index(5)];
        }
        seal(&mut image);
        if let Ok(page) = Page::decode(&format, PageId::new(1), &image) {
            passed += 1;
            use_all(&page, &rows);
        }
    }
    assert!(passed > 100, "only {passed} mutated pages passed");
}

fn use_all(page: &Page, rows: &[(Vec<u8>, Vec<u8>)]) {
    let view = page.view();
    if let Ok(leaf) = view.leaf() {
        assert!(leaf.rows().map(|row| row.key.len() + row.value.stored_bytes()).sum::<usize>() < 1 << 26);
        assert!(leaf.used_bytes() <= page.bytes().len());
        rows.iter().for_each(|row| assert!(leaf.search(&row.0).unwrap_or_else(|at| at) <= leaf.len()));
    }
    if let Ok(interior) = view.interior() {
        assert!(interior.used_bytes() <= page.bytes().len());
        (0..interior.len()).for_each(|index| {
            assert!(interior.child(index).page.get() != 0);
            assert!(interior.upper_fence(index).is_none_or(|fence| fence.len() <= 4112));
        });
        for row in rows {
            assert!(interior.child_for(&row.0) < interior.len());
            assert!(interior.child_below(&row.0) < interior.len());
        }
    }
}

#[test]
fn extent_gives_back_its_data() {
    let format = format_of(4096);
    for data_bytes in [1, 3976, 3977, 100_000, 4096 * 128 - EXTENT_HEADER_BYTES] {
        let data: Vec<u8> = (0..data_bytes).map(|byte| u8::try_from(byte % 251).unwrap()).collect();
        let header = ExtentHeader {
            first: PageId::new(8),
            pages: extent_pages(&format, data_bytes),
            data_bytes,
            next: Some(at(400)),
            total_bytes: 1 << 20,
            position: 77,
        };
        let mut image = encode_extent(&format, &header, Lsn::new(3), &data);
        image.extend_from_slice(&[9; 5000]);
        let extent = Extent::decode(&format, PageId::new(8), &image).unwrap();
        assert_eq!((extent.header, extent.data), (header, &data[..]));
        assert!(Extent::decode(&format, PageId::new(8), &image[..header.pages * 4096 - 1]).is_err());
        for _ in 0..20 {
            let mut flipped = image.clone();
            flipped[data_bytes + 50] ^= 4;
            assert!(Extent::decode(&format, PageId::new(8), &flipped).is_err());
        }
    }
}
