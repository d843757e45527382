//! See `seawall_fuzz::log::records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::log::records(data));
