//! Rows that are written in the statement.

use std::sync::Arc;

use seawall_values::SqlResult;

use super::context::Context;
use super::node::Node;
use super::plan::ValuesPlan;

/// One row without columns, or none.
pub(crate) struct OneRow {
    has_row: bool,
    is_given: bool,
}

impl OneRow {
    pub(crate) fn new(has_row: bool) -> OneRow {
        OneRow { has_row, is_given: false }
    }
}

impl Node for OneRow {
    fn next(&mut self, _context: &mut Context<'_>) -> SqlResult<bool> {
        Ok(self.has_row && !std::mem::replace(&mut self.is_given, true))
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.is_given = false;
        Ok(())
    }
}

/// `VALUES`.
pub(crate) struct Values {
    plan: Arc<ValuesPlan>,
    next: usize,
}

impl Values {
    pub(crate) fn new(plan: &Arc<ValuesPlan>) -> Values {
        Values { plan: plan.clone(), next: 0 }
    }
}

impl Node for Values {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let Some(row) = self.plan.rows.get(self.next) else { return Ok(false) };
        context.tick()?;
        for (slot, value) in self.plan.slots.iter().zip(row) {
            context.row[*slot] = value.evaluate(context)?;
        }
        self.next += 1;
        Ok(true)
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.next = 0;
        Ok(())
    }
}
