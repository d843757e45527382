//! Window functions: the rows of a partition are kept, and each function looks at those of its frame.
//!
//! The input is sorted by the partition and the order of all functions here. Aggregates go on from the frame of the row before, where
//! rows were added, or taken away from an aggregate that can take rows back; else they begin anew.

mod frame;

use std::ops::Range;
use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference};

use super::Counting;
use super::aggregate::Cell;
use super::compare::Key;
use super::context::Context;
use super::expression::Expression;
use super::memory::Share;
use super::node::{self, Node};
use super::plan::{AggregateCall, WindowFunction, WindowFunctionKind, WindowPlan};
use super::spill::{RowStore, SpillReader};
use frame::{Offsets, Rows};

/// The rows of one partition.
pub(crate) struct Partition {
    plan: Arc<WindowPlan>,
    rows: RowStore,
    reader: SpillReader,
    /// The first row of each group of equal rows.
    group_starts: Vec<usize>,
}

impl Partition {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn groups(&self) -> usize {
        self.group_starts.len()
    }

    fn group_of(&self, row: usize) -> usize {
        self.group_starts.partition_point(|start| *start <= row).saturating_sub(1)
    }

    fn group_range(&self, group: usize) -> Range<usize> {
        let start = self.group_starts.get(group).copied().unwrap_or(0);
        start..self.group_starts.get(group + 1).copied().unwrap_or_else(|| self.len())
    }

    /// The key of frames of `RANGE`, and its type.
    fn range_key(&self) -> Option<(Key, TypeReference)> {
        self.plan.order.first().copied().zip(self.plan.order_type)
    }

    fn load(&mut self, row: usize, context: &mut Context<'_>) -> SqlResult<()> {
        self.rows.load(row, &self.plan.input_slots, &mut self.reader, context)
    }
}

/// What a function keeps for a partition.
struct Progress {
    offsets: Offsets,
    cell: Option<Cell>,
    /// The rows that the cell has.
    added: Range<usize>,
    share: Share,
    result: Option<(Rows, Datum)>,
    buckets: Option<i64>,
}

pub(crate) struct Window {
    plan: Arc<WindowPlan>,
    input: Box<dyn Node>,
    partition: Partition,
    progress: Vec<Progress>,
    next: usize,
    /// The first row of the next partition.
    ahead: Option<Vec<Datum>>,
    is_input_done: bool,
    values: Vec<Datum>,
}

impl Window {
    pub(crate) fn new(plan: &Arc<WindowPlan>, counting: Counting) -> Window {
        Window {
            plan: plan.clone(),
            input: node::open(&plan.input, counting),
            partition: Partition {
                plan: plan.clone(),
                rows: RowStore::numbered(plan.input_slots.len()),
                reader: SpillReader::default(),
                group_starts: Vec::new(),
            },
            progress: Vec::new(),
            next: 0,
            ahead: None,
            is_input_done: false,
            values: Vec::new(),
        }
    }

    /// Reads the next partition. `false`: there is none.
    fn read_partition(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = self.plan.clone();
        self.forget_partition(context);
        match self.ahead.take() {
            Some(row) => context.restore(&plan.input_slots, row),
            None if self.is_input_done || !self.input.next(context)? => {
                self.is_input_done = true;
                return Ok(false);
            }
            None => {}
        }
        let partition = key_values(&plan.partition, context);
        let mut order = key_values(&plan.order, context);
        self.partition.group_starts.push(0);
        self.partition.rows.push_slots(&plan.input_slots, context)?;
        loop {
            if !self.input.next(context)? {
                self.is_input_done = true;
                break;
            }
            context.tick()?;
            if !are_equal(&plan.partition, &partition, context) {
                let mut row = Vec::with_capacity(plan.input_slots.len());
                context.save(&plan.input_slots, &mut row);
                self.ahead = Some(row);
                break;
            }
            if !are_equal(&plan.order, &order, context) {
                self.partition.group_starts.push(self.partition.len());
                order = key_values(&plan.order, context);
            }
            self.partition.rows.push_slots(&plan.input_slots, context)?;
        }
        self.partition.load(0, context)?;
        for function in &plan.functions {
            self.progress.push(Progress {
                offsets: Offsets::evaluate(&function.frame, context)?,
                cell: None,
                added: 0..0,
                share: Share::default(),
                result: None,
                buckets: None,
            });
        }
        Ok(true)
    }

    fn forget_partition(&mut self, context: &mut Context<'_>) {
        self.partition.rows.clear(context);
        self.partition.group_starts.clear();
        for progress in &mut self.progress {
            progress.share.clear(&mut context.state.memory);
        }
        self.progress.clear();
        self.next = 0;
    }
}

fn key_values(keys: &[Key], context: &Context<'_>) -> Vec<Datum> {
    keys.iter().map(|key| context.row[key.at].clone()).collect()
}

fn are_equal(keys: &[Key], values: &[Datum], context: &Context<'_>) -> bool {
    keys.iter().zip(values).all(|(key, value)| key.compare(&context.row[key.at], value).is_eq())
}

impl Node for Window {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if self.next >= self.partition.len() && !self.read_partition(context)? {
            return Ok(false);
        }
        context.tick()?;
        let row = self.next;
        self.next += 1;
        let plan = self.plan.clone();
        let mut results = std::mem::take(&mut self.values);
        results.clear();
        for (function, progress) in plan.functions.iter().zip(&mut self.progress) {
            self.partition.load(row, context)?;
            results.push(progress.evaluate(function, &mut self.partition, row, context)?);
        }
        self.partition.load(row, context)?;
        for (function, result) in plan.functions.iter().zip(results.drain(..)) {
            context.row[function.slot] = result;
        }
        self.values = results;
        Ok(true)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.forget_partition(context);
        self.ahead = None;
        self.is_input_done = false;
        self.input.rewind(context)
    }
}

/// A number of rows as `bigint`.
fn number(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// A number of rows as `double precision`; exact below 2^53.
fn real(rows: usize) -> f64 {
    rows as f64
}

impl Progress {
    /// The function's value for a row, which the context has.
    fn evaluate(
        &mut self,
        function: &WindowFunction,
        partition: &mut Partition,
        row: usize,
        context: &mut Context<'_>,
    ) -> SqlResult<Datum> {
        let rows = partition.len();
        match &function.kind {
            WindowFunctionKind::RowNumber => Ok(Datum::Int8(number(row + 1))),
            WindowFunctionKind::Rank => {
                Ok(Datum::Int8(number(partition.group_range(partition.group_of(row)).start + 1)))
            }
            WindowFunctionKind::DenseRank => Ok(Datum::Int8(number(partition.group_of(row) + 1))),
            WindowFunctionKind::PercentRank => {
                let before = partition.group_range(partition.group_of(row)).start;
                let others = rows.saturating_sub(1).max(1);
                Ok(Datum::Float8(real(before) / real(others)))
            }
            WindowFunctionKind::CumulativeDistribution => {
                let end = partition.group_range(partition.group_of(row)).end;
                Ok(Datum::Float8(real(end) / real(rows)))
            }
            WindowFunctionKind::Bucket(buckets) => self.bucket(buckets, row, rows, context),
            WindowFunctionKind::Offset { is_lead, value, offset, default } => {
                neighbour(*is_lead, value, offset.as_ref(), default.as_ref(), partition, row, context)
            }
            WindowFunctionKind::First(value) => {
                let frame = partition.frame(&function.frame, &self.offsets, row, context)?;
                let first = frame.iter().next();
                at(first, value, partition, context)
            }
            WindowFunctionKind::Last(value) => {
                let frame = partition.frame(&function.frame, &self.offsets, row, context)?;
                let last = frame.iter().next_back();
                at(last, value, partition, context)
            }
            WindowFunctionKind::Nth(value, nth) => {
                let nth = match nth.evaluate(context)? {
                    Datum::Int4(nth) => nth,
                    _ => return Ok(Datum::Null),
                };
                let nth = usize::try_from(nth).ok().and_then(|nth| nth.checked_sub(1)).ok_or_else(|| {
                    SqlError::new(SqlState::new(b"22016"), "argument of nth_value must be greater than zero")
                })?;
                let frame = partition.frame(&function.frame, &self.offsets, row, context)?;
                let wanted = frame.iter().nth(nth);
                at(wanted, value, partition, context)
            }
            WindowFunctionKind::Aggregate(call) => {
                let frame = partition.frame(&function.frame, &self.offsets, row, context)?;
                self.aggregate(call, frame, partition, context)
            }
        }
    }

    fn bucket(
        &mut self,
        buckets: &Expression,
        row: usize,
        rows: usize,
        context: &mut Context<'_>,
    ) -> SqlResult<Datum> {
        if self.buckets.is_none() {
            let Datum::Int4(buckets) = buckets.evaluate(context)? else { return Ok(Datum::Null) };
            if buckets <= 0 {
                return Err(SqlError::new(
                    SqlState::new(b"22014"),
                    "argument of ntile must be greater than zero",
                ));
            }
            self.buckets = Some(i64::from(buckets));
        }
        let buckets = self.buckets.unwrap_or(1);
        let (row, rows) = (number(row), number(rows));
        let (size, larger) = (rows / buckets, rows % buckets);
        // The first `larger` buckets have a row more.
        let in_larger = larger * (size + 1);
        let bucket =
            if row < in_larger { row / (size + 1) } else { larger + (row - in_larger) / size.max(1) };
        Ok(Datum::Int4(i32::try_from(bucket + 1).unwrap_or(i32::MAX)))
    }

    fn aggregate(
        &mut self,
        call: &AggregateCall,
        frame: Rows,
        partition: &mut Partition,
        context: &mut Context<'_>,
    ) -> SqlResult<Datum> {
        if let Some((known, result)) = &self.result
            && *known == frame
        {
            return Ok(result.clone());
        }
        let goes_on = frame.is_whole()
            && frame.range.start >= self.added.start
            && frame.range.end >= self.added.end
            && frame.range.start <= self.added.end
            && self.cell.is_some()
            && self.remove(call, frame.range.start, partition, context)?;
        if !goes_on {
            self.share.clear(&mut context.state.memory);
            self.cell = Some(Cell::new(call));
            self.added = frame.range.start..frame.range.start;
        }
        let mut values = Vec::new();
        let mut cell = self.cell.take().unwrap_or_else(|| Cell::new(call));
        for row in (self.added.end..frame.range.end).filter(|row| frame.contains(*row)) {
            context.tick()?;
            partition.load(row, context)?;
            cell.add(call, &mut values, &mut self.share, context)?;
        }
        self.added = frame.range.clone();
        let result = cell.accumulator().result(context.settings)?;
        // A frame with gaps is of no use for the next one.
        self.cell = frame.is_whole().then_some(cell);
        self.result = Some((frame, result.clone()));
        Ok(result)
    }

    /// Takes the rows before `start` back. `false`: the aggregate cannot.
    fn remove(
        &mut self,
        call: &AggregateCall,
        start: usize,
        partition: &mut Partition,
        context: &mut Context<'_>,
    ) -> SqlResult<bool> {
        let mut values = Vec::new();
        for row in self.added.start..start {
            context.tick()?;
            partition.load(row, context)?;
            if !call.accepts(context)? {
                continue;
            }
            values.clear();
            call.arguments(&mut values, context)?;
            let Some(cell) = &mut self.cell else { return Ok(false) };
            if !cell.accumulator().remove(&values, context.settings)? {
                return Ok(false);
            }
        }
        self.added.start = start;
        Ok(true)
    }
}

/// The value of an expression over a row of the partition.
fn at(
    row: Option<usize>,
    value: &Expression,
    partition: &mut Partition,
    context: &mut Context<'_>,
) -> SqlResult<Datum> {
    let Some(row) = row else { return Ok(Datum::Null) };
    partition.load(row, context)?;
    value.evaluate(context)
}

/// `lag` and `lead`.
fn neighbour(
    is_lead: bool,
    value: &Expression,
    offset: Option<&Expression>,
    default: Option<&Expression>,
    partition: &mut Partition,
    row: usize,
    context: &mut Context<'_>,
) -> SqlResult<Datum> {
    let offset = match offset.map(|offset| offset.evaluate(context)).transpose()? {
        None => 1,
        Some(Datum::Int4(offset)) => i64::from(offset),
        Some(_) => return Ok(Datum::Null),
    };
    let wanted = number(row) + if is_lead { offset } else { -offset };
    match usize::try_from(wanted).ok().filter(|wanted| *wanted < partition.len()) {
        Some(wanted) => at(Some(wanted), value, partition, context),
        None => default.map_or(Ok(Datum::Null), |default| default.evaluate(context)),
    }
}

#[cfg(test)]
mod tests;
