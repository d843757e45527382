//! See `seawall_fuzz::backup::backup_manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::backup::backup_manifest(data));
