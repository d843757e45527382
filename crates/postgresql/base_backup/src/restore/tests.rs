//! Restores of backups that no PostgreSQL has made, so that they are tested where there is none.

mod cut_short;
mod power_loss;

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::sync_channel;

use seawall_archive::{
    Description, LogFileName, ObjectKind, ObjectPlace, Packer, Packing, Pushed, RepositoryOptions,
    SegmentPlace,
};
use seawall_io::SystemClock;
use seawall_simulation::SimulatedDisk;
use seawall_types::Lsn;

use super::super::parts::{Cutter, PartWriter};
use super::super::stream::tests::archive_of;
use super::*;
use seawall_backup::PostgreSqlManifest;
use seawall_backup::object_names;

const SYSTEM: u64 = 7;
const ID: &str = "20261122T031500.000000Z-0000000000700028";
const FILES: &[(&str, &[u8])] = &[
    ("backup_label", b"START WAL LOCATION: 0/700028"),
    ("base/", b""),
    ("base/1", &[7; 9000]),
    ("postgresql.auto.conf", b"work_mem = '1GB'\nrecovery_target_name = 'old'\n"),
    ("standby.signal", b""),
    ("global/", b""),
    ("global/pg_control", b"control"),
];

struct World {
    store: SimulatedDisk,
    repository: Repository,
    scratch: tempfile::TempDir,
}

impl World {
    /// A backup with the segment that it needs, and the one after that.
    fn new(change: impl Fn(String) -> String) -> World {
        World::of(&archive_of(FILES, change))
    }

    fn of(archive: &[u8]) -> World {
        let world = World::empty();
        world.put_backup(ID, archive);
        (7..=8).for_each(|number| world.put_segment(number));
        world
    }

    fn empty() -> World {
        let store = SimulatedDisk::new(1);
        let repository =
            Repository::create_on(Arc::new(store.clone()), RepositoryOptions::default()).unwrap();
        World { store, repository, scratch: tempfile::tempdir().unwrap() }
    }

    fn put_backup(&self, id: &str, archive: &[u8]) {
        let place = ObjectPlace {
            timeline: TimelineId::FIRST,
            segment_bytes: 1 << 20,
            start: Lsn::new(0x70_0028),
            end: Lsn::new(0x70_0100),
            created_micros: 5,
        };
        let system = System::PostgreSql(SYSTEM);
        let packing = Packing::default();
        let writer = PartWriter { repository: &self.repository, system, id, place, packing };
        let (sender, receiver) = sync_channel(1000);
        let mut cutter = Cutter::new(1000, sender);
        cutter.take(archive).unwrap();
        cutter.finish().unwrap();
        let put = Mutex::default();
        writer.work(&Mutex::new(receiver), &put).unwrap();
        let parts = put.into_inner().unwrap().into_iter().map(|(_, info)| info).collect();
        let manifest = PostgreSqlManifest {
            system: SYSTEM,
            release: 150_014,
            timeline: TimelineId::FIRST,
            segment_bytes: 1 << 20,
            start: place.start,
            end: place.end,
            started_micros: 5,
            ended_micros: 10,
            label: "a label".to_owned(),
            files: 5,
            has_bad_pages: false,
            bad_files: Vec::new(),
            parts,
        };
        let header = object_names::manifest(id).unwrap().header(ObjectKind::BackupManifest, system, place);
        let packed = Packer::new(packing).pack(header, manifest.encode().as_bytes());
        assert_eq!(self.repository.push_object(&packed).unwrap(), Pushed::Stored);
    }

    fn put_segment(&self, number: u64) {
        let description = Description {
            name: LogFileName::Segment(SegmentPlace { timeline: TimelineId::FIRST, digits: number }),
            system: System::PostgreSql(SYSTEM),
            log_version: 0xD110,
            segment_bytes: 1 << 20,
            start: Lsn::new(number << 20),
            end: Lsn::new((number + 1) << 20),
            ends_early: false,
        };
        let packed = Packer::new(Packing::default()).pack(description.header(20), b"a segment");
        self.repository.push(&packed).unwrap();
    }

    fn directory(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn restore(&self, target: PostgreSqlTarget) -> Result<PostgreSqlRestoreReport, PostgreSqlBackupError> {
        let request =
            PostgreSqlRestoreRequest { target, ..PostgreSqlRestoreRequest::new("get %f %p".to_owned()) };
        let directory = self.directory();
        restore_postgresql(&self.repository, SYSTEM, &directory, &SystemClock, &request, &mut |_| ())
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.directory().join(name)).ok()
    }
}

#[test]
fn a_cluster_comes_back_with_what_tells_it_how_to_recover() {
    let world = World::new(|list| list);
    let report = world.restore(PostgreSqlTarget::Lsn(Lsn::new(0x80_0000))).unwrap();
    assert_eq!((report.backup.id.as_str(), report.timeline), (ID, TimelineId::FIRST));
    for (name, content) in FILES.iter().filter(|(name, _)| !name.ends_with('/')) {
        match *name {
            "postgresql.auto.conf" => {
                let text = String::from_utf8(world.read(name).unwrap()).unwrap();
                assert!(text.starts_with("work_mem = '1GB'\n# Added"), "{text}");
                assert!(
                    text.contains("restore_command = 'get %f %p'\n")
                        && text.contains("recovery_target_lsn = '0/800000'\n")
                        && text.contains("recovery_target_name = ''\n"),
                    "{text}"
                );
            }
            "standby.signal" => assert_eq!(world.read(name), None),
            _ => assert_eq!(world.read(name).as_deref(), Some(*content), "{name}"),
        }
    }
    assert_eq!((world.read("recovery.signal"), world.read("seawall-restoring")), (Some(Vec::new()), None));
    let mode =
        |name: &str| std::fs::metadata(world.directory().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("base"), mode("base/1")), (0o700, 0o700, 0o600));
}

#[test]
fn what_is_not_whole_is_named_and_cannot_be_started() {
    let world = World::new(|list| list);
    let part = object_names::part(ID, 3);
    let system = System::PostgreSql(SYSTEM);
    world.repository.remove_object(system, &part).unwrap();
    let problem = world.restore(PostgreSqlTarget::Latest).unwrap_err().to_string();
    assert!(problem.contains("part-00000003"), "{problem}");
    assert!(world.read("seawall-restoring").is_some() && world.read("global/pg_control").is_none());
    // PostgreSQL's list says something else than the archive has.
    let world = World::new(|list| list.replace("\"Size\": 9000", "\"Size\": 9001"));
    let problem = world.restore(PostgreSqlTarget::Latest).unwrap_err();
    assert!(
        matches!(problem, PostgreSqlBackupError::Backup(BackupError::Damaged { .. }))
            && problem.to_string().contains("base/1"),
        "{problem}"
    );
    assert!(world.read("seawall-restoring").is_some() && world.read("global/pg_control").is_none());
}

#[test]
fn what_cannot_be_reached_is_refused_before_anything_is_written() {
    use PostgreSqlTarget::{Latest, Lsn as At, RestorePoint, Time};
    let world = World::new(|list| list);
    for (target, expected) in [
        (At(Lsn::new(0x90_0000)), "lies after the end of the log of timeline 1 in the repository, 0/900000"),
        (At(Lsn::new(0x70_0000)), "ends at 0/700100"),
        (Time(9), "later than that"),
        (Time(21), "later than the last segment of timeline 1 in the repository, 000000010000000000000008"),
        // These segments are none, so nothing can be found in them.
        (RestorePoint("x".to_owned()), "is damaged"),
    ] {
        let problem = world.restore(target.clone()).unwrap_err().to_string();
        assert!(problem.contains(expected), "{target:?}: {problem}");
    }
    // 9 is missing.
    world.put_segment(10);
    for target in [Latest, Time(21), At(Lsn::new(0xA0_0000))] {
        let problem = world.restore(target.clone()).unwrap_err().to_string();
        assert!(
            problem.contains("there is a gap on the way: 000000010000000000000009"),
            "{target:?}: {problem}"
        );
    }
    assert!(!world.directory().exists());
    world.restore(Time(20)).unwrap();
    // Nor is anything without the log that makes the files consistent.
    let bare = World::empty();
    bare.put_backup(ID, &archive_of(FILES, |list| list));
    let refused = bare.restore(Latest).unwrap_err();
    assert!(matches!(refused, PostgreSqlBackupError::Backup(BackupError::LogTooShort { .. })), "{refused}");
    assert!(!bare.directory().exists());
}
