//! Slabs: memory for images of one size.
//!
//! ```text
//!   slab, 2 MiB, aligned to its size
//!   | head: bitmap of free slots, reference counts | image 1 | image 2 | image 3 | ... |
//!     takes the place of image 0                    ^ its slab is found by masking the address
//! ```
//! One pool per size serves the whole process. The slab with the lowest address that has a free slot gives the next
//! one, so that those with higher addresses run empty; all empty ones but one go back to the kernel.
#![expect(unsafe_code, reason = "memory shared out by address")]

use std::cell::UnsafeCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use parking_lot::Mutex;
use seawall_io::ZeroedMemory;

const SLAB_BYTES: usize = 2 << 20;
const SMALLEST: usize = 4096;
pub(super) const SIZES: usize = 5;
const SLOTS_MAX: usize = SLAB_BYTES / SMALLEST;

/// What stands at the start of a slab. Zeros are valid.
#[repr(C)]
struct Head {
    /// Set: taken. Guarded by the pool's latch.
    taken: UnsafeCell<[u64; SLOTS_MAX / 64]>,
    counts: [AtomicU32; SLOTS_MAX],
}
const _: () = assert!(size_of::<Head>() <= SMALLEST);

/// The slabs of one image size.
struct Pool {
    /// By address.
    slabs: BTreeMap<usize, Slab>,
    /// Addresses of those that have a free slot.
    open: BTreeSet<usize>,
    empty: usize,
}

struct Slab {
    memory: ZeroedMemory,
    taken: usize,
}

static POOLS: [Mutex<Pool>; SIZES] = [const { Mutex::new(Pool::new()) }; SIZES];

const fn is_image_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= SMALLEST && bytes <= SMALLEST << (SIZES - 1)
}

/// The place of an image size among all.
pub(super) fn size_index(bytes: usize) -> usize {
    assert!(is_image_size(bytes), "{bytes} bytes are no page");
    (bytes / SMALLEST).trailing_zeros() as usize
}

fn pool_of(bytes: usize) -> &'static Mutex<Pool> {
    &POOLS[size_index(bytes)]
}

/// A slot of `bytes` bytes that nobody else has; what is in it does not matter, but all of it was written. `use_more` gets `more` others.
pub(super) fn take(bytes: usize, more: usize, use_more: impl FnMut(NonNull<u8>)) -> NonNull<u8> {
    let mut pool = pool_of(bytes).lock();
    let slot = pool.take(bytes);
    (0..more).map(|_| pool.take(bytes)).for_each(use_more);
    slot
}

/// Makes slots free.
///
/// # Safety
/// They come from `take(bytes)`, and nobody uses them any more.
pub(super) unsafe fn give_back(slots: impl Iterator<Item = NonNull<u8>>, bytes: usize) {
    let mut pool = pool_of(bytes).lock();
    let unused: Vec<Slab> = slots.filter_map(|slot| pool.give_back(slot, bytes)).collect();
    drop(pool);
    // Back to the kernel outside of the latch.
    drop(unused);
}

/// The reference count of a slot.
///
/// # Safety
/// `start` comes from `take(bytes)` and was not given back.
pub(super) unsafe fn count_of(start: NonNull<u8>, bytes: usize) -> NonNull<AtomicU32> {
    let index = start.addr().get() % SLAB_BYTES / bytes;
    // SAFETY: the pointer was made from one to the whole slab, whose head lies at its start.
    unsafe { head_of(start).byte_add(offset_of!(Head, counts) + index * size_of::<AtomicU32>()).cast() }
}

/// # Safety
/// `slot` lies in a slab that is alive.
unsafe fn head_of(slot: NonNull<u8>) -> NonNull<Head> {
    // SAFETY: as the caller says; the offset leads back to the start of the slab.
    unsafe { slot.byte_sub(slot.addr().get() % SLAB_BYTES).cast() }
}

impl Pool {
    const fn new() -> Pool {
        Pool { slabs: BTreeMap::new(), open: BTreeSet::new(), empty: 0 }
    }

    fn take(&mut self, bytes: usize) -> NonNull<u8> {
        let address = match self.open.first() {
            Some(address) => *address,
            None => self.add_slab(),
        };
        let slab = self.slabs.get_mut(&address).expect("an open slab is one of the pool's");
        self.empty -= usize::from(slab.taken == 0);
        slab.taken += 1;
        let slots = SLAB_BYTES / bytes;
        // The head takes slot 0.
        if slab.taken == slots - 1 {
            self.open.remove(&address);
        }
        let start = slab.memory.start();
        // SAFETY: the slab is alive, and the bitmap is guarded by the latch that the caller holds.
        let taken = unsafe { &mut *head_of(start).as_ref().taken.get() };
        let word = taken.iter().position(|word| *word != u64::MAX).expect("an open slab has a free slot");
        let mut index = word * 64 + taken[word].trailing_ones() as usize;
        if index == 0 {
            // First use of the slab: slot 0 is the head's for ever.
            taken[0] |= 1;
            index = 1;
        }
        assert!(index < slots, "an open slab has a free slot");
        taken[index / 64] |= 1 << (index % 64);
        // SAFETY: `index < slots`, so the slot lies in the slab.
        unsafe { start.byte_add(index * bytes) }
    }

    fn add_slab(&mut self) -> usize {
        let memory = ZeroedMemory::new(SLAB_BYTES);
        let address = memory.start().addr().get();
        assert!(address.is_multiple_of(SLAB_BYTES), "memory of a slab's size is aligned to it");
        self.slabs.insert(address, Slab { memory, taken: 0 });
        self.open.insert(address);
        self.empty += 1;
        address
    }

    /// Returns a slab that is not needed any more, if there is one now.
    fn give_back(&mut self, slot: NonNull<u8>, bytes: usize) -> Option<Slab> {
        let offset = slot.addr().get() % SLAB_BYTES;
        let address = slot.addr().get() - offset;
        let index = offset / bytes;
        // SAFETY: the slab is alive while one of its slots is taken; the latch is held.
        let taken = unsafe { &mut *head_of(slot).as_ref().taken.get() };
        assert!(taken[index / 64] >> (index % 64) & 1 == 1, "a page image is given back twice");
        taken[index / 64] &= !(1 << (index % 64));
        let slab = self.slabs.get_mut(&address).expect("a slot lies in a slab of its pool");
        slab.taken -= 1;
        self.open.insert(address);
        if slab.taken > 0 {
            return None;
        }
        self.empty += 1;
        if self.empty == 1 {
            // One is kept, lest a pool at its border asks the kernel again and again.
            return None;
        }
        self.empty -= 1;
        self.open.remove(&address);
        self.slabs.remove(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_empty_slabs_go() {
        // A pool of its own: those of the process serve other tests.
        let mut pool = Pool::new();
        let bytes = 16384;
        let per_slab = SLAB_BYTES / bytes - 1;
        let mut slots: Vec<_> = (0..per_slab * 3 + 1).map(|_| pool.take(bytes)).collect();
        assert_eq!(pool.slabs.len(), 4);
        let mut addresses: Vec<_> = slots.iter().map(|slot| slot.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[0] + bytes <= pair[1]));
        assert!(addresses.iter().all(|address| !address.is_multiple_of(SLAB_BYTES)));
        // Half of each goes; the next ones come from the lowest addresses.
        let kept: Vec<_> = slots
            .drain(..)
            .enumerate()
            .filter_map(|(index, slot)| {
                if index % 2 == 0 {
                    Some(slot)
                } else {
                    drop(pool.give_back(slot, bytes));
                    None
                }
            })
            .collect();
        let lowest = *pool.slabs.keys().next().unwrap();
        let next = pool.take(bytes);
        assert_eq!(next.addr().get() / SLAB_BYTES * SLAB_BYTES, lowest);
        for slot in kept.into_iter().chain([next]) {
            drop(pool.give_back(slot, bytes));
        }
        assert_eq!((pool.slabs.len(), pool.empty), (1, 1));
    }
}
