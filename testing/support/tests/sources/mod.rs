//! Source files of the project, as tests of its structure read them.

use std::path::{Path, PathBuf};

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a directory.
pub(crate) fn sources(directory: &Path) -> Vec<PathBuf> {
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

/// The lines of a file, which rustfmt has laid out, and their numbers, but for the items that are for tests alone.
pub(crate) fn without_tests(text: &str) -> Vec<(usize, &str)> {
    let mut lines = (1..).zip(text.lines());
    let mut kept = Vec::new();
    while let Some((number, line)) = lines.next() {
        let Some(indent) = line.strip_suffix("#[cfg(test)]") else {
            kept.push((number, line));
            continue;
        };
        let mut item =
            lines.by_ref().map(|(_, line)| line).skip_while(|line| line.trim_start().starts_with("#["));
        let first = item.next().unwrap_or_default();
        let is_one_line = first.ends_with([';', ',']) || first.contains('{') && first.ends_with('}');
        if !is_one_line {
            let end = format!("{indent}}}");
            for line in item {
                if line.starts_with(&end) {
                    break;
                }
            }
        }
    }
    kept
}
