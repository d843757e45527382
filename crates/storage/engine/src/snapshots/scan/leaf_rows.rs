//! A leaf of the tree as a source of a scan's rows.

use seawall_tree::page::{LeafValue, Page};

use seawall_tree::Direction;

use super::LentRow;

/// The leaf of the batch, and which of its rows are left.
pub(super) struct LeafRows {
    pub(super) page: Page,
    /// Rows `next..end` are to come; taken from the end when going backwards.
    next: usize,
    end: usize,
    /// The key of the row it stands at; its beginning, the page's prefix, is written once.
    pub(super) key: Vec<u8>,
    prefix_bytes: usize,
    /// Whether all values are in the leaf.
    pub(super) is_plain: bool,
}

impl LeafRows {
    /// `key` is a buffer whose content does not matter.
    pub(super) fn new(
        page: Page,
        rows: std::ops::Range<usize>,
        direction: Direction,
        mut key: Vec<u8>,
    ) -> LeafRows {
        key.clear();
        let (next, end) = (rows.start, rows.end);
        let mut rows = LeafRows { page, next, end, key, prefix_bytes: 0, is_plain: false };
        let view = rows.page.view().leaf().expect("a descent ends at a leaf");
        rows.key.extend_from_slice(view.prefix());
        rows.prefix_bytes = rows.key.len();
        rows.is_plain = !view.has_overflow() && !view.has_deleted();
        rows.load_key(direction);
        rows
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.end
    }

    pub(super) fn index(&self, direction: Direction) -> usize {
        match direction {
            Direction::Forward => self.next,
            Direction::Reverse => self.end - 1,
        }
    }

    fn load_key(&mut self, direction: Direction) {
        if self.is_done() {
            return;
        }
        let index = self.index(direction);
        let view = self.page.view().leaf().expect("a descent ends at a leaf");
        self.key.truncate(self.prefix_bytes);
        self.key.extend_from_slice(view.row(index).key.suffix());
    }

    /// The next row, with its whole key; only for plain leaves. What most rows of most scans go through.
    pub(super) fn take(&mut self, direction: Direction) -> LentRow<'_> {
        let index = self.index(direction);
        self.step(direction);
        let row = self.page.view().leaf().expect("a descent ends at a leaf").row(index);
        self.key.truncate(self.prefix_bytes);
        self.key.extend_from_slice(row.key.suffix());
        let LeafValue::Inline(value) = row.value else { unreachable!("all values are in the leaf") };
        (&self.key, value)
    }

    fn step(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.next += 1,
            Direction::Reverse => self.end -= 1,
        }
    }

    pub(super) fn advance(&mut self, direction: Direction) {
        self.step(direction);
        self.load_key(direction);
    }
}
