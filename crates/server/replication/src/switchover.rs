//! The primary's part in a switchover: writers are parked, the standby gets the rest of the log, and is ordered to go on.
//!
//! ```text
//!   primary                                                 standby
//!   log in there as its standby will, make a slot ------->  (a login that fails, fails before anything is parked)
//!   wait until it lacks little
//!   park writers: the log ends at E
//!   wait until it has applied E   <----- acknowledgement -- received, durable, applied
//!   put on record: handed over at E
//!   SEAWALL_TAKE_OVER order at E  ---------------------->   is at E? --> promotion
//!   refuse writers, restart as its standby  <---- timeline --
//! ```
//! Where the answer to the order does not come, or is an error, `SEAWALL_CANCEL_TAKE_OVER` asks what became of it, and the answer counts: the
//! standby is a primary, or never follows the order any more. Until that is known this server writes nothing. Its restart asks, too.

use std::time::Duration;

use seawall_engine::{Database, Error, HandoverRecord};
use seawall_types::{Lsn, TimelineId};

use crate::client::{Client, Dial};
use crate::connect::connect;
use crate::follower::system_identifier;
use crate::settings::{TargetServer, UpstreamSettings, UpstreamSettingsError};
use crate::status::{Replication, SenderStatus};
use crate::take_over::TakenOver;
use crate::upstream::{FollowError, identify, renew_slot};

/// Writers are parked when the standby lacks no more than this.
const NEAR_BYTES: u64 = 256 << 10;
const TAKE_OVER: &str = "SEAWALL_TAKE_OVER";
const CANCEL: &str = "SEAWALL_CANCEL_TAKE_OVER";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct SwitchoverRequest {
    /// The standby, by its `application_name`; `None`: the only one.
    pub to: Option<String>,
    /// How this server is to follow it, in the words of `--follow`; `None`: at the address that it has said, under its name and with its slot's.
    pub follow: Option<String>,
    /// How long the standby may take to come near, and then how long writers are parked.
    pub limit: Duration,
}

/// A switchover that was made: this server takes no more writes, and is to follow the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedOver {
    /// The timeline of the new primary.
    pub timeline: TimelineId,
    /// What was ordered: how the new primary is to be followed.
    pub record: HandoverRecord,
    /// How long writers were parked.
    pub parked: Duration,
}

/// Why there is no switchover.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchoverError {
    /// No standby of the name is there, or none at all.
    #[error("no standby {}streams from this server; these do: {}", named(.wanted.as_deref()), listed(.found))]
    NoStandby {
        /// The name asked for.
        wanted: Option<String>,
        /// Those that are there.
        found: Vec<String>,
    },
    /// There are several.
    #[error("several standbys stream from this server ({}): say which one is to take over", listed(.found))]
    Several {
        /// Those that are there.
        found: Vec<String>,
    },
    /// It is not known how to reach the standby.
    #[error(
        "the standby {standby} has not said where it listens: say how this server is to follow it, as in \"host=standby port=5432\""
    )]
    NoAddress {
        /// Its name.
        standby: String,
    },
    /// The settings are wrong.
    #[error("how to follow the standby: {0}")]
    Settings(#[from] UpstreamSettingsError),
    /// There is no way to connect with these settings.
    #[error("how to follow the standby: {0}")]
    Dial(String),
    /// The standby cannot be reached, or is another server.
    #[error("this server could not follow the standby at {upstream}: {source}")]
    Unreachable {
        /// Where.
        upstream: String,
        /// Why.
        source: Box<FollowError>,
    },
    /// The server at the address does not follow this one.
    #[error("the server at {upstream} is no standby on timeline {timeline}")]
    NotStandby {
        /// Where.
        upstream: String,
        /// The timeline of this server.
        timeline: TimelineId,
    },
    /// The standby is too far behind, or has gone.
    #[error(
        "the standby {standby} has not come to {wanted} within {limit:?}: this server goes on as the primary"
    )]
    Behind {
        /// Its name.
        standby: String,
        /// Where it was to be.
        wanted: Lsn,
        /// How long that was waited for.
        limit: Duration,
    },
    /// The standby has not taken over.
    #[error("the standby {standby} has not taken over ({why}): this server goes on as the primary")]
    Refused {
        /// Its name.
        standby: String,
        /// What it says.
        why: String,
    },
    /// The standby was ordered to take over, and it is not known whether it has.
    #[error(
        "the standby {standby} was ordered to take over and does not answer ({why}): this server takes no writes until it does, and then follows \
         it or goes on"
    )]
    Unknown {
        /// Its name.
        standby: String,
        /// Why there is no answer.
        why: String,
        /// What was ordered.
        record: Box<HandoverRecord>,
    },
    /// What the engine says.
    #[error(transparent)]
    Database(#[from] Error),
}

fn named(wanted: Option<&str>) -> String {
    wanted.map_or_else(String::new, |name| format!("{name} "))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Makes connections for settings; why not, in words.
pub type DialFor<'a> = &'a dyn Fn(&UpstreamSettings) -> Result<Box<dyn Dial>, String>;

/// What a switchover needs of its surroundings.
pub struct SwitchoverTools<'a> {
    /// Makes connections for settings.
    pub dial: DialFor<'a>,
    /// Time since some moment.
    pub now: &'a dyn Fn() -> Duration,
    /// A name for the order that no other one has.
    pub order: String,
}

impl Replication {
    /// Hands the role of this server over to a standby. On success, and with `Unknown`, this server takes no more writes; with any other
    /// error it goes on as the primary.
    ///
    /// # Errors
    /// `SwitchoverError`.
    pub fn switch_over(
        &self,
        request: &SwitchoverRequest,
        tools: SwitchoverTools<'_>,
    ) -> Result<SwitchedOver, SwitchoverError> {
        let sender = self.standby_to_take_over(request.to.as_deref())?;
        let slot = self.slot_of(sender.process_id);
        let follow = match &request.follow {
            Some(follow) => follow.clone(),
            None => follow_of(&sender, slot.as_deref())?,
        };
        let mut settings: UpstreamSettings = follow.parse()?;
        if settings.hosts.len() != 1 {
            return Err(SwitchoverError::Dial("give the one host that is to take over".to_owned()));
        }
        // It is a standby for now.
        settings.target = TargetServer::Any;
        let limit = request.limit;
        let switchover = Switchover { replication: self, sender, slot, settings, follow, limit, tools };
        switchover.make()
    }

    fn standby_to_take_over(&self, wanted: Option<&str>) -> Result<SenderStatus, SwitchoverError> {
        // What does not apply, such as `pg_receivewal`, is no standby.
        let is_standby = |sender: &SenderStatus| sender.is_streaming && sender.progress.applied > Lsn::ZERO;
        let standbys: Vec<SenderStatus> = self.senders().into_iter().filter(is_standby).collect();
        let found: Vec<String> = standbys.iter().map(|standby| standby.application_name.clone()).collect();
        let fits = |standby: &SenderStatus| wanted.is_none_or(|name| standby.application_name == name);
        let mut fitting = standbys.into_iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(standby), None) => Ok(standby),
            (None, _) => Err(SwitchoverError::NoStandby { wanted: wanted.map(str::to_owned), found }),
            (Some(_), Some(_)) => Err(SwitchoverError::Several { found }),
        }
    }
}

/// How a standby is reached where it has said, under its own name.
fn follow_of(standby: &SenderStatus, slot: Option<&str>) -> Result<String, SwitchoverError> {
    let name = &standby.application_name;
    let listens = standby.listens.as_ref();
    let listens = listens.ok_or_else(|| SwitchoverError::NoAddress { standby: name.clone() })?;
    let host = match (&standby.client, &listens.socket_directory) {
        (Some((address, _)), _) => address.clone(),
        (None, Some(directory)) => directory.clone(),
        (None, None) => return Err(SwitchoverError::NoAddress { standby: name.clone() }),
    };
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let slot = slot.unwrap_or("standby");
    Ok(format!(
        "host={} port={} user={} application_name={} slot={}",
        quoted(&host),
        listens.port,
        quoted(&standby.user),
        quoted(name),
        quoted(slot)
    ))
}

struct Switchover<'a> {
    replication: &'a Replication,
    sender: SenderStatus,
    /// The one that it follows this server by.
    slot: Option<String>,
    settings: UpstreamSettings,
    follow: String,
    limit: Duration,
    tools: SwitchoverTools<'a>,
}

impl Switchover<'_> {
    fn database(&self) -> &Database {
        self.replication.database()
    }

    fn make(self) -> Result<SwitchedOver, SwitchoverError> {
        let handover = self.database().handover();
        let timeline = self.database().log().timeline();
        let dial = (self.tools.dial)(&self.settings).map_err(SwitchoverError::Dial)?;
        let mut client = self.reach(&*dial, timeline)?;
        let near = Lsn::new(self.database().log().flushed().get().saturating_sub(NEAR_BYTES));
        self.wait_for_standby(near, (self.tools.now)())?;
        let begun = (self.tools.now)();
        let end = handover.park(self.limit)?;
        let record = HandoverRecord {
            timeline,
            end,
            order: self.tools.order.clone(),
            follow: self.follow.clone(),
            slot: self.slot.clone(),
        };
        let ready = self
            .wait_for_standby(end, begun)
            .and_then(|()| Ok::<_, SwitchoverError>(handover.record(&record)?));
        if let Err(error) = ready {
            // Nothing was ordered.
            handover.take_back().map_err(|error| self.unknown(&record, error.to_string()))?;
            return Err(error);
        }
        let order = format!("{TAKE_OVER} '{}' TIMELINE {timeline} AT {end}", record.order);
        let answered = client.command(&order).map_err(FollowError::from).and_then(|rows| promoted(&rows));
        let outcome = match answered {
            Ok(timeline) => Ok(timeline),
            Err(refused) => self.settle(&record, &*dial, begun, refused),
        };
        let parked = (self.tools.now)().saturating_sub(begun);
        outcome.map(|timeline| {
            handover.refuse_writers();
            tracing::warn!(standby = self.sender.application_name, %timeline, fork = %end, ?parked,
                "the role of the primary was handed over: this server becomes a standby");
            SwitchedOver { timeline, record, parked }
        })
    }

    /// Logs in to the standby as it is to be followed, and makes the slot: the log is kept from then on.
    fn reach(&self, dial: &dyn Dial, timeline: TimelineId) -> Result<Client, SwitchoverError> {
        let unreachable = |source: FollowError| SwitchoverError::Unreachable {
            upstream: self.settings.to_string(),
            source: Box::new(source),
        };
        let (mut client, _) = connect(&self.settings, dial, 0).map_err(|error| unreachable(error.into()))?;
        let found = identify(&mut client).map_err(unreachable)?;
        let expected = system_identifier(self.database())?;
        if found.system != expected {
            return Err(unreachable(FollowError::OtherDatabase { found: found.system, expected }));
        }
        if !client.is_standby() || found.timeline != timeline {
            return Err(SwitchoverError::NotStandby { upstream: self.settings.to_string(), timeline });
        }
        renew_slot(&mut client, &self.settings.slot).map_err(unreachable)?;
        Ok(client)
    }

    /// Waits until the standby has applied the log up to `wanted`.
    fn wait_for_standby(&self, wanted: Lsn, begun: Duration) -> Result<(), SwitchoverError> {
        let process_id = self.sender.process_id;
        let has_come = |sender: &SenderStatus| sender.progress.flushed.min(sender.progress.applied) >= wanted;
        let left = || self.limit.saturating_sub((self.tools.now)().saturating_sub(begun));
        if self.replication.wait_for_sender(process_id, has_come, left) {
            return Ok(());
        }
        let standby = self.sender.application_name.clone();
        Err(SwitchoverError::Behind { standby, wanted, limit: self.limit })
    }

    /// Writers are refused until the outcome is known.
    fn unknown(&self, record: &HandoverRecord, why: String) -> SwitchoverError {
        self.database().handover().refuse_writers();
        let standby = self.sender.application_name.clone();
        SwitchoverError::Unknown { standby, why, record: Box::new(record.clone()) }
    }

    /// The order was not answered, or refused: asks what became of it, as long as writers may be parked.
    fn settle(
        &self,
        record: &HandoverRecord,
        dial: &dyn Dial,
        begun: Duration,
        refused: FollowError,
    ) -> Result<TimelineId, SwitchoverError> {
        loop {
            match outcome_of(self.database(), record, &self.settings, dial) {
                Ok(HandoverOutcome::Followed(timeline)) => return Ok(timeline),
                Ok(HandoverOutcome::Refused) => {
                    let taken_back = self.database().handover().take_back();
                    taken_back.map_err(|error| self.unknown(record, error.to_string()))?;
                    let standby = self.sender.application_name.clone();
                    return Err(SwitchoverError::Refused { standby, why: refused.to_string() });
                }
                Err(error) => {
                    let left = self.limit.saturating_sub((self.tools.now)().saturating_sub(begun));
                    if left.is_zero() {
                        return Err(self.unknown(record, error.to_string()));
                    }
                    tracing::warn!(%error, "the standby that was ordered to take over cannot be asked whether it has");
                    std::thread::park_timeout(left.min(ASK_AGAIN));
                }
            }
        }
    }
}

/// Between two questions what became of an order.
const ASK_AGAIN: Duration = Duration::from_millis(200);

fn promoted(rows: &[Vec<Option<String>>]) -> Result<TimelineId, FollowError> {
    let timeline = match rows.first().map(Vec::as_slice) {
        Some([Some(timeline)]) => timeline.parse().ok().and_then(TimelineId::new),
        _ => None,
    };
    timeline.ok_or_else(|| FollowError::Answer { command: TAKE_OVER, answer: format!("{rows:?}") })
}

/// What became of a role that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverOutcome {
    /// Another server goes on, on this timeline: it is to be followed.
    Followed(TimelineId),
    /// The order is not followed, now or later: the role is this server's.
    Refused,
}

/// Asks the standby what became of an order; one that was not followed is cancelled.
///
/// # Errors
/// It cannot be asked now, or does not know before its next start.
pub fn outcome_of(
    database: &Database,
    record: &HandoverRecord,
    settings: &UpstreamSettings,
    dial: &dyn Dial,
) -> Result<HandoverOutcome, FollowError> {
    let (mut client, _) = connect(settings, dial, 0)?;
    let found = identify(&mut client)?;
    let expected = system_identifier(database)?;
    if found.system != expected {
        return Err(FollowError::OtherDatabase { found: found.system, expected });
    }
    let rows = client.command(&format!("{CANCEL} '{}'", record.order))?;
    match parse_taken_over(&rows) {
        // A standby that follows a third server on its timeline: that one is to be followed.
        Some(TakenOver::Promoted(timeline) | TakenOver::Cancelled(timeline))
            if timeline != record.timeline =>
        {
            Ok(HandoverOutcome::Followed(timeline))
        }
        Some(TakenOver::Cancelled(_)) => Ok(HandoverOutcome::Refused),
        _ => Err(FollowError::Answer { command: CANCEL, answer: format!("{rows:?}") }),
    }
}

fn parse_taken_over(rows: &[Vec<Option<String>>]) -> Option<TakenOver> {
    let Some([Some(role), Some(timeline)]) = rows.first().map(Vec::as_slice) else { return None };
    let timeline = TimelineId::new(timeline.parse().ok()?)?;
    match role.as_str() {
        "standby" => Some(TakenOver::Cancelled(timeline)),
        "primary" => Some(TakenOver::Promoted(timeline)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Progress;
    use crate::settings::Listens;

    #[test]
    fn a_standby_is_reached_where_it_has_said_and_under_its_name() {
        let mut standby = SenderStatus {
            process_id: 1,
            user: "o'neil".to_owned(),
            application_name: "first".to_owned(),
            client: Some(("10.0.0.7".to_owned(), 40_000)),
            listens: Some(Listens { port: 5433, socket_directory: Some("/tmp".to_owned()) }),
            began_micros: 0,
            is_streaming: true,
            sent: Lsn::ZERO,
            progress: Progress::default(),
            reply_micros: None,
            lag: crate::lag::Lag::default(),
            behind_since_micros: None,
        };
        let settings: UpstreamSettings = follow_of(&standby, Some("s")).unwrap().parse().unwrap();
        assert_eq!((settings.hosts[0].name.as_str(), settings.hosts[0].port), ("10.0.0.7", 5433));
        assert_eq!((settings.user.as_str(), settings.application_name.as_str()), ("o'neil", "first"));
        assert_eq!(settings.slot, "s");
        standby.client = None;
        let settings: UpstreamSettings = follow_of(&standby, None).unwrap().parse().unwrap();
        assert_eq!((settings.hosts[0].name.as_str(), settings.slot.as_str()), ("/tmp", "standby"));
        standby.listens = None;
        assert!(matches!(follow_of(&standby, None), Err(SwitchoverError::NoAddress { .. })));
    }

    #[test]
    fn answers_are_read_and_others_are_none() {
        let row = |role: &str, timeline: &str| vec![vec![Some(role.to_owned()), Some(timeline.to_owned())]];
        let timeline = TimelineId::new(2).unwrap();
        assert_eq!(parse_taken_over(&row("standby", "2")), Some(TakenOver::Cancelled(timeline)));
        assert_eq!(parse_taken_over(&row("primary", "2")), Some(TakenOver::Promoted(timeline)));
        assert_eq!(parse_taken_over(&row("else", "2")), None);
        assert_eq!(parse_taken_over(&row("primary", "0")), None);
        assert_eq!(parse_taken_over(&[]), None);
        assert_eq!(promoted(&[vec![Some("2".to_owned())]]).unwrap(), timeline);
        assert!(promoted(&[vec![None]]).is_err());
    }
}
