//! The rows of one or more neighbouring leaves while they are merged with changes, and the leaves built from them.
//!
//! Rows of old leaves are not copied before the new leaf is encoded; changed ones wait in an arena.

use seawall_types::PageId;

use super::children::{ChildList, Fill, Home, target_bytes};
use crate::chunk::ChunkBuilder;
use crate::error::TreeError;
use crate::page::{
    CHILD_HAS_OVERFLOW, Child, LeafSize, LeafValue, LeafView, OverflowReference, Page, Row, RowKey,
    encode_leaf, shortest_separator,
};
use crate::tree::ROOT_PAGE;

/// Bytes of a row in a leaf besides key suffix and value.
const ROW_OVERHEAD_BYTES: usize = 8;
/// Leaves' worth of rows that are gathered before some are built.
const GATHERED_PAGES: usize = 16;
/// Leaves' worth that are kept back then, so that the last ones come out even.
const KEPT_PAGES: usize = 4;

#[derive(Clone, Copy, Debug)]
enum RowSource {
    Old { page: u32, index: u32 },
    Inline { key_start: usize, key_end: usize, value_end: usize },
    Overflow { key_start: usize, key_end: usize, reference: OverflowReference },
}

/// Rows in key order on their way into new leaves.
#[derive(Debug)]
pub(crate) struct RowSet {
    pages: Vec<Page>,
    rows: Vec<RowSource>,
    arena: Vec<u8>,
    /// Bytes the rows take at most.
    bytes: usize,
    /// Rows differ from those of the old leaves.
    changed: bool,
    old_rows: usize,
    new_rows: usize,
    /// No row was replaced, and none of the new ones is before an old one.
    appended: bool,
    home: Home,
    lower: Vec<u8>,
    /// Key of the last row that was built into a leaf.
    last_key: Option<Vec<u8>>,
}

impl RowSet {
    /// No rows yet. The first leaf goes to `home`; nothing before `lower` comes.
    pub(super) fn new(home: Home, lower: RowKey<'_>) -> RowSet {
        RowSet {
            pages: Vec::new(),
            rows: Vec::new(),
            arena: Vec::new(),
            bytes: 0,
            changed: false,
            old_rows: 0,
            new_rows: 0,
            appended: true,
            home,
            lower: lower.to_vec(),
            last_key: None,
        }
    }

    /// Starts taking rows of an old leaf.
    pub(super) fn begin_page(&mut self, page: Page) {
        self.pages.push(page);
    }

    /// Takes rows of the leaf last begun as they are.
    pub(crate) fn keep(&mut self, view: &LeafView<'_>, rows: std::ops::Range<usize>) {
        if rows.is_empty() {
            return;
        }
        self.appended &= self.new_rows == 0;
        self.old_rows += rows.len();
        let number = |value: usize| u32::try_from(value).expect("a leaf has fewer than 2^16 rows");
        let page = number(self.pages.len() - 1);
        for index in rows {
            let row = view.row(index);
            self.bytes += ROW_OVERHEAD_BYTES + row.key.len() + row.value.stored_bytes();
            self.rows.push(RowSource::Old { page, index: number(index) });
        }
    }

    /// Adds a row; `replaces` one of an old leaf, or does not.
    pub(super) fn put(&mut self, key: &[u8], value: LeafValue<'_>, replaces: bool) {
        self.changed = true;
        self.appended &= !replaces;
        self.new_rows += 1;
        self.bytes += ROW_OVERHEAD_BYTES + key.len() + value.stored_bytes();
        let key_start = self.arena.len();
        self.arena.extend_from_slice(key);
        let key_end = self.arena.len();
        self.rows.push(match value {
            LeafValue::Inline(bytes) => {
                self.arena.extend_from_slice(bytes);
                RowSource::Inline { key_start, key_end, value_end: self.arena.len() }
            }
            LeafValue::Overflow(reference) => RowSource::Overflow { key_start, key_end, reference },
        });
    }

    /// Notes that a row of an old leaf was left out.
    pub(crate) fn note_removed(&mut self) {
        self.changed = true;
        self.appended = false;
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Bytes of the rows that wait for their leaf, at most.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the rows would leave the last leaf mostly empty. Exact: shared prefixes count once.
    pub(super) fn is_small(&self, page_bytes: usize) -> bool {
        let few = page_bytes / 3;
        if self.rows.is_empty() || self.last_key.is_some() {
            return false;
        }
        self.bytes < few
            || (self.bytes < page_bytes * 4 && size_of(&self.materialized()).encoded_bytes() < few)
    }

    /// Builds leaves while many rows wait, so that a long run does not pile up.
    pub(super) fn build_some(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        out: &mut ChildList,
    ) -> Result<(), TreeError> {
        let page_bytes = chunk.format.page_bytes();
        if self.bytes > GATHERED_PAGES * page_bytes {
            self.build(chunk, out, KEPT_PAGES * page_bytes)?;
        }
        Ok(())
    }

    /// Builds leaves of all rows; adds them to `out`. Returns whether the first leaf's home was used.
    pub(super) fn finish(
        mut self,
        chunk: &mut ChunkBuilder<'_>,
        out: &mut ChildList,
    ) -> Result<Home, TreeError> {
        self.build(chunk, out, 0)?;
        Ok(self.home)
    }

    /// Ends here: builds leaves of all rows so far, which are the left part of the leaf last begun and what was before
    /// it, then puts `inserted` after them. Rows from now on, of the same leaf, are at or after `lower`.
    pub(crate) fn insert_children(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        inserted: &ChildList,
        lower: &[u8],
        out: &mut ChildList,
    ) -> Result<(), TreeError> {
        let rest = RowSet { pages: self.pages.clone(), ..RowSet::new(Home::Fresh, RowKey::from(lower)) };
        let before = std::mem::replace(self, rest);
        let own_lower = before.lower.clone();
        self.changed = true;
        self.home = before.finish(chunk, out)?;
        for index in 0..inserted.len() {
            let separator =
                if out.is_empty() { RowKey::from(&own_lower[..]) } else { inserted.separator(index) };
            out.push(separator, inserted.child(index));
        }
        Ok(())
    }

    /// Whether one leaf holds all rows, and none was built before.
    pub(super) fn fits_one_leaf(&self, page_bytes: usize) -> bool {
        self.last_key.is_none() && size_of(&self.materialized()).encoded_bytes() <= page_bytes
    }

    /// Builds the one leaf that is the whole tree.
    pub(super) fn finish_root(self, chunk: &mut ChunkBuilder<'_>) -> Result<(), TreeError> {
        put_leaf(chunk, &self.materialized(), Home::Replace(ROOT_PAGE)).map(|_| ())
    }

    fn row(&self, source: RowSource) -> Row<'_> {
        match source {
            RowSource::Old { page, index } => {
                let leaf = self.pages[page as usize].view().leaf().expect("only leaves are begun");
                leaf.row(index as usize)
            }
            RowSource::Inline { key_start, key_end, value_end } => Row {
                key: RowKey::from(&self.arena[key_start..key_end]),
                value: LeafValue::Inline(&self.arena[key_end..value_end]),
            },
            RowSource::Overflow { key_start, key_end, reference } => Row {
                key: RowKey::from(&self.arena[key_start..key_end]),
                value: LeafValue::Overflow(reference),
            },
        }
    }

    fn materialized(&self) -> Vec<Row<'_>> {
        self.rows.iter().map(|source| self.row(*source)).collect()
    }

    /// Builds leaves until at most `keep_bytes` of rows wait.
    fn build(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        out: &mut ChildList,
        keep_bytes: usize,
    ) -> Result<(), TreeError> {
        let rows = self.materialized();
        let page_bytes = chunk.format.page_bytes();
        let fill = if self.appended && self.old_rows > 0 { Fill::Packed } else { Fill::Even };
        // With more to come, the rows kept back even things out: what is built now has room for changes only.
        let total = size_of(&rows).encoded_bytes();
        let target = match (keep_bytes, fill) {
            (0, _) | (_, Fill::Packed) => target_bytes(page_bytes, total, fill),
            (_, Fill::Even) => page_bytes / 10 * 9,
        };
        let (mut start, mut left, mut home) = (0, self.bytes, self.home);
        let mut last_key: Option<RowKey<'_>> = self.last_key.as_deref().map(RowKey::from);
        while start < rows.len() && (keep_bytes == 0 || left > keep_bytes) {
            let end = start + rows_of_leaf(&rows[start..], page_bytes, target);
            let leaf = &rows[start..end];
            let separator = match &last_key {
                Some(last) => shortest_separator(last, &leaf[0].key),
                None => self.lower.clone(),
            };
            out.push(RowKey::from(&separator[..]), put_leaf(chunk, leaf, home)?);
            home = Home::Fresh;
            last_key = leaf.last().map(|row| row.key);
            left -= leaf.iter().map(payload).sum::<usize>();
            start = end;
        }
        let last_key = last_key.map(|key| key.to_vec());
        self.last_key = last_key;
        self.home = home;
        self.bytes = left;
        self.rows.drain(..start);
        self.trim_arena();
        Ok(())
    }

    /// Forgets the bytes of rows that were built.
    fn trim_arena(&mut self) {
        let first = self.rows.iter().find_map(|source| match source {
            RowSource::Old { .. } => None,
            RowSource::Inline { key_start, .. } | RowSource::Overflow { key_start, .. } => Some(*key_start),
        });
        let cut = first.unwrap_or(self.arena.len());
        self.arena.drain(..cut);
        for source in &mut self.rows {
            match source {
                RowSource::Old { .. } => {}
                RowSource::Inline { key_start, key_end, value_end } => {
                    *key_start -= cut;
                    *key_end -= cut;
                    *value_end -= cut;
                }
                RowSource::Overflow { key_start, key_end, .. } => {
                    *key_start -= cut;
                    *key_end -= cut;
                }
            }
        }
    }
}

fn payload(row: &Row<'_>) -> usize {
    ROW_OVERHEAD_BYTES + row.key.len() + row.value.stored_bytes()
}

/// Size of one leaf with all `rows`.
fn size_of(rows: &[Row<'_>]) -> LeafSize {
    let shared = match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => first.key.common_prefix_bytes(&last.key),
        _ => 0,
    };
    let add = |size: LeafSize, row: &Row<'_>| size.with_row(row.key.len(), shared, row.value.stored_bytes());
    rows.iter().fold(LeafSize::default(), add)
}

/// How many of `rows` go into the next leaf: up to `target` bytes if they fit, at least one.
fn rows_of_leaf(rows: &[Row<'_>], page_bytes: usize, target: usize) -> usize {
    let first = rows[0].key;
    let mut size = LeafSize::default();
    for (index, row) in rows.iter().enumerate() {
        let shared = first.common_prefix_bytes(&row.key);
        let with = size.with_row(row.key.len(), shared, row.value.stored_bytes());
        if index > 0 && (size.encoded_bytes() >= target || with.encoded_bytes() > page_bytes) {
            return index;
        }
        size = with;
    }
    rows.len()
}

fn put_leaf(chunk: &mut ChunkBuilder<'_>, rows: &[Row<'_>], home: Home) -> Result<Child, TreeError> {
    chunk.statistics.leaves += 1;
    let has_overflow = rows.iter().any(|row| matches!(row.value, LeafValue::Overflow(_)));
    let flags = if has_overflow { CHILD_HAS_OVERFLOW } else { 0 };
    let page: PageId = match home {
        Home::Replace(id) => {
            chunk.put_protected(encode_leaf(&chunk.format, rows, id, chunk.stamp));
            id
        }
        Home::Fresh => {
            let id = chunk.allocate_page()?;
            chunk.put_fresh(encode_leaf(&chunk.format, rows, id, chunk.stamp));
            id
        }
    };
    Ok(Child { page, flags })
}
