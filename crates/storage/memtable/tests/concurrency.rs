//! Writers, readers and scans at the same time. What must hold at any moment is checked while they run.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use seawall_memtable::{Cursor, Lookup, Memtable};
use seawall_simulation::SeededRandom;
use seawall_types::Lsn;

const WRITER_COUNT: u64 = 2;

/// Rows of each writer.
fn row_count() -> u64 {
    if cfg!(miri) { 60 } else { 20_000 }
}

fn key(writer: u64, row: u64) -> Vec<u8> {
    // Spread, so that the writers' keys lie between each other's and come in no order.
    [3, row.wrapping_mul(0x9E37_79B9_7F4A_7C15) << 1 | (writer & 1)].map(u64::to_be_bytes).concat()
}

/// A value that shows if it is torn: all words are the stamp.
fn value(stamp: u64, words: usize) -> Vec<u8> {
    stamp.to_be_bytes().repeat(words)
}

fn stamp_of(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    assert!(rest.is_empty() && words.iter().all(|word| *word == words[0]), "torn: {value:?}");
    u64::from_be_bytes(words[0])
}

#[test]
fn scans_meet_each_row_once_in_order_while_writers_insert() {
    let memtable = Memtable::new(1 << 20);
    let running = AtomicU64::new(WRITER_COUNT);
    // Rows below it are surely there, for each writer.
    let inserted: Vec<AtomicU64> = (0..WRITER_COUNT).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for writer in 0..WRITER_COUNT {
            let (memtable, inserted, running) = (&memtable, &inserted, &running);
            scope.spawn(move || {
                for row in 0..row_count() {
                    memtable
                        .insert(&key(writer, row), Lsn::new(row + 1), Some(&value(row + 1, 3)), || Lsn::ZERO);
                    inserted[usize::try_from(writer).unwrap()].store(row + 1, Ordering::Release);
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        let scan = |forward: bool| {
            while running.load(Ordering::Acquire) > 0 {
                let before: u64 = inserted.iter().map(|count| count.load(Ordering::Acquire)).sum();
                let count = count_rows(&memtable, forward);
                assert!(count >= before, "{count} rows of {before}");
            }
        };
        scope.spawn(move || scan(true));
        scope.spawn(move || scan(false));
        scope.spawn(|| {
            let mut random = SeededRandom::new(7);
            while running.load(Ordering::Acquire) > 0 {
                let writer = random.below(WRITER_COUNT);
                let there = inserted[usize::try_from(writer).unwrap()].load(Ordering::Acquire);
                let row = random.below(row_count());
                match memtable.get(&key(writer, row), Lsn::MAX) {
                    Lookup::Value(value) => assert_eq!(stamp_of(value), row + 1),
                    Lookup::Deleted => panic!("nobody deletes"),
                    Lookup::Missing => assert!(row >= there, "row {row} of {there} is missing"),
                }
            }
        });
    });
    assert_eq!(count_rows(&memtable, true), WRITER_COUNT * row_count());
    assert_eq!(memtable.row_count() as u64, WRITER_COUNT * row_count());
}

fn count_rows(memtable: &Memtable, forward: bool) -> u64 {
    let mut cursor = Cursor::new();
    if forward {
        cursor.seek_to_first(memtable)
    } else {
        cursor.seek_to_last(memtable)
    }
    let mut last: Option<&[u8]> = None;
    let mut count = 0;
    while let Some((key, versions)) = if forward { cursor.next(memtable) } else { cursor.previous(memtable) }
    {
        assert!(
            last.is_none_or(|last| if forward { last < key } else { last > key }),
            "out of order at {key:?}"
        );
        let (stamp, value) = versions.newest();
        assert_eq!(stamp_of(value.unwrap()), stamp.get());
        last = Some(key);
        count += 1;
    }
    count
}

/// One writer updates few rows again and again; readers hold snapshots, which hold back the horizon.
#[test]
fn what_a_snapshot_sees_is_never_written_over() {
    const READERS: usize = 2;
    const ROWS: u64 = 4;
    const ROW_COUNT: usize = 4;
    const IDLE: u64 = u64::MAX;
    let memtable = Memtable::new(0);
    let visible = AtomicU64::new(ROWS);
    let snapshots: [AtomicU64; READERS] = [const { AtomicU64::new(IDLE) }; READERS];
    let done = AtomicBool::new(false);
    for row in 0..ROWS {
        memtable.insert(&key(0, row), Lsn::new(row + 1), Some(&value(row + 1, 4)), || Lsn::ZERO);
    }
    thread::scope(|scope| {
        for own in &snapshots {
            let (memtable, visible, done) = (&memtable, &visible, &done);
            scope.spawn(move || {
                let mut last = [0; ROW_COUNT];
                while !done.load(Ordering::SeqCst) {
                    // A low snapshot first, so that the horizon waits while the real one is drawn.
                    own.store(0, Ordering::SeqCst);
                    let snapshot = visible.load(Ordering::SeqCst);
                    own.store(snapshot, Ordering::SeqCst);
                    let read = |row| match memtable.get(&key(0, row), Lsn::new(snapshot)) {
                        Lookup::Value(value) => value,
                        other => panic!("{other:?} at {snapshot}"),
                    };
                    let values: Vec<&[u8]> = (0..ROWS).map(read).collect();
                    // Written in turn: of the last ROWS stamps, the one that is this row's.
                    for (row, value) in values.iter().enumerate() {
                        let stamp = stamp_of(value);
                        assert_eq!((stamp - 1) % ROWS, row as u64);
                        assert!(stamp <= snapshot && stamp + ROWS > snapshot, "{stamp} at {snapshot}");
                        assert!(stamp >= last[row], "row {row} ran backwards");
                        last[row] = stamp;
                    }
                    own.store(IDLE, Ordering::SeqCst);
                }
            });
        }
        let last = if cfg!(miri) { 300 } else { 200_000 };
        for stamp in ROWS + 1..=last {
            let horizon = || {
                let now = visible.load(Ordering::SeqCst);
                Lsn::new(snapshots.iter().map(|own| own.load(Ordering::SeqCst)).min().unwrap().min(now))
            };
            let words = 1 + usize::try_from(stamp % 20).unwrap();
            memtable.insert(
                &key(0, (stamp - 1) % ROWS),
                Lsn::new(stamp),
                Some(&value(stamp, words)),
                horizon,
            );
            visible.store(stamp, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn writers_of_the_same_leaves_lose_nothing() {
    let memtable = Memtable::new(0);
    let count = if cfg!(miri) { 40 } else { 10_000 };
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            let memtable = &memtable;
            scope.spawn(move || {
                for row in 0..count {
                    let key = [1, row * 4 + writer].map(u64::to_be_bytes).concat();
                    memtable.insert(&key, Lsn::new(row + 1), None, || Lsn::ZERO);
                    assert_eq!(memtable.get(&key, Lsn::MAX), Lookup::Deleted);
                }
            });
        }
    });
    let mut cursor = Cursor::new();
    cursor.seek(&memtable, &1_u64.to_be_bytes());
    for number in 0..count * 4 {
        let (key, _) = cursor.next(&memtable).unwrap();
        assert_eq!(key, [1, number].map(u64::to_be_bytes).concat());
    }
    assert!(cursor.next(&memtable).is_none());
}

/// As a checkpoint does with several threads, each with its own rows.
#[test]
fn bases_come_behind_all_versions_while_threads_add_them_and_others_read() {
    let memtable = Memtable::new(1 << 20);
    for row in 0..row_count() {
        memtable.insert(&key(0, row), Lsn::new(100), Some(&value(100, 2)), || Lsn::ZERO);
        memtable.insert(&key(0, row), Lsn::new(200), Some(&value(200, 2)), || Lsn::ZERO);
    }
    let versions_before = memtable.version_count();
    let threads = 3;
    thread::scope(|scope| {
        for thread in 0..threads {
            let memtable = &memtable;
            scope.spawn(move || {
                for row in (thread..row_count()).step_by(3) {
                    memtable.add_base(&key(0, row), Lsn::new(7), Some(&value(row, 3)));
                }
            });
        }
        scope.spawn(|| {
            let mut random = SeededRandom::new(1);
            while memtable.version_count() < versions_before + usize::try_from(row_count()).unwrap() {
                let row = random.below(row_count());
                assert_eq!(memtable.get(&key(0, row), Lsn::new(150)), Lookup::Value(&value(100, 2)));
                match memtable.get(&key(0, row), Lsn::new(50)) {
                    Lookup::Value(found) => assert_eq!(stamp_of(found), row),
                    Lookup::Missing => {}
                    Lookup::Deleted => panic!("nobody deletes"),
                }
            }
        });
    });
    for row in 0..row_count() {
        assert_eq!(memtable.get(&key(0, row), Lsn::new(7)), Lookup::Value(&value(row, 3)));
        assert_eq!(memtable.get(&key(0, row), Lsn::new(6)), Lookup::Missing);
    }
}
