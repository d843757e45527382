//! `LISTEN` and `NOTIFY`: messages between sessions, sent by the commit.

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
        let process_id = self.login.process_id;
        match statement {
            Utility::Listen(channel) => {
                self.database.notifications.listen(process_id, channel, &self.attention);
            }
            Utility::Unlisten(channel) => {
                self.database.notifications.unlisten(process_id, channel.as_deref())
            }
            Utility::Notify { channel, payload } => {
                // It belongs to the transaction, if only to that of this statement.
                self.open()?;
                add(&mut self.pending_notifications, channel, payload)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The transaction is committed: so are its messages.
    pub(super) fn send_notifications(&mut self) {
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
