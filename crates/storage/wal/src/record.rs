//! One log record. Header, integers little-endian, packed without alignment, may cross into the next segment:
//!
//! | offset | bytes | field          | meaning                                                               |
//! |-------:|------:|----------------|-----------------------------------------------------------------------|
//! |      0 |     4 | length         | of the whole record, header included                                  |
//! |      4 |     4 | checksum       | CRC-32C of bytes 12..length, XOR a mask (below)                       |
//! |      8 |     4 | batch_distance | LSN bytes from the start of the flush batch to this record, XOR a mask |
//! |     12 |     1 | kind           | see below                                                             |
//! |     13 |     1 | flags          | bit 0: the body is encrypted; the others are zero                     |
//! |     14 |       | body           | by kind                                                               |
//!
//! | kind | record            | what it says                                           | body in       |
//! |-----:|-------------------|--------------------------------------------------------|---------------|
//! |    1 | commit            | a transaction's write set                              | `commit`      |
//! |    2 | checkpoint        | one was completed; informative, the superblock decides | `control`     |
//! |    3 | timeline switch   | the first record of a new timeline                     | `control`     |
//! |    4 | restore point     | a name for a position to recover to                    | `control`     |
//! |    5 | no-op             | nothing: padding                                       | any bytes     |
//! |    6 | page images       | copies of pages, against torn ones                     | `page_images` |
//! |    7 | prepare           | a write set, to be decided by a later record           | `prepared`    |
//! |    8 | commit prepared   | a decision                                             | `prepared`    |
//! |    9 | rollback prepared | a decision                                             | `prepared`    |
//! |   10 | bulk load         | rows that are in no record were loaded                 | `control`     |
//!
//! Zero is no kind, so a stretch of zeros is no record; any other one ends the log, or is damage, as what does not verify.
//!
//! An encrypted body, in all records of an encrypted database and in no other:
//!
//! | offset | bytes | field          | meaning                                                               |
//! |-------:|------:|----------------|-----------------------------------------------------------------------|
//! |     14 |    40 | envelope       | nonce, 24 bytes, and tag, 16 bytes (XAES-256-GCM)                     |
//! |     54 |       | body           | encrypted; kind and flags are the associated data                     |
//!
//! It is encrypted before the record has a place, outside of any lock, so its place is not authenticated: the checksum,
//! which is computed over the encrypted bytes, keeps records where they belong against accidents, not against an attacker
//! who writes to the disk on purpose.
//!
//! With `mix` the 64-bit finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014; Stafford's variant 13):
//!
//! ```text
//!   log_key = 0, then log_key = mix(log_key XOR word) for each of these words: the halves of the database id; the timeline
//!             XOR 0x53454157414C4C31; the LSN where the timeline began; the halves of its mark
//!   position = mix(lsn XOR log_key)
//!   stored batch_distance = batch_distance XOR high half of position
//!   stored checksum = CRC-32C(bytes 12..) XOR low half of mix(position XOR (length << 32 | batch_distance))
//! ```
//!
//! So the checksum of the body is computed outside any lock, and position, database, timeline with its mark, length and
//! batch are mixed in under it in constant time. Old bytes of a recycled segment were masked for another LSN: each of them has
//! one chance in 2^32 to verify, and its batch distance, unmasked with the wrong mask, is a random number that the
//! reader's bounds on batches refuse first.
//!
//! `batch_distance` carries invariant 10: flushes are serial, so when a batch was written, the log was durable up to
//! the batch's start. Distances from 4 GiB - 1 on are stored as that and mean "unknown".

use seawall_codec::checksum::crc32c;
use seawall_keys::{Cipher, ENVELOPE_BYTES, Envelope};
use seawall_types::{DatabaseId, Lsn, Timeline};

use crate::error::EncryptionProblem;

/// The header before a record's body.
pub const RECORD_HEADER_BYTES: usize = 14;
/// What an encrypted record has between its header and its body.
pub(crate) const RECORD_ENVELOPE_BYTES: usize = ENVELOPE_BYTES;
/// The body is encrypted.
pub(crate) const FLAG_ENCRYPTED: u8 = 1;
/// What depends on a record's place: its first bytes, which its checksum does not cover.
pub(crate) const STAMP_BYTES: usize = 12;
/// No record is longer, whatever the options say.
pub const RECORD_BYTES_MAX: u64 = 1 << 30;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A transaction's write set.
    Commit,
    /// A checkpoint was completed; informative, the superblock decides.
    Checkpoint,
    /// The log goes on on a new timeline.
    TimelineSwitch,
    /// A name for a position to recover to.
    RestorePoint,
    /// Nothing: padding.
    NoOp,
    /// Copies of pages, against torn ones; no replay needs them.
    PageImages,
    /// A transaction's write set, to be committed or rolled back by a decision.
    Prepare,
    /// A prepared transaction is committed.
    CommitPrepared,
    /// A prepared transaction is rolled back.
    RollbackPrepared,
    /// Rows that are in no record were loaded.
    BulkLoad,
}

impl RecordKind {
    /// The kind that `byte` stands for.
    pub const fn from_byte(byte: u8) -> Option<RecordKind> {
        match byte {
            1 => Some(RecordKind::Commit),
            2 => Some(RecordKind::Checkpoint),
            3 => Some(RecordKind::TimelineSwitch),
            4 => Some(RecordKind::RestorePoint),
            5 => Some(RecordKind::NoOp),
            6 => Some(RecordKind::PageImages),
            7 => Some(RecordKind::Prepare),
            8 => Some(RecordKind::CommitPrepared),
            9 => Some(RecordKind::RollbackPrepared),
            10 => Some(RecordKind::BulkLoad),
            _ => None,
        }
    }

    /// The byte that stands for it. Zero is never used: a stretch of zeros is no record.
    pub const fn to_byte(self) -> u8 {
        match self {
            RecordKind::Commit => 1,
            RecordKind::Checkpoint => 2,
            RecordKind::TimelineSwitch => 3,
            RecordKind::RestorePoint => 4,
            RecordKind::NoOp => 5,
            RecordKind::PageImages => 6,
            RecordKind::Prepare => 7,
            RecordKind::CommitPrepared => 8,
            RecordKind::RollbackPrepared => 9,
            RecordKind::BulkLoad => 10,
        }
    }
}

/// The place of a record in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSpan {
    /// Where its header starts.
    pub start: Lsn,
    /// Where the next record starts: the stamp of the commit, and the position up to which the log must be flushed
    /// for the record to be durable.
    pub end: Lsn,
}

/// A record ready to be appended: everything is encoded and the checksum of the body is known; only the position is
/// missing. Can be appended again after an error. A long one is moved into the log, and nothing is left of it here then.
#[derive(Clone, Debug, Default)]
pub struct PreparedRecord {
    /// The record is `bytes[start..]`; what lies before is room that the encoder did not need.
    bytes: Vec<u8>,
    start: usize,
    checksum: u32,
}

impl PreparedRecord {
    /// Padding: a record with `body_bytes` zeros.
    pub fn no_op(body_bytes: usize) -> PreparedRecord {
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.resize(RECORD_HEADER_BYTES + body_bytes, 0);
        PreparedRecord::from_bytes(RecordKind::NoOp, bytes)
    }

    /// Takes over `bytes`: room for a header, then the body.
    pub(crate) fn from_bytes(kind: RecordKind, bytes: Vec<u8>) -> PreparedRecord {
        let mut record = PreparedRecord { bytes, start: 0, checksum: 0 };
        record.complete(kind, 0);
        record
    }

    /// The bytes to fill; call `complete` afterwards.
    pub(crate) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        self.start = 0;
        &mut self.bytes
    }

    /// Makes a record of the buffer's bytes from `start` on: room for a header, then the body.
    pub(crate) fn complete(&mut self, kind: RecordKind, start: usize) {
        let record = &mut self.bytes[start..];
        // A longer one gets a length that is wrong, and `append` refuses it.
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        record[0..4].copy_from_slice(&length.to_le_bytes());
        record[12] = kind.to_byte();
        record[13] = 0;
        self.start = start;
        self.checksum = crc32c(&record[12..]);
    }

    /// Encrypts the body, if it is not yet.
    pub(crate) fn encrypt(&mut self, cipher: &Cipher) {
        if self.bytes[self.start + 13] & FLAG_ENCRYPTED != 0 {
            return;
        }
        if self.start < RECORD_ENVELOPE_BYTES {
            self.bytes.splice(0..0, [0; RECORD_ENVELOPE_BYTES]);
            self.start += RECORD_ENVELOPE_BYTES;
        }
        let kind = self.bytes[self.start + 12];
        self.start -= RECORD_ENVELOPE_BYTES;
        let record = &mut self.bytes[self.start..];
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        let (header, body) = record.split_at_mut(RECORD_HEADER_BYTES + RECORD_ENVELOPE_BYTES);
        header[0..4].copy_from_slice(&length.to_le_bytes());
        header[12..14].copy_from_slice(&[kind, FLAG_ENCRYPTED]);
        let envelope = cipher.encrypt(&[kind, FLAG_ENCRYPTED], body);
        header[RECORD_HEADER_BYTES..].copy_from_slice(&envelope.to_bytes());
        self.checksum = crc32c(&record[12..]);
    }

    /// Length in the log, header included.
    pub fn record_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.start)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The body, as a reader of the log will see it. To be asked before the record is appended, which may encrypt it.
    ///
    /// # Panics
    /// If the record is encrypted already.
    pub fn body(&self) -> &[u8] {
        let record = self.as_bytes();
        assert!(record[13] & FLAG_ENCRYPTED == 0, "the body is looked at before it is encrypted");
        &record[RECORD_HEADER_BYTES..]
    }

    /// The record with its stamp; nothing is left here. In constant time.
    pub(crate) fn take(&mut self, stamp: [u8; STAMP_BYTES]) -> LongRecord {
        let PreparedRecord { mut bytes, start, .. } = std::mem::take(self);
        bytes[start..start + STAMP_BYTES].copy_from_slice(&stamp);
        LongRecord { bytes, start }
    }

    /// Bytes 0..12 of the copy of this record that starts at `lsn`, in constant time.
    pub(crate) fn stamp(&self, key: LogKey, lsn: Lsn, batch_start: Lsn) -> [u8; STAMP_BYTES] {
        let distance = u32::try_from(lsn.bytes_since(batch_start)).unwrap_or(u32::MAX);
        let mut stamp: [u8; STAMP_BYTES] =
            *self.as_bytes().first_chunk().expect("a record is longer than its stamp");
        let length = u32::from_le_bytes(*stamp.first_chunk().expect("four of twelve bytes"));
        let masks = key.masks(lsn);
        let checksum = self.checksum ^ masks.checksum_mask(length, distance);
        stamp[4..8].copy_from_slice(&checksum.to_le_bytes());
        stamp[8..12].copy_from_slice(&(distance ^ masks.distance_mask()).to_le_bytes());
        stamp
    }
}

/// A record that has its place, in the memory that it was built in.
#[derive(Debug)]
pub(crate) struct LongRecord {
    bytes: Vec<u8>,
    start: usize,
}

impl LongRecord {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Decrypts in place what follows the header of an encrypted record of `kind`; what is after the envelope is its body.
pub(crate) fn decrypt_body(
    cipher: &Cipher,
    kind: RecordKind,
    bytes: &mut [u8],
) -> Result<(), EncryptionProblem> {
    let (envelope, body) = bytes.split_first_chunk_mut().ok_or(EncryptionProblem::Short)?;
    let envelope = Envelope::from_bytes(envelope);
    let associated = [kind.to_byte(), FLAG_ENCRYPTED];
    cipher.decrypt(&envelope, &associated, body).map_err(|_| EncryptionProblem::NotAuthentic)
}

/// What makes the records of one timeline of one database unlike all others, also those of a timeline of the same number that
/// another copy of the database has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogKey(u64);

impl LogKey {
    pub(crate) fn new(database: DatabaseId, timeline: Timeline) -> LogKey {
        let [low, high] = halves(database.as_bytes());
        let number = u64::from(timeline.id.get()) ^ 0x5345_4157_414C_4C31;
        let [mark_low, mark_high] = halves(timeline.mark.as_bytes());
        let words = [low, high, number, timeline.began.get(), mark_low, mark_high];
        LogKey(words.into_iter().fold(0, |key, word| mix(key ^ word)))
    }

    pub(crate) fn masks(self, lsn: Lsn) -> PositionMasks {
        PositionMasks(mix(lsn.get() ^ self.0))
    }

    /// What is stored beside an LSN of this log, so that nothing else is taken for one.
    pub(crate) fn seal_of(self, lsn: Lsn) -> u64 {
        mix(mix(lsn.get() ^ self.0))
    }
}

fn halves(bytes: &[u8; 16]) -> [u64; 2] {
    let (low, high) = bytes.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("eight of sixteen bytes")))
}

/// The masks of one position of one log.
#[derive(Clone, Copy)]
pub(crate) struct PositionMasks(u64);

impl PositionMasks {
    fn distance_mask(self) -> u32 {
        high_half(self.0)
    }

    fn checksum_mask(self, length: u32, distance: u32) -> u32 {
        low_half(mix(self.0 ^ (u64::from(length) << 32 | u64::from(distance))))
    }
}

/// The finaliser of SplitMix64 (Stafford's variant 13): each output bit depends on each input bit.
const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

const fn high_half(value: u64) -> u32 {
    (value >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
const fn low_half(value: u64) -> u32 {
    value as u32
}

/// A record's header as it was read, before its checksum is known to be right. Only plausible ones come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) length: u32,
    pub(crate) kind: RecordKind,
    pub(crate) flags: u8,
    checksum: u32,
    distance: u32,
}

impl RecordHeader {
    /// Reads a header; `None` if no record has such a one. Cheap: no checksum is computed.
    pub(crate) fn decode(bytes: &[u8], masks: PositionMasks) -> Option<RecordHeader> {
        let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
        let kind = RecordKind::from_byte(header[12])?;
        let length = word(header, 0);
        if !(RECORD_HEADER_BYTES as u64..=RECORD_BYTES_MAX).contains(&u64::from(length)) {
            return None;
        }
        let distance = word(header, 8) ^ masks.distance_mask();
        Some(RecordHeader { length, kind, flags: header[13], checksum: word(header, 4), distance })
    }

    /// The start of the flush batch that the record at `lsn` belongs to: up to there the log was durable when it was
    /// written. `None` if there is no such position.
    pub(crate) fn batch_start(&self, lsn: Lsn) -> Option<Lsn> {
        match self.distance {
            // Too far away to be told: claims nothing.
            u32::MAX => Some(Lsn::ZERO),
            distance => lsn.get().checked_sub(u64::from(distance)).map(Lsn::new),
        }
    }

    /// As `batch_start`, of a record that follows others whose last batch started at `floor`: batches start in the order of
    /// the log.
    pub(crate) fn batch_start_from(&self, floor: Lsn, lsn: Lsn) -> Option<Lsn> {
        self.batch_start(lsn).filter(|start| *start >= floor || *start == Lsn::ZERO)
    }

    /// Whether `computed`, the CRC-32C of bytes 12..length, is that of this record at this position.
    pub(crate) fn verifies(&self, computed: u32, masks: PositionMasks) -> bool {
        self.checksum == computed ^ masks.checksum_mask(self.length, self.distance)
    }
}

fn word(header: &[u8; RECORD_HEADER_BYTES], offset: usize) -> u32 {
    u32::from_le_bytes([header[offset], header[offset + 1], header[offset + 2], header[offset + 3]])
}

#[cfg(test)]
mod tests {
    use seawall_types::{TimelineId, TimelineMark};

    use super::*;

    fn key() -> LogKey {
        LogKey::new(DatabaseId::from_bytes([7; 16]), Timeline::FIRST)
    }

    fn stamped(lsn: Lsn, batch_start: Lsn) -> Vec<u8> {
        let record = PreparedRecord::no_op(100);
        let mut copy = record.as_bytes().to_vec();
        copy[..STAMP_BYTES].copy_from_slice(&record.stamp(key(), lsn, batch_start));
        copy
    }

    fn verifies(bytes: &[u8], key: LogKey, lsn: Lsn) -> bool {
        let masks = key.masks(lsn);
        RecordHeader::decode(bytes, masks).is_some_and(|header| {
            usize::try_from(header.length).unwrap() == bytes.len()
                && header.verifies(crc32c(&bytes[12..]), masks)
        })
    }

    #[test]
    fn a_record_verifies_at_its_own_place_only() {
        let lsn = Lsn::new(123_456_789);
        let bytes = stamped(lsn, Lsn::new(123_456_000));
        assert!(verifies(&bytes, key(), lsn));
        let header = RecordHeader::decode(&bytes, key().masks(lsn)).unwrap();
        assert_eq!(header.batch_start(lsn), Some(Lsn::new(123_456_000)));
        assert!(!verifies(&bytes, key(), Lsn::new(123_456_790)));
        assert!(!verifies(&bytes, key(), Lsn::new(123_456_789 + (16 << 20))));
        let others = [
            Timeline { id: TimelineId::new(2).unwrap(), ..Timeline::FIRST },
            Timeline { began: Lsn::new(1), ..Timeline::FIRST },
            Timeline { mark: TimelineMark::from_bytes([1; 16]), ..Timeline::FIRST },
        ];
        for other in others {
            assert!(!verifies(&bytes, LogKey::new(DatabaseId::from_bytes([7; 16]), other), lsn));
        }
        assert!(!verifies(&bytes, LogKey::new(DatabaseId::from_bytes([8; 16]), Timeline::FIRST), lsn));
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_noticed() {
        let lsn = Lsn::new(123_456_789);
        let bytes = stamped(lsn, lsn);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!verifies(&damaged, key(), lsn), "bit {bit}");
        }
    }

    #[test]
    fn a_batch_too_long_to_tell_claims_nothing() {
        let lsn = Lsn::new(1 << 40);
        let bytes = stamped(lsn, Lsn::new(1 << 20));
        assert!(verifies(&bytes, key(), lsn));
        let header = RecordHeader::decode(&bytes, key().masks(lsn)).unwrap();
        assert_eq!(header.batch_start(lsn), Some(Lsn::ZERO));
    }

    #[test]
    fn kinds_keep_their_bytes() {
        for byte in 0..=u8::MAX {
            if let Some(kind) = RecordKind::from_byte(byte) {
                assert_eq!(kind.to_byte(), byte);
            }
        }
        assert_eq!(RecordKind::from_byte(0), None);
    }
}
