//! Kills `seawall load --acks` and `seawall bench` with SIGKILL, again and again, at random moments, and verifies after
//! each kill that every acknowledged row is there, that only whole batches are, and that `check` finds no damage.
//!
//! `cargo run --release -p seawall-cli --example kill_campaign -- KILLS [SEED]`. Stops with a message and a non-zero
//! code at the first broken promise, and leaves the database behind.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const ROWS: u64 = 200_000;
const BATCH: u64 = 20;
/// First argument of a process that is to be the `seawall` command.
const AS_SEAWALL: &str = "as-seawall";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let mut rest: Vec<_> = arguments.collect();
    if rest.first().is_some_and(|first| first == AS_SEAWALL) {
        rest.remove(0);
        return seawall_cli::run(program.into_iter().chain(rest));
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
