//! The engine's own archiver: what goes up, in what order; what a commit may wait for; what happens when the archive is down.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::memory_archive::{MemoryArchive, SEGMENT_BYTES, archive_options, fill};
use common::{small_options, try_open};
use seawall_engine::{
    ArchiveOptions, Background, Database, DatabaseDirectory, Durability, Error, LogFile, Options,
    QuorumOptions, QuorumPositions, StandbyPositions,
};
use seawall_simulation::SimulatedDisk;
use seawall_types::Lsn;

fn options(archive: &Arc<MemoryArchive>, background: Background) -> Options {
    Options { archives: vec![archive_options(archive)], background, ..small_options() }
}

#[test]
fn full_segments_and_the_durable_tail_go_up_and_what_is_up_is_let_go() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, options(&archive, Background::Manual)).unwrap();
    let first = database.statistics().log.appended.get() / SEGMENT_BYTES;
    fill(&database, 5);
    let end = database.log().archive_now().unwrap();
    let last = end.get() / SEGMENT_BYTES;
    assert_eq!(archive.segments(), (first..last).collect::<Vec<_>>());
    assert_eq!(archive.tails(), [(last, 0, end.get() % SEGMENT_BYTES)]);
    let seen = database.statistics().archives.remove(0);
    assert_eq!(
        (seen.archived, seen.segments, seen.segments_waiting, seen.failing),
        (end, last - first, 0, None)
    );
    // The next tail goes on where the last one ended.
    let table = database.table("t").unwrap();
    let next = database.with(Durability::Archived).put(&table, "k", "v").unwrap();
    assert_eq!(archive.tails()[1], (last, end.get() % SEGMENT_BYTES, next.get() % SEGMENT_BYTES));
    fill(&database, 1);
    database.log().archive_now().unwrap();
    assert!(archive.tails().iter().all(|(segment, ..)| *segment > last), "a whole segment has no tails");
    database.checkpoint().unwrap();
    let oldest = database.info().unwrap().segments[0].first_lsn;
    assert!(oldest.get() / SEGMENT_BYTES > first, "what is archived is not kept");
    for (file, content) in &archive.state.lock().unwrap().files {
        if let LogFile::Segment(_) = file {
            assert_eq!(content.len() as u64, SEGMENT_BYTES);
        }
    }
}

#[test]
fn an_archive_that_is_down_stops_nobody_who_did_not_ask_for_it_and_the_log_is_kept() {
    let archive = Arc::new(MemoryArchive::default());
    archive.set(|state| state.is_down = true);
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, options(&archive, Background::Manual)).unwrap();
    let first = database.statistics().checkpoints.redo_point;
    fill(&database, 4);
    let refused = database.log().archive_now();
    assert!(
        matches!(&refused, Err(Error::Archive { message }) if message.contains("it is down")),
        "{refused:?}"
    );
    let table = database.table("t").unwrap();
    let refused = database.with(Durability::Archived).put(&table, "k", "v");
    assert!(
        matches!(&refused, Err(Error::DoneNotArchived { cause, .. }) if matches!(**cause, Error::Archive { .. })),
        "{refused:?}"
    );
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v", "it is durable here, and visible");
    database.checkpoint().unwrap();
    assert!(database.info().unwrap().segments[0].first_lsn <= first, "the log is kept");
    let seen = database.statistics().archives.remove(0);
    assert!(seen.failures > 0 && seen.failing.unwrap().contains("it is down"));
    drop(database);
    // The next process goes on.
    archive.set(|state| state.is_down = false);
    let database = try_open(&disk, options(&archive, Background::Manual)).unwrap();
    let end = database.log().archive_now().unwrap();
    assert_eq!(archive.segments().len() as u64, (end.get() - first.get()) / SEGMENT_BYTES);
    assert_eq!(database.statistics().archives.remove(0).failing, None);
}

#[test]
fn what_is_archived_is_known_to_the_next_process() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, options(&archive, Background::Manual)).unwrap();
    fill(&database, 6);
    database.close().unwrap();
    let before = archive.state.lock().unwrap().stores;
    let database = try_open(&disk, options(&archive, Background::Manual)).unwrap();
    database.log().archive_now().unwrap();
    let stores = archive.state.lock().unwrap().stores - before;
    assert!(stores <= 2, "{stores} files were stored again");
}

#[test]
fn a_commit_that_asks_for_the_archive_waits_for_it_and_others_do_not() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, options(&archive, Background::Threads)).unwrap();
    let table = database.create_table("t").unwrap();
    archive.set(|state| state.is_closed = true);
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (database, table) = (&database, &table);
        scope.spawn(move || {
            let stamp = database.with(Durability::Archived).put(table, "archived", "v").unwrap();
            sender.send(stamp).unwrap();
        });
        archive.wait_until(|state| state.waiting > 0);
        database.put(table, "sync", "v").unwrap();
        assert!(receiver.try_recv().is_err(), "the archive has not taken it");
        archive.set(|state| state.is_closed = false);
        let stamp = receiver.recv().unwrap();
        assert!(database.statistics().archives.remove(0).archived >= stamp);
    });
    fill(&database, 8);
    let end = database.log().archive_now().unwrap();
    assert!(database.statistics().archives.remove(0).archived >= end);
    database.close().unwrap();
}

#[test]
fn closing_puts_the_end_of_the_log_up_first_and_begins_nothing_when_its_time_is_over() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let mut options = options(&archive, Background::Manual);
    options.archives[0].close_patience = Duration::ZERO;
    let database = try_open(&disk, options.clone()).unwrap();
    fill(&database, 6);
    database.close().unwrap();
    assert_eq!((archive.segments().len(), archive.tails().len()), (0, 1), "one upload is tried");
    options.archives[0].close_patience = Duration::from_secs(1);
    let database = try_open(&disk, options).unwrap();
    database.close().unwrap();
    assert!(archive.segments().len() >= 5, "{:?}", archive.segments());
}

#[test]
fn closing_waits_for_no_upload_if_told_so() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let mut options = options(&archive, Background::Threads);
    options.archives[0].close_patience = Duration::ZERO;
    let database = try_open(&disk, options).unwrap();
    let table = database.create_table("t").unwrap();
    archive.set(|state| state.is_closed = true);
    let handle = {
        let mut transaction = database.begin();
        transaction.set_durability(Durability::Archived);
        transaction.put(&table, "k", "v").unwrap();
        transaction.commit_async().unwrap()
    };
    let stamp = handle.lsn();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || handle.wait());
        archive.wait_until(|state| state.waiting > 0);
        database.close().unwrap();
        let told = waiter.join().unwrap();
        let Err(Error::DoneNotArchived { lsn, cause }) = told else { panic!("{told:?}") };
        assert!(lsn == stamp && matches!(*cause, Error::NotArchived { .. }), "{cause}");
    });
    archive.set(|state| state.is_closed = false);
}

#[test]
fn without_an_archive_nothing_is_archived() {
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, small_options()).unwrap();
    let table = database.create_table("t").unwrap();
    let refused = database.with(Durability::Archived).put(&table, "k", "v");
    assert!(matches!(refused, Err(Error::NoArchive)), "{refused:?}");
    assert_eq!(database.get(&table, "k").unwrap(), None, "it was refused before it was logged");
    assert!(matches!(database.log().archive_now(), Err(Error::NoArchive)));
}

#[test]
fn the_part_of_a_timeline_that_was_left_goes_up_under_its_own_name() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, options(&archive, Background::Manual)).unwrap();
    let fork = fill(&database, 2);
    drop(database);
    archive.set(|state| state.files.clear());
    let environment = seawall_engine::Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(seawall_simulation::SimulatedClock::default()),
        random: Arc::new(seawall_simulation::SimulatedRandom::new(2)),
    };
    let options = options(&archive, Background::Manual);
    let database = DatabaseDirectory::at(environment).open_on_new_timeline(options, "test").unwrap();
    database.log().archive_now().unwrap();
    let files: Vec<LogFile> = archive.state.lock().unwrap().files.keys().copied().collect();
    let is_left = |file: &LogFile| {
        matches!(file, LogFile::Tail { segment, from: 0, to }
            if segment.timeline.get() == 1 && segment.number * SEGMENT_BYTES + to >= fork.get())
    };
    assert!(files.iter().any(is_left), "{files:?}");
    let history = seawall_types::TimelineId::new(2).unwrap();
    assert!(files.contains(&LogFile::History(history)), "{files:?}");
}

/// One that is required, and one that is not.
fn two_archives(
    required: &Arc<MemoryArchive>,
    optional: &Arc<MemoryArchive>,
    background: Background,
) -> Options {
    let optional = ArchiveOptions { name: "far".to_owned(), is_required: false, ..archive_options(optional) };
    Options { archives: vec![archive_options(required), optional], ..options(required, background) }
}

#[test]
fn an_archive_that_is_not_required_may_be_down_and_gets_everything_when_it_is_back() {
    let (near, far) = (Arc::new(MemoryArchive::default()), Arc::new(MemoryArchive::default()));
    far.set(|state| state.is_down = true);
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, two_archives(&near, &far, Background::Manual)).unwrap();
    let begin = database.statistics().checkpoints.redo_point;
    fill(&database, 4);
    let end = database.log().archive_now().unwrap();
    let table = database.table("t").unwrap();
    database.with(Durability::Archived).put(&table, "k", "v").unwrap();
    let seen = database.statistics().archives;
    assert!(seen[0].archived >= end && seen[0].failing.is_none() && seen[0].is_required);
    assert_eq!((seen[1].archived, seen[1].name.as_str(), seen[1].is_required), (begin, "far", false));
    assert!(seen[1].failing.is_some() && far.segments().is_empty());
    database.checkpoint().unwrap();
    let holds = database.log().holds().unwrap();
    let position = |name: &str| holds.iter().find(|hold| hold.name == name).unwrap().position;
    assert!(position("archiver") > begin && position("archiver far") <= begin, "{holds:?}");
    drop(database);
    far.set(|state| state.is_down = false);
    let database = try_open(&disk, two_archives(&near, &far, Background::Manual)).unwrap();
    database.log().archive_now().unwrap();
    assert_eq!(near.segments(), far.segments());
    // The other way round: a commit waits for the one that is required.
    near.set(|state| state.is_down = true);
    let refused = database.with(Durability::Archived).put(&table, "k", "w");
    assert!(matches!(refused, Err(Error::DoneNotArchived { .. })), "{refused:?}");
    let seen = database.statistics().archives;
    assert!(seen[1].archived > seen[0].archived, "each has what it can");
}

#[test]
fn nobody_waits_for_an_archive_that_hangs_and_is_not_required() {
    let (near, far) = (Arc::new(MemoryArchive::default()), Arc::new(MemoryArchive::default()));
    far.set(|state| state.is_closed = true);
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, two_archives(&near, &far, Background::Threads)).unwrap();
    let end = fill(&database, 4);
    far.wait_until(|state| state.waiting > 0);
    assert!(database.log().archive_now().unwrap() >= end);
    database.close().unwrap();
    far.set(|state| state.is_closed = false);
}

#[test]
fn archives_have_names_of_their_own_and_one_is_required() {
    let archive = Arc::new(MemoryArchive::default());
    let named = |name: &str| ArchiveOptions { name: name.to_owned(), ..archive_options(&archive) };
    let long = "a".repeat(41);
    let refused = |archives: Vec<ArchiveOptions>| {
        let opened = try_open(&SimulatedDisk::new(1), Options { archives, ..small_options() });
        matches!(opened, Err(Error::Option { name: "archives", .. }))
    };
    assert!(refused(vec![named("a"), named("a")]));
    assert!(refused(vec![ArchiveOptions { is_required: false, ..named("a") }]));
    assert!(refused(vec![named("a b")]) && refused(vec![named(&long)]));
    assert!(!refused(vec![named(&long[1..]), named("")]));
}

/// Where what the archive has ends.
fn archived_until(archive: &MemoryArchive) -> Lsn {
    let of_segments = archive.segments().into_iter().map(|number| (number + 1) * SEGMENT_BYTES);
    let of_tails = archive.tails().into_iter().map(|(segment, _, to)| segment * SEGMENT_BYTES + to);
    Lsn::new(of_segments.chain(of_tails).max().unwrap_or(0))
}

#[test]
fn an_archive_gets_only_what_a_quorum_of_standbys_has_also_when_the_database_is_closed() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let quorum = Some(QuorumOptions::default());
    let options = Options { quorum, ..options(&archive, Background::Manual) };
    let database = try_open(&disk, options.clone()).unwrap();
    let acknowledge = |database: &Database, lsn: Lsn| {
        let quorum = Some(QuorumPositions { written: lsn, flushed: lsn, applied: lsn });
        database.quorum().standbys_are_at(StandbyPositions { quorum, candidate: Some(lsn) });
    };
    fill(&database, 2);
    let acknowledged = database.flush().unwrap();
    acknowledge(&database, acknowledged);
    assert_eq!(database.log().archive_now().unwrap(), acknowledged);
    assert_eq!(archived_until(&archive), acknowledged);
    fill(&database, 3);
    let lacking = database.log().archive_now();
    assert!(matches!(lacking, Err(Error::NotArchived { .. })), "{lacking:?}");
    assert!(archived_until(&archive) <= acknowledged);
    database.close().unwrap();
    assert!(archived_until(&archive) <= acknowledged);
    let database = try_open(&disk, options).unwrap();
    let end = database.flush().unwrap();
    acknowledge(&database, end);
    assert!(database.log().archive_now().unwrap() >= end);
    assert!(archived_until(&archive) >= end);
    database.close().unwrap();
}

#[test]
fn a_wait_for_an_archive_can_be_cancelled() {
    let archive = Arc::new(MemoryArchive::default());
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, options(&archive, Background::Threads)).unwrap();
    let table = database.create_table("t").unwrap();
    archive.set(|state| state.is_closed = true);
    let session = database.new_session();
    let writer = session.clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || writer.with(Durability::Archived).put(&table, "k", "v"));
        archive.wait_until(|state| state.waiting > 0);
        session.cancel_token().request();
        let told = waiting.join().unwrap();
        let Err(Error::DoneNotArchived { cause, .. }) = told else { panic!("{told:?}") };
        assert!(matches!(*cause, Error::Cancelled), "{cause}");
    });
    archive.set(|state| state.is_closed = false);
    database.close().unwrap();
}
