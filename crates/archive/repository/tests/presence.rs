//! A repository that was opened and is gone, or another one: nobody is told that an object is not there, or is there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::object_server::{ObjectServer, listing};
use common::store_server::{Reply, StoreServer};
use common::{SYSTEM, history, name, options, pack};
use seawall_archive::{
    ArchiveError, Compression, ObjectName, Pushed, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy,
    System,
};
use seawall_io::Disk;
use seawall_simulation::{SimulatedClock, SimulatedDisk};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn arc(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn fetch(repository: &Repository) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    repository.fetch(POSTGRESQL, name("00000002.history"), &mut content).map(|_| content)
}

fn push(repository: &Repository) -> Result<Pushed, ArchiveError> {
    let (file, content) = history("promoted");
    repository.push(&pack(&file, &content, Compression::Lz4))
}

fn empty(disk: &SimulatedDisk) {
    for entry in disk.list_all() {
        disk.remove_file(&entry.name);
    }
}

/// Everything that a repository is asked and may answer with "there is none".
fn questions(repository: &Repository) -> Vec<(&'static str, Result<bool, ArchiveError>)> {
    let object = ObjectName::parse("backups/b/manifest").unwrap();
    let is_there = |result: Result<Vec<u8>, ArchiveError>| match result {
        Ok(_) => Ok(true),
        Err(ArchiveError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    let mut content = Vec::new();
    let fetched = repository.fetch_object(POSTGRESQL, &object, &mut content).map(|_| Vec::new());
    vec![
        ("fetch", is_there(fetch(repository))),
        ("fetch_object", is_there(fetched)),
        ("stat", repository.stat(POSTGRESQL, name("00000002.history")).map(|header| header.is_some())),
        ("has_content", repository.has_content(POSTGRESQL, name("00000002.history"), b"x")),
        ("gaps", repository.gaps(POSTGRESQL).map(|gaps| !gaps.is_empty())),
        ("list", repository.list(POSTGRESQL, None).map(|files| !files.is_empty())),
        ("systems", repository.systems().map(|systems| !systems.is_empty())),
        ("timelines", repository.timelines(POSTGRESQL).map(|timelines| !timelines.is_empty())),
        ("list_objects", repository.list_objects(POSTGRESQL, "backups").map(|objects| !objects.is_empty())),
        ("list_histories", repository.list_histories(POSTGRESQL).map(|histories| !histories.is_empty())),
        ("stored", repository.stored(Some(POSTGRESQL)).map(|objects| !objects.is_empty())),
        ("summary", repository.summary(POSTGRESQL).map(|timelines| !timelines.is_empty())),
    ]
}

#[test]
fn an_empty_repository_says_that_there_is_nothing_and_one_that_is_gone_does_not() {
    for master_key in [None, Some(1)] {
        let disk = SimulatedDisk::new(1);
        let repository = Repository::create_on(arc(&disk), options(1, master_key)).unwrap();
        for (question, answer) in questions(&repository) {
            assert!(!answer.unwrap(), "{question}");
        }
        empty(&disk);
        for (question, answer) in questions(&repository) {
            let error = answer.expect_err(question);
            assert!(matches!(error, ArchiveError::RepositoryGone { .. }), "{question}: {error}");
            assert!(error.asks_for_reopening() && error.to_string().contains("mounted"), "{error}");
        }
        assert!(matches!(push(&repository), Err(ArchiveError::RepositoryGone { .. })));
        assert!(matches!(repository.refresh(), Err(ArchiveError::RepositoryGone { .. })));
        assert_eq!(disk.list_all(), [], "nothing is put into what has taken its place");
    }
}

#[test]
fn nothing_is_put_into_another_repository_and_nothing_said_to_be_missing_there() {
    for master_key in [None, Some(1)] {
        let disk = SimulatedDisk::new(1);
        let repository = Repository::create_on(arc(&disk), options(1, master_key)).unwrap();
        empty(&disk);
        // At the same place, with the same master key.
        let other = Repository::create_on(arc(&disk), options(2, master_key)).unwrap();
        let before = disk.list_all();
        let ids = [repository.header().id_text(), other.header().id_text()];
        for (question, answer) in questions(&repository) {
            let error = answer.expect_err(question);
            assert!(matches!(error, ArchiveError::OtherRepository { .. }), "{question}: {error}");
            assert!(ids.iter().all(|id| error.to_string().contains(id)), "{error}");
        }
        assert!(matches!(push(&repository), Err(ArchiveError::OtherRepository { .. })));
        assert_eq!(disk.list_all(), before);
        // Opened anew, it takes what the first one was given.
        let reopened = Repository::open_on(arc(&disk), options(3, master_key)).unwrap();
        assert_eq!(push(&reopened).unwrap(), Pushed::Stored);
        assert_eq!(fetch(&reopened).unwrap(), history("promoted").1);
    }
}

/// A store over a network, which a switch turns into one that answers 404 to everything, as one does behind an address that
/// leads elsewhere.
fn store() -> (StoreServer, Arc<AtomicBool>) {
    let objects: Mutex<std::collections::BTreeMap<String, Vec<u8>>> = Mutex::default();
    let is_gone = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_gone);
    let server = StoreServer::start(move |request| {
        let mut objects = objects.lock().unwrap();
        match (request.method.as_str(), objects.get(&request.path)) {
            _ if switch.load(Ordering::SeqCst) => Reply::Status(404, Vec::new()),
            ("PUT", Some(_)) => Reply::Status(412, Vec::new()),
            ("PUT", None) => {
                objects.insert(request.path.clone(), request.body.clone());
                Reply::Status(200, Vec::new())
            }
            (_, Some(body)) => Reply::Status(200, body.clone()),
            (_, None) => Reply::Status(404, Vec::new()),
        }
    });
    (server, is_gone)
}

#[test]
fn a_store_that_is_away_to_everything_is_not_the_end_of_the_archive() {
    let (server, is_gone) = store();
    let clock = SimulatedClock::default();
    let url: RepositoryUrl = server.url().parse().unwrap();
    let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let credentials = credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let retry = RetryPolicy::once();
    let clock_of_store = Arc::new(clock.clone());
    let options = RepositoryOptions { credentials, retry, clock: clock_of_store, ..options(1, None) };
    let repository = Repository::create(&url, options).unwrap();
    let before = server.requests().len();
    assert!(matches!(fetch(&repository), Err(ArchiveError::NotFound { .. })));
    assert_eq!(server.requests().len(), before + 3, "the object, the header, and the object again");
    is_gone.store(true, Ordering::SeqCst);
    assert!(matches!(fetch(&repository), Err(ArchiveError::RepositoryGone { .. })));
    is_gone.store(false, Ordering::SeqCst);
    // A put looks at the header once a minute, and no more often.
    let before = server.requests().len();
    assert_eq!(push(&repository).unwrap(), Pushed::Stored);
    assert_eq!(server.requests().len(), before + 1);
    clock.advance(Duration::from_secs(61));
    is_gone.store(true, Ordering::SeqCst);
    assert!(matches!(push(&repository), Err(ArchiveError::RepositoryGone { .. })));
}

/// The store is away when the object or the listing is asked for, and back when the header is.
#[test]
fn a_store_that_comes_back_between_two_answers_is_not_the_end_of_the_archive() {
    let is_away = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_away);
    let store = ObjectServer::start(move |request, _| {
        let is_list = request.query.contains("list-type");
        let reply =
            if is_list { Reply::Status(200, listing(&[], "")) } else { Reply::Status(404, Vec::new()) };
        switch.swap(false, Ordering::SeqCst).then_some(reply)
    });
    let url: RepositoryUrl = store.server.url().parse().unwrap();
    let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let credentials = credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = RepositoryOptions { credentials, retry: RetryPolicy::once(), ..options(1, None) };
    let repository = Repository::create(&url, options).unwrap();
    assert_eq!(push(&repository).unwrap(), Pushed::Stored);
    let away_once = || is_away.store(true, Ordering::SeqCst);
    away_once();
    assert_eq!(fetch(&repository).unwrap(), history("promoted").1);
    away_once();
    assert!(repository.stat(POSTGRESQL, name("00000002.history")).unwrap().is_some());
    away_once();
    assert_eq!(repository.list(POSTGRESQL, None).unwrap().len(), 1);
    away_once();
    assert_eq!(repository.systems().unwrap(), [POSTGRESQL]);
    assert!(!is_away.load(Ordering::SeqCst), "each question was asked while it was away");
}

/// What was put into a store in the minute in which its repository was made again is sealed with a key that is lost: what to do about it
/// is said, with its name.
#[test]
fn an_object_of_the_repository_before_is_named_with_what_to_do() {
    let disk = SimulatedDisk::new(1);
    push(&Repository::create_on(arc(&disk), options(1, Some(1))).unwrap()).unwrap();
    let path =
        disk.list_all().into_iter().find(|entry| entry.name.ends_with("00000002.history")).unwrap().name;
    let before = disk.read_file(&path).unwrap();
    empty(&disk);
    let repository = Repository::create_on(arc(&disk), options(2, Some(1))).unwrap();
    disk.write_file(&path, &before);
    let error = push(&repository).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, ArchiveError::SealedBefore { .. }), "{said}");
    assert!(said.contains(&path) && said.contains("before") && said.contains("remove it"), "{said}");
    assert!(disk.remove_file(&path));
    assert_eq!(push(&repository).unwrap(), Pushed::Stored);
}
