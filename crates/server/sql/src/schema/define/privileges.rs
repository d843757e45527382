//! `GRANT` and `REVOKE` of privileges, `ALTER DEFAULT PRIVILEGES`, and what new objects and new owners have.

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::requests::{ChangeOfPrivileges, PrivilegedObject};
use super::role::INVALID_GRANT_OPERATION;
use super::{Definer, column_number};
use crate::catalog::heading;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, DATABASE, PG_CLASS, PG_DATABASE, PG_NAMESPACE, PG_PROC};
use crate::schema::privilege::{AccessItem, AccessList, AccessRefusal, ObjectKind, Privileges};
use crate::schema::store::{AccessPlace, is_system_namespace};
use crate::schema::{Definition, Table};
use crate::session::Notice;

const NOT_GRANTED: SqlState = SqlState::new(b"01007");
const NOT_REVOKED: SqlState = SqlState::new(b"01006");

/// An object with the list that is changed.
#[derive(Clone, Debug)]
struct Accessed {
    place: AccessPlace,
    kind: ObjectKind,
    owner: Oid,
    /// As warnings name it: with quotes.
    shown: String,
    /// As a refusal names it.
    refused: String,
    /// Of a column: what the list of its table has.
    above: Vec<AccessItem>,
}

impl Definer<'_> {
    /// `GRANT`, `REVOKE`, `ALTER DEFAULT PRIVILEGES`.
    ///
    /// # Errors
    /// `0LP01`, `42501`, `2BP01`, `42703`, `42809`.
    pub fn change_privileges(&mut self, request: &ChangeOfPrivileges) -> SqlResult<()> {
        if request.is_grant && request.is_of_option && request.grantees.contains(&0) {
            let message = "grant options can only be granted to roles";
            return Err(SqlError::new(INVALID_GRANT_OPERATION, message));
        }
        for object in &request.objects {
            match *object {
                PrivilegedObject::Relation(oid) => self.change_of_relation(request, oid, false)?,
                PrivilegedObject::Sequence(oid) => self.change_of_relation(request, oid, true)?,
                PrivilegedObject::Schema(oid) => self.change_of_schema(request, oid)?,
                PrivilegedObject::Function(oid) => self.change_of_function(request, oid)?,
                PrivilegedObject::Database => {
                    let object = Accessed {
                        place: (DATABASE, PG_DATABASE, 0),
                        kind: ObjectKind::Database,
                        owner: BOOTSTRAP_ROLE,
                        shown: "the database".to_owned(),
                        refused: "database".to_owned(),
                        above: Vec::new(),
                    };
                    self.change_whole(request, &object)?;
                }
                PrivilegedObject::AllIn(kind, namespace) => self.change_of_all(request, kind, namespace)?,
                PrivilegedObject::New(role, namespace, kind) => {
                    self.change_default(request, role, namespace, kind)?;
                }
            }
        }
        Ok(())
    }

    fn change_of_all(
        &mut self,
        request: &ChangeOfPrivileges,
        kind: ObjectKind,
        namespace: Oid,
    ) -> SqlResult<()> {
        if kind == ObjectKind::Function {
            for oid in self.tables.store.functions_in(self.tables.transaction, namespace)? {
                self.change_of_function(request, oid)?;
            }
            return Ok(());
        }
        for oid in self.tables.store.relations_in(self.tables.transaction, namespace)? {
            let found = self.tables.store.definition(self.tables.transaction, oid)?;
            let is_meant = match found {
                Some(Definition::Table(_) | Definition::View(_)) => kind == ObjectKind::Table,
                Some(Definition::Sequence(_)) => kind == ObjectKind::Sequence,
                Some(Definition::Index(..) | Definition::System(_)) | None => false,
            };
            if is_meant {
                self.change_of_relation(request, oid, kind == ObjectKind::Sequence)?;
            }
        }
        Ok(())
    }

    fn change_of_relation(
        &mut self,
        request: &ChangeOfPrivileges,
        oid: Oid,
        only_sequences: bool,
    ) -> SqlResult<()> {
        let found = self.tables.store.definition(self.tables.transaction, oid)?;
        let Some(definition) = found else {
            return Err(SqlError::unsupported("GRANT and REVOKE of privileges on system relations"));
        };
        let name = heading(&definition).name.to_owned();
        let wrong =
            |what: &str| Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is {what}")));
        let kind = match &definition {
            Definition::Index(..) => return wrong("an index"),
            Definition::Sequence(_) => ObjectKind::Sequence,
            _ if only_sequences => return wrong("not a sequence"),
            Definition::Table(_) | Definition::View(_) | Definition::System(_) => ObjectKind::Table,
        };
        let object = Accessed {
            place: (oid, PG_CLASS, 0),
            kind,
            owner: heading(&definition).owner,
            shown: format!("\"{name}\""),
            refused: format!("{} {name}", super::kind_of(&definition).word()),
            above: Vec::new(),
        };
        self.change_whole_relation(request, &object, &definition, only_sequences)?;
        self.change_columns(request, &object, &definition)
    }

    /// The privileges of the relation itself; those of columns that `REVOKE` takes with them.
    fn change_whole_relation(
        &mut self,
        request: &ChangeOfPrivileges,
        object: &Accessed,
        definition: &Definition,
        only_sequences: bool,
    ) -> SqlResult<()> {
        let is_all = request.privileges.is_empty();
        let mut wanted = if is_all { object.kind.privileges() } else { whole(request) };
        if !only_sequences {
            let of_any = ObjectKind::Table.privileges().and(ObjectKind::Sequence.privileges());
            if let Some((_, _, word)) = wanted.without(of_any).each().next() {
                let message = format!("invalid privilege type {word} for relation");
                return Err(SqlError::new(INVALID_GRANT_OPERATION, message));
            }
        }
        if object.kind == ObjectKind::Sequence && !only_sequences && !is_all {
            if !object.kind.privileges().has(wanted) {
                let message =
                    format!("sequence {} only supports USAGE, SELECT, and UPDATE privileges", object.shown);
                self.warn(INVALID_GRANT_OPERATION, message);
                wanted = wanted.shared(object.kind.privileges());
            }
        } else {
            check_kind(wanted, object.kind)?;
        }
        if wanted.is_none() {
            return Ok(());
        }
        self.change_access(request, object, wanted, is_all)?;
        let of_columns = wanted.shared(ObjectKind::Column.privileges());
        if request.is_grant || of_columns.is_none() || object.kind != ObjectKind::Table {
            return Ok(());
        }
        let (oid, class, _) = object.place;
        for (column, _) in self.tables.store.access_lists(self.tables.transaction, oid, class)? {
            if column > 0 {
                let object = self.column_of(object, definition, column)?;
                self.change_access(request, &object, of_columns, true)?;
            }
        }
        Ok(())
    }

    fn change_columns(
        &mut self,
        request: &ChangeOfPrivileges,
        object: &Accessed,
        definition: &Definition,
    ) -> SqlResult<()> {
        let mut wanted: Vec<(u16, Privileges, bool)> = Vec::new();
        for written in request.privileges.iter().filter(|written| !written.columns.is_empty()) {
            let is_all = written.privilege.is_none();
            let privilege = written.privilege.unwrap_or(ObjectKind::Column.privileges());
            if object.kind == ObjectKind::Sequence {
                return Err(SqlError::unsupported("GRANT and REVOKE of privileges on columns of a sequence"));
            }
            check_kind(privilege, ObjectKind::Column)?;
            for name in &written.columns {
                let number = column_named(definition, name)?;
                match wanted.iter_mut().find(|(known, _, _)| *known == number) {
                    Some((_, known, all)) => (*known, *all) = (known.and(privilege), *all || is_all),
                    None => wanted.push((number, privilege, is_all)),
                }
            }
        }
        for (column, privileges, is_all) in wanted {
            let object = self.column_of(object, definition, column)?;
            self.change_access(request, &object, privileges, is_all)?;
        }
        Ok(())
    }

    fn column_of(&mut self, table: &Accessed, definition: &Definition, column: u16) -> SqlResult<Accessed> {
        let (oid, class, _) = table.place;
        let above = self.tables.store.access_list(self.tables.transaction, table.place)?;
        let name = name_of_column(definition, column);
        Ok(Accessed {
            place: (oid, class, column),
            kind: ObjectKind::Column,
            owner: table.owner,
            shown: format!("column \"{name}\" of relation {}", table.shown),
            refused: format!("column \"{name}\" of relation {}", table.shown),
            above: above.unwrap_or_default().items,
        })
    }

    fn change_of_schema(&mut self, request: &ChangeOfPrivileges, oid: Oid) -> SqlResult<()> {
        if is_system_namespace(oid) {
            return Err(SqlError::unsupported("GRANT and REVOKE of privileges on schemas of the system"));
        }
        let Some(namespace) = self.tables.store.namespace(self.tables.transaction, oid)? else {
            let message = format!("schema with OID {oid} does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        };
        let object = Accessed {
            place: (oid, PG_NAMESPACE, 0),
            kind: ObjectKind::Schema,
            owner: namespace.owner,
            shown: format!("\"{}\"", namespace.name),
            refused: format!("schema {}", namespace.name),
            above: Vec::new(),
        };
        self.change_whole(request, &object)
    }

    fn change_of_function(&mut self, request: &ChangeOfPrivileges, oid: Oid) -> SqlResult<()> {
        let Some(function) = self.tables.store.function(self.tables.transaction, oid)? else {
            let message = format!("function with OID {oid} does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        let object = Accessed {
            place: (oid, PG_PROC, 0),
            kind: ObjectKind::Function,
            owner: function.owner,
            shown: format!("\"{}\"", function.name),
            refused: format!("function {}", function.name),
            above: Vec::new(),
        };
        self.change_whole(request, &object)
    }

    /// The privileges of an object that has no columns.
    fn change_whole(&mut self, request: &ChangeOfPrivileges, object: &Accessed) -> SqlResult<()> {
        check_no_columns(request)?;
        let is_all = request.privileges.is_empty();
        let wanted = if is_all { object.kind.privileges() } else { whole(request) };
        check_kind(wanted, object.kind)?;
        self.change_access(request, object, wanted, is_all)
    }

    /// Changes the list of an object, as far as the asker may.
    fn change_access(
        &mut self,
        request: &ChangeOfPrivileges,
        object: &Accessed,
        wanted: Privileges,
        is_all: bool,
    ) -> SqlResult<()> {
        let store = self.tables.store;
        let stored = store.access_list(self.tables.transaction, object.place)?;
        let list = stored.unwrap_or_else(|| AccessList::of_new(object.kind, object.owner));
        let rights = store.rights(self.tables.transaction, self.owner)?;
        let mut whole = list.clone();
        whole.items.extend(&object.above);
        let (grantor, grantable) = whole.grantor(&rights, object.owner, wanted);
        if grantable.is_none() {
            let any = object.kind.privileges();
            let (_, may_grant) = whole.grantor(&rights, object.owner, any);
            if whole.held(&rights).shared(any).is_none() && may_grant.is_none() {
                return Err(denied(&object.refused));
            }
        }
        self.warn_of_less(request, object, wanted, grantable, is_all);
        let changed = changed(request, list, grantor, grantable, object.owner)?;
        let is_kept = object.kind != ObjectKind::Column || !changed.items.is_empty();
        store.put_access_list(self.tables.transaction, object.place, Some(&changed).filter(|_| is_kept))
    }

    fn warn(&mut self, code: SqlState, message: String) {
        self.notices.push(Notice { severity: "WARNING", content: *SqlError::new(code, message) });
    }

    /// Warns if the asker may grant or revoke less than was asked for.
    fn warn_of_less(
        &mut self,
        request: &ChangeOfPrivileges,
        object: &Accessed,
        wanted: Privileges,
        allowed: Privileges,
        is_all: bool,
    ) {
        let which = match () {
            () if allowed.is_none() => "no",
            () if !is_all && allowed != wanted => "not all",
            () => return,
        };
        let (code, what) = match request.is_grant {
            true => (NOT_GRANTED, "were granted"),
            false => (NOT_REVOKED, "could be revoked"),
        };
        self.warn(code, format!("{which} privileges {what} for {}", object.shown));
    }

    // New objects.

    fn change_default(
        &mut self,
        request: &ChangeOfPrivileges,
        role: Oid,
        namespace: Oid,
        kind: ObjectKind,
    ) -> SqlResult<()> {
        check_no_columns(request)?;
        if kind == ObjectKind::Schema && namespace != 0 {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(SqlError::new(INVALID_GRANT_OPERATION, message));
        }
        let wanted = if request.privileges.is_empty() { kind.privileges() } else { whole(request) };
        check_kind(wanted, kind)?;
        self.require_role(role)?;
        let (store, place) = (self.tables.store, (role, namespace, kind));
        // Those of a schema come on top of those of all schemas.
        let begin = if namespace == 0 { AccessList::of_new(kind, role) } else { AccessList::default() };
        let list = store.default_access(self.tables.transaction, place)?;
        let list = changed(request, list.unwrap_or_else(|| begin.clone()), role, wanted, role)?;
        let is_kept = !is_same(&list, &begin);
        store.put_default_access(self.tables.transaction, place, Some(&list).filter(|_| is_kept))
    }

    /// Gives a new object the privileges that `ALTER DEFAULT PRIVILEGES` has said for it.
    pub(super) fn give_default_access(
        &mut self,
        kind: ObjectKind,
        place: AccessPlace,
        namespace: Oid,
    ) -> SqlResult<()> {
        let (store, role) = (self.tables.store, self.owner);
        let everywhere = store.default_access(self.tables.transaction, (role, 0, kind))?;
        let here = store.default_access(self.tables.transaction, (role, namespace, kind))?;
        if everywhere.is_none() && here.is_none() {
            return Ok(());
        }
        let plain = AccessList::of_new(kind, role);
        let mut list = everywhere.unwrap_or_else(|| plain.clone());
        for item in here.unwrap_or_default().items {
            list.grant(item, role).map_err(refused)?;
        }
        if is_same(&list, &plain) {
            return Ok(());
        }
        store.put_access_list(self.tables.transaction, place, Some(&list))
    }

    /// An object has a new owner: privileges that the old one had and granted are the new one's.
    pub(super) fn give_access(&mut self, oid: Oid, class: Oid, from: Oid, to: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        for (column, list) in store.access_lists(self.tables.transaction, oid, class)? {
            let given = list.given(from, to);
            store.put_access_list(self.tables.transaction, (oid, class, column), Some(&given))?;
        }
        Ok(())
    }

    // Checks.

    /// `42501` unless the asker has one of the privileges on an object. `refused`: as the error names it.
    pub(super) fn require_privilege(
        &mut self,
        kind: ObjectKind,
        place: AccessPlace,
        owner: Oid,
        wanted: Privileges,
        refused: &str,
    ) -> SqlResult<()> {
        let rights = self.tables.store.rights(self.tables.transaction, self.owner)?;
        let held = self.tables.store.privileges_held(self.tables.transaction, &rights, kind, place, owner)?;
        if held.shared(wanted).is_none() { Err(denied(refused)) } else { Ok(()) }
    }

    /// `42501` unless the asker may refer to columns of a table.
    pub(super) fn require_references(&mut self, table: &Table, columns: &[usize]) -> SqlResult<()> {
        let (store, wanted) = (self.tables.store, Privileges::REFERENCES);
        let rights = store.rights(self.tables.transaction, self.owner)?;
        let whole = store.privileges_held(
            self.tables.transaction,
            &rights,
            ObjectKind::Table,
            (table.oid, PG_CLASS, 0),
            table.owner,
        )?;
        if whole.has(wanted) {
            return Ok(());
        }
        for column in columns {
            let place = (table.oid, PG_CLASS, column_number(*column));
            let refused = format!("table {}", table.name);
            self.require_privilege(ObjectKind::Column, place, table.owner, wanted, &refused)?;
        }
        Ok(())
    }

    /// `42501` unless the asker may make objects in a schema.
    pub(super) fn require_creation_in(&mut self, namespace: Oid) -> SqlResult<()> {
        let Some(found) = self.tables.store.namespace(self.tables.transaction, namespace)? else {
            return Ok(());
        };
        let refused = format!("schema {}", found.name);
        let place = (namespace, PG_NAMESPACE, 0);
        self.require_privilege(ObjectKind::Schema, place, found.owner, Privileges::CREATE, &refused)
    }
}

fn denied(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {what}"))
}

/// The privileges that a statement names without columns.
fn whole(request: &ChangeOfPrivileges) -> Privileges {
    let named = request.privileges.iter().filter(|written| written.columns.is_empty());
    named.filter_map(|written| written.privilege).fold(Privileges::NONE, Privileges::and)
}

fn check_kind(wanted: Privileges, kind: ObjectKind) -> SqlResult<()> {
    let wrong = wanted.without(kind.privileges()).each().next();
    match wrong {
        None => Ok(()),
        Some((_, _, word)) => {
            let message = format!("invalid privilege type {word} for {}", kind.word());
            Err(SqlError::new(INVALID_GRANT_OPERATION, message))
        }
    }
}

fn check_no_columns(request: &ChangeOfPrivileges) -> SqlResult<()> {
    if request.privileges.iter().all(|written| written.columns.is_empty()) {
        return Ok(());
    }
    let message = "column privileges are only valid for relations";
    Err(SqlError::new(INVALID_GRANT_OPERATION, message))
}

fn column_named(definition: &Definition, name: &str) -> SqlResult<u16> {
    let found = match definition {
        Definition::Table(table) => super::find_column(table, name),
        Definition::View(view) => view.columns.iter().position(|(known, _)| known == name),
        Definition::Sequence(_) | Definition::Index(..) | Definition::System(_) => None,
    };
    found.map(column_number).ok_or_else(|| {
        let relation = heading(definition).name;
        let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

fn name_of_column(definition: &Definition, column: u16) -> String {
    let position = usize::from(column).saturating_sub(1);
    let name = match definition {
        Definition::Table(table) => table.columns.get(position).map(|column| &column.name),
        Definition::View(view) => view.columns.get(position).map(|(name, _)| name),
        Definition::Sequence(_) | Definition::Index(..) | Definition::System(_) => None,
    };
    name.cloned().unwrap_or_default()
}

/// The list after a statement.
fn changed(
    request: &ChangeOfPrivileges,
    mut list: AccessList,
    grantor: Oid,
    privileges: Privileges,
    owner: Oid,
) -> SqlResult<AccessList> {
    if privileges.is_none() {
        return Ok(list);
    }
    for grantee in request.grantees.iter().copied() {
        let item = |privileges, grantable| AccessItem { grantee, grantor, privileges, grantable };
        let option = if request.is_of_option { privileges } else { Privileges::NONE };
        let outcome = if request.is_grant {
            list.grant(item(privileges, option), owner)
        } else if request.is_of_option {
            list.revoke(item(Privileges::NONE, privileges), owner, request.behavior)
        } else {
            list.revoke(item(privileges, privileges), owner, request.behavior)
        };
        outcome.map_err(refused)?;
    }
    Ok(list)
}

fn refused(refusal: AccessRefusal) -> Box<SqlError> {
    match refusal {
        AccessRefusal::Dependents => {
            SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist")
                .with_hint("Use CASCADE to revoke them too.")
        }
        AccessRefusal::Circle => {
            let message = "grant options cannot be granted back to your own grantor";
            SqlError::new(INVALID_GRANT_OPERATION, message)
        }
    }
}

/// Whether two lists say the same, in whatever order.
fn is_same(left: &AccessList, right: &AccessList) -> bool {
    left.items.len() == right.items.len() && left.items.iter().all(|item| right.items.contains(item))
}
