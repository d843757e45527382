//! See `seawall_fuzz::settings::settings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::settings::settings(data));
