//! Tables as plain vectors: what the executor runs over in these tests.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_sql::algebra::{RowLock, WaitPolicy};
use seawall_sql::execute::{Inserted, KeyRange, Locked, OnConflict, ScanRequest, Storage, TableScan};
use seawall_sql::schema::{IndexedValue, RowKey, Table};
use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

/// The order of two values, nulls last.
pub(crate) fn compare(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (Datum::Int4(left), Datum::Int4(right)) => left.cmp(right),
        (Datum::Int8(left), Datum::Int8(right)) => left.cmp(right),
        (Datum::Text(left), Datum::Text(right)) => left.cmp(right),
        (Datum::Bool(left), Datum::Bool(right)) => left.cmp(right),
        other => panic!("not compared in these tests: {other:?}"),
    }
}

#[derive(Default)]
pub(crate) struct MemoryStorage {
    /// Rows by the table's number and their identity.
    tables: BTreeMap<Oid, BTreeMap<u64, Vec<Datum>>>,
    next: u64,
    /// How many scans were opened, and how many rows were read by full keys.
    pub(crate) scans: u64,
    pub(crate) gets: u64,
    /// Identities that look changed to the next lock, and what they have been changed to.
    pub(crate) changed: BTreeMap<u64, Vec<Datum>>,
}

struct Scan(std::vec::IntoIter<Vec<Datum>>);

impl TableScan for Scan {
    fn next(&mut self, values: &mut [Datum]) -> SqlResult<bool> {
        let Some(row) = self.0.next() else { return Ok(false) };
        values.clone_from_slice(&row);
        Ok(true)
    }
}

fn identity(number: u64) -> Datum {
    Datum::Bytea(Arc::from(number.to_be_bytes()))
}

fn number(identity: &[u8]) -> u64 {
    u64::from_be_bytes(identity.try_into().expect("identities have eight bytes"))
}

fn key_columns(request: &ScanRequest<'_>) -> Vec<(usize, bool)> {
    match (request.index, &request.table.key) {
        (Some(index), _) => index
            .keys
            .iter()
            .map(|key| match key.what {
                IndexedValue::Column(column) => (column, key.is_descending),
                IndexedValue::Expression(_) => panic!("an index on an expression"),
            })
            .collect(),
        (None, RowKey::Columns(columns)) => {
            columns.iter().map(|key| (key.column, key.is_descending)).collect()
        }
        (None, RowKey::Number) => Vec::new(),
    }
}

fn is_in(range: &KeyRange, key: &[Datum]) -> bool {
    let is_equal = range.equal.iter().zip(key).all(|(wanted, value)| compare(wanted, value).is_eq());
    let Some(value) = key.get(range.equal.len()) else { return is_equal };
    let is_above = range.lower.as_ref().is_none_or(|bound| {
        let ordering = compare(value, &bound.value);
        !value.is_null() && (ordering.is_gt() || (bound.is_inclusive && ordering.is_eq()))
    });
    let is_below = range.upper.as_ref().is_none_or(|bound| {
        let ordering = compare(value, &bound.value);
        !value.is_null() && (ordering.is_lt() || (bound.is_inclusive && ordering.is_eq()))
    });
    is_equal && is_above && is_below
}

impl MemoryStorage {
    pub(crate) fn fill(&mut self, table: &Table, rows: impl IntoIterator<Item = Vec<Datum>>) {
        for row in rows {
            self.next += 1;
            self.tables.entry(table.oid).or_default().insert(self.next, row);
        }
    }

    pub(crate) fn rows(&self, table: &Table) -> Vec<Vec<Datum>> {
        self.tables.get(&table.oid).into_iter().flat_map(|rows| rows.values().cloned()).collect()
    }

    fn matching(&self, request: &ScanRequest<'_>) -> Vec<Vec<Datum>> {
        let keys = key_columns(request);
        let rows = self.tables.get(&request.table.oid).into_iter().flatten();
        let mut found: Vec<(Vec<Datum>, u64, &Vec<Datum>)> = rows
            .map(|(number, row)| {
                (keys.iter().map(|(column, _)| row[*column].clone()).collect::<Vec<_>>(), *number, row)
            })
            .filter(|(key, _, _)| is_in(request.range, key))
            .collect();
        found.sort_by(|(left, _, _), (right, _, _)| {
            let mut pairs = left.iter().zip(right).zip(&keys);
            pairs
                .find_map(|((left, right), (_, is_descending))| {
                    let ordering = compare(left, right);
                    let ordering = if *is_descending { ordering.reverse() } else { ordering };
                    ordering.is_ne().then_some(ordering)
                })
                .unwrap_or(Ordering::Equal)
        });
        if request.is_reverse {
            found.reverse();
        }
        found
            .into_iter()
            .map(|(_, number, row)| {
                let mut values: Vec<Datum> =
                    request.columns.iter().map(|column| row[*column].clone()).collect();
                if request.with_identity {
                    values.push(identity(number));
                }
                values
            })
            .collect()
    }
}

impl Storage for MemoryStorage {
    fn open_scan(&mut self, request: &ScanRequest<'_>) -> SqlResult<Box<dyn TableScan>> {
        self.scans += 1;
        Ok(Box::new(Scan(self.matching(request).into_iter())))
    }

    fn get(&mut self, request: &ScanRequest<'_>, values: &mut [Datum]) -> SqlResult<bool> {
        self.gets += 1;
        let rows = self.matching(request);
        assert!(rows.len() <= 1, "a full key has {} rows", rows.len());
        let Some(row) = rows.first() else { return Ok(false) };
        values.clone_from_slice(row);
        Ok(true)
    }

    fn fetch_newest(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        columns: &[usize],
        values: &mut [Datum],
    ) -> SqlResult<bool> {
        let Some(row) = self.tables.get(&table.oid).and_then(|rows| rows.get(&number(identity))) else {
            return Ok(false);
        };
        for (value, column) in values.iter_mut().zip(columns) {
            *value = row[*column].clone();
        }
        Ok(true)
    }

    fn lock(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        _mode: RowLock,
        _wait: WaitPolicy,
    ) -> SqlResult<Locked> {
        let rows = self.tables.entry(table.oid).or_default();
        if let Some(row) = self.changed.remove(&number(identity)) {
            rows.insert(number(identity), row);
            return Ok(Locked::Changed);
        }
        Ok(if rows.contains_key(&number(identity)) { Locked::Unchanged } else { Locked::Gone })
    }

    fn insert(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
        on_conflict: OnConflict<'_>,
    ) -> SqlResult<Inserted> {
        let rows = self.tables.entry(table.oid).or_default();
        if let RowKey::Columns(columns) = &table.key {
            let existing = rows.iter().find(|(_, known)| {
                columns.iter().all(|key| compare(&known[key.column], &row[key.column]).is_eq())
            });
            match (existing, on_conflict) {
                (Some((number, _)), OnConflict::Report(_)) => {
                    return Ok(Inserted::Conflict(number.to_be_bytes().to_vec()));
                }
                (Some(_), OnConflict::Fail) => {
                    return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, "duplicate key"));
                }
                (None, _) => {}
            }
        }
        self.next += 1;
        rows.insert(self.next, row.to_vec());
        Ok(Inserted::Done(self.next.to_be_bytes().to_vec()))
    }

    fn update(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        _old: &[Datum],
        new: &[Datum],
    ) -> SqlResult<Vec<u8>> {
        self.tables.entry(table.oid).or_default().insert(number(identity), new.to_vec());
        Ok(identity.to_vec())
    }

    fn delete(&mut self, table: &Arc<Table>, identity: &[u8], _old: &[Datum]) -> SqlResult<()> {
        self.tables.entry(table.oid).or_default().remove(&number(identity));
        Ok(())
    }

    fn scan_system(
        &mut self,
        relation: Oid,
        _columns: &[usize],
        _filter: &[(usize, Datum)],
    ) -> SqlResult<Rows> {
        Err(SqlError::unsupported(format!("system relation {relation}")))
    }

    fn call(&mut self, function: &FunctionRow, _call: &Call<'_>) -> SqlResult<Datum> {
        Err(SqlError::unsupported(&function.name))
    }

    fn call_set(&mut self, function: &FunctionRow, _call: &Call<'_>) -> SqlResult<Rows> {
        Err(SqlError::unsupported(&function.name))
    }

    fn next_value(&mut self, _sequence: Oid) -> SqlResult<i64> {
        self.next += 1;
        Ok(i64::try_from(self.next).expect("few values are taken"))
    }
}
