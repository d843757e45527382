//! Magazines: a few free slots beside the pool of their size, so that threads rarely meet at its latch.
//!
//! ```text
//!   thread --takes------> its magazine --when it is empty, some at a time--------------------------> pool
//!   thread --gives back-> its magazine --when it is full, the half with the highest addresses------> pool
//! ```
//! Each cache miss takes a slot, and each eviction gives one back, so the pool's latch would be the one line that all processors want.
//! Magazines keep the slots with the lowest addresses, as the pool gives those out first: slabs with higher ones run empty. Where many
//! images go at a time, magazines are emptied after it.
//!
//! Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), without its depot: the pool is fast enough for one call in eight.
#![expect(unsafe_code, reason = "memory shared out by address")]

use std::ptr::NonNull;

use parking_lot::Mutex;
use seawall_sync::thread_number;

use super::slab;

/// Threads share so many magazines of each size.
const MAGAZINES: usize = 16;
/// A magazine holds slots of so many bytes at most.
const MAGAZINE_BYTES: usize = 128 << 10;

/// A slot that nobody uses.
struct FreeSlot(NonNull<u8>);

// SAFETY: whoever has it is the only one who knows the slot, and it is memory of the whole process.
unsafe impl Send for FreeSlot {}

/// Aligned, so that two of them do not share a cache line.
#[repr(align(128))]
struct Magazine(Mutex<Vec<FreeSlot>>);

static MAGAZINES_OF_SIZES: [[Magazine; MAGAZINES]; slab::SIZES] =
    [const { [const { Magazine(Mutex::new(Vec::new())) }; MAGAZINES] }; slab::SIZES];

fn own(bytes: usize) -> &'static Mutex<Vec<FreeSlot>> {
    &MAGAZINES_OF_SIZES[slab::size_index(bytes)][thread_number() % MAGAZINES].0
}

/// As `slab::take`.
pub(super) fn take(bytes: usize) -> NonNull<u8> {
    let mut free = own(bytes).lock();
    match free.pop() {
        Some(slot) => slot.0,
        None => {
            let slot = slab::take(bytes, MAGAZINE_BYTES / bytes / 2, |slot| free.push(FreeSlot(slot)));
            // The one with the lowest address was pushed first, and the last one is taken first.
            free.reverse();
            slot
        }
    }
}

/// As `slab::give_back`.
///
/// # Safety
/// As there.
pub(super) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    let mut free = own(bytes).lock();
    free.push(FreeSlot(start));
    if free.len() <= MAGAZINE_BYTES / bytes {
        return;
    }
    // The last one is taken first: from the lowest address on.
    free.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.0));
    let rest = free.len() / 2;
    let highest: Vec<FreeSlot> = free.drain(..rest).collect();
    drop(free);
    // SAFETY: these were given back by callers of this function, and nobody uses them.
    unsafe { slab::give_back(highest.into_iter().map(|slot| slot.0), bytes) };
}

/// Gives all free slots of this size back to the pool: a slab of which a magazine has a slot stays.
pub(crate) fn empty(bytes: usize) {
    for magazine in &MAGAZINES_OF_SIZES[slab::size_index(bytes)] {
        let free = std::mem::take(&mut *magazine.0.lock());
        // SAFETY: as in `give_back`.
        unsafe { slab::give_back(free.into_iter().map(|slot| slot.0), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_once_and_few_are_kept() {
        // A size that no other test of this process uses much.
        let bytes = 32 << 10;
        let kept = || own(bytes).lock().len();
        let mut slots: Vec<NonNull<u8>> = (0..500).map(|_| take(bytes)).collect();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0].addr().get() + bytes <= pair[1].addr().get()));
        let mut trimmed = 0;
        for slot in slots.drain(..) {
            let before = kept();
            // SAFETY: it was taken above, and is not used any more.
            unsafe { give_back(slot, bytes) };
            assert!(kept() <= MAGAZINE_BYTES / bytes);
            if kept() <= before {
                // More than fits: the one with the highest address is not kept.
                trimmed += 1;
                assert!(own(bytes).lock().iter().all(|kept| kept.0 < slot));
            }
        }
        assert!(trimmed > 100, "{trimmed}");
    }
}
