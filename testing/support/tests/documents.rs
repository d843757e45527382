//! The tests that the documents name are there.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A section of a document.
fn section(document: &str, title: &str) -> String {
    let text = std::fs::read_to_string(repository().join(document)).unwrap();
    let (_, rest) =
        text.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no {title:?} in {document}"));
    rest.split("\n## ").next().unwrap().to_owned()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_tests_that_hold_the_guarantees_are_there() {
    names_tests("Which test holds which guarantee");
}

#[test]
fn the_tests_that_show_postgresqls_behaviours_are_there() {
    names_tests("Standbys");
}

/// The tests that a section of docs/testing.md names with their paths are there.
fn names_tests(title: &str) {
    let section = section("docs/testing.md", title);
    let mut found = 0;
    for name in quoted(&section).into_iter().filter(|name| name.contains(".rs") && name.contains('/')) {
        let (path, test) = name.split_once("::").map_or((name, None), |(path, test)| (path, Some(test)));
        let group = if path.starts_with("testing/") { "" } else { "crates" };
        let source = std::fs::read_to_string(repository().join(group).join(path));
        let source = source.unwrap_or_else(|error| panic!("{path}: {error}"));
        if let Some(test) = test {
            assert!(source.contains(&format!("fn {test}()")), "{path} has no test {test}");
            found += 1;
        }
    }
    assert!(found > 10, "only {found} tests are named");
}

#[test]
fn each_invariant_has_a_test_of_its_number() {
    let section = section("ARCHITECTURE.md", "Invariants");
    let numbered = section.lines().filter_map(|line| line.split_once(". ")?.0.parse::<u32>().ok());
    let numbers: Vec<u32> = numbered.collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<u32>>());
    let tests =
        std::fs::read_to_string(repository().join("crates/storage/engine/tests/invariants.rs")).unwrap();
    for number in numbers {
        assert!(tests.contains(&format!("fn invariant_{number}_")), "invariant {number} has no test");
    }
}
