//! What is measured and limited of uploads and downloads, for all threads of the agent.

use std::fmt;
use std::time::Duration;

use seawall_io::Clock;
use seawall_types::utc;

use super::durations::DurationCounter;
use super::rate::Rate;
use super::semaphore::processors;
use crate::log_line::log_line;
use crate::settings::ArchiveSettings;

/// Limits of transfers, and how long they took.
#[derive(Debug)]
pub(crate) struct Transfers {
    /// Files that are read and packed at once.
    pub(crate) threads: u64,
    pub(crate) upload_rate: Rate,
    pub(crate) download_rate: Rate,
    /// From the moment that the agent knows of a file until it may be removed.
    pub(crate) acknowledgements: DurationCounter,
    /// How long an `archive-push` that asked the agent waited for its answer, whatever that was.
    pub(crate) answers: DurationCounter,
    /// Downloads that recovery, or another command, waited for.
    pub(crate) fetches: DurationCounter,
    /// Downloads ahead.
    pub(crate) fetches_ahead: DurationCounter,
    /// Each transfer that succeeds is logged.
    logs_successes: bool,
}

impl Default for Transfers {
    fn default() -> Transfers {
        Transfers {
            threads: processors(),
            upload_rate: Rate::default(),
            download_rate: Rate::default(),
            acknowledgements: DurationCounter::default(),
            answers: DurationCounter::default(),
            fetches: DurationCounter::default(),
            fetches_ahead: DurationCounter::default(),
            logs_successes: false,
        }
    }
}

impl Transfers {
    /// As the settings limit them.
    pub(crate) fn new(settings: &ArchiveSettings) -> Transfers {
        Transfers {
            threads: settings.threads().unwrap_or_else(processors),
            upload_rate: Rate::new(settings.push_rate()),
            download_rate: Rate::new(settings.get_rate()),
            logs_successes: settings.logs_successes(),
            ..Transfers::default()
        }
    }

    /// Writes a line to the log about what has succeeded, with the time, if the settings ask for such lines.
    pub(crate) fn log(&self, clock: &dyn Clock, words: fmt::Arguments<'_>) {
        if self.logs_successes {
            log_line!("{} {words}", utc(clock.wall_micros()));
        }
    }
}

/// A duration in a line of the log or of a status.
pub(crate) fn milliseconds(duration: Duration) -> impl fmt::Display {
    let micros = duration.as_micros();
    // Short ones would all be zero.
    if micros < 10_000 {
        format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
    } else {
        format!("{} ms", micros / 1000)
    }
}
