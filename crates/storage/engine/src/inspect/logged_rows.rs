//! How much of the log each table has written, since the database was opened.
//!
//! Counted by the number of the table's storage, as rows are logged. A table that is truncated begins anew. What is kept is bounded: when
//! there are too many storages, those that wrote least are forgotten.

use rustc_hash::FxHashMap;
use seawall_sync::Mutex;
use seawall_types::TableId;

use crate::row_key;

/// Storages that are counted at a time, at most, about 3 MiB of them.
const STORAGES_MAX: usize = 1 << 16;
/// Commits of different tables seldom wait for each other.
const SHARDS: usize = 16;

/// What one table has logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedRows {
    /// Rows put or deleted.
    pub rows: u64,
    /// Bytes of their keys and values in the log, before encryption. What records have beside them is not counted.
    pub bytes: u64,
}

type Shard = Mutex<FxHashMap<TableId, LoggedRows>>;

/// Counts by storage.
#[derive(Debug)]
pub(crate) struct LoggedByStorage {
    shards: [Shard; SHARDS],
    storages_max: usize,
}

impl Default for LoggedByStorage {
    fn default() -> LoggedByStorage {
        LoggedByStorage { shards: std::array::from_fn(|_| Mutex::default()), storages_max: STORAGES_MAX }
    }
}

impl LoggedByStorage {
    /// Counts the rows of a record, which come in the order of their keys: so those of a storage are neighbours.
    pub(crate) fn note<'r>(&self, rows: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)>) {
        let mut current: Option<(TableId, LoggedRows)> = None;
        for (key, value) in rows {
            let Some(storage) = row_key::table_of(key) else { continue };
            let bytes = key.len() + value.map_or(0, <[u8]>::len);
            let bytes = u64::try_from(bytes).expect("a row fits into memory");
            match &mut current {
                Some((known, logged)) if *known == storage => {
                    logged.rows += 1;
                    logged.bytes += bytes;
                }
                _ => {
                    let logged = LoggedRows { rows: 1, bytes };
                    if let Some((storage, logged)) = current.replace((storage, logged)) {
                        self.add(storage, logged);
                    }
                }
            }
        }
        if let Some((storage, logged)) = current {
            self.add(storage, logged);
        }
    }

    /// What the storage has logged.
    pub(crate) fn of(&self, storage: TableId) -> LoggedRows {
        self.shard(storage).lock().get(&storage).copied().unwrap_or_default()
    }

    fn add(&self, storage: TableId, logged: LoggedRows) {
        let mut shard = self.shard(storage).lock();
        if shard.len() >= self.storages_max / SHARDS && !shard.contains_key(&storage) {
            forget_half(&mut shard);
        }
        let known = shard.entry(storage).or_default();
        known.rows += logged.rows;
        known.bytes += logged.bytes;
    }

    fn shard(&self, storage: TableId) -> &Shard {
        let index = usize::try_from(storage.get() % 16).expect("it is less than 16");
        &self.shards[index]
    }
}

/// Forgets those that have logged less than half of the others.
fn forget_half(shard: &mut FxHashMap<TableId, LoggedRows>) {
    let mut bytes: Vec<u64> = shard.values().map(|logged| logged.bytes).collect();
    let middle = bytes.len() / 2;
    let (_, least_kept, _) = bytes.select_nth_unstable(middle);
    let least_kept = *least_kept;
    shard.retain(|_, logged| logged.bytes > least_kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(storage: u64, key: &[u8]) -> Vec<u8> {
        row_key::encode(TableId::new(storage), key)
    }

    #[test]
    fn rows_count_for_their_storage() {
        let logged = LoggedByStorage::default();
        let keys = [key(20, b"a"), key(20, b"bc"), key(37, b"d")];
        let values: [Option<&[u8]>; 3] = [Some(b"12"), None, Some(b"345")];
        logged.note(keys.iter().map(Vec::as_slice).zip(values));
        logged.note([(&keys[0][..], None)].into_iter());
        assert_eq!(logged.of(TableId::new(20)), LoggedRows { rows: 3, bytes: 9 + 2 + 10 + 9 });
        assert_eq!(logged.of(TableId::new(37)), LoggedRows { rows: 1, bytes: 9 + 3 });
        assert_eq!(logged.of(TableId::new(21)), LoggedRows::default());
    }

    /// Storages come and go; the one that is written most is not forgotten, and memory stays bounded.
    #[test]
    fn the_memory_of_many_storages_is_bounded() {
        let logged = LoggedByStorage { storages_max: 160, ..LoggedByStorage::default() };
        for storage in 1_000..9_000 {
            for written in [key(storage, b"a"), key(500, b"a")] {
                logged.note([(&written[..], None)].into_iter());
            }
        }
        let kept: usize = logged.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(kept <= 160, "{kept}");
        assert_eq!(logged.of(TableId::new(500)).rows, 8_000);
    }
}
