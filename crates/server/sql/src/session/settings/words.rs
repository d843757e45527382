//! Values of settings that are one of a few words.

use seawall_engine::{Durability, ReplicationLevel};

/// The isolation levels of PostgreSQL. `READ UNCOMMITTED` reads what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl IsolationLevel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// The level with this name, in any case.
    pub(crate) fn named(name: &str) -> Option<IsolationLevel> {
        let levels = [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Serializable,
        ];
        levels.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// `synchronous_commit`: what a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SynchronousCommit {
    Off,
    /// Stable storage of this server.
    Local,
    /// And memory of the standbys that commits wait for.
    RemoteWrite,
    /// And their stable storage.
    On,
    /// And that their readers see it.
    RemoteApply,
}

impl SynchronousCommit {
    pub(super) fn named(name: &str) -> SynchronousCommit {
        match name {
            "off" => SynchronousCommit::Off,
            "local" => SynchronousCommit::Local,
            "remote_write" => SynchronousCommit::RemoteWrite,
            "remote_apply" => SynchronousCommit::RemoteApply,
            _ => SynchronousCommit::On,
        }
    }

    /// The durability of a commit. Where no standby is waited for, the last four are one.
    pub(crate) fn durability(self) -> Durability {
        match self {
            SynchronousCommit::Off => Durability::Async,
            SynchronousCommit::Local => Durability::Sync,
            SynchronousCommit::RemoteWrite => Durability::Replicated(ReplicationLevel::Written),
            SynchronousCommit::On => Durability::Replicated(ReplicationLevel::Flushed),
            SynchronousCommit::RemoteApply => Durability::Replicated(ReplicationLevel::Applied),
        }
    }

    /// The durability of a prepare and of a decision, which are on stable storage in any case, as in PostgreSQL.
    pub(crate) fn of_two_phase(self) -> Durability {
        match self {
            SynchronousCommit::Off => Durability::Sync,
            other => other.durability(),
        }
    }
}

/// Levels of messages to the client, in the order of `client_min_messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageLevel {
    Debug5,
    Debug4,
    Debug3,
    Debug2,
    Debug1,
    Log,
    Info,
    Notice,
    Warning,
    Error,
}

impl MessageLevel {
    pub(super) fn named(name: &str) -> MessageLevel {
        match name {
            "debug5" => MessageLevel::Debug5,
            "debug4" => MessageLevel::Debug4,
            "debug3" => MessageLevel::Debug3,
            "debug2" => MessageLevel::Debug2,
            "debug1" => MessageLevel::Debug1,
            "log" => MessageLevel::Log,
            "info" => MessageLevel::Info,
            "warning" => MessageLevel::Warning,
            "error" => MessageLevel::Error,
            _ => MessageLevel::Notice,
        }
    }

    /// The level of a message with this severity.
    pub(super) fn of_severity(severity: &str) -> MessageLevel {
        match severity {
            "DEBUG" => MessageLevel::Debug1,
            other => MessageLevel::named(&other.to_ascii_lowercase()),
        }
    }
}
