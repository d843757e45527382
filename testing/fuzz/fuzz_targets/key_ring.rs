//! See `seawall_fuzz::keys::key_ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::keys::key_ring(data));
