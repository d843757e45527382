//! The whole story with a real PostgreSQL: load, archive, base backup, more load, a mistake, a recovery to just before it; and what
//! goes wrong meanwhile. Where there is no PostgreSQL the tests say so, and are skipped.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// Rows of one table as one number: whatever differs changes it.
const ACCOUNTS: &str = "select count(*), sum(hashtext(t::text)::bigint) from pgbench_accounts t";

/// Servers, a repository and a spool, all below one directory.
struct Scene {
    directory: tempfile::TempDir,
    programs: PathBuf,
    /// PostgreSQL does not run as root.
    user: Option<(u32, u32)>,
}

/// A data directory, and whoever runs on it.
struct Server<'a> {
    scene: &'a Scene,
    name: &'static str,
    port: u16,
}

/// `SEAWALL_POSTGRESQL` names the directory of its programs; else it is looked for where Debian puts them, and in the PATH.
fn programs() -> Result<PathBuf, String> {
    if let Some(directory) = std::env::var_os("SEAWALL_POSTGRESQL") {
        return Ok(directory.into());
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut releases: Vec<PathBuf> = debian.map(|entry| entry.unwrap().path().join("bin")).collect();
    releases.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = releases.into_iter().rev().chain(std::env::split_paths(&path));
    let mut places = places.filter(|place| place.join("initdb").is_file() && place.join("pgbench").is_file());
    places.next().ok_or_else(|| "PostgreSQL is not installed (or set SEAWALL_POSTGRESQL)".to_owned())
}

/// Somebody else than root, if we are root.
fn unprivileged() -> Result<Option<(u32, u32)>, String> {
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    if own != 0 {
        return Ok(None);
    }
    let number = |flag: &str| -> Option<u32> {
        let output = Command::new("id").args([flag, "postgres"]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    match (number("-u"), number("-g")) {
        (Some(user), Some(group)) => Ok(Some((user, group))),
        _ => Err("PostgreSQL does not run as root, and there is no user postgres".to_owned()),
    }
}

impl Scene {
    /// `None` if there is no PostgreSQL, which is said.
    fn new() -> Option<Scene> {
        let found = programs().and_then(|programs| Ok((programs, unprivileged()?)));
        let (programs, user) = match found {
            Ok(found) => found,
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return None;
            }
        };
        let scene = Scene { directory: tempfile::tempdir().unwrap(), programs, user };
        if let Some((user, group)) = user {
            chown(scene.directory.path(), Some(user), Some(group)).unwrap();
        }
        // Where it was built, that user may have no access. Another process copies it: a file that is open for writing here may be
        // handed to a child that another test starts meanwhile, and the system runs no program that somebody may write to.
        succeeds(
            Command::new("cp")
                .arg(env!("CARGO_BIN_EXE_seawall"))
                .arg(scene.path("seawall"))
                .output()
                .unwrap(),
        );
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(self.directory.path())
            .env("SEAWALL_SPOOL", self.path("spool"))
            .env("SEAWALL_CONFIG", "/dev/null")
            .env("PGHOST", self.directory.path())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    fn seawall(&self, arguments: &[&str]) -> Output {
        self.command(self.path("seawall")).args(arguments).output().unwrap()
    }

    /// What the repository holds of the only system and timeline with this number.
    fn timeline(&self, number: u64) -> Value {
        let output = self.seawall(&["--json", "repo", "info", &self.text("repository")]);
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        let timelines = info["systems"][0]["timelines"].as_array().unwrap();
        timelines.iter().find(|timeline| timeline["timeline"] == number).unwrap().clone()
    }
}

#[track_caller]
fn succeeds(output: Output) -> String {
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    stdout.trim().to_owned()
}

impl<'a> Server<'a> {
    fn at(scene: &'a Scene, name: &'static str, port: u16) -> Server<'a> {
        Server { scene, name, port }
    }

    /// A new cluster that archives into the repository.
    fn create(scene: &'a Scene, repository: &str) -> Server<'a> {
        succeeds(scene.seawall(&["repo", "create", repository]));
        let server = Server::at(scene, "primary", 5432);
        let data = scene.text(server.name);
        let arguments = ["-D", &data, "-U", "postgres", "-A", "trust", "-N", "--wal-segsize=1"];
        succeeds(scene.command(scene.programs.join("initdb")).args(arguments).output().unwrap());
        let seawall = scene.text("seawall");
        server.configure(&format!(
            "archive_mode = on\n\
             archive_command = '{seawall} archive-push --repository={repository} %p'\n\
             restore_command = '{seawall} archive-get --repository={repository} %f %p'\n\
             listen_addresses = ''\n\
             unix_socket_directories = '{}'\n\
             fsync = off\nsynchronous_commit = off\nmax_wal_size = 64MB\nmin_wal_size = 4MB\nhot_standby = off\n",
            scene.directory.path().display()
        ));
        server.start();
        server
    }

    fn configure(&self, lines: &str) {
        use std::io::Write;
        let path = self.scene.path(self.name).join("postgresql.conf");
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        writeln!(file, "port = {}\n{lines}", self.port).unwrap();
    }

    fn control(&self, arguments: &[&str]) -> Output {
        let (data, log) = (self.scene.text(self.name), self.scene.text(&format!("{}.log", self.name)));
        let mut command = self.scene.command(self.scene.programs.join("pg_ctl"));
        command.args(["-D", &data, "-l", &log, "-w", "-t", "300"]).args(arguments);
        // Its server keeps what it inherits open.
        command.stdout(Stdio::null()).output().unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scene.path(&format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Starts it, and waits until its recovery has ended.
    #[track_caller]
    fn start(&self) {
        let output = self.control(&["start"]);
        assert!(output.status.success(), "{}", self.log());
        self.wait_for_recovery();
    }

    #[track_caller]
    fn wait_for_recovery(&self) {
        let asked = || self.tool("psql", &["-qAtX", "-c", "select pg_is_in_recovery()"]).output().unwrap();
        while asked().stdout != b"f\n" {
            assert!(self.control(&["status"]).status.success(), "{}", self.log());
        }
    }

    /// The archiver archives all that is left before it ends.
    #[track_caller]
    fn stop(&self) {
        let output = self.control(&["stop", "-m", "fast"]);
        assert!(output.status.success(), "{}", self.log());
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.scene.command(self.scene.programs.join(program));
        command.env("PGPORT", self.port.to_string()).args(arguments);
        command
    }

    #[track_caller]
    fn sql(&self, text: &str) -> String {
        succeeds(self.tool("psql", &["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", text]).output().unwrap())
    }

    /// `count` transactions of pgbench.
    #[track_caller]
    fn load(&self, count: u32) {
        let count = count.to_string();
        succeeds(self.tool("pgbench", &["-n", "-c", "2", "-t", &count]).output().unwrap());
    }

    fn load_in_background(&self) -> Child {
        let mut command = self.tool("pgbench", &["-n", "-c", "2", "-T", "300"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn segment(&self) -> String {
        self.sql("select pg_walfile_name(pg_current_wal_lsn())")
    }

    /// A copy from a base backup, which will recover by itself.
    fn base_backup(&self, name: &'static str, port: u16) -> Server<'a> {
        let data = self.scene.text(name);
        succeeds(self.tool("pg_basebackup", &["-D", &data, "-c", "fast", "-X", "none"]).output().unwrap());
        std::fs::write(self.scene.path(name).join("recovery.signal"), b"").unwrap();
        Server::at(self.scene, name, port)
    }

    /// The process that the first line of this file of the data directory names.
    fn kill(&self) {
        let pid = std::fs::read_to_string(self.scene.path(self.name).join("postmaster.pid")).unwrap();
        kill(pid.lines().next().unwrap());
    }

    /// Ends the agent of this data directory, if there is one; with its uploads.
    fn kill_agent(&self) {
        let data = std::fs::metadata(self.scene.path(self.name)).unwrap();
        let spool = self.scene.path("spool").join(format!("{:x}-{:x}", data.dev(), data.ino()));
        let Ok(lock) = std::fs::metadata(spool.join("agent.lock")) else { return };
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let held = locks.lines().find(|line| line.contains(&format!(":{} ", lock.ino())));
        if let Some(line) = held {
            kill(line.split_ascii_whitespace().nth(4).unwrap());
        }
    }

    fn stop_agent(&self) {
        let mut command = self.scene.command(self.scene.path("seawall"));
        let repository = self.scene.text("repository");
        command.current_dir(self.scene.path(self.name)).env("SEAWALL_REPOSITORY", repository);
        // There may be none.
        command.arg("archive-stop").output().unwrap();
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.control(&["stop", "-m", "immediate"]);
        if self.scene.path(self.name).is_dir() {
            self.stop_agent();
        }
    }
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
}

#[test]
fn a_dropped_table_comes_back_by_a_recovery_to_just_before() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let restored = primary.base_backup("restored", 5433);
    primary.load(1500);
    let before = primary.sql(ACCOUNTS);
    primary.sql("select pg_create_restore_point('before the mistake')");
    primary.sql("drop table pgbench_accounts");
    primary.sql("create table later as select generate_series(1, 100000) n");
    primary.stop();
    let archived = scene.timeline(1);
    assert_eq!(archived["gaps"].as_array().unwrap().len(), 0, "{archived}");
    assert!(archived["segments"].as_u64().unwrap() > 8, "{archived}");

    restored.configure("recovery_target_name = 'before the mistake'\nrecovery_target_action = promote\n");
    restored.start();
    assert_eq!(restored.sql(ACCOUNTS), before);
    assert_eq!(restored.sql("select to_regclass('later') is null"), "t");
    // It goes on, on a timeline of its own, and archives that, too.
    restored.load(200);
    restored.stop();
    let forked = scene.timeline(2);
    assert_eq!(forked["gaps"].as_array().unwrap().len(), 0, "{forked}");
}

/// The archive module, built with the server's headers. `SEAWALL_POSTGRESQL_HEADERS` names their directory.
fn build_module(scene: &Scene) -> Result<(), String> {
    let headers = match std::env::var_os("SEAWALL_POSTGRESQL_HEADERS") {
        Some(directory) => PathBuf::from(directory),
        None => {
            let output = Command::new(scene.programs.join("pg_config")).arg("--includedir-server").output();
            let output = output.map_err(|error| format!("there is no pg_config: {error}"))?;
            String::from_utf8(output.stdout).unwrap().trim().into()
        }
    };
    let has_modules = ["postmaster/pgarch.h", "archive/archive_module.h"]
        .iter()
        .any(|header| headers.join(header).is_file());
    if !has_modules {
        return Err(format!("{} has no headers of PostgreSQL 15 or later", headers.display()));
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/archive_library/seawall_archive.c");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-I"])
        .arg(headers)
        .args(["-o", &scene.text("seawall_archive.so"), source])
        .output()
        .map_err(|error| format!("there is no C compiler: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn the_archive_module_archives_without_a_process_for_each_file() {
    let Some(scene) = Scene::new() else { return };
    if let Err(reason) = build_module(&scene) {
        eprintln!("skipped: {reason}");
        return;
    }
    let repository = scene.text("repository");
    let primary = Server::create(&scene, &repository);
    primary.stop();
    primary.configure(&format!(
        "archive_command = ''\narchive_library = '{}'\nseawall.program = '{}'\nseawall.options = '--repository={repository}'\n",
        scene.text("seawall_archive"),
        scene.text("seawall")
    ));
    primary.start();
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let restored = primary.base_backup("restored", 5433);
    primary.load(500);
    // The agent is gone, with what it was doing: the next file starts another.
    primary.kill_agent();
    std::fs::rename(&repository, scene.text("elsewhere")).unwrap();
    primary.sql("select pg_switch_wal()");
    while !primary.log().contains("there is no repository") && !primary.log().contains("is gone") {
        std::thread::yield_now();
    }
    std::fs::rename(scene.text("elsewhere"), &repository).unwrap();
    primary.load(500);
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    primary.start();
    primary.stop();
    let archived = scene.timeline(1);
    assert_eq!(archived["gaps"].as_array().unwrap().len(), 0, "{archived}");
    restored.configure("archive_mode = off\n");
    restored.start();
    assert_eq!(restored.sql(ACCOUNTS), rows);
}

/// kill -9 of the agent and of PostgreSQL, a repository that is gone for a while: what is archived is whole, and goes on to the end.
#[test]
fn whatever_is_killed_or_gone_for_a_while_the_archive_has_all_of_it() {
    let Some(scene) = Scene::new() else { return };
    let repository = scene.text("repository");
    let primary = Server::create(&scene, &repository);
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let restored = primary.base_backup("restored", 5433);
    for round in 0..4 {
        let mut load = primary.load_in_background();
        for _ in 0..3 {
            let begun = primary.segment();
            // As long as it takes the load to come into another segment.
            while primary.segment() == begun {
                std::thread::yield_now();
            }
            primary.kill_agent();
        }
        if round % 2 == 0 {
            primary.kill();
        } else {
            std::fs::rename(&repository, scene.text("elsewhere")).unwrap();
            let begun = primary.segment();
            while primary.segment() == begun {
                std::thread::yield_now();
            }
            std::fs::rename(scene.text("elsewhere"), &repository).unwrap();
        }
        load.kill().and_then(|()| load.wait()).unwrap();
        if round % 2 == 0 {
            // Until the processes of the killed one have noticed, it refuses to start.
            while !primary.control(&["start"]).status.success() {
                assert!(
                    primary.log().contains("still in use") || primary.log().contains("lock file"),
                    "{}",
                    primary.log()
                );
            }
            primary.wait_for_recovery();
        }
    }
    let rows = primary.sql(ACCOUNTS);
    primary.stop();
    // What failed last is archived by the next start's archiver: PostgreSQL gives up after some attempts when it stops.
    primary.start();
    primary.sql("select pg_switch_wal()");
    primary.stop();
    let archived = scene.timeline(1);
    assert_eq!(archived["gaps"].as_array().unwrap().len(), 0, "{archived}");
    restored.configure("");
    restored.start();
    assert_eq!(restored.sql(ACCOUNTS), rows);
}
