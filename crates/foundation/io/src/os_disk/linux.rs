//! The calls that Linux does better than POSIX asks for: direct I/O, write and sync in one, reading ahead, preallocation,
//! holes.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    Advice, AtFlags, FallocateFlags, OFlags, RenameFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl,
    linkat, renameat_with, unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev, pwritev2};

use super::open_with;
use super::place::Place;
use crate::sabotage::{Defect, sabotaged};

/// How many of many ranges are looked at before they are asked for.
const SAMPLED_RANGES: usize = 4;

/// The kernel takes no more slices in one call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// Opens past the page cache; through it where the file system has no direct I/O.
pub(super) fn open_direct(place: &Place, flags: OFlags) -> io::Result<File> {
    match open_with(place, flags | OFlags::DIRECT) {
        Err(error) if is_unsupported(&error) => open_with(place, flags),
        result => result,
    }
}

/// One call where the file system has it; else, as on some network file systems, a second name and then without the first,
/// which a crash in between leaves with both.
pub(super) fn rename_new(old: &Place, new: &Place) -> io::Result<()> {
    let (from, to) = (old.directory(), new.directory());
    match renameat_with(from, &old.name, to, &new.name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
            linkat(from, &old.name, to, &new.name, AtFlags::empty())?;
            Ok(unlinkat(from, &old.name, AtFlags::empty())?)
        }
        result => Ok(result?),
    }
}

/// The full name of an open directory, where it is now.
pub(super) fn name_of(directory: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()
}

fn is_unsupported(error: &io::Error) -> bool {
    Errno::from_io_error(error)
        .is_some_and(|errno| matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// What a durable write asks of the kernel.
pub(super) trait DurableCalls {
    /// Writes some of the bytes and makes them durable, in one call.
    fn write_and_sync(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
    /// Writes all of the bytes, durable after the next `sync`.
    fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
    /// Leaves direct mode. Returns whether the file was in it.
    fn leave_direct(&self) -> io::Result<bool>;
}

impl DurableCalls for File {
    fn write_and_sync(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        pwritev2(self, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC)
    }

    fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn leave_direct(&self) -> io::Result<bool> {
        leave_direct(self)
    }
}

/// How durable writes of one file are done: by `RWF_DSYNC` until the kernel refuses it.
#[derive(Debug, Default)]
pub(super) struct DurableWrites {
    /// Only saves asking again: a thread that misses the change finds out for itself.
    flag_refused: AtomicBool,
}

impl DurableWrites {
    /// Each part that the kernel takes is durable when its call returns, so short writes just go on.
    pub(super) fn write(
        &self,
        file: &impl DurableCalls,
        mut bytes: &[u8],
        mut offset: u64,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.flag_refused.load(Ordering::SeqCst) {
                file.write_all(bytes, offset)?;
                return if sabotaged(Defect::OsFallbackNotSynced) { Ok(()) } else { file.sync() };
            }
            match file.write_and_sync(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if file.leave_direct()? => {}
                Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.flag_refused.store(true, Ordering::SeqCst)
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Some file systems take `O_DIRECT` on open and refuse the write. Returns whether the file was in direct mode.
fn leave_direct(file: &File) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    let was_direct = flags.contains(OFlags::DIRECT);
    if was_direct {
        fcntl_setfl(file, flags.difference(OFlags::DIRECT))?;
    }
    Ok(was_direct)
}

pub(super) fn write_vectored(file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
    write_vectored_by(slices, offset, |slices, offset| pwritev(file, slices, offset))
}

fn write_vectored_by(
    slices: &[IoSlice<'_>],
    mut offset: u64,
    mut call: impl FnMut(&[IoSlice<'_>], u64) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut slices = slices.to_vec();
    let mut rest = &mut slices[..];
    // Drops empty slices at the front: a call with nothing to write would look like a write that makes no progress.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match call(&rest[..rest.len().min(SLICES_MAX)], offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns whether the file system can.
pub(super) fn preallocate(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
    match allocate(file, FallocateFlags::empty(), offset, bytes) {
        Ok(()) => Ok(true),
        Err(error) if is_unsupported(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// `sync_file_range` without its waiting parts: it queues dirty pages. Its errors say nothing that the next `fdatasync` does
/// not say as well, which reports each failed write once for each open file; a signal leaves the rest to it, too.
#[expect(unsafe_code, reason = "a system call that no safe crate wraps; it takes a descriptor and numbers")]
pub(super) fn start_writing(file: &File, offset: u64, bytes: u64) {
    if let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

/// `posix_fadvise`. Its errors say nothing that the read does not say as well. Asked for what is cached, it costs a good part of
/// what reading it does: so of many ranges a few are looked at first.
pub(super) fn will_need(file: &File, ranges: &[Range<u64>]) {
    let step = ranges.len().div_ceil(SAMPLED_RANGES).max(1);
    let are_many = ranges.len() > 2 * SAMPLED_RANGES;
    if are_many && ranges.iter().step_by(step).all(|range| is_cached(file, range.start)) {
        return;
    }
    for range in ranges {
        // None would mean everything up to the end of the file.
        if let Some(bytes) = NonZeroU64::new(range.end.saturating_sub(range.start)) {
            fadvise(file, range.start, Some(bytes), Advice::WillNeed).unwrap_or(());
        }
    }
}

/// Whether a byte can be read without waiting. No, if the file system cannot tell.
fn is_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT)
        .is_ok_and(|bytes| bytes == 1)
}

pub(super) fn punch_hole(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
    match allocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
        Ok(()) => Ok(true),
        Err(error) if is_unsupported(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// `fallocate` that goes on after a signal and takes an empty range for what it is.
fn allocate(file: &File, flags: FallocateFlags, offset: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, flags, offset, bytes) {
            Err(Errno::INTR) => {}
            result => return result.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::aligned::{AlignedBuffer, BLOCK_BYTES};

    /// A file that is open for direct I/O, and its path.
    fn direct_file(directory: &tempfile::TempDir) -> (File, std::path::PathBuf) {
        let full = directory.path().join("segment");
        (open_direct(&Place::by_path(full.clone()), OFlags::RDWR | OFlags::CREATE).unwrap(), full)
    }

    /// A file of a kernel that takes a few bytes at a time, and knows what is durable.
    struct FakeFile {
        /// What a call with `RWF_DSYNC` ends with once so many bytes were taken; none: it takes all.
        refusal: Option<(usize, Errno)>,
        sync_fails: bool,
        is_direct: Cell<bool>,
        calls: Cell<usize>,
        written: RefCell<Vec<u8>>,
        durable: RefCell<Vec<u8>>,
    }

    /// Where the bytes of a fake file begin.
    const BEGIN: u64 = 100;

    impl FakeFile {
        fn new(refusal: Option<(usize, Errno)>) -> FakeFile {
            let (is_direct, calls) = (Cell::new(true), Cell::new(0));
            let (written, durable) = (RefCell::default(), RefCell::default());
            FakeFile { refusal, sync_fails: false, is_direct, calls, written, durable }
        }

        fn take(&self, bytes: &[u8], offset: u64) {
            let mut written = self.written.borrow_mut();
            assert_eq!(offset, BEGIN + written.len() as u64, "each call goes on where the last one ended");
            written.extend_from_slice(bytes);
        }
    }

    impl DurableCalls for FakeFile {
        fn write_and_sync(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            self.calls.set(self.calls.get() + 1);
            if self.calls.get().is_multiple_of(3) {
                return Err(Errno::INTR);
            }
            let taken = self.written.borrow().len();
            if let Some((limit, error)) = self.refusal
                && taken >= limit
            {
                return Err(error);
            }
            let count = bytes.len().min(self.calls.get() * 7);
            self.take(&bytes[..count], offset);
            self.durable.borrow_mut().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.take(bytes, offset);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            if self.sync_fails {
                return Err(Errno::IO.into());
            }
            self.durable.replace(self.written.borrow().clone());
            Ok(())
        }

        fn leave_direct(&self) -> io::Result<bool> {
            Ok(self.is_direct.replace(false))
        }
    }

    fn some_bytes() -> Vec<u8> {
        (0..=255).cycle().take(5000).collect()
    }

    #[test]
    fn a_durable_write_is_durable_whatever_of_it_the_kernel_refuses() {
        let bytes = some_bytes();
        let refusals = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS]
            .into_iter()
            .flat_map(|error| [0, 1000, 4999].map(|limit| Some((limit, error))));
        for refusal in refusals.chain([None]) {
            let writes = DurableWrites::default();
            // The second write knows already that the flag is refused.
            for number in 1..3 {
                let file = FakeFile::new(refusal);
                writes.write(&file, &bytes, BEGIN).unwrap();
                assert!(*file.durable.borrow() == bytes, "write {number}, refused: {refusal:?}");
            }
        }
    }

    #[test]
    fn a_sync_that_fails_without_the_flag_fails_the_write() {
        let file = FakeFile { sync_fails: true, ..FakeFile::new(Some((1000, Errno::OPNOTSUPP))) };
        let error = DurableWrites::default().write(&file, &some_bytes(), BEGIN).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }

    #[test]
    fn a_durable_write_stops_at_an_error_and_keeps_what_came_before() {
        let bytes = some_bytes();
        for (error, kind) in
            [(Errno::NOSPC, io::ErrorKind::StorageFull), (Errno::IO, io::Error::from_raw_os_error(5).kind())]
        {
            let file = FakeFile::new(Some((2000, error)));
            let failed = DurableWrites::default().write(&file, &bytes, BEGIN).unwrap_err();
            assert_eq!(failed.kind(), kind);
            let durable = file.durable.borrow();
            assert!(durable.len() >= 2000 && bytes.starts_with(&durable));
        }
    }

    #[test]
    fn without_the_flag_a_real_file_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let (file, full) = direct_file(&directory);
        let mut buffer = AlignedBuffer::zeroed(2 * BLOCK_BYTES);
        buffer.fill(7);
        let writes = DurableWrites { flag_refused: AtomicBool::new(true) };
        writes.write(&file, &buffer, BLOCK_BYTES as u64).unwrap();
        let expected = [vec![0; BLOCK_BYTES], vec![7; 2 * BLOCK_BYTES]].concat();
        assert!(std::fs::read(full).unwrap() == expected);
    }

    #[test]
    fn a_refused_direct_write_goes_through_the_cache() {
        let directory = tempfile::tempdir().unwrap();
        let (file, full) = direct_file(&directory);
        // Unaligned memory and length: direct I/O cannot take them, wherever it works at all.
        DurableWrites::default().write(&file, &[7; 1001][1..], 0).unwrap();
        assert!(!leave_direct(&file).unwrap());
        assert!(std::fs::read(full).unwrap() == [7; 1000]);
    }

    /// A kernel that takes a few bytes at a time, is interrupted in between, and in the end answers `end`.
    fn short(
        taken: &mut Vec<u8>,
        end: Result<usize, Errno>,
        limit: usize,
    ) -> impl FnMut(&[u8], u64) -> Result<usize, Errno> {
        let mut calls = 0_usize;
        move |bytes, offset| {
            assert_eq!(offset, 100 + taken.len() as u64, "each call goes on where the last one ended");
            calls += 1;
            if calls.is_multiple_of(3) {
                return Err(Errno::INTR);
            }
            if taken.len() >= limit {
                return end;
            }
            let count = bytes.len().min(calls * 7);
            taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
    }

    #[test]
    fn short_writes_of_many_slices_go_on_in_the_middle_of_one() {
        let parts: Vec<Vec<u8>> = (0..100).map(|number| vec![number; usize::from(number) % 9]).collect();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let write = |taken: &mut Vec<u8>, end, limit| {
            let mut one = short(taken, end, limit);
            write_vectored_by(&slices, 100, |slices, offset| {
                one(&slices.iter().map(|slice| &**slice).collect::<Vec<_>>().concat(), offset)
            })
        };
        let mut taken = Vec::new();
        write(&mut taken, Ok(0), usize::MAX).unwrap();
        assert!(taken == parts.concat());
        let mut taken = Vec::new();
        assert_eq!(write(&mut taken, Err(Errno::NOSPC), 50).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(parts.concat().starts_with(&taken));
    }
}
