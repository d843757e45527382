//! `seawall-bench twophase`: how fast transactions are prepared and committed, and how fast exactly that log is replayed.
//!
//! ```text
//!   this process --- starts ---> writer: rows, checkpoint; clients update a row each, durably, for some seconds:
//!        |                               puts; or prepare and commit prepared, unique gids
//!        |<------ what it did -----------|
//!        |------- kill -9 -------------->x
//!        |-- open: RecoveryStatistics of the log since the checkpoint
//! ```
//! Three runs: puts with the same clients, for the ratio; pairs; and the replay of each.
//!
//! With `--checkpoint-interval` checkpoints come between: then the replay is of what came after the last one. Some transactions may be
//! held prepared for a while (`--hold-ms`), and many be in doubt all the time (`--in-doubt`), to be decided after the kill.

mod report;
mod writer;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use seawall::{Background, Database, Options};
use serde::{Deserialize, Serialize};

use crate::command_line::seconds;
use crate::error::{BenchError, engine_error};
use crate::scratch::Scratch;
use crate::usage::now;

pub(crate) use writer::write_and_wait;

const NAME: &str = "seawall";

/// What may be asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    pub(crate) dir: PathBuf,
    /// Seconds of each run
    #[arg(long, value_parser = seconds, default_value = "60")]
    pub(crate) seconds: f64,
    /// Numbers of clients, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "80")]
    pub(crate) clients: Vec<usize>,
    /// Distinct rows
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Bytes of a value, half of them compressible
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub(crate) value_bytes: u32,
    /// Seconds from one checkpoint to the next; 0: none, so that all that is written is replayed
    #[arg(long, default_value_t = 0.0)]
    pub(crate) checkpoint_interval: f64,
    /// Milliseconds from a prepare to its decision, comma-separated; clients take turns
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub(crate) hold_ms: Vec<u64>,
    /// Transactions that are in doubt all the time, and are decided when the log was replayed
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) in_doubt: u64,
    /// Rows of each transaction in doubt
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rows_each: u64,
    /// Chooses keys and values
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// One JSON line a number of clients instead of the Markdown table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Durable commits of one row.
    Puts,
    /// Durable prepare of one row, then durable commit of it.
    Pairs,
}

/// One run, told to the writer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    directory: PathBuf,
    work: Work,
    seconds: f64,
    clients: usize,
    rows: u64,
    value_bytes: u32,
    checkpoint_interval: f64,
    hold_ms: Vec<u64>,
    in_doubt: u64,
    rows_each: u64,
    seed: u64,
}

impl Run {
    /// Transactions hold rows for long: no client may meet those of another.
    fn keeps_rows(&self) -> bool {
        self.work == Work::Pairs && (self.in_doubt > 0 || self.hold_ms.iter().any(|hold| *hold > 0))
    }
}

/// What the writer did.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    transactions: u64,
    seconds: f64,
    log_bytes: u64,
    flushes: u64,
    cpu_seconds: f64,
    median_micros: f64,
    p99_micros: f64,
    p99_9_micros: f64,
    slowest_micros: f64,
    /// Of prepares and of decisions alone.
    slowest_prepare_micros: f64,
    slowest_decision_micros: f64,
    checkpoints: u64,
    longest_freeze_micros: f64,
}

/// What the replay of it took.
#[derive(Clone, Copy, Debug, Serialize)]
struct Replayed {
    records: u64,
    rows: u64,
    seconds: f64,
    /// From the call to open to its return.
    open_seconds: f64,
    /// What deciding all that were in doubt took.
    decided: u64,
    decide_seconds: f64,
}

/// A run and its replay.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    written: Written,
    replayed: Replayed,
}

pub(crate) fn run(arguments: &Arguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    for &clients in &arguments.clients {
        let measure = |work| {
            let name = format!("{work:?}-{clients}").to_lowercase();
            measure(&Run {
                directory: scratch.directory().join(name),
                work,
                seconds: arguments.seconds,
                clients: clients.max(1),
                rows: arguments.rows,
                value_bytes: arguments.value_bytes,
                checkpoint_interval: arguments.checkpoint_interval,
                hold_ms: if arguments.hold_ms.is_empty() { vec![0] } else { arguments.hold_ms.clone() },
                in_doubt: if work == Work::Pairs { arguments.in_doubt } else { 0 },
                rows_each: arguments.rows_each,
                seed: arguments.seed,
            })
        };
        let (puts, pairs) = (measure(Work::Puts)?, measure(Work::Pairs)?);
        report::show(clients, &puts, &pairs, arguments.json)?;
    }
    scratch.remove()?;
    Ok(0)
}

fn measure(run: &Run) -> Result<Measured, BenchError> {
    eprintln!("{:?}, {} clients, {} s", run.work, run.clients, run.seconds);
    rustix::fs::sync();
    let written = write_and_kill(run)?;
    // Without threads, which would go on merging when the directory is removed.
    let options = Options { background: Background::Manual, ..writer::options(run) };
    let begun = now();
    let database =
        Database::open(&run.directory, options).map_err(engine_error(NAME, "open after the kill"))?;
    let open_seconds = begun.elapsed().as_secs_f64();
    let recovery = database.statistics().recovery;
    check(run, &written, &database)?;
    let begun = now();
    let decided = decide_all(&database)?;
    let replayed = Replayed {
        records: recovery.records,
        rows: recovery.rows,
        seconds: recovery.duration.as_secs_f64(),
        open_seconds,
        decided,
        decide_seconds: begun.elapsed().as_secs_f64(),
    };
    // Not closed: that would merge the log, and nobody asks how long it takes.
    std::mem::forget(database);
    std::fs::remove_dir_all(&run.directory).map_err(crate::error::file_error("remove", &run.directory))?;
    Ok(Measured { written, replayed })
}

/// Commits all that are in doubt, one after another; how many that were.
fn decide_all(database: &Database) -> Result<u64, BenchError> {
    let two_phase = database.two_phase();
    let in_doubt = two_phase.in_doubt().map_err(engine_error(NAME, "list what is in doubt"))?;
    for transaction in &in_doubt {
        let committed = two_phase.commit_async(&transaction.gid);
        committed.map_err(engine_error(NAME, "commit a prepared transaction"))?;
    }
    database.flush().map_err(engine_error(NAME, "flush"))?;
    Ok(u64::try_from(in_doubt.len()).expect("a count of things in memory"))
}

/// The figures count only if the rows are there, and nothing else.
fn check(run: &Run, written: &Written, database: &Database) -> Result<(), BenchError> {
    let recovery = database.statistics().recovery;
    let in_doubt = database.statistics().two_phase.in_doubt;
    let records = match run.work {
        Work::Puts => written.transactions,
        Work::Pairs => 2 * written.transactions,
    };
    let wrong = |fact: String| BenchError::Wrong { engine: NAME, fact };
    if in_doubt != run.in_doubt {
        return Err(wrong(format!("{in_doubt} in doubt of {}", run.in_doubt)));
    }
    if run.checkpoint_interval > 0.0 || run.in_doubt > 0 {
        return check_rows(run, database);
    }
    if recovery.rows != written.transactions {
        return Err(wrong(format!("{} rows replayed of {}", recovery.rows, written.transactions)));
    }
    // The checkpoint before the run may have left a record of its own.
    if !(records..=records + 2).contains(&recovery.records) || recovery.merges > 0 || in_doubt > 0 {
        return Err(wrong(format!("{recovery:?} of {records} records, {in_doubt} in doubt")));
    }
    Ok(())
}

/// All rows that were there before are there.
fn check_rows(run: &Run, database: &Database) -> Result<(), BenchError> {
    let table = database.table(writer::TABLE).map_err(engine_error(NAME, "open the table"))?;
    let snapshot = database.snapshot();
    let (mut rows, mut found) = (snapshot.rows(&table), 0);
    while rows.next_row().map_err(engine_error(NAME, "scan"))?.is_some() {
        found += 1;
    }
    let fact = || format!("{found} rows are there of {}", run.rows);
    if found == run.rows { Ok(()) } else { Err(BenchError::Wrong { engine: NAME, fact: fact() }) }
}

fn write_and_kill(run: &Run) -> Result<Written, BenchError> {
    let failed = |what: &str, error: std::io::Error| BenchError::Process(format!("{what}: {error}"));
    let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
    let mut writer = Command::new(program)
        .arg("twophase-writer")
        .arg(serde_json::to_string(run)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("start the writer", error))?;
    let mut line = String::new();
    let read = match writer.stdout.take() {
        Some(stdout) => BufReader::new(stdout).read_line(&mut line),
        None => Ok(0),
    };
    // SIGKILL: no destructor runs, nothing is merged.
    writer.kill().map_err(|error| failed("kill the writer", error))?;
    writer.wait().map_err(|error| failed("wait for the writer", error))?;
    read.map_err(|error| failed("read from the writer", error))?;
    if line.is_empty() {
        return Err(BenchError::Process("the writer ended without a word".to_owned()));
    }
    Ok(serde_json::from_str(&line)?)
}
