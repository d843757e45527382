//! A standby at work: receives, makes durable, acknowledges, and connects again when a connection ends.
//!
//! ```text
//!   receiving thread: connect --> receive .. --> sync --> acknowledge --> what is applied --> acknowledge
//!        ^               |          |             |
//!        |               ^          |             +--> the engine's applier --> readers see it
//!        +-- back-off <--|-- error -+
//!        ^               +------- the timeline's end: the next one, over the same connection
//!        +------ the upstream lacks the log, or is away: an archive gives it (`archived`)
//! ```
//! Of several hosts, the first that answers is the upstream; one that answers and is of no use is passed over by the next attempt.
//! A batch is synced once: what the upstream had when it sent the first message of it, up to 8 MiB. What is acknowledged as durable is durable here.
//! When the database is promoted, the thread ends.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_engine::{Database, Error, Standby, TimelineHistory};
use seawall_types::{Lsn, TimelineId};

use crate::archived::{Archive, Fetched, Until};
use crate::client::{Client, ClientError, Dial, Streamed};
use crate::connect::connect;
use crate::message::{self, FromSender, Progress};
use crate::rejoin::system_identifier_of;
use crate::sabotage::{Defect, sabotaged};
use crate::settings::UpstreamSettings;
use crate::status::{ReceiverStatus, Replication};
use crate::upstream::{FollowError, SlotState, ensure_slot, identify, renew_slot, timeline_history};

/// Between two attempts to connect: doubled from the first to the last.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// The upstream hears of this server at least so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// An upstream that is silent for so long is given up: it says that it lives every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The wait for messages, while everything that came is applied, and while it is not, at first: its end is acknowledged then.
const WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(2));
/// What was synced is applied soon, mostly: a thread that has nothing to receive waits so long to acknowledge that, too.
const APPLY_WAIT: Duration = Duration::from_millis(1);
/// A batch is synced at the latest when it has so many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// Or has been coming for so long.
const BATCH_MICROS: i64 = 20_000;
/// Or when more of it is on the way, and does not come for so long.
const BATCH_WAIT: Duration = Duration::from_millis(2);
/// The upstream's log may end behind a header page that is sent with the record which follows.
const HEADER_PAGE_BYTES: u64 = 4096;
/// An upstream that gives nothing for so long, and does not say that it lacks the log, is away: the archive is asked.
const AWAY_AFTER: Duration = Duration::from_secs(5);

/// The thread of a standby that receives. Dropped, it ends.
pub struct Follower {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    replication: Arc<Replication>,
    settings: UpstreamSettings,
    dial: Box<dyn Dial>,
    archive: Option<Archive>,
    now_micros: fn() -> i64,
    promoted: Box<dyn Fn() + Send + Sync>,
    /// The thread is to end.
    is_to_end: Mutex<bool>,
    has_ended: Condvar,
}

impl Follower {
    /// Begins to follow. `archive` has the log that the upstream does not give; `now_micros` is the time in microseconds since 1970;
    /// `promoted` is called once the database was promoted.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        replication: Arc<Replication>,
        settings: UpstreamSettings,
        dial: Box<dyn Dial>,
        archive: Option<Archive>,
        now_micros: fn() -> i64,
        promoted: Box<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<Follower> {
        let (is_to_end, has_ended) = (Mutex::new(false), Condvar::new());
        let shared =
            Shared { replication, settings, dial, archive, now_micros, promoted, is_to_end, has_ended };
        let shared = Arc::new(shared);
        let receiving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("receive".to_owned())
            .spawn(move || receiving.keep_receiving())?;
        Ok(Follower { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread, and returns when it has ended.
    pub fn end(&self) {
        *self.shared.is_to_end.lock() = true;
        self.shared.has_ended.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the standby has panicked");
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a connection came to.
struct Attempt {
    /// The host that is tried first, and then the one that was connected to.
    host: usize,
    has_received: bool,
    /// How far an archive is followed on this standby's timeline, as far as the upstream has said.
    until: Until,
}

impl Shared {
    fn database(&self) -> &Database {
        self.replication.database()
    }

    /// Whether there is nothing left to follow with.
    fn is_over(&self) -> bool {
        *self.is_to_end.lock() || self.database().standby().is_none()
    }

    fn note(&self, change: impl FnOnce(&mut ReceiverStatus)) {
        self.replication.note_receiver(|status| {
            if let Some(status) = status {
                change(status);
            }
        });
    }

    fn keep_receiving(&self) {
        let (mut back_off, mut first_host) = (BACK_OFF.0, 0);
        let mut heard_micros = (self.now_micros)();
        let mut refused_at = None;
        while !self.is_over() {
            let mut attempt = Attempt { host: first_host, has_received: false, until: Until::Unknown };
            let ended = self.receive(&mut attempt);
            let Attempt { host, mut has_received, until } = attempt;
            // Log that is refused at one place again was not received: another host, or the archive, may have other bytes.
            if ended.as_ref().is_err_and(FollowError::is_log_refused) {
                let place = self.place_of_durable_log();
                has_received &= refused_at != place;
                refused_at = place;
            }
            first_host = if has_received { 0 } else { host + 1 };
            if self.is_over() {
                break;
            }
            if has_received || (self.now_micros)() < heard_micros {
                // Or the clock was set back.
                heard_micros = (self.now_micros)();
            }
            // If the archive gives something, there may be more of it at the upstream by now.
            let Err(error) = ended.or_else(|error| self.fetch(until, error, heard_micros)) else { continue };
            tracing::warn!(%error, upstream = %self.settings, "the stream from the upstream ends");
            self.note(|status| {
                (status.state, status.last_error) = ("waiting", Some(error.to_string()));
                status.failures += 1;
            });
            back_off = if has_received { BACK_OFF.0 } else { (back_off * 2).min(BACK_OFF.1) };
            self.rest(back_off);
        }
        self.replication.note_receiver(|status| *status = None);
        if self.database().standby().is_none() {
            (self.promoted)();
        }
        tracing::info!("this server does not receive any more");
    }

    /// Receives what the archive has, if it is to be asked now. An error if it has nothing more: that of the upstream, which has said
    /// something last at `heard_micros`, and why none comes from the archive either.
    fn fetch(&self, until: Until, upstream: FollowError, heard_micros: i64) -> Result<(), FollowError> {
        let silent = (self.now_micros)().saturating_sub(heard_micros);
        let is_away = silent > i64::try_from(AWAY_AFTER.as_micros()).unwrap_or(i64::MAX);
        let Some(archive) = self.archive.as_ref().filter(|_| is_away || upstream.is_log_removed()) else {
            return Err(upstream);
        };
        let mut note = |durable| {
            self.note(|status| {
                if std::mem::replace(&mut status.state, "archive") != "archive" {
                    tracing::warn!(error = %upstream, "the upstream does not give the log; it is received from the archive");
                    status.last_error = Some(upstream.to_string());
                }
                (status.progress.written, status.progress.flushed) = (durable, durable);
            });
        };
        match archive.fetch(self.database(), until, &mut note, &|| self.is_over()) {
            Ok(Fetched::Log { from, to }) => tracing::info!(%from, %to, "log was received from the archive"),
            Ok(Fetched::Timeline(timeline)) => {
                tracing::warn!(error = %upstream, %timeline, "the upstream is away; the archive has the next timeline");
            }
            Ok(Fetched::Over) => {}
            Err(_) if self.is_over() => {}
            Ok(Fetched::Nothing(problem)) if problem.is_empty() => return Err(upstream),
            Ok(Fetched::Nothing(problem)) => {
                return Err(FollowError::Archive { upstream: Box::new(upstream), problem });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sleeps, unless the thread is to end.
    fn rest(&self, limit: Duration) {
        let mut is_to_end = self.is_to_end.lock();
        if !*is_to_end && self.database().standby().is_some() {
            self.has_ended.wait_for(&mut is_to_end, limit);
        }
    }

    /// One connection, from its beginning to its end: of one timeline after the other. Without an error only where this standby ends.
    fn receive(&self, attempt: &mut Attempt) -> Result<(), FollowError> {
        let own = self.database().log().timeline();
        self.replication.note_receiver(|status| {
            let status = status.get_or_insert_with(|| self.new_status(own));
            (status.state, status.timeline) = ("connecting", own);
        });
        let (mut client, host) = connect(&self.settings, &*self.dial, attempt.host)?;
        attempt.host = host;
        let host = &self.settings.hosts[host];
        self.note(|status| status.address = (host.name.clone(), host.port));
        self.say_where(&mut client)?;
        let mut turns_in_vain = 0;
        while !self.is_over() {
            let before = self.place()?;
            self.receive_timeline(&mut client, attempt)?;
            // A stream that brought nothing may have ended because the timeline did: the next turn goes on to another one.
            turns_in_vain = if self.place()? == before { turns_in_vain + 1 } else { 0 };
            if turns_in_vain > 1 && !self.is_over() {
                return Err(FollowError::EndsStreams);
            }
        }
        Ok(())
    }

    /// How far this standby has come, with all whole records that it has received; `None` if that cannot be said.
    fn place_of_durable_log(&self) -> Option<(TimelineId, Lsn)> {
        let end = self.database().standby()?.sync().ok()?;
        Some((self.database().log().timeline(), end))
    }

    /// How far this standby has come: its timeline, and what it wants next.
    fn place(&self) -> Result<(TimelineId, Lsn), FollowError> {
        let wanted = self.database().standby().map_or(Ok(Lsn::MAX), |standby| standby.wanted())?;
        Ok((self.database().log().timeline(), wanted))
    }

    /// Receives the timeline that this standby is on, up to its end; or goes on to the next one, if it has all of that.
    fn receive_timeline(&self, client: &mut Client, attempt: &mut Attempt) -> Result<(), FollowError> {
        let own = self.database().log().timeline();
        attempt.until = Until::Unknown;
        self.note(|status| (status.state, status.timeline) = ("connecting", own));
        let upstream = identify(client)?;
        let expected = system_identifier(self.database())?;
        if upstream.system != expected {
            return Err(FollowError::OtherDatabase { found: upstream.system, expected });
        }
        let Some(standby) = self.database().standby() else { return Ok(()) };
        let needed = standby.copied_on()?.map_or(own, |copied_on| copied_on.max(own));
        if upstream.timeline < needed {
            return Err(FollowError::OldTimeline { found: upstream.timeline, own: needed });
        }
        let slot = &self.settings.slot;
        if ensure_slot(client, slot)? == SlotState::Lost {
            if self.archive.is_none() {
                return Err(FollowError::SlotLost { slot: slot.clone() });
            }
            // What it lacks comes from the archive, and the upstream keeps what comes after.
            tracing::warn!(slot, "the slot is lost: it is made anew");
            renew_slot(client, slot)?;
        }
        // The first timeline has no history; of a later one, another server may have one of the same number.
        attempt.until = Until::End;
        if upstream.timeline != TimelineId::FIRST {
            attempt.until = Until::Nothing;
            let history = timeline_history(client, upstream.timeline)?;
            if let Some(fork) = standby.left_for(&history)? {
                attempt.until = Until::Fork(fork);
                if self.goes_on(client, standby, history, fork)? {
                    attempt.has_received = true;
                    return Ok(());
                }
                standby.forget_record_across(fork)?;
            } else {
                attempt.until = Until::End;
            }
        }
        if upstream.timeline == own {
            standby.forget_record_across(upstream.end)?;
        }
        // What came over the connection before may not be durable yet, and for long nothing may follow it.
        standby.sync()?;
        let from = standby.wanted()?;
        client.begin_stream(&format!("START_REPLICATION SLOT \"{slot}\" PHYSICAL {from} TIMELINE {own}"))?;
        tracing::info!(%from, timeline = %own, upstream = %self.settings, "this standby receives");
        self.note(|status| {
            (status.state, status.last_error) = ("streaming", None);
            (status.started_at, status.started_timeline) = (from, own);
        });
        let mut stream = Stream {
            shared: self,
            client,
            batch: Batch::default(),
            position: from,
            told: None,
            idle: WAIT.1,
            upstream_end: from,
        };
        stream.run(&mut attempt.has_received)
    }

    /// Says where this server listens, for a switchover to it. An upstream that does not know the command needs no answer.
    fn say_where(&self, client: &mut Client) -> Result<(), FollowError> {
        let Some(listens) = &self.settings.listens else { return Ok(()) };
        match client.command(&listens.command()) {
            Ok(_) | Err(ClientError::Refused { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this standby, which has all of its own timeline up to `fork`, is on the next one of the upstream's history now.
    fn goes_on(
        &self,
        client: &mut Client,
        standby: Standby<'_>,
        history: TimelineHistory,
        fork: Lsn,
    ) -> Result<bool, FollowError> {
        let newest = history.timeline;
        let end = match standby.sync() {
            // An attempt before this one has ended it, and failed later.
            Err(Error::Closed) => self.database().log().flushed(),
            synced => synced?,
        };
        if end > fork {
            return Err(Error::BeyondFork { end, fork, timeline: newest }.into());
        }
        if end < fork {
            return Ok(false);
        }
        let own = self.database().log().timeline();
        let next = history.forks.iter().skip(1).map(|left| left.parent).chain([newest]);
        let next = history.forks.iter().zip(next).find(|(left, _)| left.parent == own);
        let next = next.map_or(newest, |(_, next)| next);
        let history = if next == newest { history } else { timeline_history(client, next)? };
        standby.follow_timeline(&history)?;
        Ok(true)
    }

    fn new_status(&self, timeline: TimelineId) -> ReceiverStatus {
        ReceiverStatus {
            state: "connecting",
            upstream: self.settings.to_string(),
            slot: Some(self.settings.slot.clone()),
            address: self
                .settings
                .hosts
                .first()
                .map(|host| (host.name.clone(), host.port))
                .unwrap_or_default(),
            timeline,
            started_at: Lsn::ZERO,
            started_timeline: timeline,
            end_micros: None,
            progress: Progress::default(),
            upstream_end: Lsn::ZERO,
            message_micros: None,
            last_error: None,
            failures: 0,
        }
    }
}

/// The system identifier of an open database, as PostgreSQL's programs know it.
///
/// # Errors
/// What the engine says.
pub fn system_identifier(database: &Database) -> Result<String, Error> {
    Ok(system_identifier_of(database.info()?.database))
}

/// What was received and is not synced.
#[derive(Debug, Default)]
struct Batch {
    bytes: usize,
    /// The end of the upstream's log when it sent the first of it, and when that came. A later end would be chased for as long as the
    /// upstream writes.
    end: Lsn,
    begun_micros: i64,
}

impl Batch {
    fn add(&mut self, bytes: usize, end: Lsn, now_micros: i64) {
        if self.bytes == 0 {
            (self.end, self.begun_micros) = (end, now_micros);
        }
        self.bytes += bytes;
    }

    /// Whether the upstream is sending more of it than has come up to `position`.
    fn is_on_the_way(&self, position: Lsn) -> bool {
        self.end.get() > position.get().saturating_add(HEADER_PAGE_BYTES)
    }

    fn is_full(&self, now_micros: i64) -> bool {
        self.bytes >= BATCH_BYTES || now_micros.saturating_sub(self.begun_micros) >= BATCH_MICROS
    }
}

/// A stream under way.
struct Stream<'s> {
    shared: &'s Shared,
    client: &'s mut Client,
    batch: Batch,
    /// Behind the last byte that was received.
    position: Lsn,
    /// What the upstream was told last, and when.
    told: Option<(Progress, i64)>,
    /// How long to wait for what came to be applied: longer each time that nothing was. A standby may be paused, or kept behind for hours.
    idle: Duration,
    upstream_end: Lsn,
}

impl Stream<'_> {
    /// Receives until the stream or the standby ends.
    fn run(&mut self, has_received: &mut bool) -> Result<(), FollowError> {
        // Of waits that were in vain: by the time of day, one that was set back would be silence for ever, and one that was set ahead the
        // end of each stream.
        let mut silent = Duration::ZERO;
        self.tell(false)?;
        while !self.shared.is_over() {
            let limit = self.wait_limit();
            match self.client.streamed(limit)? {
                Streamed::Message(message) => {
                    *has_received = true;
                    self.idle = WAIT.1;
                    silent = Duration::ZERO;
                    self.take(&message, (self.shared.now_micros)())?;
                }
                Streamed::Nothing => {
                    self.sync()?;
                    self.tell(false)?;
                    let told = self.told;
                    self.tell_applied()?;
                    self.idle = if self.told == told { (self.idle * 2).min(WAIT.0) } else { WAIT.1 };
                    silent += limit;
                    if silent > SILENCE_MAX {
                        return Err(FollowError::Silent(SILENCE_MAX));
                    }
                }
                Streamed::Done => {
                    // The timeline has ended, and the next one waits.
                    *has_received = true;
                    self.sync()?;
                    return Ok(self.client.leave_stream()?);
                }
            }
        }
        Ok(())
    }

    /// How long to wait for a message. What is durable and not applied is acknowledged as soon as it is.
    fn wait_limit(&self) -> Duration {
        if self.batch.bytes > 0 {
            return if self.batch.is_on_the_way(self.position) { BATCH_WAIT } else { Duration::ZERO };
        }
        let has_all = self.told.is_some_and(|(progress, _)| progress.applied >= progress.flushed);
        if has_all { WAIT.0 } else { self.idle }
    }

    fn take(&mut self, message: &[u8], now: i64) -> Result<(), FollowError> {
        let Some(standby) = self.shared.database().standby() else { return Ok(()) };
        match FromSender::parse(message)? {
            FromSender::Data { start, end, sent_micros, bytes } => {
                standby.receive(start, bytes)?;
                self.batch.add(bytes.len(), end, now);
                self.position = Lsn::new(start.get() + bytes.len() as u64);
                self.heard(end, sent_micros, now);
                self.refuse_record_across(standby, end)?;
                if self.batch.is_full(now) {
                    self.sync()?;
                    self.tell(false)?;
                }
            }
            FromSender::KeepAlive { end, sent_micros, wants_answer } => {
                self.heard(end, sent_micros, now);
                self.refuse_record_across(standby, end)?;
                if wants_answer {
                    self.sync()?;
                    self.tell(true)?;
                }
            }
        }
        Ok(())
    }

    /// A record ends where the upstream's log does. One that is to go on there was changed on the way, and what it waits for may never come:
    /// the upstream waits for this standby, perhaps.
    fn refuse_record_across(&self, standby: Standby<'_>, end: Lsn) -> Result<(), FollowError> {
        let has_all = end.get() <= self.position.get().saturating_add(HEADER_PAGE_BYTES);
        if has_all && standby.forget_record_across(end)? {
            return Err(FollowError::RecordAcrossEnd { end });
        }
        Ok(())
    }

    fn heard(&mut self, end: Lsn, sent_micros: i64, now: i64) {
        self.upstream_end = self.upstream_end.max(end);
        self.shared.note(|status| {
            status.message_micros = Some((sent_micros, now));
            if end > status.upstream_end {
                (status.upstream_end, status.end_micros) = (end, Some(now));
            }
        });
    }

    /// Acknowledges what is applied, if that is soon.
    fn tell_applied(&mut self) -> Result<(), FollowError> {
        let database = self.shared.database();
        let Some(standby) = database.standby() else { return Ok(()) };
        let flushed = database.log().flushed();
        if standby.applied() < flushed && standby.wait_applied(flushed, APPLY_WAIT).is_err() {
            // Another error than the time is the applier's to report.
            return Ok(());
        }
        self.tell(false)
    }

    /// Makes durable what has come, and wakes who applies it.
    fn sync(&mut self) -> Result<(), FollowError> {
        if std::mem::take(&mut self.batch).bytes > 0
            && let Some(standby) = self.shared.database().standby()
        {
            standby.sync()?;
        }
        Ok(())
    }

    /// Says how far this server is, if that is news, or is asked for.
    fn tell(&mut self, is_asked: bool) -> Result<(), FollowError> {
        let database = self.shared.database();
        let Some(standby) = database.standby() else { return Ok(()) };
        let flushed = database.log().flushed();
        let applied = if sabotaged(Defect::AppliedToldEarly) { flushed } else { standby.applied() };
        let progress = Progress {
            // In a header page there is nothing to write.
            written: standby.wanted()?.max(flushed),
            flushed,
            applied: applied.min(flushed),
        };
        let now = (self.shared.now_micros)();
        let interval = i64::try_from(STATUS_INTERVAL.as_micros()).unwrap_or(i64::MAX);
        let is_news =
            self.told.is_none_or(|(before, at)| before != progress || now.saturating_sub(at) >= interval);
        if is_news || is_asked {
            let apply_error = standby.statistics()?.last_error.map(|error| error.to_string());
            self.shared.note(|status| {
                status.progress = progress;
                status.last_error = apply_error;
            });
            self.client.send_streamed(&message::status(progress, now, false))?;
            self.told = Some((progress, now));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_only_for_what_the_upstream_has() {
        let at = Lsn::new(0x0100_0000);
        let of = |end| {
            let mut batch = Batch::default();
            batch.add(10, Lsn::new(end), 0);
            batch
        };
        assert!(!of(at.get()).is_on_the_way(at), "all has come");
        assert!(
            !of(at.get() + HEADER_PAGE_BYTES).is_on_the_way(at),
            "all but the header page of the next segment"
        );
        let mut batch = of(at.get() + HEADER_PAGE_BYTES + 1);
        assert!(batch.is_on_the_way(at));
        // The upstream writes on, and faster than it sends.
        let (later, end) = (Lsn::new(at.get() + 10), Lsn::new(at.get() + (1 << 30)));
        batch.add(10, end, 1);
        assert!(!batch.is_on_the_way(later));
        assert!(!batch.is_full(BATCH_MICROS - 1));
        assert!(batch.is_full(BATCH_MICROS));
        batch.add(BATCH_BYTES, end, 1);
        assert!(batch.is_full(1));
    }
}
