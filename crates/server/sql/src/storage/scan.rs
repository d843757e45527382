//! Scans of tables and of indexes.
//!
//! ```text
//!   table:          scan of rows ------------------------------------------> columns
//!   index, covered: scan of entries ---------------------------------------> columns
//!   index:          scan of entries --> the first few: rows, read at once --> columns
//!                                  +--> more: rows, by a reader ------------> columns
//! ```
//! Most scans of an index end after a few rows; only a longer one needs a reader with a copy of what the transaction has written. Rows of
//! some entries are asked for together, of more the longer the scan: a disk answers many reads at a time as fast as one.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use seawall_engine::{Direction, Reader, Scan};
use seawall_values::{Datum, SqlError, SqlResult};

use crate::execute::{KeyBound, KeyRange, ScanRequest, TableScan};
use crate::monitor::relations::ScanCount;
use crate::storage::engine_error::EngineResult;
use crate::storage::index_entry::{EntryReader, IndexLayout};
use crate::storage::key::KeyPart;
use crate::storage::layout::TableLayout;
use crate::storage::row::RowReader;
use crate::storage::table_storage::TableStorage;
use crate::storage::value::damaged;

/// Rows that a scan of an index reads before it opens a reader for more.
const ROWS_AT_ONCE: usize = 16;
/// Rows that a reader asks for together, at most.
const ROWS_AHEAD_MAX: usize = 64;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys of a range.
pub(super) fn bounds_of(parts: &[KeyPart], range: &KeyRange) -> SqlResult<Bounds> {
    let mut prefix = Vec::new();
    if range.equal.len() > parts.len() {
        return Err(SqlError::internal("a range has more columns than its key"));
    }
    for (part, value) in parts.iter().zip(&range.equal) {
        part.write(value, &mut prefix)?;
    }
    let Some(part) = parts.get(range.equal.len()) else { return Ok(within(prefix)) };
    if range.lower.is_none() && range.upper.is_none() {
        return Ok(within(prefix));
    }
    let (low, high) =
        if part.order.is_descending { (&range.upper, &range.lower) } else { (&range.lower, &range.upper) };
    let (mut from, mut to) = within(part.values_after(&prefix));
    let key = |bound: &KeyBound| {
        let mut key = prefix.clone();
        part.write(&bound.value, &mut key)?;
        Ok::<_, Box<SqlError>>(key)
    };
    if let Some(bound) = low {
        let key = key(bound)?;
        from = if bound.is_inclusive { Bound::Included(key) } else { after(key) };
    }
    if let Some(bound) = high {
        let key = key(bound)?;
        to = if bound.is_inclusive { before_end_of(key) } else { Bound::Excluded(key) };
    }
    Ok((from, to))
}

/// All keys that begin with these bytes.
fn within(prefix: Vec<u8>) -> Bounds {
    (Bound::Included(prefix.clone()), before_end_of(prefix))
}

/// Up to the last key that begins with these bytes.
pub(super) fn before_end_of(prefix: Vec<u8>) -> Bound<Vec<u8>> {
    match end_of(prefix) {
        Some(end) => Bound::Excluded(end),
        None => Bound::Unbounded,
    }
}

/// From the first key after all that begin with these bytes.
fn after(prefix: Vec<u8>) -> Bound<Vec<u8>> {
    // Without such a key, the bytes are all FF: no part begins with that many, so nothing is after them.
    end_of(prefix)
        .map_or_else(|| Bound::Excluded(vec![u8::MAX; seawall_engine::KEY_BYTES_MAX]), Bound::Included)
}

fn end_of(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(prefix);
        }
        prefix.pop();
    }
    None
}

/// A scan of rows under their own keys.
struct RowScan {
    scan: Scan,
    reader: RowReader,
    width: usize,
    with_identity: bool,
    count: ScanCount,
}

impl TableScan for RowScan {
    fn next(&mut self, values: &mut [Datum]) -> SqlResult<bool> {
        let Some((key, value)) = self.scan.next_row().sql()? else { return Ok(false) };
        self.reader.read(key, value, &mut values[..self.width])?;
        if self.with_identity {
            values[self.width] = Datum::Bytea(Arc::from(key));
        }
        self.count.rows += 1;
        Ok(true)
    }
}

/// A scan of index entries that have all that is wanted.
struct CoveredScan {
    scan: Scan,
    reader: EntryReader,
    layout: IndexLayout,
    width: usize,
    with_identity: bool,
    count: ScanCount,
}

impl TableScan for CoveredScan {
    fn next(&mut self, values: &mut [Datum]) -> SqlResult<bool> {
        let Some((key, value)) = self.scan.next_row().sql()? else { return Ok(false) };
        self.reader.read(key, value, &mut values[..self.width])?;
        if self.with_identity {
            values[self.width] = Datum::Bytea(Arc::from(self.layout.row_key(key, value)?));
        }
        self.count.rows += 1;
        Ok(true)
    }
}

/// A scan of index entries whose rows are looked up.
struct IndexScan {
    /// Rows that were read when the scan was opened, last one first.
    first: Vec<(Vec<u8>, Vec<u8>)>,
    /// What is after them.
    rest: Option<RestOfIndex>,
    layout: IndexLayout,
    reader: RowReader,
    width: usize,
    with_identity: bool,
    count: ScanCount,
}

/// Entries of an index, and the rows that they are of.
struct RestOfIndex {
    entries: Scan,
    rows: Reader,
    /// Identities of rows that were asked for.
    ahead: VecDeque<Vec<u8>>,
    /// So many are asked for next.
    ahead_next: usize,
    /// The error of the entry after those.
    failed: Option<Box<SqlError>>,
}

impl RestOfIndex {
    /// The identity of the next row.
    fn next(&mut self, layout: &IndexLayout) -> SqlResult<Option<Vec<u8>>> {
        if self.ahead.is_empty() {
            while self.ahead.len() < self.ahead_next && self.failed.is_none() {
                match self.next_identity(layout) {
                    Ok(Some(identity)) => self.ahead.push_back(identity),
                    Ok(None) => break,
                    Err(error) => self.failed = Some(error),
                }
            }
            self.rows.will_read(self.ahead.iter().map(Vec::as_slice));
            self.ahead_next = (2 * self.ahead_next).min(ROWS_AHEAD_MAX);
        }
        match self.ahead.pop_front() {
            Some(identity) => Ok(Some(identity)),
            None => self.failed.take().map_or(Ok(None), Err),
        }
    }

    fn next_identity(&mut self, layout: &IndexLayout) -> SqlResult<Option<Vec<u8>>> {
        let Some((key, value)) = self.entries.next_row().sql()? else { return Ok(None) };
        Ok(Some(layout.row_key(key, value)?.to_vec()))
    }
}

#[cold]
fn no_row() -> Box<SqlError> {
    damaged("an index has an entry of a row that is not there")
}

impl TableScan for IndexScan {
    fn next(&mut self, values: &mut [Datum]) -> SqlResult<bool> {
        let width = self.width;
        if let Some((identity, row)) = self.first.pop() {
            self.count.rows += 1;
            self.reader.read(&identity, &row, &mut values[..width])?;
            if self.with_identity {
                values[width] = Datum::Bytea(Arc::from(identity));
            }
            return Ok(true);
        }
        let Some(rest) = &mut self.rest else { return Ok(false) };
        let Some(identity) = rest.next(&self.layout)? else { return Ok(false) };
        let read = |row: Option<&[u8]>| match row {
            Some(row) => self.reader.read(&identity, row, &mut values[..width]),
            None => Err(no_row()),
        };
        rest.rows.get_with(&identity, read).sql()??;
        if self.with_identity {
            values[width] = Datum::Bytea(Arc::from(identity));
        }
        self.count.rows += 1;
        Ok(true)
    }
}

impl TableStorage<'_> {
    /// The index of a request, and its place among those with entries; `None`: the rows themselves are meant.
    fn index_of(&self, layout: &TableLayout, request: &ScanRequest<'_>) -> SqlResult<Option<usize>> {
        match request.index {
            Some(index) if index.storage.is_some() => {
                let found = layout.shape.indexes.iter().position(|known| known.index.oid == index.oid);
                found.map(Some).ok_or_else(|| SqlError::internal("an index is not one of its table"))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn scan(&mut self, request: &ScanRequest<'_>) -> SqlResult<Box<dyn TableScan>> {
        let layout = self.layout(request.table)?;
        let direction = if request.is_reverse { Direction::Reverse } else { Direction::Forward };
        let (width, with_identity) = (request.columns.len(), request.with_identity);
        let Some(position) = self.index_of(&layout, request)? else {
            let parts: Vec<KeyPart> = layout.shape.rows.key_parts().copied().collect();
            let bounds = bounds_of(&parts, request.range)?;
            let scan = self.transaction.open_scan(&layout.handle, bounds, direction).sql()?;
            let reader = layout.shape.rows.reader(request.columns);
            // A range of the key of the rows themselves is what PostgreSQL reads by the index of that key.
            let by_key = layout.row_key_counters.as_ref().filter(|_| request.index.is_some());
            let count = ScanCount::new(by_key.unwrap_or(&layout.counters));
            return Ok(Box::new(RowScan { scan, reader, width, with_identity, count }));
        };
        let index = layout.shape.indexes[position].clone();
        let bounds = bounds_of(index.parts(), request.range)?;
        let scan = self.transaction.open_scan(&layout.index_handles[position], bounds, direction).sql()?;
        let count = ScanCount::new(&layout.index_counters[position]);
        if let Some(reader) = index.reader(request.columns) {
            return Ok(Box::new(CoveredScan { scan, reader, layout: index, width, with_identity, count }));
        }
        let reader = layout.shape.rows.reader(request.columns);
        let (first, rest) = self.first_rows(&layout, &index, scan)?;
        Ok(Box::new(IndexScan { first, rest, layout: index, reader, width, with_identity, count }))
    }

    #[expect(clippy::type_complexity, reason = "keys and values of the first rows, and where more come from")]
    fn first_rows(
        &mut self,
        layout: &TableLayout,
        index: &IndexLayout,
        mut scan: Scan,
    ) -> SqlResult<(Vec<(Vec<u8>, Vec<u8>)>, Option<RestOfIndex>)> {
        let mut identities = Vec::new();
        while identities.len() < ROWS_AT_ONCE
            && let Some((key, value)) = scan.next_row().sql()?
        {
            identities.push(index.row_key(key, value)?.to_vec());
        }
        if identities.len() > 1 {
            self.transaction.will_read(&layout.handle, identities.iter().map(Vec::as_slice)).sql()?;
        }
        let mut first = Vec::with_capacity(identities.len());
        for identity in identities {
            let row = self.transaction.get(&layout.handle, &identity).sql()?.ok_or_else(no_row)?;
            first.push((identity, row));
        }
        first.reverse();
        if first.len() < ROWS_AT_ONCE {
            return Ok((first, None));
        }
        let rows = self.transaction.open_reader(&layout.handle).sql()?;
        let (ahead, ahead_next, failed) = (VecDeque::new(), ROWS_AT_ONCE, None);
        Ok((first, Some(RestOfIndex { entries: scan, rows, ahead, ahead_next, failed })))
    }

    pub(super) fn get_row(&mut self, request: &ScanRequest<'_>, values: &mut [Datum]) -> SqlResult<bool> {
        let layout = self.layout(request.table)?;
        let mut key = Vec::new();
        let mut counters = layout.row_key_counters.as_ref().unwrap_or(&layout.counters);
        let identity = match self.index_of(&layout, request)? {
            None => {
                let mut pairs = layout.shape.rows.key_parts().zip(&request.range.equal);
                pairs.try_for_each(|(part, value)| part.write(value, &mut key))?;
                key
            }
            Some(position) => {
                let index = &layout.shape.indexes[position];
                let pairs = index.parts().iter().zip(&request.range.equal);
                pairs.clone().try_for_each(|(part, value)| part.write(value, &mut key))?;
                if !index.index.is_nulls_not_distinct && request.range.equal.iter().any(Datum::is_null) {
                    return Err(SqlError::internal("a look-up of a null that may be there more than once"));
                }
                counters = &layout.index_counters[position];
                let entry = self.transaction.get(&layout.index_handles[position], &key).sql()?;
                let Some(value) = entry else {
                    counters.note_scan(0);
                    return Ok(false);
                };
                index.row_key(&key, &value)?.to_vec()
            }
        };
        let Some(row) = self.transaction.get(&layout.handle, &identity).sql()? else {
            counters.note_scan(0);
            return Ok(false);
        };
        counters.note_scan(1);
        let width = request.columns.len();
        layout.shape.rows.read(request.columns, &identity, &row, &mut values[..width])?;
        if request.with_identity {
            values[width] = Datum::Bytea(Arc::from(identity));
        }
        Ok(true)
    }
}
