//! Who reads long values of which tree: the pages of a value that a chunk frees are not used again before that.
//!
//! ```text
//!   reader   descends at version 6, enters 6, sees that the tree is still that of 6, reads for a second ..... leaves
//!   writer        chunk publishes 8 and frees the value   asks: the oldest tree read is that of 6: not yet     asks again
//! ```
//! A value of 64 MiB takes longer to read than a chunk to be published, so reading it anew after each chunk might never end.
//!
//! Invariant: if a reader has entered a version and the tree was of that version afterwards, the writer finds the reader
//! here before it hands out a page that a later chunk has freed. Entering is ordered before the reader's look at the
//! version, by the latch; publishing a chunk before the writer's look at the readers.

use seawall_sync::{Mutex, thread_number};

/// Readers enter and leave at one of so many places, so that they rarely meet.
const PLACES: usize = 16;

/// The versions of the tree that long values are being read of.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    places: [Place; PLACES],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(Mutex<Vec<u64>>);

/// One reader of a long value; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Reading<'r> {
    place: &'r Place,
    version: u64,
}

impl Readings {
    /// Enters a reader of the tree at `version`. It counts only if the tree is of that version after this.
    pub(crate) fn enter(&self, version: u64) -> Reading<'_> {
        let place = &self.places[thread_number() % PLACES];
        place.0.lock().push(version);
        Reading { place, version }
    }

    /// The oldest version that is being read.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.places.iter().filter_map(|place| place.0.lock().iter().min().copied()).min()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut versions = self.place.0.lock();
        let index = versions.iter().position(|version| *version == self.version);
        versions.swap_remove(index.expect("each reader leaves once"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_reader_is_known_until_it_leaves() {
        let readings = Readings::default();
        assert_eq!(readings.oldest(), None);
        let (newer, older) = (readings.enter(8), readings.enter(6));
        let again = readings.enter(6);
        assert_eq!(readings.oldest(), Some(6));
        drop(older);
        assert_eq!(readings.oldest(), Some(6));
        drop(again);
        assert_eq!(readings.oldest(), Some(8));
        drop(newer);
        assert_eq!(readings.oldest(), None);
    }
}
