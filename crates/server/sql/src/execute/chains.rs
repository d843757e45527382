//! A hash table of numbered entries: hashes and chains only; what the entries hold, the user keeps.

/// No entry.
const NONE: u32 = u32::MAX;

/// Entries 0, 1, 2, .. in chains by hash.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    heads: Vec<u32>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    next: u32,
}

/// Bytes that an entry takes, heads included.
pub(crate) const ENTRY_BYTES: usize = size_of::<Entry>() + 2 * size_of::<u32>();

impl Chains {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.entries.clear();
    }

    /// Adds the next entry; `false`: there are as many as there can be.
    pub(crate) fn push(&mut self, hash: u64) -> bool {
        let Some(index) = u32::try_from(self.entries.len()).ok().filter(|index| *index != NONE) else {
            return false;
        };
        if self.entries.len() >= self.heads.len() {
            self.grow();
        }
        let head = self.head(hash);
        self.entries.push(Entry { hash, next: self.heads[head] });
        self.heads[head] = index;
        true
    }

    /// The entries with this hash, the last one first.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Found<'_> {
        let next = if self.heads.is_empty() { NONE } else { self.heads[self.head(hash)] };
        Found { chains: self, hash, next }
    }

    /// The entry after one that `find` has returned, for a search that is kept between calls.
    pub(crate) fn find_after(&self, hash: u64, entry: usize) -> Found<'_> {
        Found { chains: self, hash, next: self.entries[entry].next }
    }

    fn head(&self, hash: u64) -> usize {
        // The low bits: partitions of a spilled table take the high ones.
        usize::try_from(hash & (self.heads.len() as u64 - 1)).unwrap_or(0)
    }

    fn grow(&mut self) {
        let length = (self.heads.len() * 2).max(16);
        self.heads.clear();
        self.heads.resize(length, NONE);
        for index in 0..self.entries.len() {
            let head = self.head(self.entries[index].hash);
            self.entries[index].next = self.heads[head];
            self.heads[head] = u32::try_from(index).unwrap_or(NONE);
        }
    }
}

/// Entries with one hash.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    chains: &'a Chains,
    hash: u64,
    next: u32,
}

impl Iterator for Found<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.next != NONE {
            let index = self.next as usize;
            let entry = self.chains.entries[index];
            self.next = entry.next;
            if entry.hash == self.hash {
                return Some(index);
            }
        }
        None
    }
}
