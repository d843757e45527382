//! What a database should hold: a plain model, and what of it may be missing after a failure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use seawall::{Database, Error};

/// Rows of one table.
pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A row that is put, or deleted.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) table: String,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key[..self.key.len().min(16)].escape_ascii();
        match &self.value {
            Some(value) => write!(formatter, "{}/{key}={}", self.table, value.len()),
            None => write!(formatter, "{}/{key} deleted", self.table),
        }
    }
}

/// Everything in a database. Cloning is cheap: tables are shared until they change.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) tables: BTreeMap<String, Arc<Rows>>,
    /// What transactions in doubt will change, by gid.
    pub(super) prepared: BTreeMap<String, Arc<Vec<Change>>>,
}

impl State {
    pub(super) fn apply(&mut self, changes: &[Change]) {
        for Change { table, key, value } in changes {
            let rows = self.tables.get_mut(table).expect("steps change tables that are there");
            match value {
                Some(value) => drop(Arc::make_mut(rows).insert(key.clone(), value.clone())),
                None => drop(Arc::make_mut(rows).remove(key)),
            }
        }
    }

    /// Says what `database` has otherwise.
    pub(super) fn compare(&self, database: &Database) -> Result<(), Difference> {
        let tables = database.tables()?;
        let found: Vec<&String> = tables.iter().map(|table| &table.name).collect();
        let expected: Vec<&String> = self.tables.keys().collect();
        if found != expected {
            return different(format!("tables {found:?} where {expected:?} are expected"));
        }
        let in_doubt = database.in_doubt()?;
        let mut found: Vec<&String> = in_doubt.iter().map(|transaction| &transaction.gid).collect();
        found.sort_unstable();
        let expected: Vec<&String> = self.prepared.keys().collect();
        if found != expected {
            return different(format!("{found:?} in doubt where {expected:?} are expected"));
        }
        let snapshot = database.snapshot();
        for (name, rows) in &self.tables {
            let table = snapshot.table(name)?;
            let mut expected = rows.iter();
            for row in snapshot.range::<&[u8]>(&table, ..) {
                let (key, value) = row?;
                match expected.next() {
                    Some((wanted, wanted_value)) if *wanted == key && *wanted_value == value => {}
                    wanted => {
                        let wanted = wanted.map(|(key, value)| show(key, value));
                        let wanted = wanted.unwrap_or("no more row".to_owned());
                        return different(format!(
                            "{name}: {} where {wanted} is expected",
                            show(&key, &value)
                        ));
                    }
                }
            }
            if let Some((key, value)) = expected.next() {
                return different(format!("{name}: {} is missing", show(key, value)));
            }
        }
        Ok(())
    }
}

/// Which of `candidates` is there.
pub(super) fn find<'s>(
    database: &Database,
    candidates: impl Iterator<Item = &'s State>,
) -> Result<&'s State, Difference> {
    let mut reasons = Vec::new();
    for state in candidates {
        match state.compare(database) {
            Ok(()) => return Ok(state),
            Err(Difference::Rows(rows)) => reasons.push(rows),
            Err(error) => return Err(error),
        }
    }
    Err(Difference::Rows(format!(
        "none of the {} states that may be there is: {}",
        reasons.len(),
        reasons.join("; ")
    )))
}

/// Why a database is not what a state says.
#[derive(Debug)]
pub(super) enum Difference {
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

fn different(what: String) -> Result<(), Difference> {
    Err(Difference::Rows(what))
}

fn show(key: &[u8], value: &[u8]) -> String {
    let start = &value[..value.len().min(12)];
    format!("{} = {}.. ({} bytes)", key.escape_ascii(), start.escape_ascii(), value.len())
}

/// What is in the database now, and what may be left of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// States since the last that is durable for sure, oldest first; the last is what readers see. Never empty.
    since_durable: Vec<State>,
    /// What a step that failed with the database stopped would have made.
    in_doubt: Option<State>,
}

impl Account {
    pub(super) fn new(state: State) -> Account {
        Account { since_durable: vec![state], in_doubt: None }
    }

    pub(super) fn current(&self) -> &State {
        self.since_durable.last().expect("there is always one")
    }

    pub(super) fn committed(&mut self, next: State, is_durable: bool) {
        self.since_durable.push(next);
        if is_durable {
            self.all_durable();
        }
    }

    pub(super) fn all_durable(&mut self) {
        self.since_durable.drain(..self.since_durable.len() - 1);
    }

    /// No more is written; nobody knows what became of the last step.
    pub(super) fn stop(&mut self, attempted: Option<State>) {
        self.in_doubt = attempted;
    }

    /// What may be there at the next open, newest first.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &State> {
        self.in_doubt.iter().chain(self.since_durable.iter().rev())
    }

    /// What a database that has stopped shows: no acknowledged commit is missing.
    pub(super) fn shown_once_stopped(&self) -> impl Iterator<Item = &State> {
        self.in_doubt.iter().chain(self.since_durable.last())
    }
}
