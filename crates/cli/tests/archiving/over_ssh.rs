//! An archive on another machine, over SFTP.

use crate::cluster::{Cluster, code, is_done, message};
use crate::sshd::{Network, Sshd};

#[test]
fn segments_go_to_another_machine_and_come_back() {
    let Some(server) = Sshd::start() else { return };
    let mut cluster = Cluster::without_repository(8);
    let url = server.url("archive");
    cluster.environment = vec![("SEAWALL_REPOSITORY", url.clone())];
    is_done(&cluster.run("repo", &["create", &url]));
    is_done(&cluster.run("repo", &["check", &url]));
    for index in 0..8 {
        is_done(&cluster.push(&cluster.log.name(index)));
    }
    for index in 0..8 {
        let name = cluster.log.name(index);
        std::fs::remove_file(cluster.data().join("pg_wal").join(&name)).unwrap();
        is_done(&cluster.get(&name, "pg_wal/RECOVERYXLOG"));
        let fetched = std::fs::read(cluster.data().join("pg_wal/RECOVERYXLOG")).unwrap();
        assert!(fetched == cluster.log.segment(index), "{name} came back as something else");
    }
    let missing = cluster.get("000000010000000000000077", "pg_wal/RECOVERYXLOG");
    assert_eq!(code(&missing), 1, "{}", message(&missing));
    let status = cluster.json("archive-status", &["--json"]);
    assert_eq!(status["repositories"][0]["repository"], url.split('?').next().unwrap());
    assert_eq!(status["repositories"][0]["uploads"]["count"], 8, "{status}");
    is_done(&cluster.run("archive-stop", &[]));
}

/// A recovery does not end early because the network is gone.
#[test]
fn a_machine_that_cannot_be_reached_is_no_end_of_the_archive() {
    let Some(server) = Sshd::start() else { return };
    let network = Network::to(server.port);
    server.know("through", "host_key.pub", network.port);
    let url = server.url_at(network.port, "archive", "user_key", "through");
    let mut cluster = Cluster::without_repository(2);
    cluster.environment = vec![("SEAWALL_REPOSITORY", url.clone())];
    is_done(&cluster.run("repo", &["create", &url]));
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    drop(network);
    let output = cluster.get("000000010000000000000077", "pg_wal/RECOVERYXLOG");
    assert_eq!(code(&output), 126, "{}", message(&output));
    let other = cluster.push_other("00000002.history");
    assert_eq!(code(&other), 1, "{}", message(&other));
    assert!(message(&other).contains("sftp://127.0.0.1"), "{}", message(&other));
    is_done(&cluster.run("archive-stop", &[]));
}
