//! Conditions, and values computed beside a row.

use std::sync::Arc;

use seawall_values::SqlResult;

use super::Counting;
use super::context::Context;
use super::node::{self, Node};
use super::plan::{ComputePlan, FilterPlan};

/// Rows for which the predicate is true.
pub(crate) struct Filter {
    plan: Arc<FilterPlan>,
    input: Box<dyn Node>,
}

impl Filter {
    pub(crate) fn new(plan: &Arc<FilterPlan>, counting: Counting) -> Filter {
        Filter { plan: plan.clone(), input: node::open(&plan.input, counting) }
    }
}

impl Node for Filter {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        while self.input.next(context)? {
            if self.plan.predicate.is_true(context)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.rewind(context)
    }
}

/// Values beside the columns of each row.
pub(crate) struct Compute {
    plan: Arc<ComputePlan>,
    input: Box<dyn Node>,
}

impl Compute {
    pub(crate) fn new(plan: &Arc<ComputePlan>, counting: Counting) -> Compute {
        Compute { plan: plan.clone(), input: node::open(&plan.input, counting) }
    }
}

impl Node for Compute {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !self.input.next(context)? {
            return Ok(false);
        }
        for (slot, value) in &self.plan.values {
            context.row[*slot] = value.evaluate(context)?;
        }
        Ok(true)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.input.rewind(context)
    }
}
