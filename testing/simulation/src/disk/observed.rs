//! A simulated disk that shows each call to an observer before the call does anything.
//!
//! ```text
//!   database --call--> ObservedDisk --PendingCall--> observer: counts, waits, calls back, makes the call on a copy
//!                           |       <--Verdict------
//!                           v
//!                     SimulatedDisk
//! ```
//! Start at [`ObservedDisk::new`].

use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use seawall_io::{
    AlignedBuffer, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping,
};

use super::{Operation, SimulatedDisk};

/// A kind of call that an observer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A call that the simulated disk knows as an operation: it can fail there.
    Operation(Operation),
    /// `DiskFile::length`.
    Length,
    /// `DiskFile::start_writing`.
    StartWriting,
    /// `DiskFile::extend`, before the operation that it is here.
    Extend,
    /// A range of `DiskFile::will_need`.
    WillNeed {
        /// Where it begins.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// `Disk::map_shared`.
    Map,
    /// `SharedMapping::write`.
    WriteMapped,
}

impl CallKind {
    /// Whether the call changes the disk, so that [`SimulatedDisk::calls`] counts it.
    pub const fn is_counted(self) -> bool {
        matches!(self, CallKind::Operation(operation) if operation.is_counted())
    }

    /// Whether the call makes a file or a directory durable.
    pub const fn is_sync(self) -> bool {
        matches!(self, CallKind::Operation(Operation::Sync | Operation::SyncDirectory))
    }
}

impl From<Operation> for CallKind {
    fn from(operation: Operation) -> CallKind {
        CallKind::Operation(operation)
    }
}

/// What becomes of a call that an observer has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Make,
    /// It does nothing and succeeds. Only for calls that return nothing but success.
    Lose,
}

/// A call on an observed disk that has not done anything yet.
pub struct PendingCall<'c> {
    /// What it does.
    pub kind: CallKind,
    /// The file or directory.
    pub path: &'c str,
    make: &'c dyn Fn(&SimulatedDisk) -> io::Result<()>,
}

impl PendingCall<'_> {
    /// Makes the same call on `disk`. Calls that only read do nothing.
    ///
    /// # Errors
    /// Those of the call.
    pub fn make_on(&self, disk: &SimulatedDisk) -> io::Result<()> {
        (self.make)(disk)
    }
}

impl fmt::Debug for PendingCall<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} of {:?}", self.kind, self.path)
    }
}

type Observer = dyn Fn(&PendingCall<'_>) -> Verdict + Send + Sync;

/// A simulated disk whose calls an observer sees. See the module.
#[derive(Clone)]
pub struct ObservedDisk {
    disk: SimulatedDisk,
    observer: Arc<Observer>,
}

impl ObservedDisk {
    /// Shows `observer` each call on `disk`, on the thread that makes the call.
    pub fn new(
        disk: SimulatedDisk,
        observer: impl Fn(&PendingCall<'_>) -> Verdict + Send + Sync + 'static,
    ) -> ObservedDisk {
        ObservedDisk { disk, observer: Arc::new(observer) }
    }

    fn change(
        &self,
        operation: Operation,
        path: &str,
        make: impl Fn(&SimulatedDisk) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.see(operation.into(), path, &make) {
            Verdict::Make => make(&self.disk),
            Verdict::Lose => Ok(()),
        }
    }

    fn look(&self, kind: impl Into<CallKind>, path: &str) {
        self.see(kind.into(), path, &|_| Ok(()));
    }

    fn see(&self, kind: CallKind, path: &str, make: &dyn Fn(&SimulatedDisk) -> io::Result<()>) -> Verdict {
        (self.observer)(&PendingCall { kind, path, make })
    }
}

impl fmt::Debug for ObservedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObservedDisk").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Disk for ObservedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let operation = if mode == OpenMode::Create { Operation::Create } else { Operation::Open };
        self.see(operation.into(), path, &|disk| disk.open(path, mode).map(drop));
        let file = self.disk.open(path, mode)?;
        // The file is there by the time of a later call, on a copy, too.
        let mode = if mode == OpenMode::Create { OpenMode::Write } else { mode };
        Ok(Arc::new(ObservedFile { file, path: path.to_owned(), mode, disk: self.clone() }))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.change(Operation::CreateDirectory, path, |disk| disk.create_directory(path))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.look(Operation::List, directory);
        self.disk.list(directory)
    }

    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        self.look(Operation::List, directory);
        self.disk.list_subdirectories(directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Operation::Rename, from, |disk| disk.rename(from, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Operation::Rename, from, |disk| disk.rename_new(from, to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.change(Operation::Remove, path, |disk| disk.remove(path))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.change(Operation::SyncDirectory, directory, |disk| disk.sync_directory(directory))
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        self.look(CallKind::Map, path);
        let mapping = self.disk.map_shared(path)?;
        Ok(Box::new(ObservedMapping { mapping, path: path.to_owned(), disk: self.clone() }))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        self.see(Operation::Create.into(), path, &|disk| disk.lock(path, mode).map(drop));
        self.disk.lock(path, mode)
    }

    fn location(&self, path: &str) -> String {
        self.disk.location(path)
    }
}

#[derive(Debug)]
struct ObservedFile {
    file: Arc<dyn DiskFile>,
    path: String,
    mode: OpenMode,
    disk: ObservedDisk,
}

impl ObservedFile {
    fn change(&self, operation: Operation, make: impl Fn(&dyn DiskFile) -> io::Result<()>) -> io::Result<()> {
        let make_on = |disk: &SimulatedDisk| {
            let file = disk.open(&self.path, self.mode);
            make(&*file.unwrap_or_else(|error| panic!("a file is written under an old name: {error}")))
        };
        match self.disk.see(operation.into(), &self.path, &make_on) {
            Verdict::Make => make(&*self.file),
            Verdict::Lose => Ok(()),
        }
    }

    fn look(&self, kind: impl Into<CallKind>) {
        self.disk.look(kind, &self.path);
    }
}

impl DiskFile for ObservedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.look(Operation::Read);
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Operation::Write, |file| file.write_all_at(bytes, offset))
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.change(Operation::Write, |file| file.write_vectored_at(slices, offset))
    }

    fn write_durable_at(&self, buffer: &AlignedBuffer, range: Range<usize>, offset: u64) -> io::Result<()> {
        self.change(Operation::WriteDurable, |file| file.write_durable_at(buffer, range.clone(), offset))
    }

    fn start_writing(&self, offset: u64, bytes: u64) {
        self.look(CallKind::StartWriting);
        self.file.start_writing(offset, bytes);
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        for range in ranges {
            self.look(CallKind::WillNeed { offset: range.start, bytes: range.end - range.start });
        }
        self.file.will_need(ranges);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Operation::Sync, |file| file.sync_data())
    }

    fn length(&self) -> io::Result<u64> {
        self.look(CallKind::Length);
        self.file.length()
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.change(Operation::SetLength, |file| file.set_length(bytes))
    }

    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.change(Operation::FillZeros, |file| file.fill_zeros(offset, bytes))
    }

    fn extend(&self, bytes: u64) -> io::Result<()> {
        self.look(CallKind::Extend);
        self.change(Operation::FillZeros, |file| file.extend(bytes))
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        let is_punched = Cell::new(false);
        self.change(Operation::PunchHole, |file| {
            is_punched.set(file.punch_hole(offset, bytes)?);
            Ok(())
        })?;
        Ok(is_punched.get())
    }
}

#[derive(Debug)]
struct ObservedMapping {
    mapping: Box<dyn SharedMapping>,
    path: String,
    disk: ObservedDisk,
}

impl SharedMapping for ObservedMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let make_on = |disk: &SimulatedDisk| {
            disk.map_shared(&self.path)?.write(offset, bytes);
            Ok(())
        };
        if self.disk.see(CallKind::WriteMapped, &self.path, &make_on) == Verdict::Make {
            self.mapping.write(offset, bytes);
        }
    }

    fn bytes(&self) -> &[u8] {
        self.mapping.bytes()
    }
}
