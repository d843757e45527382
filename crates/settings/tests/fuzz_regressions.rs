//! What the fuzzers found once stays found: their kept cases, through the same functions (see `fuzz/`).
#![allow(dead_code, unreachable_pub, reason = "the fuzzers use these files as a library, and all of them")]

#[path = "../../../fuzz/src/cases.rs"]
mod cases;
#[path = "../../../fuzz/src/input.rs"]
mod input;
#[path = "../../../fuzz/src/settings.rs"]
mod settings;

#[test]
fn every_case_ends_in_data_or_a_typed_error() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/regressions");
    cases::run_all(settings::ENTRIES, directory);
}
