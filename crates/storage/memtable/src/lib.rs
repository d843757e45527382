//! The memtable: the versions of every row changed since the last checkpoint, ordered by row key.
//!
//! ```text
//!   get --> filter --> directory (by hash)         cursor, insert of a new row
//!           (Bloom)       |                              |
//!                         |   +---------------------- index ----------------------+   a B+tree of 64-way nodes;
//!                         |   | inner:  head head ...   head: 8 bytes of a key,   |   readers take no latch, they
//!                         |   | leaf:   head head ...   behind a common prefix    |   check version numbers
//!                         |   +----------|----------------------------------------+
//!                         v              v
//!        entry: key, newest --> version --older--> version --older--> (null)
//!                               stamp 90, bytes     stamp 70, deleted
//!
//!   arena: nodes, entries and versions; never freed one by one, all at once with the memtable
//! ```
//! Invariants:
//! * A key has one entry for the life of the memtable; an entry never moves, and its key never changes.
//! * The versions of an entry are linked newest first, in falling order of their stamps.
//! * What a snapshot at or above the horizon can see is never written again (argument in `entry`).
//! * Every row is in the index. One that is not in the directory has a full bucket there.
//! * A node is never freed or merged, so a reader may hold a stale one: it notices by the version number.
//!
//! Start at [`Memtable`]. Recovery builds one from sorted rows: [`MemtableBuilder`], [`ReplayPartition`].

mod arena;
mod builder;
mod cursor;
mod directory;
mod entry;
mod filter;
mod index;
mod lines;
mod memtable;
mod node;
mod pack;
mod packing;
mod pending;
mod replay;
#[doc(hidden)]
pub mod sabotage;
mod shard;
mod spin;
mod stamp;
mod versions;

pub use builder::MemtableBuilder;
pub use cursor::Cursor;
pub use entry::{KEY_BYTES_MAX, Lookup, VALUE_BYTES_MAX};
pub use memtable::Memtable;
pub use pending::PendingCommit;
pub use replay::ReplayPartition;
pub use versions::Versions;
