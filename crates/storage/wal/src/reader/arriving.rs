//! Reads a log that arrives in pieces, such as one fetched from an archive.
//!
//! ```text
//!   [rec|rec|rec|re             what has arrived, whole: its end may lie inside of a record
//!               ^position       that one goes on behind what has arrived: the reader waits here for more
//! ```
//! There is no torn end in it: the archive was given durable bytes only. So a record that lies before the end of
//! what has arrived and does not verify is damage, also in the last batch. A log becomes durable a record at a time and is put into an
//! archive as far as it is durable, or segment by segment: when nothing more comes, one that goes on behind the end can have been cut
//! off at the border of a segment only; and if any record verifies behind its beginning, it is its length that is damaged.

use seawall_types::Lsn;

use super::{LogReader, search};
use crate::error::LogReadError;
use crate::record::{RECORD_HEADER_BYTES, RecordHeader};

impl LogReader {
    /// The log is there up to `arrived`, all of it, and nothing behind it yet: reads no further, and takes what does not verify
    /// before for damage. `next` returns `None` where a record goes on behind it; to be called again when more has arrived.
    ///
    /// # Panics
    /// If `arrived` lies before the position.
    pub fn set_arrived(&mut self, arrived: Lsn) {
        let arrived = self.geometry.normalise(arrived);
        assert!(
            arrived >= self.position,
            "the reader is at {}, past what has arrived, {arrived}",
            self.position
        );
        self.arrived = Some(arrived);
    }

    /// Nothing more will arrive: refuses damage that only looks like a record that was cut off by the end.
    ///
    /// # Errors
    /// `Damaged`; `Io`.
    pub fn check_cut_off(&mut self) -> Result<(), LogReadError> {
        let Some(arrived) = self.arrived.filter(|arrived| *arrived > self.position) else { return Ok(()) };
        if arrived != self.geometry.first_record_of(self.geometry.segment_of(arrived)) {
            return Err(self.damaged(arrived));
        }
        let found = search::record_after(&mut self.bytes, self.key, self.position)?;
        match found.filter(|found| *found < arrived) {
            Some(found) => Err(self.damaged(found)),
            None => Ok(()),
        }
    }

    /// Whether the record at the position, as far as can be seen, goes on behind what has arrived.
    pub(super) fn goes_on_behind_arrived(&self) -> bool {
        // Nothing goes on behind the place where its timeline was left.
        let is_known = |arrived: &Lsn| self.known_end().is_none_or(|known_end| *arrived < known_end);
        let Some(arrived) = self.arrived.filter(is_known) else { return false };
        let goes_on = |bytes: u64| self.geometry.advance(self.position, bytes) > arrived;
        if goes_on(RECORD_HEADER_BYTES as u64) {
            return true;
        }
        let header = &self.window[self.window_offset()..self.filled];
        let header = RecordHeader::decode(header, self.key.masks(self.position));
        header.is_some_and(|header| goes_on(u64::from(header.length)))
    }
}
