//! Everything that lies in a repository: listed, looked at, removed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::{Arc, Mutex};

use common::store_server::{Reply, StoreServer};
use common::{SYSTEM, history, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, HEADER_BYTES, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy,
    StoreCause, StoredName, System,
};
use seawall_io::Disk;
use seawall_simulation::{Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SimulatedDisk};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn filled(disk: &SimulatedDisk) -> Repository {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let repository = Repository::create_on(disk, options(1, None)).unwrap();
    for (file, content) in segments(3).iter().chain([&history("x")]) {
        repository.push(&pack(file, content, Compression::Lz4)).unwrap();
    }
    repository
}

fn paths(repository: &Repository) -> Vec<String> {
    repository.stored(Some(POSTGRESQL)).unwrap().into_iter().map(|object| object.path).collect()
}

#[test]
fn everything_is_listed_with_what_it_is_and_strangers_are_told() {
    let disk = SimulatedDisk::new(1);
    let repository = filled(&disk);
    disk.write_file("postgresql-7301234567890123456/notes.txt", b"mine");
    let stored = repository.stored(None).unwrap();
    let strangers: Vec<&str> =
        stored.iter().filter(|object| object.name.is_none()).map(|object| object.path.as_str()).collect();
    assert_eq!((stored.len(), strangers), (6, vec!["postgresql-7301234567890123456/notes.txt"]));
    for object in &stored {
        let header = repository.header_of(object).unwrap();
        let is_log = matches!(object.name, Some(StoredName::LogFile(..)));
        assert_eq!(header.is_some(), is_log, "{object:?}");
        assert!(header.is_none_or(|header| header.stored_bytes + HEADER_BYTES as u64 == object.bytes));
        let mut content = Vec::new();
        assert_eq!(repository.fetch_stored(object, &mut content).unwrap().is_some(), is_log);
    }
}

#[test]
fn what_was_removed_is_gone_after_a_power_loss_and_what_was_not_is_told() {
    let disk = SimulatedDisk::new(1);
    let repository = filled(&disk);
    let paths = paths(&repository);
    disk.inject(Fault {
        target: FaultTarget::Path {
            prefix: paths[1].clone(),
            operations: Operations::Only(Operation::Remove),
        },
        error: FaultError::Kind(std::io::ErrorKind::PermissionDenied),
        skip: 0,
        count: 2,
    });
    let given: Vec<String> = paths.iter().cloned().chain(["postgresql-1/log/nothing".to_owned()]).collect();
    let left = repository.remove_stored(&given).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0].path, left[0].error.cause), (&paths[1], StoreCause::Denied));
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let again = Repository::open_on(Arc::new(disk), options(1, None)).unwrap();
    assert_eq!(again.stored(Some(POSTGRESQL)).unwrap().len(), 1);
}

#[test]
fn a_store_that_removes_one_by_one_only_is_asked_so_and_locked_objects_are_told() {
    let objects: Mutex<std::collections::BTreeMap<String, Vec<u8>>> = Mutex::default();
    let server = StoreServer::start(move |request| {
        let mut objects = objects.lock().unwrap();
        match request.method.as_str() {
            "PUT" if objects.contains_key(&request.path) => Reply::Status(412, Vec::new()),
            "PUT" => {
                objects.insert(request.path.clone(), request.body.clone());
                Reply::Status(200, Vec::new())
            }
            // Of many at once.
            "POST" => Reply::Status(501, b"<Error><Code>NotImplemented</Code></Error>".to_vec()),
            "DELETE" if request.path.ends_with("02") => {
                Reply::Status(403, b"<Error><Code>AccessDenied</Code></Error>".to_vec())
            }
            "DELETE" => Reply::Status(204, Vec::new()),
            _ => objects
                .get(&request.path)
                .map_or(Reply::Status(404, Vec::new()), |body| Reply::Status(200, body.clone())),
        }
    });
    let url: RepositoryUrl = server.url().parse().unwrap();
    let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let credentials = credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let retry = RetryPolicy::once();
    let repository =
        Repository::create(&url, RepositoryOptions { credentials, retry, ..options(1, None) }).unwrap();
    let given: Vec<String> = (1..4).map(|number| format!("postgresql-1/x/0{number}")).collect();
    let left = repository.remove_stored(&given).unwrap();
    assert_eq!(left.iter().map(|left| left.path.as_str()).collect::<Vec<_>>(), ["postgresql-1/x/02"]);
    assert!(left[0].error.to_string().contains("may not do this"), "{}", left[0].error);
    let requests = server.requests();
    let of_these = requests.iter().filter(|request| request.path.contains("postgresql-1/x"));
    assert_eq!(of_these.filter(|request| request.method == "DELETE").count(), 3);
    drop(server);
    let error = repository.remove_stored(&given).unwrap_err();
    assert!(matches!(error, ArchiveError::Store(_)), "{error}");
}
