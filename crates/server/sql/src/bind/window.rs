//! Window functions.

use seawall_values::system::{CastContext, FunctionKind};
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference, aggregates, oid};
use sqlparser::ast::{
    Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, NamedWindowDefinition, NamedWindowExpr,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::Binder;
use super::aggregate::AggregateParts;
use super::call::{FunctionName, FunctionOrCast, not_there};
use super::coerce::can_coerce;
use super::expression::{IMPLICIT, folded};
use super::scope::Clause;
use super::types::type_name;
use crate::algebra::{
    Aggregation, ColumnId, Expression, ExpressionKind, Frame, FrameBound, FrameExclusion, FrameUnit,
    Relation, SortKey, WindowCall,
};

/// `WINDOW w AS (..)`.
pub(super) fn named_windows(list: &[NamedWindowDefinition]) -> SqlResult<Vec<(String, WindowSpec)>> {
    let mut named: Vec<(String, WindowSpec)> = Vec::with_capacity(list.len());
    for NamedWindowDefinition(name, definition) in list {
        let name = folded(name);
        if named.iter().any(|(known, _)| *known == name) {
            let message = format!("window \"{name}\" is already defined");
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
        }
        let spec = match definition {
            NamedWindowExpr::WindowSpec(spec) => spec.clone(),
            NamedWindowExpr::NamedWindow(other) => WindowSpec {
                window_name: Some(other.clone()),
                partition_by: Vec::new(),
                order_by: Vec::new(),
                window_frame: None,
            },
        };
        named.push((name, spec));
    }
    Ok(named)
}

impl Binder<'_> {
    pub(super) fn window_call(
        &mut self,
        name: &FunctionName,
        call: &Function,
        list: &FunctionArgumentList,
        over: &WindowType,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let clause = self.scope().clause();
        if self.scope().is_in_window {
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, "window function calls cannot be nested")
                .at(position));
        }
        if self.scope().is_in_aggregate {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(position));
        }
        if !clause.allows_windows() {
            let message = format!("window functions are not allowed in {}", clause.name());
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position));
        }
        if call.null_treatment.is_some() {
            return Err(
                SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"NULLS\"").at(position)
            );
        }
        self.scope().is_in_window = true;
        let message = "window function calls cannot contain set-returning function calls";
        let bound = self.without_sets(message, |binder| binder.windowed_call(name, call, list, position));
        self.scope().is_in_window = false;
        let bound = bound?;
        let spec = self.window_spec(over, position)?;
        let (partition, order, frame) =
            self.in_clause(Clause::Window, |binder| binder.window(&spec, position))?;
        let of = bound.of;
        let id = self.new_column();
        self.scope().windows.push((id, WindowCall { call: bound, partition, order, frame }));
        Ok(Expression { kind: ExpressionKind::Column(id), of, position })
    }

    fn windowed_call(
        &mut self,
        name: &FunctionName,
        call: &Function,
        list: &FunctionArgumentList,
        position: Option<u32>,
    ) -> SqlResult<Aggregation> {
        let functions = seawall_values::system::system().functions_named(&name.name);
        // `rank` is both: with `OVER` it is the window function.
        let is_of = |kind| functions.iter().any(|function| function.kind == kind);
        let is_aggregate = is_of(FunctionKind::Aggregate) && !is_of(FunctionKind::Window);
        let is_distinct =
            list.duplicate_treatment.is_some_and(|kind| kind == sqlparser::ast::DuplicateTreatment::Distinct);
        if is_distinct {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "DISTINCT is not implemented for window functions",
            )
            .at(position));
        }
        if !call.within_group.is_empty() {
            let message = format!("OVER is not supported for ordered-set aggregate {}", name.name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        if list
            .clauses
            .iter()
            .any(|clause| matches!(clause, sqlparser::ast::FunctionArgumentClause::OrderBy(_)))
        {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        if is_aggregate {
            let parts = AggregateParts {
                arguments: &list.args,
                is_distinct: false,
                order: &[],
                within: &[],
                filter: call.filter.as_deref(),
            };
            let (_, aggregation) = self.aggregation(name, &parts, false, position)?;
            return Ok(aggregation);
        }
        if call.filter.is_some() {
            let message = "FILTER is not implemented for non-aggregate window functions";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        let is_star = matches!(
            list.args.as_slice(),
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_))]
        );
        let (arguments, is_variadic) =
            if is_star { (Vec::new(), false) } else { self.arguments(&list.args, position)? };
        let chosen = match self.call(name, arguments, is_variadic, position)? {
            FunctionOrCast::Function(chosen) => *chosen,
            FunctionOrCast::Cast(_) => {
                let message = format!(
                    "OVER specified, but {} is not a window function nor an aggregate function",
                    name.name
                );
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(position));
            }
        };
        match chosen.function.kind {
            FunctionKind::Window => {}
            FunctionKind::Aggregate
                if aggregates::aggregate(&chosen.function.name, &chosen.function.arguments).is_some() => {}
            FunctionKind::Aggregate => return Err(not_there(&chosen.function).at(position)),
            FunctionKind::Function | FunctionKind::Procedure => {
                let message = format!(
                    "OVER specified, but {} is not a window function nor an aggregate function",
                    name.name
                );
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(position));
            }
        }
        Ok(Aggregation {
            function: chosen.function,
            arguments: chosen.arguments,
            is_distinct: false,
            order: Vec::new(),
            filter: None,
            of: TypeReference::of(chosen.result),
        })
    }

    /// The definition of a window with that of the one it builds on.
    fn window_spec(&mut self, over: &WindowType, position: Option<u32>) -> SqlResult<WindowSpec> {
        let (spec, base, is_name) = match over {
            WindowType::NamedWindow(name) => (None, Some(folded(name)), true),
            WindowType::WindowSpec(spec) => {
                (Some(spec.clone()), spec.window_name.as_ref().map(folded), false)
            }
        };
        let Some(base) = base else {
            return spec.ok_or_else(|| SqlError::internal("a window without a definition"));
        };
        let named = self.scope().named_windows.clone();
        let Some((_, found)) = named.iter().find(|(name, _)| *name == base) else {
            let message = format!("window \"{base}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position));
        };
        // A name may be of a window that builds on another one.
        let found = match &found.window_name {
            Some(name) if folded(name) != base => {
                self.window_spec(&WindowType::WindowSpec(found.clone()), position)?
            }
            _ => found.clone(),
        };
        if is_name {
            return Ok(found);
        }
        let spec = spec.ok_or_else(|| SqlError::internal("a window without a definition"))?;
        let refused = |what: &str| {
            let message = format!("cannot override {what} of window \"{base}\"");
            Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position))
        };
        if !spec.partition_by.is_empty() {
            return refused("PARTITION BY clause");
        }
        if !spec.order_by.is_empty() && !found.order_by.is_empty() {
            return refused("ORDER BY clause");
        }
        if found.window_frame.is_some() {
            let message = format!("cannot copy window \"{base}\" because it has a frame clause");
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position));
        }
        Ok(WindowSpec {
            window_name: None,
            partition_by: found.partition_by,
            order_by: if spec.order_by.is_empty() { found.order_by } else { spec.order_by },
            window_frame: spec.window_frame,
        })
    }

    fn window(
        &mut self,
        spec: &WindowSpec,
        position: Option<u32>,
    ) -> SqlResult<(Vec<ColumnId>, Vec<SortKey>, Frame)> {
        let mut inputs = std::mem::take(&mut self.scope().window_inputs);
        let result = self.window_parts(spec, &mut inputs, position);
        self.scope().window_inputs = inputs;
        result
    }

    fn window_parts(
        &mut self,
        spec: &WindowSpec,
        inputs: &mut Vec<(ColumnId, Expression)>,
        position: Option<u32>,
    ) -> SqlResult<(Vec<ColumnId>, Vec<SortKey>, Frame)> {
        let mut partition = Vec::with_capacity(spec.partition_by.len());
        for expr in &spec.partition_by {
            let value = self.expression(expr)?;
            let value = self.known(value)?;
            partition.push(self.as_column(value, inputs).0);
        }
        let mut order = Vec::with_capacity(spec.order_by.len());
        for written in &spec.order_by {
            let value = self.expression(&written.expr)?;
            let value = self.known(value)?;
            let (id, of) = self.as_column(value, inputs);
            order.push(self.sort_key(id, of, written, position)?);
        }
        let frame = self.frame(spec.window_frame.as_ref(), &order, position)?;
        Ok((partition, order, frame))
    }

    fn frame(
        &mut self,
        written: Option<&WindowFrame>,
        order: &[SortKey],
        position: Option<u32>,
    ) -> SqlResult<Frame> {
        let Some(written) = written else {
            return Ok(Frame {
                unit: FrameUnit::Range,
                start: FrameBound::UnboundedPreceding,
                end: FrameBound::CurrentRow,
                exclude: FrameExclusion::NoOthers,
            });
        };
        let exclude = crate::parse::marked_exclusion(written);
        let written = &crate::parse::unmarked_frame(written);
        let unit = match written.units {
            WindowFrameUnits::Rows => FrameUnit::Rows,
            WindowFrameUnits::Range => FrameUnit::Range,
            WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let error = |message: &str| Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position));
        if unit == FrameUnit::Groups && order.is_empty() {
            return error("GROUPS mode requires an ORDER BY clause");
        }
        let end = written.end_bound.clone().unwrap_or(WindowFrameBound::CurrentRow);
        match (&written.start_bound, &end) {
            (WindowFrameBound::Following(None), _) => {
                return error("frame start cannot be UNBOUNDED FOLLOWING");
            }
            (_, WindowFrameBound::Preceding(None)) => {
                return error("frame end cannot be UNBOUNDED PRECEDING");
            }
            (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(_)) => {
                return error("frame starting from current row cannot have preceding rows");
            }
            (WindowFrameBound::Following(_), WindowFrameBound::Preceding(_)) => {
                return error("frame starting from following row cannot have preceding rows");
            }
            (WindowFrameBound::Following(_), WindowFrameBound::CurrentRow) => {
                return error("frame starting from following row cannot end with current row");
            }
            _ => {}
        }
        let start = self.frame_bound(&written.start_bound, true, unit, order, position)?;
        let end = self.frame_bound(&end, false, unit, order, position)?;
        Ok(Frame { unit, start, end, exclude })
    }

    fn frame_bound(
        &mut self,
        bound: &WindowFrameBound,
        is_start: bool,
        unit: FrameUnit,
        order: &[SortKey],
        position: Option<u32>,
    ) -> SqlResult<FrameBound> {
        Ok(match bound {
            WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
            WindowFrameBound::Preceding(None) => FrameBound::UnboundedPreceding,
            WindowFrameBound::Following(None) => FrameBound::UnboundedFollowing,
            WindowFrameBound::Preceding(Some(expr)) => {
                FrameBound::Preceding(Box::new(self.frame_offset(expr, is_start, unit, order, position)?))
            }
            WindowFrameBound::Following(Some(expr)) => {
                FrameBound::Following(Box::new(self.frame_offset(expr, is_start, unit, order, position)?))
            }
        })
    }

    fn frame_offset(
        &mut self,
        expr: &sqlparser::ast::Expr,
        _is_start: bool,
        unit: FrameUnit,
        order: &[SortKey],
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let value = self.expression(expr)?;
        let construct = match unit {
            FrameUnit::Rows => "ROWS",
            FrameUnit::Groups => "GROUPS",
            FrameUnit::Range => {
                let [key] = order else {
                    let message =
                        "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                    return Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position));
                };
                let Some(target) = offset_type(key.of.oid, value.of.oid) else {
                    let message = format!(
                        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                        type_name(key.of.oid)
                    );
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
                };
                if !can_coerce(value.of.oid, target, CastContext::Implicit) {
                    let message = format!(
                        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
                        type_name(key.of.oid),
                        type_name(value.of.oid)
                    );
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .with_hint("Cast the offset value to an appropriate type.")
                        .at(position));
                }
                return self.coerce(value, target, CastContext::Implicit, IMPLICIT);
            }
        };
        self.coerce_to_type(value, oid::INT8, construct)
    }

    /// The window functions of this query, above what they partition and sort by.
    pub(super) fn windowed(&mut self, relation: Relation) -> Relation {
        let functions = std::mem::take(&mut self.scope().windows);
        if functions.is_empty() {
            return relation;
        }
        let inputs = std::mem::take(&mut self.scope().window_inputs);
        let relation = match inputs.is_empty() {
            true => relation,
            false => Relation::Compute { input: Box::new(relation), values: inputs },
        };
        Relation::Window { input: Box::new(relation), functions }
    }
}

/// The type of an offset in the order of a type, as PostgreSQL's `in_range` functions have it.
fn offset_type(key: Oid, offset: Oid) -> Option<Oid> {
    Some(match key {
        oid::INT2 | oid::INT4 => match offset {
            oid::INT8 => oid::INT8,
            oid::INT2 => oid::INT2,
            _ => oid::INT4,
        },
        oid::INT8 => oid::INT8,
        oid::FLOAT4 | oid::FLOAT8 => oid::FLOAT8,
        oid::NUMERIC => oid::NUMERIC,
        oid::DATE | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL => {
            oid::INTERVAL
        }
        _ => return None,
    })
}
