//! Typed keys and values: money moved between accounts, orders by customer and day. In a scratch directory.

use seawall::{Database, Error, Options, TypedTable};

fn main() -> Result<(), Error> {
    let scratch = tempfile::tempdir().expect("a scratch directory can be made");
    let database = Database::open(scratch.path().join("shop"), Options::default())?;

    // Keys of a type sort as the type does: integers as integers, tuples by their first part, then the second.
    let balances: TypedTable<u64, i64> = TypedTable::open_or_create(&database, "balances")?;
    let orders: TypedTable<(u64, String), i64> = TypedTable::open_or_create(&database, "orders")?;

    balances.put_now(&database, 7, 5_000)?;
    balances.put_now(&database, 8, 0)?;

    // Runs again if another transaction is in the way, so it must have no other effects.
    database.transact(|transaction| {
        let cents = 1_250;
        balances.update(transaction, 7, |balance| Some(balance.unwrap_or(0) - cents))?;
        balances.update(transaction, 8, |balance| Some(balance.unwrap_or(0) + cents))?;
        orders.put(transaction, (7, "2025-02-01".to_owned()), cents)
    })?;

    // Part of a transaction can be taken back.
    let mut transaction = database.begin();
    orders.put(&mut transaction, (8, "2025-02-02".to_owned()), 10)?;
    let before = transaction.savepoint();
    orders.put(&mut transaction, (8, "2025-02-03".to_owned()), 20)?;
    transaction.rollback_to(&before)?;
    transaction.commit()?;

    // A snapshot never changes, whatever is committed meanwhile.
    let snapshot = database.snapshot();
    balances.put_now(&database, 7, 0)?;
    assert_eq!(balances.get_at(&snapshot, 7)?, Some(3_750));
    assert_eq!(balances.get_now(&database, 7)?, Some(0));
    for row in orders.prefix_at(&snapshot, (7,)) {
        let ((customer, day), cents) = row?;
        println!("customer {customer} on {day}: {cents} cents");
    }
    assert_eq!(orders.rows_at(&snapshot).count(), 2);

    // Many commits on their way at once, each as durable as any other once `wait` returns.
    let mut handles = Vec::new();
    for account in 100..200 {
        let mut transaction = database.begin();
        balances.put(&mut transaction, account, 0)?;
        handles.push(transaction.commit_async()?);
    }
    for handle in handles {
        handle.wait()?;
    }
    drop(snapshot);
    database.close()
}
