//! Swapping: ranges of the tree are emptied, filled with leaves that a load has built, and changed row by row, all in one
//! chunk. So what moves from one place of the tree to another is never in both, nor in none.
//!
//! ```text
//!            graft                     cut                    put
//!          from       to           start      end              |
//!   [ .. | left | gone | right | ..  | left | gone | right | ..  row .. ]
//!               ^ finished leaves are linked here
//! ```
//! Of what lies wholly in a range only interior pages are read, and leaves whose long values are freed with them.
//!
//! Start at [`Tree::swap`]; [`Tree::cut`] and [`BulkLoader::graft`] are calls of it.

use std::ops::Range;

use seawall_types::Lsn;

use crate::bulk_load::BulkLoader;
use crate::chunk::{ChunkBuilder, ChunkPlan};
use crate::error::TreeError;
use crate::merge::{Bounds, ChildList, Edits, OldValues, RowSet, edit_tree};
use crate::page::{
    DELETED_OUTSIDE_OF_RUNS, InteriorView, LeafValue, LeafView, OverflowReference, Page, RowKey,
};
use crate::tree::Tree;

/// What happens to one range of the tree, or to one row.
#[derive(Debug)]
pub enum Part {
    /// All rows in the range of a load go, and the leaves of the load take their place.
    Graft {
        /// What it has built; none is as good as any.
        load: Box<BulkLoader>,
        /// What becomes of the long values of the rows that go.
        values: OldValues,
    },
    /// All rows in a range go.
    Cut {
        /// Their keys.
        range: Range<Vec<u8>>,
        /// What becomes of their long values.
        values: OldValues,
    },
    /// A row has this value from now on. The one that it had is freed.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// A row goes, if there is one, with its value.
    Delete {
        /// Its key.
        key: Vec<u8>,
    },
}

impl Part {
    /// The smallest key that it concerns.
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            Part::Graft { load, .. } => load.start(),
            Part::Cut { range, .. } => &range.start,
            Part::Put { key, .. } | Part::Delete { key } => key,
        }
    }
}

impl Tree {
    /// Plans one chunk of all `parts`, which ascend and do not overlap. The extents of `freed` become free: of long values whose
    /// rows went with their values kept, and which no row has got. `stamp` goes into the pages that change: none of
    /// them may have a newer one, or who looks for changes since a time misses some. It is not checked: pages of a server that was rewound
    /// have stamps of a history that it has left.
    ///
    /// # Errors
    /// `KeyTooLong`, `Io`, or a damaged page. The tree is unchanged, and the loads are given up.
    ///
    /// # Panics
    /// If the parts do not ascend, or a load was begun for another tree.
    pub fn swap(
        &self,
        mut parts: Vec<Part>,
        freed: &[OverflowReference],
        stamp: Lsn,
    ) -> Result<ChunkPlan, TreeError> {
        for part in &mut parts {
            self.prepare(part)?;
        }
        self.plan_chunk(stamp, |chunk| {
            let pieces = parts.into_iter().map(|part| Piece::of(chunk, part)).collect::<Result<_, _>>()?;
            freed.iter().try_for_each(|value| chunk.free_overflow(*value))?;
            Swap::new(pieces, Limits::default()).edit(chunk)
        })
    }

    /// What can fail before a chunk is planned.
    fn prepare(&self, part: &mut Part) -> Result<(), TreeError> {
        match part {
            Part::Graft { load, .. } => {
                assert!(load.is_of(self), "a load that was begun for another tree");
                load.finish()
            }
            Part::Put { key, .. } if key.len() > self.max_key_bytes() => {
                Err(TreeError::key_too_long(key.len(), self.max_key_bytes()))
            }
            Part::Cut { .. } | Part::Put { .. } | Part::Delete { .. } => Ok(()),
        }
    }
}

/// A part as the walk needs it: of a single row, too, the range in which it lies.
#[derive(Debug)]
pub(crate) struct Piece {
    range: Range<Vec<u8>>,
    edit: PieceEdit,
}

#[derive(Debug)]
enum PieceEdit {
    Graft {
        values: OldValues,
        /// The leaves to link, with their separators; taken when the place is reached. What is right of them starts at the end of
        /// the range.
        leaves: Option<ChildList>,
    },
    Cut(OldValues),
    Put(Vec<u8>),
}

impl Piece {
    pub(crate) fn cut(range: Range<Vec<u8>>, values: OldValues) -> Piece {
        Piece { range, edit: PieceEdit::Cut(values) }
    }

    fn of(chunk: &mut ChunkBuilder<'_>, part: Part) -> Result<Piece, TreeError> {
        Ok(match part {
            Part::Graft { mut load, values } => {
                let range = load.range();
                let leaves = load.hand_over(chunk)?;
                let edit = if leaves.is_empty() {
                    PieceEdit::Cut(values)
                } else {
                    PieceEdit::Graft { values, leaves: Some(leaves) }
                };
                Piece { range, edit }
            }
            Part::Cut { range, values } => Piece::cut(range, values),
            Part::Put { key, value } => {
                chunk.statistics.changes += 1;
                Piece { range: only(key), edit: PieceEdit::Put(value) }
            }
            Part::Delete { key } => {
                chunk.statistics.changes += 1;
                Piece::cut(only(key), OldValues::Free)
            }
        })
    }

    /// Whether pages that lie wholly in the range go, and what becomes of the values below them then. Not before the leaves are
    /// linked, in the page where the range starts.
    fn removes(&self) -> Option<OldValues> {
        match &self.edit {
            PieceEdit::Graft { values, leaves: None } | PieceEdit::Cut(values) => Some(*values),
            PieceEdit::Graft { leaves: Some(_), .. } | PieceEdit::Put(_) => None,
        }
    }

    /// Whether its leaves have been linked, at the start of its range.
    fn is_linked(&self) -> bool {
        matches!(&self.edit, PieceEdit::Graft { leaves: None, .. })
    }

    /// Whether the page of `bounds` lies wholly in the range.
    fn holds(&self, bounds: Bounds<'_>) -> bool {
        bounds.lower.compare(&self.range.start).is_ge()
            && bounds.upper.is_some_and(|upper| upper.compare(&self.range.end).is_le())
    }
}

/// The range of one key.
fn only(key: Vec<u8>) -> Range<Vec<u8>> {
    let end = [&key[..], &[0]].concat();
    key..end
}

/// When an edit stops before its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// So many pages are freed.
    pub(crate) freed_pages_max: u64,
    /// The images of the chunk have so many bytes.
    pub(crate) budget_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { freed_pages_max: u64::MAX, budget_bytes: u64::MAX }
    }
}

/// Edits of ranges. With grafts or puts it has no limits.
pub(crate) struct Swap {
    /// Ascending; none is empty.
    pieces: Vec<Piece>,
    limits: Limits,
    /// All below it is done; `None` if everything is.
    reached: Option<Vec<u8>>,
    has_grafts: bool,
}

impl Swap {
    /// # Panics
    /// If the pieces do not ascend.
    pub(crate) fn new(mut pieces: Vec<Piece>, limits: Limits) -> Swap {
        pieces.retain(|piece| piece.range.start < piece.range.end);
        for pair in pieces.windows(2) {
            let (before, after) = (&pair[0].range, &pair[1].range);
            assert!(before.end <= after.start, "parts of a swap, and ranges to be cut, must ascend");
        }
        let has_grafts = pieces.iter().any(|piece| matches!(piece.edit, PieceEdit::Graft { .. }));
        Swap { pieces, limits, reached: Some(Vec::new()), has_grafts }
    }

    pub(crate) fn edit(&mut self, chunk: &mut ChunkBuilder<'_>) -> Result<(), TreeError> {
        if self.pieces.is_empty() { Ok(()) } else { edit_tree(chunk, self) }
    }

    pub(crate) fn is_stopped(&self, chunk: &ChunkBuilder<'_>) -> bool {
        let Limits { freed_pages_max, budget_bytes } = self.limits;
        (freed_pages_max < u64::MAX && chunk.freed_count() >= freed_pages_max)
            || chunk.used_bytes() >= budget_bytes
    }

    /// The ranges, or parts of them, that are not done.
    pub(crate) fn into_rest(self) -> Vec<Range<Vec<u8>>> {
        let Some(reached) = self.reached else { return Vec::new() };
        let ranges = self.pieces.into_iter().map(|piece| piece.range);
        let left = ranges.filter(|range| range.end > reached);
        left.map(|range| range.start.max(reached.clone())..range.end).collect()
    }

    /// Index of the first piece that ends above `lower`.
    fn first_above(&self, lower: RowKey<'_>) -> usize {
        self.pieces.partition_point(|piece| lower.compare(&piece.range.end).is_ge())
    }

    /// The first piece that has keys at or above `lower`.
    fn piece_above(&self, lower: RowKey<'_>) -> Option<&Piece> {
        self.pieces.get(self.first_above(lower))
    }

    /// Whether a page with these bounds can hold a key of a piece.
    fn touches(&self, bounds: Bounds<'_>) -> bool {
        let is_below =
            |piece: &Piece| bounds.upper.is_none_or(|upper| upper.compare(&piece.range.start).is_gt());
        self.piece_above(bounds.lower).is_some_and(is_below)
    }

    /// Notes that a page is done. When the walk has stopped inside a page that is then joined with the next one, the next
    /// one may be done and what is before it not.
    fn note_done(&mut self, bounds: Bounds<'_>) {
        let Some(reached) = &self.reached else { return };
        let next = self.piece_above(RowKey::from(&reached[..]));
        let was_left = next.is_some_and(|next| bounds.lower.compare(reached.max(&next.range.start)).is_gt());
        if !was_left {
            self.reached = bounds.upper.map(|upper| upper.to_vec());
        }
    }
}

impl Edits for Swap {
    fn next_child(
        &self,
        chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        next: usize,
    ) -> Option<usize> {
        if self.is_stopped(chunk) {
            return None;
        }
        let piece = self.piece_above(view.lower_fence(next).unwrap_or(bounds.lower))?;
        let index = next.max(view.child_for(&piece.range.start));
        let lower = view.lower_fence(index).unwrap_or(bounds.lower);
        let upper = view.upper_fence(index).or(bounds.upper);
        self.touches(Bounds { lower, upper }).then_some(index)
    }

    fn reaches(&self, chunk: &ChunkBuilder<'_>, bounds: Bounds<'_>) -> bool {
        !self.is_stopped(chunk) && self.touches(bounds)
    }

    fn removes(&mut self, level: u8, bounds: Bounds<'_>) -> Option<OldValues> {
        // Higher up the walk goes on inside, so that it can stop between two level-1 pages.
        if level > 1 {
            return None;
        }
        let removed = self.piece_above(bounds.lower).filter(|piece| piece.holds(bounds))?.removes()?;
        self.note_done(bounds);
        Some(removed)
    }

    fn raised<'a>(&'a self, lower: RowKey<'a>) -> RowKey<'a> {
        // A separator inside the range of a graft, left over from rows long gone, would claim keys of the linked leaves.
        match self.piece_above(lower) {
            Some(piece) if piece.is_linked() && lower.compare(&piece.range.start).is_gt() => {
                RowKey::from(&piece.range.end[..])
            }
            _ => lower,
        }
    }

    fn packs(&self) -> bool {
        self.has_grafts
    }

    fn edit_leaf(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        page: &Page,
        bounds: Bounds<'_>,
        rows: &mut RowSet,
        out: &mut ChildList,
    ) -> Result<(), TreeError> {
        let view = page.view().leaf().map_err(|damage| chunk.damaged(page.view().id(), damage))?;
        let mut kept = 0;
        for index in self.first_above(bounds.lower)..self.pieces.len() {
            let piece = &mut self.pieces[index];
            if bounds.upper.is_some_and(|upper| upper.compare(&piece.range.start).is_le()) {
                break;
            }
            let first = view.search(&piece.range.start).unwrap_or_else(|at| at);
            let end = view.search(&piece.range.end).unwrap_or_else(|at| at);
            rows.keep(&view, kept..first);
            match &mut piece.edit {
                PieceEdit::Cut(values) => remove(chunk, &view, first..end, *values, rows)?,
                PieceEdit::Graft { values, leaves } => {
                    remove(chunk, &view, first..end, *values, rows)?;
                    if let Some(leaves) = leaves.take() {
                        rows.insert_children(chunk, &leaves, &piece.range.end, out)?;
                    }
                }
                PieceEdit::Put(value) => {
                    put(chunk, page, first..end, (&piece.range.start[..], &value[..]), rows)?
                }
            }
            rows.build_some(chunk, out)?;
            kept = end;
        }
        rows.keep(&view, kept..view.len());
        self.note_done(bounds);
        Ok(())
    }
}

/// Leaves rows of a leaf out.
fn remove(
    chunk: &mut ChunkBuilder<'_>,
    view: &LeafView<'_>,
    removed: Range<usize>,
    values: OldValues,
    rows: &mut RowSet,
) -> Result<(), TreeError> {
    for index in removed {
        rows.note_removed();
        if let (OldValues::Free, LeafValue::Overflow(reference)) = (values, view.value(index)) {
            chunk.free_overflow(reference)?;
        }
    }
    Ok(())
}

/// Puts a row where `old`, one row of the leaf or none, was.
fn put(
    chunk: &mut ChunkBuilder<'_>,
    page: &Page,
    old: Range<usize>,
    (key, value): (&[u8], &[u8]),
    rows: &mut RowSet,
) -> Result<(), TreeError> {
    let view = page.view().leaf().map_err(|damage| chunk.damaged(page.view().id(), damage))?;
    match old.clone().next().map(|index| view.value(index)) {
        Some(LeafValue::Inline(same)) if same == value => {
            rows.keep(&view, old);
            return Ok(());
        }
        Some(LeafValue::Deleted) => return Err(chunk.damaged(page.view().id(), DELETED_OUTSIDE_OF_RUNS)),
        Some(LeafValue::Overflow(reference)) => chunk.free_overflow(reference)?,
        Some(LeafValue::Inline(_)) | None => {}
    }
    let is_inline = value.len() <= chunk.format.max_inline_value_bytes();
    let stored =
        if is_inline { LeafValue::Inline(value) } else { LeafValue::Overflow(chunk.write_overflow(value)?) };
    rows.put(key, stored, !old.is_empty());
    Ok(())
}
