//! A directory of a simulated disk as a disk of its own, so that several things lie on one disk and lose power together.

use std::io;
use std::sync::Arc;

use seawall_io::{DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping};

use super::SimulatedDisk;
use super::state::join;

/// What is below one directory; made by [`SimulatedDisk::subdirectory`].
#[derive(Clone, Debug)]
pub struct SimulatedDirectory {
    disk: SimulatedDisk,
    path: String,
}

impl SimulatedDirectory {
    pub(super) fn new(disk: SimulatedDisk, path: &str) -> SimulatedDirectory {
        SimulatedDirectory { disk, path: path.to_owned() }
    }

    fn full(&self, path: &str) -> String {
        if path.is_empty() { self.path.clone() } else { join(&self.path, path) }
    }
}

impl Disk for SimulatedDirectory {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(&self.full(path), mode)
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.disk.create_directory(&self.full(path))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list(&self.full(directory))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(&self.full(from), &self.full(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename_new(&self.full(from), &self.full(to))
    }

    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list_subdirectories(&self.full(directory))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(&self.full(path))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(&self.full(directory))
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        self.disk.map_shared(&self.full(path))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock(&self.full(path), mode)
    }

    fn location(&self, path: &str) -> String {
        self.disk.location(&self.full(path))
    }
}
