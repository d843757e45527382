//! See `seawall_fuzz::tree::superblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::tree::superblock(data));
