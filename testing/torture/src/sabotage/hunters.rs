//! Who looks for defects: tortures of this program, and the tests of the workspace, built with the same defects.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::child::{Ended, Outcome};
use crate::error::{TortureError, io_error};

/// Crates whose tests hunt: all that declare defects, and two that use those.
const PACKAGES: [&str; 11] = [
    "seawall-io",
    "seawall-wal",
    "seawall-memtable",
    "seawall-keys",
    "seawall-tree",
    "seawall-engine",
    "seawall-replication",
    "seawall",
    "seawall-archive-agent",
    "seawall-base-backup",
    "seawall-backup",
];

/// Tortures, by what follows the program's name; the seed is added. A row more is a hunter more.
const QUICK_TORTURES: [&[&str]; 8] = [
    &["lives", "--histories", "100"],
    &["faults", "--runs", "100"],
    &["model", "--histories", "200"],
    &["options", "--histories", "20"],
    &["histories", "--seconds", "5"],
    &["standbys", "--seconds", "20"],
    &["crashes", "--seeds", "24", "--points", "8", "--states", "8", "--depth", "1"],
    &["power-loss", "--runs", "20"],
];
const LONG_TORTURES: [&[&str]; 4] = [
    &["lives", "--histories", "2000"],
    &["faults", "--runs", "2000"],
    &["histories", "--seconds", "30"],
    &["power-loss", "--runs", "60"],
];

/// Tests that take more than a few seconds: they come behind the others.
const SLOW_TESTS: [(&str, &str); 5] = [
    ("seawall-engine", "faults"),
    ("seawall-engine", "damage"),
    ("seawall-tree", "crash"),
    ("seawall-tree", "readers"),
    ("seawall-tree", "protection"),
];

/// Somebody who may notice that something is broken.
#[derive(Clone, Debug)]
pub(super) struct Hunter {
    /// For people.
    pub(super) name: String,
    /// The crate that it tests; a torture of this program tests all.
    pub(super) package: Option<String>,
    /// It looks for broken promises, not for one behaviour of one part.
    pub(super) is_torture: bool,
    slowness: usize,
    program: PathBuf,
    arguments: Vec<String>,
    directory: Option<PathBuf>,
}

impl Hunter {
    /// To be run as a child.
    pub(super) fn command(&self) -> Command {
        self.command_with(&self.arguments)
    }

    /// Does again what found something, and nothing else, if the outcome tells what that was.
    pub(super) fn repeat(&self, outcome: &Outcome) -> Command {
        if let Ended::TestFailed(test) = &outcome.ended {
            return self.command_with(&["--exact".to_owned(), test.clone()]);
        }
        let repeat = outcome.finding().and_then(|finding| finding["repeat"].as_str().map(str::to_owned));
        let words = repeat.map(|words| words.split_whitespace().skip(1).map(str::to_owned).collect());
        self.command_with(&words.unwrap_or_else(|| self.arguments.clone()))
    }

    fn command_with(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }
}

/// All of them, in the order in which they hunt; builds the tests first.
pub(super) fn all(seed: u64) -> Result<Vec<Hunter>, TortureError> {
    let program = std::env::current_exe().map_err(io_error("find this program"))?;
    let (mut hunters, slow_tests): (Vec<_>, Vec<_>) =
        tests()?.into_iter().partition(|hunter| hunter.slowness == 0);
    hunters.extend(QUICK_TORTURES.map(|words| torture(&program, words, seed)));
    hunters.extend(slow_tests);
    hunters.extend(LONG_TORTURES.map(|words| torture(&program, words, seed)));
    Ok(hunters)
}

fn torture(program: &Path, words: &[&str], seed: u64) -> Hunter {
    let mut arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    arguments.extend(["--json".to_owned(), "--seed".to_owned(), seed.to_string()]);
    Hunter {
        name: format!("seawall-torture {}", words.join(" ")),
        package: None,
        slowness: 0,
        is_torture: true,
        program: program.to_owned(),
        arguments,
        directory: None,
    }
}

/// The programs of all tests, built by cargo.
fn tests() -> Result<Vec<Hunter>, TortureError> {
    let workspace =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a crate of the workspace");
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--message-format=json", "--features", "seawall/sabotage"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    cargo.current_dir(workspace).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().map_err(io_error("run cargo"))?;
    if !output.status.success() {
        return Err(TortureError::Build);
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let messages: Vec<Value> = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
    let mut hunters: Vec<Hunter> = messages.iter().filter_map(test_program).collect();
    hunters.sort_by_key(|hunter| (hunter.slowness, hunter.name.clone()));
    Ok(hunters)
}

/// The hunter that a message of cargo's tells of.
fn test_program(message: &Value) -> Option<Hunter> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = package_of(message["package_id"].as_str()?)?;
    let package = PACKAGES.into_iter().find(|listed| *listed == package)?;
    let target = message["target"]["name"].as_str()?;
    let is_test = message["target"]["kind"][0] == "test";
    let slowness = SLOW_TESTS.iter().position(|slow| is_test && *slow == (package, target));
    let name = if is_test { format!("{package}: {target}") } else { format!("{package}: unit tests") };
    Some(Hunter {
        name,
        package: Some(package.to_owned()),
        slowness: slowness.map_or(0, |place| place + 1),
        is_torture: false,
        program: PathBuf::from(message["executable"].as_str()?),
        // Otherwise a panic is told when all tests have ended.
        arguments: vec!["--nocapture".to_owned()],
        directory: Some(directory.to_owned()),
    })
}

/// The package that an identity of cargo's names: `path+file:///w/storage/wal#seawall-wal@0.1.0`, or without the name where the folder
/// has it.
fn package_of(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_each_crate_that_declares_defects_hunt() {
        for defect in crate::sabotage::defects::all() {
            assert!(PACKAGES.contains(&defect.package), "the tests of {} hunt for no defect", defect.package);
        }
    }

    #[test]
    fn a_test_program_is_told_from_other_messages() {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///w/storage/wal#seawall-wal@0.1.0",
            "manifest_path": "/w/storage/wal/Cargo.toml",
            "target": {"kind": ["test"], "name": "reopen"},
            "profile": {"test": true},
            "executable": "/t/reopen-1",
        });
        let hunter = test_program(&message).unwrap();
        assert_eq!(
            (hunter.name.as_str(), hunter.package.as_deref()),
            ("seawall-wal: reopen", Some("seawall-wal"))
        );
        let mut library = message.clone();
        library["profile"]["test"] = false.into();
        assert!(test_program(&library).is_none());
        let mut face = message.clone();
        face["package_id"] = "path+file:///w/seawall#0.1.0".into();
        assert_eq!(test_program(&face).unwrap().name, "seawall: reopen");
        let mut other = message;
        other["package_id"] = "path+file:///w/testing/bench#seawall-bench@0.1.0".into();
        assert!(test_program(&other).is_none());
    }
}
