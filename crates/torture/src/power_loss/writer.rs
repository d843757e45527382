//! The process under torture: threads that write until somebody kills them, and say what they were told.
//!
//! A line goes to standard output as soon as the database has answered, and before the next transaction begins: whoever has
//! the other end of the pipe knows of it, whatever happens to this process.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

use seawall::{CommitHandle, Database, Durability, Error, Table, TransactionOptions};
use seawall_simulation::SeededRandom;

use super::acknowledged::Line;
use super::plan::{IN_FLIGHT_MAX, Settings, Wait};
use super::rows::{KEPT, TABLE, Thread, bulk_rows, bulk_table, count_key, rows};
use crate::error::{TortureError, io_error};

/// Writes on from where the database is.
///
/// # Errors
/// The first one of any thread: without power, nothing works.
pub(super) fn write(directory: &Path, settings: &Settings) -> Result<(), TortureError> {
    let database = Database::open(directory, settings.options())?;
    let table = open_table(&database)?;
    std::thread::scope(|scope| {
        let write_on = |thread| {
            let random = SeededRandom::new(settings.seed ^ u64::from(thread));
            Writer {
                database: &database,
                table: &table,
                settings,
                thread,
                random,
                in_flight: VecDeque::new(),
            }
            .run()
        };
        let threads: Vec<_> =
            (0..settings.threads).map(|thread| scope.spawn(move || write_on(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writing thread does not panic"))
    })?;
    Ok(database.close()?)
}

pub(super) fn open_table(database: &Database) -> Result<Table, Error> {
    match database.table(TABLE) {
        Err(Error::NoSuchTable { .. }) => database.create_table(TABLE),
        found => found,
    }
}

struct Writer<'a> {
    database: &'a Database,
    table: &'a Table,
    settings: &'a Settings,
    thread: Thread,
    random: SeededRandom,
    /// Commits that nobody has waited for yet, with their counts.
    in_flight: VecDeque<(u64, CommitHandle)>,
}

impl Writer<'_> {
    fn run(mut self) -> Result<(), TortureError> {
        let first = count(self.database, self.table, self.thread)?;
        for number in first..first + self.settings.transactions {
            self.commit(number)?;
            self.do_something_else(number)?;
        }
        self.wait_for_all_but(0)
    }

    fn commit(&mut self, number: u64) -> Result<(), TortureError> {
        let wait = self.settings.wait(&mut self.random);
        let durability = if wait == Wait::Nothing { Durability::Async } else { Durability::Sync };
        let options = TransactionOptions { durability, ..self.settings.options().transaction() };
        let mut transaction = self.database.begin_with(options);
        for (key, value) in rows(self.thread, number) {
            transaction.put(self.table, key, value)?;
        }
        if let Some(old) = number.checked_sub(KEPT) {
            for (key, _) in rows(self.thread, old) {
                transaction.delete(self.table, key)?;
            }
        }
        let count = number + 1;
        transaction.put(self.table, count_key(self.thread), count.to_be_bytes())?;
        match wait {
            Wait::Durable => {
                let stamp = transaction.commit()?.get();
                say(Line::Committed { thread: self.thread, count, stamp, is_durable: true })
            }
            Wait::Nothing => {
                let stamp = transaction.commit()?.get();
                say(Line::Committed { thread: self.thread, count, stamp, is_durable: false })
            }
            Wait::Later => {
                self.in_flight.push_back((count, transaction.commit_async()?));
                self.wait_for_all_but(IN_FLIGHT_MAX - 1)
            }
        }
    }

    fn wait_for_all_but(&mut self, kept: usize) -> Result<(), TortureError> {
        while self.in_flight.len() > kept {
            let (count, handle) = self.in_flight.pop_front().expect("there are some left");
            let stamp = handle.wait()?.get();
            say(Line::Committed { thread: self.thread, count, stamp, is_durable: true })?;
        }
        Ok(())
    }

    /// What else goes on in a database: flushes, checkpoints, tables that come and go.
    fn do_something_else(&mut self, number: u64) -> Result<(), TortureError> {
        match self.random.below(400) {
            0..=9 => {
                self.database.flush()?;
                say(Line::Flushed { thread: self.thread, count: number + 1 })?;
            }
            10..=11 => self.database.checkpoint().map(|_| ())?,
            12..=15 => self.replace_table()?,
            16..=17 => self.load_table()?,
            _ => {}
        }
        Ok(())
    }

    /// A table of this thread's own, made anew each time.
    fn replace_table(&mut self) -> Result<(), TortureError> {
        let name = format!("of thread {}", self.thread);
        self.drop_table(&name)?;
        let table = self.database.create_table(&name)?;
        for (key, value) in rows(self.thread, 0) {
            self.database.put(&table, key, value)?;
        }
        Ok(())
    }

    /// The same past the log.
    fn load_table(&mut self) -> Result<(), TortureError> {
        let name = bulk_table(self.thread);
        self.drop_table(&name)?;
        let mut load = self.database.bulk_load(&name)?;
        for (key, value) in bulk_rows(self.thread) {
            load.add(key, value)?;
        }
        load.finish()?;
        Ok(())
    }

    fn drop_table(&self, name: &str) -> Result<(), Error> {
        match self.database.drop_table(name) {
            Ok(()) | Err(Error::NoSuchTable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// How many transactions of a thread the database has.
pub(super) fn count(database: &Database, table: &Table, thread: Thread) -> Result<u64, Error> {
    let value = database.get(table, count_key(thread))?;
    // A value of another length is no count; the reader says so.
    Ok(value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_be_bytes))
}

fn say(line: Line) -> Result<(), TortureError> {
    // One call for the line, so that lines of threads are not mixed.
    std::io::stdout().lock().write_all(line.encode().as_bytes()).map_err(io_error("write to the pipe"))
}
