//! The range of keys that a page may hold, by what its parents say.

use crate::page::{InteriorView, RowKey};

/// The keys a page may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    /// The smallest.
    pub(crate) lower: RowKey<'a>,
    /// All are below; `None` at the right end of the tree.
    pub(crate) upper: Option<RowKey<'a>>,
}

/// The range of child `index` of an interior page, whose own range is `bounds`.
pub(super) fn bounds_of<'a>(view: &InteriorView<'a>, index: usize, bounds: Bounds<'a>) -> Bounds<'a> {
    Bounds {
        lower: view.lower_fence(index).unwrap_or(bounds.lower),
        upper: view.upper_fence(index).or(bounds.upper),
    }
}
