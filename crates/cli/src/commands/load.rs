//! `load`: rows of a file into a table, a durable transaction a batch.

use indicatif::ProgressBar;
use seawall::{Database, Durability, Error, OpenMode, Table};
use serde_json::json;

use super::{close, close_unfinished, open};
use crate::arguments::{Format, Load, Shared};
use crate::failure::Failure;
use crate::files::{self, Stopwatch};
use crate::output::{Output, counted, duration, escape, grouped, rate};
use crate::progress;
use crate::rows::{Header, Quotes, Row, RowReader, Shape, format_of};

/// A batch also ends here, so that large values do not make a transaction too large.
const BATCH_BYTES_MAX: usize = 16 << 20;

pub(crate) fn load(shared: &Shared, load: &Load, output: &mut Output) -> Result<(), Failure> {
    let name = files::input_name(&load.file);
    let format = load.format.or_else(|| format_of(&load.file)).unwrap_or(Format::Csv);
    if load.no_quotes && format == Format::Jsonl {
        return Err(Failure::Usage("--no-quotes is for CSV and TSV, and not for JSON lines".to_owned()));
    }
    let (input, bytes) = files::open_input(&load.file)?;
    // Before the first line is read: a missing database is said at once, not after a slow pipe's first line.
    let database = open(shared, &load.dir, OpenMode::Existing)?;
    let bar = progress::bytes(bytes, "loading");
    let input = Box::new(bar.wrap_read(input));
    let header = if load.no_header { Header::Absent } else { Header::Present };
    let quotes = if load.no_quotes { Quotes::Plain } else { Quotes::Enclosing };
    let (key, separator, key_type) = (load.key.clone(), load.separator.clone(), load.key_type.clone());
    let shape = Shape { key, separator, key_type, header, quotes };
    let mut reader = RowReader::new(input, name.clone(), format, &shape)?;

    let table = database.open_or_create_table(&load.table)?;
    let stopwatch = Stopwatch::start();
    let mut loader = Loader {
        database: &database,
        table: &table,
        name: &name,
        batch: Vec::new(),
        rows: 0,
        transactions: 0,
        empty_keys: 0,
    };
    let result = match skip(&mut reader, load.skip) {
        Ok(()) => loader
            .run(&mut reader, load, output, &bar)
            .map_err(|failure| with_rows_loaded(failure, load.skip + loader.rows)),
        Err(failure) => Err(failure),
    };
    bar.finish_and_clear();
    let (rows, transactions, empty_keys) = (loader.rows, loader.transactions, loader.empty_keys);
    // Also after an error: what was committed stays, and the next start has nothing to replay.
    if let Err(failure) = result {
        close_unfinished(database, &load.dir, output);
        return Err(failure);
    }
    close(database, &load.dir, output);
    if reader.may_be_cut_off() {
        output.warn(format_args!(
            "the last line of {name} has no line end: if the file was cut off there, the last value is not whole"
        ));
    }
    if empty_keys > 0 {
        let (these, have) = (counted(empty_keys, "row"), if empty_keys == 1 { "has" } else { "have" });
        output.warn(format_args!(
            "{these} {have} an empty key, which is a key like any other: the table has the last of them"
        ));
    }

    let elapsed = stopwatch.elapsed();
    let text = format!(
        "loaded {} into table {} in {}, {} ({} rows/s)",
        counted(rows, "row"),
        escape(load.table.as_bytes()),
        counted(transactions, "transaction"),
        duration(elapsed),
        grouped(rate(rows, elapsed))
    );
    let answer = json!({
        "table": load.table, "rows": rows, "transactions": transactions, "seconds": elapsed.as_secs_f64(),
    });
    output.answer(&answer, text)
}

/// A bad line's message says how far the file is loaded.
fn with_rows_loaded(failure: Failure, rows: u64) -> Failure {
    match failure {
        Failure::Input { name, place, problem } => {
            let before = match rows {
                0 => "nothing is loaded".to_owned(),
                1 => "the row before it is loaded; resume with --skip 1".to_owned(),
                rows => format!("the {rows} rows before it are loaded; resume with --skip {rows}"),
            };
            let problem = format!("{problem} ({before})");
            Failure::Input { name, place, problem }
        }
        other => other,
    }
}

/// Nobody reads the acknowledgements that were asked for, or they cannot be written: whoever counts on them must not take the
/// load for complete.
fn not_acknowledged(failure: &Failure, committed: u64) -> Failure {
    Failure::Broken(format!(
        "cannot acknowledge rows: {failure}; {committed} rows are loaded, resume with --skip {committed}"
    ))
}

/// Reads past the rows that an earlier load has committed.
fn skip(reader: &mut RowReader, rows: u64) -> Result<(), Failure> {
    for skipped in 0..rows {
        if reader.next_row().map_err(|failure| not_skipped(failure, rows))?.is_none() {
            let problem = format!("--skip {rows}, but the input has only {skipped} rows: nothing is loaded");
            return Err(Failure::Usage(problem));
        }
    }
    Ok(())
}

/// A bad line among rows that are loaded already cannot be one of the file that they were loaded from.
fn not_skipped(failure: Failure, rows: u64) -> Failure {
    match failure {
        Failure::Input { name, place, problem } => {
            let problem = format!(
                "{problem} (one of the rows that --skip {rows} leaves out: is it the file of the load before? nothing is loaded)"
            );
            Failure::Input { name, place, problem }
        }
        other => other,
    }
}

/// Where the batch that starts at row `start` ends.
pub(crate) fn batch_end(rows: &[Row], start: usize, batch_rows: usize) -> usize {
    let mut batch_bytes = 0;
    let mut end = start;
    while end < rows.len() && end - start < batch_rows && batch_bytes < BATCH_BYTES_MAX {
        batch_bytes += rows[end].0.len() + rows[end].1.len();
        end += 1;
    }
    end
}

struct Loader<'a> {
    database: &'a Database,
    table: &'a Table,
    /// What the file is called in messages.
    name: &'a str,
    batch: Vec<Row>,
    /// Rows committed by this run.
    rows: u64,
    transactions: u64,
    empty_keys: u64,
}

/// A row of a batch that is over a limit.
struct RefusedRow {
    index: usize,
    error: Error,
}

impl Loader<'_> {
    fn run(
        &mut self,
        reader: &mut RowReader,
        load: &Load,
        output: &mut Output,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        let batch_rows = usize::try_from(load.batch).unwrap_or(usize::MAX);
        let mut batch_bytes = 0;
        // Rows before a bad one are committed as well: the message then says from where to go on.
        let outcome = loop {
            match reader.next_row() {
                Ok(Some(row)) => {
                    self.empty_keys += u64::from(row.0.is_empty());
                    batch_bytes += row.0.len() + row.1.len();
                    self.batch.push(row);
                }
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            }
            if self.batch.len() >= batch_rows || batch_bytes >= BATCH_BYTES_MAX {
                self.commit(load, output)?;
                batch_bytes = 0;
                bar.tick();
            }
        };
        if !self.batch.is_empty() {
            self.commit(load, output)?;
        }
        outcome
    }

    /// Commits the batch, or what comes before a row that no table takes.
    fn commit(&mut self, load: &Load, output: &mut Output) -> Result<(), Failure> {
        let Some(refused) = self.put_batch()? else { return self.committed(load, output) };
        self.batch.truncate(refused.index);
        if !self.batch.is_empty() {
            if let Some(another) = self.put_batch()? {
                return Err(another.error.into());
            }
            self.committed(load, output)?;
        }
        let (name, place) = (self.name.to_owned(), format!("row {}", load.skip + self.rows + 1));
        Err(Failure::Input { name, place, problem: refused.error.to_string() })
    }

    /// Commits the batch. If a key or a value in it is over its limit, nothing is committed.
    fn put_batch(&mut self) -> Result<Option<RefusedRow>, Failure> {
        let mut transaction = self.database.with(Durability::Sync).begin();
        for (index, (key, value)) in self.batch.iter().enumerate() {
            match transaction.put(self.table, key, value) {
                Err(error @ (Error::KeyTooLarge { .. } | Error::ValueTooLarge { .. })) => {
                    return Ok(Some(RefusedRow { index, error }));
                }
                put => put?,
            }
        }
        transaction.commit()?;
        Ok(None)
    }

    /// Counts the batch, which is durable, and says so.
    fn committed(&mut self, load: &Load, output: &mut Output) -> Result<(), Failure> {
        self.rows += u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        self.transactions += 1;
        self.batch.clear();
        if load.acks {
            let committed = load.skip + self.rows;
            let told =
                output.answer(&json!({ "committed": committed }), format_args!("committed {committed}"));
            told.and_then(|()| output.flush()).map_err(|failure| not_acknowledged(&failure, committed))?;
        }
        Ok(())
    }
}
