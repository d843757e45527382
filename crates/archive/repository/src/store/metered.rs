//! A store whose requests are counted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{ObjectEntry, ObjectReader, ObjectStorage, Put, StoreError};

/// Requests to a store, those that failed too; one that is repeated counts each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Objects that were to be put.
    pub puts: u64,
    /// Objects that were to be read, whole or in part.
    pub gets: u64,
    /// Directories that were to be listed, however many answers a listing takes.
    pub lists: u64,
    /// Objects that were to be removed.
    pub removals: u64,
    /// Bytes of the objects that were put.
    pub put_bytes: u64,
    /// Bytes that were read.
    pub get_bytes: u64,
}

impl RequestCounts {
    /// Adds those of another time.
    pub fn add(&mut self, more: RequestCounts) {
        self.puts += more.puts;
        self.gets += more.gets;
        self.lists += more.lists;
        self.removals += more.removals;
        self.put_bytes += more.put_bytes;
        self.get_bytes += more.get_bytes;
    }

    /// How many requests there were of each kind, for statistics.
    pub fn by_kind(&self) -> BTreeMap<&'static str, u64> {
        [("put", self.puts), ("get", self.gets), ("list", self.lists), ("remove", self.removals)].into()
    }
}

/// Passes requests on, and counts them.
#[derive(Debug)]
pub(crate) struct MeteredStorage {
    storage: Arc<dyn ObjectStorage>,
    puts: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    removals: AtomicU64,
    put_bytes: AtomicU64,
    get_bytes: AtomicU64,
}

impl MeteredStorage {
    pub(crate) fn new(storage: Arc<dyn ObjectStorage>) -> MeteredStorage {
        MeteredStorage {
            storage,
            puts: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            removals: AtomicU64::new(0),
            put_bytes: AtomicU64::new(0),
            get_bytes: AtomicU64::new(0),
        }
    }

    /// What was counted so far. Each number is right on its own.
    pub(crate) fn counts(&self) -> RequestCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestCounts {
            puts: read(&self.puts),
            gets: read(&self.gets),
            lists: read(&self.lists),
            removals: read(&self.removals),
            put_bytes: read(&self.put_bytes),
            get_bytes: read(&self.get_bytes),
        }
    }
}

fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl ObjectStorage for MeteredStorage {
    fn put_new(&self, path: &str, pieces: &[Bytes]) -> Result<Put, StoreError> {
        count(&self.puts, 1);
        let put = self.storage.put_new(path, pieces)?;
        if put == Put::Stored {
            count(&self.put_bytes, pieces.iter().map(Bytes::len).sum());
        }
        Ok(put)
    }

    fn open(&self, path: &str, range: Option<Range<u64>>) -> Result<Box<dyn ObjectReader + '_>, StoreError> {
        count(&self.gets, 1);
        let reader = self.storage.open(path, range)?;
        Ok(Box::new(MeteredReader { reader, bytes: &self.get_bytes }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError> {
        count(&self.lists, 1);
        self.storage.list(prefix)
    }

    fn list_directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        count(&self.lists, 1);
        self.storage.list_directories(prefix)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        count(&self.removals, 1);
        self.storage.remove(path)
    }

    fn remove_many(&self, paths: &[String]) -> Vec<bool> {
        count(&self.removals, paths.len());
        self.storage.remove_many(paths)
    }

    fn remove_leftovers(&self, before_micros: i64) -> Result<u64, StoreError> {
        self.storage.remove_leftovers(before_micros)
    }

    fn location(&self, path: &str) -> String {
        self.storage.location(path)
    }

    fn is_near(&self) -> bool {
        self.storage.is_near()
    }

    fn reads_only_durable(&self) -> bool {
        self.storage.reads_only_durable()
    }
}

struct MeteredReader<'a> {
    reader: Box<dyn ObjectReader + 'a>,
    bytes: &'a AtomicU64,
}

impl ObjectReader for MeteredReader<'_> {
    fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let piece = self.reader.next()?;
        count(self.bytes, piece.as_ref().map_or(0, Bytes::len));
        Ok(piece)
    }
}
