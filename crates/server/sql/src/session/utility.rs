//! Statements that are no queries: each to the part of the session that it is about.

use std::sync::Arc;

use seawall_engine::LockWait;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::portal::{Kept, Prepared, fields, text_column};
use super::settings::{SessionSettings, ShownModes, TransactionSetting};
use super::transaction::Ended;
use super::{Session, Sink};
use crate::algebra::OutputColumn;
use crate::parse::statement::{
    Discard, Execute, Maintenance, ObjectName, Reindex, Reindexed, Setting, SettingValue, Statement,
    TableLock, Transaction, TransactionModes,
};
use crate::parse::{Dml, Text, Utility};
use crate::schema::Definition;
use crate::schema::privilege::Privileges;

/// How a utility was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    /// Formats of the result.
    pub(super) formats: &'a [i16],
    /// In a simple query, which is told of columns: whether it is the last statement. `None`: in a portal, which was described.
    pub(super) is_last: Option<bool>,
}

impl Session {
    /// The columns that a utility returns.
    pub(super) fn utility_output(&mut self, utility: &Utility) -> SqlResult<Option<Vec<OutputColumn>>> {
        Ok(match utility {
            Utility::Setting(Setting::Show(Some(name))) => {
                self.settings.show(name)?;
                Some(vec![text_column(&self.settings.shown_name(name))])
            }
            Utility::Setting(Setting::Show(None)) => {
                Some(["name", "setting", "description"].map(text_column).to_vec())
            }
            Utility::Explain(explain) => Some(vec![super::explain::column(explain)]),
            Utility::Execute(execute) => {
                self.prepared_named(&execute.name)?.output.as_ref().map(|output| output.to_vec())
            }
            Utility::Fetch(fetch) if !fetch.is_move => Some(self.cursor_output(&fetch.cursor)?),
            _ => None,
        })
    }

    /// Runs a utility; its tag.
    pub(super) fn run_utility(
        &mut self,
        text: &Text,
        utility: &Arc<Utility>,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<String> {
        self.check_utility(utility)?;
        let tag = utility.tag().to_owned();
        match &**utility {
            Utility::Transaction(transaction) => return self.run_transaction(transaction, tag),
            Utility::Setting(setting) => self.run_setting(setting, caller, sink)?,
            Utility::Prepare { name, types, text, statement } => {
                self.run_prepare(name, types, text, statement)?;
            }
            Utility::Execute(execute) => return self.run_execute(execute, caller, sink),
            Utility::Deallocate(None) => self.statements.clear(),
            Utility::Deallocate(Some(name)) => {
                self.prepared_named(name)?;
                self.statements.remove(name);
            }
            Utility::Declare(declare) => self.declare(declare)?,
            Utility::Fetch(fetch) => return self.fetch(fetch, caller, sink),
            Utility::Close(name) => self.close_cursors(name.as_deref())?,
            Utility::Copy(copy) => return self.copy(text, copy, sink),
            Utility::Explain(explain) => self.explain(text, explain, caller, sink)?,
            Utility::Listen(_) | Utility::Unlisten(_) | Utility::Notify { .. } => {
                self.run_notification(utility)?
            }
            Utility::Lock { tables, mode, is_nowait } => self.lock_tables(tables, *mode, *is_nowait)?,
            Utility::Discard(discard) => self.discard(*discard)?,
            Utility::Maintenance(maintenance) => self.maintain(maintenance)?,
            Utility::SetConstraints { names, is_deferred } => self.set_constraints(names, *is_deferred)?,
            Utility::Truncate { .. } | Utility::Define(_) => return self.define(text, utility),
        }
        Ok(tag)
    }

    fn run_transaction(&mut self, statement: &Transaction, tag: String) -> SqlResult<String> {
        match statement {
            Transaction::Begin(modes, _) => self.begin_block(*modes)?,
            Transaction::Commit(and_chain) => {
                if self.commit_block(*and_chain)? == Ended::RolledBack {
                    return Ok("ROLLBACK".to_owned());
                }
            }
            Transaction::Rollback(and_chain) => self.roll_back_block(*and_chain)?,
            Transaction::Savepoint(name) => self.set_savepoint(name)?,
            Transaction::Release(name) => self.release_savepoint(name)?,
            Transaction::RollbackTo(name) => self.roll_back_to_savepoint(name)?,
            Transaction::Prepare(gid) => {
                if self.prepare_transaction(gid)? == Ended::RolledBack {
                    return Ok("ROLLBACK".to_owned());
                }
            }
            Transaction::CommitPrepared(gid) => self.decide_prepared(gid, true)?,
            Transaction::RollbackPrepared(gid) => self.decide_prepared(gid, false)?,
            Transaction::SetModes(modes) => {
                if !self.is_in_block() {
                    self.warn(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
                self.set_modes(*modes)?;
            }
            Transaction::SetSessionModes(modes) => {
                let word = |is_on: bool| if is_on { "on" } else { "off" };
                if let Some(isolation) = modes.isolation {
                    self.settings.set(
                        "default_transaction_isolation",
                        &[isolation.name().to_owned()],
                        false,
                    )?;
                }
                if let Some(is_on) = modes.is_read_only {
                    self.settings.set("default_transaction_read_only", &[word(is_on).to_owned()], false)?;
                }
                if let Some(is_on) = modes.is_deferrable {
                    self.settings.set("default_transaction_deferrable", &[word(is_on).to_owned()], false)?;
                }
            }
        }
        Ok(tag)
    }

    fn run_setting(&mut self, setting: &Setting, caller: Caller<'_>, sink: &mut dyn Sink) -> SqlResult<()> {
        match setting {
            Setting::Set { name, values, is_local } => {
                if *is_local && !self.is_in_block() {
                    self.warn(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET LOCAL can only be used in transaction blocks",
                    );
                }
                match values.as_slice() {
                    [] => self.reset_setting(name, *is_local)?,
                    values => {
                        let values: Vec<String> = values.iter().map(setting_text).collect();
                        self.set_setting(name, &values, *is_local)?;
                    }
                }
            }
            Setting::Reset(Some(name)) => self.reset_setting(name, false)?,
            Setting::Reset(None) => self.settings.reset_all(),
            Setting::Show(Some(name)) => {
                let value = self.shown_setting(name)?;
                let column = text_column(&self.settings.shown_name(name));
                self.send_rows(&[column], vec![vec![Datum::text(&value)]], caller, sink)?;
            }
            Setting::Show(None) => {
                self.show_modes();
                let rows = self.settings.show_all();
                let rows = rows
                    .iter()
                    .map(|(name, value, what)| [name, value, what].map(Datum::text).to_vec())
                    .collect();
                let columns = ["name", "setting", "description"].map(text_column);
                self.send_rows(&columns, rows, caller, sink)?;
            }
        }
        Ok(())
    }

    /// Settings that are the transaction's go there.
    fn set_setting(&mut self, name: &str, values: &[String], is_local: bool) -> SqlResult<()> {
        let mut modes = TransactionModes::default();
        match SessionSettings::transaction_setting(name, values)? {
            None => return self.set_plain(name, values, is_local),
            Some(TransactionSetting::Isolation(isolation)) => modes.isolation = Some(isolation),
            Some(TransactionSetting::ReadOnly(is_read_only)) => modes.is_read_only = Some(is_read_only),
            Some(TransactionSetting::Deferrable(is_deferrable)) => modes.is_deferrable = Some(is_deferrable),
        }
        self.set_modes(modes)
    }

    /// What `SHOW` prints: the modes of the transaction are those of the one under way.
    fn shown_setting(&mut self, name: &str) -> SqlResult<String> {
        self.show_modes();
        self.settings.show(name)
    }

    fn show_modes(&mut self) {
        self.note_role();
        let of_open = self.open.as_ref().map(|open| ShownModes {
            isolation: open.isolation,
            is_read_only: open.is_read_only,
            is_deferrable: open.is_deferrable,
        });
        // The next transaction only reads, whatever the settings say.
        let of_standby = self.asker.is_in_recovery.then(|| ShownModes {
            isolation: self.settings.default_isolation(),
            is_read_only: true,
            is_deferrable: self.settings.default_deferrable(),
        });
        self.settings.show_modes(of_open.or(of_standby));
    }

    /// Sends rows that were made at once.
    pub(super) fn send_rows(
        &mut self,
        columns: &[OutputColumn],
        rows: Vec<Vec<Datum>>,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<()> {
        if caller.is_last.is_some() {
            sink.fields(&fields(columns, &[]))?;
        }
        let encoding = super::encode::Encoding::new(columns, caller.formats);
        let settings = self.settings.values();
        let as_of = self.begin_statement()?;
        self.with_tables(as_of, |tables| {
            let mut encoded = super::EncodedRow::default();
            for row in &rows {
                encoding.encode(row.iter(), &settings, tables, &mut encoded)?;
                sink.row(&encoded)?;
            }
            Ok(())
        })
    }

    // Prepared statements.

    pub(super) fn prepared_named(&self, name: &str) -> SqlResult<&Prepared> {
        self.statements.get(name).ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    fn run_prepare(
        &mut self,
        name: &str,
        types: &[sqlparser::ast::DataType],
        text: &Text,
        statement: &Dml,
    ) -> SqlResult<()> {
        if self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        let types: Vec<_> = self.bind_with(text, &[], |binder| {
            types.iter().map(|of| binder.type_of(of).map(|of| of.oid)).collect::<SqlResult<_>>()
        })?;
        let statement = Some(Statement::Dml(statement.clone()));
        let parsed = super::portal::ParsedStatement::new(text.clone(), statement);
        let prepared = self.prepared(Arc::new(parsed), &types, Kept::FromSql)?;
        self.statements.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// `EXECUTE`: the tag is that of the statement.
    fn run_execute(
        &mut self,
        execute: &Execute,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<String> {
        let prepared = self.prepared_named(&execute.name)?.clone();
        let parameters = self.execute_arguments(execute, &prepared)?;
        let planned = self.current_plan(&execute.name, &prepared)?;
        let Some(Statement::Dml(dml)) = &prepared.statement.statement else {
            let Some(Statement::Utility(utility)) = &prepared.statement.statement else {
                return Err(SqlError::internal("an empty statement was prepared"));
            };
            return self.run_utility(&prepared.statement.text, utility, caller, sink);
        };
        let Some(planned) = planned else { return Err(SqlError::internal("a query without a plan")) };
        self.run_planned(planned, dml, parameters, caller, sink)
    }

    /// The arguments, as values of the types of the parameters.
    pub(super) fn execute_arguments(
        &mut self,
        execute: &Execute,
        prepared: &Prepared,
    ) -> SqlResult<Vec<Datum>> {
        let (given, wanted) = (execute.arguments.len(), prepared.parameters.len());
        if given != wanted {
            let message = format!("wrong number of parameters for prepared statement \"{}\"", execute.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .with_detail(format!("Expected {wanted} parameters but got {given}.")));
        }
        let mut values = Vec::with_capacity(given);
        for (index, (argument, of)) in execute.arguments.iter().zip(&*prepared.parameters).enumerate() {
            let text = prepared.statement.text.clone();
            let of = if prepared.domain(index) == 0 { *of } else { prepared.domain(index) };
            let value = self.bind_with(&text, &[], |binder| binder.argument(argument, of))?;
            values.push(self.constant_value(value)?);
        }
        Ok(values)
    }

    // Others.

    fn lock_tables(&mut self, names: &[ObjectName], mode: TableLock, is_nowait: bool) -> SqlResult<()> {
        if !self.is_in_block() {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        let wait = if is_nowait { LockWait::NoWait } else { self.lock_wait() };
        for name in names {
            let table = match self.named_relation(name)? {
                Definition::Table(table) if table.query.is_none() => table,
                Definition::Table(_) => {
                    let message = format!("cannot lock relation \"{}\"", name.name);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .with_detail("This operation is not supported for materialized views."));
                }
                Definition::View(_) => return Err(SqlError::unsupported("LOCK TABLE of a view")),
                _ => {
                    let message = format!("\"{}\" is not a table or view", name.name);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            };
            let of_changes = Privileges::UPDATE.and(Privileges::DELETE).and(Privileges::TRUNCATE);
            let any = match mode {
                TableLock::AccessShare => Privileges::SELECT,
                TableLock::RowExclusive => of_changes.and(Privileges::INSERT),
                _ => of_changes,
            };
            self.require_on(&Definition::Table(Arc::clone(&table)), any)?;
            let as_of = self.begin_statement()?;
            self.with_tables(as_of, |tables| tables.lock_table(&table, mode, wait))?;
        }
        Ok(())
    }

    /// The relation with this name, or `42P01`.
    pub(super) fn named_relation(&mut self, name: &ObjectName) -> SqlResult<Definition> {
        let text = Text::new("");
        self.begin_statement()?;
        let found =
            self.bind_with(&text, &[], |binder| binder.find_relation(name.schema.as_deref(), &name.name))?;
        found.ok_or_else(|| crate::bind::missing_relation(name.schema.as_deref(), &name.name))
    }

    fn discard(&mut self, discard: Discard) -> SqlResult<()> {
        if discard == Discard::All {
            if self.is_in_block() {
                let message = "DISCARD ALL cannot run inside a transaction block";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            self.portals.clear();
            self.reset_setting("session_authorization", false)?;
            self.settings.reset_all();
            self.statements.clear();
            self.database.notifications.unlisten(self.login.process_id, None);
            self.advisory.unlock_all();
        }
        if matches!(discard, Discard::All | Discard::Plans) {
            for prepared in self.statements.values_mut() {
                prepared.planned = None;
            }
            self.expressions.clear();
        }
        if matches!(discard, Discard::All | Discard::Sequences) {
            self.storage.sequences.discard();
        }
        if matches!(discard, Discard::All | Discard::Temporary) {
            self.drop_temporary_tables()?;
        }
        Ok(())
    }

    /// `VACUUM`, `ANALYZE` and their like. But for `ANALYZE`, tables are looked up, and there is nothing else to do.
    fn maintain(&mut self, maintenance: &Maintenance) -> SqlResult<()> {
        match maintenance {
            Maintenance::Vacuum(tables, is_analyzing) => {
                if self.is_in_block() {
                    let message = "VACUUM cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
                }
                if *is_analyzing {
                    return self.analyze(tables);
                }
                tables.iter().try_for_each(|table| self.named_relation(&table.name).map(|_| ()))
            }
            Maintenance::Analyze(tables) => self.analyze(tables),
            Maintenance::Checkpoint => {
                use crate::storage::engine_error::EngineResult;
                self.require_checkpoint()?;
                // A standby has checkpoints of its own, which write nothing into the log.
                let taken = match self.engine.standby() {
                    Some(standby) => standby.checkpoint(),
                    None => self.engine.checkpoint(),
                };
                taken.map(|_| ()).sql()
            }
            Maintenance::Cluster(None) => Ok(()),
            Maintenance::Cluster(Some(name)) => self.named_relation(name).map(|_| ()),
            Maintenance::Reindex(reindex) => self.reindex(reindex),
        }
    }

    /// Indexes here are never bloated: what is named is looked up.
    fn reindex(&mut self, reindex: &Reindex) -> SqlResult<()> {
        let what = match reindex.what {
            Reindexed::Index | Reindexed::Table => None,
            Reindexed::Schema => Some("SCHEMA"),
            Reindexed::System => Some("SYSTEM"),
            Reindexed::Database => Some("DATABASE"),
        };
        if self.is_in_block() && (reindex.is_concurrent || what.is_some()) {
            let command = if reindex.is_concurrent { "CONCURRENTLY" } else { what.unwrap_or_default() };
            let message = format!("REINDEX {command} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let of_system = || {
            let message = "cannot reindex system catalogs concurrently";
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        match reindex.what {
            Reindexed::Index | Reindexed::Table => match self.named_relation(&reindex.name)? {
                Definition::System(_) if reindex.is_concurrent => of_system(),
                _ => Ok(()),
            },
            Reindexed::Schema => {
                self.begin_statement()?;
                let database = Arc::clone(&self.database);
                let transaction = self.engine_transaction()?;
                match database.store.namespace_number(transaction, &reindex.name.name)? {
                    Some(_) => Ok(()),
                    None => {
                        let message = format!("schema \"{}\" does not exist", reindex.name.name);
                        Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
                    }
                }
            }
            Reindexed::System if reindex.is_concurrent => of_system(),
            Reindexed::System | Reindexed::Database => Ok(()),
        }
    }

    fn set_constraints(&mut self, names: &[ObjectName], is_deferred: bool) -> SqlResult<()> {
        if !self.is_in_block() {
            self.warn(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET CONSTRAINTS can only be used in transaction blocks",
            );
        }
        let mut found = Vec::new();
        for name in names {
            found.extend(self.deferrable_constraints(name)?);
        }
        let constraints = (!names.is_empty()).then_some(found.as_slice());
        self.storage.foreign_keys.set_mode(constraints, is_deferred);
        if is_deferred || self.open.is_none() {
            return Ok(());
        }
        let as_of = self.begin_statement()?;
        self.with_tables(as_of, |tables| tables.check_deferred(constraints))
    }
}

/// A value as the settings read it.
fn setting_text(value: &SettingValue) -> String {
    match value {
        SettingValue::Text(text) | SettingValue::Number(text) => text.clone(),
        SettingValue::Interval(text, fields) => format!("INTERVAL '{text}' {fields}").trim_end().to_owned(),
    }
}
