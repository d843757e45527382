//! See `seawall_fuzz::base_backup::base_backup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::base_backup::base_backup(data));
