//! Seawall. `Synced` is `Durability::Sync`; `Buffered` is `Durability::Async`, which is flushed at the latest after
//! `LogOptions::flush_interval`. A killed process loses nothing of either.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use seawall::{CommitHandle, Database, Options, Table, Transaction};

use super::{Durability, Engine, Scanned, Session, Settings, digest};
use crate::error::{BenchError, engine_error};
use crate::rows::{Key, Row, RowSource};

const NAME: &str = "seawall";
const TABLE: &str = "rows";
/// Memory for each byte that must stay in the log: half of it takes what arrives, and a row there is at most twice its
/// size in the log. Not more than that, for a memtable makes its filter for all the rows that it may get.
const MEMTABLE_SHARE: u64 = 4;
const LONGER_THAN_ANY_RUN: Duration = Duration::from_secs(24 * 3600);

struct Seawall {
    database: Database,
    /// Made on first use: a bulk load makes the table itself.
    table: OnceLock<Table>,
    configured_bytes: u64,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
    let mut options = Options::default();
    options.memory.cache_bytes = settings.cache_bytes;
    options.checkpoint.runs.run_percent = settings.run_percent;
    options.transaction.durability = match settings.durability {
        Durability::Synced => seawall::Durability::Sync,
        Durability::Buffered => seawall::Durability::Async,
    };
    if let Some(room_bytes) = settings.log_room_bytes {
        let memtable_bytes = room_bytes.saturating_mul(MEMTABLE_SHARE);
        options.memory.memtable_bytes = options.memory.memtable_bytes.max(memtable_bytes);
        options.checkpoint.log_bytes = options.checkpoint.log_bytes.max(memtable_bytes);
        options.checkpoint.interval = LONGER_THAN_ANY_RUN;
    }
    let configured_bytes = options.memory.cache_bytes + options.memory.memtable_bytes;
    let database = Database::open(&settings.directory, options).map_err(engine_error(NAME, "open"))?;
    let table = OnceLock::new();
    Ok(Box::new(Seawall { database, table, configured_bytes }))
}

impl Seawall {
    fn table(&self) -> Result<&Table, BenchError> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        // Threads may race here: who comes second finds the table made.
        let made = self.database.create_table(TABLE);
        let table = match made {
            Ok(table) => table,
            Err(_exists) => self.database.table(TABLE).map_err(engine_error(NAME, "open the table"))?,
        };
        Ok(self.table.get_or_init(|| table))
    }
}

impl Engine for Seawall {
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError> {
        Ok(Box::new(SeawallSession {
            database: &self.database,
            table: self.table()?,
            in_flight: VecDeque::new(),
        }))
    }

    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        let mut load =
            self.database.tables().bulk_load(TABLE).map_err(engine_error(NAME, "begin a bulk load"))?;
        while let Some((key, value)) = rows.next() {
            load.add(key, value).map_err(engine_error(NAME, "add a row to a bulk load"))?;
        }
        load.finish().map_err(engine_error(NAME, "finish a bulk load"))?;
        Ok(())
    }

    fn flush(&self) -> Result<(), BenchError> {
        self.database.flush().map(drop).map_err(engine_error(NAME, "flush"))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.database.close().map_err(engine_error(NAME, "close"))
    }

    fn log_position(&self) -> Option<u64> {
        self.database.flush().ok().map(|lsn| lsn.get())
    }

    fn page_reads(&self) -> Option<u64> {
        Some(self.database.statistics().cache.pages_read)
    }

    fn configured_bytes(&self) -> u64 {
        self.configured_bytes
    }
}

struct SeawallSession<'engine> {
    database: &'engine Database,
    table: &'engine Table,
    in_flight: VecDeque<CommitHandle>,
}

impl Session for SeawallSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.database.put(self.table, key, value).map(drop).map_err(engine_error(NAME, "put"))
    }

    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError> {
        // Rows come in random order, so two batches may lock each other out: one is then tried again.
        let put_all = |transaction: &mut Transaction| {
            rows.iter().try_for_each(|row| transaction.put(self.table, row.key, &row.value))
        };
        self.database.transact(put_all).map_err(engine_error(NAME, "commit a batch"))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError> {
        self.database.get_with(self.table, key, |value| value.map(digest)).map_err(engine_error(NAME, "get"))
    }

    fn get_many(&mut self, keys: &[Key]) -> Result<Vec<Option<u64>>, BenchError> {
        let values = self.database.snapshot().get_many(self.table, keys);
        let values = values.map_err(engine_error(NAME, "get"))?;
        Ok(values.iter().map(|value| value.as_deref().map(digest)).collect())
    }

    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError> {
        let snapshot = self.database.snapshot();
        let mut range = snapshot.range(self.table, from..);
        let mut scanned = Scanned::default();
        while scanned.rows < limit {
            match range.next_row().map_err(engine_error(NAME, "scan"))? {
                Some((key, value)) => scanned.add(key, value),
                None => break,
            }
        }
        Ok(scanned)
    }

    fn put_in_flight(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        let mut transaction = self.database.begin();
        transaction.put(self.table, key, value).map_err(engine_error(NAME, "put"))?;
        let handle = transaction.commit_async().map_err(engine_error(NAME, "start a commit"))?;
        self.in_flight.push_back(handle);
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), BenchError> {
        match self.in_flight.pop_front() {
            Some(handle) => handle.wait().map(drop).map_err(engine_error(NAME, "wait for a commit")),
            None => Ok(()),
        }
    }

    fn abort(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        let mut transaction = self.database.begin();
        transaction.put(self.table, key, value).map_err(engine_error(NAME, "put"))?;
        transaction.rollback();
        Ok(())
    }
}
