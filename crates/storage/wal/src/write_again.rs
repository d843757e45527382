//! Makes the writes of an earlier process durable, which that process may not have synced.
//!
//! When a process ends in the middle of a flush, or its sync fails, the records of that batch may be read again from the
//! operating system's cache and still be lost with the power. Whoever goes on from them must make them durable first:
//! readers will see them, and the records that follow say that the log before them was durable.

use std::io;

use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_types::Lsn;

use crate::error::LogError;
use crate::geometry::StreamPosition;
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{LogIdentity, SegmentName};

const PIECE_BYTES: usize = 256 << 10;

/// Writes the log from `from` to `to` over itself, and syncs it. A crash in the middle does no harm, since nothing
/// changes. A sync alone would not do: after one that failed, the cache counts as clean.
pub(crate) fn write_again(
    disk: &dyn Disk,
    identity: &LogIdentity,
    from: Lsn,
    to: Lsn,
) -> Result<(), LogError> {
    let geometry = identity.geometry;
    let (mut position, end) = (geometry.stream_position(from), geometry.stream_position(to));
    while position < end && !sabotaged(Defect::LastBatchNotWrittenAgain) {
        let (number, offset) = geometry.file_position(position);
        let bytes = (geometry.segment_bytes() - offset).min(end.0 - position.0);
        let path = SegmentName { number, timeline: identity.timeline.id }.path();
        let file = disk.open(&path, OpenMode::Write);
        file.and_then(|file| copy_onto_itself(&*file, offset, bytes))
            .map_err(|error| LogError::io("write again", &path, error))?;
        position = StreamPosition(position.0 + bytes);
    }
    Ok(())
}

fn copy_onto_itself(file: &dyn DiskFile, mut offset: u64, mut bytes: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(bytes).unwrap_or(usize::MAX))];
    while bytes > 0 {
        let length = piece.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        file.read_exact_at(&mut piece[..length], offset)?;
        file.write_all_at(&piece[..length], offset)?;
        offset += length as u64;
        bytes -= length as u64;
    }
    file.sync_data()
}
