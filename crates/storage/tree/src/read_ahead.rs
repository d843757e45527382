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
/// Of a batch, so many are tried first: where none of their leaves has to be read, the others are not looked at.
const TRIED: usize = 4;

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
    /// These keys are soon looked up: asks for the leaves where they belong. Interior pages on the way are read, if they have to be.
    pub fn will_look_up<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) {
        let mut wanted = WantedPages::new(usize::MAX);
        for (tried, key) in keys.into_iter().enumerate() {
            if tried == TRIED && wanted.pages.is_empty() {
                return;
            }
            let guard = epoch::pin();
            let to_be_read = Cell::new(None);
            let descended = self.descend_unless(
                self.version(),
                &guard,
                |view| view.child_for(key),
                |leaf| {
                    to_be_read.set(Some(leaf).filter(|leaf| !self.lacks_row(*leaf, key)));
                    true
                },
            );
            // What is wrong with a page is for those to find who need the row; and on a tree that changes meanwhile another leaf is asked for.
            drop(descended);
            if let Some(leaf) = to_be_read.get() {
                wanted.pages.push(leaf.page);
            }
        }
        if !wanted.pages.is_empty() {
            wanted.ask(self);
        }
    }
}
