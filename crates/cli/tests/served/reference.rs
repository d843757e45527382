//! A PostgreSQL of the test's own, on a port of loopback, whose answers are compared.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use seawall_testing::Need;

use crate::installed::{programs, unprivileged};

pub(crate) struct Reference {
    directory: tempfile::TempDir,
    programs: PathBuf,
    /// PostgreSQL does not run as root.
    user: Option<(u32, u32)>,
    pub(crate) port: u16,
}

impl Reference {
    /// `None` if there is no PostgreSQL, which is said.
    pub(crate) fn start() -> Option<Reference> {
        let (programs, user) = match programs().and_then(|programs| Ok((programs, unprivileged()?))) {
            Ok(found) => found,
            Err(reason) => {
                Need::PostgreSql.skip(reason);
                return None;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        // Nobody else is given this port soon: the system hands them out in turn.
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let reference = Reference { directory, programs, user, port };
        reference.run(
            "initdb",
            &["-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
        );
        let options = format!("-h 127.0.0.1 -p {port} -k '' -c fsync=off");
        reference.run("pg_ctl", &["-D", "data", "-l", "log", "-w", "-o", &options, "start"]);
        Some(reference)
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.directory.path()).args(arguments);
        // A server keeps open what it inherits.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        assert!(command.status().unwrap().success(), "{program} {arguments:?} has failed");
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "-w", "stop"]);
    }
}
