//! Whole files: cut, removed, foreign, of another version.

use seawall_codec::checksum::crc32c;
use seawall_engine::Error;
use seawall_simulation::{SeededRandom, SimulatedDisk};

use super::base::{Base, SEGMENT, Verdict, base, base_with_seed, forge, judge, segment};
use crate::harness::{open, try_open};

#[test]
fn files_cut_at_any_length_are_noticed() {
    let base = base();
    let mut random = SeededRandom::new(4);
    for entry in base.disk.list_all() {
        let mut lengths = vec![0, 1, 100, 511, 512, 4095, 4096, 4097, 8191, 8192];
        if entry.bytes > 8192 {
            lengths.extend((0..25).map(|_| random.below(entry.bytes)));
        }
        for length in lengths.into_iter().filter(|length| *length < entry.bytes) {
            let what = format!("{} cut to {length} of {} bytes", entry.name, entry.bytes);
            let disk = base.disk.copy();
            disk.truncate(&entry.name, length);
            let (verdict, damages) = judge(&base, &disk, &what);
            let is_superblock = entry.name == "superblock";
            match verdict {
                Verdict::Whole { lost: 0 } => {}
                Verdict::Refused(_) if is_superblock && length < 4096 => {
                    assert!(!damages.is_empty(), "{what}")
                }
                Verdict::Refused(_) | Verdict::Unreadable(_) if !is_superblock => {
                    assert!(!damages.is_empty(), "{what}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
}

#[test]
fn removed_files_are_missed() {
    let base = base();
    for entry in base.disk.list_all() {
        let what = format!("{} removed", entry.name);
        let disk = base.disk.copy();
        assert!(disk.remove_file(&entry.name));
        let (verdict, _) = judge(&base, &disk, &what);
        let is_needed = match &*entry.name {
            "lock" | "measurements" | "log/pending.1" | "log/pending.2" | "log/holds" => false,
            "superblock" | "pages" | "recovery/chunk" => true,
            // Before the redo point, or behind the end of the log: spares.
            name => {
                let number = u64::from_str_radix(&name[name.len() - 16..], 16).unwrap();
                let records = base.disk.read_file(name).unwrap()[4096..].iter().any(|byte| *byte != 0);
                number >= base.redo_segment && records && is_live(&base, number)
            }
        };
        match verdict {
            Verdict::Whole { lost: 0 } => assert!(!is_needed, "{what}: nobody misses it"),
            Verdict::Refused(_) => assert!(is_needed, "{what}"),
            // Without a later segment, a log whose last one is gone looks like one restored from an archive.
            Verdict::Whole { .. } if is_last_segment(&base, &entry.name) => {}
            other => panic!("{what}: {other:?}"),
        }
    }
}

fn is_last_segment(base: &Base, name: &str) -> bool {
    let segments =
        base.disk.list_all().into_iter().map(|entry| entry.name).filter(|name| name.starts_with("log/0"));
    segments.max().as_deref() == Some(name)
}

fn is_live(base: &Base, number: u64) -> bool {
    let database = open(&base.disk.copy(), &base.options);
    number <= database.info().unwrap().end_of_log.get() / SEGMENT
}

#[test]
fn files_of_another_database_are_refused() {
    let (base, other) = (base(), base_with_seed(6));
    for entry in base.disk.list_all() {
        let Some(bytes) = other.disk.read_file(&entry.name) else { continue };
        let what = format!("{} of another database", entry.name);
        let disk = base.disk.copy();
        disk.write_file(&entry.name, &bytes);
        let (verdict, damages) = judge(&base, &disk, &what);
        match verdict {
            Verdict::Whole { lost: 0 } => {
                let unused = entry.name == "lock"
                    || entry.name == "measurements"
                    || entry.name.starts_with("recovery")
                    || entry.name.starts_with("log/");
                assert!(unused, "{what}: nobody notices");
            }
            Verdict::Refused(_) | Verdict::Unreadable(_) => assert!(!damages.is_empty(), "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// A version that no format comes to for a while.
const NEWER: u32 = 1000;

#[test]
fn newer_formats_are_refused_by_their_version() {
    let base = base();
    let judge_version = |disk: &SimulatedDisk, what: &str| {
        let (verdict, damages) = judge(&base, disk, what);
        let Verdict::Refused(error) = verdict else { panic!("{what}: {verdict:?}") };
        assert!(error.to_string().contains("format"), "{what}: {error}");
        assert!(!damages.is_empty(), "{what}");
    };
    for copy in 0..2_u64 {
        let disk = base.disk.copy();
        let start = usize::try_from(copy * 4096).unwrap();
        let mut block = disk.read_file("superblock").unwrap()[start..start + 4096].to_vec();
        block[8..12].copy_from_slice(&NEWER.to_le_bytes());
        block[12..16].fill(0);
        let checksum = crc32c(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        disk.overwrite("superblock", copy * 4096, &block);
        judge_version(&disk, &format!("superblock copy {copy}"));
    }
    let disk = base.disk.copy();
    let path = segment(base.redo_segment);
    let mut header = disk.read_file(&path).unwrap()[..72].to_vec();
    header[8..12].copy_from_slice(&NEWER.to_le_bytes());
    header[44..48].fill(0);
    let checksum = crc32c(&header);
    header[44..48].copy_from_slice(&checksum.to_le_bytes());
    disk.overwrite(&path, 0, &header);
    judge_version(&disk, "segment");
    let disk = base.disk.copy();
    let mut header = disk.read_file("recovery/chunk").unwrap()[..512].to_vec();
    header[8..12].copy_from_slice(&NEWER.to_le_bytes());
    header[12..16].fill(0);
    let checksum = crc32c(&header);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.overwrite("recovery/chunk", 0, &header);
    judge_version(&disk, "recovery file");
    // Page 1 is the root: it is read by the first read.
    let (verdict, damages) = judge(&base, &forge(&base, 1, 16, &[99]), "root page");
    assert!(
        matches!(&verdict, Verdict::Unreadable(error) if error.to_string().contains("version 99")),
        "{verdict:?}"
    );
    assert!(damages.iter().any(|damage| damage.what.contains("version 99")));
}

#[test]
fn a_directory_that_lost_its_superblock_is_not_made_a_new_database() {
    let base = base();
    let disk = base.disk.copy();
    assert!(disk.remove_file("superblock"));
    let error = try_open(&disk, &base.options).expect_err("it must not be created anew");
    assert!(matches!(&error, Error::Tree { message } if message.contains("superblock")), "{error}");
    // The marker of a creation that was cut short late does not stay: it would allow just that.
    let disk = base.disk.copy();
    disk.write_file("creating", b"");
    drop(open(&disk, &base.options));
    assert!(disk.read_file("creating").is_none());
}
