//! Faults, a full disk, locks, counts, damage.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{AlignedBuffer, BLOCK_BYTES, Clock, Disk, LockMode, OpenMode, raw_os_error};
use seawall_simulation::{
    CallOutcome, Delay, Fault, FaultError, FaultKind, FaultTarget, Operation, Operations, PowerLoss,
    ReadCount, SimulatedClock, SimulatedDisk, StruckCall, seeds,
};

const EIO: FaultError = FaultError::Number(5);

fn disk_with_file(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(3);
    disk.write_file("file", bytes);
    disk
}

#[test]
fn a_fault_strikes_once_and_names_the_file() {
    let disk = disk_with_file(&[1; 100]);
    let file = disk.open("file", OpenMode::Write).unwrap();
    let mut byte = [0];
    for (kind, number) in [(FaultKind::ReadError, 5), (FaultKind::WriteError, 5), (FaultKind::NoSpace, 28)] {
        disk.fail_next(kind);
        let mut call = || match kind {
            FaultKind::ReadError => file.read_exact_at(&mut byte, 0),
            FaultKind::WriteError | FaultKind::NoSpace | FaultKind::SyncError => file.write_all_at(&[1], 0),
        };
        let error = call().unwrap_err();
        assert_eq!(raw_os_error(&error), Some(number));
        assert!(error.to_string().contains("file"), "{error}");
        call().unwrap();
    }
    assert_eq!(disk.trace()[0].outcome, CallOutcome::Fault);
    assert_eq!(disk.trace()[0].to_string(), "0 write file @0 +1 (fault)");
}

#[test]
fn a_fault_waits_for_its_call_its_path_and_its_turn() {
    let disk = disk_with_file(&[1; 100]);
    let file = disk.open("file", OpenMode::Write).unwrap();
    disk.inject(Fault {
        target: FaultTarget::Path { prefix: "other".into(), operations: Operations::Any },
        error: FaultError::Kind(ErrorKind::PermissionDenied),
        skip: 1,
        count: 2,
    });
    disk.inject(Fault { target: FaultTarget::Call(1), error: FaultError::Number(5), skip: 0, count: 1 });
    file.sync_data().unwrap();
    file.sync_data().unwrap_err();
    let only = Operations::Only(Operation::SetLength);
    let target = FaultTarget::Path { prefix: "fi".into(), operations: only };
    disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
    file.write_all_at(&[1], 0).unwrap();
    file.set_length(1).unwrap_err();
    assert_eq!(file.length().unwrap(), 100);
    disk.open("other", OpenMode::Create).unwrap();
    for _ in 0..2 {
        assert_eq!(disk.remove("other").unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
    disk.remove("other").unwrap();
}

#[test]
fn a_failed_sync_drops_writes_that_no_later_sync_brings_back() {
    let mut dropped = 0;
    for seed in seeds(100) {
        let disk = SimulatedDisk::new(seed);
        disk.write_file("file", &[1; 4096]);
        let file = disk.open("file", OpenMode::Write).unwrap();
        file.write_all_at(&[2; 512], 0).unwrap();
        disk.fail_next(FaultKind::SyncError);
        file.sync_data().unwrap_err();
        file.write_all_at(&[3; 512], 1024).unwrap();
        file.sync_data().unwrap();
        assert_eq!(disk.read_file("file").unwrap()[0], 2, "programs still see the write");
        let outcomes = [PowerLoss::LoseAll, PowerLoss::KeepAll].map(|outcome| {
            let bytes = disk.after_power_loss(outcome).read_file("file").unwrap();
            assert_eq!(bytes[1024], 3, "seed {seed}: what was written after the failure is durable");
            bytes[0]
        });
        assert_eq!(outcomes[0], outcomes[1], "seed {seed}: decided when the sync failed");
        dropped += u32::from(outcomes[0] == 1);
    }
    assert!((10..90).contains(&dropped) || seeds(100).count() == 1, "dropped {dropped} of 100");
}

#[test]
fn a_failed_directory_sync_leaves_names_out_until_one_succeeds() {
    let mut left_out = 0;
    for seed in seeds(50) {
        let disk = SimulatedDisk::new(seed);
        disk.open("first", OpenMode::Create).unwrap();
        disk.fail_next(FaultKind::SyncError);
        disk.sync_directory("").unwrap_err();
        let after_failure = disk.after_power_loss(PowerLoss::KeepAll);
        left_out += u32::from(after_failure.read_file("first").is_none());
        disk.sync_directory("").unwrap();
        assert!(disk.after_power_loss(PowerLoss::LoseAll).read_file("first").is_some(), "seed {seed}");
    }
    assert!((5..45).contains(&left_out) || seeds(50).count() == 1, "left out {left_out} of 50");
}

#[test]
fn a_failed_durable_write_is_there_whole_partly_or_not_at_all() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let disk = SimulatedDisk::new(seed);
        disk.write_file("log", &[1; BLOCK_BYTES]);
        let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
        buffer.fill(2);
        disk.fail_next(FaultKind::SyncError);
        disk.open("log", OpenMode::Log).unwrap().write_durable_at(&buffer, 0..BLOCK_BYTES, 0).unwrap_err();
        let bytes = disk.after_power_loss(PowerLoss::LoseAll).read_file("log").unwrap();
        assert!(bytes.chunks(512).all(|sector| sector == [1; 512] || sector == [2; 512]), "seed {seed}");
        seen.insert(bytes);
    }
    assert!(seen.len() > 10);
}

#[test]
fn a_full_disk_refuses_what_allocates_and_works_again_with_room() {
    let disk = disk_with_file(&[1; 8192]);
    disk.set_capacity(Some(12_288));
    let file = disk.open("file", OpenMode::Write).unwrap();
    file.write_all_at(&[2; 8192], 0).unwrap();
    file.write_all_at(&[2; 1], 8192).unwrap();
    assert_eq!(disk.allocated_bytes(), 12_288);
    let full = file.write_all_at(&[2; 4096], 8193).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(file.fill_zeros(0, 20_000).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.length().unwrap(), 8193);
    file.set_length(1 << 30).unwrap();
    assert!(file.punch_hole(0, 4096).unwrap());
    file.write_all_at(&[2; 4096], 12_288).unwrap();
    assert_eq!(disk.after_power_loss(PowerLoss::KeepAll).allocated_bytes(), 12_288);
    disk.remove("file").unwrap();
    assert_eq!(disk.allocated_bytes(), 12_288, "an open file keeps its space");
    drop(file);
    assert_eq!(disk.allocated_bytes(), 0);
    disk.set_capacity(None);
    disk.open("next", OpenMode::Create).unwrap().fill_zeros(0, 1 << 20).unwrap();
}

#[test]
fn locks_end_when_dropped_and_with_the_power() {
    let disk = SimulatedDisk::new(1);
    let held = disk.lock("lock", LockMode::Exclusive).unwrap();
    assert_eq!(disk.lock("lock", LockMode::Shared).unwrap_err().kind(), ErrorKind::WouldBlock);
    let after = disk.after_power_loss(PowerLoss::KeepAll);
    after.lock("lock", LockMode::Exclusive).unwrap();
    disk.copy().lock("lock", LockMode::Exclusive).unwrap();
    drop(held);
    disk.lock("lock", LockMode::Exclusive).unwrap();
}

#[test]
fn reads_are_counted_by_path() {
    let disk = disk_with_file(&[1; 100]);
    let file = disk.open("file", OpenMode::Read).unwrap();
    file.read_exact_at(&mut [0; 60], 0).unwrap();
    file.read_exact_at(&mut [0; 40], 10).unwrap();
    file.read_exact_at(&mut [0; 40], 90).unwrap_err();
    assert_eq!(disk.read_count("fi"), ReadCount { calls: 2, bytes: 100 });
    assert_eq!(disk.read_count("log/"), ReadCount::default());
    disk.reset_read_counts();
    assert_eq!(disk.read_count(""), ReadCount::default());
    assert_eq!(disk.calls(), 0, "reads are not counted as calls");
}

#[test]
fn damage_is_durable_and_a_copy_is_another_disk() {
    let disk = disk_with_file(&[0; 5000]);
    let copy = disk.copy();
    disk.flip_bit("file", 4999, 7);
    disk.truncate("file", 5000);
    disk.overwrite("file", 10, &[9]);
    disk.write_file("deep/er/file", b"x");
    for seen in [disk.clone(), disk.after_power_loss(PowerLoss::LoseAll)] {
        let bytes = seen.read_file("file").unwrap();
        assert_eq!((bytes[4999], bytes[10], bytes.len()), (0x80, 9, 5000));
        assert_eq!(seen.read_file("deep/er/file").as_deref(), Some(&b"x"[..]));
        assert_eq!(seen.list("deep/er").unwrap().len(), 1);
    }
    assert_eq!(copy.read_file("file"), Some(vec![0; 5000]));
    assert_eq!(copy.list_all().len(), 1);
    assert!(disk.remove_file("file") && !disk.remove_file("file"));
    assert_eq!(disk.after_power_loss(PowerLoss::LoseAll).read_file("file"), None);
}

#[test]
fn the_trace_tells_every_change_in_order() {
    let disk = SimulatedDisk::new(1);
    disk.create_directory("log").unwrap();
    let file = disk.open("log/new", OpenMode::Create).unwrap();
    file.fill_zeros(0, 8192).unwrap();
    file.sync_data().unwrap();
    disk.rename("log/new", "log/1").unwrap();
    disk.sync_directory("log").unwrap();
    file.write_all_at(&[1; 10], 5).unwrap();
    disk.remove("log/1").unwrap();
    disk.remove("log/1").unwrap_err();
    let lines: Vec<String> = disk.trace().iter().map(ToString::to_string).collect();
    let expected = [
        "0 create directory log",
        "1 create log/new",
        "2 fill log/new @0 +8192",
        "3 sync log/new",
        "4 rename log/new to log/1",
        "5 sync directory log",
        "6 write log/1 @5 +10",
        "7 remove log/1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(disk.calls(), 8);
}

#[test]
fn a_slow_call_takes_its_time_on_the_clock_and_then_does_its_work() {
    let disk = disk_with_file(&[1; 100]);
    let clock = SimulatedClock::default();
    let file = disk.open("file", OpenMode::Write).unwrap();
    let target = FaultTarget::Path { prefix: "file".into(), operations: Operations::Only(Operation::Sync) };
    let delay = Delay { target, duration: Duration::from_secs(3), skip: 1, count: 2 };
    disk.slow_down(delay, Arc::new(clock.clone()));
    file.write_all_at(&[2], 0).unwrap();
    for seconds in [0, 3, 6, 6] {
        file.sync_data().unwrap();
        assert_eq!(clock.monotonic(), Duration::from_secs(seconds));
    }
    assert_eq!(disk.after_power_loss(PowerLoss::LoseAll).read_file("file").unwrap()[0], 2);
}

#[test]
fn calls_wait_at_a_gate_and_the_rest_of_the_disk_does_not() {
    let disk = disk_with_file(&[1; 100]);
    let file = disk.open("file", OpenMode::Write).unwrap();
    let gate = disk.hold(FaultTarget::Path { prefix: "file".into(), operations: Operations::Writes });
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_all_at(&[2], 0));
        gate.await_waiting(1);
        assert_eq!(disk.read_file("file").unwrap()[0], 1);
        file.read_exact_at(&mut [0; 10], 0).unwrap();
        disk.open("other", OpenMode::Create).unwrap().write_all_at(&[1], 0).unwrap();
        gate.open();
        writer.join().unwrap().unwrap();
    });
    assert_eq!((disk.read_file("file").unwrap()[0], gate.waiting()), (2, 0));
    file.write_all_at(&[3], 0).unwrap();
}

#[test]
fn a_swallowed_error_leaves_what_a_failed_call_leaves_and_says_nothing() {
    let (disk, mut lost) = (disk_with_file(&[1; 4096]), 0);
    let file = disk.open("file", OpenMode::Write).unwrap();
    let target = FaultTarget::Path { prefix: "file".into(), operations: Operations::Syncs };
    disk.inject(Fault { target, error: FaultError::Swallowed, skip: 0, count: 20 });
    for number in 2..22 {
        file.write_all_at(&[number; 4096], 0).unwrap();
        file.sync_data().unwrap();
        let durable = disk.after_power_loss(PowerLoss::LoseAll).read_file("file").unwrap();
        lost += u32::from(durable != [number; 4096]);
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn faults_are_counted_by_what_they_struck() {
    let disk = disk_with_file(&[1; 100]);
    let file = disk.open("file", OpenMode::Write).unwrap();
    for _ in 0..2 {
        disk.fail_next(FaultKind::ReadError);
        file.read_exact_at(&mut [0], 0).unwrap_err();
    }
    disk.fail_next(FaultKind::SyncError);
    file.sync_data().unwrap_err();
    let on_file = |operation| StruckCall { operation, path: "file".to_owned(), error: EIO };
    let struck = [(on_file(Operation::Read), 2), (on_file(Operation::Sync), 1)];
    assert_eq!(disk.take_faults_struck(), struck.into());
    assert!(disk.take_faults_struck().is_empty());
}

/// As some file systems do at once, and any does when memory is short.
#[test]
fn a_disk_that_forgets_shows_what_is_durable_after_a_failed_sync() {
    let mut old = 0;
    for seed in seeds(60) {
        let disk = SimulatedDisk::new(seed);
        disk.forget_unsynced(true);
        disk.write_file("file", &[1; 4096]);
        let file = disk.open("file", OpenMode::Write).unwrap();
        file.write_all_at(&[2; 4096], 0).unwrap();
        disk.fail_next(FaultKind::SyncError);
        file.sync_data().unwrap_err();
        let shown = disk.read_file("file").unwrap();
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll] {
            assert!(disk.after_power_loss(outcome).read_file("file").unwrap() == shown, "seed {seed}");
        }
        old += u32::from(shown[0] == 1);
        file.write_all_at(&[3; 512], 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(disk.after_power_loss(PowerLoss::LoseAll).read_file("file").unwrap()[0], 3);
    }
    assert!((5..55).contains(&old) || seeds(60).count() == 1, "old bytes {old} times of 60");
}

#[test]
fn a_durable_write_that_fails_at_its_flush_is_seen_and_lost_with_the_power() {
    let mut lost = 0;
    for seed in seeds(60) {
        let disk = SimulatedDisk::new(seed);
        disk.write_file("log", &[1; BLOCK_BYTES]);
        let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
        buffer.fill(2);
        disk.fail_next(FaultKind::SyncError);
        disk.open("log", OpenMode::Log).unwrap().write_durable_at(&buffer, 0..BLOCK_BYTES, 0).unwrap_err();
        let is_new = |disk: &SimulatedDisk| disk.read_file("log").unwrap() == [2; BLOCK_BYTES];
        lost += u32::from(is_new(&disk) && !is_new(&disk.after_power_loss(PowerLoss::LoseAll)));
        disk.open("log", OpenMode::Write).unwrap().sync_data().unwrap();
        assert_eq!(is_new(&disk), is_new(&disk.after_power_loss(PowerLoss::LoseAll)), "seed {seed}");
    }
    assert!((5..55).contains(&lost) || seeds(60).count() == 1, "seen and lost {lost} times of 60");
}

/// A file is longer, and what was written there is not: zeros stand for it.
#[test]
fn a_power_loss_may_leave_a_length_without_the_bytes() {
    let mut found = 0;
    for seed in seeds(100) {
        let disk = disk_with_file(&[1; 100]);
        disk.open("file", OpenMode::Write).unwrap().write_all_at(&[2; 400], 100).unwrap();
        let bytes = disk.after_power_loss(PowerLoss::Random(seed)).read_file("file").unwrap();
        found += u32::from(bytes.len() == 500 && bytes[100..] == [0; 400]);
    }
    assert!(found > 3 || seeds(100).count() == 1, "{found} of 100");
}
