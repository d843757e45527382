//! Functions that return sets: in `FROM`, and in lists of results.

use std::sync::Arc;

use seawall_values::functions::Call;
use seawall_values::set_returning::Rows;
use seawall_values::{Datum, SqlResult};

use super::Counting;
use super::context::Context;
use super::node::{self, Node};
use super::plan::{ComputeSetsPlan, FunctionsPlan, SetCall, SetSource};

impl SetCall {
    /// The rows of the call, with `columns` values each. Arguments are computed now.
    fn rows(&self, columns: usize, context: &mut Context<'_>) -> SqlResult<Rows> {
        let arguments: Vec<Datum> =
            self.arguments.iter().map(|argument| argument.evaluate(context)).collect::<SqlResult<_>>()?;
        let has_null = self.function.is_strict && arguments.iter().any(Datum::is_null);
        let call = Call {
            arguments: &arguments,
            argument_types: &self.types,
            result_type: self.result,
            settings: context.settings,
        };
        match &self.source {
            SetSource::Set(_) if has_null && self.function.returns_set => Ok(Box::new(std::iter::empty())),
            SetSource::Set(_) if has_null => Ok(one_row(Datum::Null, columns)),
            SetSource::Set(implementation) if columns != 1 && self.function.source == "array_unnest" => {
                let rows = implementation(&call)?;
                Ok(Box::new(rows.map(move |row| row.map(|row| fields_of(row, columns)))))
            }
            SetSource::Set(implementation) => implementation(&call),
            SetSource::Value(_) if has_null => Ok(one_row(Datum::Null, columns)),
            SetSource::Value(implementation) => Ok(one_row(implementation(&call)?, columns)),
            SetSource::Session if self.function.returns_set && has_null => Ok(Box::new(std::iter::empty())),
            SetSource::Session if self.function.returns_set => {
                context.storage.call_set(&self.function, &call)
            }
            SetSource::Session if has_null => Ok(one_row(Datum::Null, columns)),
            SetSource::Session => Ok(one_row(context.storage.call(&self.function, &call)?, columns)),
        }
    }
}

/// The fields of a row that is an element of an array.
fn fields_of(row: Vec<Datum>, columns: usize) -> Vec<Datum> {
    match row.into_iter().next() {
        Some(Datum::Record(record)) => record.values.clone(),
        _ => vec![Datum::Null; columns],
    }
}

/// A value as a set of one row; the fields of a row are its columns.
fn one_row(value: Datum, columns: usize) -> Rows {
    let row = match value {
        Datum::Record(record) if columns != 1 || record.values.len() == 1 => record.values.clone(),
        Datum::Null => vec![Datum::Null; columns],
        value => vec![value],
    };
    Box::new(std::iter::once(Ok(row)))
}

/// `FROM f(x)`, `ROWS FROM (..)`.
pub(crate) struct Functions {
    plan: Arc<FunctionsPlan>,
    /// The rows of each function; `None` after its last.
    open: Option<Vec<Option<Rows>>>,
    count: i64,
}

impl Functions {
    pub(crate) fn new(plan: &Arc<FunctionsPlan>) -> Functions {
        Functions { plan: plan.clone(), open: None, count: 0 }
    }
}

impl Node for Functions {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        context.tick()?;
        let plan = &*self.plan;
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let open =
                    plan.functions.iter().map(|(call, slots)| call.rows(slots.len(), context).map(Some));
                self.open.insert(open.collect::<SqlResult<_>>()?)
            }
        };
        let mut has_row = false;
        for (rows, (_, slots)) in open.iter_mut().zip(&plan.functions) {
            match rows.as_mut().and_then(Iterator::next).transpose()? {
                Some(values) => {
                    has_row = true;
                    context.restore(slots, values);
                }
                None => {
                    *rows = None;
                    context.clear(slots);
                }
            }
        }
        if let (true, Some(slot)) = (has_row, plan.ordinality) {
            self.count += 1;
            context.row[slot] = Datum::Int8(self.count);
        }
        Ok(has_row)
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.open = None;
        self.count = 0;
        Ok(())
    }
}

/// Sets beside each row of the input, the shorter ones filled with nulls.
pub(crate) struct ComputeSets {
    plan: Arc<ComputeSetsPlan>,
    input: Box<dyn Node>,
    open: Vec<Option<Rows>>,
}

impl ComputeSets {
    pub(crate) fn new(plan: &Arc<ComputeSetsPlan>, counting: Counting) -> ComputeSets {
        ComputeSets { plan: plan.clone(), input: node::open(&plan.input, counting), open: Vec::new() }
    }
}

impl Node for ComputeSets {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = &*self.plan;
        loop {
            context.tick()?;
            let mut has_row = false;
            for (rows, (slot, _)) in self.open.iter_mut().zip(&plan.sets) {
                let values = rows.as_mut().and_then(Iterator::next).transpose()?;
                has_row |= values.is_some();
                if values.is_none() {
                    *rows = None;
                }
                context.row[*slot] = values.map(one_value).unwrap_or_default();
            }
            if has_row {
                return Ok(true);
            }
            if !self.input.next(context)? {
                return Ok(false);
            }
            self.open.clear();
            for (_, call) in &plan.sets {
                self.open.push(Some(call.rows(1, context)?));
            }
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.open.clear();
        self.input.rewind(context)
    }
}

/// A row of a set as one value: a row of several columns is one of a composite type.
fn one_value(mut values: Vec<Datum>) -> Datum {
    if values.len() == 1 {
        return values.swap_remove(0);
    }
    let types = vec![seawall_values::oid::UNKNOWN; values.len()];
    Datum::Record(Arc::new(seawall_values::Record { types, names: None, values }))
}
