//! SQLite, its WAL, prepared statements, one connection a thread. `Synced` is `synchronous=FULL`: the WAL is synced at
//! each commit; `Buffered` is `synchronous=NORMAL`: each commit is written to the operating system.
//!
//! One writer at a time holds a mutex: SQLite's own answer to the second one is `busy`, and sleeping in its busy
//! handler would be measured instead. It writes nothing for an update that changes nothing, so no value is repeated.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use rusqlite::{Connection, OptionalExtension, params};

use super::{Durability, Engine, Scanned, Session, Settings, digest};
use crate::error::{BenchError, engine_error};
use crate::rows::{Row, RowSource};

const NAME: &str = "sqlite";
const PUT: &str =
    "INSERT INTO rows (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const GET: &str = "SELECT value FROM rows WHERE key = ?1";
const SCAN: &str = "SELECT key, value FROM rows WHERE key >= ?1 ORDER BY key LIMIT ?2";

struct Sqlite {
    path: PathBuf,
    settings: Settings,
    /// Held by whoever writes; the connection in it loads and flushes.
    writer: Mutex<Connection>,
}

pub(super) fn open(settings: &Settings) -> Result<Box<dyn Engine>, BenchError> {
    let path = settings.directory.join("rows.sqlite");
    let connection = connect(&path, settings)?;
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        )
        .map_err(engine_error(NAME, "create the table"))?;
    Ok(Box::new(Sqlite { path, settings: settings.clone(), writer: Mutex::new(connection) }))
}

fn connect(path: &PathBuf, settings: &Settings) -> Result<Connection, BenchError> {
    let connection = Connection::open(path).map_err(engine_error(NAME, "open"))?;
    let synchronous = match settings.durability {
        Durability::Synced => "FULL",
        Durability::Buffered => "NORMAL",
    };
    // Zero is never; a thousand is SQLite's default.
    let checkpoint_pages = if settings.log_room_bytes.is_some() { 0 } else { 1000 };
    let cache_kib = settings.cache_bytes / 1024;
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{cache_kib};
             PRAGMA wal_autocheckpoint = {checkpoint_pages}; PRAGMA busy_timeout = 60000;"
        ))
        .map_err(engine_error(NAME, "set the pragmas"))?;
    Ok(connection)
}

impl Sqlite {
    fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().expect("a thread that panics ends the run")
    }
}

impl Engine for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>, BenchError> {
        Ok(Box::new(SqliteSession { engine: self, connection: connect(&self.path, &self.settings)? }))
    }

    fn bulk_load(&self, rows: &mut RowSource) -> Result<(), BenchError> {
        let mut writer = self.writer();
        let transaction = writer.transaction().map_err(engine_error(NAME, "begin"))?;
        {
            let mut put = transaction
                .prepare("INSERT INTO rows (key, value) VALUES (?1, ?2)")
                .map_err(engine_error(NAME, "prepare"))?;
            while let Some((key, value)) = rows.next() {
                put.execute(params![key.as_slice(), value]).map_err(engine_error(NAME, "load a row"))?;
            }
        }
        transaction.commit().map_err(engine_error(NAME, "commit"))?;
        drop(writer);
        self.checkpoint()
    }

    /// Commits are with the operating system already, and it outlives this process.
    fn flush(&self) -> Result<(), BenchError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.checkpoint()?;
        let connection = self.writer.into_inner().expect("a thread that panics ends the run");
        connection.close().map_err(|(_, error)| error).map_err(engine_error(NAME, "close"))
    }

    fn configured_bytes(&self) -> u64 {
        self.settings.cache_bytes
    }
}

impl Sqlite {
    /// Moves the WAL into the database file and syncs both.
    fn checkpoint(&self) -> Result<(), BenchError> {
        self.writer()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(engine_error(NAME, "checkpoint"))
    }
}

struct SqliteSession<'engine> {
    engine: &'engine Sqlite,
    connection: Connection,
}

impl Session for SqliteSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        let _writer = self.engine.writer();
        let mut put = self.connection.prepare_cached(PUT).map_err(engine_error(NAME, "prepare"))?;
        put.execute(params![key, value]).map(drop).map_err(engine_error(NAME, "put"))
    }

    fn put_batch(&mut self, rows: &[Row]) -> Result<(), BenchError> {
        let _writer = self.engine.writer();
        let transaction = self.connection.transaction().map_err(engine_error(NAME, "begin"))?;
        {
            let mut put = transaction.prepare_cached(PUT).map_err(engine_error(NAME, "prepare"))?;
            for row in rows {
                put.execute(params![row.key.as_slice(), row.value]).map_err(engine_error(NAME, "put"))?;
            }
        }
        transaction.commit().map_err(engine_error(NAME, "commit"))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<u64>, BenchError> {
        let mut get = self.connection.prepare_cached(GET).map_err(engine_error(NAME, "prepare"))?;
        get.query_row([key], |row| Ok(digest(row.get_ref(0)?.as_bytes()?)))
            .optional()
            .map_err(engine_error(NAME, "get"))
    }

    fn scan(&mut self, from: &[u8], limit: u64) -> Result<Scanned, BenchError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut scan = self.connection.prepare_cached(SCAN).map_err(engine_error(NAME, "prepare"))?;
        let mut rows = scan.query(params![from, limit]).map_err(engine_error(NAME, "scan"))?;
        let mut scanned = Scanned::default();
        while let Some(row) = rows.next().map_err(engine_error(NAME, "scan"))? {
            let bytes = |column| row.get_ref(column)?.as_bytes().map_err(rusqlite::Error::from);
            let key = bytes(0).map_err(engine_error(NAME, "read a key"))?;
            let value = bytes(1).map_err(engine_error(NAME, "read a value"))?;
            scanned.add(key, value);
        }
        Ok(scanned)
    }
}
