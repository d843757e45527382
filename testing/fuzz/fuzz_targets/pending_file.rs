//! See `seawall_fuzz::log::pending_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::log::pending_file(data));
