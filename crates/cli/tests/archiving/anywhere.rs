//! Commands that are not run in the data directory, as by `pg_rewind --restore-target-wal`, Patroni and people.

use std::path::Path;
use std::process::Output;

use crate::cluster::{Cluster, code, is_done, message};

fn run_in(cluster: &Cluster, directory: &Path, command: &str, arguments: &[&str]) -> Output {
    cluster.command(command, arguments).current_dir(directory).output().unwrap()
}

#[test]
fn the_data_directory_is_found_above_the_path() {
    let cluster = Cluster::new(2);
    let (name, second) = (cluster.log.name(0), cluster.log.name(1));
    is_done(&cluster.push(&name));
    is_done(&cluster.push(&second));
    let path = cluster.data().join("pg_wal").join(&name);
    std::fs::remove_file(&path).unwrap();
    let root = Path::new("/");
    is_done(&run_in(&cluster, root, "archive-get", &[&name, path.to_str().unwrap()]));
    assert!(std::fs::read(&path).unwrap() == cluster.log.segment(0));
    // From where the directory is, by a relative path, as `pg_rewind -D data` has it.
    let relative = format!("data/pg_wal/{second}");
    std::fs::remove_file(cluster.data().join("pg_wal").join(&second)).unwrap();
    is_done(&run_in(&cluster, cluster.directory.path(), "archive-get", &[&second, &relative]));
    assert!(std::fs::read(cluster.data().join("pg_wal").join(&second)).unwrap() == cluster.log.segment(1));
    // It is the agent of that directory.
    let leaves = std::fs::read_dir(cluster.place("spool")).unwrap().count();
    assert_eq!(leaves, 1, "an agent was started for a directory that is none of PostgreSQL's");
    // A standby asks again.
    std::fs::write(cluster.data().join("standby.signal"), b"").unwrap();
    let wrong = ["no name", path.to_str().unwrap()];
    assert_eq!(code(&run_in(&cluster, root, "archive-get", &wrong)), 1);
    std::fs::remove_file(cluster.data().join("standby.signal")).unwrap();
    assert_eq!(code(&run_in(&cluster, root, "archive-get", &wrong)), 126);
    // So it is with the other way round.
    cluster.add("00000002.history", b"1\t0/3000158\tx\n");
    let history = cluster.data().join("pg_wal/00000002.history");
    is_done(&run_in(&cluster, root, "archive-push", &[history.to_str().unwrap()]));
}

#[test]
fn the_data_directory_can_be_named() {
    let cluster = Cluster::new(1);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    let data = format!("--data-directory={}", cluster.data().display());
    let elsewhere = cluster.place("fetched");
    let root = Path::new("/");
    is_done(&run_in(&cluster, root, "archive-get", &[&data, &name, &elsewhere]));
    assert!(std::fs::read(&elsewhere).unwrap() == cluster.log.segment(0));
    let status = run_in(&cluster, root, "archive-status", &[&data, "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["archived"], 1, "{status}");
    let output = run_in(&cluster, root, "archive-get", &[&name, &elsewhere]);
    let said = message(&output);
    assert!(
        code(&output) == 126 && said.contains("--data-directory") && said.contains("pg_control"),
        "{said}"
    );
    let output = run_in(&cluster, root, "archive-get", &["--data-directory=/nowhere", &name, &elsewhere]);
    assert!(code(&output) == 126 && message(&output).contains("/nowhere"), "{}", message(&output));
}

/// As when `pg_rewind -D B` is run in A.
#[test]
fn the_path_counts_more_than_the_current_directory() {
    let (cluster, other) = (Cluster::new(1), Cluster::new(0));
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    let path = cluster.data().join("pg_wal").join(&name);
    std::fs::remove_file(&path).unwrap();
    is_done(&run_in(&cluster, &other.data(), "archive-get", &[&name, path.to_str().unwrap()]));
    assert_eq!(
        std::fs::read_dir(cluster.place("spool")).unwrap().count(),
        1,
        "the other cluster has an agent"
    );
}

#[test]
fn what_has_the_place_of_a_file_stays_until_the_file_is_whole() {
    let cluster = Cluster::new(1);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    let object = cluster.path_in_repository(&name);
    let whole = std::fs::read(&object).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    // A recovery's own file, and one that somebody has.
    for path in [cluster.data().join("pg_wal/RECOVERYXLOG"), cluster.place("mine").into()] {
        std::fs::write(&path, b"precious").unwrap();
        let get = |name: &str| cluster.get(name, path.to_str().unwrap());
        assert_eq!(code(&get("000000010000000000000050")), 1);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::write(&object, &damaged).unwrap();
        assert_eq!(code(&get(&name)), 126);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::write(&object, &whole).unwrap();
        is_done(&get(&name));
        assert!(std::fs::read(&path).unwrap() == cluster.log.segment(0));
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap();
        let mut left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(left.all(|name| !name.starts_with('.')), "something is left");
    }
    // Where a link leads, as for whoever writes to it.
    let (linked, link) = (cluster.place("linked"), cluster.place("link"));
    std::fs::write(&linked, b"precious").unwrap();
    std::os::unix::fs::symlink(&linked, &link).unwrap();
    is_done(&cluster.get(&name, &link));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read(&linked).unwrap() == cluster.log.segment(0));
}
