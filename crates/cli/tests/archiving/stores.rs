//! Stores on the network, and files that change meanwhile.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::{Cluster, SYSTEM, code, is_done, message};
use crate::postgresql_log::PostgreSqlLog;
use crate::store_server::{Reply, StoreServer};

fn with_credentials(cluster: &mut Cluster, url: String) {
    cluster.environment = vec![
        ("AWS_ACCESS_KEY_ID", "key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ("SEAWALL_REPOSITORY", url.clone()),
    ];
    let created = cluster.run("repo", &["create", &url]);
    assert!(created.status.success(), "{}", message(&created));
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
