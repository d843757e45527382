//! Repositories on another machine, over SFTP, with OpenSSH's own server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

mod common;
#[path = "common/sshd.rs"]
mod sshd;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{SYSTEM, history, name, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, Fencing, Pushed, Repository, RepositoryOptions, RepositoryUrl, RetryPolicy,
    StoreCause, StoreError, System,
};
use sshd::{Network, Sshd};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn real(master_key: Option<u8>) -> RepositoryOptions {
    RepositoryOptions {
        random: Arc::new(seawall_io::OsRandom),
        clock: Arc::new(seawall_io::SystemClock),
        ..options(1, master_key)
    }
}

fn without_retries() -> RepositoryOptions {
    RepositoryOptions { retry: RetryPolicy::once(), ..real(None) }
}

fn parse(url: &str) -> RepositoryUrl {
    url.parse().unwrap()
}

fn fetch(repository: &Repository, file: &str) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    repository.fetch(POSTGRESQL, name(file), &mut content).map(|_| content)
}

fn store_error(error: ArchiveError) -> StoreError {
    match error {
        ArchiveError::Store(error) => error,
        other => panic!("{other}"),
    }
}

/// Names in a directory of the server and those below it.
fn names_below(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            names.extend(names_below(&entry.path()));
        }
    }
    names
}

#[test]
fn files_come_back() {
    let Some(server) = Sshd::start() else { return };
    for (place, master_key) in [("plain", None), ("encrypted", Some(7))] {
        let url = parse(&server.url(place));
        let error = Repository::open(&url, real(None)).unwrap_err();
        assert!(matches!(error, ArchiveError::NoRepository { .. }), "{error}");
        let repository = Repository::create(&url, real(master_key)).unwrap();
        let error = Repository::create(&url, real(None)).unwrap_err();
        assert!(matches!(error, ArchiveError::RepositoryExists { .. }), "{error}");
        let (segments, history) = (segments(3), history("promoted"));
        for (file, content) in segments.iter().chain([&history]) {
            assert_eq!(repository.push(&pack(file, content, Compression::Zstd)).unwrap(), Pushed::Stored);
            let again = repository.push(&pack(file, content, Compression::None)).unwrap();
            assert_eq!(again, Pushed::AlreadyThere);
        }
        let reopened = Repository::open(&url, real(master_key)).unwrap();
        for (file, content) in segments.iter().chain([&history]) {
            assert_eq!(&fetch(&reopened, file).unwrap(), content);
        }
        let (file, other) = (&history.0, common::history("promoted elsewhere").1);
        let error = reopened.push(&pack(file, &other, Compression::Lz4)).unwrap_err();
        assert!(matches!(error, ArchiveError::OtherContent { .. }), "{error}");
        assert_eq!(reopened.systems().unwrap(), [POSTGRESQL]);
        let summary = reopened.summary(POSTGRESQL).unwrap();
        assert_eq!((summary.len(), summary[0].segments), (1, 3));
        assert_eq!(reopened.list(POSTGRESQL, None).unwrap().len(), 4);
        assert!(matches!(fetch(&reopened, "0000000900000000000000FF"), Err(ArchiveError::NotFound { .. })));
        let names = names_below(&server.files(place));
        assert!(!names.iter().any(|name| name.starts_with(".new-")), "{names:?}");
        let header = std::fs::metadata(server.files(place).join("seawall-repository")).unwrap();
        assert_eq!(header.permissions().mode() & 0o777, 0o600);
    }
}

/// As a directory of this machine, so that a repository may be reached in both ways.
#[test]
fn a_repository_is_the_same_as_a_directory_of_the_server() {
    let Some(server) = Sshd::start() else { return };
    let remote = Repository::create(&parse(&server.url("both")), real(None)).unwrap();
    let (file, content) = &segments(1)[0];
    remote.push(&pack(file, content, Compression::Lz4)).unwrap();
    let local = Repository::open(&parse(server.files("both").to_str().unwrap()), real(None)).unwrap();
    assert_eq!(&fetch(&local, file).unwrap(), content);
    assert_eq!(local.header().id_text(), remote.header().id_text());
    local.remove(POSTGRESQL, name(file)).unwrap();
    assert!(matches!(fetch(&remote, file), Err(ArchiveError::NotFound { .. })));
    remote.remove(POSTGRESQL, name(file)).unwrap();
}

#[test]
fn of_many_puts_one_wins() {
    let Some(server) = Sshd::start() else { return };
    let repository = Repository::create(&parse(&server.url("checked")), real(None)).unwrap();
    let report = repository.check().unwrap();
    assert_eq!(report.fencing, Fencing::Atomic, "{report:?}");
    assert!(report.lists_at_once && report.cannot_remove.is_none(), "{report:?}");
    assert_eq!(repository.systems().unwrap(), []);
}

#[test]
fn a_host_that_is_not_known_or_has_another_key_is_refused() {
    let Some(server) = Sshd::start() else { return };
    std::fs::write(server.path("nobody"), "").unwrap();
    server.know("mistaken", "stranger_key.pub", server.port);
    for known_hosts in ["nobody", "mistaken"] {
        let url = parse(&server.url_at(server.port, "x", "user_key", known_hosts));
        let error = store_error(Repository::create(&url, real(None)).unwrap_err());
        assert_eq!((error.cause, error.attempts), (StoreCause::UntrustedHost, 1), "{error}");
        assert!(error.to_string().contains("known_hosts"), "{error}");
        let known = std::fs::read_to_string(server.path(known_hosts)).unwrap();
        assert!(known_hosts == "mistaken" || known.is_empty(), "a key was taken unseen: {known}");
    }
    assert!(!server.files("x").exists());
    assert!(!server.log().contains("Accepted"), "{}", server.log());
}

#[test]
fn a_user_that_the_server_does_not_know_is_told_so() {
    let Some(server) = Sshd::start() else { return };
    let url = parse(&server.url_at(server.port, "x", "stranger_key", "known_hosts"));
    let error = store_error(Repository::create(&url, real(None)).unwrap_err());
    assert_eq!((error.cause, error.attempts), (StoreCause::Unauthenticated, 1), "{error}");
}

#[test]
fn a_server_that_does_not_answer_is_told() {
    let Some(server) = Sshd::start() else { return };
    let nobody = seawall_testing::Port::reserve();
    let url = parse(&server.url_at(nobody.number, "x", "user_key", "known_hosts"));
    let error = store_error(Repository::open(&url, without_retries()).unwrap_err());
    assert_eq!(error.cause, StoreCause::Unreachable, "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

/// At whichever byte the connection breaks: the put is repeated, and nobody finds half of an object.
#[test]
fn connections_that_break_cost_nothing_but_time() {
    let Some(server) = Sshd::start() else { return };
    let network = Network::to(server.port);
    server.know("through", "host_key.pub", network.port);
    let url = server.url_at(network.port, "cut", "user_key", "through") + "&connections=1";
    let repository = Repository::create(&parse(&url), real(None)).unwrap();
    for (index, (file, content)) in segments(6).iter().enumerate() {
        let before = network.connections();
        // In the middle of the content, and around the requests before and after it.
        network.cut_after([20_000, 150, 700, 1_048_000, 1_049_500, 1_050_200][index]);
        let pushed = repository.push(&pack(file, content, Compression::None)).unwrap();
        let was_cut = network.is_cut();
        network.cut_after(0);
        assert!(was_cut || index > 3, "{file}: {pushed:?}");
        assert!(network.connections() > before || !was_cut, "{file} was put over a connection that broke");
        network.cut_all();
        assert_eq!(&fetch(&repository, file).unwrap(), content);
    }
    assert!(repository.statistics().retries >= 4, "{:?}", repository.statistics());
    assert_eq!(repository.list(POSTGRESQL, None).unwrap().len(), 6);
}

#[test]
fn a_server_that_falls_silent_is_waited_for_as_long_as_the_url_says() {
    let Some(server) = Sshd::start() else { return };
    let network = Network::to(server.port);
    server.know("through", "host_key.pub", network.port);
    let url = server.url_at(network.port, "silent", "user_key", "through") + "&timeout=2&connections=2";
    let repository = Repository::create(&parse(&url), without_retries()).unwrap();
    let (file, content) = &segments(1)[0];
    network.silence(true);
    let begun = std::time::Instant::now();
    let error = store_error(repository.push(&pack(file, content, Compression::Lz4)).unwrap_err());
    assert_eq!(error.cause, StoreCause::TimedOut, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    network.silence(false);
    // The connection that did not answer is not used again.
    assert_eq!(repository.push(&pack(file, content, Compression::Lz4)).unwrap(), Pushed::Stored);
    assert_eq!(&fetch(&repository, file).unwrap(), content);
}

#[test]
fn a_repository_that_is_gone_takes_nothing() {
    let Some(server) = Sshd::start() else { return };
    let repository = Repository::create(&parse(&server.url("gone")), without_retries()).unwrap();
    let (before, after) = (&segments(2)[0], &segments(2)[1]);
    repository.push(&pack(&before.0, &before.1, Compression::Lz4)).unwrap();
    std::fs::rename(server.files("gone"), server.files("elsewhere")).unwrap();
    // The directory of a file system that is not mounted.
    std::fs::create_dir(server.files("gone")).unwrap();
    let error = repository.push(&pack(&after.0, &after.1, Compression::Lz4)).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    assert_eq!(names_below(&server.files("gone")), [""; 0]);
    let error = fetch(&repository, &before.0).unwrap_err();
    assert!(matches!(error, ArchiveError::RepositoryGone { .. }), "{error}");
    std::fs::remove_dir(server.files("gone")).unwrap();
    std::fs::rename(server.files("elsewhere"), server.files("gone")).unwrap();
    assert_eq!(repository.push(&pack(&after.0, &after.1, Compression::Lz4)).unwrap(), Pushed::Stored);
}

/// OpenSSH's server can be told to lack what others lack.
#[test]
fn a_server_that_lacks_what_a_put_needs_is_refused() {
    let program = "/usr/lib/openssh/sftp-server";
    for (denied, missing, takes_a_risk) in
        [("hardlink", "hardlink@openssh.com", false), ("fsync", "fsync@openssh.com", true)]
    {
        if !Path::new(program).is_file() {
            seawall_testing::Need::Sshd.skip(format!("there is no {program}"));
            return;
        }
        let Some(server) = Sshd::start_with(&format!("{program} -P {denied}")) else { return };
        let error = store_error(Repository::create(&parse(&server.url("x")), real(None)).unwrap_err());
        assert!(error.message.contains(missing), "{error}");
        assert_eq!(names_below(&server.path("files")), [""; 0]);
        let risky = Repository::create(&parse(&(server.url("x") + "&unsynced=true")), real(None));
        assert_eq!(risky.is_ok(), takes_a_risk, "{risky:?}");
        if let Ok(repository) = risky {
            let (file, content) = &segments(1)[0];
            repository.push(&pack(file, content, Compression::Lz4)).unwrap();
            assert_eq!(&fetch(&repository, file).unwrap(), content);
        }
    }
}

/// Runs itself once more, with mounts of its own. The server needs root's own users, so that no user namespace will do.
#[test]
fn a_full_disk_of_the_server_is_told_and_costs_nothing() {
    const INSIDE: &str = "SEAWALL_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return fill_the_disk_of_the_server();
    }
    if std::fs::metadata("/proc/self").unwrap().uid() != 0
        || !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success())
    {
        seawall_testing::Need::Root.skip("a small disk for a server needs root, and mounts of its own");
        return;
    }
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(std::env::current_exe().unwrap());
    command.args(["a_full_disk_of_the_server_is_told_and_costs_nothing", "--exact", "--nocapture"]);
    let output = command.env(INSIDE, "yes").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn fill_the_disk_of_the_server() {
    let Some(server) = Sshd::start() else { return };
    let disk = server.files("small");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(&disk).status();
    assert!(mounted.unwrap().success());
    let repository = Repository::create(&parse(&server.url("small/repository")), real(None)).unwrap();
    let files = segments(3);
    let push = |index: usize| repository.push(&pack(&files[index].0, &files[index].1, Compression::None));
    assert_eq!(push(0).unwrap(), Pushed::Stored);
    let error = store_error(push(1).unwrap_err());
    assert_eq!((error.cause, error.attempts), (StoreCause::Full, 1), "{error}");
    assert_eq!(&fetch(&repository, &files[0].0).unwrap(), &files[0].1);
    let names = names_below(&disk);
    assert!(!names.iter().any(|name| name.starts_with(".new-")), "{names:?}");
    repository.remove(POSTGRESQL, name(&files[0].0)).unwrap();
    assert_eq!(push(1).unwrap(), Pushed::Stored);
    assert_eq!(&fetch(&repository, &files[1].0).unwrap(), &files[1].1);
    drop(repository);
    assert!(Command::new("umount").arg("--lazy").arg(&disk).status().unwrap().success());
}
