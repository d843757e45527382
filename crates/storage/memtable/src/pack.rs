//! Building an index bottom-up from entries that come in order: no search, and full leaves.

use crate::arena::Arena;
use crate::entry::EntryRef;
use crate::node::{FANOUT, NodeRef};

/// Keys of a packed node: a few more fit before it splits.
const PACKED_KEYS: usize = FANOUT - FANOUT / 16;

/// Packs entries into leaves, then leaves into inner nodes.
pub(crate) struct Packer<'m> {
    arena: &'m Arena,
    /// The entries of the next leaf.
    pending: Vec<EntryRef<'m>>,
    leaves: Vec<Packed<'m>>,
}

/// A node of the level below, and the lower fence that separates it from its left neighbour.
#[derive(Clone, Copy)]
struct Packed<'m> {
    lower: Option<EntryRef<'m>>,
    node: NodeRef<'m>,
}

impl<'m> Packer<'m> {
    /// Nodes come from `arena`, which holds nothing else.
    pub(crate) fn new(arena: &'m Arena) -> Packer<'m> {
        Packer { arena, pending: Vec::with_capacity(PACKED_KEYS), leaves: Vec::new() }
    }

    /// Adds the entry with the next higher key.
    pub(crate) fn push(&mut self, entry: EntryRef<'m>) {
        if self.pending.len() == PACKED_KEYS {
            self.finish_leaf(Some(entry));
        }
        self.pending.push(entry);
    }

    /// The root of all that was added.
    pub(crate) fn finish(mut self) -> NodeRef<'m> {
        self.finish_leaf(None);
        let mut level = self.leaves;
        let mut height = 0;
        while level.len() > 1 {
            height += 1;
            level = pack_level(self.arena, height, &level);
        }
        level.first().expect("there is always a leaf").node
    }

    fn finish_leaf(&mut self, upper: Option<EntryRef<'m>>) {
        // The first leaf has no limit below.
        let lower = if self.leaves.is_empty() { None } else { self.pending.first().copied() };
        let leaf = NodeRef::create(self.arena, 0);
        leaf.set_fences(lower, upper);
        leaf.fill(&self.pending);
        self.leaves.push(Packed { lower, node: leaf.node() });
        self.pending.clear();
    }
}

/// Puts the nodes of a level under as few inner nodes as possible, evenly filled, so that none is left with one child.
fn pack_level<'m>(arena: &'m Arena, height: u16, below: &[Packed<'m>]) -> Vec<Packed<'m>> {
    let node_count = below.len().div_ceil(PACKED_KEYS + 1);
    let mut packed = Vec::with_capacity(node_count);
    for index in 0..node_count {
        let bounds = |index: usize| index * below.len() / node_count;
        let children = &below[bounds(index)..bounds(index + 1)];
        let upper = below.get(bounds(index + 1)).and_then(|next| next.lower);
        let separators: Vec<EntryRef<'m>> = children.iter().skip(1).filter_map(|child| child.lower).collect();
        let node = NodeRef::create(arena, height);
        node.set_fences(children[0].lower, upper);
        for (slot, child) in children.iter().enumerate() {
            node.set_child(slot, child.node);
        }
        node.fill(&separators);
        packed.push(Packed { lower: children[0].lower, node: node.node() });
    }
    packed
}
