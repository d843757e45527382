//! See `seawall_fuzz::replication::replication_command`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::replication::replication_command(data));
