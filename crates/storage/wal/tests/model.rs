//! Random appends, flushes, clean-ups, crashes and reopens against a plain vector: what is read back is a prefix of what
//! was appended, and holds everything that was acknowledged (invariants 1, 2, 3, 9, 10).
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Found, SEGMENT_BYTES, append, arc, geometry, options, read_from};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::Lsn;
use seawall_wal::{HEADER_BYTES, Log, LogEnd, LogOptions};

struct Model {
    records: Vec<Found>,
    acknowledged: Lsn,
    /// Nothing before is needed.
    redo: Lsn,
}

impl Model {
    fn check(&mut self, seed: u64, life: u64, found: &[Found], end: LogEnd) {
        let first = self.records.partition_point(|record| record.span.start < self.redo);
        let expected = &self.records[first..];
        assert!(found.len() <= expected.len(), "seed {seed}, life {life}: records that were never appended");
        assert_eq!(found, &expected[..found.len()], "seed {seed}, life {life}");
        assert!(end.lsn >= self.acknowledged, "seed {seed}, life {life}: {} lost", self.acknowledged);
        let kept = first + found.len();
        assert!(self.records.get(kept).is_none_or(|record| record.span.start == end.lsn));
        // What the crash took never was.
        self.records.truncate(kept);
        self.acknowledged = end.lsn;
    }
}

fn length(random: &mut SeededRandom) -> usize {
    let limit = *random.pick(&[20, 20, 20, 600, 5000, 30_000, 200_000]);
    usize::try_from(random.below(limit)).unwrap()
}

/// Works until the power goes; every call may fail with that.
fn live(log: &Log, model: &mut Model, random: &mut SeededRandom, disk: &SimulatedDisk) {
    for _ in 0..random.range(5..80) {
        if disk.crashed() || log.poison_cause().is_some() {
            return;
        }
        match random.below(20) {
            0..12 => {
                let value = if random.chance(1, 4) {
                    vec![0; length(random)]
                } else {
                    let length = length(random);
                    random.bytes(length)
                };
                // An append that fails has appended nothing.
                if let Ok(span) = append(log, &value) {
                    model.records.push(Found { span, value });
                }
            }
            12..17 => {
                let end = log.appended();
                if log.flush_until(end).is_ok() {
                    model.acknowledged = model.acknowledged.max(end);
                }
            }
            17 => drop(log.prepare_ahead()),
            _ => {
                let mut durable = model.records.iter().filter(|record| record.span.end <= log.flushed());
                if let Some(record) = durable.next_back() {
                    model.redo = record.span.start.max(model.redo);
                    drop(log.retain_from(model.redo));
                }
            }
        }
    }
}

fn outcome(random: &mut SeededRandom) -> PowerLoss {
    match random.below(6) {
        0 => PowerLoss::LoseAll,
        1 => PowerLoss::KeepAll,
        _ => PowerLoss::Random(random.next_u64()),
    }
}

fn run(seed: u64) {
    let mut random = SeededRandom::new(seed);
    let options = LogOptions { spare_segments: random.below(4), buffer_bytes: 64 << 10, ..options() };
    let mut disk = SimulatedDisk::new(seed);
    // Some logs come to 4 GiB.
    let first = match seed % 5 {
        0 => Lsn::new((1 << 32) - 2 * SEGMENT_BYTES + HEADER_BYTES),
        _ => geometry().first_lsn(),
    };
    let mut log = Log::create_at(arc(&disk), options.clone(), first).unwrap();
    let mut model = Model { records: Vec::new(), acknowledged: first, redo: first };
    for life in 0..8 {
        if random.chance(3, 4) {
            disk.crash_at(disk.calls() + random.below(120));
        }
        live(&log, &mut model, &mut random, &disk);
        drop(log);
        disk = disk.after_power_loss(outcome(&mut random));
        let read = |disk: &SimulatedDisk, model: &Model| {
            let result = read_from(disk, model.redo);
            result.unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"))
        };
        let (found, mut end) = read(&disk, &model);
        model.check(seed, life, &found, end);
        // Crashes while it is opened change nothing.
        while random.chance(1, 3) {
            disk.crash_at(disk.calls() + random.below(6));
            drop(Log::open(arc(&disk), options.clone(), end));
            disk = disk.after_power_loss(outcome(&mut random));
            let (found, again) = read(&disk, &model);
            assert_eq!(again.lsn, end.lsn, "seed {seed}, life {life}");
            model.check(seed, life, &found, again);
            end = again;
        }
        log = Log::open(arc(&disk), options.clone(), end).unwrap();
    }
}

#[test]
fn what_recovery_reads_is_a_prefix_that_holds_all_that_was_acknowledged() {
    let count = std::env::var("SEAWALL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    for seed in seeds(count) {
        run(seed);
    }
}
