//! Pointers to shared images that readers follow without a lock, with a safe face.
#![expect(unsafe_code, reason = "readers borrow images under an epoch guard, without counting references")]

use std::ptr::NonNull;

use crossbeam_epoch::Guard;

use seawall_sync::atomic::{AtomicPtr, Ordering};

use crate::page::{SharedImage, empty_magazines};
use crate::prefetch::prefetch_lines;

/// Slots of one set.
pub(super) const WAYS: usize = 8;

/// The pointers of one set, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicPtr<u8>; WAYS]);

/// Cache lines of 64 bytes at the start of an image that a search is likely to touch.
const SEARCHED_LINES: usize = 7;

/// Sets of slots, each empty or owning one reference to an image of `image_bytes` bytes.
#[derive(Debug)]
pub(super) struct ImageSlots {
    lines: Box<[Line]>,
    image_bytes: usize,
}

impl ImageSlots {
    pub(super) fn new(sets: usize, image_bytes: usize) -> ImageSlots {
        let empty = |_| Line([const { AtomicPtr::new(std::ptr::null_mut()) }; WAYS]);
        ImageSlots { lines: (0..sets).map(empty).collect(), image_bytes }
    }

    /// Tells the processor that a slot of the set will be loaded soon.
    #[inline]
    pub(super) fn prefetch(&self, set: usize) {
        prefetch_lines((&raw const self.lines[set]).cast(), 1);
    }

    /// The image in a slot. Starts to fetch what a search in it begins with: header, prefix and heads; without that, a
    /// search in a leaf that is in no processor cache waits for memory line by line. `guard` comes from `crossbeam_epoch::pin`, as all guards in this crate do.
    #[inline]
    pub(super) fn load<'g>(&'g self, set: usize, way: usize, _guard: &'g Guard) -> Option<&'g [u8]> {
        let start = self.lines[set].0[way].load(Ordering::Acquire);
        if start.is_null() {
            return None;
        }
        prefetch_lines(start, SEARCHED_LINES);
        // SAFETY: a slot's pointer comes from `SharedImage::into_raw` of an image of `image_bytes` bytes, which nobody changes.
        // The slot's reference to it is given up only through a deferred function of the same collector, which cannot
        // run while a guard that was pinned before the image left the slot is held; this one was.
        Some(unsafe { std::slice::from_raw_parts(start, self.image_bytes) })
    }

    /// The image in a slot, shared.
    pub(super) fn load_shared(&self, set: usize, way: usize, _guard: &Guard) -> Option<SharedImage> {
        let start = NonNull::new(self.lines[set].0[way].load(Ordering::Acquire))?;
        // SAFETY: as in `load`, the slot's reference is alive until the guard is dropped.
        Some(unsafe { SharedImage::clone_raw(start, self.image_bytes) })
    }

    /// Puts `image` into a slot, or empties it; what was there is freed once its readers are done.
    pub(super) fn swap(&self, set: usize, way: usize, image: Option<SharedImage>, guard: &Guard) {
        let start = match image {
            Some(image) => {
                assert_eq!(image.len(), self.image_bytes, "images of one cache are of one size");
                image.into_raw()
            }
            None => std::ptr::null_mut(),
        };
        let old = self.lines[set].0[way].swap(start, Ordering::AcqRel);
        if let Some(old) = self.take_back(old) {
            guard.defer(move || drop(old));
        }
    }

    /// Many images were dropped: what is free of their memory is not kept for threads.
    pub(super) fn give_back_free(&self) {
        empty_magazines(self.image_bytes);
    }

    /// The reference that a slot owned through `start`, which no slot holds any more.
    fn take_back(&self, start: *mut u8) -> Option<SharedImage> {
        let start = NonNull::new(start)?;
        // SAFETY: the pointer comes from `into_raw` in `swap`, of an image of this length, and it was taken out of its
        // slot by an atomic swap or under `&mut self`: its one reference passes to the image made here.
        Some(unsafe { SharedImage::from_raw(start, self.image_bytes) })
    }
}

impl Drop for ImageSlots {
    fn drop(&mut self) {
        for set in 0..self.lines.len() {
            for way in 0..WAYS {
                let start = std::mem::replace(self.lines[set].0[way].get_mut(), std::ptr::null_mut());
                drop(self.take_back(start));
            }
        }
        self.give_back_free();
    }
}
