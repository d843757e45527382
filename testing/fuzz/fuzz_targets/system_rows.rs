//! See `seawall_fuzz::system_rows::system_rows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::system_rows::system_rows(data));
