//! Roles.

use seawall_io::{OsRandom, Random};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, oid, text_form};

use super::super::Session;
use super::super::settings::is_reserved;
use crate::parse::statement::definition::{AlterRole, AlterSetting, CreateRole, RoleClauses, RoleName};
use crate::password::{SALT_BYTES, Verifier};
use crate::schema::define::requests::{NewRole, RoleOptions, SettingChange};

impl Session {
    /// The name that a statement means.
    pub(super) fn role_text(&self, name: &RoleName) -> String {
        match name {
            RoleName::Named(name) => name.clone(),
            RoleName::CurrentUser => self.user.clone(),
            RoleName::SessionUser => self.settings.session_authorization().to_owned(),
        }
    }

    pub(super) fn role_number(&mut self, name: &RoleName) -> SqlResult<Oid> {
        let name = self.role_text(name);
        let database = std::sync::Arc::clone(&self.database);
        match database.store.role_named(self.engine_transaction()?, &name)? {
            Some(role) => Ok(role.oid),
            None => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))),
        }
    }

    pub(super) fn role_numbers(&mut self, names: &[RoleName]) -> SqlResult<Vec<Oid>> {
        names.iter().map(|name| self.role_number(name)).collect()
    }

    fn role_options(&mut self, clauses: &RoleClauses) -> SqlResult<RoleOptions> {
        let settings = self.settings.values();
        let valid_until = match &clauses.valid_until {
            None => None,
            Some(text) => match text_form::input(oid::TIMESTAMPTZ, -1, text, &settings)? {
                Datum::TimestampTz(i64::MAX) => Some(None),
                Datum::TimestampTz(micros) => Some(Some(micros)),
                _ => None,
            },
        };
        Ok(RoleOptions {
            is_superuser: clauses.is_superuser,
            inherits: clauses.inherits,
            creates_roles: clauses.creates_roles,
            creates_databases: clauses.creates_databases,
            can_log_in: clauses.can_log_in,
            replicates: clauses.replicates,
            bypasses_row_security: clauses.bypasses_row_security,
            connection_limit: clauses.connection_limit,
            password: clauses
                .password
                .as_ref()
                .map(|password| password.as_deref().map(verifier).transpose())
                .transpose()?,
            valid_until,
        })
    }

    pub(super) fn create_role(&mut self, create: &CreateRole) -> SqlResult<()> {
        let options = self.role_options(&create.options)?;
        let member_of = self.role_numbers(&create.options.member_of)?;
        let mut members = Vec::with_capacity(create.options.members.len());
        for (member, is_admin) in &create.options.members {
            members.push((self.role_number(member)?, *is_admin));
        }
        let request = NewRole { name: create.name.clone(), options, member_of, members };
        self.with_definer(|definer| definer.create_role(&request)).map(|_| ())
    }

    pub(super) fn alter_role(&mut self, alter: &AlterRole) -> SqlResult<()> {
        let role = self.role_number(&alter.name)?;
        let options = self.role_options(&alter.options)?;
        self.with_definer(|definer| definer.alter_role(role, &options))
    }

    pub(super) fn alter_setting(&mut self, alter: &AlterSetting) -> SqlResult<()> {
        let role = match &alter.role {
            Some(role) => self.role_number(role)?,
            None => 0,
        };
        if let SettingChange::Set(name, _) | SettingChange::Reset(name) = &alter.change {
            self.settings.check_may_store(name)?;
        }
        let database = if alter.database.is_some() { crate::catalog::numbers::DATABASE } else { 0 };
        self.with_definer(|definer| definer.change_settings(database, role, &alter.change, is_reserved))
    }
}

/// What is kept of a password: a verifier, unless it is one already.
fn verifier(password: &str) -> SqlResult<String> {
    if password.parse::<Verifier>().is_ok() {
        return Ok(password.to_owned());
    }
    let mut salt = [0; SALT_BYTES];
    OsRandom.fill(&mut salt);
    Ok(Verifier::of_password(password, &salt).to_string())
}
