//! A checkpoint in the background that meets a full disk: writers are told and not left waiting, it is tried again, and once
//! there is room everything goes on by itself.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use seawall_engine::{Background, Database, Environment, Error, Options, PageProtection, Table};
use seawall_io::SystemClock;
use seawall_simulation::{Fault, FaultError, Operations, SimulatedClock, SimulatedDisk};
use seawall_testing::{PATIENCE, wait_until};

use super::{calls, check_clean, check_rows, environment, small_options, value};

const ENOSPC: FaultError = FaultError::Number(28);

/// What `work` gives. A thread that hangs must not take the test with it.
fn within_a_minute<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = sync_channel(1);
    let worker = std::thread::spawn(move || sender.send(work()));
    let done = receiver.recv_timeout(PATIENCE);
    let done = done.unwrap_or_else(|error| panic!("{what}: {error}"));
    worker.join().unwrap().unwrap();
    done
}

/// Puts rows from `next` on until that is refused; the first row that is not there, and why.
fn put_until_refused(database: &Database, table: &Table, mut next: u32) -> (u32, Error) {
    loop {
        match database.put(table, next.to_be_bytes(), value(next)) {
            Ok(_) => next += 1,
            Err(error) => return (next, error),
        }
    }
}

#[test]
fn a_checkpoint_in_the_background_is_tried_again_and_writers_are_released() {
    for page_protection in [PageProtection::RecoveryFile, PageProtection::LogImages] {
        for full in ["pages", "recovery/"] {
            if page_protection == PageProtection::LogImages && full == "recovery/" {
                continue;
            }
            let disk = SimulatedDisk::new(1);
            let mut options = Options { background: Background::Threads, ..small_options() };
            options.memory.memtable_bytes = 256 << 10;
            options.checkpoint.page_protection = page_protection;
            let clock = Arc::new(SystemClock);
            let environment = Environment { clock, ..environment(&disk, &SimulatedClock::default()) };
            let database = Arc::new(Database::open(environment, options).unwrap());
            let table = Arc::new(database.create_table("t").unwrap());
            database.checkpoint().unwrap();
            let (target, writes) = (|operations| calls(full, operations), Operations::Writes);
            disk.inject(Fault { target: target(writes), error: ENOSPC, skip: 0, count: u64::MAX });
            let (writer, to) = (Arc::clone(&database), Arc::clone(&table));
            let (rows, error) = within_a_minute("a writer waits for a checkpoint that fails", move || {
                put_until_refused(&writer, &to, 0)
            });
            assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
            assert!(rows > 100, "refused after {rows} rows, before a checkpoint was needed");
            let failed = database.statistics().checkpoints.completed;
            disk.clear_faults();
            // Nobody asks for it: the thread has to try again by itself.
            wait_until("the next try of a checkpoint", || {
                database.statistics().checkpoints.completed > failed
            });
            let (writer, to) = (Arc::clone(&database), Arc::clone(&table));
            within_a_minute("a writer waits though there is room", move || {
                for row in rows..rows + 500 {
                    writer.put(&to, row.to_be_bytes(), value(row)).unwrap();
                }
            });
            check_rows(&database, 0..rows + 500);
            check_clean(&database);
        }
    }
}
