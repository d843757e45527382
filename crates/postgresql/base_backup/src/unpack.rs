//! The members of a backup's archive on their way into the directory: written one after the other, synced by several threads, then
//! entered into the list of what is there.
//!
//! ```text
//!   archive --> Unpacker --file--> queue --> threads: sync --> List
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver as Queue, SyncSender};
use std::sync::{Arc, Mutex};

use seawall_io::{Access, DiskFile, OpenMode};

use super::attempt::{Entry, List};
use super::directory::{CONTROL, IN_MEMORY_BYTES_MAX, MARKER, NewCluster};
use super::error::PostgreSqlBackupError;
use super::file_list::FileSum;
use super::foreign;
use super::missing::Missing;
use super::stream::{FILE_LIST, Member, Receiver};
use crate::sabotage::{Defect, sabotaged};

/// Of the cluster that was backed up. The restore says how this one recovers, and whether it is whole.
const LEFT_OUT: [&str; 3] = ["recovery.signal", "standby.signal", MARKER];
const GROUP_READS_FILE: u32 = 0o040;
const GROUP_ENTERS_DIRECTORY: u32 = 0o050;

/// A file on its way to the disk.
#[derive(Debug)]
pub(super) struct Written {
    file: Arc<dyn DiskFile>,
    entry: Entry,
}

/// Syncs files and enters them into the list, until no more come.
pub(super) fn sync_files(queue: &Mutex<Queue<Written>>, list: &List) -> Result<(), PostgreSqlBackupError> {
    loop {
        let next = queue.lock().expect("no thread panics while it waits for a file").recv();
        let Ok(Written { file, entry }) = next else { return Ok(()) };
        let failed = |error| PostgreSqlBackupError::io("the cluster is not restored")(error);
        if !sabotaged(Defect::RestoredFilesNotSynced) {
            file.sync_data().map_err(failed)?;
        }
        // What could not be synced is never entered: whoever reads it later may be shown what is not on the disk.
        if entry.path != FILE_LIST {
            list.add(&entry).map_err(failed)?;
        }
    }
}

/// Where the content of a member goes.
#[derive(Debug)]
enum Place {
    Nowhere,
    File { file: Arc<dyn DiskFile>, written: u64, path: String, position: u64 },
    Foreign(File, PathBuf),
    Control(Vec<u8>),
}

/// Writes the members of an archive into the directory.
pub(super) struct Unpacker<'a> {
    cluster: &'a NewCluster,
    missing: &'a Missing,
    /// Files that are written go there.
    queue: SyncSender<Written>,
    place: Place,
    written: &'a mut dyn FnMut(u64),
    unpacked: Unpacked,
}

/// What is left to do.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// `global/pg_control`, which comes last of all.
    pub(super) control: Option<Vec<u8>>,
    /// Their names are to be synced.
    pub(super) directories: Vec<String>,
    /// The same, of those whose names are not text.
    pub(super) foreign_directories: Vec<PathBuf>,
}

impl<'a> Unpacker<'a> {
    /// `written` is told how many bytes were written.
    pub(super) fn new(
        cluster: &'a NewCluster,
        missing: &'a Missing,
        queue: SyncSender<Written>,
        written: &'a mut dyn FnMut(u64),
    ) -> Unpacker<'a> {
        Unpacker { cluster, missing, queue, place: Place::Nowhere, written, unpacked: Unpacked::default() }
    }

    /// No more files come.
    pub(super) fn finish(self) -> Unpacked {
        self.unpacked
    }

    fn directory(&mut self, member: &Member, position: u64) -> io::Result<()> {
        let disk = self.cluster.disk();
        let Some(path) = member.path.to_str() else {
            foreign::create_directory(&self.cluster.foreign_path(&member.path), member.mode)?;
            self.unpacked.foreign_directories.push(member.path.clone());
            return Ok(());
        };
        disk.create_directory(path)?;
        if member.mode & GROUP_ENTERS_DIRECTORY == GROUP_ENTERS_DIRECTORY {
            disk.set_access(path, Access::Group)?;
        }
        self.unpacked.directories.push(path.to_owned());
        self.cluster.list().add(&Entry { position, path: path.to_owned(), sum: None })
    }

    fn file(&self, member: &Member, position: u64) -> io::Result<Place> {
        let disk = self.cluster.disk();
        let Some(path) = member.path.to_str() else {
            let path = self.cluster.foreign_path(&member.path);
            return Ok(Place::Foreign(foreign::create_file(&path, member.mode)?, path));
        };
        if path == CONTROL {
            return Ok(Place::Control(Vec::new()));
        }
        if LEFT_OUT.contains(&path) {
            return Ok(Place::Nowhere);
        }
        let file = disk.open(path, OpenMode::Create)?;
        if member.mode & GROUP_READS_FILE != 0 {
            disk.set_access(path, Access::Group)?;
        }
        Ok(Place::File { file, written: 0, path: path.to_owned(), position })
    }
}

impl Receiver for Unpacker<'_> {
    fn member(&mut self, member: &Member) -> io::Result<()> {
        let position = self.missing.position(member.position);
        if member.is_directory {
            return self.directory(member, position);
        }
        self.place = self.file(member, position)?;
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.written)(bytes.len() as u64);
        match &mut self.place {
            Place::Nowhere => Ok(()),
            Place::Control(content) => {
                if content.len() + bytes.len() > IN_MEMORY_BYTES_MAX {
                    let problem = format!("{CONTROL} has more than {IN_MEMORY_BYTES_MAX} bytes");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
                }
                content.extend_from_slice(bytes);
                Ok(())
            }
            Place::Foreign(file, path) => file.write_all(bytes).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
            }),
            Place::File { file, written, .. } => {
                file.write_all_at(bytes, *written)?;
                *written += bytes.len() as u64;
                Ok(())
            }
        }
    }

    fn member_ended(&mut self, sum: FileSum) -> io::Result<()> {
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Nowhere => Ok(()),
            Place::Control(content) => {
                self.unpacked.control = Some(content);
                Ok(())
            }
            Place::Foreign(file, _) => file.sync_all(),
            Place::File { file, path, position, .. } => {
                let entry = Entry { position, path, sum: Some(sum) };
                let sent = self.queue.send(Written { file, entry });
                sent.map_err(|_| io::Error::other("files are not synced any more"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::mpsc::sync_channel;

    use seawall_io::OsDisk;
    use seawall_mounted_disk::files_after_power_loss;
    use seawall_testing::Need;

    use super::*;
    use crate::attempt::Attempt;

    /// A cluster in the making.
    fn begin(root: &Path) -> NewCluster {
        let attempt = Attempt { asked_for: "all".to_owned(), backup: "1".to_owned(), manifest: 7 };
        NewCluster::begin(Arc::new(OsDisk::new(root)), &attempt).unwrap().0
    }

    /// Members: directories have no content.
    type Members<'a> = [(&'a [u8], u32, Option<&'a [u8]>)];

    /// As `restore_postgresql` does it.
    fn unpack(cluster: &NewCluster, members: &Members<'_>) -> Unpacked {
        let missing = Missing::besides(&[], 1 << 30);
        let (sender, queue) = sync_channel(2);
        let queue = Mutex::new(queue);
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| sync_files(&queue, cluster.list()));
            let mut written = |_: u64| ();
            let mut unpacker = Unpacker::new(cluster, &missing, sender, &mut written);
            for (index, (path, mode, content)) in members.iter().enumerate() {
                let (is_directory, position) = (content.is_none(), index as u64 * 512);
                let path = OsStr::from_bytes(path).into();
                unpacker.member(&Member { path, is_directory, mode: *mode, position }).unwrap();
                unpacker.content(content.unwrap_or_default()).unwrap();
                unpacker.member_ended(FileSum { bytes: 0, checksum: 0 }).unwrap();
            }
            let unpacked = unpacker.finish();
            syncing.join().unwrap().unwrap();
            unpacked
        })
    }

    fn finish(cluster: &NewCluster, unpacked: &Unpacked) {
        cluster.change_settings(|_| b"restore_command".to_vec()).unwrap();
        let Unpacked { control, directories, foreign_directories } = unpacked;
        cluster.finish(directories, foreign_directories, control.as_deref().unwrap()).unwrap();
    }

    #[test]
    fn the_group_has_what_it_had() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = begin(directory.path());
        let content = Some(&b"1"[..]);
        unpack(
            &cluster,
            &[
                (b"a", 0o750, None),
                (b"a/a", 0o640, content),
                (b"b", 0o700, None),
                (b"b/b", 0o600, content),
                (b"c", 0o777, content),
            ],
        );
        let mode =
            |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["", "a", "a/a", "b", "b/b", "c"].map(mode), [0o700, 0o750, 0o640, 0o700, 0o600, 0o640]);
    }

    /// PostgreSQL makes no such names, and backs them up.
    #[test]
    fn a_name_that_is_not_text_comes_back_also_when_a_restore_resumes() {
        let directory = tempfile::tempdir().unwrap();
        for content in [b"1", b"2"] {
            let cluster = begin(directory.path());
            let members: &Members<'_> = &[
                (b"caf\xE9", 0o700, None),
                (b"caf\xE9/a", 0o600, Some(content)),
                (b"\xFF", 0o640, Some(content)),
            ];
            let unpacked = unpack(&cluster, members);
            assert_eq!(unpacked.foreign_directories.len(), 1);
            for name in [&b"caf\xE9/a"[..], b"\xFF"] {
                let path = directory.path().join(OsStr::from_bytes(name));
                assert_eq!(std::fs::read(path).unwrap(), content);
            }
            foreign::sync_directory(&cluster.foreign_path(&unpacked.foreign_directories[0])).unwrap();
        }
    }

    /// A cluster that was restored before, and whose marker was left: its backups have that.
    #[test]
    fn a_marker_in_the_backup_does_not_take_the_place_of_the_own_one() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = begin(directory.path());
        unpack(&cluster, &[(MARKER.as_bytes(), 0o600, Some(b"other"))]);
        assert!(std::fs::read(directory.path().join(MARKER)).unwrap().starts_with(b"A restore of seawall"));
    }

    #[test]
    fn a_member_that_is_kept_in_memory_has_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let (cluster, missing) = (begin(directory.path()), Missing::besides(&[], 1 << 30));
        let (sender, _queue) = sync_channel(1);
        let mut written = |_: u64| ();
        let mut unpacker = Unpacker::new(&cluster, &missing, sender, &mut written);
        let member = Member { path: CONTROL.into(), is_directory: false, mode: 0o600, position: 0 };
        unpacker.member(&member).unwrap();
        let piece = vec![b'#'; IN_MEMORY_BYTES_MAX / 2];
        unpacker.content(&piece).unwrap();
        unpacker.content(&piece).unwrap();
        assert!(unpacker.content(b"#").unwrap_err().to_string().contains("more than"));
    }

    /// PostgreSQL starts wherever there is a `global/pg_control`. By the system calls that are made.
    #[test]
    fn a_restored_cluster_is_there_whole_after_a_power_loss() {
        let files: [(&str, &[u8]); 3] =
            [("PG_VERSION", b"18\n"), ("base/1/2600", &[7; 20_000]), ("pg_wal/history", b"1")];
        let mut members: Vec<_> =
            ["base", "base/1", "global", "pg_wal"].map(|path| (path.as_bytes(), 0o700, None)).into();
        members.extend(files.map(|(path, content)| (path.as_bytes(), 0o600, Some(content))));
        members.push((CONTROL.as_bytes(), 0o600, Some(b"control")));
        let left = files_after_power_loss(|directory| {
            let cluster = begin(&directory.join("parent/cluster"));
            finish(&cluster, &unpack(&cluster, &members));
        });
        let left = match left {
            Ok(left) => left,
            Err(error) => return Need::Fuse.skip(error),
        };
        let put: [(&str, &[u8]); 2] = [(CONTROL, b"control"), ("postgresql.auto.conf", b"restore_command")];
        for (path, content) in files.into_iter().chain(put) {
            let found = left.read_file(&format!("parent/cluster/{path}"));
            assert!(found.as_deref() == Some(content), "{path}: {:?} bytes", found.map(|bytes| bytes.len()));
        }
        assert!(left.read_file(&format!("parent/cluster/{MARKER}")).is_none(), "the marker is still there");
    }
}
