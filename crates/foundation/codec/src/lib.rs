//! Bytes in, bytes out: checksums, compression, encryption, typed keys and values, keys of SQL, texts with a checksum, integers at fixed places. No
//! IO here.

pub mod bytes;
pub mod checksum;
pub mod compression;
pub mod encryption;
pub mod hexadecimal;
pub mod key;
pub mod sealed_text;
pub mod sort_key;
pub mod value;
