//! A disk each of whose calls takes a while: before it, other threads may go on.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use crate::world::wait_a_while;
use seawall_io::{
    AlignedBuffer, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping,
};
use seawall_simulation::SimulatedDisk;

/// A call is more than one point: much can happen meanwhile, and schedules that differ there are worth more than others.
fn begin() {
    wait_a_while(4);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PointedDisk(SimulatedDisk);

#[derive(Debug)]
struct PointedFile(Arc<dyn DiskFile>);

#[derive(Debug)]
struct PointedMapping(Box<dyn SharedMapping>);

impl PointedDisk {
    pub(crate) fn over(disk: &SimulatedDisk) -> PointedDisk {
        PointedDisk(disk.clone())
    }
}

impl Disk for PointedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        begin();
        Ok(Arc::new(PointedFile(self.0.open(path, mode)?)))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        begin();
        self.0.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        begin();
        self.0.list(directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        begin();
        self.0.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        begin();
        self.0.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        begin();
        self.0.sync_directory(directory)
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        begin();
        Ok(Box::new(PointedMapping(self.0.map_shared(path)?)))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        begin();
        self.0.lock(path, mode)
    }

    fn location(&self, path: &str) -> String {
        self.0.location(path)
    }
}

impl DiskFile for PointedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        begin();
        self.0.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        begin();
        self.0.write_all_at(bytes, offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        begin();
        self.0.write_vectored_at(slices, offset)
    }

    fn write_durable_at(&self, buffer: &AlignedBuffer, range: Range<usize>, offset: u64) -> io::Result<()> {
        begin();
        self.0.write_durable_at(buffer, range, offset)
    }

    fn start_writing(&self, offset: u64, bytes: u64) {
        begin();
        self.0.start_writing(offset, bytes);
    }

    fn sync_data(&self) -> io::Result<()> {
        begin();
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        begin();
        self.0.length()
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        begin();
        self.0.set_length(bytes)
    }

    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        begin();
        self.0.fill_zeros(offset, bytes)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        begin();
        self.0.punch_hole(offset, bytes)
    }
}

impl SharedMapping for PointedMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        begin();
        self.0.write(offset, bytes);
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}
