//! See `seawall_fuzz::log::holds_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::log::holds_file(data));
