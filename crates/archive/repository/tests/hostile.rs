//! A store that somebody else writes to, who has no key: of an encrypted repository nothing is believed that was not made with
//! its keys.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use common::object_server::ObjectServer;
use common::store_server::Reply;
use common::{SYSTEM, history, name, options, pack};
use seawall_archive::{
    ArchiveError, Compression, Gap, GapRecord, LogFileName, ObjectKind, ObjectName, ObjectPlace, Packed,
    Packer, Packing, Pushed, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy, StoredName, System,
    TimelineId,
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

/// A repository in a store that, once it is told so, gives more than there is of each object with `part` in its name: `bytes` every few
/// milliseconds, without end.
struct Endless {
    store: ObjectServer,
    is_on: Arc<AtomicBool>,
    master_key: Option<u8>,
}

impl Endless {
    fn new(part: &'static str, bytes: usize, master_key: Option<u8>) -> (Endless, Repository) {
        let is_on = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_on);
        let store = ObjectServer::start(move |request, objects| {
            let name = request.path.strip_prefix("/bucket/").filter(|name| name.contains(part));
            let object = name.and_then(|name| objects.get(name)).filter(|_| request.method == "GET");
            let object = object.filter(|_| asked.load(Ordering::SeqCst));
            object.map(|object| Reply::Endless(object.clone(), bytes))
        });
        let endless = Endless { store, is_on, master_key };
        let repository = Repository::create(&endless.url(), endless.options()).unwrap();
        let (file, content) = history("promoted");
        repository.push(&pack(&file, &content, Compression::Lz4)).unwrap();
        endless.is_on.store(true, Ordering::SeqCst);
        (endless, repository)
    }

    fn url(&self) -> RepositoryUrl {
        self.store.server.url().parse().unwrap()
    }

    fn options(&self) -> RepositoryOptions {
        let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let credentials: BTreeMap<String, String> =
            credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        RepositoryOptions { credentials, retry: RetryPolicy::once(), ..options(1, self.master_key) }
    }
}

/// What a call to such a store comes to, which it must.
#[track_caller]
fn ends<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(call()).unwrap_or(()));
    seawall_testing::wait_for(what, || receiver.try_recv().ok())
}

#[test]
fn a_header_of_a_repository_that_never_ends_is_refused() {
    // Quickly more than it may have, and a byte now and then.
    for bytes in [4096, 1] {
        let (endless, _) = Endless::new(HEADER, bytes, None);
        let (url, options) = (endless.url(), endless.options());
        let opened = ends("a repository to be opened", move || Repository::open(&url, options));
        let error = opened.unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged { .. } | ArchiveError::Store(_)), "{error}");
        assert!(error.to_string().contains(HEADER), "{error}");
    }
}

#[test]
fn a_ring_of_keys_that_never_ends_is_refused() {
    for bytes in [1 << 20, 1] {
        let (endless, _) = Endless::new("/keys/", bytes, Some(1));
        let (url, options) = (endless.url(), endless.options());
        let opened = ends("a repository to be opened", move || Repository::open(&url, options));
        let error = opened.unwrap_err();
        assert!(matches!(error, ArchiveError::Key { .. } | ArchiveError::Store(_)), "{error}");
        assert!(error.to_string().contains("/keys/"), "{error}");
    }
}

#[test]
fn of_an_object_that_never_ends_the_header_is_read() {
    let (_endless, repository) = Endless::new(".history", 4096, None);
    let file = history("promoted").0;
    let header = ends("the header of an object", move || repository.stat(POSTGRESQL, name(&file)));
    assert_eq!(header.unwrap().unwrap().kind, ObjectKind::TimelineHistory);
}

#[test]
fn a_check_of_a_store_that_gives_more_than_was_put_ends() {
    let (_endless, repository) = Endless::new("/check/", 4096, None);
    let error = ends("a check", move || repository.check()).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
}
