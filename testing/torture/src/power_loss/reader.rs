//! The process that recovers the database, looks at every row, and says how many transactions of each thread there are.

use std::path::Path;

use seawall::{Database, Error, OpenMode, Snapshot, Table};

#[cfg(test)]
use super::acknowledged::Counts;
use super::acknowledged::Found;
use super::gid::Gid;
use super::plan::Settings;
use super::rows::{Row, TABLE, Thread, bulk_rows, bulk_table, count_key, decode_count, difference, prefix};
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
    for transaction in database.two_phase().in_doubt()? {
        println!("in-doubt {}", transaction.gid);
    }
    println!("{WHOLE}");
    Ok(database.close()?)
}

fn print_threads(snapshot: &Snapshot, table: &Table) -> Result<(), Error> {
    for thread in 0..THREADS_MAX {
        let (count, life) = match snapshot.get(table, count_key(thread))? {
            None => (0, 0),
            Some(value) => match decode_count(&value) {
                Some(count) => count,
                None => {
                    println!("wrong thread {thread} counts {}", value.escape_ascii());
                    continue;
                }
            },
        };
        let range = snapshot.range(table, prefix(thread)..prefix(thread + 1));
        let found: Vec<Row> = range.collect::<Result<_, Error>>()?;
        match difference(thread, count, &mut found.into_iter()) {
            Some(wrong) => println!("wrong {wrong}"),
            None => println!("{thread} {count} {life}"),
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

/// What the lines of a reader say: what is there, if it got to the end; what is wrong with the rows.
pub(super) fn interpret(lines: &[String]) -> Result<Option<Found>, String> {
    if let Some(wrong) = lines.iter().find_map(|line| line.strip_prefix("wrong ")) {
        return Err(wrong.to_owned());
    }
    let Some((_, facts)) = lines.split_last().filter(|(last, _)| *last == WHOLE) else { return Ok(None) };
    let mut found = Found::default();
    for line in facts {
        add_fact(&mut found, line).ok_or_else(|| format!("the reader says {line:?}"))?;
    }
    Ok(Some(found))
}

fn add_fact(found: &mut Found, line: &str) -> Option<()> {
    if let Some(gid) = line.strip_prefix("in-doubt ") {
        found.in_doubt.insert(Gid::decode(gid)?);
        return Some(());
    }
    let mut words = line.split(' ');
    let thread = words.next()?.parse().ok()?;
    found.counts.insert(thread, words.next()?.parse().ok()?);
    found.lives.insert(thread, words.next()?.parse().ok()?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_came_to_its_end_is_believed() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let gid = Gid { thread: 0, count: 8, token: 5 };
        let found = Found {
            counts: Counts::from([(0, 7), (1, 0)]),
            lives: [(0, 2), (1, 0)].into(),
            in_doubt: [gid].into(),
        };
        assert_eq!(interpret(&lines("0 7 2\n1 0 0\nin-doubt 0-8-5\nwhole")), Ok(Some(found)));
        assert_eq!(interpret(&lines("0 7 2\n1 0 0")), Ok(None));
        assert_eq!(interpret(&[]), Ok(None));
        assert!(interpret(&lines("0 7 2\nwrong thread 1 has no row 3\nwhole")).is_err());
        assert!(interpret(&lines("0 x 1\nwhole")).is_err());
        assert!(interpret(&lines("in-doubt of nobody\nwhole")).is_err());
    }
}
