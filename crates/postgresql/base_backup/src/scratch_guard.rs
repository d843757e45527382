//! The guard of a drill: a process between the drill and a program that it runs, so that nothing of that stays when the drill ends,
//! in whatever way.
//!
//! ```text
//!   drill --its standard input--> guard --child--> server --> restore_command --> what goes on without it: an archive agent
//!           a byte: end in order    ^                                                  |
//!           closed: end at once     +---------- is given whom the others leave --------+
//! ```
//! The system closes the input when the drill is killed, too. The guard is in a process group of its own: what a terminal or a
//! supervisor sends to the drill's does not end it, nor the program. When the program has ended, so has all that it began: then the
//! guard ends, as the program did. Only whoever kills the guard leaves something.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

use super::error::PostgreSqlBackupError;

/// How often it is looked whether the program has ended.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// How often a program is asked to end at once before it is killed: five seconds, `LOOK_AGAIN` apart.
const ASKED_TO_END: u32 = 250;
/// What a shell adds to a signal that has ended a program.
const SIGNALLED: i32 = 128;

/// The first argument of a program that is called as the guard; the others are for [`drill_guard`].
pub const DRILL_GUARD_COMMAND: &str = "drill-guard";

/// The command that runs `program` under this guard, with the arguments that it is given. Its standard input is what the guard follows.
pub(super) fn guarded(guard: &Path, program: &Path) -> Command {
    let mut command = Command::new(guard);
    command.arg(DRILL_GUARD_COMMAND).arg(program).stdin(Stdio::piped()).process_group(0);
    command
}

/// Runs the program that `arguments` are, and returns its exit code when all that it began has ended.
///
/// # Errors
/// `Io`: it cannot be run, or what it began cannot be ended.
pub fn drill_guard(arguments: &[OsString]) -> Result<u8, PostgreSqlBackupError> {
    let (program, arguments) = arguments.split_first().ok_or_else(|| {
        let problem = "the guard of a drill is started by the drill, with what it is to run".to_owned();
        PostgreSqlBackupError::Drill { problem }
    })?;
    let adopts = set_child_subreaper(Some(getpid())).map_err(io::Error::from);
    adopts.map_err(PostgreSqlBackupError::io("cannot look after a drill"))?;
    let spawned = Command::new(program).args(arguments).stdin(Stdio::null()).spawn();
    let mut child = spawned.map_err(|source| PostgreSqlBackupError::Program {
        program: program.display().to_string(),
        source,
    })?;
    let ended = watch(&mut child);
    end_family().map_err(PostgreSqlBackupError::io("cannot end what a drill began"))?;
    let status = ended.map_err(PostgreSqlBackupError::io("cannot look after a program of a drill"))?;
    let code = status.code().unwrap_or(SIGNALLED + status.signal().unwrap_or(0));
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Waits until it has ended, and ends it as the drill says.
fn watch(child: &mut Child) -> io::Result<ExitStatus> {
    let input = io::stdin();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&LOOK_AGAIN)) {
            Ok(0) | Err(Errno::INTR) => continue,
            polled => polled?,
        };
        // It has not been waited for, so its number is still its own.
        match rustix::io::read(&input, &mut [0; 1])? {
            0 => return end_at_once(child),
            _ => kill_process(Pid::from_child(child), Signal::INT)?,
        }
    }
}

/// Asks it to end at once, again and again: a program that has only just begun may ignore the signal still, if whoever started the
/// drill did (a shell does, of what runs in the background). Kills it if it does not end.
fn end_at_once(child: &mut Child) -> io::Result<ExitStatus> {
    for _ in 0..ASKED_TO_END {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        // It has not been waited for, so its number is still its own.
        kill_process(Pid::from_child(child), Signal::QUIT)?;
        match poll(&mut [], Some(&LOOK_AGAIN)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(other) => return Err(other.into()),
        }
    }
    child.kill()?;
    child.wait()
}

/// Kills all children until there is none: those of a child that is killed become ours.
fn end_family() -> io::Result<()> {
    loop {
        for child in children()? {
            kill_process(child, Signal::KILL)?;
        }
        match wait(WaitOptions::empty()) {
            Err(Errno::CHILD) => return Ok(()),
            Err(Errno::INTR) => {}
            waited => drop(waited?),
        }
    }
}

fn children() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // One that is no child of ours may have ended meanwhile.
        let text = std::fs::read(format!("/proc/{}/stat", process.as_raw_pid())).unwrap_or_default();
        if parent_in(&String::from_utf8_lossy(&text)) == Some(getpid()) {
            children.push(process);
        }
    }
    Ok(children)
}

/// `123 (any name) S PARENT ...`
fn parent_in(status: &str) -> Option<Pid> {
    Pid::from_raw(status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (a) b (c) S 34 12 12 0").and_then(|pid| pid.as_raw_pid().into()), Some(34));
        assert_eq!(parent_in("12 (sh) R 0 1"), None);
        assert_eq!(parent_in(""), None);
    }
}
