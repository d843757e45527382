//! The bodies of the records that are not commits. Integers little-endian.
//!
//! | kind            | bytes | field          | meaning                                                  |
//! |-----------------|------:|----------------|----------------------------------------------------------|
//! | checkpoint      |     8 | redo_point     | where a replay starts until the checkpoint is done       |
//! |                 |     8 | time           | microseconds since 1970, signed                          |
//! | timeline switch |     4 | timeline       | the new one                                              |
//! |                 |     4 | parent         | the one that it leaves                                   |
//! |                 |     8 | fork           | where                                                    |
//! |                 |     8 | time           | microseconds since 1970, signed                          |
//! | restore point   |     8 | time           | microseconds since 1970, signed                          |
//! |                 |       | name           | UTF-8, 1 to 255 bytes, the rest of the body              |
//! | bulk load       |     8 | table          | number under which the rows lie that were loaded         |
//! |                 |     8 | time           | microseconds since 1970, signed                          |
//! | no-op           |       | padding        | any bytes                                                |

use seawall_types::{Lsn, TableId, TimelineId};

use crate::body::BodyReader;
use crate::error::RecordError;
use crate::record::{PreparedRecord, RECORD_HEADER_BYTES, RecordKind};

/// The longest name of a restore point, in bytes.
pub const RESTORE_POINT_NAME_BYTES_MAX: usize = 255;

/// A checkpoint began: the memtable was frozen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where a replay starts until the checkpoint is done.
    pub redo_point: Lsn,
    /// When it began, microseconds since 1970.
    pub time_micros: i64,
}

/// The log goes on on a new timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSwitch {
    /// The new timeline, on which this record is.
    pub timeline: TimelineId,
    /// The timeline that it leaves.
    pub parent: TimelineId,
    /// Where: the end of the parent's part.
    pub fork: Lsn,
    /// When, microseconds since 1970.
    pub time_micros: i64,
}

/// A name for a position to recover to: the end of this record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorePoint<'a> {
    /// The name.
    pub name: &'a str,
    /// When it was made, microseconds since 1970.
    pub time_micros: i64,
}

/// Rows were loaded past the log: the tree has them, and no record does. Whoever replays the log onto an older tree than that
/// cannot go on from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkLoad {
    /// Where they lie.
    pub table: TableId,
    /// When, microseconds since 1970.
    pub time_micros: i64,
}

impl BulkLoad {
    /// The record that says so.
    pub fn prepare(&self) -> PreparedRecord {
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.extend_from_slice(&self.table.get().to_le_bytes());
        bytes.extend_from_slice(&self.time_micros.to_le_bytes());
        PreparedRecord::from_bytes(RecordKind::BulkLoad, bytes)
    }

    pub(crate) fn decode(body: &[u8]) -> Result<BulkLoad, RecordError> {
        let mut reader = BodyReader::new(body);
        let table = TableId::new(u64::from_le_bytes(reader.fixed("table")?));
        let time_micros = i64::from_le_bytes(reader.fixed("time")?);
        reader.finish()?;
        Ok(BulkLoad { table, time_micros })
    }
}

impl Checkpoint {
    /// The record that says so.
    pub fn prepare(&self) -> PreparedRecord {
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.extend_from_slice(&self.redo_point.get().to_le_bytes());
        bytes.extend_from_slice(&self.time_micros.to_le_bytes());
        PreparedRecord::from_bytes(RecordKind::Checkpoint, bytes)
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Checkpoint, RecordError> {
        let mut reader = BodyReader::new(body);
        let redo_point = Lsn::new(u64::from_le_bytes(reader.fixed("redo point")?));
        let time_micros = i64::from_le_bytes(reader.fixed("time")?);
        reader.finish()?;
        Ok(Checkpoint { redo_point, time_micros })
    }
}

impl TimelineSwitch {
    /// The record that says so.
    pub fn prepare(&self) -> PreparedRecord {
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.extend_from_slice(&self.timeline.get().to_le_bytes());
        bytes.extend_from_slice(&self.parent.get().to_le_bytes());
        bytes.extend_from_slice(&self.fork.get().to_le_bytes());
        bytes.extend_from_slice(&self.time_micros.to_le_bytes());
        PreparedRecord::from_bytes(RecordKind::TimelineSwitch, bytes)
    }

    pub(crate) fn decode(body: &[u8]) -> Result<TimelineSwitch, RecordError> {
        let mut reader = BodyReader::new(body);
        let timeline = timeline(&mut reader, "timeline")?;
        let parent = self::timeline(&mut reader, "parent")?;
        let fork = Lsn::new(u64::from_le_bytes(reader.fixed("fork")?));
        let time_micros = i64::from_le_bytes(reader.fixed("time")?);
        reader.finish()?;
        Ok(TimelineSwitch { timeline, parent, fork, time_micros })
    }
}

fn timeline(reader: &mut BodyReader<'_>, field: &'static str) -> Result<TimelineId, RecordError> {
    let offset = reader.offset();
    let number = u32::from_le_bytes(reader.fixed(field)?);
    TimelineId::new(number).ok_or(RecordError::Value { field, offset })
}

impl<'a> RestorePoint<'a> {
    /// The record that says so.
    ///
    /// # Panics
    /// If the name is empty or longer than [`RESTORE_POINT_NAME_BYTES_MAX`].
    pub fn prepare(&self) -> PreparedRecord {
        let name_bytes = self.name.len();
        assert!((1..=RESTORE_POINT_NAME_BYTES_MAX).contains(&name_bytes), "a name of {name_bytes} bytes");
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.extend_from_slice(&self.time_micros.to_le_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        PreparedRecord::from_bytes(RecordKind::RestorePoint, bytes)
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<RestorePoint<'a>, RecordError> {
        let mut reader = BodyReader::new(body);
        let time_micros = i64::from_le_bytes(reader.fixed("time")?);
        let offset = reader.offset();
        let refuse = || RecordError::Value { field: "name", offset };
        let name = reader.bytes(reader.remaining() as u64, "name")?;
        if name.is_empty() || name.len() > RESTORE_POINT_NAME_BYTES_MAX {
            return Err(refuse());
        }
        let name = std::str::from_utf8(name).map_err(|_| refuse())?;
        Ok(RestorePoint { name, time_micros })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded::Record;

    fn read(kind: RecordKind, bytes: &[u8]) -> Result<Record<'_>, RecordError> {
        Record::decode(kind, 0, bytes)
    }

    #[test]
    fn bodies_come_back_and_cut_ones_are_refused() {
        let checkpoint = Checkpoint { redo_point: Lsn::new(1 << 33), time_micros: -5 };
        let switch = TimelineSwitch {
            timeline: TimelineId::new(3).unwrap(),
            parent: TimelineId::new(2).unwrap(),
            fork: Lsn::new(99),
            time_micros: 7,
        };
        let point = RestorePoint { name: "before the upgrade", time_micros: 8 };
        let load = BulkLoad { table: TableId::new(70), time_micros: 9 };
        let all = [
            (RecordKind::BulkLoad, load.prepare(), Record::BulkLoad(load)),
            (RecordKind::Checkpoint, checkpoint.prepare(), Record::Checkpoint(checkpoint)),
            (RecordKind::TimelineSwitch, switch.prepare(), Record::TimelineSwitch(switch)),
            (RecordKind::RestorePoint, point.prepare(), Record::RestorePoint(point)),
        ];
        for (kind, prepared, expected) in all {
            let body = &prepared.as_bytes()[RECORD_HEADER_BYTES..];
            assert_eq!(read(kind, body), Ok(expected));
            assert!(read(kind, &body[..7]).is_err());
            if kind != RecordKind::RestorePoint {
                assert!(read(kind, &body[..body.len() - 1]).is_err());
                assert!(read(kind, &[body, &[0]].concat()).is_err());
            }
        }
        assert_eq!(Record::decode(RecordKind::NoOp, 1, &[]), Err(RecordError::Flags { flags: 1 }));
        assert_eq!(read(RecordKind::NoOp, &[0; 9]), Ok(Record::NoOp));
        assert!(read(RecordKind::RestorePoint, &[0xFF; 20]).is_err());
        assert!(read(RecordKind::TimelineSwitch, &[0; 24]).is_err());
    }
}
