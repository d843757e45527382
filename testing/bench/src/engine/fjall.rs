//! fjall. `Synced` commits batches with `PersistMode::SyncData` (fdatasync); `Buffered` with `PersistMode::Buffer`,
//! which writes each commit to the operating system: without a mode a batch stays in a buffer of the process.
//!
//! Sorted rows are loaded by ingestion, random ones in batches of ten thousand.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Durability, Engine, Scanned, Session, Settings, digest};
use crate::error::{BenchError, engine_error};
use crate::rows::{Order, Row, RowSource};

const NAME: &str = "fjall";
const LOAD_BATCH_ROWS: usize = 10_000;
/// fjall's default.
const MEMTABLE_BYTES: u64 = 64 << 20;
/// Memtable for each byte that must stay in the log.
const MEMTABLE_SHARE: u64 = 4;
/// fjall's default.
const JOURNAL_BYTES: u64 = 512 << 20;

struct Fjall {
    database: Database,
    rows: Keyspace,
    mode: PersistMode,
    cache_bytes: u64,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
    let room_bytes = settings.log_room_bytes.unwrap_or(0).saturating_mul(MEMTABLE_SHARE);
    let memtable_bytes = MEMTABLE_BYTES.max(room_bytes);
    let database = Database::builder(&settings.directory)
        .cache_size(settings.cache_bytes)
        .max_journaling_size(JOURNAL_BYTES.max(room_bytes))
        .open()
        .map_err(engine_error(NAME, "open"))?;
    let rows = database
        .keyspace("rows", || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes))
        .map_err(engine_error(NAME, "open the table"))?;
    let mode = match settings.durability {
        Durability::Synced => PersistMode::SyncData,
        Durability::Buffered => PersistMode::Buffer,
    };
    Ok(Box::new(Fjall { database, rows, mode, cache_bytes: settings.cache_bytes }))
}

impl Engine for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError> {
        Ok(Box::new(FjallSession { database: &self.database, rows: &self.rows, mode: self.mode }))
    }

    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        match rows.order {
            Order::Sorted => {
                let mut ingestion =
                    self.rows.start_ingestion().map_err(engine_error(NAME, "start an ingestion"))?;
                while let Some((key, value)) = rows.next() {
                    ingestion.write(key, value).map_err(engine_error(NAME, "ingest a row"))?;
                }
                ingestion.finish().map_err(engine_error(NAME, "finish an ingestion"))?;
            }
            Order::Random => {
                let mut loader =
                    FjallSession { mode: PersistMode::Buffer, database: &self.database, rows: &self.rows };
                loop {
                    let batch = rows.next_batch(LOAD_BATCH_ROWS);
                    if batch.is_empty() {
                        break;
                    }
                    loader.put_batch(&batch)?;
                }
            }
        }
        self.flush()
    }

    fn flush(&self) -> Result<(), BenchError> {
        self.database.persist(PersistMode::SyncAll).map_err(engine_error(NAME, "sync"))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.flush()
    }

    fn configured_bytes(&self) -> u64 {
        self.cache_bytes + MEMTABLE_BYTES
    }
}

struct FjallSession<'engine> {
    database: &'engine Database,
    rows: &'engine Keyspace,
    mode: PersistMode,
}

impl Session for FjallSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        if self.mode == PersistMode::Buffer {
            // The keyspace's own insert does the same as a batch of one, with less work.
            return self.rows.insert(key, value).map_err(engine_error(NAME, "put"));
        }
        let mut batch = self.database.batch().durability(Some(self.mode));
        batch.insert(self.rows, key, value);
        batch.commit().map_err(engine_error(NAME, "commit"))
    }

    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError> {
        let mut batch = self.database.batch().durability(Some(self.mode));
        for row in rows {
            batch.insert(self.rows, row.key, row.value.as_slice());
        }
        batch.commit().map_err(engine_error(NAME, "commit"))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError> {
        let value = self.rows.get(key).map_err(engine_error(NAME, "get"))?;
        Ok(value.map(|value| digest(&value)))
    }

    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError> {
        let mut rows = self.rows.range(from..);
        let mut scanned = Scanned::default();
        while scanned.rows < limit {
            let Some(row) = rows.next() else { break };
            let (key, value) = row.into_inner().map_err(engine_error(NAME, "scan"))?;
            scanned.add(&key, &value);
        }
        Ok(scanned)
    }
}
