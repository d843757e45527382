//! Golden files: a database directory and its repository, as an earlier build has written them.
//!
//! Every later build opens them and finds every row; and where a clock that stands still and a seed make it repeatable, it writes the
//! same bytes. A byte that is changed on purpose is blessed, while nothing is released:
//!
//! ```sh
//! SEAWALL_BLESS=1 cargo test -p seawall-backup --test golden
//! ```
//!
//! `golden/*.zst` are lists of files, compressed: for each a line `path length`, an empty line, then all contents.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::{State, World, state_of};
use seawall_backup::{BackupOptions, RestoreRequest};
use seawall_engine::{Database, DatabaseDirectory, RestoreTarget};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk};
use seawall_types::TimelineId;

/// Contents by path.
type Files = BTreeMap<String, Vec<u8>>;

/// The script runs once in the clear, and once with everything encrypted.
const NAMES: [&str; 2] = ["plain", "encrypted"];
const RESTORE_POINT: &str = "before the switch";
const GID: &str = "golden";

fn world(name: &str) -> World {
    if name == "plain" { World::new() } else { World::encrypted() }
}

/// A value of `bytes` bytes that no compression makes small, the same in every build.
fn value(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..bytes).map(|_| next()).collect()
}

/// The rows that the script writes from `from` to `to`: many short ones, and some that fill pages of their own.
fn rows(from: u32, to: u32) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let length = |number: u32| match number % 40 {
        39 => 9_000,
        7 => 0,
        _ => 40,
    };
    (from..to).map(|number| (number.to_be_bytes().to_vec(), value(number, length(number)))).collect()
}

fn fill(database: &Database, table: &str, from: u32, to: u32) {
    let table = database.table(table).or_else(|_| database.create_table(table)).unwrap();
    let put = |transaction: &mut seawall_engine::Transaction| {
        rows(from, to).iter().try_for_each(|(key, value)| transaction.put(&table, key, value))
    };
    database.transact(put).unwrap();
}

/// What the database holds when the script has ended.
fn expected() -> State {
    let mut numbers = rows(0, 260);
    numbers.remove(&5_u32.to_be_bytes()[..]);
    [("numbers".to_owned(), numbers), ("renamed".to_owned(), rows(1000, 1050))].into()
}

/// And when the new timeline began.
fn expected_at_restore_point() -> State {
    let mut state = expected();
    state.insert("numbers".to_owned(), rows(0, 200));
    state
}

/// What is prepared in the end.
fn in_doubt() -> (Vec<u8>, Vec<u8>) {
    (b"prepared".to_vec(), value(77, 5_000))
}

/// The script: everything that has a format of its own.
fn write(world: &World) {
    let database = world.open();
    fill(&database, "numbers", 0, 120);
    fill(&database, "old name", 1000, 1050);
    fill(&database, "gone", 0, 60);
    database.checkpoint().unwrap();
    database.log().archive_now().unwrap();
    back_up(world, &database, false);
    database.tables().drop("gone").unwrap();
    database.tables().rename("old name", "renamed").unwrap();
    fill(&database, "numbers", 100, 200);
    database.log().create_restore_point(RESTORE_POINT).unwrap();
    database.log().archive_now().unwrap();
    back_up(world, &database, true);
    database.close().unwrap();
    let environment = world.environment(&world.disk);
    let database =
        DatabaseDirectory::at(environment).open_on_new_timeline(world.options(), "a golden file").unwrap();
    fill(&database, "numbers", 200, 230);
    database.checkpoint().unwrap();
    fill(&database, "numbers", 230, 260);
    database.delete(&database.table("numbers").unwrap(), 5_u32.to_be_bytes()).unwrap();
    let (key, value) = in_doubt();
    let mut transaction = database.begin();
    transaction.put(&database.table("renamed").unwrap(), key, value).unwrap();
    transaction.prepare(GID).unwrap();
    database.log().archive_now().unwrap();
    // It is not closed: whoever opens it has log to replay.
    world.disk.crash();
    drop(database);
}

fn back_up(world: &World, database: &Database, is_incremental: bool) {
    let options = BackupOptions {
        is_incremental,
        run_bytes: 20_000,
        range_bytes: 4096,
        threads: 1,
        ..BackupOptions::default()
    };
    world.back_up_with(database, &options, || {}).unwrap();
}

/// The database directory and the repository, after `write`. The lock file is no content.
fn files_of(world: &World) -> Files {
    let disk = world.disk.after_power_loss(PowerLoss::KeepAll);
    let read = |prefix: &str, disk: &SimulatedDisk| {
        let entries = disk.list_all().into_iter().filter(|entry| entry.name != "lock");
        let file = |name: String| (format!("{prefix}/{name}"), disk.read_file(&name).unwrap());
        entries.map(|entry| file(entry.name)).collect::<Files>()
    };
    let mut files = read("database", &disk);
    files.append(&mut read("repository", &world.store));
    files
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.zst"))
}

fn pack(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, content) in files {
        bytes.extend_from_slice(format!("{path} {}\n", content.len()).as_bytes());
    }
    bytes.push(b'\n');
    files.values().for_each(|content| bytes.extend_from_slice(content));
    zstd::encode_all(&bytes[..], 19).unwrap()
}

fn unpack(packed: &[u8]) -> Files {
    let bytes = zstd::decode_all(packed).unwrap();
    let list_bytes = bytes.windows(2).position(|two| two == b"\n\n").unwrap();
    let mut rest = &bytes[list_bytes + 2..];
    let mut files = Files::new();
    for line in std::str::from_utf8(&bytes[..list_bytes]).unwrap().lines() {
        let (path, length) = line.rsplit_once(' ').unwrap();
        let (content, others) = rest.split_at(length.parse().unwrap());
        files.insert(path.to_owned(), content.to_vec());
        rest = others;
    }
    assert!(rest.is_empty());
    files
}

/// The golden files of `name`; written anew first if they are to be blessed.
fn golden(name: &str) -> Files {
    if std::env::var_os("SEAWALL_BLESS").is_some() {
        let world = world(name);
        write(&world);
        std::fs::create_dir_all(place(name).parent().unwrap()).unwrap();
        std::fs::write(place(name), pack(&files_of(&world))).unwrap();
    }
    unpack(&std::fs::read(place(name)).unwrap())
}

/// A world with the golden files.
fn golden_world(name: &str) -> World {
    let (disk, store) = (SimulatedDisk::new(5), SimulatedDisk::new(6));
    for (path, content) in golden(name) {
        let (place, path) = path.split_once('/').unwrap();
        let disk = if place == "database" { &disk } else { &store };
        disk.write_file(path, &content);
    }
    World { disk, store, clock: SimulatedClock::default(), ..world(name) }
}

#[test]
fn a_golden_database_opens_and_has_every_row() {
    for name in NAMES {
        let world = World { archives: false, ..golden_world(name) };
        let database = world.open();
        assert_eq!(database.log().timeline(), TimelineId::new(2).unwrap(), "{name}");
        assert!(state_of(&database) == expected(), "{name}: rows differ");
        let prepared: Vec<String> =
            database.two_phase().in_doubt().unwrap().into_iter().map(|transaction| transaction.gid).collect();
        assert_eq!(prepared, [GID], "{name}");
        database.two_phase().commit(GID).unwrap();
        let (key, value) = in_doubt();
        assert_eq!(database.get(&database.table("renamed").unwrap(), key).unwrap(), Some(value), "{name}");
        database.check(&mut |damage| panic!("{name}: {damage}")).unwrap();
        database.checkpoint().unwrap();
        database.close().unwrap();
    }
}

#[test]
fn a_golden_repository_restores_to_its_end_and_to_a_restore_point_on_the_timeline_before() {
    for name in NAMES {
        let world = golden_world(name);
        assert!(world.restored_state(RestoreTarget::Latest) == expected(), "{name}: rows differ");
        let request = RestoreRequest {
            target: RestoreTarget::RestorePoint(RESTORE_POINT.to_owned()),
            timeline: Some(TimelineId::FIRST),
            ..RestoreRequest::default()
        };
        let disk = SimulatedDisk::new(7);
        world.restore_to(&disk, &request).unwrap();
        let database = world.open_restored(&disk);
        assert!(state_of(&database) == expected_at_restore_point(), "{name}: rows differ");
    }
}

/// A difference is a change of a format, or of what is written where: look whether it is meant, and bless it (see above).
#[test]
fn what_is_written_is_byte_for_byte_what_was_written() {
    let name = NAMES[0];
    let world = world(name);
    write(&world);
    let (written, golden) = (files_of(&world), golden(name));
    let names = |files: &Files| files.keys().cloned().collect::<Vec<String>>();
    assert_eq!(names(&written), names(&golden), "other files are written");
    for (path, content) in &written {
        let before = &golden[path];
        let offset = content.iter().zip(before).position(|(new, old)| new != old);
        let offset = offset.unwrap_or(content.len().min(before.len()));
        assert!(
            content == before,
            "{path} differs from offset {offset} on; lengths {} and {}",
            content.len(),
            before.len()
        );
    }
}
