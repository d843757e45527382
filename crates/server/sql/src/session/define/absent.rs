//! `DROP` of objects of kinds that users cannot make here: they do not exist, which is an error or a notice. Objects of the system stay.

use seawall_values::system::system;
use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::{Notice, Session};
use crate::catalog::{has_initial_name, heading};
use crate::parse::Text;
use crate::parse::statement::ObjectName;
use crate::parse::statement::definition::{AbsentKind, AbsentObject, DropAbsent, RoutineName};
use crate::schema::Definition;

/// What says that something does not exist.
const ABSENT: [SqlState; 5] = [
    SqlState::UNDEFINED_OBJECT,
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::INVALID_SCHEMA_NAME,
    SqlState::INVALID_CATALOG_NAME,
];

impl Session {
    pub(super) fn drop_absent(&mut self, text: &Text, drop: &DropAbsent) -> SqlResult<()> {
        if drop.kind == AbsentKind::Database && self.is_in_block() {
            let message = "DROP DATABASE cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let mut functions = Vec::new();
        for object in &drop.objects {
            if matches!(drop.kind, AbsentKind::Function | AbsentKind::Routine)
                && let Some(found) = self.function_to_drop(text, object, drop.if_exists)?
            {
                functions.push(found);
                continue;
            }
            let error = match self.absence(text, drop.kind, object) {
                Ok(error) => error,
                Err(error) => error,
            };
            if !(drop.if_exists && ABSENT.contains(&error.code)) {
                return Err(error);
            }
            let message = format!("{}, skipping", error.message);
            let content = *SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
            self.notices.push(Notice { severity: "NOTICE", content });
        }
        if functions.is_empty() {
            return Ok(());
        }
        self.with_definer(|definer| definer.drop_functions(&functions, drop.behavior))
    }

    /// The number of a function of a user.
    fn function_to_drop(
        &mut self,
        text: &Text,
        object: &AbsentObject,
        if_exists: bool,
    ) -> SqlResult<Option<seawall_values::Oid>> {
        let named = RoutineName { name: object.name.clone(), arguments: object.arguments.clone() };
        match self.own_function(text, &named) {
            Err(error) if if_exists && ABSENT.contains(&error.code) => Ok(None),
            found => Ok(found?.map(|found| found.oid)),
        }
    }

    /// The error that says that an object is not there, or that it is one of the system.
    fn absence(&mut self, text: &Text, kind: AbsentKind, object: &AbsentObject) -> SqlResult<Box<SqlError>> {
        if let Some(table) = &object.table {
            return self.absence_at_table(kind, object, table);
        }
        if let Some(schema) = &object.name.schema {
            self.with_definer(|definer| definer.namespace_named(schema))?;
        }
        match kind {
            AbsentKind::Function | AbsentKind::Procedure | AbsentKind::Routine | AbsentKind::Aggregate => {
                self.absence_of_routine(text, kind, object)
            }
            AbsentKind::ForeignTable => self.absence_of_relation(object),
            AbsentKind::Database => {
                if object.name.name == self.login.database {
                    let message = "cannot drop the currently open database";
                    return Ok(SqlError::new(SqlState::OBJECT_IN_USE, message));
                }
                let message = format!("database \"{}\" does not exist", object.name.name);
                Ok(SqlError::new(SqlState::INVALID_CATALOG_NAME, message))
            }
            _ => Ok(plain_absence(kind, &object.name)),
        }
    }

    fn absence_at_table(
        &mut self,
        kind: AbsentKind,
        object: &AbsentObject,
        table: &ObjectName,
    ) -> SqlResult<Box<SqlError>> {
        let found = self.named_relation(table)?;
        let (noun, on) = match kind {
            AbsentKind::Rule => ("rule", "relation"),
            AbsentKind::Policy => ("policy", "table"),
            _ => ("trigger", "table"),
        };
        let (name, table) = (&object.name.name, heading(&found).name);
        let message = format!("{noun} \"{name}\" for {on} \"{table}\" does not exist");
        Ok(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    fn absence_of_relation(&mut self, object: &AbsentObject) -> SqlResult<Box<SqlError>> {
        let noun = "foreign table";
        let name = &object.name.name;
        let missing = || {
            let message = format!("{noun} \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        };
        let found = match self.named_relation(&object.name) {
            Err(error) if error.code == SqlState::UNDEFINED_TABLE => return Ok(missing()),
            found => found?,
        };
        let word = match found {
            Definition::Table(table) if table.query.is_some() => "MATERIALIZED VIEW",
            Definition::Table(_) | Definition::System(_) => "TABLE",
            Definition::View(_) => "VIEW",
            Definition::Sequence(_) => "SEQUENCE",
            Definition::Index(..) => "INDEX",
        };
        let article = if word == "INDEX" { "an" } else { "a" };
        let hint = format!("Use DROP {word} to remove {article} {}.", word.to_lowercase());
        let message = format!("\"{name}\" is not a {noun}");
        Ok(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint))
    }

    fn absence_of_routine(
        &mut self,
        text: &Text,
        kind: AbsentKind,
        object: &AbsentObject,
    ) -> SqlResult<Box<SqlError>> {
        let noun = match kind {
            AbsentKind::Procedure => "procedure",
            AbsentKind::Routine => "routine",
            AbsentKind::Aggregate => "aggregate",
            _ => "function",
        };
        if !system().functions_named(&object.name.name).is_empty() {
            return Ok(refused(kind));
        }
        let name = dotted(&object.name);
        let Some(arguments) = &object.arguments else {
            let message = format!("could not find a {noun} named \"{name}\"");
            return Ok(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        let mut types = Vec::with_capacity(arguments.len());
        for of in arguments {
            let of = self.bind_with(text, &[], |binder| binder.type_of(of))?;
            types.push(crate::bind::types::type_name(of.oid));
        }
        let types =
            if kind == AbsentKind::Aggregate && types.is_empty() { "*".to_owned() } else { types.join(", ") };
        let message = format!("{noun} {name}({types}) does not exist");
        Ok(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    }
}

/// As messages name it: with its schema, without quotes.
pub(super) fn dotted(name: &ObjectName) -> String {
    match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.clone(),
    }
}

/// What the system has is not dropped.
fn refused(kind: AbsentKind) -> Box<SqlError> {
    SqlError::unsupported(format!("{} of an object of the system", kind.tag()))
}

/// An object that its catalog would list by its name.
fn plain_absence(kind: AbsentKind, name: &ObjectName) -> Box<SqlError> {
    let (catalog, noun) = match kind {
        AbsentKind::AccessMethod => ("pg_am", "access method"),
        AbsentKind::Collation => ("pg_collation", "collation"),
        AbsentKind::Conversion => ("pg_conversion", "conversion"),
        AbsentKind::EventTrigger => ("pg_event_trigger", "event trigger"),
        AbsentKind::Extension => ("pg_extension", "extension"),
        AbsentKind::ForeignDataWrapper => ("pg_foreign_data_wrapper", "foreign-data wrapper"),
        AbsentKind::Language => ("pg_language", "language"),
        AbsentKind::Publication => ("pg_publication", "publication"),
        AbsentKind::Server => ("pg_foreign_server", "server"),
        AbsentKind::Statistics => ("pg_statistic_ext", "statistics object"),
        AbsentKind::Subscription => ("pg_subscription", "subscription"),
        AbsentKind::Tablespace => ("pg_tablespace", "tablespace"),
        _ => ("", "object"),
    };
    if has_initial_name(catalog, &name.name) {
        return refused(kind);
    }
    let of = if kind == AbsentKind::Collation { " for encoding \"UTF8\"" } else { "" };
    let message = format!("{noun} \"{}\"{of} does not exist", dotted(name));
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}
