//! `archive-push` and `archive-get` as PostgreSQL calls them, on data directories that are made for the tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

#[path = "../common/agents.rs"]
mod agents;
mod anywhere;
mod cluster;
mod commands;
mod faults;
mod full_disk;
mod moved;
mod numbers;
mod optional;
mod over_ssh;
#[path = "../common/own_mounts.rs"]
mod own_mounts;
#[path = "../../../archive/repository/tests/common/postgresql_log.rs"]
#[allow(dead_code, reason = "the tests of crate archive use all of it")]
mod postgresql_log;
#[path = "../../../archive/repository/tests/common/program.rs"]
mod program;
mod pushes;
mod replaced;
#[path = "../../../archive/repository/tests/common/sshd.rs"]
mod sshd;
#[path = "../../../archive/repository/tests/common/store_server.rs"]
#[allow(dead_code, reason = "the tests of crate archive use all of it")]
mod store_server;
mod stores;
mod trust;
#[path = "../../../archive/repository/tests/common/versitygw.rs"]
mod versitygw;

use std::path::Path;

use cluster::{Cluster, SYSTEM, code, is_done, message, wait_for};
use postgresql_log::PostgreSqlLog;

#[test]
fn a_segment_is_archived_and_acknowledged_without_the_agent_then() {
    let cluster = Cluster::new(3);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    assert!(cluster.path_in_repository(&name).is_file());
    // The others were archived ahead; to ask for each is to wait for it.
    is_done(&cluster.push(&cluster.log.name(1)));
    is_done(&cluster.push(&cluster.log.name(2)));
    is_done(&cluster.run("archive-stop", &[]));
    // Without an agent, and without a repository.
    std::fs::rename(cluster.repository(), cluster.directory.path().join("elsewhere")).unwrap();
    for index in 0..3 {
        is_done(&cluster.push(&cluster.log.name(index)));
    }
}

#[test]
fn an_acknowledgement_is_of_one_file_and_not_of_its_name() {
    let cluster = Cluster::new(1);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    // The cluster was restored, and went its own way.
    let mut other = PostgreSqlLog::new(SYSTEM);
    other.fill(1, 299);
    cluster.add(&name, &other.segment(0));
    let output = cluster.push(&name);
    assert_eq!(code(&output), 1);
    assert!(
        message(&output).contains("other content") && message(&output).contains(&name),
        "{}",
        message(&output)
    );
    // Nothing was overwritten.
    is_done(&cluster.get(&name, "pg_wal/fetched"));
    assert_eq!(std::fs::read(cluster.data().join("pg_wal/fetched")).unwrap(), cluster.log.segment(0));
}

#[test]
fn what_is_not_whole_is_refused_and_keeps_no_other_from_being_archived() {
    let cluster = Cluster::new(5);
    let pg_wal = cluster.data().join("pg_wal");
    let mut flipped = cluster.log.segment(0);
    flipped[500_000] ^= 1;
    std::fs::write(pg_wal.join(cluster.log.name(0)), &flipped).unwrap();
    std::fs::write(pg_wal.join(cluster.log.name(1)), &cluster.log.segment(1)[..1 << 19]).unwrap();
    std::fs::write(pg_wal.join(cluster.log.name(2)), cluster.log.segment(3)).unwrap();
    let mut foreign = PostgreSqlLog::new(SYSTEM + 1);
    foreign.fill(4, 300);
    std::fs::write(pg_wal.join(cluster.log.name(3)), foreign.segment(3)).unwrap();
    for (index, problem) in [(0, "CRC"), (1, "torn"), (2, "belongs into"), (3, "belongs to postgresql-")] {
        for _ in 0..2 {
            let output = cluster.push(&cluster.log.name(index));
            assert_eq!(code(&output), 1);
            assert!(message(&output).contains(problem), "{}", message(&output));
            assert!(message(&output).contains(&cluster.log.name(index)), "{}", message(&output));
        }
    }
    is_done(&cluster.push(&cluster.log.name(4)));
    // A good one in its place is archived.
    std::fs::write(pg_wal.join(cluster.log.name(0)), cluster.log.segment(0)).unwrap();
    is_done(&cluster.push(&cluster.log.name(0)));
}

#[test]
fn a_history_is_archived_once_and_not_overwritten() {
    let cluster = Cluster::new(0);
    let history = b"1\t0/3000158\tno recovery target specified\n";
    cluster.add("00000002.history", history);
    is_done(&cluster.push("00000002.history"));
    is_done(&cluster.push("00000002.history"));
    cluster.add("00000002.history", b"1\t0/4000158\tanother one\n");
    let output = cluster.push("00000002.history");
    assert_eq!(code(&output), 1);
    assert!(message(&output).contains("other content"), "{}", message(&output));
    is_done(&cluster.get("00000002.history", "pg_wal/RECOVERYHISTORY"));
    assert_eq!(std::fs::read(cluster.data().join("pg_wal/RECOVERYHISTORY")).unwrap(), history);
}

#[test]
fn trouble_is_told_by_the_first_call() {
    let cluster = Cluster::without_repository(1);
    let output = cluster.push(&cluster.log.name(0));
    assert_eq!(code(&output), 1);
    assert!(message(&output).contains("there is no repository at"), "{}", message(&output));
    assert!(cluster.run("repo", &["create", &cluster.repository()]).status.success());
    is_done(&cluster.push(&cluster.log.name(0)));
    for (arguments, problem) in [
        (&["--repositry=/x", "pg_wal/x"][..], "--repositry"),
        (&[][..], "archive_command"),
        (&["pg_wal/000000010000000000000077"][..], "000000010000000000000077"),
        // Acknowledged, but not as being there.
        (&["--repository=ftp://x", "pg_wal/000000010000000000000001"][..], "ftp"),
    ] {
        let output = cluster.run("archive-push", arguments);
        assert!(code(&output) == 1 && message(&output).contains(problem), "{}", message(&output));
    }
    let output = cluster.run("archive-get", &["--repository=ftp://x", "000000010000000000000001", "x"]);
    assert_eq!(code(&output), 126);
    assert!(message(&output).contains("ftp"), "{}", message(&output));
}

#[test]
fn recovery_gets_segments_in_order_and_learns_where_the_archive_ends() {
    let cluster = Cluster::new(40);
    for index in 0..40 {
        is_done(&cluster.push(&cluster.log.name(index)));
    }
    for index in 0..40 {
        is_done(&cluster.get(&cluster.log.name(index), "pg_wal/RECOVERYXLOG"));
        let got = std::fs::read(cluster.data().join("pg_wal/RECOVERYXLOG")).unwrap();
        assert!(got == cluster.log.segment(index), "segment {index}");
    }
    let status = cluster.run("archive-status", &[]);
    let text = String::from_utf8(status.stdout).unwrap();
    let (_, line) = text.split_once("fetched when asked for ").unwrap();
    let (asked, rest) = line.split_once(", ahead ").unwrap();
    let (asked, ahead): (u32, u32) =
        (asked.parse().unwrap(), rest.split(';').next().unwrap().parse().unwrap());
    assert_eq!(asked + ahead, 40, "{text}");
    assert!(asked >= 1 && ahead >= 20, "{text}");
    for name in ["000000010000000000000029", "00000002.history"] {
        let output = cluster.get(name, "pg_wal/RECOVERYXLOG");
        assert_eq!((code(&output), message(&output)), (1, String::new()));
    }
    // It is there a moment later: what was missing is not remembered.
    let mut longer = PostgreSqlLog::new(SYSTEM);
    longer.fill(41, 300);
    cluster.add(&longer.name(40), &longer.segment(40));
    is_done(&cluster.push(&longer.name(40)));
    is_done(&cluster.get(&longer.name(40), "pg_wal/RECOVERYXLOG"));
}

/// To a recovery, anything below 126 is the end of the archive.
#[test]
fn an_archive_that_cannot_be_read_does_not_look_like_its_end() {
    let cluster = Cluster::new(2);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    is_done(&cluster.push(&cluster.log.name(1)));
    let path = cluster.path_in_repository(&name);
    let mut object = std::fs::read(&path).unwrap();
    let middle = object.len() / 2;
    object[middle] ^= 1;
    std::fs::write(&path, object).unwrap();
    let output = cluster.get(&name, "pg_wal/RECOVERYXLOG");
    assert_eq!(code(&output), 126);
    assert!(message(&output).contains("damaged") && message(&output).contains(&name), "{}", message(&output));
    assert!(!cluster.data().join("pg_wal/RECOVERYXLOG").exists(), "no part of it is left");
    std::fs::write(cluster.data().join("standby.signal"), b"").unwrap();
    assert_eq!(code(&cluster.get(&name, "pg_wal/RECOVERYXLOG")), 1);
}

#[test]
fn a_killed_agent_is_followed_by_another() {
    let cluster = Cluster::new(0);
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(30, 300);
    for round in 0..6 {
        let names: Vec<String> = (5 * round..5 * round + 5).map(|index| log.name(index)).collect();
        for (index, name) in names.iter().enumerate() {
            cluster.add(name, &log.segment(5 * round + index));
        }
        // There is an agent now, since this was not acknowledged before. Whatever it is doing:
        is_done(&cluster.push(&names[0]));
        cluster.kill_agent();
        for name in &names {
            is_done(&cluster.push(name));
            assert!(cluster.path_in_repository(name).is_file());
        }
        cluster.run("archive-stop", &[]);
    }
}

#[test]
fn commands_that_come_together_start_one_agent() {
    let cluster = Cluster::new(8);
    std::thread::scope(|scope| {
        for index in 0..8 {
            let cluster = &cluster;
            scope.spawn(move || is_done(&cluster.push(&cluster.log.name(index))));
        }
    });
}

#[test]
fn other_settings_are_those_of_another_agent() {
    let cluster = Cluster::new(2);
    is_done(&cluster.push(&cluster.log.name(0)));
    let second = cluster.directory.path().join("second").display().to_string();
    assert!(cluster.run("repo", &["create", &second]).status.success());
    let both = [cluster.repository(), second.clone()].map(|place| format!("--repository={place}"));
    cluster.add("00000002.history", b"1\t0/3000158\tx\n");
    is_done(&cluster.run("archive-push", &[&both[0], &both[1], "pg_wal/00000002.history"]));
    for repository in [cluster.repository(), second] {
        let path = format!("{repository}/postgresql-{SYSTEM}/timelines/00000002.history");
        assert!(Path::new(&path).is_file(), "{path}");
    }
}

#[test]
fn a_repository_that_is_down_gets_its_files_later_and_the_other_gets_them_now() {
    let mut cluster = Cluster::new(0);
    cluster.make("second");
    cluster.options = vec![
        format!("--repository={}", cluster.repository()),
        format!("--repository={}", cluster.place("second")),
    ];
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(6, 300);
    cluster.add(&log.name(0), &log.segment(0));
    is_done(&cluster.push(&log.name(0)));
    cluster.rename("second", "unmounted");
    std::fs::create_dir(cluster.place("second")).unwrap();
    for index in 1..6 {
        cluster.add(&log.name(index), &log.segment(index));
    }
    let output = cluster.push(&log.name(1));
    assert!(code(&output) == 1 && message(&output).contains("mounted"), "{}", message(&output));
    for index in 1..6 {
        wait_for(&cluster.path_in_repository(&log.name(index)));
    }
    let lags = |status: &serde_json::Value| {
        [0, 1].map(|index| status["repositories"][index]["lag_segments"].as_u64().unwrap())
    };
    // A file is there a moment before the agent has counted it.
    let status = cluster.status_when(|status| lags(status)[0] == 0);
    assert_eq!(
        (status["lag_segments"].as_u64(), status["archived"].as_u64()),
        (Some(5), Some(1)),
        "{status}"
    );
    assert_eq!(lags(&status), [0, 5], "{status}");
    std::fs::remove_dir(cluster.place("second")).unwrap();
    cluster.rename("unmounted", "second");
    for index in 1..6 {
        // PostgreSQL asks again and again.
        while code(&cluster.push(&log.name(index))) != 0 {}
        assert!(cluster.path_in("second", &log.name(index)).is_file());
    }
}

#[test]
fn an_optional_repository_holds_nobody_up_and_gets_what_it_lacks_from_another() {
    let mut cluster = Cluster::new(3);
    let names: Vec<String> = (0..3).map(|index| cluster.log.name(index)).collect();
    cluster.options = vec![format!("--optional-repository={}", cluster.place("optional"))];
    for name in &names {
        is_done(&cluster.push(name));
        // PostgreSQL needs it no longer.
        std::fs::write(cluster.data().join("pg_wal").join(name), b"something else").unwrap();
    }
    cluster.kill_agent();
    cluster.make("optional");
    // Whatever starts the next agent.
    is_done(&cluster.push_other("00000002.history"));
    for name in &names {
        wait_for(&cluster.path_in("optional", name));
    }
    let optional = cluster.place("optional");
    cluster.options = vec![format!("--repository={optional}")];
    for (index, name) in names.iter().enumerate() {
        is_done(&cluster.get(name, "pg_wal/fetched"));
        let fetched = std::fs::read(cluster.data().join("pg_wal/fetched")).unwrap();
        assert!(fetched == cluster.log.segment(index), "{name}");
    }
}

#[test]
fn beyond_the_limit_segments_are_left_out_loudly_and_on_record() {
    let mut cluster = Cluster::new(0);
    cluster.options = crate::cluster::limited_to(4);
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(6, 300);
    let names: Vec<String> = (0..6).map(|index| log.name(index)).collect();
    // An agent that knows the repository, which then goes away.
    is_done(&cluster.push_other("00000002.history"));
    cluster.rename("repository", "unmounted");
    for (index, name) in names.iter().enumerate() {
        cluster.add(name, &log.segment(index));
    }
    let mut left_out = 0;
    while left_out < 2 {
        let output = cluster.push(&names[left_out]);
        match code(&output) {
            0 => {
                assert!(
                    message(&output).contains("GAP") && message(&output).contains(&names[left_out]),
                    "{}",
                    message(&output)
                );
                std::fs::remove_file(cluster.data().join("pg_wal").join(&names[left_out])).unwrap();
                let ready = format!("pg_wal/archive_status/{}.ready", names[left_out]);
                std::fs::remove_file(cluster.data().join(ready)).unwrap();
                left_out += 1;
            }
            _ => assert!(message(&output).contains("mounted"), "{}", message(&output)),
        }
    }
    // Four wait: the queue is within its limit, and holds again.
    let output = cluster.push(&names[2]);
    assert!(code(&output) == 1 && message(&output).contains("mounted"), "{}", message(&output));
    cluster.kill_agent();
    cluster.rename("unmounted", "repository");
    for name in &names[2..] {
        is_done(&cluster.push(name));
    }
    let info = cluster.json("repo", &["--json", "info", &cluster.repository()]);
    let recorded = &info["systems"][0]["left_out"][0];
    assert_eq!(
        (recorded["first"].as_str(), recorded["last"].as_str()),
        (Some(&*names[0]), Some(&*names[1])),
        "{info}"
    );
    assert!(recorded["reason"].as_str().unwrap().contains("queue_max"), "{info}");
    for name in &names[..2] {
        let output = cluster.get(name, "pg_wal/RECOVERYXLOG");
        assert!(code(&output) == 126 && message(&output).contains("in a gap"), "{}", message(&output));
    }
    is_done(&cluster.get(&names[2], "pg_wal/RECOVERYXLOG"));
}

/// The machine was started anew, and the store is still down: PostgreSQL must not fill its disk.
#[test]
fn the_limit_holds_for_an_agent_that_is_started_while_the_store_is_down() {
    let mut cluster = Cluster::new(0);
    cluster.options = crate::cluster::limited_to(2);
    is_done(&cluster.push_other("00000002.history"));
    cluster.kill_agent();
    cluster.rename("repository", "unmounted");
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(3, 300);
    for index in 0..3 {
        cluster.add(&log.name(index), &log.segment(index));
    }
    let name = log.name(0);
    seawall_testing::wait_until("the segment to be let go", || {
        let output = cluster.push(&name);
        let said = message(&output);
        assert!(said.contains(if code(&output) == 0 { "GAP" } else { "mounted" }), "{said}");
        code(&output) == 0
    });
}

#[test]
fn statistics_are_there_for_programs() {
    let mut cluster = Cluster::new(2);
    let file = cluster.place("seawall.prom");
    cluster.options = vec![format!("--prometheus-file={file}")];
    is_done(&cluster.push(&cluster.log.name(0)));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains(&format!("seawall_archive_lag_segments{{system=\"postgresql-{SYSTEM}\"}}")),
        "{text}"
    );
    is_done(&cluster.push(&cluster.log.name(1)));
    let status = cluster.json("archive-status", &["--json"]);
    assert_eq!(status["archived"].as_u64(), Some(2), "{status}");
    assert_eq!(status["system"].as_str(), Some(&*format!("postgresql-{SYSTEM}")), "{status}");
}
