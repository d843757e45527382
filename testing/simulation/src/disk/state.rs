//! All of a simulated disk, behind one mutex.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_io::{DiskError, LockMode};

use super::call::{Call, CallOutcome, Operation, ReadCount};
use super::content::{BLOCK_BYTES, BLOCK_LENGTH};
use super::delay::{Delays, Wait};
use super::directory::{Directory, InodeId, NameChange};
use super::fault::{FaultError, Faults};
use super::inode::{Change, Durability, Inode};
use super::outcomes::Place;
use super::power_loss::{Fates, PowerLoss};
use crate::random::SeededRandom;

/// How far a call gets.
pub(super) enum Attempt {
    Proceed,
    /// The power goes while it runs: what it does is pending, and the error is returned.
    PowerLost(io::Error),
    /// A fault strikes it: nothing or a part of it is done, and this is returned.
    Fault(io::Result<()>),
    /// It succeeds and does nothing.
    Dropped,
}

/// Who holds a lock.
#[derive(Debug, Default)]
pub(super) struct Holders {
    pub(super) exclusive: bool,
    pub(super) shared: u64,
}

impl Holders {
    pub(super) fn admits(&self, mode: LockMode) -> bool {
        !self.exclusive && (mode == LockMode::Shared || self.shared == 0)
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) random: SeededRandom,
    pub(super) calls: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) crashed: bool,
    /// By path; parents come before their children.
    pub(super) directories: BTreeMap<String, Directory>,
    pub(super) inodes: BTreeMap<InodeId, Inode>,
    next_inode: InodeId,
    pub(super) faults: Faults,
    pub(super) delays: Delays,
    /// After a failed sync programs read what is durable, and not what they wrote.
    pub(super) forgets_unsynced: bool,
    pub(super) capacity: Option<u64>,
    /// Allocated bytes of all files that have a name or are open.
    pub(super) allocated: u64,
    pub(super) trace: Vec<Call>,
    pub(super) reads: BTreeMap<Arc<str>, ReadCount>,
    pub(super) locks: BTreeMap<String, Holders>,
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            random: SeededRandom::new(seed),
            calls: 0,
            crash_at: None,
            crashed: false,
            directories: BTreeMap::from([(String::new(), Directory::with_names(BTreeMap::new()))]),
            inodes: BTreeMap::new(),
            next_inode: 1,
            faults: Faults::default(),
            delays: Delays::default(),
            forgets_unsynced: false,
            capacity: None,
            allocated: 0,
            trace: Vec::new(),
            reads: BTreeMap::new(),
            locks: BTreeMap::new(),
        }
    }

    // ---- calls -----------------------------------------------------------------------------------------------

    /// Comes first in every call: without power, not even "there is no such file" is an answer.
    pub(super) fn check_power(&self, operation: Operation, path: &str) -> io::Result<()> {
        if self.crashed { Err(power_lost(operation, path)) } else { Ok(()) }
    }

    /// Starts a call that changes nothing.
    pub(super) fn begin_uncounted(&mut self, operation: Operation, path: &str) -> io::Result<()> {
        self.check_power(operation, path)?;
        let fault = self.faults.strike(operation, [path, path], None);
        let wrap = |error| DiskError::wrap(operation.verb(), path, error);
        fault.map_or(Ok(()), FaultError::to_result).map_err(wrap)
    }

    /// Starts a call that changes the disk: counts it, writes it into the trace, and says how far it gets.
    pub(super) fn begin(
        &mut self,
        operation: Operation,
        path: &Arc<str>,
        to: Option<&str>,
        range: Option<Range<u64>>,
    ) -> io::Result<Attempt> {
        self.check_power(operation, path)?;
        let index = self.calls;
        self.calls += 1;
        let (outcome, attempt) = if self.crash_at.is_some_and(|crash_at| index >= crash_at) {
            self.crashed = true;
            (CallOutcome::PowerLost, Attempt::PowerLost(power_lost(operation, path)))
        } else if let Some(error) = self.faults.strike(operation, [path, to.unwrap_or(path)], Some(index)) {
            let wrap = |error| DiskError::wrap(operation.verb(), &**path, error);
            let attempt = match error {
                FaultError::Dropped => Attempt::Dropped,
                other => Attempt::Fault(other.to_result().map_err(wrap)),
            };
            (CallOutcome::Fault, attempt)
        } else {
            (CallOutcome::Done, Attempt::Proceed)
        };
        let (path, to) = (path.clone(), to.map(Arc::from));
        self.trace.push(Call { index, operation, path, to, range, outcome });
        Ok(attempt)
    }

    /// Changes one name, as a counted call; a fault leaves it as it was.
    pub(super) fn change_name(
        &mut self,
        operation: Operation,
        path: &str,
        to: Option<&str>,
        change: impl FnOnce(&mut State),
    ) -> io::Result<()> {
        match self.begin(operation, &Arc::from(path), to, None)? {
            Attempt::Fault(result) => result,
            Attempt::Dropped => Ok(()),
            Attempt::Proceed => {
                change(self);
                Ok(())
            }
            Attempt::PowerLost(error) => {
                change(self);
                Err(error)
            }
        }
    }

    // ---- names -----------------------------------------------------------------------------------------------

    /// The file that has this name.
    pub(super) fn find(&self, path: &str) -> io::Result<InodeId> {
        let (parent, name) = split(path);
        if self.directories.contains_key(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let directory = self.directories.get(parent).ok_or(io::ErrorKind::NotFound)?;
        directory.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The directory that has this name.
    pub(super) fn find_directory(&self, path: &str) -> io::Result<&Directory> {
        self.directories.get(path).ok_or_else(|| match self.find(path) {
            Ok(_) => io::ErrorKind::NotADirectory.into(),
            Err(error) => error,
        })
    }

    /// Refuses a name that is taken or has no directory.
    pub(super) fn check_free(&self, path: &str) -> io::Result<()> {
        match self.find(path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            Err(_) if !self.directories.contains_key(split(path).0) => Err(io::ErrorKind::NotFound.into()),
            Err(_) => Ok(()),
        }
    }

    /// A new file at a path that `check_free` let pass.
    pub(super) fn create(&mut self, path: &str) -> InodeId {
        let inode = self.add_inode(Inode::new(path.into()));
        let (parent, name) = split(path);
        self.directory_mut(parent).change(NameChange::Set { name: name.to_owned(), inode });
        inode
    }

    pub(super) fn add_inode(&mut self, inode: Inode) -> InodeId {
        let id = self.next_inode;
        self.next_inode += 1;
        self.allocated += inode.current.allocated_bytes();
        self.inodes.insert(id, inode);
        id
    }

    /// Gives the file `inode` the name `to`, in the directory it is in.
    pub(super) fn rename(&mut self, inode: InodeId, to: &str) {
        let (parent, name) = split(to);
        let directory = self.directory_mut(parent);
        let replaced = directory.names.get(name).copied().filter(|&replaced| replaced != inode);
        directory.change(NameChange::Set { name: name.to_owned(), inode });
        self.inode_mut(inode).path = to.into();
        if let Some(replaced) = replaced {
            self.unlink(replaced);
        }
    }

    pub(super) fn remove(&mut self, inode: InodeId, path: &str) {
        self.directory_mut(split(path).0).change(NameChange::Remove { inode });
        self.unlink(inode);
    }

    pub(super) fn unlink(&mut self, inode: InodeId) {
        self.inode_mut(inode).linked = false;
        self.release(inode);
    }

    pub(super) fn close(&mut self, inode: InodeId) {
        self.inode_mut(inode).handles -= 1;
        self.release(inode);
    }

    /// Frees the space of a file that nobody can reach any more.
    fn release(&mut self, id: InodeId) {
        let inode = self.inode_mut(id);
        if inode.linked || inode.handles > 0 || inode.released {
            return;
        }
        inode.released = true;
        let (bytes, parent) = (inode.current.allocated_bytes(), split(&inode.path).0.to_owned());
        self.allocated -= bytes;
        if !self.directories.get(&parent).is_some_and(|directory| directory.may_hold(id)) {
            self.inodes.remove(&id);
        }
    }

    /// Makes the names in `directory` durable, or, with the fates of a failed sync, some of them.
    pub(super) fn sync_directory(&mut self, path: &str, failed: Option<&mut Fates>) {
        let is_child = |child: &str| !child.is_empty() && split(child).0 == path;
        for (_, child) in self.directories.iter_mut().filter(|(child, _)| is_child(child)) {
            child.is_durable |= failed.is_none();
        }
        let directory = self.directory_mut(path);
        match failed {
            None => directory.sync(),
            Some(fates) => directory.sync_failed(fates),
        }
        let directory = &self.directories[path];
        // Files that were removed before this are gone for good.
        self.inodes
            .retain(|id, inode| !inode.released || split(&inode.path).0 != path || directory.may_hold(*id));
    }

    pub(super) fn directory_mut(&mut self, path: &str) -> &mut Directory {
        self.directories.get_mut(path).expect("the caller has looked it up")
    }

    // ---- bytes -----------------------------------------------------------------------------------------------

    pub(super) fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[&id]
    }

    pub(super) fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        self.inodes.get_mut(&id).expect("a file is kept while it has a name or a handle")
    }

    pub(super) fn change(&mut self, id: InodeId, change: Change, durability: Durability) {
        let inode = self.inode_mut(id);
        let before = inode.current.allocated_bytes();
        inode.change(change, durability);
        let after = inode.current.allocated_bytes();
        self.allocated = self.allocated + after - before;
    }

    /// Changes bytes of a file through a mapping. No call, so it cannot fail; without power there is nobody to do it.
    pub(super) fn change_mapped(&mut self, id: InodeId, offset: u64, bytes: &[u8]) {
        if self.crashed || bytes.is_empty() {
            return;
        }
        let State { random, inodes, allocated, .. } = self;
        let inode = inodes.get_mut(&id).expect("a file is kept while it has a name or a handle");
        let before = inode.current.allocated_bytes();
        inode.change_mapped(offset, bytes, random);
        *allocated = *allocated + inode.current.allocated_bytes() - before;
    }

    /// A sync of a file fails: some of what was pending is durable, and nothing else ever will be.
    pub(super) fn fail_sync(&mut self, id: InodeId) {
        let (mut fates, forgets) = (self.own_fates(), self.forgets_unsynced);
        let inode = self.inode_mut(id);
        let before = inode.current.allocated_bytes();
        inode.sync_failed(&mut fates, forgets);
        let after = inode.current.allocated_bytes();
        self.allocated = self.allocated + after - before;
    }

    /// Refuses to allocate more than the capacity.
    pub(super) fn check_space(&self, id: InodeId, range: Range<u64>) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let missing = self.inode(id).current.missing_blocks(range) * BLOCK_BYTES;
        if missing > 0 && self.allocated + missing > capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// The fates of a failing call, drawn from the disk's own seed.
    pub(super) fn own_fates(&mut self) -> Fates {
        Fates::new(PowerLoss::Random(self.random.next_u64()))
    }

    // ---- copies ----------------------------------------------------------------------------------------------

    /// What is there when the power comes back.
    pub(super) fn after_power_loss(&self, mut fates: Fates) -> State {
        let mut after = State::new(self.random.clone().next_u64());
        after.capacity = self.capacity;
        after.forgets_unsynced = self.forgets_unsynced;
        after.next_inode = self.next_inode;
        for (path, directory) in &self.directories {
            fates.enter(&Place::Directory(path.clone()));
            let is_kept = directory.is_durable || fates.keeps_name();
            if !is_kept || !after.directories.contains_key(split(path).0) {
                continue;
            }
            let names = directory.surviving(&mut fates);
            for (name, &id) in &names {
                fates.enter(&Place::File(id));
                let content = self.inode(id).surviving(&mut fates);
                after.allocated += content.allocated_bytes();
                after.inodes.insert(id, Inode::with_content(join(path, name).into(), content));
            }
            after.directories.insert(path.clone(), Directory::with_names(names));
        }
        after
    }

    /// Where a power loss makes a difference, and of how many parts each change there consists: the order in which
    /// `after_power_loss` asks for their fates.
    pub(super) fn pending_parts(&self, border_bytes: u64) -> Vec<(Place, Vec<usize>)> {
        let mut places = Vec::new();
        let mut files = BTreeSet::new();
        for (path, directory) in &self.directories {
            let changes = usize::from(!directory.is_durable) + directory.pending_changes();
            places.push((Place::Directory(path.clone()), vec![1; changes]));
            files.extend(directory.possible_files());
        }
        for id in files {
            places.push((Place::File(id), self.inode(id).pending_parts(border_bytes)));
        }
        places.retain(|(_, changes)| !changes.is_empty());
        places
    }

    /// Tells states that this one may be in after a power loss apart: by names, lengths, and bytes where there may be others.
    pub(super) fn fingerprint(&self, after: &State) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, directory) in &after.directories {
            (path, &directory.names).hash(&mut hasher);
        }
        for (id, inode) in &after.inodes {
            let Some(blocks) = self.inode(*id).pending_blocks() else { continue };
            inode.current.length().hash(&mut hasher);
            let mut bytes = [0; BLOCK_LENGTH];
            for block in blocks {
                inode.current.read(&mut bytes, block * BLOCK_BYTES);
                bytes.hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// The same files and pending changes, with nothing open, locked, counted or failing.
    pub(super) fn copy(&self) -> State {
        let mut copy = State::new(0);
        copy.random = self.random.clone();
        copy.capacity = self.capacity;
        copy.forgets_unsynced = self.forgets_unsynced;
        copy.next_inode = self.next_inode;
        copy.directories = self.directories.clone();
        copy.inodes = self.inodes.clone();
        copy.allocated = self.allocated;
        let open: Vec<InodeId> =
            copy.inodes.iter().filter(|(_, inode)| inode.handles > 0).map(|(&id, _)| id).collect();
        for id in open {
            copy.inode_mut(id).handles = 0;
            copy.release(id);
        }
        copy
    }
}

/// Lets a call take its time, if it is a slow one. Nobody else waits for it: the disk is not locked meanwhile.
pub(super) fn pass_time(shared: &Mutex<State>, operation: Operation, path: &str, to: Option<&str>) {
    let waits = {
        let state = &mut *shared.lock();
        let call = operation.is_counted().then_some(state.calls);
        state.delays.of(operation, [path, to.unwrap_or(path)], call)
    };
    waits.into_iter().for_each(Wait::wait);
}

fn power_lost(operation: Operation, path: &str) -> io::Error {
    DiskError::wrap(operation.verb(), path, io::Error::other("power lost"))
}

/// The directory and the name of a path.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
