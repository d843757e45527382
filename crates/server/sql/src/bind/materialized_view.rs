//! The rows of materialized views: where they come from, and how they go.

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult};

use super::Binder;
use crate::algebra::{Change, ChangeKind, Query, Relation};
use crate::parse::Text;
use crate::schema::Table;

impl Binder<'_> {
    /// The query of a materialized view, with the privileges of its owner.
    pub(crate) fn materialized(&mut self, view: &Arc<Table>) -> SqlResult<Query> {
        let Some(query) = &view.query else { return Err(SqlError::internal("no materialized view")) };
        let text = Text::new(&query.text);
        let parsed = crate::parse::query(&text)?;
        self.search_path = Some(query.search_path.clone());
        self.view_owner = Some(view.owner);
        let (relation, output) = self.bind_top_query(&parsed).map_err(|mut error| {
            // A place in the text of the view is none in the statement.
            error.position = None;
            error
        })?;
        self.finish(relation, output)
    }

    /// The deletion of all rows of a table.
    pub(crate) fn emptied(&mut self, table: &Arc<Table>) -> Query {
        let (input, _, _, row) = self.scan(table);
        let change = Change {
            table: Arc::clone(table),
            kind: ChangeKind::Delete { row },
            input,
            returning: Vec::new(),
            new: Vec::new(),
            checks: Vec::new(),
        };
        Query { relation: Relation::Change(Box::new(change)), output: Vec::new(), parameters: Vec::new() }
    }
}
