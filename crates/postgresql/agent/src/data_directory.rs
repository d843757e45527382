//! What the agent needs to know of PostgreSQL's data directory.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use seawall_archive::{LogFileName, Lsn, System, TimelineId};
use seawall_codec::checksum::Crc64;

use crate::regular;

/// In each data directory, and first in it: whose it is.
const CONTROL_FILE: &str = "global/pg_control";
/// Histories are short.
const HISTORY_BYTES_MAX: u64 = 1 << 20;

/// A data directory of PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
}

/// The full name of the data directory that a command is about: the one that is named, else the first one above `path`, else the
/// current directory. `pg_rewind`, Patroni and people run `restore_command` elsewhere than PostgreSQL does, perhaps in the data
/// directory of another cluster.
///
/// # Errors
/// With what is missing, and what to do.
pub(crate) fn find(named: Option<&Path>, path: Option<&Path>) -> Result<PathBuf, String> {
    let is_data = |directory: &Path| directory.join(CONTROL_FILE).exists();
    if let Some(named) = named {
        let cannot = |error| format!("cannot look at --data-directory {}: {error}", named.display());
        return std::fs::canonicalize(named).map_err(cannot);
    }
    let here =
        std::env::current_dir().map_err(|error| format!("cannot look at the current directory: {error}"))?;
    let Some(path) = path.map(|path| here.join(path)) else { return Ok(here) };
    let above = path.ancestors().skip(1).find(|directory| is_data(directory));
    let above = above.or_else(|| Some(&*here).filter(|here| is_data(here))).ok_or_else(|| {
        format!(
            "no data directory: there is no {CONTROL_FILE} in {}, nor in any directory above {}; run this in PostgreSQL's data directory, \
             or name it with --data-directory",
            here.display(),
            path.display()
        )
    })?;
    std::fs::canonicalize(above).map_err(|error| format!("cannot look at {}: {error}", above.display()))
}

/// Name of the spool for the data directory with this full name. The number of its file system is no part of that: with many file
/// systems it is another one after each start of the machine, and what the spool remembers would be forgotten.
pub(crate) fn spool_name(full: &Path) -> String {
    let mut checksum = Crc64::new();
    checksum.update(full.as_os_str().as_bytes());
    format!("{:016x}", checksum.finish())
}

impl DataDirectory {
    pub(crate) fn new(path: PathBuf) -> DataDirectory {
        DataDirectory { path }
    }

    /// The full path of one that PostgreSQL gives, from the data directory on.
    pub(crate) fn full(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// Whose it is: the first eight bytes of `global/pg_control`, in every release.
    pub(crate) fn system(&self) -> io::Result<System> {
        let mut identifier = [0; 8];
        regular::open(&self.path.join(CONTROL_FILE))?.read_exact(&mut identifier)?;
        Ok(System::PostgreSql(u64::from_le_bytes(identifier)))
    }

    /// How long a file is, and how many seconds ago it was written to by this machine's clock.
    pub(crate) fn bytes_and_age(&self, path: &str) -> Option<(u64, u64)> {
        let metadata = std::fs::metadata(self.full(path)).ok()?;
        let changed = metadata.modified().ok()?;
        Some((metadata.len(), changed.elapsed().unwrap_or_default().as_secs()))
    }

    /// Whether the directory is still there.
    pub(crate) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Where PostgreSQL says which files are to be archived.
    pub(crate) fn archive_status(&self) -> PathBuf {
        self.path.join("pg_wal/archive_status")
    }

    /// The files that wait to be archived: histories first, then by name, as PostgreSQL does it.
    pub(crate) fn ready(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.archive_status()) {
            // Somebody archives by hand, or this is no data directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".ready"));
            names.extend(name.filter(|name| LogFileName::parse(name).is_some()).map(str::to_owned));
        }
        names.sort_by_cached_key(|name| (!name.ends_with(".history"), name.clone()));
        Ok(names)
    }

    /// Where `timeline` was left, if a history beside the segments says so.
    pub(crate) fn fork_of(&self, timeline: TimelineId) -> io::Result<Option<Lsn>> {
        for entry in std::fs::read_dir(self.path.join("pg_wal"))? {
            let entry = entry?;
            let name = entry.file_name();
            let history = name.to_str().and_then(LogFileName::parse);
            if !matches!(history, Some(LogFileName::History(newer)) if newer > timeline) {
                continue;
            }
            if let Some(fork) = fork_in(&entry.path(), timeline)? {
                return Ok(Some(fork));
            }
        }
        Ok(None)
    }
}

fn fork_in(path: &Path, timeline: TimelineId) -> io::Result<Option<Lsn>> {
    let mut text = String::new();
    regular::open(path)?.take(HISTORY_BYTES_MAX).read_to_string(&mut text)?;
    let fork = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let parent: u32 = fields.next()?.parse().ok()?;
        let fork: Lsn = fields.next()?.parse().ok()?;
        (parent == timeline.get()).then_some(fork)
    };
    Ok(text.lines().find_map(fork))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_listed_histories_first() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(directory.path().to_owned());
        assert_eq!(data.ready().unwrap(), Vec::<String>::new());
        let status = data.archive_status();
        std::fs::create_dir_all(&status).unwrap();
        for name in [
            "000000010000000000000003.ready",
            "000000010000000000000002.ready",
            "000000010000000000000001.done",
            "00000002.history.ready",
            "000000010000000000000003.00000028.backup.ready",
            "something.ready",
        ] {
            std::fs::write(status.join(name), b"").unwrap();
        }
        assert_eq!(
            data.ready().unwrap(),
            [
                "00000002.history",
                "000000010000000000000002",
                "000000010000000000000003",
                "000000010000000000000003.00000028.backup",
            ]
        );
    }

    #[test]
    fn a_history_beside_the_segments_says_where_a_timeline_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(directory.path().to_owned());
        std::fs::create_dir_all(directory.path().join("pg_wal")).unwrap();
        std::fs::create_dir_all(directory.path().join("global")).unwrap();
        std::fs::write(
            directory.path().join("pg_wal/00000003.history"),
            "1\t0/3000158\tx\n2\t0/5000000\ty\n",
        )
        .unwrap();
        std::fs::write(directory.path().join("global/pg_control"), 7_u64.to_le_bytes()).unwrap();
        let timeline = |number| TimelineId::new(number).unwrap();
        assert_eq!(data.fork_of(timeline(1)).unwrap(), Some(Lsn::new(0x300_0158)));
        assert_eq!(data.fork_of(timeline(2)).unwrap(), Some(Lsn::new(0x500_0000)));
        assert_eq!(data.fork_of(timeline(3)).unwrap(), None);
        assert_eq!(data.system().unwrap(), System::PostgreSql(7));
    }
}
