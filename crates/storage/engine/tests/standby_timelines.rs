//! A standby goes on to a new timeline of its upstream.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::copying::{copy, copy_while, everything, history_of, primary, receive, rows, slot, write};
use common::following::follow;
use common::small_options;
use seawall_crash_harness::{environment, open};
use seawall_engine::{Database, DatabaseDirectory, Error, HoldOptions, TimelineHistory};
use seawall_simulation::{FaultTarget, Operations, PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::TimelineId;

#[test]
fn a_standby_follows_another_one_that_was_promoted() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let primary = primary();
        let disks = [0, 1].map(|number| SimulatedDisk::new(seed + number));
        for (disk, name) in disks.iter().zip(["first", "second"]) {
            copy(&primary, disk, &mut random, name).unwrap();
        }
        let first = follow(&disks[0], &small_options());
        let mut second = follow(&disks[1], &small_options());
        // A slot of a standby: it keeps its log for the one behind it.
        let hold = first.log().hold("second", slot(), None).unwrap();
        receive(&primary, &first).unwrap();
        receive(&primary, &second).unwrap();
        for _row in 0..20 {
            write(&primary, &mut random);
        }
        receive(&primary, &first).unwrap();
        first.standby().unwrap().promote("test").unwrap();
        for _row in 0..20 {
            write(&first, &mut random);
        }
        let history = history_of(&first);
        // It lacks the end of the old timeline.
        let fork = second.standby().unwrap().left_for(&history).unwrap().unwrap();
        let refused = second.standby().unwrap().follow_timeline(&history).unwrap_err();
        assert!(matches!(refused, Error::Log { .. }), "{refused}");
        receive(&first, &second).unwrap();
        assert_eq!(second.log().flushed(), fork);
        if random.below(2) == 0 {
            let left = disks[1].after_power_loss(PowerLoss::Random(seed));
            disks[1].crash();
            second = follow(&left, &small_options());
        }
        let before = second.snapshot();
        second.standby().unwrap().follow_timeline(&history).unwrap();
        receive(&first, &second).unwrap();
        assert_eq!(second.log().timeline(), TimelineId::new(2).unwrap());
        assert_eq!(everything(&second), everything(&first), "seed {seed}");
        drop(before);
        assert!(hold.position() <= fork);
        assert!(first.log().find_hold("second").is_ok());
        // The former primary's history is not theirs any more.
        let refused = second.standby().unwrap().left_for(&TimelineHistory::first()).unwrap_err();
        assert!(matches!(refused, Error::OtherHistory { .. }), "{refused}");
        second.standby().unwrap().promote("test").unwrap();
        write(&second, &mut random);
        second.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

#[test]
fn a_standby_beyond_the_fork_is_told() {
    let mut random = SeededRandom::new(1);
    let primary = primary();
    let disks = [0, 1].map(SimulatedDisk::new);
    for (disk, name) in disks.iter().zip(["first", "second"]) {
        copy(&primary, disk, &mut random, name).unwrap();
    }
    let [first, second] = disks.each_ref().map(|disk| follow(disk, &small_options()));
    receive(&primary, &first).unwrap();
    write(&primary, &mut random);
    receive(&primary, &second).unwrap();
    first.standby().unwrap().promote("test").unwrap();
    let refused = second.standby().unwrap().follow_timeline(&history_of(&first)).unwrap_err();
    assert!(matches!(refused, Error::BeyondFork { .. }), "{refused}");
    // It follows on where it did.
    write(&primary, &mut random);
    receive(&primary, &second).unwrap();
    assert_eq!(rows(&second), rows(&primary));
}

/// A new timeline is followed or not, whatever call is the last one.
#[test]
fn power_losses_while_a_timeline_is_followed() {
    let mut random = SeededRandom::new(7);
    let mut call = 0;
    loop {
        let primary = primary();
        let disks = [0, 1].map(|number| SimulatedDisk::new(call * 2 + number));
        for (disk, name) in disks.iter().zip(["first", "second"]) {
            copy(&primary, disk, &mut random, name).unwrap();
        }
        let [first, second] = disks.each_ref().map(|disk| follow(disk, &small_options()));
        receive(&primary, &first).unwrap();
        receive(&primary, &second).unwrap();
        first.standby().unwrap().promote("test").unwrap();
        write(&first, &mut random);
        let history = history_of(&first);
        disks[1].crash_at(disks[1].calls() + call);
        let followed = second.standby().unwrap().follow_timeline(&history);
        let has_crashed = disks[1].crashed();
        assert!(has_crashed || followed.is_ok(), "{followed:?}");
        let left = disks[1].after_power_loss(PowerLoss::Random(call));
        disks[1].crash();
        let second = follow(&left, &small_options());
        if second.log().timeline() != history.timeline {
            second.standby().unwrap().follow_timeline(&history).unwrap();
        }
        receive(&first, &second).unwrap();
        assert_eq!(rows(&second), rows(&first), "call {call}");
        if !has_crashed {
            return;
        }
        call += 1;
    }
}

/// Two standbys of a primary that have all of it, of which the first one is promoted and has rows of its own.
fn left_behind(seed: u64) -> (SimulatedDisk, Database, Database) {
    let mut random = SeededRandom::new(seed);
    let primary = primary();
    let disks = [0, 1].map(|number| SimulatedDisk::new(seed * 2 + number));
    for (disk, name) in disks.iter().zip(["first", "second"]) {
        copy(&primary, disk, &mut random, name).unwrap();
    }
    let [first, second] = disks.each_ref().map(|disk| follow(disk, &small_options()));
    receive(&primary, &first).unwrap();
    receive(&primary, &second).unwrap();
    first.standby().unwrap().promote("test").unwrap();
    write(&first, &mut random);
    let [_, second_disk] = disks;
    (second_disk, first, second)
}

/// Whichever comes first: the standby is a primary in the end, its holds are there, and what it writes is.
#[test]
fn a_promotion_beside_a_new_timeline_leaves_one_log() {
    let mut followed = 0;
    for seed in seeds(30) {
        let mut random = SeededRandom::new(seed);
        let (disk, first, second) = left_behind(seed);
        let hold = second.log().hold("backup", HoldOptions::default(), None).unwrap();
        let history = history_of(&first);
        let gate = disk.hold(FaultTarget::Path {
            prefix: "log/00000002.history".to_owned(),
            operations: Operations::Any,
        });
        let timeline = std::thread::scope(|scope| {
            let following = scope.spawn(|| second.standby().unwrap().follow_timeline(&history));
            gate.await_waiting(1);
            let promoting = scope.spawn(|| second.standby().unwrap().promote("test"));
            (0..random.below(200)).for_each(|_| std::thread::yield_now());
            gate.open();
            let is_followed = following.join().unwrap().is_ok();
            promoting.join().unwrap().unwrap();
            followed += u32::from(is_followed);
            TimelineId::new(if is_followed { 3 } else { 2 }).unwrap()
        });
        assert_eq!(second.log().timeline(), timeline, "seed {seed}");
        assert!(second.log().holds().unwrap().iter().any(|hold| hold.name == "backup"), "seed {seed}");
        hold.advance(second.log().flushed()).unwrap();
        write(&second, &mut random);
        let expected = everything(&second);
        let left = disk.after_power_loss(PowerLoss::Random(seed));
        disk.crash();
        let reopened = open(&left, &small_options());
        assert_eq!(everything(&reopened), expected, "seed {seed}");
        reopened.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
    assert!(followed > 0);
}

/// It takes long, and whoever asks for another timeline meanwhile need not wait.
#[test]
fn a_new_timeline_waits_for_no_promotion() {
    let (disk, first, second) = left_behind(1);
    let history = history_of(&first);
    let gate = disk
        .hold(FaultTarget::Path { prefix: "log/00000002.history".to_owned(), operations: Operations::Any });
    std::thread::scope(|scope| {
        let promoting = scope.spawn(|| second.standby().unwrap().promote("test"));
        gate.await_waiting(1);
        let refused = second.standby().unwrap().follow_timeline(&history).unwrap_err();
        assert!(refused.to_string().contains("is being promoted"), "{refused}");
        gate.open();
        promoting.join().unwrap().unwrap();
    });
}

#[test]
fn a_pause_and_a_delay_outlast_a_new_timeline() {
    for is_paused in [true, false] {
        let mut random = SeededRandom::new(1);
        let primary = primary();
        let disks = [0, 1].map(SimulatedDisk::new);
        for (disk, name) in disks.iter().zip(["first", "second"]) {
            copy(&primary, disk, &mut random, name).unwrap();
        }
        let [first, second] = disks.each_ref().map(|disk| follow(disk, &small_options()));
        receive(&primary, &first).unwrap();
        receive(&primary, &second).unwrap();
        let standby = second.standby().unwrap();
        match is_paused {
            true => standby.pause_applying(),
            false => standby.set_apply_delay(Duration::from_secs(1 << 30)),
        }
        let before = everything(&second);
        for _row in 0..10 {
            write(&primary, &mut random);
        }
        receive(&primary, &first).unwrap();
        first.standby().unwrap().promote("test").unwrap();
        write(&first, &mut random);
        receive(&first, &second).unwrap();
        standby.follow_timeline(&history_of(&first)).unwrap();
        receive(&first, &second).unwrap();
        assert_eq!(second.log().timeline(), first.log().timeline());
        assert_eq!(everything(&second), before, "nothing was applied");
        // A restart applies all of it; without one, whoever resumes does.
        match is_paused {
            true => standby.resume_applying(),
            false => standby.set_apply_delay(Duration::ZERO),
        }
        standby.apply().unwrap();
        assert_eq!(everything(&second), everything(&first));
        second.check(&mut |damage| panic!("{damage}")).unwrap();
        standby.promote("test").unwrap();
        write(&second, &mut random);
    }
}

/// Its rows may be of commits that were lost with the primary.
#[test]
fn a_copy_that_is_not_whole_where_its_timeline_was_left_is_refused() {
    let mut random = SeededRandom::new(1);
    let primary = primary();
    for _row in 0..200 {
        write(&primary, &mut random);
    }
    let disks = [0, 1].map(SimulatedDisk::new);
    copy(&primary, &disks[0], &mut random, "first").unwrap();
    let first = follow(&disks[0], &small_options());
    receive(&primary, &first).unwrap();
    // Begun before, and ended behind what the first one has.
    let receive_all = || receive(&primary, &first);
    let end = copy_while(&primary, &disks[1], &mut random, "second", receive_all).unwrap();
    let fork = first.log().flushed();
    assert!(end > fork, "{end} {fork}");
    let second = follow(&disks[1], &small_options());
    first.standby().unwrap().promote("test").unwrap();
    write(&first, &mut random);
    receive(&first, &second).unwrap();
    assert_eq!(second.log().flushed(), fork);
    let refused = second.standby().unwrap().follow_timeline(&history_of(&first)).unwrap_err();
    assert!(matches!(refused, Error::CopyBeyondFork { .. }), "{refused}");
    drop(second);
    let left = disks[1].after_power_loss(PowerLoss::LoseAll);
    let place = DatabaseDirectory::at(environment(Arc::new(left)));
    let refused = place.rejoin(&small_options(), &history_of(&first)).unwrap_err();
    assert!(matches!(refused, Error::PagesBeyondFork { .. }), "{refused}");
}
