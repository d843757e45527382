//! A connection after its login: messages to the session, answers to the client.
//!
//! ```text
//!        task: waits for bytes                    thread of the pool: `work`
//!   +-----------------------------+   bytes   +---------------------------------+
//!   | idle: a socket, no buffers  | --------> | messages -> session -> answers  |
//!   |                             | <-------- | lingers for the next message    |
//!   +-----------------------------+   none    +---------------------------------+
//! ```
//! A thread that has answered waits a moment for the next message itself. So a client that goes on at once is served by one thread, without the
//! runtime, as by a process of its own.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use seawall_sql::session::{Executed, TransactionStatus};
use seawall_values::{SqlError, SqlResult, SqlState};

use crate::alarm::Alarm;
use crate::client::{Client, flush};
use crate::connections::{Ending, Registered};
use crate::context::{Context, Reloaded};
use crate::metrics::Metrics;
use crate::protocol::backend::Severity;
use crate::protocol::frontend::{self, Frame, FrameError, Target, next_frame, violation};
use crate::replication::ReplicationConnection;
use crate::socket::Readiness;
use crate::startup::{LoggedIn, log_in};
use crate::statements::StatementSession;
use crate::transport::{Filled, Transport};

const IDLE_SESSION_TIMEOUT: SqlState = SqlState::new(b"57P05");

/// Where a thread leaves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Idle,
    Ended,
}

/// Why a connection is idle no more.
#[derive(Debug)]
enum Woken {
    /// The client has sent something, or is gone.
    Client,
    /// Another session or the server wants something of this one.
    Others,
    /// It was idle for too long: why that is.
    Time(Box<SqlError>),
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client has said so, or is gone.
    Quiet,
    /// The client is told.
    With(Box<SqlError>),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        tracing::debug!(%error, "a connection broke");
        End::Quiet
    }
}

/// What keeps a message from being answered.
enum Failure {
    /// The statement has failed.
    Statement(Box<SqlError>),
    /// The connection ends.
    End(End),
}

impl From<Box<SqlError>> for Failure {
    fn from(error: Box<SqlError>) -> Failure {
        Failure::Statement(error)
    }
}

struct Connection {
    context: Arc<Context>,
    transport: Transport,
    registered: Registered,
    session: Box<dyn StatementSession>,
    /// As of the message under way.
    reloaded: Arc<Reloaded>,
    /// Settings that the client is to be told of.
    changed: BTreeMap<String, String>,
    /// After an error, messages are passed over up to Sync.
    skips_to_sync: bool,
    /// The client waits for what is in the output.
    is_flush_due: bool,
    /// Since when there is no whole message to answer.
    waits_since: Option<Duration>,
    /// When the message before ended, of those that have come together.
    last_ended: Option<Duration>,
}

/// Serves a connection from its first byte to its end.
pub(crate) async fn serve(context: Arc<Context>, mut transport: Transport) {
    let limit = context.reloaded().authentication_timeout;
    let logged_in = tokio::time::timeout(limit, log_in(&context, &mut transport)).await;
    let LoggedIn { user, database, registered, session, replicates } = match logged_in {
        Ok(Some(logged_in)) => logged_in,
        Ok(None) => return,
        Err(_) => {
            tracing::info!(peer = %transport.socket.peer, "a login took too long");
            return;
        }
    };
    let process_id = registered.entry.process_id;
    let reloaded = context.reloaded();
    if reloaded.logs_connections {
        let (peer, is_encrypted) = (&transport.socket.peer, transport.is_encrypted());
        tracing::info!(process_id, %peer, is_encrypted, user, database, "connected");
    }
    if let Some((application_name, replication)) = replicates {
        let (context, temporary) = (Arc::clone(&context), Vec::new());
        let connection = ReplicationConnection {
            context: Arc::clone(&context),
            transport,
            registered,
            session,
            replication,
            user,
            application_name,
            temporary,
            copying: None,
            listens: None,
        };
        if let Err(error) = context.pool.run(move || connection.serve()).await {
            tracing::error!(process_id, %error, "a connection for replication ends");
        }
        return;
    }
    let mut connection = Connection {
        context: Arc::clone(&context),
        transport,
        registered,
        session,
        reloaded,
        changed: BTreeMap::new(),
        skips_to_sync: false,
        is_flush_due: false,
        waits_since: None,
        last_ended: None,
    };
    let mut woken = Woken::Client;
    loop {
        let work = move || {
            let outcome = connection.work(woken);
            // A session's end may take long, because it rolls back: it is the thread's work, too.
            (outcome == Outcome::Idle).then_some(connection)
        };
        match context.pool.run(work).await {
            Ok(Some(rests)) => {
                connection = rests;
                woken = connection.idle().await;
            }
            Ok(None) => break,
            Err(error) => {
                tracing::error!(process_id, %error, "a connection ends");
                break;
            }
        }
    }
    if context.reloaded().logs_connections {
        tracing::info!(process_id, "disconnected");
    }
}

impl Connection {
    /// Waits as a task.
    async fn idle(&mut self) -> Woken {
        self.transport.release_buffers();
        let limit = self.idle_limit();
        let timeout = async {
            match limit {
                Some((rest, error)) => {
                    tokio::time::sleep(rest).await;
                    error
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // An error is found again, and said, by who reads.
            _ = self.transport.socket.ready(Readiness::Readable) => Woken::Client,
            () = self.registered.entry.woken.notified() => Woken::Others,
            error = timeout => Woken::Time(error),
        }
    }

    /// How long the client may still take for a whole message, and what it is told then. Parts of one do not make the time longer.
    fn idle_limit(&mut self) -> Option<(Duration, Box<SqlError>)> {
        let timeouts = self.session.timeouts();
        let (limit, code, message) = match self.session.status() {
            TransactionStatus::Idle => {
                let message = "terminating connection due to idle-session timeout";
                (timeouts.idle?, IDLE_SESSION_TIMEOUT, message)
            }
            TransactionStatus::InTransaction | TransactionStatus::Failed => {
                let message = "terminating connection due to idle-in-transaction timeout";
                (timeouts.idle_in_transaction?, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, message)
            }
        };
        let now = self.context.now();
        let waited = now.saturating_sub(*self.waits_since.get_or_insert(now));
        Some((limit.saturating_sub(waited), SqlError::new(code, message)))
    }

    /// # Errors
    /// `25P03`, `57P05`: the client has taken too long.
    fn check_idle(&mut self) -> Result<(), End> {
        match self.idle_limit() {
            Some((rest, error)) if rest.is_zero() => Err(End::With(error)),
            Some(_) | None => Ok(()),
        }
    }

    /// Serves messages until there is none, or the connection ends.
    fn work(&mut self, woken: Woken) -> Outcome {
        let served = match woken {
            Woken::Client => self.serve_messages(),
            Woken::Others => self.attend().and_then(|()| self.serve_messages()),
            Woken::Time(error) => Err(End::With(error)),
        };
        let Err(end) = served else { return Outcome::Idle };
        if let End::With(error) = end {
            let process_id = self.registered.entry.process_id;
            match error.code {
                // There may be hundreds of them, and why is said once.
                SqlState::ADMIN_SHUTDOWN => tracing::debug!(process_id, %error, "a connection is ended"),
                _ => tracing::info!(process_id, %error, "a connection is ended"),
            }
            self.transport.end(&error);
        }
        Outcome::Ended
    }

    /// Gives the client what has come for it while it was idle.
    fn attend(&mut self) -> Result<(), End> {
        let Connection { context, transport, registered, session, reloaded, changed, .. } = self;
        let (write_timeout, bytes_max) = (reloaded.write_timeout, reloaded.message_bytes_max);
        let alarm = Alarm::new(&context.runtime, &registered.entry);
        let mut client = Client::new(transport, &registered.entry, alarm, write_timeout, bytes_max, changed);
        session.attend(&mut client).map_err(End::With)?;
        self.is_flush_due = true;
        Ok(())
    }

    /// # Errors
    /// `57P01`: the server ends, or another session has ended this one.
    fn check_goes_on(&self) -> Result<(), End> {
        match self.registered.entry.is_to_end() || self.session.is_to_end() {
            true => Err(End::With(Ending::Shutdown.error())),
            false => Ok(()),
        }
    }

    fn serve_messages(&mut self) -> Result<(), End> {
        loop {
            self.check_goes_on()?;
            match next_frame(&mut self.transport.input, self.reloaded.message_bytes_max) {
                Ok(Some(frame)) => {
                    self.reloaded = self.context.reloaded();
                    self.waits_since = None;
                    self.answer(&frame)?;
                }
                Ok(None) => {
                    self.flush_due()?;
                    self.check_idle()?;
                    self.last_ended = None;
                    // A thread waits a moment for the next message itself, before the connection is idle.
                    match self.transport.fill_lingering()? {
                        Filled::Bytes => {}
                        Filled::End => return Err(End::Quiet),
                        Filled::Nothing => return Ok(()),
                    }
                }
                Err(FrameError::Kind(kind)) => {
                    return Err(End::With(violation(format!("invalid frontend message type {kind}"))));
                }
                Err(FrameError::Length(_)) => return Err(End::With(violation("invalid message length"))),
            }
        }
    }

    fn flush_due(&mut self) -> Result<(), End> {
        if std::mem::take(&mut self.is_flush_due) {
            flush(&mut self.transport, &self.registered.entry, self.reloaded.write_timeout)?;
        }
        Ok(())
    }

    fn answer(&mut self, frame: &Frame) -> Result<(), End> {
        match frame.kind {
            b'X' => {
                // What it has asked for before is still to come.
                self.flush_due()?;
                Err(End::Quiet)
            }
            b'Q' => self.query(&frame.body),
            b'S' => self.sync(&frame.body),
            // The rest of the data of a COPY that has failed.
            b'd' | b'c' | b'f' => Ok(()),
            b'F' => {
                let refused = self.understood(Err(SqlError::unsupported("the function call protocol")));
                self.report(refused.map_err(Failure::from))?;
                self.ready();
                Ok(())
            }
            b'P' | b'B' | b'D' | b'E' | b'C' | b'H' if self.skips_to_sync => Ok(()),
            b'P' | b'B' | b'D' | b'E' | b'C' | b'H' => {
                let answered = self.extended(frame);
                self.skips_to_sync = self.report(answered)?;
                if self.skips_to_sync {
                    // Now, not at the Sync: a client may let its locks wait for that.
                    self.session.fail();
                }
                Ok(())
            }
            kind => Err(End::With(violation(format!("invalid frontend message type {kind}")))),
        }
    }

    fn query(&mut self, body: &[u8]) -> Result<(), End> {
        self.skips_to_sync = false;
        let text = self.understood(frontend::text(body));
        let run = |text: &str| self.run(|session, client| session.simple_query(text, client));
        let answered = text.map_err(Failure::from).and_then(run);
        self.report(answered)?;
        self.ready();
        Ok(())
    }

    fn sync(&mut self, body: &[u8]) -> Result<(), End> {
        let has_failed = std::mem::take(&mut self.skips_to_sync);
        let understood = self.understood(frontend::empty(body)).map_err(Failure::from);
        let has_failed = has_failed || understood.is_err();
        self.report(understood)?;
        let synced = self.run(|session, client| session.sync(has_failed, client));
        self.report(synced)?;
        self.ready();
        Ok(())
    }

    fn ready(&mut self) {
        while let Some((name, value)) = self.changed.pop_first() {
            self.transport.output.parameter_status(&name, &value);
        }
        self.transport.output.ready_for_query(self.session.status());
        self.is_flush_due = true;
    }

    /// Tells the client of a failed statement; returns whether it has failed.
    fn report(&mut self, answered: Result<(), Failure>) -> Result<bool, End> {
        match answered {
            Ok(()) => Ok(false),
            Err(Failure::End(end)) => Err(end),
            Err(Failure::Statement(error)) => {
                self.transport.output.error(Severity::Error, &error);
                Ok(true)
            }
        }
    }

    /// What a message says. One that cannot be understood fails the transaction, as a statement does.
    fn understood<T>(&mut self, message: SqlResult<T>) -> SqlResult<T> {
        if message.is_err() {
            self.session.fail();
        }
        message
    }

    /// A message of the extended protocol.
    fn extended(&mut self, frame: &Frame) -> Result<(), Failure> {
        match frame.kind {
            b'P' => self.parse(&frame.body),
            b'B' => self.bind(&frame.body),
            b'D' => self.describe(&frame.body),
            b'E' => self.execute(&frame.body),
            b'C' => self.close(&frame.body),
            _ => {
                self.is_flush_due = true;
                Ok(self.understood(frontend::empty(&frame.body))?)
            }
        }
    }

    fn parse(&mut self, body: &[u8]) -> Result<(), Failure> {
        let parse = self.understood(frontend::parse(body))?;
        self.run(|session, _| session.parse(parse.name, parse.text, &parse.types))?;
        self.transport.output.parse_complete();
        Ok(())
    }

    fn bind(&mut self, body: &[u8]) -> Result<(), Failure> {
        let bind = self.understood(frontend::bind(body))?;
        self.run(|session, _| {
            session.bind(bind.portal, bind.statement, &bind.formats, &bind.values, &bind.result_formats)
        })?;
        self.transport.output.bind_complete();
        Ok(())
    }

    fn describe(&mut self, body: &[u8]) -> Result<(), Failure> {
        let fields = match self.understood(frontend::target(body, "DESCRIBE"))? {
            Target::Statement(name) => {
                let description = self.run(|session, _| session.describe_statement(name))?;
                self.transport.output.parameter_description(&description.parameters);
                description.fields
            }
            Target::Portal(name) => self.run(|session, _| session.describe_portal(name))?,
        };
        match fields {
            Some(fields) => self.transport.output.row_description(&fields),
            None => self.transport.output.no_data(),
        }
        Ok(())
    }

    fn execute(&mut self, body: &[u8]) -> Result<(), Failure> {
        let execute = self.understood(frontend::execute(body))?;
        let executed = self.run(|session, client| {
            let executed = session.execute(execute.portal, execute.rows, client)?;
            client.finish_copy_out();
            Ok(executed)
        })?;
        match executed {
            Executed::Complete(tag) => self.transport.output.command_complete(tag.as_deref()),
            Executed::Suspended => self.transport.output.portal_suspended(),
        }
        Ok(())
    }

    fn close(&mut self, body: &[u8]) -> Result<(), Failure> {
        match self.understood(frontend::target(body, "CLOSE"))? {
            Target::Statement(name) => self.session.close_statement(name),
            Target::Portal(name) => self.session.close_portal(name),
        }
        self.transport.output.close_complete();
        Ok(())
    }

    /// Runs a part of a statement, which may be ended meanwhile: by the client, by a limit, by the end of the server.
    fn run<T>(
        &mut self,
        statement: impl FnOnce(&mut dyn StatementSession, &mut Client<'_>) -> SqlResult<T>,
    ) -> Result<T, Failure> {
        let Connection { context, transport, registered, session, reloaded, changed, last_ended, .. } = self;
        let entry = &registered.entry;
        let begun = last_ended.unwrap_or_else(|| context.now());
        entry.begin();
        let mut alarm = Alarm::new(&context.runtime, entry);
        alarm.set(session.timeouts().statement);
        let (write_timeout, bytes_max) = (reloaded.write_timeout, reloaded.message_bytes_max);
        let mut client = Client::new(transport, entry, alarm, write_timeout, bytes_max, changed);
        let result = catch_unwind(AssertUnwindSafe(|| statement(&mut **session, &mut client)));
        let ending = entry.finish();
        let (lost, is_out_of_step) = (client.lost.take(), client.is_out_of_step);
        drop(client);
        let ended = context.now();
        *last_ended = Some(ended);
        context.metrics.statements.note(ended.saturating_sub(begun));
        if let Some(error) = lost {
            tracing::info!(process_id = entry.process_id, %error, "the client of a statement is lost");
            return Err(Failure::End(End::Quiet));
        }
        let Ok(result) = result else {
            tracing::error!(process_id = entry.process_id, "a statement has panicked; its connection ends");
            let error = SqlError::internal("a statement has failed in an unforeseen way");
            return Err(Failure::End(End::With(error)));
        };
        if let (true, Err(error)) = (is_out_of_step, &result) {
            transport.output.error(Severity::Error, error);
            let error = violation("terminating connection because protocol synchronization was lost");
            return Err(Failure::End(End::With(error)));
        }
        result.map_err(|error| {
            Metrics::add(&context.metrics.failed_statements);
            if session.is_to_end() {
                return Failure::End(End::With(Ending::Shutdown.error()));
            }
            match ending.filter(|_| error.code == SqlState::QUERY_CANCELED) {
                Some(ending) if ending.is_of_connection() => Failure::End(End::With(ending.error())),
                Some(ending) => Failure::Statement(ending.error()),
                None => Failure::Statement(error),
            }
        })
    }
}
