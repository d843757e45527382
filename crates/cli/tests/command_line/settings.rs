//! The settings file, as commands read it; and what they show of it.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{Scratch, json_lines};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A scratch directory with a settings file, which the variable names.
fn with_settings(text: &str) -> Scratch {
    let scratch = Scratch::new();
    set(&scratch, text);
    scratch
}

/// `HERE` stands for the directory.
fn set(scratch: &Scratch, text: &str) {
    let here = scratch.path("").display().to_string();
    scratch.write("seawall.toml", text.replace("HERE", here.trim_end_matches('/')).as_bytes());
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(scratch.path("seawall.toml"), mode).unwrap();
}

fn run(scratch: &Scratch, environment: &[(&str, &str)], words: &str) -> (i32, String, String) {
    let mut command = scratch.command(words.split(' '));
    command.env("SEAWALL_CONFIG", scratch.path("seawall.toml")).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn ok(scratch: &Scratch, words: &str) -> String {
    let (code, stdout, stderr) = run(scratch, &[], words);
    assert_eq!(code, 0, "{words}: {stdout}{stderr}");
    stdout
}

#[test]
fn a_whole_life_of_a_repository_needs_no_options_beside_the_file() {
    let scratch = with_settings(
        "repository = \"HERE/archive\"\nmaster_key_file = \"HERE/key\"\n\
         [backup]\ncompression = \"zstd:1\"\nthreads = 1\n[restore]\nthreads = 1\n[verify]\nthreads = 1\n\
         [expire]\nkeep_count = 1\n[drill]\nscratch = \"HERE/scratch\"\nprometheus_file = \"HERE/drill.prom\"\n\
         [database]\nmaster_key_file = \"HERE/other\"\nmemtable_mib = 16\ncache_mib = 16\n",
    );
    std::fs::create_dir(scratch.path("scratch")).unwrap();
    for (name, key) in [("key", KEY.to_owned()), ("other", KEY.chars().rev().collect())] {
        scratch.write(name, key.as_bytes());
        std::fs::set_permissions(scratch.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    ok(&scratch, "repo create");
    ok(&scratch, "init db --encrypt");
    ok(&scratch, "create db t");
    ok(&scratch, "put db t a 1");
    for words in ["backup db", "backup list", "repo info", "repo check", "verify", "expire", "drill"] {
        ok(&scratch, words);
    }
    ok(&scratch, "restore copy");
    assert_eq!(ok(&scratch, "get copy t a"), "1\n");
    assert!(
        scratch.path("drill.prom").is_file()
            && std::fs::read_dir(scratch.path("scratch")).unwrap().count() == 0
    );
    let info: Value = serde_json::from_str(&ok(&scratch, "repo info --json")).unwrap();
    assert_eq!(info["encrypted"], true);
    // Each has the key of its own: the repository does not open with that of the database.
    let (code, _, said) = run(&scratch, &[], "repo info --master-key-file other");
    assert_eq!(code, 9, "{said}");
}

#[test]
fn an_option_comes_before_a_variable_and_a_variable_before_the_file() {
    let scratch = with_settings("repository = \"HERE/of-the-file\"\n");
    for name in ["of-the-file", "of-the-variable", "of-the-option"] {
        scratch.ok(["repo", "create", name]);
    }
    let variable = scratch.path("of-the-variable").display().to_string();
    let variable = [("SEAWALL_REPOSITORY", variable.as_str())];
    for (environment, words, expected) in [
        (&[][..], "repo info --json", "of-the-file"),
        (&variable, "repo info --json", "of-the-variable"),
        (&variable, "repo info --json --repository of-the-option", "of-the-option"),
        (&variable, "repo info --json of-the-option", "of-the-option"),
    ] {
        let (code, answer, said) = run(&scratch, environment, words);
        assert_eq!(code, 0, "{said}");
        assert!(answer.contains(&format!("/{expected}\"")), "{words}: {answer}");
    }
    // An option for the file comes before the variable; nothing of a file that is not read counts.
    let (code, _, said) = run(&scratch, &[], "repo info --config /dev/null");
    assert_eq!(code, 2);
    assert!(said.contains("--repository") && said.contains("seawall.toml"), "{said}");
}

#[test]
fn several_repositories_in_the_file_are_refused_by_commands_for_one() {
    let scratch = with_settings("# two\nrepository = [\"HERE/a\", \"HERE/b\"]\n[expire]\nkeep_count = 1\n");
    scratch.ok(["repo", "create", "a"]);
    scratch.ok(["repo", "create", "b"]);
    for words in ["repo info", "restore nowhere", "backup list", "drill"] {
        let (code, _, said) = run(&scratch, &[], words);
        assert_eq!(code, 2, "{words}: {said}");
        assert!(said.contains("seawall.toml, line 2") && said.contains("--repository"), "{said}");
    }
    assert_eq!(ok(&scratch, "verify --json").lines().count(), 2);
    ok(&scratch, "expire");
}

/// A mistake in what one command reads is told by all.
#[test]
fn a_file_with_a_mistake_is_refused_by_every_command() {
    let scratch = with_settings("[drill]\nscrath = \"/tmp\"\n");
    for words in
        ["init db", "settings", "info db", "repo info", "backup db", "restore db", "verify", "expire"]
    {
        let (code, answer, said) = run(&scratch, &[], words);
        assert_eq!((code, answer.as_str()), (2, ""), "{words}: {said}");
        for word in ["seawall.toml, line 2", "scrath", "did you mean scratch?"] {
            assert!(said.contains(word), "{words}: {said}");
        }
    }
    let (_, _, said) = run(&scratch, &[], "settings --json");
    assert_eq!(json_lines(&said)[0]["exit_code"], 2);
    let (code, _, said) = run(&scratch, &[], "settings --config nowhere.toml");
    assert_eq!(code, 2);
    assert!(said.contains("nowhere.toml"), "{said}");
}

#[test]
fn settings_are_shown_with_their_places_and_without_secrets() {
    let scratch = with_settings(
        "repository = [\"s3://wal/main\", \"/srv/archive\"]\nmaster_key_command = \"echo hunter2\"\n\
         [archive]\nqueue_max = \"1GiB\"\n[database]\ncache_mib = 7\n[credentials]\nAWS_SECRET_ACCESS_KEY = \"hunter2\"\n",
    );
    let environment = [("SEAWALL_EXPIRE_KEEP_COUNT", "7"), ("AWS_SESSION_TOKEN", "hunter2")];
    let (code, answer, said) = run(&scratch, &environment, "settings --json --memtable-mib 9");
    assert_eq!((code, said.as_str()), (0, ""));
    let lines = json_lines(&answer);
    let of = |name: &str| {
        lines.iter().find(|line| line["setting"] == name).unwrap_or_else(|| panic!("{name}: {answer}"))
    };
    for (name, values, from, place) in [
        ("repository", &["s3://wal/main", "/srv/archive"][..], "file", "seawall.toml, line 1"),
        ("master_key_command", &[], "file", "seawall.toml, line 2"),
        ("archive.queue_max", &["1GiB"], "file", "seawall.toml, line 4"),
        ("archive.in_flight", &["32"], "default", "default"),
        ("archive.optional_repository", &[], "default", "default"),
        ("expire.keep_count", &["7"], "environment", "SEAWALL_EXPIRE_KEEP_COUNT"),
        ("database.cache_mib", &["7"], "file", "seawall.toml, line 6"),
        ("database.memtable_mib", &["9"], "option", "--memtable-mib"),
        ("credentials.AWS_SECRET_ACCESS_KEY", &[], "file", "seawall.toml, line 8"),
        ("credentials.AWS_SESSION_TOKEN", &[], "environment", "AWS_SESSION_TOKEN"),
    ] {
        let line = of(name);
        assert_eq!(line["values"], Value::from(values), "{line}");
        assert_eq!(line["from"], from, "{line}");
        assert!(line["place"].as_str().unwrap().ends_with(place), "{line}");
    }
    for name in ["master_key_command", "credentials.AWS_SECRET_ACCESS_KEY", "credentials.AWS_SESSION_TOKEN"] {
        assert_eq!(of(name)["hidden"], true);
    }
    let (_, text, _) = run(&scratch, &environment, "settings");
    assert!(text.contains("archive.queue_max") && text.contains("1GiB"), "{text}");
    assert!(!answer.contains("hunter2") && !text.contains("hunter2"), "{answer}{text}");
}

#[test]
fn credentials_that_everybody_may_read_are_warned_of() {
    let scratch = with_settings("[credentials]\nAWS_SECRET_ACCESS_KEY = \"hunter2\"\n");
    assert_eq!(run(&scratch, &[], "settings").2, "");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(scratch.path("seawall.toml"), mode).unwrap();
    let (code, _, said) = run(&scratch, &[], "settings");
    assert_eq!(code, 0);
    assert!(said.contains("chmod o-rwx") && !said.contains("hunter2"), "{said}");
}
