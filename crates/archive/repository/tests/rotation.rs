//! Master keys that change, one after another, at the same moment, and with the power failing: no object is lost.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::object_server::ObjectServer;
use common::store_server::Reply;
use common::{SYSTEM, history, master, name, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, KeyInForce, Pushed, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy,
    Rotation, System,
};
use seawall_io::Random;
use seawall_keys::{MasterKey, OtherMasterKeys, SecretKey, master_key_fingerprint};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom, seeds};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);
const KEEP: Rotation = Rotation { others: OtherMasterKeys::Keep, key: KeyInForce::Newest };
const DROP: Rotation = Rotation { others: OtherMasterKeys::Drop, key: KeyInForce::Newest };

/// Each opens with randomness of its own, as processes do.
fn open(disk: &SimulatedDisk, key: u8) -> Result<Repository, ArchiveError> {
    static SEED: AtomicU64 = AtomicU64::new(100);
    let seed = SEED.fetch_add(1, Ordering::SeqCst);
    Repository::open_on(Arc::new(disk.clone()), options(seed, Some(key)))
}

fn create(disk: &SimulatedDisk, key: u8) -> Repository {
    Repository::create_on(Arc::new(disk.clone()), options(1, Some(key))).unwrap()
}

fn push(repository: &Repository, timeline: u32) -> String {
    let file = format!("{timeline:08X}.history");
    let content = history(&file).1;
    let packed = common::describe(&file, &content);
    let packed =
        seawall_archive::Packer::new(seawall_archive::Packing::default()).pack(packed.header(1), &content);
    repository.push(&packed).unwrap();
    file
}

fn has(repository: &Repository, file: &str) -> bool {
    let mut content = Vec::new();
    let fetched = repository.fetch(POSTGRESQL, name(file), &mut content);
    fetched.is_ok() && content == history(file).1
}

#[test]
fn a_master_key_changes_without_a_byte_of_the_archive() {
    let disk = SimulatedDisk::new(1);
    let (file, content) = &segments(1)[0];
    let repository = create(&disk, 1);
    repository.push(&pack(file, content, Compression::Lz4)).unwrap();
    let before = disk.list_all();
    let error = open(&disk, 2).unwrap_err();
    assert!(matches!(error, ArchiveError::WrongMasterKey { .. }), "{error}");
    for _ in 0..2 {
        assert!(repository.rotate_master_key(&master(2), KEEP).unwrap().removed_master_keys.is_empty());
        assert_eq!(open(&disk, 2).unwrap().master_keys().unwrap().len(), 2);
    }
    // A new repository key: old objects keep theirs.
    let renewed = Rotation { key: KeyInForce::Renewed, ..KEEP };
    repository.rotate_master_key(&master(2), renewed).unwrap();
    let history = push(&repository, 2);
    let removed = open(&disk, 2).unwrap().rotate_master_key(&master(2), DROP).unwrap();
    assert_eq!((removed.removed_master_keys.len(), removed.left_rings.len()), (1, 0));
    assert!(matches!(open(&disk, 1), Err(ArchiveError::WrongMasterKey { .. })));
    let new = open(&disk, 2).unwrap();
    let mut fetched = Vec::new();
    new.fetch(POSTGRESQL, name(file), &mut fetched).unwrap();
    assert!(fetched == *content && has(&new, &history));
    assert_eq!(new.push(&pack(file, content, Compression::Lz4)).unwrap(), Pushed::AlreadyThere);
    // Beside the history, there is one small object in place of another.
    assert_eq!(disk.list_all().len(), before.len() + 1, "{:?}", disk.list_all());
}

/// Three administrators, one of whom knows nothing of the second repository key.
#[test]
fn a_rotation_by_a_master_key_that_was_kept_loses_no_repository_key() {
    let disk = SimulatedDisk::new(1);
    let repository = create(&disk, 1);
    repository.rotate_master_key(&master(2), KEEP).unwrap();
    let renew = |rotation| Rotation { key: KeyInForce::Renewed, ..rotation };
    // The second one could not open what is put from then on.
    let error = repository.rotate_master_key(&master(3), renew(KEEP)).unwrap_err();
    let other = open(&disk, 2).unwrap().master_keys().unwrap();
    assert!(matches!(error, ArchiveError::KeptMasterKeys { .. }), "{error}");
    assert!(other.iter().any(|other| error.to_string().contains(other.as_str())), "{error}");
    assert_eq!(other.len(), 2, "nothing was changed");
    open(&disk, 1).unwrap().rotate_master_key(&master(3), renew(DROP)).unwrap();
    let file = push(&open(&disk, 3).unwrap(), 2);
    assert!(matches!(open(&disk, 2), Err(ArchiveError::WrongMasterKey { .. })));
    open(&disk, 3).unwrap().rotate_master_key(&master(4), DROP).unwrap();
    assert!(has(&open(&disk, 4).unwrap(), &file));
}

/// Each thread rotates from a key that it knows to one of its own, and pushes with what it has. What was acknowledged can be
/// fetched by whoever opens the repository in the end; and somebody does.
#[test]
fn rotations_at_the_same_moment_lose_no_object() {
    for seed in seeds(30) {
        let disk = SimulatedDisk::new(seed);
        create(&disk, 1);
        let start = std::sync::Barrier::new(4);
        let acknowledged: Vec<(u8, Option<String>)> = std::thread::scope(|scope| {
            let run = |thread: u8| {
                let (disk, start) = (&disk, &start);
                scope.spawn(move || {
                    let mut random = SeededRandom::new(seed << 8 | u64::from(thread));
                    let repository = open(disk, 1).unwrap();
                    let others =
                        if random.chance(1, 2) { OtherMasterKeys::Keep } else { OtherMasterKeys::Drop };
                    let key = if random.chance(1, 2) { KeyInForce::Renewed } else { KeyInForce::Newest };
                    start.wait();
                    let rotated = repository.rotate_master_key(&master(thread), Rotation { others, key });
                    match rotated {
                        Ok(_) => {}
                        Err(
                            ArchiveError::RotatedMeanwhile { .. }
                            | ArchiveError::WrongMasterKey { .. }
                            | ArchiveError::KeptMasterKeys { .. },
                        ) => return (thread, None),
                        Err(error) => panic!("seed {seed}, thread {thread}: {error}"),
                    }
                    (thread, Some(push(&repository, u32::from(thread))))
                })
            };
            let threads: Vec<_> = (2..6).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let opened: Vec<Repository> = (1..6).filter_map(|key| open(&disk, key).ok()).collect();
        assert!(!opened.is_empty(), "seed {seed}: no master key opens the repository");
        for file in acknowledged.iter().filter_map(|(_, file)| file.as_ref()) {
            for repository in &opened {
                assert!(has(repository, file), "seed {seed}: {file} of {acknowledged:?}");
            }
        }
    }
}

#[test]
fn a_power_loss_at_any_call_of_a_rotation_leaves_the_old_master_keys_or_the_new_ones() {
    for rotation in [DROP, KEEP, Rotation { key: KeyInForce::Renewed, ..DROP }] {
        let run = |disk: &SimulatedDisk| {
            let Ok(repository) = open(disk, 1) else { return false };
            repository.rotate_master_key(&master(2), rotation).is_ok()
        };
        let prepared = || {
            let disk = SimulatedDisk::new(1);
            push(&create(&disk, 1), 2);
            disk
        };
        let whole = prepared();
        let before = whole.calls();
        assert!(run(&whole));
        let calls = whole.calls();
        assert!(calls > before + 5);
        for call in before..=calls {
            for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
                let disk = prepared();
                disk.crash_at(call);
                let is_acknowledged = run(&disk);
                let disk = disk.after_power_loss(outcome);
                let what = format!("{rotation:?}, call {call} of {calls}, {outcome:?}");
                let opens: Vec<bool> = [1, 2].map(|key| open(&disk, key).is_ok()).into();
                let done = [rotation.others == OtherMasterKeys::Keep, true];
                assert!(opens == [true, false] || opens == done, "{what}: {opens:?}");
                assert!(!is_acknowledged || opens == done, "{what}: {opens:?}");
                for key in [1, 2].into_iter().filter(|key| opens[usize::from(*key) - 1]) {
                    let repository = open(&disk, key).unwrap();
                    assert!(has(&repository, "00000002.history"), "{what}, master key {key}");
                    // Again, by whoever can: then nothing is left behind.
                    repository.rotate_master_key(&master(2), DROP).unwrap();
                }
                let keys = disk
                    .list_all()
                    .into_iter()
                    .filter(|entry| entry.name.starts_with("keys/") && !entry.name.contains("/."));
                assert_eq!(keys.count(), 1, "{what}");
            }
        }
    }
}

/// Randomness that lets others work when it is asked for the first time after `interrupt`.
struct Interrupted {
    random: SimulatedRandom,
    others: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Interrupted")
    }
}

impl Random for Interrupted {
    fn fill(&self, bytes: &mut [u8]) {
        let others = self.others.lock().unwrap().take();
        if let Some(others) = others {
            others();
        }
        self.random.fill(bytes);
    }
}

/// A rotation has read the ring when two others take place: the number that it puts is free again by then.
#[test]
fn a_rotation_that_was_overtaken_twice_is_refused_and_its_key_is_not_used() {
    let disk = SimulatedDisk::new(1);
    create(&disk, 1);
    let random = Arc::new(Interrupted { random: SimulatedRandom::new(50), others: Mutex::default() });
    let slow = RepositoryOptions { random: Arc::clone(&random) as Arc<dyn Random>, ..options(50, Some(1)) };
    let slow = Repository::open_on(Arc::new(disk.clone()), slow).unwrap();
    let others = disk.clone();
    *random.others.lock().unwrap() = Some(Box::new(move || {
        open(&others, 1).unwrap().rotate_master_key(&master(2), DROP).unwrap();
        open(&others, 2).unwrap().rotate_master_key(&master(3), DROP).unwrap();
    }));
    let renewed = Rotation { key: KeyInForce::Renewed, ..DROP };
    let error = slow.rotate_master_key(&master(4), renewed).unwrap_err();
    assert!(matches!(error, ArchiveError::RotatedMeanwhile { .. }), "{error}");
    assert_eq!(rings(&disk).len(), 1, "it has taken back what does not count");
    let file = push(&slow, 2);
    assert!(has(&open(&disk, 3).unwrap(), &file));
    open(&disk, 3).unwrap().rotate_master_key(&master(5), DROP).unwrap();
    assert!(has(&open(&disk, 5).unwrap(), &file));
}

/// `openssl rand` as the command that gives the key would lock everybody out.
#[test]
fn a_source_that_gives_another_key_each_time_changes_nothing() {
    let disk = SimulatedDisk::new(1);
    let repository = create(&disk, 1);
    let source = MasterKey::Command("head -c 32 /dev/urandom".to_owned());
    let error = repository.rotate_master_key(&source, DROP).unwrap_err();
    assert!(matches!(error, ArchiveError::UnsteadyMasterKey { .. }), "{error}");
    assert_eq!(open(&disk, 1).unwrap().master_keys().unwrap().len(), 1);
}

#[test]
fn an_open_repository_takes_up_a_renewed_key_by_itself() {
    let disk = SimulatedDisk::new(1);
    create(&disk, 1);
    let (reader, writer) = (open(&disk, 1).unwrap(), open(&disk, 1).unwrap());
    writer.rotate_master_key(&master(1), Rotation { key: KeyInForce::Renewed, ..KEEP }).unwrap();
    let file = push(&writer, 2);
    assert!(reader.stat(POSTGRESQL, name(&file)).unwrap().is_some());
    let another = open(&disk, 1).unwrap();
    writer.rotate_master_key(&master(1), Rotation { key: KeyInForce::Renewed, ..KEEP }).unwrap();
    let file = push(&writer, 3);
    assert!(has(&another, &file));
    let (history, content) = (format!("{:08X}.history", 3), history(&file).1);
    let packed = common::describe(&history, &content);
    let packed =
        seawall_archive::Packer::new(seawall_archive::Packing::default()).pack(packed.header(1), &content);
    assert_eq!(reader.push(&packed).unwrap(), Pushed::AlreadyThere, "its header is read with the new key");
    let ids: BTreeSet<String> = disk.list_all().into_iter().map(|entry| entry.name).collect();
    assert_eq!(ids.iter().filter(|path| path.starts_with("keys/")).count(), 1, "{ids:?}");
}

/// A database's archiver keeps a repository open for months.
#[test]
fn what_is_put_a_minute_after_a_renewal_has_the_new_key() {
    let disk = SimulatedDisk::new(1);
    create(&disk, 1);
    let clock = SimulatedClock::default();
    let own = RepositoryOptions { clock: Arc::new(clock.clone()), ..options(7, Some(1)) };
    let archiver = Repository::open_on(Arc::new(disk.clone()), own).unwrap();
    let key_of = |file: &str| {
        let header = archiver.stat(POSTGRESQL, name(file)).unwrap().unwrap();
        header.encryption.unwrap().key
    };
    let before = key_of(&push(&archiver, 2));
    // Only the master key changes: what is archived goes on without it.
    open(&disk, 1).unwrap().rotate_master_key(&master(2), DROP).unwrap();
    clock.advance(Duration::from_secs(61));
    assert_eq!(key_of(&push(&archiver, 3)), before);
    open(&disk, 2).unwrap().rotate_master_key(&master(1), KEEP).unwrap();
    let both = Rotation { key: KeyInForce::Renewed, ..KEEP };
    open(&disk, 2).unwrap().rotate_master_key(&master(1), both).unwrap();
    clock.advance(Duration::from_secs(61));
    assert_ne!(key_of(&push(&archiver, 4)), before);
    // A key that it cannot open: it must not go on with the old one.
    open(&disk, 1)
        .unwrap()
        .rotate_master_key(&master(3), Rotation { key: KeyInForce::Renewed, ..DROP })
        .unwrap();
    clock.advance(Duration::from_secs(61));
    let (file, content) = history("late");
    let error = archiver.push(&pack(&file.replace("02", "05"), &content, Compression::Lz4)).unwrap_err();
    assert!(matches!(error, ArchiveError::WrongMasterKey { .. }), "{error}");
}

fn rings(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.list_all().into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with("keys/") && !name.contains("/.")).collect()
}

/// What everybody can do who may write to the store: `ring` under another number, its checksum made right.
fn renumbered(ring: &[u8], number: u32) -> Vec<u8> {
    let mut bytes = ring.to_vec();
    bytes[32..36].copy_from_slice(&number.to_le_bytes());
    bytes[12..16].fill(0);
    let checksum = seawall_codec::checksum::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn an_older_ring_as_the_newest_is_refused_by_those_who_know_more_and_costs_no_key() {
    let disk = SimulatedDisk::new(1);
    let repository = create(&disk, 1);
    let [first]: [String; 1] = rings(&disk).try_into().unwrap();
    let old = disk.read_file(&first).unwrap();
    let renew = Rotation { key: KeyInForce::Renewed, ..DROP };
    repository.rotate_master_key(&master(1), renew).unwrap();
    let file = push(&repository, 2);
    disk.write_file(&first.replace("00000001", "00000003"), &renumbered(&old, 3));
    for result in [repository.refresh(), repository.rotate_master_key(&master(1), renew).map(drop)] {
        let error = result.unwrap_err();
        assert!(matches!(error, ArchiveError::KeysPutBack { .. }), "{error}");
        assert!(!error.asks_for_reopening(), "opened anew, it would take the old key");
    }
    assert!(has(&repository, &file), "what it knows it goes on to use");
    // Somebody who has never seen the second key rotates.
    let rotated = open(&disk, 1).unwrap().rotate_master_key(&master(1), renew).unwrap();
    assert!(
        rotated.left_rings.len() == 1 && rotated.left_rings[0].object.contains("00000002"),
        "{rotated:?}"
    );
    // It can be mended: the ring with the key is still there.
    disk.remove_file(&first.replace("00000001", "00000004"));
    assert!(has(&open(&disk, 1).unwrap(), &file));
}

/// Credentials that may put, and not remove.
#[test]
fn a_rotation_succeeds_where_nothing_can_be_removed() {
    let store = ObjectServer::start(|request, _| {
        (request.method == "DELETE")
            .then(|| Reply::Status(403, b"<Error><Code>AccessDenied</Code></Error>".to_vec()))
    });
    let url: RepositoryUrl = store.server.url().parse().unwrap();
    let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let credentials: BTreeMap<String, String> =
        credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = |key| RepositoryOptions {
        credentials: credentials.clone(),
        retry: RetryPolicy::once(),
        ..options(1, Some(key))
    };
    let repository = Repository::create(&url, options(1)).unwrap();
    for rings in 1..4 {
        let rotated = repository.rotate_master_key(&master(1), DROP).unwrap();
        assert_eq!(rotated.left_rings.len(), rings, "{rotated:?}");
    }
    let rotated = repository.rotate_master_key(&master(2), DROP).unwrap();
    assert_eq!(rotated.removed_master_keys.len(), 1);
    Repository::open(&url, options(2)).unwrap();
    assert!(matches!(Repository::open(&url, options(1)), Err(ArchiveError::WrongMasterKey { .. })));
}

#[test]
fn a_damaged_ring_still_opens_and_a_rotation_mends_it() {
    let disk = SimulatedDisk::new(1);
    let file = push(&create(&disk, 1), 2);
    let [ring]: [String; 1] = rings(&disk).try_into().unwrap();
    let whole = disk.read_file(&ring).unwrap();
    // In the checksum of the whole.
    let mut damaged = whole.clone();
    damaged[13] ^= 1;
    disk.write_file(&ring, &damaged);
    let repository = open(&disk, 1).unwrap();
    assert!(has(&repository, &file));
    let error = open(&disk, 2).unwrap_err();
    assert!(matches!(error, ArchiveError::Key { .. }), "{error}");
    assert!(repository.rotate_master_key(&master(2), DROP).unwrap().left_rings.is_empty());
    assert!(has(&open(&disk, 2).unwrap(), &file));
    // In the wrapped key itself.
    damaged = whole.clone();
    damaged[160] ^= 1;
    disk.write_file(&ring.replace("00000001", "00000003"), &damaged);
    let error = open(&disk, 2).unwrap_err();
    assert!(matches!(error, ArchiveError::Key { .. }), "{error}");
}

/// The copy of the second master key is damaged: a rotation that keeps it cannot make it anew.
#[test]
fn a_rotation_that_keeps_the_others_drops_none_whose_copies_are_damaged() {
    let disk = SimulatedDisk::new(1);
    create(&disk, 1).rotate_master_key(&master(2), KEEP).unwrap();
    let fingerprint = |byte| master_key_fingerprint(&SecretKey::from_bytes([byte; 32]));
    let damage_second = || {
        let [ring]: [String; 1] = rings(&disk).try_into().unwrap();
        let whole = disk.read_file(&ring).unwrap();
        let mut damaged = whole.clone();
        // 40 bytes of header, the first copy, and 120 bytes.
        damaged[40 + 160 + 120] ^= 1;
        disk.write_file(&ring, &damaged);
        assert!(open(&disk, 1).is_ok() && open(&disk, 2).is_err());
        (ring, whole)
    };
    let (ring, whole) = damage_second();
    let error = open(&disk, 1).unwrap().rotate_master_key(&master(3), KEEP).unwrap_err();
    let said = error.to_string();
    assert!(said.contains(&fingerprint(2)) && said.contains(&ring), "{said}");
    // It may have been damaged on its way: what lies there is untouched.
    assert_eq!(rings(&disk), std::slice::from_ref(&ring));
    disk.write_file(&ring, &whole);
    assert!(open(&disk, 2).is_ok() && open(&disk, 3).is_err());
    damage_second();
    let rotated = open(&disk, 1).unwrap().rotate_master_key(&master(2), KEEP).unwrap();
    assert!(rotated.removed_master_keys.is_empty(), "{rotated:?}");
    assert!(open(&disk, 1).is_ok() && open(&disk, 2).is_ok(), "given, its copies are made anew");
    damage_second();
    let rotated = open(&disk, 1).unwrap().rotate_master_key(&master(3), DROP).unwrap();
    let removed: BTreeSet<String> = rotated.removed_master_keys.into_iter().collect();
    assert_eq!(removed, BTreeSet::from([fingerprint(1), fingerprint(2)]), "it opens nothing any more");
}
