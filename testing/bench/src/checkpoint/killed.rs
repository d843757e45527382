//! SIGKILL under load, and what the next open finds.
//!
//! ```text
//!   cell process --- starts ---> writing process: "writing", "checkpoint begins", "checkpoint ends", ...
//!        |-- at a moment drawn by seed: kill -9 -->x
//!        |-- open, first read: timed
//!        |-- every row: nothing acknowledged is lost, nothing is there in part
//! ```
//! For `Kind::Kill` the moment lies between a tenth and nine tenths of a checkpoint, as long as the one before it took;
//! if it ended before that, the next one is
//! tried, and one that ended while the kill was on its way is told by `killed_in_checkpoint`. For `Kind::RecoveryTarget` it is
//! any moment since the writing began.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::cell::{Cell, Kind, TABLE};
use super::figures::Figures;
use super::load::{Durability, NAME};
use super::stamps::{Acknowledged, Slots, Survived, verify};
use super::writer_process::{CHECKPOINT_BEGINS, CHECKPOINT_ENDS, WRITING};
use crate::error::{BenchError, engine_error};
use crate::random::Random;
use crate::usage::now;

/// Checkpoints that end before the kill, until the try is given up.
const MISSES_MAX: u32 = 10;

pub(super) fn measure(cell: &Cell) -> Result<Figures, BenchError> {
    let wrote = write_and_kill(cell)?;
    let acknowledged = Acknowledged::open(&cell.directory)?;
    let noted = acknowledged.read(cell.load.threads)?;
    let estimated = acknowledged.estimate(cell.load.threads)?;
    let begin = now();
    let database = cell.open()?;
    let opened = begin.elapsed();
    let table = database.table(TABLE).map_err(engine_error(NAME, "open the table"))?;
    let first = database.get(&table, Slots::new(cell).key(0)).map_err(engine_error(NAME, "get"))?;
    let read = begin.elapsed();
    if first.is_none() {
        return Err(cell.wrong("the first row is not there after the recovery"));
    }
    let recovery = database.statistics().recovery;
    let survived = verify(cell, &database, &noted)?;
    if survived.lost > 0 && cell.load.durability == Durability::Sync {
        return Err(cell.wrong(format!("{} commits are lost that were on stable storage", survived.lost)));
    }
    let mut figures = figures(cell, survived, &wrote);
    let replayed = recovery.end_of_log.bytes_since(recovery.redo_point);
    let more = [
        ("first_read_seconds", read.as_secs_f64()),
        ("open_seconds", opened.as_secs_f64()),
        ("estimated_seconds", estimated.as_secs_f64()),
        ("replayed_mib", replayed as f64 / 1_048_576.0),
        ("replayed_rows", recovery.rows as f64),
        ("chunk_reapplied", f64::from(u8::from(recovery.chunk_reapplied))),
    ];
    figures.extend(more.map(|(name, value)| (name.to_owned(), value)));
    // Not closed: that would move the log into place, and nobody asks how long it takes.
    std::mem::forget(database);
    Ok(figures)
}

fn figures(cell: &Cell, survived: Survived, wrote: &Wrote) -> Figures {
    let mut figures: Figures = [
        ("acknowledged_commits", survived.acknowledged as f64),
        ("lost_commits", survived.lost as f64),
        ("killed_after_seconds", wrote.killed_after.as_secs_f64()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if cell.kind == Kind::Kill {
        figures.insert("killed_in_checkpoint".into(), f64::from(u8::from(!wrote.ended)));
        figures.insert("killed_at_share_of_checkpoint".into(), wrote.share);
        figures.insert("checkpoint_before_seconds".into(), wrote.checkpoint.as_secs_f64());
    }
    figures
}

/// What the writing process had done when it was killed.
struct Wrote {
    killed_after: Duration,
    /// How long the checkpoint before the one that was hit took.
    checkpoint: Duration,
    /// Where in a checkpoint of that length the kill lies.
    share: f64,
    /// The checkpoint was over when the kill came.
    ended: bool,
}

fn write_and_kill(cell: &Cell) -> Result<Wrote, BenchError> {
    let mut process = WritingProcess::start(cell)?;
    // Whatever happened, it does not go on writing.
    let wrote = watch(cell, &process.lines);
    process.kill()?;
    let mut wrote = wrote?;
    wrote.killed_after = process.started.elapsed();
    // It may have said one more thing while the kill was on its way.
    wrote.ended = process.lines.iter().any(|line| line == CHECKPOINT_ENDS);
    Ok(wrote)
}

struct WritingProcess {
    child: Child,
    lines: Receiver<String>,
    started: Instant,
}

impl WritingProcess {
    fn start(cell: &Cell) -> Result<WritingProcess, BenchError> {
        let failed = |what: &str, error: std::io::Error| BenchError::Process(format!("{what}: {error}"));
        let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let mut child = Command::new(program)
            .arg("checkpoint-writer")
            .arg(serde_json::to_string(cell)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("start the writing process", error))?;
        let stdout = child.stdout.take().expect("it was asked for");
        Ok(WritingProcess { child, lines: read_lines(stdout), started: now() })
    }

    /// SIGKILL: no destructor runs, no buffer of the process is written.
    fn kill(&mut self) -> Result<(), BenchError> {
        let failed = |error| BenchError::Process(format!("kill the writing process: {error}"));
        self.child.kill().map_err(failed)?;
        self.child.wait().map(drop).map_err(failed)
    }
}

/// What the process says, until it is gone.
fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // Ends with the process, or when nobody waits any more; whoever waits finds the channel closed and says so.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Returns when it is time to kill.
fn watch(cell: &Cell, lines: &Receiver<String>) -> Result<Wrote, BenchError> {
    let mut random = Random::new(cell.seed.wrapping_mul(7919).wrapping_add(cell.run));
    expect(lines, WRITING)?;
    let mut wrote =
        Wrote { killed_after: Duration::ZERO, checkpoint: Duration::ZERO, share: 0.0, ended: false };
    if cell.kind == Kind::RecoveryTarget {
        let moment = Duration::from_secs_f64(cell.seconds * random.fraction());
        return match lines.recv_timeout(moment) {
            Err(RecvTimeoutError::Timeout) => Ok(wrote),
            other => Err(BenchError::Process(format!("the writing process said {other:?}"))),
        };
    }
    for _ in 0..MISSES_MAX {
        expect(lines, CHECKPOINT_BEGINS)?;
        let begin = now();
        if wrote.checkpoint > Duration::ZERO {
            wrote.share = 0.1 + 0.8 * random.fraction();
            let moment = wrote.checkpoint.mul_f64(wrote.share);
            match lines.recv_timeout(moment) {
                Err(RecvTimeoutError::Timeout) => return Ok(wrote),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Ok(_ended) => {}
            }
        } else {
            expect(lines, CHECKPOINT_ENDS)?;
        }
        wrote.checkpoint = begin.elapsed();
    }
    Err(BenchError::Process(format!("{MISSES_MAX} checkpoints ended before they could be hit")))
}

fn expect(lines: &Receiver<String>, wanted: &str) -> Result<(), BenchError> {
    match lines.recv() {
        Ok(line) if line == wanted => Ok(()),
        Ok(line) => Err(BenchError::Process(format!("the writing process said {line:?} and not {wanted:?}"))),
        Err(_) => Err(gone()),
    }
}

fn gone() -> BenchError {
    BenchError::Process("the writing process ended by itself".into())
}
