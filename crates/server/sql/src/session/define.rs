//! Definitions: `CREATE`, `ALTER`, `DROP`, `TRUNCATE` and their like. Names, types and expressions are bound here; `schema::define` does
//! the rest.
//!
//! * here: relations in general, and what needs no binding. `table`: columns and constraints. `like`, `on_commit`: parts of `CREATE TABLE`. `alter`: `ALTER`. `index`, `view`, `user_type`, `role`, `privileges`. `absent`: `DROP` of what there is none of.

mod absent;
mod alter;
mod domain;
mod function;
mod index;
mod like;
mod materialized_view;
pub(super) mod on_commit;
mod privileges;
mod role;
mod table;
mod user_type;
mod view;

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Session;
use crate::parse::statement::ObjectName;
use crate::parse::statement::definition::{self as written, CommentedObject, Definition as Written};
use crate::parse::{Text, Utility};
use crate::schema::Definition;
use crate::schema::define::Definer;
use crate::schema::define::requests::{
    Behavior, Commented, DropNamed, DropRelations, NewNamespace, NewSequence, RelationKind, RelationName,
    SequenceOptions, Truncate,
};

impl ObjectName {
    fn relation(&self) -> RelationName {
        RelationName { schema: self.schema.clone(), name: self.name.clone() }
    }
}

impl Session {
    /// Runs a statement that defines something; its tag.
    pub(super) fn define(&mut self, text: &Text, statement: &Arc<Utility>) -> SqlResult<String> {
        let tag = statement.tag();
        let open = self.open()?;
        if open.is_read_only {
            let message = format!("cannot execute {tag} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        open.has_begun_work = true;
        open.changes_definitions = true;
        self.path = None;
        match &**statement {
            Utility::Truncate { tables, is_restarting, is_cascading } => {
                self.truncate(tables, *is_restarting, *is_cascading)?;
            }
            Utility::Define(definition) => {
                if let Some(tag) = self.run_definition(text, definition)? {
                    return Ok(tag);
                }
            }
            _ => return Err(SqlError::internal("no definition")),
        }
        Ok(tag.to_owned())
    }

    /// Runs `body` with what makes and changes definitions.
    pub(super) fn with_definer<T>(
        &mut self,
        body: impl FnOnce(&mut Definer<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let path = self.search_path()?;
        let owner = self.asker.user;
        let as_of = self.begin_statement()?;
        let (result, notices) = self.with_owned_tables(as_of, &path, |tables, path| {
            let mut definer = Definer { tables, path, owner, notices: Vec::new() };
            let result = body(&mut definer);
            Ok((result, definer.notices))
        })?;
        self.notices.extend(notices);
        self.path = None;
        let types = self.settings.values();
        result.map_err(|error| types.types.name_in(error))
    }

    fn run_definition(&mut self, text: &Text, definition: &Written) -> SqlResult<Option<String>> {
        match definition {
            Written::CreateTable(create) => self.create_table(text, create)?,
            Written::CreateTableAs(create) => return self.create_table_as(text, create).map(Some),
            Written::CreateIndex(create) => self.create_index(create)?,
            Written::CreateView(create) => self.create_view(create)?,
            Written::CreateMaterializedView(create) => {
                return self.create_materialized_view(create).map(Some);
            }
            Written::RefreshMaterializedView(refresh) => self.refresh_materialized_view(refresh)?,
            Written::CreateSequence(create) => self.create_sequence(text, create)?,
            Written::CreateSchema(create) => self.create_schema(text, create)?,
            Written::CreateRole(create) => self.create_role(create)?,
            Written::AlterRelation(alter) => self.alter_relation(text, alter)?,
            Written::AlterSequence(alter) => self.alter_sequence(text, alter)?,
            Written::AlterRole(alter) => self.alter_role(alter)?,
            Written::AlterSetting(alter) => self.alter_setting(alter)?,
            Written::AlterSchema(alter) => self.alter_schema(alter)?,
            Written::RenameRole { name, to } => {
                let role = self.role_number(&written::RoleName::Named(name.clone()))?;
                self.with_definer(|definer| definer.rename_role(role, to))?;
            }
            Written::DropRelations { kind, names, if_exists, behavior } => {
                let names = names.iter().map(ObjectName::relation).collect();
                let request =
                    DropRelations { kind: *kind, names, if_exists: *if_exists, behavior: *behavior };
                self.with_definer(|definer| definer.drop_relations(&request))?;
            }
            Written::DropSchemas { names, if_exists, behavior } => {
                let request = DropNamed { names: names.clone(), if_exists: *if_exists, behavior: *behavior };
                self.with_definer(|definer| definer.drop_schemas(&request))?;
            }
            Written::DropRoles { names, if_exists } => {
                let names = names.iter().map(|name| self.role_text(name)).collect();
                let request = DropNamed { names, if_exists: *if_exists, behavior: Behavior::Restrict };
                self.with_definer(|definer| definer.drop_roles(&request))?;
            }
            Written::Comment { on, text: comment } => self.comment(text, on, comment.as_deref())?,
            Written::GrantRoles { roles, members, is_admin } => {
                let (roles, members) = (self.role_numbers(roles)?, self.role_numbers(members)?);
                self.with_definer(|definer| definer.grant_roles(&roles, &members, *is_admin))?;
            }
            Written::ChangePrivileges(change) => self.change_privileges(text, change)?,
            Written::CreateEnum { name, labels } => self.create_enum(name, labels)?,
            Written::CreateComposite { name, fields } => self.create_composite(text, name, fields)?,
            Written::CreateDomain(create) => self.create_domain(text, create)?,
            Written::AlterType(alter) => self.alter_type(text, alter)?,
            Written::DropTypes { is_domain, names, if_exists, behavior } => {
                self.drop_types(names, *is_domain, *if_exists, *behavior)?;
            }
            Written::DropAbsent(drop) => self.drop_absent(text, drop)?,
            Written::CreateFunction(create) => self.create_function(text, create)?,
            Written::AlterFunction(alter) => self.alter_function(text, alter)?,
            Written::DropOwned { owners, behavior } => {
                let owners = self.role_numbers(owners)?;
                self.with_definer(|definer| definer.drop_owned(&owners, *behavior))?;
            }
            Written::ReassignOwned { owners, to } => {
                let (owners, to) = (self.role_numbers(owners)?, self.role_number(to)?);
                self.with_definer(|definer| definer.reassign_owned(&owners, to))?;
            }
            Written::RevokeRoles { roles, members, only_admin } => {
                let (roles, members) = (self.role_numbers(roles)?, self.role_numbers(members)?);
                self.with_definer(|definer| definer.revoke_roles(&roles, &members, *only_admin))?;
            }
        }
        Ok(None)
    }

    /// The schema in which a relation is made; a temporary one is made when it is needed first.
    fn namespace_of_new(&mut self, name: &ObjectName, is_temporary: bool) -> SqlResult<Oid> {
        let is_temporary = is_temporary || name.schema.as_deref() == Some("pg_temp");
        self.storage.uses_temporary |= is_temporary;
        if is_temporary && self.asker.temporary_namespace == 0 {
            self.require_temporary_tables()?;
            let process_id = self.login.process_id;
            let namespace = self.with_definer(|definer| definer.temporary_schema(process_id))?;
            self.asker.temporary_namespace = namespace;
            let savepoints = self.savepoints();
            self.open()?.made_temporary_schema = Some(savepoints);
        }
        self.path = None;
        self.with_definer(|definer| definer.namespace_of_new(name.schema.as_deref(), is_temporary))
    }

    /// Drops the session's temporary tables.
    pub(super) fn drop_temporary_tables(&mut self) -> SqlResult<()> {
        let namespace = self.asker.temporary_namespace;
        if namespace == 0 {
            return Ok(());
        }
        self.open()?.changes_definitions = true;
        self.with_definer(|definer| definer.drop_temporary(namespace))
    }

    /// The number of a relation, or `42P01`.
    fn relation_number(&mut self, name: &ObjectName) -> SqlResult<Oid> {
        self.named_relation(name).map(|definition| crate::catalog::oid_of(&definition))
    }

    /// The table or materialized view with this name; `42P01`, `42809`.
    fn indexed_table(&mut self, name: &ObjectName) -> SqlResult<Arc<crate::schema::Table>> {
        match self.named_relation(name)? {
            Definition::Table(table) => Ok(table),
            _ => {
                let message = format!("\"{}\" is not a table", name.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// The table with this name; `42P01`, `42809`.
    fn table_named(&mut self, name: &ObjectName) -> SqlResult<Arc<crate::schema::Table>> {
        match self.named_relation(name)? {
            Definition::Table(table) if table.query.is_none() => Ok(table),
            _ => {
                let message = format!("\"{}\" is not a table", name.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    fn truncate(
        &mut self,
        names: &[ObjectName],
        restarts_identity: bool,
        is_cascading: bool,
    ) -> SqlResult<()> {
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            tables.push(self.table_named(name)?.oid);
        }
        let behavior = if is_cascading { Behavior::Cascade } else { Behavior::Restrict };
        let request = Truncate { tables, restarts_identity, behavior };
        self.with_definer(|definer| definer.truncate(&request))
    }

    // Sequences.

    fn sequence_options(
        &mut self,
        text: &Text,
        clauses: &written::SequenceClauses,
    ) -> SqlResult<SequenceOptions> {
        let of = match &clauses.of {
            None => None,
            Some(of) => Some(self.bind_with(text, &[], |binder| binder.value_type_of(of))?.oid),
        };
        let owned_by = match &clauses.owned_by {
            None => None,
            Some(None) => Some(None),
            Some(Some((table, column))) => {
                let table = self.table_named(table)?;
                let position =
                    table.columns.iter().position(|known| !known.is_dropped && known.name == *column);
                let Some(position) = position else {
                    let message =
                        format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                };
                Some(Some((table.oid, position)))
            }
        };
        Ok(SequenceOptions {
            of,
            start: clauses.start,
            increment: clauses.increment,
            minimum: clauses.minimum,
            maximum: clauses.maximum,
            cache: clauses.cache,
            is_cycling: clauses.is_cycling,
            restart: clauses.restart,
            owned_by,
        })
    }

    fn create_sequence(&mut self, text: &Text, create: &written::CreateSequence) -> SqlResult<()> {
        let options = self.sequence_options(text, &create.options)?;
        let namespace = self.namespace_of_new(&create.name, create.is_temporary)?;
        let (name, if_not_exists) = (create.name.name.clone(), create.if_not_exists);
        let request = NewSequence { name, namespace, if_not_exists, options };
        self.with_definer(|definer| definer.create_sequence(&request)).map(|_| ())
    }

    fn alter_sequence(&mut self, text: &Text, alter: &written::AlterSequence) -> SqlResult<()> {
        let Some(oid) = self.existing(&alter.name, alter.if_exists)? else { return Ok(()) };
        let options = self.sequence_options(text, &alter.options)?;
        self.with_definer(|definer| definer.alter_sequence(oid, &options))
    }

    /// The number of a relation; without it a notice, if the statement says `IF EXISTS`.
    fn existing(&mut self, name: &ObjectName, if_exists: bool) -> SqlResult<Option<Oid>> {
        match self.relation_number(name) {
            Err(error) if if_exists && error.code == SqlState::UNDEFINED_TABLE => {
                let message = format!("relation \"{}\" does not exist, skipping", name.name);
                let content = *SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
                self.notices.push(super::Notice { severity: "NOTICE", content });
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    // Schemas, comments.

    fn create_schema(&mut self, text: &Text, create: &written::CreateSchema) -> SqlResult<()> {
        let owner = match &create.owner {
            None => None,
            Some(owner) => Some(self.role_number(owner)?),
        };
        let name = match (&create.name, &create.owner) {
            (Some(name), _) => name.clone(),
            (None, Some(owner)) => self.role_text(owner),
            (None, None) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in CREATE SCHEMA"));
            }
        };
        self.require_schemas(owner)?;
        let request = NewNamespace { name: name.clone(), owner, if_not_exists: create.if_not_exists };
        if self.with_definer(|definer| definer.create_schema(&request))?.is_none()
            || create.elements.is_empty()
        {
            return Ok(());
        }
        // What stands in the statement is made in the schema.
        let before = self.settings.search_path().to_vec();
        let mut path = vec![name];
        path.extend(before.iter().cloned());
        let mark = self.settings.mark();
        self.settings.set("search_path", &path, true)?;
        self.path = None;
        let mut made = Ok(());
        for element in &create.elements {
            if made.is_ok() {
                made = self.run_definition(text, element).map(|_| ());
            }
        }
        self.settings.return_to(mark);
        self.path = None;
        made
    }

    fn alter_schema(&mut self, alter: &written::AlterSchema) -> SqlResult<()> {
        match alter {
            written::AlterSchema::Rename { name, to } => {
                self.with_definer(|definer| definer.rename_schema(name, to))
            }
            written::AlterSchema::Owner { name, owner } => {
                let owner = self.role_number(owner)?;
                self.with_definer(|definer| definer.give_schema(name, owner))
            }
        }
    }

    fn comment(&mut self, whole: &Text, on: &CommentedObject, text: Option<&str>) -> SqlResult<()> {
        let on = match on {
            CommentedObject::Relation(kind, name) => {
                let definition = self.named_relation(name)?;
                check_kind(*kind, &definition, &name.name)?;
                Commented::Relation(crate::catalog::oid_of(&definition))
            }
            CommentedObject::Column(name, column) => {
                Commented::Column(self.relation_number(name)?, column.clone())
            }
            CommentedObject::Constraint(name, table) => {
                // The table comes second in the statement.
                Commented::Constraint(self.relation_number(name)?, table.clone())
            }
            CommentedObject::Type(name, is_domain) => Commented::Type(name.relation(), *is_domain),
            CommentedObject::Function(name) => match self.own_function(whole, name)? {
                Some(function) => Commented::Function(function.oid),
                None => return Err(self.no_such_function(whole, name)?),
            },
            CommentedObject::Schema(name) => {
                Commented::Namespace(self.with_definer(|definer| definer.namespace_named(name))?)
            }
            CommentedObject::Role(name) => Commented::Role(self.role_number(name)?),
            CommentedObject::Database(name) => Commented::Database(name.clone()),
        };
        self.with_definer(|definer| definer.comment(&on, text))
    }

    /// The numbers of constraints with this name that can be deferred.
    pub(super) fn deferrable_constraints(&mut self, name: &ObjectName) -> SqlResult<Vec<Oid>> {
        use crate::storage::engine_error::EngineResult;
        let path = self.search_path()?;
        self.engine_transaction()?.begin_statement().sql()?;
        let database = Arc::clone(&self.database);
        let mut found = Vec::new();
        let mut is_there = false;
        let namespaces = match &name.schema {
            Some(schema) => vec![self.with_definer(|definer| definer.namespace_named(schema))?],
            None => path.namespaces,
        };
        for namespace in namespaces {
            let transaction = self.engine_transaction()?;
            for relation in database.store.relations_in(transaction, namespace)? {
                let Some(Definition::Table(table)) = database.store.definition(transaction, relation)? else {
                    continue;
                };
                let named = table.constraints.iter().filter(|constraint| constraint.name == name.name);
                for constraint in named {
                    is_there = true;
                    if constraint.is_deferrable {
                        found.push(constraint.oid);
                    }
                }
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let (code, message) = match is_there {
            true => (SqlState::WRONG_OBJECT_TYPE, format!("constraint \"{}\" is not deferrable", name.name)),
            false => (SqlState::UNDEFINED_OBJECT, format!("constraint \"{}\" does not exist", name.name)),
        };
        Err(SqlError::new(code, message))
    }
}

/// `42809` unless the relation is of the kind that the statement names.
fn check_kind(kind: RelationKind, definition: &Definition, name: &str) -> SqlResult<()> {
    let (is_alike, word) = match kind {
        RelationKind::Table => {
            let is_table = match definition {
                Definition::Table(table) => table.query.is_none(),
                definition => matches!(definition, Definition::System(_)),
            };
            (is_table, "a table")
        }
        RelationKind::MaterializedView => {
            let is_one = matches!(definition, Definition::Table(table) if table.query.is_some());
            (is_one, "a materialized view")
        }
        RelationKind::View => (matches!(definition, Definition::View(_)), "a view"),
        RelationKind::Sequence => (matches!(definition, Definition::Sequence(_)), "a sequence"),
        RelationKind::Index => (matches!(definition, Definition::Index(..)), "an index"),
    };
    if is_alike {
        return Ok(());
    }
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {word}")))
}
