//! `DISTINCT` and `DISTINCT ON`, which also say how rows are sorted.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::Distinct;

use super::super::Binder;
use super::super::scope::Clause;
use super::items::Item;
use super::order::{check_equality, sorted};
use crate::algebra::{ColumnId, OutputColumn, Relation, SortKey};

/// Which rows of a result are one.
pub(super) enum Distinctness {
    /// Each is its own.
    None,
    /// Those with the same values.
    All,
    /// Those that have the same values in these items.
    On(Vec<usize>),
}

impl Binder<'_> {
    pub(super) fn distinct_clause(
        &mut self,
        clause: Option<&Distinct>,
        items: &mut Vec<Item>,
    ) -> SqlResult<Distinctness> {
        let list = match clause {
            None | Some(Distinct::All) => return Ok(Distinctness::None),
            Some(Distinct::Distinct) => return Ok(Distinctness::All),
            Some(Distinct::On(list)) => list,
        };
        let shown = items.len();
        self.in_clause(Clause::DistinctOn, |binder| {
            let mut item = |expr| binder.list_item(expr, items, shown, "SELECT DISTINCT ON");
            Ok(Distinctness::On(list.iter().map(&mut item).collect::<SqlResult<_>>()?))
        })
    }
}

impl Distinctness {
    /// The sorted rows. `DISTINCT ON` keeps the first ones of the order, so the order comes before; the other one sorts what is left.
    pub(super) fn sorted(
        self,
        input: Relation,
        columns: &[OutputColumn],
        visible: usize,
        keys: &[SortKey],
    ) -> SqlResult<Relation> {
        match self {
            Distinctness::None => Ok(sorted(input, keys.to_vec())),
            Distinctness::All => {
                if columns.len() > visible {
                    let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                let on = columns.iter().map(|column| (column.column, column.of)).collect::<Vec<_>>();
                check_equality(&on)?;
                Ok(sorted(Relation::Distinct { input: Box::new(input), on }, keys.to_vec()))
            }
            Distinctness::On(items) => {
                let of_item = |index: usize| (columns[index].column, columns[index].of);
                let on: Vec<(ColumnId, TypeReference)> = items.into_iter().map(of_item).collect();
                if !keys.iter().take(on.len()).all(|key| on.iter().any(|(id, _)| *id == key.column)) {
                    let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                Ok(Relation::Distinct { input: Box::new(sorted(input, keys.to_vec())), on })
            }
        }
    }
}
