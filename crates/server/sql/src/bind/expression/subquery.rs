//! Queries inside of expressions.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::Query;

use crate::algebra::{Expression, ExpressionKind, Subquery, SubqueryKind};
use crate::bind::{Binder, boolean};

impl Binder<'_> {
    pub(super) fn exists(
        &mut self,
        query: &Query,
        is_negated: bool,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let (relation, output) = self.subquery_of_expression(query)?;
        let columns = output.iter().map(|column| column.column).collect();
        let subquery = Subquery { kind: SubqueryKind::Exists, relation, columns };
        let exists = boolean(ExpressionKind::Subquery(Box::new(subquery)), position);
        Ok(if is_negated { boolean(ExpressionKind::Not(Box::new(exists)), position) } else { exists })
    }

    /// A query of one column, and at most one row, as a value.
    pub(super) fn scalar_subquery(&mut self, query: &Query, position: Option<u32>) -> SqlResult<Expression> {
        let (relation, output) = self.subquery_of_expression(query)?;
        let [only] = output.as_slice() else {
            let message = "subquery must return only one column";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        };
        let of = only.of;
        let subquery = Subquery { kind: SubqueryKind::Scalar, relation, columns: vec![only.column] };
        Ok(Expression { kind: ExpressionKind::Subquery(Box::new(subquery)), of, position })
    }
}
