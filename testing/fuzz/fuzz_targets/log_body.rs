//! See `seawall_fuzz::log::body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::log::body(data));
