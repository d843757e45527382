//! The power goes at some call of the disk: definitions, rows and index entries are those of the last commit that was told, or of the
//! one under way.

use std::sync::Arc;

use seawall_engine::{
    Background, CheckpointOptions, Database, Environment, FormatOptions, LockWait, MemoryOptions, Options,
    RecoveryOptions, TransactionOptions,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_values::{Datum, TypeReference, oid};

use super::index_on;
use crate::execute::{KeyRange, OnConflict, ScanRequest, Storage};
use crate::schema::define::requests::*;
use crate::schema::store::SchemaStore;
use crate::schema::{Definition, ReferentialAction};
use crate::storage::testing::*;

const ROWS: i32 = 60;

fn open(disk: &SimulatedDisk) -> Option<World> {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let options = Options {
        format: FormatOptions { segment_bytes: 64 << 10, ..FormatOptions::default() },
        memory: MemoryOptions { memtable_bytes: 1 << 20, cache_bytes: 1 << 20, ..MemoryOptions::default() },
        checkpoint: CheckpointOptions { chunk_bytes: 64 << 10, ..CheckpointOptions::default() },
        recovery: RecoveryOptions { threads: 1, ..RecoveryOptions::default() },
        transaction: TransactionOptions { lock_wait: LockWait::NoWait, ..TransactionOptions::default() },
        background: Background::Manual,
        ..Options::default()
    };
    let database = Database::open(environment, options).ok()?;
    let store = SchemaStore::open(&database, "postgres").ok()?;
    Some(World::of(database, store, None))
}

fn behavior() -> Behavior {
    Behavior::Cascade
}

/// A step: one transaction, or something that changes nothing.
fn step(world: &mut World, number: usize) -> Result<bool, String> {
    let oid_of = |world: &mut World, name: &str| {
        let name = RelationName { schema: None, name: name.to_owned() };
        let found = world.run(|definer| definer.relation_named(&name)).map_err(|error| error.to_string())?;
        Ok::<_, String>(found.map_or(0, |found| crate::catalog::oid_of(&found)))
    };
    let (a, b) = (oid_of(world, "a")?, oid_of(world, "b")?);
    let changed = match number {
        0 => {
            let columns = vec![column("p", oid::INT4), column("u", oid::INT4)];
            let request = new_table("a", columns, vec![key(&["p"], true), key(&["u"], false)]);
            world.run(|definer| definer.create_table(request)).map(drop)
        }
        1 => world.run(|definer| {
            let table = definer.tables.table(a)?;
            (0..ROWS).try_for_each(|row| {
                let row = [Datum::Int4(row), Datum::Int4(row * 7 % ROWS)];
                definer.tables.insert(&table, &row, OnConflict::Fail).map(drop)
            })
        }),
        2 => {
            let columns =
                vec![NewColumn { is_serial: true, ..column("x", oid::INT4) }, column("r", oid::INT4)];
            let foreign = foreign_key("r", a, ReferentialAction::Cascade);
            world.run(|definer| definer.create_table(new_table("b", columns, vec![foreign]))).map(drop)
        }
        3 => world.run(|definer| {
            let table = definer.tables.table(b)?;
            (0..ROWS).try_for_each(|row| {
                let row = [Datum::Int4(row), Datum::Int4(row % 10)];
                definer.tables.insert(&table, &row, OnConflict::Fail).map(drop)
            })
        }),
        4 => world.run(|definer| definer.create_index(&index_on(b, 1, true, None))).map(drop),
        5 => world
            .database
            .checkpoint()
            .map(drop)
            .map_err(|error| crate::storage::engine_error::sql_error(&error)),
        6 => {
            let default = Some(Expression { text: "9".to_owned(), sequences: Vec::new() });
            let column = NewColumn { default, ..column("c", oid::INT4) };
            let add = TableChange::AddColumn { column, constraints: Vec::new(), if_not_exists: false };
            world.run(|definer| definer.alter_table(a, &add)).map(drop)
        }
        7 => world.run(|definer| {
            let table = definer.tables.table(a)?;
            let identity = {
                let mut key = Vec::new();
                crate::storage::row::RowLayout::of(&table).write_key(&[Datum::Int4(3)], &mut key)?;
                key
            };
            let old = [Datum::Int4(3), Datum::Int4(21), Datum::Int4(9)];
            definer.tables.delete(&table, &identity, &old)
        }),
        8 => {
            let drop_key = TableChange::DropConstraint {
                name: "a_pkey".to_owned(),
                if_exists: false,
                behavior: behavior(),
            };
            world.run(|definer| definer.alter_table(a, &drop_key)).map(drop)
        }
        9 => {
            let to = ColumnType {
                domain: 0,
                of: TypeReference::of(oid::TEXT),
                using: Some("(u as text)".to_owned()),
                default: None,
            };
            let change = TableChange::SetType("u".to_owned(), to);
            world.run(|definer| definer.alter_table(a, &change)).map(drop)
        }
        10 => {
            let add = TableChange::AddConstraint(key(&["u"], true));
            world.run(|definer| definer.alter_table(a, &add)).map(drop)
        }
        11 => {
            let request = Truncate { tables: vec![b], restarts_identity: true, behavior: behavior() };
            world.run(|definer| definer.truncate(&request))
        }
        12 => {
            let names = vec![RelationName { schema: None, name: "b".to_owned() }];
            let request =
                DropRelations { kind: RelationKind::Table, names, if_exists: false, behavior: behavior() };
            world.run(|definer| definer.drop_relations(&request))
        }
        _ => return Ok(false),
    };
    changed.map(|()| true).map_err(|error| shown(&error))
}

/// All definitions, rows and index entries, and how many tables the engine has.
fn state(world: &mut World) -> Vec<String> {
    let mut found = vec![format!("{} tables of the engine", world.engine_tables())];
    let mut after = 0;
    while let Some(definition) =
        world.run(|definer| definer.tables.store.definition_after(definer.tables.transaction, after)).unwrap()
    {
        after = crate::catalog::oid_of(&definition);
        let Definition::Table(table) = definition else {
            found.push(format!("{after}"));
            continue;
        };
        let names: Vec<&str> = table.constraints.iter().map(|constraint| &constraint.name[..]).collect();
        found.push(format!("{} {names:?}", table.name));
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        let orders = std::iter::once(None).chain(table.indexes.iter().map(Some));
        let mut all: Option<Vec<String>> = None;
        for index in orders {
            let rows = world.run(|definer| {
                let range = KeyRange::default();
                let (columns, is_reverse, with_identity) = (&columns[..], false, false);
                let request =
                    ScanRequest { table: &table, index, range: &range, is_reverse, columns, with_identity };
                let mut scan = definer.tables.open_scan(&request)?;
                let (mut rows, mut row) = (Vec::new(), vec![Datum::Null; columns.len()]);
                while scan.next(&mut row)? {
                    rows.push(row.iter().map(text).collect::<Vec<_>>().join(","));
                }
                rows.sort_unstable();
                Ok(rows)
            });
            let rows = rows.unwrap();
            match &all {
                None => all = Some(rows),
                Some(all) => assert_eq!(*all, rows, "an index has other rows: {index:?}"),
            }
        }
        found.extend(all.unwrap_or_default());
    }
    found
}

#[test]
fn after_a_power_loss_all_is_as_after_a_commit() {
    let disk = SimulatedDisk::new(1);
    let mut world = open(&disk).unwrap();
    let first_call = disk.calls();
    let mut states = vec![state(&mut world)];
    for number in 0.. {
        if !step(&mut world, number).unwrap() {
            break;
        }
        states.push(state(&mut world));
    }
    let last_call = disk.calls();
    let seed = 20_261_123;
    let mut random = SeededRandom::new(seed);
    for round in 0..150 {
        let disk = SimulatedDisk::new(1);
        let mut world = open(&disk).unwrap();
        disk.crash_at(random.range(first_call..last_call));
        let mut done = 0;
        while let Ok(true) = step(&mut world, done) {
            done += 1;
        }
        drop(world);
        disk.crash();
        let after = disk.after_power_loss(PowerLoss::Random(seed + round));
        let mut world = open(&after).expect("it opens after a power loss");
        let found = state(&mut world);
        let expected = &states[done..states.len().min(done + 2)];
        assert!(
            expected.contains(&found),
            "seed {seed}, round {round}, after step {done}: {found:#?}\nis none of {expected:#?}"
        );
    }
}
