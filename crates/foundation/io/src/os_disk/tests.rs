//! The real disk, in a scratch directory.
#![allow(clippy::disallowed_methods, reason = "the tests do behind the disk's back what other programs do")]

use std::io::{ErrorKind, IoSlice};

use seawall_testing::Need;

use super::*;
use crate::aligned::{AlignedBuffer, BLOCK_BYTES};
use crate::error::raw_os_error;

fn scratch() -> (tempfile::TempDir, OsDisk) {
    let directory = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(directory.path());
    (directory, disk)
}

fn read_all(disk: &OsDisk, path: &str) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write_durably(disk: &OsDisk) {
    let file = disk.open("segment", OpenMode::Create).unwrap();
    file.fill_zeros(0, 8 * BLOCK_BYTES as u64).unwrap();
    file.sync_data().unwrap();
    let log = disk.open("segment", OpenMode::Log).unwrap();
    let mut buffer = AlignedBuffer::zeroed(4 * BLOCK_BYTES);
    buffer[BLOCK_BYTES..].fill(7);
    log.write_durable_at(&buffer, BLOCK_BYTES..3 * BLOCK_BYTES, 2 * BLOCK_BYTES as u64).unwrap();
    log.write_durable_at(&buffer, 0..0, 0).unwrap();
    let mut expected = vec![0; 8 * BLOCK_BYTES];
    expected[2 * BLOCK_BYTES..4 * BLOCK_BYTES].fill(7);
    assert!(read_all(disk, "segment") == expected);
    assert_eq!(log.read_exact_at(&mut [0], 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(log.write_all_at(&[0], 0).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn durable_writes_are_read_back() {
    let (_directory, disk) = scratch();
    write_durably(&disk);
}

#[test]
fn durable_writes_work_in_memory_file_systems_too() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(directory) => write_durably(&OsDisk::new(directory.path())),
        Err(error) => Need::SystemFiles.skip(error),
    }
}

#[test]
fn what_is_asked_for_ahead_reads_as_ever() {
    let (_directory, disk) = scratch();
    let file = disk.open("pages", OpenMode::Create).unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(64 << 10).collect();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    // All, a part, nothing, behind the end, and more than the system can count with.
    let ranges =
        [0..64 << 10, 4096..12_288, 0..0, 1 << 20..(1 << 20) + 4096, 4096..u64::MAX, u64::MAX - 1..u64::MAX];
    ranges.iter().for_each(|range| file.will_need(std::slice::from_ref(range)));
    file.will_need(&ranges);
    file.will_need(&[]);
    // So many that some are looked at first.
    let pages =
        |first: u64| (first..first + 12).map(|page| page * 4096..(page + 1) * 4096).collect::<Vec<_>>();
    file.will_need(&pages(0));
    file.will_need(&pages(8));
    file.will_need(&pages(1 << 40));
    assert!(read_all(&disk, "pages") == bytes);
    assert_eq!(file.length().unwrap(), 64 << 10);
}

#[test]
fn a_mapped_file_shows_what_was_written() {
    let (_directory, disk) = scratch();
    let file = disk.open("pending", OpenMode::Create).unwrap();
    assert_eq!(disk.map_shared("pending").unwrap_err().kind(), ErrorKind::InvalidInput);
    file.fill_zeros(0, 3 * BLOCK_BYTES as u64).unwrap();
    file.write_all_at(b"before", 10).unwrap();
    let mut mapping = disk.map_shared("pending").unwrap();
    assert_eq!(&mapping.bytes()[10..16], b"before");
    mapping.write(BLOCK_BYTES - 1, b"across a border");
    mapping.write(3 * BLOCK_BYTES, b"");
    drop(mapping);
    assert_eq!(&read_all(&disk, "pending")[BLOCK_BYTES - 1..][..15], b"across a border");
    assert_eq!(disk.map_shared("missing").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
#[should_panic(expected = "2 bytes at 4095 of a mapping of 4096 bytes")]
fn a_write_past_the_end_of_a_mapping_is_a_bug() {
    let (_directory, disk) = scratch();
    disk.open("pending", OpenMode::Create).unwrap().fill_zeros(0, BLOCK_BYTES as u64).unwrap();
    disk.map_shared("pending").unwrap().write(BLOCK_BYTES - 1, &[0; 2]);
}

#[test]
#[should_panic(expected = "unaligned offset 512")]
fn an_unaligned_durable_write_is_a_bug() {
    let (_directory, disk) = scratch();
    let file = disk.open("segment", OpenMode::Create).unwrap();
    let buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
    drop(file.write_durable_at(&buffer, 0..BLOCK_BYTES, 512));
}

#[test]
fn many_slices_are_written_one_after_another() {
    let (_directory, disk) = scratch();
    let file = disk.open("pages", OpenMode::Create).unwrap();
    let pieces: Vec<Vec<u8>> =
        (0..3000_u32).map(|index| vec![index.to_le_bytes()[0]; index as usize % 7]).collect();
    let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    file.write_vectored_at(&slices, 11).unwrap();
    file.write_vectored_at(&[], 0).unwrap();
    let expected: Vec<u8> = [vec![0; 11], pieces.concat()].concat();
    assert_eq!(read_all(&disk, "pages"), expected);
}

#[test]
fn zeros_overwrite_and_extend_and_a_hole_keeps_the_length() {
    let (_directory, disk) = scratch();
    let file = disk.open("pages", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 10_000], 0).unwrap();
    file.fill_zeros(5000, 3 << 20).unwrap();
    assert_eq!(file.length().unwrap(), 5000 + (3 << 20));
    file.punch_hole(100, 4000).unwrap();
    file.set_length(6000).unwrap();
    let mut expected = vec![1; 6000];
    expected[5000..].fill(0);
    if file.punch_hole(100, 0).unwrap() {
        expected[100..4100].fill(0);
    }
    assert_eq!(read_all(&disk, "pages"), expected);
}

#[test]
fn a_file_that_is_extended_keeps_what_it_has_and_its_length_at_least() {
    let (_directory, disk) = scratch();
    let file = disk.open("segment", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    file.extend(4999).unwrap();
    file.extend(5000).unwrap();
    assert_eq!(file.length().unwrap(), 5000);
    file.extend(3 << 20).unwrap();
    let mut expected = vec![0; 3 << 20];
    expected[..5000].fill(1);
    assert!(read_all(&disk, "segment") == expected);
}

#[test]
fn errors_keep_their_kind_and_name_operation_and_path() {
    let (directory, disk) = scratch();
    let error = disk.open("log/1", OpenMode::Read).unwrap_err();
    assert_eq!((error.kind(), raw_os_error(&error)), (ErrorKind::NotFound, Some(2)));
    let full = directory.path().join("log/1").display().to_string();
    assert!(error.to_string().starts_with(&format!("cannot open {full}: ")), "{error}");
    assert_eq!(disk.location("log/1"), full);

    disk.open("a", OpenMode::Create).unwrap().write_all_at(b"abc", 0).unwrap();
    assert_eq!(disk.open("a", OpenMode::Create).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let file = disk.open("a", OpenMode::Read).unwrap();
    assert_eq!(file.read_exact_at(&mut [0; 4], 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(raw_os_error(&file.write_all_at(b"x", 0).unwrap_err()), Some(9));
    assert_eq!(disk.list("missing").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.rename("a", "log/a").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(disk.create_directory("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_storage_full() {
    let disk = OsDisk::new("/dev");
    match disk.open("full", OpenMode::Write) {
        Ok(file) => assert_eq!(file.write_all_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull),
        Err(error) => Need::SystemFiles.skip(error),
    }
}

#[test]
fn the_database_directory_is_made_with_its_parents() {
    let (directory, _) = scratch();
    let disk = OsDisk::new(directory.path().join("some/where/deep"));
    assert_eq!(disk.list("").unwrap_err().kind(), ErrorKind::NotFound);
    disk.create_directory("").unwrap();
    disk.create_directory("").unwrap();
    disk.create_directory("log").unwrap();
    disk.create_directory("log").unwrap();
    disk.open("z", OpenMode::Create).unwrap();
    disk.open("b", OpenMode::Create).unwrap().write_all_at(&[0; 9], 0).unwrap();
    disk.sync_directory("").unwrap();
    let entries = disk.list("").unwrap();
    let expected = [("b", 9), ("z", 0)].map(|(name, bytes)| DirectoryEntry { name: name.to_owned(), bytes });
    assert_eq!(entries, expected, "files only, sorted");
}

#[test]
fn a_rename_replaces_and_a_removal_removes() {
    let (_directory, disk) = scratch();
    disk.open("a", OpenMode::Create).unwrap().write_all_at(b"a", 0).unwrap();
    disk.open("b", OpenMode::Create).unwrap().write_all_at(b"b", 0).unwrap();
    disk.rename("a", "b").unwrap();
    assert_eq!(read_all(&disk, "b"), b"a");
    disk.remove("b").unwrap();
    assert_eq!(disk.remove("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.list("").unwrap(), []);
}

#[test]
fn a_rename_that_never_replaces_leaves_both_files() {
    let (_directory, disk) = scratch();
    disk.open("a", OpenMode::Create).unwrap().write_all_at(b"a", 0).unwrap();
    disk.open("b", OpenMode::Create).unwrap().write_all_at(b"b", 0).unwrap();
    assert_eq!(disk.rename_new("a", "b").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!((read_all(&disk, "a"), read_all(&disk, "b")), (b"a".to_vec(), b"b".to_vec()));
    disk.rename_new("a", "c").unwrap();
    assert_eq!(read_all(&disk, "c"), b"a");
    assert_eq!(disk.rename_new("a", "d").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn only_lack_of_rights_lets_a_reader_go_on_without_a_lock_file() {
    assert!(is_read_only(&io::Error::from_raw_os_error(30)));
    assert!(is_read_only(&io::Error::from_raw_os_error(13)));
    assert!(!is_read_only(&io::Error::from_raw_os_error(2)));
    let (_directory, disk) = scratch();
    assert_eq!(disk.lock("missing/lock", LockMode::Shared).unwrap_err().kind(), ErrorKind::NotFound);
}

/// `/sys` refuses to create files whoever asks, as a read-only directory does.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_of_a_read_only_directory_locks_what_is_there() {
    let disk = OsDisk::new("/sys/kernel");
    let made = open_with(&Place::by_path("/sys/kernel/lock".into()), OFlags::RDWR | OFlags::CREATE);
    if made.is_err_and(|error| is_read_only(&error)) {
        disk.lock("lock", LockMode::Shared).unwrap();
        assert!(disk.lock("lock", LockMode::Exclusive).is_err());
    } else {
        Need::SystemFiles.skip("/sys/kernel takes a new file");
    }
}

/// A directory `name` with the files `a`, `log/1` and `log/2`, each of which says whose it is.
fn database(parent: &Path, name: &str) -> PathBuf {
    let directory = parent.join(name);
    std::fs::create_dir_all(directory.join("log")).unwrap();
    for file in ["a", "log/1", "log/2"] {
        std::fs::write(directory.join(file), name).unwrap();
    }
    directory
}

/// All files below `directory` with their content, sorted.
fn tree(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let disk = OsDisk::new(directory);
    let below = |parent: &str| {
        let prefix = if parent.is_empty() { String::new() } else { format!("{parent}/") };
        let names = disk.list(parent).unwrap().into_iter();
        names.map(|entry| format!("{prefix}{}", entry.name)).collect::<Vec<_>>()
    };
    let names = [below(""), below("log")].concat();
    names.into_iter().map(|name| (name.clone(), read_all(&disk, &name))).collect()
}

/// Every call that changes something.
fn change_everything(disk: &OsDisk) {
    disk.create_directory("").unwrap();
    disk.create_directory("recovery").unwrap();
    disk.open("recovery/chunk", OpenMode::Create).unwrap();
    disk.open("log/3", OpenMode::Create).unwrap().fill_zeros(0, BLOCK_BYTES as u64).unwrap();
    disk.map_shared("log/3").unwrap().write(0, b"mapped");
    disk.open("log/3", OpenMode::Log)
        .unwrap()
        .write_durable_at(&AlignedBuffer::zeroed(BLOCK_BYTES), 0..BLOCK_BYTES, BLOCK_BYTES as u64)
        .unwrap();
    disk.open("log/2", OpenMode::Write).unwrap().write_all_at(b"written", 0).unwrap();
    disk.rename("log/2", "log/4").unwrap();
    disk.rename_new("log/1", "log/5").unwrap();
    disk.remove("a").unwrap();
    disk.sync_directory("log").unwrap();
    disk.sync_directory("").unwrap();
}

#[test]
fn a_locked_directory_that_is_moved_is_worked_in_and_what_takes_its_place_is_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    for log_was_used in [false, true] {
        let (mine, moved) = (database(parent.path(), "mine"), parent.path().join("moved"));
        let disk = OsDisk::new(&mine);
        let lock = disk.lock("lock", LockMode::Exclusive).unwrap();
        if log_was_used {
            assert_eq!(disk.list_names("log").unwrap().len(), 2);
        }
        std::fs::rename(&mine, &moved).unwrap();
        std::fs::rename(database(parent.path(), "other"), &mine).unwrap();
        let before = tree(&mine);

        change_everything(&disk.clone());
        assert_eq!(tree(&mine), before, "the directory in its place is not touched");
        assert_eq!(disk.list_subdirectories("").unwrap(), ["log", "recovery"]);
        let names: Vec<String> = tree(&moved).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["lock", "log/3", "log/4", "log/5"]);
        assert_eq!(read_all(&disk, "log/5"), b"mine");
        assert_eq!(
            OsDisk::new(&moved).lock("lock", LockMode::Shared).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        assert!(OsDisk::new(&mine).lock("lock", LockMode::Exclusive).is_ok());
        drop(lock);
        std::fs::remove_dir_all(&mine).unwrap();
        std::fs::remove_dir_all(&moved).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn errors_name_the_place_that_a_locked_directory_was_moved_to() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path().canonicalize().unwrap();
    let (mine, moved) = (database(&parent, "mine"), parent.join("moved"));
    let disk = OsDisk::new(&mine);
    let _lock = disk.lock("lock", LockMode::Exclusive).unwrap();
    assert_eq!(disk.location("log/1"), mine.join("log/1").display().to_string());
    std::fs::rename(&mine, &moved).unwrap();
    database(&parent, "mine");
    assert_eq!(disk.location("log/1"), moved.join("log/1").display().to_string());
    let error = disk.open("none", OpenMode::Read).unwrap_err().to_string();
    assert!(error.contains(&moved.join("none").display().to_string()), "{error}");
}

#[test]
fn nothing_is_made_in_a_new_directory_once_the_locked_one_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let mine = database(parent.path(), "mine");
    let disk = OsDisk::new(&mine);
    let _lock = disk.lock("lock", LockMode::Exclusive).unwrap();
    disk.list("log").unwrap();
    std::fs::remove_dir_all(&mine).unwrap();
    database(parent.path(), "mine");
    for path in ["b", "log/b"] {
        assert_eq!(disk.open(path, OpenMode::Create).unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(disk.create_directory("recovery").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_subdirectory_in_use_is_held_as_the_directory_is() {
    let parent = tempfile::tempdir().unwrap();
    let mine = database(parent.path(), "mine");
    let disk = OsDisk::new(&mine);
    let _lock = disk.lock("lock", LockMode::Exclusive).unwrap();
    disk.list("log").unwrap();
    std::fs::rename(mine.join("log"), mine.join("log.old")).unwrap();
    std::fs::create_dir(mine.join("log")).unwrap();
    disk.open("log/9", OpenMode::Create).unwrap();
    assert!(mine.join("log.old/9").exists() && !mine.join("log/9").exists());
}

#[test]
fn until_a_lock_is_taken_each_call_looks_the_path_up() {
    let parent = tempfile::tempdir().unwrap();
    let mine = database(parent.path(), "mine");
    let disk = OsDisk::new(&mine);
    let held = OsDisk::new(&mine).lock("lock", LockMode::Exclusive).unwrap();
    assert_eq!(disk.lock("lock", LockMode::Exclusive).unwrap_err().kind(), ErrorKind::WouldBlock);
    std::fs::rename(&mine, parent.path().join("moved")).unwrap();
    std::fs::rename(database(parent.path(), "other"), &mine).unwrap();
    assert_eq!(read_all(&disk, "log/1"), b"other");
    let _lock = disk.lock("lock", LockMode::Exclusive).unwrap();
    drop(held);
}

#[test]
fn a_directory_with_a_link_alone_is_not_empty() {
    let (directory, disk) = scratch();
    assert!(disk.is_empty("").unwrap());
    std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
    assert_eq!((disk.list_names("").unwrap(), disk.list_subdirectories("").unwrap()), (vec![], vec![]));
    assert!(!disk.is_empty("").unwrap());
    assert_eq!(disk.is_empty("missing").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_group_looks_at_what_it_is_given_and_at_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, disk) = scratch();
    let mode =
        |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
    for is_locked in [false, true] {
        let lock = is_locked.then(|| disk.lock("lock", LockMode::Exclusive).unwrap());
        let sub = format!("sub-{is_locked}");
        let file = format!("{sub}/file");
        disk.create_directory(&sub).unwrap();
        disk.open(&file, OpenMode::Create).unwrap();
        assert_eq!((mode(&sub), mode(&file)), (0o700, 0o600));
        for name in ["", &sub, &file] {
            disk.set_access(name, Access::Group).unwrap();
        }
        assert_eq!((mode(""), mode(&sub), mode(&file)), (0o750, 0o750, 0o640));
        for name in ["", &sub, &file] {
            disk.set_access(name, Access::Owner).unwrap();
        }
        assert_eq!((mode(""), mode(&sub), mode(&file)), (0o700, 0o700, 0o600));
        assert_eq!(disk.set_access("missing", Access::Group).unwrap_err().kind(), ErrorKind::NotFound);
        drop(lock);
    }
}

/// A process may have few files open, and a directory may have very many directories.
#[test]
fn no_more_directories_stay_open_than_a_process_can_have() {
    let (_directory, disk) = scratch();
    let _lock = disk.lock("lock", LockMode::Exclusive).unwrap();
    let open = || std::fs::read_dir("/dev/fd").unwrap().count();
    let before = open();
    for number in 0..500 {
        disk.create_directory(&format!("{number}")).unwrap();
        disk.open(&format!("{number}/file"), OpenMode::Create).unwrap();
    }
    // Other tests of this process have some open.
    assert!(open() < before + 300, "{} after {before}", open());
    assert!(disk.list_names("499").unwrap() == ["file"]);
}
