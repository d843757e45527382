//! `CREATE VIEW`.

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::requests::NewView;
use crate::catalog::definition_text::system_type;
use crate::catalog::numbers::PG_CLASS;
use crate::schema::privilege::ObjectKind;
use crate::schema::{Definition, View};

impl Definer<'_> {
    /// `CREATE VIEW`: its number.
    ///
    /// # Errors
    /// `42P07`; `42809`, `42P16`: it cannot be put in the place of what is there.
    pub fn create_view(&mut self, request: &NewView) -> SqlResult<Oid> {
        let store = self.tables.store;
        let existing = store.relation_number(self.tables.transaction, request.namespace, &request.name)?;
        let old = match existing {
            Some(oid) if request.or_replace => {
                match store.definition_to_change(self.tables.transaction, oid)? {
                    Some(Definition::View(old)) => Some(old),
                    _ => {
                        let message = format!("\"{}\" is not a view", request.name);
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                }
            }
            _ => {
                self.check_no_type(request.namespace, &request.name)?;
                self.is_taken(request.namespace, &request.name, false)?;
                None
            }
        };
        if let Some(old) = &old {
            self.require_owner(&Definition::View(old.clone()))?;
            check_columns(old, request)?;
        }
        super::table::check_names(request.columns.iter().map(|(name, _)| name.as_str()))?;
        let oid = match &old {
            Some(old) => old.oid,
            None => store.new_oid()?,
        };
        let view = View {
            oid,
            name: request.name.clone(),
            namespace: request.namespace,
            owner: old.as_ref().map_or(self.owner, |old| old.owner),
            columns: request.columns.clone(),
            query: request.query.clone(),
            search_path: request.search_path.clone(),
            options: request.options.clone(),
        };
        store.put_view(self.tables.transaction, view, old.as_deref())?;
        if old.is_none() {
            self.give_default_access(ObjectKind::Table, (oid, PG_CLASS, 0), request.namespace)?;
        }
        store.remove_dependencies(self.tables.transaction, oid, None)?;
        for (on, column) in request.uses.iter().copied() {
            self.hold_type(on)?;
            if crate::catalog::relation(on).is_none() {
                store.put_dependency(self.tables.transaction, (oid, 0), (on, column))?;
            }
        }
        Ok(oid)
    }
}

/// A view keeps the columns that it has; new ones come after them.
fn check_columns(old: &View, new: &NewView) -> SqlResult<()> {
    let refuse = |message: String| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    if new.columns.len() < old.columns.len() {
        return Err(refuse("cannot drop columns from view".to_owned()));
    }
    for ((name, of), (new_name, new_of)) in old.columns.iter().zip(&new.columns) {
        if name != new_name {
            let message = format!("cannot change name of view column \"{name}\" to \"{new_name}\"");
            return Err(refuse(message)
                .with_hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if of != new_of {
            let shown = |of: &seawall_values::TypeReference| {
                system_type(of.oid, Some(of.modifier)).unwrap_or_else(|| of.oid.to_string())
            };
            let (from, to) = (shown(of), shown(new_of));
            let message = format!("cannot change data type of view column \"{name}\" from {from} to {to}");
            return Err(refuse(message));
        }
    }
    Ok(())
}
