//! Page images in memory: shared, immutable, all from one pool.
//!
//! A cache that is full frees and takes images all the time, in all threads. An allocator keeps what is freed for the
//! thread it came from, between pieces still in use, so the process would grow far beyond the cache. Images come from
//! slabs of their own instead (`slab`), which any thread takes from and gives back to.

#![expect(
    unsafe_code,
    reason = "counted references to memory of a pool; `Arc` cannot be told where to allocate"
)]

mod magazine;
mod slab;

pub(crate) use magazine::empty as empty_magazines;

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// More references than this are a leak on their way to an overflow.
const REFERENCES_MAX: u32 = 1 << 31;

/// A page image that threads share: as `Arc<[u8]>`, from the pool. Starts at an address that is a multiple of its size.
pub(crate) struct SharedImage {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the bytes change only through `get_mut`, which needs the only reference; the count is atomic.
unsafe impl Send for SharedImage {}
// SAFETY: as above.
unsafe impl Sync for SharedImage {}

impl SharedImage {
    /// An image of zeros that nobody shares yet.
    ///
    /// # Panics
    /// If `bytes` is no page size.
    pub(crate) fn zeroed(bytes: usize) -> SharedImage {
        let mut image = SharedImage::taken(bytes);
        image.unshared_mut().fill(0);
        image
    }

    /// A copy that nobody shares yet.
    ///
    /// # Panics
    /// If `bytes` are not as many as a page size.
    pub(crate) fn copy_of(bytes: &[u8]) -> SharedImage {
        let mut image = SharedImage::taken(bytes.len());
        image.unshared_mut().copy_from_slice(bytes);
        image
    }

    fn taken(bytes: usize) -> SharedImage {
        let start = magazine::take(bytes);
        // SAFETY: a slot of the pool, which nobody else knows.
        let count = unsafe { slab::count_of(start, bytes).as_ref() };
        // Relaxed: whoever gets a reference gets it through something that orders this before.
        count.store(1, Ordering::Relaxed);
        SharedImage { start, bytes }
    }

    /// The bytes, for the only reference.
    ///
    /// # Panics
    /// If there are others.
    pub(crate) fn unshared_mut(&mut self) -> &mut [u8] {
        // Acquire pairs with the release in `drop`: what other references did happened before.
        assert_eq!(self.count().load(Ordering::Acquire), 1, "an image that is shared never changes");
        // SAFETY: the only reference, borrowed mutably. The slot has so many bytes, all of which were written: a slab
        // starts as zeros.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    fn count(&self) -> &AtomicU32 {
        // SAFETY: the slab is alive as long as the slot is taken, and it is while there is a reference.
        unsafe { slab::count_of(self.start, self.bytes).as_ref() }
    }

    /// The reference as a pointer; it is given up only by `from_raw`.
    pub(crate) fn into_raw(self) -> *mut u8 {
        let start = self.start.as_ptr();
        std::mem::forget(self);
        start
    }

    /// The reference that `into_raw` made a pointer of.
    ///
    /// # Safety
    /// `start` comes from `into_raw` of an image of `bytes` bytes, and each such pointer is turned back at most once.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>, bytes: usize) -> SharedImage {
        SharedImage { start, bytes }
    }

    /// One more reference to the image behind a pointer, which stays as it is.
    ///
    /// # Safety
    /// As `from_raw`, and the reference behind the pointer is alive during the call.
    pub(crate) unsafe fn clone_raw(start: NonNull<u8>, bytes: usize) -> SharedImage {
        let image = std::mem::ManuallyDrop::new(SharedImage { start, bytes });
        SharedImage::clone(&image)
    }
}

impl Deref for SharedImage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot has so many bytes, and nobody changes them while there is a shared reference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Clone for SharedImage {
    fn clone(&self) -> SharedImage {
        // Relaxed: a reference comes from one that is there already.
        let before = self.count().fetch_add(1, Ordering::Relaxed);
        assert!(before < REFERENCES_MAX, "references to a page image leak");
        SharedImage { start: self.start, bytes: self.bytes }
    }
}

impl Drop for SharedImage {
    fn drop(&mut self) {
        // Release: what was done through this reference happens before the slot is used again.
        if self.count().fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: `take` gave it out, and this was the last reference.
            unsafe { magazine::give_back(self.start, self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_zeroed_aligned_and_shared() {
        for bytes in [4096, 8192, 16384, 32768, 65536] {
            let mut image = SharedImage::zeroed(bytes);
            assert_eq!(image.len(), bytes);
            assert!(image.as_ptr().addr().is_multiple_of(bytes));
            assert!(image.iter().all(|byte| *byte == 0));
            image.unshared_mut().fill(7);
            let other = image.clone();
            drop(image);
            assert!(other.iter().all(|byte| *byte == 7));
            let again = SharedImage::zeroed(bytes);
            assert!(again.iter().all(|byte| *byte == 0));
            assert_ne!(again.as_ptr(), other.as_ptr());
        }
    }

    #[test]
    #[should_panic(expected = "an image that is shared never changes")]
    fn a_shared_image_cannot_be_changed() {
        let mut image = SharedImage::zeroed(4096);
        let _other = image.clone();
        image.unshared_mut();
    }

    #[test]
    fn threads_take_and_give_back_each_others_images() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let (sender, receiver) = std::sync::mpsc::channel::<SharedImage>();
        std::thread::scope(|scope| {
            for thread in 0..3_u8 {
                let sender = sender.clone();
                scope.spawn(move || {
                    for round in 0..rounds {
                        let mut image = SharedImage::zeroed(if round % 2 == 0 { 4096 } else { 8192 });
                        image.unshared_mut().fill(thread + 1);
                        sender.send(image.clone()).unwrap();
                        assert!(image.iter().all(|byte| *byte == thread + 1));
                    }
                });
            }
            drop(sender);
            let mut kept = Vec::new();
            for (index, image) in receiver.iter().enumerate() {
                assert!(image.iter().all(|byte| *byte == image[0]));
                if index % 3 == 0 {
                    kept.push(image);
                }
                if kept.len() > 700 {
                    kept.drain(..350);
                }
            }
            assert!(kept.iter().all(|image| image.iter().all(|byte| *byte == image[0])));
        });
    }
}
