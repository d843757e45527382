//! The rows of one or more neighbouring leaves while they are merged with changes, and the leaves built from them.
//!
//! Rows of old leaves are not copied, nor looked at one by one, before the new leaf is encoded; changed ones wait in an
//! arena. A leaf that stays one leaf is put together from runs of old rows and the changed ones between.

use super::children::{ChildList, Fill, Home, target_bytes};
use crate::chunk::ChunkBuilder;
use crate::error::TreeError;
use crate::page::{
    Child, LeafSize, LeafValue, LeafView, OverflowReference, Page, Row, RowKey, RowRun, encode_leaf_of_runs,
    shortest_separator, size_of_runs,
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
    Old { page: usize, start: usize, end: usize },
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
        self.bytes += rows.len() * ROW_OVERHEAD_BYTES + view.row_bytes(&rows);
        let page = self.pages.len() - 1;
        match self.rows.last_mut() {
            Some(RowSource::Old { page: last, end, .. }) if *last == page && *end == rows.start => {
                *end = rows.end
            }
            _ => self.rows.push(RowSource::Old { page, start: rows.start, end: rows.end }),
        }
    }

    /// Adds a row; `replaces` one of an old leaf, or does not.
    pub(crate) fn put(&mut self, key: &[u8], value: LeafValue<'_>, replaces: bool) {
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
            LeafValue::Deleted => unreachable!("what is deleted is left out"),
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
        self.bytes < few || (self.bytes < page_bytes * 4 && size_of_runs(&self.runs()).encoded_bytes() < few)
    }

    /// Builds leaves while many rows wait, so that a long run does not pile up.
    pub(crate) fn build_some(
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
        self.home = match before.untouched() {
            Some(leaf) => {
                out.push(RowKey::from(&own_lower[..]), Child::of(leaf));
                Home::Fresh
            }
            None => before.finish(chunk, out)?,
        };
        for index in 0..inserted.len() {
            let separator =
                if out.is_empty() { RowKey::from(&own_lower[..]) } else { inserted.separator(index) };
            out.push(separator, inserted.child(index));
        }
        Ok(())
    }

    /// The leaf that has just these rows, if there is one and its page is to be used for them: it need not be written.
    fn untouched(&self) -> Option<&Page> {
        let ([leaf], [RowSource::Old { start: 0, end, .. }]) = (&self.pages[..], &self.rows[..]) else {
            return None;
        };
        let is_whole = leaf.view().leaf().is_ok_and(|view| view.len() == *end);
        let is_own = self.home == Home::Replace(leaf.view().id());
        (!self.changed && is_whole && is_own && self.last_key.is_none()).then_some(leaf)
    }

    /// Whether one leaf holds all rows, and none was built before.
    pub(super) fn fits_one_leaf(&self, page_bytes: usize) -> bool {
        self.last_key.is_none() && size_of_runs(&self.runs()).encoded_bytes() <= page_bytes
    }

    /// Builds the one leaf that is the whole tree.
    pub(super) fn finish_root(self, chunk: &mut ChunkBuilder<'_>) -> Result<(), TreeError> {
        let runs = self.runs();
        put_leaf(chunk, &runs, size_of_runs(&runs), Home::Replace(ROOT_PAGE)).map(|_| ())
    }

    fn runs(&self) -> Vec<RowRun<'_>> {
        let run = |source: &RowSource| match *source {
            RowSource::Old { page, start, end } => {
                let leaf = self.pages[page].view().leaf().expect("only leaves are begun");
                RowRun::Kept(leaf, start..end)
            }
            RowSource::Inline { key_start, key_end, value_end } => RowRun::One(Row {
                key: RowKey::from(&self.arena[key_start..key_end]),
                value: LeafValue::Inline(&self.arena[key_end..value_end]),
            }),
            RowSource::Overflow { key_start, key_end, reference } => RowRun::One(Row {
                key: RowKey::from(&self.arena[key_start..key_end]),
                value: LeafValue::Overflow(reference),
            }),
        };
        self.rows.iter().map(run).collect()
    }

    /// Builds leaves until at most `keep_bytes` of rows wait.
    fn build(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        out: &mut ChildList,
        keep_bytes: usize,
    ) -> Result<(), TreeError> {
        let runs = self.runs();
        let size = size_of_runs(&runs);
        let page_bytes = chunk.format.page_bytes();
        if keep_bytes > 0 || size.encoded_bytes() > page_bytes {
            return self.build_several(chunk, out, keep_bytes);
        }
        if let Some(first) = runs.first() {
            let separator = self.separator_before(first.first());
            out.push(RowKey::from(&separator[..]), put_leaf(chunk, &runs, size, self.home)?);
            let last_key = runs.last().map(|run| run.last().to_vec());
            (self.home, self.last_key) = (Home::Fresh, last_key);
        }
        (self.bytes, self.rows, self.arena) = (0, Vec::new(), Vec::new());
        Ok(())
    }

    /// What stands between the last leaf that was built and one that starts with `first`.
    fn separator_before(&self, first: RowKey<'_>) -> Vec<u8> {
        match &self.last_key {
            Some(last) => shortest_separator(&RowKey::from(&last[..]), &first),
            None => self.lower.clone(),
        }
    }

    fn build_several(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        out: &mut ChildList,
        keep_bytes: usize,
    ) -> Result<(), TreeError> {
        let rows: Vec<Row<'_>> = self.runs().iter().flat_map(RowRun::rows).collect();
        let page_bytes = chunk.format.page_bytes();
        let fill = if self.appended && self.old_rows > 0 { Fill::Packed } else { Fill::Even };
        // With more to come, the rows kept back even things out: what is built now has room for changes only.
        let target = match (keep_bytes, fill) {
            (0, _) | (_, Fill::Packed) => {
                target_bytes(page_bytes, size_of_runs(&self.runs()).encoded_bytes(), fill)
            }
            (_, Fill::Even) => page_bytes / 10 * 9,
        };
        let (mut start, mut left, mut home) = (0, self.bytes, self.home);
        let mut last_key: Option<RowKey<'_>> = self.last_key.as_deref().map(RowKey::from);
        while start < rows.len() && (keep_bytes == 0 || left > keep_bytes) {
            let end = start + rows_of_leaf(&rows[start..], page_bytes, target);
            let leaf: Vec<RowRun<'_>> = rows[start..end].iter().map(|row| RowRun::One(*row)).collect();
            let separator = match &last_key {
                Some(last) => shortest_separator(last, &rows[start].key),
                None => self.lower.clone(),
            };
            out.push(RowKey::from(&separator[..]), put_leaf(chunk, &leaf, size_of_runs(&leaf), home)?);
            home = Home::Fresh;
            last_key = Some(rows[end - 1].key);
            left -= rows[start..end].iter().map(payload).sum::<usize>();
            start = end;
        }
        let last_key = last_key.map(|key| key.to_vec());
        self.last_key = last_key;
        self.home = home;
        self.bytes = left;
        self.drop_rows(start);
        self.trim_arena();
        Ok(())
    }

    /// Forgets the first `count` rows.
    fn drop_rows(&mut self, mut count: usize) {
        let mut whole = 0;
        for source in &mut self.rows {
            let len = match source {
                RowSource::Old { start, end, .. } => *end - *start,
                RowSource::Inline { .. } | RowSource::Overflow { .. } => 1,
            };
            if let RowSource::Old { start, .. } = source
                && count < len
            {
                *start += count;
            }
            if count < len {
                break;
            }
            count -= len;
            whole += 1;
        }
        self.rows.drain(..whole);
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

fn put_leaf(
    chunk: &mut ChunkBuilder<'_>,
    runs: &[RowRun<'_>],
    size: LeafSize,
    home: Home,
) -> Result<Child, TreeError> {
    chunk.statistics.leaves += 1;
    let (id, is_fresh) = match home {
        Home::Replace(id) => (id, false),
        Home::Fresh => (chunk.allocate_page()?, true),
    };
    let page = encode_leaf_of_runs(&chunk.format, runs, size, id, chunk.stamp);
    let child = Child::of(&page);
    if is_fresh {
        chunk.put_fresh(page);
    } else {
        chunk.put_protected(page);
    }
    Ok(child)
}
