//! A program that depends on `seawall` alone can name whatever archives and backups take from it and give to it.
#![cfg(feature = "backup")]

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall::backup::{
    ArchiveError, ArchiveMode, BackupOptions, Clock, ExpireError, ExpireProgress, ExpireReport, Expiry,
    Inventory, OsRandom, Packing, PassedOver, Random, Repository, RepositoryArchive, RepositoryOptions,
    RequestStatistics, RestoreRequest, RetentionPolicy, RetryPolicy, StoreCause, StoreError, System,
    SystemClock, back_up, back_up_behind_gap, databases, directory, restore,
};
use seawall::{ArchiveOptions, Database, DatabaseDirectory, Durability, Error, Options};

/// Randomness of the program's own: here the system's.
#[derive(Debug)]
struct Device;

impl Random for Device {
    fn fill(&self, bytes: &mut [u8]) {
        OsRandom.fill(bytes);
    }
}

fn without_retries() -> RepositoryOptions {
    RepositoryOptions { retry: RetryPolicy::once(), random: Arc::new(Device), ..RepositoryOptions::default() }
}

/// What a program may decide by.
fn is_over_soon(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Store(StoreError { cause: StoreCause::Unreachable | StoreCause::Busy, .. }) => true,
        ArchiveError::Store(error) => error.cause.is_passing(),
        _ => false,
    }
}

fn names(inventory: &Inventory) -> BTreeSet<String> {
    inventory.backup_objects.keys().cloned().collect()
}

fn expire(expiry: Expiry) -> Result<ExpireReport, ExpireError> {
    let mut last = None;
    let report = expiry.run(&mut |progress: ExpireProgress| last = Some(progress));
    assert!(last.is_none_or(|last| last.done == last.total), "{last:?}");
    report
}

#[test]
fn a_program_retries_backs_up_and_expires_by_the_names_of_this_crate() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("repository").display().to_string().parse().unwrap();
    let missing = Repository::open(&place, without_retries()).unwrap_err();
    assert!(!is_over_soon(&missing), "{missing}");
    let repository = Arc::new(Repository::create(&place, without_retries()).unwrap());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let archive = RepositoryArchive::new(Arc::clone(&repository), Packing::default(), Arc::clone(&clock));
    let archives = vec![ArchiveOptions::new(Arc::new(archive))];
    let database = Database::open(scratch.path().join("bank"), Options { archives, ..Options::default() });
    let database = database.unwrap();
    let options = BackupOptions { is_incremental: false, ..BackupOptions::default() };
    let take = || back_up(&database, &repository, &clock, &options, &mut |_| {}).unwrap().id;
    let (first, second) = (take(), take());

    let id = databases(&repository).unwrap()[0];
    let behind = back_up_behind_gap(&database, id, &repository, &clock, &options).unwrap();
    assert!(behind.is_none(), "the log has no gap");

    let policy = RetentionPolicy {
        keep_count: Some(1),
        keep_recent: std::time::Duration::ZERO,
        ..RetentionPolicy::default()
    };
    let prepare = || Expiry::prepare(Arc::clone(&repository), System::Seawall(id), policy, &*clock).unwrap();
    assert_eq!(names(prepare().inventory()), BTreeSet::from([first, second.clone()]));
    let report = expire(prepare()).unwrap();
    assert!(report.not_removed.is_empty());
    assert_eq!(names(prepare().inventory()), BTreeSet::from([second]));
    let requests: RequestStatistics = repository.statistics();
    assert_eq!(requests.retries, 0, "{requests:?}");
    database.close().unwrap();
}

#[test]
fn a_program_decides_whether_a_restored_database_archives() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("repository").display().to_string().parse().unwrap();
    let repository = Arc::new(Repository::create(&place, without_retries()).unwrap());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let options = || {
        let archive = RepositoryArchive::new(Arc::clone(&repository), Packing::default(), Arc::clone(&clock));
        Options { archives: vec![ArchiveOptions::new(Arc::new(archive))], ..Options::default() }
    };
    let commit = |database: &Database| {
        let table = database.table("accounts")?;
        database.with(Durability::Archived).put(&table, "key", "value").map(drop)
    };
    let database = Database::open(scratch.path().join("bank"), options()).unwrap();
    database.create_table("accounts").unwrap();
    commit(&database).unwrap();
    back_up(&database, &repository, &clock, &BackupOptions::default(), &mut |_| {}).unwrap();
    database.close().unwrap();
    let restored = |name: &str, archive_mode: ArchiveMode| {
        let place = scratch.path().join(name);
        let request = RestoreRequest { archive_mode, ..RestoreRequest::default() };
        let report =
            restore(&repository, &directory(&place), &Options::default(), &request, &mut |_| {}).unwrap();
        let passed_over: Vec<PassedOver> = report.passed_over;
        assert!(passed_over.is_empty(), "{passed_over:?}");
        place
    };

    let trial = restored("trial", ArchiveMode::Off);
    let refused = Database::open(&trial, options()).map(drop).unwrap_err();
    assert!(matches!(refused, Error::ArchivingOff { .. }), "{refused}");
    let files = DatabaseDirectory::at(&trial);
    assert!(files.is_archiving_off().unwrap());
    files.allow_archiving().unwrap();
    let database = Database::open(&trial, options()).unwrap();
    commit(&database).unwrap();
    database.close().unwrap();

    let production = restored("production", ArchiveMode::Preserve);
    assert!(!DatabaseDirectory::at(&production).is_archiving_off().unwrap());
    let database = Database::open(&production, options()).unwrap();
    commit(&database).unwrap();
    database.close().unwrap();
    DatabaseDirectory::at(&production).forbid_archiving().unwrap();
    let refused = Database::open(&production, options()).map(drop).unwrap_err();
    assert!(matches!(refused, Error::ArchivingOff { .. }), "{refused}");
}
