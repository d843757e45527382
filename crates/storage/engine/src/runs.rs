//! Sorted runs: changes that a checkpoint has written beside the main part of the tree, in order, instead of merging them into it.
//!
//! ```text
//!   memtables            what no checkpoint has taken up
//!   run (90, 120]        the newest version of each row that was changed in this interval of stamps, and rows that were deleted
//!   run (50, 90]
//!   main part of the tree
//! ```
//! A run is a key range of the one tree, under a number that no table has. So it has the pages, chunks, marks, encryption and free pages
//! of everything else. Nothing of it is in the log, in a backup or in a copy: it belongs to one directory, as the space map does.
//!
//! Invariants:
//! * **Age.** A row of a run is newer than the same row in an older run and in the main part. The intervals of listed runs are disjoint, but
//!   for a run that is made of others slice by slice: its interval holds theirs, and of any key only it has rows, or only they have.
//! * **Snapshots.** A snapshot reads the runs that end at or before it. For the others it has the memtables.
//! * **Redo.** The row that lists a run becomes durable with the redo point that is its end. Until then the run is unlisted: nobody reads
//!   it, and the first checkpoint after an open cuts it out (`unlisted`).
//! * **Absolute.** A row may be there twice, after a crash, and then both are equal; it is never nowhere.
//!
//! Start at `run` for what a run is, `list` for which there are, `filter` for what spares a read of them; `route` and `write` for how
//! a checkpoint makes one, `tier` and `tier_slice` for how several become one, `window` and `debt` for how it ends, `settle` for merges into
//! the main part where no engine is open.

pub(crate) mod check;
pub(crate) mod debt;
pub(crate) mod fences;
pub(crate) mod filter;
pub(crate) mod filter_memory;
pub(crate) mod filters_read;
pub(crate) mod list;
pub(crate) mod merge_counters;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod settle;
pub(crate) mod slice;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod tier;
pub(crate) mod tier_slice;
pub(crate) mod unlisted;
pub(crate) mod window;
pub(crate) mod window_table;
pub(crate) mod write;
