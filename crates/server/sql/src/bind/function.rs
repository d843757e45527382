//! Calls of functions that users have made: the query of the function takes the place of the call.
//!
//! ```text
//!   f(x)          -> (select body from (select x) limit 1)       or, if the body is one expression: that, with x in it
//!   from f(x)     -> (select x), lateral (body)
//! ```
//! * The text sees its parameters and nothing of the query around, and is read with the search path of whoever calls, as in PostgreSQL.
//! * What it reads, it reads as of the statement.
//! * No function is in itself, and there is a limit of them in a statement, so that what a text becomes is bounded.

use std::sync::Arc;

use seawall_values::system::{CastContext, FunctionRow};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::TableAlias;

use super::call::{Chosen, FunctionName};
use super::from::FromItem;
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::types::{is_composite, is_polymorphic, is_row_type, type_name};
use super::{Binder, Scope, boolean, constant};
use crate::algebra::{
    ColumnId, Expression, ExpressionKind, JoinKind, Relation, Subquery, SubqueryKind, Written, walk,
};
use crate::parse::Text;
use crate::schema::function::Function;

/// Calls in a statement, those in the texts of functions among them.
const CALLS_MAX: u32 = 1_000;

/// The query of a function, over its parameters.
pub(super) struct Body {
    /// The parameters, and what they are given.
    arguments: Vec<(ColumnId, Expression)>,
    relation: Relation,
    columns: Vec<(ColumnId, TypeReference)>,
}

/// The columns that stand for the parameters of a function, and its query over them with its columns.
type BoundQuery = (Vec<ColumnId>, Relation, Vec<(ColumnId, TypeReference)>);

/// What the binder knows of the functions whose texts it is in.
#[derive(Default)]
pub(super) struct FunctionState {
    /// Their numbers, outermost first.
    within: Vec<Oid>,
    /// `$1`, `$2`, ..: the parameters of the innermost one.
    parameters: Option<Vec<(ColumnId, TypeReference)>>,
    calls: u32,
    /// The one that is being made: its text may name it.
    made: Option<Arc<Function>>,
    /// The functions that the statement itself calls.
    called: Vec<Oid>,
}

impl FunctionState {
    /// Whether what is bound is the text of a function.
    pub(super) fn is_inside(&self) -> bool {
        !self.within.is_empty()
    }
}

impl Binder<'_> {
    /// The functions that the statement itself calls.
    pub(crate) fn take_called(&mut self) -> Vec<Oid> {
        std::mem::take(&mut self.functions.called)
    }

    /// The functions with a name that users have made, those that hide others first.
    pub(super) fn own_functions(&mut self, name: &FunctionName) -> SqlResult<Vec<Arc<Function>>> {
        let all = match (&name.schema, self.search_path.clone()) {
            (Some(schema), _) => self.definitions.functions(Some(schema), &name.name)?,
            (None, Some(path)) => {
                let mut all = Vec::new();
                for schema in path {
                    all.extend(self.definitions.functions(Some(&schema), &name.name)?);
                }
                all
            }
            (None, None) => self.definitions.functions(None, &name.name)?,
        };
        let made = self.functions.made.clone().filter(|made| made.name == name.name);
        let mut seen: Vec<Arc<Function>> = Vec::with_capacity(all.len() + 1);
        for function in made.into_iter().chain(all) {
            if !seen.iter().any(|known| known.input_types() == function.input_types()) {
                seen.push(function);
            }
        }
        Ok(seen)
    }

    /// `$n` within the text of a function.
    pub(super) fn own_parameter(&self, index: usize) -> Option<Option<Expression>> {
        let parameters = self.functions.parameters.as_ref()?;
        Some(parameters.get(index).map(|(id, of)| super::column(*id, *of)))
    }

    /// The default of a parameter.
    pub(super) fn own_default(&mut self, function: &FunctionRow, parameter: usize) -> SqlResult<Expression> {
        let first = function.arguments.len() - function.default_values.len();
        let text = parameter.checked_sub(first).and_then(|index| function.default_values.get(index));
        let text = text.ok_or_else(|| SqlError::internal("a parameter without a default"))?;
        let expr = crate::parse::expression(&Text::new(text))?;
        let bound = self.in_new_scope(Clause::Select, |binder| binder.expression(&expr));
        bound.map_err(without_position)
    }

    /// A call in an expression.
    pub(super) fn own_call(
        &mut self,
        function: &Arc<Function>,
        chosen: Chosen,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let clause = self.scope().clause();
        match clause {
            Clause::Check
            | Clause::Default
            | Clause::IndexExpression
            | Clause::IndexPredicate
            | Clause::Generated
            | Clause::CopyWhere => {
                let what = format!("a function of a user in {}", clause.name());
                return Err(SqlError::unsupported(what).at(position));
            }
            _ => {}
        }
        let of = TypeReference::of(chosen.result);
        if chosen.result == oid::RECORD || is_composite(chosen.result) {
            return Err(SqlError::unsupported("a function of a user that returns a row, outside of FROM")
                .at(position));
        }
        if function.returns_set {
            return self.own_set(function, chosen, position);
        }
        let body = self.own_body(function, chosen.arguments, &[of], position)?;
        if let Some(value) = in_place(&body, function.is_strict) {
            return Ok(Expression { position, ..value });
        }
        let (id, of) = body.columns[0];
        let relation = first_row(joined(body, function.is_strict));
        let kind = ExpressionKind::Subquery(Box::new(Subquery {
            kind: SubqueryKind::Scalar,
            relation,
            columns: vec![id],
        }));
        Ok(Expression { kind, of, position })
    }

    /// A function that returns a set, in a list of results.
    fn own_set(
        &mut self,
        function: &Arc<Function>,
        chosen: Chosen,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let scope = self.scope();
        let clause = scope.clause();
        if !clause.allows_sets() || scope.is_in_aggregate {
            let message = match scope.is_in_aggregate {
                true => "aggregate function calls cannot contain set-returning function calls".to_owned(),
                false => format!("set-returning functions are not allowed in {}", clause.name()),
            };
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        if clause != Clause::Select || !scope.sets.is_empty() || scope.own_set.is_some() {
            let what = "a function of a user that returns a set, beside others or in this clause";
            return Err(SqlError::unsupported(what).at(position));
        }
        let of = TypeReference::of(chosen.result);
        let body = self.own_body(function, chosen.arguments, &[of], position)?;
        let (id, of) = body.columns[0];
        let scope = self.scope();
        scope.own_set = Some((id, joined(body, function.is_strict)));
        scope.set_position = position;
        Ok(Expression { kind: ExpressionKind::Column(id), of, position })
    }

    /// A function in `FROM`, with the columns that it returns.
    pub(super) fn own_in_from(
        &mut self,
        function: &Arc<Function>,
        chosen: Chosen,
        outputs: Vec<(String, TypeReference)>,
        alias: Option<&TableAlias>,
        position: Option<u32>,
    ) -> SqlResult<FromItem> {
        let types: Vec<TypeReference> = outputs.iter().map(|(_, of)| *of).collect();
        let is_scalar = outputs.len() == 1 && chosen.result != oid::RECORD && !is_composite(chosen.result);
        let mut body = self.own_body(function, chosen.arguments, &types, position)?;
        let columns = outputs
            .into_iter()
            .zip(body.columns.clone())
            .map(|((name, _), (id, of))| ScopeColumn { name, id, of, origin: (0, 0) })
            .collect();
        let relation = if function.returns_set {
            joined(body, function.is_strict)
        } else {
            // One row, also without a row of the query.
            let arguments = std::mem::take(&mut body.arguments);
            let right = filtered(first_row(body.relation), &arguments, function.is_strict);
            Relation::Join {
                kind: JoinKind::Left,
                left: Box::new(computed(arguments)),
                right: Box::new(right),
                condition: constant(Datum::Bool(true), oid::BOOL),
            }
        };
        let mut item = self.aliased(relation, function.name.clone(), None, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.is_scalar = is_scalar;
        }
        Ok(item)
    }

    /// The query of a function that is called with these arguments, with columns of these types.
    fn own_body(
        &mut self,
        function: &Arc<Function>,
        arguments: Vec<Expression>,
        types: &[TypeReference],
        position: Option<u32>,
    ) -> SqlResult<Body> {
        self.definitions.check_may_execute(function)?;
        if self.functions.within.is_empty() {
            self.functions.called.push(function.oid);
        }
        self.functions.calls += 1;
        if self.functions.calls > CALLS_MAX {
            let message = format!("a statement has more than {CALLS_MAX} calls of functions of users");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).at(position));
        }
        let types_given = arguments.iter().map(|argument| argument.of).collect::<Vec<_>>();
        let (parameters, relation, columns) =
            self.own_query(function, &types_given, types).map_err(without_position)?;
        let arguments = parameters.into_iter().zip(arguments).collect();
        Ok(Body { arguments, relation, columns })
    }

    /// Checks the text of a function that is being made. Positions in errors are those in the text.
    pub(crate) fn check_own(&mut self, function: &Arc<Function>) -> SqlResult<()> {
        let inputs: Vec<TypeReference> = function.input_types().into_iter().map(TypeReference::of).collect();
        let outputs: Vec<TypeReference> =
            function.row().result_columns().map(|(_, of)| TypeReference::of(of)).collect();
        let types = match outputs.is_empty() {
            false => outputs,
            true if is_row_type(function.result) => {
                self.row_columns(function.result)?.into_iter().map(|(_, of)| of).collect()
            }
            // Who calls says what the columns are.
            true if function.result == oid::RECORD => Vec::new(),
            true => vec![TypeReference::of(function.result)],
        };
        self.functions.made = Some(Arc::clone(function));
        self.own_query(function, &inputs, &types).map(drop)
    }

    /// The columns that stand for the parameters, and the query over them with its columns.
    fn own_query(
        &mut self,
        function: &Arc<Function>,
        inputs: &[TypeReference],
        types: &[TypeReference],
    ) -> SqlResult<BoundQuery> {
        if self.functions.within.contains(&function.oid) {
            return Err(SqlError::unsupported(format!("function {}, which calls itself", function.name)));
        }
        let query = function_query(function)?;
        let mut columns = Vec::with_capacity(inputs.len());
        for (parameter, of) in function.inputs().zip(inputs) {
            let (name, id) = (parameter.name.clone(), self.new_column());
            columns.push(ScopeColumn { name, id, of: *of, origin: (0, 0) });
        }
        let ids: Vec<ColumnId> = columns.iter().map(|column| column.id).collect();
        let parameters = columns.iter().map(|column| (column.id, column.of)).collect();
        let bound = self.within_function(function, columns, parameters, |binder| {
            let (relation, output) = binder.deeper(|binder| binder.bind_query(&query, false))?;
            let given: Vec<(ColumnId, TypeReference)> =
                output.into_iter().map(|column| (column.column, column.of)).collect();
            binder.returned(function, relation, &given, types)
        });
        let (relation, columns) = bound?;
        Ok((ids, relation, columns))
    }

    /// Runs `body` where the parameters can be named, and nothing of what is around.
    fn within_function<T>(
        &mut self,
        function: &Function,
        columns: Vec<ScopeColumn>,
        parameters: Vec<(ColumnId, TypeReference)>,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let (named, unnamed): (Vec<_>, Vec<_>) =
            columns.into_iter().partition(|column| !column.name.is_empty());
        let table =
            ScopeTable { hidden: unnamed, ..ScopeTable::of_columns(function.name.clone(), named.clone()) };
        let scope = Scope { columns: named, tables: vec![table], is_of_parameters: true, ..Scope::default() };
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let tables = std::mem::take(&mut self.common_tables);
        let path = self.search_path.take();
        let owner = self.view_owner.take();
        let replaced = self.replaced.take();
        let types = std::mem::take(&mut self.used_types);
        let (pushed, pulled) =
            (std::mem::take(&mut self.pushed_locks), std::mem::take(&mut self.pulled_locks));
        let outer = self.functions.parameters.replace(parameters);
        self.functions.within.push(function.oid);
        let result = body(self);
        self.functions.within.pop();
        self.functions.parameters = outer;
        self.pushed_locks = pushed;
        self.pulled_locks = pulled;
        self.used_types = types;
        self.replaced = replaced;
        self.view_owner = owner;
        self.search_path = path;
        self.common_tables = tables;
        self.scopes = scopes;
        result
    }

    /// The columns of the query, converted to those that the function returns.
    fn returned(
        &mut self,
        function: &Function,
        relation: Relation,
        given: &[(ColumnId, TypeReference)],
        types: &[TypeReference],
    ) -> SqlResult<(Relation, Vec<(ColumnId, TypeReference)>)> {
        let declared =
            if is_polymorphic(function.result) && types.len() == 1 { types[0].oid } else { function.result };
        let is_row = declared == oid::RECORD || is_composite(declared);
        if types.is_empty() {
            return Ok((relation, given.to_vec()));
        }
        if given.len() != types.len() {
            let detail = match (is_row, given.len() > types.len()) {
                (false, _) => "Final statement must return exactly one column.",
                (true, true) => "Final statement returns too many columns.",
                (true, false) => "Final statement returns too few columns.",
            };
            return Err(mismatch(declared).with_detail(detail));
        }
        let mut values = Vec::new();
        let mut columns = Vec::with_capacity(types.len());
        for (index, ((id, of), wanted)) in given.iter().zip(types).enumerate() {
            if of.oid == wanted.oid && (wanted.modifier < 0 || of.modifier == wanted.modifier) {
                columns.push((*id, *of));
                continue;
            }
            let value = super::column(*id, *of);
            let converted = self.coerce_to(value, *wanted, CastContext::Assignment, Written::ImplicitCast)?;
            let Some(converted) = converted else {
                let detail = match is_row {
                    false => format!("Actual return type is {}.", type_name(of.oid)),
                    true => format!(
                        "Final statement returns {} instead of {} at column {}.",
                        type_name(of.oid),
                        type_name(wanted.oid),
                        index + 1
                    ),
                };
                return Err(mismatch(declared).with_detail(detail));
            };
            let id = self.new_column();
            columns.push((id, converted.of));
            values.push((id, converted));
        }
        if values.is_empty() {
            return Ok((relation, columns));
        }
        Ok((Relation::Compute { input: Box::new(relation), values }, columns))
    }
}

/// The query that a text is.
///
/// # Errors
/// Of its syntax; `0A000`: it is more, or something else.
pub(crate) fn function_query(function: &Function) -> SqlResult<Box<sqlparser::ast::Query>> {
    let mut parsed = crate::parse::parse(&function.body)?;
    let last = parsed.pop();
    if !parsed.is_empty() {
        return Err(SqlError::unsupported("a function of several statements"));
    }
    let refused = || {
        mismatch(function.result)
            .with_detail("Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.")
    };
    match last.map(|last| last.statement) {
        Some(crate::parse::statement::Statement::Dml(dml)) if dml.writes().is_some_and(is_change) => {
            Err(SqlError::unsupported("a function that changes rows"))
        }
        Some(crate::parse::statement::Statement::Dml(crate::parse::Dml::Query(query))) => Ok(query),
        _ => Err(refused()),
    }
}

fn is_change(command: &str) -> bool {
    !command.starts_with("SELECT FOR")
}

fn mismatch(declared: Oid) -> Box<SqlError> {
    let message = format!("return type mismatch in function declared to return {}", type_name(declared));
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

fn without_position(mut error: Box<SqlError>) -> Box<SqlError> {
    error.position = None;
    error
}

/// One row with the arguments.
fn computed(arguments: Vec<(ColumnId, Expression)>) -> Relation {
    match arguments.is_empty() {
        true => Relation::OneRow,
        false => Relation::Compute { input: Box::new(Relation::OneRow), values: arguments },
    }
}

/// No rows if an argument is null, of a function that is strict.
fn filtered(relation: Relation, arguments: &[(ColumnId, Expression)], is_strict: bool) -> Relation {
    if !is_strict || arguments.is_empty() {
        return relation;
    }
    let given = |(id, value): &(ColumnId, Expression)| {
        boolean(ExpressionKind::IsNotNull(Box::new(super::column(*id, value.of))), None)
    };
    let predicate = boolean(ExpressionKind::And(arguments.iter().map(given).collect()), None);
    Relation::Filter { input: Box::new(relation), predicate }
}

/// The query, for the one row of its arguments.
fn joined(body: Body, is_strict: bool) -> Relation {
    let Body { arguments, relation, .. } = body;
    let left = filtered(computed(arguments.clone()), &arguments, is_strict);
    Relation::Join {
        kind: JoinKind::Inner,
        left: Box::new(left),
        right: Box::new(relation),
        condition: constant(Datum::Bool(true), oid::BOOL),
    }
}

fn first_row(relation: Relation) -> Relation {
    let count = Some(constant(Datum::Int8(1), oid::INT8));
    Relation::Limit { input: Box::new(relation), count, offset: None, with_ties: None }
}

/// The value of a body that is one expression, with the arguments in it; `None`: it is more, or an argument would be computed twice.
fn in_place(body: &Body, is_strict: bool) -> Option<Expression> {
    let (column, of) = body.columns[0];
    let mut value = one_value(&body.relation, column)?;
    let mut uses = vec![0_usize; body.arguments.len()];
    let mut is_plain = true;
    walk::visit(&value, &mut |inner| match &inner.kind {
        ExpressionKind::Column(id) => {
            if let Some(index) = body.arguments.iter().position(|(known, _)| known == id) {
                uses[index] += 1;
            }
        }
        ExpressionKind::Subquery(_) | ExpressionKind::WholeRow(..) => is_plain = false,
        _ => {}
    });
    let is_simple = |value: &Expression| {
        use ExpressionKind as K;
        matches!(value.kind, K::Column(_) | K::Constant(_) | K::Parameter(_))
    };
    let fits = |((_, argument), uses): (&(ColumnId, Expression), &usize)| {
        is_simple(argument) || (*uses == 1 && !is_strict)
    };
    if !is_plain || !body.arguments.iter().zip(&uses).all(fits) {
        return None;
    }
    substitute(&mut value, &body.arguments);
    if is_strict && !body.arguments.is_empty() {
        let test = |(_, argument): &(ColumnId, Expression)| {
            boolean(ExpressionKind::IsNull(Box::new(argument.clone())), None)
        };
        let is_null = boolean(ExpressionKind::Or(body.arguments.iter().map(test).collect()), None);
        let null = constant(Datum::Null, of.oid);
        let kind = ExpressionKind::Case {
            branches: vec![(is_null, Expression { of, ..null })],
            otherwise: Some(Box::new(value)),
        };
        return Some(Expression { kind, of, position: None });
    }
    Some(value)
}

/// The expression that a column of one row is.
fn one_value(relation: &Relation, column: ColumnId) -> Option<Expression> {
    let Relation::Compute { input, values } = relation else { return None };
    let (_, value) = values.iter().find(|(known, _)| *known == column)?;
    match &**input {
        Relation::OneRow => Some(value.clone()),
        Relation::Compute { values: below, .. } => {
            // A conversion of the value that is computed below.
            let mut value = value.clone();
            let mut inner = None;
            let mut count = 0;
            walk::visit(&value, &mut |part| {
                if let ExpressionKind::Column(id) = part.kind
                    && below.iter().any(|(known, _)| *known == id)
                {
                    inner = Some(id);
                    count += 1;
                }
            });
            let (inner, 1) = (inner?, count) else { return None };
            let below = one_value(input, inner)?;
            substitute(&mut value, &[(inner, below)]);
            Some(value)
        }
        _ => None,
    }
}

fn substitute(value: &mut Expression, columns: &[(ColumnId, Expression)]) {
    if let ExpressionKind::Column(id) = value.kind {
        if let Some((_, with)) = columns.iter().find(|(known, _)| *known == id) {
            *value = with.clone();
        }
        return;
    }
    walk::operands_mut(value, &mut |operand| substitute(operand, columns));
}
