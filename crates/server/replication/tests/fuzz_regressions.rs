//! What the fuzzers found once stays found: their kept cases, through the same functions (see `testing/fuzz/`).
#![allow(dead_code, unreachable_pub, reason = "the fuzzers use these files as a library, and all of them")]

#[path = "../../../../testing/fuzz/src/cases.rs"]
mod cases;
#[path = "../../../../testing/fuzz/src/input.rs"]
mod input;
#[path = "../../../../testing/fuzz/src/replication.rs"]
mod replication;

#[test]
fn every_case_ends_in_data_or_a_typed_error() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testing/fuzz/regressions");
    cases::run_all(replication::ENTRIES, directory);
}
