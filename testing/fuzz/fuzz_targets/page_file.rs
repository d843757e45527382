//! See `seawall_fuzz::tree::page_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::tree::page_file(data));
