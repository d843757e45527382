//! Checking a database: every page of the tree and the space map, the log from the redo point to its end and as far back
//! as somebody holds it, and the catalog. Damage is reported and the check goes on.

mod held_log;

use std::sync::Arc;

use seawall_keys::{DatabaseKeys, KEYS_PATH};
use seawall_sync::MutexGuard;
use seawall_tree::{CheckWalk, Superblock, SuperblockFile, Tree, TreeAccess, TreeOptions};
use seawall_types::{Lsn, TableId};
use seawall_wal::{Changes, HoldInfo, PendingUse, Prepare, Record};

use crate::catalog::{self, FIRST_USER_TABLE, NameRow, ObjectRow};
use crate::checkpoint::page_protection::LogSource;
use crate::encryption::open_keys;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::{Error, refusal_of};
use crate::in_doubt::guards::Guards;
use crate::in_doubt::rows;
use crate::inspect::log_records::open_reader;
use crate::options::Options;
use crate::recovery::timeline::Continuation;
use crate::row_key;
use crate::runs::check::check_run;
use crate::runs::list::read_list;
use crate::runs::run::Runs;
use crate::snapshots::scan::{Direction, Range};
use held_log::check_held_log;

/// Whether something is wrong on disk, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// What is on disk is not as it must be.
    Damaged,
    /// It could not be read: no permission, no descriptor, a device that fails, or less memory than that takes. Nothing is known about
    /// what is on disk.
    Unreadable,
}

/// Something that is not as it must be, or that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which of the two.
    pub kind: DamageKind,
    /// The file.
    pub path: String,
    /// Where in the file, if it is one place.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// The rows that are affected, if that is known.
    pub keys: Option<KeyRange>,
}

impl Damage {
    /// Damage of a file as a whole.
    fn plain(path: &str, what: String) -> Damage {
        Damage { kind: DamageKind::Damaged, path: path.to_owned(), offset: None, what, keys: None }
    }
}

/// What an error says of what is on disk.
fn kind_of(error: &(dyn std::error::Error + 'static)) -> DamageKind {
    let refused = match error.downcast_ref::<Error>() {
        Some(error) => error.is_refusal(),
        None => refusal_of(error).is_some(),
    };
    if refused { DamageKind::Unreadable } else { DamageKind::Damaged }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.path)?;
        if let Some(offset) = self.offset {
            write!(formatter, ", offset {offset}")?;
        }
        let could_not = if self.kind == DamageKind::Unreadable { " could not be read:" } else { "" };
        write!(formatter, ":{could_not} {}", self.what)?;
        match &self.keys {
            Some(keys) => write!(formatter, "; rows {keys}"),
            None => Ok(()),
        }
    }
}

/// Rows from `from` to `to`, exclusive; `None` is the beginning or the end of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Table (by storage id) and key of the first row.
    pub from: Option<(u64, Vec<u8>)>,
    /// Table (by storage id) and key after the last row.
    pub to: Option<(u64, Vec<u8>)>,
}

impl std::fmt::Display for KeyRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.from {
            Some((table, key)) => write!(formatter, "from storage {table} key \"{}\"", key.escape_ascii())?,
            None => formatter.write_str("from the first")?,
        }
        match &self.to {
            Some((table, key)) => write!(formatter, " to storage {table} key \"{}\"", key.escape_ascii()),
            None => formatter.write_str(" to the last"),
        }
    }
}

/// What a check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Pages read.
    pub pages: u64,
    /// Rows in the main part of the tree.
    pub rows: u64,
    /// Rows in sorted runs. A row that was changed may be in several of them, and in the main part.
    pub run_rows: u64,
    /// Pages from root to leaf.
    pub depth: u8,
    /// Records of the log read.
    pub log_records: u64,
    /// Tables in the catalog.
    pub tables: u64,
    /// Damages reported.
    pub damages: u64,
    /// Places reported that could not be read: what is there was not checked.
    pub unreadable: u64,
    /// Parts in which the tree was checked: checkpoints that wanted to run had their turn between two. A page that is used
    /// and marked as free is found either way; one that nobody uses and that is not, only if there was one part.
    pub parts: u64,
}

fn place(row_key: Vec<u8>) -> (u64, Vec<u8>) {
    let table = row_key::table_of(&row_key).unwrap_or(TableId::new(0));
    (table.get(), row_key::key_of(&row_key).to_vec())
}

/// Counts what it passes on.
struct Reports<'a> {
    report: &'a mut dyn FnMut(Damage),
    damages: u64,
    unreadable: u64,
}

impl Reports<'_> {
    fn tell(&mut self, damage: Damage) {
        match damage.kind {
            DamageKind::Damaged => self.damages += 1,
            DamageKind::Unreadable => self.unreadable += 1,
        }
        (self.report)(damage);
    }

    fn tell_plain(&mut self, path: &str, what: String) {
        self.tell(Damage::plain(path, what));
    }

    fn tell_error(&mut self, path: &str, error: &(dyn std::error::Error + 'static)) {
        self.tell(Damage { kind: kind_of(error), ..Damage::plain(path, crate::error::chain(error)) });
    }

    fn is_clean(&self) -> bool {
        self.damages == 0 && self.unreadable == 0
    }

    fn count(&self, summary: &mut CheckSummary) {
        summary.damages = self.damages;
        summary.unreadable = self.unreadable;
    }
}

/// Checks a part of the tree; whether it was the last.
fn check_tree(
    tree: &Tree,
    walk: &mut CheckWalk,
    reports: &mut Reports<'_>,
    summary: &mut CheckSummary,
    pause: &mut dyn FnMut() -> bool,
) -> bool {
    let seen = tree.check_part(
        walk,
        &mut |damage| {
            let keys = KeyRange { from: damage.lower.map(place), to: damage.upper.map(place) };
            let known = keys.from.is_some() || keys.to.is_some();
            let kind = match damage.kind {
                seawall_tree::DamageKind::Damaged => DamageKind::Damaged,
                seawall_tree::DamageKind::Unreadable => DamageKind::Unreadable,
            };
            reports.tell(Damage {
                kind,
                path: damage.path,
                offset: Some(damage.offset),
                what: damage.what,
                keys: known.then_some(keys),
            });
        },
        &mut |_, _| {},
        pause,
    );
    let Some(seen) = seen else { return false };
    summary.pages = seen.pages;
    summary.rows = seen.rows;
    summary.depth = seen.depth;
    summary.parts = seen.parts;
    true
}

/// Reads both copies of the superblock: an open gets by with one.
fn check_superblock(environment: &Environment, reports: &mut Reports<'_>) -> Option<Superblock> {
    let path = environment.disk.location(seawall_tree::SUPERBLOCK_PATH);
    match SuperblockFile::open(&*environment.disk, seawall_io::OpenMode::Read) {
        Err(error) => {
            reports.tell_error(&path, &error);
            None
        }
        Ok((_, superblock, damaged_copy)) => {
            if let Some(copy) = damaged_copy {
                reports.tell(Damage { offset: Some(copy.offset), ..Damage::plain(&path, copy.what) });
            }
            Some(superblock)
        }
    }
}

/// Who holds the log, as the file says.
fn check_holds(
    environment: &Environment,
    superblock: &Superblock,
    reports: &mut Reports<'_>,
) -> Vec<HoldInfo> {
    seawall_wal::read_holds(&*environment.disk, superblock.database).unwrap_or_else(|error| {
        reports.tell_error("log", &error);
        Vec::new()
    })
}

/// Reads the log from the redo point on, up to `limit` if the database is being written.
fn check_log(
    environment: &Environment,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    limit: Option<Lsn>,
    reports: &mut Reports<'_>,
    summary: &mut CheckSummary,
) {
    let reader = open_reader(&environment.disk, superblock, keys, superblock.redo_point);
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return reports.tell_error("log", &error),
    };
    match limit {
        Some(limit) => reader.set_limit(limit),
        None => reader.use_pending(PendingUse::Read),
    }
    loop {
        match reader.next() {
            Ok(None) => break,
            Ok(Some(record)) => {
                summary.log_records += 1;
                if let Err(what) = check_record(&record) {
                    reports.tell_plain("log", format!("record at {}: {what}", record.span.start));
                }
            }
            Err(error) => return reports.tell_error("log", &error),
        }
    }
    for damage in reader.pending_damages() {
        reports.tell_error("log", &damage);
    }
}

fn check_record(record: &seawall_wal::LogRecord<'_>) -> Result<(), String> {
    match record.decode().map_err(|error| error.to_string())? {
        Record::Commit(commit) => check_changes(commit.changes()),
        Record::Prepare(prepare) => check_prepare(&prepare),
        Record::CommitPrepared(decision) | Record::RollbackPrepared(decision) => {
            check_changes(decision.changes())
        }
        Record::Checkpoint(_)
        | Record::TimelineSwitch(_)
        | Record::RestorePoint(_)
        | Record::NoOp
        | Record::BulkLoad(_)
        | Record::PageImages(_) => Ok(()),
    }
}

fn check_changes(mut changes: Changes<'_>) -> Result<(), String> {
    changes.try_for_each(|change| change.map(|_| ()).map_err(|error| error.to_string()))
}

/// Reads the transactions that were in doubt at the redo point, as an open does; `expected` is how many.
fn check_prepared(tree: &Tree, expected: Option<u64>, reports: &mut Reports<'_>) {
    if let Err(error) = read_prepared(tree, expected, reports) {
        reports.tell_error("prepared transactions", &error);
    }
}

fn read_prepared(tree: &Tree, expected: Option<u64>, reports: &mut Reports<'_>) -> Result<(), Error> {
    let stored = rows::read_all(tree)?.prepared;
    let count = u64::try_from(stored.len()).expect("a count of things in memory fits into 64 bits");
    if let Some(expected) = expected.filter(|expected| *expected != count) {
        let problem = format!("{count} are in the tree, and {expected} by the superblock");
        reports.tell_plain("prepared transactions", problem);
    }
    let read = |key: &[u8]| tree.get(key).map_err(|error| Error::tree(&error));
    for transaction in stored {
        let body = match transaction.body {
            Some(body) => Ok(body.to_vec()),
            None => rows::read_body(transaction.stamp, read),
        };
        let checked = body.map_err(|error| error.to_string()).and_then(|body| {
            let prepare = Prepare::decode(&body).map_err(|error| error.to_string())?;
            check_prepare(&prepare)
        });
        if let Err(what) = checked {
            let what = format!("the one prepared at {}: {what}", transaction.stamp);
            reports.tell_plain("prepared transactions", what);
        }
    }
    Ok(())
}

/// Reads the list of runs, as an open does. What is wrong with it is reported.
fn check_list_of_runs(tree: &Tree, superblock: &Superblock, reports: &mut Reports<'_>) -> Runs {
    read_list(tree, superblock).unwrap_or_else(|error| {
        reports.tell_error("runs", &error);
        Runs::default()
    })
}

/// Checks the rows and filters of runs. The tree may change meanwhile.
fn check_runs(runs: &Runs, tree: &Tree, reports: &mut Reports<'_>, summary: &mut CheckSummary) {
    for run in runs.iter() {
        let checked = check_run(run, tree, &mut |what| reports.tell_plain("runs", what));
        summary.run_rows += checked.rows;
        // The check of the tree has counted all of them, and the row that lists the run.
        summary.rows = summary.rows.saturating_sub(checked.rows + checked.segments + 1);
    }
}

fn check_prepare(prepare: &Prepare<'_>) -> Result<(), String> {
    Guards::decode(prepare.guards).map_err(|error| error.to_string())?;
    check_changes(prepare.changes())
}

impl Engine {
    /// Checks the tree, the log and the catalog of an open database.
    pub(crate) fn check(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.lifecycle.check_open()?;
        let mut reports = Reports { report, damages: 0, unreadable: 0 };
        let mut summary = CheckSummary::default();
        let mut walk = CheckWalk::default();
        let (superblock, runs) = loop {
            // Held so that no checkpoint moves rows from the log to the tree behind the back of the check; between two
            // parts of the tree it may.
            let state = self.checkpoint_turn.take_patiently();
            if walk.is_new() {
                check_superblock(&self.environment, &mut reports);
            }
            let mut is_wanted = || self.checkpoint_turn.is_wanted();
            if !check_tree(&self.tree, &mut walk, &mut reports, &mut summary, &mut is_wanted) {
                // To whoever waits: it would be ours again before they woke.
                MutexGuard::unlock_fair(state);
                self.lifecycle.check_open()?;
                continue;
            }
            let limit = self.log.written().map(|_| self.flushed());
            let superblock = self.redo.superblock();
            // A checkpoint that failed at its end has left pages of which the superblock knows nothing until the next open.
            let is_of_the_pages = self.lifecycle.check_not_stopped().is_ok();
            check_prepared(&self.tree, is_of_the_pages.then_some(superblock.in_doubt), &mut reports);
            let runs = if is_of_the_pages {
                check_list_of_runs(&self.tree, &superblock, &mut reports)
            } else {
                Arc::clone(&self.view().runs)
            };
            let keys = self.keys.as_ref();
            check_log(&self.environment, &superblock, keys, limit, &mut reports, &mut summary);
            break (superblock, runs);
        };
        check_runs(&runs, &self.tree, &mut reports, &mut summary);
        self.check_older_log(&superblock, &mut reports, &mut summary)?;
        self.check_catalog(&mut reports, &mut summary)?;
        reports.count(&mut summary);
        Ok(summary)
    }

    /// Checks the log before that of recovery. Checkpoints go on meanwhile: there may be a hundred times as much.
    fn check_older_log(
        &self,
        superblock: &Superblock,
        reports: &mut Reports<'_>,
        summary: &mut CheckSummary,
    ) -> Result<(), Error> {
        let on_file = check_holds(&self.environment, superblock, reports);
        let held_from = || {
            // What is read after the database was closed says nothing about it: others may have it open.
            self.lifecycle.check_open()?;
            let holds = self.log.written().map(|log| log.holds());
            Ok(held_log::held_from(superblock.redo_point, holds.as_ref().unwrap_or(&on_file)))
        };
        let (disk, keys) = (&self.environment.disk, self.keys.as_ref());
        summary.log_records += check_held_log(disk, superblock, keys, &held_from, reports)?;
        Ok(())
    }

    fn check_catalog(&self, reports: &mut Reports<'_>, summary: &mut CheckSummary) -> Result<(), Error> {
        // Errors that say nothing about what is on disk end the check.
        let is_of_now = |error: &Error| {
            matches!(error, Error::SnapshotCancelled { .. } | Error::Closed | Error::Stopped { .. })
        };
        let snapshot = self.register_snapshot();
        let lsn = snapshot.lsn();
        let (from, to) = crate::snapshots::scan::row_bounds::<&[u8]>(catalog::OBJECTS, &..);
        let mut rows = Range::new(self, snapshot, None, from, to, Direction::Forward);
        loop {
            let row = match rows.next_row() {
                Ok(None) => return Ok(()),
                Ok(Some((key, value))) => (key.to_vec(), value.to_vec()),
                Err(error) if is_of_now(&error) => return Err(error),
                Err(error) => {
                    reports.tell_error("catalog", &error);
                    return Ok(());
                }
            };
            match self.check_object(&row.0, &row.1, lsn) {
                Ok(is_there) => summary.tables += u64::from(is_there),
                Err(error) if is_of_now(&error) => return Err(error),
                Err(error) => reports.tell_error("catalog", &error),
            }
        }
    }

    /// Whether the object is there: one that was dropped lately may still have its row.
    fn check_object(&self, key: &[u8], row: &[u8], lsn: Lsn) -> Result<bool, Error> {
        let id = catalog::decode_id_key(&row_key::encode(catalog::OBJECTS, key))?;
        let object = ObjectRow::decode(id, row)?;
        let refuse = |problem| Error::Catalog { place: format!("table {:?}", object.name), problem };
        let next = self.objects.next_id();
        if id >= next || object.storage.get() >= next || object.storage.get() < FIRST_USER_TABLE {
            return Err(refuse("its id was never drawn"));
        }
        let name = self.read_row(&catalog::name_key(&object.name), lsn, |row| row.map(<[u8]>::to_vec))?;
        match name.map(|row| NameRow::decode(&object.name, &row)).transpose()? {
            Some(NameRow::Table(named)) if named == id => Ok(true),
            Some(NameRow::Dropped { object: dropped, .. }) if dropped == id => Ok(false),
            // The name was taken since, and the drop is listed; or a checkpoint has deleted the row since it was read.
            _ if self.read_row(&catalog::reclaim_key(object.storage), lsn, |row| row.is_some())? => Ok(false),
            _ if !self.read_row(&catalog::object_key(id), lsn, |row| row.is_some())? => Ok(false),
            Some(_) => Err(refuse("its name is in the list of names for another table")),
            None => Err(refuse("its name is not in the list of names")),
        }
    }
}

/// Checks a database that is not open, even if it cannot be opened.
pub(crate) fn check_directory(
    environment: Environment,
    options: Options,
    report: &mut dyn FnMut(Damage),
) -> Result<CheckSummary, Error> {
    let disk = Arc::clone(&environment.disk);
    let refused = match Engine::open(environment.clone(), options.clone(), Continuation::Same, |_| {}) {
        Ok(engine) => {
            let summary = engine.check(report);
            engine.close()?;
            return summary;
        }
        Err(
            error @ (Error::InUse { .. }
            | Error::NoDatabase { .. }
            | Error::NotEmpty { .. }
            | Error::Encrypted { .. }
            | Error::NotEncrypted { .. }
            | Error::MasterKey { .. }
            | Error::WrongMasterKey { .. }),
        ) => return Err(error),
        Err(error) => {
            tracing::warn!(%error, "the database does not open; its files are checked one by one");
            error
        }
    };
    let mut reports = Reports { report, damages: 0, unreadable: 0 };
    let mut summary = CheckSummary::default();
    if let Some(superblock) = check_superblock(&environment, &mut reports) {
        let keys = match open_keys(&environment, &superblock, &options) {
            Ok(keys) => keys,
            Err(error) => {
                // Nothing more can be read without them.
                reports.tell_error(&disk.location(KEYS_PATH), &error);
                reports.count(&mut summary);
                return Ok(summary);
            }
        };
        let tree_options = TreeOptions { keys: keys.clone(), ..TreeOptions::default() };
        let source = LogSource::new(&disk, keys.as_ref());
        match Tree::open_with_log(&*disk, TreeAccess::Read, tree_options, &source) {
            Ok(opened) => {
                check_tree(&opened.tree, &mut CheckWalk::default(), &mut reports, &mut summary, &mut || {
                    false
                });
                check_prepared(&opened.tree, Some(opened.superblock.in_doubt), &mut reports);
                let runs = check_list_of_runs(&opened.tree, &opened.superblock, &mut reports);
                check_runs(&runs, &opened.tree, &mut reports, &mut summary);
            }
            Err(error) => reports.tell_error(&disk.location(""), &error),
        }
        let holds = check_holds(&environment, &superblock, &mut reports);
        let held_from = || Ok(held_log::held_from(superblock.redo_point, &holds));
        let keys = keys.as_ref();
        summary.log_records += check_held_log(&disk, &superblock, keys, &held_from, &mut reports)?;
        check_log(&environment, &superblock, keys, None, &mut reports, &mut summary);
    }
    if reports.is_clean() {
        // What kept the database from opening is in no file. The catalog is read in an open database only.
        let what = crate::error::chain(&refused);
        reports.tell(Damage { kind: DamageKind::Unreadable, ..Damage::plain("catalog", what) });
    }
    reports.count(&mut summary);
    Ok(summary)
}
