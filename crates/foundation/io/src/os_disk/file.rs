//! An open file of the operating system.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use super::system;
use crate::aligned::{AlignedBuffer, BLOCK_BYTES};
use crate::disk::{DiskFile, OpenMode};
use crate::error::DiskError;
use crate::sabotage::{Defect, sabotaged};

/// Zeros are written in pieces of this size; aligned, so that a file open for direct I/O takes them too.
const ZEROS_BYTES: usize = 1 << 20;
static ZEROS: LazyLock<AlignedBuffer> = LazyLock::new(|| AlignedBuffer::zeroed(ZEROS_BYTES));

#[derive(Debug)]
pub(super) struct OsFile {
    file: File,
    /// Full path, for messages.
    path: String,
    mode: OpenMode,
    durable_writes: system::DurableWrites,
}

impl OsFile {
    pub(super) fn new(file: File, path: String, mode: OpenMode) -> OsFile {
        OsFile { file, path, mode, durable_writes: system::DurableWrites::default() }
    }

    fn named<T>(&self, operation: &'static str, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| DiskError::wrap(operation, self.path.clone(), error))
    }

    /// Whether a log file takes buffered calls depends on the file system: refused on all, so that no test misses it.
    fn refuse_log(&self) -> io::Result<()> {
        if self.mode == OpenMode::Log {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file is open for durable writes only",
            ));
        }
        Ok(())
    }
}

impl DiskFile for OsFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.named("read", self.refuse_log().and_then(|()| self.file.read_exact_at(buffer, offset)))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.named("write", self.refuse_log().and_then(|()| self.file.write_all_at(bytes, offset)))
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.named(
            "write",
            self.refuse_log().and_then(|()| system::write_vectored(&self.file, slices, offset)),
        )
    }

    fn write_durable_at(&self, buffer: &AlignedBuffer, range: Range<usize>, offset: u64) -> io::Result<()> {
        let block_bytes = BLOCK_BYTES as u64;
        assert!(range.start.is_multiple_of(BLOCK_BYTES), "durable write from unaligned {range:?}");
        assert!(range.end.is_multiple_of(BLOCK_BYTES), "durable write from unaligned {range:?}");
        assert!(offset.is_multiple_of(block_bytes), "durable write at unaligned offset {offset}");
        let bytes = &buffer[range];
        if sabotaged(Defect::OsDurableWriteBuffered) {
            return self.file.write_all_at(bytes, offset);
        }
        self.named("write and sync", self.durable_writes.write(&self.file, bytes, offset))
    }

    fn start_writing(&self, offset: u64, bytes: u64) {
        system::start_writing(&self.file, offset, bytes);
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        system::will_need(&self.file, ranges);
    }

    fn sync_data(&self) -> io::Result<()> {
        if sabotaged(Defect::OsFileSyncSkipped) {
            return Ok(());
        }
        self.named("sync", self.file.sync_data())
    }

    fn length(&self) -> io::Result<u64> {
        self.named("stat", self.file.metadata().map(|metadata| metadata.len()))
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.named("set the length of", self.file.set_len(bytes))
    }

    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        // A full disk is noticed before the first write, while the file is as it was.
        let filled = system::preallocate(&self.file, offset, bytes)
            .and_then(|_| write_zeros(&self.file, offset, bytes));
        self.named("fill", filled)
    }

    fn extend(&self, bytes: u64) -> io::Result<()> {
        let length = self.length()?;
        let missing = bytes.saturating_sub(length);
        let extended = system::preallocate(&self.file, length, missing).and_then(|is_allocated| {
            if is_allocated { Ok(()) } else { write_zeros(&self.file, length, missing) }
        });
        self.named("extend", extended)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        self.named("punch a hole into", system::punch_hole(&self.file, offset, bytes))
    }
}

fn write_zeros(file: &File, mut offset: u64, mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let piece = usize::try_from(bytes).map_or(ZEROS_BYTES, |bytes| bytes.min(ZEROS_BYTES));
        file.write_all_at(&ZEROS[..piece], offset)?;
        offset += piece as u64;
        bytes -= piece as u64;
    }
    Ok(())
}
