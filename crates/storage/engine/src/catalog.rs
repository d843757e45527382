//! Tables and their names. The catalog is rows in system tables, written and replayed like any other row: creating or
//! dropping a table is a put or a delete, and no table costs anything beyond its row.
//!
//! | system table | id | key                       | value                                                      |
//! |--------------|---:|---------------------------|------------------------------------------------------------|
//! | names        |  0 | name, UTF-8               | object id, u64 little-endian; of a table that was dropped, its storage id, u64 little-endian, behind it, in the log and the memtable only: see `dropped_tables` |
//! | objects      |  1 | object id, u64 big-endian | version u8 = 1, storage id u64, created i64 (microseconds since 1970), name; little-endian |
//! | reclaim      |  2 | storage id, u64 big-endian| the storage's rows belong to no table and are to be removed. Empty; or one byte 0 of a storage that a load fills, until the load gives it to a table or gives it up; or object id and stamp of the drop, u64 little-endian, where the dropped table's name was taken again |
//! | prepared     |  3 | see `in_doubt::rows`      | in-doubt transactions                                      |
//! | decisions    |  4 | see `in_doubt::decisions` | what rules have decided about such transactions            |
//!
//! An *object* is a table as a user knows it; a *storage* is the id under which its rows lie. Truncating gives the
//! object a new, empty storage. Ids of storages are drawn from one counter and never used again; an object has the id of
//! its first storage.

pub(crate) mod data_definition;
pub(crate) mod dropped_tables;
pub(crate) mod logged_definitions;
pub(crate) mod lookup;
pub(crate) mod merge;
pub(crate) mod reclaim;
pub(crate) mod reclaim_counters;
pub(crate) mod reclaim_statistics;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::{Lsn, TableId};

use crate::error::Error;
use crate::row_key;

pub(crate) const NAMES: TableId = TableId::new(0);
pub(crate) const OBJECTS: TableId = TableId::new(1);
pub(crate) const RECLAIM: TableId = TableId::new(2);
/// Ids below are system tables; ids from here on are given to users' tables.
pub(crate) const FIRST_USER_TABLE: u64 = 64;
/// Ids from here on are of this directory alone: they are in no log, no backup and no copy. See `runs`.
pub(crate) const FIRST_LOCAL_TABLE: u64 = 1 << 63;

const NAME_BYTES_MAX: usize = 255;
const OBJECT_ROW_VERSION: u8 = 1;

/// The row of a table in `objects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRow {
    pub(crate) storage: TableId,
    /// Microseconds since 1970.
    pub(crate) created: i64,
    pub(crate) name: String,
}

impl ObjectRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = vec![OBJECT_ROW_VERSION];
        row.extend_from_slice(&self.storage.get().to_le_bytes());
        row.extend_from_slice(&self.created.to_le_bytes());
        row.extend_from_slice(self.name.as_bytes());
        row
    }

    pub(crate) fn decode(object: u64, row: &[u8]) -> Result<ObjectRow, Error> {
        let refuse = |problem| Error::Catalog { place: format!("object {object}"), problem };
        let (version, row) = row.split_first().ok_or_else(|| refuse("the row is empty"))?;
        if *version != OBJECT_ROW_VERSION {
            return Err(refuse("the row has an unknown version"));
        }
        let (storage, row) = row.split_first_chunk().ok_or_else(|| refuse("the row is too short"))?;
        let (created, name) = row.split_first_chunk().ok_or_else(|| refuse("the row is too short"))?;
        let name = std::str::from_utf8(name).map_err(|_| refuse("the name is not UTF-8"))?;
        Ok(ObjectRow {
            storage: TableId::new(u64::from_le_bytes(*storage)),
            created: i64::from_le_bytes(*created),
            name: name.to_owned(),
        })
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::TableName { name: name.to_owned(), bytes: name.len() });
    }
    Ok(())
}

pub(crate) fn name_key(name: &str) -> Vec<u8> {
    row_key::encode(NAMES, name.as_bytes())
}

pub(crate) fn object_key(object: u64) -> Vec<u8> {
    row_key::encode(OBJECTS, &object.to_be_bytes())
}

pub(crate) fn reclaim_key(storage: TableId) -> Vec<u8> {
    row_key::encode(RECLAIM, &storage.get().to_be_bytes())
}

/// Why a record with a row of such a table is refused.
pub(crate) const LOCAL_ROW_IN_LOG: &str =
    "it has a row of a table that belongs to one directory alone, which no log has";

/// Behind every row that other servers and backups have, too.
pub(crate) fn first_local_key() -> [u8; row_key::TABLE_BYTES] {
    FIRST_LOCAL_TABLE.to_be_bytes()
}

/// A row of `names`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRow {
    /// The table with this object id.
    Table(u64),
    /// There is no table of this name; there was one, and its remains were not removed.
    Dropped { object: u64, storage: TableId },
}

impl NameRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            NameRow::Table(object) => object.to_le_bytes().to_vec(),
            NameRow::Dropped { object, storage } => {
                [object.to_le_bytes(), storage.get().to_le_bytes()].concat()
            }
        }
    }

    pub(crate) fn decode(name: &str, row: &[u8]) -> Result<NameRow, Error> {
        NameRow::decode_bytes(row).ok_or_else(|| Error::Catalog {
            place: format!("name {name:?}"),
            problem: "the row is neither 8 nor 16 bytes long",
        })
    }

    /// As `decode`, with the row's whole key.
    pub(crate) fn decode_key(key: &[u8], row: &[u8]) -> Result<NameRow, Error> {
        NameRow::decode(&String::from_utf8_lossy(row_key::key_of(key)), row)
    }

    fn decode_bytes(row: &[u8]) -> Option<NameRow> {
        let (object, rest) = row.split_first_chunk()?;
        let object = u64::from_le_bytes(*object);
        if rest.is_empty() {
            return Some(NameRow::Table(object));
        }
        let storage = TableId::new(u64::from_le_bytes(rest.try_into().ok()?));
        Some(NameRow::Dropped { object, storage })
    }

    /// Whether a row of `names` says that the table was dropped.
    pub(crate) fn is_dropped(row: &[u8]) -> bool {
        matches!(NameRow::decode_bytes(row), Some(NameRow::Dropped { .. }))
    }
}

/// The storage id in a key of `reclaim`, or the object id in a key of `objects`.
pub(crate) fn decode_id_key(key: &[u8]) -> Result<u64, Error> {
    let bytes = row_key::key_of(key).try_into().map_err(|_| Error::Catalog {
        place: format!("key {key:02x?}"),
        problem: "the key is not 8 bytes long",
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// The storage id in the key of a row of `reclaim`, as a scan gives it.
pub(crate) fn decode_storage(key: &[u8]) -> Result<TableId, Error> {
    decode_id_key(&row_key::encode(RECLAIM, key)).map(TableId::new)
}

/// What tells a storage that is being filled from one to be cut out.
const FILLING: u8 = 0;

/// A row of `reclaim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReclaimRow {
    /// Belongs to no table.
    Storage,
    /// Of a load under way, which gives it to a table or gives it up. The server that loads knows whether the load goes on; a standby knows
    /// only this row, and leaves the storage alone until the row changes.
    Filling,
    /// Of a table whose name was taken again, so that nothing else tells of the drop.
    Object { object: u64, dropped: Lsn },
}

impl ReclaimRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            ReclaimRow::Storage => Vec::new(),
            ReclaimRow::Filling => vec![FILLING],
            ReclaimRow::Object { object, dropped } => {
                [object.to_le_bytes(), dropped.get().to_le_bytes()].concat()
            }
        }
    }

    pub(crate) fn decode(storage: TableId, row: &[u8]) -> Result<ReclaimRow, Error> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        let object_and_stamp = row.split_at_checked(8);
        match object_and_stamp.and_then(|(object, stamp)| number(object).zip(number(stamp))) {
            Some((object, stamp)) => Ok(ReclaimRow::Object { object, dropped: Lsn::new(stamp) }),
            None if row.is_empty() => Ok(ReclaimRow::Storage),
            None if row == [FILLING] => Ok(ReclaimRow::Filling),
            None => Err(Error::Catalog {
                place: format!("storage {storage} to be reclaimed"),
                problem: "the row is neither empty, nor one zero byte, nor 16 bytes long",
            }),
        }
    }
}

/// A storage that `reclaim` lists, as a memtable or the catalog says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedStorage {
    pub(crate) storage: TableId,
    /// Stamp of the row: for a dropped table, of the drop.
    pub(crate) listed: Lsn,
    /// The row is of a load that was under way.
    pub(crate) is_filling: bool,
}

impl ListedStorage {
    pub(crate) fn new(storage: TableId, listed: Lsn, row: &[u8]) -> Result<ListedStorage, Error> {
        let is_filling = ReclaimRow::decode(storage, row)? == ReclaimRow::Filling;
        Ok(ListedStorage { storage, listed, is_filling })
    }
}

/// A table, opened: cheap to clone, usable from any thread and in any transaction of its database.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) name: Arc<str>,
    pub(crate) object: Arc<OpenObject>,
    /// What its user knows of the table is as of this snapshot.
    pub(crate) as_of: Lsn,
}

impl Table {
    /// The name under which it was opened; a rename since then does not show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, which no other table of the database ever had or will have.
    pub fn id(&self) -> u64 {
        self.object.id
    }

    /// A handle for what was planned from `snapshot`. A transaction that writes or locks rows through it is refused at its
    /// commit (`TableChanged`) if [`Transaction::alter_table`](crate::Transaction::alter_table) has altered the table since.
    ///
    /// A handle that was opened by name is as of the snapshot that found the name. Keep a handle for as long as what was
    /// planned: without any, the database may forget when the table was altered last.
    pub fn as_of(&self, snapshot: Lsn) -> Table {
        Table { as_of: snapshot, ..self.clone() }
    }
}

/// Where the rows of an object lie now. Reads with an older snapshot look into the catalog.
#[derive(Debug)]
pub(crate) struct OpenObject {
    pub(crate) id: u64,
    /// Storage id; `NONE` when the object is dropped or not yet committed.
    storage: AtomicU64,
    /// Snapshots from here on may use `storage`; `CHANGING` while both are being set.
    since: AtomicU64,
    /// Stamp of the last commit that moved or dropped it, or later where it was dropped before it was opened; zero if neither
    /// is known.
    changed: AtomicU64,
    /// Stamp of the last commit that altered it; zero if there was none since it was opened. In memory only: what was
    /// planned does not outlive the process, and what is in doubt keeps the table from being altered.
    altered: AtomicU64,
    /// Serialises `change` and `learn`.
    changing: Mutex<()>,
    /// In-doubt transactions that use the object; grows in the log's critical section only.
    in_doubt: AtomicU64,
    /// In-doubt transactions that define the object; grows in the log's critical section only.
    defined_in_doubt: AtomicU64,
}

/// There is one of each id: see `OpenObjects`.
impl PartialEq for OpenObject {
    fn eq(&self, other: &OpenObject) -> bool {
        self.id == other.id
    }
}

impl Eq for OpenObject {}

impl Hash for OpenObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

const NONE: u64 = u64::MAX;
const CHANGING: u64 = u64::MAX;

/// What an [`OpenObject`] knows about a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    At(TableId),
    Dropped,
    /// The snapshot is older than what is known: ask the catalog.
    Unknown,
}

impl OpenObject {
    fn new(id: u64, storage: Option<TableId>, since: Lsn) -> OpenObject {
        let storage = storage.map_or(NONE, TableId::get);
        OpenObject {
            id,
            storage: AtomicU64::new(storage),
            since: AtomicU64::new(since.get()),
            changed: AtomicU64::new(0),
            altered: AtomicU64::new(0),
            changing: Mutex::default(),
            in_doubt: AtomicU64::new(0),
            defined_in_doubt: AtomicU64::new(0),
        }
    }

    /// An in-doubt transaction uses the object from now on. Call in the log's critical section, or before anybody writes.
    pub(crate) fn hold_in_doubt(&self) {
        self.in_doubt.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that the transaction in doubt is decided.
    pub(crate) fn release_in_doubt(&self) {
        let before = self.in_doubt.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "an object is released as often as it was held");
    }

    /// Whether the object may be dropped or truncated: no in-doubt transaction uses it.
    pub(crate) fn is_free(&self) -> bool {
        self.in_doubt.load(Ordering::SeqCst) == 0
    }

    /// An in-doubt transaction creates, moves, alters or drops the object. As `hold_in_doubt`.
    pub(crate) fn hold_definition(&self) {
        self.defined_in_doubt.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that the transaction in doubt is decided.
    pub(crate) fn release_definition(&self) {
        let before = self.defined_in_doubt.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a definition is released as often as it was held");
    }

    /// Whether it is known what the object is: no in-doubt transaction defines it.
    pub(crate) fn is_settled(&self) -> bool {
        self.defined_in_doubt.load(Ordering::SeqCst) == 0
    }

    /// Where the rows are that a snapshot sees.
    pub(crate) fn storage_at(&self, snapshot: Lsn) -> Storage {
        let since = self.since.load(Ordering::SeqCst);
        let storage = self.storage.load(Ordering::SeqCst);
        if since == CHANGING || snapshot.get() < since || self.since.load(Ordering::SeqCst) != since {
            return Storage::Unknown;
        }
        if storage == NONE { Storage::Dropped } else { Storage::At(TableId::new(storage)) }
    }

    /// Where the newest committed rows are, visible or not.
    pub(crate) fn newest_storage(&self) -> Option<TableId> {
        let storage = self.storage.load(Ordering::SeqCst);
        (storage != NONE).then(|| TableId::new(storage))
    }

    /// Whether it knows where its rows are now.
    pub(crate) fn is_known(&self) -> bool {
        self.since.load(Ordering::SeqCst) != CHANGING
    }

    /// The catalog at snapshot `seen_at`, taken after the object was opened, says that the rows are at `storage`.
    /// Ignored if a change was logged meanwhile.
    pub(crate) fn learn(&self, storage: Option<TableId>, seen_at: Lsn) {
        let _changing = self.changing.lock();
        if !self.is_known() {
            self.set(storage, seen_at);
            if storage.is_none() {
                // Dropped before anyone here had it open. Who still sees it has an older snapshot than this.
                self.changed.store(seen_at.get(), Ordering::SeqCst);
            }
        }
    }

    /// A commit stamped `stamp` moved or dropped the object. Call in the log's critical section only.
    pub(crate) fn change(&self, storage: Option<TableId>, stamp: Lsn) {
        let _changing = self.changing.lock();
        // First: whoever finds the new storage finds the stamp of the change, or a later one.
        self.changed.store(stamp.get(), Ordering::SeqCst);
        self.set(storage, stamp);
    }

    /// Stamp of the commit that moved or dropped it last, visible or not; zero if it was not open since before.
    pub(crate) fn changed_at(&self) -> Lsn {
        Lsn::new(self.changed.load(Ordering::SeqCst))
    }

    /// Whether a commit later than `snapshot`, which saw the object, dropped it; or moved it while it was open.
    pub(crate) fn changed_since(&self, snapshot: Lsn) -> bool {
        self.changed.load(Ordering::SeqCst) > snapshot.get()
    }

    /// A commit stamped `stamp` altered the object. Call in the log's critical section only.
    pub(crate) fn alter(&self, stamp: Lsn) {
        self.altered.store(stamp.get(), Ordering::SeqCst);
    }

    /// Stamp of the commit that altered it last, visible or not.
    pub(crate) fn altered_at(&self) -> Lsn {
        Lsn::new(self.altered.load(Ordering::SeqCst))
    }

    fn set(&self, storage: Option<TableId>, stamp: Lsn) {
        self.since.store(CHANGING, Ordering::SeqCst);
        self.storage.store(storage.map_or(NONE, TableId::get), Ordering::SeqCst);
        self.since.store(stamp.get(), Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
struct ById {
    objects: FxHashMap<u64, Arc<OpenObject>>,
    /// At this many objects, those that are not open any more are forgotten.
    sweep_at: usize,
}

impl ById {
    fn enter(&mut self, id: u64, make: impl FnOnce() -> Arc<OpenObject>) -> Arc<OpenObject> {
        if self.objects.len() >= self.sweep_at {
            self.objects.retain(|_, object| Arc::strong_count(object) > 1);
            self.sweep_at = (self.objects.len() * 2).max(1024);
        }
        Arc::clone(self.objects.entry(id).or_insert_with(make))
    }
}

/// The objects that are open, and the counter of ids.
#[derive(Debug)]
pub(crate) struct OpenObjects {
    by_id: Mutex<ById>,
    next_id: AtomicU64,
    /// Stamp of the last commit that created, dropped, truncated or altered an object since open.
    defined: AtomicU64,
}

impl OpenObjects {
    pub(crate) fn new(next_id: u64) -> OpenObjects {
        OpenObjects {
            by_id: Mutex::default(),
            next_id: AtomicU64::new(next_id.max(FIRST_USER_TABLE)),
            defined: AtomicU64::new(0),
        }
    }

    /// A commit stamped `stamp` has definitions. Call in the log's critical section only.
    pub(crate) fn defined(&self, stamp: Lsn) {
        self.defined.store(stamp.get(), Ordering::SeqCst);
    }

    /// Stamp of the last commit with definitions, visible or not.
    pub(crate) fn defined_at(&self) -> Lsn {
        Lsn::new(self.defined.load(Ordering::SeqCst))
    }

    /// An id that was never used.
    pub(crate) fn draw_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::SeqCst)
    }

    /// Draws no id up to this one: a reader has looked for an object of that id, which its transaction did not commit.
    pub(crate) fn never_draw(&self, id: u64) {
        self.next_id.fetch_max(id.saturating_add(1), Ordering::SeqCst);
    }

    /// Draws no id below this one.
    pub(crate) fn never_draw_below(&self, next_id: u64) {
        self.next_id.fetch_max(next_id, Ordering::SeqCst);
    }

    /// The lowest id that may still be drawn.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.load(Ordering::SeqCst)
    }

    /// The object; what it does not know yet is to be told with [`OpenObject::learn`].
    ///
    /// Entered first and told later, so that a change that is logged in between finds it here.
    pub(crate) fn open(&self, id: u64) -> Arc<OpenObject> {
        self.by_id.lock().enter(id, || Arc::new(OpenObject::new(id, None, Lsn::MAX)))
    }

    /// An object that its transaction has not committed yet.
    pub(crate) fn open_uncommitted(&self, id: u64) -> Arc<OpenObject> {
        self.by_id.lock().enter(id, || Arc::new(OpenObject::new(id, None, Lsn::ZERO)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_rows_read_back_and_bad_ones_are_refused() {
        let row = ObjectRow { storage: TableId::new(77), created: -5, name: "größe".to_owned() };
        let bytes = row.encode();
        assert_eq!(ObjectRow::decode(1, &bytes).unwrap(), row);
        for length in 0..17 {
            assert!(ObjectRow::decode(1, &bytes[..length]).is_err(), "{length} bytes");
        }
        let mut other = bytes.clone();
        other[0] = 2;
        assert!(ObjectRow::decode(1, &other).is_err());
        let mut not_utf8 = bytes;
        not_utf8.push(0xFF);
        assert!(ObjectRow::decode(1, &not_utf8).is_err());
    }

    #[test]
    fn rows_of_names_and_of_what_is_to_be_reclaimed_read_back_and_bad_ones_are_refused() {
        for row in [NameRow::Table(7), NameRow::Dropped { object: 7, storage: TableId::new(u64::MAX) }] {
            assert_eq!(NameRow::decode("t", &row.encode()).unwrap(), row);
            assert_eq!(NameRow::is_dropped(&row.encode()), row != NameRow::Table(7));
        }
        let of_object = ReclaimRow::Object { object: 7, dropped: Lsn::new(9) };
        for row in [ReclaimRow::Storage, ReclaimRow::Filling, of_object] {
            assert_eq!(ReclaimRow::decode(TableId::new(70), &row.encode()).unwrap(), row);
        }
        for length in (1..20).filter(|length| *length != 16) {
            assert!(length == 8 || NameRow::decode("t", &vec![1; length]).is_err(), "{length} bytes");
            assert!(ReclaimRow::decode(TableId::new(70), &vec![1; length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn an_open_object_answers_for_snapshots_it_knows_about() {
        let object = OpenObject::new(9, Some(TableId::new(70)), Lsn::new(100));
        assert_eq!(object.storage_at(Lsn::new(99)), Storage::Unknown);
        assert_eq!(object.storage_at(Lsn::new(100)), Storage::At(TableId::new(70)));
        object.change(Some(TableId::new(71)), Lsn::new(200));
        assert_eq!(object.storage_at(Lsn::new(150)), Storage::Unknown);
        assert_eq!(object.storage_at(Lsn::new(200)), Storage::At(TableId::new(71)));
        object.change(None, Lsn::new(300));
        assert_eq!(object.storage_at(Lsn::new(300)), Storage::Dropped);
        assert_eq!(object.newest_storage(), None);
        assert!(object.changed_since(Lsn::new(299)) && !object.changed_since(Lsn::new(300)));
    }
}
