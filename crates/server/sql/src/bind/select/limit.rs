//! `LIMIT`, `OFFSET` and `FETCH FIRST`.

use seawall_values::{Datum, SqlError, SqlResult, SqlState, oid};
use sqlparser::ast::{Expr, LimitClause, LockClause, NonBlock};

use super::super::scope::Clause;
use super::super::{Binder, constant};
use super::Around;
use crate::algebra::walk::visit;
use crate::algebra::{Expression, ExpressionKind, Relation, SortKey};

impl Binder<'_> {
    pub(super) fn limited(
        &mut self,
        relation: Relation,
        around: Around<'_>,
        keys: Vec<SortKey>,
    ) -> SqlResult<Relation> {
        let (mut count, mut offset, mut with_ties) = (None, None, None);
        match around.limit {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset: written, limit_by }) if limit_by.is_empty() => {
                if let Some(limit) = limit {
                    count = Some(self.row_count(limit, Clause::Limit)?);
                }
                if let Some(written) = written {
                    offset = Some(self.row_count(&written.value, Clause::Offset)?);
                }
            }
            Some(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        }
        if let Some(fetch) = around.fetch {
            if fetch.percent {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"PERCENT\""));
            }
            count = Some(match &fetch.quantity {
                Some(quantity) => self.row_count(quantity, Clause::Limit)?,
                None => constant(Datum::Int8(1), oid::INT8),
            });
            let skips = |lock: &LockClause| lock.nonblock == Some(NonBlock::SkipLocked);
            if fetch.with_ties && around.locks.iter().any(skips) {
                let message = "SKIP LOCKED and WITH TIES options cannot be used together";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            if fetch.with_ties {
                if keys.is_empty() {
                    let message = "WITH TIES cannot be specified without ORDER BY clause";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                with_ties = Some(keys);
            }
        }
        if count.is_none() && offset.is_none() {
            return Ok(relation);
        }
        Ok(Relation::Limit { input: Box::new(relation), count, offset, with_ties })
    }

    fn row_count(&mut self, expr: &Expr, clause: Clause) -> SqlResult<Expression> {
        let construct = clause.name();
        let value = self.in_clause(clause, |binder| binder.as_bigint(expr, construct))?;
        let level = self.scopes.len() - 1;
        let mut wrong = None;
        visit(&value, &mut |inner| {
            if let ExpressionKind::Column(id) = inner.kind {
                let scope = &self.scopes[level];
                let is_own = scope.columns.iter().any(|column| column.id == id);
                if is_own && wrong.is_none() {
                    wrong = Some(inner.position);
                }
            }
        });
        match wrong {
            Some(position) => {
                let message = format!("argument of {construct} must not contain variables");
                Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(position))
            }
            None => Ok(value),
        }
    }
}
