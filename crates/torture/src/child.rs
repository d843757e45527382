//! A hunter at work: a child process with a defect and a time limit.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use seawall_io::{Clock, SystemClock};
use serde_json::Value;
use tempfile::TempDir;

use super::panics::Panics;
use crate::error::{TortureError, io_error};

/// Each such part of the time is waited for by itself: when the machine, or this process, is suspended, one or two of them
/// pass and not all.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How a hunt ended.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ended: Ended,
    pub(super) time: Duration,
    /// The last line that it wrote.
    pub(super) last_line: String,
    /// The first panic of the test that failed; without such a test, the first one.
    pub(super) panic: Option<String>,
    /// What it leaves behind, a finding's files, too. Goes with this.
    pub(super) scratch: TempDir,
}

impl Outcome {
    /// The first one that a torture reports.
    pub(super) fn finding(&self) -> Option<Value> {
        let report: Value = serde_json::from_str(&self.last_line).ok()?;
        report["findings"].get(0).cloned()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has found nothing.
    Quietly,
    /// A test failed; the child was ended there.
    TestFailed(String),
    /// It said so by its exit code, or crashed.
    Failed(Option<i32>),
    /// It was ended at the limit.
    Hung,
}

/// The child and all that it has started go when it is dropped.
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

/// Runs `command` for at most `limit`; ended at the first test that fails.
pub(super) fn run(mut command: Command, limit: Duration) -> Result<Outcome, TortureError> {
    let scratch = tempfile::tempdir().map_err(io_error("make a scratch directory"))?;
    command.env("TMPDIR", scratch.path()).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = Group(command.spawn().map_err(io_error("start a hunter"))?);
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
                let status = child.0.wait().map_err(io_error("wait for a hunter"))?;
                break if status.success() { Ended::Quietly } else { Ended::Failed(status.code()) };
            }
        }
    };
    // All who could write to it are gone: so it has an end.
    drop(child);
    let panics = panics.join().expect("reading lines does not panic");
    let test = if let Ended::TestFailed(test) = &ended { Some(test.as_str()) } else { None };
    Ok(Outcome { panic: panics.first_of(test), ended, time, last_line, scratch })
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
    fn a_hunter_ends_quietly_or_with_what_it_found() {
        let ended = |script, limit| run(shell(script), limit).unwrap().ended;
        let long = Duration::from_secs(60);
        assert_eq!(ended("echo test a ... ok", long), Ended::Quietly);
        assert_eq!(ended("exit 7", long), Ended::Failed(Some(7)));
        assert_eq!(ended("echo test a ... FAILED; sleep 60", long), Ended::TestFailed("a".to_owned()));
        assert_eq!(ended("sleep 60 & sleep 60", Duration::from_millis(50)), Ended::Hung);
    }

    #[test]
    fn the_panic_is_that_of_the_test_that_failed() {
        let script = "
            echo \"thread 'b' (1) panicked at b.rs:1:\" >&2; echo expected >&2
            echo \"thread 'a' (2) panicked at a.rs:2:3:\" >&2; echo 'row 7 is missing' >&2
            echo test a ... FAILED; sleep 60";
        let outcome = run(shell(script), Duration::from_secs(60)).unwrap();
        assert_eq!(outcome.ended, Ended::TestFailed("a".to_owned()));
        assert_eq!(outcome.panic.as_deref(), Some("a.rs:2:3: row 7 is missing"));
    }
}
