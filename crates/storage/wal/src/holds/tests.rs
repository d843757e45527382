use std::sync::Arc;

use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, PowerLoss, SimulatedDisk};

use super::*;

const DATABASE: DatabaseId = DatabaseId::from_bytes([3; 16]);
const MIB: u64 = 1 << 20;

fn geometry() -> LogGeometry {
    LogGeometry::new(MIB).unwrap()
}

fn open(disk: &SimulatedDisk, oldest: Lsn, end: Lsn) -> Holds {
    disk.create_directory("log").unwrap();
    Holds::open(Arc::new(disk.clone()), DATABASE, geometry(), oldest, end).unwrap()
}

fn permanent(limit_bytes: Option<u64>) -> HoldOptions {
    HoldOptions {
        kind: HoldKind::Standby,
        limit_bytes,
        lifetime: HoldLifetime::Permanent,
        ..HoldOptions::default()
    }
}

fn hold(holds: &Holds, name: &str, options: HoldOptions, from: u64) -> Arc<HoldPosition> {
    holds.create(name, options, Lsn::new(from), 0).unwrap()
}

#[test]
fn the_log_is_kept_from_where_the_slowest_holder_needs_it() {
    let holds = open(&SimulatedDisk::new(1), Lsn::ZERO, Lsn::new(9 * MIB));
    assert_eq!(holds.settle(Lsn::new(8 * MIB), Lsn::new(9 * MIB)).unwrap(), Lsn::new(8 * MIB));
    let redo = Lsn::new(8 * MIB);
    let slow = holds.create("slow", permanent(None), redo, 0).unwrap();
    let fast = holds.create("fast", HoldOptions::default(), redo, 0).unwrap();
    let settle = |redo: u64| holds.settle(Lsn::new(redo * MIB), Lsn::new(30 * MIB)).unwrap().get() / MIB;
    assert_eq!(settle(20), 8);
    fast.advance(Lsn::new(25 * MIB));
    assert_eq!(settle(20), 8);
    slow.advance(Lsn::new(11 * MIB));
    slow.advance(Lsn::new(10 * MIB));
    assert_eq!((settle(20), slow.get()), (11, Lsn::new(11 * MIB)));
    holds.release("slow", None).unwrap();
    assert!(slow.is_over());
    // Whatever the holder does, recovery needs it from the redo point on.
    assert_eq!(settle(20), 20);
    assert_eq!(settle(28), 25);
}

#[test]
fn a_hold_over_its_limit_is_lost_and_says_so_also_to_the_next_process() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    let position = hold(&holds, "b", permanent(Some(5 * MIB)), MIB);
    let stays = HoldOptions { at_limit: AtLimit::SlowWriters, ..permanent(Some(5 * MIB)) };
    let slowing = hold(&holds, "slowing", stays, 3 * MIB);
    assert_eq!(holds.settle(Lsn::new(6 * MIB), Lsn::new(6 * MIB)).unwrap(), Lsn::new(MIB));
    assert!(!position.is_over());
    assert_eq!(holds.settle(Lsn::new(6 * MIB), Lsn::new(13 * MIB)).unwrap(), Lsn::new(3 * MIB));
    assert!(position.is_over() && !slowing.is_over());
    assert_eq!(holds.lost_count(), 1);
    let check = |holds: &Holds| {
        let error = holds.find("b").unwrap_err();
        let HoldError::Lost { name, position, lost_at, limit_bytes } = error else { panic!("{error}") };
        assert_eq!((name.as_str(), position, lost_at), ("b", Lsn::new(MIB), Lsn::new(13 * MIB)));
        assert_eq!(limit_bytes, Some(5 * MIB));
        assert_eq!(holds.find("slowing").unwrap().get(), Lsn::new(3 * MIB));
    };
    check(&holds);
    let again = open(&disk, Lsn::new(3 * MIB), Lsn::new(20 * MIB));
    check(&again);
    // Slowing is no promise: at twice the limit the hold is lost.
    assert_eq!(again.settle(Lsn::new(6 * MIB), Lsn::new(14 * MIB)).unwrap(), Lsn::new(6 * MIB));
    assert!(matches!(again.find("slowing"), Err(HoldError::Lost { .. })));
    again.release("b", None).unwrap();
    assert!(matches!(again.find("b"), Err(HoldError::Unknown { .. })));
    hold(&again, "b", permanent(None), 7 * MIB);
}

#[test]
fn a_hold_of_the_process_ends_with_it() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    hold(&holds, "backup", HoldOptions { kind: HoldKind::Backup, ..HoldOptions::default() }, MIB);
    hold(&holds, "slot", permanent(None), MIB);
    assert_eq!(read_holds(&disk, DATABASE).unwrap(), holds.list());
    let next = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    let names: Vec<_> = next.list().into_iter().map(|hold| hold.name).collect();
    assert_eq!(names, ["slot"]);
    next.settle(Lsn::new(MIB), Lsn::new(MIB)).unwrap();
    assert_eq!(read_holds(&disk, DATABASE).unwrap(), next.list());
}

#[test]
fn the_newest_log_is_kept() {
    let holds = open(&SimulatedDisk::new(1), Lsn::new(MIB), Lsn::new(2 * MIB));
    holds.keep_newest(4 * MIB, Lsn::new(2 * MIB));
    let settle = |appended: u64| holds.settle(Lsn::new(40 * MIB), Lsn::new(appended * MIB)).unwrap();
    assert_eq!(settle(2), Lsn::new(MIB));
    assert_eq!(settle(41), Lsn::new(37 * MIB));
    assert_eq!(settle(80), Lsn::new(40 * MIB));
    assert_eq!(holds.lost_count(), 0);
}

#[test]
fn what_cannot_be_held_is_refused_with_the_reason() {
    let holds = open(&SimulatedDisk::new(1), Lsn::new(5 * MIB), Lsn::new(9 * MIB));
    let make = |name: &str, from: u64| holds.create(name, permanent(None), Lsn::new(from * MIB), 0);
    let error = make("x", 4).unwrap_err();
    assert!(matches!(error, HoldError::NotRetained { .. }), "{error}");
    for name in ["", "two\nlines", &"x".repeat(64)] {
        assert!(matches!(make(name, 6), Err(HoldError::Name { .. })), "{name:?}");
    }
    make("x", 6).unwrap();
    assert!(matches!(make("x", 6), Err(HoldError::Exists { .. })));
    (1..HOLDS_MAX).for_each(|number| drop(make(&number.to_string(), 6).unwrap()));
    assert!(matches!(make("one more", 6), Err(HoldError::TooMany { .. })));
    assert!(matches!(holds.release("nobody", None), Err(HoldError::Unknown { .. })));
}

#[test]
fn a_permanent_hold_whose_log_is_gone_is_lost_when_the_log_is_opened() {
    let disk = SimulatedDisk::new(1);
    hold(&open(&disk, Lsn::ZERO, Lsn::new(MIB)), "b", permanent(None), MIB);
    let holds = open(&disk, Lsn::new(2 * MIB), Lsn::new(3 * MIB));
    assert!(matches!(holds.find("b"), Err(HoldError::Lost { .. })));
    assert_eq!(holds.lost_count(), 1);
}

#[test]
fn one_damaged_copy_takes_no_hold_away_and_two_are_refused() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    hold(&holds, "a", permanent(None), MIB);
    hold(&holds, "b", permanent(None), MIB);
    for offset in [100, 8192 + 100] {
        let disk = disk.copy();
        disk.flip_bit("log/holds", offset, 3);
        assert_eq!(read_holds(&disk, DATABASE).unwrap(), holds.list());
    }
    disk.flip_bit("log/holds", 100, 3);
    disk.flip_bit("log/holds", 8192 + 100, 3);
    let error = read_holds(&disk, DATABASE).unwrap_err().to_string();
    assert!(error.contains("log/holds") && error.contains("both copies are damaged"), "{error}");
    disk.truncate("log/holds", 100);
    let error = read_holds(&disk, DATABASE).unwrap_err().to_string();
    assert!(error.contains("100 bytes"), "{error}");
}

/// Nothing is gained by losing it while recovery needs the same segment.
#[test]
fn a_hold_is_lost_only_when_that_frees_something() {
    let holds = open(&SimulatedDisk::new(1), Lsn::ZERO, Lsn::new(MIB));
    let position = hold(&holds, "b", permanent(Some(MIB)), 5 * MIB + 100);
    let appended = Lsn::new(40 * MIB);
    for redo in [4 * MIB, 5 * MIB, 5 * MIB + 99_999] {
        assert!(!holds.any_over_limit(Lsn::new(redo), appended));
        holds.settle(Lsn::new(redo), appended).unwrap();
        assert!(!position.is_over(), "redo point {redo}");
    }
    assert!(holds.any_over_limit(Lsn::new(6 * MIB), appended));
    holds.settle(Lsn::new(6 * MIB), appended).unwrap();
    assert!(position.is_over());
}

/// The newest log is kept besides as many holds as there may be, and nobody gets or ends its hold.
#[test]
fn the_hold_of_the_option_is_none_of_the_others() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::new(MIB), Lsn::new(9 * MIB));
    holds.keep_newest(4 * MIB, Lsn::new(9 * MIB));
    (0..HOLDS_MAX).for_each(|number| drop(hold(&holds, &number.to_string(), permanent(None), 6 * MIB)));
    let refused = holds.create("one more", permanent(None), Lsn::new(6 * MIB), 0);
    assert!(matches!(refused, Err(HoldError::TooMany { .. })));
    holds.settle(Lsn::new(8 * MIB), Lsn::new(9 * MIB)).unwrap();
    assert_eq!(read_holds(&disk, DATABASE).unwrap().len(), HOLDS_MAX + 1);
    let again = open(&disk, Lsn::new(MIB), Lsn::new(9 * MIB));
    assert_eq!(again.list().len(), HOLDS_MAX);
    let taken = again.create(KEEP_NAME, permanent(None), Lsn::new(6 * MIB), 0);
    assert!(matches!(taken, Err(HoldError::Reserved { .. })));
    again.keep_newest(4 * MIB, Lsn::new(9 * MIB));
    assert!(matches!(again.release(KEEP_NAME, None), Err(HoldError::Unknown { .. })));
    assert!(matches!(again.find(KEEP_NAME), Err(HoldError::Unknown { .. })));
}

#[test]
fn who_lost_its_hold_gets_nothing_from_the_next_one_of_its_name() {
    let holds = open(&SimulatedDisk::new(1), Lsn::ZERO, Lsn::new(MIB));
    let old = hold(&holds, "b", permanent(Some(MIB)), MIB);
    holds.settle(Lsn::new(9 * MIB), Lsn::new(9 * MIB)).unwrap();
    assert!(matches!(holds.check("b", &old), Err(HoldError::Lost { .. })));
    holds.release("b", None).unwrap();
    let new = hold(&holds, "b", permanent(Some(MIB)), 9 * MIB);
    assert!(matches!(holds.check("b", &old), Err(HoldError::Unknown { .. })));
    assert!(matches!(holds.release("b", Some(&old)), Err(HoldError::Unknown { .. })));
    holds.forget("b", &old);
    assert!(!new.is_over() && holds.check("b", &new).is_ok());
    holds.release("b", Some(&new)).unwrap();
    assert!(holds.list().is_empty());
}

/// The log is there in whole segments, header pages included.
#[test]
fn a_position_in_a_header_page_is_as_good_as_one_behind_it() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, geometry().first_record_of(3), Lsn::new(9 * MIB));
    for (name, from) in [("begin", 3 * MIB), ("middle", 3 * MIB + 100)] {
        hold(&holds, name, permanent(None), from);
    }
    let again = open(&disk, geometry().first_record_of(3), Lsn::new(9 * MIB));
    assert_eq!(again.lost_count(), 0);
    assert_eq!(again.find("begin").unwrap().get(), Lsn::new(3 * MIB));
    let below = again.create("below", permanent(None), Lsn::new(3 * MIB - 1), 0);
    assert!(matches!(below, Err(HoldError::NotRetained { .. })));
}

/// A process is killed before what it wrote is durable. The next one goes by it, so the power may not take it any more.
#[test]
fn what_an_open_reads_is_durable_before_anything_goes_by_it() {
    let mut call = 0;
    loop {
        let disk = SimulatedDisk::new(call);
        disk.sync_directory("").unwrap();
        let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
        disk.sync_directory("").unwrap();
        hold(&holds, "a", permanent(None), MIB);
        disk.crash_at(disk.calls() + call);
        let outcome = holds.create("b", permanent(None), Lsn::new(MIB), 0);
        // The process ends in this call; the cache still has what was written.
        let killed = disk.copy();
        let seen = open(&killed, Lsn::ZERO, Lsn::new(MIB)).list();
        for offset in [None, Some(100), Some(8192 + 100)] {
            let after = killed.after_power_loss(PowerLoss::LoseAll);
            offset.into_iter().for_each(|offset| after.flip_bit("log/holds", offset, 3));
            assert_eq!(open(&after, Lsn::ZERO, Lsn::new(MIB)).list(), seen, "call {call}, {offset:?}");
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert_eq!(call, 4);
}

/// One copy may be damaged later.
#[test]
fn which_holds_there_are_is_in_both_copies_after_every_failure() {
    let disk = SimulatedDisk::new(3);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    hold(&holds, "b", permanent(Some(MIB)), MIB);
    // The first copy is written and the second is not.
    let target = FaultTarget::Path { prefix: "log/holds".to_owned(), operations: Operations::Writes };
    disk.inject(Fault { target, error: FaultError::Number(5), skip: 1, count: 1 });
    assert!(holds.settle(Lsn::new(9 * MIB), Lsn::new(9 * MIB)).is_err());
    disk.clear_faults();
    holds.settle(Lsn::new(9 * MIB), Lsn::new(9 * MIB)).unwrap();
    for offset in [100, 8192 + 100] {
        let disk = disk.copy();
        disk.flip_bit("log/holds", offset, 3);
        assert!(read_holds(&disk, DATABASE).unwrap()[0].lost_at.is_some(), "copy at {offset}");
    }
}

/// The log was cut by a recovery to a point in time: later, when it has grown again, the position is still the lower one.
#[test]
fn a_position_beyond_the_end_is_stored_as_the_end() {
    let disk = SimulatedDisk::new(1);
    hold(&open(&disk, Lsn::ZERO, Lsn::new(9 * MIB)), "b", permanent(None), 9 * MIB);
    drop(open(&disk, Lsn::ZERO, Lsn::new(5 * MIB)));
    let again = open(&disk, Lsn::ZERO, Lsn::new(30 * MIB));
    assert_eq!(again.find("b").unwrap().get(), Lsn::new(5 * MIB));
}

#[test]
fn a_full_disk_can_be_cleaned_up() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    disk.set_capacity(Some(disk.allocated_bytes()));
    hold(&holds, "b", permanent(None), MIB);
    assert_eq!(holds.settle(Lsn::new(9 * MIB), Lsn::new(9 * MIB)).unwrap(), Lsn::new(MIB));
    // Even if the file was removed: nobody comes back for what ends with the process.
    drop(holds);
    disk.remove_file("log/holds");
    disk.set_capacity(Some(disk.allocated_bytes()));
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    holds.keep_newest(MIB, Lsn::new(9 * MIB));
    holds.settle(Lsn::new(9 * MIB), Lsn::new(9 * MIB)).unwrap();
    assert!(holds.create("b", permanent(None), Lsn::new(9 * MIB), 0).is_err());
}

#[test]
fn after_the_log_is_closed_the_file_belongs_to_the_next_process() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    hold(&holds, "b", permanent(None), MIB);
    holds.close();
    assert!(matches!(holds.release("b", None), Err(HoldError::Closed)));
    assert!(matches!(holds.create("c", permanent(None), Lsn::new(MIB), 0), Err(HoldError::Closed)));
    assert_eq!(read_holds(&disk, DATABASE).unwrap().len(), 1);
}

#[test]
fn a_hold_gives_way_to_a_new_one_of_its_name_in_one_step() {
    let disk = SimulatedDisk::new(1);
    let (redo, end) = (Lsn::new(6 * MIB), Lsn::new(9 * MIB));
    let holds = open(&disk, Lsn::ZERO, end);
    let before = hold(&holds, "archiver", permanent(Some(MIB)), MIB);
    holds.settle(redo, end).unwrap();
    assert!(matches!(holds.find("archiver"), Err(HoldError::Lost { .. })));
    let refused = holds.replace("archiver", permanent(None), Lsn::new(5 * MIB), 7);
    assert!(matches!(refused, Err(HoldError::NotRetained { .. })), "{refused:?}");
    assert!(matches!(holds.find("archiver"), Err(HoldError::Lost { .. })), "it is as it was");
    let calls = disk.calls();
    let calm = disk.copy();
    open(&calm, redo, end).replace("archiver", permanent(None), redo, 7).unwrap();
    for call in calls..calm.calls() {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let disk = disk.copy();
            disk.crash_at(call);
            let opened = Holds::open(Arc::new(disk.clone()), DATABASE, geometry(), redo, end);
            if let Ok(holds) = opened {
                holds.replace("archiver", permanent(None), redo, 7).unwrap_err();
                assert!(holds.find("archiver").is_err(), "one that failed changes nothing");
            }
            let holds = open(&disk.after_power_loss(outcome), redo, end);
            let left = holds.list().pop().unwrap();
            let is_new = left.lost_at.is_none() && left.position == redo && left.created_micros == 7;
            let is_old = left.lost_at.is_some() && left.position == Lsn::new(MIB);
            assert!(is_new || is_old, "call {call}, {outcome:?}: {left:?}");
        }
    }
    let after = holds.replace("archiver", permanent(None), redo, 7).unwrap();
    assert!(before.is_over() && !after.is_over());
    // One that is not lost is over, too.
    let third = holds.replace("archiver", permanent(Some(1)), redo, 8).unwrap();
    assert!(after.is_over() && !third.is_over() && holds.list().len() == 1);
}

#[test]
fn a_limit_is_changed_for_good_or_not_at_all() {
    let disk = SimulatedDisk::new(1);
    let holds = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    let position = hold(&holds, "slot", permanent(None), MIB);
    let limit = |holds: &Holds| holds.list()[0].options.limit_bytes;
    disk.inject(Fault {
        target: FaultTarget::Path { prefix: "log/holds".to_owned(), operations: Operations::Any },
        error: FaultError::Number(5),
        skip: 0,
        count: 1,
    });
    assert!(matches!(holds.limit("slot", Some(5 * MIB)), Err(HoldError::Io { .. })));
    assert_eq!(limit(&holds), None);
    holds.limit("slot", Some(5 * MIB)).unwrap();
    let again = open(&disk, Lsn::ZERO, Lsn::new(MIB));
    assert_eq!(limit(&again), Some(5 * MIB));
    // The position is the holder's still.
    position.advance(Lsn::new(2 * MIB));
    assert_eq!(holds.settle(Lsn::new(7 * MIB), Lsn::new(7 * MIB)).unwrap(), Lsn::new(2 * MIB));
    assert_eq!(holds.settle(Lsn::new(7 * MIB), Lsn::new(8 * MIB)).unwrap(), Lsn::new(7 * MIB));
    assert!(position.is_over());
    assert!(matches!(holds.limit("nobody", None), Err(HoldError::Unknown { .. })));
}
