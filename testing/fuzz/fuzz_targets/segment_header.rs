//! See `seawall_fuzz::log::segment_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::log::segment_header(data));
