//! See `seawall_fuzz::protocol::protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::protocol::protocol(data));
