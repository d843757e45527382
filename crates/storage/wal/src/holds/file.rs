//! The file `log/holds`: who needs the log, and from where on (`holds`). It is made when the log is opened for the first time,
//! so that nothing need be allocated when the disk is full. Two copies of 8 KiB, at 0 and at 8192, written in turns, in place: the newer one that verifies counts. Integers little-endian:
//!
//! | offset | bytes | field      | meaning                                                        |
//! |-------:|------:|------------|----------------------------------------------------------------|
//! |      0 |     4 | checksum   | CRC-32C of bytes 4..8192                                       |
//! |      4 |     4 | version    | [`VERSION`]; an unknown one is refused                         |
//! |      8 |     8 | magic      | `SWHLD\r\n` and 0x1A                                           |
//! |     16 |    16 | database   | database id; the file of another one is refused                |
//! |     32 |     8 | sequence   | one more with each write; odd: this is the copy at 0           |
//! |     40 |     2 | count      | holds, at most 65: 64, and that of the option `log_keep_bytes`  |
//! |     42 |    22 | reserved   | zero                                                           |
//! |     64 |       | holds      | 112 bytes each, by name                                        |
//! |        |       | reserved   | zero                                                           |
//!
//! A hold:
//!
//! | offset | bytes | field      | meaning                                                        |
//! |-------:|------:|------------|----------------------------------------------------------------|
//! |      0 |     8 | position   | the log is needed from here on                                 |
//! |      8 |     8 | limit      | bytes that it may hold; 2^64 - 1: any number                   |
//! |     16 |     8 | lost_at    | where the log ended when the hold was lost; 0: it is not       |
//! |     24 |     8 | created    | microseconds since 1970, signed                                |
//! |     32 |     1 | kind       | 0 other, 1 archive, 2 standby, 3 backup, 4 keep                |
//! |     33 |     1 | at_limit   | 0 it is lost, 1 writers are slowed, and it is lost at twice that |
//! |     34 |     1 | lifetime   | 0 ends with the process, 1 permanent                           |
//! |     35 |     1 | name_bytes | 1 to 63                                                        |
//! |     36 |    76 | name       | UTF-8, the rest zero                                           |
//!
//! **If the power goes** while a copy is written, it does not verify, and the other one counts, with positions from before:
//! nothing was removed because of the new ones yet, since that waits for the sync. The file itself is made under another
//! name, whole, and renamed; then the directory is synced. In place, so that a change costs no sync of the directory.
//!
//! **If the process is killed** while a copy is written, the next one may read what is not durable. So it writes the newest copy
//! over itself and syncs, the directory too, before it goes by it; and the other copy, if that has other holds.
//!
//! Which holds there are, and which are lost, is written to both copies: damage of one takes none of them away. Positions
//! are not: if the newer copy is damaged later, older positions count, and where the log is not there any more, the hold is lost.

use std::io;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode, is_disk_full};
use seawall_types::{DatabaseId, Lsn};

use super::{
    AtLimit, HOLD_NAME_BYTES_MAX, HOLDS_MAX, HoldError, HoldInfo, HoldKind, HoldLifetime, HoldOptions,
    HoldsFileError, check_name,
};
use crate::sabotage::{Defect, sabotaged};
use crate::segment::LOG_DIRECTORY;

/// Path of the file.
pub(crate) const HOLDS_PATH: &str = "log/holds";
const NEW_PATH: &str = "log/holds.new";

/// The version of the file.
pub(crate) const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"SWHLD\r\n\x1A";
const COPY_BYTES: usize = 8192;
const HEADER_BYTES: usize = 64;
const HOLD_BYTES: usize = 112;
const NAME_OFFSET: usize = 36;
const UNLIMITED: u64 = u64::MAX;
/// All that may be made, and that of the options.
const STORED_MAX: usize = HOLDS_MAX + 1;
const _: () = assert!(HEADER_BYTES + STORED_MAX * HOLD_BYTES <= COPY_BYTES);
const _: () = assert!(NAME_OFFSET + HOLD_NAME_BYTES_MAX <= HOLD_BYTES);

/// The file of a log that is open for writing.
#[derive(Clone, Debug)]
pub(crate) struct HoldsFile {
    database: DatabaseId,
    /// The sequence number of the newest copy.
    sequence: u64,
    /// `None`: there is no file yet.
    file: Option<Arc<dyn DiskFile>>,
}

/// What was found when the file was opened.
pub(crate) struct OpenedHolds {
    pub(crate) file: HoldsFile,
    pub(crate) holds: Vec<HoldInfo>,
    /// How many copies have other holds.
    pub(crate) copies_behind: u8,
}

impl HoldsFile {
    /// Opens the file to go on writing it, or makes it, and says what it holds: durably.
    pub(crate) fn open(disk: &dyn Disk, database: DatabaseId) -> Result<OpenedHolds, HoldError> {
        let Some(file) = open_existing(disk, OpenMode::Write)? else {
            return HoldsFile::without(disk, database);
        };
        let Copies { sequence, holds, is_in_both } = read(&*file, database)?;
        let copy = encode(database, sequence, &holds);
        let written = file.write_all_at(&copy, offset_of(sequence)).and_then(|()| file.sync_data());
        written.and_then(|()| disk.sync_directory(LOG_DIRECTORY)).map_err(failed("write again"))?;
        let file = HoldsFile { database, sequence, file: Some(file) };
        Ok(OpenedHolds { file, holds, copies_behind: u8::from(!is_in_both) })
    }

    /// There is none yet.
    fn without(disk: &dyn Disk, database: DatabaseId) -> Result<OpenedHolds, HoldError> {
        let mut new = HoldsFile { database, sequence: 0, file: None };
        match new.make(disk, &[]) {
            Ok(()) => {}
            // Needed by the first hold only: it is tried again then.
            Err(HoldError::Io { source, .. }) if is_disk_full(&source) => {
                tracing::warn!(path = HOLDS_PATH, "the disk is full: no file of holds is made");
            }
            Err(error) => return Err(error),
        }
        Ok(OpenedHolds { file: new, holds: Vec::new(), copies_behind: 0 })
    }

    /// Writes the older copy and syncs it; makes the file if there is none.
    pub(crate) fn store(&mut self, disk: &dyn Disk, holds: &[HoldInfo]) -> Result<(), HoldError> {
        let Some(file) = &self.file else {
            return if holds.is_empty() { Ok(()) } else { self.make(disk, holds) };
        };
        let sequence = self.sequence + 1;
        let copy = encode(self.database, sequence, holds);
        // After a failure this copy is written again, from memory, before the other one is touched.
        file.write_all_at(&copy, offset_of(sequence)).map_err(failed("write"))?;
        if !sabotaged(Defect::HoldsNotSynced) {
            file.sync_data().map_err(failed("write"))?;
        }
        self.sequence = sequence;
        Ok(())
    }

    /// There is no file yet.
    pub(crate) fn is_missing(&self) -> bool {
        self.file.is_none()
    }

    /// Makes the file, with the same in both copies.
    fn make(&mut self, disk: &dyn Disk, holds: &[HoldInfo]) -> Result<(), HoldError> {
        let mut both = [[0; COPY_BYTES]; 2];
        for sequence in [1, 2] {
            both[usize::from(offset_of(sequence) > 0)] = encode(self.database, sequence, holds);
        }
        self.file = Some(make(disk, both.as_flattened()).map_err(failed("make"))?);
        self.sequence = 2;
        Ok(())
    }
}

/// Where the copy with this sequence lies.
fn offset_of(sequence: u64) -> u64 {
    if sequence % 2 == 1 { 0 } else { COPY_BYTES as u64 }
}

/// What the file of a log says, which may be open elsewhere.
pub(crate) fn read_holds(disk: &dyn Disk, database: DatabaseId) -> Result<Vec<HoldInfo>, HoldError> {
    match open_existing(disk, OpenMode::Read)? {
        None => Ok(Vec::new()),
        Some(file) => Ok(read(&*file, database)?.holds),
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> HoldError {
    move |source| HoldError::Io { action, path: HOLDS_PATH.to_owned(), source }
}

fn open_existing(disk: &dyn Disk, mode: OpenMode) -> Result<Option<Arc<dyn DiskFile>>, HoldError> {
    match disk.open(HOLDS_PATH, mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => Ok(Some(other.map_err(failed("open"))?)),
    }
}

fn make(disk: &dyn Disk, both: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
    match disk.remove(NEW_PATH) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // A crash may have left one behind.
        Ok(()) | Err(_) => {}
    }
    let file = disk.open(NEW_PATH, OpenMode::Create)?;
    file.write_all_at(both, 0)?;
    file.sync_data()?;
    disk.rename(NEW_PATH, HOLDS_PATH)?;
    disk.sync_directory(LOG_DIRECTORY)?;
    disk.open(HOLDS_PATH, OpenMode::Write)
}

/// The newest copy that verifies.
struct Copies {
    sequence: u64,
    holds: Vec<HoldInfo>,
    /// The other one has the same holds, at whatever positions.
    is_in_both: bool,
}

fn read(file: &dyn DiskFile, database: DatabaseId) -> Result<Copies, HoldError> {
    let refused = |source| HoldError::File { path: HOLDS_PATH.to_owned(), source };
    let bytes = file.length().map_err(failed("measure"))?;
    if bytes != 2 * COPY_BYTES as u64 {
        return Err(refused(HoldsFileError::Length { found: bytes, expected: 2 * COPY_BYTES as u64 }));
    }
    let mut decoded = Vec::new();
    for offset in [0, COPY_BYTES as u64] {
        let mut copy = [0; COPY_BYTES];
        file.read_exact_at(&mut copy, offset).map_err(failed("read"))?;
        decoded.push(decode(&copy, database));
    }
    let sets: Vec<_> =
        decoded.iter().map(|copy| copy.as_ref().ok().map(|(_, holds)| set_of(holds))).collect();
    let is_in_both = sets[0].is_some() && sets[0] == sets[1];
    let newest = decoded.into_iter().reduce(newer).expect("there are two copies");
    let (sequence, holds) = newest.map_err(refused)?;
    Ok(Copies { sequence, holds, is_in_both })
}

/// What both copies have alike.
fn set_of(holds: &[HoldInfo]) -> Vec<HoldInfo> {
    holds.iter().map(|hold| HoldInfo { position: Lsn::ZERO, ..hold.clone() }).collect()
}

type Decoded = Result<(u64, Vec<HoldInfo>), HoldsFileError>;

/// Chooses between two copies: a valid copy wins over a copy that verifies and is refused.
fn newer(left: Decoded, right: Decoded) -> Decoded {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok(if right.0 > left.0 { right } else { left }),
        // A newer release has written last: what this one can read is out of date.
        (Ok(_), Err(version @ HoldsFileError::Version { .. }))
        | (Err(version @ HoldsFileError::Version { .. }), Ok(_)) => Err(version),
        (Ok(only), Err(_)) | (Err(_), Ok(only)) => Ok(only),
        (Err(HoldsFileError::Checksum { .. }), Err(other)) | (Err(other), Err(_)) => Err(other),
    }
}

fn encode(database: DatabaseId, sequence: u64, holds: &[HoldInfo]) -> [u8; COPY_BYTES] {
    let count = u16::try_from(holds.len()).expect("the limit of holds is small");
    let mut copy = [0; COPY_BYTES];
    copy[4..8].copy_from_slice(&VERSION.to_le_bytes());
    copy[8..16].copy_from_slice(&MAGIC);
    copy[16..32].copy_from_slice(database.as_bytes());
    copy[32..40].copy_from_slice(&sequence.to_le_bytes());
    copy[40..42].copy_from_slice(&count.to_le_bytes());
    for (hold, place) in holds.iter().zip(copy[HEADER_BYTES..].chunks_exact_mut(HOLD_BYTES)) {
        encode_hold(hold, place);
    }
    let checksum = crc32c(&copy[4..]);
    copy[0..4].copy_from_slice(&checksum.to_le_bytes());
    copy
}

fn encode_hold(hold: &HoldInfo, place: &mut [u8]) {
    let options = &hold.options;
    place[0..8].copy_from_slice(&hold.position.get().to_le_bytes());
    place[8..16].copy_from_slice(&options.limit_bytes.unwrap_or(UNLIMITED).to_le_bytes());
    place[16..24].copy_from_slice(&hold.lost_at.unwrap_or(Lsn::ZERO).get().to_le_bytes());
    place[24..32].copy_from_slice(&hold.created_micros.to_le_bytes());
    place[32] = match options.kind {
        HoldKind::Other => 0,
        HoldKind::Archive => 1,
        HoldKind::Standby => 2,
        HoldKind::Backup => 3,
        HoldKind::Keep => 4,
    };
    place[33] = match options.at_limit {
        AtLimit::LoseHold => 0,
        AtLimit::SlowWriters => 1,
    };
    place[34] = match options.lifetime {
        HoldLifetime::Process => 0,
        HoldLifetime::Permanent => 1,
    };
    place[35] = u8::try_from(hold.name.len()).expect("the name was checked when the hold was made");
    place[NAME_OFFSET..NAME_OFFSET + hold.name.len()].copy_from_slice(hold.name.as_bytes());
}

fn decode(copy: &[u8; COPY_BYTES], database: DatabaseId) -> Decoded {
    let (stored, computed) = (u32::from_le_bytes(bytes_at(copy, 0)), crc32c(&copy[4..]));
    if stored != computed {
        return Err(HoldsFileError::Checksum { stored, computed });
    }
    let magic: [u8; 8] = bytes_at(copy, 8);
    if magic != MAGIC {
        return Err(HoldsFileError::Magic { found: magic });
    }
    let version = u32::from_le_bytes(bytes_at(copy, 4));
    if version != VERSION {
        return Err(HoldsFileError::Version { found: version, known: VERSION });
    }
    let found = DatabaseId::from_bytes(bytes_at(copy, 16));
    if found != database {
        return Err(HoldsFileError::Database { found, expected: database });
    }
    let count = usize::from(u16::from_le_bytes(bytes_at(copy, 40)));
    let end = HEADER_BYTES + count.min(STORED_MAX) * HOLD_BYTES;
    let is_clean = copy[42..HEADER_BYTES].iter().chain(&copy[end..]).all(|&byte| byte == 0);
    if count > STORED_MAX || !is_clean {
        return Err(HoldsFileError::Value { offset: 40 });
    }
    let mut holds: Vec<HoldInfo> = Vec::new();
    for index in 0..count {
        let offset = HEADER_BYTES + index * HOLD_BYTES;
        let hold = decode_hold(&copy[offset..offset + HOLD_BYTES]);
        let follows = |hold: &HoldInfo| holds.last().is_none_or(|last| last.name < hold.name);
        holds.push(hold.filter(follows).ok_or(HoldsFileError::Value { offset })?);
    }
    Ok((u64::from_le_bytes(bytes_at(copy, 32)), holds))
}

fn decode_hold(place: &[u8]) -> Option<HoldInfo> {
    let number = |offset| u64::from_le_bytes(bytes_at(place, offset));
    let kind = match place[32] {
        0 => HoldKind::Other,
        1 => HoldKind::Archive,
        2 => HoldKind::Standby,
        3 => HoldKind::Backup,
        4 => HoldKind::Keep,
        _ => return None,
    };
    let at_limit = match place[33] {
        0 => AtLimit::LoseHold,
        1 => AtLimit::SlowWriters,
        _ => return None,
    };
    let lifetime = match place[34] {
        0 => HoldLifetime::Process,
        1 => HoldLifetime::Permanent,
        _ => return None,
    };
    let (name, padding) = place[NAME_OFFSET..].split_at_checked(usize::from(place[35]))?;
    let name = std::str::from_utf8(name).ok().filter(|name| check_name(name).is_ok())?;
    if padding.iter().any(|&byte| byte != 0) {
        return None;
    }
    let limit_bytes = Some(number(8)).filter(|&limit| limit != UNLIMITED);
    Some(HoldInfo {
        name: name.to_owned(),
        options: HoldOptions { kind, limit_bytes, at_limit, lifetime },
        position: Lsn::new(number(0)),
        created_micros: number(24).cast_signed(),
        lost_at: Some(Lsn::new(number(16))).filter(|lost_at| *lost_at != Lsn::ZERO),
    })
}

fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("the fields lie in a copy")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: DatabaseId = DatabaseId::from_bytes([5; 16]);

    fn holds() -> Vec<HoldInfo> {
        let slot = HoldOptions {
            kind: HoldKind::Standby,
            limit_bytes: Some(1 << 30),
            at_limit: AtLimit::SlowWriters,
            lifetime: HoldLifetime::Permanent,
        };
        let hold = |name: &str, options, lost_at| HoldInfo {
            name: name.to_owned(),
            options,
            position: Lsn::new(1 << 40),
            created_micros: -7,
            lost_at,
        };
        let longest = "x".repeat(HOLD_NAME_BYTES_MAX);
        vec![
            hold("a", slot, None),
            hold("b: Sicherung ü", HoldOptions::default(), Some(Lsn::new(99))),
            hold(&longest, slot, None),
        ]
    }

    #[test]
    fn holds_come_back() {
        assert_eq!(decode(&encode(DATABASE, 9, &holds()), DATABASE), Ok((9, holds())));
        let named = |number: usize| HoldInfo { name: format!("{number:063}"), ..holds()[2].clone() };
        let most: Vec<_> = (0..STORED_MAX).map(named).collect();
        assert_eq!(decode(&encode(DATABASE, 1, &most), DATABASE), Ok((1, most)));
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_other_files_are_refused() {
        let copy = encode(DATABASE, 9, &holds());
        for bit in 0..(HEADER_BYTES + 4 * HOLD_BYTES) * 8 {
            let mut damaged = copy;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode(&damaged, DATABASE), Err(HoldsFileError::Checksum { .. })), "bit {bit}");
        }
        let other = DatabaseId::from_bytes([6; 16]);
        assert_eq!(decode(&copy, other), Err(HoldsFileError::Database { found: DATABASE, expected: other }));
        let sealed = |offset: usize, byte: u8| {
            let mut copy = copy;
            copy[offset] = byte;
            let checksum = crc32c(&copy[4..]);
            copy[0..4].copy_from_slice(&checksum.to_le_bytes());
            decode(&copy, DATABASE)
        };
        assert_eq!(sealed(4, 2), Err(HoldsFileError::Version { found: 2, known: VERSION }));
        assert!(matches!(sealed(8, 2), Err(HoldsFileError::Magic { .. })));
        // Too many, a reserved byte, a kind, a limit's end, a lifetime, a long name, no name, no UTF-8, a byte behind a name.
        let bad =
            [(40, 66), (41, 1), (50, 1), (96, 5), (97, 2), (98, 2), (99, 64), (99, 0), (100, 0xFF), (101, 1)];
        let twice = [holds()[0].clone(), holds()[0].clone()];
        assert!(matches!(decode(&encode(DATABASE, 1, &twice), DATABASE), Err(HoldsFileError::Value { .. })));
        for (offset, byte) in bad {
            assert!(matches!(sealed(offset, byte), Err(HoldsFileError::Value { .. })), "offset {offset}");
        }
    }

    #[test]
    fn the_newer_copy_counts_and_an_explanation_is_better_than_a_checksum() {
        let torn = || Err(HoldsFileError::Checksum { stored: 1, computed: 2 });
        let version = || Err(HoldsFileError::Version { found: 2, known: 1 });
        assert_eq!(newer(Ok((3, holds())), Ok((4, Vec::new()))), Ok((4, Vec::new())));
        assert_eq!(newer(Ok((5, holds())), Ok((4, Vec::new()))), Ok((5, holds())));
        assert_eq!(newer(torn(), Ok((4, holds()))), Ok((4, holds())));
        assert_eq!(newer(Ok((4, holds())), torn()), Ok((4, holds())));
        assert_eq!((newer(torn(), version()), newer(version(), torn())), (version(), version()));
        assert_eq!(
            (newer(Ok((4, holds())), version()), newer(version(), Ok((4, holds())))),
            (version(), version())
        );
    }
}
