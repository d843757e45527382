//! See `seawall_fuzz::backup::postgresql_manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::backup::postgresql_manifest(data));
