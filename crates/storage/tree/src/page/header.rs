//! The header that all pages begin with, integers little-endian:
//!
//! | offset | bytes | field        | meaning                                                                  |
//! |-------:|------:|--------------|--------------------------------------------------------------------------|
//! |      0 |     4 | checksum     | CRC-32C of all bytes that follow (of an extent: of all its pages)        |
//! |      4 |     4 | database     | first four bytes of the database id; another database's page is refused  |
//! |      8 |     8 | page         | the page's own number; a page read from the wrong place is refused       |
//! |     16 |     1 | version      | 2; 3 is a leaf in which a row is deleted; another one is refused         |
//! |     17 |     1 | kind         | 1 leaf, 2 interior, 3 overflow extent, 4 space map                       |
//! |     18 |     1 | level        | height above the leaves; 0 unless interior                               |
//! |     19 |     1 | flags        | leaf: bit 0 if a value lies in overflow extents; else zero               |
//! |     20 |     2 | count        | rows of a leaf, children of an interior page, else zero                  |
//! |     22 |     2 | prefix_bytes | length of the prefix that all its keys share, stored after the header    |
//! |     24 |     8 | lsn          | stamp of the merge that changed its rows, or which children it has, last |
//! |     32 |     4 | lower        | end of the slots: unused space is `lower..upper`                         |
//! |     36 |     4 | upper        | start of the cells                                                       |
//! |     40 |    40 | envelope     | zero in memory, and on disk unless the database is encrypted: `encrypted`|

use std::ops::Range;

use seawall_codec::bytes::{u16_at, u32_at, u64_at};
use seawall_codec::checksum::crc32c;
use seawall_keys::ENVELOPE_BYTES;
use seawall_types::{Lsn, PageId};

use super::{PageFormat, PageMark};
use crate::sabotage::{Defect, sabotaged};

/// Bytes before a page's content.
pub const PAGE_HEADER_BYTES: usize = 80;
/// Of all pages but those of the next version.
const PAGE_FORMAT_VERSION: u8 = 2;
/// Of leaves in which a row is deleted, which releases before do not know.
pub(super) const VERSION_WITH_DELETED: u8 = 3;
/// Where nonce and tag of an encrypted page stand, at the end of the header.
pub(super) const ENVELOPE: Range<usize> = 40..PAGE_HEADER_BYTES;
const _: () = assert!(ENVELOPE.end - ENVELOPE.start == ENVELOPE_BYTES);

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Rows.
    Leaf = 1,
    /// Separators and children.
    Interior = 2,
    /// A piece of a long value, over one or more pages.
    Overflow = 3,
    /// Which pages are allocated.
    SpaceMap = 4,
}

impl PageKind {
    const fn from_byte(byte: u8) -> Option<PageKind> {
        match byte {
            1 => Some(PageKind::Leaf),
            2 => Some(PageKind::Interior),
            3 => Some(PageKind::Overflow),
            4 => Some(PageKind::SpaceMap),
            _ => None,
        }
    }
}

/// What is wrong with a page image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageDamage {
    /// The image is not as long as a page.
    #[error("{found} bytes where {expected} are expected")]
    Length {
        /// A page's length.
        expected: usize,
        /// The image's.
        found: usize,
    },
    /// The bytes are not those that were written.
    #[error("checksum: stored {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// In the header.
        stored: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// A format this program does not know.
    #[error("page format version {0} is not known")]
    Version(u8),
    /// A page of another database.
    #[error("database tag {found:#010x} where {expected:#010x} is expected: a page of another database")]
    Database {
        /// Of this database.
        expected: u32,
        /// In the header.
        found: u32,
    },
    /// A page of another place in the file.
    #[error("it says that it is page {found}")]
    Misplaced {
        /// In the header.
        found: PageId,
    },
    /// A right page of the wrong kind for its place in the tree.
    #[error("{found:?} where {expected:?} is expected")]
    WrongKind {
        /// What the place asks for.
        expected: PageKind,
        /// What is there.
        found: PageKind,
    },
    /// A right page at the wrong height in the tree.
    #[error("level {found} where {expected} is expected")]
    WrongLevel {
        /// What the place asks for.
        expected: u8,
        /// What is there.
        found: u8,
    },
    /// A right page, but another image than the one that the tree refers to: an older one, as a lost write leaves it.
    #[error(
        "a valid image with mark {found}, where the tree refers to the image with mark {expected}: the device lost a write, \
         or an older file was put in its place"
    )]
    LostWrite {
        /// What the page above it says, or the superblock.
        expected: PageMark,
        /// The image's.
        found: PageMark,
    },
    /// The checksum holds but the page was not encrypted with the key of this database.
    #[error("it does not authenticate: it was encrypted with another key, or changed on purpose")]
    NotAuthentic,
    /// A page that anybody could have written, in an encrypted database.
    #[error("it is not encrypted, as all pages of this database are")]
    NotEncrypted,
    /// The checksum holds but the content cannot have been written by this program.
    #[error("structure: {0}")]
    Structure(&'static str),
}

/// The decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) version: u8,
    pub(crate) page: PageId,
    pub(crate) kind: PageKind,
    pub(crate) level: u8,
    pub(crate) flags: u8,
    pub(crate) count: u16,
    pub(crate) prefix_bytes: u16,
    pub(crate) lsn: Lsn,
    pub(crate) lower: u32,
    pub(crate) upper: u32,
}

impl PageHeader {
    /// A header with no slots and no cells.
    pub(crate) fn empty(page: PageId, kind: PageKind, lsn: Lsn) -> PageHeader {
        PageHeader {
            version: PAGE_FORMAT_VERSION,
            page,
            kind,
            level: 0,
            flags: 0,
            count: 0,
            prefix_bytes: 0,
            lsn,
            lower: 0,
            upper: 0,
        }
    }

    /// Writes all but the checksum, which `seal` adds when the content stands.
    pub(crate) fn encode(&self, format: &PageFormat, image: &mut [u8]) {
        image[4..8].copy_from_slice(&format.database_tag().to_le_bytes());
        image[8..16].copy_from_slice(&self.page.get().to_le_bytes());
        image[16] = self.version;
        image[17] = self.kind as u8;
        image[18] = self.level;
        image[19] = self.flags;
        image[20..22].copy_from_slice(&self.count.to_le_bytes());
        image[22..24].copy_from_slice(&self.prefix_bytes.to_le_bytes());
        image[24..32].copy_from_slice(&self.lsn.get().to_le_bytes());
        image[32..36].copy_from_slice(&self.lower.to_le_bytes());
        image[36..40].copy_from_slice(&self.upper.to_le_bytes());
        image[ENVELOPE].fill(0);
    }

    /// Checks and reads the header of a page that was read as page `page`.
    pub(crate) fn decode(format: &PageFormat, page: PageId, image: &[u8]) -> Result<PageHeader, PageDamage> {
        if image.len() != format.page_bytes() {
            return Err(PageDamage::Length { expected: format.page_bytes(), found: image.len() });
        }
        verify_checksum(image)?;
        PageHeader::decode_fields(format, page, image)
    }

    /// As `decode`, of an image whose checksum holds or is not known yet; it has at least a header's bytes.
    pub(super) fn decode_fields(
        format: &PageFormat,
        page: PageId,
        image: &[u8],
    ) -> Result<PageHeader, PageDamage> {
        let version = version_of(image);
        if ![PAGE_FORMAT_VERSION, VERSION_WITH_DELETED].contains(&version) {
            return Err(PageDamage::Version(version));
        }
        let database = u32_at(image, 4);
        if database != format.database_tag() {
            return Err(PageDamage::Database { expected: format.database_tag(), found: database });
        }
        if page_of(image) != page {
            return Err(PageDamage::Misplaced { found: page_of(image) });
        }
        let kind = kind_of(image).ok_or(PageDamage::Structure("unknown kind of page"))?;
        if image[ENVELOPE].iter().any(|byte| *byte != 0) {
            return Err(PageDamage::Structure("the page is encrypted, or its header's envelope is not zero"));
        }
        let level_fits = (kind == PageKind::Interior) == (image[18] > 0);
        let flags_fit = image[19] == 0 || (kind == PageKind::Leaf && image[19] == 1);
        let version_fits = version == PAGE_FORMAT_VERSION || kind == PageKind::Leaf;
        if !level_fits || !flags_fit || !version_fits {
            return Err(PageDamage::Structure("version, level or flags do not fit the kind of page"));
        }
        Ok(PageHeader {
            version,
            page,
            kind,
            level: image[18],
            flags: image[19],
            count: u16_at(image, 20),
            prefix_bytes: u16_at(image, 22),
            lsn: lsn_of(image),
            lower: u32_at(image, 32),
            upper: u32_at(image, 36),
        })
    }

    /// Prefix and slots end at `lower`, where they should, and the cells start at or after it.
    pub(super) fn check_bounds(&self, format: &PageFormat, slot_bytes: usize) -> Result<(), PageDamage> {
        let (lower, upper) = (self.lower as usize, self.upper as usize);
        let prefix = usize::from(self.prefix_bytes);
        if prefix > format.max_key_bytes() {
            return Err(PageDamage::Structure("the prefix is longer than a key can be"));
        }
        if lower != PAGE_HEADER_BYTES + prefix + slot_bytes || lower > upper || upper > format.page_bytes() {
            return Err(PageDamage::Structure("slots and cells overlap"));
        }
        Ok(())
    }
}

/// The fields that `unused_range` reads lie before this byte.
pub(crate) const UNUSED_FIELDS_END: usize = 40;

/// The bytes between slots and cells, `lower..upper`; empty if the page has no such middle, or says what cannot be.
pub(crate) fn unused_range(image: &[u8]) -> std::ops::Range<usize> {
    let (lower, upper) = (u32_at(image, 32) as usize, u32_at(image, 36) as usize);
    if lower < PAGE_HEADER_BYTES || lower > upper || upper > image.len() { 0..0 } else { lower..upper }
}

/// Stores the checksum of a finished image.
pub(crate) fn seal(image: &mut [u8]) {
    let checksum = crc32c(&image[4..]);
    image[0..4].copy_from_slice(&checksum.to_le_bytes());
}

pub(super) fn verify_checksum(image: &[u8]) -> Result<(), PageDamage> {
    let (stored, computed) = (u32_at(image, 0), crc32c(&image[4..]));
    let is_right = stored == computed || sabotaged(Defect::PageChecksumNotChecked);
    if is_right { Ok(()) } else { Err(PageDamage::Checksum { stored, computed }) }
}

/// The mark of an image that is right: its checksum as a plain image.
#[inline]
pub(super) fn mark_of(image: &[u8]) -> PageMark {
    PageMark::new(u32_at(image, 0))
}

pub(super) fn page_of(image: &[u8]) -> PageId {
    PageId::new(u64_at(image, 8))
}

pub(super) fn kind_of(image: &[u8]) -> Option<PageKind> {
    PageKind::from_byte(image[17])
}

#[inline]
pub(super) fn version_of(image: &[u8]) -> u8 {
    image[16]
}

pub(super) fn level_of(image: &[u8]) -> u8 {
    image[18]
}

pub(super) fn lsn_of(image: &[u8]) -> Lsn {
    Lsn::new(u64_at(image, 24))
}

#[inline]
pub(super) fn expect_kind(image: &[u8], expected: PageKind) -> Result<(), PageDamage> {
    if image[17] == expected as u8 {
        return Ok(());
    }
    match kind_of(image) {
        Some(found) => Err(PageDamage::WrongKind { expected, found }),
        None => Err(PageDamage::Structure("unknown kind of page")),
    }
}
