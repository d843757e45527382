//! Domains: `CREATE DOMAIN`, `ALTER DOMAIN`.
//!
//! The rows of tables know nothing of domains: what a domain demands is asked when a value is given to a column. So a domain that demands
//! more looks through the columns that have it, and each change of one counts as a change of their tables: whoever has written a row by
//! the old rules is refused at its commit.

use std::sync::Arc;

use seawall_values::user_types::{VALUE, domain_number, element_of_user_array, is_domain, is_user_type};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference};

use super::requests::{DomainChange, NewDomain, RelationName};
use super::user_type::{dotted, no_such_type};
use super::{Definer, about_table, expression_text};
use crate::schema::user_type::{Domain, DomainCheck, UserType, UserTypeKind};
use crate::schema::{Column, Definition, RowKey, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::row::RowLayout;

impl Definer<'_> {
    /// `CREATE DOMAIN`.
    ///
    /// # Errors
    /// `42710`: the name of the domain or of a condition is taken.
    pub fn create_domain(&mut self, request: &NewDomain) -> SqlResult<()> {
        let store = self.tables.store;
        self.hold_type(request.base.oid)?;
        self.hold_type(request.parent)?;
        let oid = domain_number(store.new_oid()?).ok_or_else(|| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "no numbers for types are left in this database")
        })?;
        let mut domain = Domain {
            base: request.base,
            parent: request.parent,
            is_not_null: request.is_not_null,
            default: request.default.clone(),
            checks: Vec::new(),
        };
        for (name, condition) in &request.checks {
            self.add_domain_check(&request.name, &mut domain, name.as_deref(), condition, true)?;
        }
        let (name, namespace, owner) = (request.name.clone(), request.namespace, self.owner);
        let new = UserType { oid, name, namespace, owner, kind: UserTypeKind::Domain(domain) };
        store.put_user_type(self.tables.transaction, &new, None)?;
        self.note_needs_of_domain(&new)
    }

    /// Notes what a domain depends on, apart from what its conditions do.
    fn note_needs_of_domain(&mut self, of: &UserType) -> SqlResult<()> {
        let UserTypeKind::Domain(domain) = &of.kind else { return Ok(()) };
        let store = self.tables.store;
        store.remove_dependencies(self.tables.transaction, of.oid, None)?;
        for on in [domain.parent, element_of_user_array(domain.base.oid).unwrap_or(domain.base.oid)] {
            if is_user_type(on) {
                store.put_dependency(self.tables.transaction, (of.oid, 0), (on, 0))?;
            }
        }
        domain.default.iter().try_for_each(|default| self.note_needs(of.oid, default))
    }

    /// Notes the types and relations that a text names, which stay.
    fn note_needs(&mut self, what: Oid, text: &str) -> SqlResult<()> {
        for on in expression_text::objects_named(text) {
            self.hold_type(on)?;
            if crate::catalog::relation(on).is_none() {
                self.tables.store.put_dependency(self.tables.transaction, (what, 0), (on, 0))?;
            }
        }
        Ok(())
    }

    /// The domain that a condition belongs to.
    pub(super) fn domain_of_check(&mut self, check: Oid) -> SqlResult<Option<Oid>> {
        let all = self.tables.store.user_types(self.tables.transaction)?;
        let has_check = |of: &&UserType| match &of.kind {
            UserTypeKind::Domain(domain) => domain.checks.iter().any(|known| known.oid == check),
            UserTypeKind::Enum(_) | UserTypeKind::Composite(_) => false,
        };
        Ok(all.iter().find(has_check).map(|of| of.oid))
    }

    /// Takes a condition out of a domain.
    pub(super) fn remove_domain_check(&mut self, domain: Oid, check: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        let Some(old) = store.user_type_to_change(self.tables.transaction, domain)? else { return Ok(()) };
        let UserTypeKind::Domain(mut changed) = old.kind.clone() else { return Ok(()) };
        changed.checks.retain(|known| known.oid != check);
        store.remove_object(self.tables.transaction, check)?;
        let new = UserType { kind: UserTypeKind::Domain(changed), ..old.clone() };
        store.put_user_type(self.tables.transaction, &new, Some(&old))
    }

    /// `42704`, `42809` unless the name is that of a domain.
    ///
    /// # Errors
    /// `42704`, `42809`.
    pub fn require_domain(&mut self, name: &RelationName) -> SqlResult<()> {
        self.base_of_domain(name).map(drop)
    }

    /// The type of the values of a domain.
    ///
    /// # Errors
    /// `42704`, `42809`.
    pub fn base_of_domain(&mut self, name: &RelationName) -> SqlResult<TypeReference> {
        match self.type_named(name)?.ok_or_else(|| no_such_type(name))?.kind {
            UserTypeKind::Domain(domain) => Ok(domain.base),
            UserTypeKind::Enum(_) | UserTypeKind::Composite(_) => {
                let message = format!("{} is not a domain", dotted(name));
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// `ALTER DOMAIN`.
    ///
    /// # Errors
    /// `42704`, `42501`, `42710`; `23502`, `23514`: a row does not meet what the domain demands now.
    pub fn alter_domain(&mut self, name: &RelationName, change: &DomainChange) -> SqlResult<()> {
        let old = self.type_to_change(name)?;
        let UserTypeKind::Domain(mut domain) = old.kind.clone() else {
            return self.require_domain(name);
        };
        let tables = self.tables_of_domain(old.oid)?;
        match change {
            DomainChange::SetDefault(default) => domain.default.clone_from(default),
            DomainChange::SetNotNull(is_not_null) => {
                if *is_not_null && !domain.is_not_null {
                    self.check_values(&tables, &Rule::NotNull)?;
                }
                domain.is_not_null = *is_not_null;
            }
            DomainChange::AddCheck { name, condition, is_not_valid } => {
                self.add_domain_check(&old.name, &mut domain, name.as_deref(), condition, !is_not_valid)?;
                if !is_not_valid {
                    self.check_values(&tables, &Rule::Check(condition.clone(), domain.base))?;
                }
            }
            DomainChange::DropCheck { name, if_exists } => {
                let found = domain.checks.iter().position(|check| check.name == *name);
                if let Some(position) = found {
                    let gone = domain.checks.remove(position);
                    self.tables.store.remove_object(self.tables.transaction, gone.oid)?;
                } else {
                    let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", old.name);
                    if !if_exists {
                        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                    }
                    self.skip(format!("{message}, skipping"));
                }
            }
            DomainChange::RenameCheck { name, to } => rename_check(&old.name, &mut domain, name, to)?,
            DomainChange::ValidateCheck(name) => {
                let base = domain.base;
                let found = domain.checks.iter_mut().find(|check| check.name == *name);
                let check = found.ok_or_else(|| {
                    let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", old.name);
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?;
                check.is_validated = true;
                self.check_values(&tables, &Rule::Check(check.condition.clone(), base))?;
            }
        }
        let changed = UserType { kind: UserTypeKind::Domain(domain), ..old.clone() };
        self.tables.store.put_user_type(self.tables.transaction, &changed, Some(&old))?;
        self.note_needs_of_domain(&changed)
    }

    fn add_domain_check(
        &mut self,
        of: &str,
        domain: &mut Domain,
        name: Option<&str>,
        condition: &str,
        is_validated: bool,
    ) -> SqlResult<()> {
        let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
        let name = match name {
            Some(name) if is_taken(name) => {
                let message = format!("constraint \"{name}\" for domain \"{of}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(name) => name.to_owned(),
            None => {
                let plain = super::names::object_name(of, "", "check");
                let numbered =
                    (1..).map(|number| super::names::object_name(of, "", &format!("check{number}")));
                let mut names = std::iter::once(plain).chain(numbered);
                names.find(|name| !is_taken(name)).unwrap_or_default()
            }
        };
        let oid = self.tables.store.new_oid()?;
        self.note_needs(oid, condition)?;
        domain.checks.push(DomainCheck { oid, name, condition: condition.to_owned(), is_validated });
        Ok(())
    }

    /// Tables with columns of a domain, or of one that was made of it; each is changed, so that nobody writes by the old rules.
    fn tables_of_domain(&mut self, domain: Oid) -> SqlResult<Vec<(Arc<Table>, Vec<usize>)>> {
        let store = self.tables.store;
        // Whoever was about to make a column or a domain of it has committed.
        self.see_all_definitions()?;
        let domains = self.with_derived(domain)?;
        let mut found = Vec::new();
        let mut after = 0;
        while let Some(definition) = store.definition_after(self.tables.transaction, after)? {
            after = crate::catalog::oid_of(&definition);
            let Definition::Table(table) = &definition else { continue };
            if !columns_of(table, &domains).is_empty() {
                found.push(after);
            }
        }
        let mut tables = Vec::with_capacity(found.len());
        for oid in found {
            let table = self.table_to_change(oid)?;
            let changed = self.put_changed(Table::clone(&table), &table)?;
            let columns = columns_of(&changed, &domains);
            tables.push((changed, columns));
        }
        Ok(tables)
    }

    /// A domain, and those that were made of it.
    fn with_derived(&mut self, domain: Oid) -> SqlResult<Vec<Oid>> {
        let all = self.tables.store.user_types(self.tables.transaction)?;
        let mut found = vec![domain];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            let is_derived = |known: &&UserType| match &known.kind {
                UserTypeKind::Domain(of) => of.parent == parent,
                UserTypeKind::Enum(_) | UserTypeKind::Composite(_) => false,
            };
            found.extend(all.iter().filter(is_derived).map(|known| known.oid));
            next += 1;
        }
        debug_assert!(found.iter().all(|of| is_domain(*of)), "what was made of a domain is one");
        Ok(found)
    }

    fn check_values(&mut self, tables: &[(Arc<Table>, Vec<usize>)], rule: &Rule) -> SqlResult<()> {
        tables.iter().try_for_each(|(table, columns)| self.check_columns_of(table, columns, rule))
    }

    fn check_columns_of(&mut self, table: &Arc<Table>, columns: &[usize], rule: &Rule) -> SqlResult<()> {
        let layout = RowLayout::of(table);
        let reader = layout.whole_reader();
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &table.storage, self.tables.as_of)?;
        let mut row = vec![Datum::Null; layout.column_count()];
        let values = Arc::new(self.table_of_values(rule)?);
        let mut scan = self.scan_all(&handle)?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            reader.read(identity, value, &mut row)?;
            for position in columns.iter().copied() {
                let is_met = match rule {
                    Rule::NotNull => !row[position].is_null(),
                    Rule::Check(condition, _) => {
                        let one = std::slice::from_ref(&row[position]);
                        let met = self.tables.expressions.evaluate(&values, condition, one)?;
                        !matches!(met, Datum::Bool(false))
                    }
                };
                if !is_met {
                    return Err(self.violating(table, position, rule)?);
                }
            }
        }
        Ok(())
    }

    /// A table that is nowhere, with the one column that a condition names.
    fn table_of_values(&mut self, rule: &Rule) -> SqlResult<Table> {
        let of = match rule {
            Rule::NotNull => TypeReference::of(seawall_values::oid::TEXT),
            Rule::Check(_, base) => *base,
        };
        let column = Column {
            name: VALUE.to_owned(),
            of,
            is_not_null: false,
            default: None,
            identity: None,
            generated: None,
            missing: Datum::Null,
            is_dropped: false,
            sequence: 0,
            domain: 0,
        };
        Ok(Table {
            oid: 0,
            name: VALUE.to_owned(),
            namespace: 0,
            owner: self.owner,
            columns: vec![column],
            key: RowKey::Number,
            storage: String::new(),
            indexes: Vec::new(),
            constraints: Vec::new(),
            is_temporary: false,
            query: None,
            version: self.tables.store.new_version()?,
            options: Vec::new(),
        })
    }

    fn violating(&mut self, table: &Table, position: usize, rule: &Rule) -> SqlResult<Box<SqlError>> {
        let column = &table.columns[position].name;
        let mut about = about_table(self.tables.schema_of(table)?, table);
        about.column = Some(column.clone());
        let (code, what) = match rule {
            Rule::NotNull => (SqlState::NOT_NULL_VIOLATION, "null values"),
            Rule::Check(..) => (SqlState::CHECK_VIOLATION, "values that violate the new constraint"),
        };
        let message = format!("column \"{column}\" of table \"{}\" contains {what}", table.name);
        Ok(SqlError::new(code, message).about(about))
    }
}

/// What a domain demands of the values that are there.
#[derive(Debug)]
enum Rule {
    NotNull,
    /// An expression over `value`, and the type of that.
    Check(String, TypeReference),
}

fn columns_of(table: &Table, domains: &[Oid]) -> Vec<usize> {
    let columns = table.columns.iter().enumerate();
    columns
        .filter(|(_, column)| !column.is_dropped && domains.contains(&column.domain))
        .map(|(position, _)| position)
        .collect()
}

fn rename_check(of: &str, domain: &mut Domain, name: &str, to: &str) -> SqlResult<()> {
    if domain.checks.iter().any(|check| check.name == to) {
        let message = format!("constraint \"{to}\" for domain \"{of}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
    }
    let found = domain.checks.iter_mut().find(|check| check.name == name).ok_or_else(|| {
        let message = format!("constraint \"{name}\" for domain {of} does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })?;
    to.clone_into(&mut found.name);
    Ok(())
}
