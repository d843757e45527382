//! The tree: single pages, a page file, the superblock, the recovery file.
//!
//! The files start as those of a small, sound tree with everything in it: two levels of interior pages, long keys, long
//! values over several extents. The input says what to change; checksums are then made right, or not.

mod exercise;
mod page;
mod page_file;
mod recovery_file;
mod sample;
mod superblock;

pub use page::page;
pub use page_file::page_file;
pub use recovery_file::recovery_file;
pub use superblock::superblock;

use crate::input::Entries;

/// The entry functions of this folder, by the name of their target.
pub const ENTRIES: &Entries =
    &[("page", page), ("page_file", page_file), ("superblock", superblock), ("recovery_file", recovery_file)];
