//! redb. `Synced` is `Durability::Immediate`: one sync a commit, its pages are checksummed; `Buffered` is
//! `Durability::None`, which a later durable commit or the close makes durable.
//!
//! Rows are loaded in transactions of a million.

use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use super::{Durability, Engine, Scanned, Session, Settings, digest};
use crate::error::{BenchError, engine_error};
use crate::rows::{Row, RowSource};

const NAME: &str = "redb";
const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const LOAD_TRANSACTION_ROWS: usize = 1_000_000;

struct Redb {
    database: Database,
    durability: redb::Durability,
    cache_bytes: u64,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
    let cache_bytes = usize::try_from(settings.cache_bytes).expect("a cache fits the address space");
    let database = Database::builder()
        .set_cache_size(cache_bytes)
        .create(settings.directory.join("rows.redb"))
        .map_err(engine_error(NAME, "open"))?;
    let durability = match settings.durability {
        Durability::Synced => redb::Durability::Immediate,
        Durability::Buffered => redb::Durability::None,
    };
    let engine = Redb { database, durability, cache_bytes: settings.cache_bytes };
    engine.flush()?;
    Ok(Box::new(engine))
}

fn begin(database: &Database, durability: redb::Durability) -> Result<WriteTransaction, BenchError> {
    let mut transaction = database.begin_write().map_err(engine_error(NAME, "begin"))?;
    transaction.set_durability(durability).map_err(engine_error(NAME, "set the durability"))?;
    Ok(transaction)
}

impl Engine for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError> {
        Ok(Box::new(RedbSession { database: &self.database, durability: self.durability }))
    }

    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        let mut loaded = LOAD_TRANSACTION_ROWS;
        while loaded == LOAD_TRANSACTION_ROWS {
            loaded = 0;
            let transaction = begin(&self.database, redb::Durability::Immediate)?;
            {
                let mut table = transaction.open_table(ROWS).map_err(engine_error(NAME, "open the table"))?;
                while loaded < LOAD_TRANSACTION_ROWS {
                    let Some((key, value)) = rows.next() else { break };
                    table.insert(key.as_slice(), value).map_err(engine_error(NAME, "load a row"))?;
                    loaded += 1;
                }
            }
            transaction.commit().map_err(engine_error(NAME, "commit"))?;
        }
        Ok(())
    }

    /// An empty durable commit makes all earlier ones durable; the first one also makes the table.
    fn flush(&self) -> Result<(), BenchError> {
        let transaction = begin(&self.database, redb::Durability::Immediate)?;
        transaction.open_table(ROWS).map(drop).map_err(engine_error(NAME, "open the table"))?;
        transaction.commit().map_err(engine_error(NAME, "commit"))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.flush()?;
        self.database.close().map_err(engine_error(NAME, "close"))
    }

    fn configured_bytes(&self) -> u64 {
        self.cache_bytes
    }
}

struct RedbSession<'engine> {
    database: &'engine Database,
    durability: redb::Durability,
}

impl RedbSession<'_> {
    fn put_all<'row>(&self, rows: impl Iterator<Item = (&'row [u8], &'row [u8])>) -> Result<(), BenchError> {
        let transaction = begin(self.database, self.durability)?;
        {
            let mut table = transaction.open_table(ROWS).map_err(engine_error(NAME, "open the table"))?;
            for (key, value) in rows {
                table.insert(key, value).map_err(engine_error(NAME, "put"))?;
            }
        }
        transaction.commit().map_err(engine_error(NAME, "commit"))
    }
}

impl Session for RedbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.put_all(std::iter::once((key, value)))
    }

    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError> {
        self.put_all(rows.iter().map(|row| (row.key.as_slice(), row.value.as_slice())))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError> {
        let transaction = self.database.begin_read().map_err(engine_error(NAME, "begin a read"))?;
        let table = transaction.open_table(ROWS).map_err(engine_error(NAME, "open the table"))?;
        let value = table.get(key).map_err(engine_error(NAME, "get"))?;
        Ok(value.map(|value| digest(value.value())))
    }

    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError> {
        let transaction = self.database.begin_read().map_err(engine_error(NAME, "begin a read"))?;
        let table = transaction.open_table(ROWS).map_err(engine_error(NAME, "open the table"))?;
        let mut rows = table.range(from..).map_err(engine_error(NAME, "scan"))?;
        let mut scanned = Scanned::default();
        while scanned.rows < limit {
            let Some(row) = rows.next() else { break };
            let (key, value) = row.map_err(engine_error(NAME, "scan"))?;
            scanned.add(key.value(), value.value());
        }
        Ok(scanned)
    }
}
