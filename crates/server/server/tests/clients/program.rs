//! Programs of PostgreSQL: where they are, and what they are told of the server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seawall_testing::Need;

/// Where Debian has those that are not in the `PATH`.
const VERSIONS: &str = "/usr/lib/postgresql";

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_versions = std::fs::read_dir(VERSIONS).into_iter().flatten();
    let of_versions = of_versions.map(|entry| entry.unwrap().path().join("bin"));
    let mut directories = of_versions.chain(std::env::split_paths(&path));
    directories.find_map(|directory| Some(directory.join(name)).filter(|program| program.is_file()))
}

/// The program with what it needs to connect as `postgres`. `None`: it is not installed, and the test says that it is skipped.
pub(crate) fn program(name: &str, host: &str, port: u16) -> Option<Command> {
    let Some(found) = find(name) else {
        Need::PostgreSqlClients.skip(format_args!("{name} is not installed"));
        return None;
    };
    Some(prepared(&found, host, port))
}

/// As `program`, of one that is no program of PostgreSQL.
pub(crate) fn prepared(program: &Path, host: &str, port: u16) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.envs([
        ("PGHOST", host),
        ("PGPORT", &port.to_string()),
        ("PGUSER", "postgres"),
        ("PGDATABASE", "postgres"),
        ("PGCLIENTENCODING", "UTF8"),
        ("PGTZ", "UTC"),
        ("PGCONNECT_TIMEOUT", "30"),
        ("PSQLRC", "/dev/null"),
        ("LC_ALL", "C.UTF-8"),
    ]);
    command
}

/// Standard output and standard error of a program that succeeds.
pub(crate) fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = both(&output);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

pub(crate) fn both(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}
