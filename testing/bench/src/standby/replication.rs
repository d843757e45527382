//! The log of a load: how long a primary took to write it, and a standby to receive and apply it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use seawall::{Background, Database, Durability, Options, Table};
use serde::Serialize;

use crate::error::BenchError;
use crate::random::Random;
use crate::scratch::Scratch;
use crate::standby::{ENGINE, TABLE, copy, failed, follow, open, primary, receive, role};
use crate::usage::{Usage, now};

/// Rows of a large transaction, of three texts of so many digits.
const LARGE_ROWS: usize = 10_000;
const TEXTS: usize = 3;
const TEXT_DIGITS: usize = 135;
/// Of a mixed load, one transaction in so many drops a table and makes it again, and one in so many is large.
const MIXED_DROP: u64 = 10;
const MIXED_LARGE: u64 = 10_000;
const MIXED_TABLES: u64 = 1000;
/// As a standby's receiver.
const SYNC_BYTES: u64 = 8 << 20;
const CATCH_UP: Duration = Duration::from_secs(3600);

/// What a standby is to catch up with.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplicationArguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// What the primary does
    #[arg(long, value_parser = PossibleValuesParser::new(["update", "two-phase", "drop", "drop-4", "truncate", "large", "mixed"]))]
    load: String,
    /// How often; of drop-4, how many tables
    #[arg(long, default_value_t = 100_000)]
    count: u64,
}

/// One load.
#[derive(Debug, Serialize)]
struct Replication {
    load: String,
    count: u64,
    log_bytes: u64,
    produce_seconds: f64,
    produce_cpu_seconds: f64,
    receive_seconds: f64,
    receive_cpu_seconds: f64,
    apply_seconds: f64,
    apply_cpu_seconds: f64,
    rows: u64,
    applied_rows_per_second: f64,
    /// Receiving and applying at the same time, with the threads of a standby.
    catch_up_seconds: f64,
    catch_up_cpu_seconds: f64,
    /// That against producing.
    catch_up_share: f64,
    catch_up_cpu_share: f64,
}

/// Time and processor time.
struct Spent {
    seconds: f64,
    cpu: f64,
}

fn timed<T>(work: impl FnOnce() -> Result<T, BenchError>) -> Result<(T, Spent), BenchError> {
    let (begun, before) = (now(), Usage::of_this_process());
    let done = work()?;
    let cpu = Usage::of_this_process().since(&before).cpu.as_secs_f64();
    Ok((done, Spent { seconds: begun.elapsed().as_secs_f64(), cpu }))
}

/// Returns how many loads failed: none, for an error ends the run.
pub(crate) fn replicate(arguments: &ReplicationArguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    // So that the primary is bound by what it does, and not by its syncs.
    let options = Options::default().with(|options| options.transaction.durability = Durability::Async);
    let place = |name: &str| scratch.directory().join(name);
    let primary = primary(&place("primary"), &options)?;
    prepare(&primary, arguments)?;
    primary.close().map_err(failed("close"))?;
    copy(&place("primary"), &place("standby"))?;
    copy(&place("primary"), &place("live"))?;
    rustix::fs::sync();
    let primary = open(&place("primary"), &options)?;
    let load = Load { database: &primary, arguments, rows: digits() };
    let ((), produced) = timed(|| load.run())?;
    // The calling thread applies, so that receiving and applying are told apart.
    let manual = Options { background: Background::Manual, ..options.clone() };
    let standby = follow(&place("standby"), &manual)?;
    let (log_bytes, received) = timed(|| receive(&primary, &standby, SYNC_BYTES))?;
    let (_, applied) = timed(|| role(&standby)?.apply().map_err(failed("apply")))?;
    let rows = role(&standby)?.statistics().map_err(failed("ask"))?.rows;
    standby.close().map_err(failed("close"))?;
    let standby = follow(&place("live"), &options)?;
    let ((), caught_up) = timed(|| {
        receive(&primary, &standby, SYNC_BYTES)?;
        let end = standby.log().flushed();
        role(&standby)?.wait_applied(end, CATCH_UP).map_err(failed("apply"))
    })?;
    let per = |part: f64, whole: f64| part / whole.max(1e-9);
    let figures = Replication {
        load: arguments.load.clone(),
        count: arguments.count,
        log_bytes,
        rows,
        applied_rows_per_second: per(rows as f64, applied.seconds),
        catch_up_share: per(caught_up.seconds, produced.seconds),
        catch_up_cpu_share: per(caught_up.cpu, produced.cpu),
        produce_seconds: produced.seconds,
        produce_cpu_seconds: produced.cpu,
        receive_seconds: received.seconds,
        receive_cpu_seconds: received.cpu,
        apply_seconds: applied.seconds,
        apply_cpu_seconds: applied.cpu,
        catch_up_seconds: caught_up.seconds,
        catch_up_cpu_seconds: caught_up.cpu,
    };
    println!("{}", serde_json::to_string(&figures)?);
    standby.close().map_err(failed("close"))?;
    primary.close().map_err(failed("close"))?;
    scratch.remove()?;
    Ok(0)
}

struct Load<'a> {
    database: &'a Database,
    arguments: &'a ReplicationArguments,
    rows: Vec<[u8; TEXTS * TEXT_DIGITS]>,
}

fn name_of(number: u64) -> String {
    format!("table {number}")
}

fn random_key(number: u64) -> [u8; 8] {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40).to_be_bytes()
}

/// Tables that the load gives up.
fn prepare(database: &Database, arguments: &ReplicationArguments) -> Result<(), BenchError> {
    let tables = match arguments.load.as_str() {
        "drop" | "drop-4" | "truncate" => arguments.count,
        "mixed" => MIXED_TABLES,
        _ => 0,
    };
    for number in 0..tables {
        let table = database.create_table(&name_of(number)).map_err(failed("create a table"))?;
        database.put(&table, b"k", b"v").map_err(failed("put"))?;
    }
    Ok(())
}

impl Load<'_> {
    fn run(&self) -> Result<(), BenchError> {
        let table = self.database.table(TABLE).map_err(failed("open a table"))?;
        let step = if self.arguments.load == "drop-4" { 4 } else { 1 };
        for number in (0..self.arguments.count).step_by(step) {
            match self.arguments.load.as_str() {
                "update" => self.update(&table, number)?,
                "two-phase" => self.two_phase(&table, number)?,
                "drop" | "drop-4" => self.drop_tables(number, number + step as u64)?,
                "truncate" => {
                    self.database.tables().truncate(&name_of(number)).map_err(failed("truncate"))?
                }
                "mixed" if number % MIXED_LARGE == MIXED_LARGE - 1 => self.insert_many(&table, number)?,
                "mixed" if number % MIXED_DROP == 0 => {
                    self.drop_and_create(number / MIXED_DROP % MIXED_TABLES)?
                }
                "mixed" => self.update(&table, number)?,
                "large" => self.insert_many(&table, number)?,
                other => {
                    let fact = format!("there is no load {other}");
                    return Err(BenchError::Wrong { engine: ENGINE, fact });
                }
            }
        }
        // Durable with all before it.
        self.database.with(Durability::Sync).put(&table, b"last", b"durable").map_err(failed("put"))?;
        Ok(())
    }

    fn update(&self, table: &Table, number: u64) -> Result<(), BenchError> {
        self.database.put(table, random_key(number), [7; 100]).map(drop).map_err(failed("put"))
    }

    fn two_phase(&self, table: &Table, number: u64) -> Result<(), BenchError> {
        let mut transaction = self.database.begin();
        transaction.put(table, random_key(number), [7; 100]).map_err(failed("put"))?;
        let gid = format!("gid {number}");
        transaction.prepare(&gid).map_err(failed("prepare"))?;
        self.database.two_phase().commit(&gid).map(drop).map_err(failed("commit"))
    }

    fn drop_tables(&self, first: u64, end: u64) -> Result<(), BenchError> {
        let mut transaction = self.database.begin();
        for number in first..end.min(self.arguments.count) {
            transaction.drop_table(&name_of(number)).map_err(failed("drop"))?;
        }
        transaction.commit().map(drop).map_err(failed("commit"))
    }

    fn drop_and_create(&self, number: u64) -> Result<(), BenchError> {
        let mut transaction = self.database.begin();
        transaction.drop_table(&name_of(number)).map_err(failed("drop"))?;
        transaction.create_table(&name_of(number)).map_err(failed("create a table"))?;
        transaction.commit().map(drop).map_err(failed("commit"))
    }

    fn insert_many(&self, table: &Table, number: u64) -> Result<(), BenchError> {
        let mut transaction = self.database.begin();
        for (row, texts) in (0_u64..).zip(&self.rows) {
            let key = [number.to_be_bytes(), row.to_be_bytes()].concat();
            transaction.put(table, key, texts).map_err(failed("put"))?;
        }
        transaction.commit().map(drop).map_err(failed("commit"))
    }
}

/// Rows of texts of digits, made before anything is measured.
fn digits() -> Vec<[u8; TEXTS * TEXT_DIGITS]> {
    let mut random = Random::new(7);
    let mut digit = |_| b"0123456789"[usize::try_from(random.below(10)).unwrap_or(0)];
    (0..LARGE_ROWS).map(|_| std::array::from_fn(&mut digit)).collect()
}
