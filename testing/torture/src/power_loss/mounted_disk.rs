//! A simulated disk, mounted where any process can use it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use seawall_simulation::SimulatedDisk;

/// A promise that the mounted disk breaks: what the chamber must notice, or it could notice nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A disk as it should be.
    #[default]
    None,
    /// One of so many syncs, of files and directories, makes nothing durable and says that it has.
    LoseSyncs { one_in: u64 },
    /// The same of directories only.
    LoseDirectorySyncs { one_in: u64 },
}

/// How many requests of each kind a disk has had.
pub(crate) type RequestCounts = BTreeMap<&'static str, u64>;

/// Why no disk could be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The system has no FUSE, or this process may not use it.
    #[error(
        "cannot mount a FUSE file system on {}: {source}; it needs Linux, /dev/fuse and the right to mount (root, or \
         fusermount3)", path.display()
    )]
    Unavailable {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

pub(crate) use system::{MountedDisk, enter_own_mounts};

#[cfg(target_os = "linux")]
mod system {
    use std::sync::Arc;

    use fuser::{BackgroundSession, Config, MountOption};
    use parking_lot::Mutex;
    use rustix::mount::{MountPropagationFlags, mount_change};
    use rustix::thread::{UnshareFlags, unshare_unsafe};

    use super::super::fuse::Front;
    use super::*;

    /// Requests answered at once: a sync must not wait for a read. The simulated disk has one mutex anyway.
    const THREADS: usize = 3;

    /// Mounted until dropped.
    pub(crate) struct MountedDisk {
        session: BackgroundSession,
        requests: Arc<Mutex<RequestCounts>>,
    }

    impl MountedDisk {
        /// Mounts `disk` on the empty directory `path`. `on_power_loss` is called once, when a request finds the power
        /// gone.
        pub(crate) fn new(
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

        /// Takes the disk away; what it was asked for. Nobody may have a file of it open.
        pub(crate) fn unmount(self) -> io::Result<RequestCounts> {
            self.session.umount_and_join()?;
            Ok(std::mem::take(&mut *self.requests.lock()))
        }
    }

    /// From now on what this process and those it starts mount is seen by them alone, and gone when the last of them
    /// ends, however it ends. Where that is not allowed, mounts are seen by all, and one that a kill leaves has to be
    /// unmounted by hand.
    #[expect(
        unsafe_code,
        reason = "the call asks for it since other flags could break threads that run already"
    )]
    pub(crate) fn enter_own_mounts() {
        // SAFETY: the mounts that the calling thread sees are nothing that other threads' memory depends on.
        let own = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
        let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        if own.and_then(|()| mount_change("/", private)).is_err() {
            eprintln!("no name space of its own for mounts: other processes see them");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::*;

    /// Mounted until dropped.
    pub(crate) struct MountedDisk {}

    impl MountedDisk {
        pub(crate) fn new(
            _disk: SimulatedDisk,
            path: &Path,
            _lie: Lie,
            _on_power_loss: impl FnOnce() + Send + 'static,
        ) -> Result<MountedDisk, MountError> {
            Err(MountError::Unavailable { path: path.to_owned(), source: io::ErrorKind::Unsupported.into() })
        }

        pub(crate) fn unmount(self) -> io::Result<RequestCounts> {
            Ok(RequestCounts::new())
        }
    }

    pub(crate) fn enter_own_mounts() {}
}
