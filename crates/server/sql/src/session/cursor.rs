//! Cursors: `DECLARE`, `FETCH`, `MOVE`, `CLOSE`. They are portals with a name.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};

use super::portal::{CursorOptions, ParsedStatement, Portal, Run, fields};
use super::utility::Caller;
use super::{Session, Sink};
use crate::algebra::OutputColumn;
use crate::parse::statement::{Declare, Direction, Fetch, Statement};

fn no_cursor(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

impl Session {
    pub(super) fn declare(&mut self, declare: &Declare) -> SqlResult<()> {
        if declare.is_holdable {
            return Err(SqlError::unsupported("DECLARE CURSOR WITH HOLD"));
        }
        if !self.is_in_block() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        if self.portals.contains_key(&declare.name) {
            let message = format!("cursor \"{}\" already exists", declare.name);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let now = self.begin_statement()?;
        let planned = Arc::new(self.plan(&declare.text, &declare.query, &[], now)?);
        let statement = ParsedStatement {
            text: declare.text.clone(),
            statement: Some(Statement::Dml(declare.query.clone())),
        };
        let formats = if declare.is_binary { vec![1] } else { Vec::new() };
        let mut portal = Portal {
            statement: Arc::new(statement),
            parameters: Vec::new(),
            formats,
            run: Run::Ready(Some(planned)),
            cursor: Some(CursorOptions {
                is_holdable: false,
                is_binary: declare.is_binary,
                is_scrollable: declare.is_scrollable,
                text: declare.text.statement().to_owned(),
            }),
            created_at: (self.settings.values().clock)(),
        };
        // Its rows are those of now.
        self.start(&mut portal, &declare.query)?;
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
        let Run::Query(running) = &mut portal.run else { return Err(no_cursor(&fetch.cursor)) };
        let formats: &[i16] = if is_binary { &[1] } else { caller.formats };
        if !fetch.is_move {
            running.encoding = super::encode::Encoding::new(running.planned.output(), formats);
            if caller.is_last.is_some() {
                sink.fields(&fields(running.planned.output(), formats))?;
            }
        }
        let position = i64::try_from(running.rows).unwrap_or(i64::MAX);
        let (skipped, wanted) = match fetch.direction {
            Direction::Forward(0) => return Err(SqlError::unsupported("FETCH of the current row")),
            Direction::Forward(count) if count > 0 => (0, count),
            Direction::Absolute(at) if at > position => (at - position - 1, 1),
            Direction::Relative(distance) if distance > 0 => (distance - 1, 1),
            _ => {
                return Err(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "cursor can only scan forward",
                )
                .with_hint("Declare it with SCROLL option to enable backward scan."));
            }
        };
        if skipped > 0 {
            self.pull(running, u64::try_from(skipped).unwrap_or(0), None)?;
        }
        let before = running.rows;
        let limit = if wanted == i64::MAX { 0 } else { u64::try_from(wanted).unwrap_or(0) };
        let sink = (!fetch.is_move).then_some(sink);
        self.pull(running, limit, sink)?;
        Ok(running.rows - before)
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
