//! Prepared statements and portals: a statement with its parameters, and how far its rows have been given out.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustc_hash::FxHashMap;
use seawall_types::Lsn;
use seawall_values::user_types::{is_domain, is_user_type};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::cursor::Place;
use super::encode::{self, Encoding};
use super::plan::Planned;
use super::utility::Caller;
use super::{EncodedRow, Executed, Field, Session, Sink, StatementDescription};
use crate::algebra::OutputColumn;
use crate::catalog::source::{OpenCursor, PreparedStatement};
use crate::execute::{Counting, Environment, Execution, KeptRows, Reservation};
use crate::parse::statement::Statement;
use crate::parse::{Dml, Fingerprint, Text};
use crate::storage::TableStorage;

/// A statement that `Parse` or `PREPARE` has made.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) statement: Arc<ParsedStatement>,
    /// The types of its parameters.
    pub(super) parameters: Arc<[Oid]>,
    /// The domains that these were declared with, by their position; 0: none. Those at the end may be left out.
    domains: Arc<[Oid]>,
    /// What it returned when it was prepared. Another result is an error: clients rely on the first description.
    pub(super) output: Option<Arc<[OutputColumn]>>,
    /// A plan that is good until a definition changes.
    pub(super) planned: Option<Arc<Planned>>,
    pub(super) is_from_sql: bool,
    pub(super) prepared_at: i64,
    /// Time of its planning, until it is run.
    pub(super) planning: Option<Duration>,
    /// What it takes of the memory of all statements, until it is forgotten.
    pub(super) _memory: Arc<Reservation>,
}

impl Prepared {
    /// The domain that a parameter was declared with; 0: none.
    pub(super) fn domain(&self, parameter: usize) -> Oid {
        self.domains.get(parameter).copied().unwrap_or(0)
    }

    /// The types of its parameters as they were declared.
    fn declared(&self) -> Vec<Oid> {
        let declared = |(index, of): (usize, &Oid)| match self.domain(index) {
            0 => *of,
            domain => domain,
        };
        self.parameters.iter().enumerate().map(declared).collect()
    }
}

/// Bytes that a prepared statement keeps, about: so much, and so much for each byte of its text, which its tree and its plan grow with.
const PREPARED_BYTES: usize = 2 << 10;
const PREPARED_BYTES_A_BYTE: usize = 16;

/// Bytes that a portal keeps, about, besides its parameters.
pub(super) const PORTAL_BYTES: usize = 1 << 10;

/// A statement with its text.
#[derive(Debug)]
pub(super) struct ParsedStatement {
    pub(super) text: Text,
    /// `None`: there is nothing but white space and comments.
    pub(super) statement: Option<Statement>,
    /// Made when it is asked for.
    fingerprint: OnceLock<Fingerprint>,
}

impl ParsedStatement {
    pub(super) fn new(text: Text, statement: Option<Statement>) -> ParsedStatement {
        ParsedStatement { text, statement, fingerprint: OnceLock::new() }
    }

    /// One that others are shown as `fingerprint`.
    pub(super) fn known_as(
        fingerprint: Fingerprint,
        text: Text,
        statement: Option<Statement>,
    ) -> ParsedStatement {
        ParsedStatement { text, statement, fingerprint: OnceLock::from(fingerprint) }
    }

    /// What it is, whatever its constants are.
    pub(super) fn fingerprint(&self) -> &Fingerprint {
        self.fingerprint.get_or_init(|| Fingerprint::of(&self.text))
    }
}

/// Where the plan of a statement that is being prepared comes from, and whether it is kept.
#[derive(Debug)]
pub(super) enum Kept<'a> {
    /// One that another statement with this text has made.
    Plan(Planned),
    /// It is to be made, and kept for this text.
    For(&'a str),
    /// It is to be made, for `PREPARE`.
    FromSql,
}

/// A statement with its parameters.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) statement: Arc<ParsedStatement>,
    pub(super) parameters: Vec<Datum>,
    pub(super) formats: Vec<i16>,
    pub(super) run: Run,
    pub(super) cursor: Option<CursorOptions>,
    /// How many savepoints there were when it was made: a return to one of them ends it.
    pub(super) savepoints: usize,
    pub(super) created_at: i64,
    /// Time of its planning, until it is run.
    pub(super) planning: Option<Duration>,
    /// Time that earlier calls of `execute` took.
    pub(super) spent: Duration,
    /// What it and its parameters take of the memory of all statements.
    pub(super) _memory: Option<Reservation>,
}

impl Portal {
    /// Whether it outlives its transaction, which has committed.
    pub(super) fn is_held(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| cursor.is_held)
    }
}

/// How far a portal is.
#[derive(Debug)]
pub(super) enum Run {
    /// It has not begun, but is planned, if it is a query.
    Ready(Option<Arc<Planned>>),
    /// Its rows are being given out.
    Query(Box<Running>),
    /// It has ended, or failed.
    Done,
}

/// A query under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) planned: Arc<Planned>,
    pub(super) execution: Execution,
    pub(super) encoding: Encoding,
    pub(super) as_of: Lsn,
    /// Rows that the execution has given.
    pub(super) rows: u64,
    pub(super) is_done: bool,
    /// Those of them that a cursor can go back to.
    pub(super) kept: Option<KeptRows>,
    /// Whether they are kept also when they do not fit into memory.
    pub(super) keeps_all: bool,
    /// Where the cursor is.
    pub(super) place: Place,
}

impl Running {
    pub(super) fn new(planned: Arc<Planned>, execution: Execution, encoding: Encoding) -> Running {
        Running {
            as_of: planned.as_of,
            planned,
            execution,
            encoding,
            rows: 0,
            is_done: false,
            kept: None,
            keeps_all: false,
            place: Place::default(),
        }
    }

    /// Whether all rows that it has given are kept.
    pub(super) fn can_go_back(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.first() == 0)
    }
}

/// What `DECLARE` said.
#[derive(Clone, Debug, Default)]
pub(super) struct CursorOptions {
    pub(super) is_holdable: bool,
    pub(super) is_binary: bool,
    pub(super) is_scrollable: bool,
    /// Whether its transaction has committed: all rows that it can still give are kept.
    pub(super) is_held: bool,
    pub(super) text: String,
}

/// What a statement that reads or changes rows is called when it is done.
pub(super) fn tag(statement: &Dml, rows: u64) -> String {
    match statement.command() {
        "INSERT" => format!("INSERT 0 {rows}"),
        command => format!("{command} {rows}"),
    }
}

/// Columns as a client is told of them.
pub(super) fn fields(output: &[OutputColumn], formats: &[i16]) -> Vec<Field> {
    output
        .iter()
        .enumerate()
        .map(|(index, column)| Field {
            name: column.name.clone(),
            table: column.origin.0,
            column: column.origin.1,
            of: column.of,
            type_length: encode::type_length(column.of.oid),
            format: format_at(formats, index),
        })
        .collect()
}

/// The format of a column: none are given: text; one: for all.
pub(super) fn format_at(formats: &[i16], index: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(index).copied().unwrap_or(0),
    }
}

fn no_statement(name: &str) -> Box<SqlError> {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

fn no_portal(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

impl Session {
    /// Prepares one statement. An unnamed one (`""`) takes the place of the one before. Types of 0 are to be found out.
    ///
    /// # Errors
    /// Syntax, names, types.
    pub fn parse(&mut self, name: &str, text: &str, types: &[Oid]) -> SqlResult<()> {
        let cached = self.cached_plan(text, types);
        let statement = match &cached {
            Some(cached) => {
                self.put_planning(None);
                Arc::clone(&cached.statement)
            }
            None => Arc::new(self.parsed_alone(text)?),
        };
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        let kept = match cached {
            Some(cached) => Kept::Plan(self.adopted(&cached)),
            None => Kept::For(text),
        };
        let prepared = self.prepared(statement, types, kept)?;
        self.statements.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// The one statement of a text.
    fn parsed_alone(&mut self, text: &str) -> SqlResult<ParsedStatement> {
        let begun = super::measure::now();
        let mut parsed = crate::parse::parse(text)?;
        let parsing = self.note_parse(begun);
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.put_planning(Some(parsing));
        Ok(match parsed.pop() {
            Some(parsed) => ParsedStatement::new(parsed.text, Some(parsed.statement)),
            None => ParsedStatement::new(Text::new(text), None),
        })
    }

    /// A statement ready to be run: bound once, so that its parameters and columns are known.
    pub(super) fn prepared(
        &mut self,
        statement: Arc<ParsedStatement>,
        types: &[Oid],
        kept: Kept<'_>,
    ) -> SqlResult<Prepared> {
        self.check_allowed(&statement)?;
        let domains: Vec<Oid> = types.iter().map(|of| if is_domain(*of) { *of } else { 0 }).collect();
        let types = self.base_types(types)?;
        let types = types.as_slice();
        let bytes = statement.text.statement().len().saturating_mul(PREPARED_BYTES_A_BYTE) + PREPARED_BYTES;
        let memory = Arc::new(Reservation::take(&self.database.memory, bytes)?);
        let mut prepared = Prepared {
            _memory: memory,
            statement: Arc::clone(&statement),
            parameters: Arc::from(types),
            domains: domains.into(),
            output: None,
            planned: None,
            is_from_sql: matches!(kept, Kept::FromSql),
            prepared_at: (self.settings.values().clock)(),
            planning: None,
        };
        match &statement.statement {
            Some(Statement::Dml(dml)) => {
                let now = self.begin_statement()?;
                let planned = match kept {
                    Kept::Plan(planned) if self.is_current(&planned, now) => {
                        // What functions over names ask is as of now, too.
                        self.search_path()?;
                        planned
                    }
                    Kept::Plan(_) | Kept::FromSql => self.plan(&statement.text, dml, types, now)?,
                    Kept::For(text) => {
                        let planned = self.plan(&statement.text, dml, types, now)?;
                        self.keep_plan(text, types, &statement, &planned);
                        planned
                    }
                };
                prepared.parameters = Arc::from(planned.parameters());
                prepared.output = dml.returns_rows().then(|| Arc::from(planned.output()));
                prepared.planned = Some(Arc::new(planned));
            }
            Some(Statement::Utility(utility)) => {
                let utility = Arc::clone(utility);
                prepared.output = self.utility_output(&utility)?.map(Arc::from);
            }
            None => {}
        }
        prepared.planning = self.take_planning();
        Ok(prepared)
    }

    /// In a failed transaction only its end is allowed.
    pub(super) fn check_allowed(&self, statement: &ParsedStatement) -> SqlResult<()> {
        match (&self.open, &statement.statement) {
            (Some(open), Some(statement)) if open.is_failed && !statement.ends_transaction() => {
                Err(super::transaction::aborted())
            }
            _ => Ok(()),
        }
    }

    /// Makes a portal of a prepared statement and its parameters. Formats: none: all text; one: for all; else one each.
    ///
    /// # Errors
    /// `26000`, `42P03`, values that are none of their types.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        formats: &[i16],
        values: &[Option<&[u8]>],
        result_formats: &[i16],
    ) -> SqlResult<()> {
        let prepared = self.statements.get(statement).ok_or_else(|| no_statement(statement))?.clone();
        self.check_allowed(&prepared.statement)?;
        if values.len() != prepared.parameters.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {}",
                values.len(),
                prepared.parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if formats.len() > 1 && formats.len() != values.len() {
            let message = format!(
                "bind message has {} parameter formats but {} parameters",
                formats.len(),
                values.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if !portal.is_empty() && self.portals.contains_key(portal) {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if prepared.parameters.iter().any(|of| is_user_type(*of)) {
            // Their labels may have changed since the last statement.
            self.begin_statement()?;
        }
        let settings = self.settings.values();
        let mut parameters = Vec::with_capacity(values.len());
        for (index, (value, of)) in values.iter().zip(&*prepared.parameters).enumerate() {
            let format = format_at(formats, index);
            parameters.push(match encode::is_named(*of, format) {
                true => {
                    let as_of = self.begin_statement()?;
                    let decode = |tables: &mut TableStorage<'_>| {
                        encode::decode_named_parameter(*of, *value, &settings, tables)
                    };
                    self.with_tables(as_of, decode)?
                }
                false => encode::decode_parameter(*of, format, *value, &settings)?,
            });
            if let Some(value) = parameters.last_mut()
                && prepared.domain(index) != 0
            {
                *value = self.allowed_by(prepared.domain(index), std::mem::take(value), *of)?;
            }
        }
        let columns = prepared.output.as_ref().map_or(0, |output| output.len());
        if result_formats.len() > 1 && result_formats.len() != columns {
            let message = format!(
                "bind message has {} result formats but query has {columns} columns",
                result_formats.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let planning = self.statements.get_mut(statement).and_then(|kept| kept.planning.take());
        self.put_planning(planning);
        // Its clock goes on with the statement, and what nobody else has need not be copied for that.
        drop(settings);
        let planned = self.current_plan(statement, &prepared)?;
        let planning = self.take_planning();
        let bytes = PORTAL_BYTES + crate::execute::values_bytes(&parameters);
        let memory = Some(Reservation::take(&self.database.memory, bytes)?);
        let portal_made = Portal {
            _memory: memory,
            statement: prepared.statement,
            parameters,
            formats: result_formats.to_vec(),
            run: Run::Ready(planned),
            cursor: None,
            savepoints: self.savepoints(),
            created_at: self.settings.values().statement_time,
            planning,
            spent: Duration::ZERO,
        };
        self.portals.insert(portal.to_owned(), portal_made);
        Ok(())
    }

    /// The types below domains.
    fn base_types(&mut self, types: &[Oid]) -> SqlResult<Vec<Oid>> {
        if !types.iter().any(|of| is_domain(*of)) {
            return Ok(types.to_vec());
        }
        self.bind_with(&Text::new(""), &[], |binder| {
            types.iter().map(|of| binder.base_of(TypeReference::of(*of)).map(|of| of.oid)).collect()
        })
    }

    /// The value of a parameter that has a domain, if the domain allows it.
    fn allowed_by(&mut self, domain: Oid, value: Datum, of: Oid) -> SqlResult<Datum> {
        let value = self.bind_with(&Text::new(""), &[], |binder| {
            binder.assigned_value(crate::bind::constant(value, of), TypeReference::of(domain), "value", "")
        })?;
        self.constant_value(value)
    }

    /// The plan of a prepared statement: the one that is kept, if no definition has changed, else a new one.
    pub(super) fn current_plan(
        &mut self,
        name: &str,
        prepared: &Prepared,
    ) -> SqlResult<Option<Arc<Planned>>> {
        let Some(Statement::Dml(dml)) = &prepared.statement.statement else { return Ok(None) };
        let now = self.begin_statement()?;
        if let Some(planned) = &prepared.planned
            && self.is_current(planned, now)
        {
            return Ok(Some(Arc::clone(planned)));
        }
        let planned = Arc::new(self.plan(&prepared.statement.text, dml, &prepared.parameters, now)?);
        let is_alike = |known: &Arc<[OutputColumn]>| {
            let now = planned.output();
            known.len() == now.len() && known.iter().zip(now).all(|(known, now)| known.of.oid == now.of.oid)
        };
        if !prepared.output.as_ref().is_none_or(is_alike) {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if let Some(kept) = self.statements.get_mut(name) {
            kept.planned = Some(Arc::clone(&planned));
        }
        Ok(Some(planned))
    }

    /// What a prepared statement takes and returns.
    ///
    /// # Errors
    /// `26000`.
    pub fn describe_statement(&mut self, name: &str) -> SqlResult<StatementDescription> {
        let prepared = self.statements.get(name).ok_or_else(|| no_statement(name))?;
        self.check_allowed(&prepared.statement)?;
        Ok(StatementDescription {
            parameters: prepared.declared(),
            fields: prepared.output.as_ref().map(|output| fields(output, &[])),
        })
    }

    /// What a portal returns.
    ///
    /// # Errors
    /// `34000`.
    pub fn describe_portal(&mut self, name: &str) -> SqlResult<Option<Vec<Field>>> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        self.check_allowed(&portal.statement)?;
        let planned = match &portal.run {
            Run::Ready(Some(planned)) => Arc::clone(planned),
            Run::Query(running) => Arc::clone(&running.planned),
            Run::Ready(None) | Run::Done => {
                let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
                let Some(Statement::Utility(utility)) = &statement.statement else { return Ok(None) };
                let output = self.utility_output(utility)?;
                return Ok(output.map(|output| fields(&output, &formats)));
            }
        };
        let Some(Statement::Dml(dml)) = &portal.statement.statement else { return Ok(None) };
        Ok(dml.returns_rows().then(|| fields(planned.output(), &portal.formats)))
    }

    /// Runs a portal for at most `rows` rows; 0: all. `Sink::fields` and `Sink::complete` are not called.
    ///
    /// # Errors
    /// Of the statement.
    pub fn execute(&mut self, name: &str, rows: u32, sink: &mut dyn Sink) -> SqlResult<Executed> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        self.check_allowed(&portal.statement)?;
        self.begin_measuring(super::measure::now(), None);
        let parameters = self.logged_parameters(&portal);
        let outcome = self.execute_portal(&mut portal, u64::from(rows), sink);
        self.measure_call(&mut portal, &outcome, &parameters);
        let is_ended =
            matches!(portal.statement.statement, Some(Statement::Utility(_))) && self.open.is_none();
        if outcome.is_ok() && !is_ended {
            self.portals.insert(name.to_owned(), portal);
        }
        self.send_notices(sink)?;
        outcome
    }

    /// Counts a call that has ended, or only its time if there are more rows.
    fn measure_call(
        &mut self,
        portal: &mut Portal,
        outcome: &SqlResult<Executed>,
        parameters: &[(Oid, Datum)],
    ) {
        let taken = self.taken();
        match outcome {
            Ok(Executed::Complete(Some(tag))) => {
                let statement = Arc::clone(&portal.statement);
                self.put_planning(portal.planning.take());
                self.end_execution(&statement, tag, std::mem::take(&mut portal.spent));
                self.log_if_slow(&statement, statement.text.statement(), taken, parameters);
            }
            Ok(Executed::Complete(None)) => {}
            Ok(Executed::Suspended) => portal.spent += taken,
            Err(error) => self.note_failure(error),
        }
    }

    fn execute_portal(&mut self, portal: &mut Portal, rows: u64, sink: &mut dyn Sink) -> SqlResult<Executed> {
        self.cancel.begin();
        let statement = Arc::clone(&portal.statement);
        match &statement.statement {
            None => Ok(Executed::Complete(None)),
            Some(Statement::Utility(utility)) => {
                if matches!(portal.run, Run::Done) {
                    return Err(ran_already());
                }
                portal.run = Run::Done;
                self.note_activity(statement.text.statement());
                let caller = Caller { formats: &portal.formats, is_last: None };
                let tag = self.run_utility(&statement.text, utility, caller, sink)?;
                Ok(Executed::Complete(Some(tag)))
            }
            Some(Statement::Dml(dml)) => {
                self.note_activity(statement.text.statement());
                self.start(portal, dml)?;
                let Run::Query(running) = &mut portal.run else { return Err(ran_already()) };
                if running.is_done && !dml.returns_rows() {
                    return Err(ran_already());
                }
                if self.pull(running, rows, Some(sink))? {
                    let count = count_of(dml, running);
                    return Ok(Executed::Complete(Some(tag(dml, count))));
                }
                Ok(Executed::Suspended)
            }
        }
    }

    /// Opens a query that is only planned yet.
    pub(super) fn start(&mut self, portal: &mut Portal, statement: &Dml) -> SqlResult<()> {
        let Run::Ready(planned) = &portal.run else { return Ok(()) };
        let Some(planned) = planned.clone() else { return Err(SqlError::internal("a query without a plan")) };
        let parameters = std::mem::take(&mut portal.parameters);
        let running = self.running(planned, statement, parameters, &portal.formats)?;
        portal.run = Run::Query(Box::new(running));
        Ok(())
    }

    /// A query under way.
    pub(super) fn running(
        &mut self,
        planned: Arc<Planned>,
        statement: &Dml,
        parameters: Vec<Datum>,
        formats: &[i16],
    ) -> SqlResult<Running> {
        self.check_writable(statement)?;
        self.begin_statement()?;
        self.open()?.has_begun_work = true;
        let execution = Execution::open(Arc::clone(&planned.plan), parameters, self.limits(), Counting::Off);
        let encoding = Encoding::new(planned.output(), formats);
        Ok(Running::new(planned, execution, encoding))
    }

    /// `25006`.
    pub(super) fn check_writable(&mut self, statement: &Dml) -> SqlResult<()> {
        let is_read_only = self.open()?.is_read_only;
        if is_read_only && let Some(command) = statement.writes() {
            let message = format!("cannot execute {command} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Gives out rows; 0: all. `true`: there are no more.
    pub(super) fn pull(
        &mut self,
        running: &mut Running,
        limit: u64,
        mut sink: Option<&mut dyn Sink>,
    ) -> SqlResult<bool> {
        if running.is_done {
            return Ok(true);
        }
        let settings = self.settings.values();
        let cancel = Arc::clone(&self.cancel.requested);
        let as_of = running.as_of;
        let mut given = 0;
        // It may have changed since the statement began.
        self.temporary_files.set_limit(self.settings.temporary_file_limit());
        let is_done = self.with_tables(as_of, |tables| {
            let mut environment = Environment { storage: &mut *tables, settings: &settings, cancel: &cancel };
            let mut row = EncodedRow::default();
            while limit == 0 || given < limit {
                if !running.execution.next(&mut environment)? {
                    tables.finish_statement()?;
                    return Ok(true);
                }
                given += 1;
                if let Some(kept) = &mut running.kept {
                    kept.push(running.execution.values())?;
                    // Nobody has said that the cursor is to go back, so no file is written for that.
                    if !running.keeps_all && kept.is_spilled() {
                        running.kept = None;
                    }
                }
                if let Some(sink) = &mut sink {
                    running.encoding.encode(
                        running.execution.values(),
                        &settings,
                        environment.storage,
                        &mut row,
                    )?;
                    sink.row(&row)?;
                }
            }
            Ok(false)
        })?;
        running.rows += given;
        running.is_done = is_done;
        Ok(is_done)
    }

    /// Forgets a prepared statement, and its portals.
    pub fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Forgets a portal.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// The end of a pipeline: an implicit transaction is committed, or rolled back if `failed`.
    ///
    /// # Errors
    /// Of the commit.
    pub fn sync(&mut self, has_failed: bool, sink: &mut dyn Sink) -> SqlResult<()> {
        self.portals.remove("");
        if self.is_in_block() {
            if let Some(engine) = self.open.as_mut().and_then(|open| open.engine.as_mut()) {
                engine.end_statement();
            }
            self.note_idle();
            return self.send_notices(sink);
        }
        if has_failed {
            self.roll_back();
        }
        let committed = self.commit();
        self.note_idle();
        self.send_notices(sink)?;
        committed?;
        self.deliver_notifications(sink)
    }
}

/// How many rows a command's tag counts.
pub(super) fn count_of(statement: &Dml, running: &Running) -> u64 {
    match statement.command() {
        "SELECT" => running.rows,
        _ => running.execution.rows_changed(),
    }
}

fn ran_already() -> Box<SqlError> {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "portal cannot be run anymore")
}

/// A column of text, as utilities return them.
pub(super) fn text_column(name: &str) -> OutputColumn {
    OutputColumn {
        column: crate::algebra::ColumnId(0),
        name: name.to_owned(),
        of: seawall_values::TypeReference::of(oid::TEXT),
        origin: (0, 0),
    }
}

/// What `pg_prepared_statements` shows.
pub(super) fn prepared_statements(statements: &FxHashMap<String, Prepared>) -> Vec<PreparedStatement> {
    let shown = statements.iter().filter(|(name, _)| !name.is_empty());
    shown
        .map(|(name, prepared)| PreparedStatement {
            name: name.clone(),
            statement: prepared.statement.text.statement().to_owned(),
            prepared: prepared.prepared_at,
            parameters: prepared.declared(),
            is_from_sql: prepared.is_from_sql,
        })
        .collect()
}

/// What `pg_cursors` shows.
pub(super) fn open_cursors(portals: &FxHashMap<String, Portal>) -> Vec<OpenCursor> {
    portals
        .iter()
        .map(|(name, portal)| {
            let options = portal.cursor.clone().unwrap_or_default();
            let text = portal.statement.text.statement().to_owned();
            OpenCursor {
                name: name.clone(),
                statement: if options.text.is_empty() { text } else { options.text },
                is_holdable: options.is_holdable,
                is_binary: options.is_binary,
                is_scrollable: options.is_scrollable,
                opened: portal.created_at,
            }
        })
        .collect()
}
