//! A file that takes its place when it is whole: what is there before stays until then.
//!
//! ```text
//!   .seawall-get-PROCESS-NUMBER  --rename--> the path    in the directory of the path: only a rename within one file
//!                                                        system replaces a file at once
//! ```
//! An agent that is killed leaves such a file. The next one that fetches into that directory removes it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::log_line::log_line;
use crate::regular;
use seawall_archive::ContentSink;

/// What files are called that are being fetched beside their place.
const PREFIX: &str = ".seawall-get-";
/// A file that nobody has written to for so long is not being fetched.
const LEFT_AFTER: Duration = Duration::from_secs(60 * 60);

/// A file that is written anew, and takes its place when it is whole. Dropped before, it is removed.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: File,
    path: PathBuf,
    place: PathBuf,
    is_empty: bool,
    is_in_place: bool,
}

impl Replacement {
    /// A file for `target`.
    pub(crate) fn beside(target: &Path) -> io::Result<Replacement> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let place = place_of(target)?;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::SeqCst);
            let path = place.with_file_name(format!("{PREFIX}{}-{number}", std::process::id()));
            match regular::create_new(&path) {
                Ok(file) => return Ok(Replacement { file, path, place, is_empty: true, is_in_place: false }),
                // Of another machine, on a file system that both have, or of a process that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts the file in its place, and in the place of what is there.
    pub(crate) fn put_in_place(mut self) -> io::Result<()> {
        rustix::fs::rename(&self.path, &self.place)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.is_in_place {
            return;
        }
        if let Err(error) = rustix::fs::unlink(&self.path) {
            log_line!("cannot remove {}: {error}", self.path.display());
        }
    }
}

impl ContentSink for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.is_empty = false;
        self.file.write_all(bytes)
    }

    /// Every fetch begins so. A file that was cut to nothing is written to the disk when it is closed (ext4 takes it for one whose
    /// content is being replaced), and this one will be gone before anybody needs it there: so it is cut only if there is something.
    fn restart(&mut self) -> io::Result<()> {
        if self.is_empty {
            return Ok(());
        }
        self.is_empty = true;
        self.file.set_len(0)?;
        self.file.rewind()
    }
}

/// Where a file is put that is asked for at `target`: where a link leads, as for whoever writes to it. What is there stays for now.
///
/// # Errors
/// `InvalidInput` for a pipe, a device or a directory: a rename would replace it.
pub(crate) fn place_of(target: &Path) -> io::Result<PathBuf> {
    match std::fs::metadata(target) {
        Ok(metadata) if metadata.is_file() => std::fs::canonicalize(target),
        Ok(_) => Err(regular::irregular()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(target.to_owned()),
        Err(error) => Err(error),
    }
}

/// Removes what agents that were killed have left in `directory`.
pub(crate) fn remove_left(directory: &Path, now_micros: i64) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !is_being_fetched(&entry.file_name()) {
            continue;
        }
        // It may have got its place meanwhile.
        let is_left = entry.metadata().is_ok_and(|metadata| {
            let unused = now_micros / 1_000_000 - metadata.mtime();
            metadata.is_file() && u64::try_from(unused).is_ok_and(|seconds| seconds >= LEFT_AFTER.as_secs())
        });
        if is_left {
            rustix::fs::unlink(entry.path())?;
        }
    }
    Ok(())
}

/// Whether `name` is one that `Replacement::beside` gives.
fn is_being_fetched(name: &OsStr) -> bool {
    let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|text| text.split_once('-'))
        .is_some_and(|(process, number)| is_number(process) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_in_the_place_of_a_file_stays_until_the_file_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        std::fs::write(&target, b"before").unwrap();
        let mut given_up = Replacement::beside(&target).unwrap();
        given_up.write(b"half").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read(&target).unwrap(), b"before");
        let mut sink = Replacement::beside(&target).unwrap();
        sink.write(b"damaged").unwrap();
        sink.restart().unwrap();
        sink.write(b"whole").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"before");
        sink.put_in_place().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"whole");
        assert_eq!(names(directory.path()), ["target"]);
    }

    #[test]
    fn what_a_killed_agent_has_left_is_removed_when_it_is_old() {
        let directory = tempfile::tempdir().unwrap();
        for name in [".seawall-get-77-0", ".seawall-get-77", ".seawall-get-77-0x", "000000010000000000000001"]
        {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        let written = std::fs::metadata(directory.path().join(".seawall-get-77-0")).unwrap().mtime();
        let hour = i64::try_from(LEFT_AFTER.as_secs()).unwrap();
        remove_left(directory.path(), (written + hour - 1) * 1_000_000).unwrap();
        assert_eq!(names(directory.path()).len(), 4, "it may be under way");
        remove_left(directory.path(), (written + hour) * 1_000_000).unwrap();
        assert_eq!(
            names(directory.path()),
            [".seawall-get-77", ".seawall-get-77-0x", "000000010000000000000001"]
        );
    }
}
