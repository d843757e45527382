//! A database with one set of options, and what it answers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use seawall::{
    Background, Database, Durability, Environment, Error, FormatOptions, ImageCompression, Isolation,
    LockWait, MasterKey, MemoryOptions, Options, PageProtection, Savepoint, SecretKey, Snapshot, Table,
    Transaction, TransactionOptions,
};
use seawall_crash_harness::draw_runs;
use seawall_io::{Clock, SystemClock};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};

use super::script::{Call, SLOTS, Scan, Script};

/// An open transaction and its savepoints.
struct Open {
    transaction: Transaction,
    savepoints: Vec<Savepoint>,
}

pub(super) struct Subject {
    random: SeededRandom,
    options: Options,
    disk: SimulatedDisk,
    database: Option<Database>,
    open: [Option<Open>; SLOTS],
    snapshots: [Option<Snapshot>; SLOTS],
}

/// The first set is a plain one, large enough that nothing but the script asks for work.
fn draw_options(set: u64, random: &mut SeededRandom) -> Options {
    let mut drawn = Options::default();
    drawn.format.page_bytes = *random.pick(&[4096, 8192, 16384, 65536]);
    drawn.format.segment_bytes = *random.pick(&[64 << 10, 128 << 10, 1 << 20]);
    drawn.memory.memtable_bytes = *random.pick(&[64 << 10, 64 << 10, 200_000, 4 << 20]);
    drawn.memory.cache_bytes = *random.pick(&[16 << 10, 128 << 10, 4 << 20]);
    drawn.checkpoint.log_bytes = *random.pick(&[6_000, 60_000, 100 << 20]);
    drawn.checkpoint.chunk_bytes = *random.pick(&[16 << 10, 50_000, 1 << 20]);
    drawn.checkpoint.page_protection = *random.pick(&PageProtection::ALL);
    drawn.checkpoint.page_image_compression = *random.pick(&ImageCompression::ALL);
    drawn.checkpoint.threads = *random.pick(&[1, 1, 2, 3]);
    drawn.recovery.threads = *random.pick(&[1, 1, 2, 4]);
    drawn.log.spare_segments = random.index(4);
    drawn.transaction.lock_wait = LockWait::NoWait;
    drawn.background = if random.chance(1, 4) { Background::Threads } else { Background::Manual };
    drawn.master_key = random.chance(1, 4).then(|| MasterKey::Bytes(SecretKey::from_bytes([9; 32])));
    drawn.checkpoint.runs = draw_runs(random);
    if set > 0 {
        return drawn;
    }
    let background = Background::Manual;
    let mut options = Options { background, ..Options::default() };
    options.transaction.lock_wait = LockWait::NoWait;
    options.format.segment_bytes = 1 << 20;
    options
}

impl Subject {
    pub(super) fn new(set: u64, random: &mut SeededRandom) -> Subject {
        let options = draw_options(set, random);
        Subject {
            random: random.fork(),
            options,
            disk: SimulatedDisk::new(set),
            database: None,
            open: Default::default(),
            snapshots: Default::default(),
        }
    }

    /// Its options, in one line.
    pub(super) fn describe(&self) -> String {
        let FormatOptions { page_bytes, segment_bytes } = self.options.format;
        let MemoryOptions { memtable_bytes, cache_bytes, .. } = self.options.memory;
        let checkpoint = &self.options.checkpoint;
        format!(
            "pages {page_bytes}, segments {segment_bytes}, memtable {memtable_bytes}, cache {cache_bytes}, log {}, \
             chunks {}, {}, {}, {} and {} threads, {} spares, {:?}{}",
            checkpoint.log_bytes,
            checkpoint.chunk_bytes,
            checkpoint.page_protection.name(),
            checkpoint.page_image_compression.name(),
            checkpoint.threads,
            self.options.recovery.threads,
            self.options.log.spare_segments,
            self.options.background,
            if self.options.master_key.is_some() { ", encrypted" } else { "" },
        )
    }

    /// The answers to all calls. What cannot fail and does is the error.
    pub(super) fn run(&mut self, script: &Script) -> Result<Vec<String>, String> {
        self.reopen()?;
        let answer =
            |(number, call)| self.answer(call).map_err(|what| format!("call {number}, {call}: {what}"));
        let answers = script.calls.iter().enumerate().map(answer).collect();
        // An answer that is an error has ended the run; the rest is of no interest.
        self.disk.crash();
        answers
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("a database is open between two calls")
    }

    /// Closes nothing: what is open ends with the database.
    fn reopen(&mut self) -> Result<(), String> {
        let clock: Arc<dyn Clock> = match self.options.background {
            Background::Threads => Arc::new(SystemClock),
            Background::Manual => Arc::new(SimulatedClock::default()),
        };
        let random = Arc::new(SimulatedRandom::new(1));
        let environment = Environment { disk: Arc::new(self.disk.clone()), clock, random };
        let database = Database::open(environment, self.options.clone());
        self.database = Some(database.map_err(|error| format!("open: {error}"))?);
        Ok(())
    }

    /// The options of the next open: what a database cannot change stays.
    fn change_options(&mut self) {
        let drawn = draw_options(1, &mut self.random);
        let Options { format: FormatOptions { page_bytes, segment_bytes }, .. } = self.options;
        let master_key = self.options.master_key.clone();
        self.options = drawn.with(|options| {
            options.format.page_bytes = page_bytes;
            options.format.segment_bytes = segment_bytes;
            options.master_key = master_key;
        });
    }

    fn end_all(&mut self) {
        self.open = Default::default();
        self.snapshots = Default::default();
    }

    // ---- calls ------------------------------------------------------------------------------------------------------

    fn answer(&mut self, call: &Call) -> Result<String, String> {
        Ok(match call {
            Call::Reopen => {
                self.end_all();
                let database = self.database.take().expect("a database is open between two calls");
                database.close().map_err(|error| format!("close: {error}"))?;
                self.change_options();
                self.reopen().map(done)?
            }
            Call::LosePower => self.lose_power().map(done)?,
            Call::Checkpoint => {
                self.database().checkpoint().map(done).map_err(|error| format!("checkpoint: {error}"))?
            }
            Call::Flush => self.database().flush().map(done).map_err(|error| format!("flush: {error}"))?,
            Call::Check => self.check()?,
            Call::ReadEverything => self.read_everything()?,
            Call::TakeSnapshot { .. } | Call::ReadSnapshot { .. } => self.by_snapshot(call),
            Call::Decide { .. }
            | Call::BulkLoad { .. }
            | Call::PutDirectly { .. }
            | Call::DeleteDirectly { .. }
            | Call::CreateDirectly { .. }
            | Call::DropDirectly { .. }
            | Call::TruncateDirectly { .. } => text(self.directly(call)),
            Call::Begin { .. }
            | Call::Commit { .. }
            | Call::CommitAsync { .. }
            | Call::Rollback { .. }
            | Call::Prepare { .. }
            | Call::Get { .. }
            | Call::GetForUpdate { .. }
            | Call::Put { .. }
            | Call::Delete { .. }
            | Call::Scan { .. }
            | Call::Create { .. }
            | Call::Drop { .. }
            | Call::Truncate { .. }
            | Call::Rename { .. }
            | Call::Savepoint { .. }
            | Call::RollbackTo { .. } => self.by_transaction(call),
        })
    }

    fn lose_power(&mut self) -> Result<(), String> {
        self.end_all();
        self.database().flush().map_err(|error| format!("flush: {error}"))?;
        self.disk.crash();
        let after = self.disk.after_power_loss(PowerLoss::LoseAll);
        self.database = None;
        self.disk = after;
        self.change_options();
        self.reopen()
    }

    fn by_snapshot(&mut self, call: &Call) -> String {
        match call {
            Call::TakeSnapshot { slot } => {
                self.snapshots[*slot] = Some(self.database().snapshot());
                done(())
            }
            Call::ReadSnapshot { slot, scan } => match &self.snapshots[*slot] {
                None => "no snapshot".to_owned(),
                Some(snapshot) => text(scan_snapshot(snapshot, scan)),
            },
            other => panic!("{other} is not made by a snapshot"),
        }
    }

    fn by_transaction(&mut self, call: &Call) -> String {
        match call {
            Call::Begin { slot, isolation, durability } => {
                self.open[*slot] = Some(self.begin(*isolation, *durability));
                done(())
            }
            Call::Commit { slot }
            | Call::CommitAsync { slot }
            | Call::Rollback { slot }
            | Call::Prepare { slot, .. } => match self.open[*slot].take() {
                None => "no transaction".to_owned(),
                Some(open) => text(Subject::end(call, open.transaction)),
            },
            Call::Get { slot, .. }
            | Call::GetForUpdate { slot, .. }
            | Call::Put { slot, .. }
            | Call::Delete { slot, .. }
            | Call::Scan { slot, .. }
            | Call::Create { slot, .. }
            | Call::Drop { slot, .. }
            | Call::Truncate { slot, .. }
            | Call::Rename { slot, .. }
            | Call::Savepoint { slot }
            | Call::RollbackTo { slot, .. } => {
                let open = self.open[*slot].take();
                let mut open = open.unwrap_or_else(|| self.begin(Isolation::Snapshot, Durability::Sync));
                let answer = text(inside(&mut open, call));
                self.open[*slot] = Some(open);
                answer
            }
            other => panic!("{other} is not made by a transaction"),
        }
    }

    fn begin(&self, isolation: Isolation, durability: Durability) -> Open {
        let options = TransactionOptions {
            isolation,
            durability,
            lock_wait: LockWait::NoWait,
            ..TransactionOptions::default()
        };
        Open { transaction: self.database().with(options).begin(), savepoints: Vec::new() }
    }

    fn end(call: &Call, transaction: Transaction) -> Result<String, Error> {
        match call {
            // Others see it when it is flushed, and when that is depends on the options.
            Call::CommitAsync { .. } => drop(transaction.commit_async()?.wait()?),
            Call::Rollback { .. } => transaction.rollback(),
            Call::Prepare { gid, .. } => drop(transaction.prepare(gid)?),
            _ => drop(transaction.commit()?),
        }
        Ok(done(()))
    }

    fn directly(&self, call: &Call) -> Result<String, Error> {
        let database = self.database();
        match call {
            Call::PutDirectly { table, key, value } => {
                database.put(&database.table(table)?, key, value).map(done)
            }
            Call::DeleteDirectly { table, key } => database.delete(&database.table(table)?, key).map(done),
            Call::CreateDirectly { table } => database.create_table(table).map(done),
            Call::DropDirectly { table } => database.tables().drop(table).map(done),
            Call::TruncateDirectly { table } => database.tables().truncate(table).map(done),
            Call::Decide { gid, commits: true } => database.two_phase().commit(gid).map(done),
            Call::Decide { gid, commits: false } => database.two_phase().rollback(gid).map(done),
            Call::BulkLoad { table, rows, finished } => self.bulk_load(table, rows, *finished),
            other => panic!("{other} is not made outside of transactions"),
        }
    }

    fn bulk_load(&self, table: &str, rows: &[(Vec<u8>, Vec<u8>)], finished: bool) -> Result<String, Error> {
        let mut load = self.database().tables().bulk_load(table)?;
        rows.iter().try_for_each(|(key, value)| load.add(key, value))?;
        if finished { load.finish().map(done) } else { Ok("given up".to_owned()) }
    }

    fn check(&self) -> Result<String, String> {
        let mut damages = Vec::new();
        let checked = self.database().check(&mut |damage| damages.push(damage.to_string()));
        checked.map_err(|error| format!("check: {error}"))?;
        if damages.is_empty() { Ok("clean".to_owned()) } else { Err(damages.join("; ")) }
    }

    /// All tables with their rows, and what is in doubt.
    fn read_everything(&self) -> Result<String, String> {
        let failed = |error: Error| format!("reading everything: {error}");
        let snapshot = self.database().snapshot();
        let mut content = Vec::new();
        for info in self.database().tables().list().map_err(failed)? {
            let table = snapshot.table(&info.name).map_err(failed)?;
            let rows = rows(snapshot.rows(&table), usize::MAX).map_err(failed)?;
            content.push(format!("{}: {rows}", info.name));
        }
        for transaction in self.database().two_phase().in_doubt().map_err(failed)? {
            // How many rows its last record has depends on the options: a large transaction logs rows before, in parts.
            content.push(format!("{} in doubt in {:?}", transaction.gid, transaction.tables));
        }
        Ok(content.join("; "))
    }
}

fn scan_snapshot(snapshot: &Snapshot, scan: &Scan) -> Result<String, Error> {
    let table = snapshot.table(scan.table)?;
    let bounds = scan.bounds.clone();
    if scan.is_reverse {
        rows(snapshot.range_reverse(&table, bounds), scan.limit)
    } else {
        rows(snapshot.range(&table, bounds), scan.limit)
    }
}

/// A call inside a transaction.
fn inside(open: &mut Open, call: &Call) -> Result<String, Error> {
    let transaction = &mut open.transaction;
    let bytes = |found: Option<Vec<u8>>| {
        found.map_or("nothing".to_owned(), |bytes| format!("{} bytes, {:x}", bytes.len(), hash(&bytes)))
    };
    match call {
        Call::Get { table, key, .. } => {
            let table = transaction.table(table)?;
            transaction.get(&table, key).map(bytes)
        }
        Call::GetForUpdate { table, key, .. } => {
            let table = transaction.table(table)?;
            transaction.get_for_update(&table, key).map(bytes)
        }
        Call::Put { table, key, value, .. } => {
            let table = transaction.table(table)?;
            transaction.put(&table, key, value).map(done)
        }
        Call::Delete { table, key, .. } => {
            let table = transaction.table(table)?;
            transaction.delete(&table, key).map(done)
        }
        Call::Scan { scan, .. } => {
            let table: Table = transaction.table(scan.table)?;
            let Scan { bounds, limit, .. } = scan.clone();
            if scan.is_reverse {
                rows(transaction.range_reverse(&table, bounds), limit)
            } else {
                rows(transaction.range(&table, bounds), limit)
            }
        }
        Call::Create { table, .. } => transaction.create_table(table).map(done),
        Call::Drop { table, .. } => transaction.drop_table(table).map(done),
        Call::Truncate { table, .. } => transaction.truncate_table(table).map(done),
        Call::Rename { from, to, .. } => transaction.rename_table(from, to).map(done),
        Call::Savepoint { .. } => {
            open.savepoints.push(transaction.savepoint());
            Ok(done(()))
        }
        Call::RollbackTo { savepoint, .. } => match open.savepoints.get(*savepoint) {
            None => Ok("no savepoint".to_owned()),
            Some(savepoint) => transaction.rollback_to(savepoint).map(done),
        },
        other => panic!("{other} is not made inside of transactions"),
    }
}

fn done<T>(_: T) -> String {
    "done".to_owned()
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn rows(range: seawall::Range<'_>, limit: usize) -> Result<String, Error> {
    let rows: Vec<(Vec<u8>, Vec<u8>)> = range.take(limit).collect::<Result<_, _>>()?;
    Ok(format!("{} rows, {:x}", rows.len(), hash(&rows)))
}

/// The answer as text: of an error, which one it is.
fn text(answer: Result<String, Error>) -> String {
    answer.unwrap_or_else(|error| match error {
        Error::TableChanged { change, .. } => format!("error TableChanged, {change:?}"),
        error => {
            let text = format!("{error:?}");
            format!("error {}", text.split([' ', '{', '(']).next().unwrap_or_default())
        }
    })
}
