//! Transactions in doubt that create, drop, truncate, rename and alter tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_engine::{Database, DatabaseDirectory, Environment, Error, Isolation, Options, TableChange};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom};

use super::survival::{ALL, Between, World, pass};
use super::{begin, check_and_close, gids, lose_power, only, open, open_with, options, prepare};

/// Tables by name, each with its rows.
type Content = BTreeMap<String, Vec<String>>;

fn content(database: &Database) -> Content {
    let snapshot = database.snapshot();
    let names = database.tables().list().unwrap().into_iter().map(|table| table.name);
    let rows = |name: &str| {
        let table = database.table(name).unwrap();
        let keys = snapshot.range::<&[u8]>(&table, ..).map(|row| String::from_utf8(row.unwrap().0).unwrap());
        keys.filter(|key| key != "filler").collect()
    };
    names.map(|name| (name.clone(), rows(&name))).collect()
}

fn tables(of: &[(&str, &[&str])]) -> Content {
    let rows = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    of.iter().map(|(name, keys)| ((*name).to_owned(), rows(keys))).collect()
}

const BEFORE: [(&str, &[&str]); 5] =
    [("dropped", &["d"]), ("emptied", &["e"]), ("old name", &["r"]), ("replaced", &["p"]), ("t", &[])];
const AFTER: [(&str, &[&str]); 5] =
    [("emptied", &["after"]), ("made", &["m"]), ("new name", &["r"]), ("replaced", &["anew"]), ("t", &[])];

fn make(database: &Database) {
    for (name, keys) in BEFORE {
        let table = database.create_table(name).unwrap();
        for key in keys {
            database.put(&table, key, "v").unwrap();
        }
    }
    // Its name is taken again, and the drop is in no tree yet.
    database.create_table("made").unwrap();
    database.tables().drop("made").unwrap();
}

/// Prepares the way from `BEFORE` to `AFTER`.
fn prepare_definitions(database: &Database, gid: &str) {
    let mut transaction = database.begin();
    let made = transaction.create_table("made").unwrap();
    transaction.put(&made, "m", "v").unwrap();
    transaction.drop_table("dropped").unwrap();
    transaction.truncate_table("emptied").unwrap();
    let emptied = transaction.table("emptied").unwrap();
    transaction.put(&emptied, "after", "v").unwrap();
    transaction.rename_table("old name", "new name").unwrap();
    transaction.drop_table("replaced").unwrap();
    let replaced = transaction.create_table("replaced").unwrap();
    transaction.put(&replaced, "anew", "v").unwrap();
    transaction.prepare(gid).unwrap();
}

/// What others may not do while it is in doubt.
fn check_held(database: &Database) {
    let is_locked =
        |result: Result<(), Error>| assert!(matches!(result, Err(Error::Locked { .. })), "{result:?}");
    for name in ["made", "new name"] {
        is_locked(database.create_table(name).map(drop));
    }
    for name in ["dropped", "emptied", "old name", "replaced"] {
        is_locked(database.tables().drop(name).map(drop));
        is_locked(database.tables().truncate(name).map(drop));
        is_locked(database.tables().rename(name, "other").map(drop));
        let table = database.table(name).unwrap();
        is_locked(database.put(&table, "other", "v").map(drop));
        let mut writer = database.begin();
        writer.put(&table, "other", "v").unwrap();
        is_locked(writer.prepare("other").map(drop));
    }
    assert_eq!(content(database), tables(&BEFORE), "nobody sees it");
}

fn new_timeline((disk, database): World, options: &Options) -> World {
    let left = lose_power(&disk, database);
    let environment = Environment {
        disk: Arc::new(left.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(7)),
    };
    let directory = DatabaseDirectory::at(environment);
    let database = directory.open_on_new_timeline(options.clone(), "promoted").unwrap();
    (left, database)
}

fn run(first: Option<Between>, second: Between, commits: bool) {
    let options = options();
    let disk = SimulatedDisk::new(1);
    let database = open_with(&disk, options.clone());
    make(&database);
    prepare_definitions(&database, "gid");
    check_held(&database);
    let mut world = match first {
        Some(between) => pass((disk, database), between, &options),
        None => new_timeline((disk, database), &options),
    };
    let found = only(&world.1);
    assert_eq!(found.tables, ["dropped", "emptied", "old name", "replaced"]);
    check_held(&world.1);
    // Numbers that the transaction has drawn are not drawn again.
    let other = world.1.create_table("other").unwrap();
    world.1.put(&other, "o", "v").unwrap();
    world.1.tables().drop("other").unwrap();
    if commits {
        world.1.two_phase().commit("gid").unwrap();
    } else {
        world.1.two_phase().rollback("gid").unwrap();
    }
    let expected = tables(if commits { &AFTER } else { &BEFORE });
    assert_eq!(content(&world.1), expected);
    world = pass(world, second, &options);
    assert_eq!(content(&world.1), expected, "{first:?} {second:?} {commits}");
    for name in expected.keys() {
        let table = world.1.table(name).unwrap();
        world.1.put(&table, "later", "v").unwrap();
    }
    // What was dropped is cut out: of the catalog two rows a table, and one of each table.
    world.1.checkpoint().unwrap();
    world.1.checkpoint().unwrap();
    let rows: usize = content(&world.1).values().map(Vec::len).sum();
    let fillers = usize::from(world.1.get(&world.1.table("t").unwrap(), "filler").unwrap().is_some());
    let summary = world.1.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.rows, u64::try_from(rows + fillers + 2 * expected.len()).unwrap());
    check_and_close(world.1);
}

#[test]
fn definitions_in_doubt_survive_whatever_comes_between() {
    for first in ALL.into_iter().map(Some).chain([None]) {
        for second in [Between::Nothing, Between::PowerFailure, Between::CheckpointAndPowerFailure] {
            for commits in [true, false] {
                run(first, second, commits);
            }
        }
    }
}

/// The power goes at each disk call of checkpoints around the decision.
#[test]
fn a_crash_anywhere_around_the_decision_leaves_all_definitions_or_none() {
    let start = SimulatedDisk::new(1);
    let database = open(&start);
    make(&database);
    database.checkpoint().unwrap();
    prepare_definitions(&database, "gid");
    let start = lose_power(&start, database);
    let (mut call, mut decided, mut undecided) = (0, 0, 0);
    loop {
        let disk = start.copy();
        let database = open(&disk);
        disk.crash_at(disk.calls() + call);
        let done = database.checkpoint().and_then(|_| database.two_phase().commit("gid"));
        let is_acknowledged = done.is_ok();
        let finished = done.and_then(|_| database.checkpoint()).is_ok();
        for loss in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let after = disk.after_power_loss(loss);
            let opened = open(&after);
            let is_decided = gids(&opened).is_empty();
            assert!(is_decided || !is_acknowledged, "call {call}, {loss:?}: the decision is lost");
            if !is_decided {
                undecided += 1;
                check_held(&opened);
                opened.two_phase().commit("gid").unwrap();
            }
            decided += u32::from(is_decided);
            assert_eq!(content(&opened), tables(&AFTER), "call {call}, {loss:?}");
            opened.checkpoint().unwrap();
            check_and_close(opened);
        }
        if finished {
            break;
        }
        call += 1;
    }
    assert!(call > 20 && decided > 3 && undecided > 3, "{call} {decided} {undecided}");
}

#[test]
fn who_used_a_table_before_its_definition_was_decided_is_refused_or_goes_on() {
    for (commits, isolation) in [true, false]
        .into_iter()
        .flat_map(|commits| [(commits, Isolation::Snapshot), (commits, Isolation::ReadCommitted)])
    {
        let database = open(&SimulatedDisk::new(1));
        make(&database);
        let writers: Vec<_> = ["dropped", "emptied", "old name", "t"]
            .into_iter()
            .map(|name| {
                let table = database.table(name).unwrap();
                let mut writer = begin(&database, isolation);
                writer.put(&table, "w", name).unwrap();
                writer
            })
            .collect();
        prepare_definitions(&database, "gid");
        match commits {
            true => database.two_phase().commit("gid").unwrap(),
            false => database.two_phase().rollback("gid").unwrap(),
        };
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.commit().map(drop)).collect();
        if commits {
            let change = |index: usize| match &ended[index] {
                Err(Error::TableChanged { change, .. }) => *change,
                other => panic!("{other:?}"),
            };
            assert_eq!((change(0), change(1)), (TableChange::Dropped, TableChange::Truncated));
            assert_eq!((change(2), ended[3].is_ok()), (TableChange::Altered, true));
        } else {
            assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        }
        check_and_close(database);
    }
}

#[test]
fn what_uses_a_table_and_what_defines_it_are_not_in_doubt_together() {
    let database = open(&SimulatedDisk::new(1));
    make(&database);
    prepare(&database, "uses", &[("a", "1")]);
    let definitions: [fn(&mut seawall_engine::Transaction); 3] = [
        |transaction| transaction.drop_table("t").unwrap(),
        |transaction| transaction.truncate_table("t").unwrap(),
        |transaction| {
            let table = transaction.table("t").unwrap();
            transaction.alter_table(&table).unwrap();
        },
    ];
    for define in definitions {
        let mut transaction = begin(&database, Isolation::Snapshot);
        define(&mut transaction);
        let refused = transaction.prepare("defines");
        assert!(matches!(refused, Err(Error::TableInDoubt { .. })), "{refused:?}");
    }
    database.two_phase().commit("uses").unwrap();
    for define in definitions {
        let mut transaction = begin(&database, Isolation::Snapshot);
        define(&mut transaction);
        transaction.prepare("defines").unwrap();
        let table = database.table("t").unwrap();
        let mut user = database.begin();
        user.put(&table, "b", "1").unwrap();
        assert!(matches!(user.prepare("uses"), Err(Error::Locked { .. })));
        database.two_phase().rollback("defines").unwrap();
    }
    check_and_close(database);
}

/// An index is such a table: rows that came while it was in doubt are not missing from it.
#[test]
fn a_table_that_a_transaction_in_doubt_alters_gets_no_rows_until_the_decision() {
    let disk = SimulatedDisk::new(1);
    let mut database = open(&disk);
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    transaction.create_table("index").unwrap();
    transaction.alter_table(&table).unwrap();
    transaction.prepare("gid").unwrap();
    let disk = lose_power(&disk, database);
    database = open(&disk);
    let table = database.table("t").unwrap();
    let mut writer = database.begin();
    writer.put(&table, "a", "1").unwrap();
    assert!(matches!(database.put(&table, "b", "1"), Err(Error::Locked { .. })));
    database.two_phase().commit("gid").unwrap();
    let refused = writer.commit();
    assert!(
        matches!(refused, Err(Error::TableChanged { change: TableChange::Altered, .. })),
        "it does not know the index: {refused:?}"
    );
    let known = database.table("t").unwrap();
    database.put(&known, "b", "1").unwrap();
    check_and_close(database);
}

/// A load that is larger than the memory of a transaction, in a table of its own.
#[test]
fn rows_that_were_logged_in_parts_wait_for_the_decision_and_go_with_a_rollback() {
    const ROWS: u32 = 3_000;
    let mut options = options();
    options.memory.transaction_bytes = 1 << 20;
    for commits in [true, false] {
        for between in ALL {
            let disk = SimulatedDisk::new(1);
            let database = open_with(&disk, options.clone());
            database.create_table("t").unwrap();
            let mut transaction = database.begin();
            let table = transaction.create_table("large").unwrap();
            for row in 0..ROWS {
                transaction.put(&table, row.to_be_bytes(), [7; 1000]).unwrap();
            }
            transaction.prepare("gid").unwrap();
            let world = pass((disk, database), between, &options);
            // What a checkpoint could cut out, it does.
            world.1.checkpoint().unwrap();
            world.1.checkpoint().unwrap();
            match commits {
                true => world.1.two_phase().commit("gid").unwrap(),
                false => world.1.two_phase().rollback("gid").unwrap(),
            };
            let (_, database) = pass(world, between, &options);
            let rows = if commits {
                let table = database.table("large").unwrap();
                let rows = database.snapshot().range::<&[u8]>(&table, ..).count();
                assert_eq!(rows, usize::try_from(ROWS).unwrap(), "{between:?}");
                ROWS + 2
            } else {
                assert!(matches!(database.table("large"), Err(Error::NoSuchTable { .. })));
                0
            };
            database.checkpoint().unwrap();
            database.checkpoint().unwrap();
            let filler = database.get(&database.table("t").unwrap(), "filler").unwrap().is_some();
            let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
            assert_eq!(summary.rows, u64::from(rows + 2 + u32::from(filler)), "{between:?} {commits}");
            check_and_close(database);
        }
    }
}
