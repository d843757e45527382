//! A database that archives its log, a backup, the loss of the directory, and the restore: in a scratch directory.

use std::error::Error;
use std::sync::Arc;

use seawall::backup::{self, BackupOptions, Clock, Packing, Repository, RepositoryArchive, SystemClock};
use seawall::backup::{RepositoryOptions, RestoreRequest};
use seawall::{ArchiveOptions, Database, Durability, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;

    // Once. In earnest another machine, or a bucket: "s3://bank/main".
    let place = scratch.path().join("repository").display().to_string();
    Repository::create(&place.parse()?, RepositoryOptions::default())?;

    // From now on whatever is committed goes into the repository, within a second.
    let repository = Arc::new(Repository::open(&place.parse()?, RepositoryOptions::default())?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let archive = RepositoryArchive::new(Arc::clone(&repository), Packing::default(), Arc::clone(&clock));
    let archives = vec![ArchiveOptions::new(Arc::new(archive))];
    let database = Database::open(scratch.path().join("bank"), Options { archives, ..Options::default() })?;
    let accounts = database.open_or_create_table("accounts")?;
    database.put(&accounts, "alice", "100")?;

    // A restore begins with a backup, so there must be one. It is complete when this returns.
    let taken = backup::back_up(&database, &repository, &clock, &BackupOptions::default(), &mut |_| {})?;
    println!("backup {} of {} rows", taken.id, taken.manifest.rows());

    // In the repository when this returns. A `Sync` commit would be there within a second.
    database.with(Durability::Archived).put(&accounts, "bob", "50")?;
    database.close()?;
    std::fs::remove_dir_all(scratch.path().join("bank"))?;

    // Up to the end of the log; `RestoreRequest::target` may be a time, a position or a restore point.
    let again = scratch.path().join("bank-again");
    let (request, options) = (RestoreRequest::default(), Options::default());
    let report = backup::restore(&repository, &backup::directory(&again), &options, &request, &mut |_| {})?;
    println!("restored up to {}", report.end.end);

    let database = Database::open(&again, options)?;
    let accounts = database.table("accounts")?;
    assert_eq!(database.get(&accounts, "alice")?.as_deref(), Some(&b"100"[..]));
    assert_eq!(database.get(&accounts, "bob")?.as_deref(), Some(&b"50"[..]));
    database.close()?;
    Ok(())
}
