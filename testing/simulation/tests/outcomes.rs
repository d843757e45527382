//! Every state that a power loss may leave, where they are few; a sample where they are many.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use seawall_io::{BLOCK_BYTES, Disk, OpenMode};
use seawall_simulation::{Coverage, PowerLoss, SimulatedDisk};

type Files = BTreeMap<String, Vec<u8>>;

fn files(disk: &SimulatedDisk) -> Files {
    let read = |name: String| {
        let bytes = disk.read_file(&name).unwrap();
        (name, bytes)
    };
    disk.list_all().into_iter().map(|entry| read(entry.name)).collect()
}

/// A disk with a durable file `pages` of two blocks of ones.
fn disk_with_pages() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let file = disk.open("pages", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 2 * BLOCK_BYTES], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory("").unwrap();
    disk
}

/// All states, which must be distinct.
fn states(disk: &SimulatedDisk, limit: u64) -> Vec<Files> {
    let states: Vec<Files> = disk.outcomes(limit, 7).map(|outcome| files(&outcome.disk)).collect();
    assert_eq!(states.iter().collect::<BTreeSet<_>>().len(), states.len(), "a state came twice");
    states
}

/// What random power losses leave.
fn random_states(disk: &SimulatedDisk) -> BTreeSet<Files> {
    (0..500).map(|seed| files(&disk.after_power_loss(PowerLoss::Random(seed)))).collect()
}

#[test]
fn a_disk_without_unsynced_changes_has_one_state() {
    let disk = disk_with_pages();
    assert_eq!(states(&disk, 256), [files(&disk)]);
    assert_eq!(disk.outcomes(256, 1).coverage(), Coverage::Sectors);
}

#[test]
fn every_subset_of_the_sectors_of_a_write_comes_once() {
    let disk = disk_with_pages();
    disk.open("pages", OpenMode::Write).unwrap().write_all_at(&[2; 1024], 700).unwrap();
    let all = states(&disk, 256);
    assert_eq!(all.len(), 8, "three sectors");
    assert_eq!(all[0], files(&disk.after_power_loss(PowerLoss::LoseAll)));
    assert_eq!(all[1], files(&disk.after_power_loss(PowerLoss::KeepAll)));
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), random_states(&disk));
}

#[test]
fn a_later_write_may_be_there_without_an_earlier_one_and_the_same_bytes_count_once() {
    let disk = disk_with_pages();
    let file = disk.open("pages", OpenMode::Write).unwrap();
    for (value, offset) in [(2, 0), (3, 512), (1, 1024)] {
        file.write_all_at(&[value; 512], offset).unwrap();
    }
    let starts: BTreeSet<(u8, u8)> =
        states(&disk, 256).iter().map(|files| (files["pages"][0], files["pages"][512])).collect();
    assert_eq!(starts, BTreeSet::from([(1, 1), (1, 3), (2, 1), (2, 3)]));
    assert_eq!(states(&disk, 256).len(), 4, "the third write changes nothing");
}

#[test]
fn a_length_may_be_behind_its_bytes_and_bytes_behind_their_length() {
    let disk = disk_with_pages();
    let file = disk.open("pages", OpenMode::Write).unwrap();
    let old = 2 * BLOCK_BYTES;
    file.write_all_at(&[2; 1024], old as u64).unwrap();
    let tails: BTreeSet<Vec<u8>> =
        states(&disk, 256).iter().map(|files| files["pages"][old..].to_vec()).collect();
    let tail = |first: Option<u8>, second: Option<u8>| {
        [first, second].into_iter().flatten().flat_map(|value| [value; 512]).collect::<Vec<u8>>()
    };
    let expected = [
        tail(None, None),
        tail(Some(2), None),
        tail(Some(0), Some(0)),
        tail(Some(0), Some(2)),
        tail(Some(2), Some(0)),
        tail(Some(2), Some(2)),
    ];
    assert_eq!(tails, BTreeSet::from(expected));
}

#[test]
fn drawing_comes_to_an_end_where_hardly_any_part_makes_a_difference() {
    let disk = disk_with_pages();
    disk.open("pages", OpenMode::Write).unwrap().write_all_at(&[1; 2 * BLOCK_BYTES], 0).unwrap();
    disk.open("new", OpenMode::Create).unwrap();
    assert_eq!(disk.outcomes(100, 7).coverage(), Coverage::Pages);
    assert_eq!(states(&disk, 100).len(), 2);
}

#[test]
fn names_are_lost_or_kept_each_by_itself() {
    let disk = disk_with_pages();
    disk.open("new", OpenMode::Create).unwrap();
    disk.rename("pages", "moved").unwrap();
    disk.create_directory("log").unwrap();
    disk.open("log/1", OpenMode::Create).unwrap();
    let all = disk.outcomes(256, 1).map(|outcome| files(&outcome.disk));
    // `new` or not, `pages` or `moved`, and no directory, an empty one, or one with the file in it; an empty one shows
    // in no file.
    let names: BTreeSet<Vec<String>> = all.map(|files| files.keys().cloned().collect()).collect();
    assert_eq!(names.len(), 2 * 2 * 2);
    assert_eq!(disk.outcomes(256, 1).count(), 2 * 2 * 3);
}

#[test]
fn a_mapped_page_has_all_its_moments_in_any_sectors() {
    let disk = disk_with_pages();
    let mut mapping = disk.map_shared("pages").unwrap();
    mapping.write(0, &[2; 512]);
    mapping.write(1024, &[3; 512]);
    let all: BTreeSet<Files> = states(&disk, 1 << 20).into_iter().collect();
    assert!(random_states(&disk).is_subset(&all));
}

#[test]
fn where_states_are_many_those_of_pages_come_first_and_then_a_sample_that_its_seed_repeats() {
    let disk = disk_with_pages();
    let file = disk.open("pages", OpenMode::Write).unwrap();
    let bytes: Vec<u8> = (0..2 * BLOCK_BYTES).map(|index| u8::try_from(index % 251).unwrap()).collect();
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(disk.outcomes(100, 7).coverage(), Coverage::Pages);
    let sample = states(&disk, 100);
    assert_eq!(sample.len(), 100);
    assert_eq!(states(&disk, 100), sample);
    let is_new = |files: &Files, block: usize| {
        files["pages"][block * BLOCK_BYTES..][..BLOCK_BYTES] == bytes[block * BLOCK_BYTES..][..BLOCK_BYTES]
    };
    let whole: BTreeSet<_> = sample[..4].iter().map(|files| (is_new(files, 0), is_new(files, 1))).collect();
    assert_eq!(whole.len(), 4, "all subsets of two pages");
    let other: Vec<Files> = disk.outcomes(100, 8).map(|outcome| files(&outcome.disk)).collect();
    assert_ne!(other, sample);
    // A change that is many pages.
    file.write_all_at(&bytes.repeat(4), 0).unwrap();
    assert_eq!(disk.outcomes(100, 7).coverage(), Coverage::Changes);
    // Many places: nothing is exhaustive, and still all of them come.
    for number in 0..20 {
        disk.open(&format!("file {number}"), OpenMode::Create).unwrap();
    }
    assert_eq!(disk.outcomes(100, 7).coverage(), Coverage::Sample);
    assert_eq!(states(&disk, 100).len(), 100);
}
