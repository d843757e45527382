//! See `seawall_fuzz::archive::archive_object`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::archive::archive_object(data));
