//! Runs the real command in a scratch directory.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command under test.
pub(crate) const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");

/// A directory of its own, with a database `db` in it once `init` was run.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch { directory: tempfile::tempdir().unwrap() }
    }

    /// With an empty database.
    pub(crate) fn with_database() -> Scratch {
        let scratch = Scratch::new();
        scratch.ok(["init", "db"]);
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(SEAWALL);
        command.current_dir(self.directory.path()).env("SEAWALL_CONFIG", "/dev/null").args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn ok(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        String::from_utf8(self.ok_bytes(arguments)).unwrap()
    }

    pub(crate) fn ok_bytes(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<u8> {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// Standard error of a command that fails with `code`.
    pub(crate) fn fails(&self, code: i32, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Standard output of a command that reads `input` and succeeds.
    pub(crate) fn pipe(
        &self,
        input: &[u8],
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Vec<u8> {
        let mut child = self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Each line as JSON.
pub(crate) fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}
