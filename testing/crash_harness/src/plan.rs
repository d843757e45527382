//! What the sessions do: fixed plans that meet everything once, and random steps.

mod random;

use std::sync::Arc;

use seawall::Durability;
use seawall_simulation::SeededRandom;

use crate::session::Step;
use crate::state::Change;

pub use random::{put_random, random_commit, random_step};

fn text(name: &str) -> String {
    name.to_owned()
}

fn put(table: &str, key: impl Into<Vec<u8>>, value: Vec<u8>) -> Change {
    Change::Put { table: text(table), key: key.into(), value: value.into() }
}

fn delete(table: &str, key: impl Into<Vec<u8>>) -> Change {
    Change::Delete { table: text(table), key: key.into() }
}

fn sync(changes: Vec<Change>) -> Step {
    Step::Commit { changes, durability: Durability::Sync }
}

fn prepare(gid: &str, changes: Vec<Change>, durability: Durability) -> Step {
    Step::Prepare { gid: text(gid), changes, durability }
}

fn decide(gid: &str, commits: bool, durability: Durability) -> Step {
    Step::Decide { gid: text(gid), commits, durability }
}

fn unsynced(changes: Vec<Change>) -> Step {
    Step::Commit { changes, durability: Durability::Async }
}

/// Two neighbours of one group differ only after 600 bytes, so separators in the interior pages are long, and the tree
/// grows high with few rows.
pub fn long_key(number: u32) -> Vec<u8> {
    let group = (number / 3).wrapping_mul(2_654_435_761);
    let mut key = group.to_be_bytes().to_vec();
    key.resize(600, b'-');
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Everything once: commits of each kind, splits, joins, trees growing and shrinking, dropped and truncated tables,
/// long values, bulk loads, segments held, recycled and removed, close and open, on a new timeline, too.
pub fn thorough() -> Vec<Step> {
    let mut random = SeededRandom::new(7);
    let mut steps = Vec::new();
    grow(&mut random, &mut steps);
    overwrite(&mut random, &mut steps);
    two_phase(&mut random, &mut steps);
    shrink(&mut steps);
    load(&mut random, &mut steps);
    fill_segments(&mut random, &mut steps);
    steps.push(decide("stays", true, Durability::Async));
    steps.push(decide("defined stays", true, Durability::Sync));
    steps.push(prepare("last", vec![put("doubt", "last", random.bytes(30))], Durability::Sync));
    steps
}

/// The beginning of the thorough plan, and something of everything else, for tests that run it often.
pub fn short() -> Vec<Step> {
    let mut random = SeededRandom::new(8);
    let mut steps = vec![sync(vec![
        Change::Create { table: text("a") },
        Change::Create { table: text("b") },
        Change::Create { table: text("c") },
        put("a", "first", random.bytes(50)),
        put("c", "first", random.bytes(50)),
    ])];
    for number in 0..12_u32 {
        let change = put("a", number.to_be_bytes(), random.bytes(700));
        steps.push(if number % 3 == 1 { unsynced(vec![change]) } else { sync(vec![change]) });
    }
    steps.push(Step::Checkpoint);
    steps.push(sync((0..9).map(|number| put("b", long_key(number), random.bytes(40))).collect()));
    steps.push(sync(vec![put("b", "large", random.bytes(70_000)), delete("a", "first")]));
    steps.push(prepare("a", vec![put("a", "prepared", random.bytes(30))], Durability::Sync));
    steps.push(prepare(
        "defines",
        vec![
            Change::Create { table: text("made") },
            put("made", "k", random.bytes(30)),
            Change::Truncate { table: text("c") },
        ],
        Durability::Sync,
    ));
    steps.push(prepare("b", vec![put("b", "prepared", random.bytes(3_000))], Durability::Async));
    steps.push(Step::Checkpoint);
    steps.push(decide("a", true, Durability::Sync));
    steps.push(decide("b", false, Durability::Async));
    steps.push(decide("defines", true, Durability::Sync));
    let rows = (0..30_u32).map(|number| (number.to_be_bytes().to_vec(), random.bytes(200).into()));
    steps.push(Step::BulkLoad { table: text("loaded"), rows: rows.collect(), finished: true });
    steps.push(sync(vec![
        Change::Truncate { table: text("a") },
        put("a", "after", random.bytes(9)),
        Change::Drop { table: text("b") },
    ]));
    steps.push(unsynced(vec![put("a", "more", random.bytes(60_000))]));
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![put("loaded", "x", random.bytes(65_000))]));
    steps.push(Step::Reopen);
    steps.push(unsynced(vec![put("a", "last but one", random.bytes(10))]));
    steps.push(prepare("c", vec![put("a", "c", random.bytes(30))], Durability::Sync));
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![put("a", "last", random.bytes(10))]));
    steps
}

/// Tables created, dropped, renamed and truncated, alone and together, with rows and without, while some of it is in the
/// tree, some in the memtable and some in neither.
pub fn definitions() -> Vec<Step> {
    let mut random = SeededRandom::new(9);
    let mut steps = vec![sync(vec![
        Change::Create { table: text("a") },
        Change::Create { table: text("b") },
        Change::Create { table: text("c") },
        put("b", "first", random.bytes(50)),
    ])];
    steps.push(sync((0..30_u32).map(|row| put("a", row.to_be_bytes(), random.bytes(300))).collect()));
    steps.push(sync((0..9).map(|row| put("c", long_key(row), random.bytes(40))).collect()));
    steps.push(Step::Checkpoint);
    // Each alone: a table in the tree, one in the memtable too, one that is empty.
    steps.push(sync(vec![put("a", "late", random.bytes(300))]));
    steps.push(sync(vec![Change::Drop { table: text("a") }]));
    steps.push(unsynced(vec![Change::Create { table: text("empty") }]));
    steps.push(sync(vec![Change::Rename { from: text("b"), to: text("a") }]));
    steps.push(unsynced(vec![Change::Truncate { table: text("c") }]));
    steps.push(sync(vec![Change::Drop { table: text("empty") }]));
    steps.push(Step::Checkpoint);
    // Together, with names and rows that change hands.
    steps.push(sync(vec![
        put("c", "before", random.bytes(5_000)),
        Change::Truncate { table: text("c") },
        put("c", "after", random.bytes(9)),
        Change::Drop { table: text("a") },
        Change::Create { table: text("a") },
        put("a", "new", random.bytes(6_000)),
        Change::Rename { from: text("a"), to: text("between") },
        Change::Rename { from: text("c"), to: text("a") },
        Change::Rename { from: text("between"), to: text("c") },
    ]));
    steps.push(Step::RolledBack {
        changes: vec![Change::Drop { table: text("a") }, Change::Truncate { table: text("c") }],
    });
    // The name of a table that is dropped and in no tree yet is taken again, by one that stays in doubt over two checkpoints.
    steps.push(unsynced(vec![Change::Create { table: text("taken") }, put("taken", "k", random.bytes(100))]));
    steps.push(sync(vec![Change::Drop { table: text("taken") }]));
    let taken = vec![Change::Create { table: text("taken") }, put("taken", "again", random.bytes(100))];
    steps.push(prepare("takes", taken, Durability::Sync));
    steps.push(unsynced(vec![
        Change::Create { table: text("gone at once") },
        put("gone at once", "k", random.bytes(100)),
        Change::Drop { table: text("gone at once") },
    ]));
    steps.push(Step::Checkpoint);
    many(&mut random, &mut steps);
    steps
}

/// Many at once, so that they are cut out in several chunks, and again while the catalog still lists them.
fn many(random: &mut SeededRandom, steps: &mut Vec<Step>) {
    let name = |number: u32| format!("many {number}");
    let created = (0..24).flat_map(|number| {
        let table = name(number);
        let rows = [0, 1, 2].map(|row: u8| put(&table, [row], random.bytes(900)));
        std::iter::once(Change::Create { table }).chain(rows).collect::<Vec<_>>()
    });
    steps.push(sync(created.collect()));
    steps.push(Step::Checkpoint);
    let dropped = (0..24).filter(|number| number % 3 != 0);
    steps.push(sync(dropped.map(|number| Change::Drop { table: name(number) }).collect()));
    steps.push(Step::Checkpoint);
    steps.push(unsynced(vec![Change::Truncate { table: name(3) }, put(&name(3), "k", random.bytes(50))]));
    let in_doubt = vec![Change::Drop { table: name(9) }, Change::Drop { table: name(12) }];
    steps.push(prepare("drops", in_doubt, Durability::Sync));
    steps.push(Step::Reopen);
    steps.push(decide("takes", true, Durability::Sync));
    steps.push(sync(vec![Change::Drop { table: name(3) }, Change::Drop { table: name(6) }]));
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![put("a", "last", random.bytes(10))]));
}

/// A table of eight hundred leaves, of which each is changed by two checkpoints: large chunks, of which several threads write
/// regions of more than a mebibyte each.
pub fn wide() -> Vec<Step> {
    let mut random = SeededRandom::new(10);
    let rows = (0..WIDE_ROWS).map(|row| (row.to_be_bytes().to_vec(), random.bytes(800).into()));
    let rows: Vec<(Vec<u8>, Arc<[u8]>)> = rows.collect();
    let mut steps = vec![Step::BulkLoad { table: text("wide"), rows, finished: true }, Step::Checkpoint];
    for round in 0..2 {
        let mut changes =
            (round..WIDE_ROWS).step_by(4).map(|row| put("wide", row.to_be_bytes(), random.bytes(800)));
        let (first, last) = (changes.by_ref().take(400).collect(), changes.collect());
        steps.extend([unsynced(first), sync(last), Step::Checkpoint]);
    }
    steps
}

/// Four in a leaf.
const WIDE_ROWS: u32 = 3_200;

fn grow(random: &mut SeededRandom, steps: &mut Vec<Step>) {
    steps.push(sync(vec![
        Change::Create { table: text("small") },
        Change::Create { table: text("emptied") },
        put("small", "first", random.bytes(100)),
    ]));
    for number in 0..24_u32 {
        let change = put("small", number.wrapping_mul(2_654_435_761).to_be_bytes(), random.bytes(350));
        steps.push(match number % 6 {
            2 | 3 => unsynced(vec![change]),
            _ => sync(vec![change]),
        });
    }
    steps.push(Step::Flush);
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![Change::Create { table: text("high") }]));
    for part in 0..12_u32 {
        let changes = (0..12).map(|index| put("high", long_key(part * 12 + index), random.bytes(60)));
        steps.push(sync(changes.collect()));
    }
    steps.push(Step::Checkpoint);
    steps.push(sync(
        (0..20_u32).map(|number| put("emptied", number.to_be_bytes(), random.bytes(400))).collect(),
    ));
    steps.push(Step::RolledBack { changes: vec![put("small", "never", random.bytes(10))] });
}

fn overwrite(random: &mut SeededRandom, steps: &mut Vec<Step>) {
    steps.push(sync(vec![
        Change::Create { table: text("large") },
        put("large", "spanning", random.bytes(150_000)),
    ]));
    steps.push(sync(tables_to_define(random)));
    steps
        .push(unsynced(vec![put("large", "a", random.bytes(9_000)), put("large", "b", random.bytes(2_000))]));
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![
        put("large", "spanning", random.bytes(20_000)),
        delete("large", "b"),
        put("small", "first", random.bytes(200)),
    ]));
    steps.push(unsynced(
        (0..40_u32).map(|number| put("high", long_key(number * 3), random.bytes(90))).collect(),
    ));
    steps.push(Step::Checkpoint);
}

/// Prepares and decisions in one checkpoint, over one, over a restart; the last one stays in doubt while everything else
/// goes on, segments are used again among them.
fn two_phase(random: &mut SeededRandom, steps: &mut Vec<Step>) {
    use Durability::{Async, Sync};
    let rows = (0..8_u32).map(|number| put("doubt", number.to_be_bytes(), random.bytes(60)));
    let mut changes = vec![Change::Create { table: text("doubt") }];
    changes.extend(rows);
    steps.push(sync(changes));
    let define = |gid| prepare(gid, definitions_of(gid, random), Sync);
    let [define_at_once, define_over, define_restart, define_stays] = DEFINED.map(define);
    let mut row = |number: u32, bytes: usize| put("doubt", number.to_be_bytes(), random.bytes(bytes));
    let at_once = prepare("at once", vec![row(0, 50), delete("doubt", 1_u32.to_be_bytes())], Sync);
    steps.extend([at_once, prepare("over", vec![row(2, 5_000), row(9, 40)], Async)]);
    steps.extend([define_at_once, define_over, decide("defined at once", true, Async)]);
    steps.extend([decide("at once", true, Sync), Step::Checkpoint]);
    steps.extend([prepare("restart", vec![row(3, 30)], Sync), prepare("long", vec![row(4, 70_000)], Sync)]);
    steps.extend([define_stays, decide("defined over", true, Sync)]);
    steps.extend([decide("over", false, Async), Step::Checkpoint, decide("restart", true, Async)]);
    steps.push(define_restart);
    steps.extend([prepare("stays", vec![row(5, 2_000), row(10, 10)], Sync), Step::Reopen]);
    steps.extend([decide("long", true, Sync), prepare("forgotten", vec![row(6, 10)], Async)]);
    steps.push(decide("defined restart", false, Async));
    steps.extend([decide("forgotten", false, Sync), Step::Checkpoint]);
}

const DEFINED: [&str; 4] = ["defined at once", "defined over", "defined restart", "defined stays"];

/// A table for each definition of `definitions_of`.
fn tables_to_define(random: &mut SeededRandom) -> Vec<Change> {
    let mut changes = Vec::new();
    for gid in DEFINED {
        for what in ["dropped", "emptied", "old", "again"] {
            let table = format!("{gid}: {what}");
            changes.extend([Change::Create { table: table.clone() }, put(&table, "k", random.bytes(40))]);
        }
    }
    changes
}

/// Definitions of all kinds, with rows.
fn definitions_of(gid: &str, random: &mut SeededRandom) -> Vec<Change> {
    let table = |what: &str| format!("{gid}: {what}");
    vec![
        Change::Create { table: table("made") },
        put(&table("made"), "m", random.bytes(3_000)),
        Change::Drop { table: table("dropped") },
        Change::Truncate { table: table("emptied") },
        put(&table("emptied"), "after", random.bytes(20)),
        Change::Rename { from: table("old"), to: table("new") },
        put(&table("new"), "after", random.bytes(20)),
        Change::Drop { table: table("again") },
        Change::Create { table: table("again") },
        put(&table("again"), "after", random.bytes(20)),
        put("doubt", gid, random.bytes(20)),
    ]
}

fn shrink(steps: &mut Vec<Step>) {
    steps.push(sync((0..130_u32).map(|number| delete("high", long_key(number))).collect()));
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![
        Change::Truncate { table: text("emptied") },
        put("emptied", "after", b"truncate".to_vec()),
        Change::Drop { table: text("high") },
        Change::Rename { from: text("small"), to: text("renamed") },
    ]));
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![delete("large", "spanning"), Change::Create { table: text("high") }]));
    steps.push(Step::Checkpoint);
}

fn load(random: &mut SeededRandom, steps: &mut Vec<Step>) {
    let mut rows: Vec<(Vec<u8>, Arc<[u8]>)> = Vec::new();
    for number in 0..60_u32 {
        let length = if number % 20 == 7 { 6_000 } else { 150 };
        rows.push((number.to_be_bytes().to_vec(), random.bytes(length).into()));
    }
    steps.push(Step::BulkLoad { table: text("sorted"), rows: rows.clone(), finished: true });
    steps.push(sync(vec![put("sorted", "changed", random.bytes(30))]));
    random.shuffle(&mut rows[20..]);
    steps.push(Step::BulkLoad { table: text("given up"), rows: rows.clone(), finished: false });
    steps.push(Step::BulkLoad { table: text("unsorted"), rows, finished: true });
    steps.push(Step::Checkpoint);
}

fn fill_segments(random: &mut SeededRandom, steps: &mut Vec<Step>) {
    steps.push(Step::HoldLog);
    for round in 0..5_u32 {
        let change = put("large", "again", random.bytes(60_000));
        steps.push(if round % 2 == 0 { unsynced(vec![change]) } else { sync(vec![change]) });
    }
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![put("large", "again", random.bytes(65_400))]));
    steps.push(Step::HoldLog);
    steps.push(Step::Reopen);
    steps.push(sync(vec![
        put("large", "again", random.bytes(64_000)),
        Change::Drop { table: text("sorted") },
    ]));
    steps.push(Step::Checkpoint);
    steps.push(Step::RestorePoint);
    steps.push(Step::NewTimeline);
    steps.push(unsynced(vec![put("large", "last", random.bytes(100))]));
    steps.push(Step::HoldLog);
    steps.push(Step::Checkpoint);
    steps.push(sync(vec![put("large", "end", random.bytes(100))]));
}
