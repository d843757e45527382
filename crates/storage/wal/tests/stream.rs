//! The stream of a log: a receiver that writes each byte where its LSN says has the files of the log.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{SEGMENT_BYTES, append, arc, commit, create, geometry, options, read_all, read_from};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::{Lsn, TimelineId, TimelineMark};
use seawall_wal::{
    EndReason, HEADER_BYTES, HoldKind, HoldLifetime, HoldOptions, Log, LogEnd, LogOptions, LogStream,
    LogStreamError, OpenLog, SegmentName, StreamPiece, TimelineHistory, begin_timeline,
};

/// The bytes that a receiver has of each segment file, and where in the file they start.
#[derive(Default)]
struct Files(BTreeMap<SegmentName, (u64, Vec<u8>)>);

impl Files {
    fn put(&mut self, piece: StreamPiece, bytes: &[u8]) {
        let name = SegmentName { timeline: piece.timeline, number: geometry().segment_of(piece.start) };
        let offset = geometry().offset_of(piece.start);
        let (start, file) = self.0.entry(name).or_insert((offset, Vec::new()));
        assert_eq!(*start + file.len() as u64, offset, "a gap in {name:?}");
        file.extend_from_slice(bytes);
    }

    /// Compares what was received with the files of the log.
    fn check(&self, disk: &SimulatedDisk, place: &str) {
        for (name, (start, bytes)) in &self.0 {
            let start = usize::try_from(*start).unwrap();
            let file = disk.read_file(&name.path()).unwrap();
            assert!(file[start..start + bytes.len()] == bytes[..], "{place}: {name:?} differs");
        }
    }
}

/// Reads one piece of at most `limit` bytes.
fn read_piece(
    stream: &mut LogStream,
    limit: usize,
    files: &mut Files,
) -> Result<StreamPiece, LogStreamError> {
    let mut buffer = vec![0xEE; limit];
    let piece = stream.read(&mut buffer)?;
    files.put(piece, &buffer[..piece.bytes]);
    assert_eq!(stream.position().get(), piece.start.get() + piece.bytes as u64);
    Ok(piece)
}

/// Reads all there is.
fn read_to_end(stream: &mut LogStream, limit: usize, files: &mut Files) {
    while read_piece(stream, limit, files).unwrap().bytes > 0 {}
    assert_eq!(geometry().normalise(stream.position()), stream.flushed(), "not all was read");
}

fn with_recent_bytes(recent_bytes: usize) -> LogOptions {
    LogOptions { recent_bytes, ..options() }
}

fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

/// Appends until the log has filled `segments` more segments.
fn fill(log: &Log, segments: u64) {
    let until = geometry().segment_of(log.appended()) + segments;
    while geometry().segment_of(log.appended()) < until {
        commit(log, &[7; 3000]).unwrap();
    }
}

/// A position at which a stream may start: a record, or any byte before the end, one in a header page included.
fn any_position(log: &Log, random: &mut SeededRandom) -> Lsn {
    let first = geometry().first_lsn().get();
    let position = Lsn::new(first + random.below(log.flushed().get() - first + 1));
    if random.chance(1, 3) { Lsn::new(position.get() / SEGMENT_BYTES * SEGMENT_BYTES) } else { position }
}

fn run(seed: u64) {
    let mut random = SeededRandom::new(seed);
    let disk = SimulatedDisk::new(seed);
    // One page, a few, and more than the log will have.
    let recent_bytes = *random.pick(&[1, 200 << 10, 4 << 20]);
    let log = Log::create(arc(&disk), with_recent_bytes(recent_bytes)).unwrap();
    let mut streams: Vec<(LogStream, Files)> = Vec::new();
    for _ in 0..random.range(20..120) {
        match random.below(10) {
            0..4 => {
                let limit = *random.pick(&[20, 600, 5_000, 90_000, 200_000]);
                let length = usize::try_from(random.below(limit)).unwrap();
                append(&log, &random.bytes(length)).unwrap();
            }
            4..6 => log.flush_until(log.appended()).unwrap(),
            6 if streams.len() < 4 => {
                let from = any_position(&log, &mut random).max(geometry().first_lsn());
                streams.push((log.stream(from).unwrap(), Files::default()));
            }
            7 if random.chance(1, 4) && !streams.is_empty() => {
                let (_, files) = streams.swap_remove(random.index(streams.len()));
                files.check(&disk, &format!("seed {seed}, a stream that was closed"));
            }
            _ => {
                for (stream, files) in &mut streams {
                    let limit = usize::try_from(random.range(1..150_000)).unwrap();
                    read_piece(stream, limit, files).unwrap();
                }
            }
        }
    }
    log.flush_until(log.appended()).unwrap();
    for (stream, files) in &mut streams {
        read_to_end(stream, usize::try_from(random.range(500..200_000)).unwrap(), files);
        files.check(&disk, &format!("seed {seed}"));
    }
}

#[test]
fn what_is_streamed_is_what_the_files_hold_byte_for_byte() {
    seeds(150).for_each(run);
}

#[test]
fn a_stream_that_keeps_up_reads_no_file_and_one_that_does_not_goes_back_to_the_files() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), with_recent_bytes(256 << 10)).unwrap();
    fill(&log, 2);
    let mut files = Files::default();
    let mut stream = log.stream(log.flushed()).unwrap();
    disk.reset_read_counts();
    for value_bytes in [10, 700, 30_000, 61_000, 5] {
        commit(&log, &vec![3; value_bytes]).unwrap();
        read_to_end(&mut stream, 10_000, &mut files);
    }
    assert_eq!(disk.read_count("log/0").calls, 0, "it kept up");
    // More than there is memory for, and a record that alone is.
    fill(&log, 3);
    commit(&log, &vec![4; 300_000]).unwrap();
    read_to_end(&mut stream, 10_000, &mut files);
    assert!(disk.read_count("log/0").calls > 0, "it fell behind");
    disk.reset_read_counts();
    for _ in 0..20 {
        commit(&log, &[5; 5000]).unwrap();
        read_to_end(&mut stream, 10_000, &mut files);
    }
    assert_eq!(disk.read_count("log/0").calls, 0, "it has caught up");
    files.check(&disk, "kept up, fell behind, caught up");
}

#[test]
fn nothing_is_streamed_before_it_is_durable_and_no_header_page_before_a_record_behind_it() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut stream = log.stream(geometry().first_lsn()).unwrap();
    let mut files = Files::default();
    let read = |stream: &mut LogStream, files: &mut Files| read_piece(stream, 1 << 20, files).unwrap().bytes;
    assert_eq!(read(&mut stream, &mut files), 0, "an empty log");
    let span = append(&log, &[1; 100]).unwrap();
    assert_eq!(read(&mut stream, &mut files), 0, "appended, not durable");
    log.flush_until(span.end).unwrap();
    assert_eq!(read(&mut stream, &mut files) as u64, span.end.bytes_since(span.start));
    // A record that fills the segment to its last byte.
    let overhead = span.end.bytes_since(span.start) - 100;
    let left = SEGMENT_BYTES - geometry().offset_of(span.end);
    // Its length takes two bytes more than that of a short one, and its row one more.
    let mut value_bytes = usize::try_from(left - overhead).unwrap();
    let copy = disk.copy();
    let end_with = |value_bytes: usize| {
        let (_, end) = read_all(&copy).unwrap();
        let log = Log::open(arc(&copy.copy()), options(), end).unwrap();
        append(&log, &vec![2; value_bytes]).unwrap().end
    };
    while end_with(value_bytes) > geometry().first_record_of(2) {
        value_bytes -= 1;
    }
    let span = commit(&log, &vec![2; value_bytes]).unwrap();
    assert_eq!(span.end, geometry().first_record_of(2), "the test's record does not fill the segment");
    read(&mut stream, &mut files);
    assert_eq!(stream.position(), Lsn::new(2 * SEGMENT_BYTES), "the header page has no record yet");
    assert_eq!(read(&mut stream, &mut files), 0);
    commit(&log, &[3; 10]).unwrap();
    assert_eq!(read(&mut stream, &mut files) as u64, HEADER_BYTES);
    read_to_end(&mut stream, 1 << 20, &mut files);
    files.check(&disk, "across a border");
}

#[test]
fn without_a_hold_a_segment_that_is_used_again_is_a_typed_error() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), with_recent_bytes(1)).unwrap();
    fill(&log, 1);
    let mut files = Files::default();
    let mut stream = log.stream(geometry().first_lsn()).unwrap();
    // It has the file open.
    read_piece(&mut stream, 5_000, &mut files).unwrap();
    fill(&log, 8);
    let report = log.retain_from(log.flushed()).unwrap();
    assert!(report.recycled > 0, "{report:?}");
    for _ in 0..2 {
        let refused = read_piece(&mut stream, 5_000, &mut files).unwrap_err();
        let expected = (stream.position(), log.oldest_retained());
        assert!(
            matches!(refused, LogStreamError::NotRetained { position, oldest } if (position, oldest) == expected),
            "{refused}"
        );
        // Now there are other records in the file that it had open.
        fill(&log, 10);
    }
    let refused = log.stream(stream.position()).unwrap_err();
    assert!(matches!(refused, LogStreamError::NotRetained { .. }), "{refused}");
    let mut stream = log.stream(log.oldest_retained()).unwrap();
    read_to_end(&mut stream, 100_000, &mut Files::default());
}

#[test]
fn a_receiver_that_has_more_than_the_log_is_refused() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let span = append(&log, &[1; 100]).unwrap();
    let refused = log.stream(span.end).unwrap_err();
    assert!(
        matches!(refused, LogStreamError::NotReached { position, end } if position == span.end && end == span.start)
    );
}

#[test]
fn the_hold_of_a_standby_keeps_what_it_has_not_read_across_a_power_loss() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    fill(&log, 2);
    let from = log.flushed();
    let hold_options =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    let hold = log.hold("standby b", hold_options, from, 0).unwrap();
    fill(&log, 6);
    let middle = log.flushed();
    fill(&log, 6);
    let mut files = Files::default();
    log.retain_from(log.flushed()).unwrap();
    let mut stream = log.stream(hold.get()).unwrap();
    while stream.position() < middle {
        read_piece(&mut stream, 10_000, &mut files).unwrap();
    }
    files.check(&disk, "what the hold has kept");
    let read = stream.position();
    hold.advance(read);
    let report = log.retain_from(log.flushed()).unwrap();
    assert!(report.recycled + report.removed > 0, "{report:?}");
    drop((stream, log));

    let disk = disk.after_power_loss(PowerLoss::Random(7));
    let (_, end) = read_from(&disk, middle).unwrap();
    let log = Log::open(arc(&disk), options(), end).unwrap();
    let hold = log.find_hold("standby b").unwrap();
    assert!(hold.get() <= read, "the log before {} may be gone", hold.get());
    fill(&log, 4);
    log.retain_from(log.flushed()).unwrap();
    let mut stream = log.stream(read).unwrap();
    let mut files = Files::default();
    read_to_end(&mut stream, 10_000, &mut files);
    files.check(&disk, "after the power loss");
}

#[test]
fn a_stream_follows_the_history_and_no_piece_crosses_a_fork() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let first: Vec<_> = (0..30).map(|_| commit(&log, &[1; 5000]).unwrap()).collect();
    drop(log);
    // Timeline 1 has twelve records more than its part of the log.
    let fork = first[17].end;
    let end = LogEnd { lsn: fork, durable: fork, reason: EndReason::Limit };
    let history = TimelineHistory::first().fork(timeline(2), fork, TimelineMark::from_bytes([2; 16]), "x");
    let options =
        LogOptions { timeline: timeline(2), ancestors: history.forks.clone(), ..with_recent_bytes(1 << 20) };
    let log: OpenLog = begin_timeline(&arc(&disk), options, end, 0).unwrap();
    let mut files = Files::default();
    let mut stream = log.stream(first[3].start).unwrap();
    (0..20).for_each(|_| assert!(commit(&log, &[2; 5000]).is_ok()));
    let mut starts = Vec::new();
    loop {
        let piece = read_piece(&mut stream, 7_000, &mut files).unwrap();
        if piece.bytes == 0 {
            break;
        }
        let is_new = starts.last().is_none_or(|(last, _)| *last != piece.timeline);
        if is_new {
            starts.push((piece.timeline, piece.start));
        }
    }
    assert_eq!(starts, [(timeline(1), first[3].start), (timeline(2), fork)]);
    files.check(&disk, "two timelines");
}

#[test]
fn a_stream_that_waits_is_woken_by_the_flush_and_told_of_the_end() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    std::thread::scope(|scope| {
        let mut stream = log.stream(log.flushed()).unwrap();
        let reading = scope.spawn(move || {
            let mut files = Files::default();
            loop {
                // Much longer than the test may take: a lost wake-up is seen.
                match read_piece(&mut stream, 10_000, &mut files) {
                    Ok(piece) if piece.bytes == 0 => stream.wait(Duration::from_secs(300)),
                    Ok(_) => {}
                    Err(error) => return (files, error),
                }
            }
        });
        for _ in 0..300 {
            commit(&log, &[9; 700]).unwrap();
        }
        log.close().unwrap();
        let (files, error) = reading.join().unwrap();
        assert!(matches!(error, LogStreamError::Stopped { .. }), "{error}");
        files.check(&disk, "a stream on a thread");
        let received: usize = files.0.values().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(received as u64, log.flushed().bytes_since(geometry().first_lsn()));
    });
}
