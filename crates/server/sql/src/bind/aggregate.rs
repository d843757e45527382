//! Calls by name: functions, aggregates, window functions, sets, and what only looks like a function.

use seawall_values::system::{CastContext, FunctionKind, system};
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, aggregates, oid};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, OrderByExpr,
};

use super::call::{Argument, Chosen, FunctionName, FunctionOrCast, has_set_implementation, not_there};
use super::expression::{IMPLICIT, qualified};
use super::types::{array_of, type_name};
use super::{Binder, column};
use crate::algebra::{
    Aggregation, Call, Expression, ExpressionKind, SortKey, Subquery, SubqueryKind, Written,
};

impl Binder<'_> {
    pub(super) fn function_call(&mut self, call: &Function, position: Option<u32>) -> SqlResult<Expression> {
        let (schema, name) = qualified(&call.name);
        let arguments = match &call.args {
            FunctionArguments::None => return self.value_function(&name, None, position),
            FunctionArguments::Subquery(query) if name == "array" => {
                return self.array_of_rows(query, position);
            }
            FunctionArguments::Subquery(query) => {
                let subquery = Expr::Subquery(query.clone());
                let value = self.expression(&subquery)?;
                return self.simple_call(&name, vec![value], position);
            }
            FunctionArguments::List(list) => list,
        };
        if schema.is_none()
            && let Some(value) = self.special(&name, &arguments.args, position)?
        {
            return Ok(value);
        }
        if !call.within_group.is_empty() && call.over.is_none() && super::hypothetical::is_hypothetical(&name)
        {
            let meant = super::hypothetical::meant(&name, call, &arguments.args)
                .map_err(|error| error.at(position))?;
            return self.expression(&meant);
        }
        let name = FunctionName { schema, name };
        let functions = system().functions_named(&name.name);
        let is_aggregate = functions.iter().any(|function| function.kind == FunctionKind::Aggregate);
        let order = arguments.clauses.iter().find_map(|clause| match clause {
            FunctionArgumentClause::OrderBy(order) => Some(order.as_slice()),
            _ => None,
        });
        let is_distinct = arguments.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if let Some(over) = &call.over {
            return self.window_call(&name, call, arguments, over, position);
        }
        if is_aggregate {
            let parts = AggregateParts {
                arguments: &arguments.args,
                is_distinct,
                order: order.unwrap_or_default(),
                within: &call.within_group,
                filter: call.filter.as_deref(),
            };
            return self.aggregate_call(&name, &parts, position);
        }
        let is_star = matches!(
            arguments.args.as_slice(),
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_))]
        );
        let misuses = [
            (is_star, format!("{}(*)", name.name)),
            (is_distinct, "DISTINCT".to_owned()),
            (!call.within_group.is_empty(), "WITHIN GROUP".to_owned()),
            (order.is_some(), "ORDER BY".to_owned()),
            (call.filter.is_some(), "FILTER".to_owned()),
        ];
        let misuse = misuses.into_iter().find_map(|(is_there, what)| is_there.then_some(what));
        let written: &[FunctionArg] = if is_star { &[] } else { arguments.args.as_slice() };
        let (mut bound, is_variadic) = self.arguments(written, position)?;
        if let Some(what) = misuse {
            for item in &call.within_group {
                bound.push(Argument { name: None, value: self.expression(&item.expr)? });
            }
            // A function that is not there is another error.
            self.call(&name, bound, is_variadic, position)?;
            let message = format!("{what} specified, but {} is not an aggregate function", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(position));
        }
        match self.call(&name, bound, is_variadic, position)? {
            FunctionOrCast::Cast(cast) => Ok(*cast),
            FunctionOrCast::Function(mut chosen) => match chosen.own.take() {
                Some(function) => self.own_call(&function, *chosen, position),
                None => self.called(*chosen, position),
            },
        }
    }

    fn called(&mut self, chosen: Chosen, position: Option<u32>) -> SqlResult<Expression> {
        let Chosen { function, arguments, result, own: _ } = chosen;
        match function.kind {
            FunctionKind::Window => {
                let message = format!("window function {} requires an OVER clause", function.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(position));
            }
            FunctionKind::Aggregate | FunctionKind::Function | FunctionKind::Procedure => {}
        }
        let is_set = function.returns_set;
        let call = Call { function, arguments, written: Written::Function };
        if !is_set {
            return self.implemented(call, result, position);
        }
        // The columns of such a function are known only in `FROM`.
        let takes_columns = seawall_values::set_returning::takes_columns(&call.function.source);
        if takes_columns || !has_set_implementation(&call.function) {
            return Err(not_there(&call.function).at(position));
        }
        let clause = self.scope().clause();
        if !clause.allows_sets() || self.scope().is_in_aggregate {
            let message = match self.scope().is_in_aggregate {
                true => "aggregate function calls cannot contain set-returning function calls".to_owned(),
                false => format!("set-returning functions are not allowed in {}", clause.name()),
            };
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        if self.scope().own_set.is_some() {
            let what = "a function of a user that returns a set, beside others";
            return Err(SqlError::unsupported(what).at(position));
        }
        let id = self.new_column();
        let of = TypeReference::of(result);
        let fields: Vec<_> = super::types::result_columns(&call);
        if fields.len() > 1 {
            self.record_fields.insert(id, fields);
        }
        let scope = self.scope();
        scope.sets.push((id, call));
        scope.set_position = position;
        Ok(Expression { kind: ExpressionKind::Column(id), of, position })
    }

    /// Binds what is not computed for each row, and may therefore have no function in it that returns a set.
    pub(super) fn without_sets<T>(
        &mut self,
        message: &str,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = self.scope().sets.len();
        let bound = body(self)?;
        match self.scope().sets.get(before) {
            None => Ok(bound),
            Some(_) => {
                let at = self.scope().set_position.take();
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(at))
            }
        }
    }

    /// The arguments of a call, and whether the last one is an array for a `VARIADIC` parameter.
    pub(super) fn arguments(
        &mut self,
        arguments: &[FunctionArg],
        position: Option<u32>,
    ) -> SqlResult<(Vec<Argument>, bool)> {
        let mut bound = Vec::with_capacity(arguments.len());
        let mut is_variadic = false;
        for argument in arguments {
            let (name, value) = match argument {
                FunctionArg::Named { name, arg, .. } => (Some(super::expression::folded(name)), arg),
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::ExprNamed { .. } => {
                    return Err(SqlError::unsupported("a computed parameter name").at(position));
                }
            };
            let value = match value {
                FunctionArgExpr::Expr(Expr::Prefixed { prefix, value })
                    if prefix.value.eq_ignore_ascii_case("variadic") =>
                {
                    is_variadic = true;
                    self.expression(value)?
                }
                FunctionArgExpr::Expr(expr) => self.expression(expr)?,
                FunctionArgExpr::QualifiedWildcard(name) => {
                    let (schema, name) = qualified(name);
                    let table = self.named_table(schema.as_deref(), &name, position)?;
                    let table = table.ok_or_else(|| self.missing_table(&name, position))?;
                    self.whole_row(&table, position)
                }
                FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_) => {
                    return Err(
                        SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\"").at(position)
                    );
                }
            };
            bound.push(Argument { name, value });
        }
        Ok((bound, is_variadic))
    }

    /// What PostgreSQL's grammar knows, and `pg_proc` does not.
    fn special(
        &mut self,
        name: &str,
        arguments: &[FunctionArg],
        position: Option<u32>,
    ) -> SqlResult<Option<Expression>> {
        let plain = |binder: &mut Self| -> SqlResult<Vec<Expression>> {
            let (bound, _) = binder.arguments(arguments, position)?;
            Ok(bound.into_iter().map(|argument| argument.value).collect())
        };
        Ok(Some(match name {
            "coalesce" => {
                let message = "set-returning functions are not allowed in COALESCE";
                let values = self.without_sets(message, plain)?;
                let common = self.common_type_of(&values.iter().collect::<Vec<_>>(), "COALESCE")?;
                let modifier = super::expression::common_modifier(&values.iter().collect::<Vec<_>>(), common);
                let mut converted = Vec::with_capacity(values.len());
                for value in values {
                    converted.push(self.coerce_common(value, common, "COALESCE")?);
                }
                let of = TypeReference { oid: common, modifier };
                Expression { kind: ExpressionKind::Coalesce(converted), of, position }
            }
            "greatest" | "least" => {
                let construct = if name == "greatest" { "GREATEST" } else { "LEAST" };
                let values = plain(self)?;
                let common = self.common_type_of(&values.iter().collect::<Vec<_>>(), construct)?;
                let mut converted = Vec::with_capacity(values.len());
                for value in values {
                    converted.push(self.coerce_common(value, common, construct)?);
                }
                let kind = ExpressionKind::Extreme(converted, name == "greatest");
                Expression { kind, of: TypeReference::of(common), position }
            }
            "nullif" => {
                let values = plain(self)?;
                let Ok([left, right]) = <[Expression; 2]>::try_from(values) else { return Ok(None) };
                let original = left.of;
                let (left, right, equals) = self.equality(left, right, position)?;
                let of = if original.oid == left.of.oid { original } else { left.of };
                let kind = ExpressionKind::NullIf { left: Box::new(left), right: Box::new(right), equals };
                Expression { kind, of, position }
            }
            "row" => {
                let mut fields = Vec::new();
                for (value, written) in plain(self)?.into_iter().zip(arguments) {
                    let is_all =
                        matches!(written, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)));
                    match value.kind {
                        ExpressionKind::WholeRow(..) if is_all => fields.extend(self.fields_of_row(value)?),
                        _ => fields.push(self.known(value)?),
                    }
                }
                Expression { kind: ExpressionKind::Row(fields), of: TypeReference::of(oid::RECORD), position }
            }
            "grouping" => {
                let clause = self.scope().clause();
                if !clause.allows_aggregates() {
                    let message = format!("grouping operations are not allowed in {}", clause.name());
                    return Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(position));
                }
                self.scope().is_in_aggregate = true;
                let values = plain(self);
                self.scope().is_in_aggregate = false;
                let id = self.new_column();
                let values = values?;
                self.scope().groupings.push((id, values));
                Expression { kind: ExpressionKind::Column(id), of: TypeReference::of(oid::INT4), position }
            }
            "current_timestamp" | "current_time" | "localtime" | "localtimestamp" => {
                let precision = match arguments {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => {
                        value.value.to_string().parse::<i32>().ok()
                    }
                    _ => None,
                };
                self.value_function(name, precision, position)?
            }
            "collation for" | "treat" => {
                return Err(SqlError::unsupported(name.to_uppercase()).at(position));
            }
            _ => return Ok(None),
        }))
    }

    fn array_of_rows(
        &mut self,
        query: &sqlparser::ast::Query,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (relation, output) = self.subquery(query)?;
        let [only] = output.as_slice() else {
            return Err(
                SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column").at(position)
            );
        };
        let array = match super::types::element_of(only.of.oid) {
            Some(_) => only.of.oid,
            None => array_of(only.of.oid).ok_or_else(|| {
                let message = format!("could not find array type for data type {}", type_name(only.of.oid));
                SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position)
            })?,
        };
        let subquery = Subquery { kind: SubqueryKind::Array, relation, columns: vec![only.column] };
        let of = TypeReference { oid: array, modifier: only.of.modifier };
        Ok(Expression { kind: ExpressionKind::Subquery(Box::new(subquery)), of, position })
    }

    /// An aggregate: its arguments are bound below the grouping of the query that their columns belong to.
    fn aggregate_call(
        &mut self,
        name: &FunctionName,
        parts: &AggregateParts<'_>,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (level, aggregation) = self.aggregation(name, parts, true, position)?;
        let clause = self.scopes[level].clause();
        if self.scopes[level].is_in_aggregate {
            return Err(SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested")
                .at(position));
        }
        if !clause.allows_aggregates() {
            let message = format!("aggregate functions are not allowed in {}", clause.name());
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(position));
        }
        let of = aggregation.of;
        let id = self.new_column();
        self.scopes[level].aggregates.push((id, aggregation));
        Ok(Expression { kind: ExpressionKind::Column(id), of, position })
    }

    /// The aggregate and the level of the query that it belongs to.
    pub(super) fn aggregation(
        &mut self,
        name: &FunctionName,
        parts: &AggregateParts<'_>,
        is_plain: bool,
        position: Option<u32>,
    ) -> SqlResult<(usize, Aggregation)> {
        self.scope();
        let used: Vec<bool> =
            self.scopes.iter_mut().map(|scope| std::mem::take(&mut scope.is_used)).collect();
        let own = self.scopes.len() - 1;
        let was_in_aggregate = self.scopes[own].is_in_aggregate;
        if is_plain {
            if was_in_aggregate {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    "aggregate function calls cannot be nested",
                )
                .at(position));
            }
            self.scopes[own].is_in_aggregate = true;
        }
        let bound = self.aggregate_parts(name, parts, position);
        self.scopes[own].is_in_aggregate = was_in_aggregate;
        let bound = bound?;
        // The innermost query that one of its columns is of; without columns, this one. Parameters are of no query.
        let is_of = |scope: &super::Scope| scope.is_used && !scope.is_of_parameters;
        let level = self.scopes.iter().rposition(is_of).unwrap_or(own);
        for (scope, used) in self.scopes.iter_mut().zip(used) {
            scope.is_used |= used;
        }
        Ok((level, bound))
    }

    fn aggregate_parts(
        &mut self,
        name: &FunctionName,
        parts: &AggregateParts<'_>,
        position: Option<u32>,
    ) -> SqlResult<Aggregation> {
        let is_star = matches!(
            parts.arguments,
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_))]
        );
        let (mut arguments, is_variadic) = match is_star {
            true => (Vec::new(), false),
            false => self.arguments(parts.arguments, position)?,
        };
        let within: Vec<(Expression, &OrderByExpr)> = parts
            .within
            .iter()
            .map(|order| self.expression(&order.expr).map(|value| (value, order)))
            .collect::<SqlResult<_>>()?;
        arguments.extend(within.iter().map(|(value, _)| Argument { name: None, value: value.clone() }));
        if arguments.is_empty() && !is_star && name.name == "count" {
            let message = format!("{}(*) must be used to call a parameterless aggregate function", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(position));
        }
        let chosen = match self.call(name, arguments, is_variadic, position)? {
            FunctionOrCast::Function(chosen) => *chosen,
            FunctionOrCast::Cast(_) => {
                return Err(SqlError::internal("an aggregate that is a cast"));
            }
        };
        let is_ordered_set =
            matches!(chosen.function.name.as_str(), "percentile_cont" | "percentile_disc" | "mode");
        if is_ordered_set == parts.within.is_empty() {
            let message = match is_ordered_set {
                true => format!("WITHIN GROUP is required for ordered-set aggregate {}", name.name),
                false => {
                    format!("{} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", name.name)
                }
            };
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(position));
        }
        if chosen.function.kind != FunctionKind::Aggregate {
            return Err(SqlError::unsupported(format!("function {} as an aggregate", name.name)).at(position));
        }
        let function = chosen.function;
        let declared = &function.arguments;
        if aggregates::aggregate(&function.name, declared).is_none() {
            return Err(not_there(&function).at(position));
        }
        let mut order = Vec::with_capacity(within.len() + parts.order.len());
        let direct = chosen.arguments.len() - within.len();
        for ((_, written), value) in within.iter().zip(&chosen.arguments[direct..]) {
            order.push(self.aggregate_key(value.clone(), written, position)?);
        }
        for written in parts.order {
            let value = self.expression(&written.expr)?;
            let value = self.known(value)?;
            // Equal expressions have one column, as DISTINCT demands.
            order.push(self.aggregate_key(value, written, position)?);
        }
        if parts.is_distinct
            && !parts.order.is_empty()
            && !order.iter().all(|key| self.is_argument(key, &chosen.arguments))
        {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(position));
        }
        let filter = match parts.filter {
            Some(filter) => {
                let value = self.expression(filter)?;
                Some(self.coerce_to_boolean(value, "FILTER")?)
            }
            None => None,
        };
        let of = TypeReference::of(chosen.result);
        Ok(Aggregation {
            function,
            arguments: chosen.arguments,
            is_distinct: parts.is_distinct,
            order,
            filter,
            of,
        })
    }

    fn is_argument(&mut self, key: &SortKey, arguments: &[Expression]) -> bool {
        let inputs = &self.scope().aggregate_inputs;
        let value = inputs.iter().find(|(id, _)| *id == key.column).map(|(_, value)| value.clone());
        match value {
            Some(value) => arguments.iter().any(|argument| super::same::is_same(argument, &value)),
            None => arguments
                .iter()
                .any(|argument| matches!(argument.kind, ExpressionKind::Column(id) if id == key.column)),
        }
    }

    /// A key that an aggregate sorts by: a column that is computed below it.
    fn aggregate_key(
        &mut self,
        value: Expression,
        written: &OrderByExpr,
        position: Option<u32>,
    ) -> SqlResult<SortKey> {
        let of = value.of;
        let id = match value.kind {
            ExpressionKind::Column(id) => id,
            _ => {
                let id = self.new_column();
                self.scope().aggregate_inputs.push((id, value));
                id
            }
        };
        self.sort_key(id, of, written, position)
    }

    /// A key in the direction that was written.
    pub(super) fn sort_key(
        &mut self,
        id: crate::algebra::ColumnId,
        of: TypeReference,
        written: &OrderByExpr,
        position: Option<u32>,
    ) -> SqlResult<SortKey> {
        use sqlparser::ast::OrderBySort;
        if !super::order_of_types::can_be_sorted(of.oid) {
            let message = format!("could not identify an ordering operator for type {}", type_name(of.oid));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .with_hint("Use an explicit ordering operator or modify the query.")
                .at(position));
        }
        let is_descending = match &written.options.sort {
            None | Some(OrderBySort::Asc) => false,
            Some(OrderBySort::Desc) => true,
            Some(OrderBySort::Using(operator)) => {
                match operator.to_string().as_str() {
                    "<" => false,
                    ">" => true,
                    other => {
                        let message = format!("operator {other} is not a valid ordering operator");
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .with_hint("Ordering operators must be \"<\" or \">\" members of btree operator families.")
                        .at(position));
                    }
                }
            }
        };
        let is_nulls_first = written.options.nulls_first.unwrap_or(is_descending);
        Ok(SortKey { column: id, of, is_descending, is_nulls_first })
    }

    /// A value as a column of its own: one that is a column already stays so.
    pub(super) fn as_column(
        &mut self,
        value: Expression,
        computed: &mut Vec<(crate::algebra::ColumnId, Expression)>,
    ) -> (crate::algebra::ColumnId, TypeReference) {
        let of = value.of;
        if let ExpressionKind::Column(id) = value.kind {
            return (id, of);
        }
        if let Some((id, _)) = computed.iter().find(|(_, known)| super::same::is_same(known, &value)) {
            return (*id, of);
        }
        let id = self.new_column();
        computed.push((id, value));
        (id, of)
    }

    /// A constant as `LIMIT` and frames take it.
    pub(super) fn as_bigint(&mut self, expr: &Expr, construct: &str) -> SqlResult<Expression> {
        let value = self.expression(expr)?;
        let position = value.position;
        let value = self.coerce_to_type(value, oid::INT8, construct)?;
        if matches!(value.kind, ExpressionKind::Constant(Datum::Null)) {
            return Ok(Expression { position, ..value });
        }
        self.coerce(value, oid::INT8, CastContext::Assignment, IMPLICIT)
    }

    pub(super) fn column_expression(&self, id: crate::algebra::ColumnId, of: TypeReference) -> Expression {
        column(id, of)
    }
}

/// What an aggregate is called with.
pub(super) struct AggregateParts<'e> {
    pub(super) arguments: &'e [FunctionArg],
    pub(super) is_distinct: bool,
    pub(super) order: &'e [OrderByExpr],
    pub(super) within: &'e [OrderByExpr],
    pub(super) filter: Option<&'e Expr>,
}
