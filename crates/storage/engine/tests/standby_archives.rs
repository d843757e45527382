//! A standby keeps the log that archives lack, so that its promotion leaves no gap in them.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::following::Following;
use common::memory_archive::{MemoryArchive, SEGMENT_BYTES, archive_options, fill};
use common::small_options;
use seawall_engine::{Background, Error, LogFile, Options};
use seawall_simulation::PowerLoss;
use seawall_testing::wait_until;
use seawall_types::Lsn;

fn options(archive: &Arc<MemoryArchive>, background: Background) -> Options {
    Options { archives: vec![archive_options(archive)], background, ..small_options() }
}

fn following(archive: &Arc<MemoryArchive>) -> Following {
    let pair = Following::with(options(archive, Background::Manual));
    // The copied directory has the primary's hold for this standby, which would keep everything.
    pair.standby.log().find_hold("standby").unwrap().release().unwrap();
    pair
}

/// The numbers of the segments on the standby's disk that have log.
fn segments_here(pair: &Following) -> BTreeSet<u64> {
    let end = pair.standby.standby().unwrap().applied();
    let info = pair.standby.info().unwrap();
    // Timeline and number, in hexadecimal digits.
    let number = |name: &str| u64::from_str_radix(&name[8..24], 16).unwrap();
    let numbers = info.segments.iter().map(|segment| number(&segment.name));
    numbers.filter(|number| *number <= end.get() / SEGMENT_BYTES).collect()
}

/// Where the archive's hold stands on the standby.
fn held_from(pair: &Following) -> Lsn {
    pair.standby.log().find_hold("archiver").unwrap().position()
}

#[test]
fn a_promotion_archives_what_the_old_primary_had_not() {
    for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll] {
        let archive = Arc::new(MemoryArchive::default());
        let mut pair = following(&archive);
        fill(&pair.primary, 4);
        let archived = pair.primary.log().archive_now().unwrap();
        pair.catch_up();
        let standby = pair.standby.standby().unwrap();
        // By the first the redo point moves, and by the second the hold.
        standby.checkpoint().unwrap();
        standby.checkpoint().unwrap();
        assert_eq!(held_from(&pair).get() / SEGMENT_BYTES, archived.get() / SEGMENT_BYTES);

        // What the archive lacks is kept, over restarts, however many checkpoints there are.
        for _round in 0..3 {
            fill(&pair.primary, 4);
            pair.catch_up();
            pair.standby.standby().unwrap().checkpoint().unwrap();
            pair.standby.clone().close().unwrap();
            pair.restart_standby(outcome);
        }
        let first = archived.get() / SEGMENT_BYTES;
        let end = pair.standby.standby().unwrap().applied();
        let expected: BTreeSet<u64> = (first..=end.get() / SEGMENT_BYTES).collect();
        assert!(segments_here(&pair).is_superset(&expected), "{:?}", segments_here(&pair));

        pair.standby.standby().unwrap().promote("test").unwrap();
        fill(&pair.standby, 3);
        let archived = pair.standby.log().archive_now().unwrap();
        let state = archive.state.lock().unwrap().clone();
        assert_eq!(state.gaps, []);
        let whole: BTreeSet<u64> = archive.segments().into_iter().collect();
        let from = *whole.first().unwrap();
        assert_eq!(whole, (from..archived.get() / SEGMENT_BYTES).collect());
        // The last segment of the old timeline is there as far as it was of use.
        let fork = end.get();
        let is_left = |file: &LogFile| {
            matches!(file, LogFile::Tail { segment, from: 0, to }
                if segment.timeline.get() == 1 && segment.number * SEGMENT_BYTES + to == fork)
        };
        assert!(state.files.keys().any(is_left), "{:?}", state.files.keys());
    }
}

#[test]
fn an_archive_that_does_not_answer_lets_nothing_go_and_one_that_has_everything_does() {
    let archive = Arc::new(MemoryArchive::default());
    let mut pair = following(&archive);
    let before = held_from(&pair);
    fill(&pair.primary, 4);
    pair.catch_up();
    pair.standby.standby().unwrap().checkpoint().unwrap();
    archive.set(|state| state.is_down = true);
    let failed = pair.standby.standby().unwrap().checkpoint();
    assert!(matches!(failed, Err(Error::Archive { .. })), "{failed:?}");
    assert_eq!(held_from(&pair), before);
    archive.set(|state| state.is_down = false);
    pair.standby.standby().unwrap().checkpoint().unwrap();
    assert_eq!(held_from(&pair), before);
    pair.primary.log().archive_now().unwrap();
    fill(&pair.primary, 1);
    pair.catch_up();
    let standby = pair.standby.standby().unwrap();
    standby.checkpoint().unwrap();
    assert!(held_from(&pair) > before);
    assert!(segments_here(&pair).len() <= 3, "{:?}", segments_here(&pair));
}

#[test]
fn the_thread_of_a_standby_moves_the_hold() {
    let archive = Arc::new(MemoryArchive::default());
    let mut threads = options(&archive, Background::Threads);
    threads.checkpoint.interval = Duration::from_secs(3600);
    let mut pair = Following::with(threads);
    let before = held_from(&pair);
    fill(&pair.primary, 4);
    pair.primary.log().archive_now().unwrap();
    pair.flush_primary();
    pair.receive().unwrap();
    let standby = pair.standby.standby().unwrap();
    standby.wait_applied(pair.stream.flushed(), Duration::from_secs(120)).unwrap();
    standby.checkpoint().unwrap();
    wait_until("the hold moves", || held_from(&pair) > before);
    pair.standby.clone().close().unwrap();
    pair.primary.clone().close().unwrap();
}
