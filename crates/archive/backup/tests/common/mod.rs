//! A database and a repository, each on a simulated disk, and what the database should hold.
#![allow(dead_code, reason = "no test needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_archive::{Packing, Repository, RepositoryOptions, System};
use seawall_backup::{
    BackupError, BackupOptions, RepositoryArchive, RestoreReport, RestoreRequest, StoredBackup, back_up,
    restore,
};
use seawall_engine::{
    ArchiveMode, ArchiveOptions, Background, Database, Environment, LockWait, Options, RestoreTarget,
};
use seawall_io::{Clock, Disk};
use seawall_keys::{MasterKey, SecretKey};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, SimulatedClock, SimulatedDisk, SimulatedRandom,
};

pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;

/// Rows by table.
pub(crate) type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// All rows that a database shows.
pub(crate) fn state_of(database: &Database) -> State {
    let snapshot = database.snapshot();
    let rows = |name: &str| {
        let table = snapshot.table(name).unwrap();
        snapshot.rows(&table).map(Result::unwrap).collect()
    };
    database.tables().list().unwrap().iter().map(|table| (table.name.clone(), rows(&table.name))).collect()
}

pub(crate) struct World {
    pub(crate) disk: SimulatedDisk,
    pub(crate) store: SimulatedDisk,
    pub(crate) clock: SimulatedClock,
    pub(crate) master_key: Option<MasterKey>,
    pub(crate) archives: bool,
}

impl World {
    pub(crate) fn new() -> World {
        let world = World {
            disk: SimulatedDisk::new(1),
            store: SimulatedDisk::new(2),
            clock: SimulatedClock::default(),
            master_key: None,
            archives: true,
        };
        world.create_repository();
        world
    }

    /// Both encrypted.
    pub(crate) fn encrypted() -> World {
        let key = MasterKey::Bytes(SecretKey::from_bytes([7; 32]));
        let world = World { store: SimulatedDisk::new(3), master_key: Some(key), ..World::new() };
        world.create_repository();
        world
    }

    fn create_repository(&self) {
        Repository::create_on(Arc::new(self.store.clone()), self.repository_options()).unwrap();
    }

    fn repository_options(&self) -> RepositoryOptions {
        RepositoryOptions {
            master_key: self.master_key.clone(),
            clock: Arc::new(self.clock.clone()),
            // Another process draws other numbers.
            random: Arc::new(SimulatedRandom::new(self.store.calls())),
            ..RepositoryOptions::default()
        }
    }

    pub(crate) fn repository(&self) -> Arc<Repository> {
        let disk: Arc<dyn Disk> = Arc::new(self.store.clone());
        Arc::new(Repository::open_on(disk, self.repository_options()).unwrap())
    }

    pub(crate) fn environment(&self, disk: &SimulatedDisk) -> Environment {
        Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(self.clock.clone()),
            random: Arc::new(SimulatedRandom::new(4)),
        }
    }

    pub(crate) fn options(&self) -> Options {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let archive = || {
            let archive = RepositoryArchive::new(self.repository(), Packing::default(), clock);
            ArchiveOptions::new(Arc::new(archive))
        };
        let mut options = Options {
            background: Background::Manual,
            archives: self.archives.then(archive).into_iter().collect(),
            master_key: self.master_key.clone(),
            ..Options::default()
        };
        options.format.page_bytes = 4096;
        options.format.segment_bytes = SEGMENT_BYTES;
        options.memory.memtable_bytes = 1 << 20;
        options.memory.cache_bytes = 1 << 20;
        options.checkpoint.chunk_bytes = 64 << 10;
        options.checkpoint.threads = 1;
        options.recovery.threads = 1;
        options.transaction.lock_wait = LockWait::NoWait;
        options
    }

    pub(crate) fn open(&self) -> Database {
        self.open_at(&self.disk)
    }

    pub(crate) fn open_at(&self, disk: &SimulatedDisk) -> Database {
        Database::open(self.environment(disk), self.options()).unwrap()
    }

    /// A full backup in runs of so many bytes; `meanwhile` runs between two stretches of reading.
    pub(crate) fn back_up_while(
        &self,
        database: &Database,
        run_bytes: usize,
        meanwhile: impl FnMut(),
    ) -> Result<StoredBackup, BackupError> {
        let options = BackupOptions { run_bytes, range_bytes: 1, threads: 1, ..BackupOptions::default() };
        self.back_up_with(database, &options, meanwhile)
    }

    pub(crate) fn back_up_with(
        &self,
        database: &Database,
        options: &BackupOptions,
        mut meanwhile: impl FnMut(),
    ) -> Result<StoredBackup, BackupError> {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        // So that no two have one name.
        self.clock.advance(std::time::Duration::from_secs(1));
        back_up(database, &self.repository(), &clock, options, &mut |_| meanwhile())
    }

    /// The store takes so many objects of backups more, and none then, until its faults are cleared.
    pub(crate) fn refuse_backups_after(&self, database: &Database, objects: u64) {
        let prefix = format!("{}/backups/", System::Seawall(database.info().unwrap().database));
        let target = FaultTarget::Path { prefix, operations: Operations::Only(Operation::Rename) };
        let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
        self.store.inject(Fault { target, error, skip: objects, count: u64::MAX });
    }

    pub(crate) fn back_up(&self, database: &Database) -> StoredBackup {
        self.back_up_while(database, 1000, || {}).unwrap()
    }

    pub(crate) fn restore(
        &self,
        target: RestoreTarget,
    ) -> Result<(SimulatedDisk, RestoreReport), BackupError> {
        let disk = SimulatedDisk::new(9);
        let archive_mode = ArchiveMode::Preserve;
        // For a look: what the store has stays as it is.
        let reserves_timeline = false;
        let request = RestoreRequest { target, archive_mode, reserves_timeline, ..RestoreRequest::default() };
        let report = self.restore_to(&disk, &request)?;
        Ok((disk, report))
    }

    pub(crate) fn restore_to(
        &self,
        disk: &SimulatedDisk,
        request: &RestoreRequest,
    ) -> Result<RestoreReport, BackupError> {
        restore(&self.repository(), &self.environment(disk), &self.options(), request, &mut |_| {})
    }

    /// Opens a restored database beside the first one.
    pub(crate) fn open_restored(&self, disk: &SimulatedDisk) -> Database {
        let options = Options { archives: Vec::new(), ..self.options() };
        Database::open(self.environment(disk), options).unwrap()
    }

    /// Restores and shows what is there.
    pub(crate) fn restored_state(&self, target: RestoreTarget) -> State {
        let (disk, _) = self.restore(target).unwrap();
        let database = self.open_restored(&disk);
        let state = state_of(&database);
        examine(&database);
        state
    }
}

/// No damage; and no row is left that belongs to no table.
pub(crate) fn examine(database: &Database) {
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.damages, 0);
    for in_doubt in database.two_phase().in_doubt().unwrap() {
        database.two_phase().rollback(&in_doubt.gid).unwrap();
    }
    for table in database.tables().list().unwrap() {
        database.tables().drop(&table.name).unwrap();
    }
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!((summary.rows, summary.tables), (0, 0), "rows that belong to no table");
}
