//! Statements one after another, as a simple query has them, and what all of them share: tables, limits, notices.

use std::sync::Arc;
use std::time::Duration;

use seawall_types::Lsn;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::functions::Calls;
use super::plan::Planned;
use super::plan_cache::SharedPlan;
use super::portal::{ParsedStatement, count_of, fields, tag};
use super::utility::Caller;
use super::{Notice, Session, Sink, TransactionStatus};
use crate::execute::Limits;
use crate::parse::statement::Statement;
use crate::parse::{Dml, Parsed, WithoutConstants};
use crate::storage::TableStorage;
use crate::storage::engine_error::EngineResult;

/// A statement of a simple query.
struct ToRun<'t> {
    statement: Arc<ParsedStatement>,
    /// As the client has written it, if `statement` is one that many texts share.
    written: Option<&'t str>,
    plan: SimplePlan<'t>,
    /// When it was begun to be parsed; zero: it is measured from its start.
    begun: Duration,
    parsing: Option<Duration>,
}

/// Where its plan comes from, if it is a query.
enum SimplePlan<'t> {
    /// It was kept.
    Kept(Planned),
    /// It was kept for all texts that differ in these constants only.
    Shared(Planned, Vec<String>),
    /// It is to be made, and kept for this text and for those that differ in constants only.
    KeepFor(&'t str, Option<WithoutConstants>),
    /// It is to be made.
    Once,
}

impl Session {
    /// Runs all statements of a text, each result into `sink`; ends at the first error. All of them are one transaction, unless
    /// they say otherwise. Results are in text format.
    ///
    /// # Errors
    /// Of the statement that failed.
    pub fn simple_query(&mut self, text: &str, sink: &mut dyn Sink) -> SqlResult<()> {
        self.portals.remove("");
        let statements = match self.statements_of(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.fail();
                return Err(error);
            }
        };
        if statements.is_empty() {
            return sink.complete(None);
        }
        let last = statements.len() - 1;
        for (index, statement) in statements.iter().enumerate() {
            sink.statement_begins(self.timeouts().statement);
            self.cancel.begin();
            let ran = self.run_one(statement, index == last, sink);
            let told = self.send_notices(sink);
            if let Err(error) = ran.and(told) {
                self.note_failure(&error);
                self.fail();
                return Err(error);
            }
        }
        if self.open.is_none() {
            self.deliver_notifications(sink)?;
        }
        self.note_idle();
        Ok(())
    }

    /// The statements of a text: parsed, or with a plan that was kept.
    fn statements_of<'t>(&mut self, text: &'t str) -> SqlResult<Vec<ToRun<'t>>> {
        let begun = super::measure::now();
        if let Some(cached) = self.cached_plan(text, &[]) {
            let statement = Arc::clone(&cached.statement);
            let plan = SimplePlan::Kept(self.adopted(&cached));
            return Ok(vec![ToRun { statement, written: None, plan, begun, parsing: None }]);
        }
        let mut without = WithoutConstants::of(text);
        match without.as_ref().map(|without| self.shared_plan(without)) {
            Some(SharedPlan::Plan(cached)) => {
                let statement = Arc::clone(&cached.statement);
                let constants = without.map(|without| without.constants).unwrap_or_default();
                let plan = SimplePlan::Shared(self.adopted(&cached), constants);
                // Shown as any statement: without the semicolon and space around.
                let written = text.trim();
                let written = Some(written.strip_suffix(';').unwrap_or(written).trim_end());
                return Ok(vec![ToRun { statement, written, plan, begun, parsing: None }]);
            }
            Some(SharedPlan::Refused) => without = None,
            Some(SharedPlan::Unknown) | None => {}
        }
        let parsed = crate::parse::parse(text)?;
        // The time goes to the first statement, the others begin when they are run.
        let mut parsing = Some((begun, self.note_parse(begun)));
        let is_alone = parsed.len() == 1;
        let to_run = |parsed: Parsed| {
            let (begun, parsing) = parsing.take().unzip();
            ToRun {
                statement: Arc::new(ParsedStatement::new(parsed.text, Some(parsed.statement))),
                written: None,
                plan: if is_alone { SimplePlan::KeepFor(text, without.take()) } else { SimplePlan::Once },
                begun: begun.unwrap_or_default(),
                parsing,
            }
        };
        Ok(parsed.into_iter().map(to_run).collect())
    }

    /// Runs a statement. Its tag is sent once it is done: for the last one of an implicit transaction, once that is committed.
    fn run_one(&mut self, to_run: &ToRun<'_>, is_last: bool, sink: &mut dyn Sink) -> SqlResult<()> {
        let statement = &to_run.statement;
        let begun = if to_run.begun.is_zero() { super::measure::now() } else { to_run.begun };
        self.begin_measuring(begun, to_run.parsing);
        self.check_allowed(statement)?;
        let written = to_run.written.unwrap_or(statement.text.statement());
        self.note_activity(written);
        let tag = match &statement.statement {
            Some(Statement::Dml(dml)) => self.run_query(to_run, dml, sink)?,
            Some(Statement::Utility(utility)) => {
                let caller = Caller { formats: &[], is_last: Some(is_last) };
                self.run_utility(&statement.text, utility, caller, sink)?
            }
            None => return Ok(()),
        };
        self.end_execution(statement, &tag, Duration::ZERO);
        if is_last && !self.is_in_block() {
            self.commit()?;
        } else if let Some(engine) = self.open.as_mut().and_then(|open| open.engine.as_mut()) {
            engine.end_statement();
        }
        self.log_if_slow(statement, written, self.taken(), &[]);
        self.send_notices(sink)?;
        self.send_settings(sink)?;
        sink.complete(Some(&tag))
    }

    fn run_query(&mut self, to_run: &ToRun<'_>, statement: &Dml, sink: &mut dyn Sink) -> SqlResult<String> {
        let now = self.begin_statement()?;
        let caller = Caller { formats: &[], is_last: Some(true) };
        let planned = match &to_run.plan {
            SimplePlan::Kept(planned) if self.is_current(planned, now) => {
                // What functions over names ask is as of now, too.
                self.search_path()?;
                planned.clone()
            }
            SimplePlan::Shared(planned, constants) => {
                if let Some(parameters) = self.parameters_of(planned, constants, now)? {
                    return self.run_planned(Arc::new(planned.clone()), statement, parameters, caller, sink);
                }
                // The text as it is has the right error, or a newer plan.
                return self.run_once(to_run.written.unwrap_or_default(), now, caller, sink);
            }
            SimplePlan::KeepFor(text, without) => {
                let planned = self.plan(&to_run.statement.text, statement, &[], now)?;
                match without {
                    Some(without) => self.share_plan(without, &to_run.statement, &planned),
                    None => self.keep_plan(text, &[], &to_run.statement, &planned),
                }
                planned
            }
            SimplePlan::Kept(_) | SimplePlan::Once => {
                self.plan(&to_run.statement.text, statement, &[], now)?
            }
        };
        self.run_planned(Arc::new(planned), statement, Vec::new(), caller, sink)
    }

    /// Constants as the parameters of a plan. `None`: the plan is outdated, or one of them is no value of its type.
    fn parameters_of(
        &mut self,
        planned: &Planned,
        constants: &[String],
        now: Lsn,
    ) -> SqlResult<Option<Vec<Datum>>> {
        if !self.is_current(planned, now) {
            return Ok(None);
        }
        // What functions over names ask is as of now, too.
        self.search_path()?;
        let settings = self.settings.values();
        let value = |(constant, of): (&String, &Oid)| {
            super::encode::decode_parameter(*of, 0, Some(constant.as_bytes()), &settings).ok()
        };
        Ok(constants.iter().zip(planned.parameters()).map(value).collect())
    }

    /// Runs a query by a plan of its own.
    fn run_once(
        &mut self,
        text: &str,
        now: Lsn,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<String> {
        let parsed = crate::parse::parse(text)?.pop();
        let Some(Parsed { text, statement: Statement::Dml(dml) }) = parsed else {
            return Err(SqlError::internal("a query that is none any more"));
        };
        let planned = self.plan(&text, &dml, &[], now)?;
        self.run_planned(Arc::new(planned), &dml, Vec::new(), caller, sink)
    }

    /// Runs a query to its end; its tag.
    pub(super) fn run_planned(
        &mut self,
        planned: Arc<Planned>,
        statement: &Dml,
        parameters: Vec<Datum>,
        caller: Caller<'_>,
        sink: &mut dyn Sink,
    ) -> SqlResult<String> {
        if statement.returns_rows() && caller.is_last.is_some() {
            sink.fields(&fields(planned.output(), caller.formats))?;
        }
        let mut running = self.running(planned, statement, parameters, caller.formats)?;
        let sink = statement.returns_rows().then_some(sink);
        self.pull(&mut running, 0, sink)?;
        Ok(tag(statement, count_of(statement, &running)))
    }

    /// Runs `body` with the tables of the transaction.
    pub(super) fn with_tables<T>(
        &mut self,
        as_of: Lsn,
        body: impl FnOnce(&mut TableStorage<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.with_owned_tables(as_of, &(), |mut tables, ()| body(&mut tables))
    }

    /// The same with something that `body` keeps beside them.
    pub(super) fn with_owned_tables<T, E>(
        &mut self,
        as_of: Lsn,
        beside: &E,
        body: impl for<'x> FnOnce(TableStorage<'x>, &'x E) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let lock_wait = self.lock_wait();
        let settings = self.settings.values();
        self.expressions.set_settings(&settings);
        let Some(open) = &mut self.open else { return Err(SqlError::internal("no transaction")) };
        let Some(transaction) = &mut open.engine else { return Err(super::transaction::aborted()) };
        let (statements, portals) = (&self.statements, &self.portals);
        let mut calls = Calls {
            database: &self.database,
            engine: &self.engine,
            last_commit: self.last_commit,
            settings: &mut self.settings,
            asker: &self.asker,
            is_read_only: open.is_read_only,
            notifications: &mut self.pending_notifications,
            cancel: &self.cancel.requested,
            advisory: &mut self.advisory,
            lock_wait,
            activity: &self.activity,
            prepared: &|| super::portal::prepared_statements(statements),
            cursors: &|| super::portal::open_cursors(portals),
            session: self.login.process_id,
        };
        let tables = TableStorage {
            store: &self.database.store,
            database: &self.engine,
            transaction,
            session: &mut self.storage,
            expressions: &mut self.expressions,
            calls: &mut calls,
            settings: &settings,
            as_of,
            lock_wait,
        };
        let result = body(tables, beside);
        self.expressions.release_settings();
        result
    }

    /// What is deferred to the end of the transaction.
    pub(super) fn finish_constraints(&mut self) -> SqlResult<()> {
        if !self.storage.foreign_keys.has_deferred() || self.open.as_ref().is_some_and(|open| open.is_failed)
        {
            return Ok(());
        }
        let as_of = self.engine_transaction()?.begin_statement().sql()?;
        self.with_tables(as_of, |tables| tables.finish_transaction())
    }

    /// The memory that a statement may use.
    pub(super) fn limits(&self) -> Limits {
        self.temporary_files.set_limit(self.settings.temporary_file_limit());
        Limits {
            work_memory: self.settings.work_memory(),
            statement_memory: self.settings.statement_memory(),
            budget: Arc::clone(&self.database.memory),
            temporary_files: Arc::clone(&self.temporary_files),
        }
    }

    /// An error that the server found (such as of the protocol) counts for the transaction as one of a statement.
    pub fn fail(&mut self) {
        self.fail_transaction();
        self.note_idle();
    }

    pub(super) fn warn(&mut self, code: SqlState, message: &str) {
        self.notices.push(Notice { severity: "WARNING", content: *SqlError::new(code, message) });
    }

    /// Sends what statements have said so far.
    pub(super) fn send_notices(&mut self, sink: &mut dyn Sink) -> SqlResult<()> {
        for notice in std::mem::take(&mut self.notices) {
            if self.settings.is_sent(notice.severity) {
                sink.notice(&notice)?;
            }
        }
        Ok(())
    }

    /// Tells the client of settings that have changed.
    pub(super) fn send_settings(&mut self, sink: &mut dyn Sink) -> SqlResult<()> {
        for (name, value) in self.settings.take_changed() {
            if name == "application_name" {
                self.activity.set_application(&value);
            }
            sink.setting(&name, &value)?;
        }
        Ok(())
    }

    pub(super) fn note_activity(&mut self, text: &str) {
        let is_in_block = self.status() == TransactionStatus::InTransaction;
        self.activity.begin_statement(text, is_in_block, (self.settings.values().clock)());
    }

    /// The client is waited for.
    pub(super) fn note_idle(&self) {
        self.activity.end_statement(self.status(), super::settings::clock());
    }

    /// A single value that depends on no row, such as an option or an argument of `EXECUTE`.
    pub(super) fn constant_value(&mut self, value: crate::algebra::Expression) -> SqlResult<Datum> {
        let (column, of) = (crate::algebra::ColumnId(u32::MAX), value.of);
        let query = crate::algebra::Query {
            relation: crate::algebra::Relation::Compute {
                input: Box::new(crate::algebra::Relation::OneRow),
                values: vec![(column, value)],
            },
            output: vec![crate::algebra::OutputColumn { column, name: String::new(), of, origin: (0, 0) }],
            parameters: Vec::new(),
        };
        let as_of = self.begin_statement()?;
        let planned = self.planned(&query, as_of)?;
        let settings = self.settings.values();
        let (limits, cancel) = (self.limits(), Arc::clone(&self.cancel.requested));
        self.with_tables(as_of, |tables| {
            let mut environment =
                crate::execute::Environment { storage: tables, settings: &settings, cancel: &cancel };
            let mut execution = crate::execute::Execution::open(
                planned.plan,
                Vec::new(),
                limits,
                crate::execute::Counting::Off,
            );
            match execution.next(&mut environment)? {
                true => Ok(execution.value(0).clone()),
                false => Err(SqlError::internal("a value that has no row")),
            }
        })
    }
}
