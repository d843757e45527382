//! See `seawall_fuzz::directory::data_directory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::directory::data_directory(data));
