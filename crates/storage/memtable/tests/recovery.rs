//! Memtables built from sorted rows and from replay partitions against a plain map.

mod common;

use std::collections::BTreeMap;

use common::ALL_KEYS;
use seawall_memtable::{Cursor, Lookup, Memtable, MemtableBuilder, ReplayPartition};
use seawall_simulation::SeededRandom;
use seawall_types::Lsn;

type Rows = BTreeMap<Vec<u8>, (Lsn, Option<Vec<u8>>)>;

fn check(memtable: &Memtable, rows: &Rows) {
    assert_eq!(memtable.row_count(), rows.len());
    assert_eq!(memtable.is_empty(), rows.is_empty());
    let mut cursor = Cursor::new();
    cursor.seek_to_first(memtable);
    for (key, (stamp, value)) in rows {
        let (found, versions) = cursor.next(memtable).expect("a row is missing");
        assert_eq!(found, key);
        assert_eq!(versions.newest(), (*stamp, value.as_deref()));
        let expected = value.as_deref().map_or(Lookup::Deleted, Lookup::Value);
        assert_eq!(memtable.get(key, *stamp), expected);
        assert_eq!(memtable.get(key, Lsn::new(stamp.get() - 1)), Lookup::Missing);
    }
    assert!(cursor.next(memtable).is_none());
    cursor.seek_to_last(memtable);
    for key in rows.keys().rev() {
        assert_eq!(cursor.previous(memtable).expect("a row is missing").0, key);
    }
    assert!(cursor.previous(memtable).is_none());
}

/// A built memtable takes inserts like any other.
fn check_inserts(memtable: &Memtable, rows: &mut Rows, random: &mut SeededRandom, keys: common::Keys) {
    for step in 0..500 {
        let key = keys.draw(random, 10_000 + step, 5000);
        let stamp = Lsn::new(1_000_000 + step);
        memtable.insert(&key, stamp, Some(b"later"), || Lsn::ZERO);
        rows.insert(key, (stamp, Some(b"later".to_vec())));
    }
    assert_eq!(memtable.row_count(), rows.len());
    let mut cursor = Cursor::new();
    cursor.seek(memtable, b"");
    for (key, (stamp, value)) in rows {
        let (found, versions) = cursor.next(memtable).expect("a row is missing");
        assert_eq!((found, versions.newest()), (key.as_slice(), (*stamp, value.as_deref())));
        assert_eq!(memtable.newest_stamp(key), Some(*stamp));
    }
}

#[test]
fn partitions_merge_to_the_last_version_of_each_row() {
    let seeds = if cfg!(miri) { 1 } else { 6 };
    for seed in 0..seeds {
        for keys in ALL_KEYS {
            println!("seed {seed}, {keys:?}");
            let mut random = SeededRandom::new(seed);
            let mut partitions: Vec<ReplayPartition> = (0..=seed).map(|_| ReplayPartition::new()).collect();
            let mut rows = Rows::new();
            let row_count = if cfg!(miri) { 150 } else { [0, 1, 59, 61, 3000, 9000][random.index(6)] };
            for step in 0..row_count {
                let key = keys.draw(&mut random, step, 4000);
                let value = vec![u8::try_from(step % 256).unwrap(); random.index(50)];
                let value = if random.below(6) == 0 { None } else { Some(value) };
                let stamp = Lsn::new(100 + step);
                // Any partition: versions of one key in two of them are sorted out by their stamps.
                let index = random.index(partitions.len());
                partitions[index].push(&key, stamp, value.as_deref());
                rows.insert(key, (stamp, value));
            }
            // Some are sorted before, as by threads of their own.
            partitions.iter_mut().step_by(2).for_each(ReplayPartition::sort);
            for partition in partitions.iter().step_by(2) {
                assert!(partition.iter().is_sorted_by(|left, right| left.0 < right.0));
                assert_eq!(partition.iter().count(), partition.row_count());
            }
            let memtable = Memtable::from_partitions(partitions);
            check(&memtable, &rows);
            if !cfg!(miri) {
                check_inserts(&memtable, &mut rows, &mut random, keys);
            }
        }
    }
}

#[test]
fn of_equal_stamps_the_last_pushed_wins() {
    let mut partition = ReplayPartition::new();
    for value in [b"first", b"other", b"third"] {
        partition.push(b"row", Lsn::new(7), Some(value));
    }
    partition.sort();
    let rows: Vec<_> = partition.iter().collect();
    assert_eq!(rows, [(&b"row"[..], Lsn::new(7), Some(&b"third"[..]))]);
}

#[test]
fn sorted_rows_build_a_memtable() {
    let sizes: &[u64] =
        if cfg!(miri) { &[0, 1, 61, 200] } else { &[0, 1, 60, 61, 3660, 3661, 3720, 20_000, 250_000] };
    for row_count in sizes {
        let mut builder = MemtableBuilder::new(1000);
        let mut rows = Rows::new();
        for row in 0..*row_count {
            let key = [9, row * 3].map(u64::to_be_bytes).concat();
            let value = if row % 7 == 0 { None } else { Some(row.to_le_bytes().to_vec()) };
            builder.push(&key, Lsn::new(row + 1), value.as_deref());
            rows.insert(key, (Lsn::new(row + 1), value));
        }
        check(&builder.finish(), &rows);
    }
}

#[test]
#[should_panic(expected = "out of order")]
fn a_builder_refuses_rows_out_of_order() {
    let mut builder = MemtableBuilder::new(0);
    builder.push(b"b", Lsn::new(1), None);
    builder.push(b"b", Lsn::new(2), None);
}
