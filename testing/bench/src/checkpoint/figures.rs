//! Figures by name: what a cell came to, and the order in which they are shown.
//!
//! A figure that is not listed here is shown too, at the end: so a new statistic of the engine appears by itself.

use std::collections::BTreeMap;

/// Name and value; the unit is in the name.
pub(super) type Figures = BTreeMap<String, f64>;

/// The published order, as far as there is one.
pub(super) const ORDER: &[&str] = &[
    "first_read_seconds",
    "open_seconds",
    "estimated_seconds",
    "lost_commits",
    "acknowledged_commits",
    "killed_in_checkpoint",
    "killed_at_share_of_checkpoint",
    "killed_after_seconds",
    "replayed_mib",
    "replayed_rows",
    "reads_p99_9_during_to_without",
    "reads_without_checkpoint_p50_us",
    "reads_during_checkpoint_p50_us",
    "reads_without_checkpoint_p99_us",
    "reads_during_checkpoint_p99_us",
    "reads_without_checkpoint_p99_9_us",
    "reads_during_checkpoint_p99_9_us",
    "reads_without_checkpoint_max_us",
    "reads_during_checkpoint_max_us",
    "rows_per_second",
    "wanted_rows_per_second",
    "operations",
    "window_seconds",
    "latency_mean_us",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p99_9_us",
    "latency_max_us",
    "log_mib",
    "log_bytes_per_row",
    "device_written_mib",
    "device_written_bytes_per_row",
    "checkpoints",
    "longest_gap_ms",
    "intervals",
    "interval_median_rows",
    "interval_least_rows",
    "intervals_at_zero",
    "intervals_below_20_percent_of_median",
    "intervals_below_50_percent_of_median",
    "throttled_thread_ms",
    "own_cpu_cores",
    "other_cpu_cores",
    "resident_peak_mib",
    "configured_mib",
    "archived_mib",
    "archive_lag_max_mib",
    "archive_segments_waiting_max",
    "archive_catch_up_seconds",
    "standby_received_mib",
    "standby_lag_max_mib",
    "standby_catch_up_seconds",
    "checkpoint_each_rows",
    "checkpoint_each_pages",
    "checkpoint_each_pages_read",
    "checkpoint_each_protected_pages",
    "checkpoint_each_fresh_pages",
    "checkpoint_each_image_mib",
    "checkpoint_each_recovery_file_mib",
    "checkpoint_each_page_file_mib",
    "checkpoint_each_written_bytes_per_page",
    "checkpoint_each_total_ms",
    "checkpoint_each_freeze_ms",
    "checkpoint_each_log_flush_ms",
    "checkpoint_each_merge_ms",
    "checkpoint_each_recovery_write_ms",
    "checkpoint_each_recovery_sync_ms",
    "checkpoint_each_page_write_ms",
    "checkpoint_each_page_sync_ms",
    "checkpoint_each_publish_ms",
    "checkpoint_each_publish_longest_ms",
    "longest_publish_ms",
];

/// What comes once for each checkpoint begins with this; shown after everything else of `ORDER`, as a mean.
pub(super) const EACH_CHECKPOINT: &str = "checkpoint_each_";

/// Sorts names for a table.
pub(super) fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    let place = |name: &str| {
        let listed = ORDER.iter().position(|listed| *listed == name);
        let group = if name.starts_with(EACH_CHECKPOINT) { ORDER.len() } else { ORDER.len() + 1 };
        listed.unwrap_or(group)
    };
    names.sort_by(|one, other| (place(one), *one).cmp(&(place(other), *other)));
    names.dedup();
    names
}

/// As a reader sees it: `log_bytes_per_row` is "log bytes per row".
pub(super) fn words(name: &str) -> String {
    match name.strip_prefix(EACH_CHECKPOINT) {
        Some(rest) => format!("checkpoint {}, each", rest.replace('_', " ")),
        None => name.replace("p99_9", "p99.9").replace('_', " "),
    }
}

/// The mean of each figure over those that have it.
pub(super) fn means(all: &[Figures]) -> Figures {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (name, value) in all.iter().flatten() {
        let (sum, count) = sums.entry(name).or_default();
        *sum += value;
        *count += 1.0;
    }
    sums.into_iter().map(|(name, (sum, count))| (name.to_owned(), sum / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_names_come_first_and_new_ones_are_not_lost() {
        let names = ["zebra", "checkpoint_each_rows", "latency_p50_us", "rows_per_second", "apple", "zebra"];
        let sorted = in_order(names.into_iter());
        assert_eq!(sorted, ["rows_per_second", "latency_p50_us", "checkpoint_each_rows", "apple", "zebra"]);
        assert_eq!(words("checkpoint_each_fresh_pages"), "checkpoint fresh pages, each");
        assert_eq!(words("latency_p99_9_us"), "latency p99.9 us");
    }

    #[test]
    fn a_mean_is_over_those_that_have_the_figure() {
        let of = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let mean = means(&[of(&[("a", 1.0), ("b", 5.0)]), of(&[("a", 2.0)])]);
        assert_eq!(mean, of(&[("a", 1.5), ("b", 5.0)]));
    }
}
