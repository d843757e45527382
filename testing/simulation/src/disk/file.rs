//! An open file of a simulated disk.

use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_io::{AlignedBuffer, BLOCK_BYTES, DiskError, DiskFile, OpenMode};

use super::call::Operation;
use super::content::Clear;
use super::directory::InodeId;
use super::inode::{Change, Durability};
use super::state::{Attempt, State, pass_time};

/// A file larger than this is refused, as by an operating system.
const FILE_BYTES_MAX: u64 = 1 << 44;
/// The error of a call that the file was not opened for.
const EBADF: i32 = 9;

pub(super) struct SimulatedFile {
    state: Arc<Mutex<State>>,
    inode: InodeId,
    mode: OpenMode,
}

impl SimulatedFile {
    /// Opens `inode` of a locked disk.
    pub(super) fn new(
        shared: Arc<Mutex<State>>,
        state: &mut State,
        inode: InodeId,
        mode: OpenMode,
    ) -> SimulatedFile {
        state.inode_mut(inode).handles += 1;
        SimulatedFile { state: shared, inode, mode }
    }

    fn pass_time(&self, operation: Operation) {
        let path = self.state.lock().inode(self.inode).path.clone();
        pass_time(&self.state, operation, &path, None);
    }

    fn change(&self, operation: Operation, change: Change, durability: Durability) -> io::Result<()> {
        self.pass_time(operation);
        let mut state = self.state.lock();
        let path = state.inode(self.inode).path.clone();
        state.check_power(operation, &path)?;
        let named = |error| DiskError::wrap(operation.verb(), &*path, error);
        self.check_mode(operation).map_err(named)?;
        let allocated = if operation == Operation::PunchHole { None } else { change.range() };
        let traced = match change {
            Change::Length(bytes) => Some(0..bytes),
            Change::Write { .. } | Change::Clear { .. } => change.range(),
        };
        if traced.as_ref().is_some_and(|range| range.end > FILE_BYTES_MAX) {
            return Err(named(io::ErrorKind::FileTooLarge.into()));
        }
        match state.begin(operation, &path, None, traced)? {
            Attempt::Proceed => {}
            Attempt::Dropped => return Ok(()),
            Attempt::PowerLost(error) => {
                state.change(self.inode, change, Durability::Pending);
                return Err(error);
            }
            Attempt::Fault(result) => {
                self.change_partly(&mut state, &change, durability);
                return result;
            }
        }
        if let Some(range) = allocated {
            state.check_space(self.inode, range).map_err(named)?;
        }
        state.change(self.inode, change, durability);
        Ok(())
    }

    /// A call that failed may have done nothing, or a part of its work; a durable write, all of it but the flush of the
    /// device's cache: then it is seen, and may be lost with the power.
    fn change_partly(&self, state: &mut State, change: &Change, durability: Durability) {
        let mut fates = state.own_fates();
        if durability == Durability::Durable && fates.fails_at_the_flush() {
            state.change(self.inode, change.clone(), Durability::Pending);
            return;
        }
        for part in fates.of_failed(change) {
            state.change(self.inode, part, durability);
        }
    }

    /// What the file was not opened for fails, as with the operating system.
    fn check_mode(&self, operation: Operation) -> io::Result<()> {
        let is_log_call = !matches!(operation, Operation::Read | Operation::Write);
        match self.mode {
            OpenMode::Read if operation != Operation::Read => Err(io::Error::from_raw_os_error(EBADF)),
            OpenMode::Log if !is_log_call => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is open for durable writes only"))
            }
            OpenMode::Read | OpenMode::Write | OpenMode::Create | OpenMode::Log => Ok(()),
        }
    }

    fn clear(&self, operation: Operation, offset: u64, bytes: u64, clear: Clear) -> io::Result<()> {
        let range = offset..offset.saturating_add(bytes);
        self.change(operation, Change::Clear { range, clear }, Durability::Pending)
    }
}

impl DiskFile for SimulatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.pass_time(Operation::Read);
        let mut state = self.state.lock();
        let path = state.inode(self.inode).path.clone();
        state.begin_uncounted(Operation::Read, &path)?;
        let content = &state.inode(self.inode).current;
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= content.length());
        // Reading nothing succeeds anywhere.
        let is_inside = end.is_some() || buffer.is_empty();
        let checked = self
            .check_mode(Operation::Read)
            .and_then(|()| if is_inside { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) });
        checked.map_err(|error| DiskError::wrap(Operation::Read.verb(), &*path, error))?;
        content.read(buffer, if buffer.is_empty() { 0 } else { offset });
        let count = state.reads.entry(path).or_default();
        count.calls += 1;
        count.bytes += buffer.len() as u64;
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // An empty write is no call of the operating system, which would refuse it.
        if bytes.is_empty() && matches!(self.mode, OpenMode::Read) {
            return Ok(());
        }
        self.change(Operation::Write, Change::Write { offset, bytes: bytes.into() }, Durability::Pending)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes = slices.iter().map(|slice| &**slice).collect::<Vec<&[u8]>>().concat();
        self.write_all_at(&bytes, offset)
    }

    fn write_durable_at(&self, buffer: &AlignedBuffer, range: Range<usize>, offset: u64) -> io::Result<()> {
        let block_bytes = BLOCK_BYTES as u64;
        assert!(range.start.is_multiple_of(BLOCK_BYTES), "durable write from unaligned {range:?}");
        assert!(range.end.is_multiple_of(BLOCK_BYTES), "durable write from unaligned {range:?}");
        assert!(offset.is_multiple_of(block_bytes), "durable write at unaligned offset {offset}");
        let change = Change::Write { offset, bytes: buffer[range].into() };
        self.change(Operation::WriteDurable, change, Durability::Durable)
    }

    /// What is not synced may become durable at any time, so there is nothing to do, and no crash to be had.
    fn start_writing(&self, _offset: u64, _bytes: u64) {}

    /// All that was written is at hand.
    fn will_need(&self, _ranges: &[Range<u64>]) {}

    fn sync_data(&self) -> io::Result<()> {
        self.pass_time(Operation::Sync);
        let mut state = self.state.lock();
        let path = state.inode(self.inode).path.clone();
        match state.begin(Operation::Sync, &path, None, None)? {
            Attempt::Proceed => state.inode_mut(self.inode).sync(),
            Attempt::Dropped => {}
            Attempt::PowerLost(error) => return Err(error),
            Attempt::Fault(result) => {
                state.fail_sync(self.inode);
                return result;
            }
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.check_power(Operation::Open, &state.inode(self.inode).path)?;
        Ok(state.inode(self.inode).current.length())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.change(Operation::SetLength, Change::Length(bytes), Durability::Pending)
    }

    fn fill_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(Operation::FillZeros, offset, bytes, Clear::ToZeros)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        self.clear(Operation::PunchHole, offset, bytes, Clear::ToHole)?;
        Ok(true)
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.state.lock().close(self.inode);
    }
}

impl fmt::Debug for SimulatedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimulatedFile").field("inode", &self.inode).field("mode", &self.mode).finish()
    }
}
