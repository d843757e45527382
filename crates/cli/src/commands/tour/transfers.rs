//! Transfers between accounts on many threads: the sum of all accounts never changes, in no snapshot and after no
//! restart, and the journal that each transfer writes in the same transaction explains every balance.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use seawall::{Database, Error, Snapshot, TypedTable};

use super::report::Report;
use crate::failure::Failure;
use crate::files::Stopwatch;
use crate::output::{duration, grouped, rate};

const ACCOUNTS: u64 = 1_000;
const OPENING_CENTS: i64 = 100_000;
const THREADS: u64 = 8;

type Accounts = TypedTable<u64, i64>;
/// By thread and number: from, to, cents.
type Journal = TypedTable<(u64, u64), (u64, u64, i64)>;

#[derive(Default)]
struct Counters {
    transfers: AtomicU64,
    attempts: AtomicU64,
    audits: AtomicU64,
    slowest_nanoseconds: AtomicU64,
    stop: AtomicBool,
}

/// Runs transfers for `length`; returns how many there were.
pub(super) fn run(
    database: &Database,
    length: Duration,
    seed: u64,
    report: &mut Report<'_>,
) -> Result<u64, Failure> {
    let accounts = Accounts::create(database, "accounts")?;
    let journal = Journal::create(database, "journal")?;
    database.transact(|transaction| {
        (0..ACCOUNTS).try_for_each(|account| accounts.put(transaction, account, OPENING_CENTS))
    })?;
    report.say(&format!(
        "{} accounts, {THREADS} threads, each transfer a durable transaction that moves money and writes a journal row",
        grouped(ACCOUNTS)
    ))?;

    let counters = Counters::default();
    let stopwatch = Stopwatch::start();
    let checkpoints = std::thread::scope(|scope| {
        let (counters, accounts, journal) = (&counters, &accounts, &journal);
        let mut workers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || transfer(database, accounts, journal, thread, seed, counters)))
            .collect();
        workers.push(scope.spawn(move || audit(database, accounts, counters)));
        let checkpoints = checkpoint_until(database, length, &stopwatch, counters);
        counters.stop.store(true, Ordering::SeqCst);
        for worker in workers {
            worker.join().map_err(|_| Failure::Broken("a transfer thread panicked".to_owned()))??;
        }
        checkpoints
    })?;
    let elapsed = stopwatch.elapsed();

    let transfers = counters.transfers.load(Ordering::SeqCst);
    let retries = counters.attempts.load(Ordering::SeqCst) - transfers;
    let throughput = rate(transfers, elapsed);
    report.fact(
        "transfers_per_second",
        throughput,
        &format!(
            "{} transfers in {} ({} a second); {} gave way to another and were tried again",
            grouped(transfers),
            duration(elapsed),
            grouped(throughput),
            grouped(retries)
        ),
    )?;
    let slowest = Duration::from_nanos(counters.slowest_nanoseconds.load(Ordering::SeqCst));
    report.fact(
        "slowest_transfer_seconds",
        slowest.as_secs_f64(),
        &format!("{checkpoints} checkpoints meanwhile; the slowest transfer took {}", duration(slowest)),
    )?;
    let audits = counters.audits.load(Ordering::SeqCst);
    report.fact(
        "audits",
        audits,
        &format!(
            "audited meanwhile: in {} snapshots the accounts added up to {} cents each time",
            grouped(audits),
            grouped(ACCOUNTS * OPENING_CENTS.unsigned_abs())
        ),
    )?;
    verify(database, transfers)?;
    report.fact(
        "transfers",
        transfers,
        "verified: each balance is what the journal of the transfers says",
    )?;
    Ok(transfers)
}

/// Every balance must be what the journal says, and the journal as long as the transfers were many.
pub(super) fn verify(database: &Database, transfers: u64) -> Result<(), Failure> {
    let accounts = Accounts::open(database, "accounts")?;
    let journal = Journal::open(database, "journal")?;
    let snapshot = database.snapshot();
    let mut expected = std::collections::BTreeMap::new();
    let mut journaled = 0;
    for row in journal.rows_at(&snapshot) {
        let (_, (from, to, cents)) = row?;
        *expected.entry(from).or_insert(OPENING_CENTS) -= cents;
        *expected.entry(to).or_insert(OPENING_CENTS) += cents;
        journaled += 1;
    }
    if journaled != transfers {
        return Err(Failure::Broken(format!(
            "{transfers} transfers were committed, the journal has {journaled}"
        )));
    }
    for row in accounts.rows_at(&snapshot) {
        let (account, cents) = row?;
        let due = expected.get(&account).copied().unwrap_or(OPENING_CENTS);
        if cents != due {
            return Err(Failure::Broken(format!(
                "account {account} holds {cents} cents, its journal says {due}"
            )));
        }
    }
    audit_once(&accounts, &snapshot)
}

fn transfer(
    database: &Database,
    accounts: &Accounts,
    journal: &Journal,
    thread: u64,
    seed: u64,
    counters: &Counters,
) -> Result<(), Failure> {
    let mut random = Rng::with_seed(seed.wrapping_mul(THREADS) + thread);
    let mut number = 0;
    while !counters.stop.load(Ordering::SeqCst) {
        let from = random.u64(..ACCOUNTS);
        let to = (from + 1 + random.u64(..ACCOUNTS - 1)) % ACCOUNTS;
        let cents = i64::try_from(random.u64(..500)).unwrap_or(0) + 1;
        let stopwatch = Stopwatch::start();
        database.transact(|transaction| {
            counters.attempts.fetch_add(1, Ordering::SeqCst);
            let has = accounts.get_for_update(transaction, from)?.unwrap_or(0);
            let other = accounts.get_for_update(transaction, to)?.unwrap_or(0);
            accounts.put(transaction, from, has - cents)?;
            accounts.put(transaction, to, other + cents)?;
            journal.put(transaction, (thread, number), (from, to, cents))
        })?;
        number += 1;
        counters.transfers.fetch_add(1, Ordering::SeqCst);
        let nanoseconds = u64::try_from(stopwatch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counters.slowest_nanoseconds.fetch_max(nanoseconds, Ordering::SeqCst);
    }
    Ok(())
}

/// Adds up all accounts in one snapshot after another.
fn audit(database: &Database, accounts: &Accounts, counters: &Counters) -> Result<(), Failure> {
    while !counters.stop.load(Ordering::SeqCst) {
        audit_once(accounts, &database.snapshot())?;
        counters.audits.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn audit_once(accounts: &Accounts, snapshot: &Snapshot) -> Result<(), Failure> {
    let mut total = 0;
    let mut count = 0;
    for row in accounts.rows_at(snapshot) {
        total += row?.1;
        count += 1;
    }
    let due = OPENING_CENTS * i64::try_from(ACCOUNTS).unwrap_or(i64::MAX);
    if total == due && count == ACCOUNTS {
        return Ok(());
    }
    let lsn = snapshot.lsn();
    Err(Failure::Broken(format!("at {lsn} the {count} accounts add up to {total} cents; there were {due}")))
}

/// One checkpoint after another until the time is up or a worker has failed.
fn checkpoint_until(
    database: &Database,
    length: Duration,
    stopwatch: &Stopwatch,
    counters: &Counters,
) -> Result<u64, Failure> {
    let mut checkpoints = 0;
    while stopwatch.elapsed() < length && !counters.stop.load(Ordering::SeqCst) {
        std::thread::sleep((length / 10).min(Duration::from_millis(300)));
        let outcome: Result<_, Error> = database.checkpoint();
        outcome?;
        checkpoints += 1;
    }
    Ok(checkpoints)
}
