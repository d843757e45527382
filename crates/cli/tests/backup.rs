//! Archive, backup and recovery of a database of Seawall's own, as an administrator meets them: a program that writes and
//! archives, mistakes and lost machines, and the commands.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_archive::{Packing, Repository, RepositoryOptions};
use seawall_backup::{BackupOptions, RepositoryArchive, StoredBackup, back_up};
use seawall_engine::{ArchiveOptions, Database, Durability, Error, Options, TransactionOptions};
use seawall_io::{Clock, SystemClock};
use seawall_testing::wait_until;

const ACCOUNTS: u32 = 500;
const BALANCE: u64 = 1_000;
/// Where the child of a test finds the directory of the scene.
const SCENE: &str = "SEAWALL_TEST_SCENE";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A directory with a repository and databases.
struct Scene {
    directory: PathBuf,
}

impl Scene {
    fn new(directory: &Path) -> Scene {
        let scene = Scene { directory: directory.to_owned() };
        scene.ok(&["repo", "create"]);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn seawall(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_seawall"))
            .args(arguments)
            .current_dir(&self.directory)
            .env("SEAWALL_REPOSITORY", self.path("repository"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.seawall(arguments);
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(
            output.status.success(),
            "{arguments:?}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    fn repository(&self) -> Arc<Repository> {
        let url = self.path("repository").display().to_string();
        Arc::new(Repository::open(&url.parse().unwrap(), RepositoryOptions::default()).unwrap())
    }

    /// What a command that fails says.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.seawall(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// Those of a database that archives.
    fn options(&self) -> Options {
        let archive = RepositoryArchive::new(self.repository(), Packing::default(), Arc::new(SystemClock));
        let mut options =
            Options { archives: vec![ArchiveOptions::new(Arc::new(archive))], ..Options::default() };
        options.format.segment_bytes = 1 << 20;
        options
    }

    /// A database that archives.
    fn open(&self, name: &str) -> Database {
        Database::open(self.path(name), self.options()).unwrap()
    }

    fn back_up(&self, database: &Database, is_incremental: bool) -> StoredBackup {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let options = BackupOptions { is_incremental, ..BackupOptions::default() };
        back_up(database, &self.repository(), &clock, &options, &mut |_| {}).unwrap()
    }

    /// Rows of `accounts` in a database that a command has made.
    fn accounts_in(&self, name: &str) -> Rows {
        self.ok(&["check", name]);
        let database = Database::open(self.path(name), Options::default()).unwrap();
        let rows = accounts(&database);
        database.close().unwrap();
        rows
    }
}

fn accounts(database: &Database) -> Rows {
    let snapshot = database.snapshot();
    let table = snapshot.table("accounts").unwrap();
    snapshot.rows(&table).map(Result::unwrap).collect()
}

fn balance(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

fn total(rows: &Rows) -> u64 {
    rows.values().map(|value| balance(value)).sum()
}

fn create_accounts(database: &Database) {
    let table = database.create_table("accounts").unwrap();
    let mut transaction = database.begin();
    for account in 0..ACCOUNTS {
        let row = [&BALANCE.to_le_bytes()[..], &[b'.'; 200]].concat();
        transaction.put(&table, account.to_be_bytes(), row).unwrap();
    }
    transaction.commit().unwrap();
}

/// Moves money between accounts until told to end, but at least once; how many transfers there were.
fn transfer_until(database: &Database, end: &AtomicBool, seed: u32) -> u64 {
    let table = database.table("accounts").unwrap();
    let (mut number, mut count) = (seed, 0);
    while count == 0 || !end.load(Ordering::SeqCst) {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (from, to) = ((number >> 8) % ACCOUNTS, (number >> 20) % ACCOUNTS);
        if from == to {
            continue;
        }
        let mut transaction = database.begin();
        let mut change = |account: u32, add: bool| -> Result<(), Error> {
            let mut row = transaction.get_for_update(&table, account.to_be_bytes())?.unwrap();
            let changed = if add { balance(&row) + 1 } else { balance(&row).saturating_sub(1) };
            row[..8].copy_from_slice(&changed.to_le_bytes());
            transaction.put(&table, account.to_be_bytes(), row)
        };
        let done = change(from, false).and_then(|()| change(to, true)).and_then(|()| transaction.commit());
        match done {
            Ok(_) => count += 1,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    count
}

/// `act` while two threads transfer money; it is told of each of them.
fn under_load<R>(database: &Database, act: impl FnOnce() -> R) -> R {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers = [1, 2].map(|seed| {
            let end = &end;
            scope.spawn(move || transfer_until(database, end, seed))
        });
        let result = act();
        end.store(true, Ordering::SeqCst);
        let counts = writers.map(|writer| writer.join().unwrap());
        println!("{counts:?} transfers");
        result
    })
}

#[test]
fn a_dropped_table_comes_back_and_both_timelines_can_be_restored() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(directory.path());
    let database = scene.open("bank");
    create_accounts(&database);
    let full = under_load(&database, || {
        let full = scene.back_up(&database, false);
        database.checkpoint().unwrap();
        full
    });
    let increment = under_load(&database, || scene.back_up(&database, true));
    assert_eq!(increment.manifest.parent, Some(full.id.clone()));
    let listed = scene.ok(&["backup", "list"]);
    // As all commands have it, and in the way that is short.
    for repository in [&["--repository", "repository"][..], &["repository"]] {
        assert_eq!(scene.ok(&[&["backup", "list"], repository].concat()), listed);
        scene.ok(&[&["repo", "info"], repository].concat());
    }
    assert!(listed.contains(&full.id) && listed.contains(&increment.id), "{listed}");

    // The mistake.
    let before = accounts(&database);
    assert_eq!(total(&before), u64::from(ACCOUNTS) * BALANCE);
    let lsn = database.log().create_restore_point("before the mistake").unwrap();
    database.tables().drop("accounts").unwrap();
    database.close().unwrap();

    scene.ok(&["restore", "by-name", "--to-name", "before the mistake"]);
    scene.ok(&["restore", "by-lsn", "--to-lsn", &lsn.to_string()]);
    for name in ["by-name", "by-lsn"] {
        assert!(scene.accounts_in(name) == before, "{name}: other rows");
    }
    // It takes the place of the other one in the same repository, on a timeline of its own, when it is told to.
    let refused = Database::open(scene.path("by-name"), scene.options()).unwrap_err();
    assert!(matches!(refused, Error::ArchivingOff { .. }), "{refused}");
    let refused = scene.fails(1, &["backup", "by-name"]);
    assert!(refused.contains("archive-mode"), "{refused}");
    scene.ok(&["archive-mode", "by-name", "on"]);
    let database = scene.open("by-name");
    assert_eq!(database.log().timeline().get(), 2);
    under_load(&database, || database.checkpoint().unwrap());
    database.log().archive_now().unwrap();
    // Either has data that the other lacks, until a backup says which of them is in production.
    let refused = scene.fails(3, &["restore", "new-way"]);
    assert!(refused.contains("timeline 2, which left timeline 1 at"), "{refused}");
    scene.fails(3, &["drill"]);
    scene.back_up(&database, false);
    let after = accounts(&database);
    database.close().unwrap();
    scene.ok(&["restore", "new-way"]);
    scene.ok(&["drill"]);
    assert!(scene.accounts_in("new-way") == after, "other rows");
    scene.ok(&["restore", "old-way", "--timeline", "1"]);
    let old_way = Database::open(scene.path("old-way"), Options::default()).unwrap();
    assert!(old_way.tables().list().unwrap().is_empty(), "the mistake is a part of the old way");
    old_way.close().unwrap();
    let refused = scene.seawall(&["restore", "bank"]);
    assert!(!refused.status.success());
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("bank") && refused.contains("not empty"), "{refused}");
}

/// Rows of the table of the next test: too many for a backup to say only at its end how far it is.
fn many_rows(database: &Database) -> Rows {
    let snapshot = database.snapshot();
    let table = snapshot.table("many").unwrap();
    snapshot.rows(&table).map(Result::unwrap).collect()
}

/// Kills a restore when it has begun.
fn kill_a_restore(scene: &Scene, name: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["restore", name])
        .current_dir(&scene.directory)
        .env("SEAWALL_REPOSITORY", scene.path("repository"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the restore to begin", || {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was killed");
        scene.path(name).join("restoring").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(scene.path(name).join("restoring").exists(), "it had ended before it was killed");
}

#[test]
fn a_backup_that_is_killed_is_gone_on_with_and_so_is_a_restore() {
    const ROWS: u32 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(directory.path());
    let database = scene.open("bank");
    let mut load = database.tables().bulk_load("many").unwrap();
    for key in 0..ROWS {
        load.add(key.to_be_bytes(), [7; 4_000]).unwrap();
    }
    load.finish().unwrap();
    database.close().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["backup", "bank", "--rate", "20"])
        .current_dir(directory.path())
        .env("SEAWALL_REPOSITORY", scene.path("repository"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let repository = scene.repository();
    let is_progress = || {
        let stored = repository.stored(None).unwrap();
        stored.iter().any(|object| object.path.ends_with("progress-00000000"))
    };
    wait_until("the backup to say how far it is", || {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was killed");
        is_progress()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scene.ok(&["backup", "list"]), "", "what was cut short is no backup");
    // It goes on with what has changed, and says so.
    let database = scene.open("bank");
    let table = database.table("many").unwrap();
    for key in [3, ROWS - 3] {
        database.put(&table, key.to_be_bytes(), b"changed").unwrap();
    }
    let before = many_rows(&database);
    database.close().unwrap();
    let taken = scene.seawall(&["backup", "bank", "--json"]);
    let (answer, said) =
        (String::from_utf8_lossy(&taken.stdout), String::from_utf8_lossy(&taken.stderr).into_owned());
    assert!(taken.status.success() && said.contains("which was cut short"), "{said}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(answer["goes_on_with"].is_string() && answer["parent"].is_null(), "{answer}");
    assert!(answer["rows"].as_u64().unwrap() < u64::from(ROWS) / 2, "{answer}");
    scene.ok(&["verify", "--full"]);
    kill_a_restore(&scene, "again");
    // Another target is refused there, and the same ends it.
    let refused = scene.seawall(&["restore", "again", "--to-name", "the day before"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("up to the end of the log") && said.contains("remove the directory"), "{said}");
    scene.ok(&["restore", "again"]);
    scene.ok(&["check", "again"]);
    let database = Database::open(scene.path("again"), Options::default()).unwrap();
    assert!(many_rows(&database) == before, "other rows");
    database.close().unwrap();
    let anew = scene.ok(&["backup", "bank", "--no-resume", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&anew).unwrap();
    assert!(answer["goes_on_with"].is_null() && answer["rows"].as_u64() >= Some(u64::from(ROWS)), "{answer}");
}

/// Not a test: writes and archives until it is killed, and says which transfers are archived.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(SCENE) else { return };
    let scene = Scene { directory: PathBuf::from(directory) };
    let database = scene.open("bank");
    create_accounts(&database);
    scene.back_up(&database, false);
    let table = database.create_table("numbers").unwrap();
    for number in 0_u64.. {
        let options =
            TransactionOptions { durability: Durability::Archived, ..TransactionOptions::default() };
        let mut transaction = database.with(options).begin();
        transaction.put(&table, number.to_be_bytes(), b"archived").unwrap();
        transaction.commit().unwrap();
        println!("archived {number}");
    }
}

#[test]
fn a_lost_machine_takes_nothing_that_was_archived() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(directory.path());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
        .env(SCENE, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The first one may come behind what the test harness says of it.
        let Some((_, number)) = line.split_once("archived ") else { continue };
        last = number.parse::<u64>().ok();
        if last == Some(50) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(last, Some(50), "the child ended early");
    // The machine is gone.
    std::fs::remove_dir_all(scene.path("bank")).unwrap();
    scene.ok(&["restore", "again"]);
    let database = Database::open(scene.path("again"), Options::default()).unwrap();
    let snapshot = database.snapshot();
    let table = snapshot.table("numbers").unwrap();
    let numbers: Vec<u64> =
        snapshot.rows(&table).map(|row| u64::from_be_bytes(row.unwrap().0.try_into().unwrap())).collect();
    assert!(numbers.len() > 50, "{numbers:?}");
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "one in between is missing: {numbers:?}");
    assert_eq!(total(&accounts(&database)), u64::from(ACCOUNTS) * BALANCE);
}
