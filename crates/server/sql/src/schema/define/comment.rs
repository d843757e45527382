//! `COMMENT ON`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::requests::{Commented, RelationName};
use super::{Definer, column_number, find_column, no_such_column};
use crate::catalog::numbers::{
    BOOTSTRAP_ROLE, DATABASE, PG_AUTHID, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE, PG_PROC, PG_TYPE,
};
use crate::schema::Definition;

impl Definer<'_> {
    /// `COMMENT ON`; `None`: `IS NULL`. An empty comment is none.
    ///
    /// # Errors
    /// `42703`, `42704`, `42809`, `42501`.
    pub fn comment(&mut self, on: &Commented, text: Option<&str>) -> SqlResult<()> {
        let place = match on {
            Commented::Relation(oid) => {
                self.commented(*oid)?;
                (*oid, PG_CLASS, 0)
            }
            Commented::Column(oid, name) => {
                let position = match self.commented(*oid)? {
                    Definition::Table(table) => {
                        find_column(&table, name).ok_or_else(|| no_such_column(name, &table))?
                    }
                    Definition::View(view) => {
                        view.columns.iter().position(|(known, _)| known == name).ok_or_else(|| {
                            let message =
                                format!("column \"{name}\" of relation \"{}\" does not exist", view.name);
                            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                        })?
                    }
                    other => {
                        let name = crate::catalog::heading(&other).name;
                        let message = format!("cannot set comment on relation \"{name}\"");
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                };
                (*oid, PG_CLASS, column_number(position))
            }
            Commented::Constraint(oid, name) => {
                let found = match self.commented(*oid)? {
                    Definition::Table(table) => {
                        table.constraints.iter().find(|known| known.name == *name).map(|known| known.oid)
                    }
                    _ => None,
                };
                let found = found.ok_or_else(|| {
                    let message = format!("constraint \"{name}\" does not exist");
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?;
                (found, PG_CONSTRAINT, 0)
            }
            Commented::Type(name, is_domain) => (self.commented_type(name, *is_domain)?, PG_TYPE, 0),
            Commented::Function(oid) => {
                if let Some(found) = self.tables.store.function(self.tables.transaction, *oid)? {
                    self.require_owner_of_function(&found)?;
                }
                (*oid, PG_PROC, 0)
            }
            Commented::Namespace(oid) => {
                self.require_owner_of_schema(*oid)?;
                (*oid, PG_NAMESPACE, 0)
            }
            Commented::Role(oid) => {
                self.require_right_to_comment(*oid)?;
                (*oid, PG_AUTHID, 0)
            }
            Commented::Database(name) => {
                if !self.has_role(BOOTSTRAP_ROLE)? {
                    let message = format!("must be owner of database {name}");
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                (DATABASE, PG_DATABASE, 0)
            }
        };
        let text = text.filter(|text| !text.is_empty());
        self.tables.store.put_comment(self.tables.transaction, place, text)
    }

    fn commented_type(&mut self, name: &RelationName, is_domain: bool) -> SqlResult<u32> {
        let found = self.type_named(name)?.ok_or_else(|| {
            let message = format!("type \"{}\" does not exist", name.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        if is_domain && !seawall_values::user_types::is_domain(found.oid) {
            let message = format!("\"{}\" is not a domain", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.require_owner_of_type(&found)?;
        Ok(found.oid)
    }

    fn commented(&mut self, oid: u32) -> SqlResult<Definition> {
        let found = self.tables.store.definition(self.tables.transaction, oid)?.ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist"))
        })?;
        self.require_owner(&found)?;
        Ok(found)
    }
}
