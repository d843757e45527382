//! Walking over the rows of a memtable in key order, both ways, while others insert.
//!
//! ```text
//!   rows:      a   c   d   f   |   h   i        the cursor stands between two rows: here behind seek("g")
//!                     previous <- -> next       next gives h, previous gives f
//! ```
//! A cursor copies the entries of one leaf at a time and then walks over the copy. A row that was there when the walk
//! began is met exactly once; one that is inserted meanwhile, ahead of the cursor, may or may not be met.
#![expect(
    unsafe_code,
    reason = "a position outlives borrows of the memtable; its number ties the two together"
)]

use crate::entry::{EntryPointer, EntryRef};
use crate::index::{LeafCopy, Target};
use crate::memtable::{Memtable, MemtableNumber};
use crate::versions::Versions;

/// Rows that are on their way into the cache while one is looked at.
const PREFETCH_ROWS: usize = 8;

/// A position between two rows of one memtable. It borrows nothing: keep it next to an `Arc<Memtable>`, and pass the
/// memtable to each call.
pub struct Cursor {
    /// The memtable that `copy` belongs to; `None` until the first seek.
    memtable: Option<MemtableNumber>,
    copy: LeafCopy,
    /// The rows of the copy before this one are behind the cursor.
    index: usize,
    direction: Direction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// The copy reaches up to its leaf's upper fence.
    Forward,
    /// The copy reaches down to its leaf's lower fence.
    Backward,
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor::new()
    }
}

impl Cursor {
    /// A cursor that stands nowhere: before a seek, there is no next row and no previous one.
    pub fn new() -> Cursor {
        Cursor { memtable: None, copy: LeafCopy::new(), index: 0, direction: Direction::Forward }
    }

    /// Moves before the first row whose key is at or above `key`, ready to go forward. `previous` works, too.
    pub fn seek(&mut self, memtable: &Memtable, key: &[u8]) {
        self.memtable = Some(memtable.number());
        self.fill_forward(memtable, Target::AtOrAfter(key));
    }

    /// Moves to the same place as [`Cursor::seek`], but ready to go backward: `previous` gives the last row below `key`.
    pub fn seek_reverse(&mut self, memtable: &Memtable, key: &[u8]) {
        self.memtable = Some(memtable.number());
        self.fill_backward(memtable, Target::Before(key));
    }

    /// Moves before the first row.
    pub fn seek_to_first(&mut self, memtable: &Memtable) {
        self.memtable = Some(memtable.number());
        self.fill_forward(memtable, Target::First);
    }

    /// Moves behind the last row.
    pub fn seek_to_last(&mut self, memtable: &Memtable) {
        self.memtable = Some(memtable.number());
        self.fill_backward(memtable, Target::Last);
    }

    /// The row behind the cursor, which moves past it; `None` at the end.
    ///
    /// # Panics
    /// If the cursor was moved to its place in another memtable.
    #[inline]
    pub fn next<'m>(&mut self, memtable: &'m Memtable) -> Option<(&'m [u8], Versions<'m>)> {
        self.check(memtable)?;
        loop {
            if self.index == self.copy.entries().len() && !self.advance(memtable) {
                return None;
            }
            let entry = self.entry(memtable, self.index)?;
            self.index += 1;
            if let Some(Some(ahead)) = self.copy.entries().get(self.index + PREFETCH_ROWS) {
                ahead.prefetch();
            }
            if let Some(versions) = Versions::new(entry) {
                return Some((entry.key(), versions));
            }
        }
    }

    /// The row before the cursor, which moves before it; `None` at the beginning.
    ///
    /// # Panics
    /// If the cursor was moved to its place in another memtable.
    #[inline]
    pub fn previous<'m>(&mut self, memtable: &'m Memtable) -> Option<(&'m [u8], Versions<'m>)> {
        self.check(memtable)?;
        loop {
            if self.index == 0 && !self.retreat(memtable) {
                return None;
            }
            self.index -= 1;
            if let Some(Some(ahead)) =
                self.index.checked_sub(PREFETCH_ROWS).and_then(|i| self.copy.entries().get(i))
            {
                ahead.prefetch();
            }
            let entry = self.entry(memtable, self.index)?;
            if let Some(versions) = Versions::new(entry) {
                return Some((entry.key(), versions));
            }
        }
    }

    fn check(&self, memtable: &Memtable) -> Option<()> {
        let number = self.memtable?;
        assert!(number == memtable.number(), "the cursor stands in another memtable");
        Some(())
    }

    /// Copies what follows the copy; false if nothing does.
    #[cold]
    fn advance(&mut self, memtable: &Memtable) -> bool {
        match self.direction {
            Direction::Forward => {
                let Some(fence) = self.copy.fence else { return false };
                self.fill_forward(memtable, Target::AtOrAfter(own(memtable, fence).key()));
            }
            // The copy ends at a key that was sought, not at a fence. If it is empty, all rows are ahead.
            Direction::Backward => match self.copy.entries().last() {
                Some(Some(last)) => self.fill_forward(memtable, Target::After(own(memtable, *last).key())),
                Some(None) | None => self.fill_forward(memtable, Target::First),
            },
        }
        !self.copy.entries().is_empty()
    }

    /// Copies what precedes the copy; false if nothing does.
    #[cold]
    fn retreat(&mut self, memtable: &Memtable) -> bool {
        match self.direction {
            Direction::Backward => {
                let Some(fence) = self.copy.fence else { return false };
                self.fill_backward(memtable, Target::Before(own(memtable, fence).key()));
            }
            Direction::Forward => match self.copy.entries().first() {
                Some(Some(first)) => {
                    self.fill_backward(memtable, Target::Before(own(memtable, *first).key()))
                }
                Some(None) | None => self.fill_backward(memtable, Target::Last),
            },
        }
        !self.copy.entries().is_empty()
    }

    /// Copies the rows from `target` on, from the first leaf that has any.
    fn fill_forward(&mut self, memtable: &Memtable, target: Target<'_>) {
        memtable.index().copy_leaf(target, &mut self.copy);
        while self.copy.entries().is_empty()
            && let Some(fence) = self.copy.fence
        {
            memtable.index().copy_leaf(Target::AtOrAfter(own(memtable, fence).key()), &mut self.copy);
        }
        self.direction = Direction::Forward;
        self.index = 0;
        self.copy.entries().iter().take(PREFETCH_ROWS + 1).flatten().for_each(|entry| entry.prefetch());
    }

    /// Copies the rows down from `target`, from the last leaf that has any.
    fn fill_backward(&mut self, memtable: &Memtable, target: Target<'_>) {
        memtable.index().copy_leaf(target, &mut self.copy);
        while self.copy.entries().is_empty()
            && let Some(fence) = self.copy.fence
        {
            memtable.index().copy_leaf(Target::Before(own(memtable, fence).key()), &mut self.copy);
        }
        self.direction = Direction::Backward;
        self.index = self.copy.entries().len();
        self.copy.entries().iter().rev().take(PREFETCH_ROWS + 1).flatten().for_each(|entry| entry.prefetch());
    }

    fn entry<'m>(&self, memtable: &'m Memtable, index: usize) -> Option<EntryRef<'m>> {
        self.copy.entries().get(index).copied().flatten().map(|entry| own(memtable, entry))
    }
}

/// An entry that was copied from `memtable`.
fn own(_memtable: &Memtable, entry: EntryPointer) -> EntryRef<'_> {
    // SAFETY: a cursor's entries come from the memtable whose number it notes when it seeks. Every call checks the
    // number, which no other memtable ever has, so this is the one whose arenas hold the entry.
    unsafe { entry.upgrade() }
}
