//! The ordered index: a B+tree over the entries of a memtable.
//!
//! A full node is split on the way down, while its parent has room; nodes are never joined. Separators and fences are
//! entries (the first of the leaf on their right), so the index copies no key.
#![expect(unsafe_code, reason = "the root's nodes live as long as the memtable; see `Index::root`")]

use crate::arena::Arena;
use crate::entry::{EntryPointer, EntryRef};
use crate::node::{FANOUT, Latched, NodeRef, NodeVersion, Position, Restart, Root};

/// The index. All entries put into it must live in arenas that its owner drops together with it.
pub(crate) struct Index {
    root: Root,
    arena: Arena,
}

/// Result of [`Index::find_or_insert`].
pub(crate) enum Inserted<'m> {
    /// The key was there: its entry.
    Existing(EntryRef<'m>),
    /// The new entry, which is in the index now.
    New(EntryRef<'m>),
}

/// Which part of which leaf to copy.
#[derive(Clone, Copy)]
pub(crate) enum Target<'k> {
    /// Keys at or above this one.
    AtOrAfter(&'k [u8]),
    /// Keys above this one.
    After(&'k [u8]),
    /// Keys below this one.
    Before(&'k [u8]),
    /// The lowest keys.
    First,
    /// The highest keys.
    Last,
}

/// The entries of a part of a leaf, as they were at one moment.
pub(crate) struct LeafCopy {
    entries: [Option<EntryPointer>; FANOUT],
    count: usize,
    /// Where the leaf ends on the side towards which was copied; `None` for the end of the index.
    pub(crate) fence: Option<EntryPointer>,
}

impl LeafCopy {
    pub(crate) fn new() -> LeafCopy {
        LeafCopy { entries: [None; FANOUT], count: 0, fence: None }
    }

    pub(crate) fn entries(&self) -> &[Option<EntryPointer>] {
        &self.entries[..self.count]
    }
}

impl Index {
    /// An index without keys.
    pub(crate) fn new() -> Index {
        let arena = Arena::new();
        let latched = NodeRef::create(&arena, 0);
        let root = Root::new(latched.node());
        drop(latched);
        Index { root, arena }
    }

    /// Bytes of the nodes.
    pub(crate) fn bytes_used(&self) -> usize {
        self.arena.bytes_used()
    }

    /// Where new nodes of this index come from; holds nothing but nodes.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Replaces the root of an index that nobody else uses yet.
    pub(crate) fn set_root(&self, root: NodeRef<'_>) {
        self.root.store(root);
    }

    /// The entry of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<EntryRef<'_>> {
        loop {
            if let Ok(found) = self.try_find(key) {
                return found;
            }
        }
    }

    /// The entry of `key`, or else the one that `create` makes, inserted. `create` is called at most once.
    pub(crate) fn find_or_insert<'m>(
        &'m self,
        key: &[u8],
        mut create: impl FnMut() -> EntryRef<'m>,
    ) -> Inserted<'m> {
        let mut created = None;
        loop {
            if let Ok(inserted) = self.try_find_or_insert(key, || *created.get_or_insert_with(&mut create)) {
                return inserted;
            }
        }
    }

    /// Copies the part of a leaf that `target` names. The copy may be empty although there are keys further on:
    /// behind its fence.
    pub(crate) fn copy_leaf(&self, target: Target<'_>, copy: &mut LeafCopy) {
        while self.try_copy_leaf(target, copy).is_err() {}
    }

    /// The first entries of the leaves behind the one for `from`, up to the one for `to`, in key order. Looks at no leaf.
    pub(crate) fn separators(&self, from: &[u8], to: Option<&[u8]>) -> Vec<EntryRef<'_>> {
        let mut found: Vec<EntryRef<'_>> = Vec::new();
        let mut next = Some(from);
        while let Some(start) = next {
            let count = found.len();
            match self.try_separators(start, &mut found) {
                Ok(upper) => {
                    found.extend(upper);
                    next = upper.map(EntryRef::key).filter(|upper| to.is_none_or(|to| *upper < to));
                }
                Err(Restart) => found.truncate(count),
            }
        }
        let end = to.map_or(found.len(), |to| found.partition_point(|entry| entry.key() < to));
        found.truncate(end);
        found
    }

    /// Adds the separators above `start` in one node above the leaves; returns the node's upper fence.
    fn try_separators<'m>(
        &'m self,
        start: &[u8],
        found: &mut Vec<EntryRef<'m>>,
    ) -> Result<Option<EntryRef<'m>>, Restart> {
        let (mut node, mut version) = self.enter()?;
        while node.level() > 1 {
            (node, version) = step_down(node, version, child_for(node, start))?;
        }
        if node.level() == 1 {
            found.extend((child_for(node, start)..node.count()).filter_map(|index| node.entry(index)));
        }
        let upper = node.upper();
        node.validate(version)?;
        Ok(upper)
    }

    fn try_find(&self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Restart> {
        let (leaf, version) = self.descend(|node| child_for(node, key))?;
        let found = leaf.search(key).found;
        leaf.validate(version)?;
        Ok(found)
    }

    fn try_find_or_insert<'m>(
        &'m self,
        key: &[u8],
        create: impl FnOnce() -> EntryRef<'m>,
    ) -> Result<Inserted<'m>, Restart> {
        let (parent, (leaf, version)) = self.descend_for_insert(key)?;
        let Position { index, found } = leaf.search(key);
        if let Some(entry) = found {
            leaf.validate(version)?;
            return Ok(Inserted::Existing(entry));
        }
        if leaf.count() == FANOUT {
            self.split(parent, (leaf, version), index)?;
            return Err(Restart);
        }
        // Believed before the row is copied, which is dear; and a large value is not copied under the latch.
        leaf.validate(version)?;
        let entry = create();
        leaf.try_latch(version)?.insert(index, entry, None);
        Ok(Inserted::New(entry))
    }

    fn try_copy_leaf(&self, target: Target<'_>, copy: &mut LeafCopy) -> Result<(), Restart> {
        let (leaf, version) = self.descend(|node| match target {
            Target::AtOrAfter(key) | Target::After(key) => child_for(node, key),
            Target::Before(key) => node.search(key).index,
            Target::First => 0,
            Target::Last => node.count(),
        })?;
        let count = leaf.count();
        let range = match target {
            Target::AtOrAfter(key) => leaf.search(key).index..count,
            Target::After(key) => child_for(leaf, key)..count,
            Target::Before(key) => 0..leaf.search(key).index,
            Target::First | Target::Last => 0..count,
        };
        let fence = match target {
            Target::AtOrAfter(_) | Target::After(_) | Target::First => leaf.upper(),
            Target::Before(_) | Target::Last => leaf.lower(),
        };
        copy.count = range.len();
        for (slot, index) in copy.entries.iter_mut().zip(range) {
            *slot = leaf.entry(index).map(EntryRef::pointer);
        }
        copy.fence = fence.map(EntryRef::pointer);
        leaf.validate(version)
    }

    /// From the root to a leaf, by the child that `choose` names at each inner node.
    fn descend<'m>(
        &'m self,
        choose: impl Fn(NodeRef<'m>) -> usize,
    ) -> Result<(NodeRef<'m>, NodeVersion), Restart> {
        let (mut node, mut version) = self.enter()?;
        while node.level() > 0 {
            (node, version) = step_down(node, version, choose(node))?;
        }
        Ok((node, version))
    }

    /// From the root to the leaf for `key`, splitting full inner nodes on the way; gives the leaf's parent, too.
    fn descend_for_insert<'m>(&'m self, key: &[u8]) -> Result<(Option<Visited<'m>>, Visited<'m>), Restart> {
        let (mut node, mut version) = self.enter()?;
        let mut parent = None;
        while node.level() > 0 {
            if node.count() == FANOUT {
                self.split(parent, (node, version), FANOUT / 2)?;
                return Err(Restart);
            }
            let child = step_down(node, version, child_for(node, key))?;
            parent = Some((node, version));
            (node, version) = child;
        }
        Ok((parent, (node, version)))
    }

    fn enter(&self) -> Result<Visited<'_>, Restart> {
        let root = self.root();
        let version = root.read_version();
        // A root that was split is half an index: its new parent was stored before its latch was let go.
        if self.root() == root { Ok((root, version)) } else { Err(Restart) }
    }

    /// Splits a full node whose parent, if it has one, is not full. `index` is where a key is about to go.
    fn split<'m>(
        &'m self,
        parent: Option<Visited<'m>>,
        (node, version): Visited<'m>,
        index: usize,
    ) -> Result<(), Restart> {
        let latched_parent = match parent {
            Some((parent, version)) => Some(parent.try_latch(version)?),
            None => None,
        };
        let latched = node.try_latch(version)?;
        if latched_parent.is_none() && self.root() != node {
            return Err(Restart);
        }
        let right = NodeRef::create(&self.arena, node.level());
        let separator = latched.split_into(&right, split_point(index));
        match latched_parent {
            Some(parent) => {
                let index = parent.node().search(separator.key()).index;
                parent.insert(index, separator, Some(right.node()));
            }
            None => self.grow(&latched, separator, &right),
        }
        Ok(())
    }

    /// Puts a new root above the two halves of the old one.
    fn grow<'m>(&'m self, left: &Latched<'m>, separator: EntryRef<'m>, right: &Latched<'m>) {
        let root = NodeRef::create(&self.arena, left.node().level() + 1);
        root.set_child(0, left.node());
        root.insert(0, separator, Some(right.node()));
        self.root.store(root.node());
    }

    fn root(&self) -> NodeRef<'_> {
        // SAFETY: nodes come from `self.arena`; entries from arenas that live as long as the index, as its owner
        // promises.
        unsafe { self.root.load() }
    }
}

/// A node, and its version when it was met.
type Visited<'m> = (NodeRef<'m>, NodeVersion);

/// The child of a node at rest, and the child's version at a moment when it was still this node's child.
fn step_down<'m>(node: NodeRef<'m>, version: NodeVersion, index: usize) -> Result<Visited<'m>, Restart> {
    let child = node.child(index).ok_or(Restart)?;
    child.prefetch(node.level() - 1);
    let child_version = child.read_version();
    node.validate(version)?;
    Ok((child, child_version))
}

/// How many keys of the node are at or below `key`: in an inner node the child where it belongs.
fn child_for(node: NodeRef<'_>, key: &[u8]) -> usize {
    let position = node.search(key);
    position.index + usize::from(position.found.is_some())
}

/// Rows that come in rising or falling order leave full leaves behind; others halve them.
fn split_point(index: usize) -> usize {
    match index {
        0 => FANOUT / 16,
        FANOUT.. => FANOUT - FANOUT / 16,
        _ => FANOUT / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_types::Lsn;

    #[test]
    fn rising_and_falling_keys_fill_their_leaves() {
        let row_count: u32 = if cfg!(miri) { 300 } else { 20_000 };
        for falling in [false, true] {
            let index = Index::new();
            let rows = Arena::new();
            for row in 0..row_count {
                let key = if falling { u32::MAX - row } else { row }.to_be_bytes();
                index.find_or_insert(&key, || EntryRef::create(&rows, &key, Lsn::ZERO, None));
            }
            let mut copy = LeafCopy::new();
            let mut leaf_count = 0;
            let mut keys = 0;
            index.copy_leaf(Target::First, &mut copy);
            loop {
                leaf_count += 1;
                keys += copy.entries().len();
                let Some(fence) = copy.fence else { break };
                // SAFETY: `rows` outlives the use.
                let fence = unsafe { fence.upgrade() };
                index.copy_leaf(Target::AtOrAfter(fence.key()), &mut copy);
            }
            assert_eq!(keys, row_count as usize);
            assert!(leaf_count * 58 <= keys + 2 * FANOUT, "{leaf_count} leaves for {keys} keys");
        }
    }
}
