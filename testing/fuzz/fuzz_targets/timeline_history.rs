//! See `seawall_fuzz::log::timeline_history`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::log::timeline_history(data));
