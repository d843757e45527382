//! The power goes, or a call fails, at any moment of a restore: what is left is a whole cluster, or nothing that PostgreSQL starts in
//! and a restore that resumes.

use std::collections::BTreeMap;

use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operations, PowerLoss, SeededRandom, crash_count, crash_step, seeds,
};

use super::cut_short::{archive, files};
use super::*;

const MARKER: &str = "seawall-restoring";
const CONTROL: &str = "global/pg_control";

/// What is on a disk, by path, but for the marker.
fn content(disk: &SimulatedDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list_all().into_iter().map(|entry| entry.name).filter(|name| name != MARKER);
    names.map(|name| (name.clone(), disk.read_file(&name).unwrap())).collect()
}

/// PostgreSQL starts there.
fn is_cluster(disk: &SimulatedDisk) -> bool {
    disk.read_file(CONTROL).is_some()
}

fn fault(target: FaultTarget, error: i32, skip: u64, count: u64) -> Fault {
    Fault { target, error: FaultError::Number(error), skip, count }
}

impl World {
    fn restore_on(&self, disk: &SimulatedDisk) -> Result<PostgreSqlRestoreReport, PostgreSqlBackupError> {
        let request = PostgreSqlRestoreRequest::new("get %f %p".to_owned());
        restore_on(&self.repository, SYSTEM, Arc::new(disk.clone()), &SystemClock, &request, &mut |_| ())
    }

    /// A whole cluster, and the calls that it takes.
    fn undisturbed(&self) -> (BTreeMap<String, Vec<u8>>, u64) {
        let disk = SimulatedDisk::new(3);
        self.restore_on(&disk).unwrap();
        assert!(is_cluster(&disk) && disk.read_file(MARKER).is_none());
        (content(&disk), disk.calls())
    }

    /// Whatever is left: it is the whole, or becomes it, and stays it. How many files were kept.
    #[track_caller]
    fn is_or_becomes(&self, left: &SimulatedDisk, expected: &BTreeMap<String, Vec<u8>>, what: &str) -> u64 {
        let mut kept = 0;
        if !is_cluster(left) {
            let report = self.restore_on(left).unwrap_or_else(|error| panic!("{what}: {error}"));
            kept = report.kept_files;
        }
        assert!(content(left) == *expected, "{what}: it is another cluster");
        let later = left.after_power_loss(PowerLoss::LoseAll);
        assert!(content(&later) == *expected, "{what}: it does not last");
        kept
    }
}

#[test]
fn a_power_loss_at_any_moment_leaves_a_cluster_or_a_restore_that_resumes() {
    let world = World::of(&archive(&files()));
    let (expected, calls) = world.undisturbed();
    let mut kept = 0;
    for call in (0..calls).step_by(crash_step(calls, calls)) {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        world.restore_on(&disk).unwrap_err();
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let left = disk.after_power_loss(outcome);
            kept += world.is_or_becomes(&left, &expected, &format!("call {call}, {outcome:?}"));
        }
    }
    assert!(kept > calls, "{kept} files were kept by the restores after {calls} power losses");
}

/// One power loss after the other, until one restore comes to its end.
#[test]
fn a_restore_ends_however_often_the_power_goes() {
    let world = World::of(&archive(&files()));
    let (expected, calls) = world.undisturbed();
    for seed in seeds(crash_count(40)) {
        let mut random = SeededRandom::new(seed);
        let mut disk = SimulatedDisk::new(seed);
        while !is_cluster(&disk) {
            disk.crash_at(random.below(2 * calls));
            let ended = world.restore_on(&disk);
            disk = disk.after_power_loss(match random.below(3) {
                0 => PowerLoss::LoseAll,
                1 => PowerLoss::KeepAll,
                _ => PowerLoss::Random(random.below(1 << 32)),
            });
            assert!(
                ended.is_err() || is_cluster(&disk),
                "seed {seed}: it had ended, and there is no cluster"
            );
        }
        assert!(content(&disk) == expected, "seed {seed}: it is another cluster");
    }
}

/// The same disk goes on: what a failed sync has left counts for nothing, also where the operating system shows it.
#[test]
fn a_call_that_fails_is_told_and_the_next_restore_resumes() {
    let world = World::of(&archive(&files()));
    let (expected, calls) = world.undisturbed();
    for (number, forgets) in [(5, false), (5, true), (28, false)] {
        for call in (0..calls).step_by(crash_step(calls, 40)) {
            let what = format!("error {number}, call {call}, forgets {forgets}");
            let disk = SimulatedDisk::new(call);
            disk.forget_unsynced(forgets);
            disk.inject(fault(FaultTarget::Call(call), number, 0, 1));
            match world.restore_on(&disk) {
                Err(PostgreSqlBackupError::Io { source, .. }) => {
                    assert_eq!(seawall_io::raw_os_error(&source), Some(number), "{what}");
                }
                other => panic!("{what}: {other:?}"),
            }
            // The last names of all are the only ones that may not be durable in a cluster then.
            let left = if is_cluster(&disk) { disk.after_power_loss(PowerLoss::KeepAll) } else { disk };
            world.is_or_becomes(&left, &expected, &what);
        }
    }
}

/// The power goes after a sync has failed, and before the next restore.
#[test]
fn a_power_loss_after_a_call_that_failed_leaves_a_restore_that_resumes_or_says_why_not() {
    let world = World::of(&archive(&files()));
    let (expected, calls) = world.undisturbed();
    for call in (0..calls).step_by(crash_step(calls, 40)) {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let disk = SimulatedDisk::new(call);
            disk.inject(fault(FaultTarget::Call(call), 5, 0, 1));
            world.restore_on(&disk).unwrap_err();
            let left = disk.after_power_loss(outcome);
            world.is_or_becomes(&left, &expected, &format!("call {call}, {outcome:?}"));
        }
    }
}

/// The store is away for a while.
#[test]
fn a_repository_that_fails_at_any_moment_is_told_and_the_next_restore_resumes() {
    let world = World::of(&archive(&files()));
    let (expected, _) = world.undisturbed();
    let (mut failed, mut kept) = (0, 0);
    for skip in (0..200).step_by(7) {
        let disk = SimulatedDisk::new(skip);
        let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Reads };
        world.store.inject(fault(target, 5, skip, u64::MAX));
        let ended = world.restore_on(&disk);
        world.store.clear_faults();
        assert_eq!(ended.is_ok(), is_cluster(&disk), "{skip} reads: {ended:?}");
        failed += u64::from(ended.is_err());
        kept += world.is_or_becomes(&disk, &expected, &format!("{skip} reads"));
    }
    assert!(failed > 5 && kept > failed, "{failed} failed, and {kept} files were kept");
}
