//! See `seawall_fuzz::stored_backup::stored_backup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::stored_backup::stored_backup(data));
