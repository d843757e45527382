//! Writers at a rate, since somebody holds the log back; the rate goes as soon as he comes up.
//!
//! Checked: who is slowed is slowed for the reason that there is, and never stopped; counters only grow, whoever reads them
//! meanwhile; the hold is not lost; in the end nobody is slowed.

use seawall_engine::{AtLimit, Background, Durability, HoldOptions, ThrottleReason};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;

use crate::world::{open, small_options};

const WRITERS: u8 = 2;
const ROWS: u8 = 10;
const ROW_BYTES: usize = 60_000;
/// Less than the writers write, and more than half of that: the hold is lost at twice the limit.
const LIMIT_BYTES: u64 = 1 << 20;
/// Of one commit: see `Throttle`.
const DELAY_MICROS_MAX: u64 = 40_000;

pub(crate) fn of_writers(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let mut options = small_options(Background::Manual);
    options.memory.memtable_bytes = 8 << 20;
    let database = open(&disk, options);
    let table = database.create_table("t").unwrap();
    let limited = HoldOptions {
        limit_bytes: Some(LIMIT_BYTES),
        at_limit: AtLimit::SlowWriters,
        ..HoldOptions::default()
    };
    let hold = database.log().hold("slow", limited, None).unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                for row in 0..ROWS {
                    database.with(Durability::Sync).put(&table, [writer, row], [row; ROW_BYTES]).unwrap();
                }
            })
        })
        .collect();
    let holder = thread::spawn({
        let database = database.clone();
        move || {
            let (mut delayed_micros, mut delayed_commits) = (0, 0);
            loop {
                let throttle = database.statistics().throttle;
                assert!(throttle.delayed_micros >= delayed_micros, "{throttle:?}");
                assert!(throttle.delayed_commits >= delayed_commits, "{throttle:?}");
                assert!((0.0..=1.0).contains(&throttle.factor), "{throttle:?}");
                assert!(throttle.delay_micros_per_commit <= DELAY_MICROS_MAX, "{throttle:?}");
                (delayed_micros, delayed_commits) = (throttle.delayed_micros, throttle.delayed_commits);
                if delayed_commits > 0 {
                    assert_eq!(throttle.reason, Some(ThrottleReason::HeldBackLog));
                    hold.advance(database.flush().unwrap()).unwrap();
                    return hold;
                }
                thread::yield_now();
            }
        }
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    holder.join().unwrap().release().unwrap();
    for row in 0..ROWS {
        database.put(&table, [WRITERS, row], [row; ROW_BYTES]).unwrap();
    }
    let throttle = database.statistics().throttle;
    assert_eq!((throttle.reason, throttle.rate_bytes_per_second), (None, None));
    assert_eq!(database.snapshot().rows(&table).count(), usize::from((WRITERS + 1) * ROWS));
    database.close().unwrap();
}
