//! Pages of the last durable tree, as the writer reads them: each must be what its parent says.

use seawall_types::{Lsn, PageId};

use super::bounds::{Bounds, bounds_of};
use crate::error::TreeError;
use crate::page::{Child, InteriorView, LeafView, Page, PageDamage, RowKey};
use crate::published::ROOT;
use crate::tree::Tree;

/// The parent of a leaf, at level 1, and the keys it may hold.
#[derive(Debug)]
pub(crate) struct LeafParent {
    pub(crate) page: Page,
    /// The pages from the root to it, both included.
    pub(super) path: Vec<PageId>,
    /// The greatest stamp of them.
    pub(crate) newest: Lsn,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl LeafParent {
    pub(crate) fn bounds(&self) -> Bounds<'_> {
        Bounds { lower: RowKey::from(&self.lower[..]), upper: self.upper.as_deref().map(RowKey::from) }
    }

    /// The lower bound of the leaf where `key` belongs.
    pub(super) fn lower_bound_of_leaf(&self, tree: &Tree, key: &[u8]) -> Result<Vec<u8>, TreeError> {
        let view = interior_of(tree, &self.page)?;
        Ok(bounds_of(&view, view.child_for(key), self.bounds()).lower.to_vec())
    }
}

/// The parent of the leaf where `key` belongs; `None` if that leaf is the root.
pub(crate) fn leaf_parent(tree: &Tree, key: &[u8]) -> Result<Option<LeafParent>, TreeError> {
    let page = tree.pages.writer_page(ROOT)?;
    if page.view().level() == 0 {
        return Ok(None);
    }
    let newest = page.view().lsn();
    let mut found = LeafParent { page, path: vec![ROOT.page], newest, lower: Vec::new(), upper: None };
    loop {
        let view = interior_of(tree, &found.page)?;
        let level = view.level();
        if level == 1 {
            return Ok(Some(found));
        }
        let index = view.child_for(key);
        let bounds = bounds_of(&view, index, found.bounds());
        let page = read_child_within(tree, view.child(index), level - 1, bounds)?;
        let (lower, upper) = (bounds.lower.to_vec(), bounds.upper.map(|upper| upper.to_vec()));
        let mut path = std::mem::take(&mut found.path);
        path.push(page.view().id());
        let newest = found.newest.max(page.view().lsn());
        found = LeafParent { page, path, newest, lower, upper };
    }
}

pub(super) fn read_child(tree: &Tree, child: Child, level: u8) -> Result<Page, TreeError> {
    let page = tree.pages.writer_page(child.reference())?;
    expect_level(tree, &page, level)?;
    Ok(page)
}

/// As `read_child`, of a page whose keys go into the pages that are built: they must be in the range that the parent gives.
pub(super) fn read_child_within(
    tree: &Tree,
    child: Child,
    level: u8,
    bounds: Bounds<'_>,
) -> Result<Page, TreeError> {
    let page = read_child(tree, child, level)?;
    expect_within(tree, &page, bounds)?;
    Ok(page)
}

/// Refuses a page whose keys are not all in the range that the parent gives.
pub(crate) fn expect_within(tree: &Tree, page: &Page, bounds: Bounds<'_>) -> Result<(), TreeError> {
    if holds_keys_within(page, bounds) {
        return Ok(());
    }
    let damage = PageDamage::Structure("keys outside of the range that the parent gives");
    Err(damaged(tree, page.view().id(), damage))
}

pub(super) fn expect_level(tree: &Tree, page: &Page, expected: u8) -> Result<(), TreeError> {
    let found = page.view().level();
    if found == expected {
        return Ok(());
    }
    Err(damaged(tree, page.view().id(), PageDamage::WrongLevel { expected, found }))
}

pub(super) fn interior_of<'p>(tree: &Tree, page: &'p Page) -> Result<InteriorView<'p>, TreeError> {
    page.view().interior().map_err(|damage| damaged(tree, page.view().id(), damage))
}

pub(super) fn leaf_of<'p>(tree: &Tree, page: &'p Page) -> Result<LeafView<'p>, TreeError> {
    page.view().leaf().map_err(|damage| damaged(tree, page.view().id(), damage))
}

fn holds_keys_within(page: &Page, bounds: Bounds<'_>) -> bool {
    let is_below = |key: RowKey<'_>| bounds.upper.is_none_or(|upper| key < upper);
    if let Ok(leaf) = page.view().leaf() {
        return leaf.is_empty() || (leaf.key(0) >= bounds.lower && is_below(leaf.key(leaf.len() - 1)));
    }
    let Ok(interior) = page.view().interior() else { return true };
    match (interior.upper_fence(0), interior.lower_fence(interior.len() - 1)) {
        (Some(first), Some(last)) => first > bounds.lower && is_below(last),
        _ => true,
    }
}

fn damaged(tree: &Tree, page: PageId, damage: PageDamage) -> TreeError {
    tree.pages.damaged(page, damage)
}
