//! Backups and increments of databases with runs, against a model.

use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_types::TableId;

use super::{Backup, BackupItem, BackupParent};
use crate::database::Database;
use crate::row_key;
use crate::runs::settle::tests::{Rows, all_users, change, merge_window, merged_rows, settle};
use crate::runs::testing::{checkpoint_into_run, open};

/// A backup, as a restore would see it: of what is kept, the rows of the parent. How many were kept.
fn taken(
    database: &Database,
    name: &str,
    parent: Option<&(BackupParent, Rows)>,
) -> ((BackupParent, Rows), usize) {
    let mut backup = Backup::begin(database, name).unwrap();
    backup.build_on(parent.iter().map(|(parent, _)| parent.clone()).collect()).unwrap();
    let (mut rows, mut kept, mut next) = (Rows::new(), 0, Some(backup.first_key()));
    while let Some(from) = next {
        let mut give = |item: BackupItem<'_>| match item {
            BackupItem::Row { key, value } => {
                rows.insert(key.to_vec(), value.to_vec());
            }
            BackupItem::Kept { first, last, .. } => {
                let (_, of_parent) = parent.unwrap();
                for (key, value) in of_parent.range(first.to_vec()..=last.to_vec()) {
                    rows.insert(key.clone(), value.clone());
                    kept += 1;
                }
            }
        };
        next = backup.read_range(&from, 5_000, &mut give).unwrap().next;
    }
    backup.finish().unwrap();
    ((BackupParent { base: backup.base().clone(), reached: None }, rows), kept)
}

/// The rows of a table under their row keys.
fn of_table(database: &Database, name: &str, rows: &Rows) -> Rows {
    let table = TableId::new(database.table(name).unwrap().id());
    rows.iter().map(|(key, value)| (row_key::encode(table, key), value.clone())).collect()
}

#[test]
fn increments_have_the_rows_of_runs_and_none_that_went() {
    let mut kept_rows = 0;
    for seed in seeds(15) {
        let disk = SimulatedDisk::new(seed);
        let database = open(&disk).unwrap();
        let mut random = SeededRandom::new(seed);
        let mut rows = Rows::new();
        database.create_table("t").unwrap();
        change(&database, "t", &mut rows, &mut random, (1_500, 0..2_000));
        database.checkpoint().unwrap();
        let mut parent = None;
        for round in 0..25 {
            let what = format!("seed {seed}, round {round}");
            let first = random.below(2_000);
            match random.below(5) {
                0 => {
                    // Into the main part; of neighbours, all rows of some leaves go.
                    settle(database.engine());
                    let table = database.table("t").unwrap();
                    let gone: Vec<Vec<u8>> =
                        rows.keys().skip(random.index(rows.len().max(1))).take(120).cloned().collect();
                    for key in gone {
                        database.delete(&table, &key).unwrap();
                        rows.remove(&key);
                    }
                    database.checkpoint().unwrap();
                }
                1 | 2 => {
                    change(&database, "t", &mut rows, &mut random, (20, first..first + 150));
                    checkpoint_into_run(database.engine(), 10);
                }
                _ => {
                    let table = TableId::new(database.table("t").unwrap().id());
                    let key = |number: u64| row_key::encode(table, format!("key {number:05}").as_bytes());
                    let last = first + 1 + random.below(700);
                    merge_window(database.engine(), key(first)..key(last));
                }
            }
            if random.chance(1, 2) {
                let (backup, kept) = taken(&database, &format!("backup_{round}"), parent.as_ref());
                kept_rows += kept;
                assert!(backup.1 == of_table(&database, "t", &rows), "{what}: other rows");
                assert!(
                    merged_rows(&database, &format!("all_{round}")) == backup.1,
                    "{what}: a full one is different"
                );
                parent = Some(backup);
            }
        }
        disk.crash();
    }
    assert!(kept_rows > 1_000, "{kept_rows} rows were kept");
}

/// The rows of a dropped table were in a run alone: no page of the main part says that they went.
#[test]
fn an_increment_has_no_rows_of_a_table_that_went_out_of_a_run() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).unwrap();
    for name in ["a", "between", "z"] {
        let table = database.create_table(name).unwrap();
        if name != "between" {
            // So many that one leaf has the last rows of one table and the first ones of the other, and no system rows.
            for number in 0..300_u16 {
                database.put(&table, number.to_be_bytes(), [1; 100]).unwrap();
            }
        }
    }
    database.checkpoint().unwrap();
    let between = database.table("between").unwrap();
    database.put(&between, "row", "of a run").unwrap();
    checkpoint_into_run(database.engine(), 10);
    let (parent, _) = taken(&database, "parent", None);
    assert_eq!(parent.1.len(), 601);
    database.tables().drop("between").unwrap();
    database.checkpoint().unwrap();
    database.checkpoint().unwrap();
    let ((_, rows), kept) = taken(&database, "increment", Some(&parent));
    assert!(rows == merged_rows(&database, "all"), "{} rows", rows.len());
    assert!(rows.len() == 600 && kept > 400, "{kept} of {} rows were kept", rows.len());
    assert!(rows.keys().all(|key| all_users().contains(key)));
    disk.crash();
}
