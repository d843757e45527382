//! `SET ROLE` and `SET SESSION AUTHORIZATION`: whose rights count.
//!
//! The two settings hold names of roles, so that rollbacks and `SET LOCAL` work as for all settings. The numbers of the roles are looked up
//! with the search path: whenever a setting or a definition has changed.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Session;
use crate::catalog::source::Role;
use crate::schema::privilege::Rights;

impl Session {
    /// Sets a setting that is not one of the transaction's modes.
    pub(super) fn set_plain(&mut self, name: &str, values: &[String], is_local: bool) -> SqlResult<()> {
        let is_role = match name {
            "role" => true,
            "session_authorization" => false,
            _ => return self.settings.set(name, values, is_local),
        };
        if let [role] = values
            && !(is_role && role == "none")
        {
            self.check_role_change(role, is_role)?;
            self.settings.permit_role(Some(role.clone()));
        }
        let set = self.settings.set(name, values, is_local);
        self.settings.permit_role(None);
        set?;
        if !is_role {
            self.settings.reset("role", is_local)?;
        }
        self.look_up_user().map(drop)
    }

    /// `RESET`, `SET .. TO DEFAULT`.
    pub(super) fn reset_setting(&mut self, name: &str, is_local: bool) -> SqlResult<()> {
        self.settings.reset(name, is_local)?;
        match name {
            "role" => self.look_up_user().map(drop),
            "session_authorization" => {
                self.settings.reset("role", is_local)?;
                self.look_up_user().map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Whether the session may take a role.
    fn check_role_change(&mut self, name: &str, is_role: bool) -> SqlResult<()> {
        let Some(role) = self.stored_role(name)? else { return Err(no_role(name)) };
        let is_allowed = match is_role {
            true => self.is_member(self.asker.session_user, role.oid)?,
            false => {
                let (database, own) = (Arc::clone(&self.database), self.login_role);
                let login = database.store.role(self.engine_transaction()?, own)?;
                role.oid == own || login.is_some_and(|login| login.is_superuser)
            }
        };
        if is_allowed {
            return Ok(());
        }
        let message = match is_role {
            true => format!("permission denied to set role \"{name}\""),
            false => "permission denied to set session authorization".to_owned(),
        };
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    fn stored_role(&mut self, name: &str) -> SqlResult<Option<Role>> {
        let database = Arc::clone(&self.database);
        database.store.role_named(self.engine_transaction()?, name)
    }

    /// Whether a role is another one, a member of it, directly or not, or a superuser.
    fn is_member(&mut self, role: Oid, of: Oid) -> SqlResult<bool> {
        let database = Arc::clone(&self.database);
        let mut known = vec![role];
        let mut next = 0;
        while let Some(member) = known.get(next).copied() {
            let Some(found) = database.store.role(self.engine_transaction()?, member)? else { break };
            if member == of || (next == 0 && found.is_superuser) {
                return Ok(true);
            }
            for (group, _) in found.member_of {
                if !known.contains(&group) {
                    known.push(group);
                }
            }
            next += 1;
        }
        Ok(false)
    }

    /// The user of the session, as its settings name it, and what that user may do.
    pub(super) fn look_up_user(&mut self) -> SqlResult<Rights> {
        let session = self.role_number_of(|session| session.settings.session_authorization().to_owned())?;
        let user = self.role_number_of(|session| session.settings.current_role().to_owned())?;
        let database = Arc::clone(&self.database);
        let rights = database.store.rights(self.engine_transaction()?, user)?;
        (self.asker.session_user, self.asker.user) = (session, user);
        self.asker.is_superuser = rights.is_superuser();
        self.settings.set_superuser(rights.is_superuser());
        Ok(rights)
    }

    fn role_number_of(&mut self, name: impl FnOnce(&Session) -> String) -> SqlResult<Oid> {
        let name = name(self);
        if name == self.login.user {
            self.user = name;
            return Ok(self.login_role);
        }
        let Some(role) = self.stored_role(&name)? else { return Err(no_role(&name)) };
        self.user = name;
        Ok(role.oid)
    }
}

fn no_role(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{name}\" does not exist"))
}
