//! How things are: for people, as JSON, and as a text file that Prometheus reads.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use seawall_archive::RequestStatistics;
use serde_json::{Value, json};

use super::durations::Durations;
use super::transfers::milliseconds;

/// How things are with one agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Statistics {
    /// Directory name of the cluster in a repository, if it is known.
    pub(super) system: Option<String>,
    pub(super) now_seconds: i64,
    pub(super) queue: QueueStatistics,
    pub(super) destinations: Vec<DestinationStatistics>,
    pub(super) fetches: FetchStatistics,
    /// From the moment that the agent knows of a file until it may be removed.
    pub(super) acknowledgements: Durations,
    /// How long commands that asked the agent waited for its answer.
    pub(super) answers: Durations,
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
    /// Uploads that succeeded.
    pub(super) uploads: Durations,
    pub(super) upload_bytes: u64,
}

/// Downloads.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchStatistics {
    pub(super) asked_for: u64,
    pub(super) ahead: u64,
    pub(super) in_spool: usize,
    pub(super) in_flight: usize,
    /// Of those that were asked for.
    pub(super) durations: Durations,
    pub(super) durations_ahead: Durations,
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
            let requests = destination.requests.requests;
            text.push_str(&format!(
                "\n  uploads {}, {} bytes; requests: {} puts, {} gets, {} lists, {} removals",
                words(&destination.uploads),
                destination.upload_bytes,
                requests.puts,
                requests.gets,
                requests.lists,
                requests.removals
            ));
        }
        let fetches = &self.fetches;
        text.push_str(&format!(
            "\nfetched when asked for {}, ahead {}; in the spool {}, in flight {}",
            fetches.asked_for, fetches.ahead, fetches.in_spool, fetches.in_flight
        ));
        for (what, durations) in [
            ("acknowledgements", &self.acknowledgements),
            ("answers to archive-push", &self.answers),
            ("fetches when asked for", &fetches.durations),
            ("fetches ahead", &fetches.durations_ahead),
        ] {
            if durations.count() > 0 {
                text.push_str(&format!("\n{what}: {}", words(durations)));
            }
        }
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
                "uploads": json_of(&destination.uploads),
                "upload_bytes": destination.upload_bytes,
                "requests": destination.requests.requests.by_kind(),
                "put_bytes": destination.requests.requests.put_bytes,
                "get_bytes": destination.requests.requests.get_bytes,
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
            "acknowledgements": json_of(&self.acknowledgements),
            "answers": json_of(&self.answers),
            "fetches": json_of(&self.fetches.durations),
            "fetches_ahead": json_of(&self.fetches.durations_ahead),
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
        metrics.requests(&self.destinations);
        metrics.each("archive_repository_put_bytes_total", "counter", &self.destinations, |destination| {
            destination.requests.requests.put_bytes
        });
        metrics.each("archive_repository_get_bytes_total", "counter", &self.destinations, |destination| {
            destination.requests.requests.get_bytes
        });
        metrics.head(
            "archive_repository_upload_duration_seconds",
            "histogram",
            "of a file, to one repository",
        );
        for destination in &self.destinations {
            let labels = format!(",repository=\"{}\"", escape(&destination.url));
            metrics.histogram("archive_repository_upload_duration_seconds", &labels, &destination.uploads);
        }
        for (name, help, durations) in [
            (
                "archive_acknowledgement_duration_seconds",
                "from the moment that the agent knows of a file until it may be removed",
                &self.acknowledgements,
            ),
            (
                "archive_answer_duration_seconds",
                "how long a call of archive-push waited for the agent",
                &self.answers,
            ),
            ("archive_fetch_duration_seconds", "of a file that was asked for", &self.fetches.durations),
            ("archive_fetch_ahead_duration_seconds", "of a segment ahead", &self.fetches.durations_ahead),
        ] {
            metrics.head(name, "histogram", help);
            metrics.histogram(name, "", durations);
        }
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

    fn histogram(&mut self, name: &str, labels: &str, durations: &Durations) {
        for (end, count) in durations.buckets() {
            self.line(&format!("{name}_bucket"), &format!("{labels},le=\"{end}\""), count);
        }
        self.line(&format!("{name}_sum"), labels, durations.total().as_secs_f64());
        self.line(&format!("{name}_count"), labels, durations.count());
    }

    fn requests(&mut self, destinations: &[DestinationStatistics]) {
        self.head("archive_repository_requests_total", "counter", "requests, failed ones too, by kind");
        for destination in destinations {
            for (kind, count) in destination.requests.requests.by_kind() {
                let labels = format!(",repository=\"{}\",request=\"{kind}\"", escape(&destination.url));
                self.line("archive_repository_requests_total", &labels, count);
            }
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

/// How many, and how long, for people.
fn words(durations: &Durations) -> String {
    let count = durations.count();
    match (durations.percentile(50), durations.percentile(99)) {
        (Some(median), Some(most)) => format!(
            "{count}: half within {}, 99 % within {}, the longest {}",
            milliseconds(median),
            milliseconds(most),
            milliseconds(durations.longest())
        ),
        _ => count.to_string(),
    }
}

fn json_of(durations: &Durations) -> Value {
    let milliseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
    json!({
        "count": durations.count(),
        "total_ms": milliseconds(durations.total()),
        "median_ms": durations.percentile(50).map(milliseconds),
        "p99_ms": durations.percentile(99).map(milliseconds),
        "longest_ms": milliseconds(durations.longest()),
    })
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use seawall_archive::StoreCause;

    use crate::agent::durations::DurationCounter;

    fn statistics() -> Statistics {
        let uploads = DurationCounter::default();
        for millis in [400, 500, 1400] {
            uploads.note(Duration::from_millis(millis));
        }
        let destination = DestinationStatistics {
            url: "s3://b/\"p\"".to_owned(),
            is_required: true,
            archived: 5,
            lag_segments: 2,
            resting: Some("no answer within 60 s".to_owned()),
            requests: RequestStatistics {
                retries: 3,
                failures: [(StoreCause::Busy, 4)].into(),
                ..RequestStatistics::default()
            },
            uploads: uploads.read(),
            upload_bytes: 3 << 20,
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
        assert!(text.contains("uploads 3: half within"), "{text}");
        assert!(text.contains("the longest 1400 ms, 3145728 bytes"), "{text}");
        assert!(!text.contains("acknowledgements"), "there were none: {text}");
        let uploads = &destination["uploads"];
        assert_eq!((uploads["count"].as_u64(), uploads["longest_ms"].as_f64()), (Some(3), Some(1400.0)));
        assert_eq!(json["acknowledgements"]["median_ms"], Value::Null);
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
        let labels = "{system=\"postgresql-7\",repository=\"s3://b/\\\"p\\\"\"";
        let name = "seawall_archive_repository_upload_duration_seconds";
        for (suffix, more, value) in [
            ("bucket", ",le=\"0.3\"", "0"),
            ("bucket", ",le=\"0.5\"", "2"),
            ("bucket", ",le=\"+Inf\"", "3"),
            ("sum", "", "2.3"),
            ("count", "", "3"),
        ] {
            let line = format!("{name}_{suffix}{labels}{more}}} {value}");
            assert!(lines.contains(&line.as_str()), "{line}: {text}");
        }
    }
}
