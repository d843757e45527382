//! What the engine has measured about itself, kept in the file `measurements`: how fast it replays, and the last hundred
//! checkpoints. Nothing depends on it but estimates and what people see, so it is never synced, and one that is missing,
//! torn or damaged counts as empty, record by record. If the power goes, it holds what the file system had written.
//!
//! 101 records of 320 bytes, integers little-endian: first the speed of replay, then checkpoint `n` in record
//! `1 + n % 100`. Reserved bytes are zero.
//!
//! | offset | bytes | field            | replay speed                                                         |
//! |-------:|------:|------------------|----------------------------------------------------------------------|
//! |      0 |     4 | checksum         | CRC-32C of bytes 4..320; a record that does not match is empty       |
//! |      4 |     4 | kind             | 0x4D5332_00: replay speed, version 2                                 |
//! |      8 |    16 | database         | database id; records of another one are empty                        |
//! |     24 |     8 | slowness         | millionths of the built-in time that a replay takes                  |
//! |     32 |     8 | rows_per_second  | of the last replay that was measured                                 |
//! |     40 |     8 | bytes_per_second | of log, of that replay                                               |
//! |     48 |   272 | reserved         |                                                                      |
//!
//! | offset | bytes | field            | checkpoint                                                           |
//! |-------:|------:|------------------|----------------------------------------------------------------------|
//! |      0 |     4 | checksum         | as above                                                             |
//! |      4 |     4 | kind             | 0x4D5332_01: checkpoint, version 2                                   |
//! |      8 |    16 | database         | as above                                                             |
//! |     24 |     8 | number           | checkpoints of the database, with this one                           |
//! |     32 |     8 | trigger          | place in the list of triggers, from 0                                |
//! |     40 |     8 | started_micros   | microseconds since 1970                                              |
//! |     48 |    16 | redo points      | before and after                                                     |
//! |     64 |   104 | counts           | rows, chunks, leaves, interior pages; pages read, fresh, protected, freed; tables reclaimed; bytes of page file, images, recovery file, punched |
//! |    168 |    88 | durations        | nanoseconds: freeze, log flush, merge, recovery write and sync, page write and sync, publish and its longest, paused, total |
//! |    256 |     8 | fill             | thousandths of its limit that the active memtable had used at most   |
//! |    264 |     8 | delayed          | nanoseconds that commits were delayed                                |
//! |    272 |     8 | run_rows         | rows that went into a sorted run                                     |
//! |    280 |     8 | run_bytes        | bytes of its leaves                                                  |
//! |    288 |    32 | reserved         |                                                                      |

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_sync::Mutex;
use seawall_types::{DatabaseId, Lsn};

use crate::checkpoint::statistics::{
    CheckpointDurations, CheckpointHistory, CheckpointStatistics, HISTORY_MAX, Trigger,
};
use crate::pacing::recovery_time::ReplaySpeed;

/// Path of the file.
pub(crate) const MEASUREMENTS_PATH: &str = "measurements";

const RECORD_BYTES: usize = 320;
const KIND_SPEED: u32 = 0x4D53_3200;
const KIND_CHECKPOINT: u32 = 0x4D53_3201;
const FIELDS_AT: usize = 24;
/// Fields of a checkpoint's record, of 8 bytes each.
const FIELD_COUNT: usize = 33;
const _: () = assert!(FIELDS_AT + 8 * FIELD_COUNT + 32 == RECORD_BYTES);

const TRIGGERS: [Trigger; 7] = [
    Trigger::MemtableFull,
    Trigger::LogVolume,
    Trigger::RecoveryTarget,
    Trigger::Interval,
    Trigger::Request,
    Trigger::Close,
    Trigger::Recovery,
];

/// What the file held when the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) speed: ReplaySpeed,
    pub(crate) history: CheckpointHistory,
}

/// The file, to be written.
#[derive(Debug)]
pub(crate) struct Measurements {
    disk: Arc<dyn Disk>,
    database: DatabaseId,
    /// Opened by the first write.
    file: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl Measurements {
    pub(crate) fn new(disk: Arc<dyn Disk>, database: DatabaseId) -> Measurements {
        Measurements { disk, database, file: Mutex::default() }
    }

    /// What the file holds; nothing where it cannot be read.
    pub(crate) fn read(&self) -> Measured {
        let mut measured = Measured::default();
        let Ok(file) = self.disk.open(MEASUREMENTS_PATH, OpenMode::Read) else { return measured };
        let read = |index: usize| {
            let mut record = [0; RECORD_BYTES];
            file.read_exact_at(&mut record, offset(index)).ok()?;
            Record::verify(record, self.database)
        };
        if let Some(record) = read(0).filter(|record| record.kind() == KIND_SPEED) {
            measured.speed = ReplaySpeed::from_stored(record.field(0), record.field(1), record.field(2));
        }
        let mut checkpoints: Vec<_> =
            (1..=HISTORY_MAX).filter_map(|index| read(index)?.checkpoint()).collect();
        checkpoints.sort_unstable_by_key(|(number, _)| *number);
        checkpoints.into_iter().for_each(|(_, checkpoint)| measured.history.push(checkpoint));
        measured
    }

    /// Keeps the checkpoint with this number, and the speed. A failure is told to people only.
    pub(crate) fn keep(&self, number: u64, checkpoint: &CheckpointStatistics, speed: ReplaySpeed) {
        let record = Record::of_checkpoint(self.database, number, checkpoint);
        let slots = u64::try_from(HISTORY_MAX).expect("a hundred");
        let slot = 1 + usize::try_from(number % slots).expect("less than a hundred");
        let kept = self.file().and_then(|file| {
            if speed.is_measured() {
                file.write_all_at(&Record::of_speed(self.database, speed).sealed(), offset(0))?;
            }
            file.write_all_at(&record.sealed(), offset(slot))
        });
        if let Err(error) = kept {
            tracing::warn!(%error, path = MEASUREMENTS_PATH, "measurements not kept");
        }
    }

    fn file(&self) -> std::io::Result<Arc<dyn DiskFile>> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = match self.disk.open(MEASUREMENTS_PATH, OpenMode::Write) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.disk.open(MEASUREMENTS_PATH, OpenMode::Create)?
            }
            other => other?,
        };
        *file = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

fn offset(index: usize) -> u64 {
    u64::try_from(index * RECORD_BYTES).expect("a small file")
}

struct Record([u8; RECORD_BYTES]);

impl Record {
    fn new(kind: u32, database: DatabaseId) -> Record {
        let mut record = Record([0; RECORD_BYTES]);
        record.0[4..8].copy_from_slice(&kind.to_le_bytes());
        record.0[8..24].copy_from_slice(database.as_bytes());
        record
    }

    /// The record, unless it is damaged or of another database.
    fn verify(bytes: [u8; RECORD_BYTES], database: DatabaseId) -> Option<Record> {
        let mut stored = [0; 4];
        stored.copy_from_slice(&bytes[0..4]);
        let fits = crc32c(&bytes[4..]) == u32::from_le_bytes(stored) && bytes[8..24] == *database.as_bytes();
        fits.then_some(Record(bytes))
    }

    fn kind(&self) -> u32 {
        let mut kind = [0; 4];
        kind.copy_from_slice(&self.0[4..8]);
        u32::from_le_bytes(kind)
    }

    fn field(&self, index: usize) -> u64 {
        let at = FIELDS_AT + index * 8;
        let mut field = [0; 8];
        field.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(field)
    }

    fn set(&mut self, index: usize, value: u64) {
        let at = FIELDS_AT + index * 8;
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn sealed(mut self) -> [u8; RECORD_BYTES] {
        let checksum = crc32c(&self.0[4..]);
        self.0[0..4].copy_from_slice(&checksum.to_le_bytes());
        self.0
    }

    fn of_speed(database: DatabaseId, speed: ReplaySpeed) -> Record {
        let mut record = Record::new(KIND_SPEED, database);
        let fields = [speed.slowness_ppm(), speed.rows_per_second, speed.bytes_per_second];
        fields.into_iter().enumerate().for_each(|(index, field)| record.set(index, field));
        record
    }

    fn of_checkpoint(database: DatabaseId, number: u64, from: &CheckpointStatistics) -> Record {
        let trigger = TRIGGERS.iter().position(|trigger| *trigger == from.trigger);
        let trigger = trigger.and_then(|place| u64::try_from(place).ok()).unwrap_or(u64::MAX);
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let durations = &from.durations;
        let fields: [u64; FIELD_COUNT] = [
            number,
            trigger,
            from.started_micros.cast_unsigned(),
            from.redo_point_before.get(),
            from.redo_point.get(),
            from.rows,
            from.chunks,
            from.leaves,
            from.interiors,
            from.pages_read,
            from.fresh_pages,
            from.protected_pages,
            from.freed_pages,
            from.tables_reclaimed,
            from.page_file_bytes,
            from.image_bytes,
            from.recovery_file_bytes,
            from.punched_bytes,
            nanos(durations.freeze),
            nanos(durations.log_flush),
            nanos(durations.merge),
            nanos(durations.recovery_write),
            nanos(durations.recovery_sync),
            nanos(durations.page_write),
            nanos(durations.page_sync),
            nanos(durations.publish),
            nanos(durations.publish_max),
            nanos(durations.paused),
            nanos(durations.total),
            from.fill_highest_permille,
            nanos(from.writers_delayed),
            from.run_rows,
            from.run_bytes,
        ];
        let mut record = Record::new(KIND_CHECKPOINT, database);
        fields.into_iter().enumerate().for_each(|(index, field)| record.set(index, field));
        record
    }

    /// The number and the checkpoint.
    fn checkpoint(&self) -> Option<(u64, CheckpointStatistics)> {
        let trigger = *TRIGGERS.get(usize::try_from(self.field(1)).ok()?)?;
        if self.kind() != KIND_CHECKPOINT {
            return None;
        }
        let nanos = |index: usize| Duration::from_nanos(self.field(index));
        let statistics = CheckpointStatistics {
            trigger,
            started_micros: self.field(2).cast_signed(),
            redo_point_before: Lsn::new(self.field(3)),
            redo_point: Lsn::new(self.field(4)),
            rows: self.field(5),
            chunks: self.field(6),
            leaves: self.field(7),
            interiors: self.field(8),
            pages_read: self.field(9),
            fresh_pages: self.field(10),
            protected_pages: self.field(11),
            freed_pages: self.field(12),
            tables_reclaimed: self.field(13),
            page_file_bytes: self.field(14),
            image_bytes: self.field(15),
            recovery_file_bytes: self.field(16),
            punched_bytes: self.field(17),
            run_rows: self.field(31),
            run_bytes: self.field(32),
            fill_highest_permille: self.field(29),
            writers_delayed: nanos(30),
            duration: nanos(28),
            durations: CheckpointDurations {
                freeze: nanos(18),
                log_flush: nanos(19),
                merge: nanos(20),
                recovery_write: nanos(21),
                recovery_sync: nanos(22),
                page_write: nanos(23),
                page_sync: nanos(24),
                publish: nanos(25),
                publish_max: nanos(26),
                paused: nanos(27),
                total: nanos(28),
            },
        };
        Some((self.field(0), statistics))
    }
}
