//! What ARCHITECTURE.md and CONTRIBUTING.md say of the crates: who uses whom, and who may touch files and clocks.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod sources;

use sources::{read, repository, sources, without_tests};

/// Crates of a database: all that they know of the world outside comes through the traits of `io`.
const CORE: [&str; 8] = [
    "foundation/types",
    "foundation/codec",
    "foundation/keys",
    "storage/wal",
    "storage/memtable",
    "storage/tree",
    "storage/engine",
    "seawall",
];

/// Ways around `io`. The lint of clippy.toml knows some of the functions; these are the doors to all of them.
const AROUND_IO: [&str; 7] = [
    "std::fs",
    "rustix::fs",
    "Instant::now",
    "SystemTime::now",
    "getrandom",
    "std::env::var",
    "std::process::Command",
];

#[test]
fn what_is_for_tests_alone_is_passed_over_and_what_comes_after_is_not() {
    let text = "a;\n#[cfg(test)]\nmod tests;\nb;\nimpl X {\n    #[cfg(test)]\n    #[must_use]\n    fn y(\n        z: u8,\n    ) -> u8 {\n        {\n            c\n        }\n    }\n    d;\n}\n#[cfg(test)]\nmod tests {\n    e;\n}\nf;";
    let kept: Vec<_> = without_tests(text).into_iter().map(|(number, line)| (number, line.trim())).collect();
    assert_eq!(kept, [(1, "a;"), (4, "b;"), (5, "impl X {"), (15, "d;"), (16, "}"), (21, "f;")]);
}

#[test]
fn nothing_of_a_database_goes_around_io() {
    let mut seen = 0;
    for name in CORE {
        for path in sources(&repository().join("crates").join(name).join("src")) {
            if path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            for (number, line) in without_tests(&read(&path)) {
                let line = line.split("//").next().unwrap();
                let around = AROUND_IO.iter().find(|around| line.contains(**around));
                assert_eq!(around, None, "{}:{number}: use crate io", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} files");
}

/// The crates in the order in which CONTRIBUTING.md lists them: their folders, from the root.
fn listed() -> Vec<String> {
    let text = read(&repository().join("CONTRIBUTING.md"));
    let (_, rest) = text.split_once("A crate uses only those\nabove it:\n\n```text\n").unwrap();
    let lines = rest.split("```").next().unwrap().lines();
    let folders = lines.flat_map(|line| {
        let mut words = line.split_whitespace();
        let group = words.next().unwrap_or_default();
        words.map(move |name| format!("{group}/{name}")).collect::<Vec<_>>()
    });
    folders.collect()
}

/// The folders of all crates, from the root: one level of groups, and some crates beside them.
fn crates() -> Vec<String> {
    let folders = |parent: &str| {
        let entries = std::fs::read_dir(repository().join(parent)).unwrap();
        let folders = entries.map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_dir());
        folders.map(|entry| format!("{parent}/{}", entry.file_name().display())).collect::<Vec<_>>()
    };
    let is_crate = |folder: &String| repository().join(folder).join("Cargo.toml").is_file();
    let (mut found, groups): (Vec<_>, Vec<_>) = folders("crates").into_iter().partition(is_crate);
    found.extend(groups.iter().flat_map(|group| folders(group)));
    found.extend(folders("testing"));
    assert!(found.iter().all(is_crate), "a folder that is no crate among {found:?}");
    found
}

fn manifest(folder: &str) -> String {
    read(&repository().join(folder).join("Cargo.toml"))
}

/// The name of the package.
fn package(manifest: &str) -> String {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
    line.unwrap().trim_end_matches('"').to_owned()
}

/// Packages of the project that a manifest names in its section `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| *name == "seawall" || name.starts_with("seawall-")).map(str::to_owned).collect()
}

#[test]
fn a_crate_uses_only_those_above_it() {
    let listed = listed();
    let all = crates();
    let missing: Vec<_> = all.iter().filter(|folder| !listed.contains(folder)).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md does not list {missing:?}");
    let packages: Vec<String> = listed.iter().map(|folder| package(&manifest(folder))).collect();
    let mut uses = 0;
    for (place, folder) in listed.iter().enumerate() {
        for used in dependencies(&manifest(folder)) {
            let other = packages.iter().position(|package| *package == used).unwrap();
            assert!(other < place, "{folder} uses {used}, which is not above it");
            uses += 1;
        }
    }
    assert!(uses > 30, "only {uses} uses were found");
}
