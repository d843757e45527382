//! Joins that run the right side for each left row. The right side may use the left row's columns.

use std::sync::Arc;

use seawall_values::SqlResult;

use super::Counting;
use super::context::Context;
use super::node::{self, Node};
use super::plan::NestedLoopPlan;
use crate::algebra::JoinKind;

/// An inner, left, semi or anti join.
pub(crate) struct NestedLoop {
    plan: Arc<NestedLoopPlan>,
    left: Box<dyn Node>,
    right: Box<dyn Node>,
    /// Whether a left row is being joined.
    has_left: bool,
    is_matched: bool,
    /// Whether the right side has been read from its beginning.
    is_right_used: bool,
}

impl NestedLoop {
    pub(crate) fn new(plan: &Arc<NestedLoopPlan>, counting: Counting) -> NestedLoop {
        NestedLoop {
            plan: plan.clone(),
            left: node::open(&plan.left, counting),
            right: node::open(&plan.right, counting),
            has_left: false,
            is_matched: false,
            is_right_used: false,
        }
    }

    fn next_left(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !self.left.next(context)? {
            return Ok(false);
        }
        if self.is_right_used {
            self.right.rewind(context)?;
        }
        self.is_right_used = true;
        self.has_left = true;
        self.is_matched = false;
        Ok(true)
    }

    /// The next right row that matches.
    fn next_match(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        while self.right.next(context)? {
            context.tick()?;
            match &self.plan.condition {
                Some(condition) if !condition.is_true(context)? => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

impl Node for NestedLoop {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        loop {
            if !self.has_left && !self.next_left(context)? {
                return Ok(false);
            }
            let is_match = self.next_match(context)?;
            match self.plan.kind {
                JoinKind::Semi | JoinKind::Anti => {
                    self.has_left = false;
                    if is_match == (self.plan.kind == JoinKind::Semi) {
                        return Ok(true);
                    }
                }
                _ if is_match => {
                    self.is_matched = true;
                    return Ok(true);
                }
                _ => {
                    self.has_left = false;
                    if self.plan.kind == JoinKind::Left && !self.is_matched {
                        context.clear(&self.plan.right_slots);
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.left.prepare(context)?;
        self.right.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.has_left = false;
        self.left.rewind(context)
    }
}
