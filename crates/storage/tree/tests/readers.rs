//! Readers beside the writer: each sees a value that was there, and never a mixture.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Changes, STAMP, check, create, create_with};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::{LeafCursor, page::LeafValue};

const ROWS: u64 = 3_000;

fn key(number: u64) -> Vec<u8> {
    [&[0; 8][..], &number.to_be_bytes()].concat()
}

/// A value that says which key and round it belongs to, all over; some are long.
fn value(number: u64, round: u64) -> Vec<u8> {
    let words = if number.is_multiple_of(97) { 3_000 } else { 2 + number % 30 };
    (0..words).flat_map(|_| [number.to_be_bytes(), round.to_be_bytes()].concat()).collect()
}

fn round_of(number: u64, value: &[u8]) -> u64 {
    let round = u64::from_be_bytes(value[8..16].try_into().unwrap());
    assert_eq!(value, self::value(number, round), "a torn value of {number}");
    round
}

#[test]
fn readers_beside_merges_see_old_or_new_values_in_order() {
    readers_beside_merges(1);
}

#[test]
fn readers_beside_merges_by_three_threads_see_old_or_new_values_in_order() {
    readers_beside_merges(3);
}

fn readers_beside_merges(threads: usize) {
    let disk = SimulatedDisk::new(1);
    let tree = create_with(&disk, 4096, threads);
    let all: Changes = (0..ROWS).map(|number| (key(number), Some(value(number, 0)))).collect();
    common::merge(&tree, &all, u64::MAX).unwrap();
    // Published rounds lie in `done..=started`.
    let (started, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..3_u64 {
            let (tree, started, done, stop) = (&tree, &started, &done, &stop);
            scope.spawn(move || {
                let mut random = SeededRandom::new(reader);
                let mut last_rounds = vec![0; usize::try_from(ROWS).unwrap()];
                while !stop.load(Ordering::SeqCst) {
                    let number = random.below(ROWS);
                    let least = done.load(Ordering::SeqCst);
                    // Every fifth row is deleted in odd rounds.
                    let found = tree
                        .get_with(&key(number), |found| found.map(|found| round_of(number, found)))
                        .unwrap();
                    let most = started.load(Ordering::SeqCst);
                    match found {
                        None => assert!(number.is_multiple_of(5) && most > 0, "row {number} is missing"),
                        Some(round) => {
                            let slot = &mut last_rounds[usize::try_from(number).unwrap()];
                            assert!(round <= most && round >= *slot, "row {number}: {round}, had {slot}");
                            assert!(
                                number.is_multiple_of(5) || round >= least,
                                "row {number}: {round} after {least}"
                            );
                            *slot = round;
                        }
                    }
                    if random.chance(1, 20) {
                        scan(tree, &mut random);
                    }
                }
            });
        }
        for round in 1..=25_u64 {
            started.store(round, Ordering::SeqCst);
            let changes: Changes = (0..ROWS)
                .map(|number| {
                    let gone = number.is_multiple_of(5) && !round.is_multiple_of(2);
                    (key(number), (!gone).then(|| value(number, round)))
                })
                .collect();
            common::merge(&tree, &changes, 150_000).unwrap();
            done.store(round, Ordering::SeqCst);
        }
        stop.store(true, Ordering::SeqCst);
    });
    check(&tree);
}

/// Rows that are never deleted are all there, in order.
fn scan(tree: &seawall_tree::Tree, random: &mut SeededRandom) {
    let pages = tree.pages();
    let first = random.below(ROWS);
    let mut cursor = LeafCursor::seek(pages, &key(first)).unwrap();
    let mut expected = first;
    for _ in 0..200 {
        let Some(row) = cursor.row() else { break };
        let key = row.key.to_vec();
        let number = u64::from_be_bytes(key[8..].try_into().unwrap());
        while expected < number {
            assert!(expected.is_multiple_of(5), "row {expected} was skipped");
            expected += 1;
        }
        assert_eq!(number, expected, "out of order");
        expected += 1;
        match row.value {
            LeafValue::Inline(found) => {
                round_of(number, found);
            }
            LeafValue::Overflow(reference) => {
                if let Some(found) = tree.read_overflow(reference, cursor.position().version()).unwrap() {
                    round_of(number, &found);
                }
            }
            LeafValue::Deleted => panic!("row {number} is deleted"),
        }
        cursor.advance(pages).unwrap();
    }
}

#[test]
fn a_plan_that_was_overtaken_is_refused() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 4096);
    let changes: Changes = (0..100).map(|number| (key(number), Some(value(number, 0)))).collect();
    let first = tree.merge_chunk(&mut common::Source::new(&changes), u64::MAX, STAMP).unwrap();
    let second = tree.merge_chunk(&mut common::Source::new(&changes), u64::MAX, STAMP).unwrap();
    assert!(tree.apply_chunk(first, None).is_err());
    tree.apply_chunk(second, None).unwrap();
    assert_eq!(check(&tree).rows, 100);
}
