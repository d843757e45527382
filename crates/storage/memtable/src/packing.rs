//! One small memtable from several that nobody writes to any more, for the snapshots that still need them.
//!
//! ```text
//!   newer:   a 30 20        c 35     (newest version first)
//!   older:   a 15 10   b 12 c 11
//!   packed:  a 30 20 15  b 12  c 35 11         for snapshots 16 and 25
//! ```
//! A version is kept if a snapshot sees it: if one lies between its stamp and that of the version that replaced it. The newest
//! one of each row is kept in any case. It says that the row has changed; and it is what snapshots see that were taken after
//! an older memtable had ended, and did not look into it, once that is packed with a newer one.

use seawall_types::Lsn;

use crate::builder::MemtableBuilder;
use crate::cursor::Cursor;
use crate::memtable::Memtable;
use crate::versions::Versions;

/// A source, and its next row.
struct Source<'m> {
    memtable: &'m Memtable,
    cursor: Cursor,
    next: Option<(&'m [u8], Versions<'m>)>,
}

impl<'m> Source<'m> {
    fn new(memtable: &'m Memtable) -> Source<'m> {
        let mut cursor = Cursor::new();
        cursor.seek_to_first(memtable);
        let next = cursor.next(memtable);
        Source { memtable, cursor, next }
    }

    /// The versions of the next row, if it is the row `key`.
    fn take(&mut self, key: &[u8]) -> Option<Versions<'m>> {
        let (_, versions) = self.next.filter(|(next, _)| *next == key)?;
        self.next = self.cursor.next(self.memtable);
        Some(versions)
    }
}

impl Memtable {
    /// A memtable that answers each of `snapshots`, which ascend, as `sources` do if they are asked in their order: the newest
    /// one first. Every version of one is stamped no later than those of the one before. It knows the newest version of each
    /// row besides, and no others.
    pub fn packed(sources: &[&Memtable], snapshots: &[Lsn]) -> Memtable {
        Memtable::packed_where(sources, snapshots, |_| true)
    }

    /// As `packed`, without the rows whose keys `is_kept` refuses: nobody asks for them.
    pub fn packed_where(
        sources: &[&Memtable],
        snapshots: &[Lsn],
        is_kept: impl Fn(&[u8]) -> bool,
    ) -> Memtable {
        let rows = sources.iter().map(|source| source.row_count()).sum();
        let mut builder = MemtableBuilder::with_expected_rows(rows);
        let mut sources: Vec<Source<'_>> = sources.iter().map(|source| Source::new(source)).collect();
        while let Some(key) = sources.iter().filter_map(|source| Some(source.next?.0)).min() {
            // All of them move on, however few of the versions are needed.
            let found: Vec<Versions<'_>> = sources.iter_mut().filter_map(|source| source.take(key)).collect();
            if is_kept(key) {
                push_row(&mut builder, key, found.iter().flat_map(Versions::iter), snapshots);
            }
        }
        builder.finish()
    }
}

/// Adds a row with those of its `versions`, newest first, that are needed.
fn push_row<'m>(
    builder: &mut MemtableBuilder,
    key: &[u8],
    versions: impl Iterator<Item = (Lsn, Option<&'m [u8]>)>,
    snapshots: &[Lsn],
) {
    // Snapshots from the version at hand on, up to which none sees an older one.
    let mut unanswered = snapshots.len();
    for (index, (stamp, value)) in versions.enumerate() {
        let older = snapshots[..unanswered].partition_point(|snapshot| *snapshot < stamp);
        let is_seen = older < unanswered;
        unanswered = older;
        match (index, is_seen) {
            (0, _) => builder.push(key, stamp, value),
            (_, true) => builder.push_older(stamp, value),
            (_, false) => {}
        }
        if unanswered == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lookup;

    /// Key, stamp and value.
    type Version<'v> = (&'v [u8], u64, Option<&'v [u8]>);

    fn memtable(rows: &[Version<'_>]) -> Memtable {
        let memtable = Memtable::new(0);
        for (key, stamp, value) in rows {
            memtable.insert(key, Lsn::new(*stamp), *value, || Lsn::ZERO);
        }
        memtable
    }

    #[test]
    fn snapshots_see_what_they_saw_and_nothing_else_is_kept() {
        let older = memtable(&[
            (b"a", 10, Some(b"a10")),
            (b"a", 15, Some(b"a15")),
            (b"b", 12, None),
            (b"c", 11, Some(b"c11")),
        ]);
        let newer = memtable(&[(b"a", 20, Some(b"a20")), (b"a", 30, Some(b"a30")), (b"c", 35, Some(b"c35"))]);
        newer.add_base(b"c", Lsn::new(18), Some(b"c11"));
        let snapshots = [Lsn::new(5), Lsn::new(16), Lsn::new(25)];
        let packed = Memtable::packed(&[&newer, &older], &snapshots);
        assert_eq!((packed.row_count(), packed.version_count()), (3, 7));
        for key in [b"a", b"b", b"c", b"d"] {
            for snapshot in snapshots {
                let expected = match newer.get(key, snapshot) {
                    Lookup::Missing => older.get(key, snapshot),
                    found => found,
                };
                assert_eq!(packed.get(key, snapshot), expected, "{key:?} at {snapshot}");
            }
            let newest = newer.newest_stamp(key).or(older.newest_stamp(key));
            assert_eq!(packed.newest_stamp(key), newest, "{key:?}");
        }
        assert_eq!(packed.get(b"c", Lsn::MAX), Lookup::Value(b"c35"));
    }

    #[test]
    fn random_histories_look_the_same_before_and_after() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..if cfg!(miri) { 3 } else { 100 } {
            let mut stamp = 0;
            let mut sources = Vec::new();
            for _ in 0..3 {
                let source = Memtable::new(0);
                for _ in 0..40 {
                    stamp += random(4);
                    let value = (random(3) > 0).then(|| stamp.to_be_bytes());
                    let value = value.as_ref().map(|value| &value[..]);
                    source.insert(&[u8::try_from(random(9)).unwrap()], Lsn::new(stamp), value, || Lsn::ZERO);
                }
                sources.insert(0, source);
                stamp += 1;
            }
            let mut snapshots: Vec<Lsn> = (0..random(5)).map(|_| Lsn::new(random(stamp))).collect();
            snapshots.sort_unstable();
            snapshots.dedup();
            let sources: Vec<&Memtable> = sources.iter().collect();
            let packed = Memtable::packed(&sources, &snapshots);
            for key in 0..9 {
                for snapshot in &snapshots {
                    let found = sources.iter().map(|source| source.get(&[key], *snapshot));
                    let expected = found.clone().find(|found| *found != Lookup::Missing);
                    let expected = expected.unwrap_or(Lookup::Missing);
                    assert_eq!(packed.get(&[key], *snapshot), expected, "round {round}");
                }
                let newest = sources.iter().find_map(|source| source.versions(&[key]));
                let newest = newest.map(|versions| versions.newest());
                assert_eq!(
                    packed.versions(&[key]).map(|versions| versions.newest()),
                    newest,
                    "round {round}"
                );
            }
        }
    }

    #[test]
    fn a_packed_memtable_is_as_large_as_its_rows() {
        let large = Memtable::new(64 << 20);
        for row in 0..100_u64 {
            large.insert(&row.to_be_bytes(), Lsn::new(row), Some(b"value"), || Lsn::ZERO);
        }
        let packed = Memtable::packed(&[&large], &[Lsn::new(1000)]);
        assert!(large.memory_bytes() > 4 << 20 && packed.memory_bytes() < 64 << 10);
    }
}
