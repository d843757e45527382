//! The directory of a cluster that is being restored. These are files of PostgreSQL, not of a database of ours, so they do not go
//! through `io::Disk`.
//!
//! What is there if the power goes: first of all `seawall-restoring`; then files, each synced before it is closed; last of all
//! `global/pg_control`, when everything else is durable. PostgreSQL starts in no directory that lacks it. A restore begins anew in a
//! directory that has the one and lacks the other, and in no other one that is not empty: what has a `global/pg_control` may be a
//! cluster that somebody uses.

use std::fs::{DirEntry, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver as Queue, SyncSender};

use rustix::fs::{FlockOperation, Mode, OFlags};
use seawall_io::sabotage::{Defect, sabotaged};

use super::error::PostgreSqlBackupError;
use super::stream::{Member, Receiver};

const MARKER: &str = "seawall-restoring";
const MARKER_TEXT: &[u8] =
    b"A restore of seawall is under way here, or was cut short. Run it again, or remove this directory.\n";
const CONTROL: &str = "global/pg_control";
const SETTINGS: &str = "postgresql.auto.conf";
/// Whatever the backup was taken from, the restore says what becomes of it.
const SIGNALS: [&str; 2] = ["recovery.signal", "standby.signal"];

/// Bytes of a member that is kept in memory: `pg_control` has 8 KiB, settings a few.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// A file on its way to the disk.
pub(super) type Written = (File, PathBuf);

/// A directory in which a cluster comes into being.
#[derive(Debug)]
pub(super) struct NewCluster {
    root: PathBuf,
    /// Locked: no other restore goes on here meanwhile.
    marker: File,
}

impl Drop for NewCluster {
    fn drop(&mut self) {
        // A child that another thread is starting has the file open, too, for a moment.
        if let Err(error) = rustix::fs::flock(&self.marker, FlockOperation::Unlock) {
            tracing::warn!(%error, "a restored directory stays locked");
        }
    }
}

/// The entries of a directory, which must be missing or empty, or have what a restore that was cut short has left. Changes nothing.
pub(super) fn check_directory(root: &Path) -> Result<Vec<DirEntry>, PostgreSqlBackupError> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let entries = entries.map_err(PostgreSqlBackupError::io(format!("cannot list {}", root.display())))?;
    let is_cut_short = root.join(MARKER).exists() && !root.join(CONTROL).exists();
    if entries.is_empty() || is_cut_short {
        return Ok(entries);
    }
    Err(PostgreSqlBackupError::NotEmpty { directory: root.display().to_string() })
}

impl NewCluster {
    /// Begins: marks the directory, which must be missing or empty, or have what a restore that was cut short has left.
    pub(super) fn begin(root: &Path) -> Result<NewCluster, PostgreSqlBackupError> {
        let attempt = |what: &str| PostgreSqlBackupError::io(format!("cannot {what} {}", root.display()));
        make_directory(root).map_err(attempt("create"))?;
        let entries = check_directory(root)?;
        let marker = mark(&root.join(MARKER)).map_err(attempt("mark"))?;
        // PostgreSQL starts in no directory that others may look into.
        std::fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(attempt("protect"))?;
        let cluster = NewCluster { root: root.to_owned(), marker };
        cluster.sync_directory(Path::new(""))?;
        for entry in entries.iter().filter(|entry| entry.file_name() != MARKER) {
            remove(&entry.path()).map_err(attempt("clear"))?;
        }
        Ok(cluster)
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a file, durably but for its name.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> Result<(), PostgreSqlBackupError> {
        let path = self.path(name);
        let write = || -> io::Result<()> {
            let mut file = create(&path, 0o600)?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().map_err(PostgreSqlBackupError::io(format!("cannot write {}", path.display())))
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_directory(&self, name: &Path) -> Result<(), PostgreSqlBackupError> {
        let path = self.path(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let synced = rustix::fs::open(&path, flags, Mode::empty()).and_then(rustix::fs::fsync);
        synced.map_err(|error| {
            PostgreSqlBackupError::io(format!("cannot sync {}", path.display()))(error.into())
        })
    }

    /// Everything else is durable: makes it a cluster.
    pub(super) fn finish(&self, control: &[u8]) -> Result<(), PostgreSqlBackupError> {
        let temporary = format!("{CONTROL}.new");
        self.put(&temporary, control)?;
        let (from, to) = (self.path(&temporary), self.path(CONTROL));
        rustix::fs::rename(&from, &to).map_err(|error| {
            PostgreSqlBackupError::io(format!("cannot write {}", to.display()))(error.into())
        })?;
        if !sabotaged(Defect::RestoredControlNotSynced) {
            self.sync_directory(Path::new("global"))?;
        }
        let marker = self.path(MARKER);
        rustix::fs::unlink(&marker).map_err(|error| {
            PostgreSqlBackupError::io(format!("cannot remove {}", marker.display()))(error.into())
        })?;
        self.sync_directory(Path::new(""))
    }
}

/// Makes a directory, and the names of it and of its parents durable as far as they are new.
fn make_directory(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    std::fs::create_dir_all(&path)?;
    for parent in missing.iter().filter_map(|directory| directory.parent()) {
        sync_directory(parent)?;
    }
    Ok(())
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty()).and_then(rustix::fs::fsync)?)
}

/// Writes the marker, and locks it.
fn mark(path: &Path) -> io::Result<File> {
    let mut marker = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::Error::other("another restore goes on there")),
        locked => locked?,
    }
    marker.write_all(MARKER_TEXT)?;
    marker.sync_all()?;
    Ok(marker)
}

/// The directory itself stays: it may be where a file system is mounted.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path)?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => Ok(rustix::fs::unlink(path)?),
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Syncs files until no more come.
pub(super) fn sync_files(queue: &Mutex<Queue<Written>>) -> Result<(), PostgreSqlBackupError> {
    loop {
        let next = queue.lock().expect("no thread panics while it waits for a file").recv();
        let Ok((file, path)) = next else { return Ok(()) };
        if sabotaged(Defect::RestoredFilesNotSynced) {
            continue;
        }
        file.sync_all().map_err(PostgreSqlBackupError::io(format!("cannot sync {}", path.display())))?;
    }
}

/// Where the content of a member goes.
#[derive(Debug)]
enum Place {
    Nowhere,
    File(File, PathBuf),
    Control(Vec<u8>),
    Settings(Vec<u8>),
}

/// Writes the members of an archive into the directory.
pub(super) struct Unpacker<'a> {
    cluster: &'a NewCluster,
    /// Files that are written go there.
    queue: SyncSender<Written>,
    place: Place,
    written: &'a mut dyn FnMut(u64),
    kept: Kept,
}

/// What was not written yet.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// For it comes last of all.
    pub(super) control: Option<Vec<u8>>,
    /// For there are lines to add.
    pub(super) settings: Vec<u8>,
    /// Directories whose names are to be synced, their parents before them.
    pub(super) directories: Vec<PathBuf>,
}

impl<'a> Unpacker<'a> {
    /// `written` is told how many bytes were written.
    pub(super) fn new(
        cluster: &'a NewCluster,
        queue: SyncSender<Written>,
        written: &'a mut dyn FnMut(u64),
    ) -> Unpacker<'a> {
        Unpacker { cluster, queue, place: Place::Nowhere, written, kept: Kept::default() }
    }

    /// No more files come.
    pub(super) fn finish(self) -> Kept {
        self.kept
    }
}

impl Receiver for Unpacker<'_> {
    fn member(&mut self, member: &Member) -> io::Result<()> {
        let path = self.cluster.path(&member.path);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot create {}: {error}", path.display()))
        };
        if member.is_directory {
            let mut builder = std::fs::DirBuilder::new();
            builder.mode(member.mode & 0o750 | 0o700).create(&path).map_err(named)?;
            self.kept.directories.push(member.path.clone());
            return Ok(());
        }
        self.place = match member.path.to_str() {
            Some(CONTROL) => Place::Control(Vec::new()),
            Some(SETTINGS) => Place::Settings(Vec::new()),
            Some(name) if SIGNALS.contains(&name) => Place::Nowhere,
            _ => Place::File(create(&path, member.mode & 0o640 | 0o600).map_err(named)?, path),
        };
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.written)(bytes.len() as u64);
        match &mut self.place {
            Place::Nowhere => Ok(()),
            Place::Control(content) | Place::Settings(content) => {
                if content.len() + bytes.len() > KEPT_BYTES_MAX {
                    let problem = format!("{CONTROL} or {SETTINGS} has more than {KEPT_BYTES_MAX} bytes");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
                }
                content.extend_from_slice(bytes);
                Ok(())
            }
            Place::File(file, path) => file.write_all(bytes).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
            }),
        }
    }

    fn member_ended(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Nowhere => Ok(()),
            Place::Control(content) => {
                self.kept.control = Some(content);
                Ok(())
            }
            Place::Settings(content) => {
                self.kept.settings = content;
                Ok(())
            }
            Place::File(file, path) => {
                self.queue.send((file, path)).map_err(|_| io::Error::other("files are not synced any more"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_testing::Need;
    use seawall_torture::files_after_power_loss;

    use super::*;

    #[test]
    fn only_what_a_restore_has_left_is_cleared() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("a/b");
        let cluster = NewCluster::begin(&root).unwrap();
        assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::create_dir_all(root.join("global")).unwrap();
        cluster.put("PG_VERSION", b"15\n").unwrap();
        let meanwhile = NewCluster::begin(&root).unwrap_err().to_string();
        assert!(meanwhile.contains("another restore"), "{meanwhile}");
        drop(cluster);
        // Cut short: begins anew.
        let cluster = NewCluster::begin(&root).unwrap();
        assert!(!root.join("global").exists() && root.join(MARKER).exists());
        std::fs::create_dir_all(root.join("global")).unwrap();
        cluster.finish(b"control").unwrap();
        assert_eq!(std::fs::read(root.join(CONTROL)).unwrap(), b"control");
        assert!(!root.join(MARKER).exists());
        assert!(matches!(NewCluster::begin(&root), Err(PostgreSqlBackupError::NotEmpty { .. })));
        // The power went before the marker was removed: it may be in use since.
        std::fs::write(root.join(MARKER), b"").unwrap();
        assert!(matches!(NewCluster::begin(&root), Err(PostgreSqlBackupError::NotEmpty { .. })));
    }

    #[test]
    fn somebody_elses_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("letter"), b"").unwrap();
        assert!(matches!(NewCluster::begin(directory.path()), Err(PostgreSqlBackupError::NotEmpty { .. })));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    /// Files of a backup, and their content.
    const FILES: [(&str, &[u8]); 3] =
        [("PG_VERSION", b"18\n"), ("base/1/2600", &[7; 20_000]), ("pg_wal/history", b"1")];

    /// As `restore_postgresql` does it.
    fn restore(root: &Path) {
        let cluster = NewCluster::begin(root).unwrap();
        let (sender, queue) = std::sync::mpsc::sync_channel(2);
        let queue = Mutex::new(queue);
        let kept = std::thread::scope(|scope| {
            let syncing = scope.spawn(|| sync_files(&queue));
            let mut written = |_: u64| ();
            let mut unpacker = Unpacker::new(&cluster, sender, &mut written);
            for directory in ["base", "base/1", "global", "pg_wal"] {
                unpack(&mut unpacker, directory, None);
            }
            FILES.iter().for_each(|(path, content)| unpack(&mut unpacker, path, Some(content)));
            unpack(&mut unpacker, CONTROL, Some(b"control"));
            let kept = unpacker.finish();
            syncing.join().unwrap().unwrap();
            kept
        });
        cluster.put(SETTINGS, b"restore_command").unwrap();
        let names = kept.directories.iter().map(PathBuf::as_path).chain([Path::new("")]);
        names.for_each(|name| cluster.sync_directory(name).unwrap());
        cluster.finish(&kept.control.unwrap()).unwrap();
    }

    fn unpack(unpacker: &mut Unpacker<'_>, path: &str, content: Option<&[u8]>) {
        let member = Member { path: path.into(), is_directory: content.is_none(), mode: 0o600 };
        unpacker.member(&member).unwrap();
        if let Some(content) = content {
            unpacker.content(content).unwrap();
            unpacker.member_ended().unwrap();
        }
    }

    #[test]
    fn a_member_that_is_kept_in_memory_has_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = NewCluster::begin(&directory.path().join("cluster")).unwrap();
        let (sender, _queue) = std::sync::mpsc::sync_channel(1);
        let mut written = |_: u64| ();
        let mut unpacker = Unpacker::new(&cluster, sender, &mut written);
        let member = Member { path: SETTINGS.into(), is_directory: false, mode: 0o600 };
        unpacker.member(&member).unwrap();
        let piece = vec![b'#'; KEPT_BYTES_MAX / 2];
        unpacker.content(&piece).unwrap();
        unpacker.content(&piece).unwrap();
        assert!(unpacker.content(b"#").unwrap_err().to_string().contains("more than"));
    }

    /// PostgreSQL starts wherever there is a `global/pg_control`.
    #[test]
    fn a_restored_cluster_is_there_whole_after_a_power_loss() {
        let left = match files_after_power_loss(|directory| restore(&directory.join("parent/cluster"))) {
            Ok(left) => left,
            Err(error) => return Need::Fuse.skip(error),
        };
        for (path, content) in
            FILES.into_iter().chain([(CONTROL, &b"control"[..]), (SETTINGS, b"restore_command")])
        {
            let found = left.read_file(&format!("parent/cluster/{path}"));
            assert!(found.as_deref() == Some(content), "{path}: {:?} bytes", found.map(|bytes| bytes.len()));
        }
        assert!(left.read_file(&format!("parent/cluster/{MARKER}")).is_none(), "the marker is still there");
    }
}
