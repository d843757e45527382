//! The values of settings that change what statements do, in the types in which statements use them.

use std::sync::Arc;
use std::time::Duration;

use seawall_values::Settings;
use seawall_values::settings::{DateOrder, DateStyle, IntervalStyle};

use super::words::{IsolationLevel, MessageLevel, SynchronousCommit};
use super::{date_style, list, time_zone};
use crate::session::Timeouts;
use crate::session::measure::SlowStatements;

/// Settings that no plan depends on.
const APART_FROM_PLANS: [&str; 14] = [
    "application_name",
    "client_min_messages",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "extra_float_digits",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "log_min_duration_statement",
    "log_parameter_max_length",
    "statement_timeout",
    "synchronous_commit",
    "temp_file_limit",
];

/// The values now.
#[derive(Clone, Debug)]
pub(super) struct Effective {
    pub(super) values: Arc<Settings>,
    /// The names of `search_path`, with `$user` as it is written.
    pub(super) search_path: Vec<String>,
    pub(super) default_isolation: IsolationLevel,
    pub(super) default_read_only: bool,
    pub(super) default_deferrable: bool,
    pub(super) timeouts: Timeouts,
    pub(super) lock_timeout: Option<Duration>,
    pub(super) work_memory: usize,
    pub(super) statement_memory: usize,
    pub(super) temporary_file_limit: u64,
    pub(super) slow_statements: SlowStatements,
    pub(super) statistics_target: usize,
    pub(super) synchronous_commit: SynchronousCommit,
    pub(super) client_min_messages: MessageLevel,
    /// Raised with each change that plans may depend on.
    pub(super) version: u64,
}

impl Effective {
    /// A copy with random numbers of its own.
    pub(super) fn with_own_random(&self) -> Effective {
        let values = Settings { random: Arc::default(), ..Settings::clone(&self.values) };
        Effective { values: Arc::new(values), ..self.clone() }
    }

    /// Values before the defaults were applied.
    pub(super) fn new(clock: fn() -> i64) -> Effective {
        Effective {
            values: Arc::new(Settings { clock, ..Settings::default() }),
            search_path: Vec::new(),
            default_isolation: IsolationLevel::ReadCommitted,
            default_read_only: false,
            default_deferrable: false,
            timeouts: Timeouts::default(),
            lock_timeout: None,
            work_memory: 0,
            statement_memory: 0,
            temporary_file_limit: u64::MAX,
            slow_statements: SlowStatements::default(),
            statistics_target: 0,
            synchronous_commit: SynchronousCommit::On,
            client_min_messages: MessageLevel::Notice,
            version: 0,
        }
    }

    /// The current style of dates, and the order of their parts.
    pub(super) fn date_style(&self) -> (DateStyle, DateOrder) {
        (self.values.date_style, self.values.date_order)
    }

    /// Whether plans may depend on the setting.
    pub(super) fn is_of_plans(name: &str) -> bool {
        !APART_FROM_PLANS.contains(&name) && !name.contains('.')
    }

    /// Takes over a value that was checked. Values of other settings change nothing.
    pub(super) fn apply(&mut self, name: &str, value: &str) {
        if Effective::is_of_plans(name) {
            self.version += 1;
        }
        let is_on = value == "on";
        match name {
            "search_path" => self.search_path = list::split(value).unwrap_or_default(),
            "default_transaction_isolation" => {
                self.default_isolation =
                    IsolationLevel::named(value).unwrap_or(IsolationLevel::ReadCommitted);
            }
            "default_transaction_read_only" => self.default_read_only = is_on,
            "default_transaction_deferrable" => self.default_deferrable = is_on,
            "statement_timeout" => self.timeouts.statement = limit(value),
            "idle_in_transaction_session_timeout" => self.timeouts.idle_in_transaction = limit(value),
            "idle_session_timeout" => self.timeouts.idle = limit(value),
            "lock_timeout" => self.lock_timeout = limit(value),
            "log_min_duration_statement" => {
                // 0 logs all of them, a negative number none.
                self.slow_statements.least = value.parse().ok().map(Duration::from_millis);
            }
            "log_parameter_max_length" => {
                let bytes: i64 = value.parse().unwrap_or(0);
                self.slow_statements.parameter_bytes =
                    if bytes < 0 { usize::MAX } else { usize::try_from(bytes).unwrap_or(usize::MAX) };
            }
            "work_mem" => self.work_memory = kilobytes(value),
            "seawall.statement_memory" => self.statement_memory = kilobytes(value),
            // A negative number: no limit.
            "temp_file_limit" => {
                self.temporary_file_limit =
                    value.parse::<u64>().map_or(u64::MAX, |kilobytes| kilobytes.saturating_mul(1024));
            }
            "default_statistics_target" => self.statistics_target = value.parse().unwrap_or(100),
            "synchronous_commit" => self.synchronous_commit = SynchronousCommit::named(value),
            "client_min_messages" => self.client_min_messages = MessageLevel::named(value),
            "DateStyle" | "IntervalStyle" | "TimeZone" | "bytea_output" | "extra_float_digits" => {
                apply_to_values(Arc::make_mut(&mut self.values), name, value);
            }
            _ => {}
        }
    }
}

fn apply_to_values(values: &mut Settings, name: &str, value: &str) {
    match name {
        "DateStyle" => {
            let current = (values.date_style, values.date_order);
            let words = list::split(value).unwrap_or_default();
            (values.date_style, values.date_order) =
                date_style::parse(&words, current, current).unwrap_or(current);
        }
        "TimeZone" => {
            if let Ok((zone, shown)) = time_zone::parse(value) {
                (values.time_zone, values.time_zone_name) = (zone, shown);
            }
        }
        "IntervalStyle" => {
            values.interval_style = match value {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            };
        }
        "bytea_output" => values.is_bytea_hex = value == "hex",
        _ => values.extra_float_digits = value.parse().unwrap_or(1),
    }
}

/// Milliseconds; 0: no limit.
fn limit(value: &str) -> Option<Duration> {
    value.parse().ok().filter(|milliseconds| *milliseconds > 0).map(Duration::from_millis)
}

fn kilobytes(value: &str) -> usize {
    value.parse::<usize>().unwrap_or(0).saturating_mul(1024)
}
