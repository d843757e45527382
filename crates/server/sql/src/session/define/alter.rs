//! `ALTER TABLE`, `ALTER VIEW`, `ALTER INDEX`, `ALTER SEQUENCE`: each action bound to the table that the one before has made.

use seawall_values::system::CastContext;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference};

use super::super::Session;
use super::check_kind;
use super::index::columns_of;
use crate::algebra::Written;
use crate::bind::Clause;
use crate::parse::Text;
use crate::parse::statement::ObjectName;
use crate::parse::statement::definition::{
    AlterRelation, ColumnDefinition, RelationAction, WrittenExpression,
};
use crate::schema::define::requests::{ColumnType, RelationKind, TableChange};
use crate::schema::{Definition, Table};

impl Session {
    pub(super) fn alter_relation(&mut self, text: &Text, alter: &AlterRelation) -> SqlResult<()> {
        let Some(oid) = self.existing(&alter.name, alter.if_exists)? else { return Ok(()) };
        for action in &alter.actions {
            let definition = self.definition_of(oid)?;
            let is_general = matches!(
                action,
                RelationAction::Rename(_) | RelationAction::SetSchema(_) | RelationAction::SetOwner(_)
            );
            if let (false, Definition::Table(table), Some(shown)) =
                (is_general, &definition, of_tables(action))
                && table.query.is_some()
            {
                let name = &alter.name.name;
                let message = format!("ALTER action {shown} cannot be performed on relation \"{name}\"");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_detail("This operation is not supported for materialized views."));
            }
            if !(is_general && alter.kind == RelationKind::Table) {
                check_kind(alter.kind, &definition, &alter.name.name)?;
            }
            self.alter_action(text, oid, &definition, action, &alter.name)?;
        }
        Ok(())
    }

    fn definition_of(&mut self, oid: Oid) -> SqlResult<Definition> {
        self.begin_statement()?;
        if let Some(system) = crate::catalog::relation(oid) {
            return Ok(Definition::System(system));
        }
        let database = std::sync::Arc::clone(&self.database);
        database.store.definition(self.engine_transaction()?, oid)?.ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist"))
        })
    }

    fn alter_action(
        &mut self,
        text: &Text,
        oid: Oid,
        definition: &Definition,
        action: &RelationAction,
        name: &ObjectName,
    ) -> SqlResult<()> {
        match action {
            RelationAction::Rename(to) => {
                return self.with_definer(|definer| definer.rename_relation(oid, to));
            }
            RelationAction::SetSchema(schema) => {
                return self.with_definer(|definer| {
                    let namespace = definer.namespace_named(schema)?;
                    definer.move_relation(oid, namespace)
                });
            }
            RelationAction::SetOwner(owner) => {
                let owner = self.role_number(owner)?;
                return self.with_definer(|definer| definer.give_relation(oid, owner));
            }
            RelationAction::Nothing => return Ok(()),
            _ => {}
        }
        match (definition, action) {
            (Definition::Table(table), _) => {
                let Some(change) = self.table_change(text, table, action, name)? else { return Ok(()) };
                self.with_definer(|definer| definer.alter_table(oid, &change)).map(|_| ())
            }
            (Definition::View(_), RelationAction::RenameColumn { name, to }) => {
                self.with_definer(|definer| definer.rename_view_column(oid, name, to))
            }
            _ => Err(SqlError::unsupported("this form of ALTER")),
        }
    }

    fn table_change(
        &mut self,
        text: &Text,
        table: &Table,
        action: &RelationAction,
        name: &ObjectName,
    ) -> SqlResult<Option<TableChange>> {
        if let RelationAction::NothingOfColumn(column) = action {
            return column_of(table, column).map(|_| None);
        }
        Ok(Some(match action {
            RelationAction::RenameColumn { name, to } => TableChange::RenameColumn(name.clone(), to.clone()),
            RelationAction::RenameConstraint { name, to } => {
                TableChange::RenameConstraint(name.clone(), to.clone())
            }
            RelationAction::AddColumn { column, if_not_exists } => {
                self.added_column(text, table, column, *if_not_exists, name)?
            }
            RelationAction::DropColumn { name, if_exists, behavior } => {
                TableChange::DropColumn { name: name.clone(), if_exists: *if_exists, behavior: *behavior }
            }
            RelationAction::SetType { column, of, using, collation } => {
                super::table::check_collation(collation.as_ref())?;
                let to = self.new_type(text, table, column, of, using.as_ref())?;
                TableChange::SetType(column.clone(), to)
            }
            RelationAction::SetDefault { column, default } => {
                let default = match default {
                    None => None,
                    Some(default) => {
                        let (of, domain) = (column_of(table, column)?.of, column_of(table, column)?.domain);
                        self.default_of(default, column, of, domain)?
                    }
                };
                TableChange::SetDefault(column.clone(), default)
            }
            RelationAction::SetNotNull { column, is_not_null } => {
                TableChange::SetNotNull(column.clone(), *is_not_null)
            }
            RelationAction::AddIdentity { column, identity, options } => {
                let options = self.sequence_options(text, options)?;
                TableChange::AddIdentity(column.clone(), *identity, options)
            }
            RelationAction::SetIdentity { column, identity, options } => {
                let options = self.sequence_options(text, options)?;
                TableChange::SetIdentity(column.clone(), *identity, options)
            }
            RelationAction::DropIdentity { column, if_exists } => {
                TableChange::DropIdentity(column.clone(), *if_exists)
            }
            RelationAction::DropExpression { column, if_exists } => {
                TableChange::DropExpression(column.clone(), *if_exists)
            }
            RelationAction::AddConstraint(constraint) => TableChange::AddConstraint(self.new_constraint(
                text,
                constraint,
                &columns_of(table),
                Some(name),
            )?),
            RelationAction::DropConstraint { name, if_exists, behavior } => {
                TableChange::DropConstraint { name: name.clone(), if_exists: *if_exists, behavior: *behavior }
            }
            RelationAction::AlterConstraint { name, is_deferrable, is_deferred } => {
                TableChange::AlterConstraint(name.clone(), *is_deferrable, *is_deferred)
            }
            RelationAction::ValidateConstraint(name) => TableChange::ValidateConstraint(name.clone()),
            RelationAction::SetOptions(options) => TableChange::SetOptions(options.clone()),
            RelationAction::ResetOptions(options) => TableChange::ResetOptions(options.clone()),
            RelationAction::Rename(_)
            | RelationAction::SetSchema(_)
            | RelationAction::SetOwner(_)
            | RelationAction::Nothing
            | RelationAction::NothingOfColumn(_) => return Ok(None),
        }))
    }

    /// A column that is added: one whose default is the same for every row needs no rewrite.
    fn added_column(
        &mut self,
        text: &Text,
        table: &Table,
        column: &ColumnDefinition,
        if_not_exists: bool,
        name: &ObjectName,
    ) -> SqlResult<TableChange> {
        let mut columns = columns_of(table);
        let (of, _) = self.column_type(text, &column.of).map_err(|error| error.at(column.position))?;
        columns.push((column.name.clone(), of));
        let mut new = self.new_column(text, column, &columns)?;
        if let (Some(default), Some(words)) = (&column.default, &new.default)
            && words.sequences.is_empty()
        {
            let to = if new.domain == 0 { of } else { TypeReference::of(new.domain) };
            new.missing = self.constant_default(default, to)?;
        }
        let mut constraints = Vec::with_capacity(column.constraints.len());
        for constraint in &column.constraints {
            constraints.push(self.new_constraint(text, constraint, &columns, Some(name))?);
        }
        if new.domain != 0 && new.identity.is_none() && new.generated.is_none() && new.default.is_none() {
            new.missing = self.constant_of_domain(new.domain)?;
        }
        Ok(TableChange::AddColumn { column: new, constraints, if_not_exists })
    }

    /// What a domain gives to columns without a default, if the domain allows it; `None`: it is computed for each row.
    fn constant_of_domain(&mut self, domain: Oid) -> SqlResult<Option<Datum>> {
        let empty = Text::new("");
        let to = TypeReference::of(domain);
        let value = self.bind_with(&empty, &[], |binder| {
            let value = match binder.domain_default(domain)? {
                None => crate::bind::constant(Datum::Null, seawall_values::oid::UNKNOWN),
                Some(text) => {
                    let parsed = crate::parse::expression(&Text::new(&text))?;
                    binder.in_new_scope(Clause::Default, |binder| binder.expression(&parsed))?
                }
            };
            binder.assigned_value(value, to, "default expression", "")
        })?;
        if crate::bind::is_volatile(&value) {
            return Ok(None);
        }
        self.constant_value(value).map(Some)
    }

    /// The value of a default that gives every row the same; `None`: it is computed for each row.
    fn constant_default(
        &mut self,
        default: &WrittenExpression,
        of: seawall_values::TypeReference,
    ) -> SqlResult<Option<Datum>> {
        let value = self.bind_with(&default.text, &[], |binder| {
            let value = binder.in_new_scope(Clause::Default, |binder| binder.expression(&default.expr))?;
            binder.assigned_value(value, of, "default expression", "")
        })?;
        if crate::bind::is_volatile(&value) {
            return Ok(None);
        }
        self.constant_value(value).map(Some)
    }

    fn new_type(
        &mut self,
        text: &Text,
        table: &Table,
        column: &str,
        of: &sqlparser::ast::DataType,
        using: Option<&WrittenExpression>,
    ) -> SqlResult<ColumnType> {
        let domain = self.column_domain(text, of)?;
        let (base, _) = self.column_type(text, of)?;
        let of = if domain == 0 { base } else { TypeReference::of(domain) };
        let old = column_of(table, column)?.clone();
        let columns = columns_of(table);
        let cannot = |message: String| SqlError::new(SqlState::DATATYPE_MISMATCH, message);
        let type_name = crate::bind::types::type_name;
        self.begin_statement()?;
        let words = match using {
            Some(using) => {
                let words = self.bind_with(&using.text, &[], |binder| {
                    binder.words_of(&using.expr, &columns, Clause::Generated, |binder, value| {
                        let context = CastContext::Assignment;
                        binder.coerce_to(value, of, context, Written::ExplicitCast)?.ok_or_else(|| {
                            cannot(format!(
                                "result of USING clause for column \"{column}\" cannot be cast automatically to type {}",
                                type_name(of.oid)
                            ))
                            .with_hint("You might need to add an explicit cast.")
                        })
                    })
                })?;
                Some(words.text)
            }
            None if old.of == of && old.domain == 0 => None,
            None if old.of == base && domain == 0 => None,
            None => {
                let empty = Text::new("");
                let words = self.bind_with(&empty, &[], |binder| {
                    binder.words_of_column(column, &columns, |binder, value| {
                        let context = CastContext::Assignment;
                        binder.coerce_to(value, of, context, Written::ExplicitCast)?.ok_or_else(|| {
                            cannot(format!(
                                "column \"{column}\" cannot be cast automatically to type {}",
                                type_name(of.oid)
                            ))
                            .with_hint(format!(
                                "You might need to specify \"USING {column}::{}\".",
                                type_name(of.oid)
                            ))
                        })
                    })
                })?;
                Some(words.text)
            }
        };
        let default = match &old.default {
            None => None,
            Some(default) => {
                let statement = Text::new(default);
                let parsed = crate::parse::expression(&statement)?;
                let words = self.bind_with(&statement, &[], |binder| {
                    binder.words_of(&parsed, &Vec::new(), Clause::Default, |binder, value| {
                        let context = CastContext::Assignment;
                        binder.coerce_to(value, of, context, Written::ExplicitCast)?.ok_or_else(|| {
                            cannot(format!(
                                "default for column \"{column}\" cannot be cast automatically to type {}",
                                type_name(of.oid)
                            ))
                        })
                    })
                })?;
                Some(words.text)
            }
        };
        Ok(ColumnType { of: base, using: words, default, domain })
    }
}

fn column_of<'t>(table: &'t Table, name: &str) -> SqlResult<&'t crate::schema::Column> {
    table.columns.iter().find(|column| !column.is_dropped && column.name == name).ok_or_else(|| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// What is done with tables, and not with materialized views: as messages name it.
fn of_tables(action: &RelationAction) -> Option<&'static str> {
    use RelationAction as A;
    Some(match action {
        A::AddColumn { .. } => "ADD COLUMN",
        A::DropColumn { .. } => "DROP COLUMN",
        A::SetType { .. } => "ALTER COLUMN ... SET DATA TYPE",
        A::SetDefault { .. } => "ALTER COLUMN ... SET DEFAULT",
        A::SetNotNull { .. } => "ALTER COLUMN ... SET NOT NULL",
        A::AddIdentity { .. } => "ALTER COLUMN ... ADD IDENTITY",
        A::SetIdentity { .. } => "ALTER COLUMN ... SET",
        A::DropIdentity { .. } => "ALTER COLUMN ... DROP IDENTITY",
        A::DropExpression { .. } => "ALTER COLUMN ... DROP EXPRESSION",
        A::AddConstraint(_) => "ADD CONSTRAINT",
        A::DropConstraint { .. } => "DROP CONSTRAINT",
        A::RenameConstraint { .. } => "RENAME CONSTRAINT",
        A::AlterConstraint { .. } => "ALTER CONSTRAINT",
        A::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
        A::Rename(_)
        | A::SetSchema(_)
        | A::SetOwner(_)
        | A::RenameColumn { .. }
        | A::SetOptions(_)
        | A::ResetOptions(_)
        | A::Nothing
        | A::NothingOfColumn(_) => return None,
    })
}
