//! What a database should hold: a plain model.

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_engine::Database;

/// Rows of one table.
pub type Rows = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// All tables by name. Cloning is cheap: tables are shared until they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub tables: BTreeMap<String, Arc<Rows>>,
}

/// One change of a transaction.
#[derive(Clone, Debug)]
pub enum Change {
    Create { table: String },
    Drop { table: String },
    Truncate { table: String },
    Rename { from: String, to: String },
    Put { table: String, key: Vec<u8>, value: Arc<[u8]> },
    Delete { table: String, key: Vec<u8> },
}

impl State {
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

    fn rows_mut(&mut self, table: &str) -> &mut Rows {
        Arc::make_mut(
            self.tables.get_mut(table).unwrap_or_else(|| panic!("a plan uses {table}, which is not there")),
        )
    }

    /// Rows of all tables.
    pub fn row_count(&self) -> u64 {
        self.tables.values().map(|rows| rows.len() as u64).sum()
    }

    /// Says what `database` has otherwise.
    pub fn compare(&self, database: &Database) -> Result<(), String> {
        let tables = database.tables().map_err(|error| format!("listing tables: {error}"))?;
        let found: Vec<&String> = tables.iter().map(|table| &table.name).collect();
        let expected: Vec<&String> = self.tables.keys().collect();
        if found != expected {
            return Err(format!("tables {found:?} where {expected:?} are expected"));
        }
        let snapshot = database.snapshot();
        for (name, rows) in &self.tables {
            let table = snapshot.table(name).map_err(|error| format!("opening {name}: {error}"))?;
            let mut expected = rows.iter();
            for row in snapshot.range::<&[u8]>(&table, ..) {
                let (key, value) = row.map_err(|error| format!("reading {name}: {error}"))?;
                match expected.next() {
                    Some((wanted_key, wanted)) if *wanted_key == key && wanted[..] == value[..] => {}
                    wanted => {
                        return Err(format!(
                            "{name}: {} where {} is expected",
                            show(&key, &value),
                            show_row(wanted)
                        ));
                    }
                }
            }
            if let Some(missing) = expected.next() {
                return Err(format!("{name}: {} is missing", show_row(Some(missing))));
            }
            for (key, value) in rows.iter().step_by(7) {
                match snapshot.get(&table, key) {
                    Ok(Some(found)) if found[..] == value[..] => {}
                    other => return Err(format!("{name}: get {} gives {other:?}", key.escape_ascii())),
                }
            }
        }
        Ok(())
    }
}

fn show(key: &[u8], value: &[u8]) -> String {
    let start = |bytes: &[u8]| bytes[..bytes.len().min(16)].escape_ascii().to_string();
    format!("{} ({} bytes) = {} ({} bytes)", start(key), key.len(), start(value), value.len())
}

fn show_row(row: Option<(&Vec<u8>, &Arc<[u8]>)>) -> String {
    row.map_or("nothing".to_owned(), |(key, value)| show(key, value))
}
