//! The calls a simulated disk has seen.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A kind of disk call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `Disk::open` of an existing file.
    Open,
    /// `Disk::open` that creates; `Disk::lock` of a missing file.
    Create,
    /// `Disk::create_directory` of a missing one.
    CreateDirectory,
    /// `Disk::list`.
    List,
    /// `Disk::rename`.
    Rename,
    /// `Disk::remove`.
    Remove,
    /// `Disk::sync_directory`.
    SyncDirectory,
    /// `DiskFile::read_exact_at`.
    Read,
    /// `DiskFile::write_all_at` and `write_vectored_at`.
    Write,
    /// `DiskFile::write_durable_at`.
    WriteDurable,
    /// `DiskFile::sync_data`.
    Sync,
    /// `DiskFile::set_length`.
    SetLength,
    /// `DiskFile::fill_zeros`.
    FillZeros,
    /// `DiskFile::punch_hole`.
    PunchHole,
}

impl Operation {
    /// Whether it changes the disk, so that `SimulatedDisk::calls` counts it.
    pub const fn is_counted(self) -> bool {
        !matches!(self, Operation::Open | Operation::List | Operation::Read)
    }

    /// As a verb, for messages and traces.
    pub const fn verb(self) -> &'static str {
        match self {
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::CreateDirectory => "create directory",
            Operation::List => "list",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::SyncDirectory => "sync directory",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::WriteDurable => "write and sync",
            Operation::Sync => "sync",
            Operation::SetLength => "set the length of",
            Operation::FillZeros => "fill",
            Operation::PunchHole => "punch a hole into",
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// As asked, or refused for lack of space.
    Done,
    /// With an injected fault.
    Fault,
    /// The power went while it ran.
    PowerLost,
}

/// A call that changes what is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Counted from 0; what `SimulatedDisk::crash_at` takes.
    pub index: u64,
    /// What was asked for.
    pub operation: Operation,
    /// On which file or directory; `""` is the database's own directory.
    pub path: Arc<str>,
    /// The new name, of a rename.
    pub to: Option<Arc<str>>,
    /// The bytes it is about; for a length, `0..length`.
    pub range: Option<Range<u64>>,
    /// How it ended.
    pub outcome: CallOutcome,
}

impl fmt::Display for Call {
    /// `12 write pages @8192 +4096`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.index, self.operation.verb(), self.path)?;
        if let Some(to) = &self.to {
            write!(formatter, " to {to}")?;
        }
        if let Some(range) = &self.range {
            write!(formatter, " @{} +{}", range.start, range.end - range.start)?;
        }
        match self.outcome {
            CallOutcome::Done => Ok(()),
            CallOutcome::Fault => formatter.write_str(" (fault)"),
            CallOutcome::PowerLost => formatter.write_str(" (power lost)"),
        }
    }
}

/// Reads of files, in calls and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCount {
    /// How many calls.
    pub calls: u64,
    /// How many bytes.
    pub bytes: u64,
}
