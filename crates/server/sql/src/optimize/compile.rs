//! Expressions of the algebra as the executor evaluates them.

use std::sync::Arc;

use seawall_values::datum::holds_object_numbers;
use seawall_values::functions::{self, Implementation};
use seawall_values::system::FunctionRow;
use seawall_values::{Datum, Oid, Settings, SqlError, SqlResult, TypeReference, oid};

use super::planner::Planner;
use super::walk::{Columns, free, made, used};
use crate::algebra::{Call, Expression as Algebra, ExpressionKind, Subquery, SubqueryKind};
use crate::execute::expression::{
    Arithmetic, ArrayConstructor, Assignment, Binary, BinaryMeans, Case, Comparison, Conversion,
    ConvertElements, DomainCheck, Expression, FunctionCall, InSet, IntegerOperator, Operator, Pair,
    RowCompare, RowConstructor, ScalarArray, SessionCall, SubscriptPart, Subscripts, comparison_of,
};
use crate::execute::plan::{SubqueryPlan, SubqueryPlanKind};
use crate::execute::{Groups, is_padded};

/// The implementation of a function of `pg_proc`.
pub(super) fn implementation(function: &FunctionRow) -> Option<Implementation> {
    // Functions that PostgreSQL writes in SQL have a name of their own.
    functions::implementation(&function.source)
        .or_else(|| functions::implementation(&format!("{}/{}", function.name, function.arguments.len())))
}

fn missing(function: &FunctionRow) -> Box<SqlError> {
    SqlError::unsupported(format!("function {}", function.name))
}

/// The operator of a comparison call with two arguments, and whether spaces at the end do not count.
pub(super) fn comparison(call: &Call) -> Option<(Operator, bool)> {
    (call.arguments.len() == 2).then(|| comparison_of(&call.function.source)).flatten()
}

fn types(expressions: &[Algebra]) -> Box<[TypeReference]> {
    expressions.iter().map(|expression| expression.of).collect()
}

/// A value as one of another type that has the same bits. Only numbers of objects are kept as other datums than integers.
fn relabeled(value: Expression, from: Oid, to: Oid) -> Expression {
    match value {
        Expression::Constant(value) => Expression::Constant(value.relabeled(to)),
        value if holds_object_numbers(from) != holds_object_numbers(to) => {
            Expression::Relabel(Box::new(value), to)
        }
        value => value,
    }
}

fn as_constant(expression: &Expression) -> Option<&Datum> {
    match expression {
        Expression::Constant(value) => Some(value),
        _ => None,
    }
}

impl Planner<'_> {
    pub(super) fn expressions<'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e Algebra>,
    ) -> SqlResult<Vec<Expression>> {
        expressions.into_iter().map(|expression| self.expression(expression)).collect()
    }

    fn boxed<'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e Algebra>,
    ) -> SqlResult<Box<[Expression]>> {
        self.expressions(expressions).map(Vec::into_boxed_slice)
    }

    /// Compiles an expression.
    pub(super) fn expression(&mut self, expression: &Algebra) -> SqlResult<Expression> {
        self.deeper(|planner| planner.compile(expression))
    }

    fn one(&mut self, expression: &Algebra) -> SqlResult<Box<Expression>> {
        self.expression(expression).map(Box::new)
    }

    fn compile(&mut self, expression: &Algebra) -> SqlResult<Expression> {
        Ok(match &expression.kind {
            ExpressionKind::Constant(value) => Expression::Constant(value.clone()),
            ExpressionKind::Column(column) => Expression::Slot(self.slot(*column)),
            ExpressionKind::Parameter(number) => Expression::Parameter(*number),
            ExpressionKind::Call(call) => return self.call(call, expression.of),
            ExpressionKind::SessionCall(call) => Expression::SessionCall(Box::new(SessionCall {
                function: call.function.clone(),
                arguments: self.boxed(&call.arguments)?,
                types: types(&call.arguments),
                result: expression.of,
            })),
            ExpressionKind::And(terms) => connective(self.expressions(terms)?, false),
            ExpressionKind::Or(terms) => connective(self.expressions(terms)?, true),
            ExpressionKind::Not(operand) => Expression::Not(self.one(operand)?),
            ExpressionKind::IsNull(operand) => Expression::IsNull(self.one(operand)?),
            ExpressionKind::IsNotNull(operand) => Expression::IsNotNull(self.one(operand)?),
            ExpressionKind::IsBoolean(operand, wanted) => Expression::IsBoolean(self.one(operand)?, *wanted),
            ExpressionKind::IsDistinct { left, right, equals } => {
                Expression::IsDistinct(Box::new(self.pair(left, right, equals)?))
            }
            ExpressionKind::NullIf { left, right, equals } => {
                Expression::NullIf(Box::new(self.pair(left, right, equals)?))
            }
            ExpressionKind::Case { branches, otherwise } => self.case(branches, otherwise.as_deref())?,
            ExpressionKind::Coalesce(operands) => Expression::Coalesce(self.boxed(operands)?),
            ExpressionKind::Extreme(operands, is_greatest) => {
                Expression::Extreme(self.boxed(operands)?, *is_greatest, is_padded(expression.of.oid))
            }
            ExpressionKind::Array { elements, element, is_nested } => {
                Expression::Array(Box::new(ArrayConstructor {
                    elements: self.boxed(elements)?,
                    element: *element,
                    is_nested: *is_nested,
                }))
            }
            ExpressionKind::Row(fields) => Expression::Row(Box::new(RowConstructor {
                types: fields.iter().map(|field| field.of.oid).collect(),
                names: None,
                fields: self.boxed(fields)?,
                is_nullable: false,
            })),
            ExpressionKind::RowCompare { operator, left, right } => {
                Expression::RowCompare(Box::new(RowCompare {
                    operator: *operator,
                    padded: left.iter().map(|field| is_padded(field.of.oid)).collect(),
                    left: self.boxed(left)?,
                    right: self.boxed(right)?,
                }))
            }
            ExpressionKind::Field(row, field) => Expression::Field(self.one(row)?, *field),
            ExpressionKind::Subscript { container, subscripts, is_slice } => {
                let parts = self.subscript_parts(subscripts)?;
                let container = self.expression(container)?;
                Expression::Subscript(Box::new(Subscripts { container, parts, is_slice: *is_slice }))
            }
            ExpressionKind::Assign { container, subscripts, is_slice, value } => {
                let element = crate::bind::element_type(container.of.oid);
                Expression::Assign(Box::new(Assignment {
                    parts: self.subscript_parts(subscripts)?,
                    container: self.expression(container)?,
                    is_slice: *is_slice,
                    value: self.expression(value)?,
                    element,
                }))
            }
            ExpressionKind::ScalarArray { left, array, function, is_any } => {
                self.scalar_array(left, array, function, *is_any)?
            }
            ExpressionKind::ConvertByText(value) => Expression::ConvertByText(Box::new(Conversion {
                from: value.of,
                to: expression.of,
                value: self.expression(value)?,
            })),
            ExpressionKind::Relabel(value) => {
                return Ok(relabeled(self.expression(value)?, value.of.oid, expression.of.oid));
            }
            ExpressionKind::ConvertElements { array, element, converted } => {
                Expression::ConvertElements(Box::new(ConvertElements {
                    array: self.expression(array)?,
                    slot: self.slot(*element),
                    element: converted.of.oid,
                    converted: self.expression(converted)?,
                }))
            }
            ExpressionKind::CheckDomain(check) => {
                let mut checks = Vec::with_capacity(check.checks.len());
                let slot = self.slot(check.column);
                for (name, condition) in &check.checks {
                    checks.push((name.clone(), self.expression(condition)?));
                }
                Expression::CheckDomain(Box::new(DomainCheck {
                    value: self.expression(&check.value)?,
                    slot,
                    name: check.name.clone(),
                    is_not_null: check.is_not_null,
                    checks,
                }))
            }
            ExpressionKind::Subquery(subquery) => return self.subquery(subquery),
            ExpressionKind::NextValue(sequence) => Expression::NextValue(*sequence, expression.of.oid),
            ExpressionKind::WholeRow(columns, names) => Expression::Row(Box::new(RowConstructor {
                names: Some(names.clone()),
                types: columns.iter().map(|column| self.type_of(*column)).collect(),
                fields: columns.iter().map(|column| Expression::Slot(self.slot(*column))).collect(),
                is_nullable: true,
            })),
            ExpressionKind::Default => {
                return Err(SqlError::internal("DEFAULT is left after binding"));
            }
        })
    }

    fn case(
        &mut self,
        branches: &[(Algebra, Algebra)],
        otherwise: Option<&Algebra>,
    ) -> SqlResult<Expression> {
        let mut compiled = Vec::with_capacity(branches.len());
        for (condition, result) in branches {
            compiled.push((self.expression(condition)?, self.expression(result)?));
        }
        let otherwise = otherwise.map(|otherwise| self.expression(otherwise)).transpose()?;
        Ok(Expression::Case(Box::new(Case { branches: compiled.into_boxed_slice(), otherwise })))
    }

    fn call(&mut self, call: &Call, result: TypeReference) -> SqlResult<Expression> {
        if let (Some((operator, is_padded)), [left, right]) = (comparison(call), &call.arguments[..]) {
            let left = self.expression(left)?;
            return Ok(compare(operator, is_padded, left, self.expression(right)?));
        }
        let arguments = self.expressions(&call.arguments)?;
        let is_constant = arguments.iter().all(|argument| as_constant(argument).is_some());
        let arithmetic = IntegerOperator::of(&call.function.source).filter(|_| !is_constant);
        let arguments = match (arithmetic, <[Expression; 2]>::try_from(arguments)) {
            (Some(operator), Ok([left, right])) => {
                return Ok(Expression::Arithmetic(Box::new(Arithmetic { operator, left, right })));
            }
            (None, Ok(arguments)) => Box::from(arguments),
            (_, Err(arguments)) => arguments.into_boxed_slice(),
        };
        let types = types(&call.arguments);
        let Some(implementation) = implementation(&call.function) else {
            return Err(missing(&call.function));
        };
        let is_strict = call.function.is_strict;
        let compiled = FunctionCall {
            function: call.function.clone(),
            written: call.written.clone(),
            implementation,
            is_strict,
            arguments,
            types,
            result,
        };
        if call.function.volatility == b'i'
            && let Some(value) = fold(&compiled)
        {
            return Ok(Expression::Constant(value));
        }
        Ok(Expression::Call(Box::new(compiled)))
    }

    fn binary(
        &self,
        function: &Arc<FunctionRow>,
        left: TypeReference,
        right: TypeReference,
    ) -> SqlResult<Binary> {
        let means = match comparison_of(&function.source) {
            Some((operator, is_padded)) => BinaryMeans::Order(operator, is_padded),
            None => BinaryMeans::Call(implementation(function).ok_or_else(|| missing(function))?),
        };
        let result = TypeReference::of(function.result);
        Ok(Binary { function: function.clone(), means, types: [left, right], result })
    }

    fn pair(&mut self, left: &Algebra, right: &Algebra, equals: &Arc<FunctionRow>) -> SqlResult<Pair> {
        Ok(Pair {
            equals: self.binary(equals, left.of, right.of)?,
            left: self.expression(left)?,
            right: self.expression(right)?,
        })
    }

    fn subscript_parts(
        &mut self,
        subscripts: &[crate::algebra::Subscript],
    ) -> SqlResult<Box<[SubscriptPart]>> {
        let mut parts = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let from = subscript.from.as_ref().map(|from| self.expression(from)).transpose()?;
            let to = subscript.to.as_ref().map(|to| self.expression(to)).transpose()?;
            parts.push(SubscriptPart { from, to });
        }
        Ok(parts.into_boxed_slice())
    }

    fn scalar_array(
        &mut self,
        left: &Algebra,
        array: &Algebra,
        function: &Arc<FunctionRow>,
        is_any: bool,
    ) -> SqlResult<Expression> {
        /// From so many elements on, a hash table is quicker than comparisons one by one.
        const HASHED_MIN: usize = 9;
        let element = array_element(array);
        let left_type = left.of;
        let left = self.expression(left)?;
        let array = self.expression(array)?;
        let comparison = comparison_of(&function.source);
        let is_hashable = matches!(
            (comparison, is_any),
            (Some((Operator::Equal, _)), true) | (Some((Operator::NotEqual, _)), false)
        );
        if let (true, Some((_, is_padded)), Some(Datum::Array(values))) =
            (is_hashable, comparison, as_constant(&array))
            && values.values.len() >= HASHED_MIN
        {
            let mut set = Groups::new([is_padded]);
            for value in values.values.iter().filter(|value| !value.is_null()) {
                set.enter(std::slice::from_ref(value))?;
            }
            let has_null = values.values.iter().any(Datum::is_null);
            return Ok(Expression::InSet(Box::new(InSet { left, set, has_null, is_negated: !is_any })));
        }
        let function = self.binary(function, left_type, element)?;
        Ok(Expression::ScalarArray(Box::new(ScalarArray { left, array, function, is_any })))
    }

    fn subquery(&mut self, subquery: &Subquery) -> SqlResult<Expression> {
        let relation = super::rewrite::rewrite(subquery.relation.clone());
        let made = made(&relation);
        let mut needed: Columns = subquery.columns.iter().copied().collect();
        if let SubqueryKind::Any(test) | SubqueryKind::All(test) = &subquery.kind {
            needed.extend(used(test).into_iter().filter(|column| made.contains(column)));
        }
        let is_correlated = !free(&relation).is_empty() || self.reads_open_table(&relation);
        let plan = self.deeper(|planner| planner.lower(&relation, &needed))?;
        let slots = self.slots(subquery.columns.iter().copied());
        let mut is_negated = false;
        let kind = match &subquery.kind {
            SubqueryKind::Scalar => SubqueryPlanKind::Scalar,
            SubqueryKind::Row => {
                SubqueryPlanKind::Row(subquery.columns.iter().map(|column| self.type_of(*column)).collect())
            }
            SubqueryKind::Exists => SubqueryPlanKind::Exists,
            SubqueryKind::Any(test) => match self.hashed(test, &made, is_correlated, Operator::Equal)? {
                Some(hashed) => hashed,
                None => SubqueryPlanKind::Any(self.expression(test)?),
            },
            SubqueryKind::All(test) => match self.hashed(test, &made, is_correlated, Operator::NotEqual)? {
                Some(hashed) => {
                    is_negated = true;
                    hashed
                }
                None => SubqueryPlanKind::All(self.expression(test)?),
            },
            SubqueryKind::Array => {
                let of = subquery.columns.first().map_or(oid::UNKNOWN, |column| self.type_of(*column));
                array_kind(of)
            }
        };
        let number = self.subqueries.len();
        self.subqueries.push(Arc::new(SubqueryPlan { plan, kind, slots, is_correlated }));
        let value = Expression::Subquery(number);
        Ok(if is_negated { Expression::Not(Box::new(value)) } else { value })
    }

    /// The hashed form of a test of equal values (`ANY`), or of a single one that differs (`ALL`).
    fn hashed(
        &mut self,
        test: &Algebra,
        made: &Columns,
        is_correlated: bool,
        wanted: Operator,
    ) -> SqlResult<Option<SubqueryPlanKind>> {
        let terms = match &test.kind {
            ExpressionKind::And(terms) if wanted == Operator::Equal => terms.iter().collect(),
            _ => vec![test],
        };
        if is_correlated {
            return Ok(None);
        }
        let (mut outer, mut inner, mut padded) = (Vec::new(), Vec::new(), Vec::new());
        for term in terms {
            let ExpressionKind::Call(call) = &term.kind else { return Ok(None) };
            let (Some((operator, is_padded)), [left, right]) = (comparison(call), &call.arguments[..]) else {
                return Ok(None);
            };
            let is_inner = |side: &Algebra| {
                let used = used(side);
                !used.is_empty() && used.iter().all(|column| made.contains(column))
            };
            let is_outer = |side: &Algebra| !used(side).iter().any(|column| made.contains(column));
            let (outer_side, inner_side) = match (operator == wanted, is_outer(left), is_inner(right)) {
                (true, true, true) => (left, right),
                (true, false, false) if is_outer(right) && is_inner(left) => (right, left),
                _ => return Ok(None),
            };
            outer.push(self.expression(outer_side)?);
            inner.push(self.expression(inner_side)?);
            padded.push(is_padded);
        }
        Ok(Some(SubqueryPlanKind::HashedAny { outer, inner, padded }))
    }
}

/// What `ARRAY(SELECT ..)` makes of values of a type: of arrays, one with a dimension more.
fn array_kind(of: seawall_values::Oid) -> SubqueryPlanKind {
    let row = seawall_values::system::system().type_by_oid(of);
    match row {
        Some(row) if row.element != 0 && row.length == -1 => {
            SubqueryPlanKind::Array { element: row.element, is_nested: true }
        }
        _ => SubqueryPlanKind::Array { element: of, is_nested: false },
    }
}

pub(super) fn array_element(array: &Algebra) -> TypeReference {
    let element = match &array.kind {
        ExpressionKind::Array { element, .. } => *element,
        ExpressionKind::Constant(Datum::Array(array)) => array.element,
        _ => {
            seawall_values::system::system().type_by_oid(array.of.oid).map_or(oid::UNKNOWN, |row| row.element)
        }
    };
    TypeReference::of(element)
}

fn compare(operator: Operator, is_padded: bool, left: Expression, right: Expression) -> Expression {
    let comparison = Comparison { operator, is_padded, left, right };
    match comparison.constant() {
        Some(value) => Expression::Constant(value),
        None => Expression::Compare(Box::new(comparison)),
    }
}

/// `AND` (`decisive` is false) or `OR`, without terms that decide nothing.
fn connective(terms: Vec<Expression>, decisive: bool) -> Expression {
    let mut kept = Vec::with_capacity(terms.len());
    for term in terms {
        match as_constant(&term) {
            // What stands before it may fail, and is evaluated first.
            Some(Datum::Bool(value)) if *value == decisive && kept.is_empty() => return term,
            Some(Datum::Bool(value)) if *value != decisive => {}
            _ => kept.push(term),
        }
    }
    match kept.len() {
        0 => Expression::Constant(Datum::Bool(!decisive)),
        _ if decisive => Expression::Or(kept.into_boxed_slice()),
        _ => Expression::And(kept.into_boxed_slice()),
    }
}

/// The value of an immutable function of constants; `None`: it has none yet, or fails: then it fails when it is evaluated.
fn fold(call: &FunctionCall) -> Option<Datum> {
    let arguments: Vec<Datum> =
        call.arguments.iter().map(|argument| as_constant(argument).cloned()).collect::<Option<_>>()?;
    if call.is_strict && arguments.iter().any(Datum::is_null) {
        return Some(Datum::Null);
    }
    let settings = Settings::default();
    (call.implementation)(&functions::Call {
        arguments: &arguments,
        argument_types: &call.types,
        result_type: call.result,
        settings: &settings,
    })
    .ok()
}
