//! The records of gaps in a repository.

use super::Repository;
use crate::envelope::{Header, ObjectKind, Packer, Packing};
use crate::error::ArchiveError;
use crate::gap::{Gap, GapRecord, TEXT_BYTES_MAX};
use crate::layout;
use crate::system::System;

impl Repository {
    /// Puts on record that segments are missing. One that is on record already is fine.
    ///
    /// # Errors
    /// As [`Repository::push`], but for `OtherContent`.
    pub fn record_gap(&self, system: System, record: &GapRecord) -> Result<(), ArchiveError> {
        let header = Header {
            timeline: Some(record.gap.first.timeline),
            created_micros: record.noticed_micros,
            ..Header::unpacked(ObjectKind::GapRecord, system, record.gap.to_string())
        };
        let packed = Packer::new(Packing::default()).pack(header, record.encode().as_bytes());
        match self.put(&layout::gap(system, record.gap), &packed) {
            // Recorded before, at another moment or for another reason, and the answer or the reminder was lost.
            Ok(_) | Err(ArchiveError::OtherContent { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The gaps of a system, in their order.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn gaps(&self, system: System) -> Result<Vec<Gap>, ArchiveError> {
        let directory = layout::gaps(system);
        let mut gaps = self.entries(&directory, |entry| Gap::parse(entry.path.strip_prefix(&directory)?))?;
        gaps.sort();
        Ok(gaps)
    }

    /// When and why a gap was left.
    ///
    /// # Errors
    /// As [`Repository::fetch`].
    pub fn read_gap(&self, system: System, gap: Gap) -> Result<GapRecord, ArchiveError> {
        let path = layout::gap(system, gap);
        let damaged =
            |problem: String| ArchiveError::Damaged { object: self.storage.location(&path), problem };
        let (header, _) = self.read_header(&path)?;
        if header.plain_bytes > TEXT_BYTES_MAX {
            return Err(damaged(format!("a record of {} bytes", header.plain_bytes)));
        }
        let mut text = Vec::new();
        self.fetch_path(&path, system, &gap.to_string(), &mut text)?;
        let record = GapRecord::decode(&text).map_err(|problem| damaged(problem.to_string()))?;
        if record.gap != gap {
            return Err(damaged(format!("it is the record of {}", record.gap)));
        }
        Ok(record)
    }
}
