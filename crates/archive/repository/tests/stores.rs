//! Repositories in a real object store.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/azurite.rs"]
mod azurite;
mod common;
#[path = "common/program.rs"]
mod program;
#[path = "common/versitygw.rs"]
mod versitygw;

use azurite::Azurite;
use common::{SYSTEM, history, name, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, Fencing, Pushed, Repository, RepositoryOptions, RepositoryUrl, StoreCause,
    System,
};
use versitygw::{KEY, SECRET, Versitygw};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn with_credentials(secret: &str, master_key: Option<u8>) -> RepositoryOptions {
    let credentials = [
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AZURE_STORAGE_ACCOUNT_KEY", azurite::KEY),
    ];
    let credentials = credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let random = std::sync::Arc::new(seawall_io::OsRandom);
    RepositoryOptions {
        credentials,
        random,
        clock: std::sync::Arc::new(seawall_io::SystemClock),
        ..options(1, master_key)
    }
}

fn fetch(repository: &Repository, file: &str) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    repository.fetch(POSTGRESQL, name(file), &mut content).map(|_| content)
}

#[test]
fn files_come_back_from_s3() {
    let Some(store) = Versitygw::start() else { return };
    files_come_back(|prefix| store.url(prefix));
}

#[test]
fn files_come_back_from_azure() {
    let Some(store) = Azurite::start() else { return };
    files_come_back(|prefix| store.url(prefix));
}

fn files_come_back(url_of: impl Fn(&str) -> String) {
    for (prefix, master_key) in [("plain/archive", None), ("encrypted", Some(7))] {
        let url: RepositoryUrl = url_of(prefix).parse().unwrap();
        let error = Repository::open(&url, with_credentials(SECRET, None)).unwrap_err();
        assert!(matches!(error, ArchiveError::NoRepository { .. }), "{error}");
        let repository = Repository::create(&url, with_credentials(SECRET, master_key)).unwrap();
        let error = Repository::create(&url, with_credentials(SECRET, None)).unwrap_err();
        assert!(matches!(error, ArchiveError::RepositoryExists { .. }), "{error}");
        let (segments, history) = (segments(3), history("promoted"));
        for (file, content) in segments.iter().chain([&history]) {
            assert_eq!(repository.push(&pack(file, content, Compression::Zstd)).unwrap(), Pushed::Stored);
            let again = repository.push(&pack(file, content, Compression::None)).unwrap();
            assert_eq!(again, Pushed::AlreadyThere);
        }
        let reopened = Repository::open(&url, with_credentials(SECRET, master_key)).unwrap();
        for (file, content) in segments.iter().chain([&history]) {
            assert_eq!(&fetch(&reopened, file).unwrap(), content);
        }
        let (file, _) = common::history("x");
        let other = common::history("promoted elsewhere").1;
        let error = reopened.push(&pack(&file, &other, Compression::Lz4)).unwrap_err();
        assert!(matches!(error, ArchiveError::OtherContent { .. }), "{error}");
        assert_eq!(reopened.systems().unwrap(), [POSTGRESQL]);
        let summary = reopened.summary(POSTGRESQL).unwrap();
        assert_eq!((summary.len(), summary[0].segments), (1, 3));
        assert!(summary[0].gaps.is_empty());
        assert_eq!(reopened.list(POSTGRESQL, None).unwrap().len(), 4);
        assert!(matches!(fetch(&reopened, "0000000900000000000000FF"), Err(ArchiveError::NotFound { .. })));
    }
}

#[test]
fn a_check_of_s3_says_that_of_many_puts_one_wins() {
    let Some(store) = Versitygw::start() else { return };
    of_many_puts_one_wins(&store.url("checked"));
}

#[test]
fn a_check_of_azure_says_that_of_many_puts_one_wins() {
    let Some(store) = Azurite::start() else { return };
    of_many_puts_one_wins(&store.url("checked"));
}

fn of_many_puts_one_wins(url: &str) {
    let url: RepositoryUrl = url.parse().unwrap();
    let repository = Repository::create(&url, with_credentials(SECRET, None)).unwrap();
    let report = repository.check().unwrap();
    assert_eq!(report.fencing, Fencing::Atomic, "{report:?}");
    assert!(report.lists_at_once && report.cannot_remove.is_none(), "{report:?}");
    assert_eq!(repository.systems().unwrap(), []);
}

#[test]
fn wrong_credentials_and_a_missing_bucket_are_told() {
    let Some(store) = Versitygw::start() else { return };
    let url: RepositoryUrl = store.url("x").parse().unwrap();
    let error = Repository::create(&url, with_credentials("wrong", None)).unwrap_err();
    let ArchiveError::Store(error) = error else { panic!("{error}") };
    assert!(matches!(error.cause, StoreCause::Denied | StoreCause::Unauthenticated), "{error}");
    let url: RepositoryUrl = store.url("x").replace("s3://wal/", "s3://nowhere/").parse().unwrap();
    let error = Repository::create(&url, with_credentials(SECRET, None)).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn many_objects_are_removed_from_s3_at_once() {
    let Some(store) = Versitygw::start() else { return };
    let url: RepositoryUrl = store.url("removed").parse().unwrap();
    let repository = Repository::create(&url, with_credentials(SECRET, None)).unwrap();
    for (file, content) in &segments(3) {
        repository.push(&pack(file, content, Compression::Lz4)).unwrap();
    }
    let stored = repository.stored(Some(POSTGRESQL)).unwrap();
    let paths: Vec<String> = stored.iter().take(2).map(|object| object.path.clone()).collect();
    assert!(repository.remove_stored(&paths).unwrap().is_empty());
    assert!(repository.remove_stored(&paths).unwrap().is_empty(), "what is gone already is fine");
    assert_eq!(repository.stored(Some(POSTGRESQL)).unwrap(), stored[2..]);
}

/// The store keeps objects as files: damaged there, as a bad disk does.
#[test]
fn damage_in_the_store_is_found() {
    let Some(store) = Versitygw::start() else { return };
    let url: RepositoryUrl = store.url("damaged").parse().unwrap();
    let repository = Repository::create(&url, with_credentials(SECRET, None)).unwrap();
    let (file, content) = &segments(1)[0];
    repository.push(&pack(file, content, Compression::None)).unwrap();
    let directory = store.directory.path().join("data/wal/damaged/postgresql-7301234567890123456/log");
    let path = directory.join("00000001/00000000").join(file);
    let mut object = std::fs::read(&path).unwrap();
    object[500_000] ^= 1;
    // In place, so that the store's own attributes stay.
    use std::os::unix::fs::FileExt;
    std::fs::File::options().write(true).open(&path).unwrap().write_all_at(&object, 0).unwrap();
    let error = fetch(&repository, file).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
}

/// Eight servers push the same files at once.
#[test]
fn many_at_once_push_into_one_store() {
    let Some(store) = Versitygw::start() else { return };
    let url: RepositoryUrl = store.url("shared").parse().unwrap();
    drop(Repository::create(&url, with_credentials(SECRET, None)).unwrap());
    let files = segments(12);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let repository = Repository::open(&url, with_credentials(SECRET, None)).unwrap();
                for (file, content) in &files {
                    repository.push(&pack(file, content, Compression::Lz4)).unwrap();
                    assert_eq!(&fetch(&repository, file).unwrap(), content);
                }
            });
        }
    });
    let repository = Repository::open(&url, with_credentials(SECRET, None)).unwrap();
    assert_eq!(repository.summary(POSTGRESQL).unwrap()[0].segments, 12);
}
