//! Master keys that change, one after another, at the same moment, and with the power failing: no object is lost.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::{SYSTEM, history, master, name, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, KeyInForce, Pushed, Repository, RepositoryOptions, Rotation, System,
};
use seawall_io::Random;
use seawall_keys::{MasterKey, OtherMasterKeys};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, SimulatedRandom, seeds};

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
        assert!(repository.rotate_master_key(&master(2), KEEP).unwrap().is_empty());
        assert_eq!(open(&disk, 2).unwrap().master_keys().unwrap().len(), 2);
    }
    // A new repository key: old objects keep theirs.
    let renewed = Rotation { key: KeyInForce::Renewed, ..KEEP };
    repository.rotate_master_key(&master(2), renewed).unwrap();
    let history = push(&repository, 2);
    let removed = open(&disk, 2).unwrap().rotate_master_key(&master(2), DROP).unwrap();
    assert_eq!(removed.len(), 1);
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
