//! Repositories that are optional: what they have is not what PostgreSQL was promised, and they hold nobody up.

use std::net::TcpListener;

use crate::cluster::{
    Cluster, SYSTEM, code, is_done, limited_to, message, push_until_let_go, remove, wait_for,
};
use crate::postgresql_log::PostgreSqlLog;

fn log_of(segments: usize) -> PostgreSqlLog {
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(segments, 300);
    log
}

/// Pushes a segment until it is archived, and not let go, which is told.
fn wait_until_archived(cluster: &Cluster, name: &str) {
    seawall_testing::wait_until("a segment to be archived", || {
        let output = cluster.push(name);
        (code(&output), message(&output)) == (0, String::new())
    });
}

/// With the required repository down, an optional one has got a segment, and PostgreSQL has gone on without it. Then this machine is
/// lost, with its spool; and the optional repository does not answer.
#[test]
fn what_only_an_optional_repository_has_is_not_the_end_of_the_archive() {
    let mut cluster = Cluster::new(0);
    cluster.make("optional");
    cluster.options = limited_to(3);
    cluster.options.push(format!("--optional-repository={}", cluster.place("optional")));
    is_done(&cluster.push_other("00000002.history"));
    cluster.rename("repository", "unmounted");
    let log = log_of(4);
    for index in 0..4 {
        cluster.add(&log.name(index), &log.segment(index));
    }
    let name = log.name(0);
    wait_for(&cluster.path_in("optional", &name));
    let said = push_until_let_go(&cluster, &name);
    assert!(said.contains("GAP") && said.contains("optional"), "{said}");
    remove(&cluster, &name);
    cluster.kill_agent();
    std::fs::remove_dir_all(cluster.place("spool")).unwrap();
    cluster.rename("unmounted", "repository");
    cluster.rename("optional", "away");
    let output = cluster.get(&name, "pg_wal/RECOVERYXLOG");
    assert_eq!(code(&output), 126, "{}", message(&output));
    assert!(message(&output).contains("optional"), "{}", message(&output));
    // It has the segment all the same.
    cluster.rename("away", "optional");
    is_done(&cluster.get(&name, "pg_wal/RECOVERYXLOG"));
}

/// The spool is there: the required repository learns of the gap as soon as it answers.
#[test]
fn a_segment_that_only_an_optional_repository_has_is_a_gap_of_the_required_one() {
    let mut cluster = Cluster::new(0);
    cluster.make("optional");
    cluster.options = limited_to(3);
    cluster.options.push(format!("--optional-repository={}", cluster.place("optional")));
    is_done(&cluster.push_other("00000002.history"));
    cluster.rename("repository", "unmounted");
    let log = log_of(4);
    for index in 0..4 {
        cluster.add(&log.name(index), &log.segment(index));
    }
    let name = log.name(0);
    wait_for(&cluster.path_in("optional", &name));
    push_until_let_go(&cluster, &name);
    remove(&cluster, &name);
    cluster.rename("unmounted", "repository");
    wait_until_archived(&cluster, &log.name(1));
    let info = cluster.json("repo", &["--json", "info", &cluster.repository()]);
    assert_eq!(info["systems"][0]["left_out"][0]["first"].as_str(), Some(&*name), "{info}");
    cluster.rename("optional", "away");
    let output = cluster.get(&name, "pg_wal/RECOVERYXLOG");
    assert_eq!(code(&output), 126, "{}", message(&output));
}

/// A store that takes connections and never says anything.
fn that_hangs() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("s3://wal/hangs?endpoint=http://127.0.0.1:{port}&region=x&anonymous=true&timeout=600");
    (listener, url)
}

#[test]
fn an_optional_repository_that_hangs_delays_no_acknowledgement() {
    let (_listener, url) = that_hangs();
    let mut cluster = Cluster::new(0);
    cluster.options = limited_to(7);
    cluster.options.push(format!("--optional-repository={url}"));
    is_done(&cluster.push_other("00000002.history"));
    cluster.rename("repository", "unmounted");
    let log = log_of(8);
    for index in 0..8 {
        cluster.add(&log.name(index), &log.segment(index));
    }
    let name = log.name(0);
    let said = push_until_let_go(&cluster, &name);
    assert!(said.contains("GAP"), "{said}");
    remove(&cluster, &name);
    cluster.rename("unmounted", "repository");
    // The gap is to be on record in the optional repository, too, which does not say whether it is.
    for index in 1..8 {
        wait_until_archived(&cluster, &log.name(index));
    }
    let info = cluster.json("repo", &["--json", "info", &cluster.repository()]);
    assert_eq!(info["systems"][0]["left_out"][0]["first"].as_str(), Some(&*name), "{info}");
    // It ends only when its requests have.
    cluster.kill_agent();
}
