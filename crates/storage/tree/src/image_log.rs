//! Page images in the log: the other place for the copies that protect against torn pages.
//!
//! ```text
//!   log   ..[commit][images 0][commit][commit][images 1][images 2][commit]..
//!                   ^ start                                      ^ end = flushed, before the header is written
//!   recovery file   header: chunk, start..end, count, checksum; superblock     one sync: the chunk's commit point
//! ```
//! The tree knows no log. Whoever has one gives the tree an [`ImageLog`] to append to, and an [`ImageSource`] to read
//! from when it is opened. The log skips these records wherever it is replayed.
//!
//! They are still there when they are needed: a chunk may have to be applied again until the superblock calls it done,
//! which the end of its checkpoint does, together with advancing the redo point. Up to then the redo point is that of an
//! earlier checkpoint, frozen before this one appended an image; and no segment from the redo point's on is ever removed
//! or recycled. Chunks that are applied while the log is being replayed, before anybody can append, go to the recovery
//! file.

use seawall_codec::checksum::Crc32c;
use seawall_types::{Lsn, PageId, TimelineId};

use crate::error::{ImageLogError, TreeError};
use crate::superblock::Superblock;

/// A record holds stored images of about so many bytes: few enough not to hold up those who commit meanwhile.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

/// Where the images of a chunk are in the log, and how to know that they are all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSpan {
    /// The timeline that they are on.
    pub timeline: TimelineId,
    /// Start of the first record.
    pub start: Lsn,
    /// End of the last one. The log is durable up to here.
    pub end: Lsn,
    /// Records.
    pub piece_count: u32,
    /// CRC-32C of the pieces' checksums, in the order of their numbers.
    pub checksum: u32,
}

/// Some images of a chunk: one record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePiece {
    /// The chunk's number.
    pub chunk: u64,
    /// Number of the piece in its chunk, from 0. Pieces may be in the log in any order.
    pub number: u32,
    /// The images, in the order of their bytes.
    pub images: Vec<StoredImage>,
    /// What is stored for them, end to end.
    pub bytes: Vec<u8>,
}

/// One image in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredImage {
    /// The page.
    pub page: PageId,
    /// Bytes stored for it.
    pub stored_bytes: u32,
    /// How they were made smaller.
    pub compression: u32,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedPiece {
    /// The log's timeline.
    pub timeline: TimelineId,
    /// Where the record starts.
    pub start: Lsn,
    /// Where it ends.
    pub end: Lsn,
}

/// A log that takes page images.
pub trait ImageLog: Send + Sync + std::fmt::Debug {
    /// Appends a record. It need not be durable when this returns.
    ///
    /// # Errors
    /// `Full`, `Closed`: the record is not in the log.
    fn append(&self, piece: &ImagePiece) -> Result<AppendedPiece, ImageLogError>;

    /// Makes the log durable up to `end`.
    ///
    /// # Errors
    /// `Closed`: how far it is durable is not known.
    fn flush(&self, end: Lsn) -> Result<(), ImageLogError>;
}

/// A log that page images can be read from before anything is appended to it.
pub trait ImageSource {
    /// Hands `visit` every record of page images in `span`, in the order of the log. All of the log there is durable:
    /// whatever does not verify is damage.
    ///
    /// # Errors
    /// `ImageLog` if something is wrong with the log ([`ImageSpan::unreadable`]); or what `visit` says.
    fn read(
        &self,
        values: &Superblock,
        span: &ImageSpan,
        visit: &mut dyn FnMut(ImagePiece) -> Result<(), TreeError>,
    ) -> Result<(), TreeError>;
}

/// For those who have no log: images in one cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoImageSource;

impl ImageSource for NoImageSource {
    fn read(
        &self,
        _values: &Superblock,
        span: &ImageSpan,
        _visit: &mut dyn FnMut(ImagePiece) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        Err(span.unreadable("the tree was opened without its log".to_owned()))
    }
}

impl ImageSpan {
    /// The error of a span that cannot be read.
    pub fn unreadable(&self, cause: String) -> TreeError {
        TreeError::ImageLog(ImageLogError::Unreadable { start: self.start, end: self.end, cause })
    }
}

impl ImagePiece {
    /// Of everything in it but its place in the log.
    pub(crate) fn checksum(&self) -> u32 {
        let mut checksum = Crc32c::new();
        checksum.update(&self.chunk.to_le_bytes());
        checksum.update(&self.number.to_le_bytes());
        for image in &self.images {
            checksum.update(&image.page.get().to_le_bytes());
            checksum.update(&image.stored_bytes.to_le_bytes());
            checksum.update(&image.compression.to_le_bytes());
        }
        checksum.update(&self.bytes);
        checksum.finish()
    }

    /// Each image with its bytes; `None` for one whose bytes are not there.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Option<(StoredImage, &[u8])>> {
        let mut rest = &self.bytes[..];
        self.images.iter().map(move |image| {
            let (stored, left) = rest.split_at_checked(image.stored_bytes as usize)?;
            rest = left;
            Some((*image, stored))
        })
    }
}

/// What becomes of the pieces on their way into the log, or out of it.
#[derive(Debug, Default)]
pub(crate) struct PieceTally {
    /// Number and checksum of each.
    checksums: Vec<(u32, u32)>,
    images: u64,
    /// Bytes of the records, from start to end of each.
    record_bytes: u64,
    span: Option<(Lsn, Lsn)>,
    timeline: Option<TimelineId>,
}

impl PieceTally {
    pub(crate) fn add(&mut self, piece: &ImagePiece) {
        self.checksums.push((piece.number, piece.checksum()));
        self.images += piece.images.len() as u64;
    }

    pub(crate) fn add_appended(&mut self, piece: &ImagePiece, place: AppendedPiece) {
        self.add(piece);
        self.timeline = Some(place.timeline);
        self.record_bytes += place.end.bytes_since(place.start);
        self.reach(place.start, place.end);
    }

    fn reach(&mut self, start: Lsn, end: Lsn) {
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
    }

    /// Adds what another writer has appended.
    pub(crate) fn merge(&mut self, other: PieceTally) {
        self.checksums.extend(other.checksums);
        self.images += other.images;
        self.record_bytes += other.record_bytes;
        self.timeline = self.timeline.or(other.timeline);
        if let Some((start, end)) = other.span {
            self.reach(start, end);
        }
    }

    pub(crate) fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// The checksum of all, if each number from 0 on is there once.
    pub(crate) fn checksum(&mut self) -> Option<u32> {
        self.checksums.sort_unstable();
        let mut all = Crc32c::new();
        for (expected, (number, checksum)) in (0_u32..).zip(&self.checksums) {
            if *number != expected {
                return None;
            }
            all.update(&checksum.to_le_bytes());
        }
        Some(all.finish())
    }

    /// Where what was appended is; `None` if nothing was.
    pub(crate) fn into_span(mut self) -> Option<ImageSpan> {
        let (start, end) = self.span?;
        let checksum = self.checksum().expect("each piece got a number of its own");
        let piece_count = u32::try_from(self.checksums.len()).expect("a chunk has fewer than 2^32 pieces");
        Some(ImageSpan { timeline: self.timeline?, start, end, piece_count, checksum })
    }

    /// What is missing of `span`, if anything is.
    pub(crate) fn shortfall(&mut self, span: &ImageSpan, image_count: u32) -> Option<String> {
        let found = self.checksums.len();
        if found != span.piece_count as usize {
            return Some(format!("{found} records of {}", span.piece_count));
        }
        if self.images != u64::from(image_count) {
            return Some(format!("{} images of {image_count}", self.images));
        }
        let is_whole = self.checksum() == Some(span.checksum);
        (!is_whole).then(|| "they are not the records that were written".to_owned())
    }
}
