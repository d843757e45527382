//! The mounted disk on Linux: a FUSE file system that this process serves.

use std::io;
use std::path::Path;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption};
use parking_lot::Mutex;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use seawall_simulation::SimulatedDisk;

use crate::fuse::Front;
use crate::{Lie, MountError, RequestCounts};

/// Requests answered at once: a sync must not wait for a read. The simulated disk has one mutex anyway.
const THREADS: usize = 3;

/// A disk that other processes use through the kernel. Dropping it unmounts it.
#[derive(Debug)]
pub struct MountedDisk {
    session: BackgroundSession,
    requests: Arc<Mutex<RequestCounts>>,
}

impl MountedDisk {
    /// Mounts `disk` on the empty directory `path`. Calls `on_power_loss` once, when a request finds the power gone.
    ///
    /// # Errors
    /// If this process may not mount a FUSE file system there.
    pub fn new(
        disk: SimulatedDisk,
        path: &Path,
        lie: Lie,
        on_power_loss: impl FnOnce() + Send + 'static,
    ) -> Result<MountedDisk, MountError> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("seawall-torture".to_owned())];
        config.n_threads = Some(THREADS);
        let front = Front::new(disk, lie, Box::new(on_power_loss));
        let requests = front.requests();
        let session = fuser::spawn_mount(front, path, &config)
            .map_err(|source| MountError::Unavailable { path: path.to_owned(), source })?;
        Ok(MountedDisk { session, requests })
    }

    /// Unmounts the disk and returns the requests that it has had.
    ///
    /// # Errors
    /// Those of the system, as while a process has a file of the disk open.
    pub fn unmount(self) -> io::Result<RequestCounts> {
        match self.session.umount_and_join() {
            // It is unmounted: a thread of the session was about to ask for a request, and hears that the kernel has ended the connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            unmounted => unmounted?,
        }
        Ok(std::mem::take(&mut *self.requests.lock()))
    }
}

/// Gives this process and its children mounts of their own, which end with the last of them, however it ends. Where the
/// system does not allow that, other processes see the mounts, and somebody has to unmount the one that a kill leaves.
#[expect(unsafe_code, reason = "the call asks for it since other flags could break threads that run already")]
pub fn enter_own_mounts() {
    // SAFETY: the mounts that the calling thread sees are nothing that other threads' memory depends on.
    let own = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    if own.and_then(|()| mount_change("/", private)).is_err() {
        eprintln!("no name space of its own for mounts: other processes see them");
    }
}
