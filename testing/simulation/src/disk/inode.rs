//! One simulated file: what programs see, what is durable, and the changes between the two, in order.
//!
//! ```text
//!   durable --(pending changes, each kept, lost or torn when the power goes)--> current
//! ```
//! Invariant: unless a sync failed, `current` is `durable` with all of `pending` applied, and then the `mapped` pages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::content::{BLOCK_BYTES, Clear, Content};
use super::power_loss::Fates;
use crate::random::SeededRandom;

/// A device writes this much at once; the unit in which a write is torn.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Clearing a range changes no bytes but zeros: it is cut into no more parts than these.
const CLEARED_PARTS: u64 = 4;

#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    Clear { range: Range<u64>, clear: Clear },
    Length(u64),
}

impl Change {
    /// The bytes it changes; `None` for a length.
    pub(super) fn range(&self) -> Option<Range<u64>> {
        match self {
            Change::Write { offset, bytes } => Some(*offset..offset.saturating_add(bytes.len() as u64)),
            Change::Clear { range, .. } => Some(range.clone()),
            Change::Length(_) => None,
        }
    }

    /// The parts of it that reach the disk when it is torn.
    pub(super) fn torn(&self, fates: &mut Fates) -> Vec<Change> {
        match self.range() {
            Some(range) => fates.tear(range, SECTOR_BYTES).into_iter().map(|part| self.part(part)).collect(),
            None => Vec::new(),
        }
    }

    /// What can be lost or kept by itself when a power loss tears it at multiples of `border_bytes`.
    pub(super) fn parts(&self, border_bytes: u64) -> Vec<Change> {
        let Some(range) = self.range() else { return vec![self.clone()] };
        let step = match self {
            Change::Write { .. } | Change::Length(_) => border_bytes,
            Change::Clear { .. } => {
                let quarter = (range.end - range.start).div_ceil(CLEARED_PARTS);
                quarter.checked_next_multiple_of(border_bytes).unwrap_or(border_bytes)
            }
        };
        let mut parts = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min((start - start % step).saturating_add(step));
            parts.push(self.part(start..end));
            start = end;
        }
        parts
    }

    /// The length that it gives a file that is shorter, besides changing bytes.
    fn reaches(&self) -> Option<u64> {
        match self {
            Change::Write { .. } | Change::Clear { clear: Clear::ToZeros, .. } => {
                self.range().filter(|range| !range.is_empty()).map(|range| range.end)
            }
            Change::Clear { clear: Clear::ToHole, .. } | Change::Length(_) => None,
        }
    }

    fn part(&self, part: Range<u64>) -> Change {
        match self {
            Change::Write { offset, bytes } => {
                let inside = |position: u64| usize::try_from(position - offset).expect("inside the write");
                Change::Write {
                    offset: part.start,
                    bytes: bytes[inside(part.start)..inside(part.end)].into(),
                }
            }
            Change::Clear { clear, .. } => Change::Clear { range: part, clear: *clear },
            Change::Length(bytes) => Change::Length(*bytes),
        }
    }

    fn apply(&self, content: &mut Content) {
        match self {
            Change::Write { offset, bytes } => content.write(bytes, *offset),
            Change::Clear { range, clear } => content.clear(range.clone(), *clear),
            Change::Length(bytes) => content.set_length(*bytes),
        }
    }
}

/// Whether a change waits for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    Pending,
    Durable,
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    /// Its name now, or the last one it had.
    pub(super) path: Arc<str>,
    pub(super) current: Content,
    durable: Content,
    pending: Vec<(Change, Durability)>,
    /// Pages that were changed through a mapping since the last sync, and how some of them looked at some moment since.
    mapped: BTreeMap<u64, Option<Change>>,
    /// A sync failed: `durable` misses changes that no later sync writes again.
    diverged: bool,
    /// Has a name now.
    pub(super) linked: bool,
    /// Open files.
    pub(super) handles: u64,
    /// Neither name nor handle, so its space is free; kept as long as its removal may be undone.
    pub(super) released: bool,
}

impl Inode {
    /// A new, empty file.
    pub(super) fn new(path: Arc<str>) -> Inode {
        Inode::with_content(path, Content::default())
    }

    /// A file whose content is durable.
    pub(super) fn with_content(path: Arc<str>, content: Content) -> Inode {
        let durable = content.clone();
        let (pending, mapped) = (Vec::new(), BTreeMap::new());
        let (diverged, linked, handles, released) = (false, true, 0, false);
        Inode { path, current: content, durable, pending, mapped, diverged, linked, handles, released }
    }

    pub(super) fn change(&mut self, change: Change, durability: Durability) {
        change.apply(&mut self.current);
        if durability == Durability::Durable && self.pending.is_empty() {
            change.apply(&mut self.durable);
        } else {
            // A durable change behind pending ones waits for its turn, so that no older write lands on top of it.
            self.pending.push((change, durability));
        }
    }

    /// Changes bytes through a mapping. The operating system writes pages back when it likes: one of them now, by chance.
    pub(super) fn change_mapped(&mut self, offset: u64, bytes: &[u8], random: &mut SeededRandom) {
        self.current.write(bytes, offset);
        for page in offset / BLOCK_BYTES..(offset + bytes.len() as u64).div_ceil(BLOCK_BYTES) {
            self.mapped.entry(page).or_default();
        }
        if random.chance(1, 16) {
            let index =
                usize::try_from(random.below(self.mapped.len() as u64)).expect("as many as there are");
            let page = *self.mapped.keys().nth(index).expect("there is one, as bytes were changed");
            let version = self.mapped_page(page);
            self.mapped.insert(page, Some(version));
        }
    }

    fn mapped_page(&self, page: u64) -> Change {
        let offset = page * BLOCK_BYTES;
        let mut bytes = vec![0; usize::try_from(BLOCK_BYTES).expect("a block is small")];
        self.current.read(&mut bytes, offset);
        Change::Write { offset, bytes: bytes.into() }
    }

    pub(super) fn sync(&mut self) {
        if self.diverged {
            self.pending.iter().for_each(|(change, _)| change.apply(&mut self.durable));
            for page in std::mem::take(&mut self.mapped).into_keys() {
                self.mapped_page(page).apply(&mut self.durable);
            }
        } else {
            self.durable = self.current.clone();
        }
        self.pending.clear();
        self.mapped.clear();
    }

    /// As Linux does: the pages count as clean, whether they reached the disk or not. So it may drop them (`forgets`), as some
    /// file systems do at once and any does when memory is short; then programs read what is on the disk.
    pub(super) fn sync_failed(&mut self, fates: &mut Fates, forgets: bool) {
        self.durable = self.surviving(fates);
        self.pending.clear();
        self.mapped.clear();
        self.diverged = !forgets;
        if forgets {
            self.current = self.durable.clone();
        }
    }

    /// The content after a power loss.
    pub(super) fn surviving(&self, fates: &mut Fates) -> Content {
        let mut content = self.durable.clone();
        for (change, durability) in &self.pending {
            if *durability == Durability::Durable {
                change.apply(&mut content);
            } else {
                if let Some(length) = self.extends_to(change)
                    && fates.keeps_length()
                {
                    content.set_length(length.max(content.length()));
                }
                fates.of_change(change).iter().for_each(|part| part.apply(&mut content));
            }
        }
        for (&page, earlier) in &self.mapped {
            for version in earlier.iter().chain([&self.mapped_page(page)]) {
                fates.of_change(version).iter().for_each(|part| part.apply(&mut content));
            }
        }
        content
    }

    /// The length that a pending change gives the file, if the durable one is shorter.
    fn extends_to(&self, change: &Change) -> Option<u64> {
        change.reaches().filter(|length| *length > self.durable.length())
    }

    /// Of how many parts each pending change consists, as [`Inode::surviving`] asks for their fates.
    pub(super) fn pending_parts(&self, border_bytes: u64) -> Vec<usize> {
        let pending = self.pending.iter().filter(|(_, durability)| *durability == Durability::Pending);
        let mut counts: Vec<usize> = pending
            .map(|(change, _)| {
                usize::from(self.extends_to(change).is_some()) + change.parts(border_bytes).len()
            })
            .collect();
        for (&page, earlier) in &self.mapped {
            for version in earlier.iter().chain([&self.mapped_page(page)]) {
                counts.push(version.parts(border_bytes).len());
            }
        }
        counts
    }

    /// The blocks in which a power loss can make a difference; `None` if it makes none.
    pub(super) fn pending_blocks(&self) -> Option<BTreeSet<u64>> {
        if self.pending.is_empty() && self.mapped.is_empty() {
            return None;
        }
        let mut blocks: BTreeSet<u64> = self.mapped.keys().copied().collect();
        let longest = self.current.length().max(self.durable.length());
        for (change, _) in &self.pending {
            let range = change.range().unwrap_or(0..longest);
            blocks.extend(range.start / BLOCK_BYTES..range.end.min(longest).div_ceil(BLOCK_BYTES));
        }
        Some(blocks)
    }

    /// Damages the file now and after any power loss.
    pub(super) fn damage(&mut self, damage: impl Fn(&mut Content)) {
        damage(&mut self.current);
        damage(&mut self.durable);
    }
}
