//! A server changes its role while it is served: what `control` is asked for, and what is left open after a kill.
//!
//! ```text
//!   asked for a switchover --> done --------------------------> the server ends, and begins again as a standby
//!                                |                                  ^
//!                                +--> no answer --> asks each second+--> the other server has taken over
//!                                                   ^               +--> it has not: writes go on here
//!   started with the file `handover` ---------------+
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall::HandoverRecord;
use seawall_io::{Clock, OsRandom, Random, SystemClock};
use seawall_replication::{
    Dial, HandoverOutcome, SwitchoverError, SwitchoverRequest, SwitchoverTools, UpstreamSettings, outcome_of,
};
use seawall_server::{ServerHandle, Shutdown, UpstreamDial};
use seawall_sql::session::SqlDatabase;

use super::control::{Controlled, SwitchoverAsked};

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two lines in the log about that.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// A server whose role may change.
#[derive(Clone)]
pub(super) struct Roles {
    pub(super) directory: PathBuf,
    pub(super) sql: Arc<SqlDatabase>,
    pub(super) server: ServerHandle,
    /// Whom this server follows when it begins again.
    pub(super) next: Arc<OnceLock<HandoverRecord>>,
    /// The server is being ended.
    pub(super) is_over: Arc<AtomicBool>,
}

impl Controlled for Roles {
    fn promote(&self) -> Result<String, String> {
        let promotion = self.sql.promote("seawall promote").map_err(|error| error.to_string())?;
        let phases = promotion.phases.named().map(|(name, took)| format!(" {name}={}", took.as_micros()));
        Ok(format!("{}{}", promotion.timeline, phases.concat()))
    }

    fn switch_over(&self, asked: &SwitchoverAsked) -> Result<(String, u128), String> {
        let request = SwitchoverRequest {
            to: asked.to.clone(),
            follow: asked.follow.clone(),
            limit: Duration::from_secs(asked.wait_seconds),
        };
        let mut order = [0; 8];
        OsRandom.fill(&mut order);
        let tools = SwitchoverTools {
            dial: &dial,
            now: &|| SystemClock.monotonic(),
            order: format!("{:016x}", u64::from_be_bytes(order)),
        };
        match self.sql.replication.switch_over(&request, tools) {
            Ok(done) => {
                let answer = (done.timeline.to_string(), done.parked.as_millis());
                self.next.get_or_init(|| done.record);
                Ok(answer)
            }
            Err(error) => {
                let why = error.to_string();
                tracing::error!(%error, "there was no switchover");
                if let SwitchoverError::Unknown { record, .. } = error {
                    self.settle(*record);
                }
                Err(why)
            }
        }
    }

    fn answered(&self) {
        if self.next.get().is_some() {
            self.server.end(Shutdown::Fast);
        }
    }
}

impl Roles {
    /// Finds out what became of a role that was handed over, on a thread of its own.
    pub(super) fn settle(&self, record: HandoverRecord) {
        let roles = self.clone();
        let spawned =
            std::thread::Builder::new().name("handover".to_owned()).spawn(move || roles.keep_asking(&record));
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread to ask what became of the switchover: start the server again");
        }
    }

    fn keep_asking(&self, record: &HandoverRecord) {
        let mut reported: Option<Duration> = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let why = match self.ask(record) {
                Ok(HandoverOutcome::Followed(timeline)) => {
                    tracing::warn!(%timeline, "the other server has taken over: this one follows it");
                    self.next.get_or_init(|| record.clone());
                    return self.server.end(Shutdown::Fast);
                }
                Ok(HandoverOutcome::Refused) => match self.sql.engine.handover().take_back() {
                    Ok(()) => {
                        tracing::warn!(
                            "the other server has not taken over: this one goes on as the primary"
                        );
                        return;
                    }
                    Err(error) => error.to_string(),
                },
                Err(why) => why,
            };
            let now = SystemClock.monotonic();
            if reported.is_none_or(|before| now.saturating_sub(before) >= REPORT_INTERVAL) {
                reported = Some(now);
                tracing::error!(why, file = %self.directory.join("handover").display(),
                    "this server takes no writes before it knows whether the other one has taken over. If that one is gone for good, end this \
                     server, remove the file, and start it again");
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    fn ask(&self, record: &HandoverRecord) -> Result<HandoverOutcome, String> {
        let settings: UpstreamSettings = record.follow.parse().map_err(|error| format!("{error}"))?;
        let dial = dial(&settings)?;
        outcome_of(&self.sql.engine, record, &settings, &*dial).map_err(|error| error.to_string())
    }
}

fn dial(settings: &UpstreamSettings) -> Result<Box<dyn Dial>, String> {
    let dial = UpstreamDial::new(settings.clone()).map_err(|error| error.to_string())?;
    Ok(Box::new(dial))
}
