//! See `seawall_fuzz::keys::master_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::keys::master_key(data));
