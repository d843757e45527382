//! Bytes in, bytes out: checksums, compression, encryption, typed keys and values. No IO here.

pub mod checksum;
pub mod compression;
pub mod encryption;
pub mod key;
pub mod value;
