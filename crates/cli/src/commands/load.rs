//! `load`: rows of a file into a table, a durable transaction a batch.

use indicatif::ProgressBar;
use seawall::{Database, Durability, Error, OpenMode, Options, Table, TransactionOptions};
use serde_json::json;

use super::{close, close_unfinished, open};
use crate::arguments::{Format, Load, Shared};
use crate::failure::Failure;
use crate::files::{self, Stopwatch};
use crate::output::{Output, duration, escape, grouped, rate};
use crate::progress;
use crate::rows::{Header, Row, RowReader, Shape, format_of};

/// A batch also ends here, so that large values do not make a transaction too large.
const BATCH_BYTES_MAX: usize = 16 << 20;

pub(crate) fn load(shared: &Shared, load: &Load, output: &mut Output) -> Result<(), Failure> {
    let name = if load.file.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        load.file.display().to_string()
    };
    let (input, bytes) = files::open_input(&load.file)?;
    // Before the first line is read: a missing database is said at once, not after a slow pipe's first line.
    let database = open(shared, &load.dir, OpenMode::Existing)?;
    let bar = progress::bytes(bytes, "loading");
    let input = Box::new(bar.wrap_read(input));
    let format = load.format.or_else(|| format_of(&load.file)).unwrap_or(Format::Csv);
    let header = if load.no_header { Header::Absent } else { Header::Present };
    let shape = Shape { key: load.key.clone(), separator: load.separator.clone(), header };
    let mut reader = RowReader::new(input, name, format, &shape)?;

    let table = table_or_new(&database, &load.table)?;
    let stopwatch = Stopwatch::start();
    let mut loader =
        Loader { database: &database, table: &table, batch: Vec::new(), rows: 0, transactions: 0 };
    let result = loader.run(&mut reader, load, output, &bar);
    bar.finish_and_clear();
    let (rows, transactions) = (loader.rows, loader.transactions);
    // Also after an error: what was committed stays, and the next start has nothing to replay.
    if let Err(failure) = result {
        close_unfinished(database, &load.dir, output);
        return Err(with_rows_loaded(failure, load.skip + rows));
    }
    close(database, &load.dir, output);

    let elapsed = stopwatch.elapsed();
    let text = format!(
        "loaded {} rows into table {} in {} transactions, {} ({} rows/s)",
        grouped(rows),
        escape(load.table.as_bytes()),
        grouped(transactions),
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
            let problem =
                format!("{problem} (the {rows} rows before it are loaded; go on with --skip {rows})");
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
        if reader.next_row()?.is_none() {
            let problem = format!("--skip {rows}, but the input has only {skipped} rows: nothing is loaded");
            return Err(Failure::Usage(problem));
        }
    }
    Ok(())
}

/// The table of this name, made if it is not there.
pub(crate) fn table_or_new(database: &Database, name: &str) -> Result<Table, Failure> {
    match database.table(name) {
        Err(Error::NoSuchTable { .. }) => Ok(database.create_table(name)?),
        found => Ok(found?),
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
    batch: Vec<Row>,
    /// Rows committed by this run.
    rows: u64,
    transactions: u64,
}

impl Loader<'_> {
    fn run(
        &mut self,
        reader: &mut RowReader,
        load: &Load,
        output: &mut Output,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        skip(reader, load.skip)?;
        let batch_rows = usize::try_from(load.batch).unwrap_or(usize::MAX);
        let mut batch_bytes = 0;
        // Rows before a bad one are committed as well: the message then says from where to go on.
        let outcome = loop {
            match reader.next_row() {
                Ok(Some(row)) => {
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

    /// Commits the batch, and says so only once it is durable.
    fn commit(&mut self, load: &Load, output: &mut Output) -> Result<(), Failure> {
        let (table, batch) = (self.table, &self.batch);
        let options = TransactionOptions { durability: Durability::Sync, ..Options::default().transaction() };
        let mut transaction = self.database.begin_with(options);
        for (key, value) in batch {
            transaction.put(table, key, value)?;
        }
        transaction.commit()?;
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
