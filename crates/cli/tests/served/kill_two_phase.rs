//! `kill -9` of the server under transactions in two phases: what was prepared stays in doubt and can be decided, what was decided stays so.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_testing::wait_until;

use crate::client::Client;
use crate::process::{Failure, Place, Serving, answered, rows, value};

const WRITERS: u64 = 6;
const ACCOUNTS: u64 = 40;
const START: u64 = 1000;
const KILLS: u64 = 4;

/// How far a transaction is known to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It was never asked to be prepared.
    Begun,
    /// `PREPARE TRANSACTION` was sent, and not answered.
    Preparing,
    /// It was answered, and nothing decided.
    Prepared,
    /// A decision was sent, and not answered.
    Deciding(Decision),
    /// It was answered.
    Decided(Decision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Commit,
    Rollback,
}

#[derive(Debug)]
struct Attempt {
    number: u64,
    step: Step,
}

/// Moves money between two accounts, and notes it, until the server is gone. Returns what became of each transaction.
fn write(port: u16, writer: u64, seed: u64, acknowledged: &AtomicU64) -> Vec<Attempt> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut attempts = Vec::new();
    let mut client = Client::logged_in(port, "postgres");
    // Some are left in doubt, and hold their rows: nobody waits for those for long.
    rows(&mut client, "set statement_timeout = 300");
    for count in 0.. {
        let number = (seed * WRITERS + writer) * 100_000 + count;
        attempts.push(Attempt { number, step: Step::Begun });
        let attempt = attempts.last_mut().unwrap();
        match advance(&mut client, attempt, &mut random) {
            Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
            Err(Failure::Lost) => return attempts,
            Err(Failure::Told { code, line }) => {
                let is_expected = matches!(code.as_str(), "57014" | "40P01");
                assert!(is_expected && attempt.step == Step::Begun, "{attempt:?}: {line}");
                match answered(&mut client, "rollback") {
                    Ok(_) => 0,
                    Err(_) => return attempts,
                }
            }
        };
    }
    unreachable!("counts to the end of time")
}

fn advance(client: &mut Client, attempt: &mut Attempt, random: &mut fastrand::Rng) -> Result<(), Failure> {
    let (from, to) = (random.u64(0..ACCOUNTS), random.u64(0..ACCOUNTS));
    let (number, amount) = (attempt.number, random.u64(1..10));
    answered(
        client,
        &format!(
            "begin; insert into moves values ({number}); \
             update accounts set balance = balance - {amount} where id = {from}; \
             update accounts set balance = balance + {amount} where id = {to}"
        ),
    )?;
    attempt.step = Step::Preparing;
    answered(client, &format!("prepare transaction 'move-{number}'"))?;
    attempt.step = Step::Prepared;
    let decision = match random.u8(0..20) {
        // Its coordinator is gone.
        0 => return Ok(()),
        1..=6 => Decision::Rollback,
        _ => Decision::Commit,
    };
    attempt.step = Step::Deciding(decision);
    let word = if decision == Decision::Commit { "commit" } else { "rollback" };
    answered(client, &format!("{word} prepared 'move-{number}'"))?;
    attempt.step = Step::Decided(decision);
    Ok(())
}

fn numbers(client: &mut Client, sql: &str) -> BTreeSet<u64> {
    rows(client, sql).into_iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect()
}

/// What is in doubt, and what is committed.
struct Found {
    in_doubt: BTreeSet<u64>,
    committed: BTreeSet<u64>,
}

fn found(client: &mut Client) -> Found {
    Found {
        in_doubt: numbers(client, "select substr(gid, 6) from pg_prepared_xacts"),
        committed: numbers(client, "select number from moves"),
    }
}

/// The rows of an attempt are there, or it is in doubt, or neither, as it was told.
fn check(attempt: &Attempt, found: &Found) {
    let is = (found.in_doubt.contains(&attempt.number), found.committed.contains(&attempt.number));
    let (in_doubt, committed, nothing) = ((true, false), (false, true), (false, false));
    let may_be = match attempt.step {
        Step::Begun => vec![nothing],
        Step::Preparing => vec![nothing, in_doubt],
        Step::Prepared => vec![in_doubt],
        Step::Deciding(Decision::Commit) => vec![in_doubt, committed],
        Step::Deciding(Decision::Rollback) => vec![in_doubt, nothing],
        Step::Decided(Decision::Commit) => vec![committed],
        Step::Decided(Decision::Rollback) => vec![nothing],
    };
    assert!(may_be.contains(&is), "{attempt:?}: in doubt, committed: {is:?}");
}

/// A row of a transaction in doubt is nobody else's.
fn is_locked(client: &mut Client, number: u64) {
    let refused = answered(client, &format!("set lock_timeout = 50; insert into moves values ({number})"));
    let code = |failure: &Failure| matches!(failure, Failure::Told { code, .. } if code == "55P03");
    assert!(refused.as_ref().is_err_and(code), "{number}: {refused:?}");
}

/// Decides all that is in doubt; returns what is committed by that.
fn decide(client: &mut Client, in_doubt: &BTreeSet<u64>, random: &mut fastrand::Rng) -> BTreeSet<u64> {
    let (committed, taken_back) = in_doubt.iter().partition::<BTreeSet<u64>, _>(|_| random.bool());
    for (word, numbers) in [("commit", &committed), ("rollback", &taken_back)] {
        for number in numbers {
            rows(client, &format!("{word} prepared 'move-{number}'"));
        }
    }
    committed
}

fn killed_under_load(serving: Serving, round: u64) -> Vec<Attempt> {
    let acknowledged = AtomicU64::new(0);
    let port = serving.port;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let acknowledged = &acknowledged;
                scope.spawn(move || write(port, writer, round, acknowledged))
            })
            .collect();
        wait_until("some are decided", || acknowledged.load(Ordering::SeqCst) >= 60 * round);
        serving.kill();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    })
}

#[test]
fn what_is_in_doubt_is_there_and_what_was_decided_stays_so() {
    let place = Place::new();
    let more = ["--memtable-mib", "8"];
    let mut serving = place.serve(&more);
    rows(
        &mut serving.client(),
        &format!(
            "create table moves (number bigint primary key); create table accounts (id bigint primary key, balance bigint); \
             insert into accounts select id, {START} from generate_series(0, {}) id",
            ACCOUNTS - 1
        ),
    );
    let mut before = BTreeSet::new();
    for round in 1..=KILLS {
        let attempts = killed_under_load(serving, round);
        serving = place.serve(&more);
        let mut client = serving.client();
        let now = found(&mut client);
        attempts.iter().for_each(|attempt| check(attempt, &now));
        let known: BTreeSet<u64> = attempts.iter().map(|attempt| attempt.number).collect();
        assert!(now.in_doubt.is_subset(&known), "round {round}: somebody else's is in doubt");
        assert!(before.is_subset(&now.committed), "round {round}: what was committed before is lost");
        if let Some(number) = now.in_doubt.first() {
            is_locked(&mut client, *number);
        }
        // The same is in doubt after another kill.
        if round % 2 == 0 {
            serving.kill();
            serving = place.serve(&more);
            client = serving.client();
            assert_eq!(found(&mut client).in_doubt, now.in_doubt);
        }
        let decided = decide(&mut client, &now.in_doubt, &mut fastrand::Rng::with_seed(round));
        before = now.committed.union(&decided).copied().collect();
        let after = found(&mut client);
        assert_eq!((after.in_doubt.len(), &after.committed), (0, &before), "round {round}");
        let sum = value(&mut client, "select sum(balance) from accounts");
        assert_eq!(sum, (ACCOUNTS * START).to_string(), "round {round}");
        // No lock of them is left.
        rows(&mut client, "set lock_timeout = 50; update accounts set balance = balance");
    }
    serving.end();
    place.check();
}
