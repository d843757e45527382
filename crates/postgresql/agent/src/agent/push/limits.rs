//! Limits that uploads share: memory, and worker slots with their scratch buffers.

use parking_lot::Mutex;
use seawall_archive::{Packer, Packing};

use crate::agent::semaphore::{Permit, Semaphore};

/// Contents and packed files in memory. With segments of 16 MiB, 32 uploads need less.
const MEMORY_BYTES: u64 = 1 << 30;
/// Packed files in memory that are on their way to one optional repository. They are no part of the above, since it may hang with them:
/// no further upload to it begins while it has so much.
pub(super) const OPTIONAL_MEMORY_BYTES: u64 = 512 << 20;
/// A longer scratch buffer is freed after use.
const SCRATCH_BYTES_MAX: usize = 16 << 20;

/// What uploads share.
#[derive(Debug)]
pub(super) struct Limits {
    /// In bytes: files that are read and packed, and on their way to repositories that are required.
    pub(super) memory: Semaphore,
    /// Files that are read and packed at once.
    pub(super) worker_slots: WorkerSlots,
}

impl Limits {
    pub(super) fn new(packing: Packing, threads: u64) -> Limits {
        Limits { memory: Semaphore::new(MEMORY_BYTES), worker_slots: WorkerSlots::new(threads, packing) }
    }
}

/// Worker slots, one for each processor or as many as the settings say, with scratch buffers that are reused: a fresh allocation for each
/// file costs half as much as to read the file.
#[derive(Debug)]
pub(super) struct WorkerSlots {
    processors: Semaphore,
    packing: Packing,
    /// Buffers that no slot uses.
    free: Mutex<Vec<Scratch>>,
}

/// A packer, and a buffer for the content of a file.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) packer: Packer,
    /// Begins with the content of an earlier file.
    pub(super) content: Vec<u8>,
}

/// A slot that a worker holds until this is dropped.
#[derive(Debug)]
pub(super) struct WorkerSlot<'a> {
    slots: &'a WorkerSlots,
    scratch: Option<Scratch>,
    _processor: Permit,
}

impl WorkerSlots {
    fn new(processors: u64, packing: Packing) -> WorkerSlots {
        WorkerSlots { processors: Semaphore::new(processors), packing, free: Mutex::default() }
    }

    /// Waits for a free slot.
    pub(super) fn acquire(&self) -> WorkerSlot<'_> {
        let processor = self.processors.acquire(1);
        WorkerSlot { slots: self, scratch: None, _processor: processor }
    }

    /// Frees the buffers that no slot uses.
    pub(super) fn clear(&self) {
        self.free.lock().clear();
    }
}

impl WorkerSlot<'_> {
    /// The buffers of this slot. A worker that only waits for a file has none.
    pub(super) fn scratch(&mut self) -> &mut Scratch {
        let slots = self.slots;
        let new = || Scratch { packer: Packer::new(slots.packing), content: Vec::new() };
        self.scratch.get_or_insert_with(|| slots.free.lock().pop().unwrap_or_else(new))
    }
}

impl Drop for WorkerSlot<'_> {
    fn drop(&mut self) {
        self.slots
            .free
            .lock()
            .extend(self.scratch.take().filter(|scratch| scratch.content.capacity() <= SCRATCH_BYTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_unless_it_is_long() {
        let slots = WorkerSlots::new(2, Packing::default());
        let (mut first, mut second, idle) = (slots.acquire(), slots.acquire(), WorkerSlots::acquire);
        second.scratch();
        first.scratch().content.reserve_exact(1000);
        drop((second, first));
        drop(idle(&slots));
        assert_eq!(slots.free.lock().len(), 2);
        let mut again = slots.acquire();
        assert!(again.scratch().content.capacity() >= 1000);
        again.scratch().content.reserve_exact(SCRATCH_BYTES_MAX + 1);
        drop(again);
        assert_eq!(slots.free.lock().len(), 1);
        slots.clear();
        assert_eq!(slots.acquire().scratch().content.capacity(), 0);
    }
}
