//! A real store of Azure's kind, Azurite, over a directory of its own: found, or installed with `npm`.
//!
//! `SEAWALL_AZURITE` names the program `azurite-blob`; else it is looked for in the PATH and beside the build, and installed there where `SEAWALL_TEST_INSTALL=1` asks for it.
//! Where it cannot be had, a test says why and is skipped.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use seawall_testing::{Port, wait_for};

use super::program::{find_or_install, installed_stores, or_skipped};

const PACKAGE: &str = "azurite@3.37.0";
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
/// Of that account, in every Azurite.
pub(crate) const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// The request that makes the container `wal`, signed with that key: Azurite does not look at the date.
const CREATE_CONTAINER: &str = "PUT /devstoreaccount1/wal?restype=container HTTP/1.1\r\n\
    host: 127.0.0.1\r\n\
    connection: close\r\n\
    content-length: 0\r\n\
    x-ms-date: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
    x-ms-version: 2021-08-06\r\n\
    authorization: SharedKey devstoreaccount1:w98Pr6DqALEScV78LGHrv7Aag4EcAIOrditdijsxl+U=\r\n\r\n";

pub(crate) struct Azurite {
    child: Child,
    port: Port,
    _directory: tempfile::TempDir,
}

/// The program, or why there is none.
fn program() -> &'static Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let place = installed_stores().join("azurite");
        let mut install = Command::new("npm");
        // Where there is no network, it is said soon.
        install.args([
            "install",
            "--no-fund",
            "--no-audit",
            "--ignore-scripts",
            "--fetch-retries=1",
            "--fetch-timeout=60000",
        ]);
        install.arg("--prefix").arg(&place).arg(PACKAGE);
        find_or_install("SEAWALL_AZURITE", "azurite-blob", &place.join("node_modules/.bin"), &mut install)
    })
}

impl Azurite {
    /// Starts one, with the container `wal`; `None` if there is none, which is said.
    pub(crate) fn start() -> Option<Azurite> {
        let program = or_skipped(program())?;
        let directory = tempfile::tempdir().unwrap();
        let port = Port::reserve();
        let child = Command::new(program)
            .args([
                "--blobHost",
                "127.0.0.1",
                "--blobPort",
                &port.number.to_string(),
                "--silent",
                "--skipApiVersionCheck",
            ])
            .arg("--location")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut store = Azurite { child, port, _directory: directory };
        let answer = wait_for("Azurite to answer", || {
            assert!(store.child.try_wait().unwrap().is_none(), "Azurite ended");
            store.container_created().ok().filter(|answer| !answer.is_empty())
        });
        // 409: of two requests the first was carried out, although its answer was lost.
        assert!(["HTTP/1.1 201", "HTTP/1.1 409"].iter().any(|status| answer.starts_with(status)), "{answer}");
        Some(store)
    }

    /// The answer to the request that creates the container. A store that has only just begun to listen may drop its connection, or
    /// answer nothing: then it is asked again.
    fn container_created(&self) -> io::Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port.number))?;
        connection.write_all(CREATE_CONTAINER.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }

    pub(crate) fn url(&self, prefix: &str) -> String {
        format!(
            "az://wal/{prefix}?account={ACCOUNT}&endpoint=http://127.0.0.1:{}/{ACCOUNT}",
            self.port.number
        )
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}
