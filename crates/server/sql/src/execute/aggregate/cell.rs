//! One aggregate of one group under way.

use seawall_values::aggregates::Accumulator;
use seawall_values::{Datum, SqlResult};

use super::super::compare::{Key, are_same};
use super::super::context::Context;
use super::super::expression::Expression;
use super::super::memory::Share;
use super::super::plan::AggregateCall;
use super::super::sort::Sorter;

/// The accumulator, and the rows that it gets in order at the end: those of `DISTINCT` and `ORDER BY`.
pub(crate) struct Cell {
    accumulator: Box<dyn Accumulator>,
    sorter: Option<Sorter>,
    bytes: usize,
}

impl AggregateCall {
    /// Whether rows are sorted first.
    fn is_sorted(&self) -> bool {
        self.is_distinct || !self.order.is_empty()
    }

    /// The order of rows: values of the keys in front, then the arguments. `DISTINCT` orders by the arguments, so repeats follow one
    /// another, and PostgreSQL's results come in that order as well.
    fn sort_keys(&self) -> Vec<Key> {
        let keys = self.order.iter().enumerate().map(|(at, key)| Key { at, ..*key });
        let front = self.order.len();
        let arguments = self.padded.iter().enumerate().map(|(position, is_padded)| Key {
            at: front + position,
            is_descending: false,
            is_nulls_first: false,
            is_padded: *is_padded,
        });
        let arguments = arguments.take(if self.is_distinct { self.padded.len() } else { 0 });
        keys.chain(arguments).collect()
    }

    /// The arguments of a row.
    pub(crate) fn arguments(&self, values: &mut Vec<Datum>, context: &mut Context<'_>) -> SqlResult<()> {
        for argument in &self.arguments {
            values.push(argument.evaluate(context)?);
        }
        if self.is_ordered_set {
            values.extend(self.order.iter().map(|key| context.row[key.at].clone()));
        }
        Ok(())
    }

    /// Whether the filter lets the row pass.
    pub(crate) fn accepts(&self, context: &mut Context<'_>) -> SqlResult<bool> {
        self.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(context))
    }
}

impl Cell {
    pub(crate) fn new(call: &AggregateCall) -> Cell {
        Cell {
            accumulator: (call.new)(&call.types, call.result),
            sorter: call.is_sorted().then(|| Sorter::new(call.sort_keys())),
            bytes: 0,
        }
    }

    /// Takes the row of the context.
    pub(crate) fn add(
        &mut self,
        call: &AggregateCall,
        values: &mut Vec<Datum>,
        share: &mut Share,
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        if !call.accepts(context)? {
            return Ok(());
        }
        if let (None, [Expression::Slot(slot)], false) =
            (&self.sorter, &call.arguments[..], call.is_ordered_set)
        {
            // The usual argument is a column: it is not copied.
            let arguments = std::slice::from_ref(&context.row[*slot]);
            self.accumulator.add(arguments, context.settings)?;
            return self.account(share, context);
        }
        values.clear();
        if let Some(sorter) = &mut self.sorter {
            values.extend(call.order.iter().map(|key| context.row[key.at].clone()));
            call.arguments(values, context)?;
            return sorter.push(std::mem::take(values), context);
        }
        call.arguments(values, context)?;
        self.accumulator.add(values, context.settings)?;
        self.account(share, context)
    }

    fn account(&mut self, share: &mut Share, context: &mut Context<'_>) -> SqlResult<()> {
        let bytes = self.accumulator.memory_bytes();
        if bytes > self.bytes {
            share.grow(&mut context.state.memory, bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// The result. The cell is of no use after it.
    pub(crate) fn finish(
        &mut self,
        call: &AggregateCall,
        share: &mut Share,
        context: &mut Context<'_>,
    ) -> SqlResult<Datum> {
        if let Some(mut sorter) = self.sorter.take() {
            let mut last: Option<Vec<Datum>> = None;
            while let Some(row) = sorter.next(context)? {
                context.tick()?;
                let arguments = &row[call.order.len()..];
                if call.is_distinct {
                    if last.as_ref().is_some_and(|last| are_same(last, arguments, &call.padded)) {
                        continue;
                    }
                    last = Some(arguments.to_vec());
                }
                self.accumulator.add(arguments, context.settings)?;
                self.account(share, context)?;
            }
            sorter.clear(context);
        }
        self.accumulator.result(context.settings)
    }

    /// The accumulator, for frames of windows.
    pub(crate) fn accumulator(&mut self) -> &mut dyn Accumulator {
        &mut *self.accumulator
    }

    /// Gives back the memory of rows that were to be sorted.
    pub(crate) fn discard(&mut self, context: &mut Context<'_>) {
        if let Some(sorter) = &mut self.sorter {
            sorter.clear(context);
        }
    }
}
