//! A database that knows a few statements, answers them as PostgreSQL does, and can be made to hang.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_server::{Canceller, Role, StatementSession, Statements};
use seawall_sql::password::Verifier;
use seawall_sql::session::{
    EncodedRow, Executed, Field, Login, Notice, Sink, StatementDescription, Timeouts, TransactionStatus,
    Waker,
};
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference, oid};

/// Roles: `alice` has a password, `admin` is a superuser, `nobody` may not log in, others have no password.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    pub(crate) sessions: Arc<Mutex<usize>>,
    pub(crate) is_stopped: AtomicBool,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
}

/// What other sessions want of one.
#[derive(Default)]
struct Mailbox {
    waker: OnceLock<Waker>,
    messages: Mutex<Vec<String>>,
    is_to_end: AtomicBool,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Mailbox")
    }
}

impl Fake {
    /// Every session has a message for its client.
    pub(crate) fn notify(&self, payload: &str) {
        self.each_mailbox(|mailbox| mailbox.messages.lock().push(payload.to_owned()));
    }

    /// Every session ends.
    pub(crate) fn terminate(&self) {
        self.each_mailbox(|mailbox| mailbox.is_to_end.store(true, Ordering::SeqCst));
    }

    fn each_mailbox(&self, put: impl Fn(&Mailbox)) {
        for mailbox in self.mailboxes.lock().iter() {
            put(mailbox);
            mailbox.waker.get().unwrap()();
        }
    }
}

pub(crate) const PASSWORD: &str = "correct horse";

impl Statements for Fake {
    fn role(&self, name: &str) -> SqlResult<Role> {
        let verifier = Verifier::of_password(PASSWORD, &[3; 16]).to_string();
        Ok(Role {
            verifier: (name == "alice").then_some(verifier),
            is_superuser: name == "admin",
            may_replicate: false,
        })
    }

    fn connect(&self, login: Login) -> SqlResult<Box<dyn StatementSession>> {
        if login.user == "nobody" {
            let code = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
            return Err(SqlError::new(code, "role \"nobody\" does not exist"));
        }
        *self.sessions.lock() += 1;
        let mut timeouts = Timeouts::default();
        for (name, value) in &login.settings {
            let limit = Some(Duration::from_millis(value.parse().unwrap_or(0)));
            match name.as_str() {
                "statement_timeout" => timeouts.statement = limit,
                "idle_in_transaction_session_timeout" => timeouts.idle_in_transaction = limit,
                "idle_session_timeout" => timeouts.idle = limit,
                _ => {}
            }
        }
        let mailbox = Arc::<Mailbox>::default();
        self.mailboxes.lock().push(Arc::clone(&mailbox));
        Ok(Box::new(FakeSession {
            mailbox,
            sessions: Arc::clone(&self.sessions),
            status: TransactionStatus::Idle,
            cancelled: Arc::default(),
            timeouts,
            statements: HashMap::new(),
            portals: HashMap::new(),
        }))
    }

    fn open_metrics(&self) -> String {
        "# TYPE seawall_stopped gauge\nseawall_stopped 0\n# EOF\n".to_owned()
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}

struct FakeSession {
    mailbox: Arc<Mailbox>,
    sessions: Arc<Mutex<usize>>,
    status: TransactionStatus,
    cancelled: Arc<(Mutex<bool>, Condvar)>,
    timeouts: Timeouts,
    statements: HashMap<String, String>,
    /// Text, and how many rows were returned.
    portals: HashMap<String, (String, u32)>,
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        *self.sessions.lock() -= 1;
    }
}

/// What a statement is.
enum Known {
    Empty,
    Rows(u32),
    Wide(u32),
    Fails(Box<SqlError>),
    Sleep,
    /// Does not notice that it is cancelled, the first time.
    SleepDeeply,
    Begin,
    End(&'static str),
    CopyOut(u32),
    CopyIn,
    Notice,
    Set(String),
    Panic,
}

fn known(sql: &str) -> Known {
    let sql = sql.trim();
    let argument = |start: &str, end: &str| {
        sql.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).and_then(|number| number.parse().ok())
    };
    let of_rows = argument("SELECT generate_series(1, ", ")").map(Known::Rows);
    let of_wide = argument("SELECT repeat('x', 1000) FROM generate_series(1, ", ")").map(Known::Wide);
    let of_copy = argument("COPY (SELECT generate_series(1, ", ")) TO STDOUT").map(Known::CopyOut);
    if let Some(known) = of_rows.or(of_wide).or(of_copy) {
        return known;
    }
    match sql {
        "" => Known::Empty,
        "SELECT 1/0" | "SELECT 1/generate_series(0, 0)" => {
            Known::Fails(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"))
        }
        "SELECT pg_sleep(3600)" => Known::Sleep,
        "SLEEP DEEPLY" => Known::SleepDeeply,
        "BEGIN" => Known::Begin,
        "COMMIT" => Known::End("COMMIT"),
        "ROLLBACK" => Known::End("ROLLBACK"),
        "COPY t FROM STDIN" => Known::CopyIn,
        "DO $$BEGIN RAISE NOTICE 'hello'; END$$" => Known::Notice,
        "PANIC" => Known::Panic,
        sql => match sql.strip_prefix("SET application_name = ") {
            Some(value) => Known::Set(value.trim_matches('\'').to_owned()),
            None => {
                let word = sql.split_whitespace().next().unwrap_or_default();
                let message = format!("syntax error at or near \"{word}\"");
                Known::Fails(SqlError::new(SqlState::SYNTAX_ERROR, message).at(Some(1)))
            }
        },
    }
}

fn field(name: &str, of: Oid, length: i16) -> Vec<Field> {
    let of = TypeReference::of(of);
    vec![Field { name: name.to_owned(), table: 0, column: 0, of, type_length: length, format: 0 }]
}

fn fields_of(known: &Known) -> Option<Vec<Field>> {
    match known {
        Known::Rows(_) => Some(field("generate_series", oid::INT4, 4)),
        Known::Wide(_) => Some(field("repeat", oid::TEXT, -1)),
        Known::Fails(error) if error.code == SqlState::DIVISION_BY_ZERO => {
            Some(field("?column?", oid::INT4, 4))
        }
        Known::Sleep => Some(field("pg_sleep", oid::VOID, 4)),
        _ => None,
    }
}

fn row(value: &str) -> EncodedRow {
    let length = i32::try_from(value.len()).unwrap();
    EncodedRow { columns: 1, bytes: [&length.to_be_bytes(), value.as_bytes()].concat() }
}

impl FakeSession {
    /// Runs a statement from the row `from` on, for at most `limit` rows.
    fn run(&mut self, sql: &str, from: u32, limit: u32, sink: &mut dyn Sink) -> SqlResult<Executed> {
        let known = known(sql);
        if self.status == TransactionStatus::Failed && !matches!(known, Known::End(_)) {
            return Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        let tag = match known {
            Known::Empty => return Ok(Executed::Complete(None)),
            Known::Rows(count) | Known::Wide(count) => {
                let wide = matches!(known, Known::Wide(_)).then(|| "x".repeat(1000));
                let end = if limit == 0 { count } else { count.min(from + limit) };
                for number in from + 1..=end {
                    sink.row(&row(wide.as_deref().unwrap_or(&number.to_string())))?;
                }
                if limit != 0 && end - from == limit {
                    return Ok(Executed::Suspended);
                }
                format!("SELECT {}", end - from)
            }
            Known::Fails(error) => return Err(error),
            Known::Sleep => return Err(self.sleep()),
            Known::SleepDeeply => {
                drop(self.sleep());
                return Err(self.sleep());
            }
            Known::Begin => {
                self.status = TransactionStatus::InTransaction;
                "BEGIN".to_owned()
            }
            Known::End(tag) => {
                let failed = self.status == TransactionStatus::Failed;
                self.status = TransactionStatus::Idle;
                self.portals.clear();
                if failed { "ROLLBACK".to_owned() } else { tag.to_owned() }
            }
            Known::CopyOut(count) => {
                sink.copy_out(0, 1)?;
                (1..=count).try_for_each(|number| sink.copy_data(format!("{number}\n").as_bytes()))?;
                format!("COPY {count}")
            }
            Known::CopyIn => {
                sink.copy_in(0, 1)?;
                let mut lines = 0;
                while let Some(data) = sink.next_copy_data()? {
                    lines += data.iter().filter(|byte| **byte == b'\n').count();
                }
                format!("COPY {lines}")
            }
            Known::Notice => {
                let content = *SqlError::new(SqlState::new(b"00000"), "hello");
                sink.notice(&Notice { severity: "NOTICE", content })?;
                "DO".to_owned()
            }
            Known::Set(value) => {
                sink.setting("application_name", &value)?;
                "SET".to_owned()
            }
            Known::Panic => panic!("of a test"),
        };
        Ok(Executed::Complete(Some(tag)))
    }

    fn sleep(&self) -> Box<SqlError> {
        let (cancelled, woken) = &*self.cancelled;
        let mut cancelled = cancelled.lock();
        while !*cancelled {
            woken.wait(&mut cancelled);
        }
        *cancelled = false;
        SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
    }

    fn noted<T>(&mut self, result: SqlResult<T>) -> SqlResult<T> {
        if result.is_err() {
            self.fail();
        }
        result
    }
}

impl StatementSession for FakeSession {
    fn reported_settings(&self) -> Vec<(String, String)> {
        vec![
            ("server_version".to_owned(), "15.0".to_owned()),
            ("client_encoding".to_owned(), "UTF8".to_owned()),
        ]
    }

    fn status(&self) -> TransactionStatus {
        self.status
    }

    fn canceller(&self) -> Canceller {
        let cancelled = Arc::clone(&self.cancelled);
        Arc::new(move || {
            *cancelled.0.lock() = true;
            cancelled.1.notify_all();
        })
    }

    fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    fn set_waker(&mut self, waker: Waker) {
        self.mailbox.waker.get_or_init(|| waker);
    }

    fn attend(&mut self, sink: &mut dyn Sink) -> SqlResult<()> {
        let messages = std::mem::take(&mut *self.mailbox.messages.lock());
        messages.iter().try_for_each(|payload| sink.notification(1, "channel", payload))
    }

    fn is_to_end(&self) -> bool {
        self.mailbox.is_to_end.load(Ordering::SeqCst)
    }

    fn simple_query(&mut self, text: &str, sink: &mut dyn Sink) -> SqlResult<()> {
        let parts: Vec<&str> = match text.contains("$$") {
            true => vec![text],
            false => text.split(';').filter(|part| !part.trim().is_empty()).collect(),
        };
        if parts.is_empty() {
            return sink.complete(None);
        }
        for part in parts {
            if let Some(fields) = fields_of(&known(part)).filter(|_| self.status != TransactionStatus::Failed)
            {
                sink.fields(&fields)?;
            }
            let result = self.run(part, 0, 0, sink);
            if let Executed::Complete(tag) = self.noted(result)? {
                sink.complete(tag.as_deref())?;
            }
        }
        Ok(())
    }

    fn parse(&mut self, name: &str, text: &str, _: &[Oid]) -> SqlResult<()> {
        if let Known::Fails(error) = known(text)
            && error.code == SqlState::SYNTAX_ERROR
        {
            return self.noted(Err(error));
        }
        self.statements.insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        _: &[i16],
        _: &[Option<&[u8]>],
        _: &[i16],
    ) -> SqlResult<()> {
        let text = self.statements.get(statement).cloned().ok_or_else(|| {
            let shown = if statement.is_empty() { "unnamed".to_owned() } else { format!("\"{statement}\"") };
            let message = match statement {
                "" => "unnamed prepared statement does not exist".to_owned(),
                _ => format!("prepared statement {shown} does not exist"),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        });
        let text = self.noted(text)?;
        self.portals.insert(portal.to_owned(), (text, 0));
        Ok(())
    }

    fn describe_statement(&mut self, name: &str) -> SqlResult<StatementDescription> {
        let text = self.statements.get(name).ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })?;
        Ok(StatementDescription { parameters: Vec::new(), fields: fields_of(&known(text)) })
    }

    fn describe_portal(&mut self, name: &str) -> SqlResult<Option<Vec<Field>>> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        Ok(fields_of(&known(&portal.0)))
    }

    fn execute(&mut self, portal: &str, rows: u32, sink: &mut dyn Sink) -> SqlResult<Executed> {
        let found = self.portals.get(portal).cloned().ok_or_else(|| no_portal(portal));
        let (text, from) = self.noted(found)?;
        let result = self.run(&text, from, rows, sink);
        let executed = self.noted(result)?;
        // It went with its transaction, if that was its end.
        if let Some((_, from)) = self.portals.get_mut(portal) {
            *from += rows;
        }
        Ok(executed)
    }

    fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    fn sync(&mut self, _: bool, _: &mut dyn Sink) -> SqlResult<()> {
        if self.status == TransactionStatus::Idle {
            self.portals.clear();
        }
        Ok(())
    }

    fn fail(&mut self) {
        if self.status == TransactionStatus::InTransaction {
            self.status = TransactionStatus::Failed;
        }
    }
}

fn no_portal(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
