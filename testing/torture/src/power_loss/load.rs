//! Lives in which the process is the real command: `seawall load --acks`, read back by `seawall scan`.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use super::acknowledged::{LOADER, Line};
use crate::error::{TortureError, io_error};

/// Rows of a transaction.
pub(super) const BATCH: u64 = 4;
/// The table they go to.
const TABLE: &str = "loaded";
/// Rows of the file: more than any life loads.
const ROWS: u64 = 20_000;
/// Exit code of a command that finds no such table.
const NO_TABLE: i32 = 3;

/// Writes the file to load.
pub(super) fn write_file(path: &Path) -> Result<(), TortureError> {
    let mut rows = String::new();
    for number in 0..ROWS {
        writeln!(rows, "{number:08},{}", value(number)).expect("a string takes all that is written to it");
    }
    std::fs::write(path, rows).map_err(io_error("write a file of rows"))
}

/// Of several lengths, none of which needs quotes.
fn value(number: u64) -> String {
    let words = usize::try_from(number % 17).unwrap_or(0) + 1;
    vec![format!("value of row {number}"); words].join(" and ")
}

/// The options of the command that goes on after the first `loaded` rows.
pub(super) fn load_arguments(file: &Path, loaded: u64) -> Vec<OsString> {
    let (batch, skip) = (BATCH.to_string(), loaded.to_string());
    let options = ["--no-header", "--acks", "--batch", &batch, "--skip", &skip].map(OsString::from);
    [TABLE.into(), file.into()].into_iter().chain(options).collect()
}

/// Those of the command that shows the rows.
pub(super) fn scan_arguments() -> Vec<OsString> {
    vec![TABLE.into()]
}

/// What a line of the loader says.
pub(super) fn decode(line: &str) -> Option<Line> {
    let rows = line.strip_prefix("committed ")?.parse().ok()?;
    Some(Line::Flushed { thread: LOADER, count: rows })
}

/// How many rows a scan has shown, if they are the first ones of the file, in whole batches.
pub(super) fn interpret(code: Option<i32>, lines: &[String], messages: &str) -> Result<u64, String> {
    match code {
        Some(0) => {}
        Some(NO_TABLE) => return Ok(0),
        _ => return Err(format!("`seawall scan` ended with {code:?}: {messages}")),
    }
    for (line, number) in lines.iter().zip(0..) {
        if *line != format!("{number:08}\t{}", value(number)) {
            return Err(format!("loaded row {number} reads {line:?}"));
        }
    }
    let rows = lines.len() as u64;
    if rows.is_multiple_of(BATCH) {
        Ok(rows)
    } else {
        Err(format!("{rows} rows are loaded: a transaction of {BATCH} is there in part"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_believed_in_order_and_in_whole_batches() {
        let lines = |count: u64| {
            (0..count).map(|number| format!("{number:08}\t{}", value(number))).collect::<Vec<_>>()
        };
        assert_eq!(interpret(Some(0), &lines(8), ""), Ok(8));
        assert_eq!(interpret(Some(NO_TABLE), &[], ""), Ok(0));
        assert!(interpret(Some(0), &lines(7), "").is_err());
        assert!(interpret(Some(0), &lines(9)[1..], "").is_err());
        assert!(interpret(Some(4), &lines(8), "damage").is_err());
        assert_eq!(decode("committed 40"), Some(Line::Flushed { thread: LOADER, count: 40 }));
        assert_eq!(decode("commit"), None);
    }
}
