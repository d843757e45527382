//! Asking the kernel for huge pages: random reads in a large memtable otherwise pay more for address translation than
//! for the data.
#![expect(unsafe_code, reason = "memory is handed to the kernel by address")]

use std::ptr::NonNull;

/// Memory that is aligned to, and a multiple of, this many bytes can be backed by huge pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Has the kernel back fresh memory with huge pages if it can. A hint: refused, the memory only is slower.
///
/// # Safety
/// `bytes` bytes from `start` on must be allocated.
pub(crate) unsafe fn advise(start: NonNull<u8>, bytes: usize) {
    let is_fitting = start.addr().get().is_multiple_of(HUGE_PAGE_BYTES) && bytes >= HUGE_PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    if is_fitting {
        use rustix::mm::{Advice, madvise};
        let whole_pages = bytes - bytes % HUGE_PAGE_BYTES;
        // SAFETY: the advice changes no content, and the memory is the caller's.
        if unsafe { madvise(start.as_ptr().cast(), whole_pages, Advice::LinuxHugepage) }.is_err() {
            // A kernel without huge pages.
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = is_fitting;
}

/// The alignment that memory of `bytes` bytes should have: a cache line, or a huge page if it fills one.
pub(crate) const fn alignment_for(bytes: usize) -> usize {
    if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { crate::arena::LINE_BYTES }
}
