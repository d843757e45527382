//! Databases that are loaded once and only read, shared by the cells that read them.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use super::Cell;
use crate::engine::{Durability, Settings};
use crate::error::{BenchError, file_error};
use crate::rows::{Order, RowSource};

/// Settings of a database that holds every row of the cell and is closed.
pub(super) fn prepare(cell: &Cell) -> Result<Settings, BenchError> {
    let name = format!("{}-{}x{}", cell.engine.name(), cell.rows, cell.value_bytes);
    let directory = cell.prepared.join(&name);
    let marker = cell.prepared.join(format!("{name}.loaded"));
    // Every cell of a table is closed cleanly, so that reading does not measure a recovery.
    let settings = Settings { directory, ..cell.settings(Durability::Buffered) };
    if marker.exists() {
        return Ok(settings);
    }
    // What an interrupted load left, if anything.
    if settings.directory.exists() {
        fs::remove_dir_all(&settings.directory).map_err(file_error("remove", &settings.directory))?;
    }
    fs::create_dir_all(&settings.directory).map_err(file_error("create", &settings.directory))?;
    let engine = cell.engine.open(&settings)?;
    engine.bulk_load(&mut RowSource::new(cell.keys(), cell.value_bytes, Order::Sorted, cell.seed))?;
    engine.close()?;
    fs::write(&marker, "").map_err(file_error("write", &marker))?;
    Ok(settings)
}

/// Drops every file below `directory` from the page cache.
pub(super) fn drop_page_cache(directory: &Path) -> Result<(), BenchError> {
    for path in files(directory)? {
        let file = OpenOptions::new().read(true).open(&path).map_err(file_error("open", &path))?;
        // Dirty pages stay in the cache whatever the advice.
        file.sync_all().map_err(file_error("sync", &path))?;
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|errno| file_error("drop from the page cache", &path)(errno.into()))?;
    }
    Ok(())
}

/// Bytes of all files below `directory`.
pub(super) fn size(directory: &Path) -> Result<u64, BenchError> {
    files(directory)?.iter().try_fold(0, |sum, path| {
        let metadata = fs::metadata(path).map_err(file_error("look at", path))?;
        Ok(sum + metadata.len())
    })
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let mut files = Vec::new();
    let mut folders = vec![directory.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(file_error("list", &folder))? {
            let path = entry.map_err(file_error("list", &folder))?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_are_found_and_dropped() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("one"), [1; 100]).unwrap();
        fs::write(directory.path().join("inner/two"), [2; 50]).unwrap();
        drop_page_cache(directory.path()).unwrap();
        assert_eq!(size(directory.path()).unwrap(), 150);
        assert!(drop_page_cache(&directory.path().join("absent")).is_err());
    }
}
