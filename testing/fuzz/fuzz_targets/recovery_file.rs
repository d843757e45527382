//! See `seawall_fuzz::tree::recovery_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::tree::recovery_file(data));
