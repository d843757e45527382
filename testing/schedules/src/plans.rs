//! Writers that go by what they know of a table, while it gets an index.
//!
//! Checked: no row is missing in the index, whoever was overtaken by its making.

use seawall_engine::{Background, Database, Durability, Error, Isolation, Table, TableChange, Transaction};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;

use crate::world::{open, small_options};

const ROWS: u8 = 3;

#[derive(Clone)]
struct Tables {
    rows: Table,
    index: Table,
    /// Has a row when there is an index.
    plans: Table,
}

/// Two insert rows, each also into the index if they know of it. A third one makes the index, and then enters the rows that are
/// there.
pub(crate) fn beside_an_alteration(seed: u64) {
    let mut options = small_options(Background::Manual);
    options.transaction.isolation = Isolation::ReadCommitted;
    options.transaction.durability = Durability::Async;
    let database = open(&SimulatedDisk::new(seed), options);
    let [rows, index, plans] = ["rows", "index", "plans"].map(|name| database.create_table(name).unwrap());
    let tables = Tables { rows, index, plans };
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (database, tables) = (database.clone(), tables.clone());
            thread::spawn(move || {
                for row in 0..ROWS {
                    until_committed(&database, &tables, |transaction, tables, has_index| {
                        insert(transaction, tables, has_index, [writer, row])
                    });
                }
            })
        })
        .collect();
    make_index(&database, &tables);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let snapshot = database.snapshot();
    let keys = |table: &Table| snapshot.rows(table).map(|row| row.unwrap().0).collect::<Vec<_>>();
    assert_eq!(keys(&tables.rows).len(), 2 * usize::from(ROWS));
    assert_eq!(keys(&tables.rows), keys(&tables.index), "a row is missing in the index");
    drop(snapshot);
    database.close().unwrap();
}

fn insert(
    transaction: &mut Transaction,
    tables: &Tables,
    has_index: bool,
    key: [u8; 2],
) -> Result<(), Error> {
    transaction.put(&tables.rows, key, b"row")?;
    if has_index { transaction.put(&tables.index, key, b"") } else { Ok(()) }
}

fn make_index(database: &Database, tables: &Tables) {
    until_committed(database, tables, |transaction, tables, _| {
        transaction.put(&tables.plans, b"index", b"")?;
        transaction.alter_table(&tables.rows)
    });
    let before = database.snapshot();
    for row in before.rows(&tables.rows) {
        let (key, _) = row.unwrap();
        until_committed(database, tables, |transaction, tables, has_index| {
            assert!(has_index);
            transaction.get_for_update(&tables.rows, &key)?;
            transaction.put(&tables.index, &key, b"")
        });
    }
}

/// Plans a statement and runs it, again and again, until no alteration comes between.
fn until_committed(
    database: &Database,
    tables: &Tables,
    run: impl Fn(&mut Transaction, &Tables, bool) -> Result<(), Error>,
) {
    loop {
        let mut transaction = database.begin();
        let planned = transaction.begin_statement().unwrap();
        let has_index = transaction.get(&tables.plans, b"index").unwrap().is_some();
        let tables = Tables { rows: tables.rows.as_of(planned), ..tables.clone() };
        match run(&mut transaction, &tables, has_index).and_then(|()| transaction.commit()) {
            Ok(_) => return,
            Err(Error::TableChanged { change: TableChange::Altered, .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
