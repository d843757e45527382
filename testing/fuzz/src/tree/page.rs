//! Single pages and extents.

use seawall_tree::SpaceMapView;
use seawall_tree::page::{
    Child, Extent, ExtentHeader, InteriorBuilder, InteriorView, LeafValue, LeafView, Page, PageFormat,
    PageMark, PageReference, Row, RowKey, encode_extent, encode_leaf, extent_pages,
};
use seawall_types::PageId;

use super::sample::{PAGE_BYTES, SAMPLE, STAMP, format, seal};
use crate::input::{Choices, Input, mutate, patch_at};

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

/// Page `page` and some image of it.
fn at(page: u64) -> PageReference {
    PageReference::new(PageId::new(page), PageMark::new(7))
}

fn leaf_template(format: &PageFormat, has_overflow: bool) -> Vec<u8> {
    let reference = seawall_tree::page::OverflowReference { total_bytes: 5000, first: at(9) };
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
    builder.push_first(Child::new(at(2)));
    for (page, key) in (6..).zip(&keys(40)) {
        builder.push(RowKey::from(&key[..]), Child::new(at(page)));
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
        next: goes_on.then_some(at(50)),
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
