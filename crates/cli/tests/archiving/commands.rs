//! What people and programs see of the archive commands: JSON, warnings, files of statistics.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Output;

use serde_json::Value;

use crate::cluster::{Cluster, code, is_done, message};

fn seawall(cluster: &Cluster, arguments: &[&str]) -> Output {
    // `command` gives the name of the command first, and the settings of the cluster.
    cluster.command(arguments[0], &arguments[1..]).output().unwrap()
}

#[test]
fn json_is_asked_for_before_or_after_the_command() {
    let cluster = Cluster::new(1);
    is_done(&cluster.push(&cluster.log.name(0)));
    for arguments in [["--json", "archive-status"], ["archive-status", "--json"]] {
        let output = seawall(&cluster, &arguments);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["archived"], 1, "{arguments:?}");
    }
    is_done(&seawall(&cluster, &["--json", "archive-push", &format!("pg_wal/{}", cluster.log.name(0))]));
    let output = seawall(&cluster, &["--json", "archive-stop"]);
    is_done(&output);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["stopping"], true, "{answer}");
    assert!(answer["data_directory"].as_str().unwrap().ends_with("/data"), "{answer}");
}

#[test]
fn failures_are_json_where_that_is_asked_for() {
    let cluster = Cluster::new(1);
    for (arguments, expected) in [
        (&["--json", "archive-status"][..], 1),
        (&["archive-status", "--json"], 1),
        (&["archive-stop", "--json"], 1),
        (&["--json", "archive-push", "pg_wal/none"], 1),
        (&["--json", "archive-get", "only one"], 126),
        (&["archive-get", "--json", "--no-such-option"], 126),
    ] {
        let output = seawall(&cluster, arguments);
        assert_eq!(code(&output), expected, "{arguments:?}");
        let said = message(&output);
        let error: Value =
            serde_json::from_str(said.trim()).unwrap_or_else(|_| panic!("{arguments:?}: {said}"));
        assert_eq!(error["exit_code"], expected, "{error}");
        assert!(error["error"].is_string(), "{error}");
    }
}

/// A directory of statistics belongs to the user of whatever reads them: a link there must not lead a more powerful writer elsewhere.
#[test]
fn statistics_are_not_written_through_a_link() {
    let mut cluster = Cluster::new(1);
    let (file, victim) = (cluster.place("seawall.prom"), cluster.place("victim"));
    std::fs::write(&victim, b"precious").unwrap();
    symlink(&victim, cluster.place("seawall.new")).unwrap();
    symlink(&victim, &file).unwrap();
    cluster.options = vec![format!("--prometheus-file={file}")];
    is_done(&cluster.push(&cluster.log.name(0)));
    seawall_testing::wait_until("the statistics", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("seawall_archive_lag_segments"))
    });
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!std::fs::symlink_metadata(&file).unwrap().is_symlink());
}

#[test]
fn secrets_that_everybody_may_read_are_warned_of_when_an_agent_is_started() {
    let mut cluster = Cluster::new(1);
    let file = cluster.place("seawall.toml");
    std::fs::write(&file, b"[credentials]\nAWS_SECRET_ACCESS_KEY = \"hunter2\"\n").unwrap();
    cluster.environment = vec![("SEAWALL_CONFIG", file.clone())];
    let push = |mode| {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let output = cluster.push_other("00000002.history");
        assert_eq!(code(&output), 0, "{}", message(&output));
        message(&output)
    };
    let said = push(0o644);
    assert!(said.contains(&file) && said.contains("chmod") && !said.contains("hunter2"), "{said}");
    assert_eq!(push(0o644), "", "the agent runs: said once, not for each segment");
    is_done(&cluster.run("archive-stop", &[]));
    assert_eq!(push(0o640), "");
    let stopped = cluster.run("archive-stop", &[]);
    is_done(&stopped);
    let answer = String::from_utf8(stopped.stdout).unwrap();
    assert!(answer.contains("/data ends"), "{answer}");
    seawall_testing::wait_until("the agent to end", || {
        crate::agents::agents(&cluster.place("spool")).is_empty()
    });
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    cluster.add("00000003.history", b"1\t0/3000158\tx\n");
    let said = message(&seawall(&cluster, &["--json", "archive-push", "pg_wal/00000003.history"]));
    let warning: Value = serde_json::from_str(said.trim()).unwrap_or_else(|_| panic!("no JSON: {said}"));
    assert!(warning["warning"].as_str().unwrap().contains(&file), "{warning}");
}

#[test]
fn a_master_key_that_others_may_read_is_warned_of_when_an_agent_is_started() {
    let mut cluster = Cluster::without_repository(0);
    let key = cluster.place("master.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    let set = |mode| std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
    set(0o600);
    let created = cluster.run("repo", &["create", &cluster.repository(), "--master-key-file", &key]);
    assert_eq!(code(&created), 0, "{}", message(&created));
    cluster.options = vec![format!("--master-key-file={key}")];
    is_done(&cluster.push_other("00000002.history"));
    is_done(&cluster.run("archive-stop", &[]));
    set(0o644);
    let output = cluster.push_other("00000003.history");
    let said = message(&output);
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains(&key) && said.contains("chmod 600"), "{said}");
}

/// An agent may live for years, and whatever is the matter, its log must not fill the disk.
#[test]
fn a_long_log_of_an_agent_that_runs_is_put_aside() {
    let cluster = Cluster::new(0);
    is_done(&cluster.push_other("00000002.history"));
    let (log, old) = (cluster.spool().join("agent.log"), cluster.spool().join("agent.log.old"));
    std::fs::OpenOptions::new().append(true).open(&log).unwrap().set_len(2 << 20).unwrap();
    seawall_testing::wait_until("the log to be put aside", || old.is_file());
    // What the agent says goes into the new one.
    seawall_testing::wait_until("a word in the new log", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("agent.log.old"))
    });
}

/// Commands that work with one repository do not take a list for a path.
#[test]
fn several_repositories_in_the_variable_are_refused_by_commands_for_one() {
    let cluster = Cluster::new(0);
    cluster.make("second");
    let both = format!("{} {}", cluster.repository(), cluster.place("second"));
    for arguments in
        [&["repo", "info"][..], &["restore", "nowhere"], &["backup", "list"], &["backup", "--postgresql"]]
    {
        let mut command = cluster.command(arguments[0], &arguments[1..]);
        let output = command.env("SEAWALL_REPOSITORY", &both).output().unwrap();
        let said = message(&output);
        assert_eq!(code(&output), 2, "{arguments:?}: {said}");
        assert!(said.contains("SEAWALL_REPOSITORY") && said.contains("--repository"), "{said}");
    }
}

/// Events of the engine reach whoever runs the command.
#[test]
fn events_are_shown_on_standard_error() {
    let cluster = Cluster::without_repository(0);
    let database = cluster.place("database");
    assert_eq!(code(&cluster.run("init", &[&database])), 0);
    // One of the two copies, as a disk may lose it.
    let path = std::path::Path::new(&database).join("superblock");
    let mut superblock = std::fs::read(&path).unwrap();
    superblock[100] ^= 1;
    std::fs::write(&path, superblock).unwrap();
    let run = |words: &[&str], variable: &str| {
        let mut command = cluster.command(words[0], &words[1..]);
        let output = command.env("RUST_LOG", variable).output().unwrap();
        assert_eq!(code(&output), 0, "{}", message(&output));
        message(&output)
    };
    let event = "a copy of the superblock is damaged";
    let said = run(&["info", &database], "");
    assert!(said.starts_with(&format!("seawall: warning: {event}")), "{said}");
    let said = run(&["--json", "info", &database], "");
    let warning: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert!(warning["warning"].as_str().unwrap().contains(event), "{warning}");
    assert_eq!(run(&["info", &database], "error"), "", "RUST_LOG says what is shown");
    assert!(run(&["info", &database], "seawall_engine=warn").contains(event));
    let said = run(&["info", &database], "=;=");
    assert!(said.contains("RUST_LOG") && said.contains(event), "{said}");
    let counted = |words: &[&str]| run(words, "").lines().count();
    assert!(counted(&["-v", "create", &database, "one"]) > counted(&["create", &database, "two"]));
}

/// Wherever the mistake is, and wherever the option stands: to a recovery it never looks like the end of the archive.
#[test]
fn settings_with_a_mistake_archive_nothing_and_end_no_recovery() {
    let cluster = Cluster::new(1);
    let file = cluster.place("seawall.toml");
    std::fs::write(&file, "[expire]\nkeep_cuont = 7\n").unwrap();
    let (path, name) = (format!("pg_wal/{}", cluster.log.name(0)), cluster.log.name(0));
    let option = format!("--config={file}");
    for (arguments, expected) in [
        (&["archive-push", &option, &path][..], 1),
        (&["archive-get", &option, &name, "out"], 126),
        (&["--config", &file, "archive-get", &name, "out"], 126),
        (&[&option, "archive-push", &path], 1),
        (&["archive-get", "--timeout=x", &name, "out"], 126),
    ] {
        let output = seawall(&cluster, arguments);
        let said = message(&output);
        assert_eq!(code(&output), expected, "{arguments:?}: {said}");
        let is_named = said.contains("line 2") && said.contains("keep_count");
        assert!(is_named || said.contains("--timeout"), "{said}");
    }
    assert!(!cluster.path_in_repository(&name).exists());
    // What the file says of archiving counts, and what it says of the rest does not make another agent.
    let with = |more: &str| {
        std::fs::write(&file, format!("[archive]\nin_flight = 7\n{more}")).unwrap();
        let mut command = cluster.command("archive-push", &[&path]);
        command.env("SEAWALL_CONFIG", &file).output().unwrap()
    };
    is_done(&with(""));
    let agent = || crate::agents::agents(&cluster.place("spool"));
    let first = agent();
    assert_eq!(first.len(), 1);
    let mut status = cluster.command("archive-status", &["--json"]);
    let status = status.env("SEAWALL_CONFIG", &file).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["repositories"][0]["in_flight_limit"], 7, "{status}");
    cluster.add("00000002.history", b"1\t0/3000158\tx\n");
    std::fs::write(&file, "[archive]\nin_flight = 7\n[expire]\nkeep_count = 7\n").unwrap();
    let mut command = cluster.command("archive-push", &["pg_wal/00000002.history"]);
    is_done(&command.env("SEAWALL_CONFIG", &file).output().unwrap());
    assert_eq!(agent(), first);
}

/// Where `seawall --master-key-file FILE repo create` is right, so is the same before an archive command.
#[test]
fn a_master_key_before_the_command_counts_as_one_after_it() {
    let cluster = Cluster::new(1);
    let (name, key) = (cluster.log.name(0), cluster.place("master.key"));
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let path = format!("pg_wal/{name}");
    let plain = format!("--repository={}", cluster.repository());
    let missing = cluster.place("no such key");
    let push: [&str; 5] = ["--master-key-file", &key, "archive-push", &plain, &path];
    let output = seawall(&cluster, &push);
    assert!(code(&output) == 1 && message(&output).contains("not encrypted"), "{}", message(&output));
    assert!(!cluster.path_in_repository(&name).exists(), "stored for everybody to read");
    is_done(&cluster.push(&name));
    let print = format!("cat '{key}'");
    for (option, source) in
        [("--master-key-file", &key), ("--master-key-file", &missing), ("--master-key-command", &print)]
    {
        let get: [&str; 6] =
            [option, source, "archive-get", &plain, "000000010000000000000050", "pg_wal/fetched"];
        let output = seawall(&cluster, &get);
        assert_eq!(code(&output), 126, "{option} {source}: {}", message(&output));
        assert!(!message(&output).is_empty());
    }
    let encrypted = cluster.place("encrypted");
    let created = seawall(&cluster, &["repo", "create", &encrypted, "--master-key-file", &key]);
    assert_eq!(code(&created), 0, "{}", message(&created));
    let encrypted = format!("--repository={encrypted}");
    is_done(&seawall(&cluster, &["--master-key-file", &key, "archive-push", &encrypted, &path]));
    let get: [&str; 7] =
        ["--master-key-command", &print, "--json", "archive-get", &encrypted, &name, "pg_wal/fetched"];
    is_done(&seawall(&cluster, &get));
    assert!(std::fs::read(cluster.data().join("pg_wal/fetched")).unwrap() == cluster.log.segment(0));
}

/// PostgreSQL takes exit codes up to 125 for the end of the archive, and 0 for the file.
#[test]
fn a_wrong_command_line_is_no_end_of_the_archive() {
    let cluster = Cluster::new(1);
    let (name, to) = (cluster.log.name(0), "pg_wal/fetched");
    let file: &[&str] = &[&name, to];
    let wrong: [(&[&str], &str, &[&str]); 8] = [
        (&["--nonsense"], "archive-get", &[]),
        (&["--json", "--nonsense"], "archive-get", &[]),
        (&["--cache-mib", "5"], "archive-get", &[]),
        (&["--master-key-file", "a", "--master-key-env", "B"], "archive-get", &[]),
        (&[], "archive-gett", &[]),
        (&[], "archive-get", &["-h"]),
        (&[], "archive-get", &["--help"]),
        (&[], "archive-get", &["--nonsense"]),
    ];
    for (before, command, after) in wrong {
        let words = [before, &[command], file, after].concat();
        let output = seawall(&cluster, &words);
        assert_eq!(code(&output), 126, "{words:?}: {}", message(&output));
        if words.contains(&"--json") {
            let error: Value = serde_json::from_str(message(&output).trim()).unwrap();
            assert_eq!(error["exit_code"], 126, "{error}");
        } else {
            assert!(!message(&output).is_empty(), "{words:?}");
        }
    }
    // To `archive_command`, 0 is a file that may be removed.
    let path = format!("pg_wal/{name}");
    let wrong: [&[&str]; 2] =
        [&["archive-push", &path, "-h"], &["--page-protection", "log-images", "archive-push", &path]];
    for words in wrong {
        assert_ne!(code(&seawall(&cluster, words)), 0, "{words:?}");
    }
    for words in [["archive-get", "-h"], ["archive-get", "--help"], ["help", "archive-get"]] {
        let output = seawall(&cluster, &words);
        assert_eq!(code(&output), 0, "{words:?}: {}", message(&output));
        assert!(String::from_utf8(output.stdout).unwrap().contains("restore_command"), "{words:?}");
    }
}
