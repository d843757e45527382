//! From object to content, piece by piece as they come from the store, in the memory of a frame.

use seawall_codec::checksum::Crc64;
use seawall_codec::compression::{Compression, DecompressError, Decompressor};
use seawall_codec::encryption::{TAG_BYTES, Tag};
use seawall_keys::{FramePlace, ObjectKey, RepositoryKey, RepositoryKeyId};

use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use super::header::{HEADER_BYTES, Header, HeaderError};

/// Why an object does not give its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// Its header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// It is encrypted with a key that is not here.
    #[error("it is encrypted with repository key {0}, which is not among those that were read")]
    Key(RepositoryKeyId),
    /// It is not encrypted, and the repository is.
    #[error(
        "it is not encrypted, and everything in this repository is: it was put there without a key of the repository"
    )]
    NotEncrypted,
    /// The key is the right one, and the header or a frame is not what was encrypted.
    #[error("{0} does not authenticate: it was changed")]
    NotAuthentic(String),
    /// A frame is not what its checksum says.
    #[error("frame {index}, offset {offset}: {problem}")]
    Frame {
        /// Counted from 0.
        index: u32,
        /// Of the frame in the object.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// It is longer or shorter than its header says.
    #[error("it has {found} bytes where its header says {expected}")]
    Length {
        /// How long it is, or more.
        found: u64,
        /// How long it should be.
        expected: u64,
    },
    /// All frames are good, and together they are not what the header says.
    #[error("the checksum of {0} is wrong")]
    Checksum(&'static str),
}

/// Takes an object in and gives its content. What it gave is whole only when [`Unpacker::finish`] has returned `Ok`.
#[derive(Debug)]
pub struct Unpacker<'a> {
    keys: &'a [RepositoryKey],
    header: Option<Opened>,
    /// Bytes that are not a whole header or frame yet.
    pending: Vec<u8>,
    /// Bytes taken in.
    taken: u64,
    next_frame: u32,
    next_offset: u64,
    plain: Crc64,
    plain_bytes: u64,
    stored: Crc64,
    decompressor: Decompressor,
    output: Vec<u8>,
}

#[derive(Debug)]
struct Opened {
    header: Header,
    key: Option<ObjectKey>,
    plain_checksum: u64,
}

impl<'a> Unpacker<'a> {
    /// For an object that is encrypted with one of `keys`; or, if there are none, for one that is not encrypted.
    pub fn new(keys: &'a [RepositoryKey]) -> Unpacker<'a> {
        Unpacker {
            keys,
            header: None,
            pending: Vec::new(),
            taken: 0,
            next_frame: 0,
            next_offset: HEADER_BYTES as u64,
            plain: Crc64::new(),
            plain_bytes: 0,
            stored: Crc64::new(),
            decompressor: Decompressor::new(),
            output: Vec::new(),
        }
    }

    /// The header, as soon as enough was taken in.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref().map(|opened| &opened.header)
    }

    /// Takes the next bytes in, and calls `sink` with each stretch of the content that they complete.
    ///
    /// # Errors
    /// `UnpackError`; the unpacker is of no use afterwards.
    pub fn take<E: From<UnpackError>>(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.taken += bytes.len() as u64;
        self.pending.extend_from_slice(bytes);
        let mut used = 0;
        if self.header.is_none() {
            if self.pending.len() < HEADER_BYTES {
                return Ok(());
            }
            self.open()?;
            used = HEADER_BYTES;
        }
        let expected = self.expected_bytes();
        if self.taken > expected {
            return Err(UnpackError::Length { found: self.taken, expected }.into());
        }
        while let Some(length) = self.take_frame(used)? {
            sink(&self.output)?;
            used += length;
        }
        self.pending.drain(..used);
        Ok(())
    }

    fn expected_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.header().map_or(0, |header| header.stored_bytes)
    }

    fn open(&mut self) -> Result<(), UnpackError> {
        let header = Header::decode(&self.pending)?;
        let (key, plain_checksum) = open_header(&header, self.keys)?;
        let opened = Opened { header, key, plain_checksum };
        self.header = Some(opened);
        Ok(())
    }

    /// Reads the frame that begins at `start` of the pending bytes, if it is there as a whole. Its content is in `output`
    /// then; returns its length.
    fn take_frame(&mut self, start: usize) -> Result<Option<usize>, UnpackError> {
        let opened = self.header.as_ref().expect("frames follow a header");
        let header = &opened.header;
        if self.next_frame == header.frame_count {
            return Ok(None);
        }
        let Some((frame_header, rest)) = self.pending[start..].split_first_chunk::<FRAME_HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let frame = FrameHeader::decode(frame_header);
        let (index, offset) = (self.next_frame, self.next_offset);
        let damaged = |problem: String| UnpackError::Frame { index, offset, problem };
        check_lengths(&frame, header, self.plain_bytes).map_err(|problem| damaged(problem.to_owned()))?;
        let length = usize::try_from(frame.stored_bytes).expect("32 bits");
        let Some(stored) = rest.get(..length) else { return Ok(None) };
        if frame.checksum != frame.checksum_of(index, stored) {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
        self.stored.update(frame_header);
        self.stored.update(stored);
        let place = FramePlace { index: u64::from(index), is_last: index + 1 == header.frame_count };
        let decrypted;
        let stretch = match &opened.key {
            None => stored,
            Some(key) => {
                decrypted = decrypt(key, place, &frame, stored)
                    .ok_or_else(|| UnpackError::NotAuthentic(format!("frame {index}, offset {offset},")))?;
                &decrypted
            }
        };
        let compression = if frame.is_compressed { header.compression } else { Compression::None };
        self.output.resize(usize::try_from(frame.plain_bytes).expect("32 bits"), 0);
        self.decompressor
            .decompress(compression, stretch, &mut self.output)
            .map_err(|error: DecompressError| damaged(error.to_string()))?;
        self.plain.update(&self.output);
        self.plain_bytes += u64::from(frame.plain_bytes);
        self.next_frame += 1;
        self.next_offset += (FRAME_HEADER_BYTES + length) as u64;
        Ok(Some(FRAME_HEADER_BYTES + length))
    }

    /// To be called at the end of the object.
    ///
    /// # Errors
    /// `UnpackError` if it is not whole: what was given so far is to be thrown away.
    pub fn finish(self) -> Result<Header, UnpackError> {
        let short = HeaderError::Short { found: self.pending.len() };
        let expected = self.expected_bytes();
        let opened = self.header.ok_or(short)?;
        if self.taken != expected || self.next_frame != opened.header.frame_count || !self.pending.is_empty()
        {
            return Err(UnpackError::Length { found: self.taken, expected });
        }
        if self.stored.finish() != opened.header.stored_checksum {
            return Err(UnpackError::Checksum("the stored bytes"));
        }
        if self.plain.finish() != opened.plain_checksum || self.plain_bytes != opened.header.plain_bytes {
            return Err(UnpackError::Checksum("the content"));
        }
        Ok(opened.header)
    }
}

/// The key of an object, if it is encrypted, and the checksum of its content. `keys` are those of the repository, none if that is
/// not encrypted.
pub(crate) fn open_header(
    header: &Header,
    keys: &[RepositoryKey],
) -> Result<(Option<ObjectKey>, u64), UnpackError> {
    let Some(encryption) = &header.encryption else {
        // Checksums can be made by anybody. Of what is in an encrypted repository, only what was made with its keys is believed.
        return if keys.is_empty() {
            Ok((None, header.plain_checksum))
        } else {
            Err(UnpackError::NotEncrypted)
        };
    };
    let key = keys.iter().find(|key| key.id() == encryption.key);
    let key = key.ok_or(UnpackError::Key(encryption.key))?;
    let unwrapped = header.unwrap_key(key);
    let (object, checksum) = unwrapped.map_err(|_| UnpackError::NotAuthentic("its header".to_owned()))?;
    Ok((Some(object), checksum))
}

/// No memory is taken for what a damaged frame says: its plain length follows from the header of the object.
fn check_lengths(frame: &FrameHeader, header: &Header, plain_before: u64) -> Result<(), &'static str> {
    let left = header.plain_bytes.saturating_sub(plain_before);
    if u64::from(frame.plain_bytes) != left.min(u64::from(header.frame_bytes)) {
        return Err("its length is not what the header says");
    }
    let tag_bytes = if header.encryption.is_some() { TAG_BYTES as u64 } else { 0 };
    let stored = u64::from(frame.stored_bytes);
    let longest = u64::from(frame.plain_bytes) + tag_bytes;
    let is_raw_and_other = !frame.is_compressed && stored != longest;
    if stored < tag_bytes || stored > longest || is_raw_and_other {
        return Err("its stored length cannot be");
    }
    Ok(())
}

fn decrypt(key: &ObjectKey, place: FramePlace, frame: &FrameHeader, stored: &[u8]) -> Option<Vec<u8>> {
    let (stretch, tag) = stored.split_last_chunk::<TAG_BYTES>()?;
    let mut stretch = stretch.to_vec();
    let tag: &Tag = tag;
    key.decrypt(place, &frame.covered(), &mut stretch, tag).ok()?;
    Some(stretch)
}
