use std::sync::Arc;

use seawall_simulation::SimulatedDisk;

use super::*;

const DATABASE: DatabaseId = DatabaseId::from_bytes([3; 16]);
const MIB: u64 = 1 << 20;

fn open(disk: &SimulatedDisk, oldest: Lsn, end: Lsn) -> Holds {
    disk.create_directory("log").unwrap();
    Holds::open(Arc::new(disk.clone()), DATABASE, oldest, end).unwrap()
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
    holds.release("slow").unwrap();
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
    assert_eq!(holds.settle(Lsn::new(6 * MIB), Lsn::new(20 * MIB)).unwrap(), Lsn::new(3 * MIB));
    assert!(position.is_over() && !slowing.is_over());
    assert_eq!(holds.lost_count(), 1);
    let check = |holds: &Holds| {
        let error = holds.find("b").unwrap_err();
        let HoldError::Lost { name, position, lost_at, limit_bytes } = error else { panic!("{error}") };
        assert_eq!((name.as_str(), position, lost_at), ("b", Lsn::new(MIB), Lsn::new(20 * MIB)));
        assert_eq!(limit_bytes, Some(5 * MIB));
        assert_eq!(holds.find("slowing").unwrap().get(), Lsn::new(3 * MIB));
    };
    check(&holds);
    let again = open(&disk, Lsn::new(3 * MIB), Lsn::new(20 * MIB));
    check(&again);
    again.release("b").unwrap();
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
    assert!(matches!(holds.release("nobody"), Err(HoldError::Unknown { .. })));
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
