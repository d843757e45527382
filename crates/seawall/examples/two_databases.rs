//! Money moved from one database to another by two-phase commit, with a coordinator that is killed in between: in a scratch directory.
//!
//! The coordinator keeps its decisions in a table of its own. A branch that is in doubt is committed if its decision is there, and rolled
//! back if it is not: "presumed abort".

use std::path::Path;

use seawall::{Database, Error, Options, Table, TypedTable};

/// A bank with a balance for each account.
struct Bank {
    database: Database,
    balances: TypedTable<String, i64>,
}

impl Bank {
    fn open(directory: &Path) -> Result<Bank, Error> {
        let database = Database::open(directory, Options::default())?;
        let balances = TypedTable::open_or_create(&database, "balances")?;
        Ok(Bank { database, balances })
    }

    /// First phase: when it returns, the change is durable and can be committed or rolled back, also after a crash.
    fn prepare(&self, gid: &str, account: &str, cents: i64) -> Result<(), Error> {
        let mut transaction = self.database.begin();
        let before = self.balances.get_for_update(&mut transaction, account)?.unwrap_or(0);
        self.balances.put(&mut transaction, account, before + cents)?;
        transaction.prepare(gid).map(drop)
    }

    /// Second phase, and what is done after a crash: each branch in doubt gets the coordinator's decision.
    fn finish(&self, coordinator: &Database, decisions: &Table) -> Result<(), Error> {
        for branch in self.database.two_phase().in_doubt()? {
            match coordinator.get(decisions, &branch.gid)? {
                Some(_) => self.database.two_phase().commit(&branch.gid)?,
                None => self.database.two_phase().rollback(&branch.gid)?,
            };
        }
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let scratch = tempfile::tempdir().expect("a scratch directory can be made");
    let place = |name: &str| scratch.path().join(name);
    let (north, south) = (Bank::open(&place("north"))?, Bank::open(&place("south"))?);
    let coordinator = Database::open(place("coordinator"), Options::default())?;
    let decisions = coordinator.open_or_create_table("decisions")?;
    north.balances.put_now(&north.database, "alice", 100)?;

    // Both banks promise. If one of them cannot, nothing is decided, and the other one rolls back.
    north.prepare("transfer-1", "alice", -30)?;
    south.prepare("transfer-1", "bob", 30)?;
    // This commit is the decision: before it the transfer has not happened, after it the transfer has.
    coordinator.put(&decisions, "transfer-1", "commit")?;

    // A second transfer gets as far as one promise, and is never decided.
    north.prepare("transfer-2", "carol", -50)?;

    // The process ends here, with both transfers in doubt, and starts again.
    for database in [north.database, south.database, coordinator] {
        database.close()?;
    }
    let (north, south) = (Bank::open(&place("north"))?, Bank::open(&place("south"))?);
    let coordinator = Database::open(place("coordinator"), Options::default())?;
    let decisions = coordinator.table("decisions")?;
    assert_eq!(
        (north.database.two_phase().in_doubt()?.len(), south.database.two_phase().in_doubt()?.len()),
        (2, 1)
    );
    for bank in [&north, &south] {
        bank.finish(&coordinator, &decisions)?;
    }
    // Both banks have carried it out, durably: nobody asks for this decision again.
    coordinator.delete(&decisions, "transfer-1")?;

    assert_eq!(north.balances.get_now(&north.database, "alice")?, Some(70));
    assert_eq!(south.balances.get_now(&south.database, "bob")?, Some(30));
    assert_eq!(north.balances.get_now(&north.database, "carol")?, None);
    println!("alice has 70, bob has 30, and carol's transfer was rolled back");
    Ok(())
}
