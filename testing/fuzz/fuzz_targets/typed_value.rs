//! See `seawall_fuzz::codec::typed_value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::codec::typed_value(data));
