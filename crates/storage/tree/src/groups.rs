//! Groups: the leaves below one level-1 page, without a leaf being read. What a merge of whole ranges goes by.
//!
//! ```text
//!   level 1:   [ a  f  k ]            [ p  t ]
//!   leaves:    [a][f][k]              [p][t]         two groups, a..p and p.., of three and two leaves
//! ```

use std::ops::Range;

use seawall_types::Lsn;

use crate::error::TreeError;
use crate::merge::leaf_parent;
use crate::page::{LeafValue, PageReference};
use crate::published::ROOT;
use crate::tree::Tree;

/// The leaves below one level-1 page; of a tree of one leaf, that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The smallest key that it may hold.
    pub lower: Vec<u8>,
    /// All its keys are below; `None` at the right end of the tree.
    pub upper: Option<Vec<u8>>,
    /// In key order, at least one.
    pub leaves: Vec<GroupLeaf>,
    /// Whether one of them refers to a long value.
    pub has_long_values: bool,
    /// Of the level-1 page: which leaves it has, and where they part, did not change later. Of a tree of one leaf, the leaf's.
    pub stamp: Lsn,
    /// The greatest stamp of the pages from the root to the level-1 page: of two neighbouring groups, what was between them did not go later
    /// than the greater one.
    pub stamp_of_path: Lsn,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLeaf {
    /// The smallest key that it may hold. The next one's is the end of its range.
    pub lower: Vec<u8>,
    /// Where it is.
    pub page: PageReference,
}

impl Group {
    /// Which of its leaves may hold keys of `from..to`.
    pub fn leaves_within(&self, from: &[u8], to: &[u8]) -> Range<usize> {
        let end = self.leaves.partition_point(|leaf| leaf.lower.as_slice() < to);
        let start = self.leaves.partition_point(|leaf| leaf.lower.as_slice() <= from).saturating_sub(1);
        start.min(end)..end
    }

    /// Where the range of leaf `index` ends; `None` at the right end of the tree.
    pub fn upper_of(&self, index: usize) -> Option<&[u8]> {
        self.leaves.get(index + 1).map_or(self.upper.as_deref(), |next| Some(&next.lower))
    }
}

/// Gives groups one after another.
#[derive(Debug)]
pub struct Groups<'t> {
    tree: &'t Tree,
    /// Where the next one begins or a key in it; `None` if there is no more.
    next: Option<Vec<u8>>,
    to: Vec<u8>,
}

/// What a leaf has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafFill {
    /// Rows, those among them that are deleted included.
    pub rows: u64,
    /// Rows of a run that say that a row is deleted.
    pub deleted: u64,
    /// Bytes of the page that are in use.
    pub bytes: u64,
}

impl Tree {
    /// What the leaf has that may hold a key. One page is read, and those above it. For who has the turn to change the tree.
    ///
    /// # Errors
    /// If a page cannot be read or is damaged.
    pub fn leaf_fill(&self, key: &[u8]) -> Result<LeafFill, TreeError> {
        let group = Groups { tree: self, next: None, to: Vec::new() }.group_of(key)?;
        let after = group.leaves.partition_point(|leaf| leaf.lower.as_slice() <= key);
        let page = self.pages.writer_page(group.leaves[after.saturating_sub(1)].page)?;
        let view = page.view();
        let leaf = view.leaf().map_err(|damage| self.pages.damaged(view.id(), damage))?;
        let deleted = match leaf.has_deleted() {
            true => leaf.rows().filter(|row| row.value == LeafValue::Deleted).count(),
            false => 0,
        };
        Ok(LeafFill { rows: leaf.len() as u64, deleted: deleted as u64, bytes: leaf.used_bytes() as u64 })
    }

    /// The groups that may hold keys of `from..to`, in key order. For who has the turn to change the tree: a chunk that is applied
    /// meanwhile shows in what comes after.
    pub fn groups(&self, from: &[u8], to: &[u8]) -> Groups<'_> {
        Groups { tree: self, next: (from < to).then(|| from.to_vec()), to: to.to_vec() }
    }
}

impl Groups<'_> {
    fn group_of(&self, key: &[u8]) -> Result<Group, TreeError> {
        let Some(parent) = leaf_parent(self.tree, key)? else {
            let page = self.tree.pages.writer_page(ROOT)?;
            let leaf = page.view().leaf().map_err(|damage| self.tree.pages.damaged(ROOT.page, damage))?;
            let leaves = vec![GroupLeaf { lower: Vec::new(), page: ROOT }];
            return Ok(Group {
                lower: Vec::new(),
                upper: None,
                leaves,
                has_long_values: leaf.has_overflow(),
                stamp: page.view().lsn(),
                stamp_of_path: page.view().lsn(),
            });
        };
        let bounds = parent.bounds();
        let view = parent.page.view();
        let view = view.interior().map_err(|damage| self.tree.pages.damaged(view.id(), damage))?;
        let leaves = (0..view.len()).map(|index| GroupLeaf {
            lower: view.lower_fence(index).unwrap_or(bounds.lower).to_vec(),
            page: view.child(index).reference(),
        });
        Ok(Group {
            lower: bounds.lower.to_vec(),
            upper: bounds.upper.map(|upper| upper.to_vec()),
            leaves: leaves.collect(),
            has_long_values: (0..view.len()).any(|index| view.child(index).flags != 0),
            stamp: view.lsn(),
            stamp_of_path: parent.newest,
        })
    }
}

impl Iterator for Groups<'_> {
    type Item = Result<Group, TreeError>;

    fn next(&mut self) -> Option<Result<Group, TreeError>> {
        let key = self.next.take()?;
        let group = self.group_of(&key);
        if let Ok(group) = &group {
            self.next = group.upper.clone().filter(|upper| *upper < self.to);
        }
        Some(group)
    }
}
