//! See `seawall_fuzz::keys::keys_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::keys::keys_file(data));
