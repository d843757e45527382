//! A simulated disk that calls back before a write of a batch, before one to a mapped file, or before a sync of the log's
//! directory: others append while it is on its way.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_io::{
    AlignedBuffer, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping,
};
use seawall_simulation::SimulatedDisk;
use seawall_sync::Mutex;

type Hook = Box<dyn FnMut() + Send>;

#[derive(Clone)]
pub(crate) struct HookedDisk {
    inner: SimulatedDisk,
    hook: Arc<Mutex<Option<Hook>>>,
    sync_hook: Arc<Mutex<Option<Hook>>>,
    mapped: Mapped,
}

/// What happens to writes to mapped files.
#[derive(Clone, Default)]
struct Mapped {
    hook: Arc<Mutex<Option<Hook>>>,
    are_lost: Arc<AtomicBool>,
}

impl HookedDisk {
    pub(crate) fn new(inner: SimulatedDisk) -> HookedDisk {
        HookedDisk { inner, hook: Arc::default(), sync_hook: Arc::default(), mapped: Mapped::default() }
    }

    /// Calls `hook` at the next sync of the log's directory, once.
    pub(crate) fn at_next_directory_sync(&self, hook: impl FnMut() + Send + 'static) {
        *self.sync_hook.lock() = Some(Box::new(hook));
    }

    /// Calls `hook` at the next write of a batch, once.
    pub(crate) fn at_next_write(&self, hook: impl FnMut() + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    /// Calls `hook` at the next write to a mapped file, once.
    pub(crate) fn at_next_mapped_write(&self, hook: impl FnMut() + Send + 'static) {
        *self.mapped.hook.lock() = Some(Box::new(hook));
    }

    /// From now on, writes to mapped files change nothing.
    pub(crate) fn lose_mapped_writes(&self) {
        self.mapped.are_lost.store(true, Ordering::SeqCst);
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HookedDisk")
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.inner.open(path, mode)?;
        Ok(Arc::new(HookedFile { file, hook: Arc::clone(&self.hook) }))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list(directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        let hook = self.sync_hook.lock().take_if(|_| directory == "log");
        if let Some(mut hook) = hook {
            hook();
        }
        self.inner.sync_directory(directory)
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        Ok(Box::new(HookedMapping { mapping: self.inner.map_shared(path)?, mapped: self.mapped.clone() }))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock(path, mode)
    }

    fn location(&self, path: &str) -> String {
        self.inner.location(path)
    }
}

struct HookedMapping {
    mapping: Box<dyn SharedMapping>,
    mapped: Mapped,
}

impl fmt::Debug for HookedMapping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HookedMapping")
    }
}

impl SharedMapping for HookedMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let hook = self.mapped.hook.lock().take();
        if let Some(mut hook) = hook {
            hook();
        }
        if !self.mapped.are_lost.load(Ordering::SeqCst) {
            self.mapping.write(offset, bytes);
        }
    }

    fn bytes(&self) -> &[u8] {
        self.mapping.bytes()
    }
}

struct HookedFile {
    file: Arc<dyn DiskFile>,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HookedFile")
    }
}

impl DiskFile for HookedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_vectored_at(slices, offset)
    }

    fn write_durable_at(&self, buffer: &AlignedBuffer, range: Range<usize>, offset: u64) -> io::Result<()> {
        let hook = self.hook.lock().take();
        if let Some(mut hook) = hook {
            hook();
        }
        self.file.write_durable_at(buffer, range, offset)
    }

    fn start_writing(&self, offset: u64, bytes: u64) {
        self.file.start_writing(offset, bytes);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.file.set_length(bytes)
    }

    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.file.fill_zeros(offset, bytes)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        self.file.punch_hole(offset, bytes)
    }
}
