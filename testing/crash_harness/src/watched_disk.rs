//! A simulated disk that keeps, for each call, what would be left if the power went during it.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_io::{
    AlignedBuffer, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping,
};
use seawall_simulation::SimulatedDisk;

use crate::session::SharedProgress;
use crate::state::State;

/// A disk whose power went during a call.
pub struct CrashPoint {
    /// Number of the call, from 0.
    pub index: u64,
    /// Which call it was.
    pub call: String,
    /// What it did with which kind of file.
    pub kind: String,
    /// Without power; `after_power_loss` gives what a restart finds.
    pub disk: SimulatedDisk,
    /// What the database may hold, newest first.
    pub candidates: Vec<Arc<State>>,
    /// What it may hold if only the process ends: no acknowledged commit is missing.
    pub survivors: Vec<Arc<State>>,
}

/// Called with a description of each call, in the middle of it, before it has done anything.
pub type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// A disk that copies itself in each call, with the power gone. See the module.
#[derive(Clone)]
pub struct WatchedDisk {
    inner: SimulatedDisk,
    progress: SharedProgress,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    observer: Option<Observer>,
    calls: u64,
    /// The calls whose points are kept; `None`: all.
    wanted: Option<BTreeSet<u64>>,
    points: Vec<CrashPoint>,
    /// Of so many syncs one does nothing.
    lose_syncs: Option<u64>,
    syncs: u64,
}

impl fmt::Debug for WatchedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WatchedDisk")
    }
}

impl WatchedDisk {
    /// Watches what is done with `inner`; `progress` says what may be in the database meanwhile.
    pub fn new(inner: SimulatedDisk, progress: SharedProgress) -> WatchedDisk {
        WatchedDisk { inner, progress, seen: Arc::default() }
    }

    /// From now on `observer` hears of each call.
    pub fn observe(&self, observer: Option<Observer>) {
        self.seen.lock().observer = observer;
    }

    /// Keeps only the crash points in these calls.
    pub fn watch_only(&self, calls: BTreeSet<u64>) {
        self.seen.lock().wanted = Some(calls);
    }

    /// Lets the disk lie: of so many syncs, of files and directories, one makes nothing durable.
    pub fn lose_syncs(&self, one_in: Option<u64>) {
        self.seen.lock().lose_syncs = one_in;
    }

    /// Whether this sync is one that the disk lies about.
    fn loses_sync(&self) -> bool {
        let mut seen = self.seen.lock();
        seen.syncs += 1;
        seen.lose_syncs.is_some_and(|one_in| seen.syncs.is_multiple_of(one_in))
    }

    /// Cuts the power now.
    pub fn crash(&self) {
        self.inner.crash();
    }

    /// The points since the last call of this.
    pub fn take_points(&self) -> Vec<CrashPoint> {
        std::mem::take(&mut self.seen.lock().points)
    }

    /// Makes the call on a copy that loses power in it.
    fn watch(&self, call: impl FnOnce(&SimulatedDisk) -> io::Result<()>) {
        let (copy, candidates, survivors) = {
            // Held, so that no commit of another thread comes between the copy and what may be in it.
            let progress = self.progress.lock();
            (self.inner.copy(), progress.candidates(), progress.survivors())
        };
        copy.crash_at(0);
        let outcome = call(&copy);
        // A call that changes nothing is not counted, and one that is refused does nothing.
        if outcome.is_ok() || !copy.crashed() {
            return;
        }
        let trace = copy.trace();
        let call = trace.last().expect("the power went in a call");
        let name = call.to_string();
        let file = call.path.split(['/', '.']).next().unwrap_or_default();
        let kind = format!("{} {file}", call.operation.verb());
        let observer = self.seen.lock().observer.clone();
        observer.inspect(|observer| observer(&name));
        let seen = &mut *self.seen.lock();
        if seen.wanted.as_ref().is_none_or(|wanted| wanted.contains(&seen.calls)) {
            seen.points.push(CrashPoint {
                index: seen.calls,
                call: name,
                kind,
                disk: copy,
                candidates,
                survivors,
            });
        }
        seen.calls += 1;
    }
}

impl Disk for WatchedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if mode == OpenMode::Create {
            self.watch(|copy| copy.open(path, mode).map(|_| ()));
        }
        let file = self.inner.open(path, mode)?;
        Ok(Arc::new(WatchedFile { file, path: path.to_owned(), mode, disk: self.clone() }))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.watch(|copy| copy.create_directory(path));
        self.inner.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list(directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.watch(|copy| copy.rename(from, to));
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.watch(|copy| copy.remove(path));
        self.inner.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.watch(|copy| copy.sync_directory(directory));
        if self.loses_sync() {
            return Ok(());
        }
        self.inner.sync_directory(directory)
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        self.inner.map_shared(path)
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        self.watch(|copy| copy.lock(path, mode).map(|_| ()));
        self.inner.lock(path, mode)
    }

    fn location(&self, path: &str) -> String {
        self.inner.location(path)
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn DiskFile>,
    path: String,
    mode: OpenMode,
    disk: WatchedDisk,
}

impl WatchedFile {
    fn watch(&self, call: impl FnOnce(&dyn DiskFile) -> io::Result<()>) {
        let mode = if self.mode == OpenMode::Create { OpenMode::Write } else { self.mode };
        self.disk.watch(|copy| {
            let file = copy.open(&self.path, mode);
            call(&*file.unwrap_or_else(|error| panic!("a file is written under an old name: {error}")))
        });
    }
}

impl DiskFile for WatchedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.watch(|file| file.write_all_at(bytes, offset));
        self.file.write_all_at(bytes, offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.watch(|file| file.write_vectored_at(slices, offset));
        self.file.write_vectored_at(slices, offset)
    }

    fn write_durable_at(&self, buffer: &AlignedBuffer, range: Range<usize>, offset: u64) -> io::Result<()> {
        self.watch(|file| file.write_durable_at(buffer, range.clone(), offset));
        self.file.write_durable_at(buffer, range, offset)
    }

    fn start_writing(&self, offset: u64, bytes: u64) {
        self.file.start_writing(offset, bytes);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.watch(|file| file.sync_data());
        if self.disk.loses_sync() {
            return Ok(());
        }
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.watch(|file| file.set_length(bytes));
        self.file.set_length(bytes)
    }

    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.watch(|file| file.fill_zeros(offset, bytes));
        self.file.fill_zeros(offset, bytes)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        self.watch(|file| file.punch_hole(offset, bytes).map(|_| ()));
        self.file.punch_hole(offset, bytes)
    }
}
