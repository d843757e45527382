//! See `seawall_fuzz::replication::upstream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::replication::upstream(data));
