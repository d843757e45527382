//! Money moves between accounts while checkpoints run: whoever adds all of it up gets the same sum.

use std::sync::atomic::{AtomicUsize, Ordering};

use seawall_engine::{Background, Error, Isolation, Table, TransactionOptions};
use seawall_simulation::SeededRandom;

use super::{ALL, BACKGROUNDS, begin, check_and_close, durability, number, open, with};

const ACCOUNTS: u64 = 150;
const START: u64 = 1000;

fn sum(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>) -> u64 {
    // Values are padded, so that the accounts fill many leaves.
    rows.map(|row| u64::from_be_bytes(row.unwrap().1[..8].try_into().unwrap())).sum()
}

fn balance(amount: u64) -> Vec<u8> {
    let mut value = amount.to_be_bytes().to_vec();
    value.resize(200, 0);
    value
}

#[test]
fn sums_stay_the_same_in_every_scan() {
    for background in BACKGROUNDS {
        for isolation in ALL {
            transfer(background, isolation);
        }
    }
}

fn transfer(background: Background, isolation: Isolation) {
    const TRANSFERERS: usize = 3;
    let database = open(background);
    let table = database.create_table("accounts").unwrap();
    for account in 0..ACCOUNTS {
        database.put(&table, account.to_be_bytes(), balance(START)).unwrap();
    }
    let working = AtomicUsize::new(TRANSFERERS);
    let old = database.snapshot();
    let before: Vec<_> = old.range::<&[u8]>(&table, ..).map(Result::unwrap).collect();
    std::thread::scope(|scope| {
        let (database, table, working) = (&database, &table, &working);
        for thread in 0..TRANSFERERS {
            scope.spawn(move || {
                let mut random = SeededRandom::new(thread as u64);
                for _ in 0..100 {
                    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                    let amount = random.below(50);
                    let options =
                        TransactionOptions { durability: durability(&mut random), ..with(isolation) };
                    let move_amount = |transaction: &mut seawall_engine::Transaction| {
                        change(transaction, table, from, |balance| balance.saturating_sub(amount))
                            .and_then(|taken| change(transaction, table, to, |balance| balance + taken))
                    };
                    database.with(options).transact(move_amount).unwrap();
                }
                working.fetch_sub(1, Ordering::SeqCst);
            });
        }
        scope.spawn(move || {
            while working.load(Ordering::SeqCst) > 0 {
                database.checkpoint().unwrap();
            }
        });
        for reader in ALL {
            scope.spawn(move || {
                while working.load(Ordering::SeqCst) > 0 {
                    // Of Read Committed, too, each statement sees one moment.
                    let mut transaction = begin(database, reader);
                    let (one, other) = (
                        sum(transaction.range::<&[u8]>(table, ..)),
                        sum(transaction.range_reverse::<&[u8]>(table, ..)),
                    );
                    assert_eq!(
                        (one, other),
                        (ACCOUNTS * START, ACCOUNTS * START),
                        "{reader:?}, {background:?}"
                    );
                    transaction.commit().unwrap();
                }
            });
        }
    });
    let after: Vec<_> = old.range::<&[u8]>(&table, ..).map(Result::unwrap).collect();
    assert_eq!(before, after, "the old snapshot changed");
    drop(old);
    assert_eq!(sum(database.snapshot().range::<&[u8]>(&table, ..)), ACCOUNTS * START);
    check_and_close(database);
}

/// Changes a balance; how much was taken from it.
fn change(
    transaction: &mut seawall_engine::Transaction,
    table: &Table,
    account: u64,
    to: impl FnOnce(u64) -> u64,
) -> Result<u64, Error> {
    let value = transaction.get_for_update(table, account.to_be_bytes())?;
    let now = number(value.map(|value| value[..8].to_vec()));
    let then = to(now);
    transaction.put(table, account.to_be_bytes(), balance(then))?;
    Ok(now.saturating_sub(then))
}
