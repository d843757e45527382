//! `CREATE VIEW`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::Session;
use super::super::privileges::uses;
use crate::parse::Dml;
use crate::parse::statement::definition::CreateView;
use crate::schema::define::requests::NewView;

impl Session {
    pub(super) fn create_view(&mut self, create: &CreateView) -> SqlResult<()> {
        let Dml::Query(query) = &create.query else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a view is made of a query"));
        };
        self.begin_statement()?;
        let (bound, needed, stars) = self.bind_with(&create.text, &[], |binder| {
            binder.has_parameters = false;
            binder.stars = Some(Vec::new());
            let bound = binder.query(query)?;
            Ok((bound, std::mem::take(&mut binder.needed), binder.stars.take().unwrap_or_default()))
        })?;
        let uses = uses(&bound, &needed);
        let mut output = bound.output;
        if create.columns.len() > output.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (column, name) in output.iter_mut().zip(&create.columns) {
            column.name.clone_from(name);
        }
        let is_temporary = create.is_temporary;
        let namespace = self.namespace_of_new(&create.name, is_temporary)?;
        let path = self.search_path()?;
        let database = std::sync::Arc::clone(&self.database);
        let mut search_path = Vec::with_capacity(path.namespaces.len());
        for namespace in path.namespaces {
            search_path.push(database.store.namespace_name(self.engine_transaction()?, namespace)?);
        }
        let request = NewView {
            name: create.name.name.clone(),
            namespace,
            or_replace: create.or_replace,
            columns: output.into_iter().map(|column| (column.name, column.of)).collect(),
            // Columns that tables get later are not the view's.
            query: create.text.with_replaced(stars),
            search_path,
            uses,
        };
        self.with_definer(|definer| definer.create_view(&request)).map(|_| ())
    }
}
