//! Spools that cannot be used, agents that are killed or do not go, messages that nobody takes, clocks that were set back.

use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use seawall_archive_agent::{Lock, Spool, SpoolLock};
use seawall_simulation::SeededRandom;
use seawall_simulation::seeds;
use seawall_testing::{Need, wait_for, wait_until};

use crate::cluster::{Cluster, SYSTEM, code, is_done, message};
use crate::postgresql_log::PostgreSqlLog;

/// PostgreSQL takes every exit code up to 125 for the end of the archive, also that of a program that could not say what is wrong
/// because the disk of the log is full.
#[test]
fn exit_codes_are_the_same_where_the_message_cannot_be_written() {
    let cluster = Cluster::new(1);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    let path = cluster.path_in_repository(&name);
    let mut object = std::fs::read(&path).unwrap();
    let middle = object.len() / 2;
    object[middle] ^= 1;
    std::fs::write(&path, object).unwrap();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (command, arguments, expected) in [
        ("archive-get", &[name.as_str(), "pg_wal/RECOVERYXLOG"][..], 126),
        ("archive-get", &["only one"], 126),
        ("archive-push", &["pg_wal/000000010000000000000077"], 1),
        ("archive-status", &["--no-such-option"], 1),
    ] {
        let mut command = cluster.command(command, arguments);
        let status = command.stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{command:?}");
    }
}

/// As soon as the agent that is ending has ended.
fn locked(spool: &Path) -> SpoolLock {
    let spool = Spool::new(spool.to_owned(), 0);
    wait_for("the agent to end", || spool.try_lock(Lock::Agent).unwrap())
}

#[test]
fn a_spool_that_is_not_ours_is_refused_with_what_is_wrong() {
    let mut cluster = Cluster::new(1);
    let name = cluster.log.name(0);
    let refused = |cluster: &Cluster, words: &[&str]| {
        let output = cluster.push(&name);
        let said = message(&output);
        assert_eq!(code(&output), 1, "{said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    };
    // A place where nothing can be made.
    cluster.environment = vec![("SEAWALL_SPOOL", "/proc/nowhere".to_owned())];
    refused(&cluster, &["/proc/nowhere", "SEAWALL_SPOOL"]);
    cluster.environment.clear();
    is_done(&cluster.push(&name));
    is_done(&cluster.run("archive-stop", &[]));
    let spool = cluster.spool();
    let path = spool.to_str().unwrap();
    drop(locked(&spool));
    std::fs::remove_dir_all(&spool).unwrap();
    std::fs::create_dir(cluster.place("elsewhere")).unwrap();
    symlink(cluster.place("elsewhere"), &spool).unwrap();
    refused(&cluster, &[path, "symbolic link", "SEAWALL_SPOOL"]);
    std::fs::remove_file(&spool).unwrap();
    std::fs::write(&spool, b"").unwrap();
    refused(&cluster, &[path, "not a directory"]);
    std::fs::remove_file(&spool).unwrap();
    std::fs::create_dir(&spool).unwrap();
    std::fs::set_permissions(&spool, Permissions::from_mode(0o777)).unwrap();
    refused(&cluster, &[path, "others can write to it"]);
    std::fs::set_permissions(&spool, Permissions::from_mode(0o700)).unwrap();
    match chown(&spool, Some(12_345), None) {
        Ok(()) => {
            refused(&cluster, &[path, "belongs to user 12345"]);
            chown(&spool, Some(0), None).unwrap();
        }
        Err(error) => Need::Root.skip(format_args!("a spool of somebody else's: {error}")),
    }
    is_done(&cluster.push(&name));
}

/// An agent that ends waits for its last uploads, perhaps to a store that hangs; the next one waits for it, and nobody for ever.
#[test]
fn a_second_agent_waits_for_the_first_and_says_so() {
    let mut cluster = Cluster::new(2);
    is_done(&cluster.push(&cluster.log.name(0)));
    is_done(&cluster.run("archive-stop", &[]));
    let first = locked(&cluster.spool());
    cluster.options = vec!["--timeout=1".to_owned()];
    cluster.add("00000002.history", b"1\t0/3000158\tx\n");
    for _ in 0..2 {
        let output = cluster.push("00000002.history");
        let said = message(&output);
        assert_eq!(code(&output), 1, "{said}");
        assert!(said.contains("another agent") && said.contains(cluster.spool().to_str().unwrap()), "{said}");
        let output = cluster.get(&cluster.log.name(0), "pg_wal/RECOVERYXLOG");
        assert_eq!(code(&output), 126, "{}", message(&output));
    }
    drop(first);
    is_done(&cluster.push("00000002.history"));
}

/// As a file system of a server that does not answer: PostgreSQL must get its process back.
#[test]
fn a_command_does_not_wait_for_ever_for_an_agent_that_hangs_while_it_starts() {
    let mut cluster = Cluster::without_repository(0);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("s3://b/p?endpoint=http://127.0.0.1:{port}&region=x&anonymous=true&timeout=600");
    cluster.options = vec!["--timeout=1".to_owned(), format!("--repository={url}")];
    let output = cluster.push_other("00000002.history");
    let said = message(&output);
    assert_eq!(code(&output), 1, "{said}");
    assert!(said.contains("does not listen within") && said.contains("agent.log"), "{said}");
    cluster.kill_agent();
}

#[test]
fn whatever_moment_the_agent_is_killed_at_what_was_acknowledged_is_there() {
    for seed in seeds(2) {
        let mut random = SeededRandom::new(seed);
        let cluster = Cluster::new(0);
        let mut log = PostgreSqlLog::new(SYSTEM);
        log.fill(24, 300);
        for round in 0..6 {
            let names: Vec<String> = (4 * round..4 * round + 4).map(|index| log.name(index)).collect();
            for (index, name) in names.iter().enumerate() {
                cluster.add(name, &log.segment(4 * round + index));
            }
            std::thread::scope(|scope| {
                let pushing = scope.spawn(|| {
                    for name in &names {
                        // PostgreSQL asks again and again.
                        wait_until("the segment to be archived", || code(&cluster.push(name)) == 0);
                        let object = cluster.path_in_repository(name);
                        assert!(object.is_file(), "seed {seed}: {name} is acknowledged and not there");
                    }
                });
                while !pushing.is_finished() {
                    spin(Duration::from_micros(random.below(40_000)));
                    cluster.kill_agent_if_any();
                }
            });
        }
        for index in 0..24 {
            is_done(&cluster.get(&log.name(index), "pg_wal/fetched"));
            let fetched = std::fs::read(cluster.data().join("pg_wal/fetched")).unwrap();
            assert!(fetched == log.segment(index), "seed {seed}: segment {index}");
        }
    }
}

/// The moment of a fault, and nothing that anybody waits for.
fn spin(time: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The clock was a year ahead, and was set back: files are from the future, and go their way all the same.
#[test]
fn files_from_before_the_clock_was_set_back_are_archived() {
    let cluster = Cluster::new(3);
    let year = Duration::from_secs(366 * 86_400);
    let set = |index: usize, time: SystemTime| {
        let path = cluster.data().join("pg_wal").join(cluster.log.name(index));
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    set(0, SystemTime::now() + year);
    set(1, SystemTime::UNIX_EPOCH - year);
    for index in 0..3 {
        is_done(&cluster.push(&cluster.log.name(index)));
        is_done(&cluster.push(&cluster.log.name(index)));
    }
    // The same file, with another time: it is compared with what is there.
    set(0, SystemTime::now() - year);
    is_done(&cluster.push(&cluster.log.name(0)));
    cluster.add("000000010000000000000077", b"short");
    let path = cluster.data().join("pg_wal/000000010000000000000077");
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() + year).unwrap();
    assert_eq!(code(&cluster.push("000000010000000000000077")), 1);
    let status = cluster.json("archive-status", &["--json"]);
    assert_eq!(status["lag_seconds"], 0, "{status}");
    for index in 0..3 {
        is_done(&cluster.get(&cluster.log.name(index), "pg_wal/RECOVERYXLOG"));
    }
}

/// To open a pipe waits for somebody at its other end: the agent hung there for ever, and could not be ended.
#[test]
fn a_pipe_with_the_name_of_a_segment_is_refused_and_keeps_nobody() {
    let mut cluster = Cluster::new(1);
    cluster.options = vec!["--timeout=10".to_owned()];
    let (pipe, history) = ("000000010000000000000077", "00000009.history");
    for name in [pipe, history] {
        cluster.add(name, b"");
        let path = cluster.data().join("pg_wal").join(name);
        std::fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
    }
    for name in [pipe, history] {
        let output = cluster.push(name);
        let said = message(&output);
        assert!(code(&output) == 1 && said.contains("not a regular file") && said.contains(name), "{said}");
    }
    is_done(&cluster.push(&cluster.log.name(0)));
    // Nor can anything be fetched into one.
    let path = format!("pg_wal/{pipe}");
    let output = cluster.get(&cluster.log.name(0), &path);
    assert!(code(&output) == 126 && message(&output).contains(&path), "{}", message(&output));
    is_done(&cluster.run("archive-stop", &[]));
    drop(locked(&cluster.spool()));
}
