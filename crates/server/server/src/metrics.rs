//! What the server counts, as OpenMetrics text after the engine's.

mod replication;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_engine::DurationCounter;

use crate::context::Context;

/// The end of the text.
const END: &str = "# EOF\n";

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: AtomicU64,
    pub(crate) failed_logins: AtomicU64,
    pub(crate) failed_statements: AtomicU64,
    /// Connections of HTTP that had to make room for newer ones.
    pub(crate) displaced_http_connections: AtomicU64,
    /// Attempts to come to a database, of a server that starts.
    pub(crate) start_failures: AtomicU64,
    pub(crate) statements: DurationCounter,
}

impl Metrics {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// All metrics: the engine's if the database is open, then the server's.
pub(crate) fn open_metrics(context: &Context) -> String {
    let mut text = context.engine_metrics().unwrap_or_default();
    if text.ends_with(END) {
        text.truncate(text.len() - END.len());
    }
    // Writing to a text does not fail.
    write_families(&mut text, context).unwrap_or_default();
    replication::write_replication(&mut text, context).unwrap_or_default();
    text.push_str(END);
    text
}

fn write_families(text: &mut String, context: &Context) -> std::fmt::Result {
    let Context { connections, metrics, traffic, pool, .. } = context;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (name, help, value) in [
        ("connections", "Clients that are logged in, or are about to be.", connections.count()),
        ("connections_max", "Clients that there may be.", connections.limits.connections_max),
        ("running_statements", "Statements under way.", connections.running()),
        (
            "sockets",
            "Connections of TCP and of the Unix socket.",
            connections.sockets.load(Ordering::Relaxed),
        ),
        ("threads", "Threads for statements.", pool.threads()),
    ] {
        writeln!(text, "# HELP seawall_server_{name} {help}\n# TYPE seawall_server_{name} gauge")?;
        writeln!(text, "seawall_server_{name} {value}")?;
    }
    let name = "seawall_server_start_held_up_seconds";
    let help = "How long such attempts have failed; 0 as soon as one succeeds.";
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n# UNIT {name} seconds")?;
    writeln!(text, "{name} {}", context.held_up_for().as_secs_f64())?;
    for (name, help, value) in [
        ("logins", "Logins that succeeded.", read(&metrics.connections)),
        ("failed_logins", "Logins that were refused.", read(&metrics.failed_logins)),
        ("refused_connections", "Connections for which there was no room.", read(&connections.refused)),
        ("failed_statements", "Statements that ended with an error.", read(&metrics.failed_statements)),
        (
            "displaced_http_connections",
            "Connections of HTTP that made room for newer ones.",
            read(&metrics.displaced_http_connections),
        ),
        (
            "start_failures",
            "Failed attempts to become able to open the database, as of a server that comes back and is refused by the one to follow.",
            read(&metrics.start_failures),
        ),
        ("received_bytes", "Bytes from clients.", read(&traffic.received)),
        ("sent_bytes", "Bytes to clients.", read(&traffic.sent)),
    ] {
        writeln!(text, "# HELP seawall_server_{name} {help}\n# TYPE seawall_server_{name} counter")?;
        writeln!(text, "seawall_server_{name}_total {value}")?;
    }
    let name = "seawall_server_statement_duration_seconds";
    let help = "Messages that run statements, from their arrival to the end of their answer.";
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram\n# UNIT {name} seconds")?;
    metrics.statements.read().write(text, name, "")
}
