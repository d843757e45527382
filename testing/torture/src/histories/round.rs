//! One database, its clients, and the crashes between its lives.

use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use seawall::{Database, Durability, Environment, Error, Isolation, Options, PageProtection, Table};
use seawall_io::{Disk, OsDisk};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};
use tempfile::TempDir;

use super::clients::{Client, Recorder, Work, decide_what_is_in_doubt, look_at_everything};
use super::history::{self, History};
use crate::error::{TortureError, io_error};
use crate::finding::Report;
use crate::panics::{caught, said};

const TABLE: &str = "lists";

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The database is closed.
    Close,
    /// During the disk call so many calls on, everything stops; the disk keeps all that it was given.
    Kill { calls: u64 },
    /// The same, and the disk loses what was not synced.
    PowerLoss { calls: u64 },
}

/// What a seed means.
#[derive(Clone, Debug)]
struct Plan {
    clients: u32,
    work: Work,
    options: Options,
    lives: Vec<End>,
    /// On the files of the operating system, where nothing crashes and disk calls meet each other.
    is_on_files: bool,
    random: SeededRandom,
}

impl Plan {
    fn new(seed: u64, isolation: Isolation) -> Plan {
        let mut random = SeededRandom::new(seed);
        let is_on_files = random.chance(1, 4);
        let lives: Vec<End> = (0..random.range(1..4)).map(|_| end(&mut random, is_on_files)).collect();
        let async_percent = *random.pick(&[0, 20, 90]);
        let (transactions, durability) = (random.range(60..160), Durability::Sync);
        let work = Work { isolation, transactions, async_percent, durability };
        let mut options = Options::default();
        options.format.segment_bytes = 64 << 10;
        options.memory.memtable_bytes = *random.pick(&[1 << 20, 16 << 20]);
        options.memory.cache_bytes = 1 << 20;
        options.checkpoint.log_bytes = *random.pick(&[128 << 10, 1 << 20]);
        options.checkpoint.threads = *random.pick(&[1, 2, 3]);
        // The longer one leaves a power loss more to take.
        options.log.flush_interval = Duration::from_millis(*random.pick(&[10, 1_000]));
        options.checkpoint.page_protection =
            *random.pick(&[PageProtection::RecoveryFile, PageProtection::LogImages]);
        let clients = *random.pick(&[4, 6, 8]);
        Plan { clients, work, options, lives, is_on_files, random }
    }
}

fn end(random: &mut SeededRandom, is_on_files: bool) -> End {
    let calls = random.range(1..600);
    match random.below(5) {
        0 => End::Close,
        _ if is_on_files => End::Close,
        1 | 2 => End::Kill { calls },
        _ => End::PowerLoss { calls },
    }
}

/// Where a database lives.
enum Place {
    Simulated(SimulatedDisk),
    Files(TempDir),
}

impl Place {
    fn new(plan: &mut Plan) -> Result<Place, TortureError> {
        if plan.is_on_files {
            let directory = tempfile::tempdir().map_err(io_error("make a directory for a database"))?;
            return Ok(Place::Files(directory));
        }
        Ok(Place::Simulated(SimulatedDisk::new(plan.random.next_u64())))
    }

    fn disk(&self) -> Arc<dyn Disk> {
        match self {
            Place::Simulated(disk) => Arc::new(disk.clone()),
            Place::Files(directory) => Arc::new(OsDisk::new(directory.path().join("db"))),
        }
    }

    fn open(&self, options: &Options) -> Result<(Database, Table), Error> {
        let environment = Environment::of_the_system(self.disk());
        let database = Database::open(environment, options.clone())?;
        let table = match database.table(TABLE) {
            Err(Error::NoSuchTable { .. }) => database.create_table(TABLE)?,
            found => found?,
        };
        Ok((database, table))
    }

    fn crash_after(&self, calls: u64) {
        if let Place::Simulated(disk) = self {
            disk.crash_at(disk.calls() + calls);
        }
    }

    fn has_crashed(&self) -> bool {
        matches!(self, Place::Simulated(disk) if disk.crashed())
    }

    /// What is there after the end of a life.
    fn after(self, end: End, random: &mut SeededRandom) -> Place {
        match (self, end) {
            (Place::Simulated(disk), End::Kill { .. }) => {
                disk.crash();
                Place::Simulated(disk.copy())
            }
            (Place::Simulated(disk), End::PowerLoss { .. }) => {
                disk.crash();
                Place::Simulated(disk.after_power_loss(PowerLoss::Random(random.next_u64())))
            }
            (place, End::Close | End::Kill { .. } | End::PowerLoss { .. }) => place,
        }
    }
}

/// Why there is no history.
pub(super) enum Stop {
    /// The database failed where nothing was wrong with its disk, or is damaged.
    Found(String),
    Failed(TortureError),
}

impl From<TortureError> for Stop {
    fn from(error: TortureError) -> Stop {
        Stop::Failed(error)
    }
}

/// Runs the round of a seed; what its clients saw: up to each power loss that took something, and at the end.
pub(super) fn run(seed: u64, isolation: Isolation, report: &mut Report) -> Result<Vec<History>, Stop> {
    caught(|| Ok(run_lives(seed, isolation, report))).unwrap_or_else(|panic| Err(Stop::Found(panic)))
}

fn run_lives(seed: u64, isolation: Isolation, report: &mut Report) -> Result<Vec<History>, Stop> {
    let mut plan = Plan::new(seed, isolation);
    let recorder = Recorder::default();
    let mut place = Place::new(&mut plan)?;
    let mut histories = Vec::new();
    let mut last = None;
    for end in plan.lives.clone() {
        let (database, table) = go_on(&mut plan, &place, last, &recorder, &mut histories, report)?;
        last = Some(end);
        match end {
            End::Kill { calls } | End::PowerLoss { calls } => place.crash_after(calls),
            End::Close => {}
        }
        let mut random = plan.random.fork();
        live(&plan, &mut random, &database, &table, &recorder, &place)?;
        report.count("checkpoints", database.statistics().checkpoints.completed);
        match database.close() {
            Err(error) if !place.has_crashed() => {
                return Err(Stop::Found(format!("closing failed: {error}")));
            }
            Ok(()) | Err(_) => {}
        }
        report.count(name(end), 1);
        place = place.after(end, &mut plan.random);
    }
    let (database, _) = go_on(&mut plan, &place, last, &recorder, &mut histories, report)?;
    finish(database)?;
    histories.push(recorder.into_history());
    Ok(histories)
}

/// Opens the database after the end of its last life, if it had one, and looks at everything.
fn go_on(
    plan: &mut Plan,
    place: &Place,
    last: Option<End>,
    recorder: &Recorder,
    histories: &mut Vec<History>,
    report: &mut Report,
) -> Result<(Database, Table), Stop> {
    let before = recorder.so_far();
    let found = |error: Error| Stop::Found(format!("opening failed: {error}"));
    let (database, table) = place.open(&plan.options).map_err(found)?;
    let decided = decide_what_is_in_doubt(&database, recorder, &mut plan.random);
    let failed = |error| Stop::Found(format!("deciding what is in doubt failed: {error}"));
    report.count("transactions decided after a crash", decided.map_err(failed)?);
    recorder.recovered();
    let looked = look_at_everything(&database, &table, recorder, u32::MAX, history::Place::default());
    looked.map_err(|error| Stop::Found(format!("reading everything failed: {error}")))?;
    if matches!(last, Some(End::PowerLoss { .. })) {
        let gone = recorder.lose_what_is_gone().map_err(Stop::Found)?;
        report.count("commits lost with the power", gone);
        if gone > 0 {
            histories.push(before);
        }
    }
    Ok((database, table))
}

fn name(end: End) -> &'static str {
    match end {
        End::Close => "closes",
        End::Kill { .. } => "kills",
        End::PowerLoss { .. } => "power losses",
    }
}

fn live(
    plan: &Plan,
    random: &mut SeededRandom,
    database: &Database,
    table: &Table,
    recorder: &Recorder,
    place: &Place,
) -> Result<(), Stop> {
    let is_dead = || place.has_crashed();
    let ended: Vec<thread::Result<Result<(), Error>>> = thread::scope(|scope| {
        let start = |number| {
            let (work, random, is_dead) = (plan.work, random.fork(), &is_dead);
            let client = Client { number, server: 0, database, table, recorder, work, random, is_dead };
            scope.spawn(move || client.run())
        };
        let threads: Vec<_> = (0..plan.clients).map(start).collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    });
    all_right(ended, place.has_crashed())
}

/// Without power a client is refused; nothing lets it panic.
fn all_right(ended: Vec<thread::Result<Result<(), Error>>>, has_crashed: bool) -> Result<(), Stop> {
    for ended in ended {
        match ended {
            Err(panic) => return Err(Stop::Found(format!("a client ended with a {}", said(&*panic)))),
            Ok(Err(error)) if !has_crashed => {
                return Err(Stop::Found(format!("a client was refused: {error}")));
            }
            Ok(Ok(()) | Err(_)) => {}
        }
    }
    Ok(())
}

/// After the last life: every page.
fn finish(database: Database) -> Result<(), Stop> {
    let failed = |error: Error| Stop::Found(format!("looking at the end failed: {error}"));
    let mut damage = Vec::new();
    database.check(&mut |found| damage.push(found.to_string())).map_err(failed)?;
    database.close().map_err(failed)?;
    if damage.is_empty() { Ok(()) } else { Err(Stop::Found(format!("`check` found {}", damage.join("; ")))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_client_is_a_finding_even_without_power() {
        let refused = || Ok(Err(Error::Stopped { cause: "power lost".to_owned() }));
        assert!(all_right(vec![Ok(Ok(())), refused()], true).is_ok());
        assert!(matches!(all_right(vec![refused()], false), Err(Stop::Found(_))));
        let panicked = thread::spawn(|| panic!("row {} is there twice", 7)).join().map(|()| Ok(()));
        let Err(Stop::Found(what)) = all_right(vec![refused(), panicked], true) else {
            panic!("it is passed over")
        };
        assert_eq!(what, "a client ended with a panic: row 7 is there twice");
    }
}
