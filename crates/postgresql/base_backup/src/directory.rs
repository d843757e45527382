//! The directory of a cluster that is being restored.
//!
//! What is there if the power goes: first of all `seawall-restoring`, which says what is restored; then files, each synced before it
//! is entered there; last of all `global/pg_control`, when everything else is durable. PostgreSQL starts in no directory that lacks
//! it. A restore resumes in a directory that has the one and lacks the other, and in no other one that is not empty: what has a
//! `global/pg_control` may be a cluster that somebody uses.
//!
//! A file whose name is not text goes past `io::Disk`, which has only such names: see [`super::foreign`].

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_io::{Access, DirectoryLock, Disk, DiskFile, LockMode, OpenMode};

use super::attempt::{Attempt, Entry, Left, List};
use super::error::PostgreSqlBackupError;
use super::foreign;
use crate::sabotage::{Defect, sabotaged};

pub(super) const MARKER: &str = "seawall-restoring";
pub(super) const CONTROL: &str = "global/pg_control";
const SETTINGS: &str = "postgresql.auto.conf";

/// Bytes of a file that is taken into memory: `pg_control` has 8 KiB, settings a few.
pub(super) const IN_MEMORY_BYTES_MAX: usize = 16 << 20;

/// A directory in which a cluster comes into being.
#[derive(Debug)]
pub(super) struct NewCluster {
    disk: Arc<dyn Disk>,
    /// No other restore goes on here meanwhile.
    _lock: Box<dyn DirectoryLock>,
    list: List,
}

/// Looks at the directory, which must be missing or empty, or have what a restore that was cut short has left: this. Changes nothing.
pub(super) fn look(disk: &dyn Disk) -> Result<Option<Left>, PostgreSqlBackupError> {
    let attempt = |error| PostgreSqlBackupError::io("cannot look at the directory")(error);
    match disk.is_empty("") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(true) => return Ok(None),
        looked => looked.map_err(attempt)?,
    };
    let directory = disk.location("");
    let has = |name: &str| match disk.open(name, OpenMode::Read) {
        Err(error) if is_missing(&error) => Ok(false),
        opened => opened.map(|_| true),
    };
    match (has(MARKER).map_err(attempt)?, has(CONTROL).map_err(attempt)?) {
        (true, false) => {}
        (true, true) => return Err(PostgreSqlBackupError::AlreadyRestored { directory }),
        (false, _) => return Err(PostgreSqlBackupError::NotEmpty { directory }),
    }
    let content = read(disk, MARKER, usize::MAX).map_err(attempt)?;
    match Left::decode(&content) {
        Ok(left) => Ok(Some(left)),
        // It was cut short before it wrote anything.
        Err(_) if Tree::of(disk).map_err(attempt)?.files.is_empty() => Ok(None),
        Err(problem) => Err(PostgreSqlBackupError::Marker { file: disk.location(MARKER), problem }),
    }
}

/// What is below a directory, but for the marker.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: HashSet<String>,
    pub(super) directories: HashSet<String>,
}

impl Tree {
    fn of(disk: &dyn Disk) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let mut unseen = vec![String::new()];
        while let Some(directory) = unseen.pop() {
            let below = |name: String| match &directory[..] {
                "" => name,
                directory => format!("{directory}/{name}"),
            };
            tree.files.extend(disk.list_names(&directory)?.into_iter().map(below));
            let directories: Vec<String> =
                disk.list_subdirectories(&directory)?.into_iter().map(below).collect();
            tree.directories.extend(directories.iter().cloned());
            unseen.extend(directories);
        }
        tree.files.remove(MARKER);
        Ok(tree)
    }
}

/// Removes the marker if nothing is in it. For whoever has locked it.
fn remove_empty_marker(disk: &dyn Disk) {
    let is_empty =
        disk.open(MARKER, OpenMode::Read).and_then(|file| file.length()).is_ok_and(|length| length == 0);
    if is_empty && let Err(error) = disk.remove(MARKER) {
        tracing::warn!(%error, path = MARKER, "an empty marker stays in a directory that is restored");
    }
}

impl NewCluster {
    /// Begins, or resumes what is left of the same attempt: what is in the directory then, as far as that says. Marks the directory,
    /// which must be missing or empty, or have what a restore that was cut short has left.
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        attempt: &Attempt,
    ) -> Result<(NewCluster, Vec<Entry>), PostgreSqlBackupError> {
        let failed = |error| PostgreSqlBackupError::io("cannot begin the restore")(error);
        // The lock makes a file, and what is somebody else's is left alone.
        look(&*disk)?;
        disk.create_directory("").map_err(failed)?;
        let lock = disk.lock(MARKER, LockMode::Exclusive).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                PostgreSqlBackupError::RestoreUnderWay { directory: disk.location("") }
            }
            _ => failed(error),
        })?;
        // PostgreSQL starts in no directory that others may look into.
        disk.set_access("", Access::Owner).map_err(failed)?;
        // Another restore may have begun or ended between the first look and the lock.
        let left = match look(&*disk) {
            Ok(left) => left,
            Err(refused) => {
                // Whoever ended has removed the marker, and the lock made it anew.
                remove_empty_marker(&*disk);
                return Err(refused);
            }
        };
        if let Some(left) = &left {
            left.attempt.check(&*disk, &attempt.asked_for)?;
        }
        let file = disk.open(MARKER, OpenMode::Write).map_err(failed)?;
        let (entries, end) = match left.filter(|left| left.attempt == *attempt) {
            Some(left) => {
                // What does not count is not to come after what is added.
                file.set_length(left.bytes).map_err(failed)?;
                (left.entries, left.bytes)
            }
            None => (Vec::new(), clear(&*disk, &*file, attempt).map_err(failed)?),
        };
        mark(&*disk, &*file, attempt).map_err(failed)?;
        Ok((NewCluster { disk, _lock: lock, list: List::new(file, end) }, entries))
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn list(&self) -> &List {
        &self.list
    }

    /// What there is.
    pub(super) fn tree(&self) -> Result<Tree, PostgreSqlBackupError> {
        Tree::of(&*self.disk).map_err(PostgreSqlBackupError::io("cannot look at what is left"))
    }

    /// Removes files. Their directories are synced at the end.
    pub(super) fn remove<'a>(
        &self,
        files: impl Iterator<Item = &'a String>,
    ) -> Result<(), PostgreSqlBackupError> {
        for file in files {
            self.disk.remove(file).map_err(PostgreSqlBackupError::io("cannot clear what is left"))?;
        }
        Ok(())
    }

    /// The settings of the backup, changed.
    pub(super) fn change_settings(
        &self,
        change: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Result<(), PostgreSqlBackupError> {
        let failed = |error| PostgreSqlBackupError::io("cannot write how the cluster recovers")(error);
        let settings = match read(&*self.disk, SETTINGS, IN_MEMORY_BYTES_MAX) {
            Err(error) if is_missing(&error) => Vec::new(),
            settings => settings.map_err(failed)?,
        };
        self.put(SETTINGS, &change(&settings)).map_err(failed)
    }

    /// Puts a file in place of one that may be there, durably but for its name.
    pub(super) fn put(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let temporary = format!("{path}.seawall-new");
        let file = self.disk.open(&temporary, OpenMode::Create)?;
        file.write_all_at(content, 0)?;
        file.sync_data()?;
        self.disk.rename(&temporary, path)
    }

    /// All files are written and synced: makes it a cluster. `directories` are those of `io::Disk`, `foreign` the others.
    pub(super) fn finish(
        &self,
        directories: &[String],
        foreign: &[PathBuf],
        control: &[u8],
    ) -> Result<(), PostgreSqlBackupError> {
        let failed = |error| PostgreSqlBackupError::io("cannot finish the restore")(error);
        for directory in foreign {
            foreign::sync_directory(&self.foreign_path(directory)).map_err(failed)?;
        }
        for directory in directories.iter().map(String::as_str).chain([""]) {
            self.disk.sync_directory(directory).map_err(failed)?;
        }
        self.put(CONTROL, control).map_err(failed)?;
        if !sabotaged(Defect::RestoredControlNotSynced) {
            self.disk.sync_directory("global").map_err(failed)?;
        }
        self.disk.remove(MARKER).map_err(failed)?;
        self.disk.sync_directory("").map_err(failed)
    }

    /// Where a file is whose name is not text.
    pub(super) fn foreign_path(&self, path: &Path) -> PathBuf {
        Path::new(&self.disk.location("")).join(path)
    }
}

/// Clears the directory; how long the text of the marker will be. While that is replaced, there is no file but the marker: so one that is
/// cut short then is told from one that is damaged.
fn clear(disk: &dyn Disk, marker: &dyn DiskFile, attempt: &Attempt) -> io::Result<u64> {
    let tree = Tree::of(disk)?;
    for file in &tree.files {
        disk.remove(file)?;
    }
    if !tree.files.is_empty() {
        for directory in tree.directories.iter().map(String::as_str).chain([""]) {
            disk.sync_directory(directory)?;
        }
    }
    // Before the new text comes: after a power loss it is not to have the old list.
    marker.set_length(0)?;
    marker.sync_data()?;
    Ok(attempt.encode().len() as u64)
}

/// Writes the text of the marker: durable before anything that it explains. Also where it is there already: an attempt whose sync of it
/// failed may have left what can be read and is not on the disk.
fn mark(disk: &dyn Disk, marker: &dyn DiskFile, attempt: &Attempt) -> io::Result<()> {
    marker.write_all_at(attempt.encode().as_bytes(), 0)?;
    marker.sync_data()?;
    disk.sync_directory("")
}

/// A file's content.
fn read(disk: &dyn Disk, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let bytes = usize::try_from(file.length()?).ok().filter(|bytes| *bytes <= bytes_max);
    let Some(bytes) = bytes else {
        return Err(io::Error::other(format!(
            "{} has more than {bytes_max} bytes, and is none of PostgreSQL's",
            disk.location(path)
        )));
    };
    let mut content = vec![0; bytes];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// Also where a directory on the way is missing.
pub(super) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use seawall_io::OsDisk;
    use seawall_simulation::{ObservedDisk, Operation, PowerLoss, SimulatedDisk, Verdict};

    use super::*;
    use crate::attempt::Entry;

    fn attempt(asked_for: &str, backup: &str) -> Attempt {
        Attempt { asked_for: asked_for.to_owned(), backup: backup.to_owned(), manifest: 7 }
    }

    fn begin(disk: &SimulatedDisk, attempt: &Attempt) -> Result<NewCluster, PostgreSqlBackupError> {
        NewCluster::begin(Arc::new(disk.clone()), attempt).map(|(cluster, _)| cluster)
    }

    #[test]
    fn a_directory_is_restored_into_once_and_by_one_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("a/b");
        let begin = || NewCluster::begin(Arc::new(OsDisk::new(&root)), &attempt("all", "1"));
        let (cluster, _) = begin().unwrap();
        assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        let meanwhile = begin().unwrap_err();
        assert!(matches!(meanwhile, PostgreSqlBackupError::RestoreUnderWay { .. }), "{meanwhile}");
        drop(cluster);
        let (cluster, _) = begin().unwrap();
        cluster.disk().create_directory("global").unwrap();
        cluster.finish(&["global".to_owned()], &[], b"control").unwrap();
        drop(cluster);
        assert_eq!(std::fs::read(root.join(CONTROL)).unwrap(), b"control");
        assert!(!root.join(MARKER).exists());
        assert!(matches!(begin(), Err(PostgreSqlBackupError::NotEmpty { .. })));
        // The power went before the marker was removed: it may be in use since.
        std::fs::write(root.join(MARKER), b"").unwrap();
        assert!(matches!(begin(), Err(PostgreSqlBackupError::AlreadyRestored { .. })));
    }

    #[test]
    fn a_restore_that_ends_just_before_another_one_locks_its_marker_leaves_none() {
        let inner = SimulatedDisk::new(1);
        let ended = inner.clone();
        let disk = ObservedDisk::new(inner.clone(), move |call| {
            // After the first look.
            if call.kind == Operation::CreateDirectory.into() && call.path.is_empty() {
                ended.create_directory("global").unwrap();
                ended.write_file(CONTROL, b"control");
            }
            Verdict::Make
        });
        let refused = NewCluster::begin(Arc::new(disk), &attempt("all", "1")).unwrap_err();
        assert!(matches!(refused, PostgreSqlBackupError::AlreadyRestored { .. }), "{refused}");
        assert!(inner.read_file(MARKER).is_none());
    }

    #[test]
    fn somebody_elses_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        // A directory that is prepared for the log on another disk is somebody's, too.
        std::os::unix::fs::symlink("/nowhere", directory.path().join("pg_wal")).unwrap();
        let disk = Arc::new(OsDisk::new(directory.path()));
        let refused = NewCluster::begin(disk, &attempt("all", "1"));
        assert!(matches!(refused, Err(PostgreSqlBackupError::NotEmpty { .. })), "{refused:?}");
    }

    #[test]
    fn another_attempt_begins_anew_and_another_request_is_refused() {
        let disk = SimulatedDisk::new(1);
        let first = begin(&disk, &attempt("all", "1")).unwrap();
        disk.create_directory("base").unwrap();
        disk.write_file("base/1", b"1");
        first.list().add(&Entry { position: 0, path: "base".to_owned(), sum: None }).unwrap();
        drop(first);
        assert_eq!(look(&disk).unwrap().unwrap().entries.len(), 1);
        let refused = begin(&disk, &attempt("a little", "1")).unwrap_err();
        assert!(matches!(refused, PostgreSqlBackupError::OtherRestore { .. }), "{refused}");
        assert!(disk.read_file("base/1").is_some());
        drop(begin(&disk, &attempt("all", "2")).unwrap());
        assert_eq!(look(&disk).unwrap().unwrap().entries, []);
        assert!(disk.read_file("base/1").is_none());
    }

    /// A list says where files lie in the archive of one backup, and nothing of another's.
    #[test]
    fn a_power_loss_while_a_restore_begins_anew_leaves_no_list_of_the_one_before() {
        let (old, new) = (attempt("all", "1"), attempt("all", "2"));
        let disk = SimulatedDisk::new(1);
        let first = begin(&disk, &old).unwrap();
        first.list().add(&Entry { position: 0, path: "base".to_owned(), sum: None }).unwrap();
        drop(first);
        disk.write_file("1", b"1");
        let disk = disk.after_power_loss(PowerLoss::KeepAll);
        let undisturbed = disk.copy();
        drop(begin(&undisturbed, &new).unwrap());
        for call in 0..undisturbed.calls() {
            let crashed = disk.copy();
            crashed.crash_at(call);
            begin(&crashed, &new).unwrap_err();
            for outcome in crashed.outcomes(50, call) {
                let left =
                    look(&outcome.disk).unwrap_or_else(|error| panic!("call {call}, {outcome}: {error}"));
                let is_mixed = left.is_some_and(|left| left.attempt == new && !left.entries.is_empty());
                assert!(!is_mixed, "call {call}, {outcome}");
            }
        }
    }

    /// Nothing says then what the files are of.
    #[test]
    fn a_damaged_marker_is_refused_unless_there_is_nothing_else() {
        let disk = SimulatedDisk::new(1);
        drop(begin(&disk, &attempt("all", "1")).unwrap());
        disk.flip_bit(MARKER, 3, 1);
        drop(begin(&disk, &attempt("a little", "2")).unwrap());
        disk.create_directory("base").unwrap();
        disk.write_file("base/1", b"1");
        disk.flip_bit(MARKER, 3, 1);
        let refused = begin(&disk, &attempt("a little", "2")).unwrap_err();
        assert!(matches!(refused, PostgreSqlBackupError::Marker { .. }), "{refused}");
        assert!(disk.read_file("base/1").is_some());
    }

    #[test]
    fn settings_that_no_cluster_has_are_refused() {
        let disk = SimulatedDisk::new(1);
        let cluster = begin(&disk, &attempt("all", "1")).unwrap();
        disk.write_file(SETTINGS, &vec![b'#'; IN_MEMORY_BYTES_MAX + 1]);
        let refused = cluster.change_settings(<[u8]>::to_vec).unwrap_err();
        assert!(std::error::Error::source(&refused).unwrap().to_string().contains("more than"), "{refused}");
    }
}
