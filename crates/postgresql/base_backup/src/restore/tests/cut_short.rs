//! A restore that was cut short, and is run again: what is kept, what is fetched, and what is refused.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

/// A part that the first attempt does not get.
const GONE: u32 = 30;

/// Files of several directories: their archive has some 50 parts of 1000 bytes.
pub(super) fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("backup_label".to_owned(), b"START WAL LOCATION: 0/700028".to_vec()),
        ("postgresql.auto.conf".to_owned(), b"work_mem = '1GB'\n".to_vec()),
    ];
    for directory in 1..=3_u8 {
        files.push((format!("base{directory}/"), Vec::new()));
        for number in 0..5_u8 {
            let bytes = usize::from(number) * 1201;
            files.push((format!("base{directory}/{number}"), vec![directory * 16 + number; bytes]));
        }
    }
    files.extend([("global/".to_owned(), Vec::new()), ("global/pg_control".to_owned(), b"control".to_vec())]);
    files
}

pub(super) fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (&name[..], &content[..])).collect();
    archive_of(&files, |list| list)
}

/// What is below a directory, by path.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut unseen = vec![root.to_owned()];
    while let Some(directory) = unseen.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                unseen.push(path);
            } else {
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Makes a directory with this below it.
fn copy(tree: &BTreeMap<String, Vec<u8>>) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (name, content) in tree {
        let path = copy.path().join(name);
        if name.ends_with('/') {
            std::fs::create_dir_all(path).unwrap();
        } else {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
    copy
}

impl World {
    fn part_file(&self, number: u32) -> String {
        let name = object_names::part(ID, number).to_string();
        let files = self.store.list_all();
        files.into_iter().find(|file| file.name.ends_with(&name)).unwrap().name
    }

    /// A restore that fails in the middle, and a repository that is whole again.
    fn cut_short(&self) {
        let file = self.part_file(GONE);
        let content = self.store.read_file(&file).unwrap();
        self.store.remove_file(&file);
        let problem = self.restore(PostgreSqlTarget::Latest).unwrap_err().to_string();
        assert!(problem.contains(&format!("part-{GONE:08}")), "{problem}");
        self.store.write_file(&file, &content);
    }

    /// What an attempt that nothing disturbs leaves.
    fn expected(&self) -> BTreeMap<String, Vec<u8>> {
        let elsewhere = World::of(&archive(&files()));
        elsewhere.restore(PostgreSqlTarget::Latest).unwrap();
        tree(&elsewhere.directory())
    }

    /// Numbers of the parts that were read since the counts were set back.
    fn parts_read(&self) -> Vec<u32> {
        let parts = 0..u32::try_from(archive(&files()).len().div_ceil(1000)).unwrap();
        parts.filter(|number| self.store.read_count(&self.part_file(*number)).calls > 0).collect()
    }

    fn restore_into(
        &self,
        directory: &Path,
        request: &PostgreSqlRestoreRequest,
    ) -> Result<PostgreSqlRestoreReport, PostgreSqlBackupError> {
        restore_postgresql(&self.repository, SYSTEM, directory, &SystemClock, request, &mut |_| ())
    }
}

fn request() -> PostgreSqlRestoreRequest {
    PostgreSqlRestoreRequest::new("get %f %p".to_owned())
}

#[test]
fn what_is_there_already_is_not_fetched_again() {
    let world = World::of(&archive(&files()));
    world.cut_short();
    world.store.reset_read_counts();
    world.restore(PostgreSqlTarget::Latest).unwrap();
    let read = world.parts_read();
    // The file that has a piece in the part that was gone begins in an earlier one.
    assert!(read[0] + 6 > GONE && read.len() > 10, "{read:?}");
    assert!(tree(&world.directory()) == world.expected());
}

#[test]
fn what_was_kept_is_reported() {
    let world = World::of(&archive(&files()));
    let whole = world.restore(PostgreSqlTarget::Latest).unwrap();
    assert_eq!((whole.kept_files, whole.kept_bytes), (0, 0));
    assert_eq!(whole.fetched_bytes, whole.backup.manifest.bytes());
    std::fs::remove_dir_all(world.directory()).unwrap();
    world.cut_short();
    world.store.reset_read_counts();
    let resumed = world.restore(PostgreSqlTarget::Latest).unwrap();
    let parts = &whole.backup.manifest.parts;
    let read = world.parts_read().into_iter().map(|number| parts[usize::try_from(number).unwrap()].bytes);
    assert_eq!(resumed.fetched_bytes, read.sum::<u64>());
    assert!(resumed.kept_files >= 8 && resumed.kept_bytes > 15_000, "{resumed:?}");
}

/// By its content, and not by its name, length or time.
#[test]
fn what_is_not_whole_any_more_is_fetched_again_and_nothing_else_stays() {
    let world = World::of(&archive(&files()));
    world.cut_short();
    let below = |name: &str| world.directory().join(name);
    let mut changed = std::fs::read(below("base1/2")).unwrap();
    changed[700] ^= 1;
    std::fs::write(below("base1/2"), changed).unwrap();
    std::fs::write(below("base1/3"), b"short").unwrap();
    rustix::fs::unlink(below("base1/4")).unwrap();
    std::fs::write(below("postgresql.auto.conf"), b"shared_preload_libraries = 'other'").unwrap();
    std::fs::write(below("base2/stray"), b"stray").unwrap();
    std::fs::create_dir(below("global")).unwrap();
    std::fs::write(below("global/pg_control.seawall-new"), b"half").unwrap();
    let report = world.restore(PostgreSqlTarget::Latest).unwrap();
    assert!(report.kept_files >= 4, "{report:?}");
    assert!(tree(&world.directory()) == world.expected());
}

#[test]
fn a_restore_of_something_else_is_refused_and_changes_nothing() {
    let world = World::of(&archive(&files()));
    world.cut_short();
    let left = tree(&world.directory());
    let others = [
        PostgreSqlRestoreRequest { target: PostgreSqlTarget::Lsn(Lsn::new(0x80_0000)), ..request() },
        PostgreSqlRestoreRequest { backup: Some(ID.to_owned()), ..request() },
        PostgreSqlRestoreRequest { timeline: Some(TimelineId::FIRST), ..request() },
        PostgreSqlRestoreRequest { role: RestoredRole::Standby, ..request() },
        PostgreSqlRestoreRequest { archive_mode: ArchiveMode::Preserve, ..request() },
    ];
    for other in others {
        let problem = world.restore_into(&world.directory(), &other).unwrap_err();
        assert!(matches!(problem, PostgreSqlBackupError::OtherRestore { .. }), "{other:?}: {problem}");
        assert!(tree(&world.directory()) == left, "{other:?}");
    }
    // How the log is fetched, and how many parts at a time, is no part of what is restored.
    let other = PostgreSqlRestoreRequest { threads: 1, ..PostgreSqlRestoreRequest::new("cp".to_owned()) };
    let report = world.restore_into(&world.directory(), &other).unwrap();
    assert!(report.kept_files > 0, "{report:?}");
    let settings = String::from_utf8(world.read("postgresql.auto.conf").unwrap()).unwrap();
    assert!(settings.contains("restore_command = 'cp'"), "{settings}");
}

#[test]
fn a_newer_backup_is_no_reason_to_begin_anew_and_one_that_is_gone_is() {
    const NEWER: &str = "20261123T031500.000000Z-0000000000700028";
    let world = World::of(&archive(&files()));
    world.cut_short();
    let copy = copy(&tree(&world.directory()));
    let mut other_files = files();
    other_files[0].1 = b"of the newer one".to_vec();
    other_files.push(("base1/new".to_owned(), b"new".to_vec()));
    world.put_backup(NEWER, &archive(&other_files));
    let report = world.restore_into(&world.directory(), &request()).unwrap();
    assert!(report.backup.id == ID && report.kept_files > 0, "{report:?}");
    assert!(tree(&world.directory()) == world.expected());
    let manifest = object_names::manifest(ID).unwrap();
    world.repository.remove_object(System::PostgreSql(SYSTEM), &manifest).unwrap();
    let report = world.restore_into(copy.path(), &request()).unwrap();
    assert!(report.backup.id == NEWER && report.kept_files == 0, "{report:?}");
    assert_eq!(std::fs::read(copy.path().join("backup_label")).unwrap(), b"of the newer one");
    assert_eq!(std::fs::read(copy.path().join("base1/new")).unwrap(), b"new");
}

/// A restore to its end, of which a power loss has left the marker.
#[test]
fn a_cluster_that_may_be_in_use_is_refused_with_what_to_do() {
    let world = World::of(&archive(&files()));
    world.restore(PostgreSqlTarget::Latest).unwrap();
    let problem = world.restore(PostgreSqlTarget::Latest).unwrap_err().to_string();
    assert!(problem.contains("is not empty"), "{problem}");
    std::fs::write(world.directory().join("seawall-restoring"), b"").unwrap();
    let problem = world.restore(PostgreSqlTarget::Latest).unwrap_err().to_string();
    assert!(problem.contains("start PostgreSQL there"), "{problem}");
}

/// A cluster that was restored before, and whose marker a power loss has left: its backups have that, too.
#[test]
fn a_backup_with_the_marker_of_an_earlier_restore_is_restored() {
    let mut files = files();
    files.push(("seawall-restoring".to_owned(), b"A restore of seawall is under way".to_vec()));
    let world = World::of(&archive(&files));
    world.restore(PostgreSqlTarget::Latest).unwrap();
    let (mut found, mut expected) = (tree(&world.directory()), world.expected());
    // It lists that file.
    assert!(found.remove("backup_manifest") != expected.remove("backup_manifest"));
    assert!(found == expected);
}
