//! An object: a header of 512 bytes, then frames. Integers little-endian.
//!
//! ```text
//!   header | frame 0 | frame 1 | ... | frame n-1          each frame: at most frame_bytes of the plain bytes, compressed,
//!     |                                                   then encrypted, with a checksum of its own
//!     +-- whose, what, from where to where; lengths and checksums of the plain and the stored bytes
//! ```
//! So everything that is known of an object is in its first 512 bytes: no second object is needed to put one, and one short
//! request tells whether the object that is there already has the same content. A reader needs the memory of one frame, and
//! finds damage where it is. Frames: see `frame`. Header:
//!
//! | offset | bytes | field           | meaning                                                             |
//! |-------:|------:|-----------------|---------------------------------------------------------------------|
//! |      0 |     8 | magic           | `SWOBJ\r\n` and 0x1A; a text-mode copy does not match               |
//! |      8 |     4 | version         | [`FORMAT_VERSION`]; an unknown one is refused                       |
//! |     12 |     4 | checksum        | CRC-32C of the header, this field as zero                           |
//! |     16 |     1 | kind            | [`ObjectKind`]                                                      |
//! |     17 |     1 | system_kind     | 1 Seawall, 2 PostgreSQL                                             |
//! |     18 |     1 | compression     | 0 none, 1 LZ4, 2 Zstandard                                          |
//! |     19 |     1 | encryption      | 0 none, 1 AES-256-GCM                                               |
//! |     20 |     2 | log_version     | PostgreSQL: magic of its log pages; Seawall: version of segments; 0: unknown |
//! |     22 |     2 | flags           | bit 0: the records end before the segment does; others zero         |
//! |     24 |     4 | timeline        | 0 if it has none                                                    |
//! |     28 |     4 | segment_bytes   | size of the log's segments; 0 where that is not known               |
//! |     32 |    16 | system          | database id, or system identifier and eight zeros                   |
//! |     48 |     8 | start_lsn       | the first byte of the log that it holds                             |
//! |     56 |     8 | end_lsn         | the byte behind the last one; not before start_lsn                  |
//! |     64 |     8 | created         | microseconds since 1970, signed; for people                         |
//! |     72 |     8 | plain_bytes     | length of the content                                               |
//! |     80 |     8 | plain_checksum  | CRC-64/NVME of the content; zero if encrypted: then it is in wrapped |
//! |     88 |     8 | stored_bytes    | length of all frames                                                |
//! |     96 |     8 | stored_checksum | CRC-64/NVME of all frames                                           |
//! |    104 |     4 | frame_bytes     | plain bytes of each frame but the last                              |
//! |    108 |     4 | frame_count     | how many                                                            |
//! |    112 |     8 | key             | id of the repository key; zero if not encrypted, as the next two    |
//! |    120 |    40 | envelope        | nonce and tag of wrapped (XAES-256-GCM)                             |
//! |    160 |    40 | wrapped         | key of the object, 32 bytes, and plain_checksum, 8 bytes; the header is the associated data, checksum, envelope and wrapped as zero |
//! |    200 |     2 | name_bytes      | length of the name, 1 to 255                                        |
//! |    202 |    54 | reserved        | zero; anything else is refused                                      |
//! |    256 |   256 | name            | name of the file, UTF-8; the rest is zero                           |
//!
//! The checksum of an encrypted object's content would tell somebody who guesses the content that it is right: so it is
//! encrypted. That the header is authenticated with the key means that whoever changes anything in it is found out; and in an
//! encrypted repository nothing counts that is not encrypted. What the keys cannot tell: that an object is missing, or that an
//! older object of the same name has been put back.

mod frame;
mod header;
mod pack;
mod unpack;

pub use header::{FORMAT_VERSION, HEADER_BYTES, Header, HeaderError, ObjectKind};
pub use pack::{Packed, Packer, Packing, Sealed};
pub(crate) use unpack::open_header;
pub use unpack::{UnpackError, Unpacker};

/// Plain bytes of a frame, if nobody asks for another length.
pub(crate) const FRAME_BYTES: u32 = 1 << 20;
/// The shortest and the longest that a frame may be.
pub(crate) const FRAME_BYTES_MIN: u32 = 4 << 10;
pub(crate) const FRAME_BYTES_MAX: u32 = 16 << 20;
/// No object's content is longer: segments have at most 1 GiB.
pub const PLAIN_BYTES_MAX: u64 = 1 << 30;
