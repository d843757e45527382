//! On other systems no disk can be mounted.

use std::io;
use std::path::Path;

use seawall_simulation::SimulatedDisk;

use crate::{Lie, MountError, RequestCounts};

/// Never made here.
#[derive(Debug)]
pub struct MountedDisk {}

impl MountedDisk {
    /// Always fails here.
    ///
    /// # Errors
    /// [`MountError::Unavailable`].
    pub fn new(
        _disk: SimulatedDisk,
        path: &Path,
        _lie: Lie,
        _on_power_loss: impl FnOnce() + Send + 'static,
    ) -> Result<MountedDisk, MountError> {
        Err(MountError::Unavailable { path: path.to_owned(), source: io::ErrorKind::Unsupported.into() })
    }

    /// Never called: no disk is mounted here.
    ///
    /// # Errors
    /// None.
    pub fn unmount(self) -> io::Result<RequestCounts> {
        Ok(RequestCounts::new())
    }
}

/// Does nothing here.
pub fn enter_own_mounts() {}
