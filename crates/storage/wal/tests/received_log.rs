//! A log that is received: equal files, and never less than was synced, whenever the power goes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{
    DATABASE, Found, SEGMENT_BYTES, append, arc, commit, create, geometry, options, overwrite, read_reader,
};
use seawall_io::Disk;
use seawall_simulation::{
    Call, CallKind, Fault, FaultError, FaultKind, FaultTarget, ObservedDisk, Operation, Operations,
    PowerLoss, SeededRandom, SimulatedDisk, Verdict, crash_step, seeds,
};
use seawall_types::{Lsn, TimelineId, TimelineMark};
use seawall_wal::{
    EndReason, HoldKind, HoldLifetime, HoldOptions, LogEnd, LogError, LogOptions, LogReadError, LogReader,
    LogStream, OpenLog, ReceiveError, ReceivedLog, TimelineHistory, begin_timeline, read_holds,
};

/// Receives what `stream` has for now, in pieces of random length, with syncs in between; what was synced.
fn receive(
    log: &ReceivedLog,
    stream: &mut LogStream,
    random: &mut SeededRandom,
) -> Result<Lsn, ReceiveError> {
    let mut synced = log.flushed();
    loop {
        let mut buffer = vec![0; usize::try_from(random.range(1..60_000)).unwrap()];
        let piece = stream.read(&mut buffer).unwrap();
        if piece.bytes == 0 {
            return Ok(log.sync()?.max(synced));
        }
        log.receive(piece.start, &buffer[..piece.bytes])?;
        match random.below(6) {
            0 | 1 => synced = log.sync()?,
            2 => synced = log.settle()?,
            _ => {}
        }
    }
}

/// Opens the received log of `disk` where it ends; what it holds from `from` on.
fn reopen(
    disk: &SimulatedDisk,
    options: &LogOptions,
    history: &TimelineHistory,
    from: Lsn,
) -> Result<(ReceivedLog, Vec<Found>, LogEnd), LogReadError> {
    let reader = LogReader::open_history(arc(disk), DATABASE, history.clone(), SEGMENT_BYTES, from)?;
    let (found, end) = read_reader(reader)?;
    Ok((ReceivedLog::open(arc(disk), options, end).unwrap(), found, end))
}

/// The record bytes of both up to `end` are the same.
fn assert_equal_files(primary: &SimulatedDisk, standby: &SimulatedDisk, end: Lsn, place: &str) {
    for number in 1..=geometry().segment_of(end) {
        let path = format!("log/00000001{number:016X}");
        let left = end.get() - number * SEGMENT_BYTES;
        let bytes = usize::try_from(left.min(SEGMENT_BYTES)).unwrap();
        // The last segment may not be begun yet.
        if left > 4096 {
            let read = |disk: &SimulatedDisk| disk.read_file(&path).unwrap()[..bytes].to_vec();
            assert!(read(primary) == read(standby), "{place}: {path} differs before byte {bytes}");
        }
    }
}

/// A primary with batches of records of all lengths.
fn primary(seed: u64) -> (SimulatedDisk, OpenLog, Vec<Vec<u8>>) {
    let mut random = SeededRandom::new(seed);
    let disk = SimulatedDisk::new(seed);
    let log = create(&disk);
    let mut values = Vec::new();
    for _ in 0..random.range(10..40) {
        let limit = *random.pick(&[20, 600, 5000, 30_000, 100_000]);
        let length = usize::try_from(random.below(limit)).unwrap();
        let value = random.bytes(length);
        append(&log, &value).unwrap();
        values.push(value);
        if random.chance(1, 2) {
            log.flush_until(log.appended()).unwrap();
        }
    }
    log.flush_until(log.appended()).unwrap();
    (disk, log, values)
}

fn first() -> Lsn {
    geometry().first_lsn()
}

/// Loses power in call `crash` of the standby while it receives all that a primary has; `false` if it makes fewer calls.
fn lose_power_while_receiving(seed: u64, crash: u64) -> bool {
    let place = format!("seed {seed}, power lost in call {crash}");
    let (primary_disk, log, values) = primary(seed);
    let mut random = SeededRandom::new(seed ^ crash);
    let standby = SimulatedDisk::new(seed);
    standby.crash_at(crash);
    let (mut synced, mut has_begun) = (first(), false);
    if let Ok(received) = ReceivedLog::begin(arc(&standby), &options()) {
        has_begun = true;
        let mut stream = log.stream(received.wanted()).unwrap();
        match receive(&received, &mut stream, &mut random) {
            Ok(end) => assert_eq!(end, log.flushed(), "{place}"),
            Err(error) => assert!(standby.crashed(), "{place}: {error}"),
        }
        // What was said to be durable.
        synced = received.flushed();
    }
    let is_over = !standby.crashed();
    let standby = standby.after_power_loss(PowerLoss::Random(random.next_u64()));
    let received = if has_begun {
        let reopened = reopen(&standby, &options(), &TimelineHistory::first(), first());
        let (received, found, end) = reopened.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(end.lsn >= synced, "{place}: {} is durable, and the log ends at {}", synced, end.lsn);
        let found: Vec<Vec<u8>> = found.into_iter().map(|found| found.value).collect();
        assert_eq!(found, values[..found.len()], "{place}");
        received
    } else {
        ReceivedLog::begin(arc(&standby), &options()).unwrap_or_else(|error| panic!("{place}: {error}"))
    };
    let mut stream = log.stream(received.wanted()).unwrap();
    receive(&received, &mut stream, &mut random).unwrap();
    assert_eq!(received.flushed(), log.flushed(), "{place}");
    drop(received);
    assert_equal_files(&primary_disk, &standby, log.flushed(), &place);
    let standby = standby.after_power_loss(PowerLoss::Random(random.next_u64()));
    let (_, found, end) = reopen(&standby, &options(), &TimelineHistory::first(), first()).unwrap();
    assert_eq!((found.len(), end.lsn), (values.len(), log.flushed()), "{place}");
    !is_over
}

#[test]
fn a_power_loss_in_any_call_costs_nothing_that_was_synced_and_the_rest_comes_again() {
    let mut crashes = 0;
    for seed in seeds(6) {
        let mut call = 0;
        while lose_power_while_receiving(seed, call) {
            crashes += 1;
            call += crash_step(400, 400) as u64;
        }
    }
    assert!(crashes > 300, "only {crashes} power losses");
}

#[test]
fn a_standby_sends_on_what_is_durable_there_and_files_of_both_are_equal() {
    for seed in seeds(20) {
        let (primary_disk, log, _) = primary(seed);
        let mut random = SeededRandom::new(seed);
        let (first_disk, second_disk) = (SimulatedDisk::new(seed), SimulatedDisk::new(seed));
        let first_standby = Arc::new(ReceivedLog::begin(arc(&first_disk), &options()).unwrap());
        let second_standby = ReceivedLog::begin(arc(&second_disk), &options()).unwrap();
        let mut cascade = first_standby.stream(second_standby.wanted()).unwrap();
        let mut stream = log.stream(first_standby.wanted()).unwrap();
        loop {
            let mut buffer = vec![0; usize::try_from(random.range(1..200_000)).unwrap()];
            let piece = stream.read(&mut buffer).unwrap();
            if piece.bytes == 0 {
                break;
            }
            first_standby.receive(piece.start, &buffer[..piece.bytes]).unwrap();
            if random.chance(1, 2) {
                first_standby.sync().unwrap();
            }
            receive(&second_standby, &mut cascade, &mut random).unwrap();
            assert_eq!(second_standby.flushed(), first_standby.flushed(), "seed {seed}");
        }
        first_standby.sync().unwrap();
        receive(&second_standby, &mut cascade, &mut random).unwrap();
        assert_eq!(second_standby.flushed(), log.flushed(), "seed {seed}");
        assert_equal_files(&primary_disk, &first_disk, log.flushed(), &format!("seed {seed}, first"));
        assert_equal_files(&primary_disk, &second_disk, log.flushed(), &format!("seed {seed}, second"));
    }
}

#[test]
fn bytes_that_are_not_this_log_are_refused_and_come_again() {
    let (disk, log, _) = primary(3);
    let mut buffer = vec![0; 1 << 20];
    for seed in seeds(60) {
        let mut random = SeededRandom::new(seed);
        let standby = SimulatedDisk::new(seed);
        let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
        let refused = received.receive(Lsn::new(first().get() + 1), &[0]).unwrap_err();
        assert!(matches!(refused, ReceiveError::Place { expected, .. } if expected == first()), "{refused}");
        let mut stream = log.stream(received.wanted()).unwrap();
        let all = log.flushed().bytes_since(first());
        let flipped = Lsn::new(first().get() + random.below(all));
        let refused = loop {
            let limit = usize::try_from(random.range(1..50_000)).unwrap();
            let piece = stream.read(&mut buffer[..limit]).unwrap();
            assert!(piece.bytes > 0, "seed {seed}: the flipped bit at {flipped} was not noticed");
            if (piece.start.get()..piece.start.get() + piece.bytes as u64).contains(&flipped.get()) {
                let index = usize::try_from(flipped.bytes_since(piece.start)).unwrap();
                buffer[index] ^= 1 << random.below(8);
            }
            match received.receive(piece.start, &buffer[..piece.bytes]) {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        match refused {
            ReceiveError::Record { lsn } => {
                assert!(lsn <= flipped && received.wanted() <= lsn, "seed {seed}")
            }
            ReceiveError::Header { lsn } => assert!(geometry().offset_of(lsn) < 4096, "seed {seed}"),
            other => panic!("seed {seed}: {other}"),
        }
        // From there on it goes on with what is right.
        let mut stream = log.stream(received.wanted()).unwrap();
        receive(&received, &mut stream, &mut random).unwrap();
        assert_eq!(received.flushed(), log.flushed(), "seed {seed}");
        assert_equal_files(&disk, &standby, log.flushed(), &format!("seed {seed}"));
    }
}

/// Its length was changed on the way, so that it is to go on behind the end of the log, and all that came was taken.
#[test]
fn a_record_across_the_end_of_the_log_is_forgotten_and_comes_again() {
    for fills_segment in [false, true] {
        let disk = SimulatedDisk::new(1);
        let log = create(&disk);
        // So long that the number of its bytes takes as many bytes as that of the next one.
        let before = commit(&log, &[7; 20_000]).unwrap();
        let overhead = before.end.bytes_since(before.start) - 20_000;
        let left = SEGMENT_BYTES - geometry().offset_of(before.end) - overhead;
        let length = if fills_segment { left } else { left - 1 };
        let last = commit(&log, &vec![8; usize::try_from(length).unwrap()]).unwrap();
        // The header page of the next segment comes with the record after it.
        let has_filled = geometry().segment_of(last.end) > geometry().segment_of(last.start);
        assert_eq!(has_filled, fills_segment);
        let standby = SimulatedDisk::new(2);
        let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
        let mut stream = log.stream(received.wanted()).unwrap();
        let mut buffer = vec![0; 2 << 20];
        loop {
            let piece = stream.read(&mut buffer).unwrap();
            if piece.bytes == 0 {
                break;
            }
            if piece.start <= last.start {
                // The third byte of the length that the record begins with.
                buffer[usize::try_from(last.start.bytes_since(piece.start)).unwrap() + 2] ^= 1 << 4;
            }
            received.receive(piece.start, &buffer[..piece.bytes]).unwrap();
        }
        assert_eq!(received.sync().unwrap(), before.end);
        assert!(received.wanted() > before.end);
        assert!(!received.forget_record_across(before.end), "no record goes on there");
        let behind = Lsn::new(last.end.get() + 1);
        assert!(!received.forget_record_across(behind), "more may come");
        assert!(received.forget_record_across(last.end));
        assert_eq!(received.wanted(), before.end);
        assert!(!received.forget_record_across(last.end));
        let mut stream = log.stream(received.wanted()).unwrap();
        receive(&received, &mut stream, &mut SeededRandom::new(1)).unwrap();
        assert_eq!(received.flushed(), last.end);
        assert_equal_files(&disk, &standby, last.end, "all came again");
    }
}

#[test]
fn a_promoted_standby_writes_its_own_timeline_where_the_last_whole_record_ends() {
    for seed in seeds(30) {
        let (_, log, values) = primary(seed);
        let mut random = SeededRandom::new(seed);
        let standby = SimulatedDisk::new(seed);
        let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
        let mut stream = log.stream(received.wanted()).unwrap();
        // It stops somewhere, as a rule inside of a record.
        let until = Lsn::new(first().get() + random.below(log.flushed().bytes_since(first())));
        let mut buffer = vec![0; 7_000];
        while received.wanted() < until {
            let piece = stream.read(&mut buffer).unwrap();
            received.receive(piece.start, &buffer[..piece.bytes]).unwrap();
        }
        let before = standby.trace().len();
        let end = received.close().unwrap();
        assert!(matches!(received.receive(received.wanted(), &[1]), Err(ReceiveError::Log { .. })));
        assert_eq!((end.lsn, end.durable), (received.flushed(), received.flushed()));
        let timeline = TimelineId::new(7).unwrap();
        let history =
            TimelineHistory::first().fork(timeline, end.lsn, TimelineMark::from_bytes([7; 16]), "promoted");
        let promoted = LogOptions { timeline, ancestors: history.forks.clone(), ..options() };
        let log = begin_timeline(&arc(&standby), promoted, end, 0).unwrap();
        let is_sync = |call: &&Call| {
            matches!(call.operation, Operation::Sync | Operation::SyncDirectory | Operation::WriteDurable)
        };
        let syncs = standby.trace()[before..].iter().filter(is_sync).count();
        assert!(syncs <= 20, "seed {seed}: {syncs} syncs from the order to promote to the new timeline");
        commit(&log, &[200; 5_000]).unwrap();
        let standby = standby.after_power_loss(PowerLoss::Random(seed));
        let reader = LogReader::open_history(arc(&standby), DATABASE, history, SEGMENT_BYTES, first());
        let (mut found, _) = read_reader(reader.unwrap()).unwrap();
        assert_eq!(found.pop().unwrap().value, [200; 5_000], "seed {seed}");
        let found: Vec<Vec<u8>> = found.into_iter().map(|found| found.value).collect();
        assert_eq!(found, values[..found.len()], "seed {seed}");
    }
}

/// The next process would know no better than this one, so nothing is read or written again.
#[test]
fn a_promoted_standby_goes_on_with_its_holds_and_a_second_attempt_reads_them() {
    for seed in seeds(10) {
        let (_, log, _) = primary(seed);
        let mut random = SeededRandom::new(seed);
        let standby = SimulatedDisk::new(seed);
        let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
        receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut random).unwrap();
        let permanent = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
        let position = received.hold("archive", permanent, first(), 0).unwrap();
        position.advance(received.flushed());
        let end = received.end().unwrap();
        let begin = |number: u32| {
            let timeline = TimelineId::new(number).unwrap();
            let mark = TimelineMark::from_bytes([7; 16]);
            let history = TimelineHistory::first().fork(timeline, end.lsn, mark, "promoted");
            let promoted = LogOptions { timeline, ancestors: history.forks, ..options() };
            let before = standby.trace().len();
            let log = received.begin_timeline(&promoted, end, 0).unwrap();
            let trace = standby.trace();
            (log, trace[before..].iter().any(|call| *call.path == *"log/holds"))
        };
        // The first attempt comes to nothing, as if the superblock could not be stored.
        let (first_attempt, touches_list) = begin(2);
        assert!(!touches_list, "seed {seed}");
        assert_eq!(first_attempt.find_hold("archive").unwrap().get(), end.lsn, "seed {seed}");
        drop(first_attempt);
        let (log, touches_list) = begin(3);
        assert!(touches_list, "seed {seed}");
        assert_eq!(log.find_hold("archive").unwrap().get(), end.lsn, "seed {seed}");
        log.hold("backup", permanent, end.lsn, 0).unwrap();
        let standby = standby.after_power_loss(PowerLoss::Random(seed));
        let names: Vec<(String, Lsn)> = read_holds(&standby, DATABASE)
            .unwrap()
            .into_iter()
            .map(|hold| (hold.name, hold.position))
            .collect();
        assert_eq!(names, [("archive".to_owned(), end.lsn), ("backup".to_owned(), end.lsn)], "seed {seed}");
    }
}

#[test]
fn a_standby_follows_a_primary_onto_its_new_timeline() {
    for seed in seeds(20) {
        let mut random = SeededRandom::new(seed);
        let (primary_disk, log, values) = primary(seed);
        let standby = SimulatedDisk::new(seed);
        let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
        receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut random).unwrap();
        let fork = log.flushed();
        drop(log);
        let end = LogEnd { lsn: fork, durable: fork, reason: EndReason::NoRecord };
        let timeline = TimelineId::new(2).unwrap();
        let mark = TimelineMark::from_bytes([5; 16]);
        let history = TimelineHistory::first().fork(timeline, fork, mark, "promoted");
        let options = LogOptions { timeline, ancestors: history.forks.clone(), ..options() };
        let log = begin_timeline(&arc(&primary_disk), options.clone(), end, 0).unwrap();
        let own: Vec<Vec<u8>> = (0..20).map(|byte| vec![byte; 5_000]).collect();
        own.iter().for_each(|value| assert!(commit(&log, value).is_ok()));

        received.close().unwrap();
        // Cut short after any call, it is begun once more.
        let mut call = random.below(4);
        let received = loop {
            let copy = standby.copy();
            copy.crash_at(call);
            let begun = ReceivedLog::begin(arc(&copy), &options);
            let after = copy.after_power_loss(PowerLoss::Random(random.next_u64()));
            if !copy.crashed() {
                drop(begun);
                break ReceivedLog::begin(arc(&after), &options).map(|received| (after, received)).unwrap();
            }
            ReceivedLog::begin(arc(&after), &options).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            call += 1 + random.below(4);
        };
        let (standby, received) = received;
        receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut random).unwrap();
        assert_eq!(received.flushed(), log.flushed(), "seed {seed}");
        drop(received);
        let (_, found, end) = reopen(&standby, &options, &history, first()).unwrap();
        let found: Vec<Vec<u8>> = found.into_iter().map(|found| found.value).collect();
        assert_eq!(found, [values, own].concat(), "seed {seed}");
        assert_eq!(end.lsn, log.flushed(), "seed {seed}");
    }
}

fn remove_timeline_2(disk: &SimulatedDisk, which: impl Fn(&str) -> bool) {
    for entry in disk.list("log").unwrap() {
        if entry.name.starts_with("00000002") && which(&entry.name) {
            disk.remove(&format!("log/{}", entry.name)).unwrap();
        }
    }
    disk.sync_directory("log").unwrap();
}

/// A server was promoted, has written a timeline, was killed and cut back to the parent: what it left in the pending files verifies on the
/// timeline, which it now receives from a server that has less of it, or more.
#[test]
fn a_timeline_that_was_written_here_in_an_earlier_life_is_received_as_any_other() {
    for seed in seeds(40) {
        let mut random = SeededRandom::new(seed);
        let (_, log, values) = primary(seed);
        let standby = SimulatedDisk::new(seed);
        let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
        receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut random).unwrap();
        let end = received.end().unwrap();
        let other = standby.copy();
        let timeline = TimelineId::new(2).unwrap();
        let mark = TimelineMark::from_bytes([5; 16]);
        let history = TimelineHistory::first().fork(timeline, end.lsn, mark, "promoted");
        let of_next = LogOptions { timeline, ancestors: history.forks.clone(), ..options() };
        let written = received.begin_timeline(&of_next, end, 0).unwrap();
        drop(received);
        let own: Vec<Vec<u8>> = (0..20_u8).map(|byte| vec![byte; 3_000]).collect();
        own[..10].iter().for_each(|value| assert!(commit(&written, value).is_ok()));
        // What another server has of it.
        let (source, _, _) = reopen(&other, &options(), &TimelineHistory::first(), first()).unwrap();
        source.end().unwrap();
        let source = source.begin_next(&of_next).unwrap();
        receive(&source, &mut written.stream(source.wanted()).unwrap(), &mut random).unwrap();
        // And what is in the pending files alone.
        own[10..].iter().for_each(|value| assert!(append(&written, value).is_ok()));
        assert_eq!(written.mirror_until(written.appended()), written.appended(), "seed {seed}");
        let standby = standby.copy();
        remove_timeline_2(&standby, |_| true);
        drop(written);

        let (received, _, _) = reopen(&standby, &options(), &TimelineHistory::first(), first()).unwrap();
        received.end().unwrap();
        let next = received.begin_next(&of_next).unwrap();
        let source = Arc::new(source);
        let mut synced = next.flushed();
        if random.chance(3, 4) {
            standby.crash_at(random.below(30));
            let outcome = receive(&next, &mut source.stream(next.wanted()).unwrap(), &mut random);
            assert!(outcome.is_ok() || standby.crashed(), "seed {seed}: {outcome:?}");
            synced = next.flushed();
        }
        drop((next, received));
        // By the kill of the process, or of the machine.
        let standby = match random.chance(1, 2) {
            true => standby.copy(),
            false => standby.after_power_loss(PowerLoss::Random(random.next_u64())),
        };
        let (next, found, end) = reopen(&standby, &of_next, &history, first())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(end.lsn >= synced && end.lsn <= source.flushed(), "seed {seed}: {end:?}, {synced}");
        let found: Vec<Vec<u8>> = found.into_iter().map(|found| found.value).collect();
        assert_eq!(found, [values, own].concat()[..found.len()], "seed {seed}");
        // What it lacks comes.
        receive(&next, &mut source.stream(next.wanted()).unwrap(), &mut random).unwrap();
        assert_eq!(next.flushed(), source.flushed(), "seed {seed}");
    }
}

/// A server was cut back to where a timeline begins, and receives less of it than it had before.
#[test]
fn a_mark_beyond_the_end_is_of_an_earlier_life() {
    let (primary_disk, log, _) = primary(1);
    let standby = SimulatedDisk::new(1);
    let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
    receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut SeededRandom::new(1)).unwrap();
    let fork = log.flushed();
    drop(log);
    let end = LogEnd { lsn: fork, durable: fork, reason: EndReason::NoRecord };
    let timeline = TimelineId::new(2).unwrap();
    let history =
        TimelineHistory::first().fork(timeline, fork, TimelineMark::from_bytes([5; 16]), "promoted");
    let of_next = LogOptions { timeline, ancestors: history.forks.clone(), ..options() };
    let log = begin_timeline(&arc(&primary_disk), of_next.clone(), end, 0).unwrap();
    assert!(commit(&log, &[1; 5_000]).is_ok());
    received.end().unwrap();
    let next = received.begin_next(&of_next).unwrap();
    receive(&next, &mut log.stream(next.wanted()).unwrap(), &mut SeededRandom::new(2)).unwrap();
    assert!(next.settle().unwrap() > fork);
    drop((next, received));
    // Segments: the mark stays.
    remove_timeline_2(&standby, |name| name.len() == 24);
    let (received, _, _) = reopen(&standby, &options(), &TimelineHistory::first(), first()).unwrap();
    received.end().unwrap();
    drop(received.begin_next(&of_next).unwrap());
    let standby = standby.after_power_loss(PowerLoss::LoseAll);
    let (next, _, end) = reopen(&standby, &of_next, &history, first()).unwrap();
    assert_eq!((end.lsn, next.flushed()), (fork, fork));
}

/// Holds that end with the process are in its memory only.
#[test]
fn a_new_timeline_that_could_not_be_begun_costs_no_hold() {
    let (_, log, _) = primary(1);
    let standby = SimulatedDisk::new(1);
    let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
    receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut SeededRandom::new(1)).unwrap();
    let position = received.hold("backup", HoldOptions::default(), first(), 0).unwrap();
    let fork = received.end().unwrap().lsn;
    let timeline = TimelineId::new(2).unwrap();
    let mark = TimelineMark::from_bytes([5; 16]);
    let ancestors = TimelineHistory::first().fork(timeline, fork, mark, "promoted").forks;
    let options = LogOptions { timeline, ancestors, ..options() };
    let mut failures = 0;
    let next = loop {
        standby.clear_faults();
        standby.inject(Fault {
            target: FaultTarget::Path { prefix: String::new(), operations: Operations::Any },
            error: FaultError::Number(5),
            skip: failures,
            count: 1,
        });
        match received.begin_next(&options) {
            Ok(next) => break next,
            Err(_) => failures += 1,
        }
    };
    standby.clear_faults();
    assert!(failures > 3, "{failures}");
    next.check_hold("backup", &position).unwrap();
    position.advance(fork);
    assert_eq!(next.find_hold("backup").unwrap().get(), fork);
}

#[test]
fn old_segments_are_used_again_and_a_hold_keeps_what_it_needs() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let standby = SimulatedDisk::new(2);
    let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
    let mut random = SeededRandom::new(3);
    let mut stream = log.stream(received.wanted()).unwrap();
    let mut fill = |segments: u64| {
        let until = geometry().segment_of(log.appended()) + segments;
        while geometry().segment_of(log.appended()) < until {
            commit(&log, &[7; 3000]).unwrap();
        }
        receive(&received, &mut stream, &mut random).unwrap()
    };
    let hold_options =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    let held = fill(4);
    let hold = received.hold("cascade", hold_options, held, 0).unwrap();
    let end = fill(6);
    let report = received.retain_from(end).unwrap();
    assert_eq!(report.recycled + report.removed, 4, "{report:?}");
    hold.advance(end);
    let report = received.retain_from(end).unwrap();
    assert!(report.recycled + report.removed > 0, "{report:?}");
    fill(10);
    let stream = Arc::new(received);
    let received = Arc::clone(&stream);
    let mut cascade = stream.stream(end).unwrap();
    let mut bytes = 0;
    loop {
        let piece = cascade.read(&mut [0; 10_000]).unwrap();
        if piece.bytes == 0 {
            break;
        }
        bytes += piece.bytes as u64;
    }
    assert_eq!(end.get() + bytes, received.flushed().get());
    drop((cascade, stream, received));
    let (received, _, _) = reopen(&standby, &options(), &TimelineHistory::first(), end).unwrap();
    assert_eq!(received.find_hold("cascade").unwrap().get(), end);
}

#[test]
fn after_a_failed_sync_nothing_more_is_received_until_the_log_is_opened_anew() {
    let (_, log, values) = primary(5);
    let standby = SimulatedDisk::new(5);
    let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
    let mut buffer = vec![0; 20_000];
    let mut stream = log.stream(received.wanted()).unwrap();
    let piece = stream.read(&mut buffer).unwrap();
    received.receive(piece.start, &buffer[..piece.bytes]).unwrap();
    standby.fail_next(FaultKind::SyncError);
    assert!(matches!(received.sync(), Err(LogError::Poisoned { .. })));
    assert_eq!(received.flushed(), first());
    let piece = stream.read(&mut buffer).unwrap();
    let refused = received.receive(piece.start, &buffer[..piece.bytes]).unwrap_err();
    assert!(matches!(refused, ReceiveError::Log { source: LogError::Poisoned { .. } }), "{refused}");
    drop(received);
    let (received, _, _) = reopen(&standby, &options(), &TimelineHistory::first(), first()).unwrap();
    let mut stream = log.stream(received.wanted()).unwrap();
    receive(&received, &mut stream, &mut SeededRandom::new(1)).unwrap();
    drop(received);
    let standby = standby.after_power_loss(PowerLoss::Random(1));
    let (_, found, _) = reopen(&standby, &options(), &TimelineHistory::first(), first()).unwrap();
    assert_eq!(found.len(), values.len());
}

#[test]
fn damage_before_the_mark_is_damage() {
    let (_, log, _) = primary(6);
    let standby = SimulatedDisk::new(6);
    let received = ReceivedLog::begin(arc(&standby), &options()).unwrap();
    receive(&received, &mut log.stream(received.wanted()).unwrap(), &mut SeededRandom::new(1)).unwrap();
    received.settle().unwrap();
    drop(received);
    overwrite(&standby, first(), &[0; 20]);
    let refused = reopen(&standby, &options(), &TimelineHistory::first(), first()).unwrap_err();
    assert!(matches!(refused, LogReadError::Damaged { .. }), "{refused}");
    let disk: Arc<dyn Disk> = arc(&standby);
    assert!(disk.list("log").unwrap().iter().any(|entry| entry.name == "00000001.received"));
}

#[test]
fn segments_are_written_twice_only_while_log_comes_in_small_pieces() {
    let primary_disk = SimulatedDisk::new(1);
    let log = create(&primary_disk);
    for _ in 0..12 {
        append(&log, &[7; 100_000]).unwrap();
    }
    log.flush_until(log.appended()).unwrap();
    for is_bulk in [true, false] {
        let extended = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&extended);
        let disk = ObservedDisk::new(SimulatedDisk::new(2), move |call| {
            seen.fetch_add(usize::from(call.kind == CallKind::Extend), Ordering::SeqCst);
            Verdict::Make
        });
        let received = ReceivedLog::begin(Arc::new(disk), &options()).unwrap();
        let mut stream = log.stream(received.wanted()).unwrap();
        let mut buffer = vec![0; 10_000];
        loop {
            let piece = stream.read(&mut buffer).unwrap();
            if piece.bytes == 0 {
                break;
            }
            received.receive(piece.start, &buffer[..piece.bytes]).unwrap();
            if !is_bulk {
                received.sync().unwrap();
            }
        }
        assert_eq!(received.sync().unwrap(), log.flushed());
        let extended = extended.load(Ordering::SeqCst);
        assert_eq!(extended > 3, is_bulk, "{extended} segments, in bulk: {is_bulk}");
    }
}
