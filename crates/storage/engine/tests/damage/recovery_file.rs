//! The recovery file and the images in the log, needed or not.

use std::sync::Arc;

use seawall_engine::PageProtection;
use seawall_simulation::{PowerLoss, SeededRandom};

use super::base::{SEGMENT, Verdict, base, flip, judge, names_a_file, read_all, segment};
use crate::harness::progress::Progress;
use crate::harness::session::Session;
use crate::harness::watched_disk::WatchedDisk;
use crate::harness::{plan, small_options, template, try_open};

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
/// once. What is left tells that the chunk was being written in place, and the database does not open. Only a chunk of which
/// the power took every page in place, without leaving a torn one, has left no trace and passes for one that was never
/// committed: the log has all of it, as a bulk load commits only when its pages are known to be in place.
#[test]
fn a_recovery_file_damaged_while_it_is_needed_never_ends_in_a_panic() {
    let options = small_options();
    let progress = Progress::shared(Arc::default());
    let watched = WatchedDisk::new(template(&options), Arc::clone(&progress));
    let mut session = Session::closed(watched.disk(), &options, progress);
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
                    Ok(found) if point.candidates.iter().any(|state| state.tables == found.tables) => {
                        whole += 1
                    }
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
    let mut options = small_options();
    options.checkpoint.page_protection = PageProtection::LogImages;
    let progress = Progress::shared(Arc::default());
    let watched = WatchedDisk::new(template(&options), Arc::clone(&progress));
    let mut session = Session::closed(watched.disk(), &options, progress);
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
                let mut next = options.clone();
                next.checkpoint.page_protection = PageProtection::RecoveryFile;
                match try_open(&disk, &next) {
                    Ok(database) => {
                        let found = read_all(&database).unwrap();
                        assert!(
                            point.candidates.iter().any(|state| state.tables == found.tables),
                            "{}",
                            point.call
                        );
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
