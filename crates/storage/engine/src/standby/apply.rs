//! Applying a received log, a step at a time: rows of many records, then all of them become visible.
//!
//! Each record is applied in the order of the log, and `visible` moves only when a step ends. So a reader sees whole commits, in
//! their order, as on the primary. Only what is durable here is applied.

use std::fmt::Display;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use seawall_types::{Lsn, TableId};
use seawall_wal::{Changes, Decision, LogRecord, Outcome, Prepare, Record};

use crate::catalog::{self, FIRST_USER_TABLE, NameRow, ObjectRow, ReclaimRow, dropped_tables};
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::PreparedTransaction;
use crate::inspect::log_records::open_reader;
use crate::recovery::{gives_away, next_id};
use crate::row_key;
use crate::snapshots::view::View;
use crate::standby::turn::ApplyState;

/// Log that is applied before it becomes visible: a step takes about a millisecond.
const STEP_BYTES: u64 = 256 << 10;

impl Engine {
    /// Applies all that is received and durable; up to where. Takes checkpoints on the way when the memtable is full.
    pub(crate) fn apply_received(&self) -> Result<Lsn, Error> {
        loop {
            let (applied, is_all) = {
                let mut state = self.apply_turn.take();
                self.apply_step(&mut state)?
            };
            if let Some(trigger) = self.limit_reached().or_else(|| self.interval_over()) {
                self.checkpoint(trigger)?;
            }
            if is_all {
                return Ok(applied);
            }
        }
    }

    /// Applies some records and makes them visible; up to where, and whether nothing is left.
    pub(crate) fn apply_step(&self, state: &mut ApplyState) -> Result<(Lsn, bool), Error> {
        self.lifecycle.check_not_stopped()?;
        let received = self.log.received().ok_or_else(not_a_standby)?;
        if state.reader.is_none() {
            self.begin_applying(state)?;
        }
        let ApplyState { reader, in_doubt } = state;
        let reader = reader.as_mut().expect("it was just made");
        let start = reader.position();
        reader.set_limit(received.flushed());
        // The one that new rows go to, until a freeze has the turn.
        let view = self.view.load_full();
        let mut step = Step { engine: self, view: &view, in_doubt, row_key: Vec::new(), rows: 0 };
        let mut is_all = false;
        while reader.position().bytes_since(start) < STEP_BYTES && !is_all {
            match reader.next() {
                Ok(Some(record)) => {
                    if let Err(error) = step.apply(&record) {
                        // The reader has passed a record of which part may be applied: only another open begins before it.
                        let _stopped = self.lifecycle.stop(error.to_string());
                        return Err(error);
                    }
                }
                Ok(None) => is_all = true,
                Err(error) => {
                    // What was applied is whole, and a freeze takes it.
                    self.queue.count_rows(step.rows);
                    self.queue.follow(reader.position());
                    return Err(Error::log(&error));
                }
            }
        }
        let applied = reader.position();
        self.queue.count_rows(step.rows);
        self.queue.follow(applied);
        Ok((applied, is_all))
    }

    fn begin_applying(&self, state: &mut ApplyState) -> Result<(), Error> {
        let (disk, superblock) = (&self.environment.disk, self.redo.superblock());
        let from = self.log.end_at_open();
        state.reader = Some(open_reader(disk, &superblock, self.keys.as_ref(), from)?);
        state.in_doubt = self.in_doubt.all_in_order().into_iter().collect();
        Ok(())
    }
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
    rows: u64,
}

impl Step<'_> {
    fn apply(&mut self, found: &LogRecord<'_>) -> Result<(), Error> {
        let span = found.span;
        let place =
            |problem: &dyn Display| Error::Log { message: format!("record at {}: {problem}", span.start) };
        match found.decode().map_err(|error| place(&error))? {
            Record::Commit(commit) => self.put_all(span.end, commit.changes(), &place),
            Record::Prepare(_) => self.prepare(span.end, found.body),
            Record::CommitPrepared(decision) => self.decide(span.end, &decision, Outcome::Commit, &place),
            Record::RollbackPrepared(decision) => self.decide(span.end, &decision, Outcome::Rollback, &place),
            Record::BulkLoad(load) => Err(Error::LoadedPastLog { table: load.table.get(), lsn: span.start }),
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
        for change in changes.clone() {
            let change = change.map_err(|error| place(&error))?;
            change.copy_row_key(&mut row_key);
            let is_struck_off = change.table() == catalog::RECLAIM && change.value().is_none();
            if is_struck_off && !gives_away(changes.clone(), &row_key)? {
                continue;
            }
            if change.table().get() < FIRST_USER_TABLE {
                self.define(stamp, &row_key, change.value())?;
            }
            match change.value().filter(|value| dropped_tables::is_drop(&row_key, value)) {
                Some(drop) => self.write_out(stamp, &row_key, drop)?,
                None => self.put(stamp, &row_key, change.value()),
            }
        }
        self.row_key = row_key;
        Ok(())
    }

    fn put(&mut self, stamp: Lsn, row_key: &[u8], value: Option<&[u8]>) {
        self.view.active.insert(row_key, stamp, value, || self.engine.horizon_in(self.view));
        self.rows += 1;
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
        if let Some(highest) = next_id(row_key, value)?.checked_sub(1) {
            objects.never_draw(highest);
        }
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
            self.put_all(stamp, prepare.changes(), place)?;
        }
        self.put_all(stamp, decision.changes(), place)?;
        self.view.prepared.decided(decision.prepared, stamp, &prepared);
        engine.in_doubt.decided(&prepared, stamp, engine.settled(), &engine.locks);
        Ok(())
    }
}
