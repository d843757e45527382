//! Random workloads whose power goes at random calls, a fixed share for each page protection and compression, encrypted or
//! not; every third life keeps the images in the other place. What is found must be a prefix of the commit order that holds
//! every acknowledged commit, each commit whole; and the database must go on working.
//!
//! `SEAWALL_CRASHES=20000 cargo test -p seawall-torture --test crash_campaign -- --nocapture` is the long one; it
//! prints where each cell was hit.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use seawall_crash_harness::Cell;
use seawall_simulation::{crash_count, seeds};
use seawall_torture::crashes::lives::{Tally, Target, run_history};

/// Power losses of all cells in the suite.
const SUITE_POWER_LOSSES: u64 = 2_000;

/// Histories until so many power losses; only the one of `SEAWALL_SEED` if it is set.
fn run_cell(cell: Cell, power_losses: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds(u64::MAX) {
        if tally.power_losses >= power_losses {
            break;
        }
        run_history(cell, seed, &mut tally)
            .unwrap_or_else(|reason| panic!("{cell}, SEAWALL_SEED={seed}: {reason}"));
    }
    tally
}

/// All cells, several at a time, in order.
fn run_cells(power_losses: u64) -> Vec<(Cell, Tally)> {
    let cells = Cell::all();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || loop {
        let index = next.fetch_add(1, Ordering::SeqCst);
        let Some(cell) = cells.get(index) else { return };
        let tally = run_cell(*cell, power_losses);
        done.lock().unwrap().push((index, *cell, tally));
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(worker)));
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(index, ..)| *index);
    done.into_iter().map(|(_, cell, tally)| (cell, tally)).collect()
}

/// Prints what each cell met. `changed`: lives with the images in the other place than the one before; `in recovery`: lives
/// that ended before they had recovered; then, of lives with the images where the cell says, what the call did in which the
/// power went; and the other lives.
fn print_table(tallies: &[(Cell, Tally)]) {
    println!(
        "{:<26}{:>10}{:>10}{:>8}{:>7}{:>9}{:>13} |{:>8}{:>8}{:>8}{:>12}{:>8}{:>8} |{:>15}{:>15}",
        "protection, compression",
        "histories",
        "encrypted",
        "losses",
        "kills",
        "changed",
        "in recovery",
        "images",
        "commit",
        "pages",
        "superblock",
        "log",
        "other",
        "in other place",
        "between calls"
    );
    let mut losses = 0;
    for (cell, tally) in tallies {
        let [images, commit, pages, superblock, log, other] = Target::ALL.map(|target| tally.hits(target));
        println!(
            "{:<26}{:>10}{:>10}{:>8}{:>7}{:>9}{:>13} |{images:>8}{commit:>8}{pages:>8}{superblock:>12}{log:>8}{other:>8} \
             |{:>15}{:>15}",
            cell.to_string(),
            tally.histories,
            tally.encrypted,
            tally.power_losses,
            tally.kills,
            tally.changed_over,
            tally.in_recovery,
            tally.other_calls.values().sum::<u64>(),
            tally.between_calls,
        );
        losses += tally.power_losses;
    }
    println!("{losses} power losses");
}

#[test]
fn every_protection_and_compression_survives_crashes_anywhere() {
    let share = crash_count(SUITE_POWER_LOSSES).div_ceil(Cell::all().len() as u64);
    let tallies = run_cells(share);
    print_table(&tallies);
    if std::env::var_os("SEAWALL_SEED").is_some() {
        return;
    }
    assert_eq!(tallies.len(), 10);
    for (cell, tally) in tallies {
        assert!(tally.power_losses >= share && tally.encrypted > 0, "{cell}: {tally:?}");
        assert!(tally.kills > 0 && tally.changed_over > share / 10, "{cell}: {tally:?}");
        // Otherwise the cell was not what it says: crashes fall into its images, their commit, and the pages in place.
        let hits = |target| tally.hits(target) >= share / 50;
        assert!(hits(Target::Images) && hits(Target::Commit) && hits(Target::Pages), "{cell}: {tally:?}");
        assert!(tally.in_recovery > share / 20, "{cell}: {tally:?}");
        assert!(
            tally.with_checkpoint_threads > share / 5 && tally.with_background > share / 10,
            "{cell}: {tally:?}"
        );
    }
}
