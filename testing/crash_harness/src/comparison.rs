//! What models and a database have in common: tables, transactions in doubt, rows, each compared by name.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use seawall::{Database, Error, Snapshot};

/// Why a database is not what a model says.
#[derive(Debug)]
pub enum Difference {
    /// It has other tables, transactions in doubt or rows.
    Rows(String),
    /// It cannot be read.
    Error(Error),
}

impl From<Error> for Difference {
    fn from(error: Error) -> Difference {
        Difference::Error(error)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Rows(what) => formatter.write_str(what),
            Difference::Error(error) => write!(formatter, "it cannot be read: {error}"),
        }
    }
}

/// Compares the names of the tables with those of `expected`.
///
/// # Errors
/// How they differ, or why they cannot be read.
pub fn compare_tables<T>(database: &Database, expected: &BTreeMap<String, T>) -> Result<(), Difference> {
    let found: Vec<String> = database.tables().list()?.into_iter().map(|table| table.name).collect();
    compare_names("tables", &found, expected)
}

/// Compares the gids in doubt with those of `expected`.
///
/// # Errors
/// How they differ, or why they cannot be read.
pub fn compare_in_doubt<T>(database: &Database, expected: &BTreeMap<String, T>) -> Result<(), Difference> {
    let mut found: Vec<String> =
        database.two_phase().in_doubt()?.into_iter().map(|transaction| transaction.gid).collect();
    found.sort_unstable();
    compare_names("in doubt", &found, expected)
}

fn compare_names<T>(what: &str, found: &[String], expected: &BTreeMap<String, T>) -> Result<(), Difference> {
    if found.iter().eq(expected.keys()) {
        return Ok(());
    }
    let expected: Vec<&String> = expected.keys().collect();
    Err(Difference::Rows(format!("{what}: {found:?} where {expected:?} are expected")))
}

/// Compares the rows of the table `name`, in order.
///
/// # Errors
/// The first row that differs, or why it cannot be read.
pub fn compare_rows<V: Borrow<[u8]>>(
    snapshot: &Snapshot,
    name: &str,
    expected: &BTreeMap<Vec<u8>, V>,
) -> Result<(), Difference> {
    let table = snapshot.table(name)?;
    let mut expected = expected.iter().map(|(key, value)| (&key[..], value.borrow()));
    for row in snapshot.range::<&[u8]>(&table, ..) {
        let (key, value) = row?;
        let (found, wanted) = ((&key[..], &value[..]), expected.next());
        if wanted != Some(found) {
            let wanted = wanted.map_or("nothing".to_owned(), show);
            return Err(Difference::Rows(format!("{name}: {} where {wanted} is expected", show(found))));
        }
    }
    match expected.next() {
        Some(missing) => Err(Difference::Rows(format!("{name}: {} is missing", show(missing)))),
        None => Ok(()),
    }
}

fn show((key, value): (&[u8], &[u8])) -> String {
    let start = |bytes: &[u8]| bytes[..bytes.len().min(16)].escape_ascii().to_string();
    format!("{} ({} bytes) = {} ({} bytes)", start(key), key.len(), start(value), value.len())
}
