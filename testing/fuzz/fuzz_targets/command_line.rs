//! See `seawall_fuzz::command_line::command_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::command_line::command_line(data));
