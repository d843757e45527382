//! Statistics as [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/) text, which Prometheus and its relatives read.
//!
//! ```text
//! # TYPE seawall_log_records counter
//! # HELP seawall_log_records Records appended to the log.
//! seawall_log_records_total 1204
//! # TYPE seawall_hold_held_bytes gauge
//! # HELP seawall_hold_held_bytes Log that the hold keeps.
//! seawall_hold_held_bytes{hold="standby-1"} 73728
//! # EOF
//! ```
//! The end of a name is the unit: `_bytes`, `_seconds`, `_lsn` (a position in the log), `_ratio` (0 to 1), else a count.

use std::fmt::{Display, Write};
use std::time::Duration;

use seawall_types::Lsn;

use super::Statistics;
use crate::checkpoint::statistics::CheckpointStatistics;
use crate::inspect::durations::DurationHistogram;

/// The last line of every text.
const END: &str = "# EOF\n";

/// One figure of an OpenMetrics text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSample {
    /// Its name, with `_total` at the end of a counter's.
    pub name: String,
    /// Names and values of its labels.
    pub labels: Vec<(String, String)>,
    /// Its value, a decimal number.
    pub value: String,
}

impl Statistics {
    /// The statistics as OpenMetrics text, for a program that answers a scraper itself. The text of a database that is open in
    /// another process is that of `published_statistics`.
    pub fn open_metrics(&self) -> String {
        let mut families = Families::default();
        let help = "1 if no more writes are taken until the database is opened again.";
        families.gauge("stopped", help, u8::from(self.stopped));
        self.log_families(&mut families);
        self.segment_families(&mut families);
        self.transaction_families(&mut families);
        self.commit_stage_families(&mut families);
        self.memory_families(&mut families);
        self.run_families(&mut families);
        self.checkpoint_families(&mut families);
        self.throttle_families(&mut families);
        self.recovery_families(&mut families);
        self.promotion_families(&mut families);
        self.hold_families(&mut families);
        self.archive_families(&mut families);
        families.text + END
    }

    fn log_families(&self, families: &mut Families) {
        families.position("log_appended", "End of the log.", self.log.appended);
        families.position("log_flushed", "End of the durable log.", self.log.flushed);
        families.position("visible", "New snapshots see every commit up to here.", self.transactions.visible);
        families.position("redo_point", "A recovery starts here.", self.checkpoints.redo_point);
        families.counter("log_records", "Records appended to the log.", self.log.records);
        families.counter("log_bytes", "Bytes appended to the log.", self.log.bytes);
        families.counter("log_flushes", "Flushes of the log.", self.log.flushes);
        families.seconds(
            "log_batch_longest",
            "The longest time that a batch of records took to become durable.",
            self.log.batch_longest,
        );
    }

    fn segment_families(&self, families: &mut Families) {
        families.gauge("segments_live", "Log segments that hold records.", self.segments.live);
        families.gauge("segments_spare", "Log segments ready to be written.", self.segments.spare);
        families.gauge(
            "segments_unneeded",
            "Log segments to be removed or recycled.",
            self.segments.unneeded,
        );
        families.counter("segments_prepared", "Log segments filled with zeros.", self.segments.prepared);
        families.counter(
            "segments_cleaned",
            "Log segments found beyond the end of the log.",
            self.segments.cleaned,
        );
        families.counter("segments_recycled", "Log segments used again.", self.segments.recycled);
        families.counter("segments_removed", "Log segments removed.", self.segments.removed);
        families.counter(
            "log_clean_up_batches",
            "Batches of segments cleaned up.",
            self.segments.clean_up_batches,
        );
        families.counter(
            "log_clean_up_failures",
            "Log files that could not be removed or renamed.",
            self.segments.clean_up_failures,
        );
        families.counter(
            "log_directory_syncs",
            "Syncs of the log's directory.",
            self.segments.directory_syncs,
        );
    }

    fn transaction_families(&self, families: &mut Families) {
        families.gauge(
            "commits_in_flight",
            "Commits logged and not yet visible.",
            self.transactions.commits_in_flight,
        );
        families.gauge("commit_waiters", "Threads that wait for commits.", self.transactions.commit_waiters);
        families.gauge("locks_held", "Row locks held.", self.transactions.locks_held);
        families.gauge("lock_waiters", "Transactions that wait for a row.", self.transactions.lock_waiters);
        families.gauge("snapshots", "Snapshots alive.", self.snapshots.alive);
        if let Some(oldest) = self.snapshots.oldest {
            families.position("oldest_snapshot", "The oldest snapshot alive.", oldest);
        }
        families.counter(
            "snapshots_cancelled",
            "Snapshots cancelled for want of memory.",
            self.snapshots.cancelled,
        );
        families.gauge("in_doubt", "Transactions prepared and not decided.", self.two_phase.in_doubt);
        families.seconds(
            "in_doubt_oldest",
            "Age of the oldest transaction in doubt.",
            self.two_phase.oldest_in_doubt.unwrap_or_default(),
        );
        families.counter("prepared", "Transactions prepared.", self.two_phase.prepared);
        families.counter("prepared_committed", "Prepared transactions committed.", self.two_phase.committed);
        families.counter(
            "prepared_rolled_back",
            "Prepared transactions rolled back.",
            self.two_phase.rolled_back,
        );
        families.counter("in_doubt_reported", "Transactions in doubt for too long.", self.two_phase.reported);
    }

    fn commit_stage_families(&self, families: &mut Families) {
        let stages = &self.commit_stages;
        let help = "Waits for a lock that another transaction held.";
        families.durations("lock_wait_duration_seconds", help, &[("", &stages.lock_wait)]);
        let help = "Time of a commit until it is appended, then durable, then visible.";
        let of_commit = [
            ("stage=\"append\",", &stages.append),
            ("stage=\"flush\",", &stages.flush),
            ("stage=\"visible\",", &stages.visible),
        ];
        families.durations("commit_stage_duration_seconds", help, &of_commit);
    }

    fn memory_families(&self, families: &mut Families) {
        families.gauge("memtable_bytes", "Memory of all memtables.", self.memtable.bytes);
        families.gauge("memtable_rows", "Rows in the active memtable.", self.memtable.rows);
        families.gauge(
            "frozen_memtables",
            "Memtables being merged or kept for snapshots.",
            self.memtable.frozen,
        );
        families.gauge(
            "snapshot_memory_bytes",
            "Memory kept for old snapshots only.",
            self.snapshots.memory_bytes,
        );
        families.gauge(
            "transaction_memory_bytes",
            "Memory of open transactions.",
            self.transactions.memory_bytes,
        );
        families.gauge("cache_bytes", "Memory of cached pages and of filters of leaves.", self.cache.bytes);
        families.counter("pages_read", "Pages read from the page file.", self.cache.pages_read);
    }

    fn run_families(&self, families: &mut Families) {
        families.gauge("runs", "Sorted runs beside the main part of the tree.", self.runs.count);
        families.gauge("run_rows", "Rows in sorted runs when these were written.", self.runs.rows);
        families.gauge("run_bytes", "Bytes of these rows.", self.runs.row_bytes);
        families.gauge("run_filter_bytes", "Memory of the filters of runs.", self.runs.filter_bytes);
        families.gauge("runs_unfiltered", "Runs that each lookup reads.", self.runs.unfiltered);
        families.counter(
            "run_tier_slices",
            "Parts of runs that were merged with each other.",
            self.runs.tier_slices,
        );
        families.counter("run_tier_bytes", "Bytes written for these.", self.runs.tier_bytes);
        families.counter(
            "run_windows",
            "Windows of the tree that were merged with what runs have there.",
            self.runs.windows,
        );
        families.counter("run_window_bytes", "Bytes written for these.", self.runs.window_bytes);
    }

    fn checkpoint_families(&self, families: &mut Families) {
        families.counter("checkpoints", "Checkpoints completed.", self.checkpoints.completed);
        families.counter("checkpoint_failures", "Checkpoints that failed.", self.checkpoints.failed);
        if let Some(last) = &self.checkpoints.last {
            last.families(families);
        }
        if let Some(waiting) = self.reclaim.waiting {
            families.gauge("reclaim_waiting_tables", "Dropped tables whose space is not free yet.", waiting);
        }
        families.counter("reclaimed_tables", "Dropped tables whose space is free.", self.reclaim.tables);
        families.counter(
            "reclaimed_bytes",
            "Bytes of pages freed by dropped tables.",
            self.reclaim.freed_bytes,
        );
        families.counter("punched_bytes", "Bytes given back to the file system.", self.reclaim.punched_bytes);
    }

    fn throttle_families(&self, families: &mut Families) {
        let throttle = &self.throttle;
        if let Some(rate) = throttle.rate_bytes_per_second {
            families.gauge("throttle_rate_bytes", "Bytes per second that writers may add.", rate);
        }
        families.gauge("throttle_ratio", "Share of their time that writers are delayed.", throttle.factor);
        families.gauge("memtable_fill_ratio", "Used share of the active memtable.", throttle.fill);
        families.gauge(
            "checkpoint_progress_ratio",
            "Done share of the checkpoint under way; 1 if there is none.",
            throttle.progress.unwrap_or(1.0),
        );
        families.counter("throttled_commits", "Commits that were delayed.", throttle.delayed_commits);
        let delayed = Duration::from_micros(throttle.delayed_micros).as_secs_f64();
        families.counter("throttled_seconds", "Time that commits were delayed.", delayed);
    }

    fn recovery_families(&self, families: &mut Families) {
        let estimate = &self.recovery_time;
        families.seconds("recovery_estimated", "Time that a recovery would take now.", estimate.estimated);
        if let Some(target) = estimate.target {
            families.seconds("recovery_target", "Time that a recovery may take.", target);
        }
        families.gauge("recovery_rows", "Rows that a recovery would replay now.", estimate.rows);
        families.gauge("recovery_bytes", "Log that a recovery would replay now.", estimate.bytes);
        families.seconds("last_recovery", "Time that the recovery at open took.", self.recovery.duration);
        families.gauge("last_recovery_rows", "Rows that the recovery at open replayed.", self.recovery.rows);
        families.family("open_phase_seconds", "gauge", "Time that a part of opening took.");
        for (phase, took) in self.recovery.phases.by_name() {
            families.sample("open_phase_seconds", Some(("phase", phase)), took.as_secs_f64());
        }
        let kinds = self.recovery.by_kind.by_name();
        families.family("last_recovery_records", "gauge", "Records that the recovery at open replayed.");
        for (kind, replayed) in &kinds {
            families.sample("last_recovery_records", Some(("kind", kind)), replayed.records);
        }
        let help = "Time that the recovery at open took for records of a kind, estimated.";
        families.family("last_recovery_record_seconds", "gauge", help);
        for (kind, replayed) in &kinds {
            families.sample(
                "last_recovery_record_seconds",
                Some(("kind", kind)),
                replayed.busy.as_secs_f64(),
            );
        }
    }

    fn promotion_families(&self, families: &mut Families) {
        let Some(promotion) = &self.promotion else { return };
        families.family("promotion_seconds", "gauge", "Time of the promotion, by its phases.");
        for (phase, took) in promotion.phases.named() {
            families.sample("promotion_seconds", Some(("phase", phase)), took.as_secs_f64());
        }
    }

    fn hold_families(&self, families: &mut Families) {
        families.counter("holds_lost", "Holds lost since the database was opened.", self.log.holds_lost);
        families.family("hold_held_bytes", "gauge", "Log that the hold keeps.");
        for hold in self.log.holds.iter().filter(|hold| hold.lost_at.is_none()) {
            let held = self.log.appended.bytes_since(hold.position.min(self.log.appended));
            families.sample("hold_held_bytes", Some(("hold", &hold.name)), held);
        }
        families.family("hold_lost", "gauge", "1 if the hold is lost: the log that it needs may be gone.");
        for hold in &self.log.holds {
            families.sample("hold_lost", Some(("hold", &hold.name)), u8::from(hold.lost_at.is_some()));
        }
    }

    fn archive_families(&self, families: &mut Families) {
        let each =
            |families: &mut Families, name, kind, help, value: &dyn Fn(&super::ArchiveStatistics) -> u64| {
                families.family(name, kind, help);
                let sampled = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
                for archive in &self.archives {
                    families.sample(&sampled, Some(("archive", &archive.name)), value(archive));
                }
            };
        each(families, "archived_lsn", "gauge", "The archive has the log up to here.", &|archive| {
            archive.archived.get()
        });
        each(families, "archive_lag_bytes", "gauge", "Durable log that the archive lacks.", &|archive| {
            archive.lag_bytes
        });
        each(families, "archive_waiting_segments", "gauge", "Full segments that wait.", &|archive| {
            archive.segments_waiting
        });
        each(families, "archive_segments", "counter", "Segments archived.", &|archive| archive.segments);
        each(
            families,
            "archive_bytes",
            "counter",
            "Bytes of log archived, before compression.",
            &|archive| archive.bytes,
        );
        each(families, "archive_failures", "counter", "Uploads that failed.", &|archive| archive.failures);
        each(families, "archive_failing", "gauge", "1 while the oldest upload fails.", &|archive| {
            u64::from(archive.failing.is_some())
        });
        each(families, "archive_gaps", "counter", "Gaps opened in the archive.", &|archive| archive.gaps);
    }
}

impl CheckpointStatistics {
    fn families(&self, families: &mut Families) {
        #[expect(clippy::cast_precision_loss, reason = "exact until the year 2255")]
        let started = self.started_micros as f64 / 1e6;
        families.gauge("last_checkpoint_timestamp_seconds", "When the last checkpoint began.", started);
        families.seconds("last_checkpoint", "Time that the last checkpoint took.", self.duration);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let fill = self.fill_highest_permille as f64 / 1000.0;
        let help = "The most that was used of the active memtable while the last checkpoint ran.";
        families.gauge("last_checkpoint_fill_ratio", help, fill);
        let help = "Time that commits were delayed while the last checkpoint ran.";
        families.seconds("last_checkpoint_delayed", help, self.writers_delayed);
        families.gauge("last_checkpoint_rows", "Rows that the last checkpoint merged.", self.rows);
        let help = "Rows of them that went into a sorted run.";
        families.gauge("last_checkpoint_run_rows", help, self.run_rows);
        families.gauge(
            "last_checkpoint_pages",
            "Pages that the last checkpoint wrote.",
            self.pages_written(),
        );
    }
}

/// A text that grows by families of metrics.
#[derive(Debug, Default)]
struct Families {
    text: String,
}

impl Families {
    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(&format!("{name}_total"), None, value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, None, value);
    }

    fn seconds(&mut self, name: &str, help: &str, value: Duration) {
        self.gauge(&format!("{name}_seconds"), help, value.as_secs_f64());
    }

    /// Histograms of one family, each with its labels.
    fn durations(&mut self, name: &str, help: &str, histograms: &[(&str, &DurationHistogram)]) {
        self.family(name, "histogram", help);
        for (labels, histogram) in histograms {
            // Writing to a text does not fail.
            histogram.write(&mut self.text, &format!("seawall_{name}"), labels).unwrap_or_default();
        }
    }

    fn position(&mut self, name: &str, help: &str, value: Lsn) {
        self.gauge(&format!("{name}_lsn"), help, value.get());
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# TYPE seawall_{name} {kind}"));
        self.line(format_args!("# HELP seawall_{name} {help}"));
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        match label {
            None => self.line(format_args!("seawall_{name} {value}")),
            Some((label, text)) => {
                self.line(format_args!("seawall_{name}{{{label}=\"{}\"}} {value}", escaped(text)));
            }
        }
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.text, "{line}").expect("writing to a String cannot fail");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The figures of a text that [`Statistics::open_metrics`] has written, here or in another version.
///
/// # Errors
/// The first line that has another form.
pub(super) fn parse(text: &str) -> Result<Vec<MetricSample>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| parse_sample(line).ok_or_else(|| line.to_owned())).collect()
}

fn parse_sample(line: &str) -> Option<MetricSample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = value.strip_prefix(' ')?;
    value.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let is_named =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_named.then(|| MetricSample { name: name.to_owned(), labels, value: value.to_owned() })
}

/// The labels up to the closing brace, and what comes after it.
fn parse_labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = parse_quoted(quoted)?;
        labels.push((name.to_owned(), value));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((labels, after.strip_prefix('}')?)),
        }
    }
}

/// The text up to the closing quote, and what comes after it.
fn parse_quoted(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut letters = quoted.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some((text, &quoted[place + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => text.push('\n'),
                escaped => text.push(escaped),
            },
            plain => text.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HoldInfo, HoldOptions, LogStatistics};

    fn statistics() -> Statistics {
        let hold = |name: &str, lost_at| HoldInfo {
            name: name.to_owned(),
            options: HoldOptions::default(),
            position: Lsn::new(100),
            created_micros: 0,
            lost_at,
        };
        Statistics {
            log: LogStatistics {
                appended: Lsn::new(1100),
                records: 7,
                batch_longest: Duration::from_micros(1500),
                holds: vec![hold("a \"b\" \\ c\nd", None), hold("lost", Some(Lsn::new(900)))],
                ..LogStatistics::default()
            },
            ..Statistics::default()
        }
    }

    #[test]
    fn every_figure_reads_back() {
        let text = statistics().open_metrics();
        let samples = parse(&text).unwrap();
        let find = |name: &str| samples.iter().filter(|sample| sample.name == name).collect::<Vec<_>>();
        assert_eq!(find("seawall_log_appended_lsn")[0].value, "1100");
        assert_eq!(find("seawall_log_records_total")[0].value, "7");
        assert_eq!(find("seawall_log_batch_longest_seconds")[0].value, "0.0015");
        let held = find("seawall_hold_held_bytes");
        assert_eq!(held.len(), 1, "a lost hold keeps nothing");
        assert_eq!(held[0].labels, [("hold".to_owned(), "a \"b\" \\ c\nd".to_owned())]);
        assert_eq!(held[0].value, "1000");
        assert_eq!(
            find("seawall_hold_lost").iter().map(|one| one.value.as_str()).collect::<Vec<_>>(),
            ["0", "1"]
        );
    }

    /// The rules of the format: a family is named once, before its samples, which follow one another; counters end in `_total`.
    #[test]
    fn families_are_well_formed() {
        let text = statistics().open_metrics();
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        let (mut seen, mut family, mut kind) = (Vec::new(), String::new(), String::new());
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, of_kind) = declared.split_once(' ').unwrap();
                assert!(!seen.contains(&name.to_owned()), "{name} is there twice");
                seen.push(name.to_owned());
                (family, kind) = (name.to_owned(), of_kind.to_owned());
            } else if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(help.starts_with(&format!("{family} ")) && help.ends_with('.'), "{line}");
            } else {
                let name = parse_sample(line).unwrap().name;
                if kind == "histogram" {
                    let of_histogram = ["_bucket", "_count", "_sum"];
                    assert!(
                        of_histogram.iter().any(|end| name.strip_suffix(end) == Some(family.as_str())),
                        "{line}"
                    );
                    continue;
                }
                assert_eq!(name.strip_suffix("_total").unwrap_or(&name), family, "{line}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            }
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["x", "x one", "x{a=\"1\" 2", "x{a=1} 2", "x{a=\"1\"}2", " 1", "x NaN", "x 1 2", "x-y 1"]
        {
            assert_eq!(parse(line), Err(line.to_owned()));
        }
    }
}
