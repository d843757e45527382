//! Calls that fail on order.

use std::collections::BTreeMap;
use std::io;

use super::call::Operation;

/// A common fault, for `SimulatedDisk::fail_next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The next read fails (`EIO`).
    ReadError,
    /// The next write fails (`EIO`).
    WriteError,
    /// The next sync, of a file or a directory or as part of a durable write, fails (`EIO`).
    SyncError,
    /// The next write finds the disk full (`ENOSPC`), whatever its capacity.
    NoSpace,
}

impl FaultKind {
    pub(super) fn fault(self) -> Fault {
        let (operations, number) = match self {
            FaultKind::ReadError => (Operations::Reads, EIO),
            FaultKind::WriteError => (Operations::Writes, EIO),
            FaultKind::SyncError => (Operations::Syncs, EIO),
            FaultKind::NoSpace => (Operations::Writes, ENOSPC),
        };
        let target = FaultTarget::Path { prefix: String::new(), operations };
        Fault { target, error: FaultError::Number(number), skip: 0, count: 1 }
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Calls that fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which calls.
    pub target: FaultTarget,
    /// How.
    pub error: FaultError,
    /// How many of them succeed first.
    pub skip: u64,
    /// How many of them then fail.
    pub count: u64,
}

/// Which calls a fault is about.
#[derive(Clone, Debug)]
pub enum FaultTarget {
    /// The call with this index, counted as by `SimulatedDisk::calls`.
    Call(u64),
    /// Calls on files and directories whose path starts with `prefix`; `""` is all of them.
    Path {
        /// How the path starts.
        prefix: String,
        /// Which calls.
        operations: Operations,
    },
}

impl FaultTarget {
    /// Whether it means this call. `call` is `None` for calls that are not counted.
    pub(super) fn is_meant(&self, operation: Operation, paths: [&str; 2], call: Option<u64>) -> bool {
        match self {
            FaultTarget::Call(index) => call == Some(*index),
            FaultTarget::Path { prefix, operations } => {
                operations.contains(operation) && paths.iter().any(|path| path.starts_with(prefix))
            }
        }
    }
}

/// A set of kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// Reads of bytes.
    Reads,
    /// Whatever may allocate or write: writes, durable writes, zeros, lengths.
    Writes,
    /// Syncs of files and directories, and durable writes.
    Syncs,
    /// All.
    Any,
    /// One kind.
    Only(Operation),
}

impl Operations {
    fn contains(self, operation: Operation) -> bool {
        use Operation::{FillZeros, Read, SetLength, Sync, SyncDirectory, Write, WriteDurable};
        match self {
            Operations::Reads => operation == Read,
            Operations::Writes => matches!(operation, Write | WriteDurable | FillZeros | SetLength),
            Operations::Syncs => matches!(operation, Sync | SyncDirectory | WriteDurable),
            Operations::Any => true,
            Operations::Only(only) => operation == only,
        }
    }
}

/// The error of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultError {
    /// An error of this kind.
    Kind(io::ErrorKind),
    /// The operating system's error with this number: 5 is `EIO`, 28 is `ENOSPC`.
    Number(i32),
    /// None: the call leaves what a failed one leaves, and says that all is well. Nothing can be promised on such a disk:
    /// with it a test shows that it would notice. A read that should fail so succeeds.
    Swallowed,
    /// None: the call says that all is well, and has done nothing. So a device loses a write: what was there before stays,
    /// valid in itself. As for `Swallowed`, a read succeeds.
    Dropped,
}

impl FaultError {
    pub(super) fn to_result(self) -> io::Result<()> {
        match self {
            FaultError::Kind(kind) => Err(kind.into()),
            FaultError::Number(number) => Err(io::Error::from_raw_os_error(number)),
            FaultError::Swallowed | FaultError::Dropped => Ok(()),
        }
    }
}

/// A call that failed on order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StruckCall {
    /// Which call it was.
    pub operation: Operation,
    /// On which file or directory; of a rename, the old name.
    pub path: String,
    /// How it failed.
    pub error: FaultError,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<Fault>,
    struck: BTreeMap<StruckCall, u64>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// How many calls failed on order since this was asked last, by what they were and how.
    pub(super) fn take_struck(&mut self) -> BTreeMap<StruckCall, u64> {
        std::mem::take(&mut self.struck)
    }

    /// How this call fails, if a fault strikes it. `call` is `None` for calls that are not counted.
    pub(super) fn strike(
        &mut self,
        operation: Operation,
        paths: [&str; 2],
        call: Option<u64>,
    ) -> Option<FaultError> {
        let is_meant = |fault: &Fault| fault.target.is_meant(operation, paths, call);
        self.waiting.retain(|fault| fault.count > 0);
        let mut struck = None;
        for fault in self.waiting.iter_mut().filter(|fault| is_meant(fault)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if struck.is_none() {
                fault.count -= 1;
                struck = Some(fault.error);
            }
        }
        if let Some(error) = struck {
            let call = StruckCall { operation, path: paths[0].to_owned(), error };
            *self.struck.entry(call).or_default() += 1;
        }
        struck
    }
}
