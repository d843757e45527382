//! `LISTEN` and `NOTIFY`: messages between sessions. What a transaction listens to, and what it sends, counts from its commit on.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_values::{SqlError, SqlResult, SqlState};

use super::attention::Attention;
use super::{Session, Sink};
use crate::parse::Utility;

/// A channel has fewer bytes than this, as a name in PostgreSQL.
const CHANNEL_BYTES_MAX: usize = 64;
/// Messages of one transaction.
const PENDING_MAX: usize = 16_384;
/// Bytes of a payload, as PostgreSQL limits them.
const PAYLOAD_BYTES_MAX: usize = 7_999;
/// Messages that wait for one session. One that never reads loses what comes after these, with a warning.
const WAITING_MAX: usize = 16_384;

/// A message.
#[derive(Debug)]
struct Notification {
    process_id: i32,
    channel: String,
    payload: String,
}

/// What a transaction changes about the channels that its session listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenChange {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// A session that listens.
#[derive(Debug, Default)]
struct Listener {
    channels: FxHashSet<String>,
    waiting: VecDeque<Arc<Notification>>,
    attention: Attention,
}

/// Who listens to what, by the number of the session.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    listeners: Mutex<FxHashMap<i32, Listener>>,
}

impl Notifications {
    fn listen(&self, process_id: i32, channel: &str, attention: &Attention) {
        let mut listeners = self.listeners.lock();
        let listener = listeners.entry(process_id).or_default();
        listener.attention = attention.clone();
        listener.channels.insert(channel.to_owned());
    }

    /// Of one channel, or of all.
    pub(crate) fn unlisten(&self, process_id: i32, channel: Option<&str>) {
        let mut listeners = self.listeners.lock();
        let Some(channel) = channel else {
            listeners.remove(&process_id);
            return;
        };
        if let Some(listener) = listeners.get_mut(&process_id) {
            listener.channels.remove(channel);
        }
    }

    /// Gives messages to all that listen. Equal ones of one transaction are one.
    fn send(&self, process_id: i32, messages: Vec<(String, String)>) {
        let mut sent: FxHashSet<(String, String)> = FxHashSet::default();
        let mut called: FxHashMap<i32, Attention> = FxHashMap::default();
        let mut listeners = self.listeners.lock();
        for (channel, payload) in messages {
            if !sent.insert((channel.clone(), payload.clone())) {
                continue;
            }
            let notification = Arc::new(Notification { process_id, channel, payload });
            for (to, listener) in listeners.iter_mut() {
                if listener.channels.contains(&notification.channel) && listener.waiting.len() < WAITING_MAX {
                    listener.waiting.push_back(Arc::clone(&notification));
                    called.entry(*to).or_insert_with(|| listener.attention.clone());
                }
            }
        }
        drop(listeners);
        // The sender looks at its own when its statement ends.
        called.iter().filter(|(to, _)| **to != process_id).for_each(|(_, attention)| attention.call());
    }

    fn is_listening(&self, process_id: i32) -> bool {
        self.listeners.lock().contains_key(&process_id)
    }

    /// The channels that a session listens to, in order.
    pub(crate) fn channels(&self, process_id: i32) -> Vec<String> {
        let listeners = self.listeners.lock();
        let channels = listeners.get(&process_id).map(|listener| &listener.channels);
        let mut channels: Vec<String> = channels.into_iter().flatten().cloned().collect();
        channels.sort_unstable();
        channels
    }

    fn take(&self, process_id: i32) -> VecDeque<Arc<Notification>> {
        match self.listeners.lock().get_mut(&process_id) {
            Some(listener) => std::mem::take(&mut listener.waiting),
            None => VecDeque::new(),
        }
    }
}

/// Adds a message to those that a transaction sends at its commit.
///
/// # Errors
/// `22023`: the channel or the payload is not as PostgreSQL has them; `53200`: there are too many.
pub(super) fn add(pending: &mut Vec<(String, String)>, channel: &str, payload: &str) -> SqlResult<()> {
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match channel.len() {
        0 => return invalid("channel name cannot be empty"),
        CHANNEL_BYTES_MAX.. => return invalid("channel name too long"),
        _ => {}
    }
    if payload.len() > PAYLOAD_BYTES_MAX {
        return invalid("payload string too long");
    }
    // The same message in a row is one.
    if pending.last().is_some_and(|(to, text)| to == channel && text == payload) {
        return Ok(());
    }
    if pending.len() >= PENDING_MAX {
        let message = format!("a transaction sends at most {PENDING_MAX} messages");
        return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message));
    }
    pending.push((channel.to_owned(), payload.to_owned()));
    Ok(())
}

impl Session {
    pub(super) fn run_notification(&mut self, statement: &Utility) -> SqlResult<()> {
        // It belongs to the transaction, if only to that of this statement.
        self.open()?;
        match statement {
            Utility::Listen(channel) => self.change_channels(ListenChange::Listen(channel.clone()))?,
            Utility::Unlisten(Some(channel)) => {
                self.change_channels(ListenChange::Unlisten(channel.clone()))?;
            }
            Utility::Unlisten(None) => self.change_channels(ListenChange::UnlistenAll)?,
            Utility::Notify { channel, payload } => {
                add(&mut self.pending_notifications, channel, payload)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn change_channels(&mut self, change: ListenChange) -> SqlResult<()> {
        let is_listening = !self.pending_channels.is_empty()
            || self.database.notifications.is_listening(self.login.process_id);
        if !is_listening && !matches!(change, ListenChange::Listen(_)) {
            return Ok(());
        }
        if self.pending_channels.last() == Some(&change) {
            return Ok(());
        }
        if self.pending_channels.len() >= PENDING_MAX {
            let message = format!("a transaction changes at most {PENDING_MAX} channels");
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message));
        }
        self.pending_channels.push(change);
        Ok(())
    }

    /// The transaction is committed: so is what it listens to, and so are its messages.
    pub(super) fn send_notifications(&mut self) {
        let (process_id, notifications) = (self.login.process_id, &self.database.notifications);
        for change in std::mem::take(&mut self.pending_channels) {
            match change {
                ListenChange::Listen(channel) => notifications.listen(process_id, &channel, &self.attention),
                ListenChange::Unlisten(channel) => notifications.unlisten(process_id, Some(&channel)),
                ListenChange::UnlistenAll => notifications.unlisten(process_id, None),
            }
        }
        let messages = std::mem::take(&mut self.pending_notifications);
        if !messages.is_empty() {
            self.database.notifications.send(self.login.process_id, messages);
        }
    }

    /// Gives the client what has come since. Outside of transactions only.
    pub(super) fn deliver_notifications(&mut self, sink: &mut dyn Sink) -> SqlResult<()> {
        for notification in self.database.notifications.take(self.login.process_id) {
            sink.notification(notification.process_id, &notification.channel, &notification.payload)?;
        }
        Ok(())
    }
}
