//! What standbys must have before others see a commit.
//!
//! ```text
//!   standbys say how far they are --> `Members`: the positions that a quorum has --> `Watermarks` --> the commit queue --> visible
//!                                         |
//!                                         no quorum: commits wait, or this server goes on alone after a time, on record
//! ```
//! The engine knows no standby: the caller counts members and gives the positions that enough of them have
//! ([`Quorum`](crate::Quorum)). A transaction says with [`Durability::Replicated`](crate::Durability) which of these it waits for.
//!
//! **A quorum that is lost** keeps what waits for it out of sight, and nothing else: what is visible stays visible, readers go on, and
//! the waits can be cancelled.
//!
//! **A restart** shows what was visible before (`mark`). What lies behind it in the log waits, as one commit, until a quorum has the log
//! up to where it ended (`marking`).
//!
//! Pages and archives get nothing that a failover could take back: `gate`.

pub(crate) mod gate;
pub(crate) mod mark;
pub(crate) mod marking;
pub(crate) mod members;
pub(crate) mod news;
pub(crate) mod watermarks;
