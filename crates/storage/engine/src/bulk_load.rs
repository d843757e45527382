//! Loading many rows into a new table past the log: sorted, packed into leaves that are written once, linked into the
//! tree by one chunk, published by one commit.
//!
//! ```text
//!   storage drawn, entered into `reclaim`   (commit)    a crash from here on: the storage is reclaimed
//!   leaves written into free pages                      a crash here: the pages were never allocated
//!   a chunk links them, one for so many leaves          a crash here: the storage is reclaimed
//!   a record says so, or the rows are logged            see `load_log`
//!   table created at the storage, `reclaim` row deleted (one commit)
//! ```
//! Rows that come in order stream straight into leaves. When one does not, what was loaded so far becomes the first
//! of the sorted runs that are merged at the end. Memory is taken for the list of leaves that are not linked yet, and by the
//! sorter; both are bounded by `memory.memtable_bytes`.

pub(crate) mod load_log;
pub(crate) mod loaded_rows;
pub(crate) mod loads;
pub(crate) mod row_sorter;

use std::sync::Arc;

use seawall_keys::Purpose;
use seawall_tree::{BulkLoader, Superblock};
use seawall_types::{Lsn, TableId};

use crate::bulk_load::loaded_rows::{LoadedRow, LoadedRows};
use crate::bulk_load::row_sorter::RowSorter;
use crate::catalog::{self, ReclaimRow, Table};
use crate::engine::Engine;
use crate::error::Error;
use crate::options::{Durability, Isolation, TransactionOptions};
use crate::row_key;
use crate::transaction::Transaction;
use crate::transaction::commit_request::CommitRequest;

/// A bulk load under way. Dropping it gives up what was added.
pub struct BulkLoad {
    engine: Arc<Engine>,
    name: String,
    rows: Rows,
    row_key: Vec<u8>,
    row_count: u64,
}

enum Rows {
    /// All in order so far, already in leaves.
    InOrder(Ordered),
    /// Not in order. `first` holds what was before the first row out of order.
    Sorting {
        first: Option<Loading>,
        sorter: Box<RowSorter>,
        target: Loading,
    },
    /// All in the tree, and not published yet.
    Linked(Loading),
    Published,
    /// Between two states; seen only after an error.
    Failed,
}

struct Ordered {
    linker: Linker,
    last: Option<Vec<u8>>,
}

/// Rows in ascending order on their way into a storage: linked into the tree, a part of them at a time.
struct Linker {
    target: Loading,
    /// Builds the leaves that are not linked yet.
    loader: Box<BulkLoader>,
    /// When its list of leaves takes so many bytes, they are linked.
    list_bytes_max: usize,
}

impl Linker {
    fn new(target: Loading) -> Linker {
        let (from, _) = row_key::table_range(target.storage);
        let loader = target.loader(&from);
        // Linking them takes as much again, twice: lists of children, and the pages above them.
        let list_bytes_max = target.engine.options.memory.memtable_bytes / 16;
        Linker { target, loader, list_bytes_max: usize::try_from(list_bytes_max).unwrap_or(usize::MAX) }
    }

    fn push(&mut self, row_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.loader.list_bytes() >= self.list_bytes_max {
            let next = self.target.loader(row_key);
            self.target.link(*std::mem::replace(&mut self.loader, next))?;
        }
        self.loader.push(row_key, value).map_err(|error| Error::tree(&error))
    }

    /// Links the rest.
    fn finish(self) -> Result<Loading, Error> {
        self.target.link(*self.loader)?;
        Ok(self.target)
    }
}

/// A storage that is being filled; checkpoints leave it alone.
struct Loading {
    engine: Arc<Engine>,
    storage: TableId,
    /// Its rows are being logged, and it may not be published.
    is_logged: bool,
    /// Stamp of its row in `reclaim`.
    listed: Lsn,
}

impl Loading {
    /// Draws a storage, durably noted as one to reclaim.
    fn begin(engine: &Arc<Engine>) -> Result<Loading, Error> {
        let storage = {
            // At once, for a backup that asks which storages are being filled, and which are not drawn yet.
            let mut loading = engine.loads.storages();
            let storage = TableId::new(engine.objects.draw_id());
            loading.insert(storage);
            storage
        };
        let mut loading =
            Loading { engine: Arc::clone(engine), storage, is_logged: false, listed: Lsn::ZERO };
        let (key, row) = (catalog::reclaim_key(storage), ReclaimRow::Filling.encode());
        let request = CommitRequest::plain(engine.locks.new_owner(), Durability::Sync);
        let stamp = engine.log_commit(&request, std::iter::once((&key[..], Some(&row[..]))), 0)?;
        engine.finish_commit(stamp, Durability::Sync, None)?;
        // Pages of a storage that no list has would stay for ever, if a failover took the row back.
        engine.wait_safe_for_pages(stamp)?;
        loading.listed = stamp;
        Ok(loading)
    }

    /// A loader of the rows from `from` on.
    fn loader(&self, from: &[u8]) -> Box<BulkLoader> {
        let (_, to) = row_key::table_range(self.storage);
        Box::new(self.engine.tree.bulk_loader(from, &to, self.engine.flushed()))
    }

    /// Links the leaves into the tree.
    fn link(&self, loader: BulkLoader) -> Result<(), Error> {
        let _state = self.engine.checkpoint_turn.take();
        self.engine.lifecycle.check_writable()?;
        // They would hide the rows that are loaded.
        assert!(!self.engine.is_in_runs(self.storage)?, "rows of storage {} are in a run", self.storage);
        let plan = loader.graft(self.engine.flushed()).map_err(|error| Error::tree(&error))?;
        // In place, and known to be, before the commit that tells of the rows: no log has them, so a recovery file that is
        // damaged after a crash must not be what they depend on.
        let _storing = self.engine.redo.storing();
        let superblock = self.engine.redo.superblock();
        // For a cut of the log, as a checkpoint does it: the pages say that they hold what was committed up to here.
        let superblock = Superblock { log_end: superblock.log_end.max(self.listed), ..superblock };
        let applied = self.engine.tree.apply_chunk(plan, Some(&superblock));
        applied.map_err(|error| self.engine.tree_write_error(&error))?;
        self.engine.redo.stored(superblock);
        Ok(())
    }
}

impl Loading {
    /// Says in the log that rows were loaded, or logs them: see `load_log`.
    fn tell_log(&mut self) -> Result<(), Error> {
        // Before the first of them: see `drop`.
        let was_logged = std::mem::replace(&mut self.is_logged, true);
        self.is_logged = self.engine.tell_log_of_load(self.storage)? || was_logged;
        Ok(())
    }

    /// The rows belong to a table now.
    fn published(mut self) {
        self.is_logged = false;
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        // Rows that were logged may be in a younger memtable than the one that a checkpoint is merging. It must not forget the
        // storage before they are merged, too: a load that failed so late is left to the next open.
        if !self.is_logged {
            self.engine.loads.ended(self.storage);
        }
    }
}

impl std::fmt::Debug for BulkLoad {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("BulkLoad")
            .field("name", &self.name)
            .field("row_count", &self.row_count)
            .finish_non_exhaustive()
    }
}

impl BulkLoad {
    pub(crate) fn begin(engine: &Arc<Engine>, name: &str) -> Result<BulkLoad, Error> {
        engine.lifecycle.check_writable()?;
        catalog::check_name(name)?;
        // The name is taken at the end; to find it taken only then would be late.
        if engine.with_current_snapshot(|lsn| engine.object_named(name, lsn))?.is_some() {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        let linker = Linker::new(Loading::begin(engine)?);
        Ok(BulkLoad {
            engine: Arc::clone(engine),
            name: name.to_owned(),
            rows: Rows::InOrder(Ordered { linker, last: None }),
            row_key: Vec::new(),
            row_count: 0,
        })
    }

    /// Adds a row. Rows in ascending order of their keys load fastest; of rows with one key, the last one added stays.
    ///
    /// # Errors
    /// `KeyTooLarge` and `ValueTooLarge` leave the load as it was; `DiskFull` and others end it.
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.engine.lifecycle.check_open()?;
        row_key::check_sizes(key, Some(value), self.engine.key_bytes_max())?;
        // A load that missed a row must not be published without it.
        self.add_checked(key, value).inspect_err(|_| self.rows = Rows::Failed)
    }

    fn add_checked(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if let Rows::InOrder(ordered) = &mut self.rows {
            if ordered.last.as_ref().is_none_or(|last| last[..] < *key) {
                row_key::encode_into(&mut self.row_key, ordered.linker.target.storage, key);
                ordered.linker.push(&self.row_key, value)?;
                let last = ordered.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                self.row_count += 1;
                return Ok(());
            }
            self.begin_sorting()?;
        }
        let Rows::Sorting { sorter, target, .. } = &mut self.rows else { return Err(ended()) };
        row_key::encode_into(&mut self.row_key, target.storage, key);
        sorter.add(&self.row_key, value)?;
        self.row_count += 1;
        Ok(())
    }

    fn begin_sorting(&mut self) -> Result<(), Error> {
        let Rows::InOrder(ordered) = std::mem::replace(&mut self.rows, Rows::Failed) else {
            return Err(ended());
        };
        let first = if ordered.last.is_some() { Some(ordered.linker.finish()?) } else { None };
        let target = Loading::begin(&self.engine)?;
        let limit = usize::try_from(self.engine.options.memory.memtable_bytes / 2).unwrap_or(usize::MAX);
        let disk = Arc::clone(&self.engine.environment.disk);
        let name = target.storage.to_string();
        let cipher = self.engine.keys.as_ref().map(|keys| keys.cipher(Purpose::Spill));
        let sorter = Box::new(RowSorter::new(disk, cipher, &name, limit, row_key::TABLE_BYTES));
        self.rows = Rows::Sorting { first, sorter, target };
        Ok(())
    }

    /// Rows added so far.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Publishes the table with all its rows; durable when it returns.
    ///
    /// # Errors
    /// `TableExists` if the name was taken meanwhile, and those of a commit. No table has the rows then. Once they are in the
    /// tree, it can be called again, and goes on from there: after `Locked`, for instance, or when a full disk has space.
    pub fn finish(&mut self) -> Result<Table, Error> {
        let mut target = self.link()?;
        match self.publish(&mut target) {
            Ok(table) => {
                target.published();
                self.rows = Rows::Published;
                Ok(table)
            }
            Err(error) => {
                self.rows = Rows::Linked(target);
                Err(error)
            }
        }
    }

    /// Brings all rows into the tree.
    fn link(&mut self) -> Result<Loading, Error> {
        match std::mem::replace(&mut self.rows, Rows::Failed) {
            Rows::InOrder(ordered) => ordered.linker.finish(),
            Rows::Sorting { first, sorter, target } => {
                load_sorted(&self.engine, first.as_ref(), *sorter, target)
            }
            Rows::Linked(target) => Ok(target),
            Rows::Published | Rows::Failed => Err(ended()),
        }
    }

    /// Makes a table of the rows in the tree.
    fn publish(&self, target: &mut Loading) -> Result<Table, Error> {
        if self.row_count > 0 {
            // Each time: who needs the rows in the log may have come since the last one.
            target.tell_log()?;
        }
        let options = TransactionOptions {
            isolation: Isolation::ReadCommitted,
            durability: Durability::Sync,
            ..self.engine.options.transaction
        };
        let mut transaction = Transaction::new(Arc::clone(&self.engine), Arc::default(), options);
        let table = transaction.create_table_at(&self.name, target.storage)?;
        let key = catalog::reclaim_key(target.storage);
        transaction.lock_row_key(&key)?;
        transaction.writes.write(&key, None);
        transaction.commit()?;
        Ok(table)
    }
}

/// Merges the rows of `first`, which are older, with those of the sorter into the storage of `target`.
fn load_sorted(
    engine: &Engine,
    first: Option<&Loading>,
    sorter: RowSorter,
    target: Loading,
) -> Result<Loading, Error> {
    let storage = target.storage;
    let mut linker = Linker::new(target);
    let Some(first) = first else {
        sorter.drain(|key, value| linker.push(key, value))?;
        return linker.finish();
    };
    let mut older = LoadedRows::of(engine, first.storage);
    let mut next = next_row(&mut older, storage)?;
    sorter.drain(|key, value| {
        while let Some((older_key, older_value)) = next.take_if(|(older_key, _)| older_key[..] <= *key) {
            if older_key[..] < *key {
                linker.push(&older_key, &older_value)?;
            }
            next = next_row(&mut older, storage)?;
        }
        linker.push(key, value)
    })?;
    while let Some((key, value)) = next {
        linker.push(&key, &value)?;
        next = next_row(&mut older, storage)?;
    }
    linker.finish()
}

/// The next row, with the key that it has in `storage`.
fn next_row(rows: &mut LoadedRows<'_>, storage: TableId) -> Result<Option<LoadedRow>, Error> {
    let row = rows.next()?;
    Ok(row.map(|(key, value)| (row_key::encode(storage, &key[row_key::TABLE_BYTES..]), value)))
}

fn ended() -> Error {
    Error::BulkLoad {
        problem: "an earlier error has ended it, or it is finished: begin a new one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

    use super::*;
    use crate::{Background, Database, Environment, Options};

    /// Keys with 4,000 bytes in common: so has each that parts two leaves.
    fn long_key(number: u32) -> Vec<u8> {
        [&[b'-'; 4000][..], &number.to_be_bytes()].concat()
    }

    #[test]
    fn the_list_of_leaves_of_a_load_is_bounded_however_long_keys_are() {
        let environment = Environment {
            disk: Arc::new(SimulatedDisk::new(1)),
            clock: Arc::new(SimulatedClock::default()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let options = Options::default().with(|options| {
            options.memory.memtable_bytes = 1 << 20;
            options.background = Background::Manual;
        });
        let database = Database::open(environment, options).unwrap();
        let mut load = database.tables().bulk_load("t").unwrap();
        let mut most = 0;
        for number in 0..1500 {
            load.add(long_key(number), [7; 2000]).unwrap();
            let Rows::InOrder(ordered) = &load.rows else { panic!("the rows are in order") };
            most = most.max(ordered.linker.loader.list_bytes());
        }
        assert!((1..=1 << 17).contains(&most), "{most} bytes for the list of leaves");
        let table = load.finish().unwrap();
        let snapshot = database.snapshot();
        let keys = snapshot.rows(&table).map(|row| row.unwrap().0);
        assert!(keys.eq((0..1500).map(long_key)), "rows are missing");
        let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
        assert_eq!(summary.damages, 0);
    }
}
