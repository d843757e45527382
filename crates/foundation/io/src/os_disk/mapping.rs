//! A file mapped into memory, shared with the operating system.
#![expect(unsafe_code, reason = "memory that a system call hands out has no safe face")]

use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::disk::SharedMapping;

pub(super) struct OsMapping {
    start: NonNull<u8>,
    length: usize,
}

impl OsMapping {
    /// Maps all of `file`, which may be closed afterwards.
    pub(super) fn new(file: &File) -> io::Result<OsMapping> {
        let refused = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
        let length = usize::try_from(file.metadata()?.len())
            .map_err(|_| refused("the file is larger than the address space"))?;
        if length == 0 {
            return Err(refused("an empty file cannot be mapped"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an address where nothing is mapped yet.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        let start =
            NonNull::new(start.cast()).ok_or_else(|| refused("the file was mapped at address zero"))?;
        Ok(OsMapping { start, length })
    }
}

impl SharedMapping for OsMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let is_inside = offset <= self.length && bytes.len() <= self.length - offset;
        assert!(is_inside, "{} bytes at {offset} of a mapping of {} bytes", bytes.len(), self.length);
        // SAFETY: both ranges are valid, as was just checked; they do not overlap, since `&mut self` rules out that
        // `bytes` is borrowed from this mapping. The contract of `Disk::map_shared` rules out other writers of the file.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
        }
        // The process may be killed at any instruction, and the kernel keeps what was stored until then: the compiler
        // must not move later stores before these. A processor lets nobody see the stores of one thread that has stopped
        // in part.
        compiler_fence(Ordering::SeqCst);
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `length` bytes from `start` on are mapped until `drop`, and were written before, as the contract of
        // `Disk::map_shared` asks, which rules out other writers, too; `&self` rules out `write`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for OsMapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no reference to it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped: {unmapped:?}");
    }
}

impl fmt::Debug for OsMapping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OsMapping").field("bytes", &self.length).finish()
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and `self` owns it.
unsafe impl Send for OsMapping {}
// SAFETY: `&OsMapping` only reads.
unsafe impl Sync for OsMapping {}
