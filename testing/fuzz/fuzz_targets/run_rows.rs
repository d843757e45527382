//! See `seawall_fuzz::run_rows::run_rows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::run_rows::run_rows(data));
