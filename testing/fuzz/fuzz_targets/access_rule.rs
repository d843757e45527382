//! See `seawall_fuzz::protocol::access_rule`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::protocol::access_rule(data));
