//! `CREATE DOMAIN`, `ALTER DOMAIN`.

use seawall_values::system::system;
use seawall_values::user_types::{VALUE, is_domain};
use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};

use super::super::Session;
use super::table::{Columns, check_collation};
use crate::bind::Clause;
use crate::parse::Text;
use crate::parse::statement::definition::{CreateDomain, TypeAction, WrittenExpression};
use crate::schema::define::requests::{DomainChange, NewDomain, RelationName};

impl Session {
    pub(super) fn create_domain(&mut self, text: &Text, create: &CreateDomain) -> SqlResult<()> {
        check_collation(create.collation.as_ref())?;
        let bound = self.bind_with(text, &[], |binder| {
            let of = binder.type_of(&create.of)?;
            Ok((of, binder.base_of(of)?))
        });
        let (of, base) = bound.map_err(without_position)?;
        if system().type_by_oid(base.oid).is_some_and(|row| row.kind == b'p') {
            let of = crate::bind::types::type_name(base.oid);
            let message = format!("\"{of}\" is not a valid base type for a domain");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        if crate::bind::types::is_row_type(base.oid) && !seawall_values::user_types::is_composite(base.oid) {
            return Err(SqlError::unsupported("a domain over the type of rows of a table"));
        }
        let default = match &create.default {
            // As PostgreSQL: the default of the domain that it is made of, as that is now.
            None if is_domain(of.oid) => self.bind_with(text, &[], |binder| binder.domain_default(of.oid))?,
            None => None,
            Some(default) => self.domain_default_words(default, base)?,
        };
        let mut checks = Vec::with_capacity(create.checks.len());
        for (name, condition) in &create.checks {
            checks.push((name.clone(), self.domain_condition(condition, base)?));
        }
        let namespace = self.namespace_of_new(&create.name, false)?;
        let request = NewDomain {
            name: create.name.name.clone(),
            namespace,
            base,
            parent: if is_domain(of.oid) { of.oid } else { 0 },
            is_not_null: create.is_not_null == Some(true),
            default,
            checks,
        };
        self.with_definer(|definer| definer.create_domain(&request))
    }

    pub(super) fn alter_domain(&mut self, name: &RelationName, action: &TypeAction) -> SqlResult<()> {
        let base = self.with_definer(|definer| definer.base_of_domain(name))?;
        let change = match action {
            TypeAction::SetDefault(None) => DomainChange::SetDefault(None),
            TypeAction::SetDefault(Some(default)) => {
                DomainChange::SetDefault(self.domain_default_words(default, base)?)
            }
            TypeAction::SetNotNull(is_not_null) => DomainChange::SetNotNull(*is_not_null),
            TypeAction::AddCheck { name, condition, is_not_valid } => DomainChange::AddCheck {
                name: name.clone(),
                condition: self.domain_condition(condition, base)?,
                is_not_valid: *is_not_valid,
            },
            TypeAction::DropConstraint { name, if_exists } => {
                DomainChange::DropCheck { name: name.clone(), if_exists: *if_exists }
            }
            TypeAction::RenameConstraint { name, to } => {
                DomainChange::RenameCheck { name: name.clone(), to: to.clone() }
            }
            TypeAction::ValidateConstraint(name) => DomainChange::ValidateCheck(name.clone()),
            TypeAction::AddValue { .. }
            | TypeAction::RenameValue { .. }
            | TypeAction::ChangeFields(_)
            | TypeAction::Rename(_)
            | TypeAction::SetSchema(_)
            | TypeAction::SetOwner(_) => return Err(SqlError::internal("not a change of a domain")),
        };
        self.with_definer(|definer| definer.alter_domain(name, &change))
    }

    fn domain_default_words(
        &mut self,
        default: &WrittenExpression,
        base: TypeReference,
    ) -> SqlResult<Option<String>> {
        Ok(self.default_of(default, VALUE, base, 0)?.map(|words| words.text))
    }

    /// A condition over `VALUE`, in PostgreSQL's words.
    fn domain_condition(&mut self, condition: &WrittenExpression, base: TypeReference) -> SqlResult<String> {
        let columns: Columns = vec![(VALUE.to_owned(), base)];
        let words = self.condition_words(condition, &columns, Clause::Check, "CHECK");
        let (words, _) = words.map_err(without_position)?;
        Ok(words.text)
    }
}

/// PostgreSQL tells no positions in the definition of a domain.
fn without_position(mut error: Box<SqlError>) -> Box<SqlError> {
    error.position = None;
    error
}
