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
        let (bound, needed, replaced, types, functions) = self.bind_with(&create.text, &[], |binder| {
            binder.has_parameters = false;
            binder.replaced = Some(Vec::new());
            let bound = binder.query(query)?;
            let types = std::mem::take(&mut binder.used_types);
            let (functions, replaced) = (binder.take_called(), binder.replaced.take().unwrap_or_default());
            Ok((bound, binder.take_needed(), replaced, types, functions))
        })?;
        let mut uses = uses(&needed);
        uses.extend(types.into_iter().chain(functions).map(|of| (of, 0)));
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
        let search_path = self.names_of_path()?;
        let request = NewView {
            name: create.name.name.clone(),
            namespace,
            or_replace: create.or_replace,
            columns: output.into_iter().map(|column| (column.name, column.of)).collect(),
            // Columns that tables get later are not the view's, nor are other objects that get the names of its own.
            query: create.text.with_replaced(replaced),
            search_path,
            uses,
            options: create.options.clone(),
        };
        if request.options.iter().any(|option| option.starts_with("check_option=")) {
            self.require_updatable(&request)?;
        }
        self.with_definer(|definer| definer.create_view(&request)).map(|_| ())
    }

    /// `0A000` unless a change of the view would be one of a table.
    fn require_updatable(&mut self, request: &NewView) -> SqlResult<()> {
        let view = std::sync::Arc::new(crate::schema::View {
            oid: 0,
            name: request.name.clone(),
            namespace: request.namespace,
            owner: self.asker.user,
            columns: request.columns.clone(),
            query: request.query.clone(),
            search_path: request.search_path.clone(),
            options: Vec::new(),
        });
        let text = crate::parse::Text::new("");
        match self.bind_with(&text, &[], |binder| binder.not_updatable(&view))? {
            None => Ok(()),
            Some(why) => {
                let message = "WITH CHECK OPTION is supported only on automatically updatable views";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(why))
            }
        }
    }
}
