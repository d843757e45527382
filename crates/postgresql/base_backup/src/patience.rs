//! Running a program to its end, and no longer than a limit: whatever it talks to may hang.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, Output};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use seawall_io::Clock;

/// How often it is looked whether the program has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long a program may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) limit: Duration,
}

impl Patience<'_> {
    /// What a program writes, or `None` if it has not ended within the limit: then `end` has ended it.
    pub(super) fn output(
        &self,
        command: &mut Command,
        end: impl FnOnce(&mut Child) -> io::Result<()>,
    ) -> io::Result<Option<Output>> {
        let begun = self.clock.monotonic();
        // Files in memory and no pipes: neither side has to keep up with the other.
        let (mut stdout, mut stderr) = (in_memory("")?, in_memory("")?);
        let mut child = command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).spawn()?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if self.clock.monotonic().saturating_sub(begun) >= self.limit {
                end(&mut child)?;
                child.wait()?;
                return Ok(None);
            }
            self.clock.sleep(LOOK_AGAIN);
        };
        Ok(Some(Output { status, stdout: content(&mut stdout)?, stderr: content(&mut stderr)? }))
    }
}

/// A file that nobody else sees, with this in it, from its begin.
pub(super) fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("seawall", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn content(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use seawall_io::SystemClock;

    use super::*;

    fn run(script: &str, limit: Duration) -> Option<Output> {
        let patience = Patience { clock: &SystemClock, limit };
        patience.output(Command::new("sh").args(["-c", script]), Child::kill).unwrap()
    }

    #[test]
    fn a_program_is_heard_to_its_end_or_ended_at_the_limit() {
        let output = run("echo said; echo failed >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"said\n"[..], &b"failed\n"[..]));
        assert_eq!(output.status.code(), Some(3));
        assert!(run("exec sleep 1000", Duration::from_millis(1)).is_none());
    }
}
