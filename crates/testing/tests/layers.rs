//! What ARCHITECTURE.md and CONTRIBUTING.md say of the crates: who uses whom, and who may touch files and clocks.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Crates of a database: all that they know of the world outside comes through the traits of `io`.
const CORE: [&str; 8] = ["types", "codec", "keys", "wal", "memtable", "tree", "engine", "seawall"];

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
fn nothing_of_a_database_goes_around_io() {
    let mut seen = 0;
    for name in CORE {
        for path in sources(&repository().join("crates").join(name).join("src")) {
            if path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let text = read(&path);
            let code = text.split("#[cfg(test)]").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                let line = line.split("//").next().unwrap();
                let around = AROUND_IO.iter().find(|around| line.contains(**around));
                assert_eq!(around, None, "{}:{}: use crate io", path.display(), number + 1);
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} files");
}

/// The order in which CONTRIBUTING.md lists the crates.
fn order() -> Vec<String> {
    let text = read(&repository().join("CONTRIBUTING.md"));
    let (_, rest) = text.split_once("A crate uses only those named\nabove it:\n\n```text\n").unwrap();
    rest.split("```").next().unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Crates of the project that a manifest names in its section `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    let ours = names.filter(|name| *name == "seawall" || name.starts_with("seawall-"));
    ours.map(|name| name.strip_prefix("seawall-").unwrap_or(name).replace('-', "_")).collect()
}

#[test]
fn a_crate_uses_only_those_above_it() {
    let order = order();
    let place = |name: &str| {
        let place = order.iter().position(|listed| listed == name);
        place.unwrap_or_else(|| panic!("CONTRIBUTING.md does not list the crate {name}"))
    };
    let mut uses = 0;
    for entry in std::fs::read_dir(repository().join("crates")).unwrap() {
        let directory = entry.unwrap().path();
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        for used in dependencies(&read(&directory.join("Cargo.toml"))) {
            assert!(place(&used) < place(&name), "{name} uses {used}, which is not above it");
            uses += 1;
        }
    }
    assert!(uses > 30, "only {uses} uses were found");
}
