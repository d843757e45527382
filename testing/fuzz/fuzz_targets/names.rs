//! See `seawall_fuzz::command_line::names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::command_line::names(data));
