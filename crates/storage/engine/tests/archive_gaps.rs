//! What happens when an archive is behind: writers are slowed, or a gap is opened on purpose, and everybody is told.
//!
//! Invariants: a segment that the archive lacks is on record there, or the log has it, or the lost hold says that it is missing;
//! nobody is told that a commit is archived which is not.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::memory_archive::{MemoryArchive, SEGMENT_BYTES, State, archive_options, fill};
use common::{small_options, try_open};
use seawall_engine::{
    ArchiveOptions, AtLimit, Background, Database, Durability, Effect, Environment, Error, HoldInfo, Options,
    ThrottleReason,
};
use seawall_simulation::{
    FaultTarget, Operations, PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom, crash_step,
};
use seawall_types::Lsn;

const LIMIT: u64 = 3 * SEGMENT_BYTES;

fn limited(archive: &Arc<MemoryArchive>, background: Background) -> Options {
    let archive = ArchiveOptions { limit_bytes: Some(LIMIT), ..archive_options(archive) };
    Options { archives: vec![archive], background, ..small_options() }
}

/// A database whose archive was down until its hold was lost.
fn behind(archive: &Arc<MemoryArchive>, disk: &SimulatedDisk) -> Database {
    let database = try_open(disk, limited(archive, Background::Manual)).unwrap();
    fill(&database, 2);
    database.log().archive_now().unwrap();
    archive.set(|state| state.is_down = true);
    fill(&database, 1);
    database.log().archive_now().unwrap_err();
    fill(&database, 5);
    database.checkpoint().unwrap();
    assert_eq!(database.statistics().log.holds_lost, 1);
    database
}

fn hold(database: &Database) -> HoldInfo {
    let holds = database.log().holds().unwrap();
    holds.into_iter().find(|hold| hold.name == "archiver").unwrap()
}

#[test]
fn what_is_over_the_limit_is_left_out_on_record_and_uploads_go_on_behind_it() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = behind(&archive, &disk);
    let refused = database.log().archive_now();
    assert!(matches!(refused, Err(Error::Archive { .. } | Error::ArchiveGap { .. })), "{refused:?}");
    let seen = database.statistics().archives.remove(0);
    assert_eq!(seen.gaps, 0);
    let gap = seen.last_gap.unwrap();
    assert!(
        !gap.is_on_record && gap.from < gap.to && gap.reason.contains("limit of 196608 bytes"),
        "{gap:?}"
    );
    assert!(hold(&database).lost_at.is_some(), "it is known to be lost until that is on record");
    let watch = database.log().watch_archive("").unwrap();
    assert_eq!(watch.gaps(), 0);

    archive.set(|state| state.is_down = false);
    fill(&database, 1);
    database.log().archive_now().unwrap();
    let seen = database.statistics().archives.remove(0);
    assert!(seen.gaps == 1 && seen.failing.is_none() && seen.last_gap.unwrap().is_on_record);
    assert!(watch.wait(0, None));
    assert_eq!(watch.gaps(), 1);
    let noted = archive.state.lock().unwrap().gaps.clone();
    assert!(noted.len() == 1 && noted[0].reason.contains("it is down"), "{noted:?}");
    let (first, end) = (archive.segments()[0], database.statistics().log.appended.get() / SEGMENT_BYTES);
    assert!((first..end).all(|segment| archive.knows(segment)));
    assert!(
        archive
            .segments()
            .iter()
            .all(|segment| *segment < noted[0].first.number || *segment > noted[0].last.number)
    );
    assert_eq!(hold(&database).lost_at, None);
    assert_eq!(database.log().holds().unwrap().len(), 1, "the hold of the gap has ended");
    let table = database.table("t").unwrap();
    database.with(Durability::Archived).put(&table, "k", "v").unwrap();
}

#[test]
fn a_commit_whose_record_was_left_out_is_told_so() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, limited(&archive, Background::Manual)).unwrap();
    let table = database.create_table("t").unwrap();
    for is_down_still in [true, false] {
        archive.set(|state| state.is_down = true);
        let mut transaction = database.begin();
        transaction.set_durability(Durability::Archived);
        transaction.put(&table, "k", "v").unwrap();
        let handle = transaction.commit_async().unwrap();
        let stamp = handle.lsn();
        fill(&database, 6);
        database.checkpoint().unwrap();
        archive.set(|state| state.is_down = is_down_still);
        let told = handle.wait();
        let Err(error @ Error::DoneNotArchived { lsn, cause }) = &told else { panic!("{told:?}") };
        assert!(matches!(&**cause, Error::ArchiveGap { from, to, .. } if from < to), "{cause}");
        assert!(*lsn == stamp && error.effect() == Effect::Done && !error.is_retryable(), "{error}");
        assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v");
        archive.set(|state| state.is_down = false);
        database.log().archive_now().unwrap();
    }
    assert_eq!(database.statistics().archives[0].gaps, 2);
}

#[test]
fn a_prepare_or_decision_whose_record_was_left_out_is_done_and_says_so() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, limited(&archive, Background::Manual)).unwrap();
    let table = database.create_table("t").unwrap();
    database.log().archive_now().unwrap();
    archive.set(|state| state.is_down = true);
    let done = |told: Result<Lsn, Error>| {
        let error = told.unwrap_err();
        assert!(matches!(error, Error::DoneNotArchived { .. }), "{error}");
        assert_eq!(error.effect(), Effect::Done);
        assert!(error.to_string().contains("do not repeat it"), "{error}");
    };
    let mut transaction = database.begin();
    transaction.set_durability(Durability::Archived);
    transaction.put(&table, "k", "v").unwrap();
    done(transaction.prepare("gid"));
    let in_doubt = |database: &Database| {
        let all = database.two_phase().in_doubt().unwrap();
        all.into_iter().map(|transaction| transaction.gid).collect::<Vec<_>>()
    };
    assert_eq!(in_doubt(&database), ["gid"], "it has to be decided");
    // The same after the loss of all that is not durable here.
    let left = disk.after_power_loss(PowerLoss::LoseAll);
    let database = try_open(&left, limited(&archive, Background::Manual)).unwrap();
    assert_eq!(in_doubt(&database), ["gid"]);
    done(database.two_phase().with(Durability::Archived).commit("gid"));
    let table = database.table("t").unwrap();
    assert!(in_doubt(&database).is_empty());
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v");
}

#[test]
fn threads_open_a_gap_and_wake_those_who_wait() {
    let archive = Arc::new(MemoryArchive::default());
    // Uploads hang.
    archive.set(|state| state.is_closed = true);
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, limited(&archive, Background::Threads)).unwrap();
    let table = database.create_table("t").unwrap();
    let watch = database.log().watch_archive("").unwrap();
    let mut transaction = database.begin();
    transaction.set_durability(Durability::Archived);
    transaction.put(&table, "k", "v").unwrap();
    let handle = transaction.commit_async().unwrap();
    fill(&database, 6);
    database.checkpoint().unwrap();
    let told = handle.wait();
    let Err(Error::DoneNotArchived { cause, .. }) = told else { panic!("{told:?}") };
    assert!(matches!(*cause, Error::ArchiveGap { .. }), "{cause}");
    assert!(watch.wait(0, None), "it is on record");
    archive.set(|state| state.is_closed = false);
    database.with(Durability::Archived).put(&table, "k", "w").unwrap();
    database.close().unwrap();
    assert!(!watch.wait(1, None), "nothing comes any more");
}

#[test]
fn what_was_read_of_log_that_was_not_kept_meanwhile_does_not_go_up() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, limited(&archive, Background::Threads)).unwrap();
    let first = database.statistics().checkpoints.redo_point.get() / SEGMENT_BYTES;
    let target =
        FaultTarget::Path { prefix: format!("log/00000001{first:016X}"), operations: Operations::Reads };
    let gate = disk.hold(target);
    fill(&database, 1);
    gate.await_waiting(1);
    fill(&database, 6);
    database.checkpoint().unwrap();
    archive.wait_until(|state| !state.gaps.is_empty());
    gate.open();
    // It waits for what is under way.
    database.close().unwrap();
    assert!(!archive.segments().contains(&first), "{:?}", archive.segments());
    assert!(archive.knows(first));
}

#[test]
fn a_gap_that_was_not_on_record_is_opened_by_the_next_process() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = behind(&archive, &disk);
    let end = database.statistics().log.appended;
    drop(database);
    archive.set(|state| state.is_down = false);
    let database = try_open(&disk, limited(&archive, Background::Manual)).unwrap();
    let gap = database.statistics().archives[0].last_gap.clone().unwrap();
    assert!(gap.from < gap.to && gap.to <= end, "{gap:?}");
    fill(&database, 2);
    database.log().archive_now().unwrap();
    let (first, end) = (archive.segments()[0], database.statistics().log.appended.get() / SEGMENT_BYTES);
    assert!((first..end).all(|segment| archive.knows(segment)));
    assert_eq!(database.statistics().archives[0].gaps, 1);
}

#[test]
fn a_gap_becomes_longer_while_the_store_takes_not_even_a_record() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = behind(&archive, &disk);
    for _ in 0..3 {
        database.log().archive_now().unwrap_err();
        let before = database.statistics().archives[0].last_gap.clone().unwrap();
        fill(&database, 6);
        database.checkpoint().unwrap();
        database.log().archive_now().unwrap_err();
        let after = database.statistics().archives[0].last_gap.clone().unwrap();
        assert!(after.to > before.to && after.from == before.from);
        let kept = database.info().unwrap().segments[0].first_lsn;
        assert!(
            database.statistics().log.appended.bytes_since(kept) < 8 * SEGMENT_BYTES,
            "the disk does not fill up"
        );
    }
    archive.set(|state| state.is_down = false);
    fill(&database, 1);
    database.log().archive_now().unwrap();
    let (first, end) = (archive.segments()[0], database.statistics().log.appended.get() / SEGMENT_BYTES);
    assert!((first..end).all(|segment| archive.knows(segment)));
    assert_eq!(database.statistics().archives[0].gaps, 1);
}

/// The hold is released while the archive lacks less than a segment, so there is no gap: but it lacks that.
#[test]
fn a_released_hold_archives_nothing_by_itself() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, limited(&archive, Background::Manual)).unwrap();
    let table = database.create_table("t").unwrap();
    database.put(&table, "k", "archived").unwrap();
    let archived = database.log().archive_now().unwrap();
    let later = database.put(&table, "k", "not archived").unwrap();
    database.checkpoint().unwrap();
    database.log().release_hold("archiver").unwrap();
    archive.set(|state| state.is_down = true);
    database.log().archive_now().unwrap_err();
    let seen = database.statistics().archives.remove(0);
    assert!(seen.archived < later, "{} is said to be archived, and only {archived} is", seen.archived);
    assert_eq!(seen.last_gap, None, "nothing is lost");
    archive.set(|state| state.is_down = false);
    database.log().archive_now().unwrap();
    let end = database.statistics().archives.remove(0).archived;
    let at = |lsn: Lsn| lsn.get() % SEGMENT_BYTES;
    assert!(end >= later, "{end}");
    assert!(archive.tails().iter().any(|(_, from, to)| *from <= at(archived) && *to >= at(later)));
}

#[test]
fn a_hold_that_somebody_released_is_a_gap_too_and_another_limit_is_taken_up() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, limited(&archive, Background::Manual)).unwrap();
    fill(&database, 2);
    database.log().archive_now().unwrap();
    archive.set(|state| state.is_down = true);
    fill(&database, 6);
    database.log().release_hold("archiver").unwrap();
    database.checkpoint().unwrap();
    archive.set(|state| state.is_down = false);
    database.log().archive_now().unwrap();
    let gap = database.statistics().archives[0].last_gap.clone().unwrap();
    assert!(gap.reason.contains("released"), "{gap:?}");
    let position = hold(&database).position;
    drop(database);
    let archives = vec![archive_options(&archive)];
    let options = Options { archives, ..limited(&archive, Background::Manual) };
    let database = try_open(&disk, options).unwrap();
    assert_eq!((hold(&database).options.limit_bytes, hold(&database).position), (None, position));
}

/// The archive takes 94 kB a second; writers could write 200.
#[test]
fn writers_are_slowed_to_the_speed_of_a_slow_archive_and_nothing_is_left_out() {
    let archive = Arc::new(MemoryArchive::default());
    let clock = SimulatedClock::default();
    let environment = Environment {
        disk: Arc::new(SimulatedDisk::new(1)),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let limit = 32 * SEGMENT_BYTES;
    let slowing = ArchiveOptions {
        limit_bytes: Some(limit),
        at_limit: AtLimit::SlowWriters,
        tail_interval: None,
        ..archive_options(&archive)
    };
    let mut options = Options { archives: vec![slowing], ..small_options() };
    options.memory.memtable_bytes = 64 << 20;
    options.recovery.target = None;
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    let (mut next, mut held_most, mut reasons) = (Duration::ZERO, 0, Vec::new());
    while now(&clock) < Duration::from_secs(60) {
        database.put(&table, [1], [7; 950]).unwrap();
        clock.advance(Duration::from_millis(5));
        if now(&clock) >= next {
            next = now(&clock) + Duration::from_millis(700);
            archive.set(|state| state.left = Some(1));
            let archived = database.log().archive_now();
            assert!(matches!(archived, Ok(_) | Err(Error::Archive { .. })), "{archived:?}");
            database.checkpoint().unwrap();
            let seen = database.statistics();
            held_most = held_most.max(seen.log.appended.bytes_since(hold(&database).position));
            reasons.push(seen.throttle.reason);
        }
    }
    let seen = database.statistics();
    assert_eq!((seen.log.holds_lost, seen.archives[0].gaps), (0, 0));
    assert!(held_most > limit / 2 && held_most < limit, "{held_most} of {limit}");
    assert!(reasons.contains(&Some(ThrottleReason::HeldBackLog)), "{reasons:?}");
    assert!(archive.state.lock().unwrap().gaps.is_empty());
}

fn now(clock: &SimulatedClock) -> Duration {
    seawall_io::Clock::monotonic(clock)
}

/// The database from `behind` goes on until its gap is open and more is archived, or the power goes.
fn open_gap(archive: &Arc<MemoryArchive>, disk: &SimulatedDisk) -> Result<Lsn, Error> {
    let database = try_open(disk, limited(archive, Background::Manual))?;
    let table = database.table("t")?;
    for key in 0..16_u32 {
        database.put(&table, key.to_be_bytes(), [9; 9_000])?;
    }
    database.checkpoint()?;
    database.log().archive_now()?;
    let end = database.statistics().log.appended;
    database.close()?;
    Ok(end)
}

#[test]
fn the_power_goes_at_every_call_while_a_gap_is_opened() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    drop(behind(&archive, &disk));
    archive.set(|state| state.is_down = false);
    let state = archive.state.lock().unwrap().clone();
    let first = archive.segments()[0];
    let with = |state: &State| {
        let archive = MemoryArchive::default();
        *archive.state.lock().unwrap() = state.clone();
        Arc::new(archive)
    };
    let calm = disk.copy();
    let before = calm.calls();
    open_gap(&with(&state), &calm).unwrap();
    let mut lost_holds = 0;
    for call in (before..calm.calls()).step_by(crash_step(calm.calls() - before, 25)) {
        let (archive, disk) = (with(&state), disk.copy());
        disk.crash_at(call);
        assert!(open_gap(&archive, &disk).is_err() || disk.crashed());
        let left = archive.state.lock().unwrap().clone();
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let what = format!("call {call}, {outcome:?}");
            let (archive, disk) = (with(&left), disk.after_power_loss(outcome));
            // What is missing is on record, or kept, or the lost hold tells of it.
            let read_only =
                Options { mode: seawall_engine::OpenMode::ReadOnly, ..limited(&archive, Background::Manual) };
            let opened = try_open(&disk, Options { archives: Vec::new(), ..read_only });
            {
                let database = opened.unwrap_or_else(|error| panic!("{what}: looking at it: {error}"));
                let (hold, end) = (hold(&database), database.info().unwrap().end_of_log);
                lost_holds += u64::from(hold.lost_at.is_some());
                let told_from = hold.position.get() / SEGMENT_BYTES;
                let missing = (first..end.get() / SEGMENT_BYTES).find(|segment| !archive.knows(*segment));
                assert!(missing.is_none_or(|missing| missing >= told_from), "{what}: {missing:?}, {hold:?}");
                let oldest = database.info().unwrap().segments[0].first_lsn.get() / SEGMENT_BYTES;
                assert!(hold.lost_at.is_some() || oldest <= told_from, "{what}: {oldest}, {hold:?}");
            }
            let end = open_gap(&archive, &disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            let missing = (first..end.get() / SEGMENT_BYTES).find(|segment| !archive.knows(*segment));
            assert_eq!(missing, None, "{what}");
        }
    }
    assert!(lost_holds > 0, "the power went before the gap was on record");
}
