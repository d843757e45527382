//! `repo`, and what other commands do with a repository that is not what was asked for.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const KEYS: [(&str, &str); 3] = [
    ("one.key", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
    ("two.key", "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
    ("three.key", "e00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
];

/// A directory with master keys.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { directory: tempfile::tempdir().unwrap() };
        for (name, key) in KEYS {
            std::fs::write(scene.path(name), key).unwrap();
            std::fs::set_permissions(scene.path(name), PermissionsExt::from_mode(0o600)).unwrap();
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_seawall"))
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("SEAWALL_REPOSITORY")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that fails with `code`.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The same, with a master key.
    fn with_key<'a>(&self, key: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["--master-key-file", key][..], arguments].concat()
    }
}

/// Whoever gives a master key wants encryption: a repository that is not encrypted, by mistake or because somebody has replaced what
/// it says of itself, is neither written to nor believed.
#[test]
fn a_command_with_a_master_key_does_nothing_with_a_plain_repository() {
    let scene = Scene::new();
    scene.ok(&["repo", "create", "plain"]);
    scene.ok(&["init", "db"]);
    for command in [
        &["backup", "--postgresql", "host=/nowhere"][..],
        &["backup", "db"],
        &["backup", "list"],
        &["restore", "restored"],
        &["verify"],
        &["expire", "--keep-count", "1"],
        &["drill"],
        &["repo", "info"],
        &["repo", "check"],
        &["repo", "ls"],
        &["repo", "rotate-key", "--new-master-key-file", "two.key"],
    ] {
        let arguments = [command, &["--repository", "plain"]].concat();
        let message = scene.fails(9, &scene.with_key("one.key", &arguments));
        assert!(message.contains("not encrypted") && message.contains("plain"), "{command:?}: {message}");
    }
    assert_eq!(scene.ok(&["repo", "ls", "plain"]).lines().count(), 1, "nothing was put there");
    assert!(!scene.path("restored").exists());
}

#[test]
fn a_repository_that_was_made_plain_by_its_header_is_refused() {
    let scene = Scene::new();
    scene.ok(&scene.with_key("one.key", &["repo", "create", "sealed"]));
    scene.ok(&["repo", "create", "plain"]);
    std::fs::copy(scene.path("plain/seawall-repository"), scene.path("sealed/seawall-repository")).unwrap();
    for command in ["info", "ls", "check"] {
        let message = scene.fails(9, &scene.with_key("one.key", &["repo", command, "sealed"]));
        assert!(message.contains("replaced"), "{message}");
    }
}

#[test]
fn master_keys_are_changed_and_nobody_who_is_kept_is_left_without_a_key() {
    let scene = Scene::new();
    let rotate = |key, more: &[&'static str]| {
        scene.with_key(key, &[&["repo", "rotate-key", "sealed", "--new-master-key-file"][..], more].concat())
    };
    let keys = |key| {
        let info = scene.ok(&scene.with_key(key, &["--json", "repo", "info", "sealed"]));
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        info["master_keys"].as_array().unwrap().len()
    };
    scene.ok(&scene.with_key("one.key", &["repo", "create", "sealed"]));
    scene.ok(&rotate("one.key", &["two.key", "--keep-others"]));
    assert_eq!((keys("one.key"), keys("two.key")), (2, 2));
    let message = scene.fails(9, &rotate("one.key", &["three.key", "--keep-others", "--renew"]));
    assert!(message.contains("to be kept"), "{message}");
    assert_eq!((keys("one.key"), keys("two.key")), (2, 2));
    scene.fails(9, &rotate("three.key", &["three.key"]));
    scene.ok(&rotate("two.key", &["three.key", "--renew"]));
    scene.fails(9, &scene.with_key("one.key", &["repo", "info", "sealed"]));
    scene.fails(9, &scene.with_key("two.key", &["repo", "info", "sealed"]));
    assert_eq!(keys("three.key"), 1);
}

#[test]
fn all_objects_are_listed() {
    let scene = Scene::new();
    scene.ok(&["repo", "create", "r"]);
    scene.ok(&["init", "db"]);
    scene.ok(&["create", "db", "t"]);
    scene.ok(&["put", "db", "t", "k", "v"]);
    scene.ok(&["backup", "db", "--repository", "r"]);
    // A name that would turn the terminal's letters red, and end the line.
    std::fs::write(scene.path("r").join("\u{1b}[31m\nred"), b"x").unwrap();
    let listed = scene.ok(&["repo", "ls", "r"]);
    for part in [
        "seawall-repository  repository",
        "/manifest  part of a backup",
        "  log tail",
        "red  unknown, 1 bytes",
    ] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!listed.contains('\u{1b}'), "{listed}");
    let long = scene.ok(&["repo", "ls", "r", "--long"]);
    assert!(long.contains("backup manifest") && long.lines().count() == listed.lines().count(), "{long}");
    let lines = scene.ok(&["--json", "repo", "ls", "r"]);
    let sizes = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut stored = 0;
    for line in sizes {
        let path = scene.path("r").join(line["path"].as_str().unwrap());
        assert_eq!(line["object_bytes"], std::fs::metadata(path).unwrap().len());
        stored += 1;
    }
    assert_eq!(stored, listed.lines().count());
    // One that is damaged hides nothing of the others.
    let tail = listed.lines().find(|line| line.ends_with("bytes") && line.contains("log tail")).unwrap();
    let path = scene.path("r").join(tail.split("  ").next().unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = scene.run(&["repo", "ls", "r", "--long"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let damaged = String::from_utf8(output.stdout).unwrap();
    assert_eq!(damaged.lines().count(), long.lines().count(), "{damaged}");
    assert_eq!(damaged.lines().filter(|line| line.contains("DAMAGED")).count(), 1, "{damaged}");
}

#[test]
fn directories_above_a_repository_are_not_closed_to_others() {
    let scene = Scene::new();
    scene.ok(&["repo", "create", "above/it/repository"]);
    let mode = |path: &str| std::fs::metadata(scene.path(path)).unwrap().permissions().mode() & 0o777;
    std::fs::create_dir(scene.path("as-the-mask-says")).unwrap();
    let expected = mode("as-the-mask-says");
    assert_eq!([mode("above"), mode("above/it"), mode("above/it/repository")], [expected, expected, 0o700]);
}
