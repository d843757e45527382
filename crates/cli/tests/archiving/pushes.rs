//! Nothing is archived of a data directory whose PostgreSQL does not ask for that.

use crate::cluster::{Cluster, code, is_done, wait_for};

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
