//! Rows that say which commit wrote them, so that after a kill it can be told which commits are there.
//!
//! ```text
//!   thread 2, commit 17:  one transaction { rows[slot 17] = 17...,  stamps[2] = 17 }  ->  returned  ->  acknowledged[2] = 17
//! ```
//! A thread has its own share of the rows and goes through it in a shuffled order, again and again. So from its stamp
//! alone follows what each of its rows must hold: the last commit that came to it. One row that differs is a
//! transaction that is there in part, or commits that are there out of order.
//!
//! Acknowledgements are written to a file of the operating system's, which outlives the process and is not part of the
//! database. At most one commit a thread is there without one: the process was killed between the two.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall::{Database, Table, Transaction};

use super::cell::{Cell, TABLE};
use super::load::NAME;
use crate::error::{BenchError, engine_error, file_error};
use crate::random::{Random, Shuffle};
use crate::rows::{Key, KeySpace};

const STAMPS: &str = "stamps";
const STAMP_BYTES: usize = 8;

/// Which row each commit of each thread writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    keys: KeySpace,
    rows_per_thread: u64,
    seed: u64,
}

impl Slots {
    pub(super) fn new(cell: &Cell) -> Slots {
        let threads = cell.load.threads as u64;
        let rows_per_thread = (cell.rows / threads).max(1);
        Slots { keys: KeySpace::new(rows_per_thread * threads), rows_per_thread, seed: cell.seed }
    }

    pub(super) fn key(&self, number: u64) -> Key {
        self.keys.key(number)
    }

    /// The row that commit `commit` of `thread` writes.
    fn number(&self, thread: u64, commit: u64) -> u64 {
        let order = Shuffle::new(self.rows_per_thread, self.seed ^ thread);
        thread * self.rows_per_thread + order.at(commit % self.rows_per_thread)
    }

    /// The stamp of each row when the threads' last commits were `stamps`.
    fn expected(&self, stamps: &[u64]) -> Vec<u64> {
        let count = usize::try_from(self.keys.count()).expect("rows fit the address space");
        let mut expected = vec![0; count];
        for (thread, last) in (0_u64..).zip(stamps) {
            // Commits are counted from 1; the last round is all that is left of them.
            for commit in last.saturating_sub(self.rows_per_thread - 1).max(1)..=*last {
                let number =
                    usize::try_from(self.number(thread, commit)).expect("rows fit the address space");
                expected[number] = commit;
            }
        }
        expected
    }
}

/// Loads every row with stamp 0, and makes the table of stamps. Durable when it returns.
pub(super) fn prepare(cell: &Cell, database: &Database) -> Result<(), BenchError> {
    let slots = Slots::new(cell);
    let mut load = database.tables().bulk_load(TABLE).map_err(engine_error(NAME, "begin a bulk load"))?;
    let mut value = stamped_value(cell);
    let mut random = Random::new(cell.seed);
    for number in 0..slots.keys.count() {
        fill(&mut value, 0, &mut random);
        load.add(slots.key(number), &value).map_err(engine_error(NAME, "add a row to a bulk load"))?;
    }
    load.finish().map(drop).map_err(engine_error(NAME, "finish a bulk load"))?;
    database.create_table(STAMPS).map(drop).map_err(engine_error(NAME, "create the table of stamps"))?;
    // What `Async` commits lose is counted from here.
    database.flush().map(drop).map_err(engine_error(NAME, "flush"))
}

fn stamped_value(cell: &Cell) -> Vec<u8> {
    vec![0; cell.value_bytes.max(STAMP_BYTES)]
}

fn fill(value: &mut [u8], stamp: u64, random: &mut Random) {
    random.fill_value(value);
    value[..STAMP_BYTES].copy_from_slice(&stamp.to_le_bytes());
}

fn stamp_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|stamp| u64::from_le_bytes(*stamp))
}

/// The acknowledgements of all threads, and behind them what the engine said last a recovery would take.
#[derive(Debug)]
pub(super) struct Acknowledged {
    path: PathBuf,
    file: File,
}

impl Acknowledged {
    /// Makes the file, with no commit acknowledged.
    pub(super) fn create(directory: &Path, threads: usize) -> Result<Acknowledged, BenchError> {
        let path = directory.join("acknowledged");
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(file_error("create", &path))?;
        file.set_len(((threads + 1) * STAMP_BYTES) as u64).map_err(file_error("extend", &path))?;
        Ok(Acknowledged { path, file })
    }

    pub(super) fn open(directory: &Path) -> Result<Acknowledged, BenchError> {
        let path = directory.join("acknowledged");
        let file =
            OpenOptions::new().read(true).write(true).open(&path).map_err(file_error("open", &path))?;
        Ok(Acknowledged { path, file })
    }

    fn note(&self, thread: usize, commit: u64) -> Result<(), BenchError> {
        self.file
            .write_all_at(&commit.to_le_bytes(), (thread * STAMP_BYTES) as u64)
            .map_err(file_error("write", &self.path))
    }

    pub(super) fn note_estimate(&self, threads: usize, estimated: Duration) -> Result<(), BenchError> {
        self.note(threads, u64::try_from(estimated.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn estimate(&self, threads: usize) -> Result<Duration, BenchError> {
        let numbers = self.read(threads + 1)?;
        Ok(Duration::from_micros(numbers.last().copied().unwrap_or(0)))
    }

    pub(super) fn read(&self, threads: usize) -> Result<Vec<u64>, BenchError> {
        let mut bytes = vec![0; threads * STAMP_BYTES];
        self.file.read_exact_at(&mut bytes, 0).map_err(file_error("read", &self.path))?;
        Ok(bytes.chunks_exact(STAMP_BYTES).filter_map(stamp_of).collect())
    }
}

/// Commits one transaction after another, until one fails or the process is killed.
pub(super) fn write_on(
    cell: &Cell,
    database: &Database,
    acknowledged: &Acknowledged,
    thread: usize,
) -> Result<(), BenchError> {
    write(cell, database, acknowledged, thread, u64::MAX)
}

fn write(
    cell: &Cell,
    database: &Database,
    acknowledged: &Acknowledged,
    thread: usize,
    commits: u64,
) -> Result<(), BenchError> {
    let table = |name| database.table(name).map_err(engine_error(NAME, "open a table"));
    let (rows, stamps): (Table, Table) = (table(TABLE)?, table(STAMPS)?);
    let (slots, mut value) = (Slots::new(cell), stamped_value(cell));
    let mut random = Random::new(cell.thread_seed(thread));
    for commit in 1..=commits {
        let key = slots.key(slots.number(thread as u64, commit));
        fill(&mut value, commit, &mut random);
        let put_both = |transaction: &mut Transaction| {
            transaction.put(&rows, key, &value)?;
            transaction.put(&stamps, stamp_key(thread), commit.to_le_bytes())
        };
        database.transact(put_both).map_err(engine_error(NAME, "commit"))?;
        acknowledged.note(thread, commit)?;
    }
    Ok(())
}

fn stamp_key(thread: usize) -> [u8; 8] {
    (thread as u64).to_be_bytes()
}

/// What is there after a kill, beside what was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Survived {
    pub(super) acknowledged: u64,
    /// Acknowledged, and not there.
    pub(super) lost: u64,
}

/// Compares every row with what it must hold. Only commits that are missing at a thread's end are counted; anything else
/// that differs is an error.
pub(super) fn verify(cell: &Cell, database: &Database, acknowledged: &[u64]) -> Result<Survived, BenchError> {
    let stamps = found_stamps(cell, database)?;
    let mut survived = Survived::default();
    for (thread, (found, noted)) in stamps.iter().zip(acknowledged).enumerate() {
        if *found > noted + 1 {
            return Err(
                cell.wrong(format!("thread {thread} was told of {noted} commits, and {found} are there"))
            );
        }
        survived.acknowledged += noted;
        survived.lost += noted.saturating_sub(*found);
    }
    check_rows(cell, database, &stamps)?;
    Ok(survived)
}

fn found_stamps(cell: &Cell, database: &Database) -> Result<Vec<u64>, BenchError> {
    let table = database.table(STAMPS).map_err(engine_error(NAME, "open the table of stamps"))?;
    let stamp = |thread| {
        let value = database.get(&table, stamp_key(thread)).map_err(engine_error(NAME, "get"))?;
        match value {
            None => Ok(0),
            Some(value) => stamp_of(&value).ok_or_else(|| cell.wrong("a stamp is too short")),
        }
    };
    (0..cell.load.threads).map(stamp).collect()
}

fn check_rows(cell: &Cell, database: &Database, stamps: &[u64]) -> Result<(), BenchError> {
    let slots = Slots::new(cell);
    let expected = slots.expected(stamps);
    let table = database.table(TABLE).map_err(engine_error(NAME, "open the table"))?;
    let snapshot = database.snapshot();
    let mut range = snapshot.rows(&table);
    // Keys increase with their number, so both come in one order.
    for (number, expected) in (0_u64..).zip(&expected) {
        let row = range.next_row().map_err(engine_error(NAME, "scan"))?;
        let (thread, key) = (number / slots.rows_per_thread, slots.key(number));
        match row {
            Some((found, value)) if found == key && stamp_of(value) == Some(*expected) => {}
            Some((found, value)) if found == key => {
                let found = stamp_of(value);
                return Err(cell.wrong(format!(
                    "row {number} of thread {thread} holds commit {found:?} and should hold {expected}"
                )));
            }
            _ => return Err(cell.wrong(format!("row {number} of thread {thread} is not there"))),
        }
    }
    match range.next_row().map_err(engine_error(NAME, "scan"))? {
        None => Ok(()),
        Some(_) => Err(cell.wrong("there are more rows than were ever written")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::carrier::Carriers;
    use crate::checkpoint::cell::Kind;
    use crate::checkpoint::configuration::Configuration;
    use crate::checkpoint::load::{Durability, Load, Operation};

    fn cell(directory: &Path, rows: u64, threads: usize) -> Cell {
        Cell {
            kind: Kind::Kill,
            load: Load { operation: Operation::Transaction, durability: Durability::Async, threads },
            carriers: Carriers::default(),
            configuration: Configuration { protection: "recovery-file".into(), compression: "lz4".into() },
            rows,
            value_bytes: 20,
            cache_bytes: 16 << 20,
            memtable_bytes: 16 << 20,
            chunk_bytes: None,
            interval: 10.0,
            recovery_target: 5.0,
            warm_up: 0.0,
            seconds: 1.0,
            operations_per_second: None,
            run: 1,
            seed: 3,
            directory: directory.to_path_buf(),
            series: None,
        }
    }

    #[test]
    fn a_row_holds_the_last_commit_that_came_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let slots = Slots::new(&cell(scratch.path(), 30, 3));
        for stamps in [[0, 0, 0], [1, 0, 9], [10, 11, 25], [1000, 7, 10]] {
            let mut plain = vec![0; 30];
            for (thread, last) in (0_u64..).zip(stamps) {
                for commit in 1..=last {
                    plain[usize::try_from(slots.number(thread, commit)).unwrap()] = commit;
                }
            }
            assert_eq!(slots.expected(&stamps), plain, "{stamps:?}");
        }
    }

    #[test]
    fn lost_commits_are_counted_and_impossible_ones_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let cell = cell(scratch.path(), 40, 2);
        std::fs::create_dir(cell.database_directory()).unwrap();
        let acknowledged = Acknowledged::create(scratch.path(), 2).unwrap();
        let database = cell.open().unwrap();
        prepare(&cell, &database).unwrap();
        write(&cell, &database, &acknowledged, 0, 33).unwrap();
        write(&cell, &database, &acknowledged, 1, 5).unwrap();
        let noted = Acknowledged::open(scratch.path()).unwrap().read(2).unwrap();
        assert_eq!(noted, [33, 5]);
        acknowledged.note_estimate(2, Duration::from_millis(7)).unwrap();
        assert_eq!(acknowledged.estimate(2).unwrap(), Duration::from_millis(7));
        assert_eq!(acknowledged.read(2).unwrap(), noted);
        assert_eq!(verify(&cell, &database, &noted).unwrap(), Survived { acknowledged: 38, lost: 0 });
        assert_eq!(verify(&cell, &database, &[40, 4]).unwrap(), Survived { acknowledged: 44, lost: 7 });
        let error = verify(&cell, &database, &[31, 5]).unwrap_err().to_string();
        assert!(error.contains("thread 0 was told of 31 commits, and 33 are there"), "{error}");
        // A row without its stamp: half a transaction.
        let rows = database.table(TABLE).unwrap();
        let key = Slots::new(&cell).key(7);
        database.put(&rows, key, 999_u64.to_le_bytes()).unwrap();
        let error = verify(&cell, &database, &noted).unwrap_err().to_string();
        assert!(error.contains("row 7 of thread 0 holds commit Some(999)"), "{error}");
        database.close().unwrap();
    }
}
