//! See `seawall_fuzz::backup::backup_run`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::backup::backup_run(data));
