//! The kernel's requests, answered by a [`SimulatedDisk`].
//!
//! ```text
//!   real process --system calls--> kernel: page cache, mappings --FUSE requests--> here --> SimulatedDisk
//! ```
//! What is where when the power goes:
//! * A `write` goes through the page cache to the disk at once (no `FUSE_WRITEBACK_CACHE`), where it waits for a sync
//!   like any write of a simulated disk: each request may be kept, lost or torn.
//! * A direct write (`O_DIRECT`) comes here past the page cache; `RWF_DSYNC` follows it with a sync request.
//! * What a process stores into a shared mapping is in the kernel's page cache only, until the kernel writes the page
//!   back: when asked (`sync_file_range`), at a sync, or when the mapping ends. The power takes what was not written
//!   back; the end of the process does not. Each page that is written back is a write like any other, so that after a
//!   power loss a page can be as it was at any such moment, torn or not: what `SharedMapping` says, by the kernel
//!   that does it.
//! * The kernel may answer from its cache for ever: nobody but it changes these files while they are mounted.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno as SystemErrno;
use seawall_io::{Disk, DiskFile, OpenMode, raw_os_error};
use seawall_simulation::SimulatedDisk;

use crate::inodes::{Inodes, Node};
use crate::{Lie, RequestCounts};

/// The kernel need not ask again: only through it these files change.
const FOREVER: Duration = Duration::from_secs(1 << 30);
const GENERATION: Generation = Generation(0);
/// No handle is needed where the number says it all.
const NO_HANDLE: FileHandle = FileHandle(0);
const BLOCK_BYTES: u32 = 4096;

/// A listing as it was when the directory was opened.
type Listing = Vec<(String, FileType)>;

pub(crate) struct Front {
    disk: SimulatedDisk,
    lie: Lie,
    inodes: Mutex<Inodes>,
    listings: Mutex<HashMap<u64, Listing>>,
    next_listing: AtomicU64,
    syncs: AtomicU64,
    requests: Arc<Mutex<RequestCounts>>,
    /// Called once, when the power is found gone.
    on_power_loss: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Front {
    pub(crate) fn new(disk: SimulatedDisk, lie: Lie, on_power_loss: Box<dyn FnOnce() + Send>) -> Front {
        Front {
            disk,
            lie,
            inodes: Mutex::new(Inodes::new()),
            listings: Mutex::new(HashMap::new()),
            next_listing: AtomicU64::new(1),
            syncs: AtomicU64::new(0),
            requests: Arc::new(Mutex::new(RequestCounts::new())),
            on_power_loss: Mutex::new(Some(on_power_loss)),
        }
    }

    /// Counted while the disk is mounted.
    pub(crate) fn requests(&self) -> Arc<Mutex<RequestCounts>> {
        self.requests.clone()
    }

    fn count(&self, request: &'static str) {
        *self.requests.lock().entry(request).or_default() += 1;
    }

    /// Whether this sync is one of those that are lost.
    fn loses_sync(&self, of_directory: bool) -> bool {
        let one_in = match self.lie {
            Lie::None => return false,
            Lie::LoseDirectorySyncs { .. } if !of_directory => return false,
            Lie::LoseSyncs { one_in } | Lie::LoseDirectorySyncs { one_in } => one_in,
        };
        // Only counts: nothing else is ordered by it.
        self.syncs.fetch_add(1, Ordering::Relaxed) % one_in == one_in - 1
    }

    /// The result of a request, as the kernel wants it; tells who waits for it that the power is gone.
    fn answer<T>(&self, result: io::Result<T>) -> Result<T, Errno> {
        result.map_err(|error| {
            if self.disk.crashed()
                && let Some(tell) = self.on_power_loss.lock().take()
            {
                tell();
            }
            errno_of(&error)
        })
    }

    fn attributes(&self, number: u64, node: &Node) -> io::Result<FileAttr> {
        let (kind, size) = match node {
            Node::Directory { .. } => (FileType::Directory, 0),
            Node::File(file) => (FileType::RegularFile, file.length()?),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm: if kind == FileType::Directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn look_up(&self, parent: u64, name: &OsStr) -> io::Result<FileAttr> {
        let mut inodes = self.inodes.lock();
        let path = inodes.child(parent, text(name)?)?;
        let (number, node) = inodes.look_up(&self.disk, &path)?;
        self.attributes(number, &node)
    }

    fn create_file(&self, parent: u64, name: &OsStr, flags: i32) -> io::Result<FileAttr> {
        let mut inodes = self.inodes.lock();
        let path = inodes.child(parent, text(name)?)?;
        let is_exclusive = flags & OFlags::EXCL.bits().cast_signed() != 0;
        let (number, node) = match self.disk.open(&path, OpenMode::Create) {
            Ok(file) => inodes.add(&path, Node::File(file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !is_exclusive => {
                inodes.look_up(&self.disk, &path)?
            }
            Err(error) => return Err(error),
        };
        self.attributes(number, &node)
    }

    fn create_directory(&self, parent: u64, name: &OsStr) -> io::Result<FileAttr> {
        let mut inodes = self.inodes.lock();
        let path = inodes.child(parent, text(name)?)?;
        // The disk takes a directory that exists for made, as the engine likes it; the kernel does not.
        match self.disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create_directory(&path)?,
            Err(error) if error.kind() != io::ErrorKind::IsADirectory => return Err(error),
            Ok(_) | Err(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        let (number, node) = inodes.add(&path, Node::Directory { path: path.clone() });
        self.attributes(number, &node)
    }

    fn remove_file(&self, parent: u64, name: &OsStr) -> io::Result<()> {
        let mut inodes = self.inodes.lock();
        self.count("removals");
        let path = inodes.child(parent, text(name)?)?;
        self.disk.remove(&path)?;
        inodes.removed(&path);
        Ok(())
    }

    fn rename_file(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> io::Result<()> {
        if !flags.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if from.0 != to.0 {
            return Err(SystemErrno::XDEV.into());
        }
        self.count("renames");
        let mut inodes = self.inodes.lock();
        let (from, to) = (inodes.child(from.0, text(from.1)?)?, inodes.child(to.0, text(to.1)?)?);
        self.disk.rename(&from, &to)?;
        inodes.renamed(&from, &to);
        Ok(())
    }

    fn file(&self, number: INodeNo) -> io::Result<Arc<dyn DiskFile>> {
        self.inodes.lock().file(number.0)
    }

    fn read_up_to(&self, number: INodeNo, offset: u64, bytes: u32) -> io::Result<Vec<u8>> {
        let file = self.file(number)?;
        loop {
            let left = file.length()?.saturating_sub(offset).min(u64::from(bytes));
            let mut buffer = vec![0; usize::try_from(left).expect("at most what a request asks for")];
            match file.read_exact_at(&mut buffer, offset) {
                // Cut since its length was asked for.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                result => return result.map(|()| buffer),
            }
        }
    }

    fn allocate(&self, number: INodeNo, offset: u64, bytes: u64, mode: i32) -> io::Result<()> {
        let file = self.file(number)?;
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        if mode == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE {
            self.count("holes");
            return file.punch_hole(offset, bytes).map(|_| ());
        }
        if !mode.is_empty() {
            return Err(SystemErrno::OPNOTSUPP.into());
        }
        self.count("preallocations");
        // Space does not run out here, so all that is left of it is the length.
        let end = offset.saturating_add(bytes);
        if end > file.length()? { file.set_length(end) } else { Ok(()) }
    }

    fn list(&self, directory: u64) -> io::Result<Listing> {
        let path = self.inodes.lock().directory(directory)?;
        let files = self.disk.list(&path)?.into_iter().map(|entry| (entry.name, FileType::RegularFile));
        let folders = self.disk.list_directories(&path).into_iter().map(|name| (name, FileType::Directory));
        let dots = [".", ".."].map(|name| (name.to_owned(), FileType::Directory));
        Ok(dots.into_iter().chain(folders).chain(files).collect())
    }

    fn sync_file(&self, number: INodeNo) -> io::Result<()> {
        self.count("syncs");
        let file = self.file(number)?;
        // A disk without power does not even lie.
        if self.loses_sync(false) { file.length().map(|_| ()) } else { file.sync_data() }
    }

    fn sync_directory(&self, number: INodeNo) -> io::Result<()> {
        self.count("directory syncs");
        let path = self.inodes.lock().directory(number.0)?;
        if self.loses_sync(true) {
            self.disk.list(&path).map(|_| ())
        } else {
            self.disk.sync_directory(&path)
        }
    }
}

fn text(name: &OsStr) -> io::Result<&str> {
    name.to_str().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn errno_of(error: &io::Error) -> Errno {
    if let Some(number) = raw_os_error(error) {
        return Errno::from_i32(number);
    }
    match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::AlreadyExists => Errno::EEXIST,
        io::ErrorKind::IsADirectory => Errno::EISDIR,
        io::ErrorKind::NotADirectory => Errno::ENOTDIR,
        io::ErrorKind::InvalidInput => Errno::EINVAL,
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        io::ErrorKind::FileTooLarge => Errno::EFBIG,
        // Among them "power lost".
        _ => Errno::EIO,
    }
}

impl Filesystem for Front {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A directory's listing and its files' creation need not wait for each other; refused by old kernels, no harm.
        config.add_capabilities(fuser::InitFlags::FUSE_PARALLEL_DIROPS).unwrap_or(());
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.answer(self.look_up(parent.0, name)) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, GENERATION),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _request: &Request, number: INodeNo, count: u64) {
        self.inodes.lock().forget(number.0, count);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let node = self.inodes.lock().node(number.0);
        match self.answer(node.and_then(|node| self.attributes(number.0, &node))) {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _owner: Option<u32>,
        _group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _checked: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let cut = size.map_or(Ok(()), |size| self.file(number)?.set_length(size));
        let node = cut.and_then(|()| self.inodes.lock().node(number.0));
        match self.answer(node.and_then(|node| self.attributes(number.0, &node))) {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        match self.answer(self.create_directory(parent.0, name)) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, GENERATION),
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        finish(reply, self.answer(self.remove_file(parent.0, name)));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.rename_file((parent.0, name), (new_parent.0, new_name), flags);
        finish(reply, self.answer(renamed));
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.answer(self.file(number)) {
            // The cache stays: what a killed process stored into a mapping is in it.
            Ok(_) => reply.opened(NO_HANDLE, FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.answer(self.create_file(parent.0, name, flags)) {
            Ok(attributes) => {
                reply.created(&FOREVER, &attributes, GENERATION, NO_HANDLE, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.answer(self.read_up_to(number, offset, bytes)) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.count(if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            "pages written back"
        } else if OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::DIRECT) {
            "direct writes"
        } else {
            "writes through the cache"
        });
        let written = self.file(number).and_then(|file| file.write_all_at(bytes, offset));
        match self.answer(written) {
            Ok(()) => reply.written(u32::try_from(bytes.len()).expect("a request is at most 16 MiB long")),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        finish(reply, self.answer(self.sync_file(number)));
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.answer(self.list(number.0)) {
            Ok(listing) => {
                // Pairs with nothing: only unique numbers are asked of it.
                let handle = self.next_listing.fetch_add(1, Ordering::Relaxed);
                self.listings.lock().insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = self.listings.lock();
        let listing = listings.get(&handle.0).map_or(&[][..], Vec::as_slice);
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for ((name, kind), next) in listing.iter().skip(skipped).zip(offset + 1..) {
            // The number is for show: the kernel looks names up before it uses them.
            if reply.add(INodeNo(u64::MAX), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        finish(reply, self.answer(self.sync_directory(number)));
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        let (blocks, files) = (1 << 30, 1 << 20);
        reply.statfs(blocks, blocks, blocks, files, files, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        finish(reply, self.answer(self.allocate(number, offset, bytes, mode)));
    }
}

fn finish(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
