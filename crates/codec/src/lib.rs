//! Bytes in, bytes out: checksums, compression, typed keys and values. No IO here.

pub mod checksum;
pub mod compression;
pub mod key;
pub mod value;
