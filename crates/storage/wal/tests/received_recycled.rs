//! What is received goes into segments that were used before, as on a primary: whenever the power goes, nothing is lost that was synced, and
//! nothing of a segment's former life is found again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{DATABASE, SEGMENT_BYTES, arc, commit, create, geometry, options, read_reader};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::Lsn;
use seawall_wal::{
    LogReader, LogStream, OpenLog, ReceiveError, ReceivedLog, RecordSpan, RetentionReport, TimelineHistory,
};

/// Rounds of some segments each, with a checkpoint after each.
const ROUNDS: u64 = 6;

/// A primary that keeps everything, and its records.
struct Primary {
    log: OpenLog,
    records: Vec<(RecordSpan, Vec<u8>)>,
    /// Where each round ends.
    rounds: Vec<Lsn>,
}

impl Primary {
    fn new(seed: u64) -> Primary {
        let mut random = SeededRandom::new(seed);
        let disk = SimulatedDisk::new(seed);
        let log = create(&disk);
        let (mut records, mut rounds) = (Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            while geometry().segment_of(log.appended()) < 1 + round * 3 {
                let length = usize::try_from(random.range(100..9000)).unwrap();
                let value = random.bytes(length);
                records.push((commit(&log, &value).unwrap(), value));
            }
            rounds.push(log.flushed());
        }
        Primary { log, records, rounds }
    }
}

/// What a standby did before its power went.
#[derive(Default)]
struct Done {
    /// Recovery starts there.
    redo_point: Option<Lsn>,
    synced: Option<Lsn>,
    report: RetentionReport,
}

/// Receives everything, and cleans up after each round, as after a checkpoint.
fn receive(
    primary: &Primary,
    received: &ReceivedLog,
    random: &mut SeededRandom,
    done: &mut Done,
) -> Result<(), ReceiveError> {
    let mut stream: LogStream = primary.log.stream(received.wanted()).unwrap();
    for &end in primary.rounds.iter().filter(|end| **end > received.flushed()) {
        while received.flushed() < end {
            let mut buffer = vec![0; usize::try_from(random.range(1..40_000)).unwrap()];
            let piece = stream.read(&mut buffer).unwrap();
            received.receive(piece.start, &buffer[..piece.bytes])?;
            if random.chance(1, 3) || received.wanted() >= end {
                done.synced = Some(received.sync()?);
            }
        }
        let redo_point = received.flushed();
        received.settle()?;
        // The checkpoint is durable before.
        done.redo_point = Some(redo_point);
        let report = received.retain_from(redo_point)?;
        done.report.recycled += report.recycled;
        done.report.removed += report.removed;
        received.prepare_ahead()?;
    }
    Ok(())
}

/// Loses power in call `crash` of the standby; `None` if it makes fewer calls, with what it did.
fn lose_power(primary: &Primary, seed: u64, crash: u64) -> Option<RetentionReport> {
    let place = format!("seed {seed}, power lost in call {crash}");
    let mut random = SeededRandom::new(seed ^ crash);
    let disk = SimulatedDisk::new(seed);
    let received = ReceivedLog::begin(arc(&disk), &options()).unwrap();
    disk.crash_at(crash);
    let mut done = Done::default();
    match receive(primary, &received, &mut random, &mut done) {
        Ok(()) => assert_eq!(received.flushed(), primary.log.flushed(), "{place}"),
        Err(error) => assert!(disk.crashed(), "{place}: {error}"),
    }
    let is_over = !disk.crashed();
    drop(received);
    let disk = disk.after_power_loss(PowerLoss::Random(random.next_u64()));
    let from = done.redo_point.unwrap_or_else(|| geometry().first_lsn());
    let history = TimelineHistory::first();
    let reader = LogReader::open_history(arc(&disk), DATABASE, history, SEGMENT_BYTES, from)
        .unwrap_or_else(|error| panic!("{place}: {error}"));
    let (found, end) = read_reader(reader).unwrap_or_else(|error| panic!("{place}: {error}"));
    let synced = done.synced.unwrap_or(from);
    assert!(end.lsn >= synced, "{place}: {synced} is durable, and the log ends at {}", end.lsn);
    let expected = primary.records.iter().filter(|(span, _)| span.start >= from);
    for (found, (span, value)) in found.iter().zip(expected) {
        assert_eq!((found.span, &found.value), (*span, value), "{place}");
    }
    // The rest comes again, into segments that are used again.
    let received =
        ReceivedLog::open(arc(&disk), &options(), end).unwrap_or_else(|error| panic!("{place}: {error}"));
    receive(primary, &received, &mut random, &mut done).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(received.flushed(), primary.log.flushed(), "{place}");
    is_over.then_some(done.report)
}

#[test]
fn a_power_loss_in_any_call_costs_nothing_of_what_is_received_into_used_segments() {
    for seed in seeds(3) {
        let primary = Primary::new(seed);
        let mut crash = 1;
        let report = loop {
            if let Some(report) = lose_power(&primary, seed, crash) {
                break report;
            }
            crash += 1 + crash % 3;
        };
        assert!(crash > 100, "seed {seed}: {crash} calls");
        assert!(report.recycled >= 3, "seed {seed}: {report:?}");
    }
}
