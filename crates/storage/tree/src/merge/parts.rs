//! A merge by several threads.
//!
//! ```text
//!   changes:   part 1        | part 2        | part 3        | ...     taken up in this order, a few at a time
//!                 |               |
//!   leaves:    [ ][ ][ ][ ]  [ ][ ][ ][ ]    [ ]                       each thread builds the leaves of its part
//!                  \               /
//!   parents:       one thread, when all leaves are built
//! ```
//! The changes are divided into several times as many parts as there are threads, of about as many changes each, so that
//! the threads finish together. Nearly all of the work is in the leaves; the pages above them are few, and are built by
//! the calling thread in one walk over what the others have built.
//!
//! Invariants:
//! * No two threads touch the same leaf: a part ends before the leaf where the next part's first change belongs, and no
//!   leaf is joined over that border. What it has to leave there is taken up in a later chunk, when the next part has
//!   moved on. Parts begin at borders of leaves where they can, so there is rarely any.
//! * A chunk ends with a valid tree whichever part has come how far, as it is any subset of the changes.
//! * Interior pages are only read until all threads are done.
//!
//! Where the tree has fewer leaves than there are parts (an empty tree, rows added behind all others), parts would wait
//! for one another. Then one thread first takes a few leaves' worth of changes from each part, which makes borders.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use seawall_sync::{Mutex, thread};
use seawall_types::{Lsn, PageId};

use super::bounds::{Bounds, bounds_of};
use super::children::{ChildList, NodeEdit};
use super::edit::{EditedLeaves, Edits, Walk, edit_tree};
use super::read::{LeafParent, interior_of, leaf_parent};
use super::rows::RowSet;
use super::{Change, ChangedRows, MergeSource, merge_into};
use crate::chunk::{ChunkBuilder, ChunkPlan};
use crate::error::TreeError;
use crate::page::{InteriorView, Page, PageFormat, RowKey};
use crate::tree::Tree;

/// Parts for each thread: the last ones to finish leave the others idle for a small part of the time only.
const PARTS_PER_THREAD: usize = 8;
/// Leaves' worth of changes that each part gives up first where borders are missing.
const FIRST_LEAVES: usize = 4;

/// Changes that can be divided among threads.
pub trait DivisibleSource: MergeSource + Send + Sized {
    /// Keys that divide what is left into at most `parts` parts of about as many changes, each above the one before and
    /// above the first change. None if there are too few for that to be worth while.
    fn dividing_keys(&self, parts: usize) -> Vec<Vec<u8>>;

    /// Keeps the changes before `key`, which is above the first one, and returns those from there on. Called before any
    /// is taken.
    fn split_off(&mut self, key: &[u8]) -> Self;
}

/// A merge under way: the changes that are left, in parts.
#[derive(Debug)]
pub struct Merge<S> {
    /// In key order.
    parts: Vec<S>,
    /// Borders between the parts were made where they were missing.
    has_borders: bool,
}

impl<S: MergeSource> Merge<S> {
    /// Whether all changes were taken.
    pub fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.peek().is_none())
    }

    /// The parts, in key order.
    pub fn parts(&self) -> &[S] {
        &self.parts
    }

    /// The parts, in key order.
    pub fn into_parts(self) -> Vec<S> {
        self.parts
    }

    /// The parts, in key order.
    pub fn parts_mut(&mut self) -> &mut [S] {
        &mut self.parts
    }
}

/// A part that can be merged beside the others of the chunk, up to a limit.
struct OpenPart<'m, S> {
    source: &'m mut S,
    limit: Option<Vec<u8>>,
}

/// Neighbouring leaves under one parent that a thread has built.
#[derive(Debug)]
struct LeafGroup {
    /// Leads to the first leaf that they replace.
    key: Vec<u8>,
    parent: PageId,
    first: usize,
    leaves: EditedLeaves,
}

/// All leaves that were built, in key order.
struct BuiltLeaves {
    leaves: VecDeque<LeafGroup>,
}

impl Tree {
    /// Starts merging the changes of `source`, divided among `TreeOptions::threads`.
    ///
    /// # Errors
    /// On a damaged page.
    pub fn begin_merge<S: DivisibleSource>(&self, source: S) -> Result<Merge<S>, TreeError> {
        // Nothing may change the tree meanwhile; nothing does between chunks, but a bulk load could.
        let _writer = self.lock_writer()?;
        let keys = match self.options.threads {
            0 | 1 => Vec::new(),
            threads => source.dividing_keys(threads * PARTS_PER_THREAD),
        };
        let mut last = source.peek().map_or(Vec::new(), |(key, _)| key.to_vec());
        let mut parts = vec![source];
        for key in keys {
            // At the border of a leaf, unless another part begins there or behind it: both can be merged to their ends.
            let border = match leaf_parent(self, &key)? {
                Some(parent) => parent.lower_bound_of_leaf(self, &key)?,
                None => Vec::new(),
            };
            last = if border > last { border } else { key };
            let rest = parts.last_mut().expect("it starts with one part").split_off(&last);
            parts.push(rest);
        }
        Ok(Merge { parts, has_borders: false })
    }

    /// Plans a chunk with the next changes of a merge, as `merge_chunk` does with those of one source. With several
    /// threads, each may exceed the budget by some twenty pages and one long value.
    ///
    /// # Errors
    /// As for `merge_chunk`; the merge must then be started again.
    pub fn continue_merge<S: DivisibleSource>(
        &self,
        merge: &mut Merge<S>,
        budget_bytes: u64,
        stamp: Lsn,
    ) -> Result<ChunkPlan, TreeError> {
        let Merge { parts, has_borders } = merge;
        self.plan_chunk(stamp, |chunk| {
            let mut live: Vec<&mut S> = parts.iter_mut().filter(|part| part.peek().is_some()).collect();
            if let [] | [_] = live[..] {
                return live.into_iter().try_for_each(|only| merge_into(chunk, only, budget_bytes));
            }
            let starts = leaves_of_first_changes(self, &live)?;
            let is_open = |index: usize| starts.get(index + 1).is_none_or(|next| starts[index] < *next);
            let open_count = (0..live.len()).filter(|index| is_open(*index)).count();
            if open_count * 2 < live.len() && !*has_borders {
                *has_borders = true;
                let bytes = FIRST_LEAVES * chunk.format.page_bytes();
                return merge_into(chunk, &mut InTurns::new(live, chunk.format, bytes), budget_bytes);
            }
            if open_count < 2 {
                return merge_into(chunk, &mut InTurns::new(live, chunk.format, usize::MAX), budget_bytes);
            }
            let places = live.drain(..).enumerate().filter(|(index, _)| is_open(*index));
            let open =
                places.map(|(index, source)| OpenPart { source, limit: starts.get(index + 1).cloned() });
            let mut built = build_leaves(chunk, open.collect(), budget_bytes)?;
            if built.leaves.is_empty() { Ok(()) } else { edit_tree(chunk, &mut built) }
        })
    }
}

/// The lower bounds of the leaves where each part's first change belongs.
fn leaves_of_first_changes<S: MergeSource>(tree: &Tree, parts: &[&mut S]) -> Result<Vec<Vec<u8>>, TreeError> {
    let bound_of = |part: &&mut S| {
        let (key, _) = part.peek().expect("only parts with changes are asked");
        leaf_parent(tree, key)?.map_or(Ok(Vec::new()), |parent| parent.lower_bound_of_leaf(tree, key))
    };
    parts.iter().map(bound_of).collect()
}

/// Merges parts side by side, but builds their leaves only.
fn build_leaves<S: DivisibleSource>(
    chunk: &mut ChunkBuilder<'_>,
    parts: Vec<OpenPart<'_, S>>,
    budget_bytes: u64,
) -> Result<BuiltLeaves, TreeError> {
    let helper_count = chunk.tree.options.threads.min(parts.len()) - 1;
    let queue = Mutex::new(parts.into_iter().enumerate());
    let work = |chunk| take_up_parts(chunk, &queue, budget_bytes);
    let all = thread::scope(|scope| {
        let start = |_| {
            let beside = chunk.beside();
            let thread = thread::Builder::new().name("seawall-merge".to_owned());
            // Fewer threads take longer, and that is all.
            let failed =
                |error: &std::io::Error| tracing::warn!(%error, "starting a thread of the merge failed");
            thread.spawn_scoped(scope, move || work(beside)).inspect_err(failed).ok()
        };
        let helpers: Vec<_> = (0..helper_count).filter_map(start).collect();
        let own = work(chunk.beside());
        let joined =
            helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|cause| resume_unwind(cause)));
        std::iter::once(own).chain(joined).collect::<Result<Vec<_>, _>>()
    })?;
    let mut built = Vec::new();
    for (beside, leaves) in all {
        chunk.absorb(beside)?;
        built.extend(leaves);
    }
    built.sort_unstable_by_key(|(place, _)| *place);
    Ok(BuiltLeaves { leaves: built.into_iter().flat_map(|(_, leaves)| leaves).collect() })
}

/// What one thread does: takes up one part after another until the budget is used up.
#[expect(clippy::type_complexity, reason = "what was built, by the part's place among those of the chunk")]
fn take_up_parts<'t, 'm, S: DivisibleSource + 'm>(
    mut chunk: ChunkBuilder<'t>,
    queue: &Mutex<impl Iterator<Item = (usize, OpenPart<'m, S>)>>,
    budget_bytes: u64,
) -> Result<(ChunkBuilder<'t>, Vec<(usize, Vec<LeafGroup>)>), TreeError> {
    let mut built = Vec::new();
    let mut counted = CountedPath::default();
    while built.is_empty() || chunk.used_bytes() < budget_bytes {
        let Some((place, part)) = queue.lock().next() else { break };
        let leaves = merge_part(&mut chunk, part, budget_bytes, &mut counted)
            .inspect_err(|_| chunk.use_up_budget())?;
        built.push((place, leaves));
    }
    Ok((chunk, built))
}

fn merge_part<S: DivisibleSource>(
    chunk: &mut ChunkBuilder<'_>,
    part: OpenPart<'_, S>,
    budget_bytes: u64,
    counted: &mut CountedPath,
) -> Result<Vec<LeafGroup>, TreeError> {
    let mut changes = ChangedRows::new(part.source, budget_bytes, part.limit.as_deref());
    let mut built = Vec::new();
    let anywhere = Bounds { lower: RowKey::new(&[], &[]), upper: None };
    while let Some((key, _)) = changes.next_key(chunk.used_bytes(), anywhere) {
        let parent = leaf_parent(chunk.tree, key)?.expect("parts are open only if the root is no leaf");
        Walk { chunk, edits: &mut changes }.edit_leaves_below(&parent, &mut built, counted)?;
    }
    chunk.statistics.changes += changes.taken;
    Ok(built)
}

/// The pages above the leaf that a thread has changed last, the root first: they will be written, and count towards the
/// budget. Keys ascend, so the thread does not come back to a page that it has left.
#[derive(Default)]
struct CountedPath(Vec<PageId>);

impl CountedPath {
    /// Goes on to a leaf below `path`; how many pages that adds.
    fn advance(&mut self, path: &[PageId]) -> usize {
        let known = self.0.iter().zip(path).take_while(|(counted, page)| counted == page).count();
        self.0.truncate(known);
        self.0.extend_from_slice(&path[known..]);
        path.len() - known
    }
}

impl Walk<'_, '_, '_> {
    /// Edits the leaves of one parent, and notes what came of those that changed.
    fn edit_leaves_below(
        &mut self,
        parent: &LeafParent,
        built: &mut Vec<LeafGroup>,
        counted: &mut CountedPath,
    ) -> Result<(), TreeError> {
        let (view, bounds) = (interior_of(self.chunk.tree, &parent.page)?, parent.bounds());
        let before = NodeEdit::new(view, bounds.lower);
        let mut next = 0;
        while next < view.len()
            && let Some(first) = self.edits.next_child(self.chunk, &view, bounds, next)
        {
            assert!(first >= next, "changes must come in ascending key order");
            let leaves = self.edit_leaves(&view, first, bounds)?;
            next = leaves.end;
            if !before.holds(first, leaves.end, &leaves.entries) {
                self.chunk.expect_interiors(counted.advance(&parent.path));
                let key = bounds_of(&view, first, bounds).lower.to_vec();
                built.push(LeafGroup { key, parent: parent.page.view().id(), first, leaves });
            }
        }
        Ok(())
    }
}

/// Links leaves that are built already: the walk over the pages above them.
impl Edits for BuiltLeaves {
    fn next_child(
        &self,
        _chunk: &ChunkBuilder<'_>,
        view: &InteriorView<'_>,
        bounds: Bounds<'_>,
        _next: usize,
    ) -> Option<usize> {
        let next = self.leaves.front()?;
        let within = bounds.upper.is_none_or(|upper| upper.compare(&next.key).is_gt());
        within.then(|| view.child_for(&next.key))
    }

    fn edited(&mut self, parent: PageId, index: usize) -> Option<EditedLeaves> {
        let group = self.leaves.pop_front()?;
        assert!(
            (group.parent, group.first) == (parent, index),
            "{group:?} was looked for under page {parent}"
        );
        Some(group.leaves)
    }

    fn edit_leaf(
        &mut self,
        _chunk: &mut ChunkBuilder<'_>,
        page: &Page,
        _bounds: Bounds<'_>,
        _rows: &mut RowSet,
        _out: &mut ChildList,
    ) -> Result<(), TreeError> {
        unreachable!("leaf {:?} is to be linked, but was not built", page.view())
    }
}

/// Parts one after another, as one source: some bytes of changes from each.
struct InTurns<'m, S> {
    parts: Vec<&'m mut S>,
    format: PageFormat,
    bytes_each: usize,
    at: usize,
    taken_bytes: usize,
}

impl<'m, S: MergeSource> InTurns<'m, S> {
    /// All `parts` have changes.
    fn new(parts: Vec<&'m mut S>, format: PageFormat, bytes_each: usize) -> InTurns<'m, S> {
        InTurns { parts, format, bytes_each, at: 0, taken_bytes: 0 }
    }
}

impl<S: MergeSource> MergeSource for InTurns<'_, S> {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.parts.get(self.at)?.peek()
    }

    fn advance(&mut self) {
        let part = &mut self.parts[self.at];
        self.taken_bytes +=
            part.peek().map_or(0, |(key, change)| key.len() + change.bytes_in_leaf(&self.format));
        part.advance();
        if self.taken_bytes >= self.bytes_each || part.peek().is_none() {
            self.at += 1;
            self.taken_bytes = 0;
        }
    }

    fn keep_replaced(&self) -> bool {
        self.parts[self.at].keep_replaced()
    }

    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.parts[self.at].replaced(key, value);
    }
}
