//! A primary and its standby, both in this process and on one disk: how long a promotion takes, and how much faster a standby applies
//! than its primary wrote.
//!
//! ```text
//!   promotion:   primary --all of its log--> standby, crowded with segments, tables and transactions in doubt
//!                order to promote ---> promoted ---> first durable commit
//!   replication: primary runs a load alone --> standby receives all of it (verified, synced) --> applies all of it
//! ```
//! The stream is read and received by one thread, without a network. Figures of one run say little: begin each with an idle machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use seawall::{
    Background, Database, DatabaseDirectory, Durability, HoldKind, HoldLifetime, HoldOptions, OpenMode,
    Options,
};
use serde::Serialize;

use crate::error::{BenchError, engine_error, file_error};
use crate::scratch::Scratch;
use crate::usage::now;

const ENGINE: &str = "seawall";
const TABLE: &str = "t";
/// Tables made by one transaction.
const TABLES_PER_COMMIT: u64 = 1000;
/// Bytes of a row that fills the log.
const LONG_ROW_BYTES: usize = 64 << 10;
const PIECE_BYTES: usize = 1 << 20;

/// What a promotion is crowded with.
#[derive(Clone, Debug, Args)]
pub(crate) struct PromotionArguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Old segments, full of records, that the standby keeps
    #[arg(long, default_value_t = 1000)]
    segments: u64,
    /// Size of a segment in MiB
    #[arg(long, default_value_t = 1)]
    segment_mib: u64,
    /// Tables
    #[arg(long, default_value_t = 0)]
    tables: u64,
    /// Transactions in doubt, of one row each
    #[arg(long, default_value_t = 0)]
    prepared: u64,
    /// Promotions, each of a copy of the standby
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    tries: u64,
}

/// What a standby is to catch up with.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplicationArguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// What the primary does
    #[arg(long, value_parser = PossibleValuesParser::new(["update", "two-phase", "drop", "truncate", "large"]))]
    load: String,
    /// How often
    #[arg(long, default_value_t = 100_000)]
    count: u64,
}

/// One promotion.
#[derive(Debug, Serialize)]
struct Promotion {
    segments: u64,
    tables: u64,
    prepared: u64,
    promote_us: f64,
    first_commit_us: f64,
    order_to_first_commit_us: f64,
}

/// One load.
#[derive(Debug, Serialize)]
struct Replication {
    load: String,
    count: u64,
    log_bytes: u64,
    produce_seconds: f64,
    receive_seconds: f64,
    apply_seconds: f64,
    applied_rows_per_second: f64,
    /// Receiving and applying, one after the other, against producing.
    catch_up_share: f64,
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    operation: &'static str,
) -> impl FnOnce(E) -> BenchError {
    engine_error(ENGINE, operation)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// A primary in `directory`, which keeps its log for a standby.
fn primary(directory: &Path, options: &Options) -> Result<Database, BenchError> {
    let options = Options { mode: OpenMode::New, ..options.clone() };
    let primary = Database::open(directory, options).map_err(failed("create"))?;
    primary.create_table(TABLE).map_err(failed("create a table"))?;
    let hold =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    primary.log().hold("standby", hold, None).map_err(failed("hold the log"))?;
    primary.checkpoint().map_err(failed("checkpoint"))?;
    Ok(primary)
}

fn copy(from: &Path, to: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(to).map_err(file_error("create", to))?;
    for entry in std::fs::read_dir(from).map_err(file_error("list", from))? {
        let entry = entry.map_err(file_error("list", from))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).map_err(file_error("copy", &target))?;
        }
    }
    Ok(())
}

fn follow(directory: &Path, options: &Options) -> Result<Database, BenchError> {
    let options = Options { mode: OpenMode::Existing, ..options.clone() };
    DatabaseDirectory::at(directory).follow(options).map_err(failed("follow"))
}

fn not_a_standby() -> BenchError {
    BenchError::Wrong { engine: ENGINE, fact: "it does not follow".to_owned() }
}

/// Receives all that is durable on the primary; its bytes.
fn receive(primary: &Database, standby: &Database) -> Result<u64, BenchError> {
    let standby = standby.standby().ok_or_else(not_a_standby)?;
    let wanted = standby.wanted().map_err(failed("ask"))?;
    let mut stream = primary.log().stream(wanted).map_err(failed("stream"))?;
    let mut buffer = vec![0; PIECE_BYTES];
    let mut received = 0;
    loop {
        let piece = stream.read(&mut buffer).map_err(failed("stream"))?;
        if piece.bytes == 0 {
            break;
        }
        standby.receive(piece.start, &buffer[..piece.bytes]).map_err(failed("receive"))?;
        received += piece.bytes as u64;
    }
    standby.sync().map_err(failed("sync"))?;
    Ok(received)
}

/// Returns how many promotions failed: none, for the first that does ends the run.
pub(crate) fn promote(arguments: &PromotionArguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    let options = Options::default().with(|options| {
        options.format.segment_bytes = arguments.segment_mib << 20;
        options.log.keep_bytes = (arguments.segments + 8) * (arguments.segment_mib << 20);
    });
    let (first, crowded) = (scratch.directory().join("primary"), scratch.directory().join("standby"));
    let primary = primary(&first, &options)?;
    primary.clone().close().map_err(failed("close"))?;
    drop(primary);
    copy(&first, &crowded)?;
    let existing = Options { mode: OpenMode::Existing, ..options.clone() };
    let primary = Database::open(&first, existing).map_err(failed("open"))?;
    crowd(&primary, arguments)?;
    let standby = follow(&crowded, &options)?;
    receive(&primary, &standby)?;
    let role = standby.standby().ok_or_else(not_a_standby)?;
    role.apply().map_err(failed("apply"))?;
    role.checkpoint().map_err(failed("checkpoint"))?;
    standby.close().map_err(failed("close"))?;
    for number in 0..arguments.tries {
        let directory = scratch.directory().join(format!("try-{number}"));
        copy(&crowded, &directory)?;
        rustix::fs::sync();
        println!("{}", serde_json::to_string(&promote_once(&directory, &options, arguments)?)?);
        std::fs::remove_dir_all(&directory).map_err(file_error("remove", &directory))?;
    }
    primary.close().map_err(failed("close"))?;
    scratch.remove()?;
    Ok(0)
}

fn crowd(primary: &Database, arguments: &PromotionArguments) -> Result<(), BenchError> {
    let table = primary.table(TABLE).map_err(failed("open a table"))?;
    let asynchronous = primary.with(Durability::Async);
    let long = vec![7; LONG_ROW_BYTES];
    for row in 0..arguments.segments * (arguments.segment_mib << 20) / LONG_ROW_BYTES as u64 {
        asynchronous.put(&table, (row % 100).to_be_bytes(), &long).map_err(failed("put"))?;
    }
    let mut made = 0;
    while made < arguments.tables {
        let mut transaction = asynchronous.begin();
        for number in made..(made + TABLES_PER_COMMIT).min(arguments.tables) {
            transaction.create_table(&format!("table {number}")).map_err(failed("create a table"))?;
        }
        transaction.commit().map_err(failed("commit"))?;
        made += TABLES_PER_COMMIT;
    }
    for number in 0..arguments.prepared {
        let mut transaction = asynchronous.begin();
        let key = ((1 << 32) | number).to_be_bytes();
        transaction.put(&table, key, b"prepared").map_err(failed("put"))?;
        transaction.prepare(&format!("gid {number}")).map_err(failed("prepare"))?;
    }
    primary.put(&table, b"last", b"durable").map_err(failed("put"))?;
    Ok(())
}

fn promote_once(
    directory: &Path,
    options: &Options,
    arguments: &PromotionArguments,
) -> Result<Promotion, BenchError> {
    let standby = follow(directory, options)?;
    let table = standby.table(TABLE).map_err(failed("open a table"))?;
    // What a running standby has ready; one that was just opened makes it first.
    standby.standby().ok_or_else(not_a_standby)?.checkpoint().map_err(failed("checkpoint"))?;
    let ordered = now();
    standby.standby().ok_or_else(not_a_standby)?.promote("a benchmark").map_err(failed("promote"))?;
    let promoted = now();
    standby.put(&table, b"first", b"row").map_err(failed("put"))?;
    let written = now();
    standby.close().map_err(failed("close"))?;
    Ok(Promotion {
        segments: arguments.segments,
        tables: arguments.tables,
        prepared: arguments.prepared,
        promote_us: micros(promoted - ordered),
        first_commit_us: micros(written - promoted),
        order_to_first_commit_us: micros(written - ordered),
    })
}

/// Returns how many loads failed: none, for an error ends the run.
pub(crate) fn replicate(arguments: &ReplicationArguments) -> Result<usize, BenchError> {
    let scratch = Scratch::create(&arguments.dir)?;
    // So that the primary is bound by what it does, and not by its syncs.
    let options = Options::default().with(|options| options.transaction.durability = Durability::Async);
    let (first, second) = (scratch.directory().join("primary"), scratch.directory().join("standby"));
    let primary = primary(&first, &options)?;
    prepare_load(&primary, arguments)?;
    primary.close().map_err(failed("close"))?;
    copy(&first, &second)?;
    let existing = Options { mode: OpenMode::Existing, ..options.clone() };
    let primary = Database::open(&first, existing).map_err(failed("open"))?;
    let begun = now();
    run_load(&primary, arguments)?;
    let produced = now() - begun;
    // The calling thread applies, so that receiving and applying are told apart.
    let standby = follow(&second, &Options { background: Background::Manual, ..options })?;
    let begun = now();
    let log_bytes = receive(&primary, &standby)?;
    let received = now() - begun;
    let role = standby.standby().ok_or_else(not_a_standby)?;
    let begun = now();
    role.apply().map_err(failed("apply"))?;
    let applied = now() - begun;
    let statistics = role.statistics().map_err(failed("ask"))?;
    let figures = Replication {
        load: arguments.load.clone(),
        count: arguments.count,
        log_bytes,
        produce_seconds: produced.as_secs_f64(),
        receive_seconds: received.as_secs_f64(),
        apply_seconds: applied.as_secs_f64(),
        applied_rows_per_second: statistics.rows as f64 / applied.as_secs_f64().max(1e-9),
        catch_up_share: (received + applied).as_secs_f64() / produced.as_secs_f64().max(1e-9),
    };
    println!("{}", serde_json::to_string(&figures)?);
    standby.close().map_err(failed("close"))?;
    primary.close().map_err(failed("close"))?;
    scratch.remove()?;
    Ok(0)
}

/// Tables that the load gives up.
fn prepare_load(primary: &Database, arguments: &ReplicationArguments) -> Result<(), BenchError> {
    if !["drop", "truncate"].contains(&arguments.load.as_str()) {
        return Ok(());
    }
    for number in 0..arguments.count {
        let table = primary.create_table(&format!("table {number}")).map_err(failed("create a table"))?;
        primary.put(&table, b"k", b"v").map_err(failed("put"))?;
    }
    Ok(())
}

fn run_load(primary: &Database, arguments: &ReplicationArguments) -> Result<(), BenchError> {
    let table = primary.table(TABLE).map_err(failed("open a table"))?;
    let value = [7; 100];
    for number in 0..arguments.count {
        let key = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40).to_be_bytes();
        match arguments.load.as_str() {
            "update" => drop(primary.put(&table, key, value).map_err(failed("put"))?),
            "two-phase" => {
                let mut transaction = primary.begin();
                transaction.put(&table, key, value).map_err(failed("put"))?;
                let gid = format!("gid {number}");
                transaction.prepare(&gid).map_err(failed("prepare"))?;
                primary.two_phase().commit(&gid).map_err(failed("commit"))?;
            }
            "drop" => primary.tables().drop(&format!("table {number}")).map_err(failed("drop"))?,
            "truncate" => {
                primary.tables().truncate(&format!("table {number}")).map_err(failed("truncate"))?
            }
            _ => {
                let mut transaction = primary.begin();
                for row in 0..10_000_u64 {
                    let key = [number.to_be_bytes(), row.to_be_bytes()].concat();
                    transaction.put(&table, key, [7; 405]).map_err(failed("put"))?;
                }
                transaction.commit().map_err(failed("commit"))?;
            }
        }
    }
    // Durable with all before it.
    primary.with(Durability::Sync).put(&table, b"last", b"durable").map_err(failed("put"))?;
    Ok(())
}
