//! The log: records in segments, bodies of records, segment headers, timeline histories, pending files, holds.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use seawall_codec::checksum::crc32c;
use seawall_io::Disk;
use seawall_simulation::SimulatedDisk;
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{
    CommitBuilder, EndReason, FORMAT_VERSION, HEADER_BYTES, HoldLifetime, HoldOptions, Log, LogEnd,
    LogGeometry, LogOptions, LogReadError, LogReader, Outcome, PageImages, PendingUse, RECORD_HEADER_BYTES,
    ROW_KEY_BYTES_MAX, Record, RecordKind, RecordSpan, SegmentName, TimelineHistory, VALUE_BYTES_MAX,
    read_holds,
};

use crate::input::{Choices, Entries, Input, mutate};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[
    ("log_record", records),
    ("log_body", body),
    ("segment_header", segment_header),
    ("timeline_history", timeline_history),
    ("pending_file", pending_file),
    ("holds_file", holds_file),
];

const SEGMENT_BYTES: usize = 64 << 10;
const HEADER: usize = 4096;
/// Where the header page says that the log has begun the segment; zeros: not yet.
const BEGUN: Range<usize> = 512..520;
const _: () = assert!(HEADER as u64 == HEADER_BYTES);
const DATABASE: DatabaseId = DatabaseId::from_bytes([0xDB; 16]);
/// A limit, so that one run stays short: the reader goes over three segments at most.
const STREAM_BYTES_MAX: usize = 2 * (SEGMENT_BYTES - HEADER);

fn geometry() -> LogGeometry {
    LogGeometry::new(SEGMENT_BYTES as u64).expect("a legal segment size")
}

fn name(number: u64) -> SegmentName {
    SegmentName { number, timeline: TimelineId::FIRST }
}

/// The header page of segment `number`, which the log has begun: what `seawall_wal` writes, made a second time.
fn header_page(number: u64) -> [u8; HEADER] {
    let mut page = [0; HEADER];
    page[0..8].copy_from_slice(b"SWLOG\r\n\x1A");
    page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    page[12..16].copy_from_slice(&1_u32.to_le_bytes());
    page[16..24].copy_from_slice(&geometry().first_record_of(number).get().to_le_bytes());
    page[24..40].copy_from_slice(DATABASE.as_bytes());
    page[40..44].copy_from_slice(&(64_u32 << 10).to_le_bytes());
    page[BEGUN].copy_from_slice(&mix(position_mask(geometry().first_record_of(number))).to_le_bytes());
    seal_header(&mut page);
    page
}

fn seal_header(page: &mut [u8]) {
    page[44..48].fill(0);
    let checksum = crc32c(&page[..72]);
    page[44..48].copy_from_slice(&checksum.to_le_bytes());
}

/// Writes segments 1, 2, ... with `stream` from `start` on.
fn write_segments(disk: &SimulatedDisk, start: Lsn, stream: &[u8], count: u64) {
    let mut rest = stream;
    for number in 1..=count {
        let mut segment = vec![0; SEGMENT_BYTES];
        segment[..HEADER].copy_from_slice(&header_page(number));
        let from = if number == 1 { offset_of(start) } else { HEADER };
        let (here, later) = rest.split_at(rest.len().min(SEGMENT_BYTES - from));
        segment[from..from + here.len()].copy_from_slice(here);
        rest = later;
        disk.write_file(&name(number).path(), &segment);
    }
}

fn offset_of(lsn: Lsn) -> usize {
    usize::try_from(geometry().offset_of(lsn)).expect("an offset in a segment is small")
}

/// The masks of record headers, as the table in `seawall_wal::record` says.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

fn position_mask(lsn: Lsn) -> u64 {
    let half = u64::from_le_bytes([0xDB; 8]);
    let timeline = u64::from(TimelineId::FIRST.get());
    // The first timeline began at zero, and has no mark.
    let words = [half, half, timeline ^ 0x5345_4157_414C_4C31, 0, 0, 0];
    let key = words.into_iter().fold(0, |key, word| mix(key ^ word));
    mix(lsn.get() ^ key)
}

fn low_half(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Gives every record of `stream` that has a possible length the checksum of its place. The batch distance in it is
/// taken as what it should come out as.
fn fix_up_records(start: Lsn, stream: &mut [u8]) {
    let mut offset = 0;
    while stream.len() - offset >= RECORD_HEADER_BYTES {
        let left = stream.len() - offset;
        let length = usize::try_from(word(stream, offset)).unwrap_or(usize::MAX);
        if !(RECORD_HEADER_BYTES..=left).contains(&length) {
            return;
        }
        let position = position_mask(geometry().advance(start, offset as u64));
        let record = &mut stream[offset..offset + length];
        let distance = word(record, 8);
        let length_and_distance = u64::from(word(record, 0)) << 32 | u64::from(distance);
        let checksum = crc32c(&record[12..]) ^ low_half(mix(position ^ length_and_distance));
        record[4..8].copy_from_slice(&checksum.to_le_bytes());
        record[8..12].copy_from_slice(&(distance ^ low_half(position >> 32)).to_le_bytes());
        offset += length;
    }
}

fn arc(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn open_reader(disk: &SimulatedDisk, from: Lsn) -> Result<LogReader, LogReadError> {
    LogReader::open(arc(disk), DATABASE, TimelineId::FIRST, SEGMENT_BYTES as u64, from)
}

/// Reads to the end of the log; the places of all records.
fn read_all(
    disk: &SimulatedDisk,
    from: Lsn,
    limit: Option<Lsn>,
) -> Result<(Vec<RecordSpan>, LogEnd), LogReadError> {
    let mut reader = open_reader(disk, from)?;
    if let Some(limit) = limit {
        reader.set_limit(limit);
    }
    let mut spans: Vec<RecordSpan> = Vec::new();
    while let Some(record) = reader.next()? {
        assert_eq!(record.span.start, spans.last().map_or(from, |last| last.end), "records lie end to end");
        assert!(record.span.end > record.span.start, "a record has a length");
        assert!(record.batch_start <= record.span.start, "a batch starts before its records end");
        check_body(record.kind, record.flags, record.body);
        spans.push(record.span);
        assert!(spans.len() <= STREAM_BYTES_MAX, "more records than bytes");
    }
    Ok((spans, reader.finish()))
}

/// Segments with valid headers and these bytes behind them are read to the end; then the log is opened there, goes on,
/// and is read once more.
pub fn records(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    // Near the end of a segment, so that few bytes cross into the next one.
    let room = if choices.has(1) { usize::from(input.u16()) % 2048 } else { SEGMENT_BYTES - HEADER };
    let start = Lsn::new((2 * SEGMENT_BYTES - room) as u64);
    let start = geometry().normalise(start);
    let limit_bytes = u64::from(input.u16());
    let mut stream = input.rest().to_vec();
    stream.truncate(STREAM_BYTES_MAX);
    if !choices.has(0) {
        fix_up_records(start, &mut stream);
    }
    let disk = SimulatedDisk::new(1);
    let count = if choices.has(2) { 1 } else { 3 };
    write_segments(&disk, start, &stream, count);
    if choices.has(3) {
        // Any damage: evidence is then looked for in this segment without asking its header.
        disk.flip_bit(&name(count.min(2)).path(), limit_bytes % HEADER_BYTES, 0);
    }
    if choices.has(4) {
        let number = if choices.has(5) { 1 } else { count.min(2) };
        disk.truncate(&name(number).path(), limit_bytes * 2);
    }
    let limit = choices.has(6).then(|| geometry().advance(start, limit_bytes));
    let Ok((spans, end)) = read_all(&disk, start, limit) else { return };
    if limit.is_none() {
        go_on(&disk, start, &spans, end);
    }
}

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES as u64,
        buffer_bytes: 64 << 10,
        spare_segments: 0,
        ..LogOptions::new(DATABASE, TimelineId::FIRST)
    }
}

/// A log opened at its end takes a record, and has what it had before and that record.
fn go_on(disk: &SimulatedDisk, start: Lsn, spans: &[RecordSpan], end: LogEnd) {
    let Ok(log) = Log::open(arc(disk), options(), end) else { return };
    let mut builder = CommitBuilder::new();
    builder.begin(7);
    builder.put(b"\0\0\0\0\0\0\0\x09key", &[0x5A; 300]);
    let appended = log.append(builder.finish(), |_| Ok::<(), Infallible>(()));
    let Ok((span, ())) = appended.expect("the simulated disk takes everything");
    log.flush_until(span.end).expect("the simulated disk takes everything");
    drop(log);
    let (again, end) = read_all(disk, start, None).expect("what was read can be read again");
    assert_eq!(again.last(), Some(&span), "the new record is the last one");
    assert_eq!(&again[..again.len() - 1], spans, "the records before are what they were");
    assert_eq!(end.lsn, span.end);
}

/// Reads all of a record; what it says can be written and read again.
fn check_body(kind: RecordKind, flags: u8, body: &[u8]) {
    let Ok(record) = Record::decode(kind, flags, body) else { return };
    match record {
        Record::Commit(commit) => check_changes(&commit, body, |builder| builder.begin(commit.time_micros)),
        Record::Prepare(prepare) => check_changes(&prepare.commit, body, |builder| {
            builder.begin_prepare(prepare.commit.time_micros, prepare.gid, prepare.owner, prepare.guards);
        }),
        Record::CommitPrepared(decision) => check_decision(Outcome::Commit, &decision, body),
        Record::RollbackPrepared(decision) => check_decision(Outcome::Rollback, &decision, body),
        Record::Checkpoint(checkpoint) => assert_eq!(checkpoint.prepare().record_bytes(), 14 + body.len()),
        Record::TimelineSwitch(switch) => assert_eq!(switch.prepare().record_bytes(), 14 + body.len()),
        Record::RestorePoint(point) => assert_eq!(point.prepare().record_bytes(), 14 + body.len()),
        Record::BulkLoad(_) | Record::NoOp => {}
        Record::PageImages(images) => {
            let again = PageImages::prepare(images.chunk, images.number, images.entries(), images.stored);
            assert_eq!(again.record_bytes(), 14 + body.len());
        }
    }
}

fn check_decision(outcome: Outcome, decision: &seawall_wal::Decision<'_>, body: &[u8]) {
    check_changes(&decision.commit, body, |builder| {
        builder.begin_decision(outcome, decision.commit.time_micros, decision.prepared, decision.gid);
    });
}

fn check_changes(commit: &seawall_wal::Commit<'_>, body: &[u8], begin: impl FnOnce(&mut CommitBuilder)) {
    assert!(commit.count <= body.len() as u64, "a change takes at least a byte");
    let mut builder = CommitBuilder::new();
    begin(&mut builder);
    let mut row_key = Vec::new();
    let mut errors = 0;
    let mut changes = 0;
    for change in commit.changes() {
        let Ok(change) = change else {
            errors += 1;
            continue;
        };
        changes += 1;
        change.copy_row_key(&mut row_key);
        assert!(row_key.len() <= ROW_KEY_BYTES_MAX, "a key of {} bytes", row_key.len());
        match change.value() {
            Some(value) => {
                assert!(value.len() <= VALUE_BYTES_MAX, "a value of {} bytes", value.len());
                builder.put(&row_key, value);
            }
            None => builder.delete(&row_key),
        }
    }
    assert!(errors <= 1, "nothing comes after an error");
    if errors == 0 {
        assert_eq!(changes, commit.count);
        // Ours may be shorter, as a table id may have been repeated or a number written with too many bytes.
        assert!(builder.finish().record_bytes() <= RECORD_HEADER_BYTES + body.len());
    }
}

/// The body of a record of any kind.
pub fn body(data: &[u8]) {
    let mut input = Input::new(data);
    let (kind, flags) = (input.byte(), input.byte());
    // Most inputs should get past these two.
    let kind = RecordKind::from_byte(kind).or_else(|| RecordKind::from_byte(kind % 9 + 1));
    let Some(kind) = kind else { return };
    check_body(kind, if flags == 1 { 1 } else { 0 }, input.rest());
}

/// The last ones lie past the end of what a log can be.
const NUMBERS: [u64; 6] = [1, 5, 1 << 32, (1 << 46) - 2, u64::MAX >> 16, u64::MAX];

/// A segment whose header page, length and name are changed: refused unless all of them are right.
pub fn segment_header(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let length = u64::from(input.u32());
    let number = NUMBERS[usize::from(choices.number(0, 6))];
    let mut page = header_page(number);
    mutate(&mut page, &mut input);
    if choices.has(3) {
        seal_header(&mut page);
    }
    let disk = SimulatedDisk::new(1);
    let path = name(number).path();
    disk.write_file(&path, &page);
    let length = if choices.has(4) { length % (2 * SEGMENT_BYTES as u64) } else { SEGMENT_BYTES as u64 };
    disk.truncate(&path, length);
    let from = geometry().first_record_of(number);
    let mut ready = header_page(number);
    ready[BEGUN].fill(0);
    let is_right = (page == header_page(number) || page == ready) && length >= SEGMENT_BYTES as u64;
    match open_reader(&disk, from) {
        Ok(mut reader) => while let Ok(Some(_)) = reader.next() {},
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if geometry().is_normal(from) {
        let outcome = read_all(&disk, from, None);
        assert_eq!(outcome.is_ok(), is_right, "{outcome:?}");
        if let Ok((spans, end)) = outcome {
            go_on(&disk, from, &spans, end);
        }
    }
    let text = String::from_utf8_lossy(data.get(5..29).unwrap_or_default()).into_owned();
    if let Some(name) = SegmentName::parse(&text) {
        assert_eq!(name.file_name(), text);
    }
}

/// The history file of a timeline.
pub fn timeline_history(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let Some(timeline) = TimelineId::new(input.u32()) else { return };
    let mut file = input.rest().to_vec();
    if choices.has(0) {
        let checksum = crc32c(&file);
        file.extend_from_slice(format!("# crc32c {checksum:08x}\n").as_bytes());
    }
    let disk = SimulatedDisk::new(1);
    disk.write_file(&TimelineHistory::path(timeline), &file);
    let Ok(history) = TimelineHistory::load(&arc(&disk), timeline) else { return };
    assert_eq!(history.timeline, timeline);
    for fork in &history.forks {
        assert!(history.timeline_at(fork.fork) > fork.parent, "behind a fork its parent has ended");
        assert!(fork.parent < timeline);
    }
    assert_eq!(history.timeline_at(Lsn::MAX), timeline);
    history.store(&arc(&disk)).expect("the simulated disk takes everything");
    let again = TimelineHistory::load(&arc(&disk), timeline).expect("what was stored can be loaded");
    assert_eq!(again, history);
}

/// What a killed process left: records in the segments, and more in both pending files.
static KILLED: LazyLock<SimulatedDisk> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), options()).expect("an empty disk takes a log");
    let mut builder = CommitBuilder::new();
    for index in 0..40_u8 {
        builder.begin(i64::from(index));
        builder.put(b"\0\0\0\0\0\0\0\x09key", &vec![index; 20 + usize::from(index) * 9]);
        let appended = log.append(builder.finish(), |_| Ok::<(), Infallible>(()));
        let Ok((span, ())) = appended.expect("the simulated disk takes everything");
        if index == 9 || index == 19 {
            log.flush_until(span.end).expect("the simulated disk takes everything");
        }
    }
    drop(log);
    disk.copy()
});

/// Changed pending files: what is rescued from them is part of the log afterwards, which goes on.
pub fn pending_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let disk = KILLED.copy();
    let mut rest = input.rest();
    for (number, path) in ["log/pending.1", "log/pending.2"].into_iter().enumerate() {
        let (own, left) = if number == 0 { rest.split_at(rest.len() / 2) } else { (rest, rest) };
        rest = left;
        let mut file = disk.read_file(path).expect("the log has made it");
        mutate(&mut file, &mut Input::new(own));
        if !choices.has(0) {
            file[12..16].fill(0);
            let checksum = crc32c(&file[..512]);
            file[12..16].copy_from_slice(&checksum.to_le_bytes());
        }
        if choices.has(1) {
            file.truncate(file.len() - own.len().min(file.len()));
        }
        disk.write_file(path, &file);
    }
    let from = geometry().first_lsn();
    let read = |pending| -> Result<(Vec<RecordSpan>, LogEnd), LogReadError> {
        let mut reader = open_reader(&disk, from)?;
        reader.use_pending(pending);
        let mut spans = Vec::new();
        while let Some(record) = reader.next()? {
            spans.push(record.span);
        }
        assert!(reader.rescued_records() <= spans.len() as u64);
        Ok((spans, reader.finish()))
    };
    let shown = read(PendingUse::Read);
    let rescued = read(PendingUse::Rescue);
    match (&shown, rescued) {
        (Ok((shown, _)), Ok((spans, end))) => {
            assert!(*shown == spans && spans.len() >= 20, "{} shown, {} rescued", shown.len(), spans.len());
            go_on(&disk, from, &spans, end);
        }
        (Err(shown), Err(rescued)) => assert_eq!(shown.to_string(), rescued.to_string()),
        (_, rescued) => panic!("{shown:?}, {rescued:?}"),
    }
}

/// A log with two holds, closed.
static HELD: LazyLock<SimulatedDisk> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), options()).expect("an empty disk takes a log");
    let permanent = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    let limited = HoldOptions { limit_bytes: Some(1 << 20), ..permanent };
    for (name, hold) in [("a", permanent), ("standby b", limited)] {
        log.hold(name, hold, geometry().first_lsn(), 7).expect("the log is there from its beginning on");
    }
    disk
});

/// The file of those who hold the log, changed, checksums of the copies made right or not: what is accepted is held.
pub fn holds_file(data: &[u8]) {
    const COPY_BYTES: usize = 8192;
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let disk = HELD.copy();
    let mut file = disk.read_file("log/holds").expect("the log has made it");
    let mut rest = input.rest();
    for (copy, is_sealed) in file.chunks_mut(COPY_BYTES).zip([choices.has(0), choices.has(1)]) {
        let (own, left) = if is_sealed { rest.split_at(rest.len() / 2) } else { (rest, rest) };
        rest = left;
        mutate(copy, &mut Input::new(own));
        if is_sealed {
            let checksum = crc32c(&copy[4..]);
            copy[..4].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    if choices.has(2) {
        file.truncate(file.len() - rest.len().min(file.len()));
    }
    disk.write_file("log/holds", &file);
    let holds = match read_holds(&disk, DATABASE) {
        Ok(holds) => holds,
        Err(error) => return assert!(error.to_string().contains("log/holds"), "{error}"),
    };
    let end =
        LogEnd { lsn: geometry().first_lsn(), durable: geometry().first_lsn(), reason: EndReason::NoRecord };
    let log = Log::open(arc(&disk), options(), end).expect("what can be read can be opened");
    let permanent = holds.iter().filter(|hold| hold.options.lifetime == HoldLifetime::Permanent);
    for hold in permanent {
        // Held, or lost: before the beginning there is no log.
        let is_held = log.find_hold(&hold.name).is_ok();
        assert_eq!(is_held, hold.lost_at.is_none() && geometry().segment_of(hold.position) >= 1, "{hold:?}");
        log.release_hold(&hold.name).expect("it is there, held or lost");
    }
    assert!(log.holds().is_empty());
    let left = read_holds(&disk, DATABASE).expect("it was left as it was, or written anew");
    assert!(left.iter().all(|hold| hold.options.lifetime == HoldLifetime::Process), "{left:?}");
}
