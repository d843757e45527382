//! The cases.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use seawall::{Database, Error, Isolation, Options, Table, TransactionOptions};
use serde::{Deserialize, Serialize};

use super::{Cell, Taken};
use crate::error::{BenchError, engine_error};
use crate::usage::{Memory, sampled};

/// Sessions that commit at once.
const SESSIONS: u64 = 16;
const LONG_VALUE_BYTES: usize = 64 << 20;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// Transactions that delete rows with keys of 8 bytes, as many as one may
    SmallDeletes,
    /// Sixteen sessions that fill a transaction each, until all of them may take no more, and commit at the same time
    ConcurrentCommits,
    /// A serializable transaction that reads one row again and again
    RepeatedReads,
    /// One snapshot beside a trickle of writes with many checkpoints
    LongSnapshot,
    /// A merge that deletes long rows, which a snapshot still sees
    MergeWithSnapshot,
    /// A bulk load of rows in no order
    UnsortedLoad,
    /// A bulk load of rows in order
    SortedLoad,
    /// Values of 64 MiB
    LongValues,
}

impl Case {
    pub(super) const ALL: &[Case] = &[
        Case::SmallDeletes,
        Case::ConcurrentCommits,
        Case::RepeatedReads,
        Case::LongSnapshot,
        Case::MergeWithSnapshot,
        Case::UnsortedLoad,
        Case::SortedLoad,
        Case::LongValues,
    ];

    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// How many times what one transaction may take all may.
    fn budget(self) -> u64 {
        if self == Case::ConcurrentCommits { SESSIONS / 4 } else { 1 }
    }
}

/// Runs a case in this process.
pub(crate) fn run(cell: &Cell) -> Result<Taken, BenchError> {
    let before = Memory::of_this_process().anonymous;
    let transaction_memory_bytes = cell.case.budget() * cell.each_bytes;
    let mut options = Options::default();
    options.memory.memtable_bytes = cell.each_bytes;
    options.memory.cache_bytes = cell.each_bytes;
    options.memory.snapshot_bytes = cell.each_bytes;
    options.memory.transaction_bytes = cell.each_bytes;
    options.memory.all_transactions_bytes = transaction_memory_bytes;
    let allowed = 3 * cell.each_bytes + transaction_memory_bytes;
    let (done, peak) = sampled(|| {
        let database = Database::open(&cell.directory, options)?;
        let table = database.create_table("rows")?;
        Work { database: &database, table: &table, each_bytes: cell.each_bytes }.run(cell.case)?;
        database.close()
    });
    done.map_err(engine_error("seawall", "run the case"))?;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (peak_mib, allowed_mib) = (mebibytes(peak.saturating_sub(before)), mebibytes(allowed));
    Ok(Taken { case: cell.case, peak_mib, allowed_mib, ratio: peak_mib / allowed_mib })
}

struct Work<'a> {
    database: &'a Database,
    table: &'a Table,
    each_bytes: u64,
}

impl Work<'_> {
    fn run(&self, case: Case) -> Result<(), Error> {
        match case {
            Case::SmallDeletes => (0..2).try_for_each(|round| self.delete_small_rows(round)),
            Case::ConcurrentCommits => self.commit_at_once(),
            Case::RepeatedReads => self.read_again_and_again(),
            Case::LongSnapshot => self.trickle_beside_snapshot(),
            Case::MergeWithSnapshot => self.delete_long_rows_beside_snapshot(),
            Case::UnsortedLoad => self.load(16, |number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            Case::SortedLoad => self.load(64, |number| number),
            Case::LongValues => self.put_long_values(),
        }
    }

    /// Until a limit refuses more, or so many rows.
    fn delete_small_rows(&self, round: u64) -> Result<(), Error> {
        let mut transaction = self.database.begin();
        let rows = self.each_bytes / 16;
        for number in round * rows..(round + 1) * rows {
            match transaction.delete(self.table, number.to_be_bytes()) {
                Err(Error::TransactionTooLarge { .. }) => break,
                deleted => deleted?,
            }
        }
        transaction.commit().map(drop)
    }

    /// Together they are refused before one of them is.
    fn commit_at_once(&self) -> Result<(), Error> {
        let value = vec![7; 10_000];
        let begun = std::sync::Barrier::new(usize::try_from(SESSIONS).expect("a few sessions"));
        let session = |session: u64| {
            let mut transaction = self.database.begin();
            let mut filled = (0..).try_for_each(|row| {
                transaction.put(self.table, ((session << 32) | row).to_be_bytes(), &value)
            });
            if matches!(filled, Err(Error::TransactionMemory { .. })) {
                filled = Ok(());
            }
            begun.wait();
            filled.and_then(|()| transaction.commit().map(drop))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SESSIONS).map(|number| scope.spawn(move || session(number))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a session does not panic"))
        })
    }

    fn read_again_and_again(&self) -> Result<(), Error> {
        self.database.put(self.table, "row", "value")?;
        let options =
            TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
        let mut transaction = self.database.with(options).begin();
        for _ in 0..self.each_bytes / 4 {
            match transaction.get(self.table, "row") {
                Err(Error::TransactionTooLarge { .. }) => return Ok(()),
                read => drop(read?),
            }
        }
        transaction.put(self.table, "other", "value")?;
        transaction.commit().map(drop)
    }

    fn trickle_beside_snapshot(&self) -> Result<(), Error> {
        let _snapshot = self.database.snapshot();
        for round in 0..300_u64 {
            let mut transaction = self.database.begin();
            for row in 0..100 {
                transaction.put(self.table, (round * 100 + row).to_be_bytes(), [7; 100])?;
            }
            transaction.commit()?;
            self.database.checkpoint()?;
        }
        Ok(())
    }

    fn delete_long_rows_beside_snapshot(&self) -> Result<(), Error> {
        let (value, rows) = (vec![7; 1 << 20], (self.each_bytes * 8) >> 20);
        for row in 0..rows {
            self.database.put(self.table, row.to_be_bytes(), &value)?;
        }
        self.database.checkpoint()?;
        let _snapshot = self.database.snapshot();
        let mut transaction = self.database.begin();
        for row in 0..rows {
            transaction.delete(self.table, row.to_be_bytes())?;
        }
        transaction.commit()?;
        self.database.checkpoint().map(drop)
    }

    /// Loads rows of so many times the memory of a memtable.
    fn load(&self, times: u64, key_of: impl Fn(u64) -> u64) -> Result<(), Error> {
        let mut load = self.database.tables().bulk_load("loaded")?;
        for number in 0..self.each_bytes * times / 200 {
            load.add(key_of(number).to_be_bytes(), [7; 200])?;
        }
        load.finish().map(drop)
    }

    fn put_long_values(&self) -> Result<(), Error> {
        let value = vec![7; LONG_VALUE_BYTES];
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    // A copy would be the caller's.
                    self.database
                        .get_with(self.table, 0_u64.to_be_bytes(), |value| value.map(<[u8]>::len))?;
                }
                Ok(())
            });
            let written = (0..(self.each_bytes * 16) >> 26)
                .try_for_each(|row| self.database.put(self.table, (row % 4).to_be_bytes(), &value).map(drop));
            is_done.store(true, Ordering::Relaxed);
            written.and(reader.join().expect("a reader does not panic"))
        })
    }
}
