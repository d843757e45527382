//! Several databases that are restored from one repository, and the numbers of their timelines. A restore reserves the number in the
//! repository, so no two have the same. Where it cannot, the first one that archives has it, and nothing of the other gets there.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::fmt;
use std::sync::{Arc, OnceLock};

use common::{World, state_of};
use seawall_archive::{Repository, RepositoryOptions};
use seawall_backup::{
    BackupError, Finding, RestoreProgress, RestoreReport, RestoreRequest, VerifyDepth, VerifyOptions, drill,
    restore, verify,
};
use seawall_engine::{ArchiveMode, Database, Durability, Environment, Error, RestoreTarget};
use seawall_io::Random;
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operations, PowerLoss, SimulatedDisk, SimulatedRandom, crash_step,
};
use seawall_types::TimelineId;

fn request() -> RestoreRequest {
    let timeline = Some(TimelineId::FIRST);
    RestoreRequest { archive_mode: ArchiveMode::Preserve, timeline, threads: 1, ..RestoreRequest::default() }
}

/// Restores into `disk`, as a process of its own, and does something else at each step.
fn restore_while(
    world: &World,
    (disk, process): (&SimulatedDisk, u64),
    request: &RestoreRequest,
    meanwhile: &mut dyn FnMut(RestoreProgress),
) -> Result<RestoreReport, BackupError> {
    let environment =
        Environment { random: Arc::new(SimulatedRandom::new(process)), ..world.environment(disk) };
    restore(&world.repository(), &environment, &world.options(), request, meanwhile)
}

/// Restores to the latest, as a process of its own, without a word to the repository.
fn restored(world: &World, process: u64) -> (SimulatedDisk, u32) {
    let disk = SimulatedDisk::new(process);
    let request = RestoreRequest { reserves_timeline: false, timeline: None, ..request() };
    let report = restore_while(world, (&disk, process), &request, &mut |_| {}).unwrap();
    (disk, report.timeline.get())
}

/// A database with a backup, and a world to restore from it.
fn backed_up() -> World {
    let world = World::new();
    let database = world.open();
    put(&database, "common", Durability::Sync).unwrap();
    world.back_up(&database);
    put(&database, "later", Durability::Sync).unwrap();
    database.log().archive_now().unwrap();
    database.close().unwrap();
    world
}

/// The numbers that are reserved in the repository.
fn reserved(world: &World) -> Vec<String> {
    let repository = world.repository();
    let system = repository.systems().unwrap()[0];
    let listed = repository.list_objects(system, "reserved").unwrap();
    listed.into_iter().map(|(name, _)| name.to_string()).collect()
}

fn put(database: &Database, value: &str, durability: Durability) -> Result<(), Error> {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    database.with(durability).put(&table, "k", value).map(drop)
}

#[test]
fn of_two_databases_with_one_timeline_number_the_second_archives_nothing_and_says_why() {
    let world = World::new();
    let database = world.open();
    put(&database, "common", Durability::Sync).unwrap();
    world.back_up(&database);
    database.log().archive_now().unwrap();
    database.close().unwrap();
    let ((first, number), (second, same)) = (restored(&world, 21), restored(&world, 22));
    assert_eq!((number, same), (2, 2));
    let first = world.open_at(&first);
    put(&first, "first", Durability::Archived).unwrap();
    let names = || world.store.list_all().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    let before = names();
    let second = world.open_at(&second);
    let refused = put(&second, "second", Durability::Archived);
    assert!(matches!(refused, Err(Error::DoneNotArchived { .. })), "{refused:?}");
    let problem = second.log().archive_now().unwrap_err().to_string();
    assert!(problem.contains("timeline 2") && problem.contains("restore this one again"), "{problem}");
    assert!(second.statistics().archives[0].failing.as_ref().unwrap().contains("timeline 2"));
    second.close().unwrap();
    assert_eq!(names(), before, "nothing of it is there");
    put(&first, "first again", Durability::Archived).unwrap();
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&first));
    assert_eq!(restored(&world, 22).1, 3, "a number that none has");
}

#[test]
fn of_many_restores_at_one_moment_each_has_a_number_of_its_own() {
    let world = backed_up();
    let mut numbers: Vec<u32> = std::thread::scope(|scope| {
        let world = &world;
        let run = |process: u64| {
            scope.spawn(move || {
                let disk = SimulatedDisk::new(process);
                restore_while(world, (&disk, process), &request(), &mut |_| {}).unwrap().timeline.get()
            })
        };
        let threads: Vec<_> = (31..39).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 8, "{numbers:?}");
}

/// The randomness of a repository, which draws a name for each object that it is about to put.
struct BeforeFirstPut {
    inner: SimulatedRandom,
    other: Box<dyn Fn() -> u32 + Send + Sync>,
    /// What `other` gave.
    number: OnceLock<u32>,
}

impl fmt::Debug for BeforeFirstPut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BeforeFirstPut")
    }
}

impl Random for BeforeFirstPut {
    fn fill(&self, bytes: &mut [u8]) {
        self.number.get_or_init(&self.other);
        self.inner.fill(bytes);
    }
}

/// The other one begins and ends after this one has chosen its number, and before that is in the repository.
#[test]
fn a_restore_that_is_overtaken_while_it_reserves_a_number_takes_the_next_one() {
    let world = Arc::new(backed_up());
    let of_other = Arc::clone(&world);
    let other = move || {
        let report = restore_while(&of_other, (&SimulatedDisk::new(22), 22), &request(), &mut |_| {});
        report.unwrap().timeline.get()
    };
    let random =
        BeforeFirstPut { inner: SimulatedRandom::new(23), other: Box::new(other), number: OnceLock::new() };
    let random = Arc::new(random);
    let options = RepositoryOptions { random: random.clone(), ..RepositoryOptions::default() };
    let repository = Repository::open_on(Arc::new(world.store.clone()), options).unwrap();
    let environment = world.environment(&SimulatedDisk::new(21));
    let report = restore(&repository, &environment, &world.options(), &request(), &mut |_| {}).unwrap();
    assert_eq!((random.number.get(), report.timeline.get()), (Some(&2), 3));
    assert_eq!(reserved(&world), ["reserved/00000002", "reserved/00000003"]);
}

/// What was restored to try something out, and archives nothing, draws no later restore after it.
#[test]
fn a_reserved_number_without_log_is_not_followed() {
    let world = backed_up();
    let trial = RestoreRequest { archive_mode: ArchiveMode::Off, ..request() };
    restore_while(&world, (&SimulatedDisk::new(21), 21), &trial, &mut |_| {}).unwrap();
    let along = RestoreRequest { timeline: None, ..request() };
    let report = restore_while(&world, (&SimulatedDisk::new(22), 22), &along, &mut |_| {}).unwrap();
    assert_eq!((report.from_timeline.get(), report.timeline.get()), (1, 3));
    assert!(report.passed_over.is_empty(), "{:?}", report.passed_over);
    // Nor is it taken for anything that does not belong there.
    let (mut findings, depth) = (Vec::new(), VerifyDepth::Content);
    let options = VerifyOptions { depth, ..VerifyOptions::default() };
    let mut tell = |finding: Finding| findings.push(finding);
    verify(&world.repository(), &world.clock, &options, &mut tell, &mut |_| ()).unwrap();
    let is_told = |finding: &Finding| finding.object.contains("reserved");
    assert!(!findings.iter().any(is_told), "{findings:?}");
}

#[test]
fn wherever_the_power_goes_a_restore_that_goes_on_has_the_same_number() {
    let world = backed_up();
    let store = world.store.copy();
    let (whole, begin) = (SimulatedDisk::new(21), store.calls());
    restore_while(&world, (&whole, 21), &request(), &mut |_| {}).unwrap();
    let (calls, store_calls) = (whole.calls(), world.store.calls() - begin);
    let of_disk = (0..calls).step_by(crash_step(calls, 40)).map(|call| (call, false));
    let of_store = (0..store_calls).step_by(crash_step(store_calls, 40)).map(|call| (begin + call, true));
    for (call, is_store) in of_disk.chain(of_store) {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let what = format!("call {call} of the {}, {outcome:?}", if is_store { "store" } else { "disk" });
            let world = World { store: store.copy(), ..World::new() };
            let disk = SimulatedDisk::new(21);
            if is_store {
                world.store.crash_at(call)
            } else {
                disk.crash_at(call)
            }
            drop(restore_while(&world, (&disk, 21), &request(), &mut |_| {}));
            let store = if is_store { world.store.after_power_loss(outcome) } else { world.store.copy() };
            let world = World { store, ..World::new() };
            let left = if is_store { disk.copy() } else { disk.after_power_loss(outcome) };
            if seawall_engine::check_restore_directory(&left).is_ok() {
                // As another process, which would draw another token.
                let report = restore_while(&world, (&left, 22), &request(), &mut |_| {});
                let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(report.timeline.get(), 2, "{what}");
            }
            assert_eq!(reserved(&world), ["reserved/00000002"], "{what}");
        }
    }
}

#[test]
fn a_repository_that_may_be_read_only_is_restored_from_and_that_is_said() {
    let world = backed_up();
    let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Writes };
    let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
    world.store.inject(Fault { target, error, skip: 0, count: u64::MAX });
    let report = restore_while(&world, (&SimulatedDisk::new(21), 21), &request(), &mut |_| {}).unwrap();
    assert_eq!(report.timeline.get(), 2);
    assert!(report.not_reserved.unwrap().contains("reserved/00000002"));
    world.store.clear_faults();
    assert!(reserved(&world).is_empty());
}

#[test]
fn a_number_that_was_asked_for_is_taken_and_said_where_another_has_it() {
    let world = backed_up();
    let wanted = RestoreRequest { new_timeline: TimelineId::new(7), ..request() };
    for (process, is_reserved) in [(21, true), (22, false)] {
        let disk = SimulatedDisk::new(process);
        let report = restore_while(&world, (&disk, process), &wanted, &mut |_| {}).unwrap();
        assert_eq!((report.timeline.get(), report.not_reserved.is_none()), (7, is_reserved));
    }
    let next = restore_while(&world, (&SimulatedDisk::new(23), 23), &request(), &mut |_| {}).unwrap();
    assert_eq!(next.timeline.get(), 8);
}

#[test]
fn a_drill_reserves_nothing() {
    let world = backed_up();
    let (repository, environment) = (world.repository(), world.environment(&SimulatedDisk::new(21)));
    drill(&repository, &environment, &world.options(), &request(), &mut |_| {}, &mut |_| {}).unwrap();
    assert!(reserved(&world).is_empty());
}
