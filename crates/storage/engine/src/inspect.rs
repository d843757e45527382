//! Looking at a database: statistics, a check of every byte, and the log at a glance or record by record.

pub(crate) mod check;
pub(crate) mod commit_stages;
pub(crate) mod counters;
pub(crate) mod durations;
pub(crate) mod log_overview;
pub(crate) mod log_records;
pub(crate) mod logged_rows;
pub(crate) mod runs;
pub(crate) mod statistics;
