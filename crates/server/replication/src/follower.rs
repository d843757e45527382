//! A standby at work: receives, makes durable, acknowledges, applies, and connects again when a connection ends.
//!
//! ```text
//!   receiving thread: connect --> receive .. --> sync --> acknowledge --+--> wakes the applying thread
//!        ^                          |                                   |
//!        +-- back-off <-- any error +                applying thread: apply --> readers see it
//! ```
//! A batch is what has come by the time that it is looked at: it is synced once. What is acknowledged as durable is durable here.
//! When the database is promoted, both threads end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_engine::{Database, Error};
use seawall_types::{Lsn, TimelineId};

use crate::client::{Client, ClientError, Dial, Streamed};
use crate::message::{self, FromSender, MessageError, Progress};
use crate::settings::UpstreamSettings;
use crate::status::{ReceiverStatus, Replication};

/// Between two attempts to connect: doubled from the first to the last.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// The upstream hears of this server at least so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// An upstream that is silent for so long is given up: it says that it lives every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The wait for messages, while everything that came is applied, and while it is not: its end is acknowledged then.
const WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(2));
/// A batch is synced at the latest when it has so many bytes.
const BATCH_BYTES: usize = 8 << 20;

/// Why a connection to the upstream ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The connection.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The upstream has another database.
    #[error("the upstream has the database {found}, and this standby is a copy of {expected}")]
    OtherDatabase {
        /// Its system identifier.
        found: String,
        /// That of this server.
        expected: String,
    },
    /// The upstream is on an older timeline.
    #[error(
        "the upstream is on timeline {found}, and this standby follows the newer timeline {own}: point it to the newer primary"
    )]
    OldTimeline {
        /// That of the upstream.
        found: TimelineId,
        /// That of this standby.
        own: TimelineId,
    },
    /// The timeline has ended.
    #[error(
        "timeline {own} ended at {end}, and the upstream has gone on to timeline {next}: make this standby anew from the upstream"
    )]
    TimelineEnded {
        /// The timeline.
        own: TimelineId,
        /// Where this standby has come.
        end: Lsn,
        /// The upstream's timeline.
        next: TimelineId,
    },
    /// The upstream is silent.
    #[error("the upstream has said nothing for {0:?}")]
    Silent(Duration),
    /// An answer of the upstream is not as expected.
    #[error("the upstream answers {command} with {answer}")]
    Answer {
        /// The command.
        command: &'static str,
        /// The answer.
        answer: String,
    },
    /// This server's engine.
    #[error(transparent)]
    Database(#[from] Error),
}

/// The two threads of a standby. Dropped, it ends them.
pub struct Follower {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    replication: Arc<Replication>,
    settings: UpstreamSettings,
    dial: Box<dyn Dial>,
    now_micros: fn() -> i64,
    promoted: Box<dyn Fn() + Send + Sync>,
    is_to_end: AtomicBool,
    /// Something was made durable, or the threads are to end.
    news: Mutex<u64>,
    has_news: Condvar,
}

impl Follower {
    /// Begins to follow. `now_micros` is the time in microseconds since 1970; `promoted` is called once the database was promoted.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        replication: Arc<Replication>,
        settings: UpstreamSettings,
        dial: Box<dyn Dial>,
        now_micros: fn() -> i64,
        promoted: Box<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<Follower> {
        let (is_to_end, news, has_news) = (AtomicBool::new(false), Mutex::new(0), Condvar::new());
        let shared =
            Arc::new(Shared { replication, settings, dial, now_micros, promoted, is_to_end, news, has_news });
        let follower = Follower { shared, threads: Mutex::default() };
        for (name, work) in
            [("receive", Shared::keep_receiving as fn(&Shared)), ("apply", Shared::keep_applying)]
        {
            let shared = Arc::clone(&follower.shared);
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared))?;
            follower.threads.lock().push(thread);
        }
        Ok(follower)
    }

    /// Ends both threads, and returns when they have ended.
    pub fn end(&self) {
        self.shared.is_to_end.store(true, Ordering::SeqCst);
        self.shared.tell();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("a thread of the standby has panicked");
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn database(&self) -> &Database {
        self.replication.database()
    }

    /// Whether there is nothing left to follow with.
    fn is_over(&self) -> bool {
        self.is_to_end.load(Ordering::SeqCst) || self.database().standby().is_none()
    }

    fn tell(&self) {
        *self.news.lock() += 1;
        self.has_news.notify_all();
    }

    /// Sleeps until there are other news than `seen`, at most for `limit`.
    fn wait(&self, seen: &mut u64, limit: Duration) {
        let mut news = self.news.lock();
        if *news == *seen && !self.is_over() {
            self.has_news.wait_for(&mut news, limit);
        }
        *seen = *news;
    }

    fn keep_applying(&self) {
        let mut seen = 0;
        let mut told = None;
        while let Some(standby) = self.database().standby().filter(|_| !self.is_to_end.load(Ordering::SeqCst))
        {
            match standby.apply() {
                Ok(_) => told = None,
                Err(Error::Closed | Error::Stopped { .. }) if self.is_over() => return,
                Err(error) => {
                    let text = error.to_string();
                    if told.as_ref() != Some(&text) {
                        tracing::error!(%error, "this standby does not apply what it receives");
                        self.note(|status| status.last_error = Some(text.clone()));
                    }
                    told = Some(text);
                }
            }
            self.wait(&mut seen, BACK_OFF.1);
        }
    }

    fn note(&self, change: impl FnOnce(&mut ReceiverStatus)) {
        self.replication.note_receiver(|status| {
            if let Some(status) = status {
                change(status);
            }
        });
    }

    fn keep_receiving(&self) {
        let mut back_off = BACK_OFF.0;
        while !self.is_over() {
            let mut has_received = false;
            let ended = self.receive(&mut has_received);
            if self.is_over() {
                break;
            }
            if let Err(error) = ended {
                tracing::warn!(%error, upstream = %self.settings, "the stream from the upstream ends");
                self.note(|status| (status.state, status.last_error) = ("waiting", Some(error.to_string())));
            }
            back_off = if has_received { BACK_OFF.0 } else { (back_off * 2).min(BACK_OFF.1) };
            self.rest(back_off);
        }
        self.replication.note_receiver(|status| *status = None);
        if self.database().standby().is_none() {
            (self.promoted)();
        }
        tracing::info!("this server does not receive any more");
    }

    /// Sleeps, unless the threads are to end.
    fn rest(&self, limit: Duration) {
        let mut news = self.news.lock();
        if !self.is_over() {
            self.has_news.wait_for(&mut news, limit);
        }
    }

    /// One connection, from its beginning to its end.
    fn receive(&self, has_received: &mut bool) -> Result<(), FollowError> {
        let own = self.database().log().timeline();
        self.replication.note_receiver(|status| {
            status.get_or_insert_with(|| self.new_status(own)).state = "connecting";
        });
        let wire = self.dial.dial().map_err(ClientError::from)?;
        let mut client = Client::log_in(wire, &self.settings)?;
        let upstream = identify(&mut client)?;
        let expected = system_identifier(self.database())?;
        if upstream.system != expected {
            return Err(FollowError::OtherDatabase { found: upstream.system, expected });
        }
        if upstream.timeline < own {
            return Err(FollowError::OldTimeline { found: upstream.timeline, own });
        }
        let slot = &self.settings.slot;
        ensure_slot(&mut client, slot)?;
        let Some(standby) = self.database().standby() else { return Ok(()) };
        let from = standby.wanted()?;
        client.begin_stream(&format!("START_REPLICATION SLOT \"{slot}\" PHYSICAL {from} TIMELINE {own}"))?;
        tracing::info!(%from, timeline = %own, upstream = %self.settings, "this standby receives");
        self.note(|status| {
            (status.state, status.started_at, status.last_error) = ("streaming", from, None);
        });
        let mut stream = Stream { shared: self, client, batch_bytes: 0, told: None, upstream_end: from };
        stream.run(has_received)?;
        match self.is_over() {
            true => Ok(()),
            false => Err(FollowError::TimelineEnded { own, end: standby.wanted()?, next: upstream.timeline }),
        }
    }

    fn new_status(&self, timeline: TimelineId) -> ReceiverStatus {
        ReceiverStatus {
            state: "connecting",
            upstream: self.settings.to_string(),
            slot: Some(self.settings.slot.clone()),
            address: (self.settings.host.clone(), self.settings.port),
            timeline,
            started_at: Lsn::ZERO,
            progress: Progress::default(),
            upstream_end: Lsn::ZERO,
            message_micros: None,
            last_error: None,
        }
    }
}

struct Upstream {
    system: String,
    timeline: TimelineId,
}

fn identify(client: &mut Client) -> Result<Upstream, FollowError> {
    const COMMAND: &str = "IDENTIFY_SYSTEM";
    let rows = client.command(COMMAND)?;
    let found = match rows.first().map(Vec::as_slice) {
        Some([Some(system), Some(timeline), ..]) => {
            let timeline = timeline.parse().ok().and_then(TimelineId::new);
            timeline.map(|timeline| Upstream { system: system.clone(), timeline })
        }
        _ => None,
    };
    found.ok_or_else(|| FollowError::Answer { command: COMMAND, answer: format!("{rows:?}") })
}

fn ensure_slot(client: &mut Client, slot: &str) -> Result<(), FollowError> {
    let rows = client.command(&format!("READ_REPLICATION_SLOT \"{slot}\""))?;
    if !matches!(rows.first().map(Vec::as_slice), Some([Some(_), ..])) {
        client.command(&format!("CREATE_REPLICATION_SLOT \"{slot}\" PHYSICAL (RESERVE_WAL)"))?;
    }
    Ok(())
}

/// PostgreSQL's system identifier has 64 bits: half of the database's id, and never zero.
///
/// # Errors
/// What the engine says.
pub fn system_identifier(database: &Database) -> Result<String, Error> {
    let id = database.info()?.database;
    let half: [u8; 8] = std::array::from_fn(|index| id.as_bytes()[index]);
    Ok(u64::from_be_bytes(half).max(1).to_string())
}

/// A stream under way.
struct Stream<'s> {
    shared: &'s Shared,
    client: Client,
    /// Received and not synced.
    batch_bytes: usize,
    /// What the upstream was told last, and when.
    told: Option<(Progress, i64)>,
    upstream_end: Lsn,
}

impl Stream<'_> {
    /// Receives until the stream or the standby ends.
    fn run(&mut self, has_received: &mut bool) -> Result<(), FollowError> {
        let mut heard = (self.shared.now_micros)();
        self.tell(false)?;
        while !self.shared.is_over() {
            let limit = if self.batch_bytes > 0 { Duration::ZERO } else { self.wait_limit() };
            match self.client.streamed(limit)? {
                Streamed::Message(message) => {
                    *has_received = true;
                    heard = (self.shared.now_micros)();
                    self.take(&message, heard)?;
                }
                Streamed::Nothing => {
                    self.sync()?;
                    self.tell(false)?;
                    let silent = (self.shared.now_micros)().saturating_sub(heard);
                    if silent > i64::try_from(SILENCE_MAX.as_micros()).unwrap_or(i64::MAX) {
                        return Err(FollowError::Silent(SILENCE_MAX));
                    }
                }
                Streamed::Done => {
                    self.sync()?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What is durable and not applied is acknowledged as soon as it is.
    fn wait_limit(&self) -> Duration {
        let has_all = self.told.is_some_and(|(progress, _)| progress.applied >= progress.flushed);
        if has_all { WAIT.0 } else { WAIT.1 }
    }

    fn take(&mut self, message: &[u8], now: i64) -> Result<(), FollowError> {
        let Some(standby) = self.shared.database().standby() else { return Ok(()) };
        match FromSender::parse(message)? {
            FromSender::Data { start, end, sent_micros, bytes } => {
                standby.receive(start, bytes)?;
                self.batch_bytes += bytes.len();
                self.heard(end, sent_micros, now);
                if self.batch_bytes >= BATCH_BYTES {
                    self.sync()?;
                    self.tell(false)?;
                }
            }
            FromSender::KeepAlive { end, sent_micros, wants_answer } => {
                self.heard(end, sent_micros, now);
                if wants_answer {
                    self.sync()?;
                    self.tell(true)?;
                }
            }
        }
        Ok(())
    }

    fn heard(&mut self, end: Lsn, sent_micros: i64, now: i64) {
        self.upstream_end = self.upstream_end.max(end);
        self.shared.note(|status| {
            status.message_micros = Some((sent_micros, now));
            status.upstream_end = status.upstream_end.max(end);
        });
    }

    /// Makes durable what has come, and wakes who applies it.
    fn sync(&mut self) -> Result<(), FollowError> {
        if std::mem::take(&mut self.batch_bytes) > 0
            && let Some(standby) = self.shared.database().standby()
        {
            standby.sync()?;
            self.shared.tell();
        }
        Ok(())
    }

    /// Says how far this server is, if that is news, or is asked for.
    fn tell(&mut self, is_asked: bool) -> Result<(), FollowError> {
        let database = self.shared.database();
        let Some(standby) = database.standby() else { return Ok(()) };
        let flushed = database.log().flushed();
        let progress = Progress {
            // In a header page there is nothing to write.
            written: standby.wanted()?.max(flushed),
            flushed,
            applied: standby.applied().min(flushed),
        };
        let now = (self.shared.now_micros)();
        let interval = i64::try_from(STATUS_INTERVAL.as_micros()).unwrap_or(i64::MAX);
        let is_news =
            self.told.is_none_or(|(before, at)| before != progress || now.saturating_sub(at) >= interval);
        if is_news || is_asked {
            self.shared.note(|status| status.progress = progress);
            self.client.send_streamed(&message::status(progress, now, false))?;
            self.told = Some((progress, now));
        }
        Ok(())
    }
}
