//! Leaves that are read once, by who merges whole ranges: many with one call, past the cache, which would lose what others
//! need for them.
//!
//! ```text
//!   in key order:       5  9  6  |  7 12 10 | ...        given out in this order
//!   read from the file: 5-6  9   |  7 10 12 |            batch by batch: sorted, neighbours with one call
//!   asked for:          the batch after that one
//! ```
//! What the cache has is taken from there. Memory for one batch is used at a time.

use std::collections::VecDeque;

use seawall_types::PageId;

use crate::error::TreeError;
use crate::page::{Page, PageDamage, PageReference};
use crate::published::PublishedPages;
use crate::read_ahead::WantedPages;

/// Gives leaves out one after another.
#[derive(Debug)]
pub struct LeafReads<'p> {
    pages: &'p PublishedPages,
    /// Those that were not read yet.
    leaves: VecDeque<PageReference>,
    /// Leaves of a batch.
    at_once: usize,
    /// Of those not read, how many were asked for.
    asked: usize,
    /// Read and not given out yet.
    batch: VecDeque<Page>,
}

impl PublishedPages {
    /// Reads leaves of the tree in the given order, about `bytes` of them at a time. For who has the turn to change the tree, until
    /// a chunk is applied.
    pub fn read_leaves(&self, leaves: Vec<PageReference>, bytes: usize) -> LeafReads<'_> {
        let at_once = (bytes / self.format().page_bytes()).max(1);
        LeafReads { pages: self, leaves: leaves.into(), at_once, asked: 0, batch: VecDeque::new() }
    }
}

impl LeafReads<'_> {
    /// Adds a leaf behind the others.
    pub fn push(&mut self, leaf: PageReference) {
        self.leaves.push_back(leaf);
    }

    /// Whether it has fewer leaves left than it reads and asks for at a time, so that more are welcome.
    pub fn has_few(&self) -> bool {
        self.leaves.len() < self.at_once * 2
    }

    /// The next leaf; `None` after the last one.
    ///
    /// # Errors
    /// If a page cannot be read, is damaged, or is no leaf.
    pub fn next_leaf(&mut self) -> Result<Option<Page>, TreeError> {
        if self.batch.is_empty() && !self.leaves.is_empty() {
            self.read_batch()?;
        }
        Ok(self.batch.pop_front())
    }

    fn read_batch(&mut self) -> Result<(), TreeError> {
        self.ask_up_to(self.at_once * 2);
        let count = self.at_once.min(self.leaves.len());
        let leaves: Vec<PageReference> = self.leaves.drain(..count).collect();
        self.asked = self.asked.saturating_sub(count);
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        order.sort_unstable_by_key(|index| leaves[*index].page);
        let mut found: Vec<Option<Page>> =
            leaves.iter().map(|leaf| self.pages.page_in_memory(leaf.page)).collect();
        order.retain(|index| found[*index].is_none());
        let is_next = |left: &usize, right: &usize| leaves[*left].page.get() + 1 == leaves[*right].page.get();
        for run in order.chunk_by(is_next) {
            let pages = self.pages.read_past_cache(leaves[run[0]].page, run.len())?;
            for (index, page) in run.iter().zip(pages) {
                self.pages.expect_image(leaves[*index], &page)?;
                found[*index] = Some(page);
            }
        }
        for (page, leaf) in found.into_iter().zip(&leaves) {
            let page = page.expect("each page was in memory or was read");
            self.expect_leaf(&page, leaf.page)?;
            self.batch.push_back(page);
        }
        Ok(())
    }

    /// Asks for the first `count` leaves that are not read yet, where it has not.
    fn ask_up_to(&mut self, count: usize) {
        let end = count.min(self.leaves.len());
        if end > self.asked {
            let mut wanted = WantedPages::new(end - self.asked);
            for leaf in self.leaves.range(self.asked..end) {
                wanted.add(self.pages, leaf.page);
            }
            wanted.ask(self.pages);
            self.asked = end;
        }
    }

    fn expect_leaf(&self, page: &Page, id: PageId) -> Result<(), TreeError> {
        let found = page.view().level();
        if found > 0 {
            return Err(self.pages.damaged(id, PageDamage::WrongLevel { expected: 0, found }));
        }
        page.view().leaf().map(|_| ()).map_err(|damage| self.pages.damaged(id, damage))
    }
}
