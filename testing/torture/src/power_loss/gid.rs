//! Names of prepared transactions: they say whose they are, and no two are alike.

use std::fmt;

use super::rows::Thread;

/// What `prepare` is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gid {
    pub(super) thread: Thread,
    /// How many transactions the thread has, if this one is committed.
    pub(super) count: u64,
    /// Makes it another one than all before.
    pub(super) token: u64,
}

impl Gid {
    pub(super) fn decode(text: &str) -> Option<Gid> {
        let parts: Vec<&str> = text.split('-').collect();
        match parts[..] {
            [thread, count, token] => Some(Gid {
                thread: thread.parse().ok()?,
                count: count.parse().ok()?,
                token: token.parse().ok()?,
            }),
            _ => None,
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-{}", self.thread, self.count, self.token)
    }
}
