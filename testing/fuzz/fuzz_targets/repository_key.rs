//! See `seawall_fuzz::keys::repository_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::keys::repository_key(data));
