//! Commits that wait for standbys, an acknowledging thread beside them, and one that cancels a wait.
//!
//! Checked at any point: nobody sees what the quorum was not told to have. Checked at the end: nobody waits for ever, each commit that
//! returned is seen, and one that was cancelled is seen when the quorum has it.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Error, Options, QuorumOptions, QuorumPositions, ReplicationLevel,
    StandbyPositions,
};
use seawall_simulation::SimulatedDisk;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{explored, thread};

use crate::world::{open, small_options, wait_a_while};

const WRITERS: u64 = 2;
const COMMITS: u64 = 2;

pub(crate) fn of_standbys(seed: u64) {
    let options = Options { quorum: Some(QuorumOptions::default()), ..small_options(Background::Threads) };
    let database = open(&SimulatedDisk::new(seed), options);
    let table = database.create_table("t").unwrap();
    let shown_before = database.snapshot().lsn().get();
    // What the quorum was told to have, and how many writers are at it.
    let (told, writing) = (Arc::new(AtomicU64::new(shown_before)), Arc::new(AtomicU64::new(WRITERS)));
    let sessions: Vec<_> = (0..WRITERS).map(|_| database.new_session()).collect();
    let cancel = sessions[0].cancel_token();
    let writers: Vec<_> = (0..)
        .zip(sessions)
        .map(|(writer, session)| {
            let (table, writing) = (table.clone(), Arc::clone(&writing));
            thread::spawn(move || {
                for number in 0..COMMITS {
                    let replicated = session.with(Durability::Replicated(ReplicationLevel::Flushed));
                    match replicated.put(&table, [0, u8::try_from(writer * COMMITS + number).unwrap()], "v") {
                        Ok(_) => {}
                        // Its commit is in the log, and is seen when the quorum has it.
                        Err(Error::NotReplicated { .. }) if writer == 0 => session.cancel_token().clear(),
                        Err(error) => panic!("{error}"),
                    }
                }
                writing.fetch_sub(1, Ordering::SeqCst);
                session
            })
        })
        .collect();
    let standby = {
        let (database, told, writing) = (database.clone(), Arc::clone(&told), Arc::clone(&writing));
        thread::spawn(move || {
            while writing.load(Ordering::SeqCst) > 0 {
                let flushed = database.log().flushed();
                told.fetch_max(flushed.get(), Ordering::SeqCst);
                let quorum = Some(QuorumPositions { written: flushed, flushed, applied: flushed });
                let positions = StandbyPositions { quorum, candidate: Some(flushed) };
                database.quorum().standbys_are_at(positions);
                explored::point();
                thread::yield_now();
            }
        })
    };
    let reader = {
        let (database, told) = (database.clone(), Arc::clone(&told));
        thread::spawn(move || {
            for _ in 0..4 {
                let seen = database.new_session().snapshot().lsn().get();
                let told = told.load(Ordering::SeqCst);
                assert!(seen <= told, "seen up to {seen}, and the quorum has {told}");
                wait_a_while(3);
            }
        })
    };
    wait_a_while(seed % 97);
    match seed % 3 {
        0 => database.quorum().standbys_are_at(StandbyPositions::default()),
        1 => cancel.request(),
        _ => {}
    }
    reader.join().unwrap();
    let sessions: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    standby.join().unwrap();
    let flushed = database.log().flushed();
    let quorum = Some(QuorumPositions { written: flushed, flushed, applied: flushed });
    database.quorum().standbys_are_at(StandbyPositions { quorum, candidate: Some(flushed) });
    for session in sessions {
        session.cancel_token().clear();
        for number in 0..WRITERS * COMMITS {
            let found = session.get(&table, [0, u8::try_from(number).unwrap()]).unwrap();
            assert!(found.is_some(), "commit {number}");
        }
    }
    database.close().unwrap();
}

/// Standbys come and go, and the server goes on alone whenever they are gone. Checked at the end: commits wait if, and only if, it is not
/// alone; and nobody has waited for ever.
pub(crate) fn that_come_and_go(seed: u64) {
    let quorum = Some(QuorumOptions { alone_after: Some(Duration::ZERO) });
    let options = Options { quorum, ..small_options(Background::Threads) };
    let database = open(&SimulatedDisk::new(seed), options);
    let table = database.create_table("t").unwrap();
    let acknowledge = |database: &Database| {
        let flushed = database.log().flushed();
        let quorum = Some(QuorumPositions { written: flushed, flushed, applied: flushed });
        database.quorum().standbys_are_at(StandbyPositions { quorum, candidate: Some(flushed) });
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (session, table) = (database.new_session(), table.clone());
            thread::spawn(move || {
                for number in 0..COMMITS {
                    let replicated = session.with(Durability::Replicated(ReplicationLevel::Flushed));
                    let key = [0, u8::try_from(writer * COMMITS + number).unwrap()];
                    replicated.put(&table, key, "v").unwrap();
                }
            })
        })
        .collect();
    let standbys: Vec<_> = (0..2)
        .map(|_| {
            let database = database.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    acknowledge(&database);
                    wait_a_while(seed % 5);
                    database.quorum().standbys_are_at(StandbyPositions::default());
                }
            })
        })
        .collect();
    writers.into_iter().chain(standbys).for_each(|thread| thread.join().unwrap());
    acknowledge(&database);
    assert_eq!(database.quorum().status().alone, None);
    let session = database.new_session();
    session.cancel_token().request();
    let replicated = session.with(Durability::Replicated(ReplicationLevel::Flushed));
    let waited = replicated.put(&table, [1], "v");
    assert!(matches!(waited, Err(Error::NotReplicated { .. })), "{waited:?}: it is not alone");
    acknowledge(&database);
    database.close().unwrap();
}
