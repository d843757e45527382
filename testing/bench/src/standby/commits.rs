//! Commits a second, each tenth of a second, by threads that put a row each time and wait until it is durable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seawall::{Database, Table};

use crate::error::BenchError;
use crate::standby::{TABLE, failed};
use crate::usage::now;

/// What is counted together.
pub(super) const BUCKET: Duration = Duration::from_millis(100);

/// The commits of each bucket.
pub(super) fn count(database: &Database, threads: u64, length: Duration) -> Result<Vec<u64>, BenchError> {
    let table = database.table(TABLE).map_err(failed("open a table"))?;
    let (committed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let (table, committed, is_over) = (&table, &committed, &is_over);
                scope.spawn(move || write(database, table, thread, committed, is_over))
            })
            .collect();
        let (begun, mut buckets, mut before) = (now(), Vec::new(), 0);
        while begun.elapsed() < length && !writers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            let due = BUCKET * u32::try_from(buckets.len() + 1).unwrap_or(u32::MAX);
            std::thread::park_timeout(due.saturating_sub(begun.elapsed()));
            if begun.elapsed() >= due {
                let all = committed.load(Ordering::SeqCst);
                buckets.push(all - before);
                before = all;
            }
        }
        is_over.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.join().map_err(|_| failed("put")("a writer has panicked"))??;
        }
        Ok(buckets)
    })
}

fn write(
    database: &Database,
    table: &Table,
    thread: u64,
    committed: &AtomicU64,
    is_over: &AtomicBool,
) -> Result<(), BenchError> {
    for number in 0_u64.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let key = [thread.to_be_bytes(), (number % 10_000).to_be_bytes()].concat();
        database.put(table, key, [7; 100]).map_err(failed("put"))?;
        committed.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}
