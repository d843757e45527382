//! Files, as a database needs them.
//!
//! What the calls promise, and what `SimulatedDisk` takes away when the power goes:
//! * written bytes are durable after `sync_data` of that file (or `write_durable_at`), torn at 512-byte borders before;
//! * a created, renamed or removed name is durable after `sync_directory` of its directory, lost or kept before;
//! * a file's length is durable with its data;
//! * after a sync of a file that failed, no later one writes again what it lost (Linux marks those pages clean); one of a
//!   directory does, where it succeeds at all: names share blocks, which the next change writes whole, and file systems
//!   with a journal take no more changes until they are mounted again;
//! * bytes of a mapped file outlive the process, and become durable in an order of their own.

use std::fmt;
use std::io;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use crate::aligned::AlignedBuffer;
use crate::error::DiskError;

/// A file as the engine needs it.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Fills `buffer` from byte `offset`; a shorter file is `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Hands `bytes` to the operating system. Not durable, and not atomic across sectors, until `sync_data` returns.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// As `write_all_at`, of several slices that lie one after another in the file.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Writes `range` of `buffer` at `offset` and makes it durable, in one call and past the operating system's
    /// cache where the file was opened with [`OpenMode::Log`]. `range` and `offset` are multiples of `BLOCK_BYTES`.
    fn write_durable_at(
        &self,
        buffer: &AlignedBuffer,
        range: std::ops::Range<usize>,
        offset: u64,
    ) -> io::Result<()>;

    /// Lets the operating system begin to write what was written into `offset..offset + bytes`, so that the next
    /// `sync_data` finds less to do. Makes nothing durable and orders nothing. Where the system has no such call, or it
    /// fails, does nothing: what could not be written is told by `sync_data`.
    fn start_writing(&self, offset: u64, bytes: u64);

    /// Lets the operating system begin to read `ranges` of bytes into its cache, so that a `read_exact_at` of them that follows
    /// waits for less. Changes nothing that the file holds. Where the system has no such call, it fails, or the system seems to
    /// have all of many ranges at hand, does nothing: what cannot be read is told by `read_exact_at`. Bytes behind the end of
    /// the file are skipped.
    fn will_need(&self, ranges: &[Range<u64>]);

    /// Makes earlier writes durable. On an error, what is on disk is unknown: never try again as if nothing happened.
    fn sync_data(&self) -> io::Result<()>;

    /// The file's length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Cuts the file, or extends it with a hole that reads as zeros.
    fn set_length(&self, bytes: u64) -> io::Result<()>;

    /// Makes `offset..offset + bytes` hold zeros in blocks that the file system has allocated and written, so that a
    /// later overwrite changes no metadata. Durable after `sync_data`.
    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Extends the file to `bytes`. What is new reads as zeros, and the file system has allocated it: no write into it finds the disk
    /// full. Cheaper than `fill_zeros` where all of it is soon written, by few syncs: each of them writes metadata, too. Durable after
    /// `sync_data`.
    fn extend(&self, bytes: u64) -> io::Result<()> {
        let length = self.length()?;
        self.fill_zeros(length, bytes.saturating_sub(length))
    }

    /// Gives the space of `offset..offset + bytes` back to the file system; it reads as zeros. Where the file system
    /// cannot, does nothing and returns `false`.
    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool>;
}

/// A file in memory that the operating system shares. What was written is there for the next process, however this one
/// ends. A power loss leaves each page as it was at any moment since it was last synced, torn into sectors or not.
pub trait SharedMapping: Send + Sync + fmt::Debug {
    /// Puts `bytes` at `offset`. Calls of one thread take effect in their order: a process that is killed between two
    /// leaves the first and not the second.
    ///
    /// # Panics
    /// If they go beyond the end.
    fn write(&mut self, offset: usize, bytes: &[u8]);

    /// The whole file.
    fn bytes(&self) -> &[u8];
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist yet, for reading and writing.
    Create,
    /// An existing, preallocated file that is only written with `write_durable_at`: reads and other writes are refused.
    Log,
}

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name without its directory.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
}

/// Shared or exclusive, for a lock between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Any number of readers.
    Shared,
    /// One writer, no reader.
    Exclusive,
}

/// Who may look at a file or a directory; nobody but the owner ever changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner. What is created has this.
    Owner,
    /// The owner's group, too.
    Group,
}

/// Held until dropped.
pub trait DirectoryLock: Send + Sync + fmt::Debug {}

/// The directory of one database. Paths are relative to it, with `/` between parts, such as `log/000000010000000000000001`.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens or creates a file.
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a directory; one that exists is fine. `""` is the database's own directory (and its parents).
    fn create_directory(&self, path: &str) -> io::Result<()>;

    /// The files (not folders) in a directory, sorted by name. A missing directory is `NotFound`.
    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>>;

    /// The names of the files in a directory, in no order. Cheaper than `list` where there are many: no file is asked for
    /// its length.
    fn list_names(&self, directory: &str) -> io::Result<Vec<String>> {
        Ok(self.list(directory)?.into_iter().map(|entry| entry.name).collect())
    }

    /// Renames a file within its directory, replacing one at `to`. Durable after `sync_directory`. Between two
    /// directories it is `InvalidInput`: file systems do not agree which sync makes that durable.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// As `rename`, but never replaces anything: `AlreadyExists` if there is a file at `to`, whoever made it and however
    /// short ago. `Unsupported` where the file system has no such call.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let unsupported = io::Error::new(io::ErrorKind::Unsupported, "no rename that never replaces");
        Err(DiskError::wrap("rename", format!("{} to {to}", self.location(from)), unsupported))
    }

    /// The names of the directories in a directory, sorted. A missing directory is `NotFound`.
    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        let unsupported = io::Error::new(io::ErrorKind::Unsupported, "no listing of directories");
        Err(DiskError::wrap("list", self.location(directory), unsupported))
    }

    /// Whether there is nothing in a directory: no file, no directory, no link. A missing directory is `NotFound`.
    fn is_empty(&self, directory: &str) -> io::Result<bool> {
        Ok(self.list_names(directory)?.is_empty() && self.list_subdirectories(directory)?.is_empty())
    }

    /// Sets who may look at a file or a directory. Not durable at any certain time: a power loss may leave what was before. A disk
    /// that knows no users does nothing.
    fn set_access(&self, _path: &str, _access: Access) -> io::Result<()> {
        Ok(())
    }

    /// Removes a file. Durable after `sync_directory`.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes earlier creations, renames and removals in `directory` durable.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;

    /// Maps an existing file into memory, as long as it is now. Nobody else may write or cut it meanwhile. Every byte of
    /// it must have been written before: touching a hole when the disk is full would end the process.
    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>>;

    /// Locks `path` (created if missing) against other processes, without waiting: `WouldBlock` when it is held.
    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>>;

    /// The full name of `path`, for messages.
    fn location(&self, path: &str) -> String;
}
