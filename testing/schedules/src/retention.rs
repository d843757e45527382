//! The log is cleaned up by two at a time, under a writer that takes the recycled segments, and a reader that holds its position.
//!
//! Checked: the reader finds every record from its hold on, whatever was recycled under it; after a power loss at any point
//! everything that was acknowledged is read from the redo point on, and no record of a segment's former life.

use std::ops::ControlFlow;
use std::sync::Arc;

use seawall_io::Disk;
use seawall_simulation::SimulatedDisk;
use seawall_sync::{explored, thread};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{FlushBy, HoldOptions, Log, LogOptions, LogReader};

use crate::group_commit::{DATABASE, SEGMENT_BYTES, append, log_options, read, read_log};
use crate::world::{Shared, pointed, power_loss, shared, wait_a_while};

const RECORDS: u8 = 14;
/// Two of them and a bit fill a segment.
const RECORD_BYTES: usize = 24_000;

#[derive(Debug, Default)]
struct Told {
    appended: Vec<(Lsn, u8)>,
    acknowledged: Lsn,
    redo_point: Lsn,
    losses: Vec<Loss>,
}

/// What had been told when the power went, and what the disk may hold then.
#[derive(Debug)]
struct Loss {
    redo_point: Lsn,
    acknowledged: Lsn,
    disk: SimulatedDisk,
}

impl Told {
    fn lose_power(&mut self, disk: &SimulatedDisk, seed: u64) {
        let (redo_point, acknowledged) = (self.redo_point, self.acknowledged);
        self.losses.push(Loss { redo_point, acknowledged, disk: power_loss(disk, seed) });
    }
}

pub(crate) fn against_writer_and_reader(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let options = LogOptions { spare_segments: seed % 2, ..log_options(FlushBy::Caller) };
    let log = Log::create(pointed(&disk), options).unwrap();
    let (log, told) = (Arc::new(log), shared::<Told>());
    let first = log.appended();
    told.lock().unwrap().redo_point = first;
    let hold = log.hold("reader", HoldOptions::default(), first, 0).unwrap();
    let writer = {
        let (log, told, disk) = (Arc::clone(&log), Arc::clone(&told), disk.clone());
        thread::spawn(move || (0..RECORDS).for_each(|name| write_one(&log, &told, &disk, name)))
    };
    let mut threads: Vec<_> = (0..2)
        .map(|_| {
            let (log, told) = (Arc::clone(&log), Arc::clone(&told));
            thread::spawn(move || (0..5).for_each(|_| clean(&log, &told)))
        })
        .collect();
    let reader = {
        let (log, told) = (Arc::clone(&log), Arc::clone(&told));
        let disk: Arc<dyn Disk> = pointed(&disk);
        thread::spawn(move || {
            let mut position = first;
            for _ in 0..4 {
                let limit = log.flushed();
                let reader =
                    LogReader::open(Arc::clone(&disk), DATABASE, TimelineId::FIRST, SEGMENT_BYTES, position);
                let found = read(reader.unwrap(), Some(limit));
                let wanted: Vec<_> = {
                    let told = told.lock().unwrap();
                    let between = |(end, _): &&(Lsn, u8)| *end > position && *end <= limit;
                    told.appended.iter().filter(between).copied().collect()
                };
                assert_eq!(found, wanted, "between {position} and {limit}");
                position = limit;
                hold.advance(position);
                log.check_hold("reader", &hold).unwrap();
            }
        })
    };
    let power = {
        let (disk, told) = (disk.clone(), Arc::clone(&told));
        thread::spawn(move || {
            wait_a_while(seed.wrapping_mul(37) % 800);
            told.lock().unwrap().lose_power(&disk, seed);
        })
    };
    threads.extend([writer, reader]);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    power.join().unwrap();
    log.close().unwrap();
    let told = told.lock().unwrap();
    check_log(&read_log(&disk, told.redo_point, None), &told, told.redo_point, log.flushed());
    for loss in &told.losses {
        check_log(&read_log(&loss.disk, loss.redo_point, None), &told, loss.redo_point, loss.acknowledged);
    }
}

fn write_one(log: &Log, told: &Shared<Told>, disk: &SimulatedDisk, name: u8) {
    let note = |span: seawall_wal::RecordSpan| told.lock().unwrap().appended.push((span.end, name));
    let span = append(log, &vec![name; RECORD_BYTES], note);
    log.flush_until(span.end).unwrap();
    let mut told = told.lock().unwrap();
    told.acknowledged = span.end;
    // The power may go the very moment that somebody is told.
    told.lose_power(disk, u64::from(name));
}

/// A checkpoint has ended: nothing that is durable now is needed for recovery.
fn clean(log: &Log, told: &Shared<Told>) {
    explored::point();
    let redo_point = log.flushed();
    {
        let mut told = told.lock().unwrap();
        told.redo_point = told.redo_point.max(redo_point);
    }
    log.redo_point_moved(redo_point);
    log.clean_up(&mut || ControlFlow::Continue(())).unwrap();
}

/// `found` are the records from `redo_point` on, in order, without a gap, and at least up to `acknowledged`.
fn check_log(found: &[(Lsn, u8)], told: &Told, redo_point: Lsn, acknowledged: Lsn) {
    let wanted: Vec<_> = told.appended.iter().filter(|(end, _)| *end > redo_point).copied().collect();
    assert!(wanted.starts_with(found), "{found:?} is no prefix of {wanted:?}");
    let survived = found.last().map_or(redo_point, |(end, _)| *end);
    assert!(survived >= acknowledged, "acknowledged up to {acknowledged}, found up to {survived}");
}
