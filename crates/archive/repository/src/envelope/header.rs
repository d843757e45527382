//! The header of an object: encode, decode. The byte table is in the parent module.

use seawall_codec::bytes::{array_at, u32_at, u64_at};
use seawall_codec::checksum::crc32c;
use seawall_codec::compression::Compression;
use seawall_keys::{
    ENVELOPE_BYTES, Envelope, NotAuthentic, ObjectKey, RepositoryKey, RepositoryKeyId,
    WRAPPED_OBJECT_KEY_BYTES,
};
use seawall_types::{Lsn, TimelineId};

use super::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, PLAIN_BYTES_MAX, frame};
use crate::system::System;

/// Length of a header.
pub const HEADER_BYTES: usize = 512;
/// The version of objects.
pub const FORMAT_VERSION: u32 = 1;
/// The longest name.
const NAME_BYTES_MAX: usize = 255;

const MAGIC: [u8; 8] = *b"SWOBJ\r\n\x1A";
const FLAG_ENDS_EARLY: u16 = 1;
const CHECKSUM: std::ops::Range<usize> = 12..16;
const ENVELOPE: std::ops::Range<usize> = 120..160;
const WRAPPED: std::ops::Range<usize> = 160..200;
const NAME_OFFSET: usize = 256;
const _: () = assert!(ENVELOPE.end - ENVELOPE.start == ENVELOPE_BYTES);
const _: () = assert!(WRAPPED.end - WRAPPED.start == WRAPPED_OBJECT_KEY_BYTES);
const _: () = assert!(202 + 54 == NAME_OFFSET && NAME_OFFSET + 256 == HEADER_BYTES);

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A segment of the log.
    Segment,
    /// The last segment of a timeline that was left, as far as it had been written: `.partial`.
    PartialSegment,
    /// The history of a timeline: `.history`.
    TimelineHistory,
    /// What PostgreSQL notes of a base backup: `.backup`.
    BackupLabel,
    /// Bytes of a segment that is not full yet.
    LogTail,
    /// A stretch of the rows of a backup.
    BackupRun,
    /// What a backup consists of.
    BackupManifest,
    /// A stretch of the files of a PostgreSQL cluster, as a tar archive.
    BackupPart,
    /// How far a backup that is under way has come.
    BackupProgress,
    /// That segments were left out on purpose.
    GapRecord,
    /// That a restore has taken the number of a timeline.
    TimelineReservation,
}

impl ObjectKind {
    /// Every one.
    pub const ALL: [ObjectKind; 11] = [
        ObjectKind::Segment,
        ObjectKind::PartialSegment,
        ObjectKind::TimelineHistory,
        ObjectKind::BackupLabel,
        ObjectKind::LogTail,
        ObjectKind::BackupRun,
        ObjectKind::BackupManifest,
        ObjectKind::BackupPart,
        ObjectKind::BackupProgress,
        ObjectKind::GapRecord,
        ObjectKind::TimelineReservation,
    ];

    const fn code(self) -> u8 {
        match self {
            ObjectKind::Segment => 1,
            ObjectKind::PartialSegment => 2,
            ObjectKind::TimelineHistory => 3,
            ObjectKind::BackupLabel => 4,
            ObjectKind::LogTail => 5,
            ObjectKind::BackupRun => 6,
            ObjectKind::BackupManifest => 7,
            ObjectKind::BackupPart => 8,
            ObjectKind::BackupProgress => 9,
            ObjectKind::GapRecord => 10,
            ObjectKind::TimelineReservation => 11,
        }
    }

    fn from_code(code: u8) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Segment => "segment",
            ObjectKind::PartialSegment => "partial segment",
            ObjectKind::TimelineHistory => "timeline history",
            ObjectKind::BackupLabel => "backup label",
            ObjectKind::LogTail => "log tail",
            ObjectKind::BackupRun => "backup run",
            ObjectKind::BackupManifest => "backup manifest",
            ObjectKind::BackupPart => "backup part",
            ObjectKind::BackupProgress => "backup progress",
            ObjectKind::GapRecord => "gap record",
            ObjectKind::TimelineReservation => "timeline reservation",
        }
    }
}

/// What is known of an object without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it holds.
    pub kind: ObjectKind,
    /// Whose it is.
    pub system: System,
    /// Name of the file.
    pub name: String,
    /// PostgreSQL: magic of its log pages; Seawall: version of its segments; 0: unknown.
    pub log_version: u16,
    /// The timeline, where it has one.
    pub timeline: Option<TimelineId>,
    /// Size of the log's segments; 0 where that is not known.
    pub segment_bytes: u32,
    /// The first byte of the log that it holds.
    pub start: Lsn,
    /// The byte behind the last one.
    pub end: Lsn,
    /// The records end before the segment does.
    pub ends_early: bool,
    /// When it was packed, microseconds since 1970.
    pub created_micros: i64,
    /// How its frames are compressed.
    pub compression: Compression,
    /// Length of the content.
    pub plain_bytes: u64,
    /// CRC-64/NVME of the content; zero if encrypted ([`Header::unwrap_key`] gives it then).
    pub plain_checksum: u64,
    /// Length of all frames.
    pub stored_bytes: u64,
    /// CRC-64/NVME of all frames.
    pub stored_checksum: u64,
    /// Plain bytes of each frame but the last.
    pub frame_bytes: u32,
    /// How many frames there are.
    pub frame_count: u32,
    /// How it is encrypted, if it is.
    pub encryption: Option<Encryption>,
}

/// The key of an object, wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The repository key.
    pub key: RepositoryKeyId,
    pub(crate) envelope: Envelope,
    pub(crate) wrapped: [u8; WRAPPED_OBJECT_KEY_BYTES],
}

/// Why the first bytes of an object are no header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Shorter than a header.
    #[error("it ends after {found} bytes, within its header")]
    Short {
        /// How long it is.
        found: usize,
    },
    /// Something else.
    #[error("not an object of an archive: it starts with {found:02x?}")]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// Written by a newer release.
    #[error(
        "it has format version {found}, and this release reads version {FORMAT_VERSION}: use a newer one"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// Damaged.
    #[error("the checksum of its header is wrong: stored {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// In the header.
        stored: u32,
        /// Of its bytes.
        computed: u32,
    },
    /// A field has a value that none is written with.
    #[error("offset {offset}: invalid {field}")]
    Field {
        /// Which.
        field: &'static str,
        /// Where it begins.
        offset: usize,
    },
}

impl Header {
    /// Of an object that has yet to be packed: about no log, without content.
    pub(crate) fn unpacked(kind: ObjectKind, system: System, name: String) -> Header {
        Header {
            kind,
            system,
            name,
            log_version: 0,
            timeline: None,
            segment_bytes: 0,
            start: Lsn::ZERO,
            end: Lsn::ZERO,
            ends_early: false,
            created_micros: 0,
            compression: Compression::None,
            plain_bytes: 0,
            plain_checksum: 0,
            stored_bytes: 0,
            stored_checksum: 0,
            frame_bytes: 0,
            frame_count: 0,
            encryption: None,
        }
    }

    /// Its bytes.
    ///
    /// # Panics
    /// If the name is empty or longer than 255 bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = self.encode_unsealed();
        if let Some(encryption) = &self.encryption {
            bytes[ENVELOPE].copy_from_slice(&encryption.envelope.to_bytes());
            bytes[WRAPPED].copy_from_slice(&encryption.wrapped);
        }
        let checksum = crc32c(&bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Without checksum, envelope and wrapped key: what the wrapped key authenticates.
    fn encode_unsealed(&self) -> [u8; HEADER_BYTES] {
        let name = self.name.as_bytes();
        assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "a name of {} bytes", name.len());
        let name_bytes = u16::try_from(name.len()).expect("at most 255");
        let (system_kind, system) = self.system.to_parts();
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16] = self.kind.code();
        bytes[17] = system_kind;
        bytes[18] = self.compression.code();
        bytes[19] = u8::from(self.encryption.is_some());
        bytes[20..22].copy_from_slice(&self.log_version.to_le_bytes());
        let flags = if self.ends_early { FLAG_ENDS_EARLY } else { 0 };
        bytes[22..24].copy_from_slice(&flags.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.timeline.map_or(0, TimelineId::get).to_le_bytes());
        bytes[28..32].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes[32..48].copy_from_slice(&system);
        bytes[48..56].copy_from_slice(&self.start.get().to_le_bytes());
        bytes[56..64].copy_from_slice(&self.end.get().to_le_bytes());
        bytes[64..72].copy_from_slice(&self.created_micros.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.plain_bytes.to_le_bytes());
        bytes[80..88].copy_from_slice(&self.plain_checksum.to_le_bytes());
        bytes[88..96].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[96..104].copy_from_slice(&self.stored_checksum.to_le_bytes());
        bytes[104..108].copy_from_slice(&self.frame_bytes.to_le_bytes());
        bytes[108..112].copy_from_slice(&self.frame_count.to_le_bytes());
        if let Some(encryption) = &self.encryption {
            bytes[112..120].copy_from_slice(&encryption.key.0);
        }
        bytes[200..202].copy_from_slice(&name_bytes.to_le_bytes());
        bytes[NAME_OFFSET..NAME_OFFSET + name.len()].copy_from_slice(name);
        bytes
    }

    /// Reads the first bytes of an object; what follows the header is not looked at.
    ///
    /// # Errors
    /// `HeaderError`: refuses, field by field, what `encode` cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let short = HeaderError::Short { found: bytes.len() };
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(short)?;
        check_form(bytes)?;
        let field = |field, offset| HeaderError::Field { field, offset };
        let encryption = decode_encryption(bytes)?;
        let header = Header {
            kind: ObjectKind::from_code(bytes[16]).ok_or(field("kind", 16))?,
            system: System::from_parts(bytes[17], array_at(bytes, 32)).ok_or(field("system", 17))?,
            name: decode_name(bytes)?,
            log_version: u16::from_le_bytes(array_at(bytes, 20)),
            timeline: TimelineId::new(u32_at(bytes, 24)),
            segment_bytes: u32_at(bytes, 28),
            start: Lsn::new(u64_at(bytes, 48)),
            end: Lsn::new(u64_at(bytes, 56)),
            ends_early: match u16::from_le_bytes(array_at(bytes, 22)) {
                0 => false,
                FLAG_ENDS_EARLY => true,
                _ => return Err(field("flags", 22)),
            },
            created_micros: i64::from_le_bytes(array_at(bytes, 64)),
            compression: match Compression::from_code(bytes[18]) {
                Some(compression @ (Compression::None | Compression::Lz4 | Compression::Zstd)) => compression,
                Some(Compression::Snappy) | None => return Err(field("compression", 18)),
            },
            plain_bytes: u64_at(bytes, 72),
            plain_checksum: u64_at(bytes, 80),
            stored_bytes: u64_at(bytes, 88),
            stored_checksum: u64_at(bytes, 96),
            frame_bytes: u32_at(bytes, 104),
            frame_count: u32_at(bytes, 108),
            encryption,
        };
        header.check_values()?;
        Ok(header)
    }

    fn check_values(&self) -> Result<(), HeaderError> {
        let field = |field, offset| Err(HeaderError::Field { field, offset });
        if self.end < self.start {
            return field("end_lsn", 56);
        }
        if self.plain_bytes > PLAIN_BYTES_MAX {
            return field("plain_bytes", 72);
        }
        if self.encryption.is_some() && self.plain_checksum != 0 {
            return field("plain_checksum", 80);
        }
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&self.frame_bytes) {
            return field("frame_bytes", 104);
        }
        if u64::from(self.frame_count) != self.plain_bytes.div_ceil(u64::from(self.frame_bytes)) {
            return field("frame_count", 108);
        }
        // A frame is never longer than its plain bytes and what is around them.
        let around = u64::from(self.frame_count) * frame::AROUND_BYTES_MAX;
        if self.stored_bytes > self.plain_bytes + around {
            return field("stored_bytes", 88);
        }
        Ok(())
    }

    /// Wraps `key` for this header, and the checksum of the content with it. Every other field must be final.
    pub(crate) fn wrap_key(&mut self, repository: &RepositoryKey, key: &ObjectKey) {
        let secret = self.plain_checksum.to_le_bytes();
        self.plain_checksum = 0;
        let (envelope, wrapped) = (Envelope::from_bytes(&[0; ENVELOPE_BYTES]), [0; WRAPPED_OBJECT_KEY_BYTES]);
        self.encryption = Some(Encryption { key: repository.id(), envelope, wrapped });
        let (envelope, wrapped) = repository.wrap_object_key(key, secret, &self.encode_unsealed());
        self.encryption = Some(Encryption { key: repository.id(), envelope, wrapped });
    }

    /// The key of an encrypted object, and the checksum of its content.
    ///
    /// # Errors
    /// `NotAuthentic` if the header was changed, or `repository` is not the key that it was wrapped with.
    pub fn unwrap_key(&self, repository: &RepositoryKey) -> Result<(ObjectKey, u64), NotAuthentic> {
        let encryption = self.encryption.ok_or(NotAuthentic)?;
        let associated = self.encode_unsealed();
        let (key, secret) =
            repository.unwrap_object_key(&encryption.envelope, &encryption.wrapped, &associated)?;
        Ok((key, u64::from_le_bytes(secret)))
    }
}

fn check_form(bytes: &[u8; HEADER_BYTES]) -> Result<(), HeaderError> {
    let magic: [u8; 8] = array_at(bytes, 0);
    if magic != MAGIC {
        return Err(HeaderError::Magic { found: magic });
    }
    let mut unsealed = *bytes;
    unsealed[CHECKSUM].fill(0);
    let (stored, computed) = (u32_at(bytes, CHECKSUM.start), crc32c(&unsealed));
    let version = u32_at(bytes, 8);
    if version != FORMAT_VERSION {
        return Err(HeaderError::Version { found: version });
    }
    if stored != computed {
        return Err(HeaderError::Checksum { stored, computed });
    }
    if let Some(index) = bytes[202..NAME_OFFSET].iter().position(|byte| *byte != 0) {
        return Err(HeaderError::Field { field: "reserved", offset: 202 + index });
    }
    Ok(())
}

fn decode_name(bytes: &[u8; HEADER_BYTES]) -> Result<String, HeaderError> {
    let field = || HeaderError::Field { field: "name", offset: NAME_OFFSET };
    let length = usize::from(u16::from_le_bytes(array_at(bytes, 200)));
    if !(1..=NAME_BYTES_MAX).contains(&length) {
        return Err(HeaderError::Field { field: "name_bytes", offset: 200 });
    }
    let (name, rest) = bytes[NAME_OFFSET..].split_at(length);
    if rest.iter().any(|byte| *byte != 0) {
        return Err(field());
    }
    std::str::from_utf8(name).map(str::to_owned).map_err(|_| field())
}

fn decode_encryption(bytes: &[u8; HEADER_BYTES]) -> Result<Option<Encryption>, HeaderError> {
    match bytes[19] {
        0 if bytes[112..200].iter().all(|byte| *byte == 0) => Ok(None),
        0 => Err(HeaderError::Field { field: "key", offset: 112 }),
        1 => Ok(Some(Encryption {
            key: RepositoryKeyId(array_at(bytes, 112)),
            envelope: Envelope::from_bytes(&array_at(bytes, ENVELOPE.start)),
            wrapped: array_at(bytes, WRAPPED.start),
        })),
        _ => Err(HeaderError::Field { field: "encryption", offset: 19 }),
    }
}
