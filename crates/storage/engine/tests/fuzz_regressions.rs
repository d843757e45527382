//! What the fuzzers found once stays found: their kept cases, through the same functions (see `testing/fuzz/`).
#![allow(dead_code, unreachable_pub, reason = "the fuzzers use these files as a library, and all of them")]

#[path = "../../../../testing/fuzz/src/cases.rs"]
mod cases;
#[path = "../../../../testing/fuzz/src/directory.rs"]
mod directory;
#[path = "../../../../testing/fuzz/src/input.rs"]
mod input;
#[path = "../../../../testing/fuzz/src/published_statistics.rs"]
mod published_statistics;
#[path = "../../../../testing/fuzz/src/run_rows.rs"]
mod run_rows;
#[path = "../../../../testing/fuzz/src/system_rows.rs"]
mod system_rows;

#[test]
fn every_case_ends_in_data_or_a_typed_error() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testing/fuzz/regressions");
    cases::run_all(directory::ENTRIES, directory);
    cases::run_all(published_statistics::ENTRIES, directory);
    cases::run_all(run_rows::ENTRIES, directory);
    cases::run_all(system_rows::ENTRIES, directory);
}
