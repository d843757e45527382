//! The face that the executor sees of everything outside of it: tables, system relations, changes, functions of the session.
//!
//! The session implements `Storage` over a transaction of the engine. Tests implement it over plain vectors.

use std::sync::Arc;

use seawall_values::functions;
use seawall_values::set_returning::Rows;
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, SqlResult};

use crate::algebra::{RowLock, WaitPolicy};
use crate::schema::statistics::TableStatistics;
use crate::schema::{Index, Table};

/// One end of a range of key values.
#[derive(Clone, Debug)]
pub struct KeyBound {
    /// The value; never null.
    pub value: Datum,
    /// Whether rows with this value belong to the range.
    pub is_inclusive: bool,
}

/// A range of a key: equal leading columns, then at most one column between bounds.
///
/// Bounds are in the order of the values, also for a descending column: `lower <= value <= upper`. With either bound, nulls are outside.
/// Values have the types of the key's columns.
#[derive(Clone, Debug, Default)]
pub struct KeyRange {
    /// Values that the leading columns are equal to. A null stands for `IS NULL`.
    pub equal: Vec<Datum>,
    /// The lower bound of the next column.
    pub lower: Option<KeyBound>,
    /// The upper bound of the next column.
    pub upper: Option<KeyBound>,
}

/// A scan to open.
#[derive(Debug)]
pub struct ScanRequest<'a> {
    /// The table.
    pub table: &'a Arc<Table>,
    /// The index whose order and bounds are meant. `None`: the key that rows are stored under.
    pub index: Option<&'a Arc<Index>>,
    /// Where it begins and ends.
    pub range: &'a KeyRange,
    /// Largest key first.
    pub is_reverse: bool,
    /// The columns that the scan fills in, by position in the table.
    pub columns: &'a [usize],
    /// Whether the identity of each row is wanted as well.
    pub with_identity: bool,
}

/// An open scan. It owns what it reads from, so it can be kept between calls of the client.
///
/// A scan returns the rows that the statement's snapshot has, with the transaction's own writes from before the scan was opened, and none
/// made after.
pub trait TableScan: Send {
    /// Reads the next row: one value for each wanted column, in order; then its identity as `bytea`, if that was asked for. `false`: the
    /// end, and `values` are as they were.
    ///
    /// # Errors
    /// `72000`: the snapshot is gone; corruption; I/O.
    fn next(&mut self, values: &mut [Datum]) -> SqlResult<bool>;
}

/// The outcome of a row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The lock is held, and the row is the one of the statement's snapshot.
    Unchanged,
    /// The lock is held, and the row was changed after the statement's snapshot: look at it again.
    Changed,
    /// The row was deleted, or moved to another key.
    Gone,
    /// Another transaction holds it: only with `WaitPolicy::Skip`.
    Skipped,
}

/// The outcome of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The row is there, under this identity.
    Done(Vec<u8>),
    /// A row with the same key was there, under this identity; nothing was written. It may be newer than the statement's snapshot.
    Conflict(Vec<u8>),
}

/// What an insert does about a row with the same unique key.
#[derive(Clone, Copy, Debug)]
pub enum OnConflict<'a> {
    /// It fails with `23505`.
    Fail,
    /// It returns the row that is there, if the key of one of these indexes conflicts (none: of any unique index), and fails for others.
    Report(&'a [Arc<Index>]),
}

/// Everything that statements read and change, in one transaction.
///
/// All calls belong to the statement under way: its snapshot is the session's business. A row's identity is its key in the table, as bytes.
pub trait Storage {
    /// Opens a scan.
    ///
    /// # Errors
    /// What the engine says.
    fn open_scan(&mut self, request: &ScanRequest<'_>) -> SqlResult<Box<dyn TableScan>>;

    /// Reads the only row with a full key of a unique index (`None`: of the table) into `values`, as `TableScan::next` does. `false`: there
    /// is none.
    ///
    /// # Errors
    /// What the engine says.
    fn get(&mut self, request: &ScanRequest<'_>, values: &mut [Datum]) -> SqlResult<bool>;

    /// Reads columns of the newest version of a row whose lock the transaction holds, or that it wrote. `false`: it is gone.
    ///
    /// # Errors
    /// What the engine says.
    fn fetch_newest(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        columns: &[usize],
        values: &mut [Datum],
    ) -> SqlResult<bool>;

    /// Locks a row until the end of the transaction.
    ///
    /// # Errors
    /// `55P03` if it is locked and `wait` or `lock_timeout` says so; `40P01`; `40001` where the isolation level does not allow a changed
    /// row; `57014`.
    fn lock(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        mode: RowLock,
        wait: WaitPolicy,
    ) -> SqlResult<Locked>;

    /// Locks a row that the statement changes, and its table as those who write do.
    ///
    /// # Errors
    /// As of `lock`.
    fn lock_to_change(&mut self, table: &Arc<Table>, identity: &[u8], mode: RowLock) -> SqlResult<Locked> {
        self.lock(table, identity, mode, WaitPolicy::Wait)
    }

    /// Inserts a row: a value for each column of the table (null for dropped ones).
    ///
    /// # Errors
    /// `23505` and the other violations that storage finds.
    fn insert(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
        on_conflict: OnConflict<'_>,
    ) -> SqlResult<Inserted>;

    /// Puts a row in the place of one whose lock the transaction holds. Returns its identity, which is another one if its key has changed.
    ///
    /// # Errors
    /// As `insert`.
    fn update(
        &mut self,
        table: &Arc<Table>,
        identity: &[u8],
        old: &[Datum],
        new: &[Datum],
    ) -> SqlResult<Vec<u8>>;

    /// Deletes a row whose lock the transaction holds.
    ///
    /// # Errors
    /// `23503` and the like.
    fn delete(&mut self, table: &Arc<Table>, identity: &[u8], old: &[Datum]) -> SqlResult<()>;

    /// Rows of a system relation: values of these columns, by position in it. Rows that differ from the filter (position and value) may be
    /// left out.
    ///
    /// # Errors
    /// What the engine says.
    fn scan_system(&mut self, relation: Oid, columns: &[usize], filter: &[(usize, Datum)])
    -> SqlResult<Rows>;

    /// A function of the session, such as `current_user` or `nextval`.
    ///
    /// # Errors
    /// Those of the function; `0A000` if there is none.
    fn call(&mut self, function: &FunctionRow, call: &functions::Call<'_>) -> SqlResult<Datum>;

    /// A function of the session that returns a set.
    ///
    /// # Errors
    /// Those of the function; `0A000` if there is none.
    fn call_set(&mut self, function: &FunctionRow, call: &functions::Call<'_>) -> SqlResult<Rows>;

    /// The number of what a text names, as a value of one of the `reg..` types.
    ///
    /// # Errors
    /// There is no such object; `0A000` where no names can be looked up.
    fn reference_input(&mut self, _of: Oid, _text: &str) -> SqlResult<Oid> {
        Err(seawall_values::SqlError::unsupported("a name of an object here"))
    }

    /// The name of an object, as a value of one of the `reg..` types shows it.
    ///
    /// # Errors
    /// What the engine says.
    fn reference_output(&mut self, _of: Oid, number: Oid) -> SqlResult<String> {
        Ok(number.to_string())
    }

    /// The next value of a sequence, by its number.
    ///
    /// # Errors
    /// `2200H`: it has no more.
    fn next_value(&mut self, sequence: Oid) -> SqlResult<i64>;
}

/// Statistics that the optimizer asks for.
pub trait Statistics {
    /// What is known of a table, by its number.
    fn of_table(&mut self, _table: Oid) -> Option<Arc<TableStatistics>> {
        None
    }

    /// About how many rows a table has of which nothing is known.
    fn estimated_rows(&mut self, _table: &Table) -> Option<f64> {
        None
    }
}

/// No statistics: the optimizer takes its defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStatistics;

impl Statistics for NoStatistics {}
