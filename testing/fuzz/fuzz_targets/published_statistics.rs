//! See `seawall_fuzz::published_statistics::published_statistics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::published_statistics::published_statistics(data));
