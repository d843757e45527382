//! Random histories of everything a program can do with a database, against a plain model.
//!
//! A history is a function of its seed: options, keys, calls, crashes. `SEAWALL_SEED=n` repeats one;
//! `SEAWALL_HISTORIES=n` runs more (or fewer) than the default.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "model/history.rs"]
mod history;
#[path = "model/plain.rs"]
mod plain;
#[path = "model/prepared.rs"]
mod prepared;

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const HISTORIES: u64 = 4000;

#[test]
fn random_histories_agree_with_a_plain_model() {
    let count =
        std::env::var("SEAWALL_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    let seeds = seawall_simulation::seeds(count);
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end || failed.lock().unwrap().len() >= 3 {
                        return;
                    }
                    if std::panic::catch_unwind(AssertUnwindSafe(|| history::History::run(seed))).is_err() {
                        eprintln!("^ history with seed {seed}: repeat it with SEAWALL_SEED={seed}");
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "histories that went wrong, by seed for SEAWALL_SEED: {failed:?}");
}
