//! `LIMIT`, `OFFSET`, `FETCH FIRST .. WITH TIES`.

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::Counting;
use super::compare::Key;
use super::context::Context;
use super::expression::Expression;
use super::node::{self, Node};
use super::plan::{LimitPlan, Top};

/// The values of a limit and an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    count: Option<u64>,
    offset: u64,
}

impl Bounds {
    pub(crate) fn evaluate(top: &Top, context: &mut Context<'_>) -> SqlResult<Bounds> {
        let offset = number(top.offset.as_ref(), context)?.unwrap_or(0);
        let offset = u64::try_from(offset).map_err(|_| {
            SqlError::new(SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET must not be negative")
        })?;
        let count = number(top.count.as_ref(), context)?;
        let count = count
            .map(u64::try_from)
            .transpose()
            .map_err(|_| SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT must not be negative"))?;
        Ok(Bounds { count, offset })
    }

    /// How many rows of the input are looked at.
    pub(crate) fn end(self) -> Option<usize> {
        usize::try_from(self.count?.checked_add(self.offset)?).ok()
    }
}

fn number(expression: Option<&Expression>, context: &mut Context<'_>) -> SqlResult<Option<i64>> {
    let Some(expression) = expression else { return Ok(None) };
    match expression.evaluate(context)? {
        Datum::Null => Ok(None),
        Datum::Int8(value) => Ok(Some(value)),
        Datum::Int4(value) => Ok(Some(i64::from(value))),
        Datum::Int2(value) => Ok(Some(i64::from(value))),
        other => Err(SqlError::internal(format!("a limit of {other:?}"))),
    }
}

/// Some of the rows.
pub(crate) struct Limit {
    plan: Arc<LimitPlan>,
    input: Box<dyn Node>,
    bounds: Option<Bounds>,
    given: u64,
    /// The keys of the last row, for its equals.
    last: Vec<Datum>,
    is_done: bool,
}

impl Limit {
    pub(crate) fn new(plan: &Arc<LimitPlan>, counting: Counting) -> Limit {
        Limit {
            plan: plan.clone(),
            input: node::open(&plan.input, counting),
            bounds: None,
            given: 0,
            last: Vec::new(),
            is_done: false,
        }
    }

    fn start(&mut self, context: &mut Context<'_>) -> SqlResult<Bounds> {
        let bounds = Bounds::evaluate(&self.plan.top, context)?;
        self.bounds = Some(bounds);
        if bounds.count == Some(0) {
            self.is_done = true;
            return Ok(bounds);
        }
        for _ in 0..bounds.offset {
            if !self.input.next(context)? {
                self.is_done = true;
                break;
            }
        }
        Ok(bounds)
    }

    /// A row after the last one, if it is its equal.
    fn next_tie(&mut self, keys: &[Key], context: &mut Context<'_>) -> SqlResult<bool> {
        if !self.input.next(context)? {
            return Ok(false);
        }
        let mut pairs = keys.iter().zip(&self.last);
        Ok(pairs.all(|(key, value)| key.compare(&context.row[key.at], value).is_eq()))
    }
}

impl Node for Limit {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let bounds = match self.bounds {
            Some(bounds) => bounds,
            None => self.start(context)?,
        };
        if self.is_done {
            return Ok(false);
        }
        let plan = self.plan.clone();
        let has_row = match (bounds.count, &plan.ties) {
            (Some(count), Some(keys)) if self.given >= count => self.next_tie(keys, context)?,
            (Some(count), None) if self.given >= count => false,
            _ => self.input.next(context)?,
        };
        if !has_row {
            self.is_done = true;
            return Ok(false);
        }
        self.given += 1;
        if let (Some(keys), true) = (&plan.ties, bounds.count == Some(self.given)) {
            self.last.clear();
            self.last.extend(keys.iter().map(|key| context.row[key.at].clone()));
        }
        Ok(true)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.bounds = None;
        self.given = 0;
        self.is_done = false;
        self.input.rewind(context)
    }
}
