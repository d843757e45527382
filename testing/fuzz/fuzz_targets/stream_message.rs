//! See `seawall_fuzz::replication::stream_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::replication::stream_message(data));
