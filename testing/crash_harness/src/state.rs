//! What a database should hold: a plain model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use seawall::{Database, Error, Snapshot, Transaction};

use crate::comparison::{Difference, compare_in_doubt, compare_rows, compare_tables};

/// Rows of one table.
pub type Rows = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// All tables by name. Cloning is cheap: tables are shared until they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The rows of each table.
    pub tables: BTreeMap<String, Arc<Rows>>,
    /// What transactions in doubt will change if they are committed, by gid.
    pub prepared: BTreeMap<String, Arc<Vec<Change>>>,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a change has the name of the call that makes it")]
pub enum Change {
    Create { table: String },
    Drop { table: String },
    Truncate { table: String },
    Rename { from: String, to: String },
    Put { table: String, key: Vec<u8>, value: Arc<[u8]> },
    Delete { table: String, key: Vec<u8> },
}

impl Change {
    /// Whether it creates, drops, truncates or renames a table.
    pub fn is_definition(&self) -> bool {
        match self {
            Change::Create { .. } | Change::Drop { .. } | Change::Truncate { .. } | Change::Rename { .. } => {
                true
            }
            Change::Put { .. } | Change::Delete { .. } => false,
        }
    }

    /// The names in it.
    fn names(&self) -> impl Iterator<Item = &str> {
        let (name, other) = match self {
            Change::Rename { from, to } => (from, Some(to)),
            Change::Create { table }
            | Change::Drop { table }
            | Change::Truncate { table }
            | Change::Put { table, .. }
            | Change::Delete { table, .. } => (table, None),
        };
        std::iter::once(name).chain(other).map(String::as_str)
    }

    /// Makes the change in a transaction.
    ///
    /// # Errors
    /// Those of the call.
    pub fn run(&self, transaction: &mut Transaction) -> Result<(), Error> {
        match self {
            Change::Create { table } => transaction.create_table(table).map(drop),
            Change::Drop { table } => transaction.drop_table(table),
            Change::Truncate { table } => transaction.truncate_table(table),
            Change::Rename { from, to } => transaction.rename_table(from, to),
            Change::Put { table, key, value } => {
                let table = transaction.table(table)?;
                transaction.put(&table, key, value)
            }
            Change::Delete { table, key } => {
                let table = transaction.table(table)?;
                transaction.delete(&table, key)
            }
        }
    }

    /// Makes a change of definitions in a transaction of its own.
    ///
    /// # Errors
    /// Those of the call.
    ///
    /// # Panics
    /// If it is a change of a row.
    pub fn define(&self, database: &Database) -> Result<(), Error> {
        match self {
            Change::Create { table } => database.create_table(table).map(drop),
            Change::Drop { table } => database.tables().drop(table),
            Change::Truncate { table } => database.tables().truncate(table),
            Change::Rename { from, to } => database.tables().rename(from, to),
            Change::Put { .. } | Change::Delete { .. } => panic!("{self} defines nothing"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = |key: &[u8]| key[..key.len().min(16)].escape_ascii().to_string();
        match self {
            Change::Create { table } => write!(formatter, "create table {table}"),
            Change::Drop { table } => write!(formatter, "drop table {table}"),
            Change::Truncate { table } => write!(formatter, "truncate table {table}"),
            Change::Rename { from, to } => write!(formatter, "rename table {from} to {to}"),
            Change::Put { table, key, value } => write!(formatter, "{table}/{}={}", start(key), value.len()),
            Change::Delete { table, key } => write!(formatter, "{table}/{} deleted", start(key)),
        }
    }
}

impl State {
    /// Makes a change.
    ///
    /// # Panics
    /// If it does not fit: a table that is not there, or one that is.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { table } => {
                assert!(self.tables.insert(table.clone(), Arc::default()).is_none(), "a plan creates twice");
            }
            Change::Drop { table } => drop(self.tables.remove(table).expect("a plan drops what is there")),
            Change::Truncate { table } => *self.rows_mut(table) = Rows::new(),
            Change::Rename { from, to } => {
                let rows = self.tables.remove(from).expect("a plan renames what is there");
                assert!(self.tables.insert(to.clone(), rows).is_none(), "a plan renames to a free name");
            }
            Change::Put { table, key, value } => {
                self.rows_mut(table).insert(key.clone(), Arc::clone(value));
            }
            Change::Delete { table, key } => {
                self.rows_mut(table).remove(key);
            }
        }
    }

    /// Commits a transaction in doubt, or rolls it back.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn decide(&mut self, gid: &str, commits: bool) {
        let changes = self.prepared.remove(gid).expect("a plan decides what is in doubt");
        if commits {
            changes.iter().for_each(|change| self.apply(change));
        }
    }

    /// Whether a transaction that is in doubt uses a table of this name, makes one, or takes the name away.
    pub fn holds_table(&self, name: &str) -> bool {
        self.changes_in_doubt().flat_map(Change::names).any(|held| held == name)
    }

    /// Definitions of tables by transactions in doubt.
    pub fn definitions_in_doubt(&self) -> u64 {
        self.changes_in_doubt().filter(|change| change.is_definition()).count() as u64
    }

    /// Changes of rows by transactions in doubt that define tables.
    pub fn rows_of_definitions_in_doubt(&self) -> u64 {
        self.changes_with_definitions().filter(|change| !change.is_definition()).count() as u64
    }

    /// Whether the table is used by a transaction in doubt that defines tables.
    pub fn holds_definition(&self, name: &str) -> bool {
        self.changes_with_definitions().flat_map(Change::names).any(|held| held == name)
    }

    fn changes_with_definitions(&self) -> impl Iterator<Item = &Change> {
        self.prepared.values().filter(|changes| defines(changes)).flat_map(|changes| changes.iter())
    }

    /// Whether a transaction that is in doubt has changed the row.
    pub fn holds_row(&self, table: &str, key: &[u8]) -> bool {
        let rows = self.prepared.values().flat_map(|changes| changed_rows(changes));
        rows.into_iter().any(|held| held == (table, key))
    }

    fn changes_in_doubt(&self) -> impl Iterator<Item = &Change> {
        self.prepared.values().flat_map(|changes| changes.iter())
    }

    fn rows_mut(&mut self, table: &str) -> &mut Rows {
        Arc::make_mut(
            self.tables.get_mut(table).unwrap_or_else(|| panic!("a plan uses {table}, which is not there")),
        )
    }

    /// Rows of all tables.
    pub fn row_count(&self) -> u64 {
        self.tables.values().map(|rows| rows.len() as u64).sum()
    }

    /// Compares what can be read: tables, transactions in doubt, rows.
    ///
    /// # Errors
    /// What `database` has otherwise, or why it cannot be read.
    pub fn compare_content(&self, database: &Database) -> Result<(), Difference> {
        compare_tables(database, &self.tables)?;
        compare_in_doubt(database, &self.prepared)?;
        self.compare_prepared(database)?;
        let snapshot = database.snapshot();
        self.tables.iter().try_for_each(|(name, rows)| compare_rows(&snapshot, name, rows))
    }

    /// Compares what can be read, reads some rows by key, and tries to write what transactions in doubt hold.
    ///
    /// # Errors
    /// What `database` has otherwise.
    pub fn compare(&self, database: &Database) -> Result<(), String> {
        // First: of two states that differ in what a gid stands for, one is wrong, and what it takes for locked can be written.
        self.compare_content(database).map_err(|difference| difference.to_string())?;
        self.prepared.iter().try_for_each(|(gid, changes)| compare_guards(database, gid, changes))?;
        self.prepared.values().try_for_each(|changes| compare_definitions(database, self, changes))?;
        let snapshot = database.snapshot();
        self.tables.iter().try_for_each(|(name, rows)| compare_gets(&snapshot, name, rows))
    }

    /// What each transaction in doubt has written.
    fn compare_prepared(&self, database: &Database) -> Result<(), Difference> {
        for transaction in database.two_phase().in_doubt()? {
            let changes = &self.prepared[&transaction.gid];
            let Tables { used, .. } = tables_before(changes);
            let is_renamed = guarded_table(&transaction.gid, changes).is_none() && !defines(changes);
            let same_tables = used.iter().copied().eq(transaction.tables.iter().map(|name| &name[..]));
            let same_rows = match defines(changes) {
                // And rows of the catalog; without those that are in the log already, in parts.
                true => transaction.rows > 0,
                false => (transaction.rows, transaction.bytes) == written(changes),
            };
            if !(is_renamed || same_tables) || !same_rows {
                let (gid, tables) = (&transaction.gid, &transaction.tables);
                return Err(Difference::Rows(format!("{gid} uses {tables:?} where {used:?} are expected")));
            }
        }
        Ok(())
    }
}

/// Some rows, each read by itself.
fn compare_gets(snapshot: &Snapshot, name: &str, rows: &Rows) -> Result<(), String> {
    let table = snapshot.table(name).map_err(|error| format!("opening {name}: {error}"))?;
    for (key, value) in rows.iter().step_by(7) {
        match snapshot.get(&table, key) {
            Ok(Some(found)) if found[..] == value[..] => {}
            other => return Err(format!("{name}: get {} gives {other:?}", key.escape_ascii())),
        }
    }
    Ok(())
}

fn changed_rows(changes: &[Change]) -> impl Iterator<Item = (&str, &[u8])> {
    changes.iter().filter_map(|change| match change {
        Change::Put { table, key, .. } | Change::Delete { table, key } => Some((&table[..], &key[..])),
        _ => None,
    })
}

/// Whether the changes define tables.
fn defines(changes: &[Change]) -> bool {
    changes.iter().any(Change::is_definition)
}

/// Tables that were there before some changes, by the names that they had, and names that the changes make or take away.
#[derive(Debug, Default)]
struct Tables<'c> {
    used: BTreeSet<&'c str>,
    defined: BTreeSet<&'c str>,
    names: BTreeSet<&'c str>,
}

/// What the changes are about.
fn tables_before(changes: &[Change]) -> Tables<'_> {
    // What tables were called before that have other names by now; `None`: the table was not there.
    let mut before: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut found = Tables::default();
    for change in changes {
        let name = change.names().next().expect("each change has a table");
        let old_name = *before.get(name).unwrap_or(&Some(name));
        match change {
            Change::Create { .. } => drop(before.insert(name, None)),
            Change::Rename { to, .. } => drop(before.insert(to, old_name)),
            Change::Drop { .. } | Change::Truncate { .. } | Change::Put { .. } | Change::Delete { .. } => {}
        }
        let old_name = if matches!(change, Change::Create { .. }) { None } else { old_name };
        found.used.extend(old_name);
        if change.is_definition() {
            found.defined.extend(old_name);
            found.names.extend(change.names());
        }
    }
    found
}

/// How many rows, and bytes with the eight of each table's number.
fn written(changes: &[Change]) -> (u64, u64) {
    let mut rows = BTreeMap::new();
    for change in changes {
        match change {
            Change::Put { table, key, value } => rows.insert((table, key), value.len()),
            Change::Delete { table, key } => rows.insert((table, key), 0),
            definition => panic!("of {definition:?} the rows of the catalog are not known"),
        };
    }
    let bytes: usize = rows.iter().map(|((_, key), value)| 8 + key.len() + value).sum();
    (rows.len() as u64, bytes as u64)
}

/// What some prepared transactions hold besides what they write.
pub struct Guards {
    /// A row that it has locked.
    pub locked: String,
    /// A range that it has read.
    pub read: std::ops::Range<String>,
}

impl Guards {
    /// Those of the transaction `gid`.
    pub fn of(gid: &str) -> Guards {
        Guards {
            locked: format!("locked by {gid}"),
            read: format!("read by {gid}/")..format!("read by {gid}0"),
        }
    }
}

/// The table where a prepared transaction has them; those with short names, whose tables are renamed meanwhile, have none.
pub fn guarded_table<'c>(gid: &str, changes: &'c [Change]) -> Option<&'c str> {
    match changes.first()? {
        Change::Put { table, .. } | Change::Delete { table, .. } if gid.len() > 1 && !defines(changes) => {
            Some(table)
        }
        _ => None,
    }
}

/// Whether nobody else may define what the changes define, nor take the names.
fn compare_definitions(database: &Database, state: &State, changes: &[Change]) -> Result<(), String> {
    let Tables { defined, names, .. } = tables_before(changes);
    let free = names.into_iter().filter(|name| !state.tables.contains_key(*name));
    let created = free.map(|name| Change::Create { table: name.to_owned() });
    let truncated = defined.into_iter().map(|name| Change::Truncate { table: name.to_owned() });
    for change in created.chain(truncated) {
        let made = change.run(&mut database.begin());
        if !is_kept_from_others(&made) {
            return Err(format!("{change}: it is not kept from others: {made:?}"));
        }
    }
    Ok(())
}

/// Whether a write was refused for a lock. A database that takes no writes refuses all of them before it asks for locks.
fn is_kept_from_others<T>(written: &Result<T, Error>) -> bool {
    matches!(written, Err(Error::Locked { .. } | Error::ReadOnly | Error::Stopped { .. }))
}

fn compare_guards(database: &Database, gid: &str, changes: &[Change]) -> Result<(), String> {
    let Some(name) = guarded_table(gid, changes) else { return Ok(()) };
    let table = database.table(name).map_err(|error| format!("opening {name}: {error}"))?;
    let guards = Guards::of(gid);
    let in_range = format!("{}x", guards.read.start);
    for key in [guards.locked, in_range] {
        let put = database.put(&table, &key, b"refused");
        if !is_kept_from_others(&put) {
            return Err(format!("{name}: {key:?} is not kept from others: {put:?}"));
        }
    }
    Ok(())
}
