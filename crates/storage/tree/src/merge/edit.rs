//! The walk that changes the tree: down to the leaves that an edit touches and back up, rebuilding parents as needed.
//!
//! ```text
//!   edit_children(page)           for each touched child, left to right:
//!        |                          read it, edit it, join it with the next one while it is small,
//!        v                          build pages of the result: a list of (separator, page)
//!   NodeEdit: the page's children with those lists put in; None if all are as before
//! ```
//! A page whose rows or children stay the same is not rebuilt. A leaf that is rebuilt as one leaf keeps its number, so its
//! parent has the same children as before: only the mark of the leaf's image is changed in it, and that of its own in the
//! page above it, up to the root. The root stays at `ROOT_PAGE`: a level is added below it, and taken away when one child
//! is left. The last child of a page has no next one to join: it may stay small until it is empty.

use seawall_types::PageId;

use super::bounds::{Bounds, bounds_of};
use super::children::{ChildList, EditedNode, Fill, Home, NodeEdit, build_interiors};
use super::read::{expect_level, interior_of, leaf_of, read_child, read_child_within};
use super::rows::RowSet;
use crate::chunk::{ChunkBuilder, renumbered};
use crate::error::TreeError;
use crate::page::{Child, InteriorView, LeafView, Page, RowKey, encode_leaf};
use crate::published::{ROOT, ROOT_PAGE};
use crate::read_ahead::WantedPages;

/// What becomes of the long values of rows that go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldValues {
    /// Their extents become free.
    Free,
    /// Nothing. Other rows have got them in the same chunk, or they are freed by it one by one.
    Keep,
}

/// What is done to the tree, in key order.
pub(crate) trait Edits {
    /// The next child to visit, at or after `next`.
    fn next_child(
        &self,
        chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        next: usize,
    ) -> Option<usize>;

    /// The leaves from child `index` of `parent` on, if they were edited before.
    fn edited(&mut self, parent: PageId, index: usize) -> Option<EditedLeaves> {
        let _: (PageId, usize) = (parent, index);
        None
    }

    /// Gives the children of a level-1 page that will be edited next, the one at hand included, to `visit`, in order, until it
    /// returns `false`; none if that is not known.
    fn each_ahead(
        &self,
        _view: &InteriorView<'_>,
        _bounds: Bounds<'_>,
        _visit: &mut dyn FnMut(usize) -> bool,
    ) {
    }

    /// Whether a leaf that comes out small may be joined with the next one, whose lower bound is `lower`.
    fn may_join(&self, lower: RowKey<'_>) -> bool {
        let _: RowKey<'_> = lower;
        true
    }

    /// Whether the edit of the page before goes on in a page with these bounds.
    fn reaches(&self, _chunk: &ChunkBuilder<'_>, _bounds: Bounds<'_>) -> bool {
        false
    }

    /// Whether a page at `level` with these bounds goes, with all below it, and what becomes of long values there.
    fn removes(&mut self, _level: u8, _bounds: Bounds<'_>) -> Option<OldValues> {
        None
    }

    /// The lower bound that a page with lower bound `lower` has after the edit.
    fn raised<'a>(&'a self, lower: RowKey<'a>) -> RowKey<'a> {
        lower
    }

    /// How full interior pages are built, if the edit has an opinion.
    fn packs(&self) -> bool {
        false
    }

    /// Takes the rows of `page` into `rows` as they are after the edit.
    fn edit_leaf(
        &mut self,
        chunk: &mut ChunkBuilder<'_>,
        page: &Page,
        bounds: Bounds<'_>,
        rows: &mut RowSet,
        out: &mut ChildList,
    ) -> Result<(), TreeError>;
}

/// Applies `edits` to the tree.
pub(crate) fn edit_tree(chunk: &mut ChunkBuilder<'_>, edits: &mut dyn Edits) -> Result<(), TreeError> {
    let root = chunk.read(ROOT)?;
    let bounds = Bounds { lower: RowKey::new(&[], &[]), upper: None };
    let mut walk = Walk { chunk, edits };
    if root.view().level() > 0 {
        return match walk.edit_children(&root, bounds)?.0 {
            EditedNode::Same => Ok(()),
            EditedNode::Rewritten(children) => walk.chunk.put_rewritten(&root, &children).map(|_| ()),
            EditedNode::Replaced(list) => settle_root(walk.chunk, root.view().level(), list),
        };
    }
    let mut rows = RowSet::new(Home::Fresh, bounds.lower);
    let mut entries = ChildList::default();
    rows.begin_page(root.clone());
    walk.edits.edit_leaf(walk.chunk, &root, bounds, &mut rows, &mut entries)?;
    if !rows.is_changed() && entries.is_empty() {
        return Ok(());
    }
    if entries.is_empty() && rows.fits_one_leaf(walk.chunk.format.page_bytes()) {
        return rows.finish_root(walk.chunk);
    }
    rows.finish(walk.chunk, &mut entries)?;
    settle_root(walk.chunk, 1, entries)
}

/// Makes `children`, whose parent is at `level`, the whole tree.
fn settle_root(
    chunk: &mut ChunkBuilder<'_>,
    mut level: u8,
    mut children: ChildList,
) -> Result<(), TreeError> {
    loop {
        if children.is_empty() {
            chunk.put_protected(encode_leaf(&chunk.format, &[], ROOT_PAGE, chunk.stamp));
            return Ok(());
        }
        if children.len() == 1 {
            let page = chunk.take_page(children.child(0).reference())?;
            expect_level(chunk.tree, &page, level - 1)?;
            if level == 1 || interior_of(chunk.tree, &page)?.len() > 1 {
                chunk.put_protected(renumbered(&page, ROOT_PAGE));
                return Ok(());
            }
            let view = interior_of(chunk.tree, &page)?;
            children = ChildList::default();
            children.append_page(&view, RowKey::new(&[], &[]), Vec::new());
            level -= 1;
            continue;
        }
        let lower = RowKey::new(&[], &[]);
        let mut parents = ChildList::default();
        if children.encoded_bytes() <= chunk.format.page_bytes() {
            let home = Home::Replace(ROOT_PAGE);
            return build_interiors(chunk, level, &children, home, Fill::Packed, lower, &mut parents);
        }
        build_interiors(chunk, level, &children, Home::Fresh, Fill::Even, lower, &mut parents)?;
        children = parents;
        level = level.checked_add(1).expect("a tree of 255 levels does not fit any disk");
    }
}

/// What came of a leaf that was edited, and of those after it that were joined with it.
#[derive(Debug)]
pub(crate) struct EditedLeaves {
    /// Index of the first child after them.
    pub(super) end: usize,
    /// What takes their place.
    pub(super) entries: ChildList,
}

pub(super) struct Walk<'w, 'c, 't> {
    pub(super) chunk: &'c mut ChunkBuilder<'t>,
    pub(super) edits: &'w mut dyn Edits,
}

impl Walk<'_, '_, '_> {
    /// Edits below an interior page; what its children are then, and whether only the last one was touched.
    fn edit_children(&mut self, page: &Page, bounds: Bounds<'_>) -> Result<(EditedNode, bool), TreeError> {
        let view = interior_of(self.chunk.tree, page)?;
        let lower = self.edits.raised(bounds.lower).to_vec();
        let mut edit = NodeEdit::new(view, RowKey::from(&lower[..]));
        let (mut next, mut first) = (0, None);
        while next < view.len()
            && let Some(index) = self.edits.next_child(self.chunk, &view, bounds, next)
        {
            assert!(index >= next, "changes must come in ascending key order");
            first.get_or_insert(index);
            next = if view.level() == 1 {
                let leaves = match self.edits.edited(page.view().id(), index) {
                    Some(leaves) => leaves,
                    None => self.edit_leaves(&view, index, bounds)?,
                };
                edit.replace(index, leaves.end, &leaves.entries);
                leaves.end
            } else {
                self.edit_interiors(&view, index, bounds, &mut edit)?
            };
        }
        let at_end = first == Some(view.len() - 1);
        Ok((edit.finish(), at_end))
    }

    /// Edits leaf `index` and those after it that are joined with it.
    pub(super) fn edit_leaves(
        &mut self,
        view: &InteriorView<'_>,
        index: usize,
        bounds: Bounds<'_>,
    ) -> Result<EditedLeaves, TreeError> {
        let home = view.child(index).page;
        let lower = self.edits.raised(bounds_of(view, index, bounds).lower).to_vec();
        let mut rows = RowSet::new(Home::Replace(home), RowKey::from(&lower[..]));
        let mut entries = ChildList::default();
        let mut consumed = Vec::new();
        let mut at = index;
        self.read_ahead(view, index, bounds);
        loop {
            let (child, child_bounds) = (view.child(at), bounds_of(view, at, bounds));
            if let Some(values) = self.edits.removes(0, child_bounds) {
                release_below(self.chunk, child, 0, values)?;
                rows.note_removed();
            } else {
                let page = read_child_within(self.chunk.tree, child, 0, child_bounds)?;
                rows.begin_page(page.clone());
                self.edits.edit_leaf(self.chunk, &page, child_bounds, &mut rows, &mut entries)?;
            }
            if at == index && !rows.is_changed() {
                return Ok(EditedLeaves { end: index + 1, entries: only(view.child(index), &lower) });
            }
            consumed.push(child.page);
            at += 1;
            rows.build_some(self.chunk, &mut entries)?;
            let is_small = at < view.len()
                && self.edits.may_join(bounds_of(view, at, bounds).lower)
                && rows.is_small(self.chunk.format.page_bytes());
            if !self.goes_on(view, at, bounds, is_small) {
                break;
            }
        }
        let unused = rows.finish(self.chunk, &mut entries)?;
        self.free_consumed(&consumed, home, unused != Home::Fresh);
        Ok(EditedLeaves { end: at, entries })
    }

    /// If leaf `index` is not cached, asks for it and for those that will be edited after it.
    fn read_ahead(&mut self, view: &InteriorView<'_>, index: usize, bounds: Bounds<'_>) {
        let pages = &self.chunk.tree.pages;
        if self.chunk.ahead.covers(view.id(), index) || pages.cache().holds(view.child(index).page) {
            return;
        }
        let mut wanted = WantedPages::for_merge(pages);
        let mut last = index;
        self.edits.each_ahead(view, bounds, &mut |next| {
            last = last.max(next);
            wanted.add(pages, view.child(next).page)
        });
        wanted.ask(pages);
        self.chunk.ahead.note(view.id(), last);
    }

    /// As `edit_leaves`, one level up or more.
    fn edit_interiors(
        &mut self,
        view: &InteriorView<'_>,
        index: usize,
        bounds: Bounds<'_>,
        edit: &mut NodeEdit<'_>,
    ) -> Result<usize, TreeError> {
        let (home, level) = (view.child(index).page, view.level() - 1);
        let page_bytes = self.chunk.format.page_bytes();
        let mut children = ChildList::default();
        let (mut consumed, mut at, mut at_end) = (Vec::new(), index, false);
        // Asked before the walk below: what is linked there does not raise its own parent.
        let lower = self.edits.raised(bounds_of(view, index, bounds).lower).to_vec();
        loop {
            let (child, child_bounds) = (view.child(at), bounds_of(view, at, bounds));
            if let Some(values) = self.edits.removes(level, child_bounds) {
                release_below(self.chunk, child, level, values)?;
            } else {
                let page = read_child_within(self.chunk.tree, child, level, child_bounds)?;
                let (edited, edited_at_end) = self.edit_children(&page, child_bounds)?;
                let rewritten = match edited {
                    EditedNode::Replaced(list) => {
                        at_end = at == index && edited_at_end;
                        children.append(&list);
                        None
                    }
                    EditedNode::Rewritten(rewritten) => Some(rewritten),
                    EditedNode::Same => Some(Vec::new()),
                };
                if let Some(rewritten) = rewritten {
                    if at == index {
                        let child = self.rewritten(view.child(index), &page, &rewritten)?;
                        edit.replace(index, index + 1, &only(child, &lower));
                        return Ok(index + 1);
                    }
                    let inner = interior_of(self.chunk.tree, &page)?;
                    children.append_page(&inner, self.edits.raised(child_bounds.lower), rewritten);
                }
            }
            consumed.push(child.page);
            at += 1;
            let is_small = !children.is_empty() && children.encoded_bytes() < page_bytes / 3;
            if !self.goes_on(view, at, bounds, is_small) {
                break;
            }
        }
        let fill = if at_end || self.edits.packs() { Fill::Packed } else { Fill::Even };
        let mut entries = ChildList::default();
        let target = Home::Replace(home);
        build_interiors(self.chunk, level, &children, target, fill, RowKey::from(&lower[..]), &mut entries)?;
        self.free_consumed(&consumed, home, children.is_empty());
        edit.replace(index, at, &entries);
        Ok(at)
    }

    /// An interior page that keeps its children, after some of them got other images.
    fn rewritten(
        &mut self,
        child: Child,
        page: &Page,
        rewritten: &[(usize, Child)],
    ) -> Result<Child, TreeError> {
        if rewritten.is_empty() { Ok(child) } else { self.chunk.put_rewritten(page, rewritten) }
    }

    fn goes_on(&self, view: &InteriorView<'_>, at: usize, bounds: Bounds<'_>, is_small: bool) -> bool {
        at < view.len() && (is_small || self.edits.reaches(self.chunk, bounds_of(view, at, bounds)))
    }

    fn free_consumed(&mut self, consumed: &[PageId], home: PageId, home_too: bool) {
        for page in consumed {
            if home_too || *page != home {
                self.chunk.free_page(*page);
            }
        }
    }
}

/// A page that stays at its place, with the lower bound that it has after the edit.
fn only(child: Child, lower: &[u8]) -> ChildList {
    let mut entries = ChildList::default();
    entries.push(RowKey::from(lower), child);
    entries
}

/// Frees everything below a page, but not the page itself.
fn release_below(
    chunk: &mut ChunkBuilder<'_>,
    child: Child,
    level: u8,
    values: OldValues,
) -> Result<(), TreeError> {
    if level > 0 {
        let page = read_child(chunk.tree, child, level)?;
        let view = interior_of(chunk.tree, &page)?;
        for index in 0..view.len() {
            release_below(chunk, view.child(index), level - 1, values)?;
            chunk.free_page(view.child(index).page);
        }
    } else if child.flags != 0 && values == OldValues::Free {
        let page = read_child(chunk.tree, child, 0)?;
        let leaf: LeafView<'_> = leaf_of(chunk.tree, &page)?;
        chunk.free_values(&leaf)?;
    }
    Ok(())
}
