//! Replication: the log of one server at another one, or at PostgreSQL's `pg_receivewal`.
//!
//! ```text
//!   primary                                        standby
//!   log --> Sender --w: bytes, k: alive-->  Receiver --> log --sync--> apply --> readers
//!             ^                                 |
//!             +------r: written, durable, applied+
//!   slot: keeps the log from what the standby has durably
//! ```
//! The commands and messages are those of PostgreSQL. The bytes are the files of the log, so what `pg_receivewal` writes are segments.
//!
//! Invariants:
//! * Only durable bytes are sent, so a standby is never ahead of its primary's disk.
//! * A slot moves only to what its receiver has made durable.
//! * No socket is in here: the state machines take and give messages, and a connection is anything that reads and writes.
//!
//! A primary and its standby exchange their roles in a [switchover](Replication::switch_over).
//!
//! A new standby copies its primary first ([`bootstrap`]); a server that comes back with pages that its primary never had copies what has
//! changed ([`rewind`]). A new timeline of the upstream is followed without a restart; log that the upstream does not give comes from an
//! archive ([`archived`]).
//!
//! Start at [`Sender`] and [`Follower`].

pub mod archived;
mod bootstrap;
mod client;
mod command;
mod connect;
pub mod copy;
mod follower;
mod lag;
pub mod message;
mod quorum;
mod rejoin;
mod rewind;
#[doc(hidden)]
pub mod sabotage;
mod sender;
mod settings;
mod status;
mod switchover;
mod synchronous;
mod take_over;
mod upstream;

pub use bootstrap::{BootstrapError, bootstrap, needs_copy};
pub use client::{Client, ClientError, Dial, Streamed, TextRows, Wire};
pub use command::{Command, CommandError, StartReplication};
pub use follower::{Follower, system_identifier};
pub use lag::{Lag, LagTracker};
pub use message::Progress;
pub use rejoin::{ARCHIVE_MODE, RejoinError, UpstreamHistory};
pub use rewind::{Outlook, RewindError, rewind};
pub use sender::{Sender, SenderError, Step, current_history};
pub use settings::{Listens, TargetServer, TlsMode, UpstreamHost, UpstreamSettings, UpstreamSettingsError};
pub use status::{ActiveSlot, ReceiverStatus, Replication, SenderStatus, SlotError, SlotInfo};
pub use switchover::{
    DialFor, HandoverOutcome, SwitchedOver, SwitchoverError, SwitchoverRequest, SwitchoverTools, outcome_of,
};
pub use synchronous::{StandbyChoice, StandbyNames, StandbyNamesError, SyncState};
pub use take_over::{TakeOver, TakeOverError, TakenOver};
pub use upstream::FollowError;
