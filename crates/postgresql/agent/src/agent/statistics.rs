//! How things are: for people, as JSON, and as a text file that Prometheus reads.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use seawall_archive::RequestStatistics;
use serde_json::{Value, json};

/// How things are with one agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Statistics {
    /// Directory name of the cluster in a repository, if it is known.
    pub(super) system: Option<String>,
    pub(super) now_seconds: i64,
    pub(super) queue: QueueStatistics,
    pub(super) destinations: Vec<DestinationStatistics>,
    pub(super) fetches: FetchStatistics,
}

/// What waits to be archived.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueStatistics {
    /// PostgreSQL has asked for a file to be archived.
    pub(super) follows: bool,
    /// Durable in every required repository, since the agent began.
    pub(super) archived: u64,
    pub(super) last_archived: Option<String>,
    pub(super) last_error: Option<String>,
    /// Files that PostgreSQL waits for.
    pub(super) segments: usize,
    pub(super) bytes: u64,
    /// Since the oldest of them was finished.
    pub(super) oldest_seconds: Option<u64>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) in_flight: usize,
    /// Segments let go as gaps, since the agent began.
    pub(super) left_out: u64,
    /// Those that are not on record yet.
    pub(super) gaps_to_record: usize,
}

/// One repository.
#[derive(Clone, Debug, Default)]
pub(super) struct DestinationStatistics {
    pub(super) url: String,
    pub(super) is_required: bool,
    pub(super) archived: u64,
    pub(super) last_archived: Option<String>,
    /// Files that it lacks.
    pub(super) lag_segments: usize,
    /// Those among them that cannot be put there.
    pub(super) refused: usize,
    pub(super) in_flight: usize,
    pub(super) in_flight_limit: usize,
    /// Why uploads rest, if they do.
    pub(super) resting: Option<String>,
    pub(super) requests: RequestStatistics,
}

/// Downloads.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchStatistics {
    pub(super) asked_for: u64,
    pub(super) ahead: u64,
    pub(super) in_spool: usize,
    pub(super) in_flight: usize,
}

impl Statistics {
    pub(super) fn to_text(&self) -> String {
        let queue = &self.queue;
        let last = queue.last_archived.as_deref().unwrap_or("none");
        let oldest =
            queue.oldest_seconds.map_or(String::new(), |seconds| format!(", the oldest for {seconds} s"));
        let mut text = format!(
            "archived {}, the last {last}; waiting {} files, {} bytes{oldest}; in flight {}",
            queue.archived, queue.segments, queue.bytes, queue.in_flight
        );
        if !queue.follows {
            text.push_str("\nnothing is archived before archive-push is called in this data directory");
        }
        if queue.left_out > 0 || queue.gaps_to_record > 0 {
            text.push_str(&format!(
                "\nGAPS: {} segments were left out, {} of which are not on record yet",
                queue.left_out, queue.gaps_to_record
            ));
        }
        for destination in &self.destinations {
            let kind = if destination.is_required { "repository" } else { "optional repository" };
            let failures: u64 = destination.requests.failures.values().sum();
            text.push_str(&format!(
                "\n{kind} {}: lacks {}, refuses {}; in flight {} of at most {}; {failures} failed requests",
                destination.url,
                destination.lag_segments,
                destination.refused,
                destination.in_flight,
                destination.in_flight_limit
            ));
            let problem = destination.resting.as_ref().or(destination.requests.last_failure.as_ref());
            if let Some(problem) = problem {
                text.push_str(&format!(", the last: {problem}"));
            }
        }
        let fetches = &self.fetches;
        text.push_str(&format!(
            "\nfetched when asked for {}, ahead {}; in the spool {}, in flight {}",
            fetches.asked_for, fetches.ahead, fetches.in_spool, fetches.in_flight
        ));
        if let Some(error) = &queue.last_error {
            text.push_str(&format!("\nlast failure: {error}"));
        }
        text
    }

    pub(super) fn to_json(&self) -> Value {
        let queue = &self.queue;
        let destination = |destination: &DestinationStatistics| {
            let failures: serde_json::Map<String, Value> = destination
                .requests
                .failures
                .iter()
                .map(|(cause, count)| (cause.name().to_owned(), (*count).into()))
                .collect();
            json!({
                "repository": destination.url,
                "required": destination.is_required,
                "archived": destination.archived,
                "last_archived": destination.last_archived,
                "lag_segments": destination.lag_segments,
                "refused": destination.refused,
                "in_flight": destination.in_flight,
                "in_flight_limit": destination.in_flight_limit,
                "resting": destination.resting,
                "retries": destination.requests.retries,
                "failures": failures,
                "last_failure": destination.requests.last_failure,
            })
        };
        json!({
            "system": self.system,
            "follows": queue.follows,
            "archived": queue.archived,
            "last_archived": queue.last_archived,
            "last_error": queue.last_error,
            "lag_segments": queue.segments,
            "lag_bytes": queue.bytes,
            "lag_seconds": queue.oldest_seconds.unwrap_or(0),
            "queue_limit_bytes": queue.limit_bytes,
            "in_flight": queue.in_flight,
            "left_out": queue.left_out,
            "gaps_to_record": queue.gaps_to_record,
            "repositories": self.destinations.iter().map(destination).collect::<Vec<_>>(),
            "fetched_when_asked_for": self.fetches.asked_for,
            "fetched_ahead": self.fetches.ahead,
            "fetched_in_spool": self.fetches.in_spool,
            "fetches_in_flight": self.fetches.in_flight,
        })
    }

    /// In Prometheus' text format.
    pub(super) fn to_prometheus(&self) -> String {
        let mut metrics = Metrics { text: String::new(), system: self.system.clone().unwrap_or_default() };
        let queue = &self.queue;
        metrics.one("archive_updated_seconds", "gauge", "when this was written", self.now_seconds);
        metrics.one("archive_archived_total", "counter", "files archived", queue.archived);
        metrics.one("archive_lag_segments", "gauge", "files that wait", queue.segments);
        metrics.one("archive_lag_bytes", "gauge", "bytes that wait", queue.bytes);
        let oldest = queue.oldest_seconds.unwrap_or(0);
        metrics.one("archive_lag_seconds", "gauge", "age of the oldest file that waits", oldest);
        metrics.one("archive_queue_limit_bytes", "gauge", "0: none", queue.limit_bytes.unwrap_or(0));
        metrics.one("archive_in_flight", "gauge", "uploads under way", queue.in_flight);
        metrics.one("archive_left_out_total", "counter", "segments left out as gaps", queue.left_out);
        metrics.one("archive_gaps_to_record", "gauge", "gaps not on record yet", queue.gaps_to_record);
        metrics.each("archive_repository_archived_total", "counter", &self.destinations, |destination| {
            destination.archived
        });
        metrics.each("archive_repository_lag_segments", "gauge", &self.destinations, |destination| {
            destination.lag_segments as u64
        });
        metrics.each("archive_repository_refused", "gauge", &self.destinations, |destination| {
            destination.refused as u64
        });
        metrics.each("archive_repository_up", "gauge", &self.destinations, |destination| {
            u64::from(destination.resting.is_none())
        });
        metrics.each("archive_repository_in_flight", "gauge", &self.destinations, |destination| {
            destination.in_flight as u64
        });
        metrics.each("archive_repository_retries_total", "counter", &self.destinations, |destination| {
            destination.requests.retries
        });
        metrics.failures(&self.destinations);
        metrics.one(
            "archive_fetched_total",
            "counter",
            "files fetched when asked for",
            self.fetches.asked_for,
        );
        metrics.one("archive_fetched_ahead_total", "counter", "segments fetched ahead", self.fetches.ahead);
        metrics.text
    }

    /// Writes the text file for Prometheus: whoever reads it finds all of it. The directory may be another user's, who must not get
    /// this process to write elsewhere: no link is followed, and what has the name is replaced, and not written to.
    pub(super) fn write_prometheus(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        match rustix::fs::unlink(&new) {
            Err(error) if error != rustix::io::Errno::NOENT => return Err(error.into()),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.write_all(self.to_prometheus().as_bytes())?;
        Ok(rustix::fs::rename(&new, path)?)
    }
}

struct Metrics {
    text: String,
    system: String,
}

impl Metrics {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let written = writeln!(self.text, "# HELP seawall_{name} {help}\n# TYPE seawall_{name} {kind}");
        written.expect("writing to a String cannot fail");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let written = writeln!(self.text, "seawall_{name}{{system=\"{}\"{labels}}} {value}", self.system);
        written.expect("writing to a String cannot fail");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn each(
        &mut self,
        name: &str,
        kind: &str,
        destinations: &[DestinationStatistics],
        value: impl Fn(&DestinationStatistics) -> u64,
    ) {
        self.head(name, kind, "of one repository");
        for destination in destinations {
            self.line(name, &format!(",repository=\"{}\"", escape(&destination.url)), value(destination));
        }
    }

    fn failures(&mut self, destinations: &[DestinationStatistics]) {
        self.head("archive_repository_failures_total", "counter", "requests that failed, by cause");
        for destination in destinations {
            for (cause, count) in &destination.requests.failures {
                let labels =
                    format!(",repository=\"{}\",cause=\"{}\"", escape(&destination.url), cause.name());
                self.line("archive_repository_failures_total", &labels, count);
            }
        }
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_archive::StoreCause;

    fn statistics() -> Statistics {
        let destination = DestinationStatistics {
            url: "s3://b/\"p\"".to_owned(),
            is_required: true,
            archived: 5,
            lag_segments: 2,
            resting: Some("no answer within 60 s".to_owned()),
            requests: RequestStatistics {
                retries: 3,
                failures: [(StoreCause::Busy, 4)].into(),
                last_failure: None,
            },
            ..DestinationStatistics::default()
        };
        let queue =
            QueueStatistics { segments: 2, bytes: 1 << 25, left_out: 1, ..QueueStatistics::default() };
        Statistics {
            system: Some("postgresql-7".to_owned()),
            queue,
            destinations: vec![destination],
            ..Statistics::default()
        }
    }

    #[test]
    fn json_and_text_tell_the_lag_and_the_trouble() {
        let json = statistics().to_json();
        assert_eq!((json["lag_segments"].as_u64(), json["lag_bytes"].as_u64()), (Some(2), Some(1 << 25)));
        let destination = &json["repositories"][0];
        assert_eq!(
            (destination["failures"]["busy"].as_u64(), destination["lag_segments"].as_u64()),
            (Some(4), Some(2))
        );
        let text = statistics().to_text();
        assert!(text.contains("lacks 2") && text.contains("no answer within 60 s"), "{text}");
        assert!(text.contains("GAPS: 1"), "{text}");
    }

    #[test]
    fn each_line_of_the_text_file_is_a_metric_of_its_own() {
        let text = statistics().to_prometheus();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let names: std::collections::BTreeSet<&str> =
            lines.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
        assert_eq!(names.len(), lines.len(), "{text}");
        assert!(lines.iter().all(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok()), "{text}");
        assert!(lines.contains(&"seawall_archive_lag_segments{system=\"postgresql-7\"} 2"), "{text}");
        let failures = "seawall_archive_repository_failures_total{system=\"postgresql-7\",repository=\"s3://b/\\\"p\\\"\",cause=\
                        \"busy\"} 4";
        assert!(lines.contains(&failures), "{text}");
    }
}
