//! A store that somebody else writes to, who has no key: of an encrypted repository nothing is believed that was not made with
//! its keys.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{SYSTEM, history, name, options, pack};
use seawall_archive::{
    ArchiveError, Compression, Gap, GapRecord, LogFileName, ObjectKind, ObjectName, ObjectPlace, Packed,
    Packer, Packing, Pushed, Repository, StoredName, System, TimelineId,
};
use seawall_codec::checksum::crc32c;
use seawall_io::Disk;
use seawall_simulation::SimulatedDisk;

const POSTGRESQL: System = System::PostgreSql(SYSTEM);
const HEADER: &str = "seawall-repository";
const GAP: &str = "000000010000000000000005-000000010000000000000009";

fn arc(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn encrypted() -> (SimulatedDisk, Repository) {
    let disk = SimulatedDisk::new(1);
    let repository = Repository::create_on(arc(&disk), options(1, Some(1))).unwrap();
    (disk, repository)
}

fn manifest() -> Packed {
    let name = ObjectName::parse("backups/b/manifest").unwrap();
    let timeline = TimelineId::new(1).unwrap();
    let (start, end) = (seawall_archive::Lsn::ZERO, seawall_archive::Lsn::ZERO);
    let place = ObjectPlace { timeline, segment_bytes: 0, start, end, created_micros: 1 };
    Packer::new(Packing::default())
        .pack(name.header(ObjectKind::BackupManifest, POSTGRESQL, place), b"a manifest")
}

fn gap() -> GapRecord {
    let place = |digits| match LogFileName::parse(digits) {
        Some(LogFileName::Segment(place)) => place,
        _ => panic!("{digits}"),
    };
    let (first, last) = GAP.split_once('-').unwrap();
    let gap = Gap { first: place(first), last: place(last) };
    GapRecord { gap, noticed_micros: 7, reason: "removed by retention".to_owned() }
}

/// Puts what another repository, made without a key, would have at this place.
fn forge(disk: &SimulatedDisk, put: impl Fn(&Repository)) {
    let plain = SimulatedDisk::new(2);
    put(&Repository::create_on(arc(&plain), options(2, None)).unwrap());
    for entry in plain.list_all().into_iter().filter(|entry| entry.name != HEADER) {
        disk.write_file(&entry.name, &plain.read_file(&entry.name).unwrap());
    }
}

#[test]
fn an_encrypted_repository_believes_no_object_that_is_not_encrypted() {
    let (disk, repository) = encrypted();
    let (file, content) = history("promoted");
    forge(&disk, |plain| {
        assert_eq!(plain.push(&pack(&file, &content, Compression::Lz4)).unwrap(), Pushed::Stored);
        plain.push_object(&manifest()).unwrap();
        plain.record_gap(POSTGRESQL, &gap()).unwrap();
    });
    let mut sink = Vec::new();
    let object = ObjectName::parse("backups/b/manifest").unwrap();
    let refusals = [
        ("fetch", repository.fetch(POSTGRESQL, name(&file), &mut sink).map(drop)),
        ("stat", repository.stat(POSTGRESQL, name(&file)).map(drop)),
        ("has_content", repository.has_content(POSTGRESQL, name(&file), &content).map(drop)),
        ("push of the same", repository.push(&pack(&file, &content, Compression::Lz4)).map(drop)),
        ("fetch_object", repository.fetch_object(POSTGRESQL, &object, &mut sink).map(drop)),
        ("read_gap", repository.read_gap(POSTGRESQL, gap().gap).map(drop)),
        ("record_gap", repository.record_gap(POSTGRESQL, &gap())),
    ];
    for (what, refused) in refusals {
        let error = refused.expect_err(what);
        let is_told = matches!(error, ArchiveError::Damaged { .. });
        assert!(is_told && error.to_string().contains("not encrypted"), "{what}: {error}");
    }
    assert!(sink.is_empty(), "nothing of it is handed on");
    let stored = repository.stored(Some(POSTGRESQL)).unwrap();
    assert_eq!(stored.len(), 3);
    for object in &stored {
        assert!(repository.header_of(object).is_err(), "{object:?}");
        assert!(repository.fetch_stored(object, &mut Vec::new()).is_err(), "{object:?}");
    }
}

#[test]
fn a_header_of_an_object_that_was_changed_is_not_believed_without_its_content() {
    let (disk, repository) = encrypted();
    let (file, content) = history("promoted");
    repository.push(&pack(&file, &content, Compression::Lz4)).unwrap();
    let path = disk.list_all().into_iter().find(|entry| entry.name.ends_with(&file)).unwrap().name;
    let mut object = disk.read_file(&path).unwrap();
    // `created`, with a checksum that is right.
    object[64] ^= 1;
    object[12..16].fill(0);
    let checksum = crc32c(&object[..512]);
    object[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.write_file(&path, &object);
    let error = repository.stat(POSTGRESQL, name(&file)).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
}

/// Who opens a repository with a master key wants an encrypted one, whatever its header says by now.
#[test]
fn a_header_that_was_replaced_is_refused() {
    let (disk, repository) = encrypted();
    let text = String::from_utf8(disk.read_file(HEADER).unwrap()).unwrap();
    let sealed = |body: &str| {
        let (body, _) = body.split_once("crc32c").unwrap();
        format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes())).into_bytes()
    };
    assert_eq!(sealed(&text), text.as_bytes(), "the test makes checksums as the program does");
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    let plain = text
        .replace(line("encryption"), "encryption none")
        .replace(&format!("{}\n", line("key")), "")
        .replace(&format!("{}\n", line("seal")), "");
    disk.write_file(HEADER, &sealed(&plain));
    let error = Repository::open_on(arc(&disk), options(3, Some(1))).unwrap_err();
    assert!(matches!(error, ArchiveError::NotEncrypted { .. }), "{error}");
    assert!(matches!(repository.refresh(), Err(ArchiveError::OtherRepository { .. })));
    let (file, content) = history("promoted");
    assert!(repository.push(&pack(&file, &content, Compression::Lz4)).is_err());
    disk.write_file(HEADER, &sealed(&text.replace(line("created"), "created 1")));
    let error = Repository::open_on(arc(&disk), options(3, Some(1))).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
    disk.write_file(HEADER, text.as_bytes());
    Repository::open_on(arc(&disk), options(3, Some(1))).unwrap();
}

#[test]
fn gaps_are_on_record_in_any_repository_and_encrypted_where_the_rest_is() {
    for master_key in [None, Some(1)] {
        let disk = SimulatedDisk::new(1);
        let repository = Repository::create_on(arc(&disk), options(1, master_key)).unwrap();
        repository.record_gap(POSTGRESQL, &gap()).unwrap();
        // Noted again by an agent that does not know that it is on record, with other words.
        repository.record_gap(POSTGRESQL, &GapRecord { reason: "other".to_owned(), ..gap() }).unwrap();
        assert_eq!(repository.gaps(POSTGRESQL).unwrap(), [gap().gap]);
        assert_eq!(repository.read_gap(POSTGRESQL, gap().gap).unwrap(), gap());
        let stored = repository.stored(Some(POSTGRESQL)).unwrap();
        assert!(matches!(stored[0].name, Some(StoredName::Gap(..))));
        let text = disk.read_file(&stored[0].path).unwrap();
        let is_readable = text.windows(9).any(|window| window == b"retention");
        assert_eq!(is_readable, master_key.is_none());
        let header = repository.header_of(&stored[0]).unwrap().unwrap();
        assert_eq!((header.kind, header.name.as_str()), (ObjectKind::GapRecord, GAP));
    }
}
