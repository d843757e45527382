//! How far standbys are behind, in bytes and seconds, and where the log waits.
//!
//! | cause     | from                   | to                            |
//! |-----------|------------------------|-------------------------------|
//! | `waiting` | durable here           | given to the connection       |
//! | `network` | given to the connection | handed to the standby's system |
//! | `sync`    | handed to its system   | durable there                 |
//! | `apply`   | durable there          | seen by its readers           |
//!
//! On a standby itself: `receive`, what its upstream has and it does not, and `apply`.

use std::fmt::Write;

use seawall_io::Clock;
use seawall_replication::{Replication, SenderStatus};

use crate::context::Context;

const MICROS: i64 = 1_000_000;

/// A family without samples is none, so nothing is written where nobody follows and nobody is followed.
pub(super) fn write_replication(text: &mut String, context: &Context) -> std::fmt::Result {
    let Some(replication) = context.replication() else { return Ok(()) };
    let now = context.clock.wall_micros();
    write_senders(text, &replication, now)?;
    write_quorum(text, &replication)?;
    write_standby(text, &replication, now)
}

fn write_senders(text: &mut String, replication: &Replication, now: i64) -> std::fmt::Result {
    let senders = replication.senders();
    if senders.is_empty() {
        return Ok(());
    }
    let end = replication.database().log().flushed();
    let name = "seawall_replication_lag_bytes";
    let help = "Log that a standby does not have, by where it waits.";
    writeln!(text, "# TYPE {name} gauge\n# UNIT {name} bytes\n# HELP {name} {help}")?;
    for sender in &senders {
        let labels = labels_of(sender);
        let SenderStatus { sent, progress, .. } = sender;
        for (cause, ahead, behind) in [
            ("waiting", end, *sent),
            ("network", *sent, progress.written),
            ("sync", progress.written, progress.flushed),
            ("apply", progress.flushed, progress.applied),
        ] {
            writeln!(
                text,
                "{name}{{{labels},cause=\"{cause}\"}} {}",
                ahead.get().saturating_sub(behind.get())
            )?;
        }
    }
    let name = "seawall_replication_lag_seconds";
    let help = "Age of the oldest log that a standby's readers do not see; 0 if they see all.";
    writeln!(text, "# TYPE {name} gauge\n# UNIT {name} seconds\n# HELP {name} {help}")?;
    for sender in &senders {
        let age = sender.behind_since_micros.map_or(0, |since| now.saturating_sub(since));
        writeln!(text, "{name}{{{}}} {}", labels_of(sender), seconds(age))?;
    }
    Ok(())
}

/// How many commits wait for it, the engine's families say (`seawall_commits_in_flight`).
fn write_quorum(text: &mut String, replication: &Replication) -> std::fmt::Result {
    let status = replication.database().quorum().status();
    if !status.is_required || replication.database().standby().is_some() {
        return Ok(());
    }
    let name = "seawall_quorum_lost_seconds";
    let help = "How long too few of the standbys that commits wait for have been connected; 0 if enough are.";
    writeln!(text, "# TYPE {name} gauge\n# UNIT {name} seconds\n# HELP {name} {help}")?;
    writeln!(text, "{name} {:.6}", status.lost_for.unwrap_or_default().as_secs_f64())?;
    let name = "seawall_quorum_alone";
    let help = "1 if this server acknowledges commits without standbys, because too few have been connected for too long.";
    writeln!(text, "# TYPE {name} gauge\n# HELP {name} {help}")?;
    writeln!(text, "{name} {}", u8::from(status.alone.is_some()))
}

fn write_standby(text: &mut String, replication: &Replication, now: i64) -> std::fmt::Result {
    let Some(standby) = replication.database().standby() else { return Ok(()) };
    let (flushed, applied) = (replication.database().log().flushed(), standby.applied());
    let receiver = replication.receiver().filter(|receiver| receiver.state == "streaming");
    let name = "seawall_standby_lag_bytes";
    let help = "Log of the upstream that this standby does not have, and log that it has and its readers do not see.";
    writeln!(text, "# TYPE {name} gauge\n# UNIT {name} bytes\n# HELP {name} {help}")?;
    if let Some(receiver) = &receiver {
        let bytes = receiver.upstream_end.get().saturating_sub(flushed.get());
        writeln!(text, "{name}{{cause=\"receive\"}} {bytes}")?;
    }
    let bytes = flushed.get().saturating_sub(applied.get());
    writeln!(text, "{name}{{cause=\"apply\"}} {bytes}")?;
    let name = "seawall_standby_silence_seconds";
    let help = "Time since the last message of the upstream.";
    if let Some((_, heard)) = receiver.and_then(|receiver| receiver.message_micros) {
        writeln!(text, "# TYPE {name} gauge\n# UNIT {name} seconds\n# HELP {name} {help}")?;
        writeln!(text, "{name} {}", seconds(now.saturating_sub(heard)))?;
    }
    Ok(())
}

fn labels_of(sender: &SenderStatus) -> String {
    let escaped = sender.application_name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("standby=\"{escaped}\",process=\"{}\"", sender.process_id)
}

fn seconds(micros: i64) -> String {
    let micros = micros.max(0);
    format!("{}.{:06}", micros / MICROS, micros % MICROS)
}
