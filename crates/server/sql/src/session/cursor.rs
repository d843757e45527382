//! Cursors: `DECLARE`, `FETCH`, `MOVE`, `CLOSE`. They are portals with a name.
//!
//! `movement`: where a cursor goes. `scroll`: whether it can go back without being asked for it. `hold`: cursors that outlive their transaction.

mod hold;
mod movement;
mod scroll;

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};

pub(super) use movement::Place;

use super::portal::{CursorOptions, PORTAL_BYTES, ParsedStatement, Portal, Run, fields};
use super::utility::Caller;
use super::{Session, Sink};
use crate::algebra::OutputColumn;
use crate::execute::{Environment, KeptRows, Reservation};
use crate::parse::statement::{Declare, Dml, Fetch, Statement};

fn no_cursor(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

/// What the clauses of `DECLARE` do not allow together.
fn check_clauses(declare: &Declare) -> SqlResult<()> {
    let Dml::Query(query) = &declare.query else { return Ok(()) };
    let Some(strength) = (!query.locks.is_empty()).then(|| declare.query.writes()).flatten() else {
        return Ok(());
    };
    let strength = strength.trim_start_matches("SELECT ");
    let refused = |clause: &str, kind: &str| {
        let message = format!("DECLARE {clause} ... {strength} is not supported");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail(format!("{kind} cursors must be READ ONLY.")))
    };
    if declare.is_holdable {
        return refused("CURSOR WITH HOLD", "Holdable");
    }
    if declare.is_scrollable == Some(true) {
        return refused("SCROLL CURSOR", "Scrollable");
    }
    if declare.is_insensitive {
        let message = format!("DECLARE INSENSITIVE CURSOR ... {strength} is not valid");
        return Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message)
            .with_detail("Insensitive cursors must be READ ONLY."));
    }
    Ok(())
}

impl Session {
    pub(super) fn declare(&mut self, declare: &Declare) -> SqlResult<()> {
        let now = self.begin_statement()?;
        let planned = Arc::new(self.plan(&declare.text, &declare.query, &[], now)?);
        check_clauses(declare)?;
        if !declare.is_holdable && !self.is_in_block() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        if self.portals.contains_key(&declare.name) {
            let message = format!("cursor \"{}\" already exists", declare.name);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let is_scrollable = declare.is_scrollable.unwrap_or_else(|| scroll::goes_backward(&planned.plan));
        let width = planned.output().len();
        let statement =
            ParsedStatement::new(declare.text.clone(), Some(Statement::Dml(declare.query.clone())));
        let formats = if declare.is_binary { vec![1] } else { Vec::new() };
        let mut portal = Portal {
            statement: Arc::new(statement),
            parameters: Vec::new(),
            formats,
            run: Run::Ready(Some(planned)),
            cursor: Some(CursorOptions {
                is_holdable: declare.is_holdable,
                is_binary: declare.is_binary,
                is_scrollable,
                is_held: false,
                text: declare.text.statement().to_owned(),
            }),
            savepoints: self.savepoints(),
            created_at: (self.settings.values().clock)(),
            planning: None,
            spent: std::time::Duration::ZERO,
            _memory: Some(Reservation::take(&self.database.memory, PORTAL_BYTES)?),
        };
        self.start(&mut portal, &declare.query)?;
        if let Run::Query(running) = &mut portal.run {
            running.kept = is_scrollable.then(|| KeptRows::new(width, 0, self.limits()));
            running.keeps_all = declare.is_scrollable == Some(true);
            // Its rows are those of now.
            let (settings, cancel) = (self.settings.values(), Arc::clone(&self.cancel.requested));
            self.with_tables(running.as_of, |tables| {
                let mut environment = Environment { storage: tables, settings: &settings, cancel: &cancel };
                running.execution.prepare(&mut environment)
            })?;
        }
        self.portals.insert(declare.name.clone(), portal);
        Ok(())
    }

    /// The columns of a cursor.
    pub(super) fn cursor_output(&self, name: &str) -> SqlResult<Vec<OutputColumn>> {
        match self.portals.get(name).map(|portal| &portal.run) {
            Some(Run::Query(running)) => Ok(running.planned.output().to_vec()),
            Some(Run::Ready(Some(planned))) => Ok(planned.output().to_vec()),
            _ => Err(no_cursor(name)),
        }
    }

    pub(super) fn fetch(
        &mut self,
        fetch: &Fetch,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<String> {
        let mut portal = self.portals.remove(&fetch.cursor).ok_or_else(|| no_cursor(&fetch.cursor))?;
        let fetched = self.fetch_from(&mut portal, fetch, caller, sink);
        self.portals.insert(fetch.cursor.clone(), portal);
        let word = if fetch.is_move { "MOVE" } else { "FETCH" };
        Ok(format!("{word} {}", fetched?))
    }

    fn fetch_from(
        &mut self,
        portal: &mut Portal,
        fetch: &Fetch,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<u64> {
        if let Some(Statement::Dml(dml)) = portal.statement.statement.clone() {
            self.start(portal, &dml)?;
        }
        let is_binary = portal.cursor.as_ref().is_some_and(|cursor| cursor.is_binary);
        let Run::Query(running) = &mut portal.run else {
            let message = format!("portal \"{}\" cannot be run", fetch.cursor);
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        };
        let formats: &[i16] = if is_binary { &[1] } else { caller.formats };
        if !fetch.is_move {
            running.encoding = super::encode::Encoding::new(running.planned.output(), formats);
            if caller.is_last.is_some() {
                sink.fields(&fields(running.planned.output(), formats))?;
            }
        }
        let moved = self.move_cursor(running, fetch.direction, (!fetch.is_move).then_some(sink));
        if moved.is_err() {
            portal.run = Run::Done;
        }
        moved
    }

    pub(super) fn close_cursors(&mut self, name: Option<&str>) -> SqlResult<()> {
        match name {
            Some(name) => self.portals.remove(name).map(|_| ()).ok_or_else(|| no_cursor(name)),
            None => {
                self.portals.retain(|_, portal| portal.cursor.is_none());
                Ok(())
            }
        }
    }
}
