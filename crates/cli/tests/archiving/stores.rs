//! Stores on the network that are killed in the middle of uploads, and files that change meanwhile.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::{Cluster, SYSTEM, code, is_done, message};
use crate::postgresql_log::PostgreSqlLog;
use crate::store_server::{Reply, StoreServer};
use crate::versitygw::{KEY, SECRET, Versitygw};

fn with_credentials(cluster: &mut Cluster, url: String) {
    cluster.environment = vec![
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("SEAWALL_REPOSITORY", url.clone()),
    ];
    let created = cluster.run("repo", &["create", &url]);
    assert!(created.status.success(), "{}", message(&created));
}

/// Nobody acknowledges what a killed store has not got, and all of it arrives when it is back.
#[test]
fn a_store_that_is_killed_during_uploads_gets_all_of_them_when_it_is_back() {
    let Some(mut store) = Versitygw::start() else { return };
    let mut cluster = Cluster::without_repository(0);
    with_credentials(&mut cluster, store.url("killed"));
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(24, 300);
    for round in 0..3 {
        let names: Vec<String> = (8 * round..8 * round + 8).map(|index| log.name(index)).collect();
        for (index, name) in names.iter().enumerate() {
            cluster.add(name, &log.segment(8 * round + index));
        }
        let in_store = |store: &Versitygw, name: &str| {
            let directory = format!("data/wal/killed/postgresql-{SYSTEM}/log/00000001/00000000");
            store.directory.path().join(directory).join(name).is_file()
        };
        let is_killed = AtomicBool::new(false);
        let acknowledged: Mutex<Vec<String>> = Mutex::default();
        std::thread::scope(|scope| {
            for name in &names {
                let (cluster, is_killed, acknowledged) = (&cluster, &is_killed, &acknowledged);
                scope.spawn(move || {
                    if code(&cluster.push(name)) == 0 && !is_killed.load(Ordering::SeqCst) {
                        acknowledged.lock().unwrap().push(name.clone());
                    }
                });
            }
            // The first one is there: others are on their way.
            seawall_testing::wait_until("the first segment to be in the store", || {
                names.iter().any(|name| in_store(&store, name))
            });
            store.kill();
            is_killed.store(true, Ordering::SeqCst);
            for name in acknowledged.lock().unwrap().iter() {
                assert!(in_store(&store, name), "{name} is acknowledged and not there");
            }
            store.start_again();
        });
        for name in &names {
            while code(&cluster.push(name)) != 0 {}
            assert!(in_store(&store, name), "{name}");
        }
    }
    for index in 0..24 {
        is_done(&cluster.get(&log.name(index), "pg_wal/fetched"));
        let fetched = std::fs::read(cluster.data().join("pg_wal/fetched")).unwrap();
        assert!(fetched == log.segment(index), "segment {index}");
    }
}

/// What is acknowledged is the file that is there, and not what it was when it was read.
#[test]
fn a_file_that_changes_while_it_is_archived_is_not_acknowledged() {
    let mut cluster = Cluster::without_repository(1);
    let name = cluster.log.name(0);
    let path = cluster.data().join("pg_wal").join(&name);
    let mut other = PostgreSqlLog::new(SYSTEM);
    other.fill(1, 299);
    let (other, first_put) = (other.segment(0), AtomicBool::new(true));
    let (segment_name, segment_path) = (name.clone(), path.clone());
    let objects: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::default();
    let server = StoreServer::start(move |request| {
        let mut objects = objects.lock().unwrap();
        match (request.method.as_str(), objects.get(&request.path)) {
            ("PUT", Some(_)) => Reply::Status(412, Vec::new()),
            ("PUT", None) => {
                if request.path.ends_with(&segment_name) && first_put.swap(false, Ordering::SeqCst) {
                    std::fs::write(&segment_path, &other).unwrap();
                }
                objects.insert(request.path.clone(), request.body.clone());
                Reply::Status(200, Vec::new())
            }
            (_, Some(body)) => Reply::Status(200, body.clone()),
            (_, None) => Reply::Status(404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        }
    });
    with_credentials(&mut cluster, server.url());
    // Told by whoever asks while it is put; later, it is another file than the one that is there.
    let output = cluster.push(&name);
    let said = message(&output);
    assert!(code(&output) == 1 && said.contains(&name), "{said}");
    assert!(said.contains("changed") || said.contains("other content"), "{said}");
    let output = cluster.push(&name);
    assert!(code(&output) == 1 && message(&output).contains("other content"), "{}", message(&output));
    std::fs::write(&path, cluster.log.segment(0)).unwrap();
    is_done(&cluster.push(&name));
}
