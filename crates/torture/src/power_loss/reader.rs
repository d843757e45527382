//! The process that recovers the database, looks at every row, and says how many transactions of each thread there are.

use std::path::Path;

use seawall::{Database, Error, OpenMode, Snapshot, Table};

use super::acknowledged::Counts;
use super::plan::Settings;
use super::rows::{self, Row, TABLE, Thread, bulk_rows, bulk_table, count_key, difference, prefix};
use crate::error::TortureError;

/// No plan has more.
const THREADS_MAX: Thread = 8;
/// Comes last: without it the process did not get to the end.
const WHOLE: &str = "whole";

/// Opens the database as after a crash and prints what it holds, or what is wrong with that.
///
/// # Errors
/// The database's own; wrong rows are no error but printed.
pub(super) fn read(directory: &Path, settings: &Settings) -> Result<(), TortureError> {
    let database = Database::open(
        directory,
        seawall::Options { mode: OpenMode::CreateIfMissing, ..settings.options() },
    )?;
    match database.table(TABLE) {
        Ok(table) => print_threads(&database.snapshot(), &table)?,
        Err(Error::NoSuchTable { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    look_at_bulk_tables(&database)?;
    println!("{WHOLE}");
    Ok(database.close()?)
}

fn print_threads(snapshot: &Snapshot, table: &Table) -> Result<(), Error> {
    for thread in 0..THREADS_MAX {
        let count = snapshot.get(table, count_key(thread))?;
        let count = match count.map(<[u8; 8]>::try_from) {
            None => 0,
            Some(Ok(count)) => u64::from_be_bytes(count),
            Some(Err(bytes)) => {
                println!("wrong thread {thread} counts {}", bytes.escape_ascii());
                continue;
            }
        };
        let range = snapshot.range(table, prefix(thread)..prefix(thread + 1));
        let found: Vec<Row> = range.collect::<Result<_, Error>>()?;
        match difference(thread, count, &mut found.into_iter()) {
            Some(wrong) => println!("wrong {wrong}"),
            None => println!("{thread} {count}"),
        }
    }
    Ok(())
}

/// Those that are there must be whole.
fn look_at_bulk_tables(database: &Database) -> Result<(), Error> {
    for thread in 0..THREADS_MAX {
        let table = match database.table(&bulk_table(thread)) {
            Err(Error::NoSuchTable { .. }) => continue,
            found => found?,
        };
        let found: Vec<Row> = database.snapshot().rows(&table).collect::<Result<_, Error>>()?;
        if !found.iter().eq(bulk_rows(thread).collect::<Vec<_>>().iter()) {
            println!("wrong table {:?} has {} rows, not those that were loaded", table.name(), found.len());
        }
    }
    Ok(())
}

/// What the lines of a reader say: counts if it got to the end; what is wrong with the rows.
pub(super) fn interpret(lines: &[String]) -> Result<Option<Counts>, String> {
    if let Some(wrong) = lines.iter().find_map(|line| line.strip_prefix("wrong ")) {
        return Err(wrong.to_owned());
    }
    if lines.last().is_none_or(|last| last != WHOLE) {
        return Ok(None);
    }
    let count = |line: &String| {
        let (thread, count) = line.split_once(' ')?;
        Some((thread.parse::<rows::Thread>().ok()?, count.parse::<u64>().ok()?))
    };
    let counts =
        lines[..lines.len() - 1].iter().map(|line| count(line).ok_or_else(|| format!("a line of {line:?}")));
    counts.collect::<Result<Counts, String>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_came_to_its_end_is_believed() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(interpret(&lines("0 7\n1 0\nwhole")), Ok(Some(Counts::from([(0, 7), (1, 0)]))));
        assert_eq!(interpret(&lines("0 7\n1 0")), Ok(None));
        assert_eq!(interpret(&[]), Ok(None));
        assert!(interpret(&lines("0 7\nwrong thread 1 has no row 3\nwhole")).is_err());
        assert!(interpret(&lines("0 x\nwhole")).is_err());
    }
}
