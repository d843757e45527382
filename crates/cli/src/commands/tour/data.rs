//! The rows of the tour: the airports that come with Seawall, or a file of the user.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use seawall::Database;

use crate::arguments::{Format, Tour};
use crate::commands::load::batch_end;
use crate::failure::Failure;
use crate::files::{self, OutputFile};
use crate::output::{escape, grouped};
use crate::rows::{Header, Quotes, Row, RowReader, Shape, format_of};

/// 3,376 airports of the United States; see data/README.md.
const AIRPORTS: &str = include_str!("../../../../../data/airports.csv");
/// The airports are few: each is loaded once for each of so many days.
const DAYS: u32 = 60;

/// A file of rows, and what it should become.
pub(super) struct DataSet {
    file: PathBuf,
    key: Vec<String>,
    description: String,
    rows: Vec<Row>,
    batch: usize,
}

impl DataSet {
    /// The user's file, or one written into `scratch`.
    pub(super) fn prepare(tour: &Tour, scratch: &Path) -> Result<DataSet, Failure> {
        let (file, key, description) = match &tour.data {
            Some(file) => (file.clone(), tour.key.clone(), file.display().to_string()),
            None => {
                let file = scratch.join("airports.csv");
                write_airports(&file)?;
                let airports = AIRPORTS.lines().count() - 1;
                let airports = grouped(count(airports));
                let description = format!("{airports} airports of the United States, each on {DAYS} days");
                (file, vec!["day".to_owned(), "iata".to_owned()], description)
            }
        };
        let rows = read_rows(&file, &key)?;
        // Some hundred batches, so that the kill falls between many and takes few with it.
        let batch = (rows.len() / 400).clamp(1, 500);
        Ok(DataSet { file, key, description, rows, batch })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn key(&self) -> &[String] {
        &self.key
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }

    pub(super) fn rows(&self) -> u64 {
        count(self.rows.len())
    }

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// The table must hold the first `acknowledged` rows of the file, or these and one whole batch more, which was
    /// durable when the loader died but not yet announced. Returns how many rows of the file it holds.
    pub(super) fn verify_after_crash(
        &self,
        database: &Database,
        table: &str,
        acknowledged: u64,
    ) -> Result<u64, Failure> {
        let acknowledged = usize::try_from(acknowledged).unwrap_or(usize::MAX).min(self.rows.len());
        let Err(difference) = self.compare(database, table, acknowledged)? else {
            return Ok(count(acknowledged));
        };
        let one_more = batch_end(&self.rows, acknowledged, self.batch);
        match self.compare(database, table, one_more)? {
            Ok(()) => Ok(count(one_more)),
            Err(_) => Err(Failure::Broken(format!(
                "after the crash, with {acknowledged} rows acknowledged in batches of {}: {difference}",
                self.batch
            ))),
        }
    }

    /// The table must hold the whole file and nothing else.
    pub(super) fn verify_all(&self, database: &Database, table: &str) -> Result<(), Failure> {
        self.compare(database, table, self.rows.len())?.map_err(Failure::Broken)
    }

    /// Compares the table with the first `length` rows of the file; the inner error is a difference.
    fn compare(
        &self,
        database: &Database,
        table: &str,
        length: usize,
    ) -> Result<Result<(), String>, Failure> {
        let mut expected: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
        for (key, value) in &self.rows[..length] {
            expected.insert(key, value);
        }
        let snapshot = database.snapshot();
        let mut found = snapshot.range::<&[u8]>(&database.table(table)?, ..);
        for (key, value) in expected {
            match found.next_row()? {
                Some(row) if row == (key, value) => {}
                Some((other, _)) if other == key => {
                    return Ok(Err(format!("the value of row {} is wrong", escape(key))));
                }
                Some((other, _)) if other < key => {
                    return Ok(Err(format!("row {} should not be there", escape(other))));
                }
                _ => return Ok(Err(format!("row {} is lost", escape(key)))),
            }
        }
        match found.next_row()? {
            None => Ok(Ok(())),
            Some((other, _)) => Ok(Err(format!("row {} should not be there", escape(other)))),
        }
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn write_airports(path: &Path) -> Result<(), Failure> {
    let failed = || Failure::io(format!("cannot write {}", path.display()));
    let mut file = OutputFile::create(path)?;
    let (header, airports) = AIRPORTS.split_once('\n').unwrap_or((AIRPORTS, ""));
    writeln!(file, "day,{header}").map_err(failed())?;
    for day in 1..=DAYS {
        for airport in airports.lines() {
            writeln!(file, "{day:03},{airport}").map_err(failed())?;
        }
    }
    file.finish()
}

fn read_rows(path: &Path, key: &[String]) -> Result<Vec<Row>, Failure> {
    let (input, _) = files::open_input(path)?;
    let shape = Shape {
        key: key.to_vec(),
        separator: "/".to_owned(),
        key_type: None,
        header: Header::Present,
        quotes: Quotes::Enclosing,
    };
    let format = format_of(path).unwrap_or(Format::Csv);
    let mut reader = RowReader::new(input, path.display().to_string(), format, &shape)?;
    let mut rows = Vec::new();
    while let Some(row) = reader.next_row()? {
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Failure::Usage(format!("{} holds no rows", path.display())));
    }
    Ok(rows)
}
