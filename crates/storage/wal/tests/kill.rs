//! What was appended survives the end of the process; a power loss leaves a prefix, and never brings back what was given
//! up.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "kill/hooked_disk.rs"]
mod hooked_disk;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::{Found, append, arc, commit, create, geometry, open_reader, options, read_reader};
use hooked_disk::HookedDisk;
use seawall_codec::checksum::crc32c;
use seawall_simulation::{CallKind, FaultKind, Operation, PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_sync::Mutex;
use seawall_types::DatabaseId;
use seawall_wal::{
    FORMAT_VERSION, Log, LogEnd, LogOptions, LogReadError, OpenLog, PendingFileError, PendingUse,
    PreparedRecord, RecordSpan,
};

const PENDING: [&str; 2] = ["log/pending.1", "log/pending.2"];
/// Where the buffer starts in a pending file.
const DATA: u64 = 4096;

fn small() -> LogOptions {
    LogOptions { buffer_bytes: 64 << 10, ..options() }
}

fn read(disk: &SimulatedDisk, pending: PendingUse) -> Result<(Vec<Found>, LogEnd), LogReadError> {
    let mut reader = open_reader(disk, geometry().first_lsn())?;
    reader.use_pending(pending);
    read_reader(reader)
}

fn values(found: &[Found]) -> Vec<Vec<u8>> {
    found.iter().map(|found| found.value.clone()).collect()
}

fn rescue(disk: &SimulatedDisk) -> (Vec<Vec<u8>>, LogEnd) {
    let (found, end) = read(disk, PendingUse::Rescue).unwrap_or_else(|error| panic!("{error}"));
    (values(&found), end)
}

/// Appends a record that a kill does not take.
fn keep(log: &Log, value: &[u8]) -> RecordSpan {
    let span = append(log, value).unwrap();
    log.survive_kill(span.end).unwrap();
    span
}

/// What a run has done.
#[derive(Clone, Debug, Default)]
struct Done {
    /// Each unlike all others, in order.
    appended: Vec<Vec<u8>>,
    /// How many of them survive a kill, and a power loss.
    safe: usize,
    durable: usize,
}

impl Done {
    fn check(&self, found: &[Vec<u8>], at_least: usize, place: &str) {
        assert!(self.appended.starts_with(found), "{place}: not a prefix of what was appended");
        let count = found.len();
        assert!(count >= at_least, "{place}: {count} of {at_least} records that must be there");
    }
}

/// Appends `count` records of all sizes, flushing now and then.
fn work(log: &Log, disk: &SimulatedDisk, random: &mut SeededRandom, done: &mut Done, count: usize) {
    for _ in 0..count {
        let length = 8 + *random.pick(&[0, 10, 100, 1000, 9000, 30_000, 70_000]);
        let value = random.bytes(length);
        // It may be in the log even if the answer is an error.
        done.appended.push(value.clone());
        let Ok(span) = append(log, &value) else { return };
        if log.survive_kill(span.end).is_err() || disk.crashed() {
            return;
        }
        done.safe = done.appended.len();
        if random.chance(1, 6) {
            if log.flush_until(span.end).is_err() {
                return;
            }
            done.durable = done.appended.len();
        }
    }
}

#[test]
fn a_kill_at_any_call_loses_nothing_that_was_appended() {
    let template = SimulatedDisk::new(1);
    drop(Log::create(arc(&template), small()).unwrap());
    let run = |disk: &SimulatedDisk| {
        let mut done = Done::default();
        let (_, end) = read(disk, PendingUse::Ignore).unwrap();
        if let Ok(log) = Log::open(arc(disk), small(), end) {
            work(&log, disk, &mut SeededRandom::new(4), &mut done, 120);
        }
        done
    };
    let undisturbed = template.copy();
    let done = run(&undisturbed);
    assert!(done.safe > done.durable && done.durable > 10, "{} {}", done.safe, done.durable);
    let calls = undisturbed.calls();
    assert!(calls > 60, "{calls} calls");
    for call in 0..=calls {
        let disk = template.copy();
        disk.crash_at(call);
        let done = run(&disk);
        disk.crash();
        let place = format!("call {call}");
        let killed = disk.copy();
        // A reader sees it, and changes nothing.
        let (found, end) = read(&killed, PendingUse::Read).unwrap();
        assert_eq!(killed.calls(), 0, "{place}");
        done.check(&values(&found), done.safe, &place);
        assert_eq!(rescue(&killed), (values(&found), end), "{place}");
        // From now on no power loss takes it.
        let lost = killed.after_power_loss(PowerLoss::LoseAll);
        Log::open(arc(&killed), small(), end).unwrap();
        done.check(&rescue(&killed.after_power_loss(PowerLoss::LoseAll)).0, found.len(), &place);
        done.check(&rescue(&lost).0, done.durable, &place);
        for seed in 0..3 {
            let lost = disk.after_power_loss(PowerLoss::Random(seed << 32 | call));
            done.check(&rescue(&lost).0, done.durable, &format!("{place}, seed {seed}"));
        }
    }
}

/// A batch on its way to the disk, and records in the other buffer.
fn two_buffers() -> (SimulatedDisk, Done) {
    let disk = SimulatedDisk::new(1);
    let hooked = HookedDisk::new(disk.clone());
    let log: Arc<OnceLock<OpenLog>> = Arc::default();
    log.set(Log::create(hooked.disk(), small()).unwrap()).unwrap();
    let done = Arc::new(Mutex::new(Done::default()));
    let killed: Arc<Mutex<Option<SimulatedDisk>>> = Arc::default();
    let put = |log: &Log, done: &Mutex<Done>, number: u8| {
        let value = vec![number; 700 + usize::from(number)];
        keep(log, &value);
        let mut done = done.lock();
        done.appended.push(value);
        done.safe += 1;
    };
    let opened = log.get().unwrap();
    (0..3).for_each(|number| put(opened, &done, number));
    opened.flush_until(opened.appended()).unwrap();
    done.lock().durable = 3;
    (3..20).for_each(|number| put(opened, &done, number));
    {
        let (log, done, killed) = (Arc::clone(&log), Arc::clone(&done), Arc::clone(&killed));
        let disk = disk.clone();
        hooked.at_next(Operation::WriteDurable, move || {
            (20..40).for_each(|number| put(log.get().unwrap(), &done, number));
            *killed.lock() = Some(disk.copy());
        });
    }
    opened.flush_until(opened.appended()).unwrap();
    let (disk, done) = (killed.lock().take().unwrap(), done.lock().clone());
    (disk, done)
}

#[test]
fn a_kill_while_a_batch_is_on_its_way_loses_neither_it_nor_the_next() {
    let (killed, done) = two_buffers();
    assert_eq!((done.durable, done.safe), (3, 40));
    let (found, end) = rescue(&killed.copy());
    assert_eq!(found, done.appended);
    // In each call of the recovery the power goes.
    let undisturbed = killed.copy();
    drop(Log::open(arc(&undisturbed), small(), rescue(&undisturbed).1).unwrap());
    assert!(undisturbed.calls() > 8, "{} calls", undisturbed.calls());
    for call in 0..undisturbed.calls() {
        let disk = killed.copy();
        disk.crash_at(call);
        if let Ok((_, end)) = read(&disk, PendingUse::Rescue) {
            drop(Log::open(arc(&disk), small(), end));
        }
        disk.crash();
        assert_eq!(rescue(&disk.copy()), (done.appended.clone(), end), "killed twice, call {call}");
        for seed in 0..20 {
            let lost = disk.after_power_loss(PowerLoss::Random(seed << 32 | call));
            done.check(&rescue(&lost).0, done.durable, &format!("call {call}, seed {seed}"));
        }
    }
}

#[test]
fn any_mixture_of_pages_gives_a_prefix() {
    let (disk, done) = two_buffers();
    let mut counts = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let lost = disk.after_power_loss(PowerLoss::Random(seed));
        let (found, _) = rescue(&lost);
        done.check(&found, done.durable, &format!("seed {seed}"));
        counts.insert(found.len());
    }
    assert!(counts.len() > 3, "{counts:?}: the mixtures are all alike");
}

/// Several lives, each ended by a kill or a power loss: what is found is what was found at the start of the life and a
/// prefix of what it has appended. Nothing that was missing comes back.
#[test]
fn nothing_that_was_given_up_comes_back() {
    let (mut kills, mut losses) = (0, 0);
    for seed in seeds(300) {
        let mut random = SeededRandom::new(seed);
        let mut disk = SimulatedDisk::new(seed);
        drop(Log::create(arc(&disk), small()).unwrap());
        let mut done = Done::default();
        for life in 0..5 {
            let place = format!("SEAWALL_SEED={seed}, life {life}");
            let (found, end) = rescue(&disk);
            done.check(&found, done.safe, &place);
            done = Done { safe: found.len(), durable: found.len(), appended: found };
            let log = Log::open(arc(&disk), small(), end).unwrap();
            let calls = disk.calls();
            disk.crash_at(calls + random.range(1..40));
            let count = usize::try_from(random.range(1..40)).unwrap();
            // The same lengths again and again, so that one life's records lie where another's did.
            let mut sizes = SeededRandom::new(random.below(2));
            for _ in 0..count {
                let mut value = random.bytes(8);
                value.resize(8 + *sizes.pick(&[100, 100, 100, 3000]), 7);
                done.appended.push(value.clone());
                let Ok(span) = append(&log, &value) else { break };
                if log.survive_kill(span.end).is_err() || disk.crashed() {
                    break;
                }
                done.safe = done.appended.len();
                if random.chance(1, 10) {
                    if log.flush_until(span.end).is_err() {
                        break;
                    }
                    done.durable = done.appended.len();
                }
            }
            disk.crash();
            drop(log);
            if random.chance(1, 3) {
                kills += 1;
                disk = disk.copy();
            } else {
                losses += 1;
                done.safe = done.durable;
                disk = disk.after_power_loss(PowerLoss::Random(random.next_u64()));
            }
        }
    }
    assert!(kills > 200 && losses > 200, "{kills} {losses}");
}

/// Life one leaves its second record in the pending file and not its first; life two grows the log exactly up to the
/// second one's place, and loses power.
#[test]
fn a_record_of_an_earlier_life_is_gone_before_the_log_grows_up_to_it() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"durable").unwrap();
    let first = keep(&log, &[1; 100]);
    let second = keep(&log, &[2; 100]);
    drop(log);
    let life_one = disk.copy();
    // The power goes; of the first record's page there is an old version.
    let path = PENDING.into_iter().find(|path| holds(&life_one, path, &[2; 100])).unwrap();
    let lost = life_one.after_power_loss(PowerLoss::KeepAll);
    let place = offset_of(&lost, path, &[1; 100]);
    lost.overwrite(path, place, &[0; 100]);
    let (found, end) = rescue(&lost);
    assert_eq!((found.len(), end.lsn), (1, first.start));
    let log = Log::open(arc(&lost), options(), end).unwrap();
    let third = append(&log, &[3; 100]).unwrap();
    assert_eq!(third.end, second.start);
    log.flush_until(third.end).unwrap();
    for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(7)] {
        let (found, end) = rescue(&lost.after_power_loss(outcome));
        assert_eq!((found.len(), end.lsn), (2, third.end), "{outcome:?}");
    }
    // It is the zeros that keep it away: with life one's file it would be believed.
    let believed = lost.after_power_loss(PowerLoss::LoseAll);
    believed.write_file(path, &life_one.read_file(path).unwrap());
    assert_eq!(rescue(&believed).1.lsn, second.end);
}

fn holds(disk: &SimulatedDisk, path: &str, bytes: &[u8]) -> bool {
    disk.read_file(path).unwrap().windows(bytes.len()).any(|window| window == bytes)
}

fn offset_of(disk: &SimulatedDisk, path: &str, bytes: &[u8]) -> u64 {
    let file = disk.read_file(path).unwrap();
    file.windows(bytes.len()).position(|window| window == bytes).unwrap() as u64
}

#[test]
fn batches_that_are_durable_are_not_found_again() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    for number in 0..200_u8 {
        let span = keep(&log, &[number; 500]);
        log.flush_until(span.end).unwrap();
    }
    drop(log);
    assert!(PENDING.iter().any(|path| holds(&disk, path, &[199; 500])));
    let before = disk.calls();
    let (found, end) = rescue(&disk);
    assert_eq!((found.len(), disk.calls()), (200, before));
    drop(Log::open(arc(&disk), options(), end).unwrap());
    for path in PENDING {
        // But for the carried bytes of the last block.
        assert!(disk.read_file(path).unwrap()[8192..].iter().all(|&byte| byte == 0), "{path}");
    }
}

#[test]
fn a_batch_whose_write_failed_is_decided_by_recovery() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"durable").unwrap();
    keep(&log, b"in doubt");
    disk.fail_next(FaultKind::WriteError);
    log.flush_until(log.appended()).unwrap_err();
    assert!(append(&log, b"refused").is_err());
    drop(log);
    assert_eq!(rescue(&disk.copy()).0, [&b"durable"[..], b"in doubt"]);
}

/// A record that is too long for the buffer has no place there: it is flushed.
#[test]
fn a_long_record_is_flushed_before_it_counts_as_safe() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), small()).unwrap();
    let short = append(&log, &[1; 1000]).unwrap();
    log.survive_kill(short.end).unwrap();
    assert_eq!(log.statistics().batches, 0);
    let long = append(&log, &[2; 100_000]).unwrap();
    let behind = append(&log, &[3; 10]).unwrap();
    assert_eq!(rescue(&disk.copy()).0.len(), 1);
    log.survive_kill(behind.end).unwrap();
    assert_eq!((log.statistics().batches, log.flushed()), (1, behind.end));
    let next = append(&log, &[4; 10]).unwrap();
    log.survive_kill(next.end).unwrap();
    assert_eq!(log.statistics().batches, 1, "the buffer is an ordinary one again");
    assert!(long.end <= behind.start);
    assert_eq!(rescue(&disk.copy()).0.len(), 4);
}

#[test]
fn a_record_that_is_moved_survives_a_kill_as_a_copied_one_does() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), small()).unwrap();
    let values = [vec![1; 100], vec![2; 25_000], vec![3; 7], vec![4; 20_000], vec![5; 3000]];
    for value in &values {
        keep(&log, value);
    }
    assert_eq!(log.statistics().batches, 0, "there was room for all");
    assert_eq!(rescue(&disk.copy()).0, values);
    log.flush_until(log.appended()).unwrap();
    let (found, _) = read(&disk.after_power_loss(PowerLoss::LoseAll), PendingUse::Ignore).unwrap();
    assert_eq!(self::values(&found), values);
}

#[test]
fn a_long_record_is_moved_into_the_log_and_a_short_one_copied() {
    let log = create(&SimulatedDisk::new(1));
    for (body_bytes, is_moved) in [(100, false), (60_000, false), (70_000, true), (2 << 20, true)] {
        let mut record = PreparedRecord::no_op(body_bytes);
        let refused = log.append(&mut record, |_| Err::<(), _>("not now")).unwrap();
        assert_eq!(refused, Err("not now"));
        log.append(&mut record, |_| Ok::<_, ()>(())).unwrap().unwrap();
        assert_eq!(record.record_bytes() == 0, is_moved, "{body_bytes}");
    }
}

/// Where the operating system lets a store into a mapped file wait, nobody else waits.
#[test]
fn nobody_waits_while_the_pending_file_is_written() {
    let hooked = HookedDisk::new(SimulatedDisk::new(1));
    let log = Arc::new(Log::create(hooked.disk(), small()).unwrap());
    let durable = Arc::new(AtomicBool::new(false));
    {
        let (log, durable) = (Arc::clone(&log), Arc::clone(&durable));
        hooked.at_next(CallKind::WriteMapped, move || {
            let (told, end) = std::sync::mpsc::channel();
            let log = Arc::clone(&log);
            std::thread::spawn(move || told.send(commit(&log, b"another").is_ok()));
            durable.store(end.recv_timeout(Duration::from_secs(30)) == Ok(true), Ordering::SeqCst);
        });
    }
    keep(&log, b"one");
    assert!(durable.load(Ordering::SeqCst), "another thread could not commit");
}

/// As after a failed write of the operating system's own, which leaves what the disk has.
#[test]
fn a_batch_is_written_as_it_was_appended_whatever_became_of_the_pending_file() {
    let disk = SimulatedDisk::new(1);
    let hooked = HookedDisk::new(disk.clone());
    let log = Log::create(hooked.disk(), small()).unwrap();
    hooked.lose_mapped_writes();
    let span = keep(&log, b"one");
    log.flush_until(span.end).unwrap();
    let (found, _) = read(&disk, PendingUse::Ignore).unwrap();
    assert_eq!(values(&found), [b"one"]);
}

#[test]
fn other_buffer_sizes_and_missing_files_do_no_harm() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    keep(&log, b"one");
    drop(log);
    for (number, buffer_bytes) in [64 << 10, 512 << 10, 100_000].into_iter().enumerate() {
        let (found, end) = rescue(&disk);
        assert_eq!(found.len(), number + 1);
        // A crash while files of another size were made.
        disk.write_file("log/pending.2.new", &[7; 5000]);
        let log = Log::open(arc(&disk), LogOptions { buffer_bytes, ..options() }, end).unwrap();
        assert_eq!(disk.read_file("log/pending.2.new"), None);
        keep(&log, b"more");
        drop(log);
    }
    PENDING.iter().for_each(|path| assert!(disk.remove_file(path)));
    let (found, end) = rescue(&disk);
    assert_eq!(found.len(), 3);
    commit(&Log::open(arc(&disk), options(), end).unwrap(), b"last").unwrap();
    assert_eq!(rescue(&disk).0.len(), 4);
}

#[test]
fn records_are_found_behind_a_damaged_header() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let appended = [&b"one"[..], b"two", b"three"];
    for value in appended {
        keep(&log, value);
    }
    drop(log);
    let count = |disk: &SimulatedDisk, pending| {
        let mut reader = open_reader(disk, geometry().first_lsn()).unwrap();
        reader.use_pending(pending);
        while reader.next().unwrap().is_some() {}
        (reader.rescued_records(), reader.pending_damages())
    };
    assert_eq!(count(&disk, PendingUse::Ignore).0, 0);
    for offset in [0, 3, 8, 12, 20, 33, 100, 511] {
        let damaged = disk.copy();
        PENDING.iter().for_each(|path| damaged.flip_bit(path, offset, 1));
        let (records, damages) = count(&damaged, PendingUse::Read);
        assert_eq!((records, damages.len()), (3, 2), "offset {offset}");
        for (damage, path) in damages.iter().zip(PENDING) {
            assert!(matches!(damage, LogReadError::Pending { path: found, .. } if found == path), "{damage}");
        }
        let (found, end) = rescue(&damaged);
        assert_eq!(found, appended, "offset {offset}");
        // They are made anew, and then nothing is wrong with them.
        drop(Log::open(arc(&damaged), options(), end).unwrap());
        assert_eq!(rescue(&damaged).0, appended);
        assert_eq!(count(&damaged, PendingUse::Read).1.len(), 0, "offset {offset}");
    }
}

#[test]
fn a_pending_file_that_is_not_ours_is_refused_by_name() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    keep(&log, b"one");
    drop(log);
    let refusal = |damage: &dyn Fn(&SimulatedDisk)| {
        let damaged = disk.copy();
        damage(&damaged);
        match read(&damaged, PendingUse::Rescue) {
            Err(LogReadError::Pending { path, source }) => {
                assert!(PENDING.contains(&path.as_str()));
                source
            }
            other => panic!("{other:?}"),
        }
    };
    let newer = |disk: &SimulatedDisk| {
        let mut header = disk.read_file(PENDING[1]).unwrap()[..512].to_vec();
        header[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        header[12..16].fill(0);
        let checksum = crc32c(&header);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        disk.overwrite(PENDING[1], 0, &header);
    };
    assert!(
        matches!(refusal(&newer), PendingFileError::Version { found, .. } if found == FORMAT_VERSION + 1)
    );
    let header_and_seal = |disk: &SimulatedDisk| {
        disk.flip_bit(PENDING[0], 33, 1);
        disk.flip_bit(PENDING[0], 521, 1);
    };
    assert!(matches!(refusal(&header_and_seal), PendingFileError::Checksum { .. }));
    for bytes in [0, 100, 4095, 4096, 50_000] {
        let refused = refusal(&|disk| disk.truncate(PENDING[0], bytes));
        assert!(matches!(refused, PendingFileError::Length { .. }), "{bytes}: {refused}");
    }
    let foreign = SimulatedDisk::new(2);
    let database = DatabaseId::from_bytes([9; 16]);
    drop(Log::create(arc(&foreign), LogOptions { database, ..options() }).unwrap());
    let file = foreign.read_file(PENDING[0]).unwrap();
    let refused = refusal(&|disk| disk.write_file(PENDING[0], &file));
    assert!(matches!(refused, PendingFileError::Database { .. }));
    // Damage behind the header is as good as a power loss: a prefix.
    for offset in [512, 520, DATA, DATA + 5, DATA + 20] {
        let damaged = disk.copy();
        PENDING.iter().for_each(|path| damaged.flip_bit(path, offset, 0));
        assert_eq!(rescue(&damaged).0.len(), 0, "offset {offset}");
    }
}
