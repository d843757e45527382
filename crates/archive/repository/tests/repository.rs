//! Repositories in a directory: puts, gets, keys, what others did to them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{SYSTEM, describe, history, name, options, pack, segments};
use seawall_archive::{
    ArchiveError, Compression, Fencing, Packer, Packing, Pushed, Repository, RepositoryOptions,
    RepositoryUrl, StoreCause, System,
};
use seawall_io::{Clock, Disk};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, SimulatedClock, SimulatedDisk,
};

const POSTGRESQL: System = System::PostgreSql(SYSTEM);

fn disk() -> SimulatedDisk {
    SimulatedDisk::new(1)
}

fn arc(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn fetch(repository: &Repository, file: &str) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    repository.fetch(POSTGRESQL, name(file), &mut content).map(|_| content)
}

#[test]
fn files_come_back_whatever_they_are_packed_with() {
    for (seed, master_key) in [(1, None), (2, Some(7))] {
        let disk = disk();
        let repository = Repository::create_on(arc(&disk), options(seed, master_key)).unwrap();
        let (segments, history) = (segments(3), history("promoted"));
        let files = segments.iter().chain([&history]);
        for ((file, content), compression) in
            files.clone().zip([Compression::None, Compression::Lz4, Compression::Zstd, Compression::Lz4])
        {
            assert_eq!(repository.push(&pack(file, content, compression)).unwrap(), Pushed::Stored);
        }
        let reopened = Repository::open_on(arc(&disk), options(9, master_key)).unwrap();
        for (file, content) in files {
            assert_eq!(&fetch(&reopened, file).unwrap(), content);
            let header = reopened.stat(POSTGRESQL, name(file)).unwrap().unwrap();
            assert_eq!((header.system, header.name.as_str()), (POSTGRESQL, file.as_str()));
        }
        assert_eq!(reopened.systems().unwrap(), [POSTGRESQL]);
        let timelines = reopened.timelines(POSTGRESQL).unwrap();
        assert_eq!(timelines.iter().map(|timeline| timeline.get()).collect::<Vec<_>>(), [1]);
        let listed = reopened.list(POSTGRESQL, Some(timelines[0])).unwrap();
        assert_eq!(listed.len(), 3);
        assert_eq!(reopened.list(POSTGRESQL, None).unwrap().len(), 4);
        assert!(matches!(fetch(&reopened, "0000000100000000000000FF"), Err(ArchiveError::NotFound { .. })));
        assert_eq!(reopened.stat(POSTGRESQL, name("0000000100000000000000FF")).unwrap(), None);
        assert_eq!(reopened.statistics().failures.len(), 0, "what is not there is no failure");
    }
}

#[test]
fn the_same_again_is_quiet_and_other_content_is_refused() {
    for master_key in [None, Some(7)] {
        let disk = disk();
        let repository = Repository::create_on(arc(&disk), options(1, master_key)).unwrap();
        let (file, content) = &segments(1)[0];
        repository.push(&pack(file, content, Compression::Lz4)).unwrap();
        let before = disk.list_all();
        // Whatever the settings are now.
        for compression in [Compression::Lz4, Compression::Zstd, Compression::None] {
            assert_eq!(repository.push(&pack(file, content, compression)).unwrap(), Pushed::AlreadyThere);
        }
        // A valid segment with other content: of a server that was restored and went its own way.
        let mut other = common::postgresql_log::PostgreSqlLog::new(SYSTEM);
        other.fill(1, 299);
        let error = repository.push(&pack(file, &other.segment(0), Compression::Lz4)).unwrap_err();
        assert!(matches!(error, ArchiveError::OtherContent { .. }), "{error}");
        assert!(error.to_string().contains(file.as_str()), "{error}");
        let (file, content) = history("promoted");
        repository.push(&pack(&file, &content, Compression::Lz4)).unwrap();
        assert_eq!(repository.push(&pack(&file, &content, Compression::Lz4)).unwrap(), Pushed::AlreadyThere);
        let (_, other) = history("promoted elsewhere");
        let error = repository.push(&pack(&file, &other, Compression::Lz4)).unwrap_err();
        assert!(matches!(error, ArchiveError::OtherContent { .. }), "{error}");
        assert_eq!(fetch(&repository, &file).unwrap(), content);
        assert_eq!(disk.list_all().len(), before.len() + 1, "nothing is left behind");
    }
}

#[test]
fn damage_is_told_with_the_object_and_no_wrong_byte_is_whole() {
    let (file, content) = &segments(1)[0];
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let disk = disk();
        let repository = Repository::create_on(arc(&disk), options(1, None)).unwrap();
        repository.push(&pack(file, content, compression)).unwrap();
        let path = disk.list_all().into_iter().find(|entry| entry.name.ends_with(file.as_str())).unwrap();
        for offset in [20, 400, 513, 530, path.bytes / 2, path.bytes - 1] {
            let damaged = disk.copy();
            damaged.flip_bit(&path.name, offset, 3);
            let repository = Repository::open_on(arc(&damaged), options(2, None)).unwrap();
            let error = fetch(&repository, file).unwrap_err();
            assert!(matches!(error, ArchiveError::Damaged { .. }), "offset {offset}: {error}");
            assert!(error.to_string().contains(file.as_str()), "{error}");
        }
        disk.truncate(&path.name, path.bytes / 2);
        assert!(matches!(fetch(&repository, file), Err(ArchiveError::Damaged { .. })));
        // What is damaged is not taken for the same content.
        disk.flip_bit(&path.name, 40, 0);
        let error = repository.push(&pack(file, content, compression)).unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
    }
}

#[test]
fn an_object_in_another_ones_place_is_told() {
    let disk = disk();
    let repository = Repository::create_on(arc(&disk), options(1, None)).unwrap();
    let segments = segments(2);
    repository.push(&pack(&segments[0].0, &segments[0].1, Compression::Lz4)).unwrap();
    let path = disk.list_all().into_iter().find(|entry| entry.name.ends_with(&segments[0].0)).unwrap().name;
    let moved = path.replace(&segments[0].0, &segments[1].0);
    disk.write_file(&moved, &disk.read_file(&path).unwrap());
    assert!(matches!(fetch(&repository, &segments[1].0), Err(ArchiveError::OtherObject { .. })));
    let error = repository.push(&pack(&segments[1].0, &segments[1].1, Compression::Lz4)).unwrap_err();
    assert!(matches!(error, ArchiveError::OtherObject { .. }), "{error}");
}

#[test]
fn a_place_is_made_a_repository_once_and_told_from_others() {
    let disk = disk();
    let error = Repository::open_on(arc(&disk), options(1, None)).unwrap_err();
    assert!(matches!(error, ArchiveError::NoRepository { .. }), "{error}");
    let made = Repository::create_on(arc(&disk), options(1, None)).unwrap();
    let error = Repository::create_on(arc(&disk), options(2, None)).unwrap_err();
    assert!(matches!(error, ArchiveError::RepositoryExists { .. }), "{error}");
    let opened = Repository::open_on(arc(&disk), options(3, None)).unwrap();
    assert_eq!(opened.header(), made.header());
    let error = Repository::open_on(arc(&disk), options(3, Some(1))).unwrap_err();
    assert!(matches!(error, ArchiveError::NotEncrypted { .. }), "{error}");
    let newer = b"Seawall archive repository\nversion 9\n";
    disk.write_file("seawall-repository", newer);
    let error = Repository::open_on(arc(&disk), options(3, None)).unwrap_err();
    assert!(matches!(error, ArchiveError::RepositoryVersion { version: 9, .. }), "{error}");
    disk.write_file("seawall-repository", b"something else");
    let error = Repository::open_on(arc(&disk), options(3, None)).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
}

#[test]
fn a_header_alone_tells_whether_content_is_the_same_encrypted_or_not() {
    for master_key in [None, Some(1)] {
        let disk = disk();
        let repository = Repository::create_on(arc(&disk), options(1, master_key)).unwrap();
        let (file, content) = &segments(1)[0];
        let has = |content: &[u8]| repository.has_content(POSTGRESQL, name(file), content).unwrap();
        assert!(!has(content), "nothing is there");
        repository.push(&pack(file, content, Compression::Lz4)).unwrap();
        let mut other = content.clone();
        other[9_000] ^= 1;
        assert_eq!((has(content), has(&other), has(&content[..9_000])), (true, false, false));
    }
}

#[test]
fn a_full_disk_is_told_as_such_and_leaves_nothing_behind() {
    let disk = disk();
    let repository = Repository::create_on(arc(&disk), options(1, None)).unwrap();
    let (file, content) = &segments(1)[0];
    disk.set_capacity(Some(disk.allocated_bytes() + (512 << 10)));
    let error = repository.push(&pack(file, content, Compression::None)).unwrap_err();
    let ArchiveError::Store(error) = error else { panic!("{error}") };
    assert_eq!((error.cause, error.attempts), (StoreCause::Full, 1), "{error}");
    assert!(!disk.list_all().iter().any(|entry| entry.name.contains(".new-")));
    disk.set_capacity(None);
    assert_eq!(repository.push(&pack(file, content, Compression::None)).unwrap(), Pushed::Stored);
}

#[test]
fn what_a_put_left_that_a_crash_cut_short_is_removed_when_it_is_old() {
    let disk = disk();
    let clock = Arc::new(SimulatedClock::new(0));
    let open = || RepositoryOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..options(1, None) };
    let repository = Repository::create_on(arc(&disk), open()).unwrap();
    let (file, content) = &segments(1)[0];
    disk.inject(Fault {
        target: FaultTarget::Path { prefix: String::new(), operations: Operations::Only(Operation::Remove) },
        error: FaultError::Number(5),
        skip: 0,
        count: 1,
    });
    disk.set_capacity(Some(disk.allocated_bytes() + (512 << 10)));
    repository.push(&pack(file, content, Compression::None)).unwrap_err();
    disk.clear_faults();
    disk.set_capacity(None);
    let leftovers = || disk.list_all().into_iter().filter(|entry| entry.name.contains(".new-")).count();
    assert_eq!(leftovers(), 1, "{:?}", disk.list_all());
    let day = Duration::from_secs(24 * 60 * 60);
    clock.advance(day);
    assert_eq!((repository.remove_leftovers(2 * day).unwrap(), leftovers()), (0, 1));
    clock.advance(2 * day);
    assert_eq!((repository.remove_leftovers(2 * day).unwrap(), leftovers()), (1, 0));
    assert_eq!(repository.push(&pack(file, content, Compression::None)).unwrap(), Pushed::Stored);
}

/// As it looks when the file system of the repository is not mounted.
#[test]
fn nothing_is_put_into_a_directory_that_is_no_longer_a_repository() {
    let disk = disk();
    let repository = Repository::create_on(arc(&disk), options(1, None)).unwrap();
    let segments = segments(2);
    repository.push(&pack(&segments[0].0, &segments[0].1, Compression::Lz4)).unwrap();
    let header = disk.read_file("seawall-repository").unwrap();
    disk.remove_file("seawall-repository");
    let before = disk.list_all();
    let (file, content) = &segments[1];
    let error = repository.push(&pack(file, content, Compression::Lz4)).unwrap_err();
    assert!(error.to_string().contains("mounted"), "{error}");
    assert_eq!(disk.list_all(), before);
    disk.write_file("seawall-repository", &header);
    assert_eq!(repository.push(&pack(file, content, Compression::Lz4)).unwrap(), Pushed::Stored);
}

#[test]
fn a_directory_that_could_not_be_synced_takes_no_more_objects() {
    let disk = disk();
    let repository = Repository::create_on(arc(&disk), options(1, None)).unwrap();
    let segments = segments(2);
    repository.push(&pack(&segments[0].0, &segments[0].1, Compression::Lz4)).unwrap();
    let operations = Operations::Only(Operation::SyncDirectory);
    disk.inject(Fault {
        target: FaultTarget::Path { prefix: String::new(), operations },
        error: FaultError::Number(5),
        skip: 0,
        count: 1,
    });
    let push = |index: usize| {
        let (file, content) = &segments[index];
        repository.push(&pack(file, content, Compression::Lz4))
    };
    assert!(push(1).is_err());
    disk.clear_faults();
    // Nobody can know what is durable: neither the object in question nor another is acknowledged.
    assert!(push(1).is_err());
    assert!(push(0).is_err());
    let reopened = Repository::open_on(arc(&disk), options(2, None)).unwrap();
    reopened.push(&pack(&segments[1].0, &segments[1].1, Compression::Lz4)).unwrap();
}

#[test]
fn a_check_says_that_a_directory_keeps_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let url: RepositoryUrl = format!("file://{}/deeper/archive", directory.path().display()).parse().unwrap();
    let repository = Repository::create(&url, options(1, None)).unwrap();
    let report = repository.check().unwrap();
    assert_eq!(report.fencing, Fencing::Atomic);
    assert!(report.lists_at_once && report.cannot_remove.is_none());
    let (file, content) = &segments(1)[0];
    repository.push(&pack(file, content, Compression::Lz4)).unwrap();
    assert_eq!(repository.systems().unwrap(), [POSTGRESQL]);
    assert_eq!(fetch(&repository, file).unwrap(), *content);
}

/// Many threads, or servers, push the same and other content under the same name at the same moment: one content is there,
/// those that pushed it are told so, the others are refused.
#[test]
fn of_pushes_at_the_same_moment_one_content_wins() {
    let directory = tempfile::tempdir().unwrap();
    let url: RepositoryUrl = format!("file://{}", directory.path().display()).parse().unwrap();
    drop(Repository::create(&url, options(1, None)).unwrap());
    for round in 0..20_u32 {
        let file = format!("{:08X}.history", round + 2);
        let start = std::sync::Barrier::new(8);
        let results: Vec<_> = std::thread::scope(|scope| {
            let run = |index: u64| {
                let (url, file, start) = (&url, &file, &start);
                scope.spawn(move || {
                    let repository = Repository::open(url, options(100 + index, None)).unwrap();
                    let content = format!("1\t0/3000158\treason {}\n", index % 3).into_bytes();
                    let packed =
                        Packer::new(Packing::default()).pack(describe(file, &content).header(1), &content);
                    start.wait();
                    (content, repository.push(&packed))
                })
            };
            let threads: Vec<_> = (0..8).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let repository = Repository::open(&url, options(99, None)).unwrap();
        let there = fetch(&repository, &file).unwrap();
        let stored = results.iter().filter(|(_, result)| matches!(result, Ok(Pushed::Stored))).count();
        assert_eq!(stored, 1);
        for (content, result) in results {
            match result {
                Ok(_) => assert_eq!(content, there),
                Err(error) => {
                    assert!(matches!(error, ArchiveError::OtherContent { .. }), "{error}");
                    assert_ne!(content, there);
                }
            }
        }
    }
}

/// Times are for people: a clock that was a year ahead and was set back changes nothing else.
#[test]
fn a_clock_that_is_set_back_keeps_nothing_from_being_put_and_found() {
    const YEAR: i64 = 366 * 86_400 * 1_000_000;
    let (disk, clock) = (disk(), SimulatedClock::default());
    let (now, segments) = (clock.wall_micros(), segments(3));
    let with_clock = || RepositoryOptions { clock: Arc::new(clock.clone()), ..options(1, None) };
    let repository = Repository::create_on(arc(&disk), with_clock()).unwrap();
    let push = |index: usize| {
        let (file, content) = &segments[index];
        let header = describe(file, content).header(clock.wall_micros());
        repository.push(&Packer::new(Packing::default()).pack(header, content)).unwrap()
    };
    assert_eq!(push(0), Pushed::Stored);
    clock.set_wall_micros(now - YEAR);
    assert_eq!((push(0), push(1)), (Pushed::AlreadyThere, Pushed::Stored));
    clock.set_wall_micros(now + YEAR);
    assert_eq!((push(1), push(2)), (Pushed::AlreadyThere, Pushed::Stored));
    clock.set_wall_micros(-YEAR);
    let reopened = Repository::open_on(arc(&disk), with_clock()).unwrap();
    for ((file, content), created) in segments.iter().zip([now, now - YEAR, now + YEAR]) {
        assert_eq!(&fetch(&reopened, file).unwrap(), content);
        let header = reopened.stat(POSTGRESQL, name(file)).unwrap().unwrap();
        assert_eq!(header.created_micros, created);
    }
    let summary = reopened.summary(POSTGRESQL).unwrap();
    assert_eq!((summary[0].segments, summary[0].gaps.len()), (3, 0));
}
