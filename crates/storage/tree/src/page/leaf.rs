//! Leaves: sorted rows.
//!
//! | offset     | bytes | field   | meaning                                                             |
//! |-----------:|------:|---------|---------------------------------------------------------------------|
//! |          0 |    80 | header  | see `header`; `count` = n rows, `prefix_bytes` = p                  |
//! |         80 |     p | prefix  | the bytes that all keys of the page begin with                      |
//! |         80 + p | 4 x n | heads | first four bytes of each key after the prefix, as a number        |
//! | 80 + p + 4 n | 2 x n | offsets | where each row's cell starts; it ends where the next one starts   |
//! | 80 + p + 6 n |       | unused  | `lower..upper`                                                    |
//! |      upper |       | cells   | in row order, end to end, up to the page's end                      |
//!
//! A search touches the header, the prefix and the heads, which lie side by side, and one cell.
//!
//! A cell, whose length follows from the offsets, so that neither key nor value needs one of its own:
//!
//! | offset | bytes | field  | meaning                                                                           |
//! |-------:|------:|--------|-----------------------------------------------------------------------------------|
//! |      0 |     2 | shape  | bits 0..13: length of the key after the prefix; bit 14: the row is deleted; bit   |
//! |        |       |        | 15: the value is a reference; not both                                            |
//! |      2 |       | suffix | the key after the prefix                                                          |
//! |        |  rest | value  | the value; or a reference: its length, first page of its first extent, mark of    |
//! |        |       |        | that extent: 8, 8 and 4; or nothing, if the row is deleted                        |
//!
//! A row costs 8 bytes besides its suffix and value. `LeafSize` adds a row in constant time.
//!
//! A deleted row hides rows with its key that stand elsewhere and are older. Only rows of sorted runs can be deleted, and a
//! leaf with one has the version 3.

use std::ops::Range;

use seawall_codec::bytes::{u16_at, u32_at, u64_at};
use seawall_types::{Lsn, PageId};

use super::header::{PAGE_HEADER_BYTES, PageHeader, PageKind, VERSION_WITH_DELETED, version_of};
use super::key::{RowKey, common_prefix_bytes, head_of, head_of_parts, order_to_prefix, search_suffixes};
use super::{Page, PageDamage, PageFormat, PageMark, PageReference, SharedImage, seal};
use crate::prefetch::{LINE_BYTES, prefetch_lines};

/// Bytes of a row besides its key suffix and its value: head, offset, shape.
const ROW_OVERHEAD_BYTES: usize = SLOT_BYTES + SHAPE_BYTES;
const SLOT_BYTES: usize = 4 + 2;
const SHAPE_BYTES: usize = 2;
const SUFFIX_BYTES_MASK: u16 = 0x1FFF;
const DELETED_BIT: u16 = 0x4000;
const OVERFLOW_BIT: u16 = 0x8000;
const KIND_MASK: u16 = DELETED_BIT | OVERFLOW_BIT;
const REFERENCE_BYTES: usize = 20;
const FLAG_HAS_OVERFLOW: u8 = 1;

/// What is wrong where a row is deleted and is none of a sorted run.
pub(crate) const DELETED_OUTSIDE_OF_RUNS: PageDamage =
    PageDamage::Structure("a row is marked as deleted that is not in a sorted run");

/// Cache lines after the first one of a row's cell that a reader of a short value needs.
const VALUE_LINES: usize = 2;

/// Where a long value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverflowReference {
    /// Length of the value.
    pub total_bytes: u64,
    /// Its first extent.
    pub first: PageReference,
}

impl OverflowReference {
    fn encode(&self) -> [u8; REFERENCE_BYTES] {
        let mut bytes = [0; REFERENCE_BYTES];
        bytes[..8].copy_from_slice(&self.total_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.page.get().to_le_bytes());
        bytes[16..].copy_from_slice(&self.first.mark.get().to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> OverflowReference {
        let first = PageReference::new(PageId::new(u64_at(bytes, 8)), PageMark::new(u32_at(bytes, 16)));
        OverflowReference { total_bytes: u64_at(bytes, 0), first }
    }
}

/// A value as a leaf holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafValue<'a> {
    /// In the leaf.
    Inline(&'a [u8]),
    /// In overflow extents.
    Overflow(OverflowReference),
    /// There is none: the row is deleted. Only in sorted runs.
    Deleted,
}

impl LeafValue<'_> {
    /// Bytes that it takes in a leaf.
    pub const fn stored_bytes(&self) -> usize {
        match self {
            LeafValue::Inline(value) => value.len(),
            LeafValue::Overflow(_) => REFERENCE_BYTES,
            LeafValue::Deleted => 0,
        }
    }

    /// Its bits of a cell's shape.
    const fn kind(&self) -> u16 {
        match self {
            LeafValue::Inline(_) => 0,
            LeafValue::Overflow(_) => OVERFLOW_BIT,
            LeafValue::Deleted => DELETED_BIT,
        }
    }
}

/// A row as a leaf holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its key.
    pub key: RowKey<'a>,
    /// Its value.
    pub value: LeafValue<'a>,
}

/// A checked leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafView<'a> {
    bytes: &'a [u8],
    heads: &'a [[u8; 4]],
    offsets: &'a [[u8; 2]],
    prefix: &'a [u8],
}

impl<'a> LeafView<'a> {
    /// A view over a leaf that `validate` passed.
    #[inline]
    pub(super) fn over(bytes: &'a [u8]) -> LeafView<'a> {
        let count = usize::from(u16_at(bytes, 20));
        let (prefix, rest) = bytes[PAGE_HEADER_BYTES..].split_at(usize::from(u16_at(bytes, 22)));
        let (heads, offsets) = rest[..count * SLOT_BYTES].split_at(count * 4);
        LeafView { bytes, heads: heads.as_chunks().0, offsets: offsets.as_chunks().0, prefix }
    }

    /// Rows of the leaf.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether it has no row; only the root may.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The bytes that all keys of the leaf begin with.
    pub fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// Whether a value lies in overflow extents.
    pub fn has_overflow(&self) -> bool {
        self.bytes[19] & FLAG_HAS_OVERFLOW != 0
    }

    /// Whether a row is deleted.
    #[inline]
    pub fn has_deleted(&self) -> bool {
        version_of(self.bytes) == VERSION_WITH_DELETED
    }

    /// Bytes of the page that are in use: header, slots, cells and prefix.
    pub fn used_bytes(&self) -> usize {
        let cells = self.offsets.first().map_or(0, |_| self.bytes.len() - self.cell_start(0));
        PAGE_HEADER_BYTES + self.len() * SLOT_BYTES + cells + self.prefix.len()
    }

    /// Key of row `index`.
    #[inline]
    pub fn key(&self, index: usize) -> RowKey<'a> {
        RowKey::new(self.prefix, self.suffix(index))
    }

    /// Value of row `index`.
    #[inline]
    pub fn value(&self, index: usize) -> LeafValue<'a> {
        self.row(index).value
    }

    /// Row `index`, which is below `len`.
    #[inline]
    pub fn row(&self, index: usize) -> Row<'a> {
        let cell = &self.bytes[self.cell_start(index)..self.cell_end(index)];
        let shape = u16_at(cell, 0);
        let (suffix, value) = cell[SHAPE_BYTES..].split_at(usize::from(shape & SUFFIX_BYTES_MASK));
        let value = match shape & KIND_MASK {
            0 => LeafValue::Inline(value),
            DELETED_BIT => LeafValue::Deleted,
            _ => LeafValue::Overflow(OverflowReference::decode(value)),
        };
        Row { key: RowKey::new(self.prefix, suffix), value }
    }

    /// Bytes of the keys, whole, and of the stored values of `rows`. Costs the same however many they are.
    pub(crate) fn row_bytes(&self, rows: &Range<usize>) -> usize {
        if rows.is_empty() {
            return 0;
        }
        let cells = self.cell_end(rows.end - 1) - self.cell_start(rows.start);
        cells - rows.len() * SHAPE_BYTES + rows.len() * self.prefix.len()
    }

    /// The rows in ascending order; runs backwards too.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Row<'a>> + ExactSizeIterator + use<'a> {
        let view = *self;
        (0..view.len()).map(move |index| view.row(index))
    }

    /// How the key of row `index` stands to `key`.
    pub fn compare(&self, index: usize, key: &[u8]) -> std::cmp::Ordering {
        self.key(index).compare(key)
    }

    /// The row with `key`, or the index at which it would stand.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        match order_to_prefix(key, self.prefix) {
            std::cmp::Ordering::Less => Err(0),
            std::cmp::Ordering::Greater => Err(self.len()),
            std::cmp::Ordering::Equal => {
                search_suffixes(self.heads, &key[self.prefix.len()..], |index| self.wanted_suffix(index))
            }
        }
    }

    #[inline]
    fn suffix(&self, index: usize) -> &'a [u8] {
        let start = self.cell_start(index);
        let suffix_bytes = usize::from(u16_at(self.bytes, start) & SUFFIX_BYTES_MASK);
        &self.bytes[start + SHAPE_BYTES..start + SHAPE_BYTES + suffix_bytes]
    }

    /// As `suffix`, of a row whose value is wanted if the key is right: it is fetched while the key is compared.
    #[inline]
    fn wanted_suffix(&self, index: usize) -> &'a [u8] {
        let start = self.cell_start(index);
        prefetch_lines(self.bytes[start..].as_ptr().wrapping_add(LINE_BYTES), VALUE_LINES);
        self.suffix(index)
    }

    #[inline]
    fn cell_start(&self, index: usize) -> usize {
        usize::from(u16::from_le_bytes(self.offsets[index]))
    }

    #[inline]
    fn cell_end(&self, index: usize) -> usize {
        self.offsets.get(index + 1).map_or(self.bytes.len(), |end| usize::from(u16::from_le_bytes(*end)))
    }
}

/// Checks the structure of a leaf with a right header.
pub(super) fn validate(format: &PageFormat, header: &PageHeader, image: &[u8]) -> Result<(), PageDamage> {
    header.check_bounds(format, usize::from(header.count) * SLOT_BYTES)?;
    let view = LeafView::over(image);
    let mut start = header.upper as usize;
    let mut kinds = 0;
    for index in 0..view.len() {
        let end = view.cell_end(index);
        if view.cell_start(index) != start || end < start + SHAPE_BYTES || end > view.bytes.len() {
            return Err(PageDamage::Structure("the cells of the leaf do not lie end to end"));
        }
        let shape = u16_at(image, start);
        kinds |= shape & KIND_MASK;
        validate_cell(format, view.prefix.len(), shape, &image[start + SHAPE_BYTES..end])?;
        if u32::from_le_bytes(view.heads[index]) != head_of(view.suffix(index)) {
            return Err(PageDamage::Structure("a head is not that of its key"));
        }
        if index > 0 && view.suffix(index - 1) >= view.suffix(index) {
            return Err(PageDamage::Structure("the keys of the leaf do not ascend"));
        }
        start = end;
    }
    if start != view.bytes.len() && !view.is_empty() {
        return Err(PageDamage::Structure("bytes after the last cell"));
    }
    if (kinds & OVERFLOW_BIT != 0) != view.has_overflow() {
        return Err(PageDamage::Structure("the flag for overflow values is wrong"));
    }
    if (kinds & DELETED_BIT != 0) != view.has_deleted() {
        return Err(PageDamage::Structure("the version is not that of its rows"));
    }
    Ok(())
}

fn validate_cell(
    format: &PageFormat,
    prefix_bytes: usize,
    shape: u16,
    cell: &[u8],
) -> Result<(), PageDamage> {
    let suffix_bytes = usize::from(shape & SUFFIX_BYTES_MASK);
    if shape & !(SUFFIX_BYTES_MASK | KIND_MASK) != 0 || suffix_bytes > cell.len() {
        return Err(PageDamage::Structure("the key of a row runs past its cell"));
    }
    if prefix_bytes + suffix_bytes > format.max_key_bytes() {
        return Err(PageDamage::Structure("a key is longer than a key can be"));
    }
    if shape & DELETED_BIT != 0 && (shape & OVERFLOW_BIT != 0 || suffix_bytes != cell.len()) {
        return Err(PageDamage::Structure("a deleted row with a value"));
    }
    if shape & OVERFLOW_BIT != 0 {
        let value = &cell[suffix_bytes..];
        if value.len() != REFERENCE_BYTES {
            return Err(PageDamage::Structure("a reference to overflow extents of the wrong length"));
        }
        let reference = OverflowReference::decode(value);
        if reference.first.page.get() == 0 || reference.total_bytes == 0 {
            return Err(PageDamage::Structure("a reference to overflow extents that cannot be"));
        }
    }
    Ok(())
}

/// The exact size of a leaf with given rows, as they are added in key order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafSize {
    rows: usize,
    key_bytes: usize,
    value_bytes: usize,
    prefix_bytes: usize,
}

impl LeafSize {
    /// The size with one more row. `shared_bytes` is how many first bytes its key shares with the key of the first
    /// row of the leaf (ignored for the first row itself).
    #[must_use]
    pub fn with_row(self, key_bytes: usize, shared_bytes: usize, stored_value_bytes: usize) -> LeafSize {
        LeafSize {
            rows: self.rows + 1,
            key_bytes: self.key_bytes + key_bytes,
            value_bytes: self.value_bytes + stored_value_bytes,
            prefix_bytes: if self.rows == 0 { key_bytes } else { self.prefix_bytes.min(shared_bytes) },
        }
    }

    /// The size with `rows` more rows between the first and the last one, whose keys and stored values take `bytes`.
    #[must_use]
    fn with_inner_rows(self, rows: usize, bytes: usize) -> LeafSize {
        // What is a key's and what a value's does not matter to the sum.
        LeafSize { rows: self.rows + rows, key_bytes: self.key_bytes + bytes, ..self }
    }

    /// Bytes of a page that the rows take, header included.
    pub fn encoded_bytes(&self) -> usize {
        let suffixes = self.key_bytes - self.rows * self.prefix_bytes;
        PAGE_HEADER_BYTES + self.rows * ROW_OVERHEAD_BYTES + suffixes + self.value_bytes + self.prefix_bytes
    }

    /// Rows added so far.
    pub fn row_count(&self) -> usize {
        self.rows
    }

    fn cell_bytes(&self) -> usize {
        self.key_bytes - self.rows * self.prefix_bytes + self.value_bytes + self.rows * SHAPE_BYTES
    }
}

/// Neighbouring rows on their way into a leaf.
#[derive(Clone, Debug)]
pub(crate) enum RowRun<'a> {
    /// Rows of another leaf, at least one.
    Kept(LeafView<'a>, Range<usize>),
    /// One row.
    One(Row<'a>),
}

impl<'a> RowRun<'a> {
    /// How many rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            RowRun::Kept(_, rows) => rows.len(),
            RowRun::One(_) => 1,
        }
    }

    /// The first row's key.
    pub(crate) fn first(&self) -> RowKey<'a> {
        match self {
            RowRun::Kept(view, rows) => view.key(rows.start),
            RowRun::One(row) => row.key,
        }
    }

    /// The last row's key.
    pub(crate) fn last(&self) -> RowKey<'a> {
        match self {
            RowRun::Kept(view, rows) => view.key(rows.end - 1),
            RowRun::One(row) => row.key,
        }
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let (view, rows, one) = match self {
            RowRun::Kept(view, rows) => (Some(*view), rows.clone(), None),
            RowRun::One(row) => (None, 0..0, Some(*row)),
        };
        let kept = view.into_iter().flat_map(move |view| rows.clone().map(move |index| view.row(index)));
        kept.chain(one)
    }

    fn row_bytes(&self) -> usize {
        match self {
            RowRun::Kept(view, rows) => view.row_bytes(rows),
            RowRun::One(row) => row.key.len() + row.value.stored_bytes(),
        }
    }
}

/// The exact size of one leaf with all rows of `runs`, which ascend. Costs the same however many rows a run has.
pub(crate) fn size_of_runs(runs: &[RowRun<'_>]) -> LeafSize {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return LeafSize::default() };
    // What first and last row share is what all between share.
    let size =
        LeafSize { prefix_bytes: first.first().common_prefix_bytes(&last.last()), ..LeafSize::default() };
    runs.iter().fold(size, |size, run| size.with_inner_rows(run.len(), run.row_bytes()))
}

/// Builds a leaf of `runs`, which ascend and have the given size. Where a run shares as much as the leaf does, as it
/// nearly always does, its cells are copied in one piece: a leaf with a few changed rows costs little more than a copy.
///
/// # Panics
/// If they do not fit.
pub(crate) fn encode_leaf_of_runs(
    format: &PageFormat,
    runs: &[RowRun<'_>],
    size: LeafSize,
    page: PageId,
    lsn: Lsn,
) -> Page {
    let first = runs.first().map_or(RowKey::new(&[], &[]), RowRun::first);
    let mut writer = LeafWriter::new(format, size, first);
    for run in runs {
        match run {
            RowRun::Kept(view, rows) => writer.add_run(view, rows),
            RowRun::One(row) => writer.add(row.key.skip(size.prefix_bytes), row.value),
        }
    }
    writer.finish(format, page, lsn)
}

/// Builds a leaf of `rows`, which ascend and fit (see [`LeafSize`]).
///
/// # Panics
/// If they do not fit.
pub fn encode_leaf(format: &PageFormat, rows: &[Row<'_>], page: PageId, lsn: Lsn) -> Page {
    let mut size = LeafSize::default();
    // The prefix of first and last is that of all between, and the sums do not need each row's own.
    let shared = match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => first.key.common_prefix_bytes(&last.key),
        _ => 0,
    };
    for row in rows {
        size = size.with_row(row.key.len(), shared, row.value.stored_bytes());
    }
    let first = rows.first().map_or(RowKey::new(&[], &[]), |row| row.key);
    let mut writer = LeafWriter::new(format, size, first);
    for row in rows {
        writer.add(row.key.skip(size.prefix_bytes), row.value);
    }
    writer.finish(format, page, lsn)
}

/// Collects rows for one leaf after another; copies them, so that the source may move on.
#[derive(Debug)]
pub struct LeafBuilder {
    format: PageFormat,
    size: LeafSize,
    rows: Vec<BuilderRow>,
    /// Keys and stored values of the rows, end to end.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct BuilderRow {
    start: usize,
    key_end: usize,
    end: usize,
    /// Bits of the shape.
    kind: u16,
}

impl LeafBuilder {
    /// A builder with no rows.
    pub fn new(format: PageFormat) -> LeafBuilder {
        LeafBuilder { format, size: LeafSize::default(), rows: Vec::new(), bytes: Vec::new() }
    }

    /// Whether no row was pushed since the last leaf was finished.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows pushed since.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of a page that the rows take so far, header included.
    pub fn encoded_bytes(&self) -> usize {
        self.size.encoded_bytes()
    }

    /// Bytes that they would take with this row too.
    pub fn encoded_bytes_with(&self, row: &Row<'_>) -> usize {
        self.size_with(row).encoded_bytes()
    }

    /// Whether the row fits into the page too.
    pub fn fits(&self, row: &Row<'_>) -> bool {
        self.encoded_bytes_with(row) <= self.format.page_bytes()
    }

    /// Adds a row; its key is greater than all before, and it fits.
    pub fn push(&mut self, row: &Row<'_>) {
        let size = self.size_with(row);
        self.push_sized(row, size);
    }

    /// Adds a row if the page then takes at most `limit_bytes`; a first row is always taken. One look at the key
    /// where `encoded_bytes_with` and `push` take two.
    pub fn push_within(&mut self, row: &Row<'_>, limit_bytes: usize) -> bool {
        let size = self.size_with(row);
        let fits = self.rows.is_empty() || size.encoded_bytes() <= limit_bytes;
        if fits {
            self.push_sized(row, size);
        }
        fits
    }

    /// Key of the last row pushed.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.rows.last().map(|row| &self.bytes[row.start..row.key_end])
    }

    /// Key of the first row pushed.
    pub fn first_key(&self) -> Option<&[u8]> {
        self.rows.first().map(|row| &self.bytes[row.start..row.key_end])
    }

    /// Whether one of the values is a reference to overflow extents.
    pub fn has_overflow(&self) -> bool {
        self.rows.iter().any(|row| row.kind == OVERFLOW_BIT)
    }

    /// Builds the leaf and starts over with none.
    pub fn finish(&mut self, page: PageId, lsn: Lsn) -> Page {
        let prefix_bytes = self.size.prefix_bytes;
        let first = RowKey::from(self.first_key().unwrap_or(&[]));
        let mut writer = LeafWriter::new(&self.format, self.size, first);
        for row in &self.rows {
            let suffix_start = row.start + prefix_bytes;
            writer.add_cell(&self.bytes[suffix_start..row.end], row.key_end - suffix_start, row.kind);
        }
        self.rows.clear();
        self.bytes.clear();
        self.size = LeafSize::default();
        writer.finish(&self.format, page, lsn)
    }

    fn size_with(&self, row: &Row<'_>) -> LeafSize {
        let shared = self.first_key().map_or(0, |first| shared_bytes(first, &row.key));
        self.size.with_row(row.key.len(), shared, row.value.stored_bytes())
    }

    fn push_sized(&mut self, row: &Row<'_>, size: LeafSize) {
        assert!(row.key.len() <= self.format.max_key_bytes(), "a key of {} bytes", row.key.len());
        let start = self.bytes.len();
        row.key.append_to(&mut self.bytes);
        let key_end = self.bytes.len();
        match row.value {
            LeafValue::Inline(value) => self.bytes.extend_from_slice(value),
            LeafValue::Overflow(reference) => self.bytes.extend_from_slice(&reference.encode()),
            LeafValue::Deleted => {}
        }
        self.rows.push(BuilderRow { start, key_end, end: self.bytes.len(), kind: row.value.kind() });
        self.size = size;
    }
}

fn shared_bytes(first: &[u8], key: &RowKey<'_>) -> usize {
    if key.prefix().is_empty() {
        common_prefix_bytes(first, key.suffix())
    } else {
        RowKey::from(first).common_prefix_bytes(key)
    }
}

/// Writes the cells of a leaf whose size is known into its image.
struct LeafWriter {
    image: SharedImage,
    size: LeafSize,
    index: usize,
    cell: usize,
    /// Bits of the shapes of all rows.
    kinds: u16,
}

impl LeafWriter {
    fn new(format: &PageFormat, size: LeafSize, first: RowKey<'_>) -> LeafWriter {
        assert!(size.encoded_bytes() <= format.page_bytes(), "{size:?} does not fit {format:?}");
        let mut image = SharedImage::zeroed(format.page_bytes());
        let prefix = &mut image.unshared_mut()[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + size.prefix_bytes];
        let in_prefix = first.prefix().len().min(prefix.len());
        let (start, rest) = prefix.split_at_mut(in_prefix);
        start.copy_from_slice(&first.prefix()[..in_prefix]);
        rest.copy_from_slice(&first.suffix()[..rest.len()]);
        LeafWriter { image, size, index: 0, cell: format.page_bytes() - size.cell_bytes(), kinds: 0 }
    }

    /// Adds a row, by its key after the prefix.
    fn add(&mut self, suffix: RowKey<'_>, value: LeafValue<'_>) {
        let reference;
        let stored = match value {
            LeafValue::Inline(value) => value,
            LeafValue::Overflow(at) => {
                reference = at.encode();
                &reference[..]
            }
            LeafValue::Deleted => &[],
        };
        self.add_parts(
            head_of_parts(&suffix),
            suffix.len(),
            value.kind(),
            [suffix.prefix(), suffix.suffix(), stored],
        );
    }

    /// Adds rows of another leaf.
    fn add_run(&mut self, view: &LeafView<'_>, rows: &Range<usize>) {
        if view.prefix.len() != self.size.prefix_bytes {
            for row in rows.clone().map(|index| view.row(index)) {
                self.add(row.key.skip(self.size.prefix_bytes), row.value);
            }
            return;
        }
        let cells = &view.bytes[view.cell_start(rows.start)..view.cell_end(rows.end - 1)];
        let image = self.image.unshared_mut();
        let heads_at = PAGE_HEADER_BYTES + self.size.prefix_bytes;
        let heads = view.heads[rows.clone()].as_flattened();
        let head_at = heads_at + self.index * 4;
        image[head_at..head_at + heads.len()].copy_from_slice(heads);
        let offset_at = heads_at + self.size.rows * 4 + self.index * 2;
        let offsets = image[offset_at..offset_at + rows.len() * 2].as_chunks_mut::<2>().0;
        let number = |at: usize| u16::try_from(at).expect("a cell starts within a page of at most 64 KiB");
        // Modulo 2^16: cells move down as well as up.
        let moved = number(self.cell).wrapping_sub(number(view.cell_start(rows.start)));
        for (to, from) in offsets.iter_mut().zip(&view.offsets[rows.clone()]) {
            *to = u16::from_le_bytes(*from).wrapping_add(moved).to_le_bytes();
        }
        image[self.cell..self.cell + cells.len()].copy_from_slice(cells);
        self.cell += cells.len();
        self.index += rows.len();
        if view.has_overflow() || view.has_deleted() {
            let kind = |index| u16_at(view.bytes, view.cell_start(index)) & KIND_MASK;
            self.kinds |= rows.clone().map(kind).fold(0, |kinds, kind| kinds | kind);
        }
    }

    /// Adds a row whose key after the prefix and stored value stand end to end in `cell`.
    fn add_cell(&mut self, cell: &[u8], suffix_bytes: usize, kind: u16) {
        self.add_parts(head_of(&cell[..suffix_bytes]), suffix_bytes, kind, [cell]);
    }

    #[inline]
    fn add_parts<const N: usize>(&mut self, head: u32, suffix_bytes: usize, kind: u16, parts: [&[u8]; N]) {
        let image = self.image.unshared_mut();
        let heads_at = PAGE_HEADER_BYTES + self.size.prefix_bytes;
        let head_at = heads_at + self.index * 4;
        image[head_at..head_at + 4].copy_from_slice(&head.to_le_bytes());
        let offset_at = heads_at + self.size.rows * 4 + self.index * 2;
        let offset = u16::try_from(self.cell).expect("a cell starts within a page of at most 64 KiB");
        image[offset_at..offset_at + 2].copy_from_slice(&offset.to_le_bytes());
        let shape = kind | u16::try_from(suffix_bytes).expect("a key has at most 4112 bytes");
        self.kinds |= kind;
        image[self.cell..self.cell + SHAPE_BYTES].copy_from_slice(&shape.to_le_bytes());
        self.cell += SHAPE_BYTES;
        for part in parts {
            image[self.cell..self.cell + part.len()].copy_from_slice(part);
            self.cell += part.len();
        }
        self.index += 1;
    }

    fn finish(mut self, format: &PageFormat, page: PageId, lsn: Lsn) -> Page {
        let cells_end = format.page_bytes();
        assert!(
            self.index == self.size.rows && self.cell == cells_end,
            "rows do not add up to {:?}",
            self.size
        );
        let number = |value: usize| u32::try_from(value).expect("a page has at most 64 KiB");
        let plain = PageHeader::empty(page, PageKind::Leaf, lsn);
        let header = PageHeader {
            version: if self.kinds & DELETED_BIT == 0 { plain.version } else { VERSION_WITH_DELETED },
            flags: if self.kinds & OVERFLOW_BIT == 0 { 0 } else { FLAG_HAS_OVERFLOW },
            count: u16::try_from(self.size.rows).expect("a row takes 8 bytes of at most 64 KiB"),
            prefix_bytes: u16::try_from(self.size.prefix_bytes).expect("a key has at most 4112 bytes"),
            lower: number(PAGE_HEADER_BYTES + self.size.prefix_bytes + self.size.rows * SLOT_BYTES),
            upper: number(cells_end - self.size.cell_bytes()),
            ..plain
        };
        let image = self.image.unshared_mut();
        header.encode(format, image);
        seal(image);
        Page::from_sealed(self.image)
    }
}
