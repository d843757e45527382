//! The folder for one table's databases.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, file_error};

/// Gone when it ends, also by an error.
pub(crate) struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    pub(crate) fn create(parent: &Path) -> Result<Scratch, BenchError> {
        fs::create_dir_all(parent).map_err(file_error("create", parent))?;
        // The program may be started from elsewhere than the child's directory.
        let parent = parent.canonicalize().map_err(file_error("resolve", parent))?;
        let directory = parent.join(format!("seawall-bench-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(file_error("create", &directory))?;
        Ok(Scratch { directory })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn remove(self) -> Result<(), BenchError> {
        fs::remove_dir_all(&self.directory).map_err(file_error("remove", &self.directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.directory.exists()
            && let Err(error) = fs::remove_dir_all(&self.directory)
        {
            eprintln!("{} is left behind: {error}", self.directory.display());
        }
    }
}
