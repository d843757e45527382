//! Many threads append and wait at once; a reader follows.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{ROW_KEY, append, arc, geometry, open_reader, options, read_all};
use seawall_simulation::SimulatedDisk;
use seawall_sync::Mutex;
use seawall_testing::wait_until;
use seawall_types::Lsn;
use seawall_wal::{CommitBuilder, FlushBy, Log, LogError, LogObserver, LogOptions, OpenLog};

fn log_with(disk: &SimulatedDisk, flush_by: FlushBy) -> OpenLog {
    Log::create(arc(disk), small_buffer(flush_by)).unwrap()
}

fn observed_log(disk: &SimulatedDisk, flush_by: FlushBy, observer: Arc<dyn LogObserver>) -> OpenLog {
    let options = LogOptions { observer: Some(observer), ..small_buffer(flush_by) };
    Log::create(arc(disk), options).unwrap()
}

fn small_buffer(flush_by: FlushBy) -> LogOptions {
    LogOptions { flush_by, buffer_bytes: 64 << 10, ..options() }
}

/// What the log has reported.
#[derive(Debug, Default)]
struct Reported {
    /// The highest LSN.
    flushed: AtomicU64,
    is_poisoned: AtomicBool,
}

impl LogObserver for Reported {
    fn flushed(&self, flushed: Lsn) {
        self.flushed.fetch_max(flushed.get(), Ordering::SeqCst);
    }

    fn poisoned(&self) {
        self.is_poisoned.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Panics;

impl LogObserver for Panics {
    fn flushed(&self, _flushed: Lsn) {
        panic!("a bug in an observer");
    }
}

fn stress(flush_by: FlushBy, threads: u64, commits: u64, value_bytes: usize) {
    let disk = SimulatedDisk::new(1);
    let observed = Arc::new(Reported::default());
    let log = observed_log(&disk, flush_by, observed.clone());
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (log, order, observed) = (&log, &order, &observed);
            scope.spawn(move || {
                let mut builder = CommitBuilder::new();
                let value = vec![u8::try_from(thread).unwrap(); value_bytes];
                for index in 0..commits {
                    builder.begin(0);
                    builder.put(&ROW_KEY, &value);
                    let result = log.append(builder.finish(), |span| {
                        order.lock().push(span);
                        Ok::<_, Infallible>(())
                    });
                    let Ok((span, ())) = result.unwrap();
                    // Every third one is asynchronous, and now and then somebody asks for a flush of those.
                    match index % 3 {
                        0 => {}
                        1 => log.request_flush(span.end),
                        _ => {
                            log.flush_until(span.end).unwrap();
                            assert!(log.flushed() >= span.end);
                            assert!(
                                observed.flushed.load(Ordering::SeqCst) >= span.end.get(),
                                "observed before woken"
                            );
                        }
                    }
                }
            });
        }
    });
    log.flush_until(log.appended()).unwrap();
    let order = order.into_inner();
    assert_eq!(order.len() as u64, threads * commits);
    let mut next = geometry().first_lsn();
    for span in &order {
        assert_eq!(span.start, next, "calls come in the order of the log");
        next = span.end;
    }
    let (found, end) = read_all(&disk).unwrap();
    assert_eq!((found.len(), end.lsn), (order.len(), next));
    assert!(found.iter().zip(&order).all(|(found, span)| found.span == *span));
    let statistics = log.statistics();
    assert_eq!(statistics.records, threads * commits);
    assert!(statistics.batches <= statistics.records);
}

#[test]
fn threads_flush_for_each_other() {
    stress(FlushBy::Caller, 8, 400, 100);
}

#[test]
fn the_log_s_own_thread_flushes_for_all() {
    stress(FlushBy::Thread, 8, 400, 100);
}

#[test]
fn records_longer_than_buffer_and_segment_go_through() {
    stress(FlushBy::Caller, 3, 12, 150_000);
    stress(FlushBy::Thread, 3, 12, 150_000);
}

#[test]
fn a_full_buffer_is_flushed_without_anybody_asking() {
    for flush_by in [FlushBy::Caller, FlushBy::Thread] {
        let disk = SimulatedDisk::new(1);
        let log = log_with(&disk, flush_by);
        for _ in 0..500 {
            append(&log, &[5; 1000]).unwrap();
        }
        assert!(log.flushed() > geometry().first_lsn());
        log.flush_until(log.appended()).unwrap();
        assert_eq!(read_all(&disk).unwrap().0.len(), 500);
    }
}

#[test]
fn waiting_threads_learn_that_the_log_is_poisoned() {
    for flush_by in [FlushBy::Caller, FlushBy::Thread] {
        let disk = SimulatedDisk::new(1);
        let observed = Arc::new(Reported::default());
        let log = observed_log(&disk, flush_by, observed.clone());
        disk.crash_at(disk.calls() + 200);
        let failures = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while let Ok(span) = append(&log, &[1; 100]) {
                        if log.flush_until(span.end).is_err() {
                            break;
                        }
                    }
                    failures.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(failures.load(Ordering::SeqCst), 8);
        assert!(log.poison_cause().is_some());
        assert!(observed.is_poisoned.load(Ordering::SeqCst), "the observer was not told");
    }
}

#[test]
fn a_reader_follows_a_writer() {
    let disk = SimulatedDisk::new(1);
    let log = log_with(&disk, FlushBy::Thread);
    let is_done = AtomicBool::new(false);
    let count = 3000_u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0..count {
                let span = append(&log, &index.to_le_bytes()).unwrap();
                if index % 7 == 0 {
                    log.flush_until(span.end).unwrap();
                }
            }
            log.flush_until(log.appended()).unwrap();
            is_done.store(true, Ordering::SeqCst);
        });
        let mut reader = open_reader(&disk, geometry().first_lsn()).unwrap();
        let mut read = 0_u64;
        let mut last = Lsn::ZERO;
        wait_until("all to be written, and read", || {
            let was_done = is_done.load(Ordering::SeqCst);
            reader.set_limit(log.flushed());
            while let Some(record) = reader.next().unwrap() {
                assert!(record.span.start >= last);
                assert!(record.batch_start <= record.span.start);
                last = record.span.end;
                read += 1;
            }
            was_done
        });
        assert_eq!(read, count);
        assert_eq!(reader.finish().lsn, log.flushed());
    });
}

/// A bug in an observer, or in the flush itself.
#[test]
fn nobody_sleeps_on_when_a_flush_has_panicked() {
    for flush_by in [FlushBy::Caller, FlushBy::Thread] {
        let log = Arc::new(observed_log(&SimulatedDisk::new(1), flush_by, Arc::new(Panics)));
        let end = append(&log, b"first").unwrap().end;
        let (told, returned) = channel();
        for _ in 0..4 {
            let (log, told) = (Arc::clone(&log), told.clone());
            std::thread::spawn(move || {
                let flushed = append(&log, b"x").and_then(|span| log.flush_until(span.end));
                told.send(flushed.is_ok() || log.poison_cause().is_some())
            });
        }
        for _ in 0..4 {
            assert_eq!(returned.recv_timeout(Duration::from_secs(60)), Ok(true), "{flush_by:?}");
        }
        log.flush_until(end).unwrap();
        assert!(matches!(append(&log, b"more"), Err(LogError::Poisoned { .. })), "{flush_by:?}");
    }
}
