//! The settings of a session: `SET`, `SHOW`, `RESET`, and what statements read of them.
//!
//! ```text
//!   default --> start of the session (reset value) --> SET --> SET LOCAL
//!                                                       |          |
//!                                                 kept by COMMIT   gone with the transaction
//! ```
//! Each change is noted until the transaction ends, so a rollback, also to a savepoint, takes it back.
//!
//! * `known`: which settings there are. `value`, `number`, `unit`, `list`: texts to values.
//! * `check`: what a value may be beyond its kind. `date_style`, `time_zone`: two of these checks.
//! * `effective`: the values that statements read, in types of their own.

mod check;
mod date_style;
mod effective;
mod known;
pub(crate) mod list;
mod number;
/// Whether only superusers may store a value of this setting.
pub(crate) fn is_reserved(name: &str) -> bool {
    known(name).is_some_and(|known| matches!(known.context, Context::Superuser | Context::SuperuserBackend))
}

#[cfg(test)]
mod tests;
mod time_zone;
mod unit;
mod value;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use seawall_io::{Clock, SystemClock};
use seawall_values::user_types::UserTypes;
use seawall_values::{Settings, SqlError, SqlResult, SqlState};

use super::Timeouts;
use super::measure::SlowStatements;
use crate::catalog::source::Setting;
use check::DateStyles;
use effective::Effective;
use known::{Context, Kind, Known, known};
use words::MessageLevel;

pub(crate) use words::{IsolationLevel, SynchronousCommit};

/// Settings whose changes clients are told of.
const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// Settings that `RESET ALL` leaves alone.
const NOT_RESET: [&str; 2] = ["role", "session_authorization"];

/// Microseconds from 1970 to 2000.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The time of day: microseconds since 2000-01-01 UTC.
pub(crate) fn clock() -> i64 {
    SystemClock.wall_micros().saturating_sub(EPOCH_MICROS)
}

/// The modes of the transaction under way, as `SHOW transaction_isolation` and the like print them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownModes {
    pub(crate) isolation: IsolationLevel,
    pub(crate) is_read_only: bool,
    pub(crate) is_deferrable: bool,
}

/// What `SET` of one of the settings that stand for the transaction's modes asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionSetting {
    Isolation(IsolationLevel),
    ReadOnly(bool),
    Deferrable(bool),
}

/// A setting that differs from its default.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// The value that `RESET` gives.
    reset: String,
    /// Where the reset value is from, as `pg_settings.source` names it.
    source: &'static str,
    /// The value that a commit keeps; `None`: the reset value.
    session: Option<String>,
    /// The value until the transaction ends.
    local: Option<String>,
}

impl Entry {
    fn new(reset: &str) -> Entry {
        Entry { reset: reset.to_owned(), source: "default", session: None, local: None }
    }

    fn value(&self) -> &str {
        self.local.as_ref().or(self.session.as_ref()).unwrap_or(&self.reset)
    }
}

/// A change that a rollback takes back.
#[derive(Debug)]
struct Change {
    name: String,
    before: Option<Entry>,
}

/// The settings of a session.
#[derive(Debug)]
pub(crate) struct SessionSettings {
    /// By the name as PostgreSQL writes it; settings that were never changed are not in it.
    entries: BTreeMap<String, Entry>,
    /// Changes of the transaction under way, in order.
    changes: Vec<Change>,
    effective: Effective,
    is_superuser: bool,
    permitted_role: Option<String>,
    modes: Option<ShownModes>,
    /// The values that the client was told last, in the order of `REPORTED`.
    told: Vec<String>,
    /// Whether a setting that clients are told of was changed since.
    has_untold: bool,
    /// As of this version.
    plan_key: Option<(u64, Arc<str>)>,
}

/// The values that a session begins with if nothing else is said.
static DEFAULTS: LazyLock<Effective> = LazyLock::new(|| {
    let mut effective = Effective::new(clock);
    for known in known::all() {
        effective.apply(&known.name, &known.default);
    }
    effective.version = 0;
    effective
});

fn unrecognized(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn invalid_name(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_NAME, format!("invalid configuration parameter name \"{name}\""))
        .with_detail("Custom parameter names must be two or more simple identifiers separated by dots.")
}

impl SessionSettings {
    /// The settings of a new session of a role. `given`: those of its start-up packet, name and value.
    ///
    /// # Errors
    /// As `set_text`.
    #[cfg(test)]
    pub(crate) fn new(
        user: &str,
        is_superuser: bool,
        given: &[(String, String)],
    ) -> SqlResult<SessionSettings> {
        SessionSettings::of_session(user, is_superuser, &[], given)
    }

    /// The same with what `ALTER ROLE .. SET` and its kind have stored, which counts whatever the role itself may set.
    ///
    /// # Errors
    /// As `set_text`, of what is given.
    pub(crate) fn of_session(
        user: &str,
        is_superuser: bool,
        stored: &[(String, String)],
        given: &[(String, String)],
    ) -> SqlResult<SessionSettings> {
        let mut settings = SessionSettings {
            entries: BTreeMap::new(),
            changes: Vec::new(),
            effective: DEFAULTS.with_own_random(),
            is_superuser,
            permitted_role: None,
            modes: None,
            told: Vec::new(),
            has_untold: false,
            plan_key: None,
        };
        settings.state_fact("session_authorization", user);
        settings.state_fact("is_superuser", if is_superuser { "on" } else { "off" });
        settings.begin_with_stored(stored);
        settings.begin_with("client", given)?;
        settings.told = REPORTED.iter().map(|name| settings.value_of(name)).collect();
        settings.has_untold = false;
        Ok(settings)
    }

    /// Values that the session begins with, and that `RESET` returns to. `source`: where they are from, such as `database`, `user`.
    ///
    /// # Errors
    /// As `set_text`.
    pub(crate) fn begin_with(&mut self, source: &'static str, given: &[(String, String)]) -> SqlResult<()> {
        for (name, text) in given {
            let (stored, value) = self.checked(name, text, true)?;
            let mut entry = self.entry(&stored);
            (entry.reset, entry.source) = (value, source);
            self.entries.insert(stored.clone(), entry);
            self.refresh(&stored);
        }
        Ok(())
    }

    /// Takes what is stored. A value that is none any more must not keep the role out: it is left out, and the log says so.
    fn begin_with_stored(&mut self, stored: &[(String, String)]) {
        let is_superuser = std::mem::replace(&mut self.is_superuser, true);
        for pair in stored {
            if let Err(error) = self.begin_with("user", std::slice::from_ref(pair)) {
                tracing::warn!(setting = pair.0, %error, "a stored setting is left out");
            }
        }
        self.is_superuser = is_superuser;
    }

    /// `42501`, unless the role may store a value of this setting.
    pub(crate) fn check_may_store(&self, name: &str) -> SqlResult<()> {
        if !self.is_superuser && is_reserved(name) {
            let message = format!("permission denied to set parameter \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(())
    }

    /// The value of a setting that only the server decides, such as `port`.
    pub(crate) fn state_fact(&mut self, name: &str, value: &str) {
        let stored = known(name).map_or(name, |known| &known.name);
        let mut entry = self.entry(stored);
        (entry.reset, entry.source) = (value.to_owned(), "override");
        self.entries.insert(stored.to_owned(), entry);
        self.refresh(stored);
    }

    /// The value as `SHOW` prints it.
    ///
    /// # Errors
    /// `42704`: there is no such setting.
    pub(crate) fn show(&self, name: &str) -> SqlResult<String> {
        match known(name) {
            Some(known) => Ok(value::show(known, &self.value_of(&known.name))),
            None => match self.custom(name) {
                Some((_, entry)) => Ok(entry.value().to_owned()),
                None => Err(unrecognized(name)),
            },
        }
    }

    /// The name as PostgreSQL writes it, such as `TimeZone`.
    pub(crate) fn shown_name(&self, name: &str) -> String {
        match known(name) {
            Some(known) => known.name.clone(),
            None => self.custom(name).map_or(name, |(stored, _)| stored).to_owned(),
        }
    }

    /// Name, value and description of all settings, as `SHOW ALL` prints them.
    pub(crate) fn show_all(&self) -> Vec<(String, String, String)> {
        let listed = known::all().iter().filter(|known| !known.is_hidden);
        let row = |known: &Known| {
            (known.name.clone(), value::show(known, &self.value_of(&known.name)), known.description.clone())
        };
        listed.map(row).collect()
    }

    /// `SET name TO values`; `is_local`: until the transaction ends.
    ///
    /// # Errors
    /// `22023` more than one value; as `set_text`.
    pub(crate) fn set(&mut self, name: &str, values: &[String], is_local: bool) -> SqlResult<()> {
        let kind = known(name).map(|known| &known.kind);
        match (kind, values) {
            (Some(Kind::List { is_quoted }), values) => {
                self.set_text(name, &list::join(values, *is_quoted), is_local)
            }
            (_, [value]) => self.set_text(name, value, is_local),
            (_, []) => self.reset(name, is_local),
            (_, [_, _, ..]) => {
                let message = format!("SET {name} takes only one argument");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        }
    }

    /// Sets a value as `set_config` and start-up packets give it: a list is one text.
    ///
    /// # Errors
    /// `42704` no such setting; `42602`, `22023`; `55P02`, `42501` it cannot be changed now, or by this role; `0A000`.
    pub(crate) fn set_text(&mut self, name: &str, text: &str, is_local: bool) -> SqlResult<()> {
        let (stored, value) = self.checked(name, text, false)?;
        let mut entry = self.noted(&stored);
        match is_local {
            true => entry.local = Some(value),
            false => (entry.session, entry.local) = (Some(value), None),
        }
        self.entries.insert(stored.clone(), entry);
        self.refresh(&stored);
        Ok(())
    }

    /// `RESET name`, `SET name TO DEFAULT`.
    ///
    /// # Errors
    /// `42704` no such setting; `55P02`, `42501` it cannot be changed now, or by this role.
    pub(crate) fn reset(&mut self, name: &str, is_local: bool) -> SqlResult<()> {
        let stored = match known(name) {
            Some(known) => {
                self.check_change(known, name, false)?;
                known.name.clone()
            }
            None => match self.custom(name) {
                Some((stored, _)) => stored.clone(),
                None if name.contains('.') && !known::is_custom(name) => return Err(invalid_name(name)),
                None if name.contains('.') => return Ok(()),
                None => return Err(unrecognized(name)),
            },
        };
        let mut entry = self.noted(&stored);
        match is_local {
            true => entry.local = Some(entry.reset.clone()),
            false => (entry.session, entry.local) = (None, None),
        }
        self.entries.insert(stored.clone(), entry);
        self.refresh(&stored);
        Ok(())
    }

    /// `RESET ALL`.
    pub(crate) fn reset_all(&mut self) {
        let changed = self.entries.iter().filter(|(name, entry)| {
            (entry.session.is_some() || entry.local.is_some()) && !NOT_RESET.contains(&&name[..])
        });
        let names: Vec<String> = changed.map(|(name, _)| name.clone()).collect();
        for name in names {
            let mut entry = self.noted(&name);
            (entry.session, entry.local) = (None, None);
            self.entries.insert(name.clone(), entry);
            self.refresh(&name);
        }
    }

    /// What `SET` of `transaction_isolation`, `transaction_read_only` or `transaction_deferrable` asks of the transaction; `None`: the
    /// setting is another one.
    ///
    /// # Errors
    /// `22023`: a value that is not one of the setting.
    pub(crate) fn transaction_setting(
        name: &str,
        values: &[String],
    ) -> SqlResult<Option<TransactionSetting>> {
        let Some(known) = known(name).filter(|known| known.name.starts_with("transaction_")) else {
            return Ok(None);
        };
        let [text] = values else {
            let message = format!("SET {name} takes only one argument");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        let value = value::parse(known, name, text)?;
        Ok(match &known.name[..] {
            "transaction_isolation" => IsolationLevel::named(&value).map(TransactionSetting::Isolation),
            "transaction_read_only" => Some(TransactionSetting::ReadOnly(value == "on")),
            "transaction_deferrable" => Some(TransactionSetting::Deferrable(value == "on")),
            _ => None,
        })
    }

    /// The modes that `SHOW` prints for the transaction under way; `None`: those that the next one would have.
    pub(crate) fn show_modes(&mut self, modes: Option<ShownModes>) {
        self.modes = modes;
    }

    /// Checks a change: the name under which the value is kept, and the value.
    fn checked(&self, name: &str, text: &str, is_start: bool) -> SqlResult<(String, String)> {
        let Some(known) = known(name) else {
            let stored = self.custom(name).map(|(stored, _)| stored.clone());
            return match stored {
                Some(stored) => Ok((stored, text.to_owned())),
                None if known::is_custom(name) => Ok((name.to_owned(), text.to_owned())),
                None if name.contains('.') => Err(invalid_name(name)),
                None => Err(unrecognized(name)),
            };
        };
        self.check_change(known, name, is_start)?;
        let value = value::parse(known, name, text)?;
        self.check_role(&known.name, &value)?;
        let styles = DateStyles { current: self.effective.date_style(), default: self.default_date_style() };
        Ok((known.name.clone(), check::check(known, value, styles)?))
    }

    /// `SET ROLE` and `SET SESSION AUTHORIZATION` may say a role that the session has looked at (`permit_role`); other ways to set
    /// these settings may not.
    fn check_role(&self, stored: &str, value: &str) -> SqlResult<()> {
        let is_own = value == self.session_authorization() || self.permitted_role.as_deref() == Some(value);
        match stored {
            "role" if !is_own && value != "none" => Err(SqlError::unsupported("SET ROLE to another role")),
            "session_authorization" if !is_own => {
                Err(SqlError::unsupported("SET SESSION AUTHORIZATION to another role"))
            }
            _ => Ok(()),
        }
    }

    fn default_date_style(
        &self,
    ) -> (seawall_values::settings::DateStyle, seawall_values::settings::DateOrder) {
        let current = DEFAULTS.date_style();
        let Some(entry) = self.entries.get("DateStyle") else { return current };
        let words = list::split(&entry.reset).unwrap_or_default();
        date_style::parse(&words, current, current).unwrap_or(current)
    }

    /// Whether the setting may be changed now, by this role.
    fn check_change(&self, known: &Known, name: &str, is_start: bool) -> SqlResult<()> {
        let cannot = |when: &str| {
            let message = format!("parameter \"{name}\" cannot be {when}");
            Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message))
        };
        match known.context {
            Context::Internal => return cannot("changed"),
            Context::Postmaster => return cannot("changed without restarting the server"),
            Context::Reload => return cannot("changed now"),
            Context::Backend | Context::SuperuserBackend if !is_start => {
                return cannot("set after connection start");
            }
            Context::SuperuserBackend | Context::Superuser if !self.is_superuser => {
                let message = format!("permission denied to set parameter \"{name}\"");
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            Context::Backend | Context::SuperuserBackend | Context::Superuser | Context::User => {}
        }
        match known.name.starts_with("transaction_") {
            true => Err(SqlError::unsupported(format!("{} other than by SET", known.name))),
            false => Ok(()),
        }
    }

    /// A setting of the client's own, in any case.
    fn custom(&self, name: &str) -> Option<(&String, &Entry)> {
        self.entries.iter().find(|(known, _)| known.contains('.') && known.eq_ignore_ascii_case(name))
    }

    fn entry(&self, stored: &str) -> Entry {
        let default = || known(stored).map_or("", |known| &known.default);
        self.entries.get(stored).cloned().unwrap_or_else(|| Entry::new(default()))
    }

    /// The entry, to be changed: a rollback puts it back.
    fn noted(&mut self, stored: &str) -> Entry {
        let before = self.entries.get(stored).cloned();
        self.changes.push(Change { name: stored.to_owned(), before });
        self.entry(stored)
    }

    /// The current value without a unit.
    fn value_of(&self, stored: &str) -> String {
        if let Some(modes) = self.shown_mode(stored) {
            return modes.to_owned();
        }
        match (self.entries.get(stored), known(stored)) {
            (Some(entry), _) => entry.value().to_owned(),
            (None, Some(known)) => known.default.clone(),
            (None, None) => String::new(),
        }
    }

    fn shown_mode(&self, stored: &str) -> Option<&'static str> {
        let next = ShownModes {
            isolation: self.effective.default_isolation,
            is_read_only: self.effective.default_read_only,
            is_deferrable: self.effective.default_deferrable,
        };
        let modes = self.modes.unwrap_or(next);
        let switch = |is_on: bool| if is_on { "on" } else { "off" };
        match stored {
            "transaction_isolation" => Some(modes.isolation.name()),
            "transaction_read_only" => Some(switch(modes.is_read_only)),
            "transaction_deferrable" => Some(switch(modes.is_deferrable)),
            _ => None,
        }
    }

    /// Statements and the client see the setting's value as it is now.
    fn refresh(&mut self, stored: &str) {
        let value = self.value_of(stored);
        self.effective.apply(stored, &value);
        self.has_untold |= REPORTED.contains(&stored);
    }

    /// Where a rollback to a savepoint returns to.
    pub(crate) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Takes back the changes since the mark.
    pub(crate) fn return_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let Some(Change { name, before }) = self.changes.pop() else { return };
            match before {
                Some(entry) => self.entries.insert(name.clone(), entry),
                None => self.entries.remove(&name),
            };
            self.refresh(&name);
        }
    }

    /// The transaction is committed: what `SET LOCAL` has set is gone.
    pub(crate) fn commit(&mut self) {
        self.modes = None;
        let changes = std::mem::take(&mut self.changes);
        for Change { name, .. } in changes {
            if let Some(entry) = self.entries.get_mut(&name)
                && entry.local.take().is_some()
            {
                self.refresh(&name);
            }
        }
    }

    /// The transaction is rolled back: all its changes are gone.
    pub(crate) fn rollback(&mut self) {
        self.modes = None;
        self.return_to(0);
    }

    /// What functions of types depend on.
    pub(crate) fn values(&self) -> Arc<Settings> {
        Arc::clone(&self.effective.values)
    }

    /// The types that users have made, as statements see them from now on.
    pub(crate) fn set_types(&mut self, types: &Arc<UserTypes>) {
        if !Arc::ptr_eq(&self.effective.values.types, types) {
            Arc::make_mut(&mut self.effective.values).types = Arc::clone(types);
        }
    }

    /// A transaction begins: microseconds since 2000-01-01 UTC.
    pub(crate) fn begin_transaction(&mut self, micros: i64) {
        let values = Arc::make_mut(&mut self.effective.values);
        (values.transaction_time, values.statement_time) = (micros, micros);
    }

    /// A statement begins.
    pub(crate) fn begin_statement(&mut self, micros: i64) {
        Arc::make_mut(&mut self.effective.values).statement_time = micros;
    }

    /// The settings that clients are told of, with their values.
    pub(crate) fn reported(&self) -> Vec<(String, String)> {
        REPORTED.iter().map(|name| ((*name).to_owned(), self.value_of(name))).collect()
    }

    /// Those whose values differ from what the client was told last; it is told now.
    pub(crate) fn take_changed(&mut self) -> Vec<(String, String)> {
        if !std::mem::take(&mut self.has_untold) {
            return Vec::new();
        }
        let now = self.reported();
        let changed = now.iter().zip(&self.told).filter(|((_, value), told)| value != *told);
        let changed = changed.map(|(pair, _)| pair.clone()).collect();
        self.told = now.into_iter().map(|(_, value)| value).collect();
        changed
    }

    /// All settings, as `pg_settings` lists them.
    pub(crate) fn all(&self) -> Vec<Setting> {
        let of_known = known::all().iter().filter(|known| !known.is_hidden).map(|known| {
            let entry = self.entries.get(&known.name);
            let reset = entry.map_or(&known.default, |entry| &entry.reset);
            Setting {
                name: known.name.clone(),
                value: value::setting(known, &self.value_of(&known.name)),
                reset_value: value::setting(known, reset),
                source: source_of(known, entry),
            }
        });
        let is_custom = |name: &str| name.contains('.') && known(name).is_none();
        let custom = self.entries.iter().filter(|(name, _)| is_custom(name)).map(|(name, entry)| Setting {
            name: name.clone(),
            value: entry.value().to_owned(),
            reset_value: entry.reset.clone(),
            source: if entry.session.is_some() || entry.local.is_some() { "session" } else { entry.source },
        });
        of_known.chain(custom).collect()
    }

    /// The names of `search_path`; `$user` is as it is written.
    pub(crate) fn search_path(&self) -> &[String] {
        &self.effective.search_path
    }

    /// A role that `SET ROLE` or `SET SESSION AUTHORIZATION` may say now.
    pub(crate) fn permit_role(&mut self, role: Option<String>) {
        self.permitted_role = role;
    }

    /// The name of the role whose rights count: that of `SET ROLE`, or the session's.
    pub(crate) fn current_role(&self) -> &str {
        match self.entries.get("role").map(Entry::value) {
            None | Some("none") => self.session_authorization(),
            Some(role) => role,
        }
    }

    /// Whether the role that counts is a superuser.
    pub(crate) fn set_superuser(&mut self, is_superuser: bool) {
        if self.is_superuser != is_superuser {
            self.is_superuser = is_superuser;
            self.state_fact("is_superuser", if is_superuser { "on" } else { "off" });
        }
    }

    /// The role of the session.
    pub(crate) fn session_authorization(&self) -> &str {
        self.entries.get("session_authorization").map_or("", Entry::value)
    }

    /// `application_name`.
    pub(crate) fn application_name(&self) -> &str {
        self.entries.get("application_name").map_or("", Entry::value)
    }

    /// `default_transaction_isolation`.
    pub(crate) fn default_isolation(&self) -> IsolationLevel {
        self.effective.default_isolation
    }

    /// `default_transaction_read_only`.
    pub(crate) fn default_read_only(&self) -> bool {
        self.effective.default_read_only
    }

    /// `default_transaction_deferrable`.
    pub(crate) fn default_deferrable(&self) -> bool {
        self.effective.default_deferrable
    }

    /// The limits that the server keeps a session to.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.effective.timeouts
    }

    /// `lock_timeout`; `None`: no limit.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.effective.lock_timeout
    }

    /// `work_mem` in bytes.
    pub(crate) fn work_memory(&self) -> usize {
        self.effective.work_memory
    }

    /// `temp_file_limit` in bytes; `u64::MAX`: no limit.
    pub(crate) fn temporary_file_limit(&self) -> u64 {
        self.effective.temporary_file_limit
    }

    /// `default_statistics_target`.
    pub(crate) fn statistics_target(&self) -> usize {
        self.effective.statistics_target
    }

    /// `seawall.statement_memory` in bytes.
    pub(crate) fn statement_memory(&self) -> usize {
        self.effective.statement_memory
    }

    /// `synchronous_commit`.
    pub(crate) fn synchronous_commit(&self) -> SynchronousCommit {
        self.effective.synchronous_commit
    }

    /// Whether a message of this severity is sent to the client.
    pub(crate) fn is_sent(&self, severity: &str) -> bool {
        severity == "INFO" || MessageLevel::of_severity(severity) >= self.effective.client_min_messages
    }

    /// Which statements are logged because they are slow.
    pub(crate) fn slow_statements(&self) -> SlowStatements {
        self.effective.slow_statements
    }

    /// The settings that plans may depend on, with their values: sessions where the text is the same may share plans.
    pub(crate) fn plan_key(&mut self) -> Arc<str> {
        let version = self.version();
        if let Some((known, key)) = &self.plan_key
            && *known == version
        {
            return Arc::clone(key);
        }
        let of_plans = self.entries.iter().filter(|(name, _)| Effective::is_of_plans(name));
        let text: String = of_plans.map(|(name, entry)| format!("{name}={}\n", entry.value())).collect();
        let key: Arc<str> = Arc::from(text);
        self.plan_key = Some((version, Arc::clone(&key)));
        key
    }

    /// A number that is raised with each change that plans may depend on, such as one of `search_path`.
    pub(crate) fn version(&self) -> u64 {
        self.effective.version
    }
}

/// `pg_settings.source`.
fn source_of(known: &Known, entry: Option<&Entry>) -> &'static str {
    match entry {
        Some(entry) if entry.session.is_some() || entry.local.is_some() => "session",
        Some(entry) => entry.source,
        None if known.context == Context::Internal => "override",
        None => "default",
    }
}
