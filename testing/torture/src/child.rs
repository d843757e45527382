//! A torture, or tests, as a child process with a time limit: what hangs or crashes does so there.
//!
//! ```text
//!   command --> child, a process group of its own; TMPDIR is a scratch directory
//!     stdout: lines, each seen at once; tests that fail end it; the last line is a torture's report
//!     stderr: panics, and the last line
//!   --> Outcome: how it ended, what it said, what it leaves behind
//! ```
//! Whatever the child has started is gone when it has ended.

mod panics;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use seawall_io::{Clock, SystemClock};
use tempfile::TempDir;

use crate::error::{TortureError, io_error};

use panics::Panics;

/// Each such part of the time is waited for by itself: when the machine, or this process, is suspended, one or two of them
/// pass and not all.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How it ended, and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) time: Duration,
    /// The last line that it wrote.
    pub(crate) last_line: String,
    /// The first panic of the test that failed; without such a test, the first one.
    pub(crate) panic: Option<String>,
    /// The last line that it wrote for people.
    pub(crate) last_error: String,
    /// What it leaves behind, a finding's files, too. Goes with this.
    pub(crate) scratch: TempDir,
}

#[cfg(feature = "sabotage")]
impl Outcome {
    /// The first one that a torture reports.
    pub(crate) fn finding(&self) -> Option<serde_json::Value> {
        let report: serde_json::Value = serde_json::from_str(&self.last_line).ok()?;
        report["findings"].get(0).cloned()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has found nothing.
    Quietly,
    /// A test failed; the child was ended there.
    TestFailed(String),
    /// It said so by its exit code.
    Failed(i32),
    /// A signal ended it.
    Crashed(Option<i32>),
    /// It was ended at the limit.
    Hung,
}

/// The child and all that it has started go when this is dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // Nobody is left, most of the time.
        pid.map(|pid| kill_process_group(pid, Signal::KILL)).transpose().unwrap_or(None);
        if let Err(error) = self.0.wait() {
            eprintln!("seawall-torture: a child was not waited for: {error}");
        }
    }
}

/// Runs `command` for at most `limit`; ended at the first test that fails. `watch` sees each line of its standard output.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    mut watch: impl FnMut(&str),
) -> Result<Outcome, TortureError> {
    let scratch = tempfile::tempdir().map_err(io_error("make a scratch directory"))?;
    command.env("TMPDIR", scratch.path()).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = Group(command.spawn().map_err(io_error("start a child"))?);
    let stdout = child.0.stdout.take().expect("it was just asked for");
    let panics = gather_panics(child.0.stderr.take().expect("it was just asked for"));
    let (sender, lines) = channel();
    thread::spawn(move || forward(BufReader::new(stdout), &sender));
    let (mut time, mut last, mut last_line) = (Duration::ZERO, SystemClock.monotonic(), String::new());
    let ended = loop {
        let line = lines.recv_timeout(WAIT_MAX.min(limit.saturating_sub(time)));
        let now = SystemClock.monotonic();
        time += now.saturating_sub(last).min(2 * WAIT_MAX);
        last = now;
        match line {
            Ok(line) => {
                watch(&line);
                if let Some(test) = failed_test(&line) {
                    break Ended::TestFailed(test.to_owned());
                }
                if !line.is_empty() {
                    last_line = line;
                }
            }
            Err(RecvTimeoutError::Timeout) if time < limit => {}
            Err(RecvTimeoutError::Timeout) => break Ended::Hung,
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.0.wait().map_err(io_error("wait for a child"))?;
                break match status.code() {
                    Some(0) => Ended::Quietly,
                    Some(code) => Ended::Failed(code),
                    None => Ended::Crashed(status.signal()),
                };
            }
        }
    };
    // All who could write to it are gone: so it has an end.
    drop(child);
    let panics = panics.join().expect("reading lines does not panic");
    let test = if let Ended::TestFailed(test) = &ended { Some(test.as_str()) } else { None };
    let (panic, last_error) = (panics.first_of(test), panics.last_line);
    Ok(Outcome { ended, time, last_line, panic, last_error, scratch })
}

fn gather_panics(stderr: impl Read + Send + 'static) -> JoinHandle<Panics> {
    thread::spawn(move || Panics::gather(BufReader::new(stderr)))
}

/// Hands on lines until there are no more, or nobody wants them.
fn forward(lines: impl BufRead, sender: &Sender<String>) {
    for line in lines.lines().map_while(Result::ok) {
        if sender.send(line).is_err() {
            return;
        }
    }
}

/// The test that failed, if the line says so. Something that a test wrote may stand before it.
fn failed_test(line: &str) -> Option<&str> {
    let (before, test) = line.strip_suffix(" ... FAILED")?.rsplit_once(' ')?;
    before.ends_with("test").then_some(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_ends_quietly_or_with_what_it_found() {
        let ended = |script, limit| run(shell(script), limit, |_| {}).unwrap().ended;
        let long = Duration::from_secs(60);
        assert_eq!(ended("echo test a ... ok", long), Ended::Quietly);
        assert_eq!(ended("exit 7", long), Ended::Failed(7));
        assert_eq!(ended("kill -ABRT $$", long), Ended::Crashed(Some(6)));
        assert_eq!(ended("echo test a ... FAILED; sleep 60", long), Ended::TestFailed("a".to_owned()));
        assert_eq!(ended("sleep 60 & sleep 60", Duration::from_millis(50)), Ended::Hung);
    }

    #[test]
    fn the_panic_is_that_of_the_test_that_failed() {
        let script = "
            echo \"thread 'b' (1) panicked at b.rs:1:\" >&2; echo expected >&2
            echo \"thread 'a' (2) panicked at a.rs:2:3:\" >&2; echo 'row 7 is missing' >&2
            echo test a ... FAILED; sleep 60";
        let mut lines = Vec::new();
        let watch = |line: &str| lines.push(line.to_owned());
        let outcome = run(shell(script), Duration::from_secs(60), watch).unwrap();
        assert_eq!(lines, ["test a ... FAILED"]);
        assert_eq!(outcome.last_error, "row 7 is missing");
        assert_eq!(outcome.ended, Ended::TestFailed("a".to_owned()));
        assert_eq!(outcome.panic.as_deref(), Some("a.rs:2:3: row 7 is missing"));
    }
}
