//! Expiry in real repositories: what stays restores, and the power may go at any call of the store.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use common::{World, state_of};
use seawall_archive::{ObjectName, System};
use seawall_backup::{
    ExpireError, ExpireReport, Expiry, RETENTION_REASON, RestoreRequest, RetentionPolicy, VerifyOptions,
    backups, verify,
};
use seawall_engine::{Database, RestoreTarget};
use seawall_io::{Clock, Disk};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SimulatedDisk, crash_step,
};
use seawall_testing::wait_until;
use seawall_types::{DatabaseId, Lsn};

const HOUR: Duration = Duration::from_secs(3600);

struct Story {
    world: World,
    database: DatabaseId,
    /// Names and ends of the backups.
    backups: Vec<(String, Lsn)>,
    /// Places behind the backups, three for each.
    moments: Vec<(Lsn, i64)>,
}

/// Four backups ten hours apart, with segments between them.
fn story() -> Story {
    let world = World::new();
    let database = world.open();
    let table = database.create_table("t").unwrap();
    let (mut taken, mut moments) = (Vec::new(), Vec::new());
    for number in 0..4_u32 {
        let backup = world.back_up(&database);
        taken.push((backup.id, backup.manifest.end.end));
        for part in 0..3_u32 {
            for key in 0..4_u32 {
                database.put(&table, (number * 100 + part * 10 + key).to_be_bytes(), [7; 20_000]).unwrap();
            }
            world.clock.advance(Duration::from_secs(3 * 3600));
            moments.push((database.log().archive_now().unwrap(), world.clock.wall_micros()));
        }
        database.checkpoint().unwrap();
        world.clock.advance(HOUR);
    }
    let id = database.info().unwrap().database;
    database.close().unwrap();
    Story { world, database: id, backups: taken, moments }
}

fn policy(count: u64) -> RetentionPolicy {
    RetentionPolicy { keep_count: Some(count), ..RetentionPolicy::default() }
}

impl Story {
    fn system(&self) -> System {
        System::Seawall(self.database)
    }

    fn prepare(&self, policy: RetentionPolicy) -> Result<Expiry, ExpireError> {
        Expiry::prepare(self.world.repository(), self.system(), policy, &self.world.clock)
    }

    fn expire(&self, policy: RetentionPolicy) -> Result<ExpireReport, ExpireError> {
        self.prepare(policy)?.run(&mut |_| {})
    }

    fn on(&self, store: SimulatedDisk) -> Story {
        let world =
            World { store, disk: self.world.disk.copy(), clock: self.world.clock.clone(), ..World::new() };
        Story { world, database: self.database, backups: self.backups.clone(), moments: self.moments.clone() }
    }

    fn kept(&self) -> Vec<String> {
        backups(&self.world.repository(), self.database)
            .unwrap()
            .complete
            .into_iter()
            .map(|backup| backup.id)
            .collect()
    }

    fn restores_to(&self, lsn: Lsn) -> bool {
        let target = RestoreTarget::Lsn(lsn);
        let request = RestoreRequest { target, reserves_timeline: false, ..RestoreRequest::default() };
        self.world.restore_to(&SimulatedDisk::new(9), &request).is_ok()
    }

    fn damages(&self) -> u64 {
        let options = VerifyOptions { settle: Duration::ZERO, ..VerifyOptions::default() };
        verify(&self.world.repository(), &self.world.clock, &options, &mut |_| {}, &mut |_| {})
            .unwrap()
            .damages
    }

    fn is_settled(&self, policy: RetentionPolicy) -> bool {
        self.prepare(policy).unwrap().plan().is_empty()
    }
}

#[test]
fn a_count_leaves_what_restores_from_its_oldest_backup_on() {
    let story = story();
    let objects = |story: &Story| story.world.repository().stored(None).unwrap().len() as u64;
    let before = objects(&story);
    assert!(!story.is_settled(policy(2)));
    assert_eq!(objects(&story), before, "a plan removes nothing");
    let report = story.expire(policy(2)).unwrap();
    assert!(report.not_removed.is_empty() && report.removed > 10, "{report:?}");
    assert_eq!(story.kept(), [story.backups[2].0.as_str(), &story.backups[3].0]);
    for (lsn, _) in &story.moments {
        assert_eq!(story.restores_to(*lsn), *lsn >= story.backups[2].1, "{lsn}");
    }
    assert!(story.is_settled(policy(2)));
    assert!(story.world.repository().gaps(story.system()).unwrap().is_empty());
    // The database goes on.
    let database = story.world.open();
    let table = database.table("t").unwrap();
    database.put(&table, b"later", b"1").unwrap();
    database.log().archive_now().unwrap();
    assert_eq!(story.world.restored_state(RestoreTarget::Latest), state_of(&database));
}

#[test]
fn a_window_leaves_every_moment_of_it_and_older_backups_to_their_ends() {
    let story = story();
    // It begins between the third backup and the fourth.
    let policy = RetentionPolicy { keep_window: Some(13 * HOUR), ..policy(4) };
    story.expire(policy).unwrap();
    assert_eq!(story.kept().len(), 4);
    for (_, end) in &story.backups {
        assert!(story.restores_to(*end), "the backup that ends at {end}");
    }
    let start = story.world.clock.wall_micros() - i64::try_from((13 * HOUR).as_micros()).unwrap();
    let of_window: Vec<Lsn> =
        story.moments.iter().filter(|(_, micros)| *micros >= start).map(|(lsn, _)| *lsn).collect();
    assert!(of_window.len() > 2 && of_window.into_iter().all(|lsn| story.restores_to(lsn)));
    assert!(!story.restores_to(story.moments[1].0), "between the first and the second");
    let repository = story.world.repository();
    let gaps = repository.gaps(story.system()).unwrap();
    assert!(!gaps.is_empty(), "what is missing between backups is on record");
    for gap in gaps {
        assert_eq!(repository.read_gap(story.system(), gap).unwrap().reason, RETENTION_REASON);
    }
    assert!(story.is_settled(policy));
    assert_eq!(story.damages(), 0);
    // When the older ones go, so do the records.
    story.expire(RetentionPolicy { keep_count: Some(1), ..policy }).unwrap();
    assert!(repository.gaps(story.system()).unwrap().is_empty());
}

#[test]
fn after_a_power_loss_at_any_call_all_that_has_a_manifest_restores_and_another_run_ends_it() {
    let story = story();
    let policy = RetentionPolicy { keep_window: Some(13 * HOUR), ..policy(2) };
    let calm = story.on(story.world.store.copy());
    let before = calm.world.store.calls();
    calm.expire(policy).unwrap();
    let (calls, left) = (calm.world.store.calls(), calm.world.repository().stored(None).unwrap());
    for call in (before..calls).step_by(crash_step(calls - before, 12)) {
        let crashed = story.on(story.world.store.copy());
        crashed.world.store.crash_at(call);
        let claims = crashed.expire(policy).is_ok_and(|report| report.not_removed.is_empty());
        assert!(!claims, "call {call}: it says that all is gone");
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let what = format!("call {call}, {outcome:?}");
            let after = story.on(crashed.world.store.after_power_loss(outcome));
            let kept = after.kept();
            for (id, end) in story.backups.iter().filter(|(id, _)| kept.contains(id)) {
                assert!(after.restores_to(*end), "{what}: {id}");
            }
            assert_eq!(after.damages(), 0, "{what}");
            after.expire(policy).unwrap();
            assert_eq!(after.world.repository().stored(None).unwrap(), left, "{what}");
        }
    }
}

#[test]
fn what_the_store_does_not_let_go_keeps_what_it_needs_and_the_rest_goes() {
    let story = story();
    let locked = &story.backups[1];
    let prefix = format!("{}/backups/{}/manifest", story.system(), locked.0);
    let target = FaultTarget::Path { prefix, operations: Operations::Only(Operation::Remove) };
    let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
    story.world.store.inject(Fault { target, error, skip: 0, count: 2 });
    let report = story.expire(policy(1)).unwrap();
    assert_eq!(report.not_removed.len(), 1);
    assert!(report.not_removed[0].path.contains(&locked.0));
    assert_eq!(story.kept(), [locked.0.as_str(), &story.backups[3].0]);
    assert!(story.restores_to(locked.1) && story.restores_to(story.backups[3].1));
    // It is no longer locked.
    story.expire(policy(1)).unwrap();
    assert_eq!(story.kept(), [story.backups[3].0.as_str()]);
}

#[test]
fn a_clock_that_is_wrong_and_a_policy_that_says_nothing_are_refused() {
    let story = story();
    let error = story.expire(RetentionPolicy::default()).unwrap_err();
    assert!(matches!(error, ExpireError::NoPolicy), "{error}");
    let right = story.world.clock.wall_micros();
    let newest = story.moments.last().unwrap().1;
    story.world.clock.set_wall_micros(newest - 600_000_000);
    let error = story.expire(policy(1)).unwrap_err();
    assert!(matches!(error, ExpireError::Clock { .. }), "{error}");
    assert!(error.to_string().contains("one of the clocks is wrong"), "{error}");
    story.world.clock.set_wall_micros(right);
    assert_eq!(story.kept().len(), 4);
}

#[test]
fn what_cannot_be_read_might_need_what_would_go_so_nothing_goes() {
    let story = story();
    let path = format!("{}/backups/{}/manifest", story.system(), story.backups[2].0);
    story.world.store.flip_bit(&path, 700, 3);
    let error = story.expire(policy(1)).unwrap_err();
    assert!(error.to_string().contains("manifest") && error.to_string().contains("damaged"), "{error}");
}

#[test]
fn a_backup_under_way_finds_its_log_when_it_has_ended() {
    let story = story();
    let database: Database = story.world.open();
    let table = database.table("t").unwrap();
    for key in 0..200_u32 {
        database.put(&table, (1 << 20 | key).to_be_bytes(), [1; 500]).unwrap();
    }
    database.checkpoint().unwrap();
    let mut steps = 0;
    let taken = story.world.back_up_while(&database, 30_000, || {
        steps += 1;
        if steps == 2 {
            let is_seen = || {
                let stored = story.world.repository().stored(Some(story.system())).unwrap();
                let runs = stored.iter().filter(|object| object.path.ends_with("run-00000000"));
                runs.count() > story.backups.len()
            };
            wait_until("the first run of the backup under way", is_seen);
            // Others have ended since it began, and a day has gone.
            for key in 0..20_u32 {
                database.put(&table, key.to_be_bytes(), [9; 20_000]).unwrap();
            }
            database.checkpoint().unwrap();
            story.world.clock.advance(24 * HOUR);
            story.world.back_up(&database);
            story.world.clock.advance(2 * HOUR);
            let report = story.expire(policy(1)).unwrap();
            assert_eq!((report.plan.kept_unfinished.len(), report.plan.removed.len()), (1, 3));
        }
    });
    let taken = taken.unwrap();
    assert!(steps > 2, "{steps} steps");
    assert!(story.restores_to(taken.manifest.end.end));
    assert!(story.world.restored_state(RestoreTarget::Latest) == state_of(&database));
}

#[test]
fn what_a_backup_that_was_given_up_has_left_goes_when_it_is_old() {
    let story = story();
    let last = &story.backups[3].0;
    let manifest = ObjectName::parse(&format!("backups/{last}/manifest")).unwrap();
    story.world.repository().remove_object(story.system(), &manifest).unwrap();
    assert!(story.is_settled(policy(3)), "it may be under way");
    story.world.clock.advance(8 * 24 * HOUR);
    let report = story.expire(policy(3)).unwrap();
    assert_eq!(report.plan.removed_unfinished, [last.as_str()]);
    let stored = story.world.repository().stored(None).unwrap();
    assert!(stored.iter().all(|object| !object.path.contains(last.as_str())));
}

/// Four backups of a database that does not archive, with segments between them that are nowhere.
fn backups_without_archive() -> Story {
    let world = World { archives: false, ..World::new() };
    let database = world.open();
    let table = database.create_table("t").unwrap();
    let mut taken = Vec::new();
    for number in 0..4_u32 {
        let backup = world.back_up(&database);
        taken.push((backup.id, backup.manifest.end.end));
        for key in 0..12_u32 {
            database.put(&table, (number * 100 + key).to_be_bytes(), [7; 20_000]).unwrap();
        }
        database.checkpoint().unwrap();
        world.clock.advance(10 * HOUR);
    }
    let id = database.info().unwrap().database;
    database.close().unwrap();
    Story { world, database: id, backups: taken, moments: Vec::new() }
}

#[test]
fn an_expiry_that_is_cut_short_is_gone_on_with_by_the_next_one_and_is_no_damage() {
    for story in [story(), backups_without_archive()] {
        let calls = {
            let whole = story.on(story.world.store.copy());
            let before = whole.world.store.calls();
            whole.expire(policy(1)).unwrap();
            whole.world.store.calls() - before
        };
        for call in (0..calls).step_by(crash_step(calls, 40)) {
            let story = story.on(story.world.store.copy());
            story.world.store.crash_at(story.world.store.calls() + call);
            let ended = story.expire(policy(1));
            let left = story.on(story.world.store.after_power_loss(PowerLoss::LoseAll));
            assert_eq!(left.damages(), 0, "call {call} of {calls}, {:?}", ended.is_ok());
            let report = left.expire(policy(1)).unwrap();
            assert_eq!(report.plan.kept_unfinished, [""; 0], "call {call} of {calls}: what is left is kept");
            assert_eq!((left.kept().len(), left.damages()), (1, 0), "call {call} of {calls}");
            assert!(left.is_settled(policy(1)), "call {call} of {calls}");
            let objects = left.world.repository().stored(None).unwrap();
            let of_backups = objects.iter().filter(|object| object.path.contains("/backups/"));
            let kept = &story.backups.last().unwrap().0;
            assert!(of_backups.clone().all(|object| object.path.contains(kept)), "call {call}: leftovers");
        }
    }
}

#[test]
fn a_backup_that_ends_while_it_is_taken_for_given_up_never_has_a_manifest_without_objects() {
    let story = story();
    let database = story.world.open();
    story.world.refuse_backups_after(&database, 2);
    story.world.back_up_while(&database, 1000, || {}).unwrap_err();
    story.world.store.clear_faults();
    story.world.clock.advance(8 * 24 * HOUR);
    let sure = RetentionPolicy { keep_unfinished: HOUR, ..policy(1) };
    // Its listing is from before the backup ended.
    let expiry = story.prepare(sure).unwrap();
    let id = expiry.plan().removed_unfinished[0].clone();
    let manifest = format!("{}/backups/{id}/manifest", story.system());
    story.world.store.open(&manifest, seawall_io::OpenMode::Create).unwrap();
    let refused = expiry.run(&mut |_| {}).unwrap_err();
    assert!(matches!(&refused, ExpireError::EndedMeanwhile { id: found } if *found == id), "{refused}");
    assert_eq!(story.kept().len(), 4, "nothing was removed");
}

/// It puts its manifest while its objects go, and dies before it looks for the mark.
#[test]
fn a_manifest_that_comes_while_its_objects_go_does_not_stay() {
    let story = story();
    let database = story.world.open();
    story.world.refuse_backups_after(&database, 2);
    story.world.back_up_while(&database, 1000, || {}).unwrap_err();
    story.world.store.clear_faults();
    story.world.clock.advance(8 * 24 * HOUR);
    let expiry = story.prepare(RetentionPolicy { keep_unfinished: HOUR, ..policy(1) }).unwrap();
    let id = expiry.plan().removed_unfinished[0].clone();
    let manifest = format!("{}/backups/{id}/manifest", story.system());
    let mut is_first = true;
    let report = expiry.run(&mut |_| {
        if std::mem::take(&mut is_first) {
            story.world.store.open(&manifest, seawall_io::OpenMode::Create).unwrap();
        }
    });
    report.unwrap();
    assert!(!is_first, "nothing was removed");
    let left = story.world.store.list_all();
    assert!(left.iter().all(|entry| !entry.name.contains(&id)), "the manifest has stayed");
}

#[test]
fn a_backup_that_is_given_up_while_it_is_taken_says_so() {
    let world = World::new();
    let database = world.open();
    let table = database.create_table("t").unwrap();
    for key in 0..200_u32 {
        database.put(&table, key.to_be_bytes(), [7; 500]).unwrap();
    }
    database.checkpoint().unwrap();
    world.back_up(&database);
    let is_first = std::cell::Cell::new(true);
    let system = System::Seawall(database.info().unwrap().database);
    let refused = world.back_up_while(&database, 1000, || {
        let objects = world.repository().stored(Some(system)).unwrap();
        let has_runs = backups(&world.repository(), database.info().unwrap().database).unwrap();
        if !objects.is_empty() && !has_runs.unfinished.is_empty() && is_first.replace(false) {
            // A run that is put after the clock's jump makes the backup young again. Only what the channel holds is still put.
            let expiry = loop {
                world.clock.advance(8 * 24 * HOUR);
                let expiry = Expiry::prepare(world.repository(), system, policy(1), &world.clock).unwrap();
                if !expiry.plan().removed_unfinished.is_empty() {
                    break expiry;
                }
                std::thread::yield_now();
            };
            assert_eq!(expiry.plan().removed_unfinished.len(), 1);
            expiry.run(&mut |_| {}).unwrap();
        }
    });
    assert!(!is_first.get(), "the expiry has not run");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("--keep-unfinished"), "{refused}");
    assert_eq!(backups(&world.repository(), database.info().unwrap().database).unwrap().complete.len(), 1);
}
