//! See `seawall_fuzz::replication::copy_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::replication::copy_message(data));
