//! Lists of children between two levels of the tree, and the interior pages built from them.

use seawall_types::PageId;

use crate::chunk::ChunkBuilder;
use crate::error::TreeError;
use crate::page::{Child, InteriorBuilder, InteriorView, PAGE_HEADER_BYTES, RowKey};

/// Bytes of a child in an interior page besides its separator: head, offset, page number, flags and mark.
const CHILD_OVERHEAD_BYTES: usize = 18;
/// Bytes of memory for a child besides its separator, with what the list has allocated ahead.
const MEMORY_OVERHEAD_BYTES: usize = 40;

/// Children in key order, each with the separator before it. The first one's separator is the lower bound of all.
#[derive(Debug, Default)]
pub(crate) struct ChildList {
    entries: Vec<(usize, Child)>,
    separators: Vec<u8>,
}

impl ChildList {
    /// Adds a child; its separator is greater than those before.
    pub(crate) fn push(&mut self, separator: RowKey<'_>, child: Child) {
        let ascends = self.is_empty() || self.separator(self.len() - 1) < separator;
        debug_assert!(ascends, "separator {separator:?} after {:?}", self.separator(self.len() - 1));
        self.entries.push((self.separators.len(), child));
        separator.append_to(&mut self.separators);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the list takes, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.len() * MEMORY_OVERHEAD_BYTES + self.separators.len()
    }

    pub(crate) fn child(&self, index: usize) -> Child {
        self.entries[index].1
    }

    pub(crate) fn separator(&self, index: usize) -> RowKey<'_> {
        let end = self.entries.get(index + 1).map_or(self.separators.len(), |next| next.0);
        RowKey::from(&self.separators[self.entries[index].0..end])
    }

    pub(crate) fn append(&mut self, other: &ChildList) {
        (0..other.len()).for_each(|index| self.push(other.separator(index), other.child(index)));
    }

    /// Appends all children of a page whose lower bound is `lower`, `rewritten` of them with other images.
    pub(crate) fn append_page(
        &mut self,
        view: &InteriorView<'_>,
        lower: RowKey<'_>,
        rewritten: Vec<(usize, Child)>,
    ) {
        let mut all = NodeEdit { view: *view, lower, rewritten, copied: 0, list: Some(std::mem::take(self)) };
        all.copy_up_to(view.len());
        *self = all.list.unwrap_or_default();
    }

    /// Bytes of a page that could hold them all.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let separators = self.len().saturating_sub(1);
        let (first, shared) = match separators {
            0 => (self.separators.len(), 0),
            _ => (self.entries[1].0, self.separator(1).common_prefix_bytes(&self.separator(separators))),
        };
        let suffixes = self.separators.len() - first - separators * shared;
        PAGE_HEADER_BYTES + self.len() * CHILD_OVERHEAD_BYTES + suffixes + shared
    }
}

/// Where the first page of a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// To the number of the page that it replaces.
    Replace(PageId),
    /// To a fresh page.
    Fresh,
}

/// How full pages are built when one does not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// To the brim: everything was added at the end, and more will be.
    Packed,
    /// Equally, with room to grow.
    Even,
}

/// The children of one interior page while some of them are being replaced. Copies none while they stay the same pages
/// with the same separators.
pub(super) struct NodeEdit<'a> {
    view: InteriorView<'a>,
    lower: RowKey<'a>,
    /// Children that got another image only, from `copied` on.
    rewritten: Vec<(usize, Child)>,
    copied: usize,
    list: Option<ChildList>,
}

/// What an edit has made of the children of a page.
pub(super) enum EditedNode {
    /// Nothing.
    Same,
    /// The same pages with the same separators, but these have other images.
    Rewritten(Vec<(usize, Child)>),
    /// Others.
    Replaced(ChildList),
}

impl<'a> NodeEdit<'a> {
    pub(super) fn new(view: InteriorView<'a>, lower: RowKey<'a>) -> NodeEdit<'a> {
        NodeEdit { view, lower, rewritten: Vec::new(), copied: 0, list: None }
    }

    /// Puts `entries` where children `from..to` were. Ranges come in ascending order.
    pub(super) fn replace(&mut self, from: usize, to: usize, entries: &ChildList) {
        if self.holds(from, to, entries) {
            return;
        }
        if self.keeps_page(from, to, entries) {
            self.rewritten.push((from, entries.child(0)));
            return;
        }
        self.copy_up_to(from);
        self.copied = to;
        self.list.get_or_insert_default().append(entries);
    }

    /// Whether `entries` are just what children `from..to` are.
    pub(super) fn holds(&self, from: usize, to: usize, entries: &ChildList) -> bool {
        self.keeps_page(from, to, entries) && entries.child(0) == self.view.child(from)
    }

    /// Whether `entries` are the page of the one child `from`, at the same place.
    fn keeps_page(&self, from: usize, to: usize, entries: &ChildList) -> bool {
        to == from + 1
            && entries.len() == 1
            && entries.child(0).page == self.view.child(from).page
            && entries.separator(0) == self.lower_of(from)
    }

    /// The children after the edit.
    pub(super) fn finish(mut self) -> EditedNode {
        if self.list.is_none() {
            return match self.rewritten {
                none if none.is_empty() => EditedNode::Same,
                some => EditedNode::Rewritten(some),
            };
        }
        self.copy_up_to(self.view.len());
        self.list.map_or(EditedNode::Same, EditedNode::Replaced)
    }

    fn lower_of(&self, index: usize) -> RowKey<'a> {
        self.view.lower_fence(index).unwrap_or(self.lower)
    }

    fn copy_up_to(&mut self, end: usize) {
        let list = self.list.get_or_insert_default();
        let mut rewritten = std::mem::take(&mut self.rewritten).into_iter().peekable();
        for index in self.copied..end {
            let separator = self.view.lower_fence(index).unwrap_or(self.lower);
            let new = rewritten.next_if(|(at, _)| *at == index).map(|(_, child)| child);
            list.push(separator, new.unwrap_or_else(|| self.view.child(index)));
        }
        self.copied = end;
    }
}

/// Builds interior pages at `level` from `children`; adds them to `out`, the first one with `lower`.
pub(super) fn build_interiors(
    chunk: &mut ChunkBuilder<'_>,
    level: u8,
    children: &ChildList,
    mut home: Home,
    fill: Fill,
    lower: RowKey<'_>,
    out: &mut ChildList,
) -> Result<(), TreeError> {
    let target = target_bytes(chunk.format.page_bytes(), children.encoded_bytes(), fill);
    let mut builder = InteriorBuilder::new(chunk.format);
    let mut first = 0;
    for index in 0..=children.len() {
        let full = index == children.len() || {
            let separator = children.separator(index);
            !builder.is_empty() && (builder.encoded_bytes() >= target || !builder.fits(&separator))
        };
        if full && !builder.is_empty() {
            let separator = if first == 0 { lower } else { children.separator(first) };
            out.push(separator, finish_interior(chunk, &mut builder, level, home)?);
            home = Home::Fresh;
        }
        if index == children.len() {
            break;
        }
        if builder.is_empty() {
            first = index;
            builder.push_first(children.child(index));
        } else {
            builder.push(children.separator(index), children.child(index));
        }
    }
    Ok(())
}

fn finish_interior(
    chunk: &mut ChunkBuilder<'_>,
    builder: &mut InteriorBuilder,
    level: u8,
    home: Home,
) -> Result<Child, TreeError> {
    chunk.statistics.interiors += 1;
    let (id, is_fresh) = match home {
        Home::Replace(id) => (id, false),
        Home::Fresh => (chunk.allocate_page()?, true),
    };
    let page = builder.finish(level, id, chunk.stamp);
    let child = Child::of(&page);
    if is_fresh {
        chunk.put_fresh(page);
    } else {
        chunk.put_protected(page);
    }
    Ok(child)
}

/// How many bytes of each page to use so that `total_bytes` (with one header) spread well.
pub(super) fn target_bytes(page_bytes: usize, total_bytes: usize, fill: Fill) -> usize {
    if total_bytes <= page_bytes || fill == Fill::Packed {
        return page_bytes;
    }
    let room = page_bytes - PAGE_HEADER_BYTES;
    let content = total_bytes - PAGE_HEADER_BYTES;
    let pages = match content.div_ceil(room) {
        few @ 0..=2 => few,
        _ => content.div_ceil(room / 10 * 9),
    };
    PAGE_HEADER_BYTES + content.div_ceil(pages)
}
