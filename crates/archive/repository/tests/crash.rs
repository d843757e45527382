//! Power losses and faults of the disk under a repository, at every call.
//!
//! Invariant: a push returns when the object is durable, and not before; an object is there as a whole or not at all.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{SYSTEM, history, name, options, pack, segments};
use seawall_archive::{ArchiveError, Compression, Repository, System};
use seawall_io::Disk;
use seawall_simulation::{Fault, FaultError, FaultTarget, PowerLoss, SimulatedDisk};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

type File = (String, Vec<u8>);

fn files() -> Vec<File> {
    let mut files = segments(2);
    files.push(history("promoted"));
    files
}

/// Makes a repository and pushes all files; returns how many were acknowledged. The repository counts as one.
fn run(disk: &SimulatedDisk, files: &[File]) -> (bool, Vec<File>) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let Ok(repository) = Repository::create_on(shared, options(1, None)) else { return (false, Vec::new()) };
    let is_there = |file: &&File| repository.push(&pack(&file.0, &file.1, Compression::Lz4)).is_ok();
    (true, files.iter().filter(is_there).cloned().collect())
}

/// What is there is whole, what was acknowledged is there, and what was not can be pushed.
fn examine(disk: &SimulatedDisk, is_made: bool, acknowledged: &[File], files: &[File], what: &str) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let repository = match Repository::open_on(shared.clone(), options(2, None)) {
        Ok(repository) => repository,
        Err(ArchiveError::NoRepository { .. }) if !is_made => {
            Repository::create_on(shared, options(2, None)).unwrap()
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let fetch = |file: &str| {
        let mut content = Vec::new();
        repository.fetch(POSTGRESQL, name(file), &mut content).map(|_| content)
    };
    for (file, content) in acknowledged {
        let found = fetch(file).unwrap_or_else(|error| panic!("{what}: {file} was acknowledged: {error}"));
        assert!(found == *content, "{what}: {file}");
    }
    for (file, content) in files {
        match fetch(file) {
            Ok(found) => assert!(found == *content, "{what}: {file}"),
            Err(ArchiveError::NotFound { .. }) => {}
            Err(error) => panic!("{what}: {file} is there and not whole: {error}"),
        }
        repository.push(&pack(file, content, Compression::Zstd)).unwrap();
        assert!(fetch(file).unwrap() == *content, "{what}: {file}");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_loss_at_any_call() {
    let files = files();
    let whole = SimulatedDisk::new(0);
    assert_eq!(run(&whole, &files).1.len(), files.len());
    let calls = whole.calls();
    assert!(calls > 20, "{calls} calls");
    for call in 0..=calls {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let (is_made, acknowledged) = run(&disk, &files);
        for outcome in
            [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call), PowerLoss::Random(call + 1000)]
        {
            let what = format!("power loss at call {call} of {calls}, {outcome:?}");
            examine(&disk.after_power_loss(outcome), is_made, &acknowledged, &files, &what);
        }
    }
}

#[test]
fn a_failed_call_is_told_and_what_was_acknowledged_is_there() {
    let files = files();
    let whole = SimulatedDisk::new(0);
    run(&whole, &files);
    for call in 0..whole.calls() {
        for number in [5, 28] {
            let disk = SimulatedDisk::new(call);
            disk.inject(Fault {
                target: FaultTarget::Call(call),
                error: FaultError::Number(number),
                skip: 0,
                count: 1,
            });
            let (is_made, acknowledged) = run(&disk, &files);
            disk.clear_faults();
            let what = format!("error {number} in call {call}");
            examine(&disk.after_power_loss(PowerLoss::LoseAll), is_made, &acknowledged, &files, &what);
        }
    }
}
