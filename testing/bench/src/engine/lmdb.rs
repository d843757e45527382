//! LMDB through heed. `Synced` is its default: data, then meta page, each synced; `Buffered` opens the environment
//! with `MDB_NOSYNC`.
//!
//! It maps its file, so the cache setting means nothing to it: it has the whole page cache. Sorted rows are appended
//! (`MDB_APPEND`), all rows in transactions of a million.
#![expect(unsafe_code, reason = "heed opens a memory map by an unsafe call")]

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags};

use super::{Durability, Engine, Scanned, Session, Settings, digest};
use crate::error::{BenchError, engine_error};
use crate::rows::{Order, Row, RowSource};

const NAME: &str = "lmdb";
/// The file's largest size; only address space.
const MAP_BYTES: usize = 64 << 30;
const LOAD_TRANSACTION_ROWS: usize = 1_000_000;
const READERS: u32 = 256;

struct Lmdb {
    environment: Env,
    rows: Database<'static, Bytes, Bytes>,
    cache_bytes: u64,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(READERS);
    if settings.durability == Durability::Buffered {
        // SAFETY: without syncs a power loss may destroy the database; it is scratch, and no file is shared.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: nobody else opens or changes the file while it is mapped: the directory belongs to this process.
    let environment = unsafe { options.open(&settings.directory) }.map_err(engine_error(NAME, "open"))?;
    let transaction = environment.write_txn().map_err(engine_error(NAME, "begin"))?;
    let rows = environment
        .create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })
        .map_err(engine_error::<heed::Error>(NAME, "open the table"))?
        .unwrap_commit();
    Ok(Box::new(Lmdb { environment, rows, cache_bytes: settings.cache_bytes }))
}

impl Engine for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError> {
        Ok(Box::new(LmdbSession { environment: &self.environment, rows: self.rows }))
    }

    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        let flags = match rows.order {
            Order::Sorted => PutFlags::APPEND,
            Order::Random => PutFlags::empty(),
        };
        let mut loaded = LOAD_TRANSACTION_ROWS;
        while loaded == LOAD_TRANSACTION_ROWS {
            loaded = 0;
            let mut transaction = self.environment.write_txn().map_err(engine_error(NAME, "begin"))?;
            while loaded < LOAD_TRANSACTION_ROWS {
                let Some((key, value)) = rows.next() else { break };
                self.rows
                    .put_with_flags(&mut transaction, flags, &key, value)
                    .map_err(engine_error(NAME, "load a row"))?;
                loaded += 1;
            }
            transaction.commit().map_err(engine_error(NAME, "commit"))?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<(), BenchError> {
        self.environment.force_sync().map_err(engine_error(NAME, "sync"))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.flush()?;
        // The file must be unmapped before its pages can be dropped from the page cache.
        self.environment.prepare_for_closing().wait();
        Ok(())
    }

    fn configured_bytes(&self) -> u64 {
        self.cache_bytes
    }
}

struct LmdbSession<'engine> {
    environment: &'engine Env,
    rows: Database<'static, Bytes, Bytes>,
}

impl Session for LmdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        let mut transaction = self.environment.write_txn().map_err(engine_error(NAME, "begin"))?;
        self.rows.put(&mut transaction, key, value).map_err(engine_error(NAME, "put"))?;
        transaction.commit().map_err(engine_error(NAME, "commit"))
    }

    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError> {
        let mut transaction = self.environment.write_txn().map_err(engine_error(NAME, "begin"))?;
        for row in rows {
            self.rows.put(&mut transaction, &row.key, &row.value).map_err(engine_error(NAME, "put"))?;
        }
        transaction.commit().map_err(engine_error(NAME, "commit"))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError> {
        let transaction = self.environment.read_txn().map_err(engine_error(NAME, "begin a read"))?;
        let value = self.rows.get(&transaction, key).map_err(engine_error(NAME, "get"))?;
        Ok(value.map(digest))
    }

    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError> {
        let transaction = self.environment.read_txn().map_err(engine_error(NAME, "begin a read"))?;
        let mut scanned = Scanned::default();
        if limit == 0 {
            return Ok(scanned);
        }
        // LMDB knows no empty key, not even as the start of a range.
        let bounds = (
            std::ops::Bound::Included(if from.is_empty() { &[0][..] } else { from }),
            std::ops::Bound::Unbounded,
        );
        for row in self.rows.range(&transaction, &bounds).map_err(engine_error(NAME, "scan"))? {
            let (key, value) = row.map_err(engine_error(NAME, "scan"))?;
            scanned.add(key, value);
            if scanned.rows == limit {
                break;
            }
        }
        Ok(scanned)
    }
}
