//! See `seawall_fuzz::command_line::row_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::command_line::row_file(data));
