//! Every case in `regressions/`, with a stable compiler: what was found once stays found.

#[test]
fn every_case_ends_in_data_or_a_typed_error() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions");
    seawall_fuzz::cases::run_all(&seawall_fuzz::entries(), directory);
}
