//! Hints to the processor, so that cache lines which are needed together come from memory together.
#![expect(unsafe_code, reason = "a prefetch is an instruction of its own")]

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Starts to fetch `lines` cache lines from `start` on; only a hint, which no address makes wrong.
#[inline]
pub(crate) fn prefetch_lines(start: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        // SAFETY: a prefetch reads nothing that the program could see and faults on no address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                start.wrapping_add(line * LINE_BYTES).cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _unused = (start, lines);
}
