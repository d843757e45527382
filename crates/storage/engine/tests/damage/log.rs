//! Segments and pending files.

use std::convert::Infallible;
use std::sync::Arc;

use seawall_engine::{Durability, Error};
use seawall_io::Disk;
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_types::TimelineId;
use seawall_wal::{CommitBuilder, Log, LogOptions, LogReader};

use super::base::{SEGMENT, Verdict, base, flip, judge, segment};
use crate::harness::{open, small_options, template, try_open};

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

/// Rows of this directory alone are in no log: a record that has one is not ours, whatever its checksum says.
#[test]
fn a_record_with_a_row_of_this_directory_alone_is_refused() {
    let options = small_options();
    let disk = template(&options);
    drop(open(&disk, &options));
    let info = open(&disk.copy(), &options).info().unwrap();
    let disk_of_log = || Arc::new(disk.clone()) as Arc<dyn Disk>;
    let timeline = TimelineId::FIRST;
    let mut reader =
        LogReader::open(disk_of_log(), info.database, timeline, SEGMENT, info.redo_point).unwrap();
    while reader.next().unwrap().is_some() {}
    let log_options =
        LogOptions { segment_bytes: SEGMENT, spare_segments: 0, ..LogOptions::new(info.database, timeline) };
    let log = Log::open(disk_of_log(), log_options, reader.finish()).unwrap();
    let mut builder = CommitBuilder::new();
    builder.begin(0);
    builder.put(&[(1_u64 << 63).to_be_bytes(), [0; 8]].concat(), b"a run");
    let (span, ()) = log.append(builder.finish(), |_| Ok::<(), Infallible>(())).unwrap().unwrap();
    log.flush_until(span.end).unwrap();
    drop(log);
    let error = try_open(&disk, &options).unwrap_err();
    assert!(matches!(&error, Error::Log { message } if message.contains("no log has")), "{error}");
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

type Damage = fn(&SimulatedDisk, &str);

/// It may hold acknowledged commits, so it is not passed over.
#[test]
fn a_pending_file_with_a_damaged_header_and_seal_is_refused_with_its_name_and_found_by_check() {
    let base = base();
    let damages: [Damage; 2] = [
        |disk, path| {
            disk.flip_bit(path, 20, 3);
            disk.overwrite(path, 512, &[7; 16]);
        },
        // A block that reads as zeros.
        |disk, path| disk.overwrite(path, 0, &[0; 4096]),
    ];
    let cases =
        ["log/pending.1", "log/pending.2"].into_iter().flat_map(|path| damages.map(|damage| (path, damage)));
    for (path, damage) in cases {
        let damaged = base.disk.copy();
        damage(&damaged, path);
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
        database.with(Durability::Async).put(&table, [key], "rescued").unwrap();
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
