//! What a sender gives makes a standby, over simulated disks that lose power, and follows a promotion.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;

use seawall_crash_harness::{environment, open, small_options, template};
use seawall_engine::{Database, DatabaseDirectory, HoldKind, HoldLifetime, HoldOptions, LogHold};
use seawall_replication::message::{FromSender, Progress, status};
use seawall_replication::{Sender, SenderError, Step};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::{Lsn, TimelineId};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(database: &Database) -> Rows {
    let snapshot = database.snapshot();
    let Ok(table) = snapshot.table("t") else { return Rows::new() };
    let rows = snapshot.range::<&[u8]>(&table, ..);
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn follow(disk: &SimulatedDisk) -> Database {
    DatabaseDirectory::at(environment(Arc::new(disk.clone()))).follow(small_options()).unwrap()
}

struct Pair {
    random: SeededRandom,
    primary: Database,
    hold: LogHold,
    standby_disk: SimulatedDisk,
    standby: Database,
    sender: Sender,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let primary_disk = template(&small_options());
        let primary = open(&primary_disk, &small_options());
        let options = HoldOptions {
            kind: HoldKind::Standby,
            lifetime: HoldLifetime::Permanent,
            ..HoldOptions::default()
        };
        let hold = primary.log().hold("standby", options, None).unwrap();
        primary.open_or_create_table("t").unwrap();
        let standby_disk = primary_disk.after_power_loss(PowerLoss::LoseAll);
        let standby = follow(&standby_disk);
        let sender = Sender::begin(&primary, wanted(&standby), None).unwrap();
        Pair { random: SeededRandom::new(seed), primary, hold, standby_disk, standby, sender }
    }

    fn write(&mut self) {
        let table = self.primary.table("t").unwrap();
        let key = self.random.below(100).to_be_bytes();
        let length = usize::try_from(self.random.below(9000)).unwrap();
        self.primary.put(&table, key, self.random.bytes(length)).unwrap();
    }

    /// Sends a message; whether there was one.
    fn send(&mut self) -> bool {
        let mut message = Vec::new();
        if self.sender.next(&mut message, 0).unwrap() == Step::Idle {
            return false;
        }
        let FromSender::Data { start, bytes, .. } = FromSender::parse(&message).unwrap() else {
            panic!("no data")
        };
        self.standby.standby().unwrap().receive(start, bytes).unwrap();
        true
    }

    fn acknowledge(&mut self) {
        let standby = self.standby.standby().unwrap();
        let flushed = standby.sync().unwrap();
        let progress = Progress { written: flushed, flushed, applied: standby.apply().unwrap() };
        self.sender.take(&status(progress, 0, false), 0).unwrap();
        assert_eq!(self.sender.progress(), progress);
        self.hold.advance(flushed).unwrap();
    }

    fn lose_standby(&mut self) {
        let left = self.standby_disk.after_power_loss(PowerLoss::Random(self.random.next_u64()));
        self.standby_disk.crash();
        self.standby_disk = left;
        self.standby = follow(&self.standby_disk);
        let durable = self.sender.progress().flushed;
        assert!(wanted(&self.standby) >= durable, "an acknowledged byte is lost");
        self.sender = Sender::begin(&self.primary, wanted(&self.standby), None).unwrap();
    }

    fn catch_up(&mut self) {
        self.write();
        while self.send() {}
        self.acknowledge();
        assert_eq!(rows(&self.standby), rows(&self.primary));
    }
}

fn wanted(standby: &Database) -> Lsn {
    standby.standby().unwrap().wanted().unwrap()
}

#[test]
fn a_standby_becomes_equal_whenever_it_loses_power() {
    for seed in seeds(20) {
        let mut pair = Pair::new(seed);
        for _step in 0..150 {
            match pair.random.below(20) {
                0..8 => pair.write(),
                8..14 => {
                    pair.send();
                }
                14..18 => pair.acknowledge(),
                18 => drop(pair.primary.checkpoint().unwrap()),
                _ => pair.lose_standby(),
            }
        }
        pair.catch_up();
    }
}

#[test]
fn a_stream_waits_while_the_next_timeline_begins() {
    for seed in 0..20 {
        let mut pair = Pair::new(seed);
        pair.write();
        pair.catch_up();
        let mut sender = Sender::begin(&pair.standby, pair.primary.log().flushed(), None).unwrap();
        let standby = pair.standby.clone();
        let promoting = std::thread::spawn(move || standby.standby().unwrap().promote("a test").unwrap());
        let ended = loop {
            match sender.next(&mut Vec::new(), 0) {
                Ok(Step::TimelineEnded { next, .. }) => break Ok(next),
                Ok(Step::Idle | Step::Sent) => {}
                Err(error) => break Err(error.to_string()),
            }
        };
        promoting.join().unwrap();
        assert_eq!(ended, Ok(TimelineId::new(2).unwrap()), "seed {seed}");
    }
}

#[test]
fn a_promoted_standby_ends_the_timeline_and_sends_the_next_one() {
    let mut pair = Pair::new(1);
    for _write in 0..5 {
        pair.write();
    }
    pair.catch_up();
    // Checkpoints have removed what lies before.
    let start = pair.primary.log().flushed();
    pair.catch_up();
    let (first, second) = (TimelineId::FIRST, TimelineId::new(2).unwrap());
    // Of the standby, to another one behind it: begun before the promotion, and after it.
    let mut before = Sender::begin(&pair.standby, start, None).unwrap();
    pair.standby.standby().unwrap().promote("a test").unwrap();
    let mut after = Sender::begin(&pair.standby, start, Some(first)).unwrap();
    let ends = [&mut before, &mut after].map(|sender| {
        loop {
            let mut message = Vec::new();
            match sender.next(&mut message, 0).unwrap() {
                Step::Sent => {}
                Step::Idle => panic!("the timeline is left"),
                Step::TimelineEnded { next, fork } => break (next, fork, sender.position()),
            }
        }
    });
    let (next, fork, position) = ends[0];
    assert_eq!((ends[0], next), (ends[1], second));
    assert_eq!(position, fork);

    // The next timeline from the start of the segment that it begins in: the file, byte for byte.
    let segment_bytes = pair.standby.log().segment_bytes();
    let start = Lsn::new(fork.get() / segment_bytes * segment_bytes);
    let mut sender = Sender::begin(&pair.standby, start, Some(second)).unwrap();
    let mut received = Vec::new();
    loop {
        let mut message = Vec::new();
        if sender.next(&mut message, 0).unwrap() == Step::Idle {
            break;
        }
        let FromSender::Data { bytes, .. } = FromSender::parse(&message).unwrap() else { panic!("no data") };
        received.extend_from_slice(bytes);
    }
    let name = seawall_engine::SegmentName { number: start.get() / segment_bytes, timeline: second };
    let mut file = vec![0; received.len()];
    pair.standby.log().read_segment(name, 0, &mut file).unwrap();
    assert!(received == file, "the bytes differ from the file");
}

#[test]
fn positions_that_there_are_not_are_refused() {
    let pair = Pair::new(1);
    let end = pair.primary.log().flushed();
    let begin = |position, timeline| Sender::begin(&pair.primary, position, TimelineId::new(timeline));
    assert!(matches!(begin(Lsn::new(end.get() + 1), 1), Err(SenderError::Ahead { .. })));
    assert!(matches!(begin(end, 2), Err(SenderError::NotInHistory { .. })));
    let mut sender = begin(end, 1).unwrap();
    let claimed = Lsn::new(end.get() + (1 << 20));
    let claim = status(Progress { flushed: claimed, ..Progress::default() }, 0, false);
    assert!(matches!(sender.take(&claim, 0), Err(SenderError::Claim { .. })));
    assert!(matches!(sender.take(b"r", 0), Err(SenderError::Message(_))));
}
