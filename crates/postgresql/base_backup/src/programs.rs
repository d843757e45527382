//! The programs of a PostgreSQL that is installed here, and who may run them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::error::PostgreSqlBackupError;
use super::scratch_guard::guarded;

/// The directory of the programs of one major release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Programs {
    directory: PathBuf,
    /// Their major release.
    pub(super) major: u32,
}

impl Programs {
    /// Those of major release `major`: in the directory that is named, or else in the `PATH`, where `pg_config` says, and where
    /// Debian and Red Hat put them.
    pub(super) fn find(major: u32, named: Option<&Path>) -> Result<Programs, PostgreSqlBackupError> {
        let places = match named {
            Some(directory) => vec![directory.to_owned()],
            None => usual_places(major),
        };
        let mut others = Vec::new();
        for directory in places.into_iter().filter_map(|place| behind_links(&place)) {
            match major_in(&directory) {
                Some(found) if found == major => return Ok(Programs { directory, major }),
                Some(found) => others.push(format!("{} has release {found}", directory.display())),
                None => {}
            }
        }
        let found = match (&others[..], named) {
            ([], Some(directory)) => format!("there is none in {}", directory.display()),
            ([], None) => "there is none in the PATH, nor where it usually is".to_owned(),
            (others, _) => others.join(", "),
        };
        let problem = format!(
            "the backup is of PostgreSQL {major}, and that is not found: {found}. Name the directory of its programs"
        );
        Err(PostgreSqlBackupError::Drill { problem })
    }

    /// One of them, to be run as `user`.
    pub(super) fn command(&self, program: &str, user: Option<ServerUser>) -> (String, Command) {
        let path = self.directory.join(program);
        let mut command = Command::new(&path);
        command.stdin(Stdio::null());
        alone(&mut command, user);
        (path.display().to_string(), command)
    }

    /// The same under a guard, so that it does not outlive us.
    pub(super) fn guarded(&self, guard: &Path, program: &str, user: Option<ServerUser>) -> (String, Command) {
        let path = self.directory.join(program);
        let mut command = guarded(guard, &path);
        alone(&mut command, user);
        (path.display().to_string(), command)
    }
}

/// Run as `user`, with nothing in its environment that leads to another server.
fn alone(command: &mut Command, user: Option<ServerUser>) {
    command.env("LC_ALL", "C");
    let settings = std::env::vars_os().map(|(name, _)| name);
    for name in settings.filter(|name| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    if let Some(ServerUser { user, group }) = user {
        command.uid(user).gid(group);
    }
}

fn usual_places(major: u32) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let configured = said_by(Command::new("pg_config").arg("--bindir")).map(PathBuf::from);
    let packaged =
        [format!("/usr/lib/postgresql/{major}/bin"), format!("/usr/pgsql-{major}/bin")].map(PathBuf::from);
    std::env::split_paths(&path).chain(configured).chain(packaged).collect()
}

/// Where the server of this directory really is, and so the programs beside it: what is in the `PATH` may be a link to it alone.
fn behind_links(directory: &Path) -> Option<PathBuf> {
    let program = std::fs::canonicalize(directory.join("postgres")).ok()?;
    program.parent().map(Path::to_owned)
}

/// The major release of the server in this directory, if there is one.
fn major_in(directory: &Path) -> Option<u32> {
    major_of(&said_by(Command::new(directory.join("postgres")).arg("--version"))?)
}

/// `postgres (PostgreSQL) 15.14 (Debian ...)`, `... 18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    number.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// The line that a program prints, if it is there and works.
fn said_by(command: &mut Command) -> Option<String> {
    let Output { status, stdout, .. } = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let line = String::from_utf8(stdout).ok()?;
    status.success().then(|| line.trim().to_owned())
}

/// Somebody else than root, as whom a server runs that root starts: PostgreSQL refuses to run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerUser {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

impl ServerUser {
    /// The user with this name if we are root, and else `None`: whoever we are runs it.
    ///
    /// # Errors
    /// `Drill`: there is no such user, or it is root, too.
    pub fn for_root(name: &str) -> Result<Option<ServerUser>, PostgreSqlBackupError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let id = |flag| said_by(Command::new("id").args([flag, "--", name]))?.parse().ok();
        match (id("-u"), id("-g")) {
            (Some(user), Some(group)) if user != 0 => Ok(Some(ServerUser { user, group })),
            (user, _) => {
                let why = if user == Some(0) { "is root, too" } else { "is not a user here" };
                let problem = format!(
                    "PostgreSQL does not run as root, and {name} {why}: run the drill as the user that PostgreSQL runs as, or name \
                     that one"
                );
                Err(PostgreSqlBackupError::Drill { problem })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn releases_are_read_as_postgresql_writes_them() {
        for (version, major) in [
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", Some(15)),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres (PostgreSQL) 13", Some(13)),
            ("postgres", None),
            ("postgres (PostgreSQL) devel", None),
        ] {
            assert_eq!(major_of(version), major, "{version}");
        }
    }

    #[test]
    fn programs_of_another_release_are_refused_with_what_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let none = Programs::find(15, Some(directory.path())).unwrap_err().to_string();
        assert!(none.contains("PostgreSQL 15") && none.contains("there is none in"), "{none}");
        let program = directory.path().join("postgres");
        // Another process writes it: what is open for writing here could be so in a child of another test, and cannot be run then.
        let script =
            format!("printf '#!/bin/sh\\necho \"postgres (PostgreSQL) 16.3\"\\n' > {0}", program.display());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let other = Programs::find(15, Some(directory.path())).unwrap_err().to_string();
        assert!(other.contains("has release 16"), "{other}");
        let linked = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&program, linked.path().join("postgres")).unwrap();
        for place in [&directory, &linked] {
            let found = Programs::find(16, Some(place.path())).unwrap();
            assert_eq!(found.directory, std::fs::canonicalize(directory.path()).unwrap());
        }
    }
}
