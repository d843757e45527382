//! Two databases that were restored from one repository take the same number for their new timelines, since neither is in the
//! repository yet. The first one that archives has it, and nothing of the other gets there.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;

use common::{World, state_of};
use seawall_backup::{RestoreRequest, restore};
use seawall_engine::{ArchiveMode, Database, Durability, Environment, Error, RestoreTarget};
use seawall_simulation::{SimulatedDisk, SimulatedRandom};

/// Restores to the latest, as a process of its own.
fn restored(world: &World, process: u64) -> (SimulatedDisk, u32) {
    let disk = SimulatedDisk::new(process);
    let environment =
        Environment { random: Arc::new(SimulatedRandom::new(process)), ..world.environment(&disk) };
    let request = RestoreRequest { archive_mode: ArchiveMode::Preserve, ..RestoreRequest::default() };
    let report = restore(&world.repository(), &environment, &world.options(), &request, &mut |_| {}).unwrap();
    (disk, report.timeline.get())
}

fn put(database: &Database, value: &str, durability: Durability) -> Result<(), Error> {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    database.put_with(&table, "k", value, durability).map(drop)
}

#[test]
fn of_two_databases_with_one_timeline_number_the_second_archives_nothing_and_says_why() {
    let world = World::new();
    let database = world.open();
    put(&database, "common", Durability::Sync).unwrap();
    world.back_up(&database);
    database.archive_now().unwrap();
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
    let problem = second.archive_now().unwrap_err().to_string();
    assert!(problem.contains("timeline 2") && problem.contains("restore this one again"), "{problem}");
    assert!(second.statistics().archives[0].failing.as_ref().unwrap().contains("timeline 2"));
    second.close().unwrap();
    assert_eq!(names(), before, "nothing of it is there");
    put(&first, "first again", Durability::Archived).unwrap();
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&first));
    assert_eq!(restored(&world, 22).1, 3, "a number that none has");
}
