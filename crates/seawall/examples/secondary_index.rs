//! A secondary index: a second table whose keys begin with what is looked for, changed in the same transaction as the rows. In a
//! scratch directory.

use seawall::{Database, Error, Options, Snapshot, Transaction, TypedTable};

/// Customers by number, and their numbers by city.
struct Customers {
    /// Number of the customer: its city. A program with more to store implements `Value` for a type of its own.
    rows: TypedTable<u64, String>,
    /// City, then number. The key says everything, so there is no value.
    by_city: TypedTable<(String, u64), ()>,
}

impl Customers {
    fn open(database: &Database) -> Result<Customers, Error> {
        let rows = TypedTable::open_or_create(database, "customers")?;
        let by_city = TypedTable::open_or_create(database, "customers by city")?;
        Ok(Customers { rows, by_city })
    }

    /// Puts the customer, and moves its entry in the index: every write of the rows goes through here.
    fn put(&self, transaction: &mut Transaction, number: u64, city: &str) -> Result<(), Error> {
        // With the row lock: no other transaction moves the entry meanwhile.
        if let Some(before) = self.rows.get_for_update(transaction, number)? {
            self.by_city.delete(transaction, (before, number))?;
        }
        self.rows.put(transaction, number, city.to_owned())?;
        self.by_city.put(transaction, (city.to_owned(), number), ())
    }

    /// The customers of a city, in the order of their numbers.
    fn in_city(&self, snapshot: &Snapshot, city: &str) -> Result<Vec<u64>, Error> {
        let entries = self.by_city.prefix_at(snapshot, (city.to_owned(),));
        entries.map(|entry| entry.map(|((_, number), ())| number)).collect()
    }
}

fn main() -> Result<(), Error> {
    let scratch = tempfile::tempdir().expect("a scratch directory can be made");
    let database = Database::open(scratch.path().join("shop"), Options::default())?;
    let customers = Customers::open(&database)?;
    database.transact(|transaction| {
        customers.put(transaction, 1, "Oslo")?;
        customers.put(transaction, 2, "Bergen")?;
        customers.put(transaction, 3, "Oslo")
    })?;
    database.transact(|transaction| customers.put(transaction, 1, "Bergen"))?;

    // One snapshot sees rows and index as of the same commit.
    let snapshot = database.snapshot();
    assert_eq!(customers.in_city(&snapshot, "Oslo")?, [3]);
    assert_eq!(customers.in_city(&snapshot, "Bergen")?, [1, 2]);
    println!("in Bergen: {:?}", customers.in_city(&snapshot, "Bergen")?);
    drop(snapshot);
    database.close()
}
