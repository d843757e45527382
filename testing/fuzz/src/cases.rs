//! Running the kept cases: inputs that once were findings, and some made by hand.

use std::path::Path;

use crate::input::Entries;

/// Runs every file in `directory`/TARGET through the entry function of each target. Prints which, so that a panic is
/// preceded by its file.
///
/// # Panics
/// If a target has no cases, or one of them is a finding.
pub fn run_all(entries: &Entries, directory: &str) {
    for (target, entry) in entries {
        let files =
            std::fs::read_dir(Path::new(directory).join(target)).expect("each target has a directory");
        let mut cases: Vec<_> = files.map(|file| file.expect("the directory can be read").path()).collect();
        cases.sort();
        assert!(!cases.is_empty(), "{target} has no cases");
        for case in cases {
            println!("{}", case.display());
            entry(&std::fs::read(&case).expect("a case can be read"));
        }
    }
}
