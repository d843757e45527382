//! Drivers: a program in each language does what applications do, and fails if an answer is not as expected.
//!
//! Packages are installed below the target directory where `SEAWALL_TEST_INSTALL=1` asks for it. Their versions are fixed here and in
//! docs/clients.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_testing::{Need, install};

use crate::program::{ok, prepared};
use crate::served::Served;

const PYTHON_PACKAGES: [&str; 2] = ["psycopg[binary]==3.3.9", "sqlalchemy==2.1.9"];
const NODE_PACKAGES: [&str; 2] = ["pg@8.23.1", "pg-cursor@2.22.0"];
const JDBC: &str = "42.7.7";

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/drivers").join(name)
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers").join(name)
}

/// Runs `program` with `arguments` against a server of its own: its last line must be `done`.
fn is_served(program: &Path, arguments: &[&Path], change: impl FnOnce(&mut Command) -> &mut Command) {
    let served = Served::new();
    let mut program = prepared(program, "127.0.0.1", served.port());
    let said = ok(change(program.args(arguments)));
    assert!(said.ends_with("done\n"), "{said}");
}

/// A Python of its own with the packages. `None`: the test says that it is skipped.
pub(crate) fn python() -> Option<PathBuf> {
    let place = place("python");
    let mut command = Command::new("sh");
    let packages = PYTHON_PACKAGES.map(|package| format!("'{package}'")).join(" ");
    // The mark comes last: an installation that was cut off is made again.
    let script = format!(
        "python3 -m venv \"$0\" && \"$0/bin/pip\" install --quiet --retries 1 {packages} && touch \"$0/installed\""
    );
    command.args(["-c", &script]).arg(&place);
    match install(&place.join("installed"), &mut command) {
        Ok(()) => Some(place.join("bin/python")),
        Err(reason) => {
            Need::Drivers.skip(reason);
            None
        }
    }
}

#[test]
fn psycopg_is_served() {
    let Some(python) = python() else { return };
    is_served(&python, &[&script("with_psycopg.py")], |command| command);
}

#[test]
fn sqlalchemy_is_served() {
    let Some(python) = python() else { return };
    is_served(&python, &[&script("with_sqlalchemy.py")], |command| command);
}

#[test]
fn node_is_served() {
    let place = place("node");
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--no-fund",
        "--no-audit",
        "--ignore-scripts",
        "--fetch-retries=1",
        "--fetch-timeout=60000",
    ]);
    npm.arg("--prefix").arg(&place).args(NODE_PACKAGES);
    if let Err(reason) = install(&place.join("node_modules/pg-cursor/package.json"), &mut npm) {
        return Need::Drivers.skip(reason);
    }
    is_served(Path::new("node"), &[&script("application.js")], |command| {
        command.env("NODE_PATH", place.join("node_modules"))
    });
}

/// The driver for Java. `None`: the test says that it is skipped.
pub(crate) fn jdbc() -> Option<PathBuf> {
    let place = place("jdbc");
    let archive = place.join(format!("postgresql-{JDBC}.jar"));
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"]);
    maven.arg(format!("-Dartifact=org.postgresql:postgresql:{JDBC}"));
    maven.arg(format!("-DoutputDirectory={}", place.display())).current_dir(std::env::temp_dir());
    match install(&archive, &mut maven) {
        Ok(()) => Some(archive),
        Err(reason) => {
            Need::Drivers.skip(reason);
            None
        }
    }
}

#[test]
fn jdbc_is_served() {
    let Some(archive) = jdbc() else { return };
    is_served(
        Path::new("java"),
        &[Path::new("-classpath"), &archive, &script("Application.java")],
        |command| command,
    );
}

/// Dependencies are fetched where that is allowed. The program itself is made anew: it may have changed.
#[test]
fn tokio_postgres_is_served() {
    let place = place("tokio");
    let program = place.join("debug/with-tokio-postgres");
    let build = |more: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", more, "--manifest-path"]).arg(script("tokio/Cargo.toml"));
        cargo.arg("--target-dir").arg(&place);
        cargo
    };
    if let Err(reason) = install(&program, &mut build("--keep-going")) {
        return Need::Drivers.skip(reason);
    }
    ok(&mut build("--offline"));
    is_served(&program, &[], |command| command);
}
