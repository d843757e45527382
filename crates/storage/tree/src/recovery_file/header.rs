//! The header of the recovery file: which chunk, where its images are, and how to know that they are all there.
//!
//! It lies twice in the file, at 0 and at 8192, both written before the sync that commits the chunk. All of it is in one
//! sector of 512 bytes, which a disk writes whole or not at all: after a crash each copy is that of this chunk or that
//! of the one before, and one that is neither was damaged. One damaged copy is survived, of two none is.
//!
//! Header sector, integers little-endian; the rest of its block is zero:
//!
//! | offset | bytes | field          | meaning                                                              |
//! |-------:|------:|----------------|----------------------------------------------------------------------|
//! |      0 |     8 | magic          | `SWCHUNK\n`                                                          |
//! |      8 |     4 | version        | `FORMAT_VERSION`; a file of another one is refused                   |
//! |     12 |     4 | checksum       | CRC-32C of the sector with this field zero                           |
//! |     16 |    16 | database       | database id; the file of another database is refused                 |
//! |     32 |     8 | chunk          | number of the chunk; grows by one with each; 0 in a new file         |
//! |     40 |     4 | page_bytes     | bytes of an image                                                    |
//! |     44 |     4 | image_count    | images of the chunk                                                  |
//! |     48 |     4 | superblock     | 1 if the second block is a superblock to be stored after the chunk   |
//! |     52 |     4 | block_checksum | CRC-32C of the second block                                          |
//! |     56 |     4 | place          | 0: the images are in regions of this file, 1: in the log             |
//! |     60 |     4 | part_count     | regions, at most 16; or records in the log                           |
//! |     64 |   384 | parts          | below; zero behind the last one                                      |
//! |    448 |     4 | root_before    | mark of the root before the chunk; see `superblock`                  |
//! |    452 |     4 | map_before     | mark of the first page of the space map before the chunk             |
//! |    456 |     4 | root_after     | mark of the root after it                                            |
//! |    460 |     4 | map_after      | mark of the first page of the space map after it                     |
//! |    464 |    48 | reserved       | zero; anything else is refused                                       |
//!
//! Parts, one after another, if the images are in regions:
//!
//! | offset | bytes | field          | meaning                                                              |
//! |-------:|------:|----------------|----------------------------------------------------------------------|
//! |      0 |     8 | offset         | where the region starts, a multiple of 4096                          |
//! |      8 |     8 | bytes          | its length: two tables and the images                                |
//! |     16 |     4 | image_count    | entries of its table                                                 |
//! |     20 |     4 | table_checksum | CRC-32C of bytes 0..32 of each entry of the table                    |
//!
//! If they are in the log:
//!
//! | offset | bytes | field          | meaning                                                              |
//! |-------:|------:|----------------|----------------------------------------------------------------------|
//! |      0 |     8 | start          | LSN of the first record                                              |
//! |      8 |     8 | end            | LSN behind the last one: the log is durable up to here               |
//! |     16 |     4 | timeline       | the timeline they are on                                             |
//! |     20 |     4 | checksum       | CRC-32C of the checksums of all records' tables and images, by number |

use seawall_codec::bytes::{u32_at, u64_at};
use seawall_codec::checksum::crc32c;
use seawall_types::{DatabaseId, Lsn, TimelineId};

use super::{BLOCK_BYTES, IMAGES_AT};
use crate::image_log::ImageSpan;
use crate::page::{PageFormat, PageMark};
use crate::superblock::{COUNTER_MAX, TreeMarks};

const MAGIC: [u8; 8] = *b"SWCHUNK\n";
const FORMAT_VERSION: u32 = 2;
/// What a disk writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
/// So many writers have a region of their own.
pub(crate) const REGIONS_MAX: usize = 16;
const PARTS_AT: usize = 64;
const PART_BYTES: usize = 24;
const MARKS_AT: usize = PARTS_AT + REGIONS_MAX * PART_BYTES;
const RESERVED_AT: usize = MARKS_AT + 16;
const _: () = assert!(RESERVED_AT + 48 == SECTOR_BYTES);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) chunk: u64,
    pub(crate) image_count: u32,
    pub(crate) has_superblock: bool,
    pub(crate) block_checksum: u32,
    pub(crate) place: ImagePlace,
    /// Of the tree that the chunk changes.
    pub(crate) marks_before: TreeMarks,
    /// Of the tree that it ends with.
    pub(crate) marks_after: TreeMarks,
}

/// Where the images are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImagePlace {
    Regions(Vec<RegionPlace>),
    Log(ImageSpan),
}

/// One region of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionPlace {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) image_count: u32,
    pub(crate) table_checksum: u32,
}

/// What a header sector holds.
pub(super) enum FoundHeader {
    Whole(ChunkHeader),
    /// Not one that was written here.
    Damaged,
    /// Whole, but of another database.
    Foreign(DatabaseId),
    /// Whole, but of another version.
    Version(u32),
}

impl ChunkHeader {
    /// Of a new file, which holds no chunk yet.
    pub(super) fn of_no_chunk() -> ChunkHeader {
        ChunkHeader {
            chunk: 0,
            image_count: 0,
            has_superblock: false,
            block_checksum: crc32c(&[0; BLOCK_BYTES]),
            place: ImagePlace::Regions(Vec::new()),
            marks_before: TreeMarks::default(),
            marks_after: TreeMarks::default(),
        }
    }

    pub(super) fn encode(&self, format: &PageFormat, database: DatabaseId) -> [u8; BLOCK_BYTES] {
        let page_bytes = u32::try_from(format.page_bytes()).expect("a page is at most 64 KiB");
        let mut block = [0; BLOCK_BYTES];
        block[0..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[16..32].copy_from_slice(database.as_bytes());
        block[32..40].copy_from_slice(&self.chunk.to_le_bytes());
        block[40..44].copy_from_slice(&page_bytes.to_le_bytes());
        block[44..48].copy_from_slice(&self.image_count.to_le_bytes());
        block[48..52].copy_from_slice(&u32::from(self.has_superblock).to_le_bytes());
        block[52..56].copy_from_slice(&self.block_checksum.to_le_bytes());
        let (place, part_count) = match &self.place {
            ImagePlace::Regions(regions) => {
                assert!(regions.len() <= REGIONS_MAX, "{} regions", regions.len());
                for (region, part) in regions.iter().zip(block[PARTS_AT..].chunks_exact_mut(PART_BYTES)) {
                    region.encode(part);
                }
                (0, u32::try_from(regions.len()).expect("at most 16 regions"))
            }
            ImagePlace::Log(span) => {
                encode_span(span, &mut block[PARTS_AT..PARTS_AT + PART_BYTES]);
                (1, span.piece_count)
            }
        };
        block[56..60].copy_from_slice(&u32::to_le_bytes(place));
        block[60..64].copy_from_slice(&part_count.to_le_bytes());
        for (marks, bytes) in
            [self.marks_before, self.marks_after].iter().zip(block[MARKS_AT..].chunks_exact_mut(8))
        {
            bytes[..4].copy_from_slice(&marks.root.get().to_le_bytes());
            bytes[4..].copy_from_slice(&marks.space_map.get().to_le_bytes());
        }
        let checksum = crc32c(&block[..SECTOR_BYTES]);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    pub(super) fn decode(
        block: &[u8; BLOCK_BYTES],
        format: &PageFormat,
        database: DatabaseId,
    ) -> FoundHeader {
        let mut sector: [u8; SECTOR_BYTES] = *block.first_chunk().expect("a block is longer than a sector");
        let stored = u32_at(&sector, 12);
        sector[12..16].fill(0);
        if sector[0..8] != MAGIC || stored != crc32c(&sector) {
            return FoundHeader::Damaged;
        }
        let version = u32_at(&sector, 8);
        if version != FORMAT_VERSION {
            return FoundHeader::Version(version);
        }
        let mut found = [0; 16];
        found.copy_from_slice(&sector[16..32]);
        if found != *database.as_bytes() {
            return FoundHeader::Foreign(DatabaseId::from_bytes(found));
        }
        ChunkHeader::decode_fields(&sector, format).map_or(FoundHeader::Damaged, FoundHeader::Whole)
    }

    fn decode_fields(sector: &[u8; SECTOR_BYTES], format: &PageFormat) -> Option<ChunkHeader> {
        let part_count = u32_at(sector, 60);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let is_reserved_zero =
            |from: usize| is_zero(&sector[from..MARKS_AT]) && is_zero(&sector[RESERVED_AT..]);
        let marks_at = |at: usize| TreeMarks {
            root: PageMark::new(u32_at(sector, at)),
            space_map: PageMark::new(u32_at(sector, at + 4)),
        };
        let place = match u32_at(sector, 56) {
            0 => {
                let count = usize::try_from(part_count).ok().filter(|count| *count <= REGIONS_MAX)?;
                let parts = sector[PARTS_AT..].chunks_exact(PART_BYTES).take(count);
                let regions = parts.map(RegionPlace::decode).collect::<Option<Vec<_>>>()?;
                is_reserved_zero(PARTS_AT + count * PART_BYTES).then_some(ImagePlace::Regions(regions))?
            }
            1 => {
                let span = decode_span(&sector[PARTS_AT..], part_count)?;
                is_reserved_zero(PARTS_AT + PART_BYTES).then_some(ImagePlace::Log(span))?
            }
            _ => return None,
        };
        let header = ChunkHeader {
            chunk: u64_at(sector, 32),
            image_count: u32_at(sector, 44),
            has_superblock: u32_at(sector, 48) == 1,
            block_checksum: u32_at(sector, 52),
            place,
            marks_before: marks_at(MARKS_AT),
            marks_after: marks_at(MARKS_AT + 8),
        };
        let fits = u32_at(sector, 40) as usize == format.page_bytes()
            && u32_at(sector, 48) <= 1
            && header.chunk <= COUNTER_MAX
            && header.regions_hold_all();
        fits.then_some(header)
    }

    fn regions_hold_all(&self) -> bool {
        let ImagePlace::Regions(regions) = &self.place else { return true };
        let images: u64 = regions.iter().map(|region| u64::from(region.image_count)).sum();
        let in_order = regions.windows(2).all(|pair| pair[0].offset + pair[0].bytes <= pair[1].offset);
        images == u64::from(self.image_count) && in_order
    }
}

impl RegionPlace {
    fn encode(&self, part: &mut [u8]) {
        part[0..8].copy_from_slice(&self.offset.to_le_bytes());
        part[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        part[16..20].copy_from_slice(&self.image_count.to_le_bytes());
        part[20..24].copy_from_slice(&self.table_checksum.to_le_bytes());
    }

    fn decode(part: &[u8]) -> Option<RegionPlace> {
        let region = RegionPlace {
            offset: u64_at(part, 0),
            bytes: u64_at(part, 8),
            image_count: u32_at(part, 16),
            table_checksum: u32_at(part, 20),
        };
        let fits = region.offset >= IMAGES_AT
            && region.offset.is_multiple_of(BLOCK_BYTES as u64)
            && region.offset <= COUNTER_MAX
            && region.bytes <= COUNTER_MAX
            && region.bytes >= 2 * region.table_bytes();
        fits.then_some(region)
    }
}

fn encode_span(span: &ImageSpan, part: &mut [u8]) {
    part[0..8].copy_from_slice(&span.start.get().to_le_bytes());
    part[8..16].copy_from_slice(&span.end.get().to_le_bytes());
    part[16..20].copy_from_slice(&span.timeline.get().to_le_bytes());
    part[20..24].copy_from_slice(&span.checksum.to_le_bytes());
}

fn decode_span(part: &[u8], piece_count: u32) -> Option<ImageSpan> {
    let (start, end) = (u64_at(part, 0), u64_at(part, 8));
    let timeline = TimelineId::new(u32_at(part, 16))?;
    let fits = start < end && end <= COUNTER_MAX && piece_count > 0;
    fits.then_some(ImageSpan {
        timeline,
        start: Lsn::new(start),
        end: Lsn::new(end),
        piece_count,
        checksum: u32_at(part, 20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: DatabaseId = DatabaseId::from_bytes([7; 16]);

    fn format() -> PageFormat {
        PageFormat::new(4096, &DATABASE).unwrap()
    }

    fn samples() -> Vec<ChunkHeader> {
        let region =
            |offset, image_count| RegionPlace { offset, bytes: 8192, image_count, table_checksum: 5 };
        let span = ImageSpan {
            timeline: TimelineId::FIRST,
            start: Lsn::new(70_000),
            end: Lsn::new(90_000),
            piece_count: 3,
            checksum: 8,
        };
        let with = |place| ChunkHeader {
            chunk: 9,
            image_count: 30,
            has_superblock: true,
            block_checksum: 77,
            place,
            marks_before: TreeMarks { root: PageMark::new(1), space_map: PageMark::new(2) },
            marks_after: TreeMarks { root: PageMark::new(3), space_map: PageMark::new(4) },
        };
        vec![
            ChunkHeader::of_no_chunk(),
            with(ImagePlace::Regions(vec![region(IMAGES_AT, 10), region(IMAGES_AT + 8192, 20)])),
            with(ImagePlace::Log(span)),
        ]
    }

    #[test]
    fn headers_come_back_and_no_flipped_bit_goes_unnoticed() {
        for header in samples() {
            let block = header.encode(&format(), DATABASE);
            let FoundHeader::Whole(found) = ChunkHeader::decode(&block, &format(), DATABASE) else {
                panic!("{header:?} does not come back")
            };
            assert_eq!(found, header);
            for bit in 0..SECTOR_BYTES * 8 {
                let mut damaged = block;
                damaged[bit / 8] ^= 1 << (bit % 8);
                let found = ChunkHeader::decode(&damaged, &format(), DATABASE);
                assert!(matches!(found, FoundHeader::Damaged), "bit {bit}");
            }
        }
    }

    #[test]
    fn another_database_or_version_is_told_from_damage_and_lies_are_damage() {
        let block = samples()[1].encode(&format(), DATABASE);
        let other = DatabaseId::from_bytes([8; 16]);
        assert!(matches!(ChunkHeader::decode(&block, &format(), other), FoundHeader::Foreign(DATABASE)));
        let forge = |offset: usize, value: u32| {
            let mut forged = block;
            forged[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
            forged[12..16].fill(0);
            let checksum = crc32c(&forged[..SECTOR_BYTES]);
            forged[12..16].copy_from_slice(&checksum.to_le_bytes());
            ChunkHeader::decode(&forged, &format(), DATABASE)
        };
        assert!(matches!(forge(8, 1), FoundHeader::Version(1)));
        // Page size, counts, flag, place, a region that overlaps, lies in the headers, or is shorter than its table.
        for (offset, value) in [
            (40, 8192),
            (44, 31),
            (48, 2),
            (56, 2),
            (60, 17),
            (60, 1),
            (64, 4096),
            (64, 12289),
            (72, 799),
            (80, 21),
        ] {
            assert!(matches!(forge(offset, value), FoundHeader::Damaged), "{value} at {offset}");
        }
        assert!(matches!(forge(464, 1), FoundHeader::Damaged));
    }
}
