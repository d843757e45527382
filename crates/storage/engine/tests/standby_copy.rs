//! A standby made of the rows of a primary that goes on.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;

use common::copying::{
    copy, copy_while, copy_with, disturb, everything, history_of, primary, receive, rows, slot, write,
};
use common::following::follow;
use common::small_options;
use seawall_crash_harness::{environment, open, template};
use seawall_engine::{
    Database, DatabaseDirectory, Durability, Error, HoldOptions, Options, PageProtection, QuorumOptions,
    QuorumPositions, Rejoined, ReplicationLevel, StandbyPositions, check_restore_directory,
};
use seawall_io::Disk;
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_testing::wait_until;
use seawall_types::{Lsn, TimelineId};

#[test]
fn a_copy_of_a_primary_that_goes_on_becomes_a_standby() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let primary = primary();
        for _row in 0..400 {
            write(&primary, &mut random);
            disturb(&primary, &mut random);
        }
        let disk = SimulatedDisk::new(seed);
        let end = copy(&primary, &disk, &mut random, "copy").unwrap();
        // It is no database yet.
        let refused = Database::open(environment(Arc::new(disk.clone())), small_options()).unwrap_err();
        assert!(matches!(refused, Error::CopyNotWhole { .. }), "{refused}");
        let standby = follow(&disk, &small_options());
        assert_eq!(standby.standby().unwrap().copied_until(), Some(end));
        let refused = standby.standby().unwrap().promote("too early").unwrap_err();
        assert!(matches!(refused, Error::CopyNotWhole { .. }), "{refused}");
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        for _row in 0..50 {
            write(&primary, &mut random);
            disturb(&primary, &mut random);
        }
        // The standby's own checkpoints, and a restart.
        receive(&primary, &standby).unwrap();
        standby.standby().unwrap().checkpoint().unwrap();
        let left = disk.after_power_loss(PowerLoss::Random(seed));
        disk.crash();
        let standby = follow(&left, &small_options());
        receive(&primary, &standby).unwrap();
        assert_eq!(everything(&standby), everything(&primary), "seed {seed}");
        standby.standby().unwrap().promote("test").unwrap();
        write(&standby, &mut random);
        standby.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

/// Whatever call is the last one, the next copy begins anew or goes on following.
#[test]
fn a_copy_that_is_cut_short_is_made_anew() {
    let mut random = SeededRandom::new(1);
    let primary = primary();
    for _row in 0..100 {
        write(&primary, &mut random);
    }
    let mut call = 0;
    loop {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let name = format!("copy_{call}");
        let cut_short = copy(&primary, &disk, &mut random, &name);
        let left = disk.after_power_loss(PowerLoss::Random(call));
        let has_crashed = disk.crashed();
        assert!(has_crashed || cut_short.is_ok(), "{cut_short:?}");
        let opened = DatabaseDirectory::at(environment(Arc::new(left.clone()))).follow(small_options());
        let standby = match opened {
            Ok(standby) => standby,
            Err(error) => {
                assert!(
                    matches!(error, Error::Restoring { .. } | Error::NoDatabase { .. }),
                    "{call}: {error}"
                );
                copy(&primary, &left, &mut random, &format!("again_{call}"))
                    .unwrap_or_else(|error| panic!("{call}: {error}"));
                follow(&left, &small_options())
            }
        };
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        assert_eq!(everything(&standby), everything(&primary), "{call}");
        if !has_crashed {
            return;
        }
        call += 1 + random.below(5);
    }
}

/// Nothing of the promotion makes names in the directory durable that went before.
#[test]
fn a_copy_that_was_promoted_is_not_taken_for_a_copy_again() {
    let mut random = SeededRandom::new(1);
    let primary = primary();
    let disk = SimulatedDisk::new(1);
    copy(&primary, &disk, &mut random, "copy").unwrap();
    let standby = follow(&disk, &small_options());
    receive(&primary, &standby).unwrap();
    standby.standby().unwrap().promote("test").unwrap();
    write(&standby, &mut random);
    let expected = everything(&standby);
    for outcome in [PowerLoss::LoseAll, PowerLoss::Random(1), PowerLoss::Random(2)] {
        let left = disk.after_power_loss(outcome);
        let opened = open(&left, &small_options());
        assert_eq!(everything(&opened), expected);
    }
}

/// A primary on the second timeline.
fn promoted_primary(random: &mut SeededRandom) -> Database {
    let first = primary();
    let disk = SimulatedDisk::new(1);
    copy(&first, &disk, random, "copy").unwrap();
    let primary = follow(&disk, &small_options());
    receive(&first, &primary).unwrap();
    primary.standby().unwrap().promote("test").unwrap();
    drop(primary.log().hold("standby", slot(), None).unwrap());
    write(&primary, random);
    primary
}

/// The history of the timeline comes after the superblock that names it.
#[test]
fn a_copy_of_a_later_timeline_that_is_cut_short_is_made_anew() {
    let mut random = SeededRandom::new(1);
    let primary = promoted_primary(&mut random);
    let (mut call, mut not_whole) = (0, 0);
    loop {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let cut_short = copy(&primary, &disk, &mut random, &format!("copy_{call}"));
        let has_crashed = disk.crashed();
        assert!(has_crashed || cut_short.is_ok(), "{cut_short:?}");
        let left = disk.after_power_loss(PowerLoss::Random(call));
        let place = DatabaseDirectory::at(environment(Arc::new(left.clone())));
        let is_followed = place.is_followed().unwrap_or_else(|error| panic!("{call}: {error}"));
        let is_whole = check_restore_directory(&left).is_err();
        assert!(is_whole || !is_followed, "{call}");
        if !is_whole {
            not_whole += 1;
            copy(&primary, &left, &mut random, &format!("again_{call}"))
                .unwrap_or_else(|error| panic!("{call}: {error}"));
        }
        let standby = follow(&left, &small_options());
        receive(&primary, &standby).unwrap();
        assert_eq!(everything(&standby), everything(&primary), "{call}");
        if !has_crashed {
            break;
        }
        call += 1 + random.below(4);
    }
    assert!(not_whole > 10);
}

#[test]
fn a_copy_leaves_no_log_of_one_that_was_cut_short() {
    let mut random = SeededRandom::new(1);
    let primary = promoted_primary(&mut random);
    let disk = SimulatedDisk::new(1);
    let cut_short = copy_while(&primary, &disk, &mut random, "copy", || Err(Error::Closed));
    assert!(matches!(cut_short, Err(Error::Closed)), "{cut_short:?}");
    let segments = |disk: &SimulatedDisk| {
        let names = disk.list_names("log").unwrap();
        names.into_iter().filter(|name| name.len() == 24).collect::<Vec<_>>()
    };
    let before = segments(&disk);
    assert_eq!(before.len(), 1);
    for _row in 0..200 {
        write(&primary, &mut random);
    }
    copy(&primary, &disk, &mut random, "again").unwrap();
    let after = segments(&disk);
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    assert!(disk.read_file("log/00000002.history").is_some());
    let standby = follow(&disk, &small_options());
    receive(&primary, &standby).unwrap();
    assert_eq!(everything(&standby), everything(&primary));
}

/// The record of its load lies behind all commits that the first checkpoint of the copy freezes.
#[test]
fn a_load_that_left_the_log_before_the_slot_was_made_is_in_the_copy() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let primary = open(&template(&small_options()), &small_options());
        write(&primary, &mut random);
        let mut load = primary.tables().bulk_load("d0").unwrap();
        for row in 0..random.range(1..400_u64) {
            load.add(row.to_be_bytes(), random.bytes(200)).unwrap();
        }
        drop(primary.create_table("d0").unwrap());
        let refused = load.finish().unwrap_err();
        assert!(matches!(refused, Error::TableExists { .. }), "{refused}");
        drop(primary.log().hold("standby", slot(), None).unwrap());
        let disk = SimulatedDisk::new(seed);
        let renamed = || primary.tables().rename("d0", "d1").map(drop);
        copy_while(&primary, &disk, &mut random, "copy", renamed).unwrap();
        let standby = follow(&disk, &small_options());
        receive(&primary, &standby).unwrap();
        // It is published beside the standby.
        if primary.table("d0").is_err() {
            load.finish().unwrap();
        }
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        assert_eq!(everything(&standby), everything(&primary), "seed {seed}");
        standby.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

/// A primary, and its standby that was promoted and has committed nothing since: its pages have all that it received, or less.
fn just_promoted(
    seed: u64,
    random: &mut SeededRandom,
    has_all_in_pages: bool,
    options: &Options,
) -> (Database, Database) {
    let primary = primary();
    for _row in 0..random.range(1..100_u64) {
        write(&primary, random);
        disturb(&primary, random);
    }
    let disk = SimulatedDisk::new(seed);
    copy(&primary, &disk, random, "first").unwrap();
    let promoted = follow(&disk, options);
    receive(&primary, &promoted).unwrap();
    if has_all_in_pages {
        promoted.standby().unwrap().checkpoint().unwrap();
    }
    promoted.standby().unwrap().promote("test").unwrap();
    drop(promoted.log().hold("standby", slot(), None).unwrap());
    (primary, promoted)
}

/// A commit that waits for standbys.
fn waiting_commit(primary: &Database) -> std::thread::JoinHandle<Result<Lsn, Error>> {
    let (writer, table) = (primary.new_session(), primary.table("t").unwrap());
    let flushed = Durability::Replicated(ReplicationLevel::Flushed);
    let waiting = std::thread::spawn(move || writer.with(flushed).put(&table, b"waits", b"v"));
    wait_until("it is in the log", || primary.statistics().transactions.commits_in_flight > 0);
    primary.flush().unwrap();
    waiting
}

/// The first record that it needs is the one that began the timeline.
#[test]
fn a_copy_whose_redo_point_is_where_the_timeline_began_is_followed() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let has_all_in_pages = random.below(2) == 0;
        let (_former, primary) = just_promoted(seed, &mut random, has_all_in_pages, &small_options());
        let fork = history_of(&primary).forks.last().unwrap().fork;
        let disk = SimulatedDisk::new(seed + 1);
        copy(&primary, &disk, &mut random, "second").unwrap();
        // Once with nothing of the timeline, and once with some of it.
        let left = disk.after_power_loss(PowerLoss::Random(seed));
        disk.crash();
        let standby = follow(&left, &small_options());
        assert_eq!(standby.standby().unwrap().wanted().unwrap(), fork, "seed {seed}");
        drop(standby);
        let left = left.after_power_loss(PowerLoss::Random(seed));
        let standby = follow(&left, &small_options());
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        let again = left.after_power_loss(PowerLoss::Random(seed));
        left.crash();
        let standby = follow(&again, &small_options());
        receive(&primary, &standby).unwrap();
        assert_eq!(everything(&standby), everything(&primary), "seed {seed}");
        standby.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

/// A commit waits for the standby that is made, so the new primary takes no checkpoint before.
#[test]
fn a_copy_whose_redo_point_lies_before_the_timeline_is_followed() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let has_all_in_pages = random.below(3) == 0;
        let options = Options { quorum: Some(QuorumOptions::default()), ..small_options() };
        let (_former, primary) = just_promoted(seed, &mut random, has_all_in_pages, &options);
        let history = history_of(&primary);
        let waiting = waiting_commit(&primary);
        let disk = SimulatedDisk::new(seed + 1);
        let end = copy_with(&primary, &disk, "second", || Ok(()), || Ok(())).unwrap();
        let mut standby = follow(&disk, &small_options());
        let is_on_first = standby.log().timeline() == TimelineId::FIRST;
        assert_eq!(is_on_first, !has_all_in_pages, "seed {seed}");
        if is_on_first {
            receive(&primary, &standby).unwrap();
            assert_eq!(standby.standby().unwrap().copied_until(), Some(end));
            if random.below(2) == 0 {
                drop(standby);
                let place = DatabaseDirectory::at(environment(Arc::new(disk.clone())));
                assert_eq!(place.rejoin(&small_options(), &history).unwrap(), Rejoined::AsItWas);
                standby = follow(&disk, &small_options());
            }
            standby.standby().unwrap().follow_timeline(&history).unwrap();
        }
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        let (written, flushed, applied) = (end, end, end);
        let quorum = Some(QuorumPositions { written, flushed, applied });
        primary.quorum().standbys_are_at(StandbyPositions { quorum, candidate: Some(end) });
        waiting.join().unwrap().unwrap();
        assert_eq!(everything(&standby), everything(&primary), "seed {seed}");
        standby.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

/// The former primary goes on where the one that was copied has left its timeline.
#[test]
fn a_copy_is_not_whole_with_the_log_of_a_timeline_that_was_left_before_its_end() {
    let mut random = SeededRandom::new(1);
    let options = Options { quorum: Some(QuorumOptions::default()), ..small_options() };
    let (former, primary) = just_promoted(1, &mut random, false, &options);
    let waiting = waiting_commit(&primary);
    let disk = SimulatedDisk::new(2);
    let end = copy_with(&primary, &disk, "second", || Ok(()), || Ok(())).unwrap();
    let standby = follow(&disk, &small_options());
    while former.log().flushed() <= end {
        write(&former, &mut random);
    }
    receive(&former, &standby).unwrap();
    let place = standby.standby().unwrap();
    assert!(place.applied() > end);
    assert_eq!(place.copied_until(), Some(end));
    assert_eq!(place.copied_on().unwrap(), Some(primary.log().timeline()));
    let refused = place.promote("test").unwrap_err();
    assert!(matches!(refused, Error::CopyNotWhole { .. }), "{refused}");
    drop(standby);
    // What it should not have got is cut off.
    let history = history_of(&primary);
    let place = DatabaseDirectory::at(environment(Arc::new(disk.clone())));
    let cut = place.rejoin(&small_options(), &history).unwrap();
    assert!(matches!(cut, Rejoined::Cut(_)), "{cut:?}");
    let standby = follow(&disk, &small_options());
    receive(&primary, &standby).unwrap();
    assert_eq!(standby.standby().unwrap().copied_until(), None);
    primary.close().unwrap();
    assert!(waiting.join().unwrap().is_err(), "it waited for ever");
    assert!(rows(&standby).contains(&(b"waits".to_vec(), b"v".to_vec())));
    standby.check(&mut |damage| panic!("{damage}")).unwrap();
}

/// Page images lie behind the last commit in the log: the redo point of a copy is where that ends, and the standby that was there before
/// has come further.
#[test]
fn a_slot_that_has_come_further_than_the_copy_or_is_lost_is_set_back() {
    for is_lost in [false, true] {
        let mut random = SeededRandom::new(1);
        let mut options = small_options();
        options.checkpoint.page_protection = PageProtection::LogImages;
        let primary = open(&template(&options), &options);
        let limit_bytes = is_lost.then_some(4 << 20);
        let hold = primary.log().hold("standby", HoldOptions { limit_bytes, ..slot() }, None).unwrap();
        let is_held = || hold.advance(hold.position()).is_ok();
        for time in 0..20 {
            (0..600).for_each(|_| write(&primary, &mut random));
            primary.checkpoint().unwrap();
            if time >= 1 && is_held() != is_lost {
                break;
            }
        }
        assert_eq!(is_held(), !is_lost);
        primary.log().create_restore_point("behind the images").unwrap();
        if !is_lost {
            hold.advance(primary.log().flushed()).unwrap();
        }
        let again = primary.log().hold_again("standby").unwrap();
        assert!(is_lost || again.position() < hold.position());
        let disk = SimulatedDisk::new(1);
        copy(&primary, &disk, &mut random, "copy").unwrap();
        let copied = primary.log().flushed();
        while !is_lost && primary.log().flushed().bytes_since(copied) < 1 << 20 {
            write(&primary, &mut random);
        }
        primary.checkpoint().unwrap();
        let standby = follow(&disk, &options);
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        assert_eq!(everything(&standby), everything(&primary));
    }
}
