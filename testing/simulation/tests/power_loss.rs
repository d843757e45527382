//! What a power loss keeps, may keep and never keeps.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use seawall_io::{AlignedBuffer, BLOCK_BYTES, Disk, OpenMode};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};

/// A disk with a durable file `pages` of four blocks of ones.
fn disk_with_pages() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let file = disk.open("pages", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 4 * BLOCK_BYTES], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory("").unwrap();
    disk
}

/// What one file may hold after power losses with many seeds.
fn outcomes(disk: &SimulatedDisk, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..300).map(|seed| disk.after_power_loss(PowerLoss::Random(seed)).read_file(path)).collect()
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.list_all().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn what_was_synced_survives_every_power_loss() {
    let disk = disk_with_pages();
    let all_ones = vec![1; 4 * BLOCK_BYTES];
    for outcome in (0..50).map(PowerLoss::Random).chain([PowerLoss::LoseAll, PowerLoss::KeepAll]) {
        assert_eq!(disk.after_power_loss(outcome).read_file("pages"), Some(all_ones.clone()), "{outcome:?}");
    }
}

#[test]
fn directories_of_one_disk_lose_power_together() {
    let disk = SimulatedDisk::new(1);
    let directories = ["one", "two"].map(|name| {
        disk.create_directory(name).unwrap();
        disk.sync_directory("").unwrap();
        let directory = disk.subdirectory(name);
        directory.open("kept", OpenMode::Create).unwrap();
        directory.sync_directory("").unwrap();
        directory.open("lost", OpenMode::Create).unwrap();
        directory
    });
    disk.crash_at(disk.calls());
    assert!(directories[0].remove("kept").is_err() && directories[1].list("").is_err());
    assert_eq!(names(&disk.after_power_loss(PowerLoss::LoseAll)), ["one/kept", "two/kept"]);
}

#[test]
fn a_mapped_write_outlives_the_process_and_reaches_the_disk_page_by_page_when_it_likes() {
    let disk = disk_with_pages();
    let mut mapping = disk.map_shared("pages").unwrap();
    assert_eq!(mapping.bytes(), [1; 4 * BLOCK_BYTES]);
    for value in 2..=9 {
        mapping.write(BLOCK_BYTES / 2, &[value; 2 * BLOCK_BYTES]);
    }
    let expected =
        [vec![1; BLOCK_BYTES / 2], vec![9; 2 * BLOCK_BYTES], vec![1; 3 * BLOCK_BYTES / 2]].concat();
    assert_eq!(mapping.bytes(), expected);
    assert_eq!(disk.copy().read_file("pages"), Some(expected.clone()));
    let outcomes = outcomes(&disk, "pages");
    let page_of = |content: &Option<Vec<u8>>, page: usize| {
        content.as_ref().unwrap()[page * BLOCK_BYTES..][..BLOCK_BYTES].to_vec()
    };
    let new = |content| page_of(content, 1) == [9; BLOCK_BYTES];
    let old = |content| page_of(content, 2)[..BLOCK_BYTES / 2].iter().all(|&byte| byte < 9);
    assert!(outcomes.iter().any(|content| new(content) && old(content)), "an old and a new page");
    assert!(outcomes.iter().all(|content| page_of(content, 3) == [1; BLOCK_BYTES]));
    // Without power nobody writes.
    disk.crash();
    mapping.write(0, &[0xFF; 10]);
    assert_eq!(disk.read_file("pages"), Some(expected));
}

#[test]
fn an_unsynced_write_is_kept_lost_or_torn_into_sectors() {
    let disk = disk_with_pages();
    disk.open("pages", OpenMode::Write).unwrap().write_all_at(&[2; 1024], 700).unwrap();
    let old = disk.after_power_loss(PowerLoss::LoseAll).read_file("pages").unwrap();
    let new = disk.after_power_loss(PowerLoss::KeepAll).read_file("pages").unwrap();
    assert_eq!(old, vec![1; 4 * BLOCK_BYTES]);
    assert_eq!(new, disk.read_file("pages").unwrap());
    let seen = outcomes(&disk, "pages");
    // Three sectors are touched: 700..1024, 1024..1536, 1536..1724.
    assert_eq!(seen.len(), 8, "every subset of three sectors is seen");
    for bytes in seen.into_iter().flatten() {
        for (sector, piece) in bytes.chunks(512).enumerate() {
            let place = sector * 512..(sector + 1) * 512;
            assert!(
                piece == &old[place.clone()] || piece == &new[place],
                "sector {sector} is neither old nor new"
            );
        }
    }
}

#[test]
fn a_later_write_may_survive_without_an_earlier_one() {
    let disk = disk_with_pages();
    let file = disk.open("pages", OpenMode::Write).unwrap();
    file.write_all_at(&[2; 512], 4 * BLOCK_BYTES as u64).unwrap();
    file.write_all_at(&[3; 512], 6 * BLOCK_BYTES as u64).unwrap();
    let seen = outcomes(&disk, "pages");
    let mut only_later = vec![1; 4 * BLOCK_BYTES];
    only_later.resize(6 * BLOCK_BYTES, 0);
    only_later.extend([3; 512]);
    assert!(seen.contains(&Some(only_later)), "a lost extending write leaves zeros before a kept later one");
    // No length of either; that of the first write, with its bytes or without; that of the second, with any of both.
    assert_eq!(seen.len(), 1 + 2 + 4);
}

#[test]
fn a_sync_of_a_file_does_not_keep_its_name() {
    let disk = SimulatedDisk::new(1);
    let file = disk.open("new", OpenMode::Create).unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "new"), BTreeSet::from([None, Some(b"bytes".to_vec())]));
    disk.sync_directory("").unwrap();
    assert_eq!(outcomes(&disk, "new"), BTreeSet::from([Some(b"bytes".to_vec())]));
}

#[test]
fn a_directory_sync_keeps_names_and_not_bytes() {
    let disk = SimulatedDisk::new(1);
    disk.open("new", OpenMode::Create).unwrap().write_all_at(b"bytes", 0).unwrap();
    disk.sync_directory("").unwrap();
    assert_eq!(disk.after_power_loss(PowerLoss::LoseAll).read_file("new"), Some(Vec::new()));
}

#[test]
fn a_directory_is_lost_with_all_in_it_until_its_parent_is_synced() {
    let disk = SimulatedDisk::new(1);
    disk.create_directory("log").unwrap();
    disk.open("log/1", OpenMode::Create).unwrap().sync_data().unwrap();
    disk.sync_directory("log").unwrap();
    let lost = disk.after_power_loss(PowerLoss::LoseAll);
    assert_eq!(lost.list("log").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    disk.sync_directory("").unwrap();
    assert_eq!(names(&disk.after_power_loss(PowerLoss::LoseAll)), ["log/1"]);
}

#[test]
fn a_rename_is_atomic_and_its_target_stays_until_then() {
    let disk = SimulatedDisk::new(1);
    disk.write_file("new", b"new");
    disk.write_file("target", b"old");
    disk.rename("new", "target").unwrap();
    assert_eq!(names(&disk), ["target"]);
    for seed in 0..100 {
        let after = disk.after_power_loss(PowerLoss::Random(seed));
        let files = (after.read_file("new"), after.read_file("target"));
        let (undone, done) = ((Some(b"new".to_vec()), Some(b"old".to_vec())), (None, Some(b"new".to_vec())));
        assert!(files == undone || files == done, "seed {seed}: {files:?}");
    }
    assert_eq!(names(&disk.after_power_loss(PowerLoss::LoseAll)), ["new", "target"]);
    disk.sync_directory("").unwrap();
    assert_eq!(names(&disk.after_power_loss(PowerLoss::LoseAll)), ["target"]);
}

#[test]
fn a_file_has_one_name_whichever_renames_survive() {
    for seed in seeds(200) {
        let disk = SimulatedDisk::new(seed);
        disk.write_file("a", b"a");
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")] {
            disk.rename(from, to).unwrap();
        }
        assert_eq!(names(&disk.after_power_loss(PowerLoss::Random(seed))).len(), 1, "seed {seed}");
    }
}

#[test]
fn a_removed_file_may_come_back_until_the_directory_is_synced() {
    let disk = disk_with_pages();
    disk.remove("pages").unwrap();
    assert_eq!(disk.allocated_bytes(), 0);
    let seen = outcomes(&disk, "pages");
    assert_eq!(seen, BTreeSet::from([None, Some(vec![1; 4 * BLOCK_BYTES])]));
    disk.sync_directory("").unwrap();
    assert_eq!(outcomes(&disk, "pages"), BTreeSet::from([None]));
}

#[test]
fn a_durable_write_is_durable_and_nothing_else_is() {
    let disk = disk_with_pages();
    disk.open("pages", OpenMode::Write).unwrap().write_all_at(&[2; 2 * BLOCK_BYTES], 0).unwrap();
    let mut buffer = AlignedBuffer::zeroed(2 * BLOCK_BYTES);
    buffer.fill(3);
    let log = disk.open("pages", OpenMode::Log).unwrap();
    log.write_durable_at(&buffer, BLOCK_BYTES..2 * BLOCK_BYTES, BLOCK_BYTES as u64).unwrap();
    for outcome in (0..50).map(PowerLoss::Random).chain([PowerLoss::LoseAll, PowerLoss::KeepAll]) {
        let bytes = disk.after_power_loss(outcome).read_file("pages").unwrap();
        // The older write to the same block must not land on top of it.
        assert!(bytes[BLOCK_BYTES..2 * BLOCK_BYTES].iter().all(|&byte| byte == 3), "{outcome:?}");
    }
    let lost = disk.after_power_loss(PowerLoss::LoseAll).read_file("pages").unwrap();
    assert!(lost[..BLOCK_BYTES].iter().all(|&byte| byte == 1));
}

#[test]
fn the_call_at_which_the_power_goes_may_be_done_and_no_later_one_is() {
    for crash_at in 0..6 {
        let disk = disk_with_pages();
        disk.crash_at(disk.calls() + crash_at);
        let run = || -> std::io::Result<()> {
            let file = disk.open("pages", OpenMode::Write)?;
            file.write_all_at(&[2; 512], 0)?;
            file.set_length(1024)?;
            file.sync_data()?;
            disk.rename("pages", "renamed")?;
            disk.sync_directory("")?;
            disk.remove("renamed")
        };
        let error = run().unwrap_err();
        assert!(error.to_string().contains("power lost"), "{error}");
        assert!(disk.crashed());
        // Not even the absence of a file is told.
        assert!(disk.remove("absent").unwrap_err().to_string().contains("power lost"));
        assert!(disk.open("pages", OpenMode::Read).unwrap_err().to_string().contains("power lost"));
        assert!(
            disk.list("").is_err()
                && disk.create_directory("x").is_err()
                && disk.create_directory("").is_err()
        );

        let lost = disk.after_power_loss(PowerLoss::LoseAll);
        let name = if crash_at >= 5 { "renamed" } else { "pages" };
        let bytes = lost.read_file(name).unwrap();
        assert_eq!((bytes.len(), bytes[0]), if crash_at >= 3 { (1024, 2) } else { (4 * BLOCK_BYTES, 1) });
        let kept = names(&disk.after_power_loss(PowerLoss::KeepAll));
        let expected: &[&str] = match crash_at {
            0..=2 => &["pages"],
            3 | 4 => &["renamed"],
            _ => &[],
        };
        // The sync of a file is call 2, the rename call 3, the directory's sync call 4, the removal call 5.
        assert_eq!(kept, expected, "crash at {crash_at}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let disk = SimulatedDisk::new(seed);
        let mut random = SeededRandom::new(seed);
        for index in 0..20 {
            let file = disk.open(&format!("file-{index}"), OpenMode::Create).unwrap();
            file.write_all_at(&random.bytes(5000), random.below(10_000)).unwrap();
        }
        let after = disk.after_power_loss(PowerLoss::Random(seed));
        let files: Vec<_> = names(&after).iter().map(|name| after.read_file(name)).collect();
        (disk.trace(), files)
    };
    for seed in seeds(10) {
        assert!(run(seed) == run(seed), "seed {seed}");
    }
    assert!(run(1) != run(2));
}

/// Every sector holds its last synced stamp or one written since, through several power losses in a row.
#[test]
fn a_sector_never_goes_back_behind_a_sync() {
    const SECTORS: usize = 64;
    for seed in seeds(200) {
        let mut random = SeededRandom::new(seed);
        let mut disk = SimulatedDisk::new(seed);
        disk.write_file("pages", &[0; SECTORS * 512]);
        let mut possible: Vec<BTreeSet<u8>> = vec![BTreeSet::from([0]); SECTORS];
        for loss in 0..3 {
            let file = disk.open("pages", OpenMode::Write).unwrap();
            let log = disk.open("pages", OpenMode::Log).unwrap();
            for step in 1..40_u8 {
                let stamp = loss * 40 + step;
                let first = random.index(SECTORS);
                let count = (1 + random.index(12)).min(SECTORS - first);
                match random.below(6) {
                    0 => {
                        file.sync_data().unwrap();
                        let bytes = disk.read_file("pages").unwrap();
                        possible = bytes.chunks(512).map(|sector| BTreeSet::from([sector[0]])).collect();
                    }
                    1 => {
                        let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
                        buffer.fill(stamp);
                        let block = first / 8;
                        log.write_durable_at(&buffer, 0..BLOCK_BYTES, (block * BLOCK_BYTES) as u64).unwrap();
                        possible[block * 8..block * 8 + 8].fill(BTreeSet::from([stamp]));
                    }
                    2 => {
                        file.punch_hole(first as u64 * 512, count as u64 * 512).unwrap();
                        possible[first..first + count].iter_mut().for_each(|stamps| {
                            stamps.insert(0);
                        });
                    }
                    _ => {
                        file.write_all_at(&vec![stamp; count * 512], first as u64 * 512).unwrap();
                        possible[first..first + count].iter_mut().for_each(|stamps| {
                            stamps.insert(stamp);
                        });
                    }
                }
            }
            disk = disk.after_power_loss(PowerLoss::Random(random.next_u64()));
            let bytes = disk.read_file("pages").unwrap();
            assert_eq!(bytes.len(), SECTORS * 512, "seed {seed} loss {loss}");
            for (sector, stamps) in bytes.chunks(512).zip(&mut possible) {
                assert!(
                    sector.iter().all(|byte| *byte == sector[0]),
                    "seed {seed} loss {loss}: torn inside a sector"
                );
                assert!(
                    stamps.contains(&sector[0]),
                    "seed {seed} loss {loss}: {} not of {stamps:?}",
                    sector[0]
                );
                *stamps = BTreeSet::from([sector[0]]);
            }
        }
    }
}

/// Replaces a small file in the way everybody does; `sync_bytes` and `sync_name` leave a step out.
fn replace(disk: &SimulatedDisk, bytes: &[u8], sync_bytes: bool, sync_name: bool) -> std::io::Result<()> {
    let file = disk.open("new", OpenMode::Create)?;
    file.write_all_at(bytes, 0)?;
    if sync_bytes {
        file.sync_data()?;
    }
    disk.rename("new", "current")?;
    if sync_name {
        disk.sync_directory("")?;
    }
    Ok(())
}

/// Whether some power loss after some call loses an acknowledged replacement or leaves neither version.
fn replacement_can_fail(sync_bytes: bool, sync_name: bool) -> bool {
    let (old, new) = (vec![1; 3000], vec![2; 3000]);
    (0..6).any(|crash_at| {
        let disk = SimulatedDisk::new(crash_at);
        disk.write_file("current", &old);
        disk.crash_at(crash_at);
        let acknowledged = replace(&disk, &new, sync_bytes, sync_name).is_ok();
        (0..60).any(|seed| {
            let found = disk.after_power_loss(PowerLoss::Random(seed)).read_file("current");
            !(found.as_ref() == Some(&new) || (found.as_ref() == Some(&old) && !acknowledged))
        })
    })
}

#[test]
fn a_missing_sync_is_found_and_a_complete_protocol_passes() {
    assert!(!replacement_can_fail(true, true));
    assert!(replacement_can_fail(false, true));
    assert!(replacement_can_fail(true, false));
}
