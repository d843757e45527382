//! The body of a record of page images: copies of pages that a checkpoint is about to overwrite, kept here so that torn
//! ones can be repaired. The recovery file says which records they are; a replay of the log skips them.
//!
//! | offset | bytes   | field  | meaning                                                                     |
//! |-------:|--------:|--------|-----------------------------------------------------------------------------|
//! |      0 |       8 | chunk  | number of the chunk that overwrites the pages                               |
//! |      8 |       4 | number | of this record among those of the chunk, from 0; they may come in any order |
//! |     12 |       4 | count  | images in this record                                                       |
//! |     16 | n x 16  | table  | for each image: page, 8; stored bytes, 4; compression, 4, see "Page images" |
//! |        |         | images | what is stored, end to end, up to the end of the body                       |

use seawall_types::PageId;

use crate::body::BodyReader;
use crate::error::RecordError;
use crate::record::{PreparedRecord, RECORD_HEADER_BYTES, RecordKind};

const ENTRY_BYTES: usize = 16;

/// Some page images of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageImages<'a> {
    /// The chunk that overwrites the pages.
    pub chunk: u64,
    /// Number of this record among those of the chunk.
    pub number: u32,
    table: &'a [u8],
    /// What is stored for all images, end to end.
    pub stored: &'a [u8],
}

/// One image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageImageEntry {
    /// The page.
    pub page: PageId,
    /// Bytes stored for it.
    pub stored_bytes: u32,
    /// How they were made smaller.
    pub compression: u32,
}

impl<'a> PageImages<'a> {
    /// The record that holds these images; `stored` has the bytes of all, end to end.
    ///
    /// # Panics
    /// If `stored` is not as long as the entries say, or there are 2^32 of them.
    pub fn prepare(
        chunk: u64,
        number: u32,
        entries: impl ExactSizeIterator<Item = PageImageEntry>,
        stored: &[u8],
    ) -> PreparedRecord {
        let count = u32::try_from(entries.len()).expect("a record holds fewer than 2^32 images");
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.reserve(16 + entries.len() * ENTRY_BYTES + stored.len());
        bytes.extend_from_slice(&chunk.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        let mut total = 0;
        for entry in entries {
            bytes.extend_from_slice(&entry.page.get().to_le_bytes());
            bytes.extend_from_slice(&entry.stored_bytes.to_le_bytes());
            bytes.extend_from_slice(&entry.compression.to_le_bytes());
            total += u64::from(entry.stored_bytes);
        }
        assert_eq!(total, stored.len() as u64, "the entries say how long the images are");
        bytes.extend_from_slice(stored);
        PreparedRecord::from_bytes(RecordKind::PageImages, bytes)
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<PageImages<'a>, RecordError> {
        let mut reader = BodyReader::new(body);
        let chunk = u64::from_le_bytes(reader.fixed("chunk")?);
        let number = u32::from_le_bytes(reader.fixed("number")?);
        let count = u32::from_le_bytes(reader.fixed("count")?);
        let table = reader.bytes(u64::from(count) * ENTRY_BYTES as u64, "table")?;
        let offset = reader.offset();
        let stored = reader.bytes(reader.remaining() as u64, "images")?;
        let images = PageImages { chunk, number, table, stored };
        let said: u64 = images.entries().map(|entry| u64::from(entry.stored_bytes)).sum();
        if said != stored.len() as u64 {
            return Err(RecordError::Value { field: "stored bytes", offset });
        }
        Ok(images)
    }

    /// What is in the record, in the order of `stored`.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = PageImageEntry> + 'a {
        self.table.chunks_exact(ENTRY_BYTES).map(|entry| {
            let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four bytes"));
            PageImageEntry {
                page: PageId::new(u64::from_le_bytes(entry[0..8].try_into().expect("eight bytes"))),
                stored_bytes: word(8),
                compression: word(12),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded::Record;

    #[test]
    fn images_come_back_and_what_cannot_be_is_refused() {
        let entries = [(3, 5, 1), (9, 0, 0), (1 << 40, 7, 4)].map(|(page, stored_bytes, compression)| {
            PageImageEntry { page: PageId::new(page), stored_bytes, compression }
        });
        let record = PageImages::prepare(77, 2, entries.into_iter(), b"hello, world");
        let body = &record.as_bytes()[RECORD_HEADER_BYTES..];
        let read = |body: &[u8]| Record::decode(RecordKind::PageImages, 0, body).map(|_| ());
        let images = PageImages::decode(body).unwrap();
        assert_eq!((images.chunk, images.number, images.stored), (77, 2, &b"hello, world"[..]));
        assert_eq!(images.entries().collect::<Vec<_>>(), entries);
        for cut in 0..body.len() {
            assert!(read(&body[..cut]).is_err(), "cut at {cut}");
        }
        assert!(read(&[body, &[0]].concat()).is_err());
        let mut lying = body.to_vec();
        lying[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read(&lying).is_err());
    }
}
