//! One random history: calls on a real database and on the plain model, compared at every step.

mod prepares;
mod steps;
mod transactions;

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use seawall::Lsn;
use seawall::{
    Background, CommitHandle, Database, Durability, Environment, Error, ImageCompression, InDoubtTransaction,
    Isolation, LockWait, OpenMode, Options, PageProtection, Savepoint, Snapshot, Table, Transaction,
    TransactionOptions,
};
use seawall::{MasterKey, SecretKey};
use seawall_crash_harness::draw_runs;
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};

use super::plain::{
    Bounds, Content, Key, Model, Object, Outcome, Overlay, Place, PlainTransaction, Read, Rows, State,
    assert_rows, draw_bounds,
};
use super::prepared::in_doubt;

/// The power is gone: what follows is a reopen.
pub(crate) struct PowerLost;

type Step<T = ()> = Result<T, PowerLost>;

struct Open {
    real: Option<Transaction>,
    plain: PlainTransaction,
    durability: Durability,
    savepoints: Vec<Savepoint>,
}

#[derive(Clone)]
struct Handle {
    real: Table,
    id: u64,
    /// When its name was looked up; of a table that was created, before that.
    as_of: Lsn,
}

struct Held {
    real: Snapshot,
    content: Content,
}

pub(crate) struct History {
    random: SeededRandom,
    disk: SimulatedDisk,
    options: Options,
    database: Option<Database>,
    model: Model,
    keys: Vec<Key>,
    key_bytes_max: usize,
    handles: Vec<Handle>,
    open: Vec<Open>,
    held: Vec<Held>,
    commits: Vec<(CommitHandle, Durability, Lsn)>,
    next_owner: u64,
    /// This history is about tables that come and go.
    defines_often: bool,
}

const NAMES: [&str; 6] = ["a", "b", "c", "größe", "a table with a longer name", "z"];

fn draw_options(random: &mut SeededRandom) -> Options {
    let mut options = Options::default();
    options.format.page_bytes = *random.pick(&[4096, 8192, 16384]);
    options.format.segment_bytes = *random.pick(&[64 << 10, 128 << 10]);
    options.memory.memtable_bytes = *random.pick(&[64 << 10, 100_000, 1 << 20]);
    options.memory.cache_bytes = *random.pick(&[16 << 10, 128 << 10, 1 << 20]);
    options.checkpoint.log_bytes = *random.pick(&[6000, 60_000, 100 << 20]);
    options.checkpoint.chunk_bytes = *random.pick(&[16 << 10, 50_000, 1 << 20]);
    options.checkpoint.page_protection = *random.pick(&PageProtection::ALL);
    options.checkpoint.page_image_compression = *random.pick(&ImageCompression::ALL);
    options.checkpoint.threads = *random.pick(&[1, 1, 3]);
    options.recovery.threads = *random.pick(&[1, 1, 1, 2]);
    options.transaction.durability = *random.pick(&[Durability::Sync, Durability::Async]);
    options.transaction.lock_wait = LockWait::NoWait;
    options.log.spare_segments = random.index(3);
    options.background = Background::Manual;
    options.master_key = random.chance(1, 5).then(|| MasterKey::Bytes(SecretKey::from_bytes([7; 32])));
    options.checkpoint.runs = draw_runs(random);
    options
}

fn draw_keys(random: &mut SeededRandom, bytes_max: usize) -> Vec<Key> {
    let count = random.range(4..50);
    let style = random.below(4);
    let mut keys: Vec<Key> = (0..count)
        .map(|index| match (style, random.below(12)) {
            (_, 0) => {
                let length = random.index(bytes_max + 1);
                random.bytes(length)
            }
            (_, 1) => vec![u8::MAX; random.index(20)],
            (0, _) => index.to_be_bytes().to_vec(),
            (1, _) => [&vec![b'p'; 60][..], &index.to_string().into_bytes()].concat(),
            (2, _) => vec![b'k'; random.index(300)],
            _ => {
                let length = random.index(9);
                random.bytes(length)
            }
        })
        .collect();
    keys.extend([Vec::new(), vec![0], vec![0, 0], vec![b'm'; bytes_max], vec![u8::MAX; bytes_max]]);
    keys
}

fn read_content(snapshot: &Snapshot, database: &Database) -> Result<Content, Error> {
    let mut content = BTreeMap::new();
    for info in database.tables().list()? {
        let table = snapshot.table(&info.name)?;
        let rows: Rows = snapshot.range::<&[u8]>(&table, ..).collect::<Result<_, _>>()?;
        let mut backwards: Rows = snapshot.range_reverse::<&[u8]>(&table, ..).collect::<Result<_, _>>()?;
        backwards.reverse();
        assert_rows(&backwards, &rows, &|| format!("{} backwards", info.name));
        assert_eq!(table.id(), info.id);
        content.insert(info.name, (info.id, rows));
    }
    Ok(content)
}

fn assert_content(actual: &Content, expected: &Content, what: &str) {
    let tables =
        |content: &Content| content.iter().map(|(name, (id, _))| (name.clone(), *id)).collect::<Vec<_>>();
    assert_eq!(tables(actual), tables(expected), "{what}: tables");
    for (name, (_, rows)) in expected {
        assert_rows(&actual[name].1, rows, &|| format!("{what}: table {name}"));
    }
}

impl History {
    pub(crate) fn run(seed: u64) {
        let mut random = SeededRandom::new(seed);
        let options = draw_options(&mut random);
        let page_bytes = usize::try_from(options.format.page_bytes).expect("a page is small");
        let key_bytes_max = (page_bytes / 8 * 5).min(8 + 4096) - 8;
        let keys = draw_keys(&mut random, key_bytes_max);
        let mut history = History {
            disk: SimulatedDisk::new(seed),
            database: None,
            model: Model::new(Lsn::ZERO, State::default()),
            handles: Vec::new(),
            open: Vec::new(),
            held: Vec::new(),
            commits: Vec::new(),
            next_owner: 0,
            defines_often: random.chance(1, 4),
            options,
            keys,
            key_bytes_max,
            random,
        };
        assert!(history.open_database().is_ok(), "nothing cuts the power yet");
        for _ in 0..history.random.range(30..160) {
            if history.random.chance(1, 60) {
                let call = history.disk.calls() + history.random.below(60);
                history.disk.crash_at(call);
            }
            if history.step().is_err() {
                history.crash();
            }
        }
        while history.end().is_err() {
            history.crash();
        }
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("a database is open between two steps")
    }

    /// The value of a call that must succeed, unless the power went.
    fn must<T>(&self, result: Result<T, Error>) -> Step<T> {
        match result {
            Ok(value) => Ok(value),
            Err(_) if self.disk.crashed() => Err(PowerLost),
            Err(error) => panic!("unexpected error: {error}"),
        }
    }

    fn expect<T>(&self, result: &Result<T, Error>, expected: Outcome, call: &str) -> Step {
        if result.is_err() && self.disk.crashed() {
            return Err(PowerLost);
        }
        let error = result.as_ref().err();
        assert_eq!(Outcome::of(result), Some(expected), "{call}: {error:?}");
        Ok(())
    }

    /// What is visible now, which must include all that was acknowledged.
    fn visible(&self) -> Lsn {
        let lsn = self.database().snapshot().lsn();
        let sees_all = lsn >= self.model.acknowledged || self.disk.crashed();
        assert!(sees_all, "{lsn} does not see {}", self.model.acknowledged);
        lsn
    }

    fn step(&mut self) -> Step {
        if self.defines_often && self.random.chance(1, 3) {
            return if self.random.chance(1, 2) {
                self.define_in_transaction()
            } else {
                self.define_directly()
            };
        }
        match self.random.below(100) {
            0..24 => self.write_in_transaction(),
            24..34 => self.read_in_transaction(),
            34..42 => self.scan_in_transaction(),
            42..46 => self.define_in_transaction(),
            46..51 => self.savepoint_or_rollback(),
            51..59 => self.end_transaction(),
            59..62 => self.prepare_transaction(),
            62..65 => self.decide(),
            65..70 => self.write_directly(),
            70..74 => self.read_directly(),
            74..78 => self.define_directly(),
            78..81 => self.hold_or_drop_snapshot(),
            81..85 => self.check_held_snapshots(),
            85..88 => self.scan_while_writing(),
            88..90 => self.bulk_load(),
            90..93 => self.checkpoint(),
            93..95 => self.flush_or_wait(),
            95..97 => self.open_handle(),
            97 => self.check(),
            98 => self.close_and_reopen(),
            _ => Err(PowerLost),
        }
    }

    // ---- drawing --------------------------------------------------------------------------------------------------

    fn key(&mut self) -> Key {
        if self.random.chance(1, 60) {
            return vec![b'x'; self.key_bytes_max + 1 + self.random.index(3)];
        }
        self.random.pick(&self.keys).clone()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(40) {
            0 => self.random.index(40_000),
            1..4 => self.random.index(3000),
            4..6 => 0,
            _ => self.random.index(40),
        };
        self.random.bytes(length)
    }

    fn name(&mut self) -> String {
        match self.random.below(40) {
            0 => String::new(),
            1 => "n".repeat(256),
            _ => (*self.random.pick(&NAMES)).to_owned(),
        }
    }

    fn handle(&mut self) -> Option<Handle> {
        if self.handles.is_empty() {
            return None;
        }
        let index = self.random.index(self.handles.len());
        Some(self.handles[index].clone())
    }

    fn remember(&mut self, table: Table, as_of: Lsn) {
        if self.handles.len() >= 8 {
            let index = self.random.index(self.handles.len());
            self.handles.swap_remove(index);
        }
        let id = table.id();
        self.handles.push(Handle { real: table, id, as_of });
    }

    /// An open transaction, taken out of the list; put it back with `self.open.push`.
    fn transaction(&mut self) -> Open {
        if self.open.len() < 4 && (self.open.is_empty() || self.random.chance(1, 5)) {
            let isolation =
                *self.random.pick(&[Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable]);
            let durability = *self.random.pick(&[Durability::Sync, Durability::Async]);
            self.next_owner += 1;
            let options = TransactionOptions {
                isolation,
                durability,
                lock_wait: LockWait::NoWait,
                ..TransactionOptions::default()
            };
            return Open {
                real: Some(self.database().with(options).begin()),
                plain: PlainTransaction::new(self.next_owner, isolation),
                durability,
                savepoints: Vec::new(),
            };
        }
        let index = self.random.index(self.open.len());
        self.open.swap_remove(index)
    }

    /// Runs a step with one of the open transactions and checks what that did to its snapshot.
    fn with_transaction(
        &mut self,
        step: impl FnOnce(&mut History, &mut Open, &mut Transaction) -> Step,
    ) -> Step {
        let mut open = self.transaction();
        let mut real = open.real.take().expect("an open transaction is real");
        let result = step(self, &mut open, &mut real);
        if result.is_ok() {
            let snapshot = if open.plain.has_given_up() { None } else { open.plain.snapshot };
            assert_eq!(real.snapshot_lsn(), snapshot);
        }
        open.real = Some(real);
        self.open.push(open);
        result
    }
}

impl History {
    fn bounds(&mut self) -> Bounds {
        draw_bounds(&mut self.random, &self.keys)
    }

    fn end(&mut self) -> Step {
        self.check_held_snapshots()?;
        self.check()?;
        self.close_and_reopen()?;
        self.check()
    }

    fn reopen(&mut self) -> Step {
        let mut options =
            Options { master_key: self.options.master_key.clone(), ..draw_options(&mut self.random) };
        options.format.page_bytes = self.options.format.page_bytes;
        options.format.segment_bytes = self.options.format.segment_bytes;
        if self.random.chance(1, 4) && !self.disk.crashed() {
            self.read_only(&options);
        }
        self.options = options;
        self.open_database()
    }

    fn open_database(&mut self) -> Step {
        let environment = Environment {
            disk: Arc::new(self.disk.clone()),
            clock: Arc::new(SimulatedClock::default()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let database = Database::open(environment, self.options.clone());
        self.database = Some(self.must(database)?);
        Ok(())
    }

    /// A read-only open shows the same as the one that follows, and changes nothing.
    fn read_only(&mut self, options: &Options) {
        let copy = self.disk.copy();
        let environment = Environment {
            disk: Arc::new(copy.clone()),
            clock: Arc::new(SimulatedClock::default()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let options = Options { mode: OpenMode::ReadOnly, ..options.clone() };
        let files = copy.list_all();
        let database =
            Database::open(environment, options).unwrap_or_else(|error| panic!("opening read-only: {error}"));
        let content = read_content(&database.snapshot(), &database)
            .unwrap_or_else(|error| panic!("reading everything read-only: {error}"));
        let mut survivors = self.model.survivors();
        let in_doubt = in_doubt(&database);
        let survives = survivors.any(|state| {
            steps::same_but_for_unknown_ids(&state.content(), &content) && state.has_in_doubt(&in_doubt)
        });
        assert!(survives, "read-only shows what never was");
        assert!(matches!(database.create_table("new"), Err(Error::ReadOnly)));
        database.close().unwrap_or_else(|error| panic!("closing what is read-only: {error}"));
        assert_eq!(copy.list_all(), files, "read-only changed files");
    }

    fn content_now(&self) -> Content {
        let snapshot = self.database().snapshot();
        read_content(&snapshot, self.database()).unwrap_or_else(|error| panic!("reading everything: {error}"))
    }

    /// Everything anew after a reopen that found `state`.
    fn start_over(&mut self, state: State) {
        let lsn = self.database().snapshot().lsn();
        self.model = Model::new(lsn, state);
        self.handles.clear();
        for name in self.model.newest().content().into_keys() {
            let table =
                self.database().table(&name).unwrap_or_else(|error| panic!("opening {name}: {error}"));
            self.remember(table, lsn);
        }
    }

    fn range_of(rows: &Rows, bounds: &Bounds) -> Rows {
        rows.iter().filter(|(key, _)| bounds.contains(key)).cloned().collect()
    }
}
