//! What lies behind the end at which a log was opened is never taken for a record later.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::convert::Infallible;

use common::{append, arc, commit, create, geometry, options, overwrite, place, read_all, read_from};
use seawall_simulation::{Call, Operation, PowerLoss, SeededRandom, SimulatedDisk};
use seawall_wal::{Log, PreparedRecord, RECORD_HEADER_BYTES, RecordSpan};

/// A log whose last batch, of records with `value_bytes` each, has lost its first record: the others are stale.
fn log_with_stale_records(value_bytes: usize) -> (SimulatedDisk, Vec<RecordSpan>) {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"durable").unwrap();
    let spans: Vec<_> = (0..6_u8).map(|index| append(&log, &vec![index; value_bytes]).unwrap()).collect();
    log.flush_until(log.appended()).unwrap();
    drop(log);
    // As if its sector had not been written: the value differs.
    overwrite(&disk, geometry().advance(spans[0].start, 30), &[0xEE; 4]);
    (disk, spans)
}

#[test]
fn stale_records_are_not_found_behind_new_ones_of_the_same_length() {
    for value_bytes in [10, 2000, 10_000, 30_000] {
        let (disk, spans) = log_with_stale_records(value_bytes);
        let (found, end) = read_all(&disk).unwrap();
        assert_eq!((found.len(), end.lsn), (1, spans[0].start));
        let log = Log::open(arc(&disk), options(), end).unwrap();
        for round in 0..5_u8 {
            let span = commit(&log, &vec![100 + round; value_bytes]).unwrap();
            assert_eq!(span, spans[usize::from(round)], "new records lie where the stale ones did");
            let (found, end) = read_all(&disk).unwrap();
            assert_eq!(found.len(), 2 + usize::from(round), "{value_bytes} bytes, round {round}");
            assert!(found.iter().skip(1).all(|found| found.value[0] >= 100));
            assert_eq!(end.lsn, span.end);
        }
    }
}

#[test]
fn stale_records_are_not_found_after_a_second_crash_either() {
    for value_bytes in [10, 10_000] {
        let (disk, spans) = log_with_stale_records(value_bytes);
        for count in 1..5_u8 {
            let disk = disk.copy();
            let (_, end) = read_all(&disk).unwrap();
            let log = Log::open(arc(&disk), options(), end).unwrap();
            for round in 0..count {
                commit(&log, &vec![100 + round; value_bytes]).unwrap();
            }
            drop(log);
            let disk = disk.after_power_loss(PowerLoss::LoseAll);
            let (found, end) = read_all(&disk).unwrap();
            assert_eq!(found.len(), 1 + usize::from(count));
            assert_eq!(end.lsn, spans[usize::from(count)].start);
        }
    }
}

#[test]
fn a_crash_at_any_call_of_open_leaves_the_same_end() {
    for value_bytes in [10, 3000, 30_000] {
        let (original, spans) = log_with_stale_records(value_bytes);
        let mut call = 0;
        loop {
            let disk = original.copy();
            let end = read_all(&disk).unwrap().1;
            disk.crash_at(disk.calls() + call);
            let opened = Log::open(arc(&disk), options(), end);
            for outcome in [
                PowerLoss::LoseAll,
                PowerLoss::KeepAll,
                PowerLoss::Random(call),
                PowerLoss::Random(call + 99),
            ] {
                let after = disk.after_power_loss(outcome);
                let (found, end) = read_all(&after).unwrap();
                assert_eq!(
                    (found.len(), end.lsn),
                    (1, spans[0].start),
                    "{value_bytes}, call {call}, {outcome:?}"
                );
                let log = Log::open(arc(&after), options(), end).unwrap();
                commit(&log, &vec![200; value_bytes]).unwrap();
                assert_eq!(read_all(&after).unwrap().0.len(), 2, "{value_bytes}, call {call}, {outcome:?}");
            }
            if opened.is_ok() {
                break;
            }
            call += 1;
        }
        assert!(call > 1, "opening zeroes something");
    }
}

#[test]
fn a_record_whose_missing_half_was_zeros_is_not_completed_by_zeroing() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let durable = commit(&log, b"durable").unwrap();
    let span = commit(&log, &[0; 9000]).unwrap();
    drop(log);
    // The last sectors of the record are what a recycled segment held before.
    overwrite(&disk, geometry().advance(span.start, 5000), &[0x77; 900]);
    let end = read_all(&disk).unwrap().1;
    assert_eq!(end.lsn, durable.end);
    for call in 0..8 {
        let disk = disk.copy();
        disk.crash_at(disk.calls() + call);
        drop(Log::open(arc(&disk), options(), end));
        for seed in 0..20 {
            let after = disk.after_power_loss(PowerLoss::Random(seed));
            assert_eq!(read_all(&after).unwrap().1.lsn, end.lsn, "call {call}, seed {seed}");
        }
    }
}

/// Its header lies in two segments, and what lies in the first is zeros: so it is not seen there that anything was written.
#[test]
fn a_record_that_starts_at_the_end_of_a_segment_is_not_completed_by_zeroing_the_next_one() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let in_first = 2;
    let no_op = |bytes: u64| {
        let mut record = PreparedRecord::no_op(usize::try_from(bytes).unwrap() - RECORD_HEADER_BYTES);
        let appended = log.append(&mut record, |_| Ok::<_, Infallible>(())).unwrap();
        let Ok((span, ())) = appended;
        log.flush_until(span.end).unwrap();
        span
    };
    no_op(geometry().payload_bytes() - in_first);
    // The low bytes of this length are zeros, and so is all of the record but its header.
    let span = no_op(1 << 16);
    assert_eq!(geometry().segment_of(span.start) + 1, geometry().segment_of(span.end) - 1);
    drop(log);
    // A sector of it holds what the recycled segment held before.
    let second = geometry().first_record_of(geometry().segment_of(span.start) + 1);
    overwrite(&disk, geometry().advance(second, 20_000), &[0x77; 100]);
    let end = read_all(&disk).unwrap().1;
    assert_eq!(end.lsn, span.start);
    let mut call = 0;
    loop {
        let disk = disk.copy();
        let log = Log::open(arc(&disk), options(), end).unwrap();
        disk.crash_at(disk.calls() + call);
        let outcome = log.prepare_ahead();
        for seed in 0..200 {
            let after = disk.after_power_loss(PowerLoss::Random(seed));
            assert_eq!(read_all(&after).unwrap().1.lsn, end.lsn, "call {call}, seed {seed}");
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert!(call > 4, "{call} calls");
}

#[test]
fn a_clean_log_is_opened_with_its_last_batch_and_the_zeros_behind_it_made_durable() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"one").unwrap();
    drop(log);
    let end = read_all(&disk).unwrap().1;
    let calls = disk.calls();
    let log = Log::open(arc(&disk), options(), end).unwrap();
    // Whether the process before ended in the middle of its last flush, nobody knows: the batch is made durable.
    let trace = disk.trace().split_off(usize::try_from(calls).unwrap());
    // The file of holds is made durable, too.
    let is_of_the_log = |call: &&Call| !["log/holds", "log"].contains(&&*call.path);
    let operations: Vec<_> = trace.iter().filter(is_of_the_log).map(|call| call.operation).collect();
    assert_eq!(operations[..2], [Operation::Write, Operation::Sync]);
    assert!(
        operations[2..].iter().all(|operation| matches!(operation, Operation::FillZeros | Operation::Sync))
    );
    let batch = geometry().offset_of(end.durable)..geometry().offset_of(end.lsn);
    assert_eq!(trace[0].range, Some(batch));
    drop(log);
    // The log that ends where reading starts has nothing to make durable.
    let (_, end) = read_from(&disk, end.lsn).unwrap();
    let calls = disk.calls();
    let log = Log::open(arc(&disk), options(), end).unwrap();
    let trace = disk.trace().split_off(usize::try_from(calls).unwrap());
    let mut operations = trace.iter().filter(is_of_the_log).map(|call| call.operation);
    assert!(operations.all(|operation| matches!(operation, Operation::FillZeros | Operation::Sync)));
    let span = commit(&log, b"two").unwrap();
    assert_eq!(span.start, end.lsn);
    assert_eq!(read_all(&disk).unwrap().0.len(), 2);
}

#[test]
fn a_log_is_created_once_and_a_half_created_one_again() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"one").unwrap();
    drop(log);
    assert!(matches!(Log::create(arc(&disk), options()), Err(seawall_wal::LogError::AlreadyExists { .. })));
    let mut call = 0;
    loop {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let outcome = Log::create(arc(&disk), options());
        let after = disk.after_power_loss(PowerLoss::Random(call));
        let log = create(&after);
        commit(&log, b"one").unwrap();
        assert_eq!(read_all(&after).unwrap().0.len(), 1);
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
}

#[test]
fn a_new_timeline_starts_in_the_middle_of_a_segment() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut random = SeededRandom::new(5);
    for _ in 0..5 {
        commit(&log, &random.bytes(1000)).unwrap();
    }
    let fork = log.flushed();
    drop(log);
    let timeline = seawall_types::TimelineId::new(2).unwrap();
    let log = Log::create_at(arc(&disk), seawall_wal::LogOptions { timeline, ..options() }, fork).unwrap();
    let span = commit(&log, b"on the new timeline").unwrap();
    assert_eq!(span.start, fork);
    let reader = |timeline, from| {
        seawall_wal::LogReader::open(arc(&disk), common::DATABASE, timeline, common::SEGMENT_BYTES, from)
            .unwrap()
    };
    let mut old = reader(seawall_types::TimelineId::FIRST, geometry().first_lsn());
    old.set_limit(fork);
    let mut count = 0;
    while old.next().unwrap().is_some() {
        count += 1;
    }
    let mut new = reader(timeline, old.finish().lsn);
    assert_eq!(new.next().unwrap().unwrap().span, span);
    assert!(new.next().unwrap().is_none());
    assert_eq!(count, 5);
    assert!(disk.read_file(&place(fork).0).is_some());
}

/// Records that fill whole blocks, so that a flush of one leaves the header of the next one alone: nothing but the
/// zeroing at open stands between the log and the stale records, in this segment and in later ones.
#[test]
fn stale_records_at_block_borders_are_not_found_in_this_segment_or_later_ones() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let overhead = {
        let other = create(&SimulatedDisk::new(2));
        let span = append(&other, &[0; 4000]).unwrap();
        usize::try_from(geometry().payload_between(span.start, span.end)).unwrap() - 4000
    };
    let value_bytes = 4096 - overhead;
    commit(&log, &vec![1; value_bytes]).unwrap();
    let spans: Vec<_> = (0..45).map(|_| append(&log, &vec![2; value_bytes]).unwrap()).collect();
    log.flush_until(log.appended()).unwrap();
    drop(log);
    assert_eq!(spans[14].start, geometry().first_record_of(2), "one of them starts a segment");
    overwrite(&disk, geometry().advance(spans[0].start, 100), &[0xEE]);
    let end = read_all(&disk).unwrap().1;
    assert_eq!(end.lsn, spans[0].start);
    let log = Log::open(arc(&disk), options(), end).unwrap();
    for (index, stale) in spans.iter().enumerate() {
        assert_eq!(commit(&log, &vec![3; value_bytes]).unwrap(), *stale);
        for disk in [disk.copy(), disk.after_power_loss(PowerLoss::LoseAll)] {
            let (found, end) = read_all(&disk).unwrap();
            assert_eq!((found.len(), end.lsn), (index + 2, stale.end));
            assert!(found[1..].iter().all(|found| found.value[0] == 3));
            // A reader that starts at the end has seen no batch, whose start would tell it that what follows is older.
            assert!(common::read_from(&disk, end.lsn).unwrap().0.is_empty(), "stale record at {}", end.lsn);
        }
    }
}

#[test]
fn behind_the_end_there_are_zeros_up_to_the_next_block() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    for length in [3000, 10, 5000, 1, 12_000, 7] {
        let span = commit(&log, &vec![0xFF; length]).unwrap();
        let block_end = span.end.get().next_multiple_of(4096);
        let rest = common::bytes_between(&disk, span.end, seawall_types::Lsn::new(block_end));
        assert!(rest.iter().all(|&byte| byte == 0), "after a value of {length} bytes");
    }
}
