//! Files of a log to and from an object store: Seawall's own and PostgreSQL's. Knows no engine.
//!
//! ```text
//!   pg_wal/ or log/                                             repository: a directory, S3, GCS, Azure
//!   000000010000000000000001  --identify--> whose? whole?
//!                             --pack-----> frames, compressed   --push--> put if new, or compare, for each repository
//!                             <--unpack--- frames, checked      <--fetch--
//! ```
//!
//! Invariants:
//! * A push returns when the object is durable, and not before. To push the same again is quiet; other content under the same
//!   name is refused. Nothing is ever overwritten, whoever else writes to the same place.
//! * A file is archived only if it is whole, undamaged as far as that can be told, and what its name says.
//! * What is fetched was checked: each stretch before it is handed on, the whole before the fetch returns.
//! * Everything that is known of an object is in its first 512 bytes. There is no catalog that could disagree with it.
//! * Memory for an object is bounded: its stored bytes while it is put, a frame while it is fetched. No object is longer than a
//!   segment may be, 1 GiB, and each is one put: an upload in parts cannot be made conditional everywhere.
//! * Requests run on a runtime that nobody outside sees: every call here is an ordinary one that waits.
//!
//! Start at [`Repository::push`] and [`Repository::fetch`]. Byte layouts are in `envelope`, `envelope::frame`,
//! `repository_header` and `seawall_keys::key_ring`, places in `layout`.

mod check;
mod connect;
mod envelope;
mod error;
mod gap;
mod layout;
mod name;
mod object_name;
mod options;
mod repository;
mod repository_header;
mod segment;
mod store;
mod stored;
mod summary;
mod system;
mod url;

pub use check::{CheckReport, Fencing};
pub use connect::is_store_variable;
pub use envelope::{
    FORMAT_VERSION, HEADER_BYTES, Header, HeaderError, ObjectKind, PLAIN_BYTES_MAX, Packed, Packer, Packing,
    Sealed, UnpackError, Unpacker,
};
pub use error::ArchiveError;
pub use gap::{Gap, GapRecord};
pub use name::{LogFileName, SegmentPlace};
pub use object_name::{ObjectName, ObjectPlace};
pub use options::RepositoryOptions;
pub use repository::{
    ContentSink, KeyInForce, LeftRing, Pushed, Repository, RequestStatistics, Rotated, Rotation,
};
pub use repository_header::RepositoryHeader;
pub use seawall_codec::compression::Compression;
pub use seawall_types::{Lsn, TimelineId};
pub use segment::{
    Description, Expected, PostgreSqlError, RestorePoint, SegmentError, identify, postgresql_forks,
    postgresql_last_record, postgresql_last_transaction_end, postgresql_restore_points,
};
pub use store::metered::RequestCounts;
pub use store::retry::RetryPolicy;
pub use store::{ObjectEntry, StoreCause, StoreError};
pub use stored::{NotRemoved, StoredName, StoredObject};
pub use summary::{SegmentNumbers, TimelineSummary};
pub use system::{ParseSystemError, System};
pub use url::{RepositoryUrl, RepositoryUrlError};
