//! `UNION`, `INTERSECT`, `EXCEPT`, and `VALUES`.

use seawall_values::system::CastContext;
use seawall_values::{SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{Expr, SetExpr, SetOperator as Written, SetQuantifier, Values};

use super::Binder;
use super::coerce::can_coerce;
use super::order_of_types::{can_be_sorted, no_equality};
use super::scope::Clause;
use super::select::Around;
use super::types::type_name;
use crate::algebra::{ColumnId, Expression, ExpressionKind, OutputColumn, Relation, SetOperator};

const NOTHING: Around<'static> =
    Around { order: &[], limit: None, fetch: None, locks: &[], pushed: &[], is_selection: false };

impl Binder<'_> {
    pub(super) fn set_operation(&mut self, body: &SetExpr) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let SetExpr::SetOperation { op, set_quantifier, left, right } = body else {
            return self.body(body, NOTHING, true);
        };
        let operator = match op {
            Written::Union => SetOperator::Union,
            Written::Intersect => SetOperator::Intersect,
            Written::Except => SetOperator::Except,
            Written::Minus => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"MINUS\""));
            }
        };
        let is_all = match set_quantifier {
            SetQuantifier::All => true,
            SetQuantifier::Distinct | SetQuantifier::None => false,
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"BY\"")),
        };
        let (left, left_output) = self.deeper(|binder| binder.set_operation(left))?;
        let (right, right_output) = self.deeper(|binder| binder.set_operation(right))?;
        self.combined(operator, is_all, (left, left_output), (right, right_output))
    }

    /// Both sides with columns of common types.
    pub(super) fn combined(
        &mut self,
        operator: SetOperator,
        is_all: bool,
        left: (Relation, Vec<OutputColumn>),
        right: (Relation, Vec<OutputColumn>),
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let name = match operator {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
        };
        if left.1.len() != right.1.len() {
            let message = format!("each {name} query must have the same number of columns");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut wanted = Vec::with_capacity(left.1.len());
        for (l, r) in left.1.iter().zip(&right.1) {
            let (l, r) = (self.column_expression(l.column, l.of), self.column_expression(r.column, r.of));
            let common = self.common_type_of(&[&l, &r], name)?;
            let modifier = super::expression::common_modifier(&[&l, &r], common);
            let of = TypeReference { oid: common, modifier };
            let keeps_repeats = is_all && operator == SetOperator::Union;
            if !keeps_repeats && !can_be_sorted(common) {
                return Err(no_equality(common));
            }
            wanted.push(of);
        }
        let (left_relation, left_ids) = self.converted(left.0, &left.1, &wanted, name)?;
        let (right_relation, right_ids) = self.converted(right.0, &right.1, &wanted, name)?;
        let mut columns = Vec::with_capacity(wanted.len());
        let mut output = Vec::with_capacity(wanted.len());
        for (index, of) in wanted.into_iter().enumerate() {
            let id = self.new_column();
            columns.push((id, of, left_ids[index], right_ids[index]));
            output.push(OutputColumn { column: id, name: left.1[index].name.clone(), of, origin: (0, 0) });
        }
        let relation = Relation::SetOperation {
            operator,
            is_all,
            columns,
            left: Box::new(left_relation),
            right: Box::new(right_relation),
        };
        Ok((relation, output))
    }

    /// The relation with its columns converted to these types.
    pub(super) fn converted(
        &mut self,
        relation: Relation,
        output: &[OutputColumn],
        wanted: &[TypeReference],
        construct: &str,
    ) -> SqlResult<(Relation, Vec<ColumnId>)> {
        let mut relation = relation;
        let mut computed = Vec::new();
        let mut ids = Vec::with_capacity(output.len());
        for (column, wanted) in output.iter().zip(wanted) {
            let value = match (column.of.oid, literal_of(&mut relation, column.column)) {
                // A literal that has no type yet is read as one of the common type.
                (oid::UNKNOWN, Some(literal)) => literal,
                _ => self.column_expression(column.column, column.of),
            };
            let value = self.coerce_common(value, wanted.oid, construct)?;
            let value = match value.of.modifier == wanted.modifier {
                true => value,
                false => Expression { of: *wanted, ..value },
            };
            let (id, _) = self.as_column(value, &mut computed);
            ids.push(id);
        }
        if !computed.is_empty() {
            relation = Relation::Compute { input: Box::new(relation), values: computed };
        }
        Ok((relation, ids))
    }

    /// `VALUES`, with columns of common types.
    pub(super) fn values(
        &mut self,
        values: &Values,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let mut rows: Vec<Vec<Expression>> = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            rows.push(self.values_row(&row.content)?);
        }
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            let message = "VALUES lists must all be the same length";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if rows.iter().flatten().any(|value| matches!(value.kind, ExpressionKind::Default)) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context"));
        }
        let mut types = Vec::with_capacity(width);
        for index in 0..width {
            let column: Vec<&Expression> = rows.iter().map(|row| &row[index]).collect();
            let is_unknown = column.iter().all(|value| value.of.oid == oid::UNKNOWN);
            if keeps_unknown && is_unknown {
                types.push(TypeReference::of(oid::UNKNOWN));
                continue;
            }
            let common = self.common_type_of(&column, "VALUES")?;
            types.push(TypeReference {
                oid: common,
                modifier: super::expression::common_modifier(&column, common),
            });
        }
        self.typed_values(rows, &types)
    }

    fn values_row(&mut self, row: &[Expr]) -> SqlResult<Vec<Expression>> {
        self.in_clause(Clause::Values, |binder| row.iter().map(|value| binder.expression(value)).collect())
    }

    fn typed_values(
        &mut self,
        rows: Vec<Vec<Expression>>,
        types: &[TypeReference],
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let mut typed = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(row.len());
            for (value, of) in row.into_iter().zip(types) {
                values.push(match of.oid {
                    oid::UNKNOWN => value,
                    common if can_coerce(value.of.oid, common, CastContext::Implicit) => {
                        self.coerce_common(value, common, "VALUES")?
                    }
                    common => {
                        let message = format!(
                            "VALUES types {} and {} cannot be matched",
                            type_name(value.of.oid),
                            type_name(common)
                        );
                        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(value.position));
                    }
                });
            }
            typed.push(values);
        }
        let columns: Vec<ColumnId> = types.iter().map(|_| self.new_column()).collect();
        let output = columns
            .iter()
            .zip(types)
            .enumerate()
            .map(|(index, (column, of))| OutputColumn {
                column: *column,
                name: format!("column{}", index + 1),
                of: *of,
                origin: (0, 0),
            })
            .collect();
        let sets = std::mem::take(&mut self.scope().sets);
        let relation = Relation::Values { columns, rows: typed };
        if !sets.is_empty() {
            let message = "set-returning functions are not allowed in VALUES";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok((relation, output))
    }
}

/// The literal that a list of results has for a column.
pub(super) fn literal_of(relation: &mut Relation, column: ColumnId) -> Option<Expression> {
    match relation {
        Relation::Compute { values, input } => {
            let found = values.iter().find(|(id, _)| *id == column).map(|(_, value)| value.clone());
            match found {
                Some(value) => {
                    matches!(value.kind, ExpressionKind::Constant(_) | ExpressionKind::Parameter(_))
                        .then_some(value)
                }
                None => literal_of(input, column),
            }
        }
        _ => None,
    }
}
