//! `WITH`.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::{Cte, Query, SetExpr, SetOperator as Written, SetQuantifier, With};

use super::Binder;
use super::expression::folded;
use super::scope::ScopeColumn;
use super::select::Around;
use super::types::type_name;
use crate::algebra::{ColumnId, CommonTable, CommonTableId, OutputColumn, Relation};

/// A common table expression that can be named.
#[derive(Clone, Debug)]
pub(crate) struct NamedTable {
    name: String,
    id: CommonTableId,
    columns: Vec<(String, TypeReference)>,
    /// How often it was named.
    uses: usize,
    /// `RECURSIVE`, and its recursive part is being bound.
    is_own: bool,
    /// It changes a table and returns nothing.
    is_without_rows: bool,
}

impl Binder<'_> {
    /// Binds the tables, and `body` where they can be named.
    pub(super) fn with(
        &mut self,
        with: &With,
        body: impl FnOnce(&mut Self) -> SqlResult<(Relation, Vec<OutputColumn>)>,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let before = self.common_tables.len();
        let result = self.with_tables(with, before, body);
        self.common_tables.truncate(before);
        result
    }

    fn with_tables(
        &mut self,
        with: &With,
        before: usize,
        body: impl FnOnce(&mut Self) -> SqlResult<(Relation, Vec<OutputColumn>)>,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let mut tables = Vec::with_capacity(with.cte_tables.len());
        for cte in &with.cte_tables {
            let name = folded(&cte.alias.name);
            if self.common_tables[before..].iter().any(|known| known.name == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
            tables.push(self.deeper(|binder| binder.common(cte, name, with.recursive))?);
        }
        let (relation, output) = body(self)?;
        Ok((Relation::With { tables, body: Box::new(relation) }, output))
    }

    fn common(&mut self, cte: &Cte, name: String, is_recursive: bool) -> SqlResult<CommonTable> {
        let id = self.new_common_table();
        if is_recursive
            && cte.query.with.is_none()
            && let SetExpr::SetOperation { op: Written::Union, set_quantifier, left, right } =
                cte.query.body.as_ref()
            && mentions(right, &name)
        {
            let is_distinct = !matches!(set_quantifier, SetQuantifier::All);
            return self.recursive(cte, name, id, left, right, is_distinct);
        }
        if matches!(*cte.query.body, SetExpr::Merge(_)) {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "MERGE not supported in WITH query")
                .at(self.text.position(cte.alias.name.span.start)));
        }
        let changes = |query: &Query| {
            matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
        };
        let inner = cte.query.with.iter().flat_map(|with| &with.cte_tables);
        let is_inside = !self.scopes.is_empty() && changes(&cte.query);
        let wrong = inner.filter(|inner| changes(&inner.query)).chain(is_inside.then_some(cte)).next();
        if let Some(wrong) = wrong {
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .at(self.text.position(wrong.alias.name.span.start)));
        }
        let is_changing =
            matches!(*cte.query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_));
        let (query, output) = self.bind_query(&cte.query, false)?;
        let columns = named_columns(cte, &name, &output)?;
        let is_without_rows = is_changing && output.is_empty();
        self.common_tables.push(NamedTable {
            name: name.clone(),
            id,
            columns,
            uses: 0,
            is_own: false,
            is_without_rows,
        });
        let columns = output.iter().map(|column| (column.column, column.of)).collect();
        Ok(CommonTable { id, name, query, columns, recursive: None, is_changing })
    }

    fn recursive(
        &mut self,
        cte: &Cte,
        name: String,
        id: CommonTableId,
        left: &SetExpr,
        right: &SetExpr,
        is_distinct: bool,
    ) -> SqlResult<CommonTable> {
        const NOTHING: Around<'static> =
            Around { order: &[], limit: None, fetch: None, locks: &[], pushed: &[], is_selection: false };
        if cte.query.order_by.is_some() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "ORDER BY in a recursive query is not implemented",
            ));
        }
        if cte.query.limit_clause.is_some() || cte.query.fetch.is_some() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "LIMIT in a recursive query is not implemented",
            ));
        }
        let (query, output) = self.body(left, NOTHING, false)?;
        let columns = named_columns(cte, &name, &output)?;
        self.common_tables.push(NamedTable {
            name: name.clone(),
            id,
            columns: columns.clone(),
            uses: 0,
            is_own: true,
            is_without_rows: false,
        });
        let index = self.common_tables.len() - 1;
        let bound = self.body(right, NOTHING, true);
        let uses = self.common_tables[index].uses;
        self.common_tables[index].is_own = false;
        let (relation, round) = bound?;
        if uses > 1 {
            let message = format!("recursive reference to query \"{name}\" must not appear more than once");
            return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
        }
        if round.len() != output.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (position, (first, next)) in output.iter().zip(&round).enumerate() {
            let l = self.column_expression(first.column, first.of);
            let r = self.column_expression(next.column, next.of);
            let common = self.common_type_of(&[&l, &r], "UNION")?;
            if common != first.of.oid {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                    position + 1,
                    type_name(first.of.oid),
                    type_name(common)
                );
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .with_hint("Cast the output of the non-recursive term to the correct type."));
            }
        }
        let wanted: Vec<TypeReference> = output.iter().map(|column| column.of).collect();
        let (relation, ids) = self.converted(relation, &round, &wanted, "UNION")?;
        let columns = output.iter().map(|column| (column.column, column.of)).collect();
        Ok(CommonTable {
            id,
            name,
            query,
            columns,
            recursive: Some((relation, ids, is_distinct)),
            is_changing: false,
        })
    }

    /// A use of a common table expression by its name.
    pub(super) fn common_table(
        &mut self,
        name: &str,
        position: Option<u32>,
    ) -> SqlResult<Option<(Relation, Vec<ScopeColumn>)>> {
        let Some(index) = self.common_tables.iter().rposition(|known| known.name == name) else {
            return Ok(None);
        };
        self.common_tables[index].uses += 1;
        let known = self.common_tables[index].clone();
        if known.is_without_rows {
            let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        let mut ids: Vec<(usize, ColumnId)> = Vec::with_capacity(known.columns.len());
        let mut columns = Vec::with_capacity(known.columns.len());
        for (index, (name, of)) in known.columns.into_iter().enumerate() {
            let id = self.new_column();
            ids.push((index, id));
            columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
        }
        Ok(Some((Relation::CommonTable { table: known.id, columns: ids }, columns)))
    }
}

fn named_columns(cte: &Cte, name: &str, output: &[OutputColumn]) -> SqlResult<Vec<(String, TypeReference)>> {
    let written = &cte.alias.columns;
    if written.len() > output.len() {
        let message = format!(
            "WITH query \"{name}\" has {} columns available but {} columns specified",
            output.len(),
            written.len()
        );
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    let names = output.iter().enumerate().map(|(index, column)| {
        let name = written.get(index).map_or_else(|| column.name.clone(), |alias| folded(&alias.name));
        (name, column.of)
    });
    Ok(names.collect())
}

/// Whether the text of a query names a table so.
fn mentions(body: &SetExpr, name: &str) -> bool {
    let text = body.to_string().to_lowercase();
    text.split(|character: char| !(character.is_alphanumeric() || character == '_' || character == '$'))
        .any(|word| word == name)
        || text.contains(&format!("\"{}\"", name.to_lowercase()))
}
