//! Kills `seawall load --acks`, `seawall bench` and a program with buffered (`Async`) writers with SIGKILL, again and
//! again, at random moments, and verifies after each kill that every acknowledged row is there, buffered or not, that only
//! whole batches are, and that `check` finds no damage.
//!
//! `cargo run --release -p seawall-cli --example kill_campaign -- KILLS [SEED]`. Stops with a message and a non-zero
//! code at the first broken promise, and leaves the database behind.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use seawall::{Database, Durability, Options, Table};

const ROWS: u64 = 200_000;
const BATCH: u64 = 20;
/// First argument of a process that is to be the `seawall` command.
const AS_SEAWALL: &str = "as-seawall";
/// First argument of a process that writes with `Async` durability until it is killed.
const AS_WRITER: &str = "as-writer";
const WRITERS: usize = 4;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let mut rest: Vec<_> = arguments.collect();
    if rest.first().is_some_and(|first| first == AS_SEAWALL) {
        rest.remove(0);
        return seawall_cli::run(program.into_iter().chain(rest));
    }
    if rest.first().is_some_and(|first| first == AS_WRITER) {
        if let Err(error) = write_buffered(Path::new("buffered")) {
            eprintln!("{error}");
        }
        return ExitCode::FAILURE;
    }
    let number = |index: usize| {
        rest.get(index).and_then(|text| text.to_str()).and_then(|text| text.parse::<u64>().ok())
    };
    let (kills, seed) = (number(0).unwrap_or(50), number(1).unwrap_or(1));
    match campaign(kills, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seed {seed}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn campaign(kills: u64, seed: u64) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::Builder::new().prefix("seawall-kill-").disable_cleanup(true).tempdir()?;
    let directory = scratch.path();
    println!("{kills} kills in {}, seed {seed}", directory.display());
    let rows: String = (0..ROWS).map(|number| format!("{number:08},value of row {number}\n")).collect();
    std::fs::write(directory.join("rows.csv"), rows)?;
    succeed(seawall(directory).args(["init", "db"]))?;
    let mut random = seed;
    let mut loaded = 0;
    for kill in 1..=kills {
        // SplitMix64's step is enough to spread the moments.
        random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let moment = (random ^ (random >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        if kill % 2 == 0 {
            let rows = kill_buffered(directory, moment)?;
            println!("kill {kill} during buffered writes: {rows} rows, all acknowledged ones among them");
            continue;
        }
        let during = if kill % 5 == 0 {
            kill_bench(directory, Duration::from_millis(50 + moment % 1_500))?;
            "bench"
        } else {
            if loaded >= ROWS {
                succeed(seawall(directory).args(["truncate", "db", "t"]))?;
                loaded = 0;
            }
            let acknowledged = kill_load(directory, loaded, moment)?;
            loaded = acknowledged;
            "load"
        };
        loaded = verify(directory, loaded)?;
        println!("kill {kill} during {during}: {loaded} rows, all acknowledged ones among them; no damage");
    }
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

/// Kills a loader after a random number of acknowledgements; returns the rows acknowledged.
fn kill_load(directory: &Path, loaded: u64, moment: u64) -> Result<u64, Box<dyn Error>> {
    let mut command = seawall(directory);
    command.args(["load", "db", "t", "rows.csv", "--no-header", "--acks"]);
    command.args(["--batch", &BATCH.to_string(), "--skip", &loaded.to_string()]);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut acknowledged = loaded;
    let mut left = moment % 2_000;
    for line in BufReader::new(stdout).lines() {
        if let Some(rows) = line?.strip_prefix("committed ") {
            acknowledged = rows.parse()?;
            left = left.saturating_sub(1);
            if left == 0 {
                child.kill()?;
            }
        }
    }
    child.wait()?;
    Ok(acknowledged)
}

fn kill_bench(directory: &Path, after: Duration) -> Result<(), Box<dyn Error>> {
    let mut command = seawall(directory);
    command.args(["bench", "--dir", "db", "--seconds", "0.2", "--threads", "8"]);
    let mut child = command.stdout(Stdio::null()).spawn()?;
    std::thread::sleep(after);
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Writes rows, each in a commit that waits for nothing, and says so as soon as it returns.
fn write_buffered(directory: &Path) -> Result<(), Box<dyn Error>> {
    let database = Database::open(directory, Options::default())?;
    let table = match database.table("t") {
        Ok(table) => table,
        Err(_) => database.create_table("t")?,
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                let Err(error) = write_on(database, table, writer);
                eprintln!("writer {writer}: {error}");
                std::process::exit(1)
            });
        }
    });
    Ok(())
}

fn write_on(
    database: &Database,
    table: &Table,
    writer: usize,
) -> Result<std::convert::Infallible, Box<dyn Error>> {
    let mut next = rows_of(database, table, writer)?;
    loop {
        database.put_with(table, row_key(writer, next), row_value(writer, next), Durability::Async)?;
        next += 1;
        // Written to the pipe before the next commit: whoever reads it knows of it, whatever happens to this process.
        writeln!(std::io::stdout().lock(), "{writer} {next}")?;
    }
}

fn row_key(writer: usize, number: u64) -> String {
    format!("{writer} {number:010}")
}

/// Of all sizes; now and then one that has no room in the log's buffer.
fn row_value(writer: usize, number: u64) -> Vec<u8> {
    let bytes = match number {
        number if number % 5_000 == 4_999 => 6 << 20,
        number if number % 100 == 99 => 20_000,
        number => 20 + usize::try_from(number % 200).unwrap_or(0),
    };
    let unit = format!("{writer}/{number};");
    unit.bytes().cycle().take(bytes).collect()
}

/// How many rows of a writer there are; an error if they are not the first ones.
fn rows_of(database: &Database, table: &Table, writer: usize) -> Result<u64, Box<dyn Error>> {
    let mut count = 0;
    let snapshot = database.snapshot();
    for row in snapshot.range(table, row_key(writer, 0)..row_key(writer + 1, 0)) {
        let (key, value) = row?;
        if key != row_key(writer, count).as_bytes() || value[..] != row_value(writer, count)[..] {
            return Err(format!("row {count} of writer {writer} reads {}", key.escape_ascii()).into());
        }
        count += 1;
    }
    Ok(count)
}

/// Kills writers after a random number of acknowledgements; returns how many rows there are.
fn kill_buffered(directory: &Path, moment: u64) -> Result<u64, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.arg(AS_WRITER).current_dir(directory).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).spawn()?;
    let acknowledged = acknowledged_before_kill(child, 1 + moment % 60_000)?;
    let check = seawall(directory).args(["check", "buffered"]).output()?;
    if !check.status.success() {
        return Err(format!("check: {}{}", text(&check.stdout), text(&check.stderr)).into());
    }
    let database = Database::open(directory.join("buffered"), Options::default())?;
    let table = database.table("t")?;
    let mut rows = 0;
    for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
        let found = rows_of(&database, &table, writer)?;
        if found < acknowledged {
            return Err(format!(
                "writer {writer}: {acknowledged} buffered rows were acknowledged, {found} are there"
            )
            .into());
        }
        rows += found;
    }
    Ok(rows)
}

fn acknowledged_before_kill(mut child: Child, kill_after: u64) -> Result<[u64; WRITERS], Box<dyn Error>> {
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut acknowledged = [0; WRITERS];
    let mut left = kill_after;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        // The last line may be cut.
        let Some((writer, rows)) = line.split_once(' ') else { continue };
        acknowledged[writer.parse::<usize>()?] = rows.parse()?;
        left = left.saturating_sub(1);
        if left == 0 {
            child.kill()?;
        }
    }
    let status = child.wait()?;
    if left > 0 {
        return Err(format!("the writers ended by themselves: {status}").into());
    }
    Ok(acknowledged)
}

/// The table must be the first rows of the file, at least `acknowledged` of them, in whole batches.
fn verify(directory: &Path, acknowledged: u64) -> Result<u64, Box<dyn Error>> {
    let check = seawall(directory).args(["check", "db"]).output()?;
    if !check.status.success() {
        return Err(format!("check: {}{}", text(&check.stdout), text(&check.stderr)).into());
    }
    let scan = seawall(directory).args(["scan", "db", "t"]).output()?;
    if acknowledged == 0 && scan.status.code() == Some(3) {
        return Ok(0);
    }
    let table = text(&scan.stdout);
    let found = u64::try_from(table.lines().count())?;
    if !scan.status.success() || found < acknowledged {
        return Err(format!(
            "{acknowledged} rows were acknowledged, {found} are there: {}",
            text(&scan.stderr)
        )
        .into());
    }
    if !found.is_multiple_of(BATCH) {
        return Err(format!("{found} rows are there: a batch of {BATCH} is there in part").into());
    }
    for (number, line) in table.lines().enumerate() {
        if line != format!("{number:08}\tvalue of row {number}") {
            return Err(format!("row {number} reads {line:?}").into());
        }
    }
    Ok(found)
}

fn seawall(directory: &Path) -> Command {
    let program = std::env::current_exe().expect("a running program has a file");
    let mut command = Command::new(program);
    command.arg(AS_SEAWALL).current_dir(directory).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output()?;
    if output.status.success() { Ok(()) } else { Err(text(&output.stderr).into()) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
