//! What depends on an object, directly or by others, and how it is told.
//!
//! ```text
//!   schema <-- table, view, sequence          table, column <-- constraint (foreign key) of another table, view, owned sequence
//!   sequence <-- default, domain              index <-- constraint (foreign key)        column <-- index, constraint, generated column
//!   type <-- column, domain, condition of a domain
//! ```
//! Objects are found from the one that goes outwards; what nothing depends on any more goes first.

use rustc_hash::{FxHashMap, FxHashSet};
use seawall_values::user_types::is_user_type;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::requests::Behavior;
use super::{Definer, column_number, kind_of};
use crate::catalog::columns_of_expression;
use crate::catalog::names::quoted;
use crate::schema::user_type::UserTypeKind;
use crate::schema::{ConstraintKind, Definition, Index, IndexedValue, Table};

/// Objects that an answer names; of more, it tells how many they are.
const NAMED_MAX: usize = 100;

/// Something that can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Object {
    Namespace(Oid),
    /// A type that users have made.
    Type(Oid),
    /// A function that users have made.
    Function(Oid),
    /// A table, view, sequence or index.
    Relation(Oid),
    /// A column of a table, from 1.
    Column(Oid, u16),
    /// A default of a column.
    Default(Oid, u16),
    /// A constraint of a table.
    Constraint(Oid, Oid),
    /// A condition of a domain.
    DomainCheck(Oid, Oid),
}

impl Object {
    /// The relation or schema that it is or belongs to.
    fn order(self) -> (Oid, u16) {
        match self {
            Object::Namespace(oid)
            | Object::Type(oid)
            | Object::Function(oid)
            | Object::Relation(oid)
            | Object::Constraint(_, oid)
            | Object::DomainCheck(_, oid) => (oid, 0),
            Object::Column(oid, column) | Object::Default(oid, column) => (oid, column),
        }
    }
}

/// An object that goes because of another one.
#[derive(Clone, Copy, Debug)]
struct Found {
    object: Object,
    /// `None`: the statement names it.
    because_of: Option<Object>,
    /// It is a part of another one, so it goes without being told.
    is_part: bool,
}

/// A step of the search, which goes to the newest dependents first, as PostgreSQL's does: so an object is told to depend on the same one.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(Found),
    /// All that depends on it has been found.
    Leave(Object),
}

impl Definer<'_> {
    /// The named objects and all that depend on them, each before what it depends on. Refuses, or tells what goes as well.
    pub(super) fn with_dependents(&mut self, named: &[Object], behavior: Behavior) -> SqlResult<Vec<Object>> {
        let all_named: FxHashSet<Object> = named.iter().copied().collect();
        let mut known: FxHashMap<Object, Found> = FxHashMap::default();
        let mut found = Vec::new();
        for object in named {
            let mut steps = vec![Step::Enter(Found { object: *object, because_of: None, is_part: false })];
            while let Some(step) = steps.pop() {
                let next = match step {
                    Step::Leave(object) => {
                        found.push(object);
                        continue;
                    }
                    Step::Enter(next) => next,
                };
                if let Some(known) = known.get_mut(&next.object) {
                    known.is_part |= next.is_part;
                    continue;
                }
                known.insert(next.object, next);
                steps.push(Step::Leave(next.object));
                let mut dependents = self.dependents_of(next.object)?;
                dependents.sort_unstable_by_key(|(dependent, _)| dependent.order());
                steps.extend(dependents.into_iter().map(|(object, is_part)| {
                    Step::Enter(Found { object, because_of: Some(next.object), is_part })
                }));
            }
        }
        // A part of something that goes as well is not told.
        let goes_with_another = |object: Object| match object {
            Object::Namespace(_) | Object::Type(_) | Object::Function(_) | Object::Relation(_) => false,
            Object::DomainCheck(domain, _) => known.contains_key(&Object::Type(domain)),
            Object::Default(table, column) if known.contains_key(&Object::Column(table, column)) => true,
            Object::Column(table, _) | Object::Default(table, _) | Object::Constraint(table, _) => {
                known.contains_key(&Object::Relation(table))
            }
        };
        let is_told = |found: &&Found| {
            !found.is_part && !all_named.contains(&found.object) && !goes_with_another(found.object)
        };
        let told: Vec<(Object, Object)> = found
            .iter()
            .rev()
            .filter_map(|object| known.get(object))
            .filter(is_told)
            .filter_map(|found| found.because_of.map(|because_of| (found.object, because_of)))
            .collect();
        if !told.is_empty() {
            match behavior {
                Behavior::Restrict => return Err(self.refusal(named, &told)?),
                Behavior::Cascade => self.tell(&told)?,
            }
        }
        Ok(found)
    }

    /// `2BP01`.
    fn refusal(&mut self, named: &[Object], told: &[(Object, Object)]) -> SqlResult<Box<SqlError>> {
        let what = match named {
            [one] => self.described(*one)?,
            _ => "desired object(s)".to_owned(),
        };
        let mut lines = Vec::new();
        for (object, because_of) in told.iter().take(NAMED_MAX) {
            lines.push(format!("{} depends on {}", self.described(*object)?, self.described(*because_of)?));
        }
        more(&mut lines, told.len());
        let message = format!("cannot drop {what} because other objects depend on it");
        let message = if named.len() == 1 { message } else { message.replace("on it", "on them") };
        Ok(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }

    /// Notices of `CASCADE`.
    fn tell(&mut self, told: &[(Object, Object)]) -> SqlResult<()> {
        let mut lines = Vec::new();
        for (object, _) in told.iter().take(NAMED_MAX) {
            lines.push(format!("drop cascades to {}", self.described(*object)?));
        }
        if let [only] = &lines[..] {
            self.skip(only.clone());
            return Ok(());
        }
        more(&mut lines, told.len());
        let message = format!("drop cascades to {} other objects", told.len());
        let content = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).with_detail(lines.join("\n"));
        self.notices.push(crate::session::Notice { severity: "NOTICE", content: *content });
        Ok(())
    }

    /// An object as messages name it.
    pub(super) fn described(&mut self, object: Object) -> SqlResult<String> {
        let (store, transaction) = (self.tables.store, &mut *self.tables.transaction);
        match object {
            Object::Namespace(oid) => {
                Ok(format!("schema {}", quoted(&store.namespace_name(transaction, oid)?)))
            }
            Object::Type(oid) => match store.user_type(transaction, oid)? {
                Some(found) => Ok(format!("type {}", self.shown_type(&found)?)),
                None => Ok(format!("type {oid}")),
            },
            Object::Function(oid) => match store.function(transaction, oid)? {
                Some(found) => Ok(format!("function {}", self.shown_function(&found)?)),
                None => Ok(format!("function {oid}")),
            },
            Object::Relation(oid) => {
                let Some(definition) = store.definition(transaction, oid)? else {
                    return Ok(format!("relation {oid}"));
                };
                Ok(format!("{} {}", kind_of(&definition).word(), self.shown(&definition)?))
            }
            Object::DomainCheck(domain, check) => {
                Ok(match store.user_type(transaction, domain)?.map(|of| of.kind) {
                    Some(UserTypeKind::Domain(domain)) => {
                        let found = domain.checks.iter().find(|known| known.oid == check);
                        format!("constraint {}", found.map_or_else(String::new, |found| quoted(&found.name)))
                    }
                    _ => format!("constraint {check}"),
                })
            }
            Object::Column(oid, column) => {
                let name = self.column_name(oid, column)?;
                Ok(format!("column {name} of {}", self.described(Object::Relation(oid))?))
            }
            Object::Default(oid, column) => {
                let name = self.column_name(oid, column)?;
                Ok(format!("default value for column {name} of {}", self.described(Object::Relation(oid))?))
            }
            Object::Constraint(oid, constraint) => {
                let name = match store.definition(transaction, oid)? {
                    Some(Definition::Table(table)) => {
                        let found = table.constraints.iter().find(|known| known.oid == constraint);
                        found.map_or_else(String::new, |found| quoted(&found.name))
                    }
                    _ => String::new(),
                };
                Ok(format!("constraint {name} on {}", self.described(Object::Relation(oid))?))
            }
        }
    }

    pub(super) fn column_name(&mut self, relation: Oid, column: u16) -> SqlResult<String> {
        let position = usize::from(column).saturating_sub(1);
        let name = match self.tables.store.definition(self.tables.transaction, relation)? {
            Some(Definition::Table(table)) => table.columns.get(position).map(|column| column.name.clone()),
            Some(Definition::View(view)) => view.columns.get(position).map(|(name, _)| name.clone()),
            _ => None,
        };
        Ok(name.map_or_else(|| column.to_string(), |name| quoted(&name)))
    }

    /// What depends directly on an object, and whether it is a part of it.
    fn dependents_of(&mut self, object: Object) -> SqlResult<Vec<(Object, bool)>> {
        match object {
            Object::Namespace(oid) => {
                Ok(self.contents_of(oid)?.into_iter().map(|object| (object, false)).collect())
            }
            Object::Type(oid) => self.dependents_of_type(oid),
            Object::Function(oid) => self.stored_dependents(oid, None),
            Object::Relation(oid) => self.dependents_of_relation(oid),
            Object::Column(table, column) => self.dependents_of_column(table, column),
            Object::Default(..) | Object::DomainCheck(..) => Ok(Vec::new()),
            Object::Constraint(table, constraint) => {
                let table = self.tables.table(table)?;
                let found = table.constraints.iter().find(|known| known.oid == constraint);
                match found.map(|found| &found.kind) {
                    Some(ConstraintKind::Unique(index)) => Ok(vec![(Object::Relation(*index), true)]),
                    _ => Ok(Vec::new()),
                }
            }
        }
    }

    /// Types, functions, tables, views and sequences of a schema.
    pub(super) fn contents_of(&mut self, namespace: Oid) -> SqlResult<Vec<Object>> {
        let store = self.tables.store;
        let mut found = self.types_of_schema(namespace)?;
        found.extend(self.functions_of_schema(namespace)?);
        for oid in store.relations_in(self.tables.transaction, namespace)? {
            match store.definition(self.tables.transaction, oid)? {
                Some(Definition::Index(..)) | None => {}
                Some(_) => found.push(Object::Relation(oid)),
            }
        }
        Ok(found)
    }

    fn dependents_of_relation(&mut self, oid: Oid) -> SqlResult<Vec<(Object, bool)>> {
        let mut found = self.stored_dependents(oid, None)?;
        if let Some(Definition::Table(table)) = self.tables.store.definition(self.tables.transaction, oid)? {
            for index in &table.indexes {
                found.extend(self.stored_dependents(index.oid, None)?);
            }
        }
        Ok(found)
    }

    /// Who depends on an object, or (`column`) on a column of it, as noted.
    fn stored_dependents(&mut self, on: Oid, column: Option<u16>) -> SqlResult<Vec<(Object, bool)>> {
        let store = self.tables.store;
        let mut found = Vec::new();
        for dependent in store.dependents(self.tables.transaction, on)? {
            if column.is_some_and(|column| column != dependent.on_column) {
                continue;
            }
            let object = match dependent.column {
                0 => self.object_numbered(dependent.oid)?,
                column => Object::Default(dependent.oid, column),
            };
            let is_part = match object {
                Object::Relation(oid) => {
                    matches!(store.definition(self.tables.transaction, oid)?, Some(Definition::Sequence(_)))
                }
                _ => false,
            };
            found.push((object, is_part));
        }
        Ok(found)
    }

    /// The object that depends on another one, by its number.
    pub(super) fn object_numbered(&mut self, oid: Oid) -> SqlResult<Object> {
        let store = self.tables.store;
        if is_user_type(oid) {
            return Ok(Object::Type(oid));
        }
        if let Some(table) = store.table_of_constraint(self.tables.transaction, oid)? {
            return Ok(Object::Constraint(table, oid));
        }
        if store.function(self.tables.transaction, oid)?.is_some() {
            return Ok(Object::Function(oid));
        }
        if store.definition(self.tables.transaction, oid)?.is_some() {
            return Ok(Object::Relation(oid));
        }
        Ok(match self.domain_of_check(oid)? {
            Some(domain) => Object::DomainCheck(domain, oid),
            None => Object::Relation(oid),
        })
    }

    fn dependents_of_column(&mut self, oid: Oid, column: u16) -> SqlResult<Vec<(Object, bool)>> {
        let mut found = self.stored_dependents(oid, Some(column))?;
        let table = self.tables.table(oid)?;
        let position = usize::from(column).saturating_sub(1);
        for (other, generated) in table.columns.iter().enumerate() {
            if let Some(generated) = &generated.generated
                && other != position
                && columns_of_expression(&table, generated).contains(&position)
            {
                found.push((Object::Column(oid, column_number(other)), false));
            }
        }
        for index in table.indexes.iter().filter(|index| uses(&table, index, position)) {
            found.push(match index.constraint {
                0 => (Object::Relation(index.oid), true),
                constraint => (Object::Constraint(oid, constraint), true),
            });
        }
        for constraint in &table.constraints {
            let is_used = match &constraint.kind {
                ConstraintKind::Check(condition) => {
                    columns_of_expression(&table, condition).contains(&position)
                }
                ConstraintKind::ForeignKey(key) => key.columns.contains(&position),
                ConstraintKind::Unique(_) => false,
            };
            if is_used {
                found.push((Object::Constraint(oid, constraint.oid), true));
            }
        }
        Ok(found)
    }
}

/// Whether an index needs a column.
pub(super) fn uses(table: &Table, index: &Index, position: usize) -> bool {
    let in_text = |text: &String| columns_of_expression(table, text).contains(&position);
    let in_key = |key: &crate::schema::IndexKey| match &key.what {
        IndexedValue::Column(column) => *column == position,
        IndexedValue::Expression(text) => in_text(text),
    };
    index.keys.iter().any(in_key)
        || index.included.contains(&position)
        || index.predicate.as_ref().is_some_and(in_text)
}

fn more(lines: &mut Vec<String>, count: usize) {
    if count > NAMED_MAX {
        let rest = count - NAMED_MAX;
        let noun = if rest == 1 { "object" } else { "objects" };
        lines.push(format!("and {rest} other {noun} (see server log for list)"));
    }
}
