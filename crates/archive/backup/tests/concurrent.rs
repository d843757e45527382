//! Backups whose walk goes on while checkpoints write their chunks and others commit, each on a thread of its own. How they meet is
//! not known beforehand; what is restored must be the state after a commit all the same.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{World, state_of};
use seawall_backup::BackupOptions;
use seawall_engine::{Database, RestoreTarget};
use seawall_simulation::SeededRandom;
use seawall_types::Lsn;

/// A write, and where its commit ends.
type Write = (Lsn, Vec<u8>, Option<Vec<u8>>);

fn rows_at(writes: &[Write], lsn: Lsn) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for (_, key, value) in writes.iter().take_while(|(stamp, ..)| *stamp <= lsn) {
        match value {
            Some(value) => drop(rows.insert(key.clone(), value.clone())),
            None => drop(rows.remove(key)),
        }
    }
    rows
}

#[test]
fn a_walk_beside_the_chunks_of_checkpoints_and_beside_commits_gives_the_state_after_a_commit() {
    let world = World::new();
    // Small chunks: the walk meets many of them.
    let mut options = world.options();
    options.checkpoint.chunk_bytes = 16 << 10;
    let database = Database::open(world.environment(&world.disk), options).unwrap();
    let table = database.create_table("t").unwrap();
    let mut random = SeededRandom::new(11);
    let mut writes: Vec<Write> = Vec::new();
    let write = |random: &mut SeededRandom, writes: &mut Vec<Write>| {
        let key = u16::try_from(random.below(3_000)).unwrap().to_be_bytes().to_vec();
        let value = (!random.chance(1, 4)).then(|| random.bytes(200));
        let mut transaction = database.begin();
        match &value {
            Some(value) => transaction.put(&table, &key, value).unwrap(),
            None => transaction.delete(&table, &key).unwrap(),
        }
        writes.push((transaction.commit().unwrap(), key, value));
    };
    (0..3_000).for_each(|_| write(&mut random, &mut writes));
    database.checkpoint().unwrap();
    let is_over = AtomicBool::new(false);
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                write(&mut random, &mut writes);
            }
        });
        let checkpoints = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::SeqCst) {
                database.checkpoint().unwrap();
                count += 1;
            }
            count
        });
        for number in 0..6 {
            let options = BackupOptions {
                is_incremental: number % 3 > 0,
                run_bytes: 4_000,
                range_bytes: 1,
                ..BackupOptions::default()
            };
            backups.push(world.back_up_with(&database, &options, || {}).unwrap());
        }
        is_over.store(true, Ordering::SeqCst);
        writing.join().unwrap();
        assert!(checkpoints.join().unwrap() > 0);
    });
    let end = database.log().archive_now().unwrap();
    println!("{} writes, to {end}", writes.len());
    assert!(backups.iter().any(|backup| backup.manifest.parent.is_some()));
    for backup in &backups {
        let at = backup.manifest.end.end;
        let restored = world.restored_state(RestoreTarget::Lsn(at));
        assert!(restored["t"] == rows_at(&writes, at), "{} to {at}", backup.id);
    }
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
}
