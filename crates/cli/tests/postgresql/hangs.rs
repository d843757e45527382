//! Servers and programs that hang: what waits for them gives up.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use seawall_testing::{wait_until, wait_until_within};

use crate::FIVE_MINUTES;
use crate::scene::{Scene, Server, fails, succeeds};

/// A process that does nothing until this is dropped.
struct Stopped(String);

impl Stopped {
    fn stop(process: &str) -> Stopped {
        signal("-STOP", process);
        Stopped(process.to_owned())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(name: &str, process: &str) {
    let status = Command::new("kill").args([name, process]).status().unwrap();
    // A panic while another one unwinds would hide that one.
    assert!(status.success() || std::thread::panicking(), "{name} {process}");
}

/// What a command writes that must end.
#[track_caller]
fn ends(command: &mut Command, meanwhile: impl FnOnce()) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    meanwhile();
    wait_until_within(FIVE_MINUTES, "a command that waits for a program that hangs", || {
        child.try_wait().unwrap().is_some()
    });
    child.wait_with_output().unwrap()
}

#[test]
fn a_backup_of_a_server_that_hangs_is_given_up() {
    let Some(scene) = Scene::new() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    succeeds(primary.tool("pgbench", &["-i", "-q", "-s", "3"]).output().unwrap());

    let mut stopped = None;
    let mut backup = primary.back_up_command(&["--rate", "1", "--answer-timeout", "10"]);
    let output = ends(&mut backup, || {
        wait_until("the files to be read", || {
            let is_read = "select count(*) from pg_stat_progress_basebackup where backup_streamed > 1 << 20";
            primary.sql(is_read) == "1"
        });
        stopped = Some(Stopped::stop(&primary.sql("select pid from pg_stat_progress_basebackup")));
    });
    fails(&output, 1, &["pg_basebackup failed", "has sent nothing more within 10 s", "--answer-timeout"]);
    drop(stopped);

    let pid = std::fs::read_to_string(scene.path(primary.name).join("postmaster.pid")).unwrap();
    let stopped = Stopped::stop(pid.lines().next().unwrap());
    let mut backup = primary.back_up_command(&[]);
    let output = ends(backup.env("SEAWALL_BACKUP_ANSWER_TIMEOUT", "10"), || {});
    fails(&output, 1, &["psql failed"]);
    drop(stopped);
    primary.back_up(&["--answer-timeout", "60"]);
}

#[test]
fn a_drill_gives_up_a_look_at_pages_that_does_not_end() {
    let Some(scene) = Scene::for_drills() else { return };
    let primary = Server::create(&scene, &scene.text("repository"));
    primary.stop();
    succeeds(primary.tool("pg_checksums", &["--enable", "-D", &scene.text("primary")]).output().unwrap());
    primary.start();
    primary.back_up(&[]);
    primary.stop();
    let programs = scene.path("programs");
    std::fs::create_dir(&programs).unwrap();
    for name in ["postgres", "psql", "pg_checksums"] {
        let script = match name {
            "pg_checksums" => "#!/bin/sh\nexec sleep 3600\n".to_owned(),
            name => format!("#!/bin/sh\nexec {} \"$@\"\n", scene.programs.join(name).display()),
        };
        let path = programs.join(name);
        // Another process writes it: what is open for writing here could be so in a child of another test, and cannot be run then.
        let written =
            Command::new("sh").args(["-c", "printf %s \"$1\" > \"$0\""]).arg(&path).arg(script).status();
        assert!(written.unwrap().success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let programs = programs.display().to_string();
    let mut drill = scene.drill_command(&["--postgresql-programs", &programs, "--check-timeout", "20s"]);
    fails(&ends(&mut drill, || {}), 1, &["pg_checksums", "took longer than 20 s"]);
    scene.is_swept();
}
