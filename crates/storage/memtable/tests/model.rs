//! Random operations on a memtable against a plain map from key to versions.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;

use common::{ALL_KEYS, Keys};
use seawall_memtable::{Cursor, Lookup, Memtable};
use seawall_simulation::SeededRandom;
use seawall_types::Lsn;

type Version = (Lsn, Option<Vec<u8>>);

/// Each row's versions, oldest first.
#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, Vec<Version>>);

impl Model {
    fn insert(&mut self, key: &[u8], stamp: Lsn, value: Option<&[u8]>) {
        self.0.entry(key.to_vec()).or_default().push((stamp, value.map(<[u8]>::to_vec)));
    }

    fn get(&self, key: &[u8], snapshot: Lsn) -> Lookup<'_> {
        self.0.get(key).map_or(Lookup::Missing, |versions| visible(versions, snapshot))
    }
}

fn visible(versions: &[Version], snapshot: Lsn) -> Lookup<'_> {
    match versions.iter().rev().find(|(stamp, _)| *stamp <= snapshot) {
        Some((_, Some(value))) => Lookup::Value(value),
        Some((_, None)) => Lookup::Deleted,
        None => Lookup::Missing,
    }
}

/// One run: rows come in, the horizon rises now and then, and everything above the horizon is compared all the time.
struct Run {
    random: SeededRandom,
    memtable: Memtable,
    model: Model,
    /// Stamp of the last insert.
    now: u64,
    horizon: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let memtable = Memtable::new(100_000);
        Run { random: SeededRandom::new(seed), memtable, model: Model::default(), now: 100, horizon: 100 }
    }

    fn insert(&mut self, key: &[u8]) {
        self.now += 1 + self.random.below(3);
        let length = self.random.index(40);
        let byte = u8::try_from(self.now % 251).unwrap();
        let value = vec![byte; length];
        let value = if self.random.below(5) == 0 { None } else { Some(value.as_slice()) };
        let horizon = self.horizon;
        self.memtable.insert(key, Lsn::new(self.now), value, || Lsn::new(horizon));
        self.model.insert(key, Lsn::new(self.now), value);
    }

    fn snapshot(&mut self) -> Lsn {
        Lsn::new(self.horizon + self.random.below(self.now + 2 - self.horizon))
    }

    fn check_get(&mut self, key: &[u8]) {
        let snapshot = self.snapshot();
        assert_eq!(self.memtable.get(key, snapshot), self.model.get(key, snapshot), "{key:?} at {snapshot}");
        let newest = self.model.0.get(key).and_then(|versions| versions.last()).map(|(stamp, _)| *stamp);
        assert_eq!(self.memtable.newest_stamp(key), newest);
        assert!(newest.is_none() || self.memtable.may_contain(key));
    }

    fn check_scan(&mut self, from: &[u8]) {
        let snapshot = self.snapshot();
        let mut cursor = Cursor::new();
        cursor.seek(&self.memtable, from);
        for (key, versions) in self.model.0.range(from.to_vec()..) {
            let (found, row) = cursor.next(&self.memtable).expect("a row is missing");
            assert_eq!(found, key);
            assert_eq!(row.visible(snapshot), visible(versions, snapshot));
            let (stamp, value) = versions.last().unwrap();
            assert_eq!(row.newest(), (*stamp, value.as_deref()));
        }
        assert!(cursor.next(&self.memtable).is_none());
        cursor.seek_reverse(&self.memtable, from);
        for (key, _) in self.model.0.range(..from.to_vec()).rev() {
            assert_eq!(cursor.previous(&self.memtable).expect("a row is missing").0, key);
        }
        assert!(cursor.previous(&self.memtable).is_none());
    }

    /// Steps to and fro from `from`: the cursor stands between rows.
    fn check_zigzag(&mut self, from: &[u8]) {
        let keys: Vec<&Vec<u8>> = self.model.0.keys().collect();
        let mut place = keys.partition_point(|key| key.as_slice() < from);
        let mut cursor = Cursor::new();
        match self.random.below(2) {
            0 => cursor.seek(&self.memtable, from),
            _ => cursor.seek_reverse(&self.memtable, from),
        }
        let mut forward = true;
        for _ in 0..300 {
            if self.random.below(20) == 0 {
                forward = !forward;
            }
            if forward {
                let found = cursor.next(&self.memtable).map(|(key, _)| key);
                assert_eq!(found, keys.get(place).map(|key| key.as_slice()));
                place += usize::from(found.is_some());
            } else {
                let found = cursor.previous(&self.memtable).map(|(key, _)| key);
                assert_eq!(found, place.checked_sub(1).map(|before| keys[before].as_slice()));
                place -= usize::from(found.is_some());
            }
        }
    }
}

fn run(seed: u64, keys: Keys, steps: u64) {
    println!("seed {seed}, {keys:?}");
    let mut run = Run::new(seed);
    let spread = [20, 500, 1 << 40][usize::try_from(seed % 3).unwrap()];
    for step in 0..steps {
        let key = keys.draw(&mut run.random, step, spread);
        match run.random.below(20) {
            0..14 => run.insert(&key),
            14..19 => run.check_get(&key),
            _ => run.horizon = run.snapshot().get().min(run.now),
        }
        if step % 500 == 499 {
            run.check_scan(&key);
            run.check_zigzag(&key);
        }
    }
    for from in [&b""[..], &[0xFF; 12]] {
        run.check_scan(from);
        run.check_zigzag(from);
    }
    assert_eq!(run.memtable.row_count(), run.model.0.len());
    let (mut cursor, mut count) = (Cursor::new(), 0);
    cursor.seek_to_first(&run.memtable);
    while cursor.next(&run.memtable).is_some() {
        count += 1;
    }
    cursor.seek_to_last(&run.memtable);
    while cursor.previous(&run.memtable).is_some() {
        count -= 1;
    }
    assert_eq!(count, 0);
}

#[test]
fn a_memtable_agrees_with_a_map_of_versions() {
    let (seeds, steps) = if cfg!(miri) { (1, 250) } else { (8, 3000) };
    for seed in 0..seeds {
        for keys in ALL_KEYS {
            run(seed, keys, steps);
        }
    }
}

#[test]
fn bases_are_seen_by_snapshots_older_than_all_versions() {
    let memtable = Memtable::new(0);
    let key = |row: u64| row.to_be_bytes();
    for row in 0..200 {
        memtable.insert(&key(row), Lsn::new(50 + row), Some(b"new"), || Lsn::ZERO);
    }
    for row in (0..200).step_by(2) {
        let value = if row % 4 == 0 { Some(&b"base"[..]) } else { None };
        memtable.add_base(&key(row), Lsn::new(10), value);
    }
    for row in 0..200 {
        let expected = match row % 4 {
            0 => Lookup::Value(b"base"),
            2 => Lookup::Deleted,
            _ => Lookup::Missing,
        };
        assert_eq!(memtable.get(&key(row), Lsn::new(49)), expected);
        assert_eq!(memtable.get(&key(row), Lsn::new(9)), Lookup::Missing);
        assert_eq!(memtable.get(&key(row), Lsn::new(50 + row)), Lookup::Value(b"new"));
    }
    assert_eq!((memtable.row_count(), memtable.version_count()), (200, 300));
}

#[test]
fn a_row_updated_a_million_times_keeps_its_size() {
    let memtable = Memtable::new(0);
    let mut random = SeededRandom::new(1);
    let rounds = if cfg!(miri) { 500 } else { 1_000_000 };
    let value = [0xAB; 200];
    for stamp in 1..=rounds {
        let value = &value[..random.index(201)];
        // The horizon lags behind by up to a hundred updates.
        let horizon = || Lsn::new(u64::saturating_sub(stamp, stamp % 100));
        memtable.insert(b"row", Lsn::new(stamp), Some(value), horizon);
    }
    assert_eq!(memtable.row_count(), 1);
    assert!(memtable.version_count() <= 102, "{} versions", memtable.version_count());
    assert!(memtable.bytes_used() < 100_000, "{} bytes", memtable.bytes_used());
}

#[test]
fn a_pinned_snapshot_keeps_seeing_its_version_and_its_end_gives_the_memory_back() {
    let memtable = Memtable::new(0);
    let update = |stamp: u64, horizon: u64| {
        memtable.insert(b"row", Lsn::new(stamp), Some(&stamp.to_be_bytes()), || Lsn::new(horizon));
    };
    (1..=1000).for_each(|stamp| update(stamp, stamp.min(500)));
    assert_eq!(memtable.get(b"row", Lsn::new(500)), Lookup::Value(&500_u64.to_be_bytes()));
    let used = memtable.bytes_used();
    (1001..=20_000).for_each(|stamp| update(stamp, stamp - 1));
    assert_eq!(memtable.bytes_used(), used);
    assert_eq!(memtable.get(b"row", Lsn::MAX), Lookup::Value(&20_000_u64.to_be_bytes()));
}

#[test]
fn large_values_are_kept_whole() {
    let memtable = Memtable::new(0);
    let sizes = if cfg!(miri) { vec![300_000] } else { vec![262_144, 262_145, 1 << 20, 20 << 20, 64 << 20] };
    for (row, size) in sizes.iter().enumerate() {
        let value = vec![u8::try_from(row).unwrap(); *size];
        memtable.insert(&[u8::try_from(row).unwrap()], Lsn::new(1), Some(&value), || Lsn::ZERO);
    }
    for (row, size) in sizes.iter().enumerate() {
        let Lookup::Value(value) = memtable.get(&[u8::try_from(row).unwrap()], Lsn::MAX) else {
            panic!("missing")
        };
        assert_eq!((value.len(), value[0], value[size - 1]), (*size, value[0], value[0]));
        assert_eq!(usize::from(value[0]), row);
    }
    assert!(memtable.bytes_used() >= sizes.iter().sum());
}

#[test]
#[should_panic(expected = "another memtable")]
fn a_cursor_refuses_a_memtable_that_is_not_its_own() {
    let (first, second) = (Memtable::new(0), Memtable::new(0));
    first.insert(b"a", Lsn::new(1), None, || Lsn::ZERO);
    let mut cursor = Cursor::new();
    cursor.seek(&first, b"");
    drop(first);
    cursor.next(&second);
}

#[test]
fn dividing_keys_make_parts_of_about_as_many_rows() {
    for (seed, keys) in (0..).zip(ALL_KEYS) {
        let mut random = SeededRandom::new(seed);
        let memtable = Memtable::new(0);
        let mut all = std::collections::BTreeSet::new();
        for step in 0..if cfg!(miri) { 300 } else { 20_000 } {
            let key = keys.draw(&mut random, step, 1 << 40);
            memtable.insert(&key, Lsn::new(step + 1), None, || Lsn::ZERO);
            all.insert(key);
        }
        let bounds: Vec<&Vec<u8>> = all.iter().collect();
        let (low, high) = (bounds[bounds.len() / 10], bounds[bounds.len() / 10 * 9]);
        for (from, to) in [(&[][..], None), (&low[..], None), (&low[..], Some(&high[..]))] {
            let within = |key: &&Vec<u8>| ***key >= *from && to.is_none_or(|to| &key[..] < to);
            let count = all.iter().filter(within).count();
            for parts in [1, 2, 7, 16] {
                let dividing = memtable.dividing_keys(from, to, parts);
                assert!(dividing.len() < parts && dividing.is_sorted(), "{keys:?}");
                assert!(dividing.iter().all(|key| all.contains(*key) && *key > from), "{keys:?}");
                assert!(dividing.iter().all(|key| to.is_none_or(|to| *key < to)), "{keys:?}");
                let mut borders = dividing.clone();
                borders.insert(0, from);
                for (index, border) in borders.iter().enumerate() {
                    let next = borders.get(index + 1).copied();
                    let here =
                        |key: &&Vec<u8>| &key[..] >= *border && next.is_none_or(|next| &key[..] < next);
                    let rows = all.iter().filter(within).filter(here).count();
                    // A leaf has 20 to 64 rows; a part is off by a leaf or two, and leaves differ in size.
                    assert!(
                        rows <= count / borders.len() * 2 + 128,
                        "{keys:?}: {rows} of {count} in part {index}"
                    );
                    assert!(
                        rows + 128 >= count / borders.len() / 2,
                        "{keys:?}: {rows} of {count} in part {index}"
                    );
                }
            }
        }
    }
}
