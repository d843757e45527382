//! Events of the engine, of archives and of backups, on standard error: warnings and errors; with `-v` or `RUST_LOG` more. One line each,
//! or one JSON value; of a server with the time.

use std::fmt;

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::files::now;
use crate::standard_error::tell;

/// Which events are shown: `warn`, or `seawall_wal=debug,seawall_backup=info`. It comes before `-v`.
const VARIABLE: &str = "RUST_LOG";
/// Targets of the engine, of archives and of backups begin so.
const OWN: &str = "seawall";

/// Shows events from here on, `verbosity` steps more than warnings. The first call counts.
pub(crate) fn show(verbosity: u8, json: bool) {
    let form = ToStandardError { json, has_time: false };
    show_filtered(asked_for(form).unwrap_or_else(|| by_default(verbosity)), form);
}

/// As `show`, for a server, which runs for long and is looked at later.
pub(crate) fn show_of_server(verbosity: u8, json: bool) {
    let form = ToStandardError { json, has_time: true };
    // Whoever runs a server wants to know that it starts, and how it ends.
    show_filtered(asked_for(form).unwrap_or_else(|| by_default(verbosity.saturating_add(1))), form);
}

fn show_filtered(filter: Targets, form: ToStandardError) {
    let lines = form.with_filter(filter);
    if tracing_subscriber::registry().with(lines).try_init().is_err() {
        tracing::debug!("events are shown already");
    }
}

/// As `show`, for an agent, which outlives the command that starts it: the variable, in the environment of a server, counts for this
/// project's own parts alone. Those of others say thousands of lines for each request.
pub(crate) fn show_in_agent(json: bool) {
    let form = ToStandardError { json, has_time: false };
    let filter = asked_for(form).map_or_else(|| by_default(0), |asked| own_part_of(&asked));
    show_filtered(filter, form);
}

fn own_part_of(asked: &Targets) -> Targets {
    let own = asked.iter().filter(|(target, _)| target.starts_with(OWN));
    Targets::new().with_target(OWN, asked.default_level().unwrap_or(LevelFilter::OFF)).with_targets(own)
}

fn asked_for(form: ToStandardError) -> Option<Targets> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
    let refuse = |error| {
        let problem = format!("{VARIABLE} says {text:?}, which does not say what to show: {error}");
        form.tell(&Level::WARN, &problem);
    };
    text.parse().map_err(refuse).ok()
}

fn by_default(verbosity: u8) -> Targets {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Of a key file that others may read the command itself warns, once, however often the key is read.
    Targets::new().with_target(OWN, level).with_target("seawall_keys::master_key", LevelFilter::ERROR)
}

/// How events are shown.
#[derive(Clone, Copy)]
struct ToStandardError {
    json: bool,
    has_time: bool,
}

impl<S: Subscriber> Layer<S> for ToStandardError {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        self.tell(event.metadata().level(), &words.to_string());
    }
}

impl ToStandardError {
    fn tell(self, level: &Level, text: &str) {
        let name = match *level {
            Level::ERROR | Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        };
        let time = self.has_time.then(now);
        match (self.json, time) {
            (true, Some(time)) => tell(json!({ name: text, "time": time })),
            (true, None) => tell(json!({ name: text })),
            (false, Some(time)) => tell(format_args!("{time} seawall: {name}: {text}")),
            (false, None) => tell(format_args!("seawall: {name}: {text}")),
        }
    }
}

/// The message of an event, and its fields after that.
#[derive(Default)]
struct Words {
    message: String,
    fields: Vec<String>,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push(format!("{name}: {value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl fmt::Display for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whatever a field holds, an event is one line.
        let line = match self.fields.is_empty() {
            true => self.message.clone(),
            false => format!("{} ({})", self.message, self.fields.join(", ")),
        };
        formatter.write_str(&line.replace(['\n', '\r'], " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_shows_nothing_of_other_projects() {
        for text in ["trace", "hyper=trace,seawall_archive=debug", "hyper=trace"] {
            let own = own_part_of(&text.parse().unwrap());
            assert!(!own.would_enable("hyper::client", &Level::ERROR), "{text}");
            let expected = !text.ends_with("hyper=trace");
            assert_eq!(own.would_enable("seawall_archive::repository", &Level::DEBUG), expected, "{text}");
        }
    }
}
