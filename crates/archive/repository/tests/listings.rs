//! Stores that list what they do not have, or what nobody put there, or without an end; and that overwrite.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::object_server::{ObjectServer, listing};
use common::store_server::Reply;
use common::{SYSTEM, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy, StoreCause, System,
};
use seawall_io::Disk;
use seawall_simulation::{Fault, FaultError, FaultTarget, Operation, Operations, SimulatedDisk};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn with_credentials(more: &[(&str, String)]) -> RepositoryOptions {
    let own = [("AWS_ACCESS_KEY_ID", "key".to_owned()), ("AWS_SECRET_ACCESS_KEY", "secret".to_owned())];
    let credentials =
        own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    RepositoryOptions { credentials, retry: RetryPolicy::once(), ..options(1, None) }
}

fn create(store: &ObjectServer) -> Repository {
    let url: RepositoryUrl = store.server.url().parse().unwrap();
    Repository::create(&url, with_credentials(&[])).unwrap()
}

/// A store that lists `names` to whoever asks for the objects of the cluster.
fn store_that_lists(names: Vec<String>) -> ObjectServer {
    ObjectServer::start(move |request, _| {
        let is_list = request.method == "GET" && request.query.contains("prefix%2Fpostgresql");
        let names: Vec<(String, usize)> = names.iter().map(|name| (name.clone(), 7)).collect();
        // Whatever prefix is asked for.
        is_list.then(|| Reply::Status(200, listing(&names, "")))
    })
}

fn message_of(error: ArchiveError) -> String {
    match error {
        ArchiveError::Store(error) => {
            assert_eq!((error.cause, error.operation), (StoreCause::Other, "list"), "{error}");
            error.to_string()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_name_that_is_listed_twice_counts_once() {
    let segment = "prefix/postgresql-7301234567890123456/log/00000001/00000000/000000010000000000000001";
    let store = store_that_lists(vec![segment.to_owned(), segment.to_owned()]);
    assert_eq!(create(&store).stored(Some(POSTGRESQL)).unwrap().len(), 1);
}

#[test]
fn names_that_no_program_of_ours_gives_are_refused_or_shown_escaped() {
    let own = "prefix/postgresql-7301234567890123456/";
    for hostile in [
        format!("{own}../../seawall-repository"),
        "prefix-of-another/postgresql-7301234567890123456/x".to_owned(),
        "elsewhere".to_owned(),
        format!("{own}{}", "x".repeat(5000)),
        format!("{own}a//b"),
        format!("{own}a\n\u{202E}b"),
    ] {
        let store = store_that_lists(vec![hostile.clone()]);
        let repository = create(&store);
        let message = message_of(repository.stored(Some(POSTGRESQL)).unwrap_err());
        assert!(message.len() < 1500 && !message.contains(is_obeyed), "{hostile}: {message:?}");
    }
    let store = store_that_lists(vec![format!("{own}a\u{202E}b")]);
    let repository = create(&store);
    let stored = repository.stored(Some(POSTGRESQL)).unwrap();
    assert!(stored[0].name.is_none() && stored[0].path.ends_with('b'), "{stored:?}");
    let shown = repository.location(&stored[0].path);
    assert!(shown.ends_with("a\\u{202e}b"), "{shown:?}");
}

/// By a terminal.
fn is_obeyed(character: char) -> bool {
    character.is_control() || character == '\u{202E}'
}

/// Consoles of providers, and tools that show a bucket as directories, put an empty object for each of them, with a slash at its end.
#[test]
fn an_empty_object_for_a_directory_does_not_hide_what_is_in_it() {
    let store = ObjectServer::start(|_, _| None);
    let url: RepositoryUrl = store.server.url().parse().unwrap();
    let encrypted = || RepositoryOptions { master_key: Some(common::master(1)), ..with_credentials(&[]) };
    let repository = Repository::create(&url, encrypted()).unwrap();
    let (file, content) = &segments(1)[0];
    repository.push(&pack(file, content, Compression::Lz4)).unwrap();
    let own = "prefix/postgresql-7301234567890123456/";
    for directory in ["prefix/", "prefix/keys/", own, &format!("{own}log/"), &format!("{own}gaps/")] {
        store.objects.lock().unwrap().insert(directory.to_owned(), Vec::new());
    }
    let repository = Repository::open(&url, encrypted()).unwrap();
    assert_eq!(repository.systems().unwrap(), [POSTGRESQL]);
    assert_eq!(repository.list(POSTGRESQL, None).unwrap().len(), 1);
    assert_eq!(repository.gaps(POSTGRESQL).unwrap(), []);
    assert_eq!(repository.timelines(POSTGRESQL).unwrap().len(), 1);
    assert!(repository.stored(None).unwrap().iter().all(|object| !object.path.is_empty()));
    repository.rotate_master_key(&common::master(2), seawall_archive::Rotation::default()).unwrap();
}

#[test]
fn a_listing_that_never_ends_is_found_out() {
    let pages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pages);
    let store = ObjectServer::start(move |request, _| {
        let is_list = request.method == "GET" && request.query.contains("prefix%2Fpostgresql");
        let page = || {
            counted.fetch_add(1, Ordering::SeqCst);
            let names = (0..1000).map(|number| format!("prefix/postgresql-7301234567890123456/x{number}"));
            let names: Vec<(String, usize)> = names.map(|name| (name, 7)).collect();
            let text = String::from_utf8(listing(&names, "")).unwrap();
            let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken></ListBucketResult>";
            Reply::Status(200, text.replace("</ListBucketResult>", more).into_bytes())
        };
        is_list.then(page)
    });
    let message = message_of(create(&store).stored(Some(POSTGRESQL)).unwrap_err());
    assert!(message.contains("over and over"), "{message}");
    assert!(pages.load(Ordering::SeqCst) < 10);
}

#[test]
fn a_store_that_overwrites_is_refused_when_a_repository_is_to_be_made() {
    for master_key in [None, Some(1)] {
        let store = ObjectServer::start(|request, objects| {
            (request.method == "PUT").then(|| {
                objects.insert(request.path.replace("/bucket/", ""), request.body.clone());
                Reply::Status(200, Vec::new())
            })
        });
        let url: RepositoryUrl = store.server.url().parse().unwrap();
        let options =
            RepositoryOptions { master_key: master_key.map(common::master), ..with_credentials(&[]) };
        let error = Repository::create(&url, options.clone()).unwrap_err();
        assert!(matches!(error, ArchiveError::Overwrites { .. }), "{error}");
        assert!(error.to_string().contains("If-None-Match"), "{error}");
        assert!(matches!(Repository::open(&url, options), Err(ArchiveError::NoRepository { .. })));
    }
}

/// Somebody else makes a repository at the same moment: his header, and the keys that it goes with, must not be overwritten.
#[test]
fn a_store_that_overwrites_is_found_before_anything_but_a_scratch_object_is_put() {
    for master_key in [None, Some(1)] {
        let store = ObjectServer::start(|request, objects| {
            (request.method == "PUT").then(|| {
                objects.insert(request.path.replace("/bucket/", ""), request.body.clone());
                Reply::Status(200, Vec::new())
            })
        });
        let url: RepositoryUrl = store.server.url().parse().unwrap();
        let options =
            RepositoryOptions { master_key: master_key.map(common::master), ..with_credentials(&[]) };
        Repository::create(&url, options).unwrap_err();
        let requests = store.server.requests();
        let puts = requests.iter().filter(|request| request.method == "PUT");
        let put: Vec<&str> = puts.map(|request| request.path.as_str()).collect();
        assert!(
            !put.is_empty() && put.iter().all(|path| path.starts_with("/bucket/prefix/check/")),
            "{put:?}"
        );
        assert_eq!(store.objects.lock().unwrap().keys().next(), None, "nothing is left");
    }
}

/// As the tools of the provider have it.
#[test]
fn an_endpoint_in_the_environment_counts_as_one_in_the_place_does() {
    for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"] {
        let store = ObjectServer::start(|_, _| None);
        let endpoint = format!("http://127.0.0.1:{}", store.server.port);
        let url: RepositoryUrl = "s3://bucket/prefix?region=here&timeout=5".parse().unwrap();
        let repository = Repository::create(&url, with_credentials(&[(variable, endpoint)])).unwrap();
        let (file, content) = &segments(1)[0];
        repository.push(&pack(file, content, Compression::Lz4)).unwrap();
        let objects = store.objects.lock().unwrap();
        assert!(objects.contains_key("prefix/seawall-repository"), "{variable}: {:?}", objects.keys());
    }
    // The place itself counts more.
    let store = ObjectServer::start(|_, _| None);
    let url: RepositoryUrl = store.server.url().parse().unwrap();
    let elsewhere = ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9".to_owned());
    Repository::create(&url, with_credentials(&[elsewhere])).unwrap();
}

#[test]
fn an_endpoint_in_the_environment_is_checked_as_one_in_the_place_is() {
    let url: RepositoryUrl = "s3://bucket/prefix?region=here&timeout=5".parse().unwrap();
    for (endpoint, expected) in [("store:9000", "http"), ("http://user:password@store", "credentials")] {
        let named = [("AWS_ENDPOINT_URL", endpoint.to_owned())];
        let error = Repository::create(&url, with_credentials(&named)).unwrap_err();
        assert!(matches!(error, ArchiveError::Settings { .. }), "{error}");
        assert!(error.to_string().contains(expected) && !error.to_string().contains("password"), "{error}");
    }
}

#[test]
fn a_directory_lists_names_of_any_kind_and_shows_none_raw() {
    let disk = SimulatedDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let repository = Repository::create_on(shared, options(1, None)).unwrap();
    disk.write_file("\u{1b}[31mred\nline", b"x");
    let stored = repository.stored(None).unwrap();
    let stranger = stored.iter().find(|object| object.name.is_none()).unwrap();
    assert!(!repository.location(&stranger.path).contains(char::is_control));
}

/// The root of a file system has a directory that only root may read.
#[test]
fn what_may_not_be_read_beside_a_repository_costs_neither_a_check_nor_a_listing() {
    let disk = SimulatedDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let repository = Repository::create_on(shared, options(1, None)).unwrap();
    let (file, content) = &segments(1)[0];
    repository.push(&pack(file, content, Compression::Lz4)).unwrap();
    disk.write_file("lost+found/x", b"x");
    let deny = |prefix: &str| {
        let operations = Operations::Only(Operation::List);
        let target = FaultTarget::Path { prefix: prefix.to_owned(), operations };
        let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
        disk.inject(Fault { target, error, skip: 0, count: u64::MAX });
    };
    deny("lost+found");
    assert_eq!(repository.check().unwrap().leftovers, 0);
    let stored = repository.stored(None).unwrap();
    assert_eq!(stored.iter().filter(|object| object.path.contains("postgresql")).count(), 1);
    // What is the repository's own is missed.
    deny("postgresql");
    assert!(
        matches!(repository.stored(None), Err(ArchiveError::Store(error)) if error.cause == StoreCause::Denied)
    );
}
