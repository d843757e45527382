//! What is done to a database while things go wrong.

use std::fmt;
use std::sync::Arc;

use seawall::{Database, Durability, Error};
use seawall_crash_harness::state::{Change, Rows, State};
use seawall_simulation::SeededRandom;

/// The table that is always there; transactions in doubt use no other, so that others can be dropped.
pub(super) const KEPT: &str = "kept";
const TABLES: [&str; 3] = ["a", "b", "c"];
const KEYS: u64 = 120;

/// How a commit is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Sync,
    Async,
    /// Handed over, and waited for by its handle.
    Pipelined,
}

/// One call, or a few that belong together.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Commit {
        changes: Vec<Change>,
        wait: Wait,
    },
    RollBack {
        changes: Vec<Change>,
    },
    /// A change of definitions, in a transaction of its own.
    Define(Change),
    Prepare {
        gid: String,
        changes: Vec<Change>,
    },
    Decide {
        gid: String,
        commits: bool,
    },
    BulkLoad {
        table: String,
        rows: Rows,
    },
    Checkpoint,
    Flush,
    Get {
        table: String,
        key: Vec<u8>,
    },
    Statistics,
}

impl Step {
    /// Draws one that makes sense in `state`. `number` tells values and gids of all steps apart.
    pub(super) fn draw(random: &mut SeededRandom, state: &State, number: u64) -> Step {
        let table = (*random.pick(&TABLES)).to_owned();
        let is_there = state.tables.contains_key(&table);
        let gid = random.below(state.prepared.len().max(1) as u64);
        let in_doubt = state.prepared.keys().nth(usize::try_from(gid).unwrap_or(0)).cloned();
        match (random.below(24), in_doubt) {
            (0, _) if is_there => Step::Define(Change::Drop { table }),
            (1, _) if is_there => Step::Define(Change::Truncate { table }),
            (0..=2, _) if !is_there => Step::Define(Change::Create { table }),
            (2, _) => match TABLES.iter().find(|name| !state.tables.contains_key(**name)) {
                Some(to) => Step::Define(Change::Rename { from: table, to: (*to).to_owned() }),
                None => Step::Flush,
            },
            (3, _) if !is_there => {
                let count = random.range(1..400);
                let row = |random: &mut SeededRandom, row: u64| (key(row), value(random, number));
                Step::BulkLoad { table, rows: (0..count).map(|number| row(random, number)).collect() }
            }
            (4, _) => {
                let gid = format!("gid {number}");
                let change = |row| Change::Put {
                    table: KEPT.to_owned(),
                    key: format!("{gid}/{row}").into_bytes(),
                    value: format!("{number}").into_bytes().into(),
                };
                Step::Prepare { changes: (0..random.range(1..4)).map(change).collect(), gid }
            }
            (5 | 6, Some(gid)) => Step::Decide { gid, commits: random.chance(1, 2) },
            (7 | 8, _) => Step::Checkpoint,
            (9, _) => Step::Flush,
            (10, _) => Step::RollBack { changes: changes(random, state, number) },
            (11 | 12, _) => Step::Get { table: KEPT.to_owned(), key: key(random.below(KEYS)) },
            (13, _) => Step::Statistics,
            _ => {
                let wait = *random.pick(&[Wait::Sync, Wait::Sync, Wait::Async, Wait::Pipelined]);
                Step::Commit { changes: changes(random, state, number), wait }
            }
        }
    }

    /// What is there once it has succeeded; `None`: what was there before.
    pub(super) fn after(&self, state: &State) -> Option<State> {
        let mut next = state.clone();
        match self {
            Step::Commit { changes, .. } => changes.iter().for_each(|change| next.apply(change)),
            Step::Define(change) => next.apply(change),
            Step::Prepare { gid, changes } => {
                next.prepared.insert(gid.clone(), Arc::new(changes.clone()));
            }
            Step::Decide { gid, commits } => next.decide(gid, *commits),
            Step::BulkLoad { table, rows } => {
                next.tables.insert(table.clone(), Arc::new(rows.clone()));
            }
            Step::RollBack { .. } | Step::Checkpoint | Step::Flush | Step::Get { .. } | Step::Statistics => {
                return None;
            }
        }
        Some(next)
    }

    /// Whether everything so far is on stable storage once it has succeeded.
    pub(super) fn makes_durable(&self) -> bool {
        match self {
            Step::Commit { wait, .. } => *wait != Wait::Async,
            Step::RollBack { .. } | Step::Get { .. } | Step::Statistics => false,
            Step::Define(_)
            | Step::Prepare { .. }
            | Step::Decide { .. }
            | Step::BulkLoad { .. }
            | Step::Checkpoint
            | Step::Flush => true,
        }
    }

    /// Does it. A `get` must give what `state` has.
    pub(super) fn run(&self, database: &Database, state: &State) -> Result<(), Failure> {
        match self {
            Step::Commit { changes, wait } => commit(database, changes, *wait)?,
            Step::RollBack { changes } => {
                let mut transaction = database.begin();
                changes.iter().try_for_each(|change| change.run(&mut transaction))?;
            }
            Step::Define(change) => change.define(database)?,
            Step::Prepare { gid, changes } => {
                let mut transaction = database.begin();
                changes.iter().try_for_each(|change| change.run(&mut transaction))?;
                transaction.prepare(gid)?;
            }
            Step::Decide { gid, commits: true } => drop(database.two_phase().commit(gid)?),
            Step::Decide { gid, commits: false } => drop(database.two_phase().rollback(gid)?),
            Step::BulkLoad { table, rows } => {
                let mut load = database.tables().bulk_load(table)?;
                rows.iter().try_for_each(|(key, value)| load.add(key, value))?;
                load.finish()?;
            }
            Step::Checkpoint => database.checkpoint().map(|_| ())?,
            Step::Flush => drop(database.flush()?),
            Step::Get { table, key } => {
                let found = database.get(&database.table(table)?, key)?;
                let wanted = state.tables.get(table).and_then(|rows| rows.get(key));
                if found.as_deref() != wanted.map(|value| &value[..]) {
                    return Err(Failure::WrongAnswer(format!(
                        "get of {} gives {:?} bytes where {:?} are expected",
                        key.escape_ascii(),
                        found.map(|value| value.len()),
                        wanted.map(|value| value.len()),
                    )));
                }
            }
            Step::Statistics => {
                let seen = database.statistics();
                if seen.log.flushed > seen.log.appended || seen.transactions.visible > seen.log.appended {
                    return Err(Failure::WrongAnswer(format!("statistics contradict themselves: {seen:?}")));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Commit { changes, wait } => write!(formatter, "commit, {wait:?}:")
                .and_then(|()| changes.iter().try_for_each(|change| write!(formatter, " {change}"))),
            Step::RollBack { changes } => write!(formatter, "roll back {} changes", changes.len()),
            Step::Define(change) => write!(formatter, "{change}"),
            Step::Prepare { gid, changes } => write!(formatter, "prepare {gid:?}, {} changes", changes.len()),
            Step::Decide { gid, commits: true } => write!(formatter, "commit prepared {gid:?}"),
            Step::Decide { gid, commits: false } => write!(formatter, "roll back prepared {gid:?}"),
            Step::BulkLoad { table, rows } => write!(formatter, "load {} rows into {table}", rows.len()),
            Step::Checkpoint => formatter.write_str("checkpoint"),
            Step::Flush => formatter.write_str("flush"),
            Step::Get { table, key } => write!(formatter, "get {} of {table}", key.escape_ascii()),
            Step::Statistics => formatter.write_str("statistics"),
        }
    }
}

/// Why a step did not do what it is for.
#[derive(Debug)]
pub(super) enum Failure {
    Error(Error),
    WrongAnswer(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

fn commit(database: &Database, changes: &[Change], wait: Wait) -> Result<(), Error> {
    let mut transaction = database.begin();
    changes.iter().try_for_each(|change| change.run(&mut transaction))?;
    match wait {
        Wait::Sync => drop(transaction.commit()?),
        Wait::Async => {
            transaction.set_durability(Durability::Async);
            transaction.commit()?;
        }
        Wait::Pipelined => drop(transaction.commit_async()?.wait()?),
    }
    Ok(())
}

fn changes(random: &mut SeededRandom, state: &State, number: u64) -> Vec<Change> {
    let tables: Vec<&String> = state.tables.keys().collect();
    let change = |random: &mut SeededRandom| {
        let (table, key) = ((*random.pick(&tables)).clone(), key(random.below(KEYS)));
        match random.chance(5, 6) {
            true => Change::Put { table, key, value: value(random, number) },
            false => Change::Delete { table, key },
        }
    };
    (0..random.range(1..7)).map(|_| change(random)).collect()
}

fn key(number: u64) -> Vec<u8> {
    let mut key = format!("key {number:06}").into_bytes();
    if number.is_multiple_of(17) {
        key.resize(300, b'.');
    }
    key
}

/// Says which step wrote it, wherever it is looked at.
fn value(random: &mut SeededRandom, number: u64) -> Arc<[u8]> {
    let bytes = *random.pick(&[0, 8, 80, 80, 800, 3_000, 12_000]);
    format!("{number:08}").into_bytes().repeat(bytes / 8).into()
}
