//! The process under torture: threads that write until somebody kills them, and say what they were told.
//!
//! A line goes to standard output as soon as the database has answered, and before the next transaction begins:
//! whoever has the other end of the pipe knows of it, whatever happens to this process.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

use seawall::{CommitHandle, Database, Durability, Error, Table, Transaction, TransactionOptions};
use seawall_simulation::SeededRandom;

use super::acknowledged::{Decision, Line};
use super::gid::Gid;
use super::plan::{IN_FLIGHT_MAX, Settings, Wait};
use super::rows::{KEPT, TABLE, Thread, bulk_rows, bulk_table, count_key, decode_count, encode_count, rows};
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
        self.decide_what_is_in_doubt()?;
        let first = self.count()?;
        for number in first..first + self.settings.transactions {
            self.commit(number)?;
            self.do_something_else(number)?;
        }
        self.wait_for_all_but(0)
    }

    /// Asks for each of its transactions that an earlier life has left in doubt, as a coordinator does.
    fn decide_what_is_in_doubt(&mut self) -> Result<(), TortureError> {
        let thread = self.thread;
        let gids = self.database.two_phase().in_doubt()?.into_iter().filter_map(|one| Gid::decode(&one.gid));
        for gid in gids.filter(|gid| gid.thread == thread) {
            self.decide(gid, Durability::Sync)?;
        }
        Ok(())
    }

    fn commit(&mut self, number: u64) -> Result<(), TortureError> {
        let wait = self.settings.wait(&mut self.random);
        let durability = if wait == Wait::Nothing { Durability::Async } else { Durability::Sync };
        if self.random.chance(1, 12) {
            return self.commit_in_two_phases(number, durability);
        }
        let transaction = self.fill(number, durability)?;
        let (thread, count) = (self.thread, number + 1);
        if wait == Wait::Later {
            self.in_flight.push_back((count, transaction.commit_async()?));
            return self.wait_for_all_but(IN_FLIGHT_MAX - 1);
        }
        let stamp = transaction.commit()?.get();
        say(Line::Committed { thread, count, stamp, is_durable: durability == Durability::Sync })
    }

    /// The transaction `number`, not committed.
    fn fill(&self, number: u64, durability: Durability) -> Result<Transaction, Error> {
        let options = TransactionOptions { durability, ..self.settings.options().transaction };
        let mut transaction = self.database.with(options).begin();
        for (key, value) in rows(self.thread, number) {
            transaction.put(self.table, key, value)?;
        }
        if let Some(old) = number.checked_sub(KEPT) {
            for (key, _) in rows(self.thread, old) {
                transaction.delete(self.table, key)?;
            }
        }
        let count = encode_count(number + 1, self.settings.life);
        transaction.put(self.table, count_key(self.thread), count)?;
        Ok(transaction)
    }

    /// As often as it is rolled back, it is tried again.
    fn commit_in_two_phases(&mut self, number: u64, durability: Durability) -> Result<(), TortureError> {
        loop {
            let gid = Gid { thread: self.thread, count: number + 1, token: self.random.next_u64() };
            self.fill(number, durability)?.prepare(&gid.to_string())?;
            say(Line::Prepared { gid, is_durable: durability == Durability::Sync })?;
            if self.decide(gid, durability)? == Decision::Commit {
                return Ok(());
            }
        }
    }

    fn decide(&mut self, gid: Gid, durability: Durability) -> Result<Decision, TortureError> {
        let decision = if self.random.chance(1, 4) { Decision::Rollback } else { Decision::Commit };
        say(Line::Deciding { gid, decision })?;
        let (name, is_durable) = (gid.to_string(), durability == Durability::Sync);
        match decision {
            Decision::Commit => {
                let stamp = self.database.two_phase().with(durability).commit(&name)?.get();
                say(Line::Committed { thread: gid.thread, count: gid.count, stamp, is_durable })?;
            }
            Decision::Rollback => self.database.two_phase().with(durability).rollback(&name).map(|_| ())?,
        }
        say(Line::Decided { gid, is_durable })?;
        Ok(decision)
    }

    /// How many transactions of this thread the database has.
    fn count(&self) -> Result<u64, Error> {
        let value = self.database.get(self.table, count_key(self.thread))?;
        // Another value is no count; the reader says so.
        Ok(value.and_then(|value| decode_count(&value)).map_or(0, |(count, _)| count))
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
        let mut load = self.database.tables().bulk_load(&name)?;
        for (key, value) in bulk_rows(self.thread) {
            load.add(key, value)?;
        }
        load.finish()?;
        Ok(())
    }

    fn drop_table(&self, name: &str) -> Result<(), Error> {
        match self.database.tables().drop(name) {
            Ok(()) | Err(Error::NoSuchTable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn say(line: Line) -> Result<(), TortureError> {
    // One call for the line, so that lines of threads are not mixed.
    std::io::stdout().lock().write_all(line.encode().as_bytes()).map_err(io_error("write to the pipe"))
}
