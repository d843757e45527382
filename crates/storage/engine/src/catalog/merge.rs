//! Merging names and objects of tables: where a hundred thousand tables came or went, chunk by chunk before the last one.
//!
//! The last chunk, which moves the redo point, has to hold the rows of `reclaim` and everything behind it in the system
//! keyspace: a storage must be listed from the moment on from which no replay brings its drop back. Names and objects need
//! not. They say what is, like users' rows, so a crash between two chunks leaves names and objects of which some are newer
//! than the redo point, and the replay puts all of them to where they belong; until the last chunk the memtable hides them
//! from readers. Where they are few they go with the last chunk nonetheless, which saves the others' syncs.

use seawall_memtable::Memtable;
use seawall_types::Lsn;

use crate::checkpoint::merge_source::FrozenRows;
use crate::checkpoint::statistics::Totals;
use crate::engine::Engine;
use crate::error::Error;
use crate::options::Options;
use crate::pacing::merge_pace::MergePace;
use crate::snapshots::kept_memory::ReplacedValues;
use crate::snapshots::view::Frozen;

/// Names and objects in a memtable, if they are so many that they may be too much for one chunk, each in a leaf of its own.
pub(crate) fn many_catalog_rows<'a>(
    memtable: &'a Memtable,
    start: Lsn,
    page_bytes: u32,
    options: &Options,
) -> Option<FrozenRows<'a>> {
    let one_chunk = options.checkpoint.chunk_bytes / u64::from(page_bytes);
    let are_many = FrozenRows::of_catalog(memtable, start).are_more_than(one_chunk);
    are_many.then(|| FrozenRows::of_catalog(memtable, start))
}

impl Engine {
    /// Merges names and objects if they are many; the system rows that are left for the last chunk.
    pub(crate) fn merge_catalog_rows<'a>(
        &self,
        frozen: &'a Frozen,
        replaced: &'a ReplacedValues<'a>,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<FrozenRows<'a>, Error> {
        let page_bytes = self.redo.superblock().page_bytes;
        let many = many_catalog_rows(&frozen.memtable, frozen.start, page_bytes, &self.options);
        let Some(mut rows) = many else { return Ok(FrozenRows::of_system(&frozen.memtable, frozen.start)) };
        while !rows.is_done() {
            let (floor, older) = replaced.look();
            rows.keep_bases(replaced, floor, older);
            let before = self.clock().monotonic();
            let plan = self.tree.merge_chunk(&mut rows, self.options.checkpoint.chunk_bytes, frozen.end);
            totals.durations.merge += self.clock().monotonic().saturating_sub(before);
            self.apply_chunk(plan.map_err(|error| Error::tree(&error))?, None, totals)?;
            pace.chunk_done(totals.rows + rows.taken(), totals.written_bytes());
        }
        totals.rows += rows.taken();
        Ok(FrozenRows::of_system_behind_catalog(&frozen.memtable, frozen.start))
    }
}
