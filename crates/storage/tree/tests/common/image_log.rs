//! A log of page images in a file: records of a length, a checksum and a piece, end to end. An LSN is an offset in it.

use std::sync::Arc;

use parking_lot::Mutex;
use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_simulation::SimulatedDisk;
use seawall_tree::{
    AppendedPiece, ImageLog, ImageLogError, ImagePiece, ImageSource, ImageSpan, StoredImage, Superblock,
    TreeError,
};
use seawall_types::{Lsn, PageId, TimelineId};

pub(crate) const IMAGE_LOG_PATH: &str = "images";

#[derive(Debug)]
pub(crate) struct FileLog {
    file: Arc<dyn DiskFile>,
    end: Mutex<u64>,
}

impl FileLog {
    /// Goes on behind what is there.
    pub(crate) fn open(disk: &SimulatedDisk) -> std::io::Result<Arc<FileLog>> {
        let file = match disk.open(IMAGE_LOG_PATH, OpenMode::Write) {
            Ok(file) => file,
            Err(_) => {
                let file = disk.open(IMAGE_LOG_PATH, OpenMode::Create)?;
                disk.sync_directory("")?;
                file
            }
        };
        let end = Mutex::new(file.length()?);
        Ok(Arc::new(FileLog { file, end }))
    }
}

fn encode(piece: &ImagePiece) -> Vec<u8> {
    let mut record = vec![0; 8];
    record.extend_from_slice(&piece.chunk.to_le_bytes());
    record.extend_from_slice(&piece.number.to_le_bytes());
    record.extend_from_slice(&u32::try_from(piece.images.len()).unwrap().to_le_bytes());
    for image in &piece.images {
        record.extend_from_slice(&image.page.get().to_le_bytes());
        record.extend_from_slice(&image.stored_bytes.to_le_bytes());
        record.extend_from_slice(&image.compression.to_le_bytes());
    }
    record.extend_from_slice(&piece.bytes);
    let length = u32::try_from(record.len()).unwrap();
    record[0..4].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c(&record[8..]);
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
    record
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    number[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(number)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::try_from(number(bytes, at, 4)).unwrap()
}

fn decode(record: &[u8]) -> ImagePiece {
    let count = word(record, 20) as usize;
    let (table, bytes) = record[24..].split_at(count * 16);
    let images = table.chunks_exact(16).map(|entry| StoredImage {
        page: PageId::new(number(entry, 0, 8)),
        stored_bytes: word(entry, 8),
        compression: word(entry, 12),
    });
    ImagePiece {
        chunk: number(record, 8, 8),
        number: word(record, 16),
        images: images.collect(),
        bytes: bytes.to_vec(),
    }
}

impl ImageLog for FileLog {
    fn append(&self, piece: &ImagePiece) -> Result<AppendedPiece, ImageLogError> {
        let record = encode(piece);
        let mut end = self.end.lock();
        self.file.write_all_at(&record, *end).map_err(|source| match source.kind() {
            std::io::ErrorKind::StorageFull => ImageLogError::Full { source },
            _ => ImageLogError::Closed { cause: source.to_string() },
        })?;
        let start = Lsn::new(*end);
        *end += record.len() as u64;
        Ok(AppendedPiece { timeline: TimelineId::FIRST, start, end: Lsn::new(*end) })
    }

    fn flush(&self, _end: Lsn) -> Result<(), ImageLogError> {
        self.file.sync_data().map_err(|error| ImageLogError::Closed { cause: error.to_string() })
    }
}

/// Reads the file of a [`FileLog`].
pub(crate) struct FileSource<'a>(pub(crate) &'a SimulatedDisk);

impl ImageSource for FileSource<'_> {
    fn read(
        &self,
        _values: &Superblock,
        span: &ImageSpan,
        visit: &mut dyn FnMut(ImagePiece) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let damaged = || span.unreadable("no record".to_owned());
        let bytes = self.0.read_file(IMAGE_LOG_PATH).ok_or_else(damaged)?;
        let end = usize::try_from(span.end.get()).unwrap();
        let mut position = usize::try_from(span.start.get()).unwrap();
        while position < end {
            let rest = bytes.get(position..end).filter(|rest| rest.len() > 24).ok_or_else(damaged)?;
            let record = rest.get(..word(rest, 0) as usize).filter(|record| record.len() > 24);
            let record = record.filter(|record| crc32c(&record[8..]) == word(record, 4));
            let record = record.ok_or_else(damaged)?;
            visit(decode(record))?;
            position += record.len();
        }
        Ok(())
    }
}
