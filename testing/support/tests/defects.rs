//! The deliberate defects that crates declare (`sabotage.rs`): each breaks something, and has been hunted.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod sources;

use std::path::{Path, PathBuf};

use sources::{read, repository, sources, without_tests};

/// Variant and name of each defect of a list.
fn declared(list: &str) -> Vec<(&str, &str)> {
    let is_variant = |line: &&str| line.trim_start().starts_with(char::is_uppercase);
    list.lines()
        .skip_while(|line| !line.contains("defects! {"))
        .filter(is_variant)
        .map(|line| line.trim().split_once(' ').unwrap())
        .map(|(variant, name)| (variant, name.trim().trim_matches('"')))
        .collect()
}

/// The lists of all crates.
fn lists() -> Vec<PathBuf> {
    let all = sources(&repository().join("crates"));
    all.into_iter().filter(|path| path.file_name().unwrap() == "sabotage.rs").collect()
}

/// Whether the code in `folder` asks for a defect, but for tests.
fn is_asked_for(folder: &Path, variant: &str) -> bool {
    let question = format!("sabotaged(Defect::{variant})");
    sources(folder).iter().any(|path| {
        let text = read(path);
        without_tests(&text).iter().any(|(_, line)| line.contains(&question))
    })
}

#[test]
fn each_declared_defect_is_asked_for_in_its_crate() {
    let mut seen = 0;
    for path in lists() {
        for (variant, name) in declared(&read(&path)) {
            let folder = path.parent().unwrap();
            assert!(is_asked_for(folder, variant), "{}: nothing is broken by {name}", folder.display());
            seen += 1;
        }
    }
    assert!(seen >= 70, "only {seen} defects");
}

#[test]
fn each_declared_defect_was_found_by_a_test() {
    let document = read(&repository().join("docs/testing.md"));
    for path in lists() {
        for (_, name) in declared(&read(&path)) {
            let start = format!("| `{name}`: ");
            let row = document.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("{name} is not in the table of docs/testing.md"));
            let found_first_by = row.split(" | ").nth(2).unwrap();
            assert!(!found_first_by.starts_with("nobody"), "{name} was found by nobody");
        }
    }
}
