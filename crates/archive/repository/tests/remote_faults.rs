//! Stores that are down, busy, slow, cut connections, or give other bytes than were put.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::store_server::{Reply, Request, StoreServer};
use common::{SYSTEM, history, name, options, pack};
use seawall_archive::{
    ArchiveError, Compression, Pushed, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy, StoreCause,
    System,
};
use seawall_testing::wait_until;

const POSTGRESQL: System = System::PostgreSql(SYSTEM);
const HISTORY_PATH: &str = "/bucket/prefix/postgresql-7301234567890123456/timelines/00000002.history";

/// A store that works, but for the requests on the history: `fault` answers the first ones of them.
fn server(faults: usize, fault: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> StoreServer {
    let objects: Mutex<std::collections::BTreeMap<String, Vec<u8>>> = Mutex::default();
    let seen = AtomicUsize::new(0);
    StoreServer::start(move |request| {
        if request.path == HISTORY_PATH && seen.fetch_add(1, Ordering::SeqCst) < faults {
            return fault(request);
        }
        let mut objects = objects.lock().unwrap();
        match (request.method.as_str(), objects.get(&request.path)) {
            ("PUT", Some(_)) => Reply::Status(412, Vec::new()),
            ("PUT", None) => {
                objects.insert(request.path.clone(), request.body.clone());
                Reply::Status(200, Vec::new())
            }
            (_, Some(body)) => Reply::Status(200, body.clone()),
            (_, None) => Reply::Status(404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        }
    })
}

fn repository(server: &StoreServer) -> Repository {
    repository_with(server, RetryPolicy::default())
}

fn repository_with(server: &StoreServer, retry: RetryPolicy) -> Repository {
    let url: RepositoryUrl = server.url().parse().unwrap();
    let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let credentials = credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Repository::create(&url, RepositoryOptions { credentials, retry, ..options(1, None) }).unwrap()
}

fn push(repository: &Repository) -> Result<Pushed, ArchiveError> {
    let (file, content) = history("promoted");
    repository.push(&pack(&file, &content, Compression::Lz4))
}

fn fetch(repository: &Repository) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    repository.fetch(POSTGRESQL, name("00000002.history"), &mut content).map(|_| content)
}

fn store_error(error: ArchiveError) -> seawall_archive::StoreError {
    match error {
        ArchiveError::Store(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn an_upload_whose_answer_is_lost_is_found_and_not_sent_again() {
    let objects: Mutex<std::collections::BTreeMap<String, Vec<u8>>> = Mutex::default();
    let server = StoreServer::start(move |request| {
        let mut objects = objects.lock().unwrap();
        match (request.method.as_str(), objects.get(&request.path)) {
            // It refuses what it has before it has read it, and closes: the client does not get to see that.
            ("PUT", Some(_)) if request.path == HISTORY_PATH => Reply::Cut,
            ("PUT", Some(_)) => Reply::Status(412, Vec::new()),
            ("PUT", None) => {
                objects.insert(request.path.clone(), request.body.clone());
                if request.path == HISTORY_PATH { Reply::Cut } else { Reply::Status(200, Vec::new()) }
            }
            (_, Some(body)) => Reply::Status(200, body.clone()),
            (_, None) => Reply::Status(404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        }
    });
    let repository = repository(&server);
    assert_eq!(push(&repository).unwrap(), Pushed::AlreadyThere);
    let requests = server.requests();
    let puts = requests.iter().filter(|request| request.method == "PUT" && request.path == HISTORY_PATH);
    assert_eq!(puts.count(), 1, "{requests:?}");
}

#[test]
fn every_put_says_that_it_must_not_overwrite_and_is_one_request() {
    let server = server(0, |_| Reply::Cut);
    let repository = repository(&server);
    let before = server.requests().len();
    assert_eq!(push(&repository).unwrap(), Pushed::Stored);
    let requests = server.requests();
    assert_eq!(requests.len(), before + 1, "{requests:?}");
    assert!(requests.iter().filter(|request| request.method == "PUT").all(|request| request.if_none_match));
    // Again: the put, and the first bytes of what is there.
    assert_eq!(push(&repository).unwrap(), Pushed::AlreadyThere);
    assert_eq!(server.requests().len(), before + 3);
    assert_eq!(fetch(&repository).unwrap(), history("promoted").1);
    assert_eq!(server.requests().len(), before + 4);
}

#[test]
fn what_passes_is_tried_again_and_counted_by_cause() {
    let faults: [(StoreCause, Reply); 5] = [
        (StoreCause::Busy, Reply::Status(503, b"<Error><Code>SlowDown</Code></Error>".to_vec())),
        (StoreCause::Busy, Reply::Status(429, Vec::new())),
        (StoreCause::Faulty, Reply::Status(500, b"oops".to_vec())),
        (StoreCause::TimedOut, Reply::Hang),
        (StoreCause::Interrupted, Reply::Cut),
    ];
    for (cause, reply) in faults {
        let server = server(2, move |_| reply.clone());
        let repository = repository(&server);
        assert_eq!(push(&repository).unwrap(), Pushed::Stored, "{cause:?}");
        let statistics = repository.statistics();
        assert_eq!(statistics.retries, 2, "{statistics:?}");
        assert_eq!(statistics.failures.get(&cause), Some(&2), "{cause:?}: {statistics:?}");
    }
}

#[test]
fn what_does_not_pass_is_told_at_once_with_object_cause_and_advice() {
    for (cause, status, advice) in [
        (StoreCause::Denied, 403, "policy"),
        (StoreCause::Unauthenticated, 401, "credentials"),
        (StoreCause::Other, 400, "InvalidThing"),
    ] {
        let body = b"<Error><Code>InvalidThing</Code></Error>".to_vec();
        let server = server(usize::MAX, move |_| Reply::Status(status, body.clone()));
        let error = store_error(push(&repository(&server)).unwrap_err());
        assert_eq!((error.cause, error.attempts), (cause, 1), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("s3://bucket/prefix/postgresql-") && text.contains("00000002.history"),
            "{text}"
        );
        assert!(text.contains(advice), "{text}");
    }
}

/// The status says that the credentials are bad, and they are not.
#[test]
fn a_clock_that_is_wrong_is_named() {
    for (status, body) in [
        (403, &b"<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large</Message></Error>"[..]),
        (403, b"<Error><Code>AuthenticationFailed</Code><M>Request date header too old: 'Sat, 22 Nov 2025'</M></Error>"),
        (400, b"{\"error\":\"invalid_grant\",\"error_description\":\"Check your iat and exp values in the JWT claim.\"}"),
    ] {
        let server = server(usize::MAX, move |_| Reply::Status(status, body.to_vec()));
        let error = store_error(push(&repository(&server)).unwrap_err());
        assert_eq!((error.cause, error.attempts), (StoreCause::WrongClock, 1), "{error}");
        let text = error.to_string();
        assert!(text.contains("00000002.history") && text.contains("the clock of this machine"), "{text}");
    }
}

#[test]
fn a_store_that_stays_down_is_given_up_with_its_last_answer() {
    let server = server(usize::MAX, |_| Reply::Status(503, b"come back later".to_vec()));
    let error = store_error(push(&repository(&server)).unwrap_err());
    assert!(error.attempts > 5 && error.cause == StoreCause::Busy, "{error}");
    assert!(error.to_string().contains("come back later"), "{error}");
    assert_eq!(
        server.requests().iter().filter(|request| request.path == HISTORY_PATH).count(),
        error.attempts as usize
    );
}

#[test]
fn nobody_there_is_told() {
    let server = server(0, |_| Reply::Cut);
    let repository = repository_with(&server, RetryPolicy::once());
    let port = server.port;
    drop(server);
    // The listener is gone as soon as a connection is refused.
    wait_until("the listener to be gone", || std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    let error = store_error(push(&repository).unwrap_err());
    assert_eq!((error.cause, error.attempts), (StoreCause::Unreachable, 1), "{error}");
}

/// The store has taken the object, and the answer was lost: the second attempt finds its own object.
#[test]
fn a_lost_answer_is_no_conflict() {
    let taken: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
    let seen = AtomicUsize::new(0);
    let store = Arc::clone(&taken);
    let server = server(usize::MAX, move |request| {
        let mut store = store.lock().unwrap();
        match (request.method.as_str(), seen.fetch_add(1, Ordering::SeqCst)) {
            ("PUT", 0) => {
                *store = Some(request.body.clone());
                Reply::Cut
            }
            ("PUT", _) => Reply::Status(412, Vec::new()),
            _ => Reply::Status(200, store.clone().unwrap()),
        }
    });
    assert_eq!(push(&repository(&server)).unwrap(), Pushed::AlreadyThere);
    assert!(taken.lock().unwrap().is_some());
}

/// S3 answers 409 while another conditional put of the object is under way; that one may come to nothing.
#[test]
fn an_object_that_vanishes_again_is_put() {
    let seen = AtomicUsize::new(0);
    let server = server(2, move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Status(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>".to_vec()),
        _ => Reply::Status(404, Vec::new()),
    });
    assert_eq!(push(&repository(&server)).unwrap(), Pushed::Stored);
}

#[test]
fn a_download_that_is_cut_or_damaged_on_its_way_is_fetched_again() {
    let server_with = |faults: usize, spoil: fn(Vec<u8>) -> Reply| {
        let object: Arc<Mutex<Vec<u8>>> = Arc::default();
        let gets = AtomicUsize::new(0);
        server(usize::MAX, move |request| {
            let mut object = object.lock().unwrap();
            if request.method == "PUT" {
                *object = request.body.clone();
                return Reply::Status(200, Vec::new());
            }
            match gets.fetch_add(1, Ordering::SeqCst) {
                count if count < faults => spoil(object.clone()),
                _ => Reply::Status(200, object.clone()),
            }
        })
    };
    let flip = |mut body: Vec<u8>| {
        let last = body.len() - 1;
        body[last] ^= 1;
        Reply::Status(200, body)
    };
    let cut = Reply::CutBody as fn(Vec<u8>) -> Reply;
    for (faults, spoil) in [(2, cut), (2, Reply::HangBody), (1, flip)] {
        let server = server_with(faults, spoil);
        let repository = repository(&server);
        push(&repository).unwrap();
        assert_eq!(fetch(&repository).unwrap(), history("promoted").1);
    }
    let server = server_with(usize::MAX, flip);
    let repository = repository(&server);
    push(&repository).unwrap();
    assert!(matches!(fetch(&repository), Err(ArchiveError::Damaged { .. })));
}
