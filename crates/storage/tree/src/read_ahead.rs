//! Reading ahead: the operating system is asked for leaves before they are read, so that a disk that can answer many reads
//! at a time is not asked for one after another.
//!
//! ```text
//!   merge:  changes  a  c  f  k  q     the first leaf that is not cached:
//!           leaves  [ ][ ][ ][ ][ ]    all leaves below its parent where changes belong are asked for
//! ```
//! Which leaves come is known without a leaf being read: a merge compares its changes with the separators of the parent, and a batch of
//! lookups is told before it begins. Scans are left to the operating system, which reads ahead by itself: asking for their leaves was
//! measured, and brought nothing.
//!
//! Invariants:
//! * It is a hint. Nobody sees a page earlier or later by it, and what is read is checked as ever.
//! * Where leaves are cached, nothing is asked for and next to nothing is done.
//! * What is asked for is bounded: `MERGE_BYTES` for each thread of a merge, and a leaf for each key of a batch of lookups. It takes no
//!   memory of the process but what the operating system caches.

use std::cell::Cell;

use crossbeam_epoch as epoch;
use seawall_types::PageId;

use crate::published::PublishedPages;

/// Of leaves that a merge asks for at a time.
const MERGE_BYTES: usize = 2 << 20;

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
        self.pages.dedup();
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

impl PublishedPages {
    /// The leaf where a key belongs, if a lookup would have to read it now. Interior pages on the way are read, if they have to be. What is
    /// wrong with one is for the lookup to find; and while the tree changes, it may be another leaf.
    pub fn leaf_to_read(&self, key: &[u8]) -> Option<PageId> {
        let leaf = Cell::new(None);
        let guard = epoch::pin();
        let descended = self.descend_unless(
            self.version(),
            &guard,
            |interior| interior.child_for(key),
            |at| {
                leaf.set(Some(at).filter(|at| !self.lacks_row(*at, key)));
                true
            },
        );
        drop(descended);
        leaf.get().map(|at| at.page)
    }

    /// These leaves are soon read: asks for them.
    pub fn will_read_leaves(&self, leaves: impl IntoIterator<Item = PageId>) {
        let mut wanted = WantedPages::new(usize::MAX);
        wanted.pages.extend(leaves);
        if !wanted.pages.is_empty() {
            wanted.ask(self);
        }
    }
}
