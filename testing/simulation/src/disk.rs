//! A disk in memory that can lose power, tear writes, fail and fill up, all repeatable from a seed.
//!
//! ```text
//!   directory "log"  names --> inode  current bytes                 what programs see
//!                      |         |
//!                      pending   pending                            lost, kept or torn by a power loss
//!                      |         |
//!                    durable    durable bytes                       always there afterwards
//! ```
//! A sync of a file makes its bytes durable, and not its name; a sync of a directory makes its names durable, and not
//! the bytes of the files. Directories, too, are there for sure only once their parent was synced.

mod call;
mod content;
mod delay;
mod directory;
mod fault;
mod file;
mod inode;
mod mapping;
mod observed;
mod outcomes;
mod power_loss;
mod state;
mod subdirectory;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_io::{
    Clock, DirectoryEntry, DirectoryLock, Disk, DiskError, DiskFile, LockMode, OpenMode, SharedMapping,
};

pub use call::{Call, CallOutcome, Operation, ReadCount};
pub use delay::{Delay, Gate};
pub use fault::{Fault, FaultError, FaultKind, FaultTarget, Operations, StruckCall};
pub use observed::{CallKind, ObservedDisk, PendingCall, Verdict};
pub use outcomes::{Coverage, Outcome, Outcomes};
pub use power_loss::PowerLoss;
pub use subdirectory::SimulatedDirectory;

use directory::{Directory, NameChange};
use file::SimulatedFile;
use inode::Inode;
use mapping::SimulatedMapping;
use power_loss::Fates;
use state::{Attempt, State, join, pass_time, split};

/// A disk in memory. Clones are the same disk; [`SimulatedDisk::copy`] makes another.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl SimulatedDisk {
    /// An empty disk with an empty database directory. `seed` decides what failed calls leave behind.
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk::with_state(State::new(seed))
    }

    fn with_state(state: State) -> SimulatedDisk {
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The disk that is below this directory, which must be there. Calls are counted, fail and lose power as those of this one.
    pub fn subdirectory(&self, path: &str) -> SimulatedDirectory {
        SimulatedDirectory::new(self.clone(), path)
    }

    // ---- power -----------------------------------------------------------------------------------------------

    /// How many calls that change the disk were made: creates, renames, removes, writes of any kind, lengths, zeros,
    /// holes, syncs of files and directories.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Cuts the power during the call with this index (counted from 0, as by `calls`). It and every call after it,
    /// reads included, fail with "power lost".
    pub fn crash_at(&self, call: u64) {
        self.state.lock().crash_at = Some(call);
    }

    /// Cuts the power now.
    pub fn crash(&self) {
        self.state.lock().crashed = true;
    }

    /// Whether the power is gone.
    pub fn crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// A new disk with what this one may hold if the power goes (or went) now. Locks, faults, counts and trace start
    /// afresh; the capacity stays. This disk is not changed, so that many outcomes can be tried.
    pub fn after_power_loss(&self, outcome: PowerLoss) -> SimulatedDisk {
        SimulatedDisk::with_state(self.state.lock().after_power_loss(Fates::new(outcome)))
    }

    /// The disks that a power loss now (or in the call where it went) may leave, each once and at most `limit` of them:
    /// all of them if they are no more, otherwise a sample drawn from `seed`.
    pub fn outcomes(&self, limit: u64, seed: u64) -> Outcomes {
        Outcomes::new(self, limit, seed)
    }

    /// Another disk with the same files, synced or not. Locks, faults, counts and trace start afresh, power is on.
    pub fn copy(&self) -> SimulatedDisk {
        SimulatedDisk::with_state(self.state.lock().copy())
    }

    // ---- faults ----------------------------------------------------------------------------------------------

    /// Lets the next call of a kind fail.
    pub fn fail_next(&self, kind: FaultKind) {
        self.inject(kind.fault());
    }

    /// Lets calls fail. A failed write may have written a part; after a failed sync each pending change is on the disk
    /// or not, and no later sync of a file writes it again (that of a directory does, see `seawall_io::Disk`); a failed
    /// change of a name did nothing.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().faults.add(fault);
    }

    /// Whether programs read what is durable after a failed sync, and not what they wrote: the operating system counts what it
    /// could not write as clean and may drop it. Off at first: it keeps showing what was written.
    pub fn forget_unsynced(&self, forgets: bool) {
        self.state.lock().forgets_unsynced = forgets;
    }

    /// Takes back all faults and delays.
    pub fn clear_faults(&self) {
        let state = &mut *self.state.lock();
        state.faults.clear();
        state.delays.clear();
    }

    /// How many calls failed on order since this was asked last, by what they were and how.
    pub fn take_faults_struck(&self) -> BTreeMap<StruckCall, u64> {
        self.state.lock().faults.take_struck()
    }

    /// Lets calls take their time, on `clock`. The rest of the disk answers meanwhile.
    pub fn slow_down(&self, delay: Delay, clock: Arc<dyn Clock>) {
        self.state.lock().delays.add(delay, clock);
    }

    /// Holds all these calls from now on, until the gate is opened or dropped. The rest of the disk answers meanwhile.
    pub fn hold(&self, target: FaultTarget) -> Gate {
        self.state.lock().delays.hold(target)
    }

    /// From now on calls that would have to allocate more than `bytes` in all fail with `StorageFull`; `None`: no
    /// limit. What is allocated in 4096-byte blocks counts, of files that have a name or are open.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// What counts against the capacity.
    pub fn allocated_bytes(&self) -> u64 {
        self.state.lock().allocated
    }

    // ---- watching --------------------------------------------------------------------------------------------

    /// The counted calls so far, in order.
    pub fn trace(&self) -> Vec<Call> {
        self.state.lock().trace.clone()
    }

    /// Reads of files whose path starts with `path_prefix`.
    pub fn read_count(&self, path_prefix: &str) -> ReadCount {
        let state = self.state.lock();
        let counts = state.reads.iter().filter(|(path, _)| path.starts_with(path_prefix));
        counts.fold(ReadCount::default(), |sum, (_, count)| ReadCount {
            calls: sum.calls + count.calls,
            bytes: sum.bytes + count.bytes,
        })
    }

    /// Counts reads from zero again.
    pub fn reset_read_counts(&self) {
        self.state.lock().reads.clear();
    }

    // ---- damage: none of these is a call, fails with the power, or waits for a sync ------------------------------

    /// All files, by full path.
    pub fn list_all(&self) -> Vec<DirectoryEntry> {
        let state = self.state.lock();
        let mut entries = Vec::new();
        for (path, directory) in &state.directories {
            entries.extend(directory.names.iter().map(|(name, &inode)| DirectoryEntry {
                name: join(path, name),
                bytes: state.inode(inode).current.length(),
            }));
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        entries
    }

    /// The directories in a directory, by name. None if it is missing.
    pub fn list_directories(&self, directory: &str) -> Vec<String> {
        let state = self.state.lock();
        let children = state.directories.keys().filter(|path| !path.is_empty()).map(|path| split(path));
        children.filter(|(parent, _)| *parent == directory).map(|(_, name)| name.to_owned()).collect()
    }

    /// A file's bytes, synced or not; `None` if there is no such file.
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let inode = state.find(path).ok()?;
        Some(state.inode(inode).current.to_vec())
    }

    /// Puts a file with these bytes in place, durably, with the directories it needs.
    pub fn write_file(&self, path: &str, bytes: &[u8]) {
        self.remove_file(path);
        let state = &mut *self.state.lock();
        let (parent, name) = split(path);
        for (end, _) in parent.match_indices('/').chain([(parent.len(), "")]) {
            let directory = state.directories.entry(parent[..end].to_owned()).or_default();
            directory.is_durable = true;
        }
        let mut content = content::Content::default();
        content.write(bytes, 0);
        let inode = state.add_inode(Inode::with_content(path.into(), content));
        state.directory_mut(parent).change_durably(NameChange::Set { name: name.to_owned(), inode });
    }

    /// Removes a file, durably. Returns whether there was one.
    pub fn remove_file(&self, path: &str) -> bool {
        let mut state = self.state.lock();
        let Ok(inode) = state.find(path) else { return false };
        state.directory_mut(split(path).0).change_durably(NameChange::Remove { inode });
        state.unlink(inode);
        true
    }

    /// Flips bit `bit` (0 to 7) of the byte at `offset`, now and on the durable disk.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip_bit(&self, path: &str, offset: u64, bit: u8) {
        assert!(bit < 8, "a byte has no bit {bit}");
        self.damage(path, |content| {
            assert!(offset < content.length(), "{path} has no byte {offset}");
            let mut byte = [0];
            content.read(&mut byte, offset);
            content.write(&[byte[0] ^ (1 << bit)], offset);
        });
    }

    /// Overwrites bytes of a file, now and on the durable disk.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn overwrite(&self, path: &str, offset: u64, bytes: &[u8]) {
        self.damage(path, |content| content.write(bytes, offset));
    }

    /// Cuts (or extends) a file to `bytes`, now and on the durable disk.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn truncate(&self, path: &str, bytes: u64) {
        self.damage(path, |content| content.set_length(bytes));
    }

    fn damage(&self, path: &str, damage: impl Fn(&mut content::Content)) {
        let mut state = self.state.lock();
        let id = state.find(path).unwrap_or_else(|error| panic!("no file {path} to damage: {error}"));
        let inode = state.inode_mut(id);
        let before = inode.current.allocated_bytes();
        inode.damage(damage);
        let after = inode.current.allocated_bytes();
        state.allocated = state.allocated + after - before;
    }
}

fn named<T>(operation: Operation, path: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| DiskError::wrap(operation.verb(), path, error))
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let operation = if mode == OpenMode::Create { Operation::Create } else { Operation::Open };
        pass_time(&self.state, operation, path, None);
        let mut state = self.state.lock();
        let inode = if mode == OpenMode::Create {
            state.check_power(Operation::Create, path)?;
            named(Operation::Create, path, state.check_free(path))?;
            state.change_name(Operation::Create, path, None, |state| {
                state.create(path);
            })?;
            state.find(path)?
        } else {
            state.begin_uncounted(Operation::Open, path)?;
            named(Operation::Open, path, state.find(path))?
        };
        let file = SimulatedFile::new(self.state.clone(), &mut state, inode, mode);
        Ok(Arc::new(file))
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        pass_time(&self.state, Operation::CreateDirectory, path, None);
        let mut state = self.state.lock();
        if state.directories.contains_key(path) {
            return state.begin_uncounted(Operation::CreateDirectory, path);
        }
        state.check_power(Operation::CreateDirectory, path)?;
        named(Operation::CreateDirectory, path, state.check_free(path))?;
        state.change_name(Operation::CreateDirectory, path, None, |state| {
            state.directories.insert(path.to_owned(), Directory::default());
        })
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        pass_time(&self.state, Operation::List, directory, None);
        let mut state = self.state.lock();
        state.begin_uncounted(Operation::List, directory)?;
        let found = state.find_directory(directory);
        let entry = |(name, &inode): (&String, &u64)| DirectoryEntry {
            name: name.clone(),
            bytes: state.inode(inode).current.length(),
        };
        Ok(named(Operation::List, directory, found)?.names.iter().map(entry).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        pass_time(&self.state, Operation::Rename, from, Some(to));
        let mut state = self.state.lock();
        state.check_power(Operation::Rename, from)?;
        let checked = if split(from).0 != split(to).0 {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{to} is in another directory")))
        } else if state.directories.contains_key(to) {
            Err(io::ErrorKind::IsADirectory.into())
        } else {
            state.find(from)
        };
        let inode = named(Operation::Rename, from, checked)?;
        state.change_name(Operation::Rename, from, Some(to), |state| state.rename(inode, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        pass_time(&self.state, Operation::Rename, from, Some(to));
        let mut state = self.state.lock();
        state.check_power(Operation::Rename, from)?;
        let checked = if split(from).0 != split(to).0 {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{to} is in another directory")))
        } else {
            state.find(from).and_then(|inode| state.check_free(to).map(|()| inode))
        };
        let inode = named(Operation::Rename, from, checked)?;
        state.change_name(Operation::Rename, from, Some(to), |state| state.rename(inode, to))
    }

    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        pass_time(&self.state, Operation::List, directory, None);
        let mut state = self.state.lock();
        state.begin_uncounted(Operation::List, directory)?;
        named(Operation::List, directory, state.find_directory(directory).map(|_| ()))?;
        drop(state);
        Ok(self.list_directories(directory))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        pass_time(&self.state, Operation::Remove, path, None);
        let mut state = self.state.lock();
        state.check_power(Operation::Remove, path)?;
        let inode = named(Operation::Remove, path, state.find(path))?;
        state.change_name(Operation::Remove, path, None, |state| state.remove(inode, path))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        pass_time(&self.state, Operation::SyncDirectory, directory, None);
        let mut state = self.state.lock();
        state.check_power(Operation::SyncDirectory, directory)?;
        if !state.directories.contains_key(directory) {
            return named(Operation::SyncDirectory, directory, Err(io::ErrorKind::NotFound.into()));
        }
        match state.begin(Operation::SyncDirectory, &directory.into(), None, None)? {
            Attempt::Proceed => state.sync_directory(directory, None),
            Attempt::Dropped => {}
            Attempt::PowerLost(error) => return Err(error),
            Attempt::Fault(result) => {
                let mut fates = state.own_fates();
                state.sync_directory(directory, Some(&mut fates));
                return result;
            }
        }
        Ok(())
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        let mut state = self.state.lock();
        state.begin_uncounted(Operation::Open, path)?;
        let inode = named(Operation::Open, path, state.find(path))?;
        Ok(Box::new(SimulatedMapping::new(self.state.clone(), &mut state, inode)))
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        let mut state = self.state.lock();
        state.begin_uncounted(Operation::Open, path)?;
        if state.find(path).is_err() {
            named(Operation::Create, path, state.check_free(path))?;
            state.change_name(Operation::Create, path, None, |state| {
                state.create(path);
            })?;
        }
        let holders = state.locks.entry(path.to_owned()).or_default();
        if !holders.admits(mode) {
            return Err(DiskError::wrap("lock", path, io::ErrorKind::WouldBlock.into()));
        }
        match mode {
            LockMode::Exclusive => holders.exclusive = true,
            LockMode::Shared => holders.shared += 1,
        }
        Ok(Box::new(SimulatedLock { state: self.state.clone(), path: path.to_owned(), mode }))
    }

    fn location(&self, path: &str) -> String {
        if path.is_empty() { "simulated:/".to_owned() } else { format!("simulated:/{path}") }
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        formatter
            .debug_struct("SimulatedDisk")
            .field("calls", &state.calls)
            .field("crashed", &state.crashed)
            .field("files", &state.inodes.len())
            .finish()
    }
}

struct SimulatedLock {
    state: Arc<Mutex<State>>,
    path: String,
    mode: LockMode,
}

impl DirectoryLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let holders = state.locks.get_mut(&self.path).expect("a holder is counted until it goes");
        match self.mode {
            LockMode::Exclusive => holders.exclusive = false,
            LockMode::Shared => holders.shared -= 1,
        }
    }
}

impl fmt::Debug for SimulatedLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SimulatedLock({} {:?})", self.path, self.mode)
    }
}
