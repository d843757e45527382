//! Bytes in, bytes out: checksums, compression, encryption, typed keys and values, texts with a checksum. No IO here.

pub mod checksum;
pub mod compression;
pub mod encryption;
pub mod key;
pub mod sealed_text;
pub mod value;
