//! A recycled segment's old content is never replayed, whatever of the renames and of the sync of the directory the power
//! lets through, in whatever order: the old records are put where they do the most harm, right at the end of the log.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "kill/hooked_disk.rs"]
mod hooked_disk;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{TryRecvError, channel};

use common::{append, arc, commit, create, geometry, open_reader, options, read_from, read_reader};
use hooked_disk::HookedDisk;
use seawall_codec::checksum::crc32c;
use seawall_simulation::{Operation, PowerLoss, SimulatedDisk};
use seawall_testing::wait_until;
use seawall_types::Lsn;
use seawall_wal::{HEADER_BYTES, Log, LogReadError, OpenLog, SegmentName};

/// Of each writer in a test that waits for another thread.
const COMMITS_MAX: u64 = 100_000;

/// Bytes of a value so that eight records fill a segment to the last byte.
fn value_bytes() -> usize {
    let disk = SimulatedDisk::new(1);
    let span = commit(&create(&disk), &[0; 4000]).unwrap();
    let overhead = geometry().payload_between(span.start, span.end) - 4000;
    usize::try_from(geometry().payload_bytes() / 8 - overhead).unwrap()
}

/// A log of whole segments: each begins with a record and ends with one. Old values are 1, new ones 2. It ends exactly where a
/// segment ends, so that the first byte of whatever gets the next place is where the next record would be.
fn aligned_log(disk: &SimulatedDisk) -> (OpenLog, Lsn) {
    let log = create(disk);
    let bytes = value_bytes();
    let mut redo = log.appended();
    for segment in 0..8_u8 {
        for _ in 0..8 {
            commit(&log, &vec![if segment < 5 { 1 } else { 2 }; bytes]).unwrap();
        }
        if segment == 4 {
            redo = log.appended();
        }
    }
    assert_eq!(geometry().offset_of(log.appended()), HEADER_BYTES, "the log ends where a segment ends");
    (log, redo)
}

fn new_values_only(disk: &SimulatedDisk, redo: Lsn, end: Lsn, place: &str) {
    let (found, log_end) = read_from(disk, redo).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!((log_end.lsn, found.len()), (end, 24), "{place}");
    assert!(found.iter().all(|record| record.value[0] == 2), "{place}: an old record is replayed");
}

#[test]
fn whatever_a_crash_lets_through_of_renames_and_directory_syncs() {
    let original = SimulatedDisk::new(1);
    let (log, redo) = aligned_log(&original);
    let end = log.flushed();
    drop(log);
    let mut call = 0;
    let mut renames_cut = 0;
    loop {
        let disk = original.copy();
        let log = Log::open(arc(&disk), options(), read_from(&disk, redo).unwrap().1).unwrap();
        let begun = disk.calls();
        disk.crash_at(begun + call);
        let outcome = log.retain_from(redo);
        let last = disk.trace().last().map(|call| call.operation);
        renames_cut += u64::from(matches!(last, Some(Operation::Rename | Operation::SyncDirectory)));
        // Each unsynced rename is kept or lost by itself: some of these keep a later one and lose an earlier one.
        let losses = (0..24).map(PowerLoss::Random).chain([PowerLoss::KeepAll, PowerLoss::LoseAll]);
        for loss in losses {
            let place = format!("call {call} ({last:?}), {loss:?}");
            let after = disk.after_power_loss(loss);
            new_values_only(&after, redo, end, &place);
            // Recovery is cut short, too, and the log written on by whoever comes then.
            let opened = read_from(&after, redo).unwrap().1;
            after.crash_at(after.calls() + call % 7);
            drop(Log::open(arc(&after), options(), opened));
            let again = after.after_power_loss(PowerLoss::Random(call));
            new_values_only(&again, redo, end, &place);
            let opened = read_from(&again, redo).unwrap().1;
            let log = Log::open(arc(&again), options(), opened).unwrap();
            for _ in 0..12 {
                commit(&log, &[3; 5000]).unwrap();
                let crashed = again.after_power_loss(PowerLoss::Random(call));
                let (found, _) = read_from(&crashed, redo).unwrap();
                assert!(
                    found.iter().all(|record| record.value[0] >= 2),
                    "{place}: an old record is replayed"
                );
            }
            assert_eq!(read_from(&again, redo).unwrap().0.len(), 36, "{place}");
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert!(renames_cut >= 4, "{renames_cut} crashes between the first rename and the end of the sync");
}

/// The orders one by one, not by chance: of two recycled segments, the power keeps the first rename, the second, both or none,
/// before and after the directory was synced.
#[test]
fn each_order_of_two_renames_and_the_sync() {
    let original = SimulatedDisk::new(1);
    let (log, redo) = aligned_log(&original);
    let end = log.flushed();
    let current = geometry().segment_of(end);
    log.retain_from(redo).unwrap();
    drop(log);
    let name = |number| SegmentName { number, timeline: options().timeline }.path();
    let recycled = [1, 2].map(|spare| original.read_file(&name(current + spare)).unwrap());
    for kept in 0..4 {
        let disk = original.copy();
        for (place, content) in recycled.iter().enumerate() {
            let spare = current + 1 + place as u64;
            if kept & (1 << place) == 0 {
                // Its rename is lost: the old name, with the header of the new place.
                disk.remove_file(&name(spare));
                disk.write_file(&name(1 + place as u64), content);
            }
        }
        new_values_only(&disk, redo, end, &format!("kept {kept:02b}"));
        let log = Log::open(arc(&disk), options(), read_from(&disk, redo).unwrap().1).unwrap();
        log.retain_from(redo).unwrap();
        commit(&log, &[2; 100]).unwrap();
        assert_eq!(read_from(&disk, redo).unwrap().0.len(), 25, "kept {kept:02b}");
        assert!(disk.read_file(&name(1)).is_none() && disk.read_file(&name(2)).is_none());
    }
}

/// The worst that old bytes can be: records that verify right where they lie, in batches that began behind the end of the log.
/// In a spare they are no evidence of damage, whatever they are, and no spare is zeroed when the log is opened.
#[test]
fn what_lies_in_a_spare_is_no_evidence_of_damage() {
    let disk = SimulatedDisk::new(1);
    let (log, redo) = aligned_log(&disk);
    let end = log.flushed();
    let report = log.retain_from(redo).unwrap();
    assert!(report.recycled >= 3, "{report:?}");
    drop(log);
    // Another life of the same log goes on: its records verify.
    let other = disk.copy();
    let log = Log::open(arc(&other), options(), read_from(&other, redo).unwrap().1).unwrap();
    (0..40).for_each(|_| assert!(commit(&log, &[4; 5000]).is_ok()));
    let current = geometry().segment_of(end);
    let path = |number| SegmentName { number, timeline: options().timeline }.path();
    for number in current..current + 3 {
        let records = other.read_file(&path(number)).unwrap();
        disk.overwrite(&path(number), HEADER_BYTES, &records[usize::try_from(HEADER_BYTES).unwrap()..]);
    }
    // The first of them would be read on as a record: that is what old bytes cannot be at the end itself.
    disk.overwrite(&path(current), HEADER_BYTES, &[0; 14]);
    new_values_only(&disk, redo, end, "with records in the spares");
    let before = disk.trace().len();
    drop(Log::open(arc(&disk), options(), read_from(&disk, redo).unwrap().1).unwrap());
    let changed: HashSet<_> = disk.trace()[before..].iter().map(|call| call.path.to_string()).collect();
    assert!(!changed.contains(&path(current + 1)), "{changed:?}");
    // Once the log has come there, the same bytes are evidence.
    let begun = other.read_file(&path(current + 1)).unwrap();
    disk.overwrite(&path(current + 1), 0, &begun[..usize::try_from(HEADER_BYTES).unwrap()]);
    assert!(matches!(read_from(&disk, redo), Err(LogReadError::Damaged { lsn, .. }) if lsn == end));
}

/// Segments that another copy of the database wrote, on a timeline of the same number, say nothing of how far this log goes:
/// their places are empty.
#[test]
fn segments_of_another_copy_do_not_hide_the_records_behind_them() {
    let original = SimulatedDisk::new(1);
    let (log, redo) = aligned_log(&original);
    let end = geometry().segment_of(log.flushed());
    drop(log);
    let path = |number| SegmentName { number, timeline: options().timeline }.path();
    for foreign in geometry().segment_of(redo)..end {
        // So many in a row, and at least one of this log behind them.
        for count in 1..end - foreign {
            let disk = original.copy();
            for number in foreign..foreign + count {
                let header = of_another_copy(&disk.read_file(&path(number)).unwrap());
                disk.overwrite(&path(number), 0, &header);
            }
            let place = format!("{count} from {foreign} on");
            let read = read_from(&disk, geometry().first_lsn()).map(|(_, end)| end);
            let error = read.expect_err(&place);
            assert!(matches!(error, LogReadError::Missing { .. }), "{place}: {error}");
        }
    }
}

/// The header of a segment file with another mark of its timeline.
fn of_another_copy(file: &[u8]) -> [u8; 72] {
    let mut header: [u8; 72] = *file.first_chunk().unwrap();
    header[44..48].fill(0);
    header[56..72].fill(7);
    let checksum = crc32c(&header);
    header[44..48].copy_from_slice(&checksum.to_le_bytes());
    header
}

#[test]
fn opening_reads_no_spares_however_many_there_are() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    (0..250).for_each(|_| assert!(commit(&log, &[1; 62_000]).is_ok()));
    let report = log.retain_from(log.flushed()).unwrap();
    assert!(report.recycled >= 200, "{report:?}");
    let redo = log.flushed();
    drop(log);
    disk.reset_read_counts();
    let end = read_from(&disk, redo).unwrap().1;
    drop(Log::open(arc(&disk), options(), end).unwrap());
    let read = disk.read_count("log/").bytes;
    assert!(read < 3 << 20, "{read} bytes: the reader's window of 1 MiB, twice, and some headers");
}

/// That these tests can fail: the old records do verify where they were written, and the bytes lie at the very place where
/// the log goes on.
#[test]
fn the_old_records_are_there_and_would_verify_at_their_old_place() {
    let disk = SimulatedDisk::new(1);
    let (log, redo) = aligned_log(&disk);
    let end = log.flushed();
    let path = |number| SegmentName { number, timeline: options().timeline }.path();
    let old = disk.read_file(&path(2)).unwrap();
    let report = log.retain_from(redo).unwrap();
    assert!(report.recycled >= 2, "{report:?}");
    let bodies = usize::try_from(HEADER_BYTES).unwrap()..;
    let current = geometry().segment_of(end);
    let spares = (current..current + 3).filter_map(|number| disk.read_file(&path(number)));
    let has_old = spares.filter(|spare| spare[bodies.clone()] == old[bodies.clone()]).count();
    assert_eq!(has_old, 1, "the old content of segment 2 lies in a spare");
    disk.write_file(&path(2), &old);
    let mut reader = open_reader(&disk, geometry().first_record_of(2)).unwrap();
    reader.set_limit(geometry().first_record_of(3));
    let (found, _) = read_reader(reader).unwrap();
    assert_eq!(found.len(), 8, "they verify at their old place");
    assert!(found.iter().all(|record| record.value[0] == 1));
}

/// Writers in want of segments beside a thread that recycles: whatever the order, the name of a segment is durable before
/// anything is written into it.
#[test]
fn no_record_is_written_into_a_segment_whose_name_is_not_durable() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let writers = AtomicU64::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // On a busy machine the thread that recycles comes late: they write until it has done its part, or far too much.
                let is_enough = |commits| {
                    commits >= 300 && log.statistics().segments_recycled > 20 || commits >= COMMITS_MAX
                };
                (0..)
                    .take_while(|commits| !is_enough(*commits))
                    .for_each(|_| assert!(commit(&log, &[3; 9000]).is_ok()));
                writers.fetch_sub(1, Ordering::SeqCst);
            });
        }
        wait_until("the writers to end", || {
            log.retain_from(log.flushed()).unwrap();
            writers.load(Ordering::SeqCst) == 0
        });
    });
    let mut not_durable = HashSet::new();
    let mut written = 0;
    for call in disk.trace() {
        match call.operation {
            Operation::Rename => drop(not_durable.insert(call.to.unwrap())),
            Operation::SyncDirectory => not_durable.clear(),
            Operation::WriteDurable => {
                written += 1;
                assert!(!not_durable.contains(&call.path), "{} is written, and may lose its name", call.path);
            }
            _ => {}
        }
    }
    let statistics = log.statistics();
    assert!(written > 100 && statistics.segments_recycled > 20, "{statistics:?}");
}

/// Who is in want of a segment while the names of recycled ones are on their way to the disk waits for that.
#[test]
fn recycled_segments_are_offered_only_when_their_names_are_durable() {
    let inner = SimulatedDisk::new(1);
    let disk = HookedDisk::new(inner.clone());
    let log = Arc::new(Log::create(disk.disk(), options()).unwrap());
    (0..40).for_each(|_| assert!(commit(&log, &[1; 9000]).is_ok()));
    let (appended, (_, ready)) = (log.appended(), log.count_segments());
    let beyond_ready = geometry().first_record_of(geometry().segment_of(appended) + ready + 2);
    let (calls, waits) = (inner.trace().len(), log.statistics().segment_waits);
    let (start, is_started) = channel();
    let (running, has_ended) = channel::<()>();
    let appender = std::thread::spawn({
        let log = Arc::clone(&log);
        move || {
            let _running = running;
            is_started.recv().unwrap();
            while log.appended() < beyond_ready {
                append(&log, &[2; 9000]).unwrap();
            }
            inner.trace()[calls..].iter().any(|call| call.operation == Operation::SyncDirectory)
        }
    });
    let in_want = Arc::clone(&log);
    disk.at_next(Operation::SyncDirectory, move || {
        start.send(()).unwrap();
        // The sync goes on as long as this waits: until the other one is in want of a segment, or has had one.
        wait_until("the other thread to want a segment, or to have had one", || {
            in_want.statistics().segment_waits != waits || has_ended.try_recv() != Err(TryRecvError::Empty)
        });
    });
    let report = log.retain_from(log.flushed()).unwrap();
    assert!(report.recycled >= 2, "{report:?}");
    assert!(appender.join().unwrap(), "records went into a segment whose name is not durable");
}
