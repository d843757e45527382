//! What the server counts, as OpenMetrics text after the engine's.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::context::Context;

/// Upper ends of the classes of durations, in microseconds.
const CLASSES: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    5_000_000, 30_000_000,
];

/// The end of the text.
const END: &str = "# EOF\n";

/// Durations, in classes.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The last one is of what is longer than all classes.
    counts: [AtomicU64; CLASSES.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn note(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let class = CLASSES.partition_point(|end| *end < micros);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, text: &mut String, name: &str) -> std::fmt::Result {
        let mut sum = 0;
        let ends = CLASSES.iter().map(|end| seconds(*end)).chain(["+Inf".to_owned()]);
        for (count, end) in self.counts.iter().zip(ends) {
            sum += count.load(Ordering::Relaxed);
            writeln!(text, "{name}_bucket{{le=\"{end}\"}} {sum}")?;
        }
        writeln!(text, "{name}_count {sum}")?;
        writeln!(text, "{name}_sum {}", seconds(self.micros.load(Ordering::Relaxed)))
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: AtomicU64,
    pub(crate) failed_logins: AtomicU64,
    pub(crate) failed_statements: AtomicU64,
    pub(crate) statements: Histogram,
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
    for (name, help, value) in [
        ("logins", "Logins that succeeded.", read(&metrics.connections)),
        ("failed_logins", "Logins that were refused.", read(&metrics.failed_logins)),
        ("refused_connections", "Connections for which there was no room.", read(&connections.refused)),
        ("failed_statements", "Statements that ended with an error.", read(&metrics.failed_statements)),
        ("received_bytes", "Bytes from clients.", read(&traffic.received)),
        ("sent_bytes", "Bytes to clients.", read(&traffic.sent)),
    ] {
        writeln!(text, "# HELP seawall_server_{name} {help}\n# TYPE seawall_server_{name} counter")?;
        writeln!(text, "seawall_server_{name}_total {value}")?;
    }
    let name = "seawall_server_statement_duration_seconds";
    let help = "Messages that run statements, from their arrival to the end of their answer.";
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram\n# UNIT {name} seconds")?;
    metrics.statements.write(text, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_what_is_not_longer() {
        let histogram = Histogram::default();
        [50, 51, 40_000_000].into_iter().for_each(|micros| histogram.note(Duration::from_micros(micros)));
        let mut text = String::new();
        histogram.write(&mut text, "d").unwrap();
        assert!(text.starts_with("d_bucket{le=\"0.000050\"} 1\nd_bucket{le=\"0.000100\"} 2\n"), "{text}");
        assert!(text.ends_with(
            "d_bucket{le=\"30.000000\"} 2\nd_bucket{le=\"+Inf\"} 3\nd_count 3\nd_sum 40.000101\n"
        ));
    }
}
