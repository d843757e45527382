//! Queries inside of expressions.

use std::sync::Arc;

use seawall_values::datum::{Array, Record};
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::Counting;
use super::compare::is_same;
use super::context::Context;
use super::expression::{Expression, from_truth, nest};
use super::groups::Groups;
use super::memory::{Share, values_bytes};
use super::node::{self, Node};
use super::plan::{SubqueryPlan, SubqueryPlanKind};

/// A subquery under way. Its value is kept if it depends on nothing outside.
pub(crate) struct SubqueryState {
    plan: Arc<SubqueryPlan>,
    node: Option<Box<dyn Node>>,
    value: Option<Datum>,
    set: Option<ValueSet>,
    share: Share,
}

/// The value of a subquery, by its number.
pub(crate) fn evaluate(number: usize, context: &mut Context<'_>) -> SqlResult<Datum> {
    let entry = context.state.subqueries.get_mut(number);
    let Some(mut subquery) = entry.and_then(Option::take) else {
        return Err(SqlError::internal(format!("subquery {number} is evaluated inside of itself")));
    };
    let value = subquery.evaluate(context);
    context.state.subqueries[number] = Some(subquery);
    value
}

impl SubqueryState {
    pub(crate) fn new(plan: &Arc<SubqueryPlan>) -> SubqueryState {
        SubqueryState { plan: plan.clone(), node: None, value: None, set: None, share: Share::default() }
    }

    fn evaluate(&mut self, context: &mut Context<'_>) -> SqlResult<Datum> {
        if let Some(value) = &self.value {
            return Ok(value.clone());
        }
        let plan = self.plan.clone();
        if let SubqueryPlanKind::HashedAny { outer, .. } = &plan.kind {
            return self.is_in_set(outer, context);
        }
        let value = self.run(&plan, context)?;
        // The test of `ANY` sees columns from outside, even where the query does not.
        let has_test = matches!(plan.kind, SubqueryPlanKind::Any(_) | SubqueryPlanKind::All(_));
        if !plan.is_correlated && !has_test {
            self.value = Some(value.clone());
        }
        Ok(value)
    }

    /// The query, at its beginning.
    fn start(&mut self, context: &mut Context<'_>) -> SqlResult<&mut Box<dyn Node>> {
        match &mut self.node {
            Some(node) => node.rewind(context)?,
            None => {
                let counting = if context.state.counters.is_empty() { Counting::Off } else { Counting::Rows };
                self.node = Some(node::open(&self.plan.plan, counting));
            }
        }
        self.node.as_mut().ok_or_else(|| SqlError::internal("a subquery was not opened"))
    }

    fn run(&mut self, plan: &SubqueryPlan, context: &mut Context<'_>) -> SqlResult<Datum> {
        let node = self.start(context)?;
        match &plan.kind {
            SubqueryPlanKind::Scalar => only_row(node, context, |context| {
                plan.slots.first().map(|slot| context.row[*slot].clone()).unwrap_or_default()
            }),
            SubqueryPlanKind::Row(types) => only_row(node, context, |context| {
                let values = plan.slots.iter().map(|slot| context.row[*slot].clone()).collect();
                Datum::Record(Arc::new(Record { types: types.clone(), names: None, values }))
            }),
            SubqueryPlanKind::Exists => Ok(Datum::Bool(node.next(context)?)),
            SubqueryPlanKind::Any(test) => quantified(node, test, true, context),
            SubqueryPlanKind::All(test) => quantified(node, test, false, context),
            SubqueryPlanKind::Array { element, is_nested } => {
                let mut values = Vec::new();
                let mut share = Share::default();
                while node.next(context)? {
                    let value = plan.slots.first().map(|slot| context.row[*slot].clone()).unwrap_or_default();
                    share.grow(&mut context.state.memory, values_bytes(std::slice::from_ref(&value)))?;
                    values.push(value);
                }
                share.clear(&mut context.state.memory);
                let array = if *is_nested {
                    nest(*element, values)?
                } else {
                    Array::one_dimensional(*element, values)
                };
                Ok(Datum::Array(Arc::new(array)))
            }
            SubqueryPlanKind::HashedAny { .. } => Err(SqlError::internal("a hashed subquery was run")),
        }
    }

    fn is_in_set(&mut self, outer: &[Expression], context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut values = Vec::with_capacity(outer.len());
        for expression in outer {
            values.push(expression.evaluate(context)?);
        }
        let set = match self.set.take() {
            Some(set) => set,
            None => self.build_set(context)?,
        };
        let truth = set.contains(&values);
        if self.plan.is_correlated {
            self.share.clear(&mut context.state.memory);
        } else {
            self.set = Some(set);
        }
        Ok(from_truth(truth))
    }

    fn build_set(&mut self, context: &mut Context<'_>) -> SqlResult<ValueSet> {
        let plan = self.plan.clone();
        let SubqueryPlanKind::HashedAny { inner, padded, .. } = &plan.kind else {
            return Err(SqlError::internal("a subquery without a set was hashed"));
        };
        let mut set = ValueSet { known: Groups::new(padded.clone()), with_nulls: Vec::new() };
        let mut with_nulls_bytes = 0;
        self.start(context)?;
        let Some(mut node) = self.node.take() else {
            return Err(SqlError::internal("a subquery was not opened"));
        };
        let mut values = Vec::with_capacity(inner.len());
        while node.next(context)? {
            values.clear();
            for expression in inner {
                values.push(expression.evaluate(context)?);
            }
            if !values.iter().any(Datum::is_null) {
                set.known.enter(&values)?;
            } else if values.len() > 1 || set.with_nulls.is_empty() {
                // Of single values one null says it all.
                with_nulls_bytes += values_bytes(&values);
                set.with_nulls.push(values.clone());
            }
            self.share.set(&mut context.state.memory, set.known.bytes() + with_nulls_bytes)?;
        }
        self.node = Some(node);
        Ok(set)
    }
}

/// The rows of a hashed `IN`.
struct ValueSet {
    known: Groups,
    /// Rows with a null in them: they equal nothing, and may be equal to much.
    with_nulls: Vec<Vec<Datum>>,
}

impl ValueSet {
    /// Whether the values are in it; `None`: a null leaves it open.
    fn contains(&self, values: &[Datum]) -> Option<bool> {
        if values.iter().any(Datum::is_null) {
            let mut all = (0..self.known.len()).map(|number| self.known.get(number));
            let may_be = all.any(|row| self.may_equal(row, values)) || self.may_equal_nulls(values);
            return if may_be { None } else { Some(false) };
        }
        if self.known.find(self.known.hash(values), values).is_some() {
            return Some(true);
        }
        if self.may_equal_nulls(values) { None } else { Some(false) }
    }

    fn may_equal_nulls(&self, values: &[Datum]) -> bool {
        self.with_nulls.iter().any(|row| self.may_equal(row, values))
    }

    /// Whether no pair of values that are not null differs.
    fn may_equal(&self, row: &[Datum], values: &[Datum]) -> bool {
        row.iter()
            .zip(values)
            .zip(self.known.padded())
            .all(|((left, right), padded)| left.is_null() || right.is_null() || is_same(left, right, *padded))
    }
}

fn only_row(
    node: &mut Box<dyn Node>,
    context: &mut Context<'_>,
    value: impl Fn(&Context<'_>) -> Datum,
) -> SqlResult<Datum> {
    if !node.next(context)? {
        return Ok(Datum::Null);
    }
    let value = value(context);
    if node.next(context)? {
        return Err(SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        ));
    }
    Ok(value)
}

/// `ANY` and `ALL`: the first row whose test is decisive, else null if a test was null.
fn quantified(
    node: &mut Box<dyn Node>,
    test: &Expression,
    decisive: bool,
    context: &mut Context<'_>,
) -> SqlResult<Datum> {
    let mut has_null = false;
    while node.next(context)? {
        match test.truth(context)? {
            Some(value) if value == decisive => return Ok(Datum::Bool(decisive)),
            Some(_) => {}
            None => has_null = true,
        }
    }
    Ok(from_truth((!has_null).then_some(!decisive)))
}
