//! Servers of a real PostgreSQL, a repository, and the commands on them.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use seawall_testing::{Need, wait_until_within};
use serde_json::Value;

use crate::FIVE_MINUTES;
use crate::agents::kill_agents;
use crate::installed::{programs, unprivileged};

/// Rows of one table as one number: whatever differs changes it.
pub(crate) const ACCOUNTS: &str = "select count(*), sum(hashtext(t::text)::bigint) from pgbench_accounts t";

/// Servers, a repository and a spool, all below one directory.
pub(crate) struct Scene {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) programs: PathBuf,
    /// PostgreSQL does not run as root.
    pub(crate) user: Option<(u32, u32)>,
}

/// A data directory, and whoever runs on it.
pub(crate) struct Server<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) name: &'static str,
    pub(crate) port: u16,
}

/// The settings file of a scene, if it has one.
const SETTINGS: &str = "seawall.toml";

impl Scene {
    /// `None` if there is no PostgreSQL, which is said.
    pub(crate) fn new() -> Option<Scene> {
        let found = programs().and_then(|programs| Ok((programs, unprivileged()?)));
        let (programs, user) = match found {
            Ok(found) => found,
            Err(reason) => {
                Need::PostgreSql.skip(reason);
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(self.directory.path())
            .env("PGHOST", self.directory.path())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .stdin(Stdio::null());
        match self.path(SETTINGS) {
            settings if settings.is_file() => command.env("SEAWALL_CONFIG", settings),
            _ => command.env("SEAWALL_CONFIG", "/dev/null").env("SEAWALL_SPOOL", self.path("spool")),
        };
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    pub(crate) fn seawall(&self, arguments: &[&str]) -> Output {
        self.command(self.path("seawall")).args(arguments).output().unwrap()
    }

    /// Makes a key for an encrypted repository.
    pub(crate) fn make_key(&self) -> String {
        let key = self.text("master.key");
        succeeds(
            self.command("sh")
                .args(["-c", "umask 077; head -c 32 /dev/urandom > \"$0\"", &key])
                .output()
                .unwrap(),
        );
        key
    }

    /// Makes the settings file, which all commands read from now on, with whatever else it is to say of the repository.
    pub(crate) fn set(&self, repository: &str) {
        let (place, spool, programs) = (self.path("repository"), self.path("spool"), &self.programs);
        let text = format!(
            "repository = {place:?}\n{repository}\n[archive]\nspool = {spool:?}\n\
             [backup]\ncheckpoint = \"fast\"\ncompression = \"zstd:1\"\npostgresql_programs = {programs:?}\n"
        );
        std::fs::write(self.path(SETTINGS), text).unwrap();
    }

    /// `restore` into a directory of this name.
    pub(crate) fn restore(&self, name: &str, arguments: &[&str]) -> Output {
        self.restore_command(name, arguments).output().unwrap()
    }

    pub(crate) fn restore_command(&self, name: &str, arguments: &[&str]) -> Command {
        let (directory, repository) = (self.text(name), self.text("repository"));
        let mut command = self.command(self.path("seawall"));
        command.args(["--json", "restore", &directory, "--repository", &repository]).args(arguments);
        command
    }

    /// A cluster that was restored, and has recovered.
    #[track_caller]
    pub(crate) fn restored(&self, name: &'static str, port: u16, arguments: &[&str]) -> Server<'_> {
        succeeds(self.restore(name, arguments));
        self.started(name, port)
    }

    /// A cluster whose files are there, and which has recovered.
    #[track_caller]
    pub(crate) fn started(&self, name: &'static str, port: u16) -> Server<'_> {
        let server = Server::at(self, name, port);
        server.configure("");
        server.start();
        server
    }

    /// What the repository holds of the only system and timeline with this number.
    pub(crate) fn timeline(&self, number: u64) -> Value {
        let output = self.seawall(&["--json", "repo", "info", &self.text("repository")]);
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        let timelines = info["systems"][0]["timelines"].as_array().unwrap();
        timelines.iter().find(|timeline| timeline["timeline"] == number).unwrap().clone()
    }
}

#[track_caller]
pub(crate) fn succeeds(output: Output) -> String {
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    stdout.trim().to_owned()
}

impl<'a> Server<'a> {
    pub(crate) fn at(scene: &'a Scene, name: &'static str, port: u16) -> Server<'a> {
        Server { scene, name, port }
    }

    /// A new cluster that archives into the repository.
    pub(crate) fn create(scene: &'a Scene, repository: &str) -> Server<'a> {
        Server::create_with_options(scene, repository, &[])
    }

    /// One that archives into a repository with these options.
    pub(crate) fn create_with_options(scene: &'a Scene, repository: &str, options: &[&str]) -> Server<'a> {
        succeeds(scene.seawall(&[options, &["repo", "create", repository]].concat()));
        let options = options.chunks(2).map(|pair| pair.join("="));
        let options: Vec<String> =
            [format!("--repository={repository}")].into_iter().chain(options).collect();
        Server::create_with(scene, &options.join(" "))
    }

    /// One whose commands find all that they need in the settings file.
    pub(crate) fn create_with_settings(scene: &'a Scene) -> Server<'a> {
        succeeds(scene.seawall(&["repo", "create"]));
        Server::create_with(scene, "")
    }

    fn create_with(scene: &'a Scene, options: &str) -> Server<'a> {
        let server = Server::at(scene, "primary", 5432);
        let data = scene.text(server.name);
        let arguments = ["-D", &data, "-U", "postgres", "-A", "trust", "-N", "--wal-segsize=1"];
        succeeds(scene.command(scene.programs.join("initdb")).args(arguments).output().unwrap());
        let seawall = scene.text("seawall");
        server.configure(&format!(
            "archive_mode = on\n\
             archive_command = '{seawall} archive-push {options} %p'\n\
             restore_command = '{seawall} archive-get {options} %f %p'\n\
             listen_addresses = ''\n\
             unix_socket_directories = '{}'\n\
             fsync = off\nsynchronous_commit = off\nmax_wal_size = 64MB\nmin_wal_size = 4MB\nhot_standby = off\n",
            scene.directory.path().display()
        ));
        server.start();
        server
    }

    pub(crate) fn configure(&self, lines: &str) {
        use std::io::Write;
        let path = self.scene.path(self.name).join("postgresql.conf");
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        writeln!(file, "port = {}\n{lines}", self.port).unwrap();
    }

    pub(crate) fn control(&self, arguments: &[&str]) -> Output {
        let (data, log) = (self.scene.text(self.name), self.scene.text(&format!("{}.log", self.name)));
        let mut command = self.scene.command(self.scene.programs.join("pg_ctl"));
        command.args(["-D", &data, "-l", &log, "-w", "-t", "300"]).args(arguments);
        // Its server keeps what it inherits open.
        command.stdout(Stdio::null()).output().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.scene.path(&format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Starts it, and waits until its recovery has ended.
    #[track_caller]
    pub(crate) fn start(&self) {
        let output = self.control(&["start"]);
        assert!(output.status.success(), "{}", self.log());
        self.wait_for_recovery();
    }

    #[track_caller]
    pub(crate) fn wait_for_recovery(&self) {
        let asked = || self.tool("psql", &["-qAtX", "-c", "select pg_is_in_recovery()"]).output().unwrap();
        wait_until_within(FIVE_MINUTES, "the recovery of a server to end", || {
            let has_ended = asked().stdout == b"f\n";
            assert!(has_ended || self.control(&["status"]).status.success(), "{}", self.log());
            has_ended
        });
    }

    /// The archiver archives all that is left before it ends.
    #[track_caller]
    pub(crate) fn stop(&self) {
        let output = self.control(&["stop", "-m", "fast"]);
        assert!(output.status.success(), "{}", self.log());
    }

    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.scene.command(self.scene.programs.join(program));
        command.env("PGPORT", self.port.to_string()).args(arguments);
        command
    }

    #[track_caller]
    pub(crate) fn sql(&self, text: &str) -> String {
        succeeds(self.tool("psql", &["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", text]).output().unwrap())
    }

    /// `count` transactions of pgbench.
    #[track_caller]
    pub(crate) fn load(&self, count: u32) {
        let count = count.to_string();
        succeeds(self.tool("pgbench", &["-n", "-c", "2", "-t", &count]).output().unwrap());
    }

    pub(crate) fn load_in_background(&self) -> Child {
        let mut command = self.tool("pgbench", &["-n", "-c", "2", "-T", "300"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn segment(&self) -> String {
        self.sql("select pg_walfile_name(pg_current_wal_lsn())")
    }

    /// `backup` of this cluster.
    pub(crate) fn try_back_up(&self, arguments: &[&str]) -> Output {
        self.back_up_command(arguments).output().unwrap()
    }

    pub(crate) fn back_up_command(&self, arguments: &[&str]) -> Command {
        let (programs, repository) =
            (self.scene.programs.display().to_string(), self.scene.text("repository"));
        let connection = format!("port={}", self.port);
        let mut command = self.scene.command(self.scene.path("seawall"));
        command.args(["--json", "backup", "--postgresql", &connection, "--checkpoint", "fast"]);
        command.args(["--repository", &repository, "--postgresql-programs", &programs]).args(arguments);
        command
    }

    /// As `try_back_up`, while the test goes on.
    pub(crate) fn back_up_in_background(&self, arguments: &[&str]) -> Child {
        let mut command = self.back_up_command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[track_caller]
    pub(crate) fn back_up(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&succeeds(self.try_back_up(arguments))).unwrap()
    }

    pub(crate) fn now(&self) -> String {
        self.sql("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    }

    pub(crate) fn position(&self) -> String {
        self.sql("select pg_current_wal_lsn()")
    }

    /// The process that the first line of this file of the data directory names.
    pub(crate) fn kill(&self) {
        let pid = std::fs::read_to_string(self.scene.path(self.name).join("postmaster.pid")).unwrap();
        kill(pid.lines().next().unwrap());
    }

    /// Ends the agents of the scene, if there are any; with their uploads.
    pub(crate) fn kill_agent(&self) {
        kill_agents(&self.scene.text("spool"));
    }

    /// `archive-push` of a file of this data directory, by hand.
    pub(crate) fn push(&self, path: &str) -> Output {
        let mut command = self.scene.command(self.scene.path("seawall"));
        let repository = self.scene.text("repository");
        command.current_dir(self.scene.path(self.name)).env("SEAWALL_REPOSITORY", repository);
        command.args(["archive-push", path]).output().unwrap()
    }

    pub(crate) fn stop_agent(&self) {
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

pub(crate) fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
}

#[track_caller]
pub(crate) fn fails(output: &Output, code: i32, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
}
