//! From the first byte of a connection to its session: encryption, the start-up packet, authentication.
//!
//! ```text
//!   [GSSENCRequest -> N] [SSLRequest -> S, handshake | N]   or a handshake at once
//!        |
//!   start-up packet --> a place --> the rule that fits --> [SCRAM] --> session --> ReadyForQuery
//! ```
//! All of it is a task: a client that says nothing costs no thread.

pub(crate) mod options;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::Random;
use seawall_replication::Replication;
use seawall_sql::password::{Verifier, hashed};
use seawall_sql::session::Login;
use seawall_values::{SqlError, SqlResult, SqlState};

use crate::access::{Asked, Method, method_of};
use crate::connections::{Ending, Registered};
use crate::context::Context;
use crate::metrics::Metrics;
use crate::protocol::ProtocolVersion;
use crate::protocol::backend::Severity;
use crate::protocol::frontend::{self, Frame, FrameError, violation};
use crate::protocol::startup_packet::{Parameters, StartupPacket, TLS_HANDSHAKE, next_packet};
use crate::scram;
use crate::socket::Peer;
use crate::statements::{Role, StatementSession, Statements};
use crate::tls::APPLICATION_PROTOCOL;
use crate::transport::{Filled, Transport};

/// A client of version 3.0 stores four bytes.
const SHORT_KEY_BYTES: usize = 4;
const LONG_KEY_BYTES: usize = 32;
/// Names that are longer are cut, as PostgreSQL cuts them.
const NAME_BYTES_MAX: usize = 63;
/// The database that a connection for replication is to, in the words of access rules.
const REPLICATION_DATABASE: &str = "replication";
/// A client that does not take the reason why it is refused goes without.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);

/// A client that is logged in.
pub(crate) struct LoggedIn {
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) registered: Registered,
    pub(crate) session: Box<dyn StatementSession>,
    /// Of a connection for replication: what it calls itself, and what it replicates.
    pub(crate) replicates: Option<(String, Arc<Replication>)>,
}

/// Why there is no session.
enum Refused {
    /// The client is told.
    With(Box<SqlError>),
    /// There is nobody to tell, or nothing to say.
    Silently,
}

impl From<Box<SqlError>> for Refused {
    fn from(error: Box<SqlError>) -> Refused {
        Refused::With(error)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        tracing::debug!(%error, "a connection broke before its session began");
        Refused::Silently
    }
}

/// Makes a session of a connection; `None`: it is to be closed.
pub(crate) async fn log_in(context: &Context, transport: &mut Transport) -> Option<LoggedIn> {
    match logged_in(context, transport).await {
        Ok(logged_in) => Some(logged_in),
        Err(Refused::Silently) => None,
        Err(Refused::With(error)) => {
            tracing::info!(peer = %transport.socket.peer, %error, "a login is refused");
            transport.output.error(Severity::Fatal, &error);
            // Whether it gets there is the client's business.
            tokio::time::timeout(REFUSAL_LIMIT, transport.flush()).await.map_or(None, |_| None)
        }
    }
}

async fn logged_in(context: &Context, transport: &mut Transport) -> Result<LoggedIn, Refused> {
    let (version, parameters) = match first_packet(context, transport).await? {
        StartupPacket::Startup { version, parameters } => (version, parameters),
        StartupPacket::Cancel { process_id, key } => {
            if let Some(entry) = context.connections.with_key(process_id, &key) {
                context.runtime.spawn(async move { entry.insist(None, Ending::Requested).await });
            }
            return Err(Refused::Silently);
        }
        StartupPacket::TlsRequest | StartupPacket::GssapiRequest => return Err(Refused::Silently),
    };
    negotiate(transport, version, &parameters);
    let replicates = asks_for_replication(&parameters)?;
    let mut login = login_of(&parameters, &transport.socket.peer, replicates)?;
    let database = context.database()?;
    let peer = transport.socket.peer.clone();
    let is_encrypted = transport.is_encrypted();
    let asked = Asked { peer: &peer, is_encrypted, database: &login.database, user: &login.user };
    let method = method_of(&context.reloaded().access, asked);
    if method == Some(Method::Scram) {
        wait_for_turn(context, &peer).await;
    }
    let mut key =
        vec![0; if version < ProtocolVersion::LONG_CANCEL_KEYS { SHORT_KEY_BYTES } else { LONG_KEY_BYTES }];
    context.random.fill(&mut key);
    let registered = context.connections.register(&transport.socket, key.clone())?;

    let role = match method {
        Some(Method::Reject) => Err(no_entry("an access rule rejects", asked).into()),
        None => Err(no_entry("no access rule for", asked).into()),
        Some(method) => authenticate(context, transport, &database, &login, method).await,
    };
    if role.is_err() {
        Metrics::add(&context.metrics.failed_logins);
    }
    let role = role?;
    if !role.is_superuser {
        context.connections.refuse_reserved()?;
    }
    let replicates = match replicates {
        true => {
            registered.entry.set_for_replication();
            Some((application_name(&parameters), replication_of(&*database, &role)?))
        }
        false => None,
    };
    login.process_id = registered.entry.process_id;
    let (user, name) = (login.user.clone(), login.database.clone());
    let mut session = context.ask(move || database.connect(login)).await?;
    registered.entry.set_canceller(session.canceller());
    session.set_waker(registered.entry.waker());

    let output = &mut transport.output;
    output.authentication_ok();
    session.reported_settings().iter().for_each(|(name, value)| output.parameter_status(name, value));
    output.backend_key_data(registered.entry.process_id, &key);
    output.ready_for_query(session.status());
    transport.flush().await?;
    Metrics::add(&context.metrics.connections);
    Ok(LoggedIn { user, database: name, registered, session, replicates })
}

/// Reads up to what is no request for encryption, and encrypts on the way.
async fn first_packet(context: &Context, transport: &mut Transport) -> Result<StartupPacket, Refused> {
    let tls = context.reloaded().tls.clone();
    loop {
        if transport.input.first() == Some(&TLS_HANDSHAKE) && !transport.is_encrypted() {
            let tls = tls.clone().ok_or(Refused::Silently)?;
            transport.begin_tls(tls)?;
            shake_hands(transport).await?;
            if transport.application_protocol() != Some(APPLICATION_PROTOCOL) {
                let message =
                    "received direct SSL connection request without ALPN protocol negotiation extension";
                return Err(violation(message).into());
            }
        }
        let Some(packet) = next_packet(&mut transport.input)? else {
            more_input(transport).await?;
            continue;
        };
        let tls = match (&packet, &transport.socket.peer, transport.is_encrypted()) {
            (StartupPacket::TlsRequest, Peer::Host(..), false) => tls.clone(),
            (StartupPacket::TlsRequest | StartupPacket::GssapiRequest, ..) => None,
            (StartupPacket::Cancel { .. } | StartupPacket::Startup { .. }, ..) => return Ok(packet),
        };
        let name = if packet == StartupPacket::TlsRequest { "SSL" } else { "GSSAPI encryption" };
        // What came before the answer is not encrypted, and could be somebody else's.
        if !transport.input.is_empty() {
            let error = violation(format!("received unencrypted data after {name} request"));
            let detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
            return Err(error.with_detail(detail).into());
        }
        transport.output.bytes.push(if tls.is_some() { b'S' } else { b'N' });
        transport.flush().await?;
        if let Some(tls) = tls {
            transport.begin_tls(tls)?;
            shake_hands(transport).await?;
        }
    }
}

async fn shake_hands(transport: &mut Transport) -> io::Result<()> {
    transport.flush().await?;
    while transport.is_handshaking() {
        if transport.filled().await? == Filled::End {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        transport.flush().await?;
    }
    Ok(())
}

async fn more_input(transport: &mut Transport) -> Result<(), Refused> {
    match transport.filled().await? {
        Filled::End => Err(Refused::Silently),
        Filled::Bytes | Filled::Nothing => Ok(()),
    }
}

/// Tells a client that is newer than the server what it has to do without.
fn negotiate(transport: &mut Transport, version: ProtocolVersion, parameters: &Parameters) {
    let names = parameters.0.iter().map(|(name, _)| name.as_str());
    let unknown: Vec<&str> = names.filter(|name| name.starts_with("_pq_.")).collect();
    if version > ProtocolVersion::NEWEST || !unknown.is_empty() {
        transport.output.negotiate_protocol_version(version.min(ProtocolVersion::NEWEST), &unknown);
    }
}

/// Whether the connection is one for replication of the log.
fn asks_for_replication(parameters: &Parameters) -> SqlResult<bool> {
    match parameters.get("replication").map(str::to_ascii_lowercase).as_deref() {
        None | Some("false" | "off" | "no" | "0") => Ok(false),
        Some("true" | "on" | "yes" | "1") => Ok(true),
        Some("database") => Err(SqlError::unsupported("logical replication")),
        Some(other) => {
            let message = format!("invalid value for parameter \"replication\": \"{other}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn application_name(parameters: &Parameters) -> String {
    parameters.get("application_name").unwrap_or_default().to_owned()
}

fn replication_of(database: &dyn Statements, role: &Role) -> SqlResult<Arc<Replication>> {
    if !role.may_replicate {
        let message = "must be superuser or replication role to start walsender";
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    database.replication().ok_or_else(|| SqlError::unsupported("replication of this database"))
}

fn login_of(parameters: &Parameters, peer: &Peer, replicates: bool) -> SqlResult<Login> {
    let user = parameters.get("user").filter(|user| !user.is_empty()).ok_or_else(|| {
        let message = "no PostgreSQL user name specified in startup packet";
        SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
    })?;
    let database = parameters.get("database").filter(|database| !database.is_empty()).unwrap_or(user);
    // The log is of all databases: access rules may name this one for it.
    let database = if replicates { REPLICATION_DATABASE } else { database };
    let of_options = options::parse(parameters.get("options").unwrap_or_default())?;
    let is_setting = |name: &str| {
        !matches!(name, "user" | "database" | "options" | "replication") && !name.starts_with("_pq_.")
    };
    let own = parameters.0.iter().filter(|(name, _)| is_setting(name)).cloned();
    Ok(Login {
        user: cut(user).to_owned(),
        database: cut(database).to_owned(),
        settings: of_options.into_iter().chain(own).collect(),
        process_id: 0,
        client: match peer {
            Peer::Local => None,
            Peer::Host(address, port) => Some((address.to_string(), *port)),
        },
    })
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// The role, if the client is it, as far as `method` asks for that.
async fn authenticate(
    context: &Context,
    transport: &mut Transport,
    database: &Arc<dyn Statements>,
    login: &Login,
    method: Method,
) -> Result<Role, Refused> {
    let (database, user) = (Arc::clone(database), login.user.clone());
    let role = context.ask(move || database.role(&user)).await?;
    if method == Method::Scram {
        prove_password(context, transport, login, &role).await?;
    }
    Ok(role)
}

fn no_entry(what: &str, asked: Asked<'_>) -> Box<SqlError> {
    let (from, encryption) = match asked.peer {
        Peer::Local => ("[local]".to_owned(), "no encryption"),
        Peer::Host(address, _) if asked.is_encrypted => (address.to_string(), "SSL encryption"),
        Peer::Host(address, _) => (address.to_string(), "no encryption"),
    };
    let (user, database) = (asked.user, asked.database);
    let message = format!("{what} host \"{from}\", user \"{user}\", database \"{database}\", {encryption}");
    SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
}

/// Where logins have failed, the next one waits, and takes no place meanwhile.
async fn wait_for_turn(context: &Context, peer: &Peer) {
    if let Peer::Host(address, _) = peer {
        tokio::time::sleep(context.failures.delay(*address, context.now())).await;
    }
}

async fn prove_password(
    context: &Context,
    transport: &mut Transport,
    login: &Login,
    role: &Role,
) -> Result<(), Refused> {
    let verifier = role.verifier.as_deref().and_then(|text| text.parse::<Verifier>().ok());
    transport.output.authentication_sasl(&[scram::MECHANISM]);
    transport.flush().await?;
    let first = password_message(transport).await?;
    let (mechanism, first) = frontend::sasl_initial(&first.body)?;
    if mechanism != scram::MECHANISM {
        return Err(violation("client selected an invalid SASL authentication mechanism").into());
    }
    let first = first.ok_or_else(|| violation("the client's first SCRAM message is missing"))?;
    let mut nonce = [0; scram::NONCE_BYTES];
    context.random.fill(&mut nonce);
    let mock = || scram::mock_verifier(&hashed(&context.mock_secret), &login.user);
    let (exchange, answer) = scram::begin(first, verifier, mock, &nonce)?;
    transport.output.authentication_sasl_continue(&answer);
    transport.flush().await?;
    let last = password_message(transport).await?;
    let address = match &transport.socket.peer {
        Peer::Local => None,
        Peer::Host(address, _) => Some(*address),
    };
    match exchange.finish(&last.body)? {
        Some(answer) => {
            address.into_iter().for_each(|address| context.failures.forget(address));
            transport.output.authentication_sasl_final(&answer);
            Ok(())
        }
        None => {
            address.into_iter().for_each(|address| context.failures.note(address, context.now()));
            let message = format!("password authentication failed for user \"{}\"", login.user);
            Err(SqlError::new(SqlState::INVALID_PASSWORD, message).into())
        }
    }
}

async fn password_message(transport: &mut Transport) -> Result<Frame, Refused> {
    loop {
        if let Some(kind) = transport.input.first().filter(|kind| **kind != b'p') {
            return Err(violation(format!("expected SASL response, got message type {kind}")).into());
        }
        match frontend::next_frame(&mut transport.input, 0) {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => more_input(transport).await?,
            Err(FrameError::Kind(_) | FrameError::Length(_)) => {
                return Err(violation("invalid message length").into());
            }
        }
    }
}
