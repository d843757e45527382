//! A memtable under writers and readers, who take no latch.
//!
//! Checked: a reader sees of each row the newest version that its snapshot allows, also while that row is written over and
//! while the index splits; a walk meets every row that was there before, in order.

use std::sync::{Arc, Mutex};

use seawall_memtable::{Cursor, Lookup, Memtable};
use seawall_sync::thread;
use seawall_types::Lsn;

/// As many as fill some leaves of the index, so that the next ones split them.
const ROWS: u8 = 200;
const WRITES: u8 = 4;
const HOT: [u8; 2] = [30, 0];

struct World {
    memtable: Memtable,
    /// Who writes the hot row.
    row_lock: seawall_sync::Mutex<u64>,
    snapshots: Mutex<Snapshots>,
}

/// What the engine's registry of snapshots knows; here it changes in one step.
#[derive(Default)]
struct Snapshots {
    visible: u64,
    alive: Vec<u64>,
}

fn own_row(writer: u8, number: u8) -> [u8; 2] {
    [number * 45 + 20 + writer * 15, 1 + writer]
}

impl World {
    fn horizon(&self) -> Lsn {
        let snapshots = self.snapshots.lock().unwrap();
        Lsn::new(snapshots.alive.iter().copied().min().unwrap_or(u64::MAX).min(snapshots.visible))
    }

    /// A row of the writer's own, next to one of the other writer, then the hot one, which is visible then.
    fn write(&self, writer: u8, number: u8) {
        let own = own_row(writer, number);
        self.memtable.insert(&own, Lsn::new(2), Some(&[number]), || self.horizon());
        assert_eq!(self.memtable.get(&own, Lsn::MAX), Lookup::Value(&[number]));
        let mut last = self.row_lock.lock();
        let stamp = *last + 1;
        self.memtable.insert(&HOT, Lsn::new(stamp), Some(&stamp.to_le_bytes()), || self.horizon());
        *last = stamp;
        self.snapshots.lock().unwrap().visible = stamp;
    }

    fn begin(&self) -> u64 {
        let mut snapshots = self.snapshots.lock().unwrap();
        let visible = snapshots.visible;
        snapshots.alive.push(visible);
        visible
    }

    fn end(&self, snapshot: u64) {
        let mut snapshots = self.snapshots.lock().unwrap();
        let place = snapshots.alive.iter().position(|alive| *alive == snapshot).unwrap();
        snapshots.alive.swap_remove(place);
    }

    fn read_pair(&self, pair: &[[u8; 2]; 2]) {
        let snapshot = self.begin();
        let expected = snapshot.to_le_bytes();
        let expected = if snapshot == 1 { Lookup::Missing } else { Lookup::Value(&expected) };
        for key in pair {
            assert_eq!(self.memtable.get(key, Lsn::new(snapshot)), expected, "{key:?} at {snapshot}");
        }
        let mut cursor = Cursor::new();
        cursor.seek(&self.memtable, &pair[0]);
        let met = cursor.next(&self.memtable).filter(|(key, _)| *key == pair[0]);
        let seen = met.map_or(Lookup::Missing, |(_, versions)| versions.visible(Lsn::new(snapshot)));
        assert_eq!(seen, expected, "met on a walk at {snapshot}");
        self.end(snapshot);
    }

    fn look_at_newest(&self) {
        let before = Lsn::new(self.snapshots.lock().unwrap().visible);
        let mut cursor = Cursor::new();
        cursor.seek(&self.memtable, &HOT);
        let (key, versions) = cursor.next(&self.memtable).unwrap();
        let (met, found) = (versions.newest_stamp(), self.memtable.newest_stamp(&HOT).unwrap());
        assert!(key == HOT && met >= before && found >= met, "{before}, then {met}, then {found}");
    }

    fn read(&self) {
        let snapshot = self.begin();
        for _ in 0..2 {
            let seen = self.memtable.get(&HOT, Lsn::new(snapshot));
            assert_eq!(seen, Lookup::Value(&snapshot.to_le_bytes()), "the hot row at {snapshot}");
        }
        let mut cursor = Cursor::new();
        cursor.seek_to_first(&self.memtable);
        let mut old = 0;
        let mut last: Option<Vec<u8>> = None;
        while let Some((key, versions)) = cursor.next(&self.memtable) {
            assert!(last.as_deref().is_none_or(|last| last < key), "{last:?} before {key:?}");
            last = Some(key.to_vec());
            old += u8::from(key[1] == 0);
            if key == HOT {
                let seen = versions.visible(Lsn::new(snapshot));
                assert_eq!(seen, Lookup::Value(&snapshot.to_le_bytes()), "the hot row, met on a walk");
            }
        }
        assert_eq!(old, ROWS, "rows that were there before are met");
        self.end(snapshot);
    }
}

impl World {
    fn new() -> Arc<World> {
        let snapshots = Mutex::new(Snapshots { visible: 1, alive: Vec::new() });
        let memtable = Memtable::new(64 << 10);
        let world = World { memtable, row_lock: seawall_sync::Mutex::new(1), snapshots };
        for row in 0..ROWS {
            let value = 1_u64.to_le_bytes();
            world.memtable.insert(&[row, 0], Lsn::new(1), Some(&value), || Lsn::new(1));
        }
        Arc::new(world)
    }

    /// Every row is where the index looks for it.
    fn check_rows(&self) {
        let memtable = &self.memtable;
        assert_eq!(memtable.row_count(), usize::from(ROWS + 2 * WRITES));
        let mut walked = 0;
        let mut cursor = Cursor::new();
        cursor.seek_to_first(memtable);
        while cursor.next(memtable).is_some() {
            walked += 1;
        }
        assert_eq!(walked, memtable.row_count(), "a walk meets every row once");
        for (writer, number) in (0..2).flat_map(|writer| (0..WRITES).map(move |number| (writer, number))) {
            cursor.seek(memtable, &own_row(writer, number));
            assert_eq!(cursor.next(memtable).unwrap().0, own_row(writer, number));
        }
    }
}

pub(crate) fn versions(_seed: u64) {
    let world = World::new();
    let writers = (0..2).map(|writer| {
        let world = Arc::clone(&world);
        thread::spawn(move || (0..WRITES).for_each(|number| world.write(writer, number)))
    });
    let readers = (0..2).map(|_| {
        let world = Arc::clone(&world);
        thread::spawn(move || (0..3).for_each(|_| world.read()))
    });
    let threads: Vec<_> = writers.chain(readers).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(world.memtable.newest_stamp(&HOT), Some(Lsn::new(1 + 2 * u64::from(WRITES))));
    world.check_rows();
}

/// Each puts a row into the same full leaf, and does nothing else, so that their steps are close together.
pub(crate) fn splits(seed: u64) {
    let memtable = Arc::new(Memtable::new(64 << 10));
    // Under two nodes: a leaf that is the root is entered another way.
    let old = 80 + u8::try_from(seed % 8).unwrap();
    for row in 0..old {
        memtable.insert(&[row, 0], Lsn::new(1), Some(&[row]), || Lsn::new(1));
    }
    let new = [[20, 1], [50, 2]];
    let writers = new.map(|key| {
        let memtable = Arc::clone(&memtable);
        thread::spawn(move || memtable.insert(&key, Lsn::new(2), Some(&key), || Lsn::new(1)))
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let mut cursor = Cursor::new();
    for key in new {
        cursor.seek(&memtable, &key);
        assert_eq!(cursor.next(&memtable).unwrap().0, key, "the row is where the index looks for it");
    }
    cursor.seek_to_first(&memtable);
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next(&memtable) {
        keys.push(key.to_vec());
    }
    assert!(keys.is_sorted() && keys.len() == usize::from(old) + 2, "{keys:?}");
}

/// Two rows of one commit are put in before it has a stamp, again and again, some of them for nothing; a reader sees both or
/// none.
pub(crate) fn pending_commits(_seed: u64) {
    let world = World::new();
    let pair = [[30, 1], [170, 1]];
    let writer = {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            for turn in 0..5_u64 {
                let stamp = *world.row_lock.lock() + 1;
                let pending = world.memtable.begin_pending();
                for key in &pair {
                    pending.insert(key, Some(&stamp.to_le_bytes()), || world.horizon());
                }
                if turn == 2 {
                    continue;
                }
                pending.publish(Lsn::new(stamp));
                *world.row_lock.lock() = stamp;
                world.snapshots.lock().unwrap().visible = stamp;
            }
        })
    };
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || (0..3).for_each(|_| world.read_pair(&pair)))
        })
        .collect();
    writer.join().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(world.memtable.newest_stamp(&pair[1]), Some(Lsn::new(5)));
    assert!(world.memtable.version_count() <= usize::from(ROWS) + 2 * 5, "abandoned versions have left");
}

/// Pending commits write a hot row over and over, as if no snapshot held its versions; others look for the newest one. They
/// always find one, and none older than what was there before.
pub(crate) fn looks_at_the_newest_version(_seed: u64) {
    let world = World::new();
    let writer = {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            for turn in 0..6_u64 {
                let mut last = world.row_lock.lock();
                let pending = world.memtable.begin_pending();
                pending.insert(&HOT, Some(&(*last + 1).to_le_bytes()), || Lsn::new(*last));
                if turn % 3 != 2 {
                    pending.publish(Lsn::new(*last + 1));
                    *last += 1;
                    world.snapshots.lock().unwrap().visible = *last;
                }
            }
        })
    };
    let lookers: Vec<_> = (0..2)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || (0..3).for_each(|_| world.look_at_newest()))
        })
        .collect();
    writer.join().unwrap();
    lookers.into_iter().for_each(|looker| looker.join().unwrap());
    assert_eq!(world.memtable.newest_stamp(&HOT), Some(Lsn::new(5)));
}
