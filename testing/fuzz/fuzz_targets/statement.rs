//! See `seawall_fuzz::statement::statement`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::statement::statement(data));
