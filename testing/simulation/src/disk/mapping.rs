//! A mapped file of a simulated disk. Writes are no calls: they cannot fail, and a kill leaves all that came before.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_io::{AlignedBuffer, SharedMapping};

use super::directory::InodeId;
use super::state::State;

pub(super) struct SimulatedMapping {
    state: Arc<Mutex<State>>,
    inode: InodeId,
    /// What the file holds, for readers; every write goes to the disk, too.
    bytes: AlignedBuffer,
}

impl SimulatedMapping {
    /// Maps `inode` of a locked disk.
    pub(super) fn new(shared: Arc<Mutex<State>>, state: &mut State, inode: InodeId) -> SimulatedMapping {
        let file = state.inode_mut(inode);
        file.handles += 1;
        let length = usize::try_from(file.current.length()).expect("a test's file fits into memory");
        let mut bytes = AlignedBuffer::zeroed(length);
        file.current.read(&mut bytes, 0);
        SimulatedMapping { state: shared, inode, bytes }
    }
}

impl SharedMapping for SimulatedMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.state.lock().change_mapped(self.inode, offset as u64, bytes);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SimulatedMapping {
    fn drop(&mut self) {
        self.state.lock().close(self.inode);
    }
}

impl fmt::Debug for SimulatedMapping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimulatedMapping").field("inode", &self.inode).finish()
    }
}
