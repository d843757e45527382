//! Every case in `regressions/`, with a stable compiler: what was found once stays found.

use std::path::Path;

#[test]
fn every_case_ends_in_data_or_a_typed_error() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for (target, entry) in seawall_fuzz::entries() {
        let mut cases: Vec<_> =
            std::fs::read_dir(directory.join(target)).unwrap().map(|file| file.unwrap().path()).collect();
        cases.sort();
        assert!(!cases.is_empty(), "{target} has no cases");
        for case in cases {
            println!("{}", case.display());
            entry(&std::fs::read(&case).unwrap());
        }
    }
}
