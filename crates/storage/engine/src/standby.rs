//! A standby: an engine that receives its log from another server, applies it while others read, and may be promoted.
//!
//! ```text
//!   primary's bytes --> `wal::ReceivedLog` --durable--> apply --> active memtable, in-doubt transactions, open objects
//!                                                         |
//!                                                      visible: moves between two records only, when a step is applied
//! ```
//! It is a recovery that does not end. What differs from one that does:
//! * Rows go into the active memtable beside readers, by the same insert as commits (`apply`).
//! * Checkpoints freeze between two steps instead of in the log's critical section, and write nothing into the log.
//! * Storages of dropped tables are cut out when *this* server's snapshots allow it. Its list of them is its own: what the primary
//!   strikes off its list is not struck off here, and a storage leaves the list in the chunk that moves the redo point past its drop.
//!   A storage that a load of the primary fills is listed as such, and stays until the primary publishes it or gives it up.
//! * A drop is written out when it is applied, not by the next checkpoint: the primary's checkpoints were at other places, and what
//!   takes the name again relies on them.
//! * Prepared transactions hold their locks from the moment that they are applied: a promotion has nothing to take up.
//!
//! **Promotion** (`promotion`) receives nothing more, applies the rest, and begins a new timeline; snapshots and sessions go on.
//!
//! **A new timeline** of the primary's place is followed without a restart (`next_timeline`).
//!
//! **Archives** may lack the end of the log when the primary is lost: it is kept here until they have it (`archive_hold`).
//!
//! One thread at a time applies (`applier`); it, a freeze and a promotion exclude each other (`turn`).

pub(crate) mod applier;
pub(crate) mod apply;
pub(crate) mod archive_hold;
pub(crate) mod control;
pub(crate) mod copied;
pub(crate) mod many_rows;
pub(crate) mod next_timeline;
pub(crate) mod phases;
pub(crate) mod promotion;
pub(crate) mod turn;
