//! What is replaced while the agent lives: the repository, the credentials, the cluster in the data directory.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::cluster::{Cluster, SYSTEM, code, is_done, message};
use crate::postgresql_log::PostgreSqlLog;

/// Made again at the same place, with the same master key: what is archived from now on can be read there, and what was archived in
/// the one before is archived again.
#[test]
fn files_go_into_the_repository_that_is_there_now() {
    let mut cluster = Cluster::without_repository(3);
    let key = cluster.place("master.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let create = || {
        let arguments = ["create", &cluster.repository(), "--master-key-file", &key];
        let created = cluster.run("repo", &arguments);
        assert_eq!(code(&created), 0, "{}", message(&created));
    };
    create();
    let option = format!("--master-key-file={key}");
    let names: Vec<String> = (0..3).map(|index| cluster.log.name(index)).collect();
    for name in &names {
        is_done(&cluster.run("archive-push", &[&option, &format!("pg_wal/{name}")]));
    }
    std::fs::remove_dir_all(cluster.repository()).unwrap();
    create();
    cluster.options = vec![option];
    // Something new makes the agent look; the others were acknowledged for the repository that is gone.
    seawall_testing::wait_until("the agent to notice", || code(&cluster.push_other("00000002.history")) == 0);
    for name in &names {
        seawall_testing::wait_until("a segment to be archived again", || code(&cluster.push(name)) == 0);
        assert!(cluster.path_in_repository(name).is_file(), "{name} is acknowledged, and not there");
    }
    // Another agent, which knows only what is there.
    cluster.kill_agent();
    for (index, name) in names.iter().enumerate() {
        is_done(&cluster.get(name, "pg_wal/fetched"));
        assert!(std::fs::read(cluster.data().join("pg_wal/fetched")).unwrap() == cluster.log.segment(index));
    }
}

/// An agent outlives a restart of PostgreSQL with other credentials in its environment.
#[test]
fn other_credentials_are_those_of_another_agent() {
    let mut cluster = Cluster::new(1);
    let mut agents = Vec::new();
    for secret in ["one", "one", "two"] {
        cluster.environment = vec![("AWS_SECRET_ACCESS_KEY", secret.to_owned())];
        // It starts an agent if there is none with these settings.
        assert_eq!(code(&cluster.run("archive-socket", &[])), 0);
        agents.push(crate::agents::agents(&cluster.place("spool")).pop());
    }
    assert!(agents[0].is_some() && agents[0] == agents[1], "{agents:?}");
    assert!(agents[2].is_some() && agents[1] != agents[2], "{agents:?}");
}

/// A command that an administrator runs must not replace the agent of the server because of names that no store reads.
#[test]
fn variables_that_no_store_reads_are_no_other_credentials() {
    let mut cluster = Cluster::new(1);
    let mut agents = Vec::new();
    for profile in ["one", "two"] {
        cluster.environment = vec![("AWS_PROFILE", profile.to_owned())];
        assert_eq!(code(&cluster.run("archive-socket", &[])), 0);
        agents.push(crate::agents::agents(&cluster.place("spool")).pop());
    }
    assert!(agents[0].is_some() && agents[0] == agents[1], "{agents:?}");
}

const OTHER_SYSTEM: u64 = SYSTEM + 1;

/// Puts another cluster into the same directory, as a restore of another backup does.
fn replace(cluster: &Cluster) -> PostgreSqlLog {
    let mut other = PostgreSqlLog::new(OTHER_SYSTEM);
    other.fill(12, 300);
    std::fs::write(cluster.data().join("global/pg_control"), OTHER_SYSTEM.to_le_bytes()).unwrap();
    other
}

#[test]
fn files_of_another_cluster_in_the_same_directory_are_filed_under_that_cluster() {
    let cluster = Cluster::new(1);
    is_done(&cluster.push(&cluster.log.name(0)));
    let other = replace(&cluster);
    is_done(&cluster.push_other("00000007.history"));
    let history = |system: u64| -> PathBuf {
        cluster.directory.path().join(format!("repository/postgresql-{system}/timelines/00000007.history"))
    };
    assert!(!history(SYSTEM).exists(), "it is filed under the cluster that was there before");
    assert!(history(OTHER_SYSTEM).is_file());
    let name = other.name(0);
    cluster.add(&name, &other.segment(0));
    is_done(&cluster.push(&name));
}

/// What was fetched ahead for the cluster before must not get into the next one.
#[test]
fn a_recovery_of_another_cluster_in_the_same_directory_gets_that_cluster_s_segments() {
    let cluster = Cluster::new(12);
    for index in 0..12 {
        is_done(&cluster.push(&cluster.log.name(index)));
    }
    is_done(&cluster.get(&cluster.log.name(0), "pg_wal/RECOVERYXLOG"));
    cluster.status_when(|status| status["fetched_in_spool"].as_u64() >= Some(4));
    let other = replace(&cluster);
    let output = cluster.get(&cluster.log.name(1), "pg_wal/RECOVERYXLOG");
    assert_eq!((code(&output), message(&output)), (1, String::new()), "that cluster has no log yet");
    for index in 0..12 {
        cluster.add(&other.name(index), &other.segment(index));
        is_done(&cluster.push(&other.name(index)));
    }
    for index in 0..4 {
        is_done(&cluster.get(&other.name(index), "pg_wal/RECOVERYXLOG"));
        let got = std::fs::read(cluster.data().join("pg_wal/RECOVERYXLOG")).unwrap();
        assert!(got == other.segment(index), "segment {index} is the other cluster's");
    }
}
