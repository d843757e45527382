//! What CONTRIBUTING.md says of the modules of a crate: they use each other in one direction only. The crates of `crates/server` still
//! have circles; their number may only become less.
//!
//! A file is a module. It uses those that it names in its code by a path that begins with `crate::` or `super::`; tests do not
//! count. That a module uses what is below itself by a short path does not count either: a file and its folder are one thing.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sources::{read, repository, sources, without_tests};

/// The names of a module from the root of its crate.
type Module = Vec<String>;

/// What modules use: other modules, and items of theirs.
type Uses = BTreeMap<Module, Vec<Module>>;

fn module(path: &str) -> Module {
    path.split("::").map(str::to_owned).collect()
}

/// The module that a file of `src` is; `None` for the root, and for what is there for tests alone.
fn module_of(file: &Path, src: &Path) -> Option<Module> {
    let names = file.strip_prefix(src).unwrap().with_extension("");
    let names: Module = names.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    (names != ["lib"] && !names.iter().any(|name| name == "tests")).then_some(names)
}

/// The code of a file in one text, without tests, comments and the contents of strings.
fn code(text: &str) -> String {
    let lines = without_tests(text).into_iter().map(|(_, line)| line.split("//").next().unwrap());
    let pieces: Vec<&str> = lines.flat_map(|line| line.split('"').step_by(2).chain(["\n"])).collect();
    pieces.concat()
}

/// The paths from the root of the crate that `user` names in its code.
fn uses(user: &Module, code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        // In `pub(super)::` and `$crate::` nothing is used here; a later `super` of a chain belongs to the first one.
        if code[..start].ends_with(|before: char| before.is_alphanumeric() || "_:$".contains(before)) {
            continue;
        }
        let mut rest = &code[start..];
        let mut above = user.clone();
        while let Some(further) = rest.strip_prefix("super::") {
            above.pop();
            rest = further;
        }
        if let Some(further) = rest.strip_prefix("crate::") {
            above.clear();
            rest = further;
        }
        add_tree(above, rest, &mut found);
    }
    found
}

/// Adds the paths of the tree of a `use` that `text` begins with, below `above`; what comes after the tree.
fn add_tree<'t>(mut above: Module, mut text: &'t str, found: &mut Vec<Module>) -> &'t str {
    loop {
        text = text.trim_start();
        if let Some(mut inner) = text.strip_prefix('{') {
            loop {
                inner = add_tree(above.clone(), inner, found).trim_start();
                inner = match inner.strip_prefix("as ") {
                    Some(alias) => {
                        alias.trim_start_matches(|next: char| next.is_alphanumeric() || next == '_')
                    }
                    None => inner,
                };
                match inner.trim_start().strip_prefix(',') {
                    Some(next) if !next.trim_start().starts_with('}') => inner = next,
                    Some(next) => return &next.trim_start()[1..],
                    None => return inner.trim_start().strip_prefix('}').unwrap_or(inner),
                }
            }
        }
        let length = text.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(text.len());
        above.push(text[..length].to_owned());
        text = &text[length..];
        match text.strip_prefix("::") {
            Some(further) => text = further,
            None => break,
        }
    }
    found.push(above);
    text
}

/// For each module the other ones that it uses: a path belongs to the longest module that it begins with.
fn arrows(uses: &Uses) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let owner = |path: &Module| {
        let beginnings = (1..=path.len()).rev().map(|length| path[..length].to_vec());
        beginnings.into_iter().find_map(|beginning| uses.get_key_value(&beginning)).map(|(module, _)| module)
    };
    let used = |(user, paths): (_, &Vec<Module>)| {
        (user, paths.iter().filter_map(owner).filter(|other| *other != user).collect())
    };
    uses.iter().map(used).collect()
}

/// Modules each of which uses the next one, and the last one the first; `None` if there are none such.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    let arrows = arrows(uses);
    let mut done = BTreeSet::new();
    arrows.keys().find_map(|start| circle_from(start, &arrows, &mut Vec::new(), &mut done))
}

/// What a module uses, and what that uses in turn.
fn reached<'m>(module: &Module, arrows: &BTreeMap<&'m Module, BTreeSet<&'m Module>>) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = arrows[module].iter().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&arrows[module]);
        }
    }
    reached
}

/// How many circles there are: modules that reach each other are one.
fn count_circles(uses: &Uses) -> usize {
    let arrows = arrows(uses);
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (*module, reached(module, &arrows))).collect();
    let first_of_circle =
        |module: &&Module| reached[*module].iter().copied().find(|other| reached[*other].contains(*module));
    reached.keys().filter_map(first_of_circle).collect::<BTreeSet<_>>().len()
}

fn circle_from<'m>(
    module: &'m Module,
    arrows: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
    way: &mut Vec<&'m Module>,
    done: &mut BTreeSet<&'m Module>,
) -> Option<Vec<String>> {
    if let Some(begin) = way.iter().position(|earlier| *earlier == module) {
        return Some(way[begin..].iter().map(|module| module.join("::")).collect());
    }
    if done.contains(module) {
        return None;
    }
    way.push(module);
    let found = arrows[module].iter().find_map(|used| circle_from(used, arrows, way, done));
    way.pop();
    done.insert(module);
    found
}

/// The circle in a crate of these modules and their texts.
fn circle_of(crate_sources: &[(&str, &str)]) -> Option<String> {
    let uses_of = |(name, text): &(&str, &str)| {
        let user = module(name);
        let paths = uses(&user, &code(text));
        (user, paths)
    };
    circle(&crate_sources.iter().map(uses_of).collect()).map(|names| names.join(" "))
}

#[test]
fn circles_are_found_in_all_kinds_of_paths_and_not_in_tests() {
    assert_eq!(circle_of(&[("a", "use crate::b::B;"), ("b", "fn f() -> crate::c::C"), ("c", "")]), None);
    assert_eq!(
        circle_of(&[("a", "use crate::b;"), ("b", "x(crate::c::d())"), ("c", "use super::a::A;")]).unwrap(),
        "a b c"
    );
    let nested = "use crate::{\n    x::Y,\n    b::{self as other, C},\n};";
    assert_eq!(circle_of(&[("a", nested), ("b", "use crate::a::A;"), ("x", "")]).unwrap(), "a b");
    assert_eq!(circle_of(&[("a", "use crate::a::b::B;"), ("a::b", "use super::A;")]).unwrap(), "a a::b");
    let two =
        [("a", "use crate::b;"), ("b", "use crate::{a, c};"), ("c", "use crate::d;"), ("d", "crate::c::e()")];
    let uses_of = |(name, text): &(&str, &str)| (module(name), uses(&module(name), text));
    assert_eq!(count_circles(&two.iter().map(uses_of).collect()), 2);
    let for_tests = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n// crate::a\nprint(\"crate::a\");\npub(super) fn f()";
    assert_eq!(circle_of(&[("a", "use crate::b::B;"), ("b", for_tests)]), None);
}

/// Crates with circles, and how many. These numbers only become less.
const CIRCLES_LEFT: [(&str, usize); 3] = [("server/server", 1), ("server/sql", 10), ("server/values", 2)];

/// Crates whose modules take names from the root: latches and atomics are there under either of two features.
const ROOT_NAMES: [&str; 1] = ["foundation/sync"];

/// The modules of a crate, and what they use.
fn uses_in(name: &str) -> Uses {
    let src = repository().join("crates").join(name).join("src");
    let mut all = Uses::new();
    for file in sources(&src) {
        let Some(user) = module_of(&file, &src) else { continue };
        let paths = uses(&user, &code(&read(&file)));
        let past_root = paths.iter().find(|path| path[0].starts_with(char::is_uppercase));
        let may_name_root =
            ROOT_NAMES.contains(&name) || CIRCLES_LEFT.iter().any(|(known, _)| *known == name);
        assert!(
            past_root.is_none() || may_name_root,
            "{}: name the module of {past_root:?}, not the root of the crate",
            file.display()
        );
        all.insert(user, paths);
    }
    assert!(all.len() > 1, "{name} has only {} modules", all.len());
    all
}

/// All crates of the product, by their folders in `crates`.
fn crates() -> Vec<String> {
    let crates = repository().join("crates");
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let folders =
            entries.filter(|path| path.is_dir() && !path.ends_with("src") && !path.ends_with("tests"));
        folders.map(|path| path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned()).collect()
    };
    let is_crate = |name: &String| crates.join(name).join("Cargo.toml").is_file();
    let (mut found, groups): (Vec<_>, Vec<_>) = names(&crates).into_iter().partition(is_crate);
    found.extend(groups.iter().flat_map(|group| names(&crates.join(group))).filter(is_crate));
    found
}

#[test]
fn modules_of_a_crate_use_each_other_in_one_direction() {
    let mut seen = 0;
    for name in crates() {
        if CIRCLES_LEFT.iter().any(|(known, _)| *known == name) {
            continue;
        }
        if let Some(circle) = circle(&uses_in(&name)) {
            panic!("modules of {name} that use each other in a circle: {}", circle.join(" -> "));
        }
        seen += 1;
    }
    assert!(seen >= 16, "only {seen} crates");
}

#[test]
fn circles_that_are_left_become_less() {
    for (name, left) in CIRCLES_LEFT {
        let count = count_circles(&uses_in(name));
        assert!(count <= left, "{name} has {count} circles of modules; there were {left}");
    }
}
