//! What a workload asks of a storage engine, and the engines there are.
//!
//! ```text
//!   workload ---> Engine::session, one a thread ---> put, put_batch, get, scan
//!        |
//!        +------> Engine::bulk_load, flush, close
//! ```
//! Every engine gets the same cache and the same rows. What `Durability` means to each is said in its file and in
//! `docs/benchmarks.md`. An engine that serialises writers itself is called from all threads at once; one that would
//! answer `busy` (SQLite) gets a mutex in front, as an application would give it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::rows::{Key, Row, RowSource};

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod seawall;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineKind {
    Seawall,
    Rocksdb,
    Lmdb,
    Redb,
    Fjall,
    Sqlite,
}

impl EngineKind {
    pub(crate) const ALL: [EngineKind; 6] = [
        EngineKind::Seawall,
        EngineKind::Rocksdb,
        EngineKind::Lmdb,
        EngineKind::Redb,
        EngineKind::Fjall,
        EngineKind::Sqlite,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            EngineKind::Seawall => "seawall",
            EngineKind::Rocksdb => "rocksdb",
            EngineKind::Lmdb => "lmdb",
            EngineKind::Redb => "redb",
            EngineKind::Fjall => "fjall",
            EngineKind::Sqlite => "sqlite",
        }
    }

    /// Whether this program was built with the engine in it.
    pub(crate) fn is_built(self) -> bool {
        match self {
            EngineKind::Seawall => true,
            EngineKind::Rocksdb => cfg!(feature = "rocksdb"),
            EngineKind::Lmdb => cfg!(feature = "lmdb"),
            EngineKind::Redb => cfg!(feature = "redb"),
            EngineKind::Fjall => cfg!(feature = "fjall"),
            EngineKind::Sqlite => cfg!(feature = "sqlite"),
        }
    }

    /// Opens a database, and makes it if the directory is empty.
    pub(crate) fn open(self, settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
        if !self.is_built() {
            return Err(BenchError::NotBuilt(self.name()));
        }
        match self {
            EngineKind::Seawall => seawall::open(settings),
            #[cfg(feature = "rocksdb")]
            EngineKind::Rocksdb => rocksdb::open(settings),
            #[cfg(feature = "lmdb")]
            EngineKind::Lmdb => lmdb::open(settings),
            #[cfg(feature = "redb")]
            EngineKind::Redb => redb::open(settings),
            #[cfg(feature = "fjall")]
            EngineKind::Fjall => fjall::open(settings),
            #[cfg(feature = "sqlite")]
            EngineKind::Sqlite => sqlite::open(settings),
            #[cfg(not(all(
                feature = "rocksdb",
                feature = "lmdb",
                feature = "redb",
                feature = "fjall",
                feature = "sqlite"
            )))]
            missing => unreachable!("{} is not built, and was refused above", missing.name()),
        }
    }
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// Stable storage.
    Synced,
    /// Nothing beyond what keeps the database sound.
    Buffered,
}

/// How much may be written before the engine has to move it out of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogLimits {
    /// As the engine comes.
    Default,
    /// Everything stays in the log until the database is closed.
    Raised,
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Exists.
    pub(crate) directory: PathBuf,
    pub(crate) cache_bytes: u64,
    /// Of Seawall: `checkpoint.runs.run_percent`.
    pub(crate) run_percent: u32,
    pub(crate) durability: Durability,
    /// Keys and values that the log must take before anything is moved out of it; `None` for the engine's own limits.
    pub(crate) log_room_bytes: Option<u64>,
}

/// What a scan saw; `digest` depends on every row, so that no row can be skipped by the compiler or by laziness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) rows: u64,
    pub(crate) digest: u64,
}

impl Scanned {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.digest = self.digest.wrapping_add(digest(key)).wrapping_add(digest(value));
    }
}

/// Touches both ends of a row's bytes.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    match bytes {
        [] => 0,
        [only] => u64::from(*only),
        [first, .., last] => u64::from(*first) << 8 | u64::from(*last),
    }
}

/// An open database with one table of rows.
pub(crate) trait Engine: Send + Sync {
    /// What one thread works through.
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError>;

    /// Loads rows into the empty table by the fastest way that the engine documents; durable when it returns.
    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError>;

    /// Everything written so far can be read by a process that opens the database after this one is killed.
    fn flush(&self) -> Result<(), BenchError>;

    /// Ends background work and closes. Durable when it returns.
    fn close(self: Box<Self>) -> Result<(), BenchError>;

    /// Where the log ends, in bytes since the database was made; `None` if the engine does not say.
    fn log_position(&self) -> Option<u64> {
        None
    }

    /// Data pages read since opening; `None` if the engine does not count.
    fn page_reads(&self) -> Option<u64> {
        None
    }

    /// What the options allow it to hold in memory: cache and memtables.
    fn configured_bytes(&self) -> u64;
}

/// One thread's face of an engine. Each call is a transaction of its own.
pub(crate) trait Session {
    /// Commits one row, as durable as the database was opened.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError>;

    /// Commits all rows in one transaction.
    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError>;

    /// The digest of the row's value.
    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError>;

    /// As `get`, of several keys by one call, if the engine has one.
    fn get_many(&mut self, keys: &[Key]) -> Result<Vec<Option<u64>>, BenchError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Up to `limit` rows from key `from` on, in key order.
    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError>;

    /// Starts a durable commit and does not wait for it.
    fn put_in_flight(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), BenchError> {
        Err(BenchError::Unsupported { engine: "this engine", operation: "commits in flight" })
    }

    /// Waits until the oldest commit in flight is durable.
    fn wait_for_oldest(&mut self) -> Result<(), BenchError> {
        Err(BenchError::Unsupported { engine: "this engine", operation: "commits in flight" })
    }

    /// Writes one row and rolls back.
    fn abort(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), BenchError> {
        Err(BenchError::Unsupported { engine: "this engine", operation: "an abort that is measured" })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::Random;
    use crate::rows::{Key, KeySpace, Order, PutStream, empty_batch};

    /// Every engine in this program does the same with the same rows, or its figures mean nothing.
    macro_rules! engine_tests {
        ($($(#[$gate:meta])? $name:ident: $kind:ident),* $(,)?) => {$(
            $(#[$gate])?
            mod $name {
                use super::*;

                #[test]
                fn synced_answers_like_a_map() {
                    answers_like_a_map(EngineKind::$kind, Durability::Synced);
                }

                #[test]
                fn buffered_answers_like_a_map() {
                    answers_like_a_map(EngineKind::$kind, Durability::Buffered);
                }

                #[test]
                fn both_load_orders_give_the_same_table() {
                    loads_the_same_table(EngineKind::$kind);
                }
            }
        )*};
    }

    engine_tests! {
        seawall: Seawall,
        #[cfg(feature = "rocksdb")]
        rocksdb: Rocksdb,
        #[cfg(feature = "lmdb")]
        lmdb: Lmdb,
        #[cfg(feature = "redb")]
        redb: Redb,
        #[cfg(feature = "fjall")]
        fjall: Fjall,
        #[cfg(feature = "sqlite")]
        sqlite: Sqlite,
    }

    fn answers_like_a_map(kind: EngineKind, durability: Durability) {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            run_percent: 0,
            directory: directory.path().to_path_buf(),
            cache_bytes: 16 << 20,
            durability,
            log_room_bytes: None,
        };
        let keys = KeySpace::new(300);
        let mut model = BTreeMap::new();
        let engine = kind.open(&settings).unwrap();
        {
            let mut session = engine.session().unwrap();
            let mut stream = PutStream::new(keys, 100, 1);
            for _ in 0..100 {
                let (key, value) = stream.next();
                session.put(&key, value).unwrap();
                model.insert(key, value.to_vec());
            }
            let mut batch = empty_batch(50);
            stream.fill(&mut batch);
            session.put_batch(&batch).unwrap();
            model.extend(batch.into_iter().map(|row| (row.key, row.value)));
            check(kind, session.as_mut(), keys, &model);
        }
        engine.flush().unwrap();
        engine.close().unwrap();
        let engine = kind.open(&settings).unwrap();
        check(kind, engine.session().unwrap().as_mut(), keys, &model);
        engine.close().unwrap();
    }

    fn check(kind: EngineKind, session: &mut dyn Session, keys: KeySpace, model: &BTreeMap<Key, Vec<u8>>) {
        for number in 0..keys.count() {
            let key = keys.key(number);
            assert_eq!(
                session.get(&key).unwrap(),
                model.get(&key).map(|value| digest(value)),
                "{} key {number}",
                kind.name()
            );
        }
        let mut random = Random::new(4);
        for limit in [0, 1, 20, 1000] {
            let from = keys.random_key(&mut random);
            let mut expected = Scanned::default();
            for (key, value) in model.range(from..).take(usize::try_from(limit).unwrap()) {
                expected.add(key, value);
            }
            assert_eq!(session.scan(&from, limit).unwrap(), expected, "{} limit {limit}", kind.name());
        }
    }

    fn loads_the_same_table(kind: EngineKind) {
        let totals = [Order::Sorted, Order::Random].map(|order| {
            let directory = tempfile::tempdir().unwrap();
            let settings = Settings {
                run_percent: 0,
                directory: directory.path().to_path_buf(),
                cache_bytes: 16 << 20,
                durability: Durability::Synced,
                log_room_bytes: None,
            };
            let engine = kind.open(&settings).unwrap();
            // Values of one constant byte: those of two orders differ otherwise.
            engine.bulk_load(&mut RowSource::new(KeySpace::new(5000), 1, order, 1)).unwrap();
            engine.close().unwrap();
            let engine = kind.open(&settings).unwrap();
            let scanned = engine.session().unwrap().scan(&[], u64::MAX).unwrap();
            engine.close().unwrap();
            scanned
        });
        assert_eq!(totals[0].rows, 5000);
        assert_eq!(totals[0], totals[1]);
    }
}
