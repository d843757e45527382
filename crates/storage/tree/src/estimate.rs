//! About how many rows, or leaves, are between two keys: by the paths to both, without reading what is between them.

use crossbeam_epoch as epoch;

use crate::error::TreeError;
use crate::published::PublishedPages;
use crate::tree::Tree;

/// A place in a page, and how many there are: of a child in an interior page, of a row in a leaf.
#[derive(Clone, Copy, Debug)]
struct Place {
    index: f64,
    count: f64,
}

impl Place {
    #[expect(clippy::cast_precision_loss, reason = "a page has fewer rows than 2^52")]
    fn new(index: usize, count: usize) -> Place {
        Place { index: index as f64, count: count as f64 }
    }
}

impl Tree {
    /// About how many rows have keys from `from` on and below `to`. Two descents, so it costs as much as two point reads. It is exact within a
    /// leaf, and elsewhere as good as pages are equally full.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn estimate_rows(&self, from: &[u8], to: &[u8]) -> Result<f64, TreeError> {
        self.pages().estimate_rows(from, to)
    }

    /// About how many leaves begin after `from` and below `to`. As `estimate_rows`, but how full leaves are does not matter.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn estimate_leaves(&self, from: &[u8], to: &[u8]) -> Result<f64, TreeError> {
        let (mut low, mut high) = self.pages().paths(from, to)?;
        low.pop();
        high.pop();
        Ok(between(&low, &high))
    }
}

impl PublishedPages {
    /// See [`Tree::estimate_rows`].
    ///
    /// # Errors
    /// If a page on the way cannot be read or is damaged.
    pub fn estimate_rows(&self, from: &[u8], to: &[u8]) -> Result<f64, TreeError> {
        let (low, high) = self.paths(from, to)?;
        Ok(between(&low, &high))
    }

    /// The places of two keys in one version of the tree.
    fn paths(&self, from: &[u8], to: &[u8]) -> Result<(Vec<Place>, Vec<Place>), TreeError> {
        loop {
            let version = self.version();
            let paths = (self.path(version, from), self.path(version, to));
            if self.is_current(version) {
                return Ok((paths.0?, paths.1?));
            }
        }
    }

    /// The place of a key in each page from the root to its leaf.
    fn path(&self, version: u64, key: &[u8]) -> Result<Vec<Place>, TreeError> {
        let guard = epoch::pin();
        let mut path = Vec::new();
        let held = self.descend(version, &guard, |view| {
            let child = view.child_for(key);
            path.push(Place::new(child, view.len()));
            child
        })?;
        let leaf = held.view().leaf().map_err(|damage| self.damaged(held.view().id(), damage))?;
        let (Ok(row) | Err(row)) = leaf.search(key);
        path.push(Place::new(row, leaf.len()));
        Ok(path)
    }
}

/// Rows or leaves between two places: those of the level where the paths end. Below the page in which the paths part, pages are taken to
/// be as full as those on the paths are on average.
fn between(low: &[Place], high: &[Place]) -> f64 {
    let Some(parting) = low.iter().zip(high).position(|(low, high)| low.index != high.index) else {
        return 0.0;
    };
    let below = parting + 1..low.len();
    let of_child: f64 = low[below.clone()]
        .iter()
        .zip(&high[below.clone()])
        .map(|(low, high)| (low.count + high.count) / 2.0)
        .product();
    let share = |path: &[Place]| {
        path.iter().rev().fold(0.0, |share, place| (place.index + share) / place.count.max(1.0))
    };
    let children =
        high[parting].index + share(&high[below.clone()]) - low[parting].index - share(&low[below]);
    (children * of_child).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &[(usize, usize)]) -> Vec<Place> {
        path.iter().map(|(index, count)| Place::new(*index, *count)).collect()
    }

    #[track_caller]
    fn check(low: &[(usize, usize)], high: &[(usize, usize)], expected: f64) {
        let found = between(&places(low), &places(high));
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    }

    #[test]
    fn within_a_leaf_rows_are_counted() {
        check(&[(3, 10), (2, 50)], &[(3, 10), (9, 50)], 7.0);
        check(&[(3, 10), (2, 50)], &[(3, 10), (2, 50)], 0.0);
    }

    #[test]
    fn across_pages_they_are_estimated() {
        // All of a tree of 10 * 20 * 50 rows.
        check(&[(0, 10), (0, 20), (0, 50)], &[(9, 10), (19, 20), (50, 50)], 10_000.0);
        // From the end of one leaf to the beginning of the next one.
        check(&[(1, 10), (49, 50)], &[(2, 10), (1, 50)], 2.0);
        // Leaves that are not equally full.
        check(&[(0, 10), (0, 40)], &[(5, 10), (0, 60)], 250.0);
    }

    #[test]
    fn without_the_last_level_leaves_are_counted() {
        // 7 of one level-1 page; of 10 with 20 leaves each; the tree is one leaf.
        check(&[(3, 10)], &[(10, 10)], 7.0);
        check(&[(0, 10), (0, 20)], &[(9, 10), (19, 20)], 199.0);
        check(&[], &[], 0.0);
    }

    #[test]
    fn keys_in_the_wrong_order_have_nothing_between_them() {
        check(&[(5, 10), (0, 40)], &[(2, 10), (0, 40)], 0.0);
    }
}
