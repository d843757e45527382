//! Reading ahead: the operating system is asked for leaves before they are read, so that a disk that can answer many reads
//! at a time is not asked for one after another.
//!
//! ```text
//!   merge:  changes  a  c  f  k  q     the first leaf that is not cached:
//!           leaves  [ ][ ][ ][ ][ ]    all leaves below its parent where changes belong are asked for
//!
//!   scan:   leaf, leaf: both not cached --> 4 more are asked for --> 8 --> 16 --> 32
//! ```
//! A scan does not ask for leaves that lie close behind one another in the file: the operating system reads those ahead by itself,
//! and better, as it needs no call for them.
//!
//! Which leaves come is known without a leaf being read: a merge compares its changes with the separators of the parent, and a
//! scan takes the children that follow.
//!
//! Invariants:
//! * It is a hint. Nobody sees a page earlier or later by it, and what is read is checked as ever.
//! * Where leaves are cached, nothing is asked for and next to nothing is done.
//! * What is asked for is bounded: `MERGE_BYTES` for each thread of a merge, `SCAN_BYTES` for each scan. It takes no memory
//!   of the process but what the operating system caches.

use crossbeam_epoch as epoch;
use seawall_types::PageId;

use crate::cursor::Direction;
use crate::published::PublishedPages;

/// Of leaves that a merge asks for at a time.
const MERGE_BYTES: usize = 2 << 20;
/// Of leaves that are asked for ahead of a scan.
const SCAN_BYTES: usize = 256 << 10;
/// Leaves that a scan asks for first: short ones end soon.
const SCAN_LEAVES_FIRST: usize = 4;
/// What the operating system reads ahead by itself, about.
const NEAR_BYTES: u64 = 128 << 10;
/// Leaves in a row that a scan has to miss.
const SCAN_MISSES: u32 = 2;

/// Pages to be asked for together, so that neighbours are one request.
#[derive(Debug)]
pub(crate) struct WantedPages {
    pages: Vec<PageId>,
    pages_max: usize,
}

impl WantedPages {
    pub(crate) fn new(pages_max: usize) -> WantedPages {
        WantedPages { pages: Vec::new(), pages_max }
    }

    /// Leaves that a merge comes to.
    pub(crate) fn for_merge(pages: &PublishedPages) -> WantedPages {
        WantedPages::new((MERGE_BYTES / pages.format().page_bytes()).max(1))
    }

    /// Adds a page unless it is cached; whether there is room for another one.
    pub(crate) fn add(&mut self, pages: &PublishedPages, page: PageId) -> bool {
        if !pages.cache().holds(page) {
            self.pages.push(page);
        }
        self.pages.len() < self.pages_max
    }

    /// Asks for them.
    pub(crate) fn ask(mut self, pages: &PublishedPages) {
        self.pages.sort_unstable();
        let is_next = |left: &PageId, right: &PageId| left.get() + 1 == right.get();
        pages.file().will_need(self.pages.chunk_by(is_next).map(|run| (run[0], run.len() as u64)));
    }
}

/// How far one thread of a merge has asked for leaves.
#[derive(Debug, Default)]
pub(crate) struct MergeAhead {
    /// The leaves below this page, up to the child of this index, were asked for.
    asked: Option<(PageId, usize)>,
}

impl MergeAhead {
    /// Whether the leaf that is child `index` of `parent` was asked for.
    pub(crate) fn covers(&self, parent: PageId, index: usize) -> bool {
        self.asked.is_some_and(|(page, last)| page == parent && index <= last)
    }

    /// Notes that leaves below `parent` were asked for up to child `last`.
    pub(crate) fn note(&mut self, parent: PageId, last: usize) {
        self.asked = Some((parent, last));
    }
}

/// What somebody who goes from leaf to leaf, in one direction, has asked for. One that is new asks for nothing before two
/// leaves in a row were not cached.
#[derive(Clone, Debug, Default)]
pub struct ScanAhead {
    /// Of the last step.
    direction: Option<Direction>,
    /// Leaves in a row that were not cached.
    misses: u32,
    /// Leaves that are still ahead and were asked for.
    asked: usize,
    /// Leaves that are to be ahead, after the first.
    window: usize,
}

impl ScanAhead {
    /// The scan has come to a leaf; whether it is time to ask for more.
    pub(crate) fn advance(&mut self, direction: Direction, was_cached: bool) -> bool {
        if self.direction.replace(direction) != Some(direction) {
            *self = ScanAhead { direction: self.direction, ..ScanAhead::default() };
        }
        self.asked = self.asked.saturating_sub(1);
        self.misses = if was_cached { 0 } else { self.misses.saturating_add(1) };
        self.misses >= SCAN_MISSES && self.asked <= self.window / 2
    }
}

impl PublishedPages {
    /// Asks for the leaves that a scan comes to after the one for `key`, below the same parent. If the tree changes meanwhile,
    /// other pages are asked for, which does no harm. What cannot be read here is for those to find who need it.
    #[cold]
    pub(crate) fn ask_ahead(&self, key: &[u8], direction: Direction, ahead: &mut ScanAhead) {
        let leaves_max = (SCAN_BYTES / self.format().page_bytes()).max(SCAN_LEAVES_FIRST);
        ahead.window = (ahead.window * 2).clamp(SCAN_LEAVES_FIRST, leaves_max);
        let mut wanted = WantedPages::new(leaves_max);
        if let Some(asked) = self.find_ahead(key, direction, ahead, &mut wanted) {
            wanted.ask(self);
            ahead.asked = asked;
        }
    }

    /// Finds the leaves that are to be asked for; how many are ahead then. None if there is no page above the leaf.
    fn find_ahead(
        &self,
        key: &[u8],
        direction: Direction,
        ahead: &ScanAhead,
        wanted: &mut WantedPages,
    ) -> Option<usize> {
        let guard = epoch::pin();
        let parent =
            self.descend_to(1, self.version(), &guard, |view| direction.child_for(view, key)).ok()?;
        let view = parent.view().interior().ok()?;
        let index = direction.child_for(&view, key);
        let following = match direction {
            Direction::Forward => view.len() - 1 - index,
            Direction::Reverse => index,
        };
        let end = following.min(ahead.window);
        let page_at = |step: usize| {
            let index = if direction == Direction::Forward { index + step } else { index - step };
            view.child(index).page
        };
        for step in ahead.asked + 1..=end {
            let (before, page) = (page_at(step - 1), page_at(step));
            let bytes = page.get().abs_diff(before.get()).saturating_mul(self.format().page_bytes() as u64);
            if bytes > NEAR_BYTES {
                wanted.add(self, page);
            }
        }
        Some(ahead.asked.max(end))
    }
}
