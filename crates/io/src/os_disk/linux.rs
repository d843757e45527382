//! The calls that Linux does better than POSIX asks for: direct I/O, write and sync in one, preallocation, holes.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, FallocateFlags, OFlags, RenameFlags, fallocate, fcntl_getfl, fcntl_setfl, linkat, renameat_with,
    unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, pwritev, pwritev2};

use super::open_with;
use super::place::Place;

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

/// How durable writes of one file are done: by `RWF_DSYNC` until the kernel refuses it.
#[derive(Debug, Default)]
pub(super) struct DurableWrites {
    /// Only saves asking again: a thread that misses the change finds out for itself.
    flag_refused: AtomicBool,
}

impl DurableWrites {
    /// Each part that the kernel takes is durable when its call returns, so short writes just go on.
    pub(super) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_by(file, bytes, offset, |bytes, offset| {
            pwritev2(file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC)
        })
    }

    fn write_by(
        &self,
        file: &File,
        mut bytes: &[u8],
        mut offset: u64,
        mut call: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.flag_refused.load(Ordering::SeqCst) {
                file.write_all_at(bytes, offset)?;
                return file.sync_data();
            }
            match call(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if leave_direct(file)? => {}
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

pub(super) fn preallocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    match allocate(file, FallocateFlags::empty(), offset, bytes) {
        Err(error) if is_unsupported(&error) => Ok(()),
        result => result,
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
    use super::*;
    use crate::aligned::{AlignedBuffer, BLOCK_BYTES};

    /// A file that is open for direct I/O, and its path.
    fn direct_file(directory: &tempfile::TempDir) -> (File, std::path::PathBuf) {
        let full = directory.path().join("segment");
        (open_direct(&Place::by_path(full.clone()), OFlags::RDWR | OFlags::CREATE).unwrap(), full)
    }

    #[test]
    fn without_the_flag_a_write_is_followed_by_a_sync() {
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
    fn short_durable_writes_go_on_where_they_ended_and_tell_of_the_error_behind_them() {
        let directory = tempfile::tempdir().unwrap();
        let (file, _) = direct_file(&directory);
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let write = |taken: &mut Vec<u8>, end, limit| {
            DurableWrites::default().write_by(&file, &bytes, 100, short(taken, end, limit))
        };
        let mut taken = Vec::new();
        write(&mut taken, Ok(0), usize::MAX).unwrap();
        assert!(taken == bytes);
        for (end, kind) in [
            (Ok(0), io::ErrorKind::WriteZero),
            (Err(Errno::NOSPC), io::ErrorKind::StorageFull),
            (Err(Errno::IO), io::Error::from_raw_os_error(5).kind()),
        ] {
            let mut taken = Vec::new();
            assert_eq!(write(&mut taken, end, 2000).unwrap_err().kind(), kind);
            assert!(taken.len() >= 2000 && bytes.starts_with(&taken));
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
