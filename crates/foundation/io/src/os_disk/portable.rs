//! The calls of `linux.rs` with what every Unix has.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, OFlags, linkat, unlinkat};

use super::open_with;
use super::place::Place;

pub(super) fn open_direct(place: &Place, flags: OFlags) -> io::Result<File> {
    open_with(place, flags)
}

/// A second name, then without the first: a crash in between leaves both.
pub(super) fn rename_new(old: &Place, new: &Place) -> io::Result<()> {
    linkat(old.directory(), &old.name, new.directory(), &new.name, AtFlags::empty())?;
    Ok(unlinkat(old.directory(), &old.name, AtFlags::empty())?)
}

/// POSIX has no call that tells.
pub(super) fn name_of(_directory: &OwnedFd) -> Option<PathBuf> {
    None
}

#[derive(Debug, Default)]
pub(super) struct DurableWrites;

impl DurableWrites {
    pub(super) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)?;
        file.sync_data()
    }
}

pub(super) fn write_vectored(file: &File, slices: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    for slice in slices {
        file.write_all_at(slice, offset)?;
        offset += slice.len() as u64;
    }
    Ok(())
}

pub(super) fn preallocate(_file: &File, _offset: u64, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}

pub(super) fn start_writing(_file: &File, _offset: u64, _bytes: u64) {}

pub(super) fn will_need(_file: &File, _ranges: &[Range<u64>]) {}

pub(super) fn punch_hole(_file: &File, _offset: u64, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}
