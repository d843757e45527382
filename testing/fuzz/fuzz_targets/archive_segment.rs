//! See `seawall_fuzz::archive::archive_segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::archive::archive_segment(data));
