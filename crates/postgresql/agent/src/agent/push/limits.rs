//! What uploads share: memory, and processors with room for what they work on.

use parking_lot::Mutex;
use seawall_archive::{Packer, Packing};

use crate::agent::stock::{Share, Stock, processors};

/// Contents and packed files in memory. With segments of 16 MiB, 32 uploads need less.
const MEMORY_BYTES: u64 = 1 << 30;
/// Packed files in memory that are on their way to one optional repository. They are no part of the above, since it may hang with them:
/// no further upload to it begins while it has so much.
pub(super) const OPTIONAL_MEMORY_BYTES: u64 = 512 << 20;
/// Longer room is given back after use.
const ROOM_BYTES_MAX: usize = 16 << 20;

/// What uploads share.
#[derive(Debug)]
pub(super) struct Limits {
    /// In bytes: files that are read and packed, and on their way to repositories that are required.
    pub(super) memory: Stock,
    /// Files that are read and packed at once.
    pub(super) desks: Desks,
}

impl Limits {
    pub(super) fn new(packing: Packing) -> Limits {
        Limits { memory: Stock::new(MEMORY_BYTES), desks: Desks::new(processors(), packing) }
    }
}

/// Processors. Each has a packer, and room for a content, which the next content takes over: memory that is new from the system
/// for each file costs half as much again as to read the file.
#[derive(Debug)]
pub(super) struct Desks {
    processors: Stock,
    packing: Packing,
    /// What nobody uses.
    free: Mutex<Vec<Tools>>,
}

/// What one works with.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) packer: Packer,
    /// Whatever the last one has left.
    pub(super) content: Vec<u8>,
}

/// A processor, until dropped.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    desks: &'a Desks,
    tools: Option<Tools>,
    _processor: Share,
}

impl Desks {
    fn new(processors: u64, packing: Packing) -> Desks {
        Desks { processors: Stock::new(processors), packing, free: Mutex::default() }
    }

    /// Waits for a free one.
    pub(super) fn take(&self) -> Desk<'_> {
        let processor = self.processors.take(1);
        Desk { desks: self, tools: None, _processor: processor }
    }

    /// Gives memory that nobody uses back to the system.
    pub(super) fn clear(&self) {
        self.free.lock().clear();
    }
}

impl Desk<'_> {
    /// Whoever only waits at his desk has none.
    pub(super) fn tools(&mut self) -> &mut Tools {
        let desks = self.desks;
        let new = || Tools { packer: Packer::new(desks.packing), content: Vec::new() };
        self.tools.get_or_insert_with(|| desks.free.lock().pop().unwrap_or_else(new))
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        self.desks
            .free
            .lock()
            .extend(self.tools.take().filter(|tools| tools.content.capacity() <= ROOM_BYTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_again_unless_it_is_long() {
        let desks = Desks::new(2, Packing::default());
        let (mut first, mut second, idle) = (desks.take(), desks.take(), Desks::take);
        second.tools();
        first.tools().content.reserve_exact(1000);
        drop((second, first));
        drop(idle(&desks));
        assert_eq!(desks.free.lock().len(), 2);
        let mut again = desks.take();
        assert!(again.tools().content.capacity() >= 1000);
        again.tools().content.reserve_exact(ROOM_BYTES_MAX + 1);
        drop(again);
        assert_eq!(desks.free.lock().len(), 1);
        desks.clear();
        assert_eq!(desks.take().tools().content.capacity(), 0);
    }
}
