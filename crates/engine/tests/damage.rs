//! Damaged, cut, foreign and missing files: every open, read and check ends in the right rows or in an error that names
//! the file; never in wrong rows, a panic, or an allocation that unchecked bytes have asked for.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "crash/mod.rs"]
mod harness;

use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_engine::{Damage, Database, Durability, Error, Options, PageProtection};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};

use harness::plan::{self, long_key};
use harness::session::{Progress, Session};
use harness::state::{Rows, State};
use harness::watched_disk::WatchedDisk;
use harness::{environment, forget_pending, open, small_options, template, template_with_id, try_open};

const PAGE: u64 = 4096;
const SEGMENT: u64 = 64 << 10;

/// A database that was not closed: a tree three pages high, long values, a log of some segments behind the redo point.
struct Base {
    disk: SimulatedDisk,
    options: Options,
    /// After each commit behind the redo point, oldest first.
    states: Vec<State>,
    /// Where recovery starts.
    redo_segment: u64,
}

fn base() -> Base {
    base_with_seed(5)
}

fn base_with_seed(seed: u64) -> Base {
    let options = small_options();
    let disk = template_with_id(&options, seed);
    let database = open(&disk, &options);
    let mut random = SeededRandom::new(seed);
    let mut rows = Rows::new();
    let table = database.create_table("t").unwrap();
    let mut put = |key: Vec<u8>, length: usize| {
        let value: Arc<[u8]> = random.bytes(length).into();
        database.put(&table, &key, &value).unwrap();
        rows.insert(key, value);
        State { tables: [("t".to_owned(), Arc::new(rows.clone()))].into() }
    };
    for number in 0..100 {
        put(long_key(number), 80);
        put(number.to_be_bytes().to_vec(), if number % 25 == 3 { 10_000 } else { 60 });
    }
    database.checkpoint().unwrap();
    let redo = database.info().unwrap().redo_point.get();
    let lengths = [300, 40_000, 20, 45_000, 30_000, 50_000, 700];
    let states =
        (0_u32..).zip(lengths).map(|(number, length)| put(number.to_be_bytes().to_vec(), length)).collect();
    let crashed = disk.after_power_loss(PowerLoss::KeepAll);
    forget_pending(&crashed);
    Base { disk: crashed, options, states, redo_segment: redo / SEGMENT }
}

fn segment(number: u64) -> String {
    format!("log/00000001{number:016X}")
}

/// Everything that can be read.
fn read_all(database: &Database) -> Result<State, Error> {
    let mut state = State::default();
    for info in database.tables()? {
        let table = database.table(&info.name)?;
        let mut rows = Rows::new();
        for row in database.snapshot().range::<&[u8]>(&table, ..) {
            let (key, value) = row?;
            rows.insert(key, value.into());
        }
        state.tables.insert(info.name, Arc::new(rows));
    }
    Ok(state)
}

/// What became of a damaged database.
#[derive(Debug)]
enum Verdict {
    /// Everything is there; how many of the last commits are not.
    Whole { lost: usize },
    /// It opens, and reading says what is wrong.
    Unreadable(Error),
    /// It does not open.
    Refused(Error),
}

/// Opens, reads and checks; wrong rows are a failure of the test.
fn judge(base: &Base, disk: &SimulatedDisk, what: &str) -> (Verdict, Vec<Damage>) {
    let mut damages = Vec::new();
    let checked = Database::check_directory_in(
        environment(Arc::new(disk.copy())),
        base.options.clone(),
        &mut |damage| {
            damages.push(damage);
        },
    );
    if let Err(error) = checked {
        assert!(
            matches!(error, Error::NoDatabase { .. } | Error::NotEmpty { .. }),
            "{what}: check ends with {error}"
        );
    }
    let database = match try_open(disk, &base.options) {
        Ok(database) => database,
        Err(error) => {
            names_a_file(&error, what);
            return (Verdict::Refused(error), damages);
        }
    };
    let verdict = match read_all(&database) {
        Ok(state) => {
            let found = base.states.iter().rev().position(|candidate| *candidate == state);
            Verdict::Whole { lost: found.unwrap_or_else(|| panic!("{what}: wrong rows")) }
        }
        Err(error) => {
            names_a_file(&error, what);
            Verdict::Unreadable(error)
        }
    };
    // Working on may fail, but not in any other way.
    if let Err(error) = database.create_table("x").and_then(|_| database.checkpoint()) {
        names_a_file(&error, what);
    }
    disk.crash();
    (verdict, damages)
}

fn names_a_file(error: &Error, what: &str) {
    let message = error.to_string();
    let known = matches!(
        error,
        Error::Log { .. }
            | Error::Tree { .. }
            | Error::Io { .. }
            | Error::Catalog { .. }
            | Error::Stopped { .. }
    );
    let named = ["superblock", "pages", "log", "recovery"].iter().any(|name| message.contains(name));
    assert!(known && named, "{what}: {error:?}");
}

fn flip(base: &Base, path: &str, offset: u64, bit: u8) -> SimulatedDisk {
    let disk = base.disk.copy();
    disk.flip_bit(path, offset, bit);
    disk
}

/// Changes bytes of a page and makes its checksum right again.
fn forge(base: &Base, page: u64, offset: usize, bytes: &[u8]) -> SimulatedDisk {
    let disk = base.disk.copy();
    let file = disk.read_file("pages").unwrap();
    let start = usize::try_from(page * PAGE).unwrap();
    let mut image = file[start..start + 4096].to_vec();
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
    let checksum = crc32c(&image[4..]);
    image[..4].copy_from_slice(&checksum.to_le_bytes());
    disk.overwrite("pages", page * PAGE, &image);
    disk
}

#[test]
fn the_base_is_what_it_should_be() {
    let base = base();
    let (verdict, damages) = judge(&base, &base.disk.copy(), "no damage");
    assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{verdict:?}");
    assert!(damages.is_empty(), "{damages:?}");
    let database = open(&base.disk, &base.options);
    let summary = database.check(&mut |_| ()).unwrap();
    assert!(summary.depth >= 3, "{summary:?}");
    let segments = database.info().unwrap().segments.len();
    assert!(segments >= 4, "{segments}");
}

#[test]
fn a_lost_copy_of_the_superblock_is_survived_and_two_are_not() {
    let base = base();
    let offsets = [0, 8, 12, 16, 24, 40, 44, 48, 56, 64, 72, 80, 88, 96, 104, 108, 2000, 4095];
    for copy in 0..2 {
        for offset in offsets {
            let what = format!("copy {copy}, offset {offset}");
            let (verdict, damages) = judge(&base, &flip(&base, "superblock", copy * 4096 + offset, 3), &what);
            // The other copy may be that of the checkpoint before: the log is there, unless it was recycled.
            assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{what}: {verdict:?}");
            let reported = damages
                .iter()
                .any(|damage| damage.path.contains("superblock") && damage.offset == Some(copy * 4096));
            assert!(reported, "{what}: {damages:?}");
            let disk = flip(&base, "superblock", copy * 4096 + offset, 3);
            disk.flip_bit("superblock", (1 - copy) * 4096 + 50, 0);
            let (verdict, damages) = judge(&base, &disk, &what);
            assert!(
                matches!(&verdict, Verdict::Refused(Error::Tree { message }) if message.contains("offset 4096")),
                "{what}: {verdict:?}"
            );
            assert!(!damages.is_empty());
        }
    }
}

#[test]
fn a_flipped_bit_in_a_page_is_found_with_the_keys_it_affects() {
    let base = base();
    let pages = base.disk.read_file("pages").unwrap().len() as u64 / PAGE;
    let mut random = SeededRandom::new(1);
    let (mut found, mut unused, mut with_keys) = (0, 0, 0);
    for page in 0..pages {
        let mut offsets = vec![0, 4, 8, 16, 17, 18, 19, 20, 22, 24, 32, 36, 40, 48];
        offsets.extend((0..3).map(|_| random.range(64..PAGE)));
        let mut used = None;
        for offset in offsets {
            let what = format!("page {page}, offset {offset}");
            let bit = u8::try_from(random.below(8)).unwrap();
            let (verdict, damages) = judge(&base, &flip(&base, "pages", page * PAGE + offset, bit), &what);
            if damages.is_empty() {
                assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{what}: {verdict:?}");
                unused += 1;
            } else {
                // An extent of several pages is reported where it starts.
                let near = damages.iter().any(|damage| {
                    damage.path.contains("pages")
                        && damage.offset.is_some_and(|at| (at..at + 4 * PAGE).contains(&(page * PAGE)))
                });
                assert!(near, "{what}: {damages:?}");
                with_keys += usize::from(damages.iter().any(|damage| damage.keys.is_some()));
                found += 1;
            }
            // Whether a page matters does not depend on the bit.
            assert_eq!(*used.get_or_insert(damages.is_empty()), damages.is_empty(), "{what}");
        }
    }
    println!(
        "{pages} pages: {found} flips found, {with_keys} of them with keys, {unused} in pages not in use"
    );
    assert!(found > 500 && with_keys * 10 > found * 8, "{found} {with_keys}");
}

#[test]
fn a_page_header_that_lies_with_a_right_checksum_is_found() {
    let base = base();
    let pages = base.disk.read_file("pages").unwrap().len() as u64 / PAGE;
    let fields: [(usize, usize); 12] = [
        (4, 4),
        (8, 8),
        (16, 1),
        (17, 1),
        (18, 1),
        (19, 1),
        (20, 2),
        (22, 2),
        (32, 4),
        (36, 4),
        (40, 8),
        (48, 16),
    ];
    let (mut found, mut harmless) = (0, 0);
    for page in 0..pages {
        let kind = base.disk.read_file("pages").unwrap()[usize::try_from(page * PAGE).unwrap() + 17];
        if !(1..=4).contains(&kind) || kind == 3 {
            continue;
        }
        for (offset, length) in fields {
            for byte in [0, 1, 0x7F, 0xFF] {
                let what = format!("page {page} of kind {kind}, bytes {offset}.. set to {byte:#x}");
                let (verdict, damages) =
                    judge(&base, &forge(&base, page, offset, &vec![byte; length]), &what);
                match (verdict, damages.is_empty()) {
                    (Verdict::Whole { lost: 0 }, true) => harmless += 1,
                    (Verdict::Whole { lost: 0 } | Verdict::Unreadable(_) | Verdict::Refused(_), false) => {
                        found += 1
                    }
                    (verdict, _) => panic!("{what}: {verdict:?}, {damages:?}"),
                }
            }
        }
    }
    println!("{found} forged headers found, {harmless} changed nothing or were not in use");
    assert!(found > 300);
}

#[test]
fn damage_in_the_middle_of_the_log_is_refused_and_a_torn_tail_is_cut() {
    let base = base();
    let last = base.redo_segment + 6;
    let end = open(&base.disk.copy(), &base.options).info().unwrap().end_of_log.get();
    let mut random = SeededRandom::new(2);
    let (mut refused, mut cut, mut harmless) = (0, 0, 0);
    for number in base.redo_segment..=last {
        let path = segment(number);
        if base.disk.read_file(&path).is_none() {
            continue;
        }
        let mut offsets: Vec<u64> = vec![0, 8, 12, 16, 24, 40, 44, 100, 4095];
        offsets.extend((0..60).map(|_| random.range(4096..SEGMENT)));
        if number == end / SEGMENT {
            offsets.extend((1..10).map(|back| end % SEGMENT - back * 70));
        }
        for offset in offsets {
            let what = format!("segment {number}, offset {offset}");
            let bit = u8::try_from(random.below(8)).unwrap();
            let (verdict, damages) = judge(&base, &flip(&base, &path, offset, bit), &what);
            match verdict {
                Verdict::Whole { lost: 0 } => harmless += 1,
                // Nothing says that the last batch was ever acknowledged.
                Verdict::Whole { lost: 1 } => cut += 1,
                Verdict::Refused(Error::Log { message }) => {
                    assert!(message.contains("log/"), "{what}: {message}");
                    assert!(message.contains("offset") || offset < 4096, "{what}: {message}");
                    assert!(damages.iter().any(|damage| damage.what.contains("log/")), "{what}: {damages:?}");
                    refused += 1;
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    println!("{refused} refused, {cut} cut, {harmless} harmless");
    assert!(refused > 150 && harmless > 0 && cut >= 9);
}

#[test]
fn a_damaged_recovery_file_matters_only_when_it_is_needed() {
    let base = base();
    let length = base.disk.read_file("recovery/chunk").unwrap().len() as u64;
    let mut random = SeededRandom::new(3);
    let offsets = (0..70).chain((0..60).map(|_| random.range(70..length))).collect::<Vec<_>>();
    for offset in offsets {
        let what = format!("recovery file, offset {offset}");
        let (verdict, damages) = judge(&base, &flip(&base, "recovery/chunk", offset, 5), &what);
        assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{what}: {verdict:?}");
        assert!(damages.is_empty(), "{what}: {damages:?}");
    }
}

/// A crash while a chunk was being written in place, and then damage to the file that would repair it: two failures at
/// once. What is left tells that the chunk was being written in place, and the database does not open.
#[test]
fn a_recovery_file_damaged_while_it_is_needed_never_ends_in_a_panic() {
    let options = small_options();
    let progress = Progress::shared(Arc::default());
    let watched = WatchedDisk::new(template(&options), Arc::clone(&progress));
    let mut session = Session::closed(Arc::new(watched.clone()), &options, progress);
    let (mut whole, mut noticed, mut unnoticed) = (0, 0, 0);
    for step in plan::short() {
        session.run(&step).unwrap();
        for point in watched.take_points().iter().filter(|point| point.call.contains("sync pages")) {
            for offset in
                [3, 9, 12, 20, 33, 41, 45, 50, 57, 61, 65, 4100, 8200, 9000, 12_300, 12_500, 13_000, 14_000]
            {
                let disk = point.disk.after_power_loss(PowerLoss::Random(point.index << 16 | offset));
                let length = disk.read_file("recovery/chunk").map_or(0, |bytes| bytes.len() as u64);
                if offset >= length {
                    continue;
                }
                disk.flip_bit("recovery/chunk", offset, 1);
                let database = match try_open(&disk, &options) {
                    Ok(database) => database,
                    Err(error) => {
                        names_a_file(&error, &point.call);
                        noticed += 1;
                        continue;
                    }
                };
                match read_all(&database) {
                    Ok(found) if point.candidates.iter().any(|state| **state == found) => whole += 1,
                    Ok(_) => unnoticed += 1,
                    Err(error) => {
                        names_a_file(&error, &point.call);
                        noticed += 1;
                    }
                }
                database.check(&mut |_| ()).unwrap();
                disk.crash();
            }
        }
    }
    println!("{whole} whole, {noticed} noticed, {unnoticed} not noticed");
    assert!(whole > 50 && noticed > 3 && unnoticed == 0, "{whole} {noticed} {unnoticed}");
}

/// The same with images in the log: they were durable before a page was overwritten, so damage there is refused, by the
/// chunk that needs them or by the replay that comes across them.
#[test]
fn images_in_the_log_damaged_while_they_are_needed_are_refused() {
    let options = Options { page_protection: PageProtection::LogImages, ..small_options() };
    let progress = Progress::shared(Arc::default());
    let watched = WatchedDisk::new(template(&options), Arc::clone(&progress));
    let mut session = Session::closed(Arc::new(watched.clone()), &options, progress);
    let (mut whole, mut refused) = (0, 0);
    for step in plan::short() {
        session.run(&step).unwrap();
        for point in watched.take_points().iter().filter(|point| point.call.contains("pages @")) {
            for part in 0..6 {
                let disk = point.disk.after_power_loss(PowerLoss::Random(point.index << 16 | part));
                let header = disk.read_file("recovery/chunk").unwrap();
                let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
                if header[56] != 1 || !point.disk.crashed() {
                    continue;
                }
                let (start, end) = (number(64), number(72));
                let lsn = start + (end - start) * part / 6 + 13;
                disk.flip_bit(&segment(lsn / SEGMENT), lsn % SEGMENT, 1);
                let next = Options { page_protection: PageProtection::RecoveryFile, ..options.clone() };
                match try_open(&disk, &next) {
                    Ok(database) => {
                        let found = read_all(&database).unwrap();
                        assert!(point.candidates.iter().any(|state| **state == found), "{}", point.call);
                        whole += 1;
                        disk.crash();
                    }
                    Err(error) => {
                        names_a_file(&error, &point.call);
                        assert!(error.to_string().contains("log"), "{error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("{whole} whole, {refused} refused");
    assert!(refused > 20, "{whole} {refused}");
}

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
            "lock" | "measurements" | "log/pending.1" | "log/pending.2" => false,
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
        block[8..12].copy_from_slice(&2_u32.to_le_bytes());
        block[12..16].fill(0);
        let checksum = crc32c(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        disk.overwrite("superblock", copy * 4096, &block);
        judge_version(&disk, &format!("superblock copy {copy}"));
    }
    let disk = base.disk.copy();
    let path = segment(base.redo_segment);
    let mut header = disk.read_file(&path).unwrap()[..48].to_vec();
    header[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let checksum = crc32c(&header[..44]);
    header[44..48].copy_from_slice(&checksum.to_le_bytes());
    disk.overwrite(&path, 0, &header);
    judge_version(&disk, "segment");
    let disk = base.disk.copy();
    let mut header = disk.read_file("recovery/chunk").unwrap()[..512].to_vec();
    header[8..12].copy_from_slice(&2_u32.to_le_bytes());
    header[12..16].fill(0);
    let checksum = crc32c(&header);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.overwrite("recovery/chunk", 0, &header);
    judge_version(&disk, "recovery file");
    // Page 1 is the root: it is read by the first read.
    let (verdict, damages) = judge(&base, &forge(&base, 1, 16, &[2]), "root page");
    assert!(
        matches!(&verdict, Verdict::Unreadable(error) if error.to_string().contains("version 2")),
        "{verdict:?}"
    );
    assert!(damages.iter().any(|damage| damage.what.contains("version 2")));
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

/// What is behind it does not depend on it, and after a clean end nothing there is needed.
#[test]
fn a_damaged_header_of_a_pending_file_is_passed_over_and_found_by_check() {
    let base = base();
    for path in ["log/pending.1", "log/pending.2"] {
        for closes in [false, true] {
            let disk = base.disk.copy();
            if closes {
                open(&disk, &base.options).close().unwrap();
            }
            disk.flip_bit(path, 20, 3);
            let (verdict, damages) = judge(&base, &disk, path);
            assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{path}: {verdict:?}");
            assert_eq!(damages.len(), 1, "{path}");
            assert!(damages[0].to_string().contains(path), "{}", damages[0]);
        }
    }
}

/// It may hold acknowledged commits, so it is not passed over.
#[test]
fn a_pending_file_with_a_damaged_header_and_seal_is_refused_with_its_name_and_found_by_check() {
    let base = base();
    for path in ["log/pending.1", "log/pending.2"] {
        let damaged = base.disk.copy();
        damaged.flip_bit(path, 20, 3);
        damaged.overwrite(path, 512, &[7; 16]);
        let (verdict, damages) = judge(&base, &damaged.copy(), path);
        let Verdict::Refused(Error::Log { message }) = verdict else { panic!("{path}: {verdict:?}") };
        assert!(message.contains(path) && message.contains("remove it"), "{message}");
        assert_eq!(damages.len(), 1, "{path}");
        assert!(damages[0].to_string().contains(path), "{}", damages[0]);
        assert!(damaged.remove_file(path));
        let (verdict, damages) = judge(&base, &damaged, path);
        assert!(matches!(verdict, Verdict::Whole { lost: 0 }) && damages.is_empty(), "{path}: {verdict:?}");
    }
}

/// What an asynchronous commit wrote is in the buffers only when the process is killed; the next one says how much that was.
#[test]
fn a_recovery_counts_what_it_rescued_also_behind_damaged_headers() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    let table = database.create_table("t").unwrap();
    for key in 0..5_u8 {
        database.put_with(&table, [key], "rescued", Durability::Async).unwrap();
    }
    for damages in [false, true] {
        let killed = disk.copy();
        if damages {
            ["log/pending.1", "log/pending.2"].iter().for_each(|path| killed.flip_bit(path, 9, 0));
        }
        let database = open(&killed, &options);
        let recovery = database.statistics().recovery;
        assert!(
            recovery.rescued_records >= 5 && recovery.rescued_records <= recovery.records,
            "{recovery:?}"
        );
        let table = database.table("t").unwrap();
        assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 5);
        database.close().unwrap();
        assert_eq!(open(&killed, &options).statistics().recovery.rescued_records, 0);
    }
}
