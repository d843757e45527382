//! Aggregates and window functions as nodes.

use std::sync::Arc;

use seawall_values::aggregates::aggregate;
use seawall_values::{SqlError, SqlResult, TypeReference, oid};

use super::lower::{EXPRESSION_COST, ROW_COST};
use super::planner::{Estimate, Planner};
use super::walk::{Columns, made, used_here};
use crate::algebra::{Aggregation, ColumnId, Frame, FrameBound, Relation, SortKey, WindowCall};
use crate::execute::is_padded;
use crate::execute::plan::{
    AggregateCall, AggregatePlan, BoundPlan, FramePlan, PlanKind, PlanNode, WindowFunction,
    WindowFunctionKind, WindowPlan,
};

/// Different values of something about which nothing is known.
const GROUPS_DEFAULT: f64 = 200.0;

impl Planner<'_> {
    pub(super) fn lower_aggregate(
        &mut self,
        relation: &Relation,
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let Relation::Aggregate { input, groups, sets, grouping, aggregates } = relation else {
            return Err(SqlError::internal("no aggregate"));
        };
        if groups.is_empty()
            && sets.len() <= 1
            && grouping.is_empty()
            && let Some(relation) = self.extremes(input, aggregates)
        {
            return self.lower(&relation, needed);
        }
        let aggregates: Vec<_> = aggregates.iter().filter(|(column, _)| needed.contains(column)).collect();
        let mut inner = used_here(relation);
        inner.retain(|column| !needed.contains(column) || made(input).contains(column));
        inner.extend(groups.iter().map(|(column, _)| *column));
        let kept: Columns = made(input).intersection(&inner).copied().collect();
        let input = self.lower(input, &inner)?;
        for (column, of) in groups {
            self.types.insert(*column, *of);
        }
        let mut calls = Vec::with_capacity(aggregates.len());
        for (column, call) in aggregates {
            self.types.insert(*column, call.of);
            let slot = self.slot(*column);
            calls.push(self.aggregate_call(slot, call)?);
        }
        for (column, _) in grouping {
            self.types.insert(*column, TypeReference::of(oid::INT4));
        }
        let all = (0..groups.len()).collect();
        let columns: Vec<_> = groups.iter().map(|(column, _)| *column).collect();
        let rows = self.group_count(&columns, input.rows);
        let cost = input.cost + input.rows * (ROW_COST + EXPRESSION_COST * calls.len() as f64);
        let estimate = Estimate { rows, startup: cost, cost: cost + rows * ROW_COST };
        let width = 8 * (groups.len() + calls.len());
        let plan = AggregatePlan {
            groups: self.slots(groups.iter().map(|(column, _)| *column)),
            padded: groups.iter().map(|(_, of)| is_padded(of.oid)).collect(),
            sets: if sets.is_empty() { vec![all] } else { sets.clone() },
            grouping: grouping.iter().map(|(column, at)| (self.slot(*column), at.clone())).collect(),
            aggregates: calls,
            input_slots: self.slots_of(&kept),
            input,
        };
        Ok(self.node(PlanKind::Aggregate(Arc::new(plan)), estimate, width, is_correlated))
    }

    /// About how many different lists of values some columns have among so many rows.
    pub(super) fn group_count(&mut self, columns: &[ColumnId], rows: f64) -> f64 {
        let mut count = 1.0;
        for column in columns {
            count *= self.distinct_of_column(*column).unwrap_or(GROUPS_DEFAULT);
        }
        count.min(rows).max(1.0)
    }

    fn aggregate_call(&mut self, slot: usize, call: &Aggregation) -> SqlResult<AggregateCall> {
        let function = &call.function;
        let new = aggregate(&function.name, &function.arguments)
            .ok_or_else(|| SqlError::unsupported(format!("aggregate {}", function.name)))?;
        // Of `WITHIN GROUP` the ordered values are declared as arguments as well.
        let is_ordered_set = !call.order.is_empty()
            && function.variadic == 0
            && call.arguments.len() < function.arguments.len();
        let mut types: Vec<_> = call.arguments.iter().map(|argument| argument.of).collect();
        if is_ordered_set {
            types.extend(call.order.iter().map(|key| key.of));
        }
        Ok(AggregateCall {
            slot,
            name: function.name.clone(),
            new,
            arguments: self.expressions(&call.arguments)?,
            padded: types.iter().map(|of| is_padded(of.oid)).collect(),
            types,
            result: call.of,
            is_distinct: call.is_distinct,
            order: self.keys(&call.order),
            is_ordered_set,
            filter: call.filter.as_ref().map(|filter| self.expression(filter)).transpose()?,
        })
    }

    /// Functions with the same partitioning and order share a node; nodes are one above the other, each over its own sort.
    pub(super) fn lower_window(
        &mut self,
        input: &Relation,
        functions: &[(ColumnId, WindowCall)],
        needed: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut inner = needed.clone();
        inner.extend(used_here(&Relation::Window {
            input: Box::new(Relation::OneRow),
            functions: functions.to_vec(),
        }));
        let mut kept: Columns = made(input).intersection(&inner).copied().collect();
        let mut plan = self.lower(input, &inner)?;
        let mut rest: Vec<&(ColumnId, WindowCall)> = functions.iter().collect();
        while let Some((_, first)) = rest.first() {
            let (partition, order) = (&first.partition, &first.order);
            let (same, others): (Vec<_>, Vec<_>) = rest
                .iter()
                .copied()
                .partition(|(_, call)| call.partition == *partition && call.order == *order);
            let keys: Vec<SortKey> = partition
                .iter()
                .map(|column| SortKey {
                    column: *column,
                    of: TypeReference::of(self.type_of(*column)),
                    is_descending: false,
                    is_nulls_first: false,
                })
                .chain(order.iter().copied())
                .collect();
            if !keys.is_empty() {
                plan = self.sorted(plan, &keys, &kept, None, is_correlated);
            }
            plan = self.window_node(plan, &keys, partition.len(), &same, &kept, is_correlated)?;
            kept.extend(same.iter().map(|(column, _)| *column));
            rest = others;
        }
        Ok(plan)
    }

    fn window_node(
        &mut self,
        input: PlanNode,
        keys: &[SortKey],
        partitions: usize,
        functions: &[&(ColumnId, WindowCall)],
        kept: &Columns,
        is_correlated: bool,
    ) -> SqlResult<PlanNode> {
        let mut compiled = Vec::with_capacity(functions.len());
        for (column, call) in functions {
            self.types.insert(*column, call.call.of);
            let slot = self.slot(*column);
            compiled.push(WindowFunction {
                slot,
                kind: self.window_kind(slot, &call.call)?,
                frame: self.frame(&call.frame)?,
            });
        }
        let cost = input.cost + input.rows * (ROW_COST + EXPRESSION_COST * compiled.len() as f64);
        let estimate = Estimate { rows: input.rows, startup: input.startup, cost };
        let width = input.width + 8 * compiled.len();
        let (partition, order) = keys.split_at(partitions);
        let plan = WindowPlan {
            input,
            partition: self.keys(partition),
            order: self.keys(order),
            order_type: order.first().map(|key| key.of),
            functions: compiled,
            input_slots: self.slots_of(kept),
        };
        Ok(self.node(PlanKind::Window(Arc::new(plan)), estimate, width, is_correlated))
    }

    fn window_kind(&mut self, slot: usize, call: &Aggregation) -> SqlResult<WindowFunctionKind> {
        let name = call.function.name.as_str();
        if call.function.kind != seawall_values::system::FunctionKind::Window {
            return self.aggregate_call(slot, call).map(WindowFunctionKind::Aggregate);
        }
        let mut arguments = self.expressions(&call.arguments)?.into_iter();
        let mut next =
            || arguments.next().ok_or_else(|| SqlError::internal(format!("{name} lacks an argument")));
        Ok(match name {
            "row_number" => WindowFunctionKind::RowNumber,
            "rank" => WindowFunctionKind::Rank,
            "dense_rank" => WindowFunctionKind::DenseRank,
            "percent_rank" => WindowFunctionKind::PercentRank,
            "cume_dist" => WindowFunctionKind::CumulativeDistribution,
            "ntile" => WindowFunctionKind::Bucket(next()?),
            "lag" | "lead" => WindowFunctionKind::Offset {
                is_lead: name == "lead",
                value: next()?,
                offset: arguments.next(),
                default: arguments.next(),
            },
            "first_value" => WindowFunctionKind::First(next()?),
            "last_value" => WindowFunctionKind::Last(next()?),
            "nth_value" => WindowFunctionKind::Nth(next()?, next()?),
            other => return Err(SqlError::unsupported(format!("window function {other}"))),
        })
    }

    fn frame(&mut self, frame: &Frame) -> SqlResult<FramePlan> {
        Ok(FramePlan {
            unit: frame.unit,
            start: self.bound(&frame.start)?,
            end: self.bound(&frame.end)?,
            exclude: frame.exclude,
        })
    }

    fn bound(&mut self, bound: &FrameBound) -> SqlResult<BoundPlan> {
        Ok(match bound {
            FrameBound::UnboundedPreceding => BoundPlan::UnboundedPreceding,
            FrameBound::Preceding(offset) => BoundPlan::Preceding(self.expression(offset)?, offset.of),
            FrameBound::CurrentRow => BoundPlan::CurrentRow,
            FrameBound::Following(offset) => BoundPlan::Following(self.expression(offset)?, offset.of),
            FrameBound::UnboundedFollowing => BoundPlan::UnboundedFollowing,
        })
    }
}
