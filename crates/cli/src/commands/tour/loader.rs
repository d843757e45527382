//! `seawall load --acks` in a process of its own, so that it can be killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use fastrand::Rng;

use super::TABLE;
use super::data::DataSet;
use super::report::Report;
use crate::failure::Failure;
use crate::files::Stopwatch;
use crate::output::{duration, grouped, rate};

/// What was known when the loader died.
pub(super) struct Killed {
    /// Rows that it had announced as committed.
    pub(super) acknowledged: u64,
    /// It was done before the kill reached it.
    pub(super) finished: bool,
}

/// Starts a loader and kills it at a random moment between a third and two thirds of the rows.
pub(super) fn load_and_kill(
    directory: &Path,
    data: &DataSet,
    seed: u64,
    report: &mut Report<'_>,
) -> Result<Killed, Failure> {
    let rows = data.rows();
    let kill_at = rows / 3 + Rng::with_seed(seed).u64(..rows / 3 + 1);
    report.say(&format!("a child process loads them, a durable transaction every {} rows", data.batch()))?;
    let stopwatch = Stopwatch::start();
    let mut child = Loader::start(directory, data, 0)?;
    let mut acknowledged = 0;
    while acknowledged < kill_at
        && let Some(committed) = child.next_acknowledgement()?
    {
        acknowledged = committed;
    }
    let elapsed = stopwatch.elapsed();
    // SIGKILL: the child gets no chance to write, flush or close anything.
    child.child.kill().map_err(Failure::io("cannot kill the loader"))?;
    let at_kill = acknowledged;
    // What it had announced before it died is in the pipe, and counts.
    while let Some(committed) = child.next_acknowledgement()? {
        acknowledged = committed;
    }
    let status = child.wait()?;
    let finished = status.success();
    if !finished && !was_killed(status) {
        return Err(Failure::Broken(format!("the loader failed by itself: {status}")));
    }
    let throughput = rate(at_kill, elapsed);
    report.fact(
        "load_rows_per_second",
        throughput,
        &format!(
            "kill -9 after {}: {} rows acknowledged as durable ({} rows/s)",
            duration(elapsed),
            grouped(acknowledged),
            grouped(throughput)
        ),
    )?;
    report.fact(
        "rows_acknowledged",
        acknowledged,
        "the kernel took the process; nothing was closed or flushed",
    )?;
    Ok(Killed { acknowledged, finished })
}

/// Loads the rows after the first `loaded`.
pub(super) fn load_rest(
    directory: &Path,
    data: &DataSet,
    loaded: u64,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let stopwatch = Stopwatch::start();
    let mut child = Loader::start(directory, data, loaded)?;
    let mut committed = loaded;
    while let Some(rows) = child.next_acknowledgement()? {
        committed = rows;
    }
    let status = child.wait()?;
    if !status.success() {
        return Err(Failure::Broken(format!("the loader failed: {status}")));
    }
    if committed != data.rows() {
        return Err(Failure::Broken(format!(
            "the loader announced {committed} rows, the file has {}",
            data.rows()
        )));
    }
    report.say(&format!(
        "another loader, with --skip {loaded}, loads the other {} in {}",
        grouped(committed - loaded),
        duration(stopwatch.elapsed())
    ))
}

struct Loader {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Loader {
    fn start(directory: &Path, data: &DataSet, skip: u64) -> Result<Loader, Failure> {
        let program = std::env::current_exe().map_err(Failure::io("cannot find this program's own file"))?;
        let mut command = Command::new(program);
        command.arg("load").arg(directory).arg(TABLE).arg(data.file()).arg("--acks");
        command.args(["--batch", &data.batch().to_string(), "--skip", &skip.to_string()]);
        for column in data.key() {
            command.args(["--key", column]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::io("cannot start the loader"))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Failure::Broken("the loader has no standard output".to_owned()));
        };
        Ok(Loader { child, lines: BufReader::new(stdout).lines() })
    }

    /// The number in the next `committed ROWS`; `None` when the loader is gone.
    fn next_acknowledgement(&mut self) -> Result<Option<u64>, Failure> {
        for line in &mut self.lines {
            let line = line.map_err(Failure::io("cannot read what the loader says"))?;
            if let Some(rows) = line.strip_prefix("committed ") {
                let unreadable = |_| Failure::Broken(format!("the loader said {line:?}"));
                return rows.parse().map(Some).map_err(unreadable);
            }
        }
        Ok(None)
    }

    fn wait(mut self) -> Result<ExitStatus, Failure> {
        self.child.wait().map_err(Failure::io("cannot wait for the loader"))
    }
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}
