//! Random steps that a database with a known state can take.

use std::sync::Arc;

use seawall::Durability;
use seawall_simulation::SeededRandom;

use super::{decide, long_key, prepare, put};
use crate::session::Step;
use crate::state::{Change, State};

/// Draws the next step of a random plan; it can be run on a database that holds `state`.
pub fn random_step(random: &mut SeededRandom, state: &State) -> Step {
    let durability = if random.chance(1, 3) { Durability::Async } else { Durability::Sync };
    match random.below(100) {
        0..60 => commit_of(random_changes(random, state), durability),
        60..76 => random_two_phase(random, state, durability),
        76..80 => Step::RolledBack { changes: random_changes(random, state) },
        80..90 => Step::Checkpoint,
        90..93 => Step::Flush,
        93..97 => match free_name(random, state) {
            Some(table) => Step::BulkLoad { table, rows: random_rows(random), finished: random.chance(3, 4) },
            None => Step::Checkpoint,
        },
        97 => Step::NewTimeline,
        98 => [Step::HoldLog, Step::RestorePoint][random.index(2)].clone(),
        _ => Step::Reopen,
    }
}

/// A prepare, every third of which may define tables, or the decision about one of those in doubt.
fn random_two_phase(random: &mut SeededRandom, state: &State, durability: Durability) -> Step {
    let in_doubt: Vec<&String> = state.prepared.keys().collect();
    if !in_doubt.is_empty() && random.chance(in_doubt.len() as u64, 4) {
        let gid: &str = random.pick::<&String>(&in_doubt);
        return decide(gid, random.chance(2, 3), durability);
    }
    let mut changes = random_changes(random, state);
    if random.chance(2, 3) {
        changes.retain(|change| match change {
            Change::Put { table, .. } | Change::Delete { table, .. } => state.tables.contains_key(table),
            _ => false,
        });
    }
    if changes.is_empty() {
        return Step::Checkpoint;
    }
    let gid = (0..).map(|number| format!("gid {number}")).find(|gid| !state.prepared.contains_key(gid));
    prepare(&gid.expect("some number is free"), changes, durability)
}

/// A row of random bytes.
pub fn put_random(random: &mut SeededRandom, table: &str, number: u32, bytes: usize) -> Change {
    put(table, number.to_be_bytes(), random.bytes(bytes))
}

/// A durable commit that a database with `state` can take.
pub fn random_commit(random: &mut SeededRandom, state: &State) -> Step {
    commit_of(random_changes(random, state), Durability::Sync)
}

fn commit_of(changes: Vec<Change>, durability: Durability) -> Step {
    if changes.is_empty() { Step::Checkpoint } else { Step::Commit { changes, durability } }
}

fn random_rows(random: &mut SeededRandom) -> Vec<(Vec<u8>, Arc<[u8]>)> {
    let count = random.below(60);
    let mut rows: Vec<_> = (0..count).map(|_| (random_key(random), random_value(random))).collect();
    if random.chance(1, 2) {
        rows.sort();
        rows.dedup_by(|left, right| left.0 == right.0);
    }
    rows
}

fn free_name(random: &mut SeededRandom, state: &State) -> Option<String> {
    let is_free = |name: &String| !state.tables.contains_key(name) && !state.holds_table(name);
    let free: Vec<_> = (0..6).map(|number| format!("t{number}")).filter(is_free).collect();
    (!free.is_empty()).then(|| random.pick(&free).clone())
}

fn random_key(random: &mut SeededRandom) -> Vec<u8> {
    let number = u32::try_from(random.below(90)).expect("it is below 90");
    match number % 9 {
        0..3 => long_key(number),
        3 if number < 10 => Vec::new(),
        _ => number.to_be_bytes().to_vec(),
    }
}

fn random_value(random: &mut SeededRandom) -> Arc<[u8]> {
    let lengths = [0, 5, 20, 100, 100, 300, 300, 700, 700, 1_500, 4_000, 9_000, 25_000];
    let length = if random.chance(1, 60) { 70_000 } else { *random.pick(&lengths) };
    random.bytes(length).into()
}

fn random_changes(random: &mut SeededRandom, state: &State) -> Vec<Change> {
    let mut state = state.clone();
    let mut changes = Vec::new();
    let count = random.range(1..9);
    for _ in 0..count {
        let Some(change) = random_change(random, &state) else { break };
        state.apply(&change);
        changes.push(change);
    }
    changes
}

/// `None`: transactions in doubt define all the tables that there are.
fn random_change(random: &mut SeededRandom, state: &State) -> Option<Change> {
    let names: Vec<&String> = state.tables.keys().filter(|name| !state.holds_definition(name)).collect();
    let free = free_name(random, state);
    if names.is_empty() {
        return free.map(|table| Change::Create { table });
    }
    let table = (*random.pick(&names)).clone();
    let held = state.holds_table(&table);
    let change = match (random.below(100), free) {
        (0..5, Some(free)) => Change::Create { table: free },
        (5..7, _) if !held => Change::Drop { table },
        (7..9, _) if !held => Change::Truncate { table },
        (9..11, Some(free)) if !held => Change::Rename { from: table, to: free },
        (11..35, _) => {
            let rows = &state.tables[&table];
            let key = match rows.len() {
                0 => random_key(random),
                count => rows.keys().nth(random.index(count)).cloned().unwrap_or_default(),
            };
            Change::Delete { table, key }
        }
        _ => Change::Put { table, key: random_key(random), value: random_value(random) },
    };
    Some(match change {
        // Another row, that no transaction in doubt has.
        Change::Put { table, mut key, .. } | Change::Delete { table, mut key }
            if state.holds_row(&table, &key) =>
        {
            while state.holds_row(&table, &key) {
                key.extend_from_slice(b"!");
            }
            put(&table, key, random.bytes(20))
        }
        change => change,
    })
}
