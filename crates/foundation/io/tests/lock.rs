//! Locks hold between processes, and end with the process that held them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use seawall_io::{Disk, LockMode, OsDisk};

const DIRECTORY: &str = "SEAWALL_TEST_LOCK_DIRECTORY";
const MODE: &str = "SEAWALL_TEST_LOCK_MODE";

/// Not a test of its own: the other process. Takes the lock, says so, and holds it until its input ends.
#[test]
fn other_process() {
    let (Ok(directory), Ok(mode)) = (std::env::var(DIRECTORY), std::env::var(MODE)) else { return };
    let mode = if mode == "shared" { LockMode::Shared } else { LockMode::Exclusive };
    let _lock = OsDisk::new(directory).lock("lock", mode).unwrap();
    // Not on the standard output, which the test harness writes to as well.
    eprintln!("\nlocked");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn start_other_process(directory: &Path, mode: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(MODE, mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|line| line == "locked"),
        "the other process did not get the lock"
    );
    child
}

#[test]
fn a_lock_keeps_other_processes_out_until_its_holder_dies() {
    let directory = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(directory.path());
    let mut child = start_other_process(directory.path(), "exclusive");
    for mode in [LockMode::Shared, LockMode::Exclusive] {
        let error = disk.lock("lock", mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains("lock"), "{error}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    disk.lock("lock", LockMode::Exclusive).unwrap();
}

#[test]
fn readers_of_several_processes_share() {
    let directory = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(directory.path());
    let mut child = start_other_process(directory.path(), "shared");
    let shared = disk.lock("lock", LockMode::Shared).unwrap();
    assert_eq!(disk.lock("lock", LockMode::Exclusive).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(disk.lock("lock", LockMode::Exclusive).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(shared);
    disk.lock("lock", LockMode::Exclusive).unwrap();
}

#[test]
fn two_opens_in_one_process_exclude_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let held = OsDisk::new(directory.path()).lock("lock", LockMode::Exclusive).unwrap();
    let again = OsDisk::new(directory.path()).lock("lock", LockMode::Exclusive);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    OsDisk::new(directory.path()).lock("lock", LockMode::Exclusive).unwrap();
}

/// As a restore does with its marker, or an administrator with the lock of a database.
#[test]
fn a_lock_is_on_the_file_that_has_the_name() {
    let directory = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(directory.path());
    let _of_a_removed_file = disk.lock("lock", LockMode::Exclusive).unwrap();
    disk.remove("lock").unwrap();
    let held = OsDisk::new(directory.path()).lock("lock", LockMode::Exclusive).unwrap();
    let again = OsDisk::new(directory.path()).lock("lock", LockMode::Exclusive);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
}

/// Each thread opens the file while another one may remove it, and locks what it has opened.
#[test]
fn of_many_that_lock_a_file_and_remove_it_one_at_a_time_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let (holders, locked) = (AtomicU32::new(0), AtomicU32::new(0));
    let lock_and_remove = || {
        // Another disk each time, as another process has it.
        let disk = OsDisk::new(directory.path());
        let lock = match disk.lock("lock", LockMode::Exclusive) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            lock => lock.unwrap(),
        };
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two have the lock");
        locked.fetch_add(1, Ordering::SeqCst);
        // From its removal on, another one may make the file anew and lock that.
        holders.fetch_sub(1, Ordering::SeqCst);
        disk.remove("lock").unwrap();
        drop(lock);
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5_000).for_each(|_| lock_and_remove()));
        }
    });
    assert!(locked.into_inner() > 0);
}
