//! Applying a received log, a step at a time: rows of many records, then all of them become visible.
//!
//! Each record is applied in the order of the log, and `visible` moves only when a step ends. So a reader sees whole commits, in
//! their order, as on the primary. Only what is durable here is applied.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use seawall_sync::MutexGuard;
use seawall_types::{Lsn, TableId};
use seawall_wal::{Changes, Decision, LogReader, LogRecord, Outcome, Prepare, Record};

use crate::catalog::logged_definitions::{gives_away, next_id};
use crate::catalog::{
    self, FIRST_LOCAL_TABLE, FIRST_USER_TABLE, LOCAL_ROW_IN_LOG, NameRow, ObjectRow, ReclaimRow,
    dropped_tables,
};
use crate::checkpoint::statistics::Trigger;
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::PreparedTransaction;
use crate::inspect::log_records::open_reader;
use crate::row_key;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::view::View;
use crate::standby::control::time_left;
use crate::standby::many_rows::ManyRows;
use crate::standby::turn::ApplyState;

/// Log that is applied before it becomes visible: a step takes about a millisecond.
const STEP_BYTES: u64 = 256 << 10;

/// Whether records wait for their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Until a commit is as old as was asked for.
    Delayed,
    /// Not at all: of a promotion.
    AtOnce,
}

/// Why a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnd {
    /// It was long enough.
    More,
    /// All that is durable is applied.
    All,
    /// The next record is not due for so long.
    Held(Duration),
}

impl Engine {
    /// Applies all that is received, durable and due; up to where. Takes checkpoints on the way when the memtable is full.
    pub(crate) fn apply_received(&self) -> Result<Lsn, Error> {
        loop {
            if self.apply_control.is_paused() {
                return Ok(self.visible());
            }
            let (applied, end) = self.apply_turn_step(Pace::Delayed)?;
            self.make_room()?;
            if end != StepEnd::More {
                return Ok(applied);
            }
        }
    }

    /// Applies all that is received, whatever applying was asked to wait for. Takes a checkpoint only where memory is full.
    pub(crate) fn apply_the_rest(&self) -> Result<(), Error> {
        while self.apply_turn_step(Pace::AtOnce)?.1 == StepEnd::More {
            self.lifecycle.check_open()?;
            if self.active_bytes() >= self.active_limit() {
                self.checkpoint(Trigger::MemtableFull)?;
            }
        }
        Ok(())
    }

    /// Waits for the turn, and applies a step; up to where, and why no further.
    pub(crate) fn apply_turn_step(&self, pace: Pace) -> Result<(Lsn, StepEnd), Error> {
        self.apply_in_turn(self.apply_turn.take(), pace)
    }

    /// Applies a step, if none has the turn.
    pub(crate) fn apply_step_now(&self) -> Result<Option<(Lsn, StepEnd)>, Error> {
        let turn = self.apply_turn.take_now();
        turn.map(|state| self.apply_in_turn(state, Pace::Delayed)).transpose()
    }

    fn apply_in_turn(
        &self,
        mut state: MutexGuard<'_, ApplyState>,
        pace: Pace,
    ) -> Result<(Lsn, StepEnd), Error> {
        let stepped = self.apply_step(&mut state, pace);
        *self.counters.last_apply_error.lock() = stepped.as_ref().err().cloned();
        drop(state);
        let stepped = stepped?;
        self.complete_copy()?;
        Ok(stepped)
    }

    /// Applies some records and makes them visible.
    fn apply_step(&self, state: &mut ApplyState, pace: Pace) -> Result<(Lsn, StepEnd), Error> {
        self.lifecycle.check_not_stopped()?;
        let received = self.log.received().ok_or_else(not_a_standby)?;
        let begun = self.clock().monotonic();
        let ApplyState { reader, in_doubt, applied } = state;
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(self.begin_applying(*applied, in_doubt)?),
        };
        let start = reader.position();
        reader.set_limit(received.flushed());
        // The one that new rows go to, until a freeze has the turn.
        let view = self.view.load_full();
        let mut step = Step {
            engine: self,
            view: &view,
            in_doubt,
            row_key: Vec::new(),
            applied: Applied::default(),
            is_own: false,
        };
        // What a copy needs to be whole is not of a moment that anybody may see.
        let is_delayed = pace == Pace::Delayed && self.apply_control.copied_until().is_none();
        let delay = if is_delayed { self.apply_control.delay() } else { Duration::ZERO };
        if sabotaged(Defect::StandbyShowsUnapplied) && received.flushed() > start {
            self.queue.follow(received.flushed());
        }
        let (position, ended) = self.apply_records(reader, start, delay, &mut step);
        let rows = step.applied.rows;
        self.queue.count_rows(rows);
        if let Err(StepError::Record(error)) = &ended {
            // The reader has passed a record of which part may be applied: only another open begins before it.
            let _stopped = self.lifecycle.stop(error.to_string());
        } else {
            // What was applied is whole, and a freeze takes it.
            self.queue.follow(position);
            *applied = Some(position);
        }
        let busy = self.clock().monotonic().saturating_sub(begun);
        self.apply_control.counters.count_step(rows, position.bytes_since(start), busy);
        if matches!(ended, Ok(StepEnd::Held(_))) {
            // It has passed a record that is still to come.
            state.reader = None;
        }
        self.apply_control.applied.wake_all();
        match ended {
            Ok(end) => Ok((position, end)),
            Err(StepError::Record(error) | StepError::Log(error)) => Err(error),
        }
    }

    /// Applies records until a step is full; where the last one ends that was applied, and why no more.
    fn apply_records(
        &self,
        reader: &mut LogReader,
        start: Lsn,
        delay: Duration,
        step: &mut Step<'_>,
    ) -> (Lsn, Result<StepEnd, StepError>) {
        let mut position = start;
        while position.bytes_since(start) < STEP_BYTES {
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => return (reader.position(), Ok(StepEnd::All)),
                Err(error) => return (position, Err(StepError::Log(Error::log(&error)))),
            };
            if !delay.is_zero()
                && let Some(left) = time_left(&record, delay, self.clock().wall_micros())
            {
                return (position, Ok(StepEnd::Held(left)));
            }
            if let Err(error) = step.apply(&record) {
                return (position, Err(StepError::Record(error)));
            }
            position = record.span.end;
        }
        (position, Ok(StepEnd::More))
    }

    /// A reader of what comes after `applied`, or after what recovery has applied.
    fn begin_applying(
        &self,
        applied: Option<Lsn>,
        in_doubt: &mut FxHashMap<Lsn, Arc<PreparedTransaction>>,
    ) -> Result<LogReader, Error> {
        let (disk, superblock) = (&self.environment.disk, self.redo.superblock());
        if applied.is_none() {
            *in_doubt = self.in_doubt.all_in_order().into_iter().collect();
        }
        // Recovery leaves what is to wait for its time.
        let from = applied.unwrap_or_else(|| self.visible());
        open_reader(disk, &superblock, self.keys.as_ref(), from)
    }
}

/// The end of a log that this server has written, which nobody sees yet.
pub(crate) struct Unshown {
    pub(crate) from: Lsn,
    pub(crate) end: Lsn,
}

impl Unshown {
    /// Puts its rows into the active memtable, where no snapshot sees them yet.
    pub(crate) fn apply(&self, engine: &Engine) -> Result<Applied, Error> {
        let (disk, superblock) = (&engine.environment.disk, engine.redo.superblock());
        let mut reader = open_reader(disk, &superblock, engine.keys.as_ref(), self.from)?;
        reader.set_limit(self.end);
        let mut in_doubt = engine.in_doubt.all_in_order().into_iter().collect();
        let view = engine.view.load_full();
        let mut step = Step {
            engine,
            view: &view,
            in_doubt: &mut in_doubt,
            row_key: Vec::new(),
            applied: Applied::default(),
            is_own: true,
        };
        while let Some(record) = reader.next().map_err(|error| Error::log(&error))? {
            step.apply(&record)?;
        }
        Ok(step.applied)
    }
}

/// What was applied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Applied {
    pub(crate) rows: u64,
    /// Commits, prepares and decisions.
    pub(crate) commits: u64,
}

/// Why a step failed.
enum StepError {
    /// A record that verifies could not be applied, or not whole.
    Record(Error),
    /// There is no record to be read.
    Log(Error),
}

/// The error of what only a standby can do.
pub(crate) fn not_a_standby() -> Error {
    Error::Log { message: "this server does not receive its log: it writes it, or only reads it".to_owned() }
}

/// A step under way.
struct Step<'a> {
    engine: &'a Engine,
    view: &'a View,
    in_doubt: &'a mut FxHashMap<Lsn, Arc<PreparedTransaction>>,
    row_key: Vec<u8>,
    applied: Applied,
    /// The log was written here: its list of storages to cut out is this server's, and loads past it are in pages here.
    is_own: bool,
}

impl Step<'_> {
    fn apply(&mut self, found: &LogRecord<'_>) -> Result<(), Error> {
        let span = found.span;
        let place =
            |problem: &dyn Display| Error::Log { message: format!("record at {}: {problem}", span.start) };
        let record = found.decode().map_err(|error| place(&error))?;
        self.engine.apply_control.counters.count(&record);
        self.applied.commits += u64::from(matches!(
            record,
            Record::Commit(_) | Record::Prepare(_) | Record::CommitPrepared(_) | Record::RollbackPrepared(_)
        ));
        match record {
            Record::Commit(commit) => {
                let stamp = if sabotaged(Defect::StandbyStampsEarly) { span.start } else { span.end };
                self.put_all(stamp, commit.changes(), &place)
            }
            Record::Prepare(_) => self.prepare(span.end, found.body),
            Record::CommitPrepared(decision) => self.decide(span.end, &decision, Outcome::Commit, &place),
            Record::RollbackPrepared(decision) => self.decide(span.end, &decision, Outcome::Rollback, &place),
            Record::BulkLoad(_) if self.is_own => Ok(()),
            Record::BulkLoad(_) => Err(Error::FollowedPastLog { lsn: span.start }),
            Record::Checkpoint(_)
            | Record::TimelineSwitch(_)
            | Record::RestorePoint(_)
            | Record::NoOp
            | Record::PageImages(_) => Ok(()),
        }
    }

    fn put_all(
        &mut self,
        stamp: Lsn,
        changes: Changes<'_>,
        place: &dyn Fn(&dyn Display) -> Error,
    ) -> Result<(), Error> {
        let mut row_key = std::mem::take(&mut self.row_key);
        let many = ManyRows::find(&changes).map_err(|error| place(&error))?;
        let in_order = many.as_ref().map_or(usize::MAX, ManyRows::others);
        for change in changes.clone().take(in_order) {
            let change = change.map_err(|error| place(&error))?;
            if change.table().get() >= FIRST_LOCAL_TABLE {
                return Err(place(&LOCAL_ROW_IN_LOG));
            }
            change.copy_row_key(&mut row_key);
            let is_struck_off =
                !self.is_own && change.table() == catalog::RECLAIM && change.value().is_none();
            if is_struck_off && !gives_away(changes.clone(), &row_key)? {
                self.give_up(stamp, &row_key)?;
                continue;
            }
            if change.table().get() < FIRST_USER_TABLE {
                self.define(stamp, &row_key, change.value())?;
            }
            match change.value().filter(|value| !self.is_own && dropped_tables::is_drop(&row_key, value)) {
                Some(drop) => self.write_out(stamp, &row_key, drop)?,
                None => self.put(stamp, &row_key, change.value()),
            }
        }
        if let Some(many) = many {
            self.applied.rows += many.put(self.engine, self.view, stamp);
        }
        self.row_key = row_key;
        Ok(())
    }

    /// The primary has cut a storage out. This server's list says what is to be done here; but where it says that a load fills the
    /// storage, the load was given up.
    fn give_up(&mut self, stamp: Lsn, reclaim_key: &[u8]) -> Result<(), Error> {
        let storage = TableId::new(catalog::decode_id_key(reclaim_key)?);
        let listed = self
            .engine
            .read_row(reclaim_key, Lsn::MAX, |row| row.map(|row| ReclaimRow::decode(storage, row)))?;
        if listed.transpose()? == Some(ReclaimRow::Filling) {
            self.put(stamp, reclaim_key, Some(&ReclaimRow::Storage.encode()));
        }
        Ok(())
    }

    fn put(&mut self, stamp: Lsn, row_key: &[u8], value: Option<&[u8]>) {
        self.view.active.insert(row_key, stamp, value, || self.engine.horizon_in(self.view));
        self.applied.rows += 1;
    }

    /// Puts the rows that a drop stands for, at once: a checkpoint does so on the primary, and who takes the name again then writes what
    /// that checkpoint has left to do. Here checkpoints are at other places.
    fn write_out(&mut self, stamp: Lsn, name_key: &[u8], drop: &[u8]) -> Result<(), Error> {
        let NameRow::Dropped { object, storage } = NameRow::decode_key(name_key, drop)? else {
            return Ok(());
        };
        self.put(stamp, name_key, None);
        self.put(stamp, &catalog::object_key(object), None);
        self.put(stamp, &catalog::reclaim_key(storage), Some(&ReclaimRow::Storage.encode()));
        Ok(())
    }

    /// What a row of the catalog says about open objects. Before it is visible: an open object answers for snapshots from then on.
    fn define(&self, stamp: Lsn, row_key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let objects = &self.engine.objects;
        objects.never_draw_below(next_id(row_key, value)?);
        match (row_key::table_of(row_key), value) {
            (Some(catalog::NAMES), Some(row)) => {
                if let NameRow::Dropped { object, .. } = NameRow::decode_key(row_key, row)? {
                    objects.open(object).change(None, stamp);
                }
            }
            (Some(catalog::OBJECTS), Some(row)) => {
                let id = catalog::decode_id_key(row_key)?;
                self.move_object(id, ObjectRow::decode(id, row)?.storage, stamp);
            }
            (Some(catalog::OBJECTS), None) => {
                objects.open(catalog::decode_id_key(row_key)?).change(None, stamp);
            }
            _ => return Ok(()),
        }
        objects.defined(stamp);
        Ok(())
    }

    /// The object is created, renamed, altered or truncated, and its rows are at `storage`.
    fn move_object(&self, id: u64, storage: TableId, stamp: Lsn) {
        let object = self.engine.objects.open(id);
        if object.is_known() && object.newest_storage() == Some(storage) {
            object.alter(stamp);
        } else {
            object.change(Some(storage), stamp);
        }
    }

    fn prepare(&mut self, stamp: Lsn, body: &[u8]) -> Result<(), Error> {
        let body: Arc<[u8]> = body.into();
        let prepared = self.engine.adopt(stamp, &body, Some(Arc::clone(&body)))?;
        self.view.prepared.prepared(stamp, &prepared, body);
        self.in_doubt.insert(stamp, prepared);
        Ok(())
    }

    fn decide(
        &mut self,
        stamp: Lsn,
        decision: &Decision<'_>,
        outcome: Outcome,
        place: &dyn Fn(&dyn Display) -> Error,
    ) -> Result<(), Error> {
        let unknown = || place(&format!("it decides {:?}, which is not in doubt", decision.gid));
        let prepared = self.in_doubt.remove(&decision.prepared).ok_or_else(unknown)?;
        let engine = self.engine;
        // None is decided here, so none is claimed.
        engine.in_doubt.claim(&prepared).map_err(|_| unknown())?;
        if outcome == Outcome::Commit {
            let body = engine.read_prepared(&prepared, decision.prepared)?;
            let prepare = Prepare::decode(&body).map_err(|error| place(&error))?;
            let is_early = sabotaged(Defect::DecidedAtPrepare);
            let stamp = if is_early { decision.prepared } else { stamp };
            self.put_all(stamp, prepare.changes(), place)?;
        }
        self.put_all(stamp, decision.changes(), place)?;
        self.view.prepared.decided(decision.prepared, stamp, &prepared);
        engine.in_doubt.decided(&prepared, stamp, engine.settled(), &engine.locks);
        // The primary logs what becomes of them.
        prepared.definitions.filled().iter().for_each(|storage| engine.loads.ended(*storage));
        Ok(())
    }
}
