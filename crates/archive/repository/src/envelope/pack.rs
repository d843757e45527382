//! From content to object.
//!
//! ```text
//!   content --Packer--> Packed: compressed frames --seal--> Sealed: header and frames, for one repository
//! ```
//! Content is compressed once, for however many repositories; each of them has a key of its own, or none.

use bytes::{Bytes, BytesMut};
use seawall_codec::checksum::Crc64;
use seawall_codec::compression::{Compression, Compressor};
use seawall_codec::encryption::TAG_BYTES;
use seawall_keys::{FramePlace, ObjectKey, RepositoryKey};

use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use super::header::{HEADER_BYTES, Header};
use super::{FRAME_BYTES, PLAIN_BYTES_MAX};

/// How content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// None, LZ4 or Zstandard. Archives have no Snappy.
    pub compression: Compression,
    /// Level of Zstandard, 1 to 19.
    pub zstd_level: i32,
}

impl Default for Packing {
    fn default() -> Packing {
        Packing { compression: Compression::Lz4, zstd_level: 3 }
    }
}

/// Compresses content, one object after another. It keeps what a compressor needs, so use one for many objects.
#[derive(Debug)]
pub struct Packer {
    compressor: Compressor,
    /// Frames so far.
    buffer: Vec<u8>,
    /// A compressed frame, at its start. Kept: to get and clear its memory for each frame costs as much as a checksum.
    room: Vec<u8>,
}

/// Compressed content.
#[derive(Clone, Debug)]
pub struct Packed {
    header: Header,
    frames: Bytes,
}

/// An object, ready to be put.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// What its header says.
    pub header: Header,
    header_bytes: Bytes,
    frames: Bytes,
}

impl Packer {
    /// One that compresses so.
    ///
    /// # Panics
    /// If asked for Snappy.
    pub fn new(packing: Packing) -> Packer {
        assert!(packing.compression != Compression::Snappy, "archives have no Snappy");
        let compressor = Compressor::with_zstd_level(packing.compression, packing.zstd_level);
        Packer { compressor, buffer: Vec::new(), room: Vec::new() }
    }

    /// Compresses `content`. Of `header`, what is about the content's bytes is filled in here.
    ///
    /// # Panics
    /// If the content is longer than [`PLAIN_BYTES_MAX`].
    pub fn pack(&mut self, header: Header, content: &[u8]) -> Packed {
        assert!(content.len() as u64 <= PLAIN_BYTES_MAX, "content of {} bytes", content.len());
        let frame_length = usize::try_from(FRAME_BYTES).expect("a mebibyte fits into memory");
        let mut count: u32 = 0;
        for stretch in content.chunks(frame_length) {
            self.add_frame(count, stretch);
            count += 1;
        }
        let (mut plain, mut stored) = (Crc64::new(), Crc64::new());
        plain.update(content);
        stored.update(&self.buffer);
        let header = Header {
            compression: self.compressor.compression(),
            plain_bytes: content.len() as u64,
            plain_checksum: plain.finish(),
            stored_bytes: self.buffer.len() as u64,
            stored_checksum: stored.finish(),
            frame_bytes: FRAME_BYTES,
            frame_count: count,
            encryption: None,
            ..header
        };
        Packed { header, frames: Bytes::from(std::mem::take(&mut self.buffer)) }
    }

    fn add_frame(&mut self, index: u32, stretch: &[u8]) {
        let compressed = self.compress(stretch);
        let is_compressed = compressed.is_some();
        let stored = compressed.map_or(stretch, |length| &self.room[..length]);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a frame is much shorter than 4 GiB");
        let mut header = FrameHeader {
            plain_bytes: length(stretch),
            stored_bytes: length(stored),
            is_compressed,
            checksum: 0,
        };
        header.checksum = header.checksum_of(index, stored);
        self.buffer.extend_from_slice(&header.encode());
        self.buffer.extend_from_slice(stored);
    }

    /// Compresses a frame to the start of `room`; `None` if that makes it no shorter.
    fn compress(&mut self, stretch: &[u8]) -> Option<usize> {
        if self.compressor.compression() == Compression::None {
            return None;
        }
        let needed = self.compressor.room_for(stretch.len());
        if self.room.len() < needed {
            self.room.resize(needed, 0);
        }
        let length = self.compressor.compress_into(stretch, &mut self.room);
        (length < stretch.len()).then_some(length)
    }
}

impl Packed {
    /// What is known of it; of an encrypted object this is not what will be stored.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The object for a repository with this key, or with none.
    pub fn seal(&self, key: Option<&RepositoryKey>) -> Sealed {
        let (header, frames) = match key {
            None => (self.header.clone(), self.frames.clone()),
            Some(key) => self.encrypted(key),
        };
        let header_bytes = Bytes::copy_from_slice(&header.encode());
        Sealed { header, header_bytes, frames }
    }

    fn encrypted(&self, repository: &RepositoryKey) -> (Header, Bytes) {
        let object = repository.draw_object_key();
        let tags = usize::try_from(self.header.frame_count).expect("32 bits") * TAG_BYTES;
        let mut output = BytesMut::with_capacity(self.frames.len() + tags);
        let mut rest = &self.frames[..];
        for index in 0..self.header.frame_count {
            let is_last = index + 1 == self.header.frame_count;
            let place = FramePlace { index: u64::from(index), is_last };
            rest = encrypt_frame(&object, place, index, rest, &mut output);
        }
        let mut stored = Crc64::new();
        stored.update(&output);
        let mut header = self.header.clone();
        header.stored_bytes = output.len() as u64;
        header.stored_checksum = stored.finish();
        header.wrap_key(repository, &object);
        (header, output.freeze())
    }
}

/// Encrypts the first frame of `frames` to the end of `output`; returns the others.
fn encrypt_frame<'a>(
    object: &ObjectKey,
    place: FramePlace,
    index: u32,
    frames: &'a [u8],
    output: &mut BytesMut,
) -> &'a [u8] {
    const OWN: &str = "these frames were just packed";
    let (header, frames) = frames.split_first_chunk::<FRAME_HEADER_BYTES>().expect(OWN);
    let mut header = FrameHeader::decode(header);
    let length = usize::try_from(header.stored_bytes).expect("32 bits");
    let (stretch, frames) = frames.split_at(length);
    header.stored_bytes += u32::try_from(TAG_BYTES).expect("sixteen");
    let start = output.len();
    output.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    output.extend_from_slice(stretch);
    let body = start + FRAME_HEADER_BYTES;
    let tag = object.encrypt(place, &header.covered(), &mut output[body..]);
    output.extend_from_slice(&tag);
    header.checksum = header.checksum_of(index, &output[body..]);
    output[start..body].copy_from_slice(&header.encode());
    frames
}

impl Sealed {
    /// Its bytes, in two pieces: header and frames.
    pub fn pieces(&self) -> [Bytes; 2] {
        [self.header_bytes.clone(), self.frames.clone()]
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.header.stored_bytes
    }
}
