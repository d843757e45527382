//! A server whose pages hold what its new primary never had fetches what has changed on either side, and has that one's rows then.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::copying::{Rows, copy_with, disturb, everything, history_of, receive, slot, write};
use common::following::follow;
use common::rewinding::{put_rows, rewind, rows_of};
use common::small_options;
use seawall_crash_harness::{environment, open, template};
use seawall_engine::{
    ArchiveMode, Backup, BackupBase, BackupEnd, BackupItem, Database, DatabaseDirectory, Durability,
    Environment, Error, NewTimeline, Options, QuorumOptions, Rejoined, ReplicationLevel, Restore,
    RestoreMarker, RestoreOptions, Rewind, Rewound, SegmentName, StandbyPositions, TimelineHistory,
    is_rewinding,
};
use seawall_keys::{MasterKey, SecretKey};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, SimulatedRandom, crash_step, seeds};
use seawall_testing::wait_until;
use seawall_types::TimelineId;

fn place(disk: &SimulatedDisk) -> Environment {
    environment(Arc::new(disk.clone()))
}

/// A primary, and what follows it.
struct Pair {
    options: Options,
    disk: SimulatedDisk,
    primary: Database,
    standby_disk: SimulatedDisk,
    standby: Database,
}

/// A former primary that has ended, and the new one.
struct Parted {
    options: Options,
    former: SimulatedDisk,
    primary: Database,
}

fn keep_log(database: &Database) {
    if database.log().find_hold("standby").is_err() {
        drop(database.log().hold("standby", slot(), None).unwrap());
    }
}

fn checkpoints(database: &Database, count: usize) {
    for _checkpoint in 0..count {
        database.checkpoint().unwrap();
    }
}

impl Pair {
    fn new(options: &Options) -> Pair {
        let disk = template(options);
        let primary = open(&disk, options);
        keep_log(&primary);
        let standby_disk = disk.after_power_loss(PowerLoss::LoseAll);
        let standby = follow(&standby_disk, options);
        Pair { options: options.clone(), disk, primary, standby_disk, standby }
    }

    /// Both have the same, in their pages too.
    fn settle(&self) {
        write(&self.primary, &mut SeededRandom::new(7));
        self.catch_up();
        self.primary.checkpoint().unwrap();
        self.primary.checkpoint().unwrap();
        self.catch_up();
        self.standby.standby().unwrap().checkpoint().unwrap();
    }

    fn catch_up(&self) {
        receive(&self.primary, &self.standby).unwrap();
        let candidate = Some(self.standby.log().flushed());
        self.primary.quorum().standbys_are_at(StandbyPositions { quorum: None, candidate });
    }

    /// The standby is promoted, and `alone` is what the former primary does on its own, `new` what the new one does.
    fn part(self, alone: impl FnOnce(&Database), new: impl FnOnce(&Database)) -> Parted {
        let Pair { options, disk, primary, standby, .. } = self;
        alone(&primary);
        standby.standby().unwrap().promote("its primary is not to be reached").unwrap();
        keep_log(&standby);
        new(&standby);
        let former = disk.after_power_loss(PowerLoss::KeepAll);
        disk.crash();
        Parted { options, former, primary: standby }
    }
}

impl Parted {
    fn rejoin(&self, disk: &SimulatedDisk) -> Result<Rejoined, Error> {
        DatabaseDirectory::at(place(disk)).rejoin(&self.options, &history_of(&self.primary))
    }

    fn rewind(&self, disk: &SimulatedDisk, name: &str) -> Result<Rewound, Error> {
        let rewound = rewind(&self.primary, place(disk), &self.options, name, &mut || {})?;
        Ok(rewound.expect("the histories have parted"))
    }

    /// Follows to the end, and has the same rows.
    fn assert_equal(&self, disk: &SimulatedDisk, place: &str) -> Database {
        let standby = follow(disk, &self.options);
        write(&self.primary, &mut SeededRandom::new(3));
        receive(&self.primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None, "{place}");
        assert!(everything(&standby) == everything(&self.primary), "{place}: other rows");
        standby.check(&mut |damage| panic!("{place}: {damage}")).unwrap();
        standby
    }
}

/// All that a user may do, on both sides, with checkpoints.
fn parted_by_all_kinds_of_changes(seed: u64) -> Parted {
    let mut random = SeededRandom::new(seed);
    let pair = Pair::new(&small_options());
    for _change in 0..120 {
        write(&pair.primary, &mut random);
        disturb(&pair.primary, &mut random);
    }
    pair.settle();
    for _change in 0..10 {
        write(&pair.primary, &mut random);
        disturb(&pair.primary, &mut random);
    }
    pair.catch_up();
    let mut other = SeededRandom::new(seed + 1000);
    let change = |database: &Database, random: &mut SeededRandom| {
        for _time in 0..2 {
            for _change in 0..20 {
                write(database, random);
                disturb(database, random);
            }
            database.checkpoint().unwrap();
        }
        for _change in 0..5 {
            write(database, random);
            disturb(database, random);
        }
    };
    pair.part(|former| change(former, &mut random), |new| change(new, &mut other))
}

#[test]
fn a_rewind_is_whole_or_begun_again_whenever_the_power_goes() {
    for seed in seeds(3) {
        let parted = parted_by_all_kinds_of_changes(seed);
        let refused = parted.rejoin(&parted.former).unwrap_err();
        assert!(matches!(refused, Error::PagesBeyondFork { .. }), "seed {seed}: {refused}");
        let (mut calls, mut call, mut begun_again) = (None, 0, 0);
        loop {
            let place = format!("seed {seed}, power lost in call {call}");
            let disk = parted.former.copy();
            let before = disk.calls();
            if calls.is_some() {
                disk.crash_at(before + call);
            }
            let rewound = parted.rewind(&disk, &format!("rewind_{seed}_{call}"));
            assert!(rewound.is_ok() || disk.crashed(), "{place}: {rewound:?}");
            let all = *calls.get_or_insert(disk.calls() - before);
            let left = disk.after_power_loss(PowerLoss::Random(seed ^ (call << 8)));
            disk.crash();
            if is_rewinding(&left).unwrap() {
                begun_again += 1;
                let directory = DatabaseDirectory::at(self::place(&left));
                assert!(directory.is_followed().unwrap(), "{place}");
                let refused = directory.clone().follow(parted.options.clone()).unwrap_err();
                assert!(matches!(refused, Error::Rewinding { .. }), "{place}: {refused}");
                let refused = Database::open(self::place(&left), parted.options.clone()).unwrap_err();
                assert!(matches!(refused, Error::Rewinding { .. }), "{place}: {refused}");
                let (_, history) = directory.identity().unwrap();
                assert!(history_of(&parted.primary).descends_from(&history), "{place}");
            }
            match parted.rejoin(&left) {
                Ok(Rejoined::AsItWas) => {}
                Err(Error::PagesBeyondFork { .. } | Error::Rewinding { .. }) => {
                    assert!(rewound.is_err(), "{place}: it was not whole");
                    parted.rewind(&left, &format!("again_{seed}_{call}")).unwrap();
                }
                other => panic!("{place}: {other:?}"),
            }
            parted.assert_equal(&left, &place);
            call += u64::try_from(crash_step(all, 60)).unwrap();
            if call >= all {
                break;
            }
        }
        assert!(begun_again > 10, "seed {seed}: {begun_again}");
    }
}

#[test]
fn only_what_has_changed_on_either_side_is_fetched() {
    let pair = Pair::new(&small_options());
    put_rows(&pair.primary, "d0", 0..8000, 100, 1);
    pair.settle();
    let parted = pair.part(
        |former| {
            for at in [100, 4000, 7900] {
                put_rows(former, "d0", at..at + 3, 100, 2);
            }
            former.checkpoint().unwrap();
        },
        |new| put_rows(new, "d0", 2000..2010, 100, 3),
    );
    let rewound = parted.rewind(&parted.former, "rewind").unwrap();
    assert!((3..100).contains(&rewound.ranges), "{rewound:?}");
    assert!(rewound.rows < 800 && rewound.kept_rows > 7200, "{rewound:?}");
    // Nine rows of the former primary, ten of the new one, one of `settle`, and those of the system keyspace.
    assert!((19..60).contains(&rewound.changed_rows), "{rewound:?}");
    let standby = parted.assert_equal(&parted.former, "once");
    // It goes on as any standby does, and may take the place of its primary.
    standby.standby().unwrap().checkpoint().unwrap();
    standby.standby().unwrap().promote("test").unwrap();
    put_rows(&standby, "d0", 0..10, 100, 4);
    standby.close().unwrap();
    open(&parted.former, &parted.options).check(&mut |damage| panic!("{damage}")).unwrap();
}

/// Nothing in a leaf tells of one that is gone, and a load may have built leaves before the fork that it links behind it.
#[test]
fn tables_that_came_or_went_behind_the_fork_are_as_the_primary_has_them() {
    let encrypted = small_options()
        .with(|options| options.master_key = Some(MasterKey::Bytes(SecretKey::from_bytes([7; 32]))));
    for options in [small_options(), encrypted] {
        let pair = Pair::new(&options);
        for (name, bytes) in [("d0", 4000), ("d1", 300), ("d2", 9000), ("doubtful", 20)] {
            put_rows(&pair.primary, name, 0..600, bytes, 1);
        }
        pair.settle();
        let mut load = pair.primary.tables().bulk_load("loaded").unwrap();
        for row in 0..3000_u64 {
            load.add(row.to_be_bytes(), [5; 100]).unwrap();
        }
        pair.catch_up();
        let parted = pair.part(
            |former| {
                load.finish().unwrap();
                former.tables().drop("d0").unwrap();
                former.tables().truncate("d2").unwrap();
                let table = former.table("doubtful").unwrap();
                let mut transaction = former.begin();
                (0..600_u64).for_each(|row| transaction.delete(&table, row.to_be_bytes()).unwrap());
                transaction.commit().unwrap();
                put_rows(former, "alone", 0..500, 500, 9);
                // What was dropped is cut out by a later one.
                checkpoints(former, 3);
            },
            |new| {
                new.tables().drop("d1").unwrap();
                let mut load = new.tables().bulk_load("new").unwrap();
                for row in 0..500_u64 {
                    load.add(row.to_be_bytes(), [6; 100]).unwrap();
                }
                load.finish().unwrap();
                checkpoints(new, 3);
            },
        );
        let rewound = parted.rewind(&parted.former, "rewind").unwrap();
        assert!(rewound.ranges > 0, "{rewound:?}");
        let standby = parted.assert_equal(&parted.former, "all kinds");
        for name in ["d0", "d1", "d2", "doubtful", "loaded", "alone", "new"] {
            assert!(rows_of(&standby, name) == rows_of(&parted.primary, name), "{name}");
        }
        assert_eq!(rows_of(&standby, "d0").unwrap().len(), 600);
        assert!(rows_of(&standby, "loaded").is_none() && rows_of(&standby, "alone").is_none());
    }
}

/// A merge that puts the value that is there leaves the leaf and its stamp as they are; the new primary has merged what was there in between.
#[test]
fn a_value_that_was_changed_back_behind_the_fork_is_the_primarys() {
    // Short and long values.
    for bytes in [50, 9000] {
        let pair = Pair::new(&small_options());
        put_rows(&pair.primary, "d0", 0..200, bytes, 1);
        pair.settle();
        put_rows(&pair.primary, "d0", 7..8, bytes, 2);
        pair.primary.delete(&pair.primary.table("d0").unwrap(), 150_u64.to_be_bytes()).unwrap();
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        let parted = pair.part(
            |former| {
                put_rows(former, "d0", 7..8, bytes, 1);
                put_rows(former, "d0", 150..151, bytes, 1);
                former.checkpoint().unwrap();
            },
            |new| put_rows(new, "d1", 0..3, 10, 3),
        );
        parted.rewind(&parted.former, "rewind").unwrap();
        let standby = parted.assert_equal(&parted.former, "changed back");
        let rows = rows_of(&standby, "d0").unwrap();
        assert_eq!((rows.len(), &rows[7].1), (199, &vec![2; bytes]), "{bytes} bytes");
    }
}

/// Rows of more bytes than are worked off at a time, in both directions.
#[test]
fn what_is_fetched_or_goes_may_be_longer_than_what_is_held_in_memory() {
    let pair = Pair::new(&small_options().with(|options| options.memory.memtable_bytes = 32 << 20));
    put_rows(&pair.primary, "d0", 0..3000, 3500, 1);
    pair.settle();
    let parted = pair.part(
        |former| {
            former.tables().drop("d0").unwrap();
            put_rows(former, "alone", 0..3000, 3500, 9);
            checkpoints(former, 2);
        },
        |new| put_rows(new, "d1", 0..3000, 3500, 2),
    );
    let rewound = parted.rewind(&parted.former, "rewind").unwrap();
    assert!(rewound.bytes > 20 << 20, "{rewound:?}");
    parted.assert_equal(&parted.former, "long");
}

/// The primary goes on meanwhile, and takes checkpoints.
#[test]
fn a_primary_that_is_written_meanwhile_is_followed() {
    for seed in seeds(5) {
        let parted = parted_by_all_kinds_of_changes(seed);
        let mut random = SeededRandom::new(seed);
        let mut meanwhile = || {
            write(&parted.primary, &mut random);
            disturb(&parted.primary, &mut random);
            if random.below(4) == 0 {
                parted.primary.checkpoint().unwrap();
            }
        };
        let place = place(&parted.former);
        rewind(&parted.primary, place, &parted.options, "rewind", &mut meanwhile).unwrap().unwrap();
        let standby = follow(&parted.former, &parted.options);
        write(&parted.primary, &mut random);
        // Killed on the way, it goes on, or fetches once more what the log here does not make whole.
        receive(&parted.primary, &standby).unwrap();
        assert!(everything(&standby) == everything(&parted.primary), "seed {seed}");
        standby.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
        // Slots of its own keep the log from here on.
        let hold = standby.log().find_hold("standby").unwrap();
        assert!(hold.advance(standby.log().flushed()).is_ok(), "seed {seed}");
    }
}

/// The server to follow is gone in the middle, and the one to follow then has left the common history earlier.
#[test]
fn a_rewind_is_completed_with_another_server() {
    for seed in seeds(6) {
        let mut random = SeededRandom::new(seed);
        let options = small_options();
        let pair = Pair::new(&options);
        put_rows(&pair.primary, "d0", 0..2000, 100, 1);
        pair.settle();
        let third_disk = pair.standby_disk.after_power_loss(PowerLoss::KeepAll);
        // Another mark of the timeline that it begins.
        let third = Environment { random: Arc::new(SimulatedRandom::new(99)), ..place(&third_disk) };
        let third = DatabaseDirectory::at(third).follow(options.clone()).unwrap();
        // What the second standby has, and the third one lacks.
        put_rows(&pair.primary, "d0", 300..320, 100, 2);
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        let parted = pair.part(
            |former| {
                put_rows(former, "d0", 700..720, 100, 3);
                former.checkpoint().unwrap();
            },
            |second| put_rows(second, "d0", 900..1300, 100, 4),
        );
        third.standby().unwrap().promote("test").unwrap();
        keep_log(&third);
        put_rows(&third, "d0", 1500..1520, 100, 5);
        let third = Parted { options, primary: third, former: parted.former.copy() };
        let mut left = parted.former.copy();
        let mut completed = 0;
        for attempt in 0..8 {
            let with = if attempt % 2 == 0 { &parted } else { &third };
            left.crash_at(left.calls() + random.range(20..120));
            let rewound = with.rewind(&left, &format!("rewind_{attempt}"));
            if rewound.is_ok() {
                completed += 1;
                break;
            }
            left = left.after_power_loss(PowerLoss::Random(seed + attempt));
        }
        if completed == 0 {
            third.rewind(&left, "last").unwrap();
            third.assert_equal(&left, &format!("seed {seed}"));
        }
    }
}

/// Rows of each table by name, of a server that is none of the pair.
fn tables(database: &Database) -> BTreeMap<&'static str, Option<Rows>> {
    ["t", "d0", "d1"].into_iter().map(|name| (name, rows_of(database, name))).collect()
}

/// A standby that was made of a running primary has leaves of moments behind its redo point: a stamp says so.
#[test]
fn leaves_of_a_copy_are_not_older_than_their_rows() {
    for seed in seeds(5) {
        let mut random = SeededRandom::new(seed);
        let primary = common::copying::primary();
        put_rows(&primary, "d0", 0..600, 300, 1);
        primary.checkpoint().unwrap();
        let disk = SimulatedDisk::new(seed);
        common::copying::copy(&primary, &disk, &mut random, "copy").unwrap();
        let standby = follow(&disk, &small_options());
        receive(&primary, &standby).unwrap();
        // No checkpoint of its own: its redo point is that of the copy. The primary is cut back to a place before the copy's end.
        let (former, new_disk) = (disk, SimulatedDisk::new(seed + 1));
        common::copying::copy(&primary, &new_disk, &mut random, "second").unwrap();
        let new = follow(&new_disk, &small_options());
        receive(&primary, &new).unwrap();
        put_rows(&primary, "d0", 100..110, 300, 2);
        receive(&primary, &standby).unwrap();
        standby.standby().unwrap().checkpoint().unwrap();
        let former_left = former.after_power_loss(PowerLoss::KeepAll);
        former.crash();
        new.standby().unwrap().promote("test").unwrap();
        keep_log(&new);
        put_rows(&new, "d0", 200..210, 300, 3);
        rewind(&new, place(&former_left), &small_options(), "rewind", &mut || {}).unwrap().unwrap();
        let back = follow(&former_left, &small_options());
        receive(&new, &back).unwrap();
        assert!(tables(&back) == tables(&new), "seed {seed}");
    }
}

/// What refuses has changed nothing: the commits here may be nowhere else.
#[test]
fn a_server_whose_primary_refuses_to_be_copied_is_what_it_was() {
    let pair = Pair::new(&small_options());
    pair.settle();
    let parted = pair.part(
        |former| {
            put_rows(former, "t", 0..20, 100, 1);
            checkpoints(former, 2);
        },
        |new| put_rows(new, "t", 0..20, 100, 2),
    );
    let disk = &parted.former;
    let begun = Rewind::begin(place(disk), &parted.options, &history_of(&parted.primary)).unwrap();
    drop(begun.expect("the histories have parted"));
    assert!(!is_rewinding(disk).unwrap());
    let former = open(&disk.after_power_loss(PowerLoss::LoseAll), &parted.options);
    let rows = rows_of(&former, "t").unwrap();
    assert_eq!(rows.iter().filter(|(_, value)| value == &vec![1; 100]).count(), 20);
}

/// A copy was not whole when its primary was lost, and the new one has left the log before the end of the copy.
#[test]
fn a_copy_that_its_log_does_not_lead_to_is_rewound() {
    let pair = Pair::new(&small_options());
    pair.settle();
    let disk = SimulatedDisk::new(9);
    let mut random = SeededRandom::new(9);
    let mut has_caught_up = false;
    let between = || {
        if !std::mem::replace(&mut has_caught_up, true) {
            pair.catch_up();
        }
        write(&pair.primary, &mut random);
        Ok(())
    };
    let end = copy_with(&pair.primary, &disk, "copy", || Ok(()), between).unwrap();
    let parted = pair.part(
        |_former| (),
        |new| {
            put_rows(new, "t", 0..20, 100, 2);
            checkpoints(new, 1);
        },
    );
    let fork = history_of(&parted.primary).forks.last().unwrap().fork;
    assert!(fork < end, "{fork} {end}");
    let refused = parted.rejoin(&disk).unwrap_err();
    assert!(matches!(refused, Error::PagesBeyondFork { .. }), "{refused}");
    parted.rewind(&disk, "again").unwrap();
    parted.assert_equal(&disk, "a copy");
}

/// A server that was restored to try something out, and those that follow it, put nothing into the repository of the original.
#[test]
fn a_rewound_server_archives_as_its_primary_does() {
    for (primary_is_off, former_is_off) in [(true, false), (false, true), (true, true), (false, false)] {
        let pair = Pair::new(&small_options());
        pair.settle();
        let standby_disk = pair.standby_disk.clone();
        let parted = pair.part(
            |former| {
                put_rows(former, "t", 0..20, 100, 1);
                checkpoints(former, 2);
            },
            |new| put_rows(new, "t", 0..20, 100, 2),
        );
        let former = DatabaseDirectory::at(place(&parted.former));
        if primary_is_off {
            DatabaseDirectory::at(place(&standby_disk)).forbid_archiving().unwrap();
        }
        if former_is_off {
            former.forbid_archiving().unwrap();
        }
        let what = format!("primary off: {primary_is_off}, former off: {former_is_off}");
        let mut calls = None;
        let mut call = 0;
        loop {
            let disk = parted.former.copy();
            let before = disk.calls();
            if calls.is_some() {
                disk.crash_at(before + call);
            }
            let rewound = parted.rewind(&disk, &format!("rewind_{call}"));
            assert!(rewound.is_ok() || disk.crashed(), "{what}, call {call}: {rewound:?}");
            let all = *calls.get_or_insert(disk.calls() - before);
            let left = disk.after_power_loss(PowerLoss::Random(call));
            disk.crash();
            let directory = DatabaseDirectory::at(place(&left));
            let is_off = directory.is_archiving_off().unwrap();
            match parted.rejoin(&left) {
                // Done: what it is from now on.
                Ok(Rejoined::AsItWas) => assert_eq!(is_off, primary_is_off, "{what}, call {call}"),
                Err(Error::Rewinding { .. }) => {
                    parted.rewind(&left, &format!("again_{call}")).unwrap();
                    assert_eq!(directory.is_archiving_off().unwrap(), primary_is_off, "{what}, call {call}");
                }
                // Nothing was changed.
                Err(Error::PagesBeyondFork { .. }) => {
                    assert_eq!(is_off, former_is_off, "{what}, call {call}")
                }
                other => panic!("{what}, call {call}: {other:?}"),
            }
            call += u64::try_from(crash_step(all, 30)).unwrap();
            if call >= all {
                break;
            }
        }
    }
}

const LONG: usize = 9000;

/// A row of the table `long`, most often a long value: those are all of one length, which is what a sum over rows has of them.
fn write_long(database: &Database, random: &mut SeededRandom) {
    let table = database.open_or_create_table("long").unwrap();
    let key = random.below(40).to_be_bytes();
    match random.below(6) {
        0 => database.delete(&table, key).unwrap(),
        1 => database.put(&table, key, random.bytes(50)).unwrap(),
        _ => database.put(&table, key, vec![*random.pick(&[1, 2, 3]); LONG]).unwrap(),
    };
}

fn write_all_kinds(database: &Database, random: &mut SeededRandom, count: u64) {
    for _change in 0..count {
        write_long(database, random);
        write(database, random);
        disturb(database, random);
    }
}

/// A backup as a repository keeps it.
struct Stored {
    base: BackupBase,
    history: TimelineHistory,
    head: Vec<u8>,
    rows: Rows,
    end: BackupEnd,
}

impl Stored {
    /// Takes a backup, and changes rows before each range that it reads.
    fn take(primary: &Database, random: &mut SeededRandom) -> Stored {
        let mut backup = Backup::begin_copy(primary, "backup").unwrap();
        let (base, history) = (backup.base().clone(), history_of(primary));
        let mut head = vec![0; usize::try_from(base.redo_point.get() % base.segment_bytes).unwrap()];
        let segment =
            SegmentName { number: base.redo_point.get() / base.segment_bytes, timeline: history.timeline };
        primary.log().read_segment(segment, 0, &mut head).unwrap();
        let mut rows: Rows = backup.system_rows().to_vec();
        let mut next = Some(backup.first_key());
        while let Some(from) = next {
            write_all_kinds(primary, random, 2);
            let mut take = |item: BackupItem<'_>| match item {
                BackupItem::Row { key, value } => rows.push((key.to_vec(), value.to_vec())),
                BackupItem::Kept { .. } => panic!("a full backup has all rows"),
            };
            next = backup.read_range(&from, 16 << 10, &mut take).unwrap().next;
        }
        let end = backup.finish().unwrap();
        Stored { base, history, head, rows, end }
    }

    /// Makes a standby's directory of it, as `seawall_backup` does.
    fn copy(&self, disk: &SimulatedDisk) {
        let options = RestoreOptions {
            database: small_options(),
            graft_bytes: 64 << 10,
            archive_mode: ArchiveMode::Preserve,
        };
        let Stored { base, history, head, rows, end } = self;
        let marker = RestoreMarker::of_standby(base.database, "backup".to_owned(), history.timeline);
        let mut restore =
            Restore::begin(place(disk), options, base.clone(), history, end.next_table, &marker).unwrap();
        restore.begin_log(history, head).unwrap();
        restore.note_stamp(end.end).unwrap();
        rows.iter().for_each(|(key, value)| restore.push(key, value).unwrap());
        restore.finish_rows().unwrap();
        restore.finish_copy(*end, history).unwrap();
    }
}

/// A stamp of the leaves of such a copy says no more than that they are not older. It is rewound, and the other server to what it has
/// become then, in turn.
#[test]
fn a_copy_from_a_backup_and_its_primary_are_rewound_in_turn_with_long_values() {
    for seed in seeds(12) {
        let mut random = SeededRandom::new(seed);
        let options = small_options();
        let mut disks = [template(&options), SimulatedDisk::new(seed)];
        let primary = open(&disks[0], &options);
        keep_log(&primary);
        write_all_kinds(&primary, &mut random, 80);
        let stored = Stored::take(&primary, &mut random);
        write_all_kinds(&primary, &mut random, 10);
        if random.below(2) == 0 {
            primary.checkpoint().unwrap();
        }
        stored.copy(&disks[1]);
        let standby = follow(&disks[1], &options);
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None, "seed {seed}");
        let (mut primary, mut standby) = (primary, standby);
        let mut kept = 0;
        for round in 0..4 {
            let what = format!("seed {seed}, round {round}");
            if random.below(2) == 0 {
                standby.standby().unwrap().checkpoint().unwrap();
            }
            write_all_kinds(&primary, &mut random, 5);
            receive(&primary, &standby).unwrap();
            // Each goes on alone; the former primary has it in its pages.
            let (alone, new) = (random.range(1..12), random.range(1..12));
            write_all_kinds(&primary, &mut random, alone);
            primary.checkpoint().unwrap();
            standby.standby().unwrap().promote("its primary is not to be reached").unwrap();
            keep_log(&standby);
            write_all_kinds(&standby, &mut random, new);
            if random.below(2) == 0 {
                standby.checkpoint().unwrap();
            }
            let left = disks[round % 2].after_power_loss(PowerLoss::KeepAll);
            disks[round % 2].crash();
            drop(primary);
            disks[round % 2] = left;
            let left = &disks[round % 2];
            let history = history_of(&standby);
            let refused = DatabaseDirectory::at(place(left)).rejoin(&options, &history).unwrap_err();
            assert!(matches!(refused, Error::PagesBeyondFork { .. }), "{what}: {refused}");
            let mut meanwhile = || write_all_kinds(&standby, &mut random, 1);
            let name = format!("rewind_{round}");
            let rewound = rewind(&standby, place(left), &options, &name, &mut meanwhile).unwrap().unwrap();
            kept += rewound.kept_rows;
            let back = follow(left, &options);
            write_all_kinds(&standby, &mut random, 1);
            receive(&standby, &back).unwrap();
            assert_eq!(back.standby().unwrap().copied_until(), None, "{what}");
            assert!(rows_of(&back, "long") == rows_of(&standby, "long"), "{what}: other long values");
            assert!(everything(&back) == everything(&standby), "{what}: other rows");
            back.check(&mut |damage| panic!("{what}: {damage}")).unwrap();
            (primary, standby) = (standby, back);
        }
        assert!(kept > 0, "seed {seed}: nothing was kept, so nothing was found out");
    }
}

/// A copy of a primary that was on the second timeline, with a redo point on the first one: and the server to follow has left the first
/// timeline later than that primary had.
#[test]
fn a_copy_on_an_earlier_timeline_is_rewound_to_a_server_that_left_that_later() {
    for seed in seeds(8) {
        let mut random = SeededRandom::new(seed);
        let options = small_options();
        let with_quorum = options.clone().with(|options| options.quorum = Some(QuorumOptions::default()));
        let former = common::copying::primary();
        write_all_kinds(&former, &mut random, 40);
        let disks = [0, 1, 2].map(|number| SimulatedDisk::new(3 * seed + number));
        common::copying::copy(&former, &disks[0], &mut random, "copied").unwrap();
        let copied = follow(&disks[0], &with_quorum);
        receive(&former, &copied).unwrap();
        common::copying::copy(&former, &disks[1], &mut random, "third").unwrap();
        // Another mark of the timeline that it begins, which may have the same number.
        let third = Environment { random: Arc::new(SimulatedRandom::new(99)), ..place(&disks[1]) };
        let third = DatabaseDirectory::at(third).follow(options.clone()).unwrap();
        receive(&former, &third).unwrap();

        copied.standby().unwrap().promote("test").unwrap();
        keep_log(&copied);
        // A commit waits for a standby, so there is no checkpoint on the second timeline.
        let (writer, table) = (copied.new_session(), copied.table("t").unwrap());
        let flushed = Durability::Replicated(ReplicationLevel::Flushed);
        let waiting = std::thread::spawn(move || writer.with(flushed).put(&table, b"waits", b"v"));
        wait_until("it is in the log", || copied.statistics().transactions.commits_in_flight > 0);
        copied.flush().unwrap();
        let end = copy_with(&copied, &disks[2], "second", || Ok(()), || Ok(())).unwrap();
        let fork = history_of(&copied).forks.last().unwrap().fork;
        let copy = follow(&disks[2], &options);
        assert_eq!(copy.log().timeline(), TimelineId::FIRST, "seed {seed}");
        let what = format!("seed {seed}, {:?}", seed % 3);
        match seed % 3 {
            // It has nothing of the log.
            0 => {}
            1 => receive(&copied, &copy).unwrap(),
            // It has log of the former primary, which is not the log that it needs, also in its pages.
            _ => {
                while former.log().flushed() <= end {
                    write_all_kinds(&former, &mut random, 1);
                }
                receive(&former, &copy).unwrap();
                copy.standby().unwrap().checkpoint().unwrap();
            }
        }
        while former.log().flushed() <= end {
            write_all_kinds(&former, &mut random, 1);
        }
        write_all_kinds(&former, &mut random, 3);
        receive(&former, &third).unwrap();
        let number = TimelineId::new(3).filter(|_| random.below(2) == 0);
        third.standby().unwrap().promote(NewTimeline { reason: "test", number }).unwrap();
        keep_log(&third);
        write_all_kinds(&third, &mut random, 3);
        let history = history_of(&third);
        assert!(history.forks.last().unwrap().fork > fork, "{what}");

        let left = disks[2].after_power_loss(PowerLoss::KeepAll);
        disks[2].crash();
        drop(copy);
        let refused = DatabaseDirectory::at(place(&left)).rejoin(&options, &history).unwrap_err();
        assert!(matches!(refused, Error::PagesBeyondFork { .. }), "{what}: {refused}");
        // Cut short once, which leaves nothing that could be taken for whole.
        left.crash_at(left.calls() + random.range(20..80));
        let rewound = rewind(&third, place(&left), &options, "rewind", &mut || {});
        let left = left.after_power_loss(PowerLoss::Random(seed));
        if rewound.is_err() {
            rewind(&third, place(&left), &options, "again", &mut || {}).unwrap().unwrap();
        }
        let back = follow(&left, &options);
        write_all_kinds(&third, &mut random, 1);
        receive(&third, &back).unwrap();
        assert_eq!(back.standby().unwrap().copied_until(), None, "{what}");
        assert!(rows_of(&back, "long") == rows_of(&third, "long"), "{what}: other long values");
        assert!(everything(&back) == everything(&third), "{what}: other rows");
        back.check(&mut |damage| panic!("{what}: {damage}")).unwrap();
        copied.close().unwrap();
        assert!(waiting.join().unwrap().is_err(), "{what}: it waited for ever");
    }
}
