//! PostgreSQL's protocol over `seawall-sql`: connections, authentication, limits, configuration.
//!
//! ```text
//!   listeners --> startup: TLS, start-up packet, rule, SCRAM --> connection <--> session
//!                                                                 |      |
//!                               task while it is idle  <----------+      +---> thread of the pool inside a statement
//! ```
//! Invariants:
//! * A client's bytes are malformed until shown otherwise, and nothing is allocated for bytes that have not arrived.
//! * A statement never waits for a thread: the pool has as many as there may be connections.
//! * No client of another machine is let in without a password: such a configuration is refused.
//! * What is ended is ended by its number: a late cancel never meets the next statement.
//!
//! Start at [`Server::start`]; the life of a connection is in `connection`.

mod access;
mod alarm;
mod client;
mod configuration;
mod connection;
mod connections;
mod context;
mod failures;
mod http;
mod listeners;
mod metrics;
mod pool;
mod protocol;
mod replication;
mod scram;
mod server;
mod socket;
mod startup;
mod statements;
mod supervisor;
mod tls;
mod transport;
mod upstream;

pub use access::{AccessRule, AccessRuleError, default_rules};
pub use configuration::{Configuration, ConfigurationError};
pub use listeners::ListenError;
pub use protocol::explain::explain;
pub use server::{Ended, Progress, Server, ServerError, ServerHandle, Shutdown};
pub use statements::{Canceller, Role, StatementSession, Statements};
pub use tls::{TlsError, TlsFiles};
pub use upstream::UpstreamDial;
