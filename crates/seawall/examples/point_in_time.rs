//! A mistake is taken back: a restore to the moment before it, by name, by position in the log, and by time. In a scratch directory.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use seawall::backup::{self, BackupOptions, Clock, Packing, Repository, RepositoryArchive, SystemClock};
use seawall::backup::{RepositoryOptions, RestoreRequest, RestoreTarget};
use seawall::{ArchiveOptions, Database, Durability, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().join("repository").display().to_string().parse()?;
    Repository::create(&place, RepositoryOptions::default())?;
    let repository = Arc::new(Repository::open(&place, RepositoryOptions::default())?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let archive = RepositoryArchive::new(Arc::clone(&repository), Packing::default(), Arc::clone(&clock));
    let archives = vec![ArchiveOptions::new(Arc::new(archive))];
    let database = Database::open(scratch.path().join("shop"), Options { archives, ..Options::default() })?;
    let prices = database.open_or_create_table("prices")?;
    backup::back_up(&database, &repository, &clock, &BackupOptions::default(), &mut |_| {})?;

    // Everything after the backup is in the log: any moment of it can be restored.
    let good = database.put(&prices, "apple", "1.20")?;
    database.log().create_restore_point("before the new prices")?;
    let before = clock.wall_micros();
    while clock.wall_micros() == before {
        std::hint::spin_loop(); // The mistake is of a later microsecond.
    }
    database.with(Durability::Archived).put(&prices, "apple", "0.00")?; // the mistake
    database.close()?;

    let targets = [
        RestoreTarget::RestorePoint("before the new prices".to_owned()),
        RestoreTarget::Lsn(good), // A commit returns its position.
        RestoreTarget::Time(before),
    ];
    for (number, target) in targets.into_iter().enumerate() {
        let directory = scratch.path().join(format!("shop-{number}"));
        let price = restored_price(&repository, &directory, target.clone())?;
        println!("restored to {target:?}: an apple costs {price}");
        assert_eq!(price, "1.20");
    }
    assert_eq!(restored_price(&repository, &scratch.path().join("latest"), RestoreTarget::Latest)?, "0.00");
    Ok(())
}

/// Each restore begins a timeline of its own; by default what was restored archives nothing, so that a trial disturbs nothing.
fn restored_price(
    repository: &Repository,
    directory: &Path,
    target: RestoreTarget,
) -> Result<String, Box<dyn Error>> {
    let (request, options) = (RestoreRequest { target, ..RestoreRequest::default() }, Options::default());
    backup::restore(repository, &backup::directory(directory), &options, &request, &mut |_| {})?;
    let database = Database::open(directory, options)?;
    let price = database.get(&database.table("prices")?, "apple")?.unwrap_or_default();
    database.close()?;
    Ok(String::from_utf8(price)?)
}
