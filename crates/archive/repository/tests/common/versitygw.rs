//! A real S3 store, versitygw, over a directory of its own: found, or installed with `go install`.
//!
//! `SEAWALL_VERSITYGW` names the program; else it is looked for in the PATH and beside the build, and installed there where
//! `SEAWALL_TEST_INSTALL=1` asks for it. Where it cannot be had, a test says why and is skipped.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use seawall_testing::{Port, wait_until};

use super::program::{find_or_install, installed_stores, or_skipped};

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
pub(crate) const KEY: &str = "archive";
pub(crate) const SECRET: &str = "archive-secret";

pub(crate) struct Versitygw {
    child: Child,
    pub(crate) port: u16,
    pub(crate) directory: tempfile::TempDir,
    _reserved: Port,
}

/// The program, or why there is none.
fn program() -> &'static Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let place = installed_stores();
        let mut install = Command::new("go");
        install.args(["install", MODULE]).env("GOBIN", &place);
        find_or_install("SEAWALL_VERSITYGW", "versitygw", &place, &mut install)
    })
}

/// Starts one, and waits until it listens.
fn run(program: &Path, port: u16, directory: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let mut child = Command::new(program)
        .args(["--access", KEY, "--secret", SECRET, "--port", &format!("127.0.0.1:{port}"), "posix"])
        .arg(directory.join("data"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("versitygw to listen", || {
        if let Some(status) = child.try_wait().unwrap() {
            let log = std::fs::read_to_string(directory.join("log")).unwrap();
            panic!("versitygw ended with {status}: {log}");
        }
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    child
}

impl Versitygw {
    /// Starts one, with the bucket `wal`; `None` if there is none, which is said.
    pub(crate) fn start() -> Option<Versitygw> {
        let program = or_skipped(program())?;
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("data/wal")).unwrap();
        let reserved = Port::reserve();
        let child = run(program, reserved.number, directory.path());
        Some(Versitygw { child, port: reserved.number, directory, _reserved: reserved })
    }

    /// As the system does when memory is short.
    #[allow(dead_code, reason = "not every test kills it")]
    pub(crate) fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }

    /// With what it had, where it was.
    #[allow(dead_code, reason = "not every test kills it")]
    pub(crate) fn start_again(&mut self) {
        let program = program().as_ref().unwrap();
        self.child = run(program, self.port, self.directory.path());
    }

    pub(crate) fn url(&self, prefix: &str) -> String {
        format!("s3://wal/{prefix}?endpoint=http://127.0.0.1:{}&region=us-east-1", self.port)
    }
}

impl Drop for Versitygw {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}
