//! Rows that are inserted before their commit has a stamp.

use seawall_memtable::{Cursor, Lookup, Memtable};
use seawall_types::Lsn;

fn at(memtable: &Memtable, key: &[u8], snapshot: u64) -> Option<Vec<u8>> {
    match memtable.get(key, Lsn::new(snapshot)) {
        Lookup::Value(value) => Some(value.to_vec()),
        Lookup::Deleted => Some(b"deleted".to_vec()),
        Lookup::Missing => None,
    }
}

fn keys(memtable: &Memtable) -> Vec<Vec<u8>> {
    let mut cursor = Cursor::new();
    cursor.seek_to_first(memtable);
    let mut keys = Vec::new();
    while let Some((key, versions)) = cursor.next(memtable) {
        versions.newest();
        keys.push(key.to_vec());
    }
    let mut backward = Vec::new();
    cursor.seek_to_last(memtable);
    while let Some((key, _)) = cursor.previous(memtable) {
        backward.push(key.to_vec());
    }
    backward.reverse();
    assert_eq!(keys, backward);
    keys
}

#[test]
fn a_pending_commit_is_seen_by_nobody_and_when_published_by_all_from_its_stamp_on() {
    let memtable = Memtable::new(1 << 20);
    memtable.insert(b"a", Lsn::new(1), Some(b"old"), || Lsn::ZERO);
    let pending = memtable.begin_pending();
    pending.insert(b"a", None, || Lsn::ZERO);
    pending.insert(b"b", Some(b"new"), || Lsn::ZERO);
    for snapshot in [1, 7, u64::MAX] {
        assert_eq!(at(&memtable, b"a", snapshot), Some(b"old".to_vec()), "at {snapshot}");
        assert_eq!(at(&memtable, b"b", snapshot), None, "at {snapshot}");
    }
    assert_eq!(memtable.newest_stamp(b"a"), Some(Lsn::new(1)));
    assert_eq!(memtable.newest_stamp(b"b"), None);
    assert_eq!(memtable.versions(b"a").unwrap().newest(), (Lsn::new(1), Some(&b"old"[..])));
    assert!(memtable.versions(b"b").is_none());
    assert_eq!(keys(&memtable), [b"a"]);
    pending.publish(Lsn::new(5));
    drop(pending);
    assert_eq!((at(&memtable, b"a", 4), at(&memtable, b"b", 4)), (Some(b"old".to_vec()), None));
    assert_eq!(at(&memtable, b"a", 5), Some(b"deleted".to_vec()));
    assert_eq!(at(&memtable, b"b", 5), Some(b"new".to_vec()));
    assert_eq!(memtable.newest_stamp(b"b"), Some(Lsn::new(5)));
    assert_eq!(keys(&memtable), [b"a", b"b"]);
}

#[test]
fn an_abandoned_commit_is_never_seen_and_its_versions_leave_their_rows() {
    let memtable = Memtable::new(1 << 20);
    memtable.insert(b"a", Lsn::new(1), Some(b"1"), || Lsn::ZERO);
    memtable.insert(b"a", Lsn::new(2), Some(b"2"), || Lsn::ZERO);
    for _ in 0..3 {
        let pending = memtable.begin_pending();
        pending.insert(b"a", Some(b"never"), || Lsn::ZERO);
        pending.insert(b"b", Some(b"never"), || Lsn::ZERO);
    }
    assert_eq!(keys(&memtable), [b"a"]);
    assert_eq!(memtable.newest_stamp(b"a"), Some(Lsn::new(2)));
    memtable.insert(b"a", Lsn::new(3), Some(b"3"), || Lsn::ZERO);
    memtable.insert(b"b", Lsn::new(4), Some(b"4"), || Lsn::ZERO);
    assert_eq!(keys(&memtable), [b"a", b"b"]);
    for (snapshot, expected) in [(0, None), (1, Some("1")), (2, Some("2")), (3, Some("3")), (9, Some("3"))] {
        assert_eq!(at(&memtable, b"a", snapshot), expected.map(Vec::from), "at {snapshot}");
    }
    assert_eq!((at(&memtable, b"b", 3), at(&memtable, b"b", 4)), (None, Some(b"4".to_vec())));
}

#[test]
fn a_row_keeps_its_size_when_commits_before_its_updates_are_abandoned() {
    for abandoned_value in [&b"never"[..], b"", b"a value that is longer than the one that stays"] {
        for abandoned_each in [1, 3] {
            let memtable = Memtable::new(1 << 20);
            let update = |stamp: u64| {
                for _ in 0..abandoned_each {
                    memtable.begin_pending().insert(b"a", Some(abandoned_value), || Lsn::new(stamp - 1));
                }
                memtable.insert(b"a", Lsn::new(stamp), Some(b"value"), || Lsn::new(stamp - 1));
            };
            (1..10).for_each(update);
            // Each commit that begins takes a word.
            let (before, begun) = (memtable.bytes_used(), 90 * abandoned_each);
            (10..100).for_each(update);
            let grown = memtable.bytes_used() - before;
            assert!(grown <= begun * 8, "{grown} bytes in {begun} abandoned commits");
            assert!(memtable.version_count() <= 3, "{} versions", memtable.version_count());
            assert_eq!(at(&memtable, b"a", 99), Some(b"value".to_vec()));
        }
    }
}
