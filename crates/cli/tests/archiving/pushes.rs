//! What is archived of a data directory, and when: nothing before PostgreSQL asks for that, and histories before segments.

use std::path::PathBuf;

use crate::cluster::{Cluster, SYSTEM, code, is_done, message, wait_for};
use crate::postgresql_log::PostgreSqlLog;

/// A restored copy that is only looked at has `restore_command`, and whatever PostgreSQL finished is marked as to be archived; but
/// its `archive_command` is another one.
#[test]
fn an_agent_that_only_fetches_for_recovery_archives_nothing() {
    let cluster = Cluster::new(3);
    cluster.add("00000002.history", b"1\t0/3000158\tx\n");
    for name in ["000000010000000000000077", "00000003.history"] {
        assert_eq!(code(&cluster.get(name, "pg_wal/RECOVERYXLOG")), 1);
    }
    // Files that are finished later, too.
    cluster.add("00000004.history", b"1\t0/3000158\tx\n");
    let status = cluster.json("archive-status", &["--json"]);
    assert_eq!((&status["follows"], &status["archived"]), (&false.into(), &0.into()), "{status}");
    // What is under way ends before the agent does.
    is_done(&cluster.run("archive-stop", &[]));
    let spool = seawall_archive_agent::Spool::new(cluster.spool(), 0);
    drop(seawall_testing::wait_for("the agent to end", || {
        spool.try_lock(seawall_archive_agent::Lock::Agent).unwrap()
    }));
    let system = cluster.directory.path().join(format!("repository/postgresql-{}", crate::cluster::SYSTEM));
    assert!(!system.exists(), "something was archived, and nobody has asked for it");
    // One that has archived before begins anew like this, too.
    is_done(&cluster.push(&cluster.log.name(1)));
    for index in [0, 2] {
        wait_for(&cluster.path_in_repository(&cluster.log.name(index)));
    }
    wait_for(&system.join("timelines/00000004.history"));
}

/// An agent that was killed is followed by one that `archive-get` starts: it waits for PostgreSQL to ask again, which it does for each
/// file that it still has.
#[test]
fn after_the_agent_was_killed_files_are_archived_when_they_are_asked_for() {
    let cluster = Cluster::new(2);
    is_done(&cluster.push(&cluster.log.name(0)));
    cluster.kill_agent();
    cluster.add("00000002.history", b"1\t0/3000158\tx\n");
    cluster.add("00000003.history", b"1\t0/3000158\tx\n");
    assert_eq!(code(&cluster.get("000000010000000000000077", "pg_wal/RECOVERYXLOG")), 1);
    is_done(&cluster.push("00000002.history"));
    let system = cluster.directory.path().join(format!("repository/postgresql-{}", crate::cluster::SYSTEM));
    wait_for(&system.join("timelines/00000003.history"));
}

/// A log on timeline 2, and the path of its history in the repository.
fn on_timeline_2(cluster: &Cluster) -> (PostgreSqlLog, PathBuf) {
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.timeline = 2;
    log.fill(2, 300);
    let history = format!("repository/postgresql-{SYSTEM}/timelines/00000002.history");
    (log, cluster.directory.path().join(history))
}

/// PostgreSQL marks a history for archiving only if it archives when it is promoted. Without the history, no restore can tell what the
/// timeline has of others.
#[test]
fn no_segment_of_a_timeline_is_archived_before_its_history() {
    let cluster = Cluster::new(0);
    let (log, archived_history) = on_timeline_2(&cluster);
    cluster.add(&log.name(0), &log.segment(0));
    let refused = cluster.push(&log.name(0));
    assert_eq!(code(&refused), 1, "{}", message(&refused));
    for word in ["pg_wal has no 00000002.history", "Copy 00000002.history into pg_wal"] {
        assert!(message(&refused).contains(word), "{}", message(&refused));
    }
    assert!(!cluster.path_in_repository(&log.name(0)).exists());
    let history = cluster.data().join("pg_wal/00000002.history");
    std::fs::write(&history, b"1\t0/3000158\tx\n").unwrap();
    is_done(&cluster.push(&log.name(0)));
    assert!(archived_history.is_file() && cluster.path_in_repository(&log.name(0)).is_file());
    // What a repository has will do.
    std::fs::remove_file(&history).unwrap();
    is_done(&cluster.run("archive-stop", &[]));
    cluster.add(&log.name(1), &log.segment(1));
    is_done(&cluster.push(&log.name(1)));
}

#[test]
fn segments_of_another_timeline_of_the_same_number_are_refused() {
    let cluster = Cluster::new(0);
    let (log, archived_history) = on_timeline_2(&cluster);
    is_done(&cluster.push_other("00000002.history"));
    assert!(archived_history.is_file());
    is_done(&cluster.run("archive-stop", &[]));
    std::fs::write(cluster.data().join("pg_wal/00000002.history"), b"1\t0/2000158\tx\n").unwrap();
    cluster.add(&log.name(0), &log.segment(0));
    let refused = cluster.push(&log.name(0));
    assert_eq!(code(&refused), 1, "{}", message(&refused));
    for word in ["another copy of this cluster has taken the number", "00000002.history"] {
        assert!(message(&refused).contains(word), "{}", message(&refused));
    }
    assert!(!cluster.path_in_repository(&log.name(0)).exists());
}
