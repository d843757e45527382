//! Roles: made, changed, dropped, members of each other, with settings of their own.

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::dependents::Object;
use super::requests::{DropNamed, NewRole, RoleOptions, SettingChange};
use crate::catalog::heading;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, DATABASE_OWNER};
use crate::catalog::source::Role;
use crate::session::Notice;

/// Owned objects that the refusal of `DROP ROLE` names.
const NAMED_MAX: usize = 100;
pub(super) const INVALID_GRANT_OPERATION: SqlState = SqlState::new(b"0LP01");

fn denied(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

fn check_name(name: &str) -> SqlResult<()> {
    let reserved = || SqlError::new(SqlState::RESERVED_NAME, format!("role name \"{name}\" is reserved"));
    if name.starts_with("pg_") {
        return Err(reserved().with_detail("Role names starting with \"pg_\" are reserved."));
    }
    if name == "public" || name == "none" { Err(reserved()) } else { Ok(()) }
}

/// Whether every database has the role.
fn is_of_system(role: &Role) -> bool {
    role.name.starts_with("pg_")
}

fn check_is_not_of_system(role: &Role, detail: &str) -> SqlResult<()> {
    if !is_of_system(role) {
        return Ok(());
    }
    let message = format!("role name \"{}\" is reserved", role.name);
    Err(SqlError::new(SqlState::RESERVED_NAME, message).with_detail(detail))
}

fn with_options(role: Role, options: &RoleOptions) -> Role {
    Role {
        is_superuser: options.is_superuser.unwrap_or(role.is_superuser),
        inherits: options.inherits.unwrap_or(role.inherits),
        creates_roles: options.creates_roles.unwrap_or(role.creates_roles),
        creates_databases: options.creates_databases.unwrap_or(role.creates_databases),
        can_log_in: options.can_log_in.unwrap_or(role.can_log_in),
        replicates: options.replicates.unwrap_or(role.replicates),
        bypasses_row_security: options.bypasses_row_security.unwrap_or(role.bypasses_row_security),
        connection_limit: options.connection_limit.unwrap_or(role.connection_limit),
        password: options.password.clone().unwrap_or_else(|| role.password.clone()),
        valid_until: options.valid_until.unwrap_or(role.valid_until),
        ..role
    }
}

impl Definer<'_> {
    /// `CREATE ROLE`: its number.
    ///
    /// # Errors
    /// `42710`, `42939`, `42501`.
    pub fn create_role(&mut self, request: &NewRole) -> SqlResult<Oid> {
        check_name(&request.name)?;
        self.require_right_over_roles(&request.options, "permission denied to create role", "create")?;
        let store = self.tables.store;
        let plain = Role::plain(store.new_oid()?, request.name.clone());
        let role = with_options(plain, &request.options);
        store.put_role(self.tables.transaction, &role, None)?;
        self.grant_roles(&request.member_of, &[role.oid], false)?;
        for (member, is_admin) in &request.members {
            self.grant_roles(&[role.oid], &[*member], *is_admin)?;
        }
        Ok(role.oid)
    }

    fn asker(&mut self) -> SqlResult<Option<Role>> {
        self.tables.store.role(self.tables.transaction, self.owner)
    }

    fn require_right_over_roles(
        &mut self,
        options: &RoleOptions,
        otherwise: &str,
        verb: &str,
    ) -> SqlResult<()> {
        let asker = self.asker()?;
        if asker.as_ref().is_some_and(|asker| asker.is_superuser) {
            return Ok(());
        }
        if options.is_superuser.is_some() {
            return Err(denied(format!("must be superuser to {verb} superusers")));
        }
        if options.replicates.is_some() {
            return Err(denied(format!("must be superuser to {verb} replication users")));
        }
        if options.bypasses_row_security.is_some() {
            return Err(denied(format!("must be superuser to {verb} bypassrls users")));
        }
        if asker.is_some_and(|asker| asker.creates_roles) { Ok(()) } else { Err(denied(otherwise)) }
    }

    /// Roles belong to whoever makes roles, and superusers to superusers.
    pub(super) fn require_right_to_comment(&mut self, role: Oid) -> SqlResult<()> {
        let Some(role) = self.tables.store.role(self.tables.transaction, role)? else { return Ok(()) };
        self.require_right_over(&role, "must be superuser")?;
        let may = self.asker()?.is_some_and(|asker| asker.is_superuser || asker.creates_roles);
        if may { Ok(()) } else { Err(denied("must have CREATEROLE privilege")) }
    }

    /// Only superusers change superusers.
    fn require_right_over(&mut self, role: &Role, message: &str) -> SqlResult<()> {
        match role.is_superuser && !self.asker()?.is_some_and(|asker| asker.is_superuser) {
            true => Err(denied(message)),
            false => Ok(()),
        }
    }

    fn role_to_change(&mut self, oid: Oid) -> SqlResult<Role> {
        let found = self.tables.store.role(self.tables.transaction, oid)?;
        found.ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role with OID {oid} does not exist"))
        })
    }

    /// `ALTER ROLE`.
    ///
    /// # Errors
    /// `42704`, `42501`.
    pub fn alter_role(&mut self, oid: Oid, options: &RoleOptions) -> SqlResult<()> {
        let old = self.role_to_change(oid)?;
        check_is_not_of_system(&old, "Cannot alter reserved roles.")?;
        let only_password =
            RoleOptions { password: options.password.clone(), ..RoleOptions::default() } == *options;
        if !(only_password && oid == self.owner) {
            self.require_right_over_roles(options, "permission denied", "alter")?;
            if old.is_superuser && !self.asker()?.is_some_and(|asker| asker.is_superuser) {
                return Err(denied(
                    "must be superuser to alter superuser roles or change superuser attribute",
                ));
            }
        }
        if oid == BOOTSTRAP_ROLE && options.is_superuser == Some(false) {
            let message = "permission denied: bootstrap user must be superuser";
            return Err(denied(message));
        }
        let role = with_options(old.clone(), options);
        self.tables.store.put_role(self.tables.transaction, &role, Some(&old))
    }

    /// `ALTER ROLE .. RENAME TO`.
    ///
    /// # Errors
    /// `42704`, `42710`, `42939`, `42501`.
    pub fn rename_role(&mut self, oid: Oid, to: &str) -> SqlResult<()> {
        let old = self.role_to_change(oid)?;
        check_is_not_of_system(&old, "Role names starting with \"pg_\" are reserved.")?;
        check_name(to)?;
        self.require_right_over_roles(&RoleOptions::default(), "permission denied to rename role", "rename")?;
        self.require_right_over(&old, "must be superuser to rename superusers")?;
        if oid == self.owner {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "session user cannot be renamed"));
        }
        let role = Role { name: to.to_owned(), ..old.clone() };
        self.tables.store.put_role(self.tables.transaction, &role, Some(&old))
    }

    /// `DROP ROLE`.
    ///
    /// # Errors
    /// `42704`, `2BP01`: it owns something; `55006`, `42501`.
    pub fn drop_roles(&mut self, request: &DropNamed) -> SqlResult<()> {
        self.require_right_over_roles(&RoleOptions::default(), "permission denied to drop role", "drop")?;
        for name in &request.names {
            let Some(role) = self.tables.store.role_named(self.tables.transaction, name)? else {
                let message = format!("role \"{name}\" does not exist");
                if request.if_exists {
                    self.skip(format!("{message}, skipping"));
                    continue;
                }
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            };
            if is_of_system(&role) {
                let message =
                    format!("cannot drop role {name} because it is required by the database system");
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            if role.oid == self.owner {
                return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
            }
            self.require_right_over(&role, "must be superuser to drop superusers")?;
            self.check_is_unused(&role)?;
            for other in self.tables.store.roles(self.tables.transaction)? {
                if other.member_of.iter().any(|(of, _)| *of == role.oid) {
                    let mut changed = other.clone();
                    changed.member_of.retain(|(of, _)| *of != role.oid);
                    self.tables.store.put_role(self.tables.transaction, &changed, Some(&other))?;
                }
            }
            self.tables.store.put_settings(self.tables.transaction, 0, role.oid, &Vec::new())?;
            self.tables.store.remove_role(self.tables.transaction, &role)?;
        }
        Ok(())
    }

    /// `2BP01` if the role owns something, or has been granted something.
    fn check_is_unused(&mut self, role: &Role) -> SqlResult<()> {
        let store = self.tables.store;
        let mut lines = Vec::new();
        if role.oid == BOOTSTRAP_ROLE {
            lines.push("owner of the database".to_owned());
        }
        for namespace in store.namespaces(self.tables.transaction)? {
            if namespace.owner == role.oid {
                lines.push(format!("owner of {}", self.described(Object::Namespace(namespace.oid))?));
            }
        }
        for known in store.user_types(self.tables.transaction)? {
            if known.owner == role.oid && lines.len() < NAMED_MAX {
                lines.push(format!("owner of {}", self.described(Object::Type(known.oid))?));
            }
        }
        for known in store.functions(self.tables.transaction)? {
            if known.owner == role.oid && lines.len() < NAMED_MAX {
                lines.push(format!("owner of {}", self.described(Object::Function(known.oid))?));
            }
        }
        let mut after = 0;
        while let Some(definition) = store.definition_after(self.tables.transaction, after)? {
            after = crate::catalog::oid_of(&definition);
            if heading(&definition).owner == role.oid && lines.len() < NAMED_MAX {
                lines.push(format!("owner of {}", self.described(Object::Relation(after))?));
            }
        }
        for (place, _) in store.access_lists_naming(self.tables.transaction, role.oid)? {
            lines.extend(self.described_access(place, role.oid)?);
        }
        for ((owner, namespace, kind), list) in store.all_default_access(self.tables.transaction)? {
            if owner == role.oid || list.names(role.oid) {
                lines.push(self.described_default(owner, namespace, kind, owner == role.oid)?);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        lines.truncate(NAMED_MAX);
        let message = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_detail(lines.join("\n")))
    }

    /// `GRANT role TO role`.
    ///
    /// # Errors
    /// `42704`; `0LP01`: they would be members of each other; `42501`.
    pub fn grant_roles(&mut self, roles: &[Oid], members: &[Oid], is_admin: bool) -> SqlResult<()> {
        for role in roles {
            let role = self.role_to_change(*role)?;
            self.require_admin(&role)?;
            if role.oid == DATABASE_OWNER {
                let message = format!("role \"{}\" cannot have explicit members", role.name);
                return Err(SqlError::new(INVALID_GRANT_OPERATION, message));
            }
            for member in members {
                let old = self.role_to_change(*member)?;
                if is_of_system(&old) {
                    return Err(SqlError::unsupported(format!("GRANT of a role to role \"{}\"", old.name)));
                }
                if old.oid == role.oid || self.is_member(role.oid, old.oid)? {
                    let message = format!("role \"{}\" is a member of role \"{}\"", role.name, old.name);
                    return Err(SqlError::new(INVALID_GRANT_OPERATION, message));
                }
                let mut changed = old.clone();
                match changed.member_of.iter_mut().find(|(of, _)| *of == role.oid) {
                    Some((_, has_admin)) if *has_admin || !is_admin => {
                        let message =
                            format!("role \"{}\" is already a member of role \"{}\"", old.name, role.name);
                        self.skip(message);
                        continue;
                    }
                    Some((_, has_admin)) => *has_admin = true,
                    None => changed.member_of.push((role.oid, is_admin)),
                }
                self.tables.store.put_role(self.tables.transaction, &changed, Some(&old))?;
            }
        }
        Ok(())
    }

    /// `REVOKE role FROM role`; `only_admin`: `ADMIN OPTION FOR`.
    ///
    /// # Errors
    /// `42704`, `42501`.
    pub fn revoke_roles(&mut self, roles: &[Oid], members: &[Oid], only_admin: bool) -> SqlResult<()> {
        for role in roles {
            let role = self.role_to_change(*role)?;
            self.require_admin(&role)?;
            for member in members {
                let old = self.role_to_change(*member)?;
                let mut changed = old.clone();
                let Some(position) = changed.member_of.iter().position(|(of, _)| *of == role.oid) else {
                    let message = format!("role \"{}\" is not a member of role \"{}\"", old.name, role.name);
                    let content = *SqlError::new(SqlState::WARNING, message);
                    self.notices.push(Notice { severity: "WARNING", content });
                    continue;
                };
                if only_admin {
                    changed.member_of[position].1 = false;
                } else {
                    changed.member_of.remove(position);
                }
                self.tables.store.put_role(self.tables.transaction, &changed, Some(&old))?;
            }
        }
        Ok(())
    }

    fn require_admin(&mut self, role: &Role) -> SqlResult<()> {
        let Some(asker) = self.asker()? else { return Err(denied("permission denied")) };
        let is_admin = asker.member_of.iter().any(|(of, is_admin)| *of == role.oid && *is_admin);
        if asker.is_superuser || is_admin || (asker.creates_roles && !role.is_superuser) {
            return Ok(());
        }
        Err(denied(format!("must have admin option on role \"{}\"", role.name)))
    }

    /// Whether a role is a member of another, directly or not.
    fn is_member(&mut self, role: Oid, of: Oid) -> SqlResult<bool> {
        let mut known = vec![role];
        let mut next = 0;
        while let Some(role) = known.get(next).copied() {
            next += 1;
            let Some(role) = self.tables.store.role(self.tables.transaction, role)? else { continue };
            for (known_of, _) in role.member_of {
                if known_of == of {
                    return Ok(true);
                }
                if !known.contains(&known_of) {
                    known.push(known_of);
                }
            }
        }
        Ok(false)
    }

    /// `ALTER ROLE .. SET`, `ALTER DATABASE .. SET`: for the sessions of a role (0: of all), in a database (0: in any).
    ///
    /// `RESET ALL` leaves settings that are `reserved` for superusers, unless a superuser asks.
    ///
    /// # Errors
    /// `42704`, `42501`.
    pub fn change_settings(
        &mut self,
        database: Oid,
        role: Oid,
        change: &SettingChange,
        reserved: fn(&str) -> bool,
    ) -> SqlResult<()> {
        let is_superuser = self.asker()?.is_some_and(|asker| asker.is_superuser);
        if role == 0 {
            if !is_superuser {
                let message = match database {
                    0 => "must be superuser to alter settings globally",
                    _ => "must be owner of the database",
                };
                return Err(denied(message));
            }
        } else if role != self.owner {
            let old = self.role_to_change(role)?;
            self.require_right_over(&old, "must be superuser to alter superusers")?;
            self.require_right_over_roles(&RoleOptions::default(), "permission denied", "alter")?;
        }
        let store = self.tables.store;
        let mut settings = store.settings_of(self.tables.transaction, database, role)?;
        let is_of = |setting: &String, name: &str| setting.split('=').next() == Some(name);
        match change {
            SettingChange::Set(name, value) => {
                settings.retain(|setting| !is_of(setting, name));
                settings.push(format!("{name}={value}"));
            }
            SettingChange::Reset(name) => settings.retain(|setting| !is_of(setting, name)),
            SettingChange::ResetAll => settings.retain(|setting| {
                let name = setting.split('=').next().unwrap_or_default();
                !is_superuser && reserved(name)
            }),
        }
        store.put_settings(self.tables.transaction, database, role, &settings)?;
        if database == 0 && role != 0 {
            let old = self.role_to_change(role)?;
            let changed = Role { settings, ..old.clone() };
            store.put_role(self.tables.transaction, &changed, Some(&old))?;
        }
        Ok(())
    }
}
