//! Drills: a backup and the log behind it are recovered by a server that nobody else sees, and asked.

use std::os::unix::fs::chown;
use std::process::{Command, Output, Stdio};

use seawall_testing::{Need, wait_until_within};
use serde_json::Value;

use crate::FIVE_MINUTES;
use crate::scene::{ACCOUNTS, Scene, Server, fails, succeeds};

impl Scene {
    /// A scene in which drills have a directory of their own.
    pub(crate) fn for_drills() -> Option<Scene> {
        let scene = Scene::new()?;
        std::fs::create_dir(scene.path("scratch")).unwrap();
        if let Some((user, group)) = scene.user {
            chown(scene.path("scratch"), Some(user), Some(group)).unwrap();
        }
        Some(scene)
    }

    pub(crate) fn drill_command(&self, arguments: &[&str]) -> Command {
        let (repository, scratch) = (self.text("repository"), self.text("scratch"));
        let programs = self.programs.display().to_string();
        let mut command = self.command(self.path("seawall"));
        command.args(["--json", "drill", "--repository", &repository, "--scratch", &scratch]);
        if !arguments.contains(&"--postgresql-programs") {
            command.args(["--postgresql-programs", &programs]);
        }
        command.args(arguments);
        // Those of the server that is archived: nothing may lead there.
        command.env("PGPORT", "5432");
        command
    }

    pub(crate) fn try_drill(&self, arguments: &[&str]) -> Output {
        self.drill_command(arguments).output().unwrap()
    }

    #[track_caller]
    fn drill(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&succeeds(self.try_drill(arguments))).unwrap()
    }

    /// Nothing is left of a drill, no server either.
    #[track_caller]
    pub(crate) fn is_swept(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path("scratch")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(self.processes(), [""; 0], "a process is left");
    }

    /// Those of drills: they name the directory, or are at home in it.
    fn processes(&self) -> Vec<String> {
        let scratch = self.text("scratch");
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let lines = processes.filter_map(|process| {
            let line =
                String::from_utf8_lossy(&std::fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
            let home = std::fs::read_link(process.join("cwd")).unwrap_or_default();
            (line.contains(&scratch) || home.starts_with(&scratch)).then_some(line)
        });
        lines.collect()
    }
}

#[test]
fn a_drill_recovers_a_cluster_reads_all_of_it_and_leaves_nothing() {
    let Some(scene) = Scene::for_drills() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q"]).output().unwrap());
    let backup = primary.back_up(&[]);
    primary.load(300);
    let (rows, position) = (primary.sql(ACCOUNTS), primary.position());
    primary.sql("select pg_create_restore_point('here')");
    primary.sql("create database \"an other = 'one'\"");
    primary.load(300);
    primary.stop();
    let before = scene.seawall(&["repo", "ls", &scene.text("repository")]).stdout;

    let file = scene.text("drill.prom");
    let report = scene.drill(&["--prometheus-file", &file]);
    assert_eq!((&report["ok"], &report["backup"]), (&Value::Bool(true), &backup["backup"]), "{report}");
    assert_eq!(report["checked_databases"], 3, "{report}");
    assert!(report["checked_tables"].as_u64() > Some(200), "{report}");
    assert!(report["checked_rows"].as_u64() > Some(100_000), "{report}");
    for phase in ["fetch", "replay", "check"] {
        assert!(report["phases_seconds"][phase].as_f64() > Some(0.0), "{report}");
    }
    assert!(report["recovery_seconds"].as_f64() > Some(0.0), "{report}");
    let metrics = std::fs::read_to_string(&file).unwrap();
    assert!(
        metrics.contains("seawall_drill_success 1\n") && metrics.contains("phase=\"replay\""),
        "{metrics}"
    );
    scene.is_swept();

    // To a place, with a query.
    for target in [["--to-lsn", &position], ["--to-name", "here"]] {
        let report = scene.drill(&[&target[..], &["--query", ACCOUNTS]].concat());
        assert_eq!((&report["answer"], &report["ok"]), (&Value::from(rows.clone()), &Value::Bool(true)));
        assert_eq!(report["checked_tables"], 0);
    }
    let output = scene.try_drill(&["--query", "select * from nowhere"]);
    fails(&output, 4, &["1 damages"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["damages"][0].as_str().unwrap().contains("nowhere"), "{report}");
    scene.is_swept();
    let after = scene.seawall(&["repo", "ls", &scene.text("repository")]).stdout;
    assert_eq!(before, after, "a drill leaves nothing in the repository");
}

#[test]
fn a_drill_that_fails_says_why_and_leaves_nothing() {
    let Some(scene) = Scene::for_drills() else { return };
    let key = scene.make_key();
    let with_key = ["--master-key-file", &key];
    let primary = Server::create_with_options(&scene, &scene.text("repository"), &with_key);
    primary.sql("create table t as select generate_series(1, 1000) n");
    let backup = primary.back_up(&with_key);
    primary.sql("insert into t select generate_series(1, 1000)");
    let segment = primary.segment();
    primary.sql("select pg_switch_wal()");
    primary.sql("insert into t select generate_series(1, 1000)");
    let damaged = primary.segment();
    primary.sql("select pg_switch_wal()");
    primary.sql("insert into t select generate_series(1, 1000)");
    primary.stop();
    assert_eq!(
        scene.drill(&[&with_key[..], &["--query", "select count(*) from t"]].concat())["answer"],
        "4000"
    );

    let file = scene.text("drill.prom");
    let drill = |arguments: &[&str]| {
        let output = scene.try_drill(&[&with_key[..], &["--prometheus-file", &file], arguments].concat());
        scene.is_swept();
        let metrics = std::fs::read_to_string(&file).unwrap();
        assert!(metrics.contains("seawall_drill_success 0\n"), "{metrics}");
        output
    };
    fails(
        &drill(&["--postgresql-setting", "shared_buffers=plenty"]),
        1,
        &["shared_buffers", "Its log ends with"],
    );
    fails(&drill(&["--postgresql-programs", "/nowhere"]), 1, &["there is none in /nowhere"]);
    fails(&drill(&["--recovery-timeout", "0s"]), 1, &["has not recovered within 0 s"]);
    let forever = ["--query", "select pg_sleep(3600)", "--check-timeout", "1s"];
    fails(&drill(&forever), 1, &["database postgres", "longer than 1 s"]);
    fails(&drill(&["--restore-command", "echo the store is gone; exit 126"]), 1, &["the store is gone"]);
    fails(&drill(&["--system", "postgresql-1"]), 3, &["none of this cluster"]);
    // What the repository has lost, or what has rotted in it.
    let system = scene.path("repository").join(backup["system"].as_str().unwrap());
    let log = system.join("log/00000001/00000000");
    let good = std::fs::read(log.join(&damaged)).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(log.join(&damaged), bad).unwrap();
    fails(&drill(&[]), 1, &["did not work on what was restored", &damaged, "damaged"]);
    std::fs::write(log.join(&damaged), good).unwrap();
    std::fs::rename(log.join(&segment), scene.path("lost")).unwrap();
    fails(&drill(&[]), 3, &["there is a gap", &segment]);
}

/// A page that cannot be read is found, also where nothing asks for its rows.
#[test]
fn a_drill_reads_every_page() {
    let Some(scene) = Scene::for_drills() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    primary.sql("create table t as select generate_series(1, 1000) n");
    let file = primary.sql("select pg_relation_filepath('t')");
    primary.stop();
    let path = scene.path("primary").join(&file);
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    // The header of the first page, behind the place in the log and the checksum.
    bad[10..20].fill(0xFF);
    std::fs::write(&path, bad).unwrap();
    primary.start();
    // Left from an earlier rescue: it makes a page that cannot be read an empty one.
    primary.sql("alter role postgres set zero_damaged_pages = on");
    primary.back_up(&[]);
    primary.stop();
    let output = scene.try_drill(&[]);
    fails(&output, 4, &["1 damages"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let damage = report["damages"][0].as_str().unwrap();
    assert!(damage.contains("invalid page") && damage.contains("count(*) from public.t"), "{report}");
    assert_eq!((&report["ok"], &report["checked_pages"]), (&Value::Bool(false), &Value::Null), "{report}");
    scene.is_swept();

    std::fs::write(&path, good).unwrap();
    succeeds(primary.tool("pg_checksums", &["--enable", "-D", &scene.text("primary")]).output().unwrap());
    primary.start();
    // As on Debian, where they lie elsewhere.
    for name in ["postgresql.conf", "pg_hba.conf", "pg_ident.conf"] {
        std::fs::remove_file(scene.path("primary").join(name)).unwrap();
    }
    primary.back_up(&[]);
    primary.stop();
    let report = scene.drill(&["--keep"]);
    assert!(report["checked_pages"].as_u64() > Some(500), "{report}");
    let kept = std::path::Path::new(report["kept"].as_str().unwrap());
    assert!(kept.join("data").join(&file).is_file());
    std::fs::remove_dir_all(kept).unwrap();
    scene.is_swept();
}

#[test]
fn a_drill_that_root_starts_runs_postgresql_as_somebody_else() {
    let Some(scene) = Scene::for_drills() else { return };
    if scene.user.is_none() {
        Need::Root.skip("a drill that changes its user");
        return;
    }
    let primary = Server::create(&scene, &scene.text("repository"));
    primary.back_up(&[]);
    primary.stop();
    let (repository, scratch) = (scene.text("repository"), scene.text("scratch"));
    let drill = |user: &str| {
        let mut command = Command::new(scene.path("seawall"));
        command.args([
            "drill",
            "--repository",
            &repository,
            "--scratch",
            &scratch,
            "--postgresql-user",
            user,
        ]);
        let output = command.current_dir("/").output().unwrap();
        scene.is_swept();
        output
    };
    let shown = succeeds(drill("postgres"));
    assert!(shown.contains("time to recover") && shown.contains("no damage found"), "{shown}");
    fails(&drill("root"), 1, &["does not run as root", "root is root, too"]);
    fails(&drill("no-such-user"), 1, &["no-such-user is not a user here"]);
}

/// It is nobody's primary and nobody's standby, and has not what the cluster's libraries need.
#[test]
fn a_drill_waits_for_no_standby_and_no_delay_and_loads_no_library() {
    let Some(scene) = Scene::for_drills() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    primary.sql("alter database template1 set session_preload_libraries = 'nowhere'");
    primary.sql("alter database template1 set local_preload_libraries = 'nowhere'");
    // It has read its file already.
    primary.configure(
        "synchronous_standby_names = 'nobody'\nrecovery_min_apply_delay = '1h'\n\
         session_preload_libraries = 'nowhere'\nlocal_preload_libraries = 'nowhere'",
    );
    primary.back_up(&[]);
    primary.sql("create table t as select generate_series(1, 1000) n");
    primary.stop();
    let report = scene.drill(&["--recovery-timeout", "120s"]);
    assert_eq!(
        (&report["ok"], &report["checked_databases"]),
        (&Value::Bool(true), &Value::from(2)),
        "{report}"
    );
    let query = "set synchronous_commit = on; insert into t select 0; select count(*) from t";
    assert_eq!(scene.drill(&["--query", query, "--check-timeout", "120s"])["answer"], "1001");
    scene.is_swept();
}

/// The directory stays.
#[test]
fn a_drill_that_a_signal_ends_leaves_no_process() {
    let Some(scene) = Scene::for_drills() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    primary.back_up(&[]);
    primary.stop();
    let here = scene.text("here");
    let query = format!("copy (select 1) to '{here}'; select pg_sleep(3600)");
    let restore_command = format!("echo > {here}; sleep 3600");
    for signal in ["-TERM", "-KILL"] {
        for arguments in [["--query", &query], ["--restore-command", &restore_command]] {
            let mut command = scene.drill_command(&arguments);
            let mut drill = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            wait_until_within(FIVE_MINUTES, "the drill", || {
                assert_eq!(drill.try_wait().unwrap(), None);
                scene.path("here").exists()
            });
            assert!(!scene.processes().is_empty());
            let process = drill.id().to_string();
            assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
            drill.wait().unwrap();
            wait_until_within(FIVE_MINUTES, "the end of its processes", || scene.processes().is_empty());
            for left in std::fs::read_dir(scene.path("scratch")).unwrap() {
                std::fs::remove_dir_all(left.unwrap().path()).unwrap();
            }
            std::fs::remove_file(scene.path("here")).unwrap();
        }
    }
}
