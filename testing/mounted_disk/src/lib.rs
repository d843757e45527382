//! A simulated disk that real processes use: mounted with FUSE, it loses power under them. Used by tests only.
//!
//! ```text
//!   process --- system calls ---> kernel --- FUSE ---> Front ---> SimulatedDisk --> after_power_loss
//! ```
//! Invariants:
//! * No code of the project lies between the process and the kernel: open flags, direct and vectored writes, `RWF_DSYNC`,
//!   `fallocate`, mappings and locks are those of the system.
//! * The model of the power loss is the one of [`SimulatedDisk`].
//!
//! Start at [`MountedDisk`], or at [`files_after_power_loss`] for a test of a few files.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod fuse;
#[cfg(target_os = "linux")]
mod inodes;
#[cfg(target_os = "linux")]
mod linux;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use seawall_simulation::{PowerLoss, SimulatedDisk};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{MountedDisk, enter_own_mounts};
#[cfg(target_os = "linux")]
pub use linux::{MountedDisk, enter_own_mounts};

/// A promise that the mounted disk breaks, to show that a test notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// None: the disk is sound.
    #[default]
    None,
    /// Some syncs of files and directories succeed and make nothing durable.
    LoseSyncs {
        /// One of so many syncs is lost.
        one_in: u64,
    },
    /// Some syncs of directories succeed and make nothing durable.
    LoseDirectorySyncs {
        /// One of so many syncs is lost.
        one_in: u64,
    },
}

/// How many requests of each kind a mounted disk has had.
pub type RequestCounts = BTreeMap<&'static str, u64>;

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

/// The files that a power loss leaves when `work` has written files below the directory it is given: what was synced, and
/// nothing else. For tests of code that calls the operating system instead of [`seawall_io::Disk`].
///
/// # Errors
/// If this machine cannot mount a disk.
///
/// # Panics
/// If the disk cannot be unmounted, as while `work` has left a file open.
pub fn files_after_power_loss(work: impl FnOnce(&Path)) -> Result<SimulatedDisk, MountError> {
    let unavailable = |source| MountError::Unavailable { path: std::env::temp_dir(), source };
    let directory = tempfile::tempdir().map_err(unavailable)?;
    let disk = SimulatedDisk::new(1);
    let mounted = MountedDisk::new(disk.clone(), directory.path(), Lie::None, || ())?;
    work(directory.path());
    let left = disk.after_power_loss(PowerLoss::LoseAll);
    mounted
        .unmount()
        .unwrap_or_else(|error| panic!("cannot unmount {}: {error}", directory.path().display()));
    Ok(left)
}
