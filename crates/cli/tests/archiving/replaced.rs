//! What is replaced while the agent lives: the repository, the credentials.

use std::os::unix::fs::PermissionsExt;

use crate::cluster::{Cluster, code, is_done, message};

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
