//! What is remembered of a cluster whose data directory is another one to the system by now: after a start of the machine, or elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{Cluster, SYSTEM, code, is_done, limited_to, message, push_until_let_go, remove};
use crate::postgresql_log::PostgreSqlLog;

/// A cluster with a gap that is on record nowhere, and no agent. Returns the segment that is missing.
fn with_a_gap() -> (Cluster, String) {
    let (cluster, name) = with_a_gap_and_its_agent();
    cluster.kill_agent();
    cluster.rename("unmounted", "repository");
    (cluster, name)
}

/// Its repository is away.
fn with_a_gap_and_its_agent() -> (Cluster, String) {
    let mut cluster = Cluster::new(0);
    cluster.options = limited_to(2);
    is_done(&cluster.push_other("00000002.history"));
    cluster.rename("repository", "unmounted");
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(3, 300);
    for index in 0..3 {
        cluster.add(&log.name(index), &log.segment(index));
    }
    let name = log.name(0);
    let said = push_until_let_go(&cluster, &name);
    assert!(said.contains("GAP"), "{said}");
    remove(&cluster, &name);
    (cluster, name)
}

fn is_known_to_be_missing(cluster: &Cluster, data: &Path, name: &str) {
    let mut get = cluster.command("archive-get", &[name, "pg_wal/RECOVERYXLOG"]);
    let output = get.current_dir(data).output().unwrap();
    assert_eq!(code(&output), 126, "{}", message(&output));
    assert!(message(&output).contains("in a gap"), "{}", message(&output));
}

/// With other numbers for its file system, and for everything in it. A recovery that is told of an end of the archive would open the
/// server with what was before the gap.
#[test]
fn a_gap_is_remembered_when_the_file_system_has_another_number() {
    let (cluster, name) = with_a_gap();
    cluster.rename("data", "before");
    let copied = Command::new("cp").args(["-a", &cluster.place("before"), &cluster.place("data")]).status();
    assert!(copied.unwrap().success());
    is_known_to_be_missing(&cluster, &cluster.data(), &name);
}

#[test]
fn a_gap_is_remembered_when_the_data_directory_was_moved() {
    let (cluster, name) = with_a_gap();
    cluster.rename("data", "moved");
    is_known_to_be_missing(&cluster, &PathBuf::from(cluster.place("moved")), &name);
    // Its agent is stopped there.
    cluster.rename("moved", "data");
    cluster.kill_agent_if_any();
}

/// It sees only later that its directory is gone.
#[test]
fn a_gap_is_remembered_while_the_agent_of_the_place_before_lives() {
    let (cluster, name) = with_a_gap_and_its_agent();
    cluster.signal_agent("STOP");
    cluster.rename("unmounted", "repository");
    cluster.rename("data", "moved");
    is_known_to_be_missing(&cluster, &PathBuf::from(cluster.place("moved")), &name);
    cluster.rename("moved", "data");
    cluster.kill_agent();
}
