//! Makes a database in `./bank`, writes two rows in one transaction, and reads them.

use seawall::{Database, Options};

fn main() -> Result<(), seawall::Error> {
    let database = Database::open("bank", Options::default())?; // made if it is not there
    let accounts = database.open_or_create_table("accounts")?;

    let mut transaction = database.begin();
    transaction.put(&accounts, "alice", "100")?;
    transaction.put(&accounts, "bob", "50")?;
    transaction.commit()?; // both rows are on disk when this returns

    for row in database.snapshot().range(&accounts, "a".."n") {
        let (key, value) = row?;
        println!("{} has {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }
    database.close()
}
