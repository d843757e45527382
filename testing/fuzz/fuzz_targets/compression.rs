//! See `seawall_fuzz::codec::compression`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::codec::compression(data));
