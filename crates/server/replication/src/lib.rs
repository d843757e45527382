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
//! Start at [`Sender`] and [`Replication`].

mod client;
mod command;
mod follower;
pub mod message;
mod sender;
mod settings;
mod status;

pub use client::{Client, ClientError, Dial, Streamed, TextRows, Wire};
pub use command::{Command, CommandError, StartReplication};
pub use follower::{FollowError, Follower, system_identifier};
pub use message::Progress;
pub use sender::{Sender, SenderError, Step, current_history};
pub use settings::{UpstreamSettings, UpstreamSettingsError};
pub use status::{ActiveSlot, ReceiverStatus, Replication, SenderStatus, SlotError, SlotInfo};
