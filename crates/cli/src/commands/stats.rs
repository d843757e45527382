//! `stats`: what a running database says of itself, for people, programs and scrapers.

use std::time::Duration;

use seawall::{DatabaseDirectory, Error, Lsn, MetricSample, PublishedStatistics};
use serde_json::{Map, Value, json};

use super::inspect::{info_json, info_lines, read_info};
use super::not_a_database;
use crate::arguments::{Shared, Stats};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, duration, escape, grouped, size};

pub(crate) fn stats(shared: &Shared, stats: &Stats, output: &mut Output) -> Result<(), Failure> {
    let published = DatabaseDirectory::at(&stats.dir).published_statistics();
    let published = published.map_err(|error| not_a_database(error.into()))?;
    if stats.openmetrics {
        return output.bytes(open_metrics(published.as_ref()).as_bytes());
    }
    let Some(published) = published else { return closed(shared, stats, output) };
    let broken =
        |line| Failure::Broken(format!("the statistics have a line that this version cannot read: {line}"));
    let samples = published.samples().map_err(broken)?;
    match output.json() {
        true => output.line(statistics_json(&published, &samples)),
        false => show(&published, &samples, output),
    }
}

/// What is on disk, of a database that has published nothing.
fn closed(shared: &Shared, stats: &Stats, output: &mut Output) -> Result<(), Failure> {
    let (info, tables) = read_info(shared, &stats.dir).inspect_err(|failure| {
        if matches!(failure, Failure::Database(Error::InUse { .. })) {
            output.warn(
                "the process that has the database open publishes no statistics: it opened or closed it within the last second, \
                 or its options say so (`publish_statistics`)",
            );
        }
    })?;
    if output.json() {
        let mut value = info_json(&info, tables);
        value["running"] = false.into();
        return output.line(value);
    }
    output.line(format_args!("{:<16} no: the database is closed", "running"))?;
    info_lines(&info, tables, output)
}

/// The text for a scraper. Figures of a process that is gone would look like those of one that has nothing to do.
fn open_metrics(published: Option<&PublishedStatistics>) -> String {
    let up = "# TYPE seawall_up gauge\n\
              # HELP seawall_up 1 if a process has the database open and publishes its statistics.\n";
    match published.filter(|published| published.is_open) {
        None => format!("{up}seawall_up 0\n# EOF\n"),
        Some(published) => {
            let opened =
                timestamp("opened", "When the process opened the database.", published.opened_micros);
            let written = "When the statistics were published.";
            let written = timestamp("published", written, published.published_micros);
            format!("{up}seawall_up 1\n{opened}{written}{}", published.open_metrics)
        }
    }
}

fn timestamp(name: &str, help: &str, micros: i64) -> String {
    let name = format!("seawall_{name}_timestamp_seconds");
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    format!("# TYPE {name} gauge\n# HELP {name} {help}\n{name} {seconds}.{rest:06}\n")
}

fn statistics_json(published: &PublishedStatistics, samples: &[MetricSample]) -> Value {
    let mut statistics = Map::new();
    for sample in samples {
        let value = sample_json(sample);
        if sample.labels.is_empty() {
            statistics.insert(sample.name.clone(), value);
            continue;
        }
        let mut labelled: Map<String, Value> =
            sample.labels.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str()))).collect();
        labelled.insert("value".to_owned(), value);
        let list = statistics.entry(sample.name.as_str()).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(labelled.into());
        }
    }
    json!({
        "running": published.is_open,
        "database_id": published.database.to_string(),
        "process_id": published.process_id,
        "opened_micros": published.opened_micros,
        "published_micros": published.published_micros,
        "statistics": statistics,
    })
}

/// Positions in the log as everywhere else, the rest as numbers.
fn sample_json(sample: &MetricSample) -> Value {
    match sample.value.parse::<u64>() {
        Ok(lsn) if sample.name.ends_with("_lsn") => Lsn::new(lsn).to_string().into(),
        _ => serde_json::from_str(&sample.value).unwrap_or_else(|_| Value::from(sample.value.as_str())),
    }
}

fn show(
    published: &PublishedStatistics,
    samples: &[MetricSample],
    output: &mut Output,
) -> Result<(), Failure> {
    let (process, at) = (published.process_id, utc(published.published_micros));
    let mut line = |name: &str, value: &str| output.line(format_args!("{name:<32} {value}"));
    match published.is_open {
        true => line("running", &format!("yes: process {process}, statistics of {at}"))?,
        false => line("running", &format!("no: process {process} published these at {at}, and was killed"))?,
    }
    line("database", &published.database.to_string())?;
    line("opened", &utc(published.opened_micros))?;
    for sample in samples {
        let (name, value) = for_people(sample);
        let labels: String =
            sample.labels.iter().map(|(_, text)| format!(" {}", escape(text.as_bytes()))).collect();
        line(&(name + &labels), &value)?;
    }
    Ok(())
}

/// Name and value; the end of the name is the unit.
fn for_people(sample: &MetricSample) -> (String, String) {
    let name = sample.name.strip_prefix("seawall_").unwrap_or(&sample.name);
    let name = name.strip_suffix("_total").unwrap_or(name);
    let whole = sample.value.parse::<u64>();
    let number = sample.value.parse::<f64>().unwrap_or_default();
    let (name, value) = match (name.rsplit_once('_'), whole) {
        (Some((name, "lsn")), Ok(lsn)) => (name, Lsn::new(lsn).to_string()),
        (Some((_, "bytes")), Ok(bytes)) => (name, size(bytes)),
        (Some((name, "ratio")), _) => (name, format!("{:.1}%", number * 100.0)),
        (Some((name, "seconds")), _) => match name.strip_suffix("_timestamp") {
            Some(name) => (name, utc_of_seconds(number)),
            None => (name, duration(Duration::try_from_secs_f64(number).unwrap_or_default())),
        },
        (_, Ok(count)) => (name, grouped(count)),
        (_, Err(_)) => (name, sample.value.clone()),
    };
    (name.replace('_', " "), value)
}

fn utc_of_seconds(seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    utc(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_units() {
        let shown = |name: &str, value: &str| {
            let sample = MetricSample { name: name.to_owned(), labels: Vec::new(), value: value.to_owned() };
            let (name, value) = for_people(&sample);
            format!("{name}: {value}")
        };
        assert_eq!(shown("seawall_log_records_total", "1234"), "log records: 1,234");
        assert_eq!(shown("seawall_log_bytes_total", "2048"), "log bytes: 2.00 KiB");
        assert_eq!(shown("seawall_redo_point_lsn", "256"), "redo point: 0/100");
        assert_eq!(shown("seawall_recovery_target_seconds", "5"), "recovery target: 5.00 s");
        assert_eq!(shown("seawall_throttle_ratio", "0.125"), "throttle: 12.5%");
        assert_eq!(
            shown("seawall_last_checkpoint_timestamp_seconds", "0"),
            format!("last checkpoint: {}", utc(0))
        );
        assert_eq!(shown("seawall_of_another_version", "1.5"), "of another version: 1.5");
    }
}
