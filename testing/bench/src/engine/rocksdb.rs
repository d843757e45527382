//! RocksDB. `Synced` is `WriteOptions::set_sync(true)`; `Buffered` writes each commit to the operating system.
//!
//! Opened without the column-family call of the Rust crate, which drops the cache and memtable options in silence.
//! Sorted rows are loaded through one table file and its ingestion, random ones in batches past the log.

use std::path::PathBuf;

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, IngestExternalFileOptions, Options, SstFileWriter,
    WriteBatch, WriteOptions,
};

use super::{Durability, Engine, Scanned, Session, Settings, digest};
use crate::error::{BenchError, engine_error};
use crate::rows::{Key, Order, Row, RowSource};

const NAME: &str = "rocksdb";
const LOAD_BATCH_ROWS: usize = 10_000;
/// RocksDB's default.
const MEMTABLE_BYTES: usize = 64 << 20;
const MEMTABLES: i32 = 2;
/// Memtable for each byte that must stay in the log.
const MEMTABLE_SHARE: u64 = 4;

struct Rocksdb {
    database: DB,
    options: Options,
    synced: bool,
    cache_bytes: u64,
    load_file: PathBuf,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
    let cache_bytes = usize::try_from(settings.cache_bytes).expect("a cache fits the address space");
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(cache_bytes));
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.increase_parallelism(2);
    options.set_max_write_buffer_number(MEMTABLES);
    let room_bytes = settings.log_room_bytes.unwrap_or(0).saturating_mul(MEMTABLE_SHARE);
    let room_bytes = usize::try_from(room_bytes).expect("a memtable fits the address space");
    options.set_write_buffer_size(MEMTABLE_BYTES.max(room_bytes));
    let database = DB::open(&options, &settings.directory).map_err(engine_error(NAME, "open"))?;
    Ok(Box::new(Rocksdb {
        database,
        options,
        synced: settings.durability == Durability::Synced,
        cache_bytes: settings.cache_bytes,
        load_file: settings.directory.join("load.sst"),
    }))
}

impl Rocksdb {
    fn load_sorted(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        let mut writer = SstFileWriter::create(&self.options);
        writer.open(&self.load_file).map_err(engine_error(NAME, "open a table file"))?;
        while let Some((key, value)) = rows.next() {
            writer.put(key, value).map_err(engine_error(NAME, "write a table file"))?;
        }
        writer.finish().map_err(engine_error(NAME, "finish a table file"))?;
        let mut ingest = IngestExternalFileOptions::default();
        ingest.set_move_files(true);
        self.database
            .ingest_external_file_opts(&ingest, vec![&self.load_file])
            .map_err(engine_error(NAME, "ingest a table file"))
    }

    fn load_random(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        loop {
            let mut batch = WriteBatch::default();
            while batch.len() < LOAD_BATCH_ROWS {
                let Some((key, value)) = rows.next() else { break };
                batch.put(key, value);
            }
            if batch.is_empty() {
                return self.database.flush().map_err(engine_error(NAME, "flush the memtable"));
            }
            self.database.write_opt(batch, &options).map_err(engine_error(NAME, "load a batch"))?;
        }
    }
}

impl Engine for Rocksdb {
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError> {
        let mut options = WriteOptions::default();
        options.set_sync(self.synced);
        Ok(Box::new(RocksdbSession { database: &self.database, options }))
    }

    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        match rows.order {
            Order::Sorted => self.load_sorted(rows),
            Order::Random => self.load_random(rows),
        }
    }

    fn flush(&self) -> Result<(), BenchError> {
        self.database.flush_wal(true).map_err(engine_error(NAME, "sync the log"))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.flush()?;
        self.database.cancel_all_background_work(true);
        Ok(())
    }

    fn configured_bytes(&self) -> u64 {
        let memtables = MEMTABLE_BYTES as u64 * u64::from(MEMTABLES.unsigned_abs());
        self.cache_bytes + memtables
    }
}

struct RocksdbSession<'engine> {
    database: &'engine DB,
    options: WriteOptions,
}

impl Session for RocksdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.database.put_opt(key, value, &self.options).map_err(engine_error(NAME, "put"))
    }

    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError> {
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.put(row.key, &row.value);
        }
        self.database.write_opt(batch, &self.options).map_err(engine_error(NAME, "write a batch"))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError> {
        let value = self.database.get_pinned(key).map_err(engine_error(NAME, "get"))?;
        Ok(value.map(|value| digest(&value)))
    }

    fn get_many(&mut self, keys: &[Key]) -> Result<Vec<Option<u64>>, BenchError> {
        let values = self.database.multi_get(keys).into_iter();
        let digests = values.map(|value| value.map(|value| value.as_deref().map(digest)));
        digests.collect::<Result<_, _>>().map_err(engine_error(NAME, "get"))
    }

    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError> {
        let mut rows = self.database.raw_iterator();
        rows.seek(from);
        let mut scanned = Scanned::default();
        while scanned.rows < limit {
            let Some((key, value)) = rows.item() else { break };
            scanned.add(key, value);
            rows.next();
        }
        rows.status().map_err(engine_error(NAME, "scan"))?;
        Ok(scanned)
    }
}
