//! Pages, page file, page cache and B+tree: the rows as of the last checkpoint.
//!
//! ```text
//!    get / scan                        checkpoint, bulk load (one writer at a time)
//!        |                                   |  new page images
//!        v                                   v
//!   descent: version, overlay --------- publish: version, overlay
//!        |                                   |
//!        v                                   v
//!   page cache (no lock on a hit)       chunk: fresh pages, recovery file, in place
//!        |                                   |
//!        +------------> page file <----------+
//! ```
//! Invariants:
//! * A page image that anyone sees has been checked whole, and never changes.
//! * Readers take no lock. What they return was true of one published tree: `version` did not change meanwhile.
//! * After any crash the tree is one that a chunk ended with: a chunk is applied whole or not at all.
//! * Of an encrypted database, what leaves memory is encrypted: pages in `page_file`, images in `recovery_file`.
//! * The tree does not know what a transaction is. Its keys are byte strings, table id first.
//!
//! Start at `page` for the bytes, `lookup` for reading, `estimate` for counting, `merge` and `chunk` for changing.

mod apply;
mod bulk_load;
mod cache;
mod check;
mod chunk;
mod cursor;
mod cut;
mod error;
mod estimate;
mod groups;
mod image_compression;
mod image_log;
mod in_place;
mod leaf_filters;
mod leaf_reads;
mod lookup;
mod merge;
pub mod page;
mod page_file;
mod prefetch;
mod published;
mod read_ahead;
mod readings;
mod recovery_file;
mod run_keys;
#[doc(hidden)]
pub mod sabotage;
mod space_map;
mod superblock;
mod swap;
mod sync_gate;
mod tree;
mod window;

pub use apply::{AppliedChunk, ApplyDurations};
pub use bulk_load::BulkLoader;
pub use cache::PageCache;
pub use check::{CheckSummary, CheckWalk, Damage, DamageKind};
pub use chunk::{ChunkPlan, ChunkStatistics};
pub use cursor::{Direction, LeafCursor, LeafPosition, ParentPage};
pub use cut::CutPlan;
pub use error::{ImageLogError, TreeError};
pub use groups::{Group, GroupLeaf, Groups, LeafFill};
pub use image_compression::{ImageCompression, UnknownImageCompression};
pub use image_log::{
    AppendedPiece, ImageLog, ImagePiece, ImageSource, ImageSpan, NoImageSource, StoredImage,
};
pub use leaf_reads::LeafReads;
pub use lookup::RunRow;
pub use merge::{Change, DivisibleSource, Merge, MergeSource, OldValues};
pub use page::PAGE_FILE_PATH;
pub use page_file::{PageFile, PageImage, ReadCounts};
pub use published::{PublishedPages, ROOT_PAGE};
pub use recovery_file::RECOVERY_FILE_PATH;
pub use run_keys::RUN_NUMBERS;
pub use space_map::{PageRun, SpaceMapView, map_page_of, pages_per_map};
pub use superblock::{
    DamagedCopy, Encryption, PageProtection, RUN_NUMBERS_MAX, SUPERBLOCK_PATH, Superblock, SuperblockError,
    SuperblockFile, TreeMarks, UnknownPageProtection,
};
pub use swap::Part;
pub use tree::{OpenedTree, Tree, TreeAccess, TreeOptions};
pub use window::{LoadedSlice, LoadedWindow, MergedSlice, MergedWindow, StoredRun, WindowBounds};
