//! The superblock: what must be known before the first page or log record is read.
//!
//! The file `superblock` holds two copies of one block; copy `sequence % 2` is the newer. A store overwrites the older
//! copy and syncs, so a crash in the middle leaves the other one. One lost copy is survived and reported. Both copies are on one
//! timeline before anything is written on it: who begins a timeline stores twice, and if a crash came between, the next open
//! stores the second. Else the loss of one copy would send the database back to the timeline before, without a word. All integers
//! little-endian, positions and counters at most `COUNTER_MAX`, reserved bytes zero:
//!
//! | offset | bytes | field            | meaning                                                             |
//! |-------:|------:|------------------|---------------------------------------------------------------------|
//! |      0 |     8 | magic            | `SEAWALL\n`                                                         |
//! |      8 |     4 | version          | 3 until the first run is begun, 4 from then on; another one is refused |
//! |     12 |     4 | checksum         | CRC-32C of the block with this field zero                           |
//! |     16 |     8 | sequence         | grows by one with each store                                        |
//! |     24 |    16 | database         | drawn when the database was created                                 |
//! |     40 |     4 | page_bytes       | 4096 to 65536, a power of two                                       |
//! |     44 |     4 | timeline         | the timeline the database writes                                    |
//! |     48 |     8 | segment_bytes    | size of a log segment, a power of two                               |
//! |     56 |     8 | redo_point       | LSN up to which the tree holds every commit                         |
//! |     64 |     8 | checkpoint_count | completed checkpoints                                               |
//! |     72 |     8 | completed_chunk  | a chunk of the recovery file up to this number is in place, synced  |
//! |     80 |     8 | next_table       | no table with this id or a higher one exists in the tree            |
//! |     88 |     8 | page_count       | pages in use when the superblock was stored; for display            |
//! |     96 |     8 | created_micros   | microseconds since 1970, signed                                     |
//! |    104 |     4 | protection       | 0: recovery file, 1: page images in the log; for display            |
//! |    108 |     4 | encryption       | 0: none, 1: XAES-256-GCM; the keys are in the file `keys`           |
//! |    112 |     8 | in_doubt         | prepared transactions that were undecided at the redo point         |
//! |    120 |     8 | log_end          | LSN up to which the log was durable before pages were written       |
//! |    128 |    16 | timeline_mark    | drawn when the timeline began; zero for the first one               |
//! |    144 |     4 | root_mark        | mark of the root page of the tree                                   |
//! |    148 |     4 | space_map_mark   | mark of the first page of the space map                             |
//! |    152 |     8 | next_run         | no run with this number or a higher one was ever begun; version 3: zero, and above zero in version 4 |
//! |    160 |     4 | run_count        | runs that the tree lists; version 3: zero                           |
//! |    164 |  3932 | reserved         | zero; anything else is refused                                      |
//!
//! Runs are rows of the tree beside its main part (engine, `runs`). A release that reads version 3 only would pass them over, so it
//! must refuse a database that may have some.
//!
//! The superblock itself is never encrypted: it holds nothing of what users store. Of an encrypted database the marks are
//! made with the key.
//!
//! A store that the device loses leaves the copy of two stores before, and the other one is the newest. After the end of a
//! checkpoint the recovery file holds the lost values still, and the next open stores them again. Otherwise replay starts at
//! the older redo point, which changes nothing, or finds that the log before is gone and refuses. Marks that are older than
//! the pages refuse the pages.

use std::sync::Arc;

use seawall_codec::bytes::{u32_at, u64_at};
use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

use crate::page::PageMark;
use crate::sabotage::{Defect, sabotaged};

/// Path of the superblock file in the database's directory.
pub const SUPERBLOCK_PATH: &str = "superblock";

const NEW_SUPERBLOCK_PATH: &str = "superblock.new";

/// Bytes of one copy.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"SEAWALL\n";
/// Of a database in which no run was ever begun.
const VERSION_WITHOUT_RUNS: u32 = 3;
const VERSION_WITH_RUNS: u32 = 4;
const RESERVED_AT: usize = 164;
const COPIES: u64 = 2;
/// No position or counter ever comes this far: whoever adds to one need not fear that it runs over.
pub(crate) const COUNTER_MAX: u64 = 1 << 62;
/// Runs are numbered below this.
pub const RUN_NUMBERS_MAX: u64 = 1 << 60;
const _: () = assert!(RESERVED_AT + 3932 == SUPERBLOCK_BYTES);

/// Where the second copy of a page is while it is being overwritten: a crash that tears the page leaves that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PageProtection {
    /// Page images go to the recovery file before they are written in place.
    #[default]
    RecoveryFile,
    /// Page images go to the log before they are written in place.
    LogImages,
}

/// Whether what users store is encrypted on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// It is not.
    None,
    /// With XAES-256-GCM, by the keys in the file `keys`.
    Xaes256Gcm,
}

/// The marks of the two pages that no page refers to; see [`crate::page::PageMark`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMarks {
    /// Of the root.
    pub root: PageMark,
    /// Of the first page of the space map.
    pub space_map: PageMark,
}

/// The values of the superblock. The engine owns them; `completed_chunk`, `page_count`, `marks` and `sequence` are set by
/// the tree when it stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Grows by one with each store.
    pub sequence: u64,
    /// The database's id.
    pub database: DatabaseId,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// The timeline the database writes.
    pub timeline: TimelineId,
    /// What distinguishes the timeline from one of the same number that another copy of the database has begun.
    pub timeline_mark: TimelineMark,
    /// Size of a log segment in bytes.
    pub segment_bytes: u64,
    /// LSN up to which the tree holds every commit: replay starts here.
    pub redo_point: Lsn,
    /// Completed checkpoints since the database was created.
    pub checkpoint_count: u64,
    /// Chunks up to this number are in place and synced.
    pub completed_chunk: u64,
    /// No table with this id or a higher one exists in the tree.
    pub next_table: TableId,
    /// Pages in use when the superblock was stored.
    pub page_count: u64,
    /// When the database was created, in microseconds since 1970.
    pub created_micros: i64,
    /// Where the last store's process put page images; it decides nothing.
    pub protection: PageProtection,
    /// Whether all that users store is encrypted; decided when the database is created.
    pub encryption: Encryption,
    /// Prepared transactions that were undecided at the redo point: the tree has their rows.
    pub in_doubt: u64,
    /// The log was durable up to here before pages with what is in it were written: one that ends before is damaged.
    pub log_end: Lsn,
    /// Which images of the root and of the space map's first page belong to these values.
    pub marks: TreeMarks,
    /// No run with this number or a higher one was ever begun. Zero: there are none, and never were any. At most [`RUN_NUMBERS_MAX`].
    pub next_run: u64,
    /// Runs that the tree lists.
    pub run_count: u32,
}

/// Why the superblock could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperblockError {
    /// The disk failed, or the file is missing.
    #[error("{operation} of {path}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The file.
        path: String,
        /// The disk's error.
        source: std::io::Error,
    },
    /// Both copies are damaged.
    #[error("both copies of {path} are damaged: at offset 0, {first}; at offset 4096, {second}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with the first copy.
        first: String,
        /// What is wrong with the second copy.
        second: String,
    },
    /// Written by another release.
    #[error(
        "{path} has format version {version}; this release reads versions {VERSION_WITHOUT_RUNS} and {VERSION_WITH_RUNS}"
    )]
    Version {
        /// The file.
        path: String,
        /// The version found.
        version: u32,
    },
}

/// One copy of the superblock that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCopy {
    /// Where the copy lies in the file.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
}

/// The open superblock file.
#[derive(Debug)]
pub struct SuperblockFile {
    file: Arc<dyn DiskFile>,
    path: String,
    sequence: u64,
    /// The other copy is of another timeline.
    is_between_timelines: bool,
}

impl SuperblockFile {
    /// Creates the file with both copies holding `values`, whole or not at all: it is renamed into place. Its name is
    /// durable after the directory `""` is synced.
    pub fn create(disk: &dyn Disk, values: &Superblock) -> Result<SuperblockFile, SuperblockError> {
        let path = disk.location(SUPERBLOCK_PATH);
        let fail = |operation| {
            let path = path.clone();
            move |source| SuperblockError::Io { operation, path, source }
        };
        match disk.remove(NEW_SUPERBLOCK_PATH) {
            // Left over from a creation that was cut short.
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail("removal of an unfinished copy")(error)),
        }
        let file = disk.open(NEW_SUPERBLOCK_PATH, OpenMode::Create).map_err(fail("creation"))?;
        let mut bytes = [[0; SUPERBLOCK_BYTES]; 2];
        bytes[0] =
            Superblock { sequence: values.sequence.next_multiple_of(COPIES), ..values.clone() }.encode();
        let sequence = values.sequence.next_multiple_of(COPIES) + 1;
        bytes[1] = Superblock { sequence, ..values.clone() }.encode();
        file.write_all_at(bytes.as_flattened(), 0).map_err(fail("write"))?;
        file.sync_data().map_err(fail("sync"))?;
        disk.rename(NEW_SUPERBLOCK_PATH, SUPERBLOCK_PATH).map_err(fail("renaming"))?;
        Ok(SuperblockFile { file, path, sequence, is_between_timelines: false })
    }

    /// Opens the file and reads the newer valid copy, and what is wrong with the other one if it is damaged.
    pub fn open(
        disk: &dyn Disk,
        mode: OpenMode,
    ) -> Result<(SuperblockFile, Superblock, Option<DamagedCopy>), SuperblockError> {
        let path = disk.location(SUPERBLOCK_PATH);
        let file = disk.open(SUPERBLOCK_PATH, mode).map_err(|source| SuperblockError::Io {
            operation: "opening",
            path: path.clone(),
            source,
        })?;
        let Copies { values, damaged, is_between_timelines } = read_copies(&*file, &path)?;
        let sequence = values.sequence;
        Ok((SuperblockFile { file, path, sequence, is_between_timelines }, values, damaged))
    }

    /// Stores `values` in the other copy, too, if a crash has left that on another timeline. What `open` read must be durable.
    pub(crate) fn end_switch(&mut self, values: &mut Superblock) -> Result<(), SuperblockError> {
        if !self.is_between_timelines {
            return Ok(());
        }
        self.store(values)?;
        values.sequence = self.sequence;
        self.is_between_timelines = false;
        Ok(())
    }

    /// Writes the newer copy, which holds `values`, once more and syncs. The process that stored it may have ended
    /// before it was durable, or its sync may have failed; the next store overwrites the other copy, which may be the
    /// only durable one.
    pub(crate) fn write_again(&self, values: &Superblock) -> Result<(), SuperblockError> {
        let fail = |operation| {
            let path = self.path.clone();
            move |source| SuperblockError::Io { operation, path, source }
        };
        let offset = copy_offset(values.sequence);
        self.file.write_all_at(&values.encode(), offset).map_err(fail("write"))?;
        self.file.sync_data().map_err(fail("sync"))
    }

    /// Writes `values` over the older copy and syncs. Durable when it returns.
    ///
    /// # Errors
    /// After an error either copy may be the newer valid one: the database must be reopened before it stores again.
    pub fn store(&mut self, values: &Superblock) -> Result<(), SuperblockError> {
        let sequence = self.sequence + if sabotaged(Defect::SuperblockOneCopy) { 2 } else { 1 };
        let bytes = Superblock { sequence, ..values.clone() }.encode();
        let path = &self.path;
        let fail = |operation| move |source| SuperblockError::Io { operation, path: path.clone(), source };
        self.file.write_all_at(&bytes, copy_offset(sequence)).map_err(fail("write"))?;
        self.file.sync_data().map_err(fail("sync"))?;
        self.sequence = sequence;
        Ok(())
    }
}

fn copy_offset(sequence: u64) -> u64 {
    sequence % COPIES * SUPERBLOCK_BYTES as u64
}

enum CopyError {
    Damaged(String),
    Version(u32),
    Io(std::io::Error),
}

fn read_copy(file: &dyn DiskFile, offset: u64) -> Result<Superblock, CopyError> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => {
            let values = Superblock::decode(&bytes)?;
            // The next store goes where the sequence says: it must not overwrite the only copy that is right.
            let is_in_place = copy_offset(values.sequence) == offset;
            let what = || format!("its sequence, {}, belongs to the other copy", values.sequence);
            if is_in_place { Ok(values) } else { Err(CopyError::Damaged(what())) }
        }
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(CopyError::Damaged("the file ends before it".to_owned()))
        }
        Err(error) => Err(CopyError::Io(error)),
    }
}

/// What the two copies say.
struct Copies {
    values: Superblock,
    damaged: Option<DamagedCopy>,
    is_between_timelines: bool,
}

impl Copies {
    fn one(values: Superblock, offset: u64, what: String) -> Copies {
        Copies { values, damaged: Some(DamagedCopy { offset, what }), is_between_timelines: false }
    }

    fn both(first: Superblock, second: Superblock) -> Copies {
        let timeline = |values: &Superblock| (values.timeline, values.timeline_mark);
        let is_between_timelines = timeline(&first) != timeline(&second);
        let values = if first.sequence > second.sequence { first } else { second };
        Copies { values, damaged: None, is_between_timelines }
    }
}

fn read_copies(file: &dyn DiskFile, path: &str) -> Result<Copies, SuperblockError> {
    let second_offset = SUPERBLOCK_BYTES as u64;
    let path = || path.to_owned();
    match (read_copy(file, 0), read_copy(file, second_offset)) {
        (Err(CopyError::Io(source)), _) | (_, Err(CopyError::Io(source))) => {
            Err(SuperblockError::Io { operation: "read", path: path(), source })
        }
        // Another release's copy is valid although this one cannot read it: the other copy may be out of date.
        (Err(CopyError::Version(version)), _) | (_, Err(CopyError::Version(version))) => {
            Err(SuperblockError::Version { path: path(), version })
        }
        (Ok(first), Ok(second)) => Ok(Copies::both(first, second)),
        (Ok(first), Err(CopyError::Damaged(what))) => Ok(Copies::one(first, second_offset, what)),
        (Err(CopyError::Damaged(what)), Ok(second)) => Ok(Copies::one(second, 0, what)),
        (Err(CopyError::Damaged(first)), Err(CopyError::Damaged(second))) => {
            Err(SuperblockError::Damaged { path: path(), first, second })
        }
    }
}

impl Superblock {
    fn version(&self) -> u32 {
        if self.next_run == 0 { VERSION_WITHOUT_RUNS } else { VERSION_WITH_RUNS }
    }

    /// The bytes of one copy.
    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut block = [0; SUPERBLOCK_BYTES];
        block[0..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&self.version().to_le_bytes());
        block[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        block[24..40].copy_from_slice(self.database.as_bytes());
        block[40..44].copy_from_slice(&self.page_bytes.to_le_bytes());
        block[44..48].copy_from_slice(&self.timeline.get().to_le_bytes());
        block[48..56].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[56..64].copy_from_slice(&self.redo_point.get().to_le_bytes());
        block[64..72].copy_from_slice(&self.checkpoint_count.to_le_bytes());
        block[72..80].copy_from_slice(&self.completed_chunk.to_le_bytes());
        block[80..88].copy_from_slice(&self.next_table.get().to_le_bytes());
        block[88..96].copy_from_slice(&self.page_count.to_le_bytes());
        block[96..104].copy_from_slice(&self.created_micros.to_le_bytes());
        block[104..108].copy_from_slice(&self.protection.number().to_le_bytes());
        block[108..112].copy_from_slice(&self.encryption.number().to_le_bytes());
        block[112..120].copy_from_slice(&self.in_doubt.to_le_bytes());
        block[120..128].copy_from_slice(&self.log_end.get().to_le_bytes());
        block[128..144].copy_from_slice(self.timeline_mark.as_bytes());
        block[144..148].copy_from_slice(&self.marks.root.get().to_le_bytes());
        block[148..152].copy_from_slice(&self.marks.space_map.get().to_le_bytes());
        block[152..160].copy_from_slice(&self.next_run.to_le_bytes());
        block[160..164].copy_from_slice(&self.run_count.to_le_bytes());
        let checksum = crc32c(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    fn decode(block: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock, CopyError> {
        let damaged = |what: String| CopyError::Damaged(what);
        if block[0..8] != MAGIC {
            return Err(damaged("no superblock magic".to_owned()));
        }
        let stored = u32_at(block, 12);
        let mut unsealed = *block;
        unsealed[12..16].fill(0);
        let computed = crc32c(&unsealed);
        if stored != computed {
            return Err(damaged(format!("checksum stored {stored:#010x}, computed {computed:#010x}")));
        }
        let version = u32_at(block, 8);
        if ![VERSION_WITHOUT_RUNS, VERSION_WITH_RUNS].contains(&version) {
            return Err(CopyError::Version(version));
        }
        if block[RESERVED_AT..].iter().any(|&byte| byte != 0) {
            return Err(damaged("reserved bytes are not zero".to_owned()));
        }
        Superblock::decode_fields(block).map_err(|what| damaged(what.to_owned()))
    }

    fn decode_fields(block: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock, &'static str> {
        let mut database = [0; 16];
        database.copy_from_slice(&block[24..40]);
        let mut timeline_mark = [0; 16];
        timeline_mark.copy_from_slice(&block[128..144]);
        let page_bytes = u32_at(block, 40);
        if !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
            return Err("page size is not a power of two from 4096 to 65536");
        }
        let segment_bytes = u64_at(block, 48);
        if !segment_bytes.is_power_of_two() {
            return Err("segment size is not a power of two");
        }
        if [16, 56, 64, 72, 80, 88, 112, 120].iter().any(|offset| u64_at(block, *offset) > COUNTER_MAX) {
            return Err("a position or counter is larger than any can become");
        }
        let (next_run, run_count) = (u64_at(block, 152), u32_at(block, 160));
        if (next_run > 0) != (u32_at(block, 8) == VERSION_WITH_RUNS) {
            return Err("the version does not go with the number of the next run");
        }
        if next_run > RUN_NUMBERS_MAX || u64::from(run_count) > next_run {
            return Err("it has more runs than were begun, or than there are numbers for");
        }
        Ok(Superblock {
            sequence: u64_at(block, 16),
            database: DatabaseId::from_bytes(database),
            page_bytes,
            timeline: TimelineId::new(u32_at(block, 44)).ok_or("timeline is zero")?,
            timeline_mark: TimelineMark::from_bytes(timeline_mark),
            segment_bytes,
            redo_point: Lsn::new(u64_at(block, 56)),
            checkpoint_count: u64_at(block, 64),
            completed_chunk: u64_at(block, 72),
            next_table: TableId::new(u64_at(block, 80)),
            page_count: u64_at(block, 88),
            created_micros: u64_at(block, 96).cast_signed(),
            protection: PageProtection::from_number(u32_at(block, 104)).ok_or("unknown page protection")?,
            encryption: Encryption::from_number(u32_at(block, 108)).ok_or("unknown encryption")?,
            in_doubt: u64_at(block, 112),
            log_end: Lsn::new(u64_at(block, 120)),
            marks: TreeMarks {
                root: PageMark::new(u32_at(block, 144)),
                space_map: PageMark::new(u32_at(block, 148)),
            },
            next_run,
            run_count,
        })
    }

    /// The values in `block`, one copy as `encode` makes it; `None` if it is damaged or of another version.
    pub(crate) fn from_block(block: &[u8; SUPERBLOCK_BYTES]) -> Option<Superblock> {
        Superblock::decode(block).ok()
    }
}

/// No page protection has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no page protection is called {name:?}; there are recovery-file and log-images")]
pub struct UnknownPageProtection {
    name: String,
}

impl std::fmt::Display for PageProtection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for PageProtection {
    type Err = UnknownPageProtection;

    fn from_str(name: &str) -> Result<PageProtection, UnknownPageProtection> {
        let found = PageProtection::ALL.into_iter().find(|protection| protection.name() == name);
        found.ok_or_else(|| UnknownPageProtection { name: name.to_owned() })
    }
}

impl PageProtection {
    /// Every one.
    pub const ALL: [PageProtection; 2] = [PageProtection::RecoveryFile, PageProtection::LogImages];

    /// Its name, as options and documents write it.
    pub const fn name(self) -> &'static str {
        match self {
            PageProtection::RecoveryFile => "recovery-file",
            PageProtection::LogImages => "log-images",
        }
    }

    fn number(self) -> u32 {
        match self {
            PageProtection::RecoveryFile => 0,
            PageProtection::LogImages => 1,
        }
    }

    fn from_number(number: u32) -> Option<PageProtection> {
        match number {
            0 => Some(PageProtection::RecoveryFile),
            1 => Some(PageProtection::LogImages),
            _ => None,
        }
    }
}

impl Encryption {
    fn number(self) -> u32 {
        match self {
            Encryption::None => 0,
            Encryption::Xaes256Gcm => 1,
        }
    }

    fn from_number(number: u32) -> Option<Encryption> {
        match number {
            0 => Some(Encryption::None),
            1 => Some(Encryption::Xaes256Gcm),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SimulatedDisk;

    fn sample() -> Superblock {
        Superblock {
            sequence: 0,
            database: DatabaseId::from_bytes([7; 16]),
            page_bytes: 8192,
            timeline: TimelineId::FIRST,
            timeline_mark: TimelineMark::from_bytes([5; 16]),
            segment_bytes: 16 << 20,
            redo_point: Lsn::new(0x1234),
            checkpoint_count: 3,
            completed_chunk: 9,
            next_table: TableId::new(77),
            page_count: 12,
            created_micros: -5,
            protection: PageProtection::RecoveryFile,
            encryption: Encryption::None,
            in_doubt: 4,
            log_end: Lsn::new(0x7000),
            marks: TreeMarks { root: PageMark::new(5), space_map: PageMark::new(6) },
            next_run: 0,
            run_count: 0,
        }
    }

    fn with_runs() -> Superblock {
        Superblock { next_run: 9, run_count: 3, ..sample() }
    }

    fn resealed(mut block: [u8; SUPERBLOCK_BYTES]) -> [u8; SUPERBLOCK_BYTES] {
        block[12..16].fill(0);
        let checksum = crc32c(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    #[test]
    fn what_is_stored_is_read_back_and_the_newer_copy_wins() {
        let disk = SimulatedDisk::new(1);
        let mut file = SuperblockFile::create(&disk, &sample()).unwrap();
        for count in 4..9 {
            file.store(&Superblock { checkpoint_count: count, ..sample() }).unwrap();
            let (_, read, damaged) = SuperblockFile::open(&disk, OpenMode::Read).unwrap();
            assert_eq!(read, Superblock { checkpoint_count: count, sequence: read.sequence, ..sample() });
            assert_eq!(damaged, None);
        }
    }

    #[test]
    fn one_damaged_copy_is_survived_and_reported_two_are_refused() {
        for newer in 0..2 {
            let disk = SimulatedDisk::new(1);
            let mut file = SuperblockFile::create(&disk, &sample()).unwrap();
            for _ in 0..newer {
                file.store(&sample()).unwrap();
            }
            for offset in [0, 4096] {
                let damaged_disk = disk.copy();
                damaged_disk.flip_bit(SUPERBLOCK_PATH, offset + 100, 3);
                let (_, read, damaged) = SuperblockFile::open(&damaged_disk, OpenMode::Read).unwrap();
                assert_eq!(Superblock { sequence: 0, ..read }, sample());
                assert_eq!(damaged.unwrap().offset, offset);
                damaged_disk.flip_bit(SUPERBLOCK_PATH, 4096 - offset + 9, 3);
                let error = SuperblockFile::open(&damaged_disk, OpenMode::Read).unwrap_err();
                assert!(matches!(error, SuperblockError::Damaged { .. }), "{error}");
            }
            disk.truncate(SUPERBLOCK_PATH, 5000);
            assert_eq!(SuperblockFile::open(&disk, OpenMode::Read).unwrap().2.unwrap().offset, 4096);
        }
    }

    #[test]
    fn a_newer_version_and_nonzero_reserved_bytes_are_refused() {
        let mut block = sample().encode();
        for version in [2, 5] {
            block[8] = version;
            let refused = Superblock::decode(&resealed(block));
            assert!(matches!(refused, Err(CopyError::Version(found)) if found == u32::from(version)));
        }
        for offset in [40, 44, 48, 104, 111, RESERVED_AT, SUPERBLOCK_BYTES - 1] {
            let mut block = sample().encode();
            block[offset] ^= 1;
            let refused = matches!(Superblock::decode(&resealed(block)), Err(CopyError::Damaged(_)));
            // An odd page or segment size, timeline zero, protection: all refused.
            assert!(refused || offset == 104, "offset {offset}");
        }
    }

    /// A database without runs keeps the bytes that releases before runs wrote, and can be opened by them.
    #[test]
    fn the_first_run_makes_it_version_4() {
        for (values, version) in [(sample(), 3), (with_runs(), 4)] {
            let block = values.encode();
            assert_eq!(u32_at(&block, 8), version);
            assert_eq!(Superblock::from_block(&block), Some(values));
        }
        // All runs were merged: their numbers are still not to be drawn again.
        let emptied = Superblock { run_count: 0, ..with_runs() };
        assert_eq!(Superblock::from_block(&emptied.encode()), Some(emptied));
    }

    #[test]
    fn counts_of_runs_that_do_not_go_together_are_refused() {
        let changed = |offset: usize, byte: u8| {
            let mut block = with_runs().encode();
            block[offset] = byte;
            Superblock::from_block(&resealed(block))
        };
        assert_eq!(changed(160, 9).unwrap().run_count, 9);
        assert_eq!(changed(160, 10), None, "more runs than were begun");
        assert_eq!(changed(152, 0), None, "version 4 without a run");
        assert_eq!(changed(8, 3), None, "version 3 with runs");
        assert_eq!(changed(159, 0x11), None, "more than there are numbers for");
        assert_eq!(changed(159, 0x10), None, "more than there are numbers for");
        let most = Superblock { next_run: RUN_NUMBERS_MAX, ..with_runs() };
        assert_eq!(Superblock::from_block(&most.encode()), Some(most));
    }

    #[test]
    fn a_missing_file_is_a_typed_error() {
        let error = SuperblockFile::open(&SimulatedDisk::new(1), OpenMode::Read).unwrap_err();
        assert!(matches!(error, SuperblockError::Io { operation: "opening", .. }));
    }
}
