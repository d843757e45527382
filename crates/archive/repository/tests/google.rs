//! A repository in a store that speaks the protocol of Google Cloud Storage. Google's own was not at hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::object_server::ObjectServer;
use common::{SYSTEM, history, name, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, Fencing, Pushed, Repository, RepositoryOptions, RepositoryUrl, System,
};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn url(store: &ObjectServer) -> RepositoryUrl {
    let port = store.server.port;
    let url = format!("gs://bucket/deep/archive?endpoint=http://127.0.0.1:{port}&timeout=5");
    url.parse().unwrap()
}

/// The key of an account that needs no token, as an emulator takes it.
fn options(seed: u64, master_key: Option<u8>) -> RepositoryOptions {
    let account =
        r#"{"private_key": "x", "private_key_id": "x", "client_email": "x", "disable_oauth": true}"#;
    let credentials = [("GOOGLE_SERVICE_ACCOUNT_KEY".to_owned(), account.to_owned())].into();
    RepositoryOptions { credentials, ..common::options(seed, master_key) }
}

#[test]
fn files_come_back_and_nothing_is_overwritten() {
    for master_key in [None, Some(7)] {
        let store = ObjectServer::start(|_, _| None);
        let url = url(&store);
        let error = Repository::open(&url, options(1, master_key)).unwrap_err();
        assert!(matches!(error, ArchiveError::NoRepository { .. }), "{error}");
        let repository = Repository::create(&url, options(1, master_key)).unwrap();
        let error = Repository::create(&url, options(2, master_key)).unwrap_err();
        assert!(matches!(error, ArchiveError::RepositoryExists { .. }), "{error}");
        let (segments, history) = (segments(2), history("promoted"));
        for (file, content) in segments.iter().chain([&history]) {
            assert_eq!(repository.push(&pack(file, content, Compression::Lz4)).unwrap(), Pushed::Stored);
            let again = repository.push(&pack(file, content, Compression::Zstd)).unwrap();
            assert_eq!(again, Pushed::AlreadyThere);
        }
        let other = pack(&history.0, &common::history("promoted elsewhere").1, Compression::Lz4);
        assert!(matches!(repository.push(&other), Err(ArchiveError::OtherContent { .. })));
        let reopened = Repository::open(&url, options(3, master_key)).unwrap();
        for (file, content) in segments.iter().chain([&history]) {
            let mut fetched = Vec::new();
            reopened.fetch(POSTGRESQL, name(file), &mut fetched).unwrap();
            assert!(fetched == *content, "{file}");
        }
        assert_eq!(reopened.systems().unwrap(), [POSTGRESQL]);
        assert_eq!(reopened.list(POSTGRESQL, None).unwrap().len(), 3);
        let summary = reopened.summary(POSTGRESQL).unwrap();
        assert_eq!((summary.len(), summary[0].segments), (1, 2));
        let stored = reopened.stored(Some(POSTGRESQL)).unwrap();
        let paths: Vec<String> = stored.iter().map(|object| object.path.clone()).collect();
        assert!(reopened.remove_stored(&paths).unwrap().is_empty());
        assert!(reopened.stored(Some(POSTGRESQL)).unwrap().is_empty());
        assert_eq!(reopened.check().unwrap().fencing, Fencing::Atomic);
        assert!(
            store
                .server
                .requests()
                .iter()
                .filter(|request| request.method == "PUT")
                .all(|put| put.if_none_match)
        );
    }
}
