//! Every sort of damage is found and named, and nothing else is.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use common::World;
use seawall_archive::{Gap, GapRecord, LogFileName, ObjectName, SegmentPlace, System};
use seawall_backup::{
    BackupError, Finding, FindingKind, Severity, StoredBackup, VerifyDepth, VerifyOptions, VerifyReport,
    verify,
};
use seawall_engine::RestoreTarget;
use seawall_io::Clock;
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations};
use seawall_types::TimelineId;

/// A database with two backups, and segments between and behind them.
struct Archive {
    world: World,
    system: System,
    backups: Vec<StoredBackup>,
    /// Whole segments of its first timeline.
    segments: Vec<SegmentPlace>,
}

fn archive_in(world: World) -> Archive {
    let database = world.open();
    let table = database.create_table("t").unwrap();
    let mut backups = Vec::new();
    for number in 0..2_u32 {
        for key in 0..30_u32 {
            database.put(&table, (number * 100 + key).to_be_bytes(), [5; 20_000]).unwrap();
        }
        database.checkpoint().unwrap();
        backups.push(world.back_up(&database));
    }
    for key in 0..30_u32 {
        database.put(&table, key.to_be_bytes(), [6; 20_000]).unwrap();
    }
    database.log().archive_now().unwrap();
    let system = System::Seawall(database.info().unwrap().database);
    database.close().unwrap();
    world.clock.advance(Duration::from_secs(3600));
    let files = world.repository().list(system, Some(TimelineId::FIRST)).unwrap();
    let segments = files.into_iter().filter_map(|(name, _)| match name {
        LogFileName::Segment(place) => Some(place),
        LogFileName::Partial(_) | LogFileName::BackupLabel(..) | LogFileName::History(_) => None,
    });
    Archive { segments: segments.collect(), world, system, backups }
}

fn archive() -> Archive {
    archive_in(World::new())
}

impl Archive {
    fn path(&self, place: SegmentPlace) -> String {
        format!("{}/log/00000001/00000000000000/{place}", self.system)
    }

    fn run(&self, backup: usize, number: u32) -> String {
        format!("{}/backups/{}/run-{number:08}", self.system, self.backups[backup].id)
    }

    fn try_verify(&self, options: &VerifyOptions) -> Result<(Vec<Finding>, VerifyReport), BackupError> {
        let mut findings = Vec::new();
        let repository = self.world.repository();
        let report = verify(
            &repository,
            &self.world.clock,
            options,
            &mut |finding| findings.push(finding),
            &mut |_| {},
        )?;
        let count =
            |severity| findings.iter().filter(|finding| finding.kind.severity() == severity).count() as u64;
        assert_eq!((report.damages, report.doubts), (count(Severity::Damage), count(Severity::Doubt)));
        Ok((findings, report))
    }

    fn verify(&self, depth: VerifyDepth) -> Vec<(FindingKind, String)> {
        let options = VerifyOptions { depth, threads: 3, settle: Duration::from_secs(60) };
        let (findings, _) = self.try_verify(&options).unwrap();
        findings
            .into_iter()
            .map(|finding| (finding.kind, format!("{}: {}", finding.object, finding.problem)))
            .collect()
    }

    /// The one finding, which both depths have.
    fn finds(&self, kind: FindingKind, words: &[&str]) {
        for depth in [VerifyDepth::Headers, VerifyDepth::Content] {
            let found = self.verify(depth);
            assert!(
                found.iter().any(|(of, text)| *of == kind && words.iter().all(|word| text.contains(word))),
                "{depth:?}: {words:?} in {found:#?}"
            );
            let others = found.iter().filter(|(of, _)| *of != kind).collect::<Vec<_>>();
            assert!(others.is_empty() || kind == FindingKind::MissingLog, "{depth:?}: {others:#?}");
        }
    }
}

#[test]
fn a_good_repository_has_nothing_to_find_and_is_read_whole() {
    for world in [World::new(), World::encrypted()] {
        let archive = archive_in(world);
        let (findings, headers) = archive.try_verify(&VerifyOptions::default()).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        let full = VerifyOptions { depth: VerifyDepth::Content, ..VerifyOptions::default() };
        let (findings, content) = archive.try_verify(&full).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!((headers.backups, headers.objects), (2, content.objects));
        assert!(content.checked_bytes > 20 * common::SEGMENT_BYTES && headers.checked_bytes < 10_000);
    }
}

#[test]
fn an_object_that_was_cut_is_found_by_its_length() {
    let archive = archive();
    let path = archive.path(archive.segments[7]);
    let length = archive.world.store.read_file(&path).unwrap().len() as u64;
    archive.world.store.truncate(&path, length - 1);
    archive.finds(FindingKind::Damaged, &[&path, "bytes where its header says"]);
}

#[test]
fn a_flipped_bit_in_a_header_is_found_at_once_and_one_in_a_body_when_it_is_read() {
    let archive = archive();
    let (segment, run) = (archive.path(archive.segments[3]), archive.run(0, 1));
    archive.world.store.flip_bit(&segment, 50, 1);
    archive.finds(FindingKind::Damaged, &[&segment, "checksum of its header"]);
    archive.world.store.flip_bit(&segment, 50, 1);
    for path in [&segment, &run] {
        let last = archive.world.store.read_file(path).unwrap().len() as u64 - 1;
        archive.world.store.flip_bit(path, last, 1);
        assert_eq!(archive.verify(VerifyDepth::Headers), []);
        let found = archive.verify(VerifyDepth::Content);
        assert!(
            found.len() == 1 && found[0].0 == FindingKind::Damaged && found[0].1.contains(path.as_str()),
            "{found:?}"
        );
        archive.world.store.flip_bit(path, last, 1);
    }
    assert_eq!(archive.verify(VerifyDepth::Content), []);
}

#[test]
fn a_missing_segment_is_found_and_one_on_record_is_told_from_it() {
    let archive = archive();
    let missing = archive.segments[archive.segments.len() - 4];
    archive.world.store.remove_file(&archive.path(missing));
    archive.finds(FindingKind::MissingLog, &[&missing.to_string(), "nothing says why"]);
    let late = RestoreTarget::Time(archive.world.clock.wall_micros());
    let problem = archive.world.restore(late).unwrap_err().to_string();
    assert!(problem.contains("gap"), "{problem}");
    // The next one was archived an hour ago.
    let options = VerifyOptions { settle: Duration::from_secs(2 * 3600), ..VerifyOptions::default() };
    let (findings, _) = archive.try_verify(&options).unwrap();
    assert_eq!(findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [FindingKind::OnItsWay]);
    let gap = Gap { first: missing, last: missing };
    let noticed_micros = archive.world.clock.wall_micros();
    let record = GapRecord { gap, noticed_micros, reason: "down".to_owned() };
    archive.world.repository().record_gap(archive.system, &record).unwrap();
    archive.finds(FindingKind::OnRecord, &[&missing.to_string()]);
}

#[test]
fn a_backup_that_lacks_its_log_or_an_object_is_named() {
    let archive = archive();
    let backup = &archive.backups[1];
    let number = backup.manifest.base.redo_point.get() / common::SEGMENT_BYTES;
    let first = SegmentPlace { timeline: TimelineId::FIRST, digits: number };
    let path = archive.path(first);
    let content = archive.world.store.read_file(&path).unwrap();
    archive.world.store.remove_file(&path);
    let found = archive.verify(VerifyDepth::Headers);
    let of = |kind| found.iter().filter(|(of, _)| *of == kind).map(|(_, text)| text).collect::<Vec<_>>();
    assert!(of(FindingKind::MissingLog)[0].contains(&first.to_string()), "{found:?}");
    assert!(of(FindingKind::BackupWithoutLog).iter().any(|text| text.contains(&backup.id)), "{found:?}");
    archive.world.store.write_file(&path, &content);
    assert_eq!(archive.verify(VerifyDepth::Headers), []);
    archive.world.store.remove_file(&archive.run(1, 1));
    archive.finds(FindingKind::BackupIncomplete, &[&backup.id, "run-00000001 is missing"]);
    // Another good object in its place.
    let other = ObjectName::parse(&format!("backups/{}/run-00000001", archive.backups[0].id)).unwrap();
    let other = archive.world.store.read_file(&format!("{}/{other}", archive.system)).unwrap();
    archive.world.store.write_file(&archive.run(1, 1), &other);
    let found = archive.verify(VerifyDepth::Headers);
    assert!(found[0].0 == FindingKind::Damaged && found[0].1.contains("moved or renamed"), "{found:?}");
}

#[test]
fn a_damaged_manifest_history_or_gap_is_found_without_reading_everything() {
    let archive = archive();
    let manifest = format!("{}/backups/{}/manifest", archive.system, archive.backups[0].id);
    archive.world.store.flip_bit(&manifest, 600, 0);
    archive.finds(FindingKind::Damaged, &[&manifest]);
    archive.world.store.flip_bit(&manifest, 600, 0);
    let gap = format!("{}/gaps/000000010000000000000001-000000010000000000000001", archive.system);
    archive.world.store.write_file(&gap, b"Seawall archive gap\n");
    archive.finds(FindingKind::Damaged, &[&gap]);
}

#[test]
fn strangers_leftovers_and_unfinished_backups_are_told_apart() {
    let archive = archive();
    let store = &archive.world.store;
    store.write_file(&format!("{}/log/00000001/00000000000000/core", archive.system), b"x");
    store.write_file("notes.txt", b"x");
    let manifest = format!("{}/backups/{}/manifest", archive.system, archive.backups[0].id);
    store.remove_file(&manifest);
    let found = archive.verify(VerifyDepth::Content);
    let kinds: Vec<FindingKind> = found.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [FindingKind::Stranger, FindingKind::Stranger, FindingKind::Unfinished], "{found:?}");
    assert!(found.iter().any(|(_, text)| text.contains("notes.txt")));
}

#[test]
fn what_the_disk_does_not_give_is_damage_and_the_rest_is_examined() {
    let archive = archive();
    let path = archive.path(archive.segments[5]);
    archive.world.store.inject(Fault {
        target: FaultTarget::Path { prefix: path.clone(), operations: Operations::Reads },
        error: FaultError::Number(5),
        skip: 0,
        count: 1,
    });
    let (findings, report) = archive.try_verify(&VerifyOptions::default()).unwrap();
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].object.contains(&path) && findings[0].problem.contains("cannot be read"),
        "{findings:?}"
    );
    assert_eq!(report.backups, 2);
}

#[test]
fn a_timeline_that_was_left_in_the_middle_of_a_segment_is_whole() {
    let archive = archive();
    let end = archive.backups[1].manifest.end.end;
    let (disk, _) = archive.world.restore(RestoreTarget::Lsn(end)).unwrap();
    let restored = archive.world.open_at(&disk);
    let table = restored.table("t").unwrap();
    for key in 0..20_u32 {
        restored.put(&table, key.to_be_bytes(), [9; 20_000]).unwrap();
    }
    restored.log().archive_now().unwrap();
    archive.world.back_up(&restored);
    restored.close().unwrap();
    archive.world.clock.advance(Duration::from_secs(3600));
    assert_eq!(archive.verify(VerifyDepth::Content), []);
    // The first segment of the new timeline is not between others, but is needed.
    let files = archive.world.repository().list(archive.system, TimelineId::new(2)).unwrap();
    let LogFileName::Segment(first) = files[0].0 else { panic!("{files:?}") };
    archive.world.store.remove_file(&format!("{}/log/00000002/00000000000000/{first}", archive.system));
    let found = archive.verify(VerifyDepth::Headers);
    assert!(found.iter().any(|(kind, _)| kind.severity() == Severity::Damage), "{found:?}");
    let history = format!("{}/timelines/00000002.history", archive.system);
    archive.world.store.flip_bit(&history, 530, 2);
    let found = archive.verify(VerifyDepth::Headers);
    assert!(
        found.iter().any(|(kind, text)| *kind == FindingKind::Damaged && text.contains(&history)),
        "{found:?}"
    );
    assert!(!found.iter().any(|(kind, _)| *kind == FindingKind::MissingHistory), "{found:?}");
    archive.world.store.remove_file(&history);
    let found = archive.verify(VerifyDepth::Headers);
    let missing = found.iter().find(|(kind, _)| *kind == FindingKind::MissingHistory);
    assert!(missing.is_some_and(|(_, text)| text.contains("00000002.history")), "{found:?}");
}

#[test]
fn log_between_backups_of_a_database_that_does_not_archive_is_not_lost() {
    let world = World { archives: false, ..World::new() };
    let database = world.open();
    let table = database.create_table("t").unwrap();
    let mut backups = Vec::new();
    for number in 0..3_u32 {
        for key in 0..30_u32 {
            database.put(&table, (number * 100 + key).to_be_bytes(), [5; 20_000]).unwrap();
        }
        database.checkpoint().unwrap();
        backups.push(world.back_up(&database));
    }
    let system = System::Seawall(database.info().unwrap().database);
    database.close().unwrap();
    world.clock.advance(Duration::from_secs(3600));
    let archive = Archive { world, system, backups, segments: Vec::new() };
    let found = archive.verify(VerifyDepth::Content);
    let kinds: Vec<FindingKind> = found.iter().map(|(kind, _)| *kind).collect();
    // The second backup needs but a part of a segment, so its log lies in the midst of what is missing.
    assert_eq!(kinds, [FindingKind::NotArchived], "{found:?}");
}
