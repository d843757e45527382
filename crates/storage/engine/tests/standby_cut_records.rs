//! Records that are cut off where a standby stopped receiving, at each place of segments and header pages, and whatever lies behind the end
//! of its log: the promoted standby overwrites it, and other standbys follow.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;

use common::copying::{everything, history_of, receive, slot};
use common::following::follow;
use common::small_options;
use seawall_crash_harness::{environment, open, template};
use seawall_engine::{Database, DatabaseDirectory, SegmentName};
use seawall_simulation::{PowerLoss, SimulatedDisk, crash_step};
use seawall_types::Lsn;

/// More than two segments.
const LONG: usize = 150 << 10;
const HEADER_BYTES: u64 = 4096;

/// A primary whose last record is long, the log up to its end, and standbys that have what is before that.
struct CutOff {
    primary: Database,
    /// Where the long record begins.
    start: Lsn,
    /// What a stream gives from there on.
    bytes: Vec<u8>,
    standby_disk: SimulatedDisk,
}

impl CutOff {
    fn new() -> CutOff {
        let disk = template(&small_options());
        let primary = open(&disk, &small_options());
        drop(primary.log().hold("standby", slot(), None).unwrap());
        let table = primary.create_table("t").unwrap();
        for number in 0..20_u64 {
            primary.put(&table, number.to_be_bytes(), vec![b'x'; 1000]).unwrap();
        }
        let standby_disk = disk.after_power_loss(PowerLoss::LoseAll);
        let start = primary.log().flushed();
        primary.put(&table, b"long", vec![b'y'; LONG]).unwrap();
        let mut stream = primary.log().stream(start).unwrap();
        let mut bytes = vec![0; 2 * LONG];
        let mut length = 0;
        loop {
            let piece = stream.read(&mut bytes[length..]).unwrap();
            if piece.bytes == 0 {
                break;
            }
            length += piece.bytes;
        }
        bytes.truncate(length);
        CutOff { primary, start, bytes, standby_disk }
    }

    /// Another standby, which has received so many bytes of the long record.
    fn standby(&self, received: usize) -> (SimulatedDisk, Database) {
        let disk = self.standby_disk.copy();
        let standby = follow(&disk, &small_options());
        let place = standby.standby().unwrap();
        // The copy may have lost the end of the log.
        receive_until(&self.primary, &standby, self.start);
        place.receive(self.start, &self.bytes[..received]).unwrap();
        assert_eq!(place.sync().unwrap(), if received == self.bytes.len() { self.end() } else { self.start });
        place.apply().unwrap();
        (disk, standby)
    }

    fn end(&self) -> Lsn {
        Lsn::new(self.start.get() + self.bytes.len() as u64)
    }

    /// How much of the record may be there: its first and last bytes, those around each segment's end and header page, and some between.
    fn cuts(&self) -> Vec<usize> {
        let (start, length) = (self.start.get(), self.bytes.len() as u64);
        let segment_bytes = self.primary.log().segment_bytes();
        let mut cuts = vec![1, 2, 15, 16, 17, length - 1];
        let ends = (start / segment_bytes + 1..).map(|number| number * segment_bytes - start);
        for end in ends.take_while(|end| *end < length) {
            let around =
                [end - 1, end, end + 1, end + HEADER_BYTES - 1, end + HEADER_BYTES, end + HEADER_BYTES + 1];
            cuts.extend(around);
        }
        cuts.extend((0..length).step_by(30_011).skip(1));
        cuts.retain(|cut| (1..length).contains(cut));
        cuts.into_iter().map(|cut| usize::try_from(cut).unwrap()).collect()
    }
}

fn receive_until(from: &Database, standby: &Database, end: Lsn) {
    let place = standby.standby().unwrap();
    let wanted = place.wanted().unwrap();
    if wanted < end {
        let mut bytes = vec![0; usize::try_from(end.bytes_since(wanted)).unwrap()];
        let mut stream = from.log().stream(wanted).unwrap();
        let mut start = wanted;
        while start < end {
            let left = usize::try_from(end.bytes_since(start)).unwrap();
            let piece = stream.read(&mut bytes[..left]).unwrap();
            place.receive(piece.start, &bytes[..piece.bytes]).unwrap();
            start = Lsn::new(piece.start.get() + piece.bytes as u64);
        }
        place.sync().unwrap();
    }
}

/// Rows that are written after a promotion: shorter than the record that was cut off, as long, and longer.
fn write_over(promoted: &Database, length: usize) {
    let table = promoted.table("t").unwrap();
    promoted.put(&table, b"over", vec![b'z'; length]).unwrap();
    promoted.put(&table, b"after", b"1").unwrap();
}

#[test]
fn a_record_that_is_cut_off_anywhere_is_overwritten_by_the_promoted_standby_and_others_follow() {
    let cut_off = CutOff::new();
    let whole = cut_off.bytes.len();
    for (number, cut) in cut_off.cuts().into_iter().enumerate() {
        let place = format!("{cut} of {whole} bytes");
        let (disk, standby) = cut_off.standby(cut);
        // In turn: promoted as it is, and after a kill or a power loss.
        let (disk, promoted) = match number % 3 {
            0 => (disk, standby),
            kind => {
                let seed = number as u64;
                let outcome = if kind == 1 { PowerLoss::KeepAll } else { PowerLoss::Random(seed) };
                let left = disk.after_power_loss(outcome);
                disk.crash();
                let promoted = follow(&left, &small_options());
                (left, promoted)
            }
        };
        assert!(!has_row(&promoted, b"long"), "{place}");
        promoted.standby().unwrap().promote("test").unwrap();
        assert_eq!(history_of(&promoted).forks[0].fork, cut_off.start, "{place}");
        drop(promoted.log().hold("other", slot(), Some(cut_off.start)).unwrap());
        write_over(&promoted, [100, LONG, 2 * LONG, cut][number % 4]);
        let expected = everything(&promoted);

        // Standbys that have less of the record, as much, and more, but not all of it.
        for other in [1, cut, whole - 1] {
            let (other_disk, follower) = cut_off.standby(other);
            follower.standby().unwrap().follow_timeline(&history_of(&promoted)).unwrap();
            receive(&promoted, &follower).unwrap();
            assert!(everything(&follower) == expected, "{place}, {other} elsewhere");
            let left = other_disk.after_power_loss(PowerLoss::LoseAll);
            other_disk.crash();
            let follower = follow(&left, &small_options());
            follower.standby().unwrap().apply().unwrap();
            assert!(everything(&follower) == expected, "{place}, {other} elsewhere, after a power loss");
            follower.check(&mut |damage| panic!("{place}: {damage}")).unwrap();
        }
        let left = disk.after_power_loss(PowerLoss::LoseAll);
        disk.crash();
        let reopened = open(&left, &small_options());
        assert!(everything(&reopened) == expected, "{place}");
        reopened.check(&mut |damage| panic!("{place}: {damage}")).unwrap();
    }
}

fn has_row(database: &Database, key: &[u8]) -> bool {
    let table = database.table("t").unwrap();
    database.get(&table, key).unwrap().is_some()
}

#[test]
fn whatever_lies_behind_the_end_of_a_standbys_log_is_not_taken_for_log() {
    let cut_off = CutOff::new();
    let segment_bytes = cut_off.primary.log().segment_bytes();
    let (number, offset) = (cut_off.start.get() / segment_bytes, cut_off.start.get() % segment_bytes);
    let timeline = cut_off.primary.log().timeline();
    let file = format!("log/{}", SegmentName { number, timeline }.file_name());
    // A record of this very log, whole and true: it belongs elsewhere.
    let (_, complete) = cut_off.standby(cut_off.bytes.len());
    let mut older = vec![0; 2000];
    let name = SegmentName { number, timeline };
    complete.log().read_segment(name, HEADER_BYTES, &mut older).unwrap();
    let mut flipped = cut_off.bytes[..2000].to_vec();
    flipped[1000] ^= 1;
    let shapes: [(&str, Vec<u8>); 6] = [
        ("zeros", vec![0; 2000]),
        ("ones", vec![0xFF; 2000]),
        ("a length and no more", [&1000_u32.to_le_bytes()[..], &[0; 1996]].concat()),
        ("an older record", older),
        ("the beginning of the record that comes", cut_off.bytes[..2000].to_vec()),
        ("that with a flipped bit", flipped),
    ];
    for (shape, junk) in &shapes {
        for is_promoted in [false, true] {
            let (disk, standby) = cut_off.standby(1);
            standby.close().unwrap();
            disk.overwrite(&file, offset, junk);
            let standby = follow(&disk, &small_options());
            assert_eq!(standby.log().flushed(), cut_off.start, "{shape}");
            if is_promoted {
                standby.standby().unwrap().promote("test").unwrap();
                write_over(&standby, 100);
                let expected = everything(&standby);
                let left = disk.after_power_loss(PowerLoss::LoseAll);
                disk.crash();
                assert!(everything(&open(&left, &small_options())) == expected, "{shape}");
            } else {
                receive(&cut_off.primary, &standby).unwrap();
                assert!(everything(&standby) == everything(&cut_off.primary), "{shape}");
                let left = disk.after_power_loss(PowerLoss::LoseAll);
                disk.crash();
                let standby = follow(&left, &small_options());
                standby.standby().unwrap().apply().unwrap();
                assert!(everything(&standby) == everything(&cut_off.primary), "{shape}, after a power loss");
            }
        }
    }
}

/// The power goes in any call of the promotion that overwrites a record which was cut off at the end of a segment.
#[test]
fn power_losses_while_a_record_that_was_cut_off_at_the_end_of_a_segment_is_overwritten() {
    let cut_off = CutOff::new();
    let segment_bytes = cut_off.primary.log().segment_bytes();
    let to_end = usize::try_from(segment_bytes - cut_off.start.get() % segment_bytes).unwrap();
    let (mut calls, mut call) = (None, 0);
    loop {
        let (disk, standby) = cut_off.standby(to_end);
        let before = disk.calls();
        if calls.is_some() {
            disk.crash_at(before + call);
        }
        let promoted = standby.standby().unwrap().promote("test");
        assert!(promoted.is_ok() || disk.crashed(), "call {call}: {promoted:?}");
        let is_written = promoted.is_ok() && {
            let table = standby.table("t");
            table.and_then(|table| standby.put(&table, b"over", vec![b'z'; LONG])).is_ok()
        };
        let all = *calls.get_or_insert(disk.calls() - before);
        let left = disk.after_power_loss(PowerLoss::Random(call));
        disk.crash();
        // It is still a standby, which goes on, or the primary.
        let (_, history) = DatabaseDirectory::at(environment(Arc::new(left.clone()))).identity().unwrap();
        let database = if history.timeline == cut_off.primary.log().timeline() {
            assert!(!is_written, "call {call}");
            let database = follow(&left, &small_options());
            receive(&cut_off.primary, &database).unwrap();
            assert!(everything(&database) == everything(&cut_off.primary), "call {call}");
            database
        } else {
            let database = open(&left, &small_options());
            assert!(!has_row(&database, b"long"), "call {call}");
            assert!(!is_written || has_row(&database, b"over"), "call {call}");
            database
        };
        database.check(&mut |damage| panic!("call {call}: {damage}")).unwrap();
        call += u64::try_from(crash_step(all, 60)).unwrap();
        if call >= all {
            break;
        }
    }
}
