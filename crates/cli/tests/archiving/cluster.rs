//! A data directory that is made for the tests, a repository and a spool, and the commands on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seawall_testing::wait_until;
use serde_json::Value;

use crate::agents::{agents, kill_agents};
use crate::postgresql_log::PostgreSqlLog;

pub(crate) const SYSTEM: u64 = 7_301_234_567_890_123_456;

/// A data directory, a repository and a spool.
pub(crate) struct Cluster {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) log: PostgreSqlLog,
    /// Of all commands that talk to the agent.
    pub(crate) options: Vec<String>,
    /// Added to their environment.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Cluster {
    pub(crate) fn new(segments: usize) -> Cluster {
        let cluster = Cluster::without_repository(segments);
        assert!(cluster.run("repo", &["create", &cluster.repository()]).status.success());
        cluster
    }

    pub(crate) fn without_repository(segments: usize) -> Cluster {
        // Not below /tmp: what a spool there remembers may be lost, so some settings are refused with it.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut log = PostgreSqlLog::new(SYSTEM);
        log.fill(segments, 300);
        let cluster = Cluster { directory, log, options: Vec::new(), environment: Vec::new() };
        std::fs::create_dir_all(cluster.data().join("pg_wal/archive_status")).unwrap();
        std::fs::create_dir_all(cluster.data().join("global")).unwrap();
        std::fs::write(cluster.data().join("global/pg_control"), SYSTEM.to_le_bytes()).unwrap();
        for index in 0..segments {
            cluster.add(&cluster.log.name(index), &cluster.log.segment(index));
        }
        cluster
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn repository(&self) -> String {
        self.directory.path().join("repository").display().to_string()
    }

    /// A file that is to be archived.
    pub(crate) fn add(&self, name: &str, content: &[u8]) {
        std::fs::write(self.data().join("pg_wal").join(name), content).unwrap();
        std::fs::write(self.data().join("pg_wal/archive_status").join(format!("{name}.ready")), b"").unwrap();
    }

    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> Output {
        self.command(command, arguments).output().unwrap()
    }

    pub(crate) fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let options = if name == "repo" { &[] } else { self.options.as_slice() };
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        command
            .arg(name)
            .args(options)
            .args(arguments)
            .current_dir(self.data())
            .env("SEAWALL_REPOSITORY", self.repository())
            .env("SEAWALL_SPOOL", self.place("spool"))
            .env("SEAWALL_CONFIG", "/dev/null")
            .envs(self.environment.iter().cloned());
        command
    }

    pub(crate) fn push(&self, name: &str) -> Output {
        self.run("archive-push", &[&format!("pg_wal/{name}")])
    }

    /// A history that is not in the way of segments.
    pub(crate) fn push_other(&self, name: &str) -> Output {
        self.add(name, b"1\t0/3000158\tx\n");
        self.push(name)
    }

    pub(crate) fn get(&self, name: &str, path: &str) -> Output {
        self.run("archive-get", &[name, path])
    }

    pub(crate) fn path_in_repository(&self, name: &str) -> PathBuf {
        self.path_in("repository", name)
    }

    pub(crate) fn path_in(&self, repository: &str, name: &str) -> PathBuf {
        let log = self.directory.path().join(format!("{repository}/postgresql-{SYSTEM}/log"));
        log.join(&name[..8]).join(&name[8..16]).join(name)
    }

    /// Another place beside the repository, made or not.
    pub(crate) fn place(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    pub(crate) fn make(&self, name: &str) {
        assert!(self.run("repo", &["create", &self.place(name)]).status.success());
    }

    /// As a file system that is unmounted, and mounted again.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.place(from), self.place(to)).unwrap();
    }

    pub(crate) fn json(&self, command: &str, arguments: &[&str]) -> Value {
        let output = self.run(command, arguments);
        assert!(output.status.success(), "{}", message(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The status of the agent when it is as wanted.
    #[track_caller]
    pub(crate) fn status_when(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        seawall_testing::wait_for("the agent's status", || {
            let status = self.json("archive-status", &["--json"]);
            is_wanted(&status).then_some(status)
        })
    }

    /// The directory that the spool will have for this data directory, which has no agent yet.
    pub(crate) fn leaf_of_spool(&self) -> PathBuf {
        let said = message(&self.run("archive-status", &[]));
        let (_, leaf) = said.trim_end().rsplit_once("with the spool ").expect("no agent runs");
        PathBuf::from(leaf)
    }

    /// The one directory that the spool has for this data directory.
    pub(crate) fn spool(&self) -> PathBuf {
        std::fs::read_dir(self.directory.path().join("spool")).unwrap().next().unwrap().unwrap().path()
    }

    #[track_caller]
    pub(crate) fn kill_agent(&self) {
        assert!(self.kill_agent_if_any(), "no agent runs");
    }

    pub(crate) fn signal_agent(&self, signal: &str) {
        for process in agents(&self.place("spool")) {
            let status = Command::new("kill").args(["-s", signal, &process.to_string()]).status();
            assert!(status.unwrap().success());
        }
    }

    pub(crate) fn kill_agent_if_any(&self) -> bool {
        kill_agents(&self.place("spool"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // There may be none, and the data directory may be elsewhere: a test has failed.
        if self.command("archive-stop", &[]).output().is_err() {
            self.kill_agent_if_any();
        }
    }
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn message(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Options with which no more than so much may wait. A repository that fails gets less time than by default to take files again.
pub(crate) fn limited_to(mebibytes: u32) -> Vec<String> {
    vec![format!("--queue-max={mebibytes}MiB"), "--timeout=10".to_owned()]
}

/// Pushes a segment until PostgreSQL may go on without it; returns what it is told.
pub(crate) fn push_until_let_go(cluster: &Cluster, name: &str) -> String {
    seawall_testing::wait_for("the segment to be let go", || {
        let output = cluster.push(name);
        (code(&output) == 0).then(|| message(&output))
    })
}

pub(crate) fn remove(cluster: &Cluster, name: &str) {
    std::fs::remove_file(cluster.data().join("pg_wal").join(name)).unwrap();
    std::fs::remove_file(cluster.data().join(format!("pg_wal/archive_status/{name}.ready"))).unwrap();
}

#[track_caller]
pub(crate) fn is_done(output: &Output) {
    assert_eq!((code(output), message(output)), (0, String::new()));
}

/// What the agent does by itself, a little later.
#[track_caller]
pub(crate) fn wait_for(path: &Path) {
    wait_until(&path.display().to_string(), || path.is_file());
}
