//! Values of sequences: given out once, whatever becomes of the transactions that took them.
//!
//! ```text
//!   session: CACHE values --> counter in memory --> row of `sql.sequences`, 32 values ahead, by a transaction of its own
//! ```
//! A row of `sql.sequences`:
//!
//! | part  | bytes | meaning                                                                           |
//! |-------|------:|-----------------------------------------------------------------------------------|
//! | key   |     8 | `Sequence::state`, big-endian                                                     |
//! | value |     8 | a value, little-endian: none after it has been given out, as long as `logged` says |
//! | value |     1 | 1: that value itself may have been given out; 0: it is the next one               |
//!
//! There is no row before the first value. After a crash up to 32 values are missing, as in PostgreSQL. The transaction that writes
//! the row is not waited for: it is in the log before the commit of whoever uses a value that it covers.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use seawall_engine::{Durability, Isolation};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use crate::schema::Sequence;
use crate::schema::store::SchemaStore;
use crate::storage::engine_error::EngineResult;
use crate::storage::value::damaged;

const LOGGED_AHEAD: u32 = 32;
/// `2200H`: a sequence has no more values.
const SEQUENCE_LIMIT_EXCEEDED: SqlState = SqlState::new(b"2200H");

/// How far a sequence has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencePosition {
    /// The last value, or the next one.
    pub value: i64,
    /// Whether it has been given out.
    pub is_called: bool,
}

/// A sequence that has been used since the database was opened.
#[derive(Debug)]
struct Counter {
    position: SequencePosition,
    /// How many more values the row covers.
    logged: u32,
}

/// Counters by `Sequence::state`.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<FxHashMap<u64, Arc<Mutex<Counter>>>>);

impl Sequence {
    /// The position of one that has not been used.
    fn beginning(&self) -> SequencePosition {
        SequencePosition { value: self.start, is_called: false }
    }

    /// The value after a position.
    fn after(&self, position: SequencePosition) -> SqlResult<i64> {
        if !position.is_called {
            return Ok(position.value);
        }
        let next = position.value.checked_add(self.increment);
        let next = next.filter(|next| (self.minimum..=self.maximum).contains(next));
        match (next, self.is_cycling, self.increment > 0) {
            (Some(next), _, _) => Ok(next),
            (None, true, true) => Ok(self.minimum),
            (None, true, false) => Ok(self.maximum),
            (None, false, is_ascending) => {
                let (end, limit) =
                    if is_ascending { ("maximum", self.maximum) } else { ("minimum", self.minimum) };
                let message = format!("nextval: reached {end} value of sequence \"{}\" ({limit})", self.name);
                Err(SqlError::new(SEQUENCE_LIMIT_EXCEEDED, message))
            }
        }
    }
}

impl SchemaStore {
    /// How far a sequence has counted.
    ///
    /// # Errors
    /// What the engine says.
    pub fn sequence_position(&self, sequence: &Sequence) -> SqlResult<SequencePosition> {
        Ok(self.counter(sequence)?.lock().position)
    }

    /// Takes up to `count` values in a row, without a turn of a cycle among them: the first one, and how many.
    fn take_values(&self, sequence: &Sequence, count: u32) -> SqlResult<(i64, u32)> {
        let counter = self.counter(sequence)?;
        let mut counter = counter.lock();
        let first = sequence.after(counter.position)?;
        let (mut last, mut taken) = (first, 1);
        while taken < count
            && let Some(next) = last.checked_add(sequence.increment)
            && (sequence.minimum..=sequence.maximum).contains(&next)
        {
            (last, taken) = (next, taken + 1);
        }
        let position = SequencePosition { value: last, is_called: true };
        if counter.logged < taken {
            let (ahead, logged) = ahead_of(sequence, position);
            self.write_position(sequence, ahead)?;
            counter.logged = logged;
        } else {
            counter.logged -= taken;
        }
        counter.position = position;
        Ok((first, taken))
    }

    /// Sets how far a sequence has counted, for all sessions, at once and for good.
    pub(super) fn set_position(&self, sequence: &Sequence, position: SequencePosition) -> SqlResult<()> {
        let counter = self.counter(sequence)?;
        let mut counter = counter.lock();
        self.write_position(sequence, position)?;
        *counter = Counter { position, logged: 0 };
        Ok(())
    }

    fn counter(&self, sequence: &Sequence) -> SqlResult<Arc<Mutex<Counter>>> {
        let is_standby = self.database().standby().is_some();
        let mut counters = self.counters().0.lock();
        if let Some(counter) = counters.get(&sequence.state) {
            return Ok(Arc::clone(counter));
        }
        let position = match self.newest_position(sequence)? {
            Some(row) => decode(&row)?,
            None => sequence.beginning(),
        };
        let counter = Arc::new(Mutex::new(Counter { position, logged: 0 }));
        // Of a standby: the primary counts on.
        if !is_standby {
            counters.insert(sequence.state, Arc::clone(&counter));
        }
        Ok(counter)
    }

    /// The row of a sequence, also one that is not visible yet: a restart may have found it in a log that standbys lack.
    fn newest_position(&self, sequence: &Sequence) -> SqlResult<Option<Vec<u8>>> {
        let (session, key) = (self.database().new_session(), sequence.state.to_be_bytes());
        if session.quorum().newest_waiting().is_none() || session.standby().is_some() {
            return session.get(self.sequences(), key).sql();
        }
        let mut found = None;
        let mut transaction = session.with(Isolation::ReadCommitted).with(Durability::Async).begin();
        let mut look = |row: Option<&[u8]>| {
            found = row.map(<[u8]>::to_vec);
            found.clone()
        };
        transaction.update(self.sequences(), key, &mut look).sql()?;
        // A transaction without a record would wait until what it has seen is visible.
        transaction.commit_async().sql()?;
        Ok(found)
    }

    fn write_position(&self, sequence: &Sequence, position: SequencePosition) -> SqlResult<()> {
        let mut row = position.value.to_le_bytes().to_vec();
        row.push(u8::from(position.is_called));
        let mut transaction = self.database().new_session().begin();
        transaction.set_durability(Durability::Async);
        transaction.put(self.sequences(), sequence.state.to_be_bytes(), row).sql()?;
        // Not waited for: whatever uses a value is later in the log.
        transaction.commit_async().map(drop).sql()
    }
}

/// Up to 32 values ahead of a position, and how many.
fn ahead_of(sequence: &Sequence, position: SequencePosition) -> (SequencePosition, u32) {
    let (mut ahead, mut logged) = (position, 0);
    while logged < LOGGED_AHEAD
        && let Ok(value) = sequence.after(ahead)
    {
        (ahead, logged) = (SequencePosition { value, is_called: true }, logged + 1);
    }
    (ahead, logged)
}

fn decode(row: &[u8]) -> SqlResult<SequencePosition> {
    match row.split_first_chunk::<8>() {
        Some((value, [called @ (0 | 1)])) => {
            Ok(SequencePosition { value: i64::from_le_bytes(*value), is_called: *called == 1 })
        }
        _ => Err(damaged("the position of a sequence")),
    }
}

/// What a session knows of the sequences that it has used.
#[derive(Debug, Default)]
pub struct SequenceSession {
    used: FxHashMap<Oid, Used>,
    last: Option<Oid>,
}

#[derive(Debug)]
struct Used {
    state: u64,
    /// The last value that the session was given.
    value: i64,
    /// How many more it has taken.
    cached: u32,
}

impl SequenceSession {
    /// `nextval`.
    ///
    /// # Errors
    /// `2200H`: there are no more; what the engine says.
    pub fn next_value(&mut self, store: &SchemaStore, sequence: &Sequence) -> SqlResult<i64> {
        self.last = Some(sequence.oid);
        if let Some(used) = self.used.get_mut(&sequence.oid)
            && used.state == sequence.state
            && used.cached > 0
            && let Some(value) = used.value.checked_add(sequence.increment)
        {
            (used.value, used.cached) = (value, used.cached - 1);
            return Ok(value);
        }
        let count = u32::try_from(sequence.cache.max(1)).unwrap_or(u32::MAX);
        let (value, taken) = store.take_values(sequence, count)?;
        self.used.insert(sequence.oid, Used { state: sequence.state, value, cached: taken - 1 });
        Ok(value)
    }

    /// `currval`.
    ///
    /// # Errors
    /// `55000`: the session has not used it.
    pub fn current_value(&self, sequence: &Sequence) -> SqlResult<i64> {
        self.used.get(&sequence.oid).map(|used| used.value).ok_or_else(|| {
            let message =
                format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name);
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    /// `lastval`.
    ///
    /// # Errors
    /// `55000`: the session has used none.
    pub fn last_value(&self) -> SqlResult<i64> {
        let used = self.last.and_then(|oid| self.used.get(&oid));
        used.map(|used| used.value).ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    /// `setval`.
    ///
    /// # Errors
    /// `22003`: the value is none of the sequence; what the engine says.
    pub fn set_value(
        &mut self,
        store: &SchemaStore,
        sequence: &Sequence,
        position: SequencePosition,
    ) -> SqlResult<()> {
        if !(sequence.minimum..=sequence.maximum).contains(&position.value) {
            let (name, value) = (&sequence.name, position.value);
            let (minimum, maximum) = (sequence.minimum, sequence.maximum);
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{name}\" ({minimum}..{maximum})"
            );
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        store.set_position(sequence, position)?;
        if position.is_called {
            let used = Used { state: sequence.state, value: position.value, cached: 0 };
            self.used.insert(sequence.oid, used);
        } else if let Some(used) = self.used.get_mut(&sequence.oid) {
            used.cached = 0;
        }
        Ok(())
    }

    /// `DISCARD SEQUENCES`.
    pub fn discard(&mut self) {
        *self = SequenceSession::default();
    }
}

#[cfg(test)]
mod tests;
