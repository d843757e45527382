//! Backups of a database on another machine, over SFTP: taken, listed, verified, expired and restored.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

#[path = "../../archive/repository/tests/common/sshd.rs"]
mod sshd;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use sshd::Sshd;

struct Scene {
    directory: tempfile::TempDir,
    server: Sshd,
}

impl Scene {
    fn run(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_seawall"))
            .args(words.split(' '))
            .current_dir(self.directory.path())
            .env("SEAWALL_REPOSITORY", self.server.url("backups"))
            .env("SEAWALL_CONFIG", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

#[test]
fn a_database_is_backed_up_on_another_machine_and_restored() {
    let Some(server) = Sshd::start() else { return };
    let scene = Scene { directory: tempfile::tempdir().unwrap(), server };
    scene.ok("repo create");
    let checked = scene.ok("repo check");
    assert!(!checked.is_empty());
    scene.ok("init db");
    scene.ok("create db accounts");
    for round in 0..3 {
        for account in 0..20 {
            scene.ok(&format!("put db accounts account-{account} {round}"));
        }
        scene.ok("backup db");
    }
    let listed = scene.ok("backup list");
    assert!(listed.lines().count() >= 3, "{listed}");
    scene.ok("verify --full");
    scene.ok("expire --keep-count 1 --keep-recent 0s");
    assert!(scene.ok("backup list").lines().count() < listed.lines().count());
    scene.ok("verify --full");
    scene.ok("restore copy");
    assert_eq!(scene.ok("get copy accounts account-7"), "2");
    scene.ok("drill");
    // A backup that cannot be read any more is damage, over the network too.
    let damaged = largest_object(&scene.server.files("backups")).unwrap();
    let mut content = std::fs::read(&damaged).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(&damaged, content).unwrap();
    assert_eq!(scene.run("verify --full").status.code(), Some(4), "{}", damaged.display());
}

/// The largest file below a directory.
fn largest_object(directory: &Path) -> Option<std::path::PathBuf> {
    let mut largest: Option<(u64, std::path::PathBuf)> = None;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::metadata(&path).unwrap();
            match metadata.is_dir() {
                true => directories.push(path),
                false if largest.as_ref().is_none_or(|(bytes, _)| *bytes < metadata.len()) => {
                    largest = Some((metadata.len(), path));
                }
                false => {}
            }
        }
    }
    largest.map(|(_, path)| path)
}
