//! A database goes on on a new timeline: all of it is there, nothing that the old one has beyond the fork is, whenever the
//! power goes.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;

use seawall_crash_harness::{
    environment, forget_pending, master_key, open, small_options, template, try_open,
};
use seawall_engine::{
    Background, Database, DatabaseDirectory, Environment, Error, HoldOptions, NewTimeline, OpenMode, Options,
    SegmentState,
};
use seawall_simulation::{Call, Operation, PowerLoss, SimulatedDisk, SimulatedRandom};
use seawall_testing::wait_until;
use seawall_types::{Lsn, TimelineId, TimelineMark};
use seawall_wal::{SegmentName, TimelineHistory};

const SEGMENT_BYTES: u64 = 64 << 10;

fn switch(disk: &SimulatedDisk, options: &Options) -> Result<Database, Error> {
    DatabaseDirectory::at(environment(Arc::new(disk.clone())))
        .open_on_new_timeline(options.clone(), "promoted")
}

fn put(database: &Database, rows: std::ops::Range<u32>, byte: u8) {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    for row in rows {
        database.put(&table, row.to_be_bytes(), [byte; 6000]).unwrap();
    }
}

/// First byte of each row.
fn rows(database: &Database) -> Vec<u8> {
    let table = database.table("t").unwrap();
    database.snapshot().range::<&[u8]>(&table, ..).map(|row| row.unwrap().1[0]).collect()
}

fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

/// A database whose log goes on in the middle of a segment, closed by a power loss.
fn crashed(options: &Options) -> SimulatedDisk {
    let disk = template(options);
    let database = open(&disk, options);
    put(&database, 0..25, 1);
    disk.after_power_loss(PowerLoss::LoseAll)
}

/// As `crashed`, with segments that the log has not reached, which hold old bytes.
fn crashed_with_spares(options: &Options) -> SimulatedDisk {
    let disk = template(options);
    let database = open(&disk, options);
    put(&database, 0..60, 8);
    database.checkpoint().unwrap();
    put(&database, 0..60, 1);
    database.checkpoint().unwrap();
    put(&database, 0..3, 1);
    assert!(database.statistics().segments.spare >= 2, "{:?}", database.statistics());
    disk.after_power_loss(PowerLoss::LoseAll)
}

/// Beginning a timeline writes no segment full of zeros, and no buffer: a promotion takes milliseconds.
#[test]
fn beginning_a_timeline_writes_a_few_blocks_whatever_the_size_of_segments() {
    let options = small_options();
    let disk = crashed_with_spares(&options);
    drop(open(&disk, &options));
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let database = switch(&disk, &options).unwrap();
    let trace = disk.trace();
    let history = trace.iter().position(|call| call.path.starts_with("log/00000002.history")).unwrap();
    let begun = &trace[history..];
    let bytes: u64 =
        begun.iter().filter_map(|call| call.range.clone()).map(|range| range.end - range.start).sum();
    assert!(bytes < 32 << 10, "{bytes} bytes: {begun:?}");
    let syncs = |call: &&Call| {
        matches!(call.operation, Operation::Sync | Operation::SyncDirectory | Operation::WriteDurable)
    };
    assert!(begun.iter().filter(syncs).count() <= 11, "{begun:?}");
    assert_eq!(rows(&database), vec![1; 60]);
    put(&database, 60..90, 2);
    let database = open(&disk.after_power_loss(PowerLoss::LoseAll), &options);
    assert_eq!((database.log().timeline(), rows(&database).len()), (timeline(2), 90));
}

#[test]
fn a_database_goes_on_on_a_new_timeline_with_everything_it_had() {
    for options in [small_options(), Options { master_key: Some(master_key()), ..small_options() }] {
        let disk = crashed(&options);
        let database = switch(&disk, &options).unwrap();
        assert_eq!((database.log().timeline(), rows(&database)), (timeline(2), vec![1; 25]));
        put(&database, 25..40, 2);
        // Replay begins on the first timeline and ends on the second; then on the third.
        let mut disk = disk.after_power_loss(PowerLoss::LoseAll);
        for next in 3..6_u8 {
            let database = switch(&disk, &options).unwrap();
            assert_eq!(database.log().timeline(), timeline(u32::from(next)));
            assert_eq!(database.statistics().checkpoints.completed, 0);
            let table = database.table("t").unwrap();
            database.put(&table, [next], [next; 50_000]).unwrap();
            assert_eq!(rows(&database).len(), 40 + usize::from(next) - 2);
            disk = disk.after_power_loss(PowerLoss::LoseAll);
        }
        let database = open(&disk, &options);
        assert_eq!((database.log().timeline(), rows(&database).len()), (timeline(5), 43));
        assert_eq!(rows(&database)[..25], [1; 25]);
        database.check(&mut |damage| panic!("{damage}")).unwrap();
        database.checkpoint().unwrap();
        database.close().unwrap();
        let database = open(&disk, &Options { mode: OpenMode::ReadOnly, ..options.clone() });
        assert_eq!((database.log().timeline(), rows(&database).len()), (timeline(5), 43));
    }
}

#[test]
fn what_a_copy_writes_on_the_old_timeline_is_never_taken_for_a_part_of_the_new_one() {
    let options = small_options();
    let disk = crashed(&options);
    let copy = disk.copy();
    drop(switch(&disk, &options).unwrap());
    // The copy writes on, over several segments; its files take the place of ours, as if both wrote to one directory.
    let old = open(&copy, &options);
    put(&old, 0..60, 9);
    let end = old.statistics().log.appended;
    copy.crash();
    for entry in copy.list_all() {
        let is_first = entry.name.strip_prefix("log/").and_then(SegmentName::parse).is_some();
        if is_first {
            disk.write_file(&entry.name, &copy.read_file(&entry.name).unwrap());
        }
    }
    let database = open(&disk, &options);
    assert_eq!((database.log().timeline(), rows(&database)), (timeline(2), vec![1; 25]));
    put(&database, 25..26, 2);
    let strays = |database: &Database| {
        let segments = database.info().unwrap().segments;
        segments.iter().filter(|segment| segment.state == SegmentState::Stray).count()
    };
    assert!(strays(&database) >= 3 && database.statistics().log.appended < end);
    let disk = disk.after_power_loss(PowerLoss::KeepAll);
    let database = open(&disk, &options);
    assert_eq!(rows(&database)[..25], [1; 25]);
    // Beyond the fork the parent's segments are removed or recycled, by the next clean-up.
    database.checkpoint().unwrap();
    assert_eq!(strays(&database), 0);
    let first: Vec<_> =
        disk.list_all().into_iter().filter(|entry| entry.name.starts_with("log/00000001")).collect();
    assert!(first.len() <= 1, "{first:?}");
    put(&database, 26..60, 3);
    let database = open(&disk.after_power_loss(PowerLoss::LoseAll), &options);
    assert_eq!(rows(&database).len(), 60);
}

/// Two copies of a directory begin timelines of one number at one place, and the files of one get into the directory of the other:
/// after a failed promotion and a rejoin, say.
#[test]
fn what_another_copy_writes_on_a_timeline_of_the_same_number_is_never_taken_for_a_part_of_ours() {
    let options = small_options();
    let disk = crashed(&options);
    let other = disk.copy();
    let promote = |disk: &SimulatedDisk, seed: u64, byte: u8| {
        let random = Arc::new(SimulatedRandom::new(seed));
        let environment = Environment { random, ..environment(Arc::new(disk.clone())) };
        let database =
            DatabaseDirectory::at(environment).open_on_new_timeline(options.clone(), "promoted").unwrap();
        put(&database, 25..60, byte);
        let end = database.statistics().log.appended;
        disk.crash();
        assert_eq!(database.log().timeline(), timeline(2));
        end
    };
    let (end, end_of_other) = (promote(&disk, 2, 2), promote(&other, 3, 9));
    assert_eq!(end, end_of_other, "records of the same sizes at the same places");
    let (disk, other) =
        (disk.after_power_loss(PowerLoss::KeepAll), other.after_power_loss(PowerLoss::KeepAll));
    // The last rows of ours are torn off: in every segment the other copy's records stand where ours would.
    let segments: Vec<String> = other
        .list_all()
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| name.starts_with("log/00000002") && !name.ends_with(".history"))
        .collect();
    assert!(segments.len() >= 4, "{segments:?}");
    for (first, with_pending) in [(1, false), (2, false), (2, true), (3, true)] {
        let torn = disk.copy();
        if with_pending {
            for path in ["log/pending.1", "log/pending.2"] {
                torn.write_file(path, &other.read_file(path).unwrap());
            }
        } else {
            forget_pending(&torn);
        }
        for path in &segments[first..] {
            torn.write_file(path, &other.read_file(path).unwrap());
        }
        let database = open(&torn, &options);
        let found = rows(&database);
        assert!(!found.contains(&9), "segments from {first} on, pending {with_pending}: {found:?}");
        assert!(
            found.len() > 25
                && found.len() < 60
                && found[..25] == [1; 25]
                && found[25..].iter().all(|&byte| byte == 2)
        );
        // And it goes on over them.
        put(&database, 100..140, 3);
        torn.crash();
        let database = open(&torn.after_power_loss(PowerLoss::LoseAll), &options);
        assert_eq!(rows(&database).len(), found.len() + 40);
        assert!(!rows(&database).contains(&9));
        database.check(&mut |damage| panic!("{damage}")).unwrap();
    }
}

#[test]
fn a_new_timeline_may_be_given_its_number_and_a_lower_or_taken_one_is_refused() {
    let options = small_options();
    let disk = crashed(&options);
    let begin = |number| {
        let new = NewTimeline { reason: "a term", number: Some(timeline(number)) };
        DatabaseDirectory::at(environment(Arc::new(disk.clone()))).open_on_new_timeline(options.clone(), new)
    };
    let refused = |number, above| match begin(number).unwrap_err() {
        Error::TimelineNumber { wanted, last } => {
            assert_eq!((wanted, last), (timeline(number), timeline(above)));
        }
        other => panic!("{other}"),
    };
    refused(1, 1);
    let database = begin(40).unwrap();
    assert_eq!((database.log().timeline(), rows(&database)), (timeline(40), vec![1; 25]));
    put(&database, 25..30, 2);
    database.close().unwrap();
    refused(2, 40);
    refused(40, 40);
    // Segments that another copy has written under the number that is asked for are no hindrance, and no part of the log.
    let end = open(&disk, &options).statistics().log.appended;
    disk.crash();
    let disk = disk.after_power_loss(PowerLoss::KeepAll);
    let other = disk.copy();
    let begin = |disk: &SimulatedDisk, seed| {
        let random = Arc::new(SimulatedRandom::new(seed));
        let environment = Environment { random, ..environment(Arc::new(disk.clone())) };
        let new = NewTimeline { reason: "a term", number: Some(timeline(50)) };
        DatabaseDirectory::at(environment).open_on_new_timeline(options.clone(), new).unwrap()
    };
    let stale = begin(&other, 2);
    put(&stale, 30..80, 9);
    drop(stale);
    for entry in other.list_all() {
        if entry.name.starts_with("log/00000032") && !entry.name.ends_with(".history") {
            disk.write_file(&entry.name, &other.read_file(&entry.name).unwrap());
        }
    }
    let database = begin(&disk, 3);
    assert_eq!((database.log().timeline(), rows(&database).len()), (timeline(50), 30));
    put(&database, 30..60, 3);
    let database = open(&disk.after_power_loss(PowerLoss::LoseAll), &options);
    assert!(
        rows(&database).len() == 60
            && !rows(&database).contains(&9)
            && database.statistics().log.appended > end
    );
}

/// Else the log of another copy would be read, or ours not at all.
#[test]
fn a_history_that_another_copy_has_stored_under_the_same_number_is_refused() {
    let options = small_options();
    let disk = crashed(&options);
    let other = disk.copy();
    for (disk, seed) in [(&disk, 2), (&other, 3)] {
        let random = Arc::new(SimulatedRandom::new(seed));
        let environment = Environment { random, ..environment(Arc::new(disk.clone())) };
        drop(DatabaseDirectory::at(environment).open_on_new_timeline(options.clone(), "promoted").unwrap());
    }
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let path = "log/00000002.history";
    let ours = disk.read_file(path).unwrap();
    disk.write_file(path, &other.read_file(path).unwrap());
    let message = try_open(&disk, &options).unwrap_err().to_string();
    assert!(message.contains(path) && message.contains("another copy"), "{message}");
    disk.write_file(path, &ours);
    assert_eq!(rows(&open(&disk, &options)), vec![1; 25]);
}

/// The power goes in every call of a switch, and again in every third call of what comes then: an ordinary open, or another
/// attempt.
#[test]
fn a_crash_at_any_call_of_a_switch_leaves_the_old_timeline_or_all_of_the_new_one() {
    let options = small_options();
    crash_switch_everywhere(&options, &crashed(&options), 25);
}

#[test]
fn a_crash_at_any_call_of_a_switch_that_takes_a_spare_of_the_old_timeline() {
    let options = small_options();
    crash_switch_everywhere(&options, &crashed_with_spares(&options), 60);
}

fn crash_switch_everywhere(options: &Options, original: &SimulatedDisk, row_count: usize) {
    let expect = |disk: &SimulatedDisk, place: &str| {
        let database = try_open(disk, options).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(rows(&database), vec![1; row_count], "{place}");
        let timeline = database.log().timeline();
        disk.crash();
        timeline
    };
    let mut call = 0;
    let mut switched = 0;
    loop {
        let disk = original.copy();
        disk.crash_at(disk.calls() + call);
        let outcome = switch(&disk, options);
        let is_done = outcome.is_ok();
        disk.crash();
        drop(outcome);
        for loss in
            [PowerLoss::Random(call), PowerLoss::Random(call + 1000), PowerLoss::KeepAll, PowerLoss::LoseAll]
        {
            let place = format!("call {call}, {loss:?}");
            let after = disk.after_power_loss(loss);
            let found = expect(&after.copy(), &place);
            assert!(!is_done || found == timeline(2), "{place}: the new timeline is gone");
            assert!(found <= timeline(2), "{place}");
            switched += u64::from(found == timeline(2));
            for second in (call % 3..).step_by(3) {
                let again = after.copy();
                again.crash_at(again.calls() + second);
                let outcome = switch(&again, options);
                let is_done = outcome.is_ok();
                again.crash();
                drop(outcome);
                let last = expect(&again.after_power_loss(loss), &format!("{place}, then in call {second}"));
                assert!(last >= found && (!is_done || last > found), "{place}, then in call {second}");
                if is_done {
                    break;
                }
            }
        }
        if is_done {
            break;
        }
        call += 1;
    }
    assert!(call > 20 && switched > 4, "{call} calls, {switched} switched");
}

#[test]
fn after_a_failed_attempt_the_next_number_is_taken_and_the_leftover_goes() {
    let options = small_options();
    let disk = crashed(&options);
    let database = open(&disk, &options);
    let end = database.statistics().log.appended;
    disk.crash();
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    // An attempt that got as far as the history and the segment.
    let history = TimelineHistory::first().fork(timeline(2), end, TimelineMark::NONE, "promoted");
    history.store(&(Arc::new(disk.clone()) as Arc<dyn seawall_io::Disk>)).unwrap();
    let number = end.get() / SEGMENT_BYTES;
    disk.write_file(&SegmentName { number, timeline: timeline(2) }.path(), &vec![0; 64 << 10]);
    let database = open(&disk, &options);
    assert_eq!((database.log().timeline(), rows(&database)), (timeline(1), vec![1; 25]));
    database.checkpoint().unwrap();
    database.close().unwrap();
    let database = switch(&disk, &options).unwrap();
    assert_eq!(database.log().timeline(), timeline(3));
    put(&database, 0..1, 7);
    database.checkpoint().unwrap();
    let names = disk.list_all();
    assert!(!names.iter().any(|entry| entry.name.starts_with("log/000000020000")), "{names:?}");
}

#[test]
fn a_timeline_that_lost_its_beginning_or_its_history_is_refused_with_the_place() {
    let options = small_options();
    let disk = crashed(&options);
    let database = switch(&disk, &options).unwrap();
    let fork = Lsn::new(database.statistics().log.appended.get());
    drop(database);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let path = SegmentName { number: fork.get() / SEGMENT_BYTES, timeline: timeline(2) }.path();
    let refused = |disk: &SimulatedDisk| try_open(disk, &options).unwrap_err().to_string();
    let damaged = disk.copy();
    let content = damaged.read_file(&path).unwrap();
    let switch_record = content.iter().skip(4096).position(|&byte| byte != 0).unwrap() as u64 + 4096;
    damaged.overwrite(&path, switch_record, &[0; 60]);
    forget_pending(&damaged);
    let message = refused(&damaged);
    assert!(message.contains("timeline 2 does not begin") || message.contains("damaged"), "{message}");
    let missing = disk.copy();
    missing.remove_file(&path);
    assert!(refused(&missing).contains(&path));
    let without_history = disk.copy();
    without_history.remove_file("log/00000002.history");
    assert!(refused(&without_history).contains("00000002.history"));
    let flipped = disk.copy();
    flipped.flip_bit("log/00000002.history", 3, 1);
    assert!(refused(&flipped).contains("00000002.history"));
}

/// Else the database would be back on the old timeline, and what is acknowledged on the new one gone without a word.
#[test]
fn either_copy_of_the_superblock_is_on_the_new_timeline() {
    let options = small_options();
    let disk = crashed(&options);
    let database = switch(&disk, &options).unwrap();
    put(&database, 25..30, 2);
    for offset in [0, 4096] {
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        disk.flip_bit("superblock", offset + 30, 2);
        let database = open(&disk, &options);
        assert_eq!(
            (database.log().timeline(), rows(&database).len()),
            (timeline(2), 30),
            "copy at {offset} damaged"
        );
        disk.crash();
    }
}

/// The process ends between the two stores: the next one makes the second before anything is committed.
#[test]
fn a_switch_cut_short_between_the_copies_of_the_superblock_is_ended_by_the_next_open() {
    let options = small_options();
    let original = crashed(&options);
    let disk = original.copy();
    let database = switch(&disk, &options).unwrap();
    disk.crash();
    drop(database);
    let disk = disk.after_power_loss(PowerLoss::KeepAll);
    // The older copy as it was before.
    let stored = disk.read_file("superblock").unwrap();
    let sequence = |offset: usize| u64::from_le_bytes(stored[offset + 16..offset + 24].try_into().unwrap());
    let older = if sequence(0) < sequence(4096) { 0 } else { 4096 };
    let before = original.read_file("superblock").unwrap();
    disk.overwrite("superblock", older as u64, &before[older..older + 4096]);
    let database = open(&disk, &options);
    assert_eq!(database.log().timeline(), timeline(2));
    put(&database, 25..30, 2);
    for offset in [0, 4096] {
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        disk.flip_bit("superblock", offset + 30, 2);
        let database = open(&disk, &options);
        assert_eq!((database.log().timeline(), rows(&database).len()), (timeline(2), 30), "copy at {offset}");
        disk.crash();
    }
}

#[test]
fn restore_points_are_positions_of_the_log() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    put(&database, 0..2, 1);
    let first = database.log().create_restore_point("before the upgrade").unwrap();
    assert!(first <= database.statistics().log.flushed);
    put(&database, 2..3, 1);
    assert!(database.log().create_restore_point("before the upgrade").unwrap() > first);
    for name in ["", "two\nlines", &"x".repeat(256)] {
        assert!(
            matches!(database.log().create_restore_point(name), Err(Error::RestorePointName { .. })),
            "{name:?}"
        );
    }
    let database = open(&disk.after_power_loss(PowerLoss::LoseAll), &options);
    assert_eq!(rows(&database).len(), 3);
    database.close().unwrap();
    let reader =
        open(&disk.after_power_loss(PowerLoss::LoseAll), &Options { mode: OpenMode::ReadOnly, ..options });
    assert!(matches!(reader.log().create_restore_point("x"), Err(Error::ReadOnly)));
}

/// A look at the log costs the same however long it is: it reads headers, and the segment that was written last.
#[test]
fn a_look_at_the_log_reads_its_last_segment_only() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    let _kept = database.log().hold("archive", HoldOptions::default(), None).unwrap();
    for byte in 0..20 {
        put(&database, 0..60, byte);
    }
    let (end, redo) = (database.statistics().log.flushed, database.statistics().checkpoints.redo_point);
    assert!(end.bytes_since(redo) < 60 * SEGMENT_BYTES, "checkpoints go on meanwhile");
    disk.reset_read_counts();
    let overview = DatabaseDirectory::at(environment(Arc::new(disk.clone()))).log_overview(None).unwrap();
    assert_eq!((overview.end, overview.redo_point), (end, redo));
    assert!(overview.segments.len() > 100 && overview.oldest < redo, "{overview:?}");
    let read = disk.read_count("log/").bytes;
    assert!(read < 4 << 20, "{read} bytes of {} segments", overview.segments.len());
}

/// The oldest segment may be one of a timeline that was left, and begin in the middle of a record.
#[test]
fn the_oldest_record_may_be_one_of_a_timeline_that_was_left() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    put(&database, 0..60, 1);
    database.checkpoint().unwrap();
    put(&database, 0..20, 2);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let database = switch(&disk, &options).unwrap();
    let overview = DatabaseDirectory::at(environment(Arc::new(disk.clone()))).log_overview(None).unwrap();
    let fork = overview.ancestors[0].fork;
    // A record of 6,000 bytes or a system record at most lies before the first one in the segment.
    assert!(overview.oldest.get() % SEGMENT_BYTES < 4096 + 3 * 6100, "{overview:?}");
    assert!(overview.oldest < fork && overview.oldest <= overview.redo_point, "{overview:?}");
    drop(database);
}

/// Segments of a timeline that was left, far beyond where, as a former primary has them.
fn add_old_segments(disk: &SimulatedDisk, count: u64) {
    let names = disk.list_all().into_iter().map(|entry| entry.name);
    let segments = names.filter(|name| name.starts_with("log/00000001")).map(|name| disk.read_file(&name));
    let segment = segments.flatten().find(|bytes| bytes.len() as u64 == SEGMENT_BYTES).unwrap();
    for number in 1000..1000 + count {
        disk.write_file(&SegmentName { timeline: timeline(1), number }.path(), &segment);
    }
}

/// The seconds after a failover: no checkpoint has ended, all old segments may go, and writers come back.
#[test]
fn old_segments_are_recycled_after_a_switch_and_after_a_restart_before_any_checkpoint() {
    const OLD: u64 = 24;
    let mut options = small_options();
    options.background = Background::Threads;
    options.checkpoint.log_bytes = 32 * SEGMENT_BYTES;
    options.memory.memtable_bytes = 64 << 20;
    for is_switch in [true, false] {
        // A recovery that has something to merge would begin a checkpoint at once.
        let disk = crashed(&small_options());
        open(&disk, &small_options()).close().unwrap();
        let mut database = None;
        if !is_switch {
            // The old ones are of the parent of the timeline that is opened again.
            switch(&disk, &small_options()).unwrap().close().unwrap();
        }
        add_old_segments(&disk, OLD);
        let opened =
            database.insert(if is_switch { switch(&disk, &options).unwrap() } else { open(&disk, &options) });
        let segments = || opened.statistics().segments;
        wait_until("the old segments are cleaned up", || {
            segments().unneeded == 0 && segments().recycled + segments().removed >= OLD
        });
        assert!(segments().recycled >= 20, "{:?}", segments());
        let before = opened.statistics().log.appended;
        put(opened, 100..100 + 20 * 11, 2);
        let after = opened.statistics();
        assert!(after.log.appended.bytes_since(before) >= 20 * SEGMENT_BYTES);
        assert_eq!(after.checkpoints.completed, 0, "{:?}", after.checkpoints);
        // Those that were made before the first old one was recycled.
        assert!(after.segments.prepared <= 2, "{:?}", after.segments);
    }
}
