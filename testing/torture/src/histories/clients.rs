//! Clients that append to lists and read them, at once, and remember what they did and saw.
//!
//! A list is one row, its elements one after another. An append reads the row and writes it with one element more, as a
//! program would: whoever overwrites what he has not seen is found out by the lists of others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seawall::{
    Database, Durability, Error, Isolation, LockWait, Lsn, Table, Transaction as DatabaseTransaction,
    TransactionOptions,
};
use seawall_simulation::SeededRandom;

use super::gone;
use super::history::{Element, History, Key, Operation, Outcome, Place, Transaction};

/// Lists that clients work on at a time.
const SLOTS: usize = 5;
/// A list gets no more appends than about this: then another takes its place.
const APPENDS_MAX: u64 = 40;

/// Deadlocks are found at once; but what is in doubt when the disk stops holds its rows until the database is opened
/// again.
const LOCK_WAIT: Duration = Duration::from_millis(200);

/// What all clients of a round share, over all lives of the database.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    moments: AtomicU64,
    elements: AtomicU64,
    /// Appends tried in each slot.
    appends: [AtomicU64; SLOTS],
    history: Mutex<History>,
}

impl Recorder {
    /// A number larger than all before.
    pub(super) fn now(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// The list that has its turn in a slot.
    fn key(&self, slot: usize) -> Key {
        let turn = self.appends[slot].load(Ordering::SeqCst) / APPENDS_MAX;
        turn * SLOTS as u64 + slot as u64
    }

    /// One more than every key that was ever used.
    pub(super) fn keys_end(&self) -> Key {
        (0..SLOTS).map(|slot| self.key(slot) + 1).max().unwrap_or(0)
    }

    pub(super) fn record(&self, transaction: Transaction) {
        self.history.lock().push(transaction);
    }

    /// The recovery has decided what became of those whose clients were not told.
    pub(super) fn recovered(&self) {
        let now = self.now();
        for transaction in self.history.lock().iter_mut().filter(|transaction| transaction.end == u64::MAX) {
            transaction.end = now;
        }
    }

    /// The outcome of a transaction that was in doubt after a crash. What its client was told before is lost, if it was told: a decision
    /// that was `Async` went with the power, and so did its stamp. The transaction ends when the database is open again.
    fn decided(&self, gid: &str, outcome: Outcome) {
        let is_meant = |transaction: &&mut Transaction| transaction.begin.to_string() == gid;
        if let Some(transaction) = self.history.lock().iter_mut().find(is_meant) {
            (transaction.outcome, transaction.end) = (outcome, u64::MAX);
            transaction.place.position = None;
        }
    }

    /// Lists that have their turn.
    pub(super) fn keys(&self) -> Vec<Key> {
        (0..SLOTS).map(|slot| self.key(slot)).collect()
    }

    /// The last commit that was acknowledged and has a stamp: its begin, and the stamp.
    pub(super) fn last_commit(&self) -> Option<(u64, Lsn)> {
        let history = self.history.lock();
        let newest = history.iter().rev().filter(|transaction| transaction.is_committed());
        newest
            .filter(|transaction| !transaction.place.is_standby)
            .find_map(|transaction| Some((transaction.begin, Lsn::new(transaction.place.position?))))
    }

    /// What was seen and told so far.
    pub(super) fn so_far(&self) -> History {
        self.history.lock().clone()
    }

    /// A failover takes what the server that is promoted lacks, whatever clients waited for.
    pub(super) fn nothing_is_durable(&self) {
        self.history.lock().iter_mut().for_each(|transaction| transaction.is_durable = false);
    }

    /// Everything was looked at after a power loss, and nothing was done since: takes what is gone out of the history.
    pub(super) fn lose_what_is_gone(&self) -> Result<u64, String> {
        gone::take(&mut self.history.lock())
    }

    pub(super) fn into_history(self) -> History {
        self.history.into_inner()
    }
}

/// How clients work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) isolation: Isolation,
    pub(super) transactions: u64,
    /// Of a hundred commits, how many do not wait for the disk.
    pub(super) async_percent: u64,
    /// How durable the others are when they return.
    pub(super) durability: Durability,
}

/// What a client knows of its transaction.
struct Ended {
    outcome: Outcome,
    /// Why no more.
    error: Option<Error>,
    /// The stamp of its commit, if it has one.
    position: Option<Lsn>,
}

impl Ended {
    fn aborted(error: Option<Error>) -> Ended {
        Ended { outcome: Outcome::Aborted, error, position: None }
    }

    fn told(result: Result<Lsn, Error>, outcome: Outcome) -> Ended {
        match result {
            Ok(position) => Ended { outcome, error: None, position: Some(position) },
            Err(error) if error.is_retryable() => Ended::aborted(Some(error)),
            // It may be in the log or not: recovery decides.
            Err(error) => Ended { outcome: Outcome::Unknown, error: Some(error), position: None },
        }
    }
}

/// One client, on a thread of its own.
pub(super) struct Client<'a> {
    pub(super) number: u32,
    /// Of the primary.
    pub(super) server: u32,
    pub(super) database: &'a Database,
    pub(super) table: &'a Table,
    pub(super) recorder: &'a Recorder,
    pub(super) work: Work,
    pub(super) random: SeededRandom,
    /// Whether the power is gone: what a client was told since then, the process was dead to tell.
    pub(super) is_dead: &'a (dyn Fn() -> bool + Sync),
}

impl Client<'_> {
    /// Works until all is done, or the database has stopped.
    ///
    /// # Errors
    /// The one that the database stopped with.
    pub(super) fn run(mut self) -> Result<(), Error> {
        for _ in 0..self.work.transactions {
            self.run_one()?;
            if self.random.chance(1, 150) {
                match self.database.checkpoint() {
                    // Standbys that are cut off for longer than `standby_wait`: rows that they lack stay out of pages.
                    Ok(_) | Err(Error::StandbysLack { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn run_one(&mut self) -> Result<(), Error> {
        let begin = self.recorder.now();
        let is_async = self.random.chance(self.work.async_percent, 100);
        let durability = if is_async { Durability::Async } else { self.work.durability };
        let options = TransactionOptions {
            isolation: self.work.isolation,
            durability,
            lock_wait: LockWait::Timeout(LOCK_WAIT),
            ..TransactionOptions::default()
        };
        let mut transaction = self.database.with(options).begin();
        let mut operations = Vec::new();
        let result = self.work_on(&mut transaction, &mut operations);
        let ended = match result {
            Err(error) => Ended::aborted(Some(error)),
            Ok(()) if self.random.chance(1, 12) => {
                transaction.rollback();
                Ended::aborted(None)
            }
            Ok(()) if self.random.chance(1, 8) => self.end_in_two_phases(transaction, begin, durability),
            Ok(()) => Ended::told(transaction.commit(), Outcome::Committed),
        };
        let Ended { mut outcome, error, position } = ended;
        if (self.is_dead)() {
            operations.retain(|operation| matches!(operation, Operation::Append { .. }));
            outcome = Outcome::Unknown;
        }
        if is_async && outcome == Outcome::Committed {
            // It returns at once, and others see it after the `Sync` commits ahead of it. Its own session waits for that.
            drop(self.database.snapshot());
        }
        let end = if outcome == Outcome::Unknown { u64::MAX } else { self.recorder.now() };
        let has_stamp = operations.iter().any(|operation| matches!(operation, Operation::Append { .. }));
        let position = position.filter(|_| has_stamp && outcome == Outcome::Committed).map(Lsn::get);
        let place = Place { server: self.server, position, ..Place::default() };
        self.recorder.record(Transaction {
            client: self.number,
            begin,
            end,
            outcome,
            is_durable: !is_async,
            operations,
            place,
        });
        match error {
            Some(error) if !error.is_retryable() => Err(error),
            _ => Ok(()),
        }
    }

    /// In doubt under the moment of its begin, and decided as a coordinator does: mostly to commit.
    fn end_in_two_phases(
        &mut self,
        transaction: DatabaseTransaction,
        begin: u64,
        durability: Durability,
    ) -> Ended {
        let gid = begin.to_string();
        match transaction.prepare(&gid) {
            Ok(_) => {}
            // There is nothing to decide: it has read, and that is all.
            Err(Error::NothingToPrepare) => {
                return Ended { outcome: Outcome::Committed, error: None, position: None };
            }
            Err(error) => return Ended::told(Err(error), Outcome::Committed),
        }
        // Others meet what it holds.
        std::thread::yield_now();
        let (decided, outcome) = if self.random.chance(1, 4) {
            (self.database.two_phase().with(durability).rollback(&gid), Outcome::Aborted)
        } else {
            (self.database.two_phase().with(durability).commit(&gid), Outcome::Committed)
        };
        match decided {
            Ok(position) => Ended { outcome, error: None, position: Some(position) },
            // It is in doubt, whatever the error, unless it is decided.
            Err(error) => Ended { outcome: Outcome::Unknown, error: Some(error), position: None },
        }
    }

    fn work_on(
        &mut self,
        transaction: &mut DatabaseTransaction,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        for _ in 0..self.random.range(1..5) {
            let slot = self.random.index(SLOTS);
            match self.random.below(10) {
                0..=3 => self.append(transaction, slot, operations)?,
                4..=7 => {
                    let key = self.recorder.key(slot);
                    let list = decode(transaction.get(self.table, key.to_be_bytes())?);
                    operations.push(Operation::Read { key, list });
                }
                _ => self.scan(transaction, operations)?,
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        transaction: &mut DatabaseTransaction,
        slot: usize,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        let key = self.recorder.key(slot);
        self.recorder.appends[slot].fetch_add(1, Ordering::SeqCst);
        // Under Read Committed, only who locks what he reads may write what follows from it.
        let is_locked = self.work.isolation == Isolation::ReadCommitted || self.random.chance(1, 3);
        let value = if is_locked {
            transaction.get_for_update(self.table, key.to_be_bytes())?
        } else {
            transaction.get(self.table, key.to_be_bytes())?
        };
        let mut list = decode(value);
        operations.push(Operation::Read { key, list: list.clone() });
        let element = self.recorder.elements.fetch_add(1, Ordering::SeqCst);
        list.push(element);
        transaction.put(self.table, key.to_be_bytes(), encode(&list))?;
        operations.push(Operation::Append { key, element });
        Ok(())
    }

    /// Reads all lists that have their turn in one scan, those that nobody has begun among them.
    fn scan(
        &mut self,
        transaction: &mut DatabaseTransaction,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        let keys = self.recorder.keys();
        read_all(transaction, self.table, &keys, operations)
    }
}

/// Decides what a crash has left in doubt; whoever asks later has the outcome.
pub(super) fn decide_what_is_in_doubt(
    database: &Database,
    recorder: &Recorder,
    random: &mut SeededRandom,
) -> Result<u64, Error> {
    let in_doubt = database.two_phase().in_doubt()?;
    for transaction in &in_doubt {
        let outcome = if random.chance(1, 2) {
            database.two_phase().commit(&transaction.gid)?;
            Outcome::Committed
        } else {
            database.two_phase().rollback(&transaction.gid)?;
            Outcome::Aborted
        };
        recorder.decided(&transaction.gid, outcome);
    }
    Ok(in_doubt.len() as u64)
}

/// Reads the lists `keys` in one scan.
fn read_all(
    transaction: &mut DatabaseTransaction,
    table: &Table,
    keys: &[Key],
    operations: &mut Vec<Operation>,
) -> Result<(), Error> {
    let (Some(first), Some(last)) = (keys.iter().min(), keys.iter().max()) else { return Ok(()) };
    let rows = transaction.range(table, first.to_be_bytes()..=last.to_be_bytes());
    let rows: std::collections::HashMap<Vec<u8>, Vec<u8>> = rows.collect::<Result<_, Error>>()?;
    operations.extend(
        keys.iter()
            .map(|&key| Operation::Read { key, list: decode(rows.get(&key.to_be_bytes()[..]).cloned()) }),
    );
    Ok(())
}

/// One transaction that reads every list there ever was.
pub(super) fn look_at_everything(
    database: &Database,
    table: &Table,
    recorder: &Recorder,
    client: u32,
    place: Place,
) -> Result<(), Error> {
    let keys: Vec<Key> = (0..recorder.keys_end()).collect();
    recorder.record(look(database, table, recorder, client, &keys, place)?);
    Ok(())
}

/// One transaction that reads the lists `keys`, in one scan or one after the other; to be recorded.
pub(super) fn look(
    database: &Database,
    table: &Table,
    recorder: &Recorder,
    client: u32,
    keys: &[Key],
    mut place: Place,
) -> Result<Transaction, Error> {
    let begin = recorder.now();
    let mut transaction = database.begin();
    let mut operations = Vec::new();
    if begin.is_multiple_of(2) {
        read_all(&mut transaction, table, keys, &mut operations)?;
    } else {
        for &key in keys {
            let list = decode(transaction.get(table, key.to_be_bytes())?);
            operations.push(Operation::Read { key, list });
        }
    }
    place.position = transaction.snapshot_lsn().map(Lsn::get).filter(|_| place.is_standby);
    transaction.commit()?;
    let (end, outcome) = (recorder.now(), Outcome::Committed);
    Ok(Transaction { client, begin, end, outcome, is_durable: true, operations, place })
}

fn encode(list: &[Element]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_be_bytes()).collect()
}

/// A value that is no list becomes elements that nobody appended, which the checker tells.
fn decode(value: Option<Vec<u8>>) -> Vec<Element> {
    let value = value.unwrap_or_default();
    let element = |bytes: &[u8]| bytes.try_into().map_or(Element::MAX, Element::from_be_bytes);
    value.chunks(8).map(element).collect()
}
