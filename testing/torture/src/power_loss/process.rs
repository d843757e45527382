//! A process of the chamber: this program again, as another sub-command.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use super::plan::{KEY, KEY_VARIABLE};
use crate::error::{TortureError, io_error};

/// What happens while a process runs.
#[derive(Debug)]
pub(super) enum Event {
    /// It has written a line.
    Line(String),
    /// It has closed its standard output: it is at its end, or was killed.
    Ended,
    /// A request has found the power gone.
    PowerLost,
}

/// Killed when dropped.
pub(super) struct Process {
    child: Child,
    reader: Option<JoinHandle<()>>,
    messages: File,
}

/// How a process ended.
pub(super) struct Outcome {
    pub(super) status: ExitStatus,
    /// Its standard error.
    pub(super) messages: String,
}

impl Process {
    /// Starts this program with `arguments`; its lines go to `events`.
    pub(super) fn start<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
        events: Sender<Event>,
    ) -> Result<Process, TortureError> {
        let program = std::env::current_exe().map_err(io_error("find this program"))?;
        let messages = tempfile::tempfile().map_err(io_error("make a file for messages"))?;
        let stderr = messages.try_clone().map_err(io_error("make a file for messages"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env(KEY_VARIABLE, KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(io_error("start a process"))?;
        let stdout = child.stdout.take().expect("it was just asked for");
        let reader = std::thread::spawn(move || {
            // A line that is not text is cut: nobody is told of it. Whoever has hung up wants no more.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if events.send(Event::Line(line)).is_err() {
                    return;
                }
            }
            if events.send(Event::Ended).is_err() {
                // As above.
            }
        });
        Ok(Process { child, reader: Some(reader), messages })
    }

    pub(super) fn kill(&mut self) -> Result<(), TortureError> {
        self.child.kill().map_err(io_error("kill a process"))
    }

    /// Waits for the end of a process that has closed its output.
    pub(super) fn outcome(mut self) -> Result<Outcome, TortureError> {
        let status = self.child.wait().map_err(io_error("wait for a process"))?;
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reading thread does not panic");
        }
        let mut messages = String::new();
        self.messages
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.messages.read_to_string(&mut messages))
            .map_err(io_error("read a process's messages"))?;
        Ok(Outcome { status, messages: messages.trim_end().to_owned() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        if self.child.kill().and_then(|()| self.child.wait()).is_err() {}
    }
}
