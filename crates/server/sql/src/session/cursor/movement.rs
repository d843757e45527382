//! Where `FETCH` and `MOVE` bring a cursor.
//!
//! ```text
//!   before the first row | row 1 | row 2 | .. | row n | after the last row
//! ```
//! A cursor that can go back keeps the rows that its query has given. One that is `SCROLL` keeps all of them; one that does not say keeps
//! what fits into memory, and cannot go back once they are more.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::portal::Running;
use super::super::{EncodedRow, Session, Sink};
use crate::parse::statement::Direction;

/// All that there are.
const ALL: u64 = u64::MAX;

/// Where a cursor is.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Place {
    /// The number of its row, from 1. After the last row: the number of that.
    row: u64,
    is_at_start: bool,
    is_at_end: bool,
}

impl Default for Place {
    fn default() -> Place {
        Place { row: 0, is_at_start: true, is_at_end: false }
    }
}

impl Place {
    fn is_on_row(self) -> bool {
        !self.is_at_start && !self.is_at_end
    }
}

fn forward_only() -> Box<SqlError> {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

fn distance(count: i64) -> u64 {
    if count == i64::MAX { ALL } else { count.unsigned_abs() }
}

impl Session {
    /// Moves a cursor, and gives the rows that it comes to; how many those are.
    pub(super) fn move_cursor(
        &mut self,
        running: &mut Running,
        direction: Direction,
        sink: Option<&mut dyn Sink>,
    ) -> SqlResult<u64> {
        if running.kept.is_none() {
            // A portal of the protocol has moved without this.
            running.place.row = running.rows;
            running.place.is_at_start &= running.rows == 0;
        }
        match direction {
            Direction::Absolute(at) if at > 0 => self.move_to(running, at.unsigned_abs(), sink),
            Direction::Absolute(0) => {
                rewind(running)?;
                Ok(0)
            }
            Direction::Absolute(from_end) => {
                self.forward(running, ALL, None)?;
                self.backward(running, from_end.unsigned_abs() - 1, None)?;
                self.backward(running, 1, sink)
            }
            Direction::Relative(0) => self.stay(running, sink),
            Direction::Relative(by) if by > 0 => {
                self.forward(running, by.unsigned_abs() - 1, None)?;
                self.forward(running, 1, sink)
            }
            Direction::Relative(by) => {
                self.backward(running, by.unsigned_abs() - 1, None)?;
                self.backward(running, 1, sink)
            }
            Direction::Forward(0) | Direction::Backward(0) => self.stay(running, sink),
            Direction::Forward(count) if count > 0 => self.forward(running, distance(count), sink),
            Direction::Backward(count) if count < 0 => self.forward(running, distance(count), sink),
            Direction::Backward(i64::MAX) if sink.is_none() => {
                let place = running.place;
                let passed = if place.is_at_end { place.row } else { place.row.saturating_sub(1) };
                rewind(running)?;
                Ok(passed)
            }
            Direction::Forward(count) | Direction::Backward(count) => {
                self.backward(running, distance(count), sink)
            }
        }
    }

    /// `ABSOLUTE`.
    fn move_to(&mut self, running: &mut Running, row: u64, sink: Option<&mut dyn Sink>) -> SqlResult<u64> {
        let place = running.place;
        let here = place.row + u64::from(place.is_at_end);
        if row - 1 <= place.row / 2 {
            rewind(running)?;
            self.forward(running, row - 1, None)?;
        } else if row <= here {
            self.backward(running, here - row + 1, None)?;
        } else {
            self.forward(running, row - here - 1, None)?;
        }
        self.forward(running, 1, sink)
    }

    /// The row where it is, again.
    fn stay(&mut self, running: &mut Running, sink: Option<&mut dyn Sink>) -> SqlResult<u64> {
        if !running.place.is_on_row() || sink.is_none() {
            return Ok(u64::from(sink.is_none() && running.place.is_on_row()));
        }
        self.backward(running, 1, None)?;
        self.forward(running, 1, sink)
    }

    fn forward(
        &mut self,
        running: &mut Running,
        count: u64,
        mut sink: Option<&mut dyn Sink>,
    ) -> SqlResult<u64> {
        if running.place.is_at_end || count == 0 {
            return Ok(0);
        }
        let place = running.place;
        let known = running.kept.as_ref().map_or(0, |kept| kept.end().saturating_sub(place.row));
        let mut given = known.min(count);
        if let Some(sink) = &mut sink {
            self.give_kept(running, place.row..place.row + given, false, *sink)?;
        }
        if given < count {
            let before = running.rows;
            let limit = if count == ALL { 0 } else { count - given };
            self.pull(running, limit, sink)?;
            given += running.rows - before;
        }
        let place = &mut running.place;
        place.is_at_start &= given == 0;
        place.is_at_end = count == ALL || given < count;
        place.row += given;
        Ok(given)
    }

    fn backward(&mut self, running: &mut Running, count: u64, sink: Option<&mut dyn Sink>) -> SqlResult<u64> {
        check_backward(running)?;
        let place = running.place;
        if place.is_at_start || count == 0 {
            return Ok(0);
        }
        let before = if place.is_at_end { place.row } else { place.row - 1 };
        let given = before.min(count);
        if let Some(sink) = sink {
            self.give_kept(running, before - given..before, true, sink)?;
        }
        running.place = match count == ALL || given < count {
            true => Place { row: 0, is_at_start: true, is_at_end: place.is_at_end && given == 0 },
            false => Place { row: before - given + 1, is_at_start: false, is_at_end: false },
        };
        Ok(given)
    }

    /// Gives rows that are kept, by their numbers from 0.
    fn give_kept(
        &mut self,
        running: &mut Running,
        rows: std::ops::Range<u64>,
        is_backward: bool,
        sink: &mut dyn Sink,
    ) -> SqlResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let as_of = self.begin_statement()?;
        let (settings, cancel) = (self.settings.values(), Arc::clone(&self.cancel.requested));
        let Running { encoding, kept: Some(kept), .. } = running else { return Err(forward_only()) };
        self.with_tables(as_of, |tables| {
            let mut row = EncodedRow::default();
            for index in 0..rows.end - rows.start {
                if cancel.is_requested() {
                    return Err(crate::execute::cancelled());
                }
                let number = if is_backward { rows.end - 1 - index } else { rows.start + index };
                encoding.encode(kept.read(number)?.iter(), &settings, tables, &mut row)?;
                sink.row(&row)?;
            }
            Ok(())
        })
    }
}

fn check_backward(running: &Running) -> SqlResult<()> {
    if running.can_go_back() { Ok(()) } else { Err(forward_only()) }
}

/// Back to before the first row.
fn rewind(running: &mut Running) -> SqlResult<()> {
    if running.place.is_at_start && !running.place.is_at_end {
        return Ok(());
    }
    check_backward(running)?;
    running.place = Place::default();
    Ok(())
}
