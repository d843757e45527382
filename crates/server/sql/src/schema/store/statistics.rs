//! What `ANALYZE` has found out: rows of the engine's table `sql.statistics`, one for each table that was analyzed, written and read in
//! transactions as definitions are.
//!
//! | bytes | field   | meaning                                                                                            |
//! |------:|---------|----------------------------------------------------------------------------------------------------|
//! |     4 | table   | its number, big-endian: the key                                                                    |
//! |    .. | value   | `TableStatistics` as `encoding` writes it: version 1, then fields of the struct in `schema::statistics` |
//!
//! The first field of the value is a number of its own, so that statistics that have been decoded before are found without decoding
//! these. A table that is dropped takes its row along.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use seawall_engine::Transaction;
use seawall_values::{Oid, SqlError, SqlResult};

use super::SchemaStore;
use super::encoding::{decode, encode, version_of};
use crate::execute::Statistics;
use crate::schema::Table;
use crate::schema::statistics::TableStatistics;
use crate::storage::engine_error::EngineResult;

/// Statistics that are kept decoded: about so many, and bytes of their encoded form.
const KEPT_MAX: usize = 1_024;
const KEPT_BYTES_MAX: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct StatisticsStore {
    table: seawall_engine::Table,
    decoded: Cache<u64, (Arc<TableStatistics>, u64), EncodedBytes>,
}

/// Weighs statistics by the length of their encoded form.
#[derive(Clone, Debug)]
struct EncodedBytes;

impl Weighter<u64, (Arc<TableStatistics>, u64)> for EncodedBytes {
    fn weight(&self, _version: &u64, value: &(Arc<TableStatistics>, u64)) -> u64 {
        value.1
    }
}

impl StatisticsStore {
    pub(super) fn new(table: seawall_engine::Table) -> StatisticsStore {
        StatisticsStore { table, decoded: Cache::with_weighter(KEPT_MAX, KEPT_BYTES_MAX, EncodedBytes) }
    }
}

impl SchemaStore {
    /// What is known of a table, by its number.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn statistics(
        &self,
        transaction: &mut Transaction,
        table: Oid,
    ) -> SqlResult<Option<Arc<TableStatistics>>> {
        let store = &self.statistics;
        let Some(bytes) = transaction.get(&store.table, table.to_be_bytes()).sql()? else { return Ok(None) };
        let version = version_of(&bytes)?;
        if let Some((known, _)) = store.decoded.get(&version) {
            return Ok(Some(known));
        }
        let known: Arc<TableStatistics> = Arc::new(decode(&bytes)?);
        store.decoded.insert(version, (Arc::clone(&known), bytes.len() as u64));
        Ok(Some(known))
    }

    /// Puts statistics in the place of those that a table had.
    ///
    /// # Errors
    /// What the engine says.
    pub fn put_statistics(
        &self,
        transaction: &mut Transaction,
        table: Oid,
        statistics: TableStatistics,
    ) -> SqlResult<()> {
        let statistics = TableStatistics { version: self.new_version()?, ..statistics };
        transaction.put(&self.statistics.table, table.to_be_bytes(), &encode(&statistics)?).sql()
    }

    pub(super) fn remove_statistics(&self, transaction: &mut Transaction, table: Oid) -> SqlResult<()> {
        let key = table.to_be_bytes();
        match transaction.get(&self.statistics.table, key).sql()? {
            Some(_) => transaction.delete(&self.statistics.table, key).sql(),
            None => Ok(()),
        }
    }
}

/// Statistics for one planning, as a transaction sees them.
pub struct StoredStatistics<'a> {
    /// Where they are.
    pub store: &'a SchemaStore,
    /// Who reads them.
    pub transaction: &'a mut Transaction,
    /// Why they could not be read.
    pub failure: Option<Box<SqlError>>,
}

impl std::fmt::Debug for StoredStatistics<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoredStatistics").field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl Statistics for StoredStatistics<'_> {
    fn of_table(&mut self, table: Oid) -> Option<Arc<TableStatistics>> {
        match self.store.statistics(self.transaction, table) {
            Ok(found) => found,
            Err(error) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    fn estimated_rows(&mut self, table: &Table) -> Option<f64> {
        let snapshot = self.store.database.snapshot();
        // Not found: a table of the transaction under way, which nobody else knows of. Damage is found again by who reads the rows.
        let table = snapshot.table(&table.storage).ok()?;
        snapshot.estimate_rows::<&[u8]>(&table, ..).ok()
    }
}
