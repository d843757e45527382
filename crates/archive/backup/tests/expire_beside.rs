//! An expiry beside a backup that it takes for given up, and that ends after all, in a store whose listings may be old.
//!
//! Invariant: a backup that has ended has all its objects. Each call of the store is a step; a seed says whose step is next, and how old
//! each listing is.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use common::{World, state_of};
use seawall_archive::{Repository, RepositoryOptions, System};
use seawall_backup::{
    BackupError, BackupOptions, ExpireError, Expiry, RestoreRequest, RetentionPolicy, VerifyDepth,
    VerifyOptions, back_up, backups, verify,
};
use seawall_io::{
    Clock, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, Random, SharedMapping,
};
use seawall_simulation::{SimulatedDisk, SimulatedRandom};
use seawall_testing::PATIENCE;

const HOUR: Duration = Duration::from_secs(3600);
/// A listing leaves out at most so many of the last changes.
const AGE_MAX: u64 = 5;
/// Steps of one in a row, at most.
const STEPS_MAX: u64 = 12;

/// Who is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Backup,
    Expiry,
}

/// A name that came or went.
#[derive(Clone, Debug)]
enum Change {
    Came(String),
    Went(String, u64),
}

#[derive(Debug)]
struct State {
    random: SimulatedRandom,
    /// Before that, the backup is alone.
    is_begun: bool,
    turn: Actor,
    steps_left: u64,
    ended: Vec<Actor>,
    changes: Vec<Change>,
}

/// Whose step is next.
#[derive(Debug)]
struct Schedule {
    state: Mutex<State>,
    changed: Condvar,
}

impl Schedule {
    fn new(seed: u64) -> Arc<Schedule> {
        let state = State {
            random: SimulatedRandom::new(seed),
            is_begun: false,
            turn: Actor::Backup,
            steps_left: 0,
            ended: Vec::new(),
            changes: Vec::new(),
        };
        Arc::new(Schedule { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn wait(&self, is_it: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        while !is_it(&state) {
            let (waited, timeout) = self.changed.wait_timeout(state, PATIENCE).unwrap();
            assert!(!timeout.timed_out(), "nobody has made a step for {PATIENCE:?}");
            state = waited;
        }
        state
    }

    /// Waits until it is this one's turn, and takes a step.
    fn step(&self, actor: Actor) {
        let mut state = self.wait(|state| !state.is_begun || state.turn == actor);
        if !state.is_begun {
            return;
        }
        if state.steps_left == 0 {
            state.steps_left = below(&state.random, STEPS_MAX);
            let other = if actor == Actor::Backup { Actor::Expiry } else { Actor::Backup };
            if !state.ended.contains(&other) {
                state.turn = other;
                self.changed.notify_all();
            }
        } else {
            state.steps_left -= 1;
        }
        drop(state);
        drop(self.wait(|state| state.turn == actor));
    }

    fn begin(&self) {
        self.state.lock().unwrap().is_begun = true;
        self.changed.notify_all();
    }

    fn end(&self, actor: Actor) {
        let mut state = self.state.lock().unwrap();
        state.ended.push(actor);
        state.is_begun = true;
        state.turn = if actor == Actor::Backup { Actor::Expiry } else { Actor::Backup };
        self.changed.notify_all();
    }

    fn note(&self, change: Change) {
        self.state.lock().unwrap().changes.push(change);
    }

    /// The last changes that a listing does not have yet.
    fn unseen(&self) -> Vec<Change> {
        let state = self.state.lock().unwrap();
        if !state.is_begun {
            return Vec::new();
        }
        let age = usize::try_from(below(&state.random, AGE_MAX + 1)).unwrap();
        let seen = state.changes.len().saturating_sub(age);
        state.changes[seen..].to_vec()
    }
}

fn below(random: &SimulatedRandom, limit: u64) -> u64 {
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    u64::from_le_bytes(bytes) % limit
}

/// The disk of the store, as one of the two sees it.
#[derive(Debug)]
struct SeenBy {
    actor: Actor,
    disk: SimulatedDisk,
    schedule: Arc<Schedule>,
}

impl Disk for SeenBy {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.schedule.step(self.actor);
        self.disk.open(path, mode)
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.schedule.step(self.actor);
        let listed = self.disk.list(directory)?;
        let mut entries: BTreeMap<String, u64> =
            listed.into_iter().map(|entry| (entry.name, entry.bytes)).collect();
        let name_of = |path: &str| {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            (parent == directory).then(|| name.to_owned())
        };
        for change in self.schedule.unseen().into_iter().rev() {
            match change {
                Change::Came(path) => {
                    if let Some(name) = name_of(&path) {
                        entries.remove(&name);
                    }
                }
                Change::Went(path, bytes) => {
                    if let Some(name) = name_of(&path) {
                        entries.insert(name, bytes);
                    }
                }
            }
        }
        Ok(entries.into_iter().map(|(name, bytes)| DirectoryEntry { name, bytes }).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.schedule.step(self.actor);
        self.disk.rename_new(from, to)?;
        self.schedule.note(Change::Came(to.to_owned()));
        Ok(())
    }

    fn list_subdirectories(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list_subdirectories(directory)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.schedule.step(self.actor);
        let bytes = self.disk.open(path, OpenMode::Read)?.length()?;
        self.disk.remove(path)?;
        self.schedule.note(Change::Went(path.to_owned(), bytes));
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        self.disk.map_shared(path)
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock(path, mode)
    }

    fn location(&self, path: &str) -> String {
        self.disk.location(path)
    }
}

/// A world with a complete backup and more rows since.
fn begun() -> (World, System) {
    let world = World::new();
    let database = world.open();
    let table = database.create_table("t").unwrap();
    world.back_up(&database);
    for key in 0..200_u32 {
        database.put(&table, key.to_be_bytes(), [7; 500]).unwrap();
    }
    database.checkpoint().unwrap();
    let system = System::Seawall(database.info().unwrap().database);
    database.close().unwrap();
    (world, system)
}

/// What became of both.
type Outcome = (Result<String, BackupError>, Result<(), ExpireError>);

/// The backup is alone until it has put a part of its objects; then a week passes, and the expiry comes.
fn side_by_side(world: &World, system: System, seed: u64) -> Outcome {
    let schedule = Schedule::new(seed);
    let seen_by = |actor| {
        let disk = SeenBy { actor, disk: world.store.clone(), schedule: Arc::clone(&schedule) };
        let random = Arc::new(SimulatedRandom::new(seed * 2 + u64::from(actor == Actor::Backup)));
        let options = RepositoryOptions {
            clock: Arc::new(world.clock.clone()),
            random,
            ..RepositoryOptions::default()
        };
        Arc::new(Repository::open_on(Arc::new(disk), options).unwrap())
    };
    let (for_backup, for_expiry) = (seen_by(Actor::Backup), seen_by(Actor::Expiry));
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| {
            let taken = back_up_until(world, &for_backup, &schedule);
            schedule.end(Actor::Backup);
            taken
        });
        let expiry = scope.spawn(|| {
            drop(schedule.wait(|state| state.is_begun));
            let expired = expire(world, for_expiry, system);
            schedule.end(Actor::Expiry);
            expired
        });
        (backup.join().unwrap(), expiry.join().unwrap())
    })
}

fn back_up_until(
    world: &World,
    repository: &Arc<Repository>,
    schedule: &Schedule,
) -> Result<String, BackupError> {
    let database = world.open();
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    world.clock.advance(Duration::from_secs(1));
    let options = BackupOptions { run_bytes: 4000, range_bytes: 1, threads: 1, ..BackupOptions::default() };
    let mut steps = 0;
    let taken = back_up(&database, repository, &clock, &options, &mut |_| {
        steps += 1;
        if steps == 8 {
            world.clock.advance(8 * 24 * HOUR);
            schedule.begin();
        }
    });
    assert!(steps > 8, "the expiry has not begun");
    Ok(taken?.id)
}

fn expire(world: &World, repository: Arc<Repository>, system: System) -> Result<(), ExpireError> {
    let policy = RetentionPolicy {
        keep_count: Some(1),
        keep_unfinished: HOUR,
        keep_recent: Duration::ZERO,
        ..RetentionPolicy::default()
    };
    Expiry::prepare(repository, system, policy, &world.clock)?.run(&mut |_| {}).map(drop)
}

fn damages(world: &World) -> Vec<String> {
    let options =
        VerifyOptions { depth: VerifyDepth::Content, settle: Duration::ZERO, ..VerifyOptions::default() };
    let mut found = Vec::new();
    let report =
        verify(&world.repository(), &world.clock, &options, &mut |finding| found.push(finding), &mut |_| {});
    if report.unwrap().damages == 0 {
        Vec::new()
    } else {
        found.iter().map(|finding| format!("{finding:?}")).collect()
    }
}

#[test]
fn whoever_is_first_no_backup_that_has_ended_lacks_an_object() {
    let (begun, system) = begun();
    let System::Seawall(database) = system else { panic!("{system}") };
    let expected = state_of(&begun.open_restored(&begun.disk.copy()));
    let (mut ended, mut given_up) = (0, 0);
    for seed in 0..400 {
        let world = World { disk: begun.disk.copy(), store: begun.store.copy(), ..World::new() };
        world.clock.advance(HOUR);
        let (taken, expired) = side_by_side(&world, system, seed);
        let found = damages(&world);
        assert!(found.is_empty(), "seed {seed}: {taken:?}, {expired:?}, {found:#?}");
        let complete = backups(&world.repository(), database).unwrap().complete;
        let is_there = |id: &str| complete.iter().any(|backup| backup.id == id);
        match taken {
            Ok(id) => {
                ended += 1;
                assert!(is_there(&id), "seed {seed}: {id} is gone");
                let disk = SimulatedDisk::new(9);
                let request = RestoreRequest { backup: Some(id), ..RestoreRequest::default() };
                world.restore_to(&disk, &request).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert!(state_of(&world.open_restored(&disk)) == expected, "seed {seed}");
            }
            Err(BackupError::GivenUp { id }) => {
                given_up += 1;
                assert!(!is_there(&id), "seed {seed}: {id} has stayed");
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("{ended} backups ended, {given_up} were given up");
    assert!(ended > 20 && given_up > 20, "{ended} ended, {given_up} were given up");
}
